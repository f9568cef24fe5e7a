/* Ranks that come, stop or die at certain moments of a job's start. A stopped process keeps its connections and sees
 * all pending events at once when it continues, which makes rare orders of events common. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "control_messages.h"
#include "descriptor.h"
#include "job.h"
#include "job_key.h"
#include "job_keys.h"
#include "key_ring.h"
#include "member.h"
#include "process_identity.h"
#include "refusal.h"
#include "settings.h"
#include "socket.h"

enum { LISTENS = 0x0a, CONNECTED = 0x01 };

/* Counts this machine's sockets at the job's root address that are in this state. */
static int count_sockets(const struct job *job, int state) {
  static const char *const files[] = {"/proc/net/tcp", "/proc/net/tcp6"};
  unsigned wanted = (unsigned)atoi(strchr(job->root, ':') + 1), port, is;
  char line[400];
  int n = 0;
  for (int i = 0; i < 2; i++) {
    FILE *file = fopen(files[i], "re");
    while (file && fgets(line, sizeof line, file))
      n += sscanf(line, " %*u: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x", &port, &is) == 2 && port == wanted &&
           is == (unsigned)state;
    if (file) fclose(file);
  }
  return n;
}

static void wait_for_sockets(const struct job *job, int state, int wanted) {
  for (double until = job_now() + 30; count_sockets(job, state) < wanted; usleep(500))
    if (job_now() > until) job_fail(job, "there are not %d sockets of state %d at %s", wanted, state, job->root);
}

static void rank_joins(struct job *job, int rank) {
  struct banyan_comm *world = NULL;
  float one = 1, sum = 0;
  setenv("BANYAN_HOST", "here", 1);
  setenv("BANYAN_JOIN_DEADLINE", job->argument, 1);
  enum banyan_status status = banyan_comm_create(NULL, &world);
  if (status == BANYAN_OK) job_set_stage(job, rank, 1);
  if (status == BANYAN_OK) status = banyan_allreduce(world, &one, &sum, 1, BANYAN_FLOAT32, BANYAN_SUM);
  if (status == BANYAN_OK) must_hold((int)sum == job->n);
  job_report_status(job, rank, status);
  banyan_comm_destroy(world);
}

/* `other` is a second acceptable status. */
static void check_report(struct job *job, int rank, enum banyan_status wanted, enum banyan_status other,
                         const char *text) {
  const struct job_report *report = &job->reports[rank];
  job_wait_rank(job, rank);
  job_check_exit(job, rank);
  if ((report->status != wanted && report->status != other) || !strstr(report->text, text))
    job_fail(job, "rank %d ended with %s, \"%s\", and not with %s, %s", rank, banyan_status_name(report->status),
             report->text, banyan_status_name(wanted), text);
}

/* Rank 0 listens but is stopped, so that rank 1 waits in the middle of its handshake. Then rank 0 is killed. */
static void kill_root_shaking_hands(struct job *job) {
  job_prepare(job);
  job_start_rank(job, 0);
  wait_for_sockets(job, LISTENS, 1);
  job_signal(job, 0, SIGSTOP);
  job_start_rank(job, 1);
  wait_for_sockets(job, CONNECTED, 1);
  usleep(50000); /* until rank 0 has seen it */
  job_signal(job, 0, SIGKILL);
  job_wait_rank(job, 0);
}

static void test_root_is_replaced(void **state) {
  (void)state;
  struct job job = {.n = 2, .run = rank_joins, .argument = "50"};
  kill_root_shaking_hands(&job);
  job_start_rank(&job, 0);
  job_end(&job, true);
}

static void test_root_is_lost(void **state) {
  (void)state;
  struct job job = {.n = 2, .run = rank_joins, .argument = "3"};
  kill_root_shaking_hands(&job);
  check_report(&job, 1, BANYAN_ERR_TIMEOUT, BANYAN_ERR_TIMEOUT, "did not answer within 3 s");
  job_end(&job, false);
}

/* Rank 2 of 3 never comes. Rank 1 has a longer timeout and receives the reason from rank 0. */
static void rank_waits(struct job *job, int rank) {
  struct job own = *job;
  own.argument = rank ? "50" : "4";
  rank_joins(&own, rank);
}

static void test_rank_is_missing(void **state) {
  (void)state;
  struct job job = {.n = 3, .run = rank_waits};
  job_prepare(&job);
  for (int r = 1; r >= 0; r--) job_start_rank(&job, r);
  for (int r = 0; r < 2; r++)
    check_report(&job, r, BANYAN_ERR_TIMEOUT, BANYAN_ERR_TIMEOUT, "2 of 3 ranks joined within 4 s; missing: 2");
  job_end(&job, false);
}

/* An unknown name may become known a little later. The deadline for joining decides. */
static void test_root_has_an_unknown_name(void **state) {
  (void)state;
  struct job job = {.n = 2, .run = rank_joins, .argument = "1", .root = "rank..zero:29500"};
  job_prepare(&job);
  job_start_rank(&job, 1);
  check_report(&job, 1, BANYAN_ERR_TIMEOUT, BANYAN_ERR_TIMEOUT, "did not answer within 1 s");
  if (!strstr(job.reports[1].text, "cannot be looked up")) job_fail(&job, "rank 1 reports \"%s\"", job.reports[1].text);
  job_end(&job, false);
}

/* All addresses are tried, and the failure of each is reported. */
static void test_root_is_nowhere(void **state) {
  (void)state;
  check_localhost();
  static const char *const wanted[] = {"rank..zero:29: host \"rank..zero\" cannot be looked up",
                                       "cannot connect to 127.0.0.1:1: Connection refused",
                                       "localhost:2 means 127.0.0.1:2, which is this machine itself: cannot connect"};
  struct job job = {.n = 2, .run = rank_joins, .argument = "2", .root = "127.0.0.1:1,rank..zero:29,localhost:2"};
  job_prepare(&job);
  job_start_rank(&job, 1);
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    check_report(&job, 1, BANYAN_ERR_TIMEOUT, BANYAN_ERR_TIMEOUT, wanted[i]);
  job_end(&job, false);
}

static void rank_joins_twice(struct job *job, int rank) {
  struct banyan_comm *world = NULL, *again = NULL;
  float one = 1, sum = 0;
  setenv("BANYAN_HOST", "here", 1);
  must_hold(banyan_comm_create(NULL, &world) == BANYAN_OK);
  job_report_status(job, rank, banyan_comm_create(NULL, &again));
  must_hold(again == NULL);
  must_hold(banyan_allreduce(world, &one, &sum, 1, BANYAN_FLOAT32, BANYAN_SUM) == BANYAN_OK && (int)sum == job->n);
  banyan_comm_destroy(world);
  must_hold(banyan_comm_create(NULL, &again) == BANYAN_OK); /* the first job has ended */
  banyan_comm_destroy(again);
}

/* A second join would wait for ranks that do not come. It fails at once with advice. */
static void test_joins_twice(void **state) {
  (void)state;
  static const char *const wanted[] = {"this process is rank 1 of the job", "banyan_comm_duplicate",
                                       "banyan_comm_split"};
  struct job job = {.n = 2, .run = rank_joins_twice};
  job_start(&job);
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    check_report(&job, 1, BANYAN_ERR_ARGUMENT, BANYAN_ERR_ARGUMENT, wanted[i]);
  check_report(&job, 0, BANYAN_ERR_ARGUMENT, BANYAN_ERR_ARGUMENT, "this process is rank 0 of the job");
  job_end(&job, true);
}

static void test_root_is_malformed(void **state) {
  (void)state;
  struct job job = {.n = 2, .run = rank_joins, .argument = "50", .root = "no-port"};
  job_prepare(&job);
  job_start_rank(&job, 1);
  check_report(&job, 1, BANYAN_ERR_PARSE, BANYAN_ERR_PARSE, "BANYAN_ROOT is no-port");
  job_end(&job, false);
}

/* Listens on a port where connections are begun and never answered. */
static int listen_silently(int port, int waiting[4]) {
  struct sockaddr_in at = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(0x7f000002)};
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(listener, 0), 0);
  for (int i = 0; i < 4; i++) {
    waiting[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    (void)!connect(waiting[i], (struct sockaddr *)&at, sizeof at);
  }
  return listener;
}

static void rank_has_another_key(struct job *job, int rank) {
  setenv("BANYAN_KEY", OTHER_JOB_KEY, 1);
  rank_joins(job, rank);
}

/* One of rank 0's addresses does not answer and might therefore be the right one. The process at the other address has
 * another key. This is reported long before the deadline for joining. */
static void test_key_differs_and_an_address_is_dead(void **state) {
  (void)state;
  struct job right = {.n = 2, .run = rank_joins, .argument = "40"};
  int waiting[4], port = job_free_port(), silent_port = job_free_port();
  int silent = listen_silently(silent_port, waiting);
  snprintf(right.root, sizeof right.root, "127.0.0.1:%d", port);
  job_prepare(&right);
  job_start_rank(&right, 0);
  wait_for_sockets(&right, LISTENS, 1);
  struct job wrong = {.n = 2, .run = rank_has_another_key, .argument = "50"};
  snprintf(wrong.root, sizeof wrong.root, "127.0.0.2:%d,127.0.0.1:%d", silent_port, port);
  job_prepare(&wrong);
  job_start_rank(&wrong, 1);
  check_report(&wrong, 1, BANYAN_ERR_AUTH, BANYAN_ERR_AUTH, "no answer within 5 s; 127.0.0.1:");
  assert_int_equal(waitpid(right.pids[0], NULL, WNOHANG), 0); /* rank 0 still waits */
  job_end(&wrong, false);
  job_signal(&right, 0, SIGKILL);
  job_end(&right, false);
  for (int i = 0; i < 4; i++) close(waiting[i]);
  close(silent);
}

/* ---- rank 0's fingerprint is known */

/* Rank 0 has the secret of an identity, or, if there is none, one that nobody knows. */
struct identity {
  const char *joining;
  int secret;
};

static void rank_knows_root(struct job *job, int rank) {
  const struct identity *identity = job->argument;
  struct job own = *job;
  char path[32];
  own.argument = identity->joining;
  setenv("BANYAN_ENCRYPT", "always", 1);
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), identity->secret);
  if (rank == 0 && identity->secret >= 0) setenv("BANYAN_IDENTITY_FILE", path, 1);
  rank_joins(&own, rank);
  must_hold(by_refusals(BY_REFUSED_IDENTITY) == (rank == 1 && identity->secret < 0));
}

/* The job's root, and what its rank 0 proves who it is with; the caller closes the secret. */
static void make_identity(struct job *job, struct identity *out) {
  struct by_process_identity *identity;
  char secret[BY_JOB_KEY_TEXT], fingerprint[BY_FINGERPRINT_TEXT];
  assert_ok(by_job_key_create(secret));
  assert_ok(by_process_identity_derive(secret, &identity));
  by_fingerprint_print(by_process_identity_fingerprint(identity), fingerprint);
  by_process_identity_destroy(identity);
  assert_ok(by_job_key_share(secret, &out->secret));
  snprintf(job->root, sizeof job->root, "127.0.0.1:%d#%s", job_free_port(), fingerprint);
}

static void test_root_is_known(void **state) {
  (void)state;
  struct identity identity = {.joining = "50"};
  struct job job = {.n = 3, .run = rank_knows_root, .argument = &identity};
  make_identity(&job, &identity);
  job_start(&job);
  for (int r = 0; r < job.n; r++) check_report(&job, r, BANYAN_OK, BANYAN_OK, "");
  job_end(&job, true);
  by_close(identity.secret);
}

/* Another process that has the job's key answers at rank 0's address. */
static void test_root_is_another_process(void **state) {
  (void)state;
  struct identity identity = {.joining = "50"};
  struct job job = {.n = 2, .run = rank_knows_root, .argument = &identity};
  make_identity(&job, &identity);
  by_close(identity.secret);
  identity.secret = -1;
  job_start(&job);
  check_report(&job, 1, BANYAN_ERR_AUTH, BANYAN_ERR_AUTH,
               "another process answers there than the one that is expected");
  assert_int_equal(waitpid(job.pids[0], NULL, WNOHANG), 0);
  char *log = job_log(&job);
  if (!strstr(log, "the fingerprint in BANYAN_ROOT is not that of this process")) job_fail(&job, "rank 0 says nothing");
  free(log);
  job_signal(&job, 0, SIGKILL);
  job_end(&job, false);
}

static struct chosen { char root[BANYAN_ROOT_TEXT], key[BANYAN_KEY_TEXT]; } * chosen; /* shared with the ranks */

/* Rank 0 has nothing but what it chooses, and tells the others through shared memory. */
static void rank_is_told(struct job *job, int rank) {
  struct by_address bound;
  char former[BANYAN_ROOT_TEXT];
  int fd;
  unsetenv("BANYAN_ROOT");
  unsetenv("BANYAN_KEY");
  setenv("BANYAN_ENCRYPT", "always", 1);
  if (rank == 0) {
    must(banyan_root_choose(true, former));
    must(banyan_root_choose(true, chosen->root));
    must_hold(!strncmp(former, "127.0.0.1:", 10) && strcmp(former, chosen->root) != 0);
    int port = atoi(chosen->root + 10); /* it is held, so another process gets the next one, if that is free */
    must(by_socket_hold((struct by_port_range){port, port + 20}, NULL, &fd, &bound));
    must_hold(by_address_port(&bound) > port);
    by_close(fd);
    must(banyan_key_create(chosen->key));
    job_set_stage(job, 0, 2);
  }
  while (job->reports[0].stage < 2) usleep(1000);
  struct banyan_options options = {.size_of_struct = sizeof options, .root = chosen->root, .key = chosen->key};
  struct banyan_comm *world = NULL;
  must(banyan_comm_create(&options, &world));
  must(banyan_barrier(world));
  banyan_comm_destroy(world);
}

static void test_root_is_chosen(void **state) {
  (void)state;
  chosen = mmap(NULL, sizeof *chosen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(chosen != MAP_FAILED);
  struct job job = {.n = 3, .run = rank_is_told};
  job_start(&job);
  for (int r = 0; r < job.n; r++) job_wait_rank(&job, r);
  if (job_count_log(&job, "fingerprint")) job_fail(&job, "a rank takes rank 0 for another process");
  job_end(&job, true);
  munmap(chosen, sizeof *chosen);
}

static void rank_has_own_settings(struct job *job, int rank) {
  const char *const *setting = job->argument;
  struct job own = *job;
  own.argument = "50";
  if (rank == 1) job_set_engine(setting[0], setting[1]);
  rank_joins(&own, rank);
}

/* Settings that would cause a deadlock in the first large call. */
static void test_settings_differ(void **state) {
  (void)state;
  static const char *const settings[2][2] = {{"eager-limit", "64K"}, {"credit", "8M"}};
  for (int i = 0; i < 2; i++) {
    struct job job = {.n = 3, .run = rank_has_own_settings, .argument = settings[i]};
    job_start(&job);
    for (int r = 0; r < 3; r++)
      check_report(&job, r, BANYAN_ERR_ARGUMENT, BANYAN_ERR_ARGUMENT, "rank 1 (host here) was started with BANYAN_");
    job_end(&job, false);
  }
}

/* ---- rank 0 learns of two events in one round of its loop */

/* Rank 2 of 3, played by the test so that it can wait before it sends its last message. */
struct player {
  struct by_handshake handshake;
  uint8_t hello[500];
  int fd;
};

static size_t write_hello_of(uint8_t *bytes, size_t room, enum by_member_kind kind, const char *host, uint8_t process) {
  struct by_writer writer;
  struct by_settings settings;
  assert_ok(by_settings_read(&settings));
  struct by_arena arena;
  char machine[256]; /* in other processes' namespace, but in the network of the others: so they call nothing at once */
  by_arena_init(&arena);
  snprintf(machine, sizeof machine, "%s0", by_member_machine(&arena));
  by_arena_fini(&arena);
  const struct by_member member = {.kind = kind,
                                   .fingerprint = {{process}},
                                   .host = host,
                                   .machine = machine,
                                   .local = "",
                                   .pid = 1,
                                   .cores = 1,
                                   .eager_limit = settings.eager_limit,
                                   .credit = settings.credit};
  by_writer_init(&writer, bytes, room);
  by_join_write(&writer, &(struct by_join){.rank = 2, .size = 3, .member = member});
  return writer.length;
}

static size_t write_hello(uint8_t *bytes, size_t room) {
  return write_hello_of(bytes, room, BY_MEMBER_RANK, "here", 0);
}

static void send_list(struct player *player) {
  size_t length;
  const uint8_t *bytes = by_handshake_output(&player->handshake, &length);
  assert_int_equal(send(player->fd, bytes, length, MSG_NOSIGNAL), length);
  by_handshake_sent(&player->handshake, length);
}

static void receive(struct player *player) {
  uint8_t bytes[BY_GREETING_BYTES + BY_MAC_BYTES];
  size_t used;
  assert_int_equal(recv(player->fd, bytes, sizeof bytes, MSG_WAITALL), sizeof bytes);
  assert_int_equal(by_handshake_feed(&player->handshake, bytes, sizeof bytes, &used), BANYAN_OK);
}

/* With a hello of this length, which is in the player. */
static void begin_with_keys(const struct job *job, struct player *player, const struct by_job_keys *keys,
                            size_t length) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(strchr(job->root, ':') + 1))};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  player->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(player->fd, (struct sockaddr *)&to, sizeof to), 0);
  struct by_handshake_options options = {.role = BY_ROLE_CLIENT,
                                         .purpose = 'C' | keys->purpose,
                                         .key = &keys->own,
                                         .ticket = keys->ticket,
                                         .hello = player->hello,
                                         .hello_length = length};
  assert_int_equal(by_handshake_init(&player->handshake, &options), BANYAN_OK);
  send_list(player);
  receive(player);
}

static void begin_with_key(const struct job *job, struct player *player, const struct by_ticket_subject *subject) {
  struct by_job_keys keys;
  assert_ok(by_job_keys_derive(JOB_KEY, subject, &keys));
  begin_with_keys(job, player, &keys, write_hello(player->hello, sizeof player->hello));
}

static void begin_playing(const struct job *job, struct player *player) {
  begin_with_key(job, player, NULL);
}

/* Rank 1 dies and the last rank joins, in this order or the opposite order. */
static void root_learns_of_both(bool death_first) {
  struct player player;
  struct job job = {.n = 3, .run = rank_joins, .argument = "50"};
  job_prepare(&job);
  job_start_rank(&job, 0);
  wait_for_sockets(&job, LISTENS, 1);
  job_start_rank(&job, 1);
  wait_for_sockets(&job, CONNECTED, 1);
  usleep(200000); /* time for the rank's handshake; if that takes longer, less is tested */
  begin_playing(&job, &player);
  job_signal(&job, 0, SIGSTOP);
  if (!death_first) send_list(&player);
  job_signal(&job, 1, SIGKILL);
  job_wait_rank(&job, 1);
  if (death_first) send_list(&player);
  job_signal(&job, 0, SIGCONT);
  /* The kernel decides which of the two events rank 0 sees first, so all ranks may have joined or not. */
  check_report(&job, 0, BANYAN_ERR_ARGUMENT, BANYAN_ERR_PEER_DEAD, "rank 1 (host here)");
  by_handshake_fini(&player.handshake);
  close(player.fd);
  job_end(&job, false);
}

static void test_death_before_the_last_joins(void **state) {
  (void)state;
  root_learns_of_both(true);
}

static void test_death_when_the_last_has_joined(void **state) {
  (void)state;
  root_learns_of_both(false);
}

/* Rank 2 gives up on a rank 0 that is delayed, and joins again. Its first connection has no effect. */
static void test_abandoned_connection(void **state) {
  (void)state;
  struct player player;
  struct job job = {.n = 3, .run = rank_joins, .argument = "50"};
  job_prepare(&job);
  job_start_rank(&job, 0);
  wait_for_sockets(&job, LISTENS, 1);
  begin_playing(&job, &player);
  job_signal(&job, 0, SIGSTOP);
  send_list(&player);
  by_handshake_fini(&player.handshake);
  close(player.fd);
  job_signal(&job, 0, SIGCONT);
  for (int r = 1; r < job.n; r++) job_start_rank(&job, r);
  for (int r = 0; r < job.n; r++) check_report(&job, r, BANYAN_OK, BANYAN_OK, "");
  job_end(&job, true);
}

static void shake_hands(struct player *player) {
  uint8_t byte;
  size_t used;
  send_list(player);
  while (!by_handshake_done(&player->handshake)) {
    assert_int_equal(recv(player->fd, &byte, 1, 0), 1);
    assert_int_equal(by_handshake_feed(&player->handshake, &byte, 1, &used), BANYAN_OK);
  }
}

/* Rank 2 joins again after rank 0 has accepted its first connection. */
static void test_rank_that_joins_again(void **state) {
  (void)state;
  struct player player;
  struct job job = {.n = 3, .run = rank_joins, .argument = "50"};
  job_prepare(&job);
  job_start_rank(&job, 0);
  wait_for_sockets(&job, LISTENS, 1);
  begin_playing(&job, &player);
  shake_hands(&player);
  by_handshake_fini(&player.handshake);
  close(player.fd);
  for (int r = 1; r < job.n; r++) job_start_rank(&job, r);
  for (int r = 0; r < job.n; r++) check_report(&job, r, BANYAN_OK, BANYAN_OK, "");
  job_end(&job, true);
}

/* Whoever has a ticket cannot take a rank's place, and the rank joins afterwards. */
static void test_helper_that_joins_as_rank(void **state) {
  (void)state;
  struct player player;
  struct job job = {.n = 3, .run = rank_joins, .argument = "50"};
  uint8_t bytes[512];
  ssize_t n;
  job_prepare(&job);
  job_start_rank(&job, 0);
  wait_for_sockets(&job, LISTENS, 1);
  begin_with_key(&job, &player, &(struct by_ticket_subject){BY_TICKET_HELPER, "here"});
  shake_hands(&player);
  while ((n = recv(player.fd, bytes, sizeof bytes, 0)) > 0) continue; /* the reason */
  assert_int_equal(n, 0);
  by_handshake_fini(&player.handshake);
  close(player.fd);
  for (int r = 1; r < job.n; r++) job_start_rank(&job, r);
  for (int r = 0; r < job.n; r++) check_report(&job, r, BANYAN_OK, BANYAN_OK, "");
  job_end(&job, true);
}

/* Comes to rank 0 as a helper or server, and stays if that does not end the connection. Returns the reason for which it
 * was refused; "": it was not. */
static const char *come(const struct job *job, const struct by_job_keys *keys, enum by_member_kind kind,
                        const char *host, uint8_t process) {
  static char reason[512];
  struct player player;
  size_t n = 0;
  ssize_t more;
  begin_with_keys(job, &player, keys, write_hello_of(player.hello, sizeof player.hello, kind, host, process));
  shake_hands(&player);
  while ((more = recv(player.fd, reason + n, sizeof reason - 1 - n, 0)) > 0) n += (size_t)more;
  by_handshake_fini(&player.handshake);
  close(player.fd);
  reason[n] = '\0';
  return n > 18 ? reason + 18 : ""; /* behind the frame's head, status, process and length */
}

static void issue(const struct by_ticket_subject *subject, uint64_t expires, struct by_job_keys *out) {
  char key_text[BY_TICKET_KEY_TEXT], text[BY_TICKET_TEXT];
  struct by_key key;
  assert_ok(by_ticket_key_derive(JOB_KEY, key_text));
  assert_ok(by_key_derive(key_text, &key));
  assert_ok(by_ticket_issue(&key, subject, expires, text));
  assert_ok(by_job_keys_derive(text, subject, out));
}

/* Rank 0 waits for no helpers, so it ends the connection of those whose tickets are good without a reason: they would
 * come again. */
static void test_tickets(void **state) {
  (void)state;
  struct job job = {.n = 3, .run = rank_joins, .argument = "50"};
  struct by_job_keys alice, old, rank;
  uint64_t now = (uint64_t)time(NULL);
  issue(&(struct by_ticket_subject){BY_TICKET_HELPER, "alice"}, now + 600, &alice);
  issue(&(struct by_ticket_subject){BY_TICKET_HELPER, "alice"}, now - 600, &old);
  assert_ok(by_job_keys_derive(JOB_KEY, NULL, &rank));
  job_prepare(&job);
  job_start_rank(&job, 0);
  wait_for_sockets(&job, LISTENS, 1);
  assert_non_null(
      strstr(come(&job, &alice, BY_MEMBER_HELPER, "bob", 1), "the ticket of another helper or server than bob"));
  assert_non_null(strstr(come(&job, &alice, BY_MEMBER_SERVER, "alice", 1), "the ticket of another helper or server"));
  assert_non_null(strstr(come(&job, &alice, BY_MEMBER_RANK, "alice", 1), "a rank with the ticket of a helper"));
  assert_non_null(strstr(come(&job, &old, BY_MEMBER_HELPER, "alice", 1), "expired 60"));
  assert_non_null(strstr(come(&job, &rank, BY_MEMBER_HELPER, "alice", 1), "a helper or server without a ticket"));
  /* The process that has come with it may come again, another one may not. */
  assert_string_equal(come(&job, &alice, BY_MEMBER_HELPER, "alice", 1), "");
  assert_string_equal(come(&job, &alice, BY_MEMBER_HELPER, "alice", 1), "");
  assert_non_null(strstr(come(&job, &alice, BY_MEMBER_HELPER, "alice", 2), "with which another process has come"));
  assert_string_equal(come(&job, &alice, BY_MEMBER_HELPER, "alice", 1), "");
  for (int r = 1; r < job.n; r++) job_start_rank(&job, r);
  for (int r = 0; r < job.n; r++) check_report(&job, r, BANYAN_OK, BANYAN_OK, "");
  job_end(&job, true);
}

/* ---- messages of a joined rank 2 to rank 0 */

enum { FRAME_HEAD = 6, SUSPECT = 4, LEAVING = 5, DESCRIBE = 7 };

static void join_as_player(struct job *job, struct player *player) {
  job_prepare(job);
  job_start_rank(job, 0);
  wait_for_sockets(job, LISTENS, 1);
  job_start_rank(job, 1);
  begin_playing(job, player);
  shake_hands(player);
  for (int r = 0; r < 2; r++) job_wait_stage(job, r, 1);
}

static void end_playing(struct player *player) {
  by_handshake_fini(&player->handshake);
  close(player->fd);
}

static void send_frame(const struct player *player, uint16_t type, uint32_t process, const char *text) {
  uint8_t bytes[500];
  struct by_writer writer;
  by_writer_init(&writer, bytes + FRAME_HEAD, sizeof bytes - FRAME_HEAD);
  if (text) by_write_u32(&writer, BANYAN_ERR_PEER_DEAD);
  if (text) by_write_u32(&writer, process);
  if (text) by_write_string(&writer, text);
  by_put_u32(bytes, (uint32_t)writer.length);
  by_put_u16(bytes + 4, type);
  assert_int_equal(send(player->fd, bytes, FRAME_HEAD + writer.length, MSG_NOSIGNAL), FRAME_HEAD + writer.length);
}

static void wait_for_frame(const struct player *player, uint16_t type) {
  uint8_t head[FRAME_HEAD], payload[4096];
  do {
    assert_int_equal(recv(player->fd, head, sizeof head, MSG_WAITALL), sizeof head);
    uint32_t length = by_get_u32(head);
    assert_in_range(length, 0, sizeof payload);
    if (length) assert_int_equal(recv(player->fd, payload, length, MSG_WAITALL), length);
  } while (by_get_u16(head + 4) != type);
}

static int connect_to_root(const struct job *job) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(strchr(job->root, ':') + 1))};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
    job_fail(job, "no process listens at %s", job->root);
  return fd;
}

/* Opens far more connections than rank 0 keeps, silent or in the middle of a greeting. Most are closed at once; the
 * last ones stay open. */
static void flood(const struct job *job) {
  enum { GO = 2400, STAY = 600, CLOSED = STAY / 2 };
  struct timeval wait = {.tv_sec = 30};
  int fds[STAY];
  char byte;
  for (int i = 0; i < GO + STAY; i++) {
    int fd = connect_to_root(job);
    if (i % 2) (void)!send(fd, "BANYAN", 6, MSG_NOSIGNAL);
    if (i >= GO)
      fds[i - GO] = fd;
    else
      close(fd);
  }
  for (int i = 0; i < CLOSED; i++) { /* closed to make room for later connections */
    assert_int_equal(setsockopt(fds[i], SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait), 0);
    ssize_t n = recv(fds[i], &byte, 1, 0);
    if (n > 0 || (n < 0 && errno != ECONNRESET)) job_fail(job, "rank 0 does not close connection %d", i);
  }
  for (int i = 0; i < STAY; i++) close(fds[i]);
}

/* Each of the two ranks waits for the other. */
static void rank_receives(struct job *job, int rank) {
  struct banyan_comm *world = job_join();
  char byte;
  struct banyan_call call = {
      .collective = BANYAN_RECV, .dtype = BANYAN_UINT8, .root = 1 - rank, .recv = &byte, .count = 1};
  job_set_stage(job, rank, 1);
  job_report_status(job, rank, banyan_run(world, &call));
  banyan_comm_destroy(world);
}

/* The first suspect has left. The second suspect is dead nevertheless. */
static void test_two_suspects(void **state) {
  (void)state;
  struct player player;
  struct job job = {.n = 3, .run = rank_receives};
  join_as_player(&job, &player);
  send_frame(&player, SUSPECT, 2, "rank 2 is gone");
  send_frame(&player, SUSPECT, 1, "rank 1 is gone");
  send_frame(&player, LEAVING, 0, NULL);
  for (int r = 0; r < 2; r++) check_report(&job, r, BANYAN_ERR_PEER_DEAD, BANYAN_ERR_PEER_DEAD, "rank 1 is gone");
  end_playing(&player);
  job_end(&job, false);
}

/* Rank 2's answer to rank 0's greeting takes long to arrive. Meanwhile many connections come that never authenticate.
 * They neither displace rank 2's connection nor fill the log. */
static void test_slow_rank_among_half_open_connections(void **state) {
  (void)state;
  struct player player;
  struct job job = {.n = 3, .run = rank_joins, .argument = "50"};
  job_prepare(&job);
  job_start_rank(&job, 0);
  wait_for_sockets(&job, LISTENS, 1);
  begin_playing(&job, &player);
  flood(&job);
  shake_hands(&player);
  job_start_rank(&job, 1);
  for (int r = 0; r < 2; r++) job_wait_stage(&job, r, 1);
  shutdown(player.fd, SHUT_RDWR); /* rank 1 was forked with a copy of this descriptor */
  end_playing(&player);
  for (int r = 0; r < 2; r++) check_report(&job, r, BANYAN_ERR_PEER_DEAD, BANYAN_ERR_PEER_DEAD, "rank 2 (host here)");
  assert_in_range(job_count_log(&job, "\n"), 1, 40);
  job_check_log(&job, "further connections were rejected", -1);
  job_end(&job, false);
}

/* Rank 0 lasts until a connection was closed in the middle of its greeting. */
static void rank_counts_visitors(struct job *job, int rank) {
  static char metrics[1 << 16];
  struct banyan_comm *world = job_join();
  float one = 1, sum = 0;
  job_set_stage(job, rank, 1);
  must_fail(BANYAN_ERR_PEER_DEAD, banyan_allreduce(world, &one, &sum, 1, BANYAN_FLOAT32, BANYAN_SUM));
  job_set_stage(job, rank, 2);
  do {
    usleep(1000);
    must_hold(banyan_comm_metrics(world, metrics, sizeof metrics) < sizeof metrics);
  } while (rank == 0 && !strstr(metrics, "banyan_refused_connections_total{rank=\"0\",reason=\"truncated\"} 1\n"));
  banyan_comm_destroy(world);
}

/* Connections that are given up while a job ends are no news. */
static void test_visitor_at_the_end(void **state) {
  (void)state;
  struct player player;
  struct job job = {.n = 3, .run = rank_counts_visitors};
  join_as_player(&job, &player);
  shutdown(player.fd, SHUT_RDWR);
  end_playing(&player);
  job_wait_stage(&job, 0, 2);
  int fd = connect_to_root(&job);
  assert_int_equal(send(fd, "BANYAN", 6, MSG_NOSIGNAL), 6);
  close(fd);
  job_wait_rank(&job, 0);
  job_check_exit(&job, 0);
  job_check_log(&job, "closed the connection before", 0);
  job_end(&job, false);
}

static void rank_is_late(struct job *job, int rank) {
  float one = 1, sum = 0;
  setenv("BANYAN_HOST", "here", 1);
  setenv("BANYAN_DEADLINE", "1", 1); /* shorter than the interval after which all ranks are asked for their state */
  struct banyan_comm *world = job_join();
  job_set_stage(job, rank, 1);
  job_report_status(job, rank, banyan_allreduce(world, &one, &sum, 1, BANYAN_FLOAT32, BANYAN_SUM));
  banyan_comm_destroy(world);
}

/* Rank 2 leaves instead of reporting its state. */
static void test_leaves_when_asked(void **state) {
  (void)state;
  struct player player;
  struct job job = {.n = 3, .run = rank_is_late};
  join_as_player(&job, &player);
  wait_for_frame(&player, DESCRIBE);
  send_frame(&player, LEAVING, 0, NULL);
  for (int r = 0; r < 2; r++)
    check_report(&job, r, BANYAN_ERR_TIMEOUT, BANYAN_ERR_TIMEOUT, "rank 2 (host here), which has left");
  end_playing(&player);
  job_end(&job, false);
}

/* ---- impossible options */

static void check_refused(const struct banyan_options *options, const char *text) {
  struct banyan_comm *comm = NULL;
  enum banyan_status status = banyan_comm_create(options, &comm);
  if (status != BANYAN_ERR_ARGUMENT || !strstr(banyan_error_text(), text))
    fail_msg("%s, \"%s\"", banyan_status_name(status), banyan_error_text());
  assert_null(comm);
}

static void test_impossible_options(void **state) {
  (void)state;
  check_refused(&(struct banyan_options){.size = -2}, "size -2");
  check_refused(&(struct banyan_options){.rank_plus_1 = -1, .size = 2}, "rank_plus_1 -1");
  check_refused(&(struct banyan_options){.rank_plus_1 = 3, .size = 2}, "rank 2 of 2");
  check_refused(&(struct banyan_options){.transport = "quic"}, "auto, shm and tcp");
}

/* ---- a machine without IPv6, whose kernel creates no such sockets */

static void forbid_ipv6(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
  must_hold(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  must_hold(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
  must_hold(socket(AF_INET6, SOCK_STREAM, 0) < 0 && errno == EAFNOSUPPORT);
}

static void rank_joins_without_ipv6(struct job *job, int rank) {
  forbid_ipv6();
  rank_joins(job, rank);
}

static void test_without_ipv6(void **state) {
  (void)state;
  struct job job = {.n = 2, .run = rank_joins_without_ipv6, .transport = "tcp", .argument = "50"};
  job_start(&job);
  for (int r = 0; r < job.n; r++) check_report(&job, r, BANYAN_OK, BANYAN_OK, "");
  job_end(&job, true);
}

int main(void) {
  setenv("BANYAN_ENCRYPT", "auto", 1); /* peers that are played by hand use plain text, as is usual within a host */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_root_is_replaced),
      cmocka_unit_test(test_root_is_lost),
      cmocka_unit_test(test_rank_is_missing),
      cmocka_unit_test(test_root_has_an_unknown_name),
      cmocka_unit_test(test_root_is_nowhere),
      cmocka_unit_test(test_joins_twice),
      cmocka_unit_test(test_key_differs_and_an_address_is_dead),
      cmocka_unit_test(test_root_is_known),
      cmocka_unit_test(test_root_is_another_process),
      cmocka_unit_test(test_root_is_chosen),
      cmocka_unit_test(test_settings_differ),
      cmocka_unit_test(test_root_is_malformed),
      cmocka_unit_test(test_death_before_the_last_joins),
      cmocka_unit_test(test_death_when_the_last_has_joined),
      cmocka_unit_test(test_abandoned_connection),
      cmocka_unit_test(test_rank_that_joins_again),
      cmocka_unit_test(test_helper_that_joins_as_rank),
      cmocka_unit_test(test_tickets),
      cmocka_unit_test(test_two_suspects),
      cmocka_unit_test(test_slow_rank_among_half_open_connections),
      cmocka_unit_test(test_visitor_at_the_end),
      cmocka_unit_test(test_leaves_when_asked),
      cmocka_unit_test(test_impossible_options),
      cmocka_unit_test(test_without_ipv6),
  };
  return cmocka_run_group_tests_name("joining", tests, NULL, NULL);
}
