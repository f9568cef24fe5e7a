/* `banyan switch`, of the kind that the argument names, between hosts with the real ends of trees: three workers and a
 * server. Sums go through the switch, which is killed and started again meanwhile. Jobs share its cells, get none, and
 * send invalid packets. The test is skipped where namespaces or switches of this kind cannot be made. */
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"
#include "job_keys.h"
#include "reservation.h"
#include "server.h"
#include "sum_key.h"
#include "udp.h"
#include "user_hosts.h"

enum { WORKERS = 3, SERVER = 3, HOSTS = 4, LINES = 22, COUNT = 200000, LONG = 40 * COUNT, TIMEOUT = 60 };

static const char *kind;
static char path[64]; /* path of the switch's socket */
static const unsigned char secret[BY_WORKER_SECRET] = "a secret of the job";

/* What the client reports about one job. */
struct answer {
  bool has; /* the job has a grant now */
  unsigned granted, lost;
  enum by_reservation_lost why;
  struct by_granted what;
  char text[400];
};

struct scene {
  int hosts[HOSTS];
  struct by_udp *sockets[HOSTS];
  struct by_address addresses[HOSTS];
  pid_t process;
  struct by_loop *loop;
  struct by_switch_client *client;
  struct answer answer[4]; /* by job */
};

/* The ends of a job's tree. */
struct tree {
  struct scene *scene;
  uint16_t job;
  struct by_server *server;
  struct by_udp_peer *peers[WORKERS];
  struct by_fabric *fabrics[WORKERS];
  float *values[WORKERS];
  uint32_t numbers[WORKERS];
  size_t n;
};

/* ---- hosts */

/* Without a program there, a veth drops what XDP sends to it. The program stays attached until this process ends. */
static bool let_pass(int host, uint32_t i) {
  const struct bpf_insn code[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS},
                                  {.code = BPF_JMP | BPF_EXIT}};
  union bpf_attr load = {
      .prog_type = BPF_PROG_TYPE_XDP, .insns = (uintptr_t)code, .insn_cnt = 2, .license = (uintptr_t) "Apache-2.0"};
  char interface[8];
  int here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  int program = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof load), link = -1;
  snprintf(interface, sizeof interface, "q%u", i);
  if (here < 0 || setns(host, CLONE_NEWNET)) return false;
  union bpf_attr attach = {.link_create = {.prog_fd = (uint32_t)program,
                                           .target_ifindex = if_nametoindex(interface),
                                           .attach_type = BPF_XDP,
                                           .flags = XDP_FLAGS_DRV_MODE}};
  if (program >= 0) link = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &attach, sizeof attach);
  if (setns(here, CLONE_NEWNET)) abort();
  close(here);
  return link >= 0;
}

static bool open_socket(struct scene *scene, uint32_t i) {
  char address[32];
  int here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  snprintf(address, sizeof address, "10.7.%u.2", i);
  assert_ok(by_address_parse_host(address, BY_FRAGMENT_PORT, &scene->addresses[i]));
  if (here < 0 || setns(scene->hosts[i], CLONE_NEWNET)) return false;
  enum banyan_status status =
      by_udp_create((struct by_port_range){BY_FRAGMENT_PORT, BY_FRAGMENT_PORT}, &scene->sockets[i]);
  if (setns(here, CLONE_NEWNET)) abort();
  close(here);
  return status == BANYAN_OK;
}

/* Makes the hosts. The XDP switch has to find the server by itself. */
static bool set_scene(struct scene *scene) {
  if (!become_switch()) return false;
  for (uint32_t i = 0; i < HOSTS; i++) {
    if ((scene->hosts[i] = make_host(i)) < 0 || !open_socket(scene, i)) return false;
    if (!strcmp(kind, "--xdp") && !let_pass(scene->hosts[i], i)) return false;
  }
  return shell("ip neigh del 10.7.3.2 dev p3");
}

/* ---- the switch */

static void run_switch(int err, const char *cells, const char *control, const char *address) {
  const char *ports = "p0,p1,p2,p3";
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (dup2(err, STDERR_FILENO) >= 0)
    execl(getenv("BANYAN"), "banyan", "switch", kind, ports, "--cells", cells, "--control", control, "--control",
          address, (char *)NULL);
  _exit(127);
}

/* Starts the switch and reads its first line, which states that it is ready or why it is not. */
static pid_t start_switch(const char *cells, const char *control, const char *address, char *line, size_t room) {
  int pipe_fd[2];
  assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
  pid_t process = fork();
  if (process == 0) run_switch(pipe_fd[1], cells, control, address);
  close(pipe_fd[1]);
  FILE *err = fdopen(pipe_fd[0], "r");
  assert_non_null(err);
  if (!fgets(line, (int)room, err)) line[0] = 0;
  (void)fclose(err); /* the switch prints nothing more */
  return process;
}

static void stop_switch(pid_t process, int signal_number) {
  int status;
  assert_int_equal(kill(process, signal_number), 0);
  assert_int_equal(waitpid(process, &status, 0), process);
  if (signal_number == SIGTERM) assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void switch_on(struct scene *scene, const char *cells) {
  char line[600];
  scene->process = start_switch(cells, path, "127.0.0.1", line, sizeof line);
  if (!strstr(line, ": ready: ")) fail_msg("no switch: %s", line);
}

/* Returns a counter of the switch's status. */
static long long counted(const char *what) {
  static char text[1 << 16], name[64];
  char command[400];
  snprintf(command, sizeof command, "\"$BANYAN\" status --json %s", path);
  FILE *status = popen(command, "r"); /* NOLINT: the test's own command */
  assert_non_null(status);
  size_t n = fread(text, 1, sizeof text - 1, status);
  assert_int_equal(pclose(status), 0);
  text[n] = 0;
  snprintf(name, sizeof name, "\"%s\":", what);
  const char *at = strstr(text, name);
  assert_non_null(at);
  return strtoll(at + strlen(name), NULL, 10);
}

/* ---- reservation requests */

static void granted(void *context, uint16_t job, const struct by_granted *what) {
  struct answer *answer = &((struct scene *)context)->answer[job];
  answer->granted++;
  answer->has = true;
  answer->what = *what;
}

static void lost(void *context, uint16_t job, enum by_reservation_lost why, const char *text) {
  struct answer *answer = &((struct scene *)context)->answer[job];
  answer->lost++;
  answer->has = false;
  answer->why = why;
  snprintf(answer->text, sizeof answer->text, "%s", text);
}

static struct by_reservation reservation_of(const struct scene *scene, uint16_t job, uint32_t slots) {
  struct by_reservation reservation = {.job = job,
                                       .key = (uint16_t)(job + 100),
                                       .keyed = true,
                                       .slots = slots,
                                       .up = "p3",
                                       .server = by_udp_end_of(&scene->addresses[SERVER]),
                                       .n_below = WORKERS,
                                       .n_workers = WORKERS};
  assert_ok(by_hop_secret_derive(secret, sizeof secret, job, reservation.key, reservation.secret));
  for (unsigned i = 0; i < WORKERS; i++) {
    reservation.below[i] = (struct by_reservation_below){.first = i, .n = 1};
    snprintf(reservation.below[i].interface, sizeof reservation.below[i].interface, "p%u", i);
    reservation.workers[i] = by_udp_end_of(&scene->addresses[i]);
  }
  return reservation;
}

static void make_client(struct scene *scene, const char *text, struct by_switch_client **out) {
  struct by_key key;
  struct by_switch_client_options options = {
      .loop = scene->loop, .name = "s", .key = &key, .granted = granted, .lost = lost, .context = scene};
  assert_ok(by_key_derive(text, &key));
  assert_ok(by_address_parse_host("127.0.0.1", BY_SWITCH_CONTROL_PORT, &options.address));
  assert_ok(by_switch_client_create(&options, out));
}

static void run_until(struct scene *scene, const unsigned *counter, unsigned wanted) {
  uint64_t end = by_loop_now(scene->loop) + TIMEOUT * BY_SECOND;
  while (*counter < wanted && by_loop_now(scene->loop) < end)
    assert_ok(by_loop_run_once(scene->loop, 10 * BY_MILLISECOND));
  assert_true(*counter >= wanted);
}

/* Requests cells for the job, and checks how many it is granted. */
static void request_cells(struct scene *scene, uint16_t job, uint32_t slots, uint32_t got) {
  struct by_reservation reservation = reservation_of(scene, job, slots);
  assert_ok(by_switch_client_want(scene->client, &reservation));
  run_until(scene, &scene->answer[job].granted, 1);
  assert_int_equal(scene->answer[job].what.slots, got);
  assert_true(scene->answer[job].has);
}

/* ---- sums */

static void to_server(void *context, const struct by_fragment *packet, size_t bytes, uint64_t now) {
  struct tree *tree = context;
  by_server_take(tree->server, packet, bytes);
}

static void from_server(void *context, const struct by_fragment *packet, int to) {
  struct tree *tree = context;
  by_udp_send(tree->peers[to == BY_SERVER_ALL ? 0 : to], packet);
}

static void make_server(struct tree *tree, const struct by_granted *cells, unsigned slots) {
  struct scene *scene = tree->scene;
  struct by_server_path ways[WORKERS] = {{0}};
  struct by_server_config config = {.job = tree->job,
                                    .key = (uint16_t)(tree->job + 100),
                                    .groups = by_one_group(WORKERS),
                                    .slots = slots,
                                    .lines = LINES,
                                    .multicast = true,
                                    .secret = secret,
                                    .secret_bytes = sizeof secret,
                                    .keyed = true,
                                    .paths = ways,
                                    .emit = from_server,
                                    .context = tree};
  for (unsigned w = 0; w < WORKERS; w++) {
    ways[w].hops = 1;
    ways[w].stack[0] = (struct by_hop){.port = cells->below[w], .workers = cells->slots ? WORKERS : 0};
    assert_ok(by_udp_peer_create(scene->sockets[SERVER], &scene->addresses[w], &tree->peers[w]));
  }
  assert_ok(by_server_create(&config, &tree->server));
  assert_ok(by_udp_listen(scene->sockets[SERVER], tree->job, to_server, tree));
}

static float value(const struct tree *tree, unsigned worker, size_t i) {
  return (float)(i % 1021 + 10 * worker + tree->job);
}

static void make_tree(struct scene *scene, uint16_t job, unsigned slots, struct tree *tree) {
  const struct by_granted *cells = &scene->answer[job].what;
  *tree = (struct tree){.scene = scene, .job = job};
  make_server(tree, cells, slots);
  for (unsigned w = 0; w < WORKERS; w++) {
    struct by_worker_config worker = {.job = job,
                                      .key = (uint16_t)(job + 100),
                                      .rank = w,
                                      .groups = by_one_group(WORKERS),
                                      .slots = slots,
                                      .lines = LINES,
                                      .hops = 1,
                                      .keyed = true,
                                      .stack = {{.port = cells->up, .workers = cells->slots ? WORKERS : 0}},
                                      .timeout = TIMEOUT * BY_SECOND};
    memcpy(worker.secret, secret, sizeof secret);
    assert_ok(by_udp_fabric_create(scene->sockets[w], &(struct by_udp_path){.server = scene->addresses[SERVER]},
                                   &worker, &by_clock_system, &tree->fabrics[w]));
    tree->values[w] = malloc(LONG * sizeof(float));
  }
}

static void end_tree(struct tree *tree) {
  for (unsigned w = 0; w < WORKERS; w++) {
    tree->fabrics[w]->ops->destroy(tree->fabrics[w]);
    by_udp_peer_destroy(tree->peers[w]);
    free(tree->values[w]);
  }
  by_udp_forget(tree->scene->sockets[SERVER], tree->job);
  by_server_destroy(tree->server);
}

static void begin_sum(struct tree *tree, size_t n) {
  struct by_frame descriptor = {.dtype_op = BANYAN_FLOAT32 << 4 | BANYAN_SUM};
  tree->n = n;
  for (unsigned w = 0; w < WORKERS; w++) {
    struct by_fabric *fabric = tree->fabrics[w];
    for (size_t i = 0; i < n; i++) tree->values[w][i] = value(tree, w, i);
    assert_true(fabric->ops->begin(fabric, &descriptor, tree->values[w], tree->values[w], n * sizeof(float),
                                   &tree->numbers[w]));
    fabric->ops->advance(fabric, tree->numbers[w], n * sizeof(float));
  }
}

/* Makes progress once at all ends. Returns how many bytes the slowest worker has. */
static uint64_t make_progress(struct tree *tree, bool done[WORKERS]) {
  uint64_t least = UINT64_MAX;
  for (unsigned w = 0; w < WORKERS; w++) {
    struct by_fabric *fabric = tree->fabrics[w];
    (void)fabric->ops->progress(fabric);
    if (fabric->status != BANYAN_OK) fail_msg("worker %u: %s", w, fabric->error);
    uint64_t bytes = done[w] ? tree->n * sizeof(float) : fabric->ops->done(fabric, tree->numbers[w]);
    done[w] = bytes == tree->n * sizeof(float);
    if (bytes < least) least = bytes;
  }
  (void)by_udp_progress(tree->scene->sockets[SERVER], 0);
  assert_ok(by_loop_run_once(tree->scene->loop, 0));
  return least;
}

static void check_sum(const struct tree *tree) {
  for (unsigned w = 0; w < WORKERS; w++)
    for (size_t i = 0; i < tree->n; i++) {
      float wanted = value(tree, 0, i) + value(tree, 1, i) + value(tree, 2, i);
      if (tree->values[w][i] != wanted)
        fail_msg("job %u, worker %u, element %zu: %g instead of %g", tree->job, w, i, (double)tree->values[w][i],
                 (double)wanted);
    }
}

/* Computes sums of several jobs at once. Calls `meddle`, if given, in the middle of the first job's sum. */
static void sum(struct tree *const *trees, int n, size_t count, void (*meddle)(struct scene *scene)) {
  bool done[4][WORKERS] = {{false}}, all = false;
  uint64_t end = by_clock_now(&by_clock_system) + TIMEOUT * BY_SECOND, bytes = count * sizeof(float);
  for (int t = 0; t < n; t++) begin_sum(trees[t], count);
  while (!all) {
    all = true;
    for (int t = 0; t < n; t++) {
      uint64_t least = make_progress(trees[t], done[t]);
      all = all && least == bytes;
      if (t || !meddle || least < bytes / 4) continue;
      meddle(trees[0]->scene);
      meddle = NULL;
    }
    if (by_clock_now(&by_clock_system) > end) fail_msg("no sum within %d s", TIMEOUT);
  }
  assert_null(meddle);
  for (int t = 0; t < n; t++) check_sum(trees[t]);
}

/* Sums go through the switch. Packets that are sent again go past it, and a machine that stalls for a moment causes
 * many of them. So there are several attempts to keep their number small. */
static void sum_at_switch(struct tree *tree) {
  const struct by_server_counters *at_server = by_server_counters(tree->server);
  for (int tries = 0; tries < 5; tries++) {
    struct by_server_counters before = *at_server;
    sum((struct tree *[]){tree}, 1, COUNT, NULL);
    if ((at_server->unmerged - before.unmerged) * 10 < at_server->merged - before.merged) return;
  }
  const char *sanitizer = getenv("BANYAN_SANITIZED");
  assert_true(at_server->merged > 0 && sanitizer && strcmp(sanitizer, "none") != 0);
}

/* ---- tests */

static void begin(struct scene *scene, const char *cells) {
  *scene = (struct scene){0};
  if (!set_scene(scene)) {
    print_message("skipped: no namespaces, veth, routing rules or XDP here (run as root, with iproute2)\n");
    skip();
  }
  switch_on(scene, cells);
  assert_ok(by_loop_create(&by_clock_system, &scene->loop));
  make_client(scene, JOB_KEY, &scene->client);
}

static void end(struct scene *scene) {
  by_switch_client_destroy(scene->client);
  by_loop_destroy(scene->loop);
  stop_switch(scene->process, SIGTERM);
  assert_true(shell("! ip link show p0 | grep -q xdp && ! ip link show | grep -q banyan"));
  for (int i = 0; i < HOSTS; i++) {
    by_udp_destroy(scene->sockets[i]);
    close(scene->hosts[i]);
  }
}

static void test_one_job(void **state) {
  (void)state;
  struct scene scene;
  struct tree tree;
  begin(&scene, "100");
  request_cells(&scene, 1, 64, 64);
  make_tree(&scene, 1, 64, &tree);
  sum_at_switch(&tree);
  assert_int_equal(counted("used"), 64);
  assert_true(counted("completed") > 0);
  assert_int_equal(scene.answer[1].lost, 0);
  by_switch_client_drop(scene.client, 1);
  for (int i = 0; i < TIMEOUT * 10 && counted("used"); i++) usleep(100000);
  assert_int_equal(counted("used"), 0);
  end_tree(&tree);
  end(&scene);
}

static void kill_and_start(struct scene *scene) {
  stop_switch(scene->process, SIGKILL);
  switch_on(scene, "100");
}

static void test_killed(void **state) {
  (void)state;
  struct scene scene;
  struct tree tree;
  begin(&scene, "100");
  request_cells(&scene, 1, 64, 64);
  make_tree(&scene, 1, 64, &tree);
  sum((struct tree *[]){&tree}, 1, LONG, kill_and_start);
  run_until(&scene, &scene.answer[1].granted, 2);
  assert_int_equal(scene.answer[1].lost, 1);
  assert_int_equal(scene.answer[1].why, BY_RESERVATION_SILENT);
  long long before = counted("completed");
  sum((struct tree *[]){&tree}, 1, COUNT, NULL);
  assert_true(counted("completed") > before);
  end_tree(&tree);
  end(&scene);
}

/* One job gets all cells that it requests, one the remaining cells, and one none. All jobs get their sums. */
static void test_shared(void **state) {
  (void)state;
  struct scene scene;
  struct tree trees[3];
  begin(&scene, "100");
  request_cells(&scene, 1, 64, 64);
  request_cells(&scene, 2, 64, 36);
  request_cells(&scene, 3, 64, 0);
  for (uint16_t i = 0; i < 3; i++) make_tree(&scene, (uint16_t)(i + 1), 64, &trees[i]);
  sum((struct tree *[]){&trees[0], &trees[1], &trees[2]}, 3, COUNT, NULL);
  assert_true(by_server_counters(trees[0].server)->merged > 0);
  assert_true(by_server_counters(trees[1].server)->merged > 0);
  assert_int_equal(by_server_counters(trees[2].server)->merged, 0);
  assert_int_equal(counted("used"), 100);
  for (int i = 0; i < 3; i++) end_tree(&trees[i]);
  end(&scene);
}

/* Sends forged packets from that host in this job's name; with a MAC of the first job's grant, or only a seal. */
static void forge(struct scene *scene, int from, uint16_t job, uint16_t key, uint16_t rank, bool knows_secret) {
  struct {
    struct by_fragment head;
    unsigned char payload[BY_FRAGMENT_LINE];
  } packet = {0};
  struct by_udp_peer *peer;
  by_fragment_begin(&packet.head, BY_FRAGMENT_UP, rank);
  packet.head.job = job;
  packet.head.key = key;
  packet.head.dtype = BY_FRAGMENT_PAIRS;
  packet.head.lines = 1;
  assert_true(by_fragment_push(&packet.head, scene->answer[1].what.up, WORKERS));
  struct by_hop_key hop;
  assert_ok(by_hop_key_of_tree(secret, sizeof secret, 1, 101, &hop));
  by_fragment_sign(&packet.head, knows_secret ? &hop : NULL);
  assert_ok(by_udp_peer_create(scene->sockets[from], &scene->addresses[from == SERVER ? 0 : SERVER], &peer));
  for (int i = 0; i < 10; i++) by_udp_send(peer, &packet.head);
  assert_true(by_udp_flush(scene->sockets[from]));
  by_udp_peer_destroy(peer);
}

static void forge_all(struct scene *scene) {
  forge(scene, 0, 1, 7, 0, true);        /* a wrong key */
  forge(scene, SERVER, 1, 101, 1, true); /* from the port of the server */
  forge(scene, 0, 1, 101, 0, false);     /* without the secret */
  forge(scene, 1, 2, 102, 1, false);     /* for a job without a grant */
}

static void test_forged(void **state) {
  (void)state;
  struct scene scene;
  struct tree tree;
  begin(&scene, "100");
  request_cells(&scene, 1, 64, 64);
  make_tree(&scene, 1, 64, &tree);
  sum((struct tree *[]){&tree}, 1, COUNT, forge_all);
  assert_in_range(counted("wrong_key"), 1, 10); /* some packets may be lost on the way */
  assert_in_range(counted("wrong_port"), 1, 10);
  assert_in_range(counted("forged"), 1, 10);
  assert_true(counted("no_grant") > 0);
  end_tree(&tree);
  end(&scene);
}

/* Reservations are refused for another client's job, a port that does not exist, an address that no host has, and a
 * client with another secret. */
static void test_refused(void **state) {
  (void)state;
  struct scene scene;
  struct by_switch_client *other;
  begin(&scene, "100");
  request_cells(&scene, 1, 64, 64);
  make_client(&scene, JOB_KEY, &other);
  struct by_reservation taken = reservation_of(&scene, 1, 64), nowhere = reservation_of(&scene, 2, 64),
                        unanswered = reservation_of(&scene, 3, 64);
  strcpy(nowhere.up, "p9");
  assert_ok(by_udp_end_parse("10.7.3.99:7612", &unanswered.server));
  assert_ok(by_switch_client_want(other, &taken));
  run_until(&scene, &scene.answer[1].lost, 1);
  assert_int_equal(scene.answer[1].why, BY_RESERVATION_TAKEN);
  assert_false(scene.answer[1].has);
  assert_ok(by_switch_client_want(other, &nowhere));
  run_until(&scene, &scene.answer[2].lost, 1);
  assert_int_equal(scene.answer[2].why, BY_RESERVATION_REFUSED);
  assert_non_null(strstr(scene.answer[2].text, "no port p9 here, there are p0, p1, p2, p3"));
  if (!strcmp(kind, "--xdp")) { /* otherwise the kernel resolves the address */
    assert_ok(by_switch_client_want(other, &unanswered));
    run_until(&scene, &scene.answer[3].lost, 1);
    assert_non_null(strstr(scene.answer[3].text, "nobody answers for 10.7.3.99:7612 by p3"));
    by_switch_client_drop(other, 3);
    for (int i = 0; i < TIMEOUT * 10 && counted("used") != 64; i++) usleep(100000);
    assert_int_equal(counted("used"), 64);
  }
  by_switch_client_destroy(other);
  make_client(&scene, "of no job", &other);
  scene.answer[2] = (struct answer){0};
  assert_ok(by_switch_client_want(other, &nowhere));
  run_until(&scene, &scene.answer[2].lost, 1);
  assert_int_equal(scene.answer[2].why, BY_RESERVATION_SILENT);
  assert_non_null(strstr(scene.answer[2].text, "switch s (127.0.0.1:7613): "));
  by_switch_client_destroy(other);
  end(&scene);
}

static void expect_no_second(const char *control, const char *address, const char *why) {
  char line[600];
  int status;
  pid_t second = start_switch("10", control, address, line, sizeof line);
  assert_int_equal(waitpid(second, &status, 0), second);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
  if (!strstr(line, why)) fail_msg("prints \"%s\" instead of \"%s\"", line, why);
}

/* A second switch cannot start, neither at the first one's control address nor on its interfaces. The first switch goes
 * on. */
static void test_second_switch(void **state) {
  (void)state;
  struct scene scene;
  struct tree tree;
  char other[80];
  begin(&scene, "100");
  snprintf(other, sizeof other, "%s2", path);
  expect_no_second(path, "127.0.0.2", "one runs here already");
  expect_no_second(other, "127.0.0.1", "cannot listen on 127.0.0.1 port 7613");
  expect_no_second(other, "127.0.0.2",
                   strcmp(kind, "--xdp") ? "another switch of this kind runs here" : "p0 has an XDP program already");
  request_cells(&scene, 1, 64, 64);
  make_tree(&scene, 1, 64, &tree);
  sum((struct tree *[]){&tree}, 1, COUNT, NULL);
  end_tree(&tree);
  end(&scene);
}

/* The switch removes its socket unless it was killed. It does not remove the folder. */
static int clear_folder(void **state) {
  (void)state;
  (void)unlink(path);
  *strrchr(path, '/') = 0;
  (void)rmdir(path);
  return 0;
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_job), cmocka_unit_test(test_killed),
                                     cmocka_unit_test(test_shared),  cmocka_unit_test(test_forged),
                                     cmocka_unit_test(test_refused), cmocka_unit_test(test_second_switch)};
  if (argc != 2 || !getenv("BANYAN")) return 2;
  kind = argv[1];
  snprintf(path, sizeof path, "/tmp/banyan-switch-%d/sock", (int)getpid());
  setenv("BANYAN_SWITCH_KEY", JOB_KEY, 1);
  return cmocka_run_group_tests(tests, NULL, clear_folder);
}
