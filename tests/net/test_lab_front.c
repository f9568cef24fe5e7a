/* A lab with an XDP switch. What its programs forward keeps to the links' rates and is counted, though it passes no
 * queue of the switch. When the switch has ended, the kernel forwards at the same rates. The test is skipped where no
 * lab can be made or XDP programs cannot be loaded. */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "clock.h"
#include "data_plane.h"
#include "lab.h"
#include "topology_make.h"

#include "../prop/fragment_terms.h"
#include "user_hosts.h"

enum {
  WORKERS = 2,
  SERVER = WORKERS,
  SWITCH,
  SLOTS = 80, /* all terms fit into the queue of the server's link */
  LINES = 22,
  BYTES = 64 * (1 + LINES),
  FRAME = 14 + 20 + 8 + BYTES,
  RATE = 50000000,
  TIMEOUT = 20
};

static const char *addresses[] = {"10.77.0.1", "10.77.0.2", "10.77.0.3"};
static const struct by_grant grant = {
    .below = 3, .above = 4, .count = SLOTS, .job = 7, .key = 1, .dtype = BY_FRAGMENT_PAIRS};

struct scene {
  struct by_topology *topology;
  struct by_lab_options options;
  struct by_lab_layout layout;
  struct by_lab *lab;
  struct by_lab_traffic traffic[2 * (WORKERS + 1)];
  int go[WORKERS][2]; /* a byte lets a worker send once */
  pid_t workers[WORKERS], xdp;
  int server;
};

static void make_topology(struct scene *scene) {
  struct by_topology_builder builder;
  uint32_t node;
  assert_ok(by_topology_builder_init(&builder, "front"));
  for (int i = 0; i < WORKERS; i++)
    assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, (const char *[]){"a", "b"}[i], &node));
  assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, "server", &node));
  assert_ok(by_topology_builder_add(&builder, BY_NODE_SWITCH, "s", &node));
  by_topology_builder_node(&builder, node)->aggregates = true;
  for (uint32_t i = 0; i < WORKERS; i++) assert_ok(by_topology_builder_add_link(&builder, i, node, 4. * RATE, 0, NULL));
  assert_ok(by_topology_builder_add_link(&builder, SERVER, node, RATE, 0, NULL));
  assert_ok(by_topology_builder_end(&builder, BANYAN_OK, NULL, &scene->topology));
}

/* ---- processes in the lab */

/* Forks a process that enters `space` and dies with its parent. Returns 0 in the child. */
static pid_t fork_into(const struct scene *scene, uint32_t space) {
  pid_t parent = getpid(), child = fork();
  assert_true(child >= 0);
  if (child) return child;
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent || by_lab_enter(scene->lab, space)) _exit(1);
  return 0;
}

/* Sets the next hop to the address of the interface at the other end. */
static bool set_next_hop(const struct by_plane *xdp, uint32_t port, const char *interface) {
  char path[64];
  unsigned bytes[6];
  uint8_t hardware[6];
  snprintf(path, sizeof path, "/sys/class/net/%s/address", interface);
  FILE *file = fopen(path, "r");
  int n =
      file ? fscanf(file, "%x:%x:%x:%x:%x:%x", &bytes[0], &bytes[1], &bytes[2], &bytes[3], &bytes[4], &bytes[5]) : 0;
  if (file) (void)fclose(file);
  for (int i = 0; i < n; i++) hardware[i] = (uint8_t)bytes[i];
  return n == 6 && xdp->ops->set_neighbour(xdp->self, port, 0, hardware) == BANYAN_OK;
}

static enum banyan_status start_xdp(struct by_plane *xdp) {
  char name[8];
  BY_TRY(by_xdp_open(&(struct by_plane_options){.cells = SLOTS}, by_xdp_object, by_xdp_object_bytes, xdp));
  for (uint32_t port = 0; port <= WORKERS; port++) {
    snprintf(name, sizeof name, "eth%u", port);
    BY_TRY(xdp->ops->add_port(xdp->self, port, name));
    BY_TRY(by_xdp_attach(xdp->self, port));
    if (!set_next_hop(xdp, port, name)) return BANYAN_ERR_SYSTEM;
  }
  const struct by_plane_ends ends = {.server.end.port = htons(BY_FRAGMENT_PORT)};
  return xdp->ops->grant(xdp->self, &grant, &ends);
}

/* Returns false if XDP programs cannot be loaded here. */
static bool start_switch(struct scene *scene) {
  int ready[2];
  uint8_t status = BANYAN_ERR_SYSTEM;
  struct by_plane xdp;
  assert_int_equal(pipe(ready), 0);
  if ((scene->xdp = fork_into(scene, SWITCH)) == 0) {
    status = (uint8_t)start_xdp(&xdp);
    if (write(ready[1], &status, 1) != 1) _exit(1);
    for (;;) pause();
  }
  close(ready[1]);
  assert_int_equal(read(ready[0], &status, 1), 1);
  close(ready[0]);
  if (status == BANYAN_ERR_UNSUPPORTED) return false;
  assert_int_equal(status, BANYAN_OK);
  return true;
}

static void end_process(pid_t pid) {
  assert_int_equal(kill(pid, SIGKILL), 0);
  assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static bool send_terms(int fd, uint16_t rank) {
  struct packet packet;
  for (uint16_t slot = 0; slot < SLOTS; slot++) {
    by_fragment_begin(&packet.head, BY_FRAGMENT_UP, rank);
    packet.head.job = grant.job;
    packet.head.key = grant.key;
    packet.head.slot = slot;
    packet.head.epoch = 5;
    packet.head.dtype = BY_FRAGMENT_PAIRS;
    packet.head.lines = LINES;
    if (!by_fragment_push(&packet.head, SERVER, WORKERS)) return false;
    fill_terms(&packet, 1ull << rank);
    by_fragment_seal(&packet.head);
    if (!send_to(fd, addresses[SERVER], BY_FRAGMENT_PORT, &packet, BYTES, 0)) return false;
  }
  return true;
}

static int open_here(const char *address) {
  struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons(BY_FRAGMENT_PORT)};
  struct timeval timeout = {.tv_sec = TIMEOUT};
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), room = 8 << 20;
  inet_pton(AF_INET, address, &local.sin_addr);
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) ||
      setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) ||
      bind(fd, (struct sockaddr *)&local, sizeof local))
    return -1;
  return fd;
}

static void start_worker(struct scene *scene, uint16_t rank) {
  char byte;
  assert_int_equal(pipe(scene->go[rank]), 0);
  if ((scene->workers[rank] = fork_into(scene, rank)) != 0) return;
  int fd = open_here(addresses[rank]);
  while (fd >= 0 && read(scene->go[rank][0], &byte, 1) == 1)
    if (!send_terms(fd, rank)) _exit(1);
  _exit(1);
}

/* ---- the test */

static void begin(struct scene *scene) {
  *scene = (struct scene){.options = by_lab_options_default()};
  make_topology(scene);
  scene->options.xdp = true;
  assert_ok(by_lab_layout_make(scene->topology, &scene->options, &scene->layout));
  if (geteuid() || by_lab_create(&scene->layout, &scene->options, &scene->lab)) {
    print_message("skipped: no lab: %s\n", geteuid() ? "needs root's rights" : banyan_error_text());
    skip();
  }
  for (uint16_t rank = 0; rank < WORKERS; rank++) start_worker(scene, rank);
  if (!start_switch(scene)) {
    print_message("skipped: XDP programs cannot be loaded here\n");
    skip();
  }
  assert_ok(by_lab_enter(scene->lab, SERVER));
  scene->server = open_here(addresses[SERVER]);
  assert_true(scene->server >= 0);
}

/* All workers send. Checks that `n` fragments of this many terms arrive here, no sooner than the link allows. */
static void expect_arrivals(struct scene *scene, uint32_t n, uint32_t terms) {
  struct packet packet;
  uint64_t start = by_clock_now(&by_clock_system);
  for (int i = 0; i < WORKERS; i++) assert_int_equal(write(scene->go[i][1], "!", 1), 1);
  for (uint32_t i = 0; i < n; i++) {
    assert_int_equal(recv(scene->server, &packet, sizeof packet, 0), BYTES);
    assert_int_equal(by_worker_count(packet.head.workers), terms);
    assert_true(holds_its_terms(&packet));
  }
  double seconds = (double)(by_clock_now(&by_clock_system) - start) / 1e9;
  double bits = 8. * n * FRAME;
  assert_true(bits / RATE < seconds + 2 * scene->options.burst);
}

/* Checks that this many packets have left the switch towards the server since the last check and that none was lost. */
static void expect_counted(struct scene *scene, uint32_t n) {
  const struct by_lab_traffic *link = &scene->traffic[2 * SERVER + 1];
  struct by_lab_traffic before = *link;
  assert_ok(by_lab_read(scene->lab, scene->traffic));
  assert_int_equal(link->packets - before.packets, n);
  assert_int_equal(link->bytes - before.bytes, n * FRAME);
  assert_int_equal(link->drops, 0);
}

static void test_rates(void **state) {
  (void)state;
  struct scene scene;
  begin(&scene);
  expect_arrivals(&scene, SLOTS, WORKERS);
  expect_counted(&scene, SLOTS);
  end_process(scene.xdp);
  expect_arrivals(&scene, WORKERS * SLOTS, 1);
  expect_counted(&scene, WORKERS * SLOTS);
  for (int i = 0; i < WORKERS; i++) end_process(scene.workers[i]);
  by_lab_destroy(scene.lab);
  by_lab_layout_fini(&scene.layout);
  by_topology_destroy(scene.topology);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rates)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
