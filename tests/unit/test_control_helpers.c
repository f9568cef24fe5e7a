/* Helpers that rank 0 asks for a sign of life, by a clock of the test's. */
#include "comms.h"
#include "context.h"
#include "context_events.h"
#include "control_object.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "control.h"
#include "loop.h"

/* Rank 0 of a job of one rank and one helper. */
struct job {
  struct by_context context;
  struct by_control control;
  struct by_clock clock;
  uint64_t now;
  struct by_member members[2];
  const char *names[2], *lost[2];
  bool left[2];
  struct by_control_peer *helper;
  int peer; /* the helper's end of the connection */
};

static uint64_t now_of(void *context) {
  return ((struct job *)context)->now;
}

static void came(void *context, uint16_t type, const void *payload, size_t length) {
  (void)context;
  (void)type;
  (void)payload;
  (void)length;
}

static void ended(void *context, enum banyan_status status, const char *reason) {
  (void)context;
  (void)status;
  fail_msg("the helper's connection ended: %s", reason);
}

static void connect_helper(struct job *job) {
  int fds[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  job->peer = fds[1];
  job->helper = calloc(1, sizeof *job->helper);
  assert_non_null(job->helper);
  *job->helper = (struct by_control_peer){.peers = &job->control.peers, .rank = -1, .state = BY_PEER_WAITING};
  struct by_stream_options options = {.loop = job->context.job.loop,
                                      .fd = fds[0],
                                      .most_frame = MOST_FRAME,
                                      .most_queued = MOST_QUEUED,
                                      .frame = came,
                                      .ended = ended};
  assert_ok(by_stream_create(&options, &job->helper->stream));
  job->control.peers.all = job->helper;
  by_control_peer_join(job->helper, 1);
}

static void init(struct job *job) {
  struct by_engine_options engine = {.processes = 2, .self = 0};
  *job = (struct job){.names = {"rank 0", "a helper"}, .clock = {now_of, job}};
  struct by_context *c = &job->context;
  *c = (struct by_context){
      .job = {.size = 1, .processes = 2, .places = 2, .wake = -1, .left = job->left, .lost = job->lost}};
  job->members[1] = (struct by_member){.kind = BY_MEMBER_HELPER, .host = "spare"};
  c->job.members = job->members;
  c->job.names = job->names;
  c->control = &job->control;
  by_arena_init(&c->job.arena);
  pthread_mutex_init(&c->job.lock, NULL);
  pthread_cond_init(&c->job.changed, NULL);
  assert_ok(by_loop_create(&job->clock, &c->job.loop));
  assert_ok(by_engine_create(&engine, &c->job.engine));
  struct by_control_events events = by_context_events.control;
  events.context = c;
  struct by_control_options options = {.job = &c->job, .key = &(struct by_key){{0}}, .events = events};
  assert_ok(by_control_object_init(&job->control, &options));
  connect_helper(job);
}

static void fini(struct job *job) {
  struct by_context *c = &job->context;
  by_control_object_fini(&job->control);
  close(job->peer);
  by_loop_destroy(c->job.loop);
  by_engine_destroy(c->job.engine);
  by_arena_fini(&c->job.arena);
  pthread_mutex_destroy(&c->job.lock);
  pthread_cond_destroy(&c->job.changed);
}

/* To so many seconds after the beginning. */
static void run_to(struct job *job, double seconds) {
  for (uint64_t end = by_clock_from_seconds(seconds); job->now < end; job->now += BY_SECOND / 10)
    assert_ok(by_loop_run_once(job->context.job.loop, 0));
}

/* Somebody finds no way to it. Whether it was asked now. */
static bool ask(struct job *job) {
  char bytes[64];
  by_deadlock_check_ask(&job->control.check, "", "");
  return read(job->peer, bytes, sizeof bytes) > 0;
}

static void answer(struct job *job) {
  static const uint8_t nothing[8] = {0};
  by_deadlock_check_handle(&job->control.check,
                           &(struct by_received){job->helper, DESCRIPTION, nothing, sizeof nothing});
}

static void test_answers(void **state) {
  struct job job;
  (void)state;
  init(&job);
  assert_true(ask(&job));
  run_to(&job, 4);
  answer(&job);
  run_to(&job, 20);
  assert_false(by_control_peers_has_lost(&job.control.peers, 1));
  fini(&job);
}

static void test_silent(void **state) {
  struct job job;
  (void)state;
  init(&job);
  assert_true(ask(&job));
  run_to(&job, 3);
  assert_false(ask(&job)); /* it owes that answer still */
  run_to(&job, 4.5);
  assert_false(by_control_peers_has_lost(&job.control.peers, 1));
  run_to(&job, 5.5);
  assert_true(by_control_peers_has_lost(&job.control.peers, 1));
  fini(&job);
}

/* Its host is gone between two questions, the second of which comes before the time of the first one is over: whoever
 * has asked waits for a verdict 6 s. */
static void test_gone_since(void **state) {
  struct job job;
  (void)state;
  init(&job);
  assert_true(ask(&job));
  answer(&job);
  run_to(&job, 3);
  assert_true(ask(&job));
  run_to(&job, 7.5);
  assert_false(by_control_peers_has_lost(&job.control.peers, 1));
  run_to(&job, 8.5);
  assert_true(by_control_peers_has_lost(&job.control.peers, 1));
  fini(&job);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_answers), cmocka_unit_test(test_silent),
                                     cmocka_unit_test(test_gone_since)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
