/* The user-space switch between hosts. Workers send terms, and one sum comes out. The server sends one result, and a
 * copy for each worker comes out. Some tests send many fragments as one datagram, or use ways where they cannot travel
 * as one. When the switch is killed, the kernel forwards. The test is skipped where namespaces, routing rules or TUN
 * devices cannot be made. */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "../prop/fragment_terms.h"
#include "check.h"
#include "data_plane.h"
#include "user_hosts.h"

enum { HOSTS = 3, SERVER = 2, WORKERS = 3, SLOTS = 60, LINES = 21, TIMEOUT = 20000, BYTES = 64 * (1 + LINES) };

static bool six; /* addresses are of IPv6 */
static const char *server_address = "10.9.9.2";
static const char *worker_addresses[WORKERS] = {"10.7.0.2", "10.7.0.3", "10.7.1.2"};
static const uint32_t worker_ports[WORKERS] = {0, 0, 1};
static const uint16_t worker_udp_ports[WORKERS] = {7612, 40000, 7613}, server_udp_port = 5555;
static const struct by_grant grant = {
    .below = 3, .above = 4, .count = SLOTS, .job = 7, .key = 1, .group = 9, .dtype = BY_FRAGMENT_PAIRS};

struct scene {
  int hosts[HOSTS];
  int workers[WORKERS], server; /* sockets */
  struct by_loop *loop;
  struct by_plane user;
  uint64_t sent; /* fragments sent to this switch */
  uint32_t queues;
};

/* All packets of one call, as they lie in a datagram. */
struct train {
  struct by_fragment head;
  uint64_t pairs[LINES * 8];
};

_Static_assert(sizeof(struct train) == BYTES, "without holes");

static struct by_udp_end end_of(const char *host, uint16_t udp_port) {
  struct by_address address;
  assert_ok(by_address_parse_host(host, udp_port, &address));
  return by_udp_end_of(&address);
}

static struct by_udp_end worker_end(int i) {
  return end_of(worker_addresses[i], worker_udp_ports[i]);
}

static enum banyan_status give_to(const struct scene *scene, const struct by_grant *wanted, uint16_t server_port) {
  struct by_plane_ends ends = {.server = {SERVER, end_of(server_address, server_port)}, .n_workers = WORKERS};
  for (int i = 0; i < WORKERS; i++) ends.workers[i] = (struct by_plane_end){worker_ports[i], worker_end(i)};
  return scene->user.ops->grant(scene->user.self, wanted, &ends);
}

static enum banyan_status give(const struct scene *scene, const struct by_grant *wanted) {
  return give_to(scene, wanted, server_udp_port);
}

static enum banyan_status start_switch(struct scene *scene) {
  struct by_plane_options options = {.cells = 2 * SLOTS, .queues = scene->queues};
  struct by_switch_target targets[WORKERS];
  for (int i = 0; i < WORKERS; i++) {
    struct by_udp_end end = worker_end(i);
    targets[i] = (struct by_switch_target){.port = worker_ports[i], .address = end.address, .udp_port = end.port};
  }
  scene->sent = 0;
  BY_TRY(by_loop_create(&by_clock_system, &scene->loop));
  BY_TRY(by_user_open(scene->loop, &options, &scene->user));
  BY_TRY(scene->user.ops->add_port(scene->user.self, 0, "p0"));
  BY_TRY(scene->user.ops->add_port(scene->user.self, 1, "p1"));
  BY_TRY(scene->user.ops->add_port(scene->user.self, SERVER, "p2"));
  BY_TRY(scene->user.ops->start(scene->user.self, 0));
  BY_TRY(scene->user.ops->set_group(scene->user.self, grant.group, targets, WORKERS));
  return give(scene, &grant);
}

static void stop_switch(struct scene *scene) {
  by_plane_close(&scene->user);
  by_loop_destroy(scene->loop);
  scene->user = (struct by_plane){0};
  scene->loop = NULL;
}

/* Makes hosts and sockets. Returns false if this machine does not support them. */
static bool set_scene(struct scene *scene) {
  if (!become_switch()) return false;
  for (uint32_t i = 0; i < HOSTS; i++)
    if ((scene->hosts[i] = make_host(i)) < 0) return false;
  for (int i = 0; i < WORKERS; i++)
    assert_true(
        (scene->workers[i] = open_at(scene->hosts[worker_ports[i]], worker_addresses[i], worker_udp_ports[i])) >= 0);
  assert_true((scene->server = open_at(scene->hosts[SERVER], server_address, server_udp_port)) >= 0);
  return true;
}

static void clear_scene(struct scene *scene) {
  for (int i = 0; i < WORKERS; i++) close(scene->workers[i]);
  for (int i = 0; i < HOSTS; i++) close(scene->hosts[i]);
  close(scene->server);
}

static void begin_with(struct scene *scene, uint32_t queues) {
  *scene = (struct scene){.queues = queues};
  if (!set_scene(scene)) {
    print_message("skipped: no namespaces, veth or routing rules here (run as root, with iproute2)\n");
    skip();
  }
  enum banyan_status status = start_switch(scene);
  if (status == BANYAN_ERR_UNSUPPORTED) {
    print_message("skipped: %s\n", banyan_error_text());
    skip();
  }
  assert_ok(status);
}

static void begin(struct scene *scene) {
  begin_with(scene, 0);
}

static void end(struct scene *scene) {
  stop_switch(scene);
  clear_scene(scene);
}

static void fill_for(uint16_t job, struct train *train, uint16_t rank, uint16_t slot, uint64_t workers) {
  struct packet packet;
  by_fragment_begin(&packet.head, BY_FRAGMENT_UP, rank);
  packet.head.job = job;
  packet.head.key = grant.key;
  packet.head.slot = slot;
  packet.head.epoch = 5;
  packet.head.dtype = BY_FRAGMENT_PAIRS;
  packet.head.lines = LINES;
  assert_true(by_fragment_push(&packet.head, SERVER, WORKERS));
  fill_terms(&packet, workers);
  by_fragment_seal(&packet.head);
  memcpy(train, &packet, sizeof *train);
}

static void fill(struct train *train, uint16_t rank, uint16_t slot, uint64_t workers) {
  fill_for(grant.job, train, rank, slot, workers);
}

/* Sends this worker's terms of `n` slots, in one datagram if there are several. */
static void send_terms(struct scene *scene, uint16_t rank, uint16_t n) {
  struct train trains[SLOTS];
  scene->sent += n;
  for (uint16_t slot = 0; slot < n; slot++) fill(&trains[slot], rank, slot, 1ull << rank);
  for (uint16_t slot = 0; slot < n; slot += 40) {
    size_t part = n - slot < 40 ? (size_t)(n - slot) : 40;
    assert_true(
        send_to(scene->workers[rank], server_address, server_udp_port, &trains[slot], part * BYTES, n > 1 ? BYTES : 0));
  }
}

/* Receives the next datagram at this socket. It must be a fragment from `address`, if that is given. Meanwhile the
 * switch works, if it runs in this process. */
static void receive(struct scene *scene, int fd, const char *address, struct packet *packet) {
  struct sockaddr_storage from;
  struct by_address at;
  socklen_t length = sizeof from;
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  for (int i = 0; i < TIMEOUT && poll(&ready, 1, scene->loop ? 0 : 1) == 0; i++)
    if (scene->loop) assert_ok(by_loop_run_once(scene->loop, BY_MILLISECOND));
  ssize_t n = recvfrom(fd, packet, sizeof *packet, MSG_DONTWAIT, (struct sockaddr *)&from, &length);
  assert_true(n >= 0);
  assert_int_equal(by_fragment_check(&packet->head, (uint32_t)n), BY_FRAGMENT_SOUND);
  by_address_set(&at, (struct sockaddr *)&from, length);
  struct by_udp_end end = by_udp_end_of(&at),
                    wanted = end_of(address ? address : "::1",
                                    fd == scene->server ? worker_udp_ports[packet->head.rank] : server_udp_port);
  assert_int_equal(end.port, wanted.port);
  if (address) assert_memory_equal(&end.address, &wanted.address, sizeof end.address);
}

static uint64_t fragments_seen(const struct scene *scene) {
  struct by_plane_counts counts;
  scene->user.ops->count(scene->user.self, &counts);
  for (int i = 0; i < BY_EVENTS; i++) counts.expired += counts.events[i];
  return counts.expired;
}

/* Waits until the switch has handled everything that was sent. */
static void work_off(struct scene *scene) {
  for (int i = 0; i < TIMEOUT && fragments_seen(scene) < scene->sent; i++)
    assert_ok(by_loop_run_once(scene->loop, BY_MILLISECOND));
  assert_int_equal(fragments_seen(scene), scene->sent);
}

/* Waits until the switch has handled everything, and checks that nothing waits at this socket. */
static void expect_silence(struct scene *scene, int fd) {
  char byte;
  work_off(scene);
  assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
}

static void expect_sum(struct scene *scene, uint16_t slot, const char *from, struct packet *sum) {
  receive(scene, scene->server, from, sum);
  assert_int_equal(sum->head.slot, slot);
  assert_int_equal(sum->head.workers, 7);
  assert_int_equal(sum->head.hop, 1);
  assert_true(sum->head.flags & BY_FRAGMENT_AGGREGATED);
  assert_true(holds_its_terms(sum));
}

static void expect_events(const struct scene *scene, enum by_event event, uint64_t n) {
  struct by_plane_counts counts;
  scene->user.ops->count(scene->user.self, &counts);
  assert_int_equal(counts.events[event], n);
}

/* The server sends the results of all sums that have come. Each worker receives each result once. */
static void spread_results(struct scene *scene, const struct packet *sums, uint16_t n) {
  struct train trains[40];
  struct packet copy;
  for (uint16_t i = 0; i < n; i++) {
    memcpy(&trains[i], &sums[i], BYTES);
    trains[i].head.type = BY_FRAGMENT_RESULT_MC;
    trains[i].head.flags = trains[i].head.hops = trains[i].head.hop = 0;
    by_fragment_seal(&trains[i].head);
  }
  scene->sent += n;
  assert_true(
      send_to(scene->server, worker_addresses[0], worker_udp_ports[0], trains, (size_t)n * BYTES, n > 1 ? BYTES : 0));
  for (uint16_t worker = 0; worker < WORKERS; worker++)
    for (uint16_t i = 0; i < n; i++) {
      receive(scene, scene->workers[worker], server_address, &copy);
      trains[i].head.hop = 1;
      by_fragment_seal(&trains[i].head);
      assert_memory_equal(&copy, &trains[i], BYTES);
    }
  for (uint16_t worker = 0; worker < WORKERS; worker++) expect_silence(scene, scene->workers[worker]);
}

static void test_sum_and_copies(void **state) {
  (void)state;
  struct scene scene;
  struct packet sum;
  begin(&scene);
  for (uint16_t rank = 0; rank < WORKERS; rank++) {
    expect_silence(&scene, scene.server);
    send_terms(&scene, rank, 1);
  }
  expect_sum(&scene, 0, worker_addresses[WORKERS - 1], &sum);
  expect_silence(&scene, scene.server);
  spread_results(&scene, &sum, 1);
  expect_events(&scene, BY_EVENT_STORED, 1);
  expect_events(&scene, BY_EVENT_ADDED, 1);
  expect_events(&scene, BY_EVENT_COMPLETED, 1);
  expect_events(&scene, BY_EVENT_RELEASED, 1);
  end(&scene);
}

/* Fragments that are sent as one datagram arrive as few packets, and leave the same way. */
static void test_many_as_one(void **state) {
  (void)state;
  struct scene scene;
  static struct packet sums[SLOTS];
  struct by_plane_counts counts;
  begin(&scene);
  for (uint16_t rank = 0; rank < WORKERS; rank++) {
    send_terms(&scene, rank, SLOTS);
    expect_silence(&scene, scene.workers[0]);
  }
  for (uint16_t slot = 0; slot < SLOTS; slot++) expect_sum(&scene, slot, worker_addresses[WORKERS - 1], &sums[slot]);
  expect_silence(&scene, scene.server);
  spread_results(&scene, sums, 40);
  expect_events(&scene, BY_EVENT_COMPLETED, SLOTS);
  expect_events(&scene, BY_EVENT_RELEASED, 40);
  scene.user.ops->count(scene.user.self, &counts);
  assert_int_equal(counts.sent, SLOTS + 40 * WORKERS);
  assert_int_equal(counts.unsent + counts.expired, 0);
  assert_int_equal(counts.datagrams, 2 * WORKERS + 1);
  end(&scene);
}

/* The way to the server has no room for a whole fragment, so fragments are sent one by one in parts. */
static void test_narrow_way(void **state) {
  (void)state;
  struct scene scene;
  struct packet sum;
  begin(&scene);
  assert_true(shell("ip link set p2 mtu 1280"));
  for (int round = 0; round < 2; round++) {
    for (uint16_t rank = 0; rank < WORKERS; rank++) {
      send_terms(&scene, rank, SLOTS);
      work_off(&scene);
    }
    for (uint16_t slot = 0; slot < SLOTS; slot++) expect_sum(&scene, slot, worker_addresses[2], &sum);
    expect_silence(&scene, scene.server);
    stop_switch(&scene);
    assert_ok(start_switch(&scene));
  }
  end(&scene);
}

/* The job loses its grant, but another job has one between the same ends. */
static void leave_to_another(const struct scene *scene) {
  struct by_grant another = grant;
  another.job++;
  assert_ok(give(scene, &another));
  assert_ok(scene->user.ops->revoke(scene->user.self, grant.job));
}

/* Sends two terms in one datagram, of which the second is short. */
static void send_uneven(struct scene *scene, uint16_t rank) {
  struct train trains[2];
  fill(&trains[0], rank, 0, 1ull << rank);
  fill(&trains[1], rank, 1, 1ull << rank);
  trains[1].head.lines = 3;
  by_fragment_seal(&trains[1].head);
  assert_true(send_to(scene->workers[rank], server_address, server_udp_port, trains,
                      BYTES + by_fragment_bytes(&trains[1].head), BYTES));
  scene->sent += 2;
}

/* Datagrams that wait together leave as they came. No data of one gets into another. */
static void test_uneven(void **state) {
  (void)state;
  struct scene scene;
  struct packet packet;
  begin(&scene);
  leave_to_another(&scene);
  for (uint16_t rank = 0; rank < 2; rank++) send_terms(&scene, rank, 1);
  for (int i = 0; i < 2; i++) receive(&scene, scene.server, worker_addresses[i], &packet);
  for (int i = 0; i < 4; i++) send_uneven(&scene, (uint16_t)(i / 3));
  for (int i = 0; i < 8; i++) {
    receive(&scene, scene.server, worker_addresses[i / 6], &packet);
    assert_int_equal(packet.head.slot, i % 2);
    assert_true(holds_its_terms(&packet));
  }
  expect_silence(&scene, scene.server);
  end(&scene);
}

/* Fragments of a job without a grant are forwarded unchanged to their address. Datagrams that are no fragments are
 * dropped. */
static void test_passes(void **state) {
  (void)state;
  struct scene scene;
  struct packet packet;
  struct train train;
  begin(&scene);
  leave_to_another(&scene);
  send_terms(&scene, 0, 1);
  receive(&scene, scene.server, worker_addresses[0], &packet);
  assert_true(packet.head.flags == 0 && packet.head.hop == 0);
  expect_events(&scene, BY_EVENT_NO_GRANT, 1);
  fill(&train, 0, 0, 1);
  assert_true(send_to(scene.workers[0], server_address, server_udp_port, &train, sizeof train - 1, 0));
  assert_true(send_to(scene.workers[0], server_address, server_udp_port, &train, 999, 333));
  assert_true(send_to(scene.workers[0], server_address, server_udp_port, &train, 0, 0));
  scene.sent += 5;
  expect_silence(&scene, scene.server);
  expect_events(&scene, BY_EVENT_MALFORMED, 5);
  end(&scene);
}

/* Fields of the IP header: a congestion mark is copied to the sum, and a packet without remaining hops is dropped. */
static void test_marks(void **state) {
  (void)state;
  struct scene scene;
  struct packet sum;
  struct by_plane_counts counts;
  int ttl = 1, congestion = 3, level = six ? SOL_IPV6 : SOL_IP, of_ttl = six ? IPV6_UNICAST_HOPS : IP_TTL;
  begin(&scene);
  assert_int_equal(setsockopt(scene.workers[0], level, of_ttl, &ttl, sizeof ttl), 0);
  send_terms(&scene, 0, 1);
  expect_silence(&scene, scene.server);
  scene.user.ops->count(scene.user.self, &counts);
  assert_int_equal(counts.expired, 1);
  ttl = 2;
  assert_int_equal(setsockopt(scene.workers[0], level, of_ttl, &ttl, sizeof ttl), 0);
  assert_int_equal(setsockopt(scene.workers[0], level, six ? IPV6_TCLASS : IP_TOS, &congestion, sizeof congestion), 0);
  for (uint16_t rank = 0; rank < WORKERS; rank++) {
    expect_silence(&scene, scene.server);
    send_terms(&scene, rank, 1);
  }
  expect_sum(&scene, 0, worker_addresses[WORKERS - 1], &sum);
  assert_int_equal(sum.head.flags, BY_FRAGMENT_AGGREGATED | BY_FRAGMENT_CE);
  end(&scene);
}

/* How many routing rules of switches there are. */
static void expect_rules(int n) {
  char command[100];
  snprintf(command, sizeof command, "test $(ip %s rule show | grep -c '^7612:') = %d", six ? "-6" : "-4", n);
  assert_true(shell(command));
}

/* What is for another port or another address than a grant's is the kernel's. Rules are there as long as the grant. */
static void test_left_alone(void **state) {
  (void)state;
  struct scene scene;
  struct train train;
  char bytes[BYTES];
  const char *third = six ? "fd00::10:7:1:3" : "10.7.1.3";
  begin(&scene);
  fill(&train, 0, 0, 1);
  struct pollfd ends[] = {
      {.fd = open_at(scene.hosts[SERVER], server_address, server_udp_port + 1), .events = POLLIN},
      {.fd = open_at(scene.hosts[1], third, server_udp_port), .events = POLLIN},
  };
  assert_true(send_to(scene.workers[0], server_address, server_udp_port + 1, &train, BYTES, 0));
  assert_true(send_to(scene.workers[0], third, server_udp_port, &train, BYTES, 0));
  for (int i = 0; i < 2; i++) {
    assert_int_equal(poll(&ends[i], 1, TIMEOUT), 1);
    assert_int_equal(recv(ends[i].fd, bytes, sizeof bytes, 0), BYTES);
    assert_memory_equal(bytes, &train, BYTES);
    close(ends[i].fd);
  }
  assert_int_equal(fragments_seen(&scene), 0);
  expect_rules(2 * WORKERS);
  assert_ok(give(&scene, &grant));
  expect_rules(2 * WORKERS);
  assert_ok(scene.user.ops->revoke(scene.user.self, grant.job));
  expect_rules(0);
  end(&scene);
}

/* One thread of the switch has the trees of one server, another those of another port of its host, from the same
 * workers. Each makes its sums; when one grant ends, the other stays. */
static void test_two_queues(void **state) {
  (void)state;
  struct scene scene;
  struct train train;
  struct packet sum;
  struct by_grant second = grant;
  begin_with(&scene, 2);
  second.job++;
  second.group++;
  second.base = SLOTS;
  assert_ok(give_to(&scene, &second, server_udp_port + 1));
  int servers[] = {scene.server, open_at(scene.hosts[SERVER], server_address, server_udp_port + 1)};
  for (uint16_t slot = 0; slot < 2 * SLOTS; slot++) {
    int which = slot % 2;
    for (uint16_t rank = 0; rank < WORKERS; rank++) {
      fill_for((uint16_t)(grant.job + which), &train, rank, slot / 2, 1ull << rank);
      assert_true(send_to(scene.workers[rank], server_address, (uint16_t)(server_udp_port + which), &train, BYTES, 0));
      scene.sent++;
    }
    struct pollfd ready = {.fd = servers[which], .events = POLLIN};
    assert_int_equal(poll(&ready, 1, TIMEOUT), 1);
    assert_int_equal(recv(servers[which], &sum, sizeof sum, 0), BYTES);
    assert_int_equal(sum.head.job, grant.job + which);
    assert_int_equal(sum.head.workers, 7);
    assert_true(holds_its_terms(&sum));
  }
  work_off(&scene);
  expect_events(&scene, BY_EVENT_COMPLETED, 2 * SLOTS);
  assert_ok(scene.user.ops->revoke(scene.user.self, grant.job));
  expect_rules(2 * WORKERS);
  close(servers[1]);
  end(&scene);
}

/* A result for one worker goes along the stack. */
static void test_one_result(void **state) {
  (void)state;
  struct scene scene;
  struct packet copy;
  struct train result;
  begin(&scene);
  fill(&result, 1, 0, 7);
  result.head.type = BY_FRAGMENT_RESULT;
  result.head.stack[0] = (struct by_hop){.port = 0, .workers = 1};
  by_fragment_seal(&result.head);
  scene.sent++;
  assert_true(send_to(scene.server, worker_addresses[1], worker_udp_ports[1], &result, sizeof result, 0));
  receive(&scene, scene.workers[1], server_address, &copy);
  assert_int_equal(copy.head.hop, 1);
  assert_true(holds_its_terms(&copy));
  for (int i = 0; i < WORKERS; i++) expect_silence(&scene, scene.workers[i]);
  expect_events(&scene, BY_EVENT_RESULT, 1);
  end(&scene);
}

static void test_refusals(void **state) {
  (void)state;
  struct scene scene;
  struct by_plane other;
  struct by_grant wrong = grant;
  struct by_switch_target target = {.port = 5, .udp_port = 1};
  begin(&scene);
  assert_status(scene.user.ops->add_port(scene.user.self, 0, "p0"), BANYAN_ERR_ARGUMENT);
  assert_status(scene.user.ops->add_port(scene.user.self, BY_FRAGMENT_PORTS, "p0"), BANYAN_ERR_ARGUMENT);
  assert_status(scene.user.ops->add_port(scene.user.self, 5, "nowhere"), BANYAN_ERR_ARGUMENT);
  assert_status(scene.user.ops->set_group(scene.user.self, 0, &target, 1), BANYAN_ERR_ARGUMENT);
  target = (struct by_switch_target){.port = 1};
  assert_status(scene.user.ops->set_group(scene.user.self, 0, &target, 1), BANYAN_ERR_ARGUMENT);
  assert_status(scene.user.ops->set_group(scene.user.self, BY_PLANE_GROUPS, NULL, 0), BANYAN_ERR_ARGUMENT);
  wrong.base = SLOTS + 1;
  assert_status(give(&scene, &wrong), BANYAN_ERR_ARGUMENT);
  wrong = grant;
  wrong.dtype = BY_FRAGMENT_INT32;
  assert_status(give(&scene, &wrong), BANYAN_ERR_UNSUPPORTED);
  assert_status(scene.user.ops->revoke(scene.user.self, 8), BANYAN_ERR_ARGUMENT);
  assert_status(scene.user.ops->start(scene.user.self, 0), BANYAN_ERR_ARGUMENT);
  assert_ok(by_user_open(scene.loop, &(struct by_plane_options){.cells = 0}, &other));
  assert_status(other.ops->start(other.self, 0), BANYAN_ERR_ARGUMENT);
  by_plane_close(&other);
  end(&scene);
}

/* Runs the switch until it is killed. */
static void be_switch(struct scene *scene, int ready) {
  bool well = start_switch(scene) == BANYAN_OK && write(ready, "!", 1) == 1 && by_loop_run(scene->loop) == BANYAN_OK;
  _exit(well ? 0 : 1);
}

static pid_t fork_switch(struct scene *scene) {
  int ends[2];
  char byte;
  assert_int_equal(pipe(ends), 0);
  pid_t parent = getpid(), child = fork();
  if (child == 0) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent) be_switch(scene, ends[1]);
    _exit(1);
  }
  assert_true(child > 0);
  close(ends[1]);
  assert_int_equal(read(ends[0], &byte, 1), 1);
  close(ends[0]);
  return child;
}

static void kill_switch(pid_t child) {
  assert_int_equal(kill(child, SIGKILL), 0);
  assert_int_equal(waitpid(child, NULL, 0), child);
}

/* Checks that each worker's term arrives as it was sent. */
static void expect_forwarded(struct scene *scene) {
  struct packet packet;
  struct train train;
  for (uint16_t rank = 0; rank < WORKERS; rank++) {
    send_terms(scene, rank, 1);
    receive(scene, scene->server, worker_addresses[rank], &packet);
    fill(&train, rank, 0, 1ull << rank);
    assert_memory_equal(&packet, &train, sizeof train);
  }
}

static void test_killed(void **state) {
  (void)state;
  struct scene scene;
  struct packet sum;
  begin(&scene);
  stop_switch(&scene);
  expect_forwarded(&scene);
  for (int round = 0; round < 2; round++) {
    pid_t child = fork_switch(&scene);
    for (uint16_t rank = 0; rank < WORKERS; rank++) send_terms(&scene, rank, 1);
    receive(&scene, scene.server, NULL, &sum);
    assert_int_equal(sum.head.workers, 7);
    assert_true(holds_its_terms(&sum));
    kill_switch(child);
    expect_rules(2 * WORKERS);
    expect_forwarded(&scene);
  }
  assert_ok(start_switch(&scene));
  stop_switch(&scene);
  expect_rules(0);
  clear_scene(&scene);
}

/* Keeps this thread on one core, as packets that are sent on different cores overtake each other. */
static int stay_here(void **state) {
  (void)state;
  cpu_set_t here;
  int core = sched_getcpu();
  CPU_ZERO(&here);
  CPU_SET(core < 0 ? 0 : (unsigned)core, &here);
  return sched_setaffinity(0, sizeof here, &here);
}

static int use_ipv6(void **state) {
  (void)state;
  six = true;
  server_address = "fd00::10:9:9:2";
  worker_addresses[0] = "fd00::10:7:0:2";
  worker_addresses[1] = "fd00::10:7:0:3";
  worker_addresses[2] = "fd00::10:7:1:2";
  return 0;
}

/* A grant has more workers than a result has copies, of which three send something. */
static void test_many_workers(void **state) {
  enum { MANY = 100 };
  (void)state;
  struct scene scene;
  struct packet sum;
  struct by_plane_ends ends = {.server = {SERVER, end_of(server_address, server_udp_port)}, .n_workers = MANY};
  for (int i = 0; i < MANY; i++) ends.workers[i] = (struct by_plane_end){1, end_of("10.7.1.2", (uint16_t)(20000 + i))};
  for (int i = 0; i < WORKERS; i++) ends.workers[MANY - 1 - i] = (struct by_plane_end){worker_ports[i], worker_end(i)};
  begin(&scene);
  assert_ok(scene.user.ops->grant(scene.user.self, &grant, &ends));
  for (uint16_t rank = 0; rank < WORKERS; rank++) {
    send_terms(&scene, rank, 1);
    work_off(&scene);
  }
  expect_sum(&scene, 0, worker_addresses[WORKERS - 1], &sum);
  spread_results(&scene, &sum, 1);
  assert_ok(scene.user.ops->revoke(scene.user.self, grant.job));
  end(&scene);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sum_and_copies), cmocka_unit_test(test_many_as_one),  cmocka_unit_test(test_narrow_way),
      cmocka_unit_test(test_passes),         cmocka_unit_test(test_uneven),       cmocka_unit_test(test_marks),
      cmocka_unit_test(test_left_alone),     cmocka_unit_test(test_two_queues),   cmocka_unit_test(test_one_result),
      cmocka_unit_test(test_refusals),       cmocka_unit_test(test_many_workers), cmocka_unit_test(test_killed)};
  const struct CMUnitTest of_ipv6[] = {cmocka_unit_test(test_sum_and_copies), cmocka_unit_test(test_many_as_one),
                                       cmocka_unit_test(test_narrow_way),     cmocka_unit_test(test_marks),
                                       cmocka_unit_test(test_left_alone),     cmocka_unit_test(test_one_result),
                                       cmocka_unit_test(test_killed)};
  int failed = cmocka_run_group_tests(tests, stay_here, NULL);
  return failed + cmocka_run_group_tests(of_ipv6, use_ipv6, NULL);
}
