/* Tests of rank 0's part in control, by the test's clock: how it admits processes that connect, and how it checks that
 * helpers are alive. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "cluster_message.h"
#include "comm.h"
#include "control.h"
#include "control_object.h"
#include "feature.h"
#include "in_network.h"
#include "job_events.h"
#include "job_keys.h"
#include "job_state.h"
#include "key_ring.h"
#include "loop.h"

static uint64_t time_now;

static uint64_t now_of(void *context) {
  (void)context;
  return time_now;
}

static const struct by_clock clock_of_test = {now_of, NULL};

static void came(void *context, uint16_t type, const void *payload, size_t length) {
  (void)context;
  (void)type;
  (void)payload;
  (void)length;
}

static void ended(void *context, enum banyan_status status, const char *reason) {
  bool *fails = context;
  (void)status;
  if (fails) fail_msg("the helper's connection ended: %s", reason);
}

/* Opens a peer of this control object and returns the other end of its connection. `fails` is set if the end of the
 * connection is a failure. */
static int open_peer(struct by_control *control, bool *fails, struct by_control_peer **peer) {
  int fds[2];
  struct by_control_peers *peers = &control->peers;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  struct by_stream_options options = {.loop = peers->job->loop,
                                      .fd = fds[0],
                                      .max_frame = MOST_FRAME,
                                      .max_queued = MOST_QUEUED,
                                      .frame = came,
                                      .ended = ended,
                                      .context = fails};
  *peer = calloc(1, sizeof **peer);
  assert_non_null(*peer);
  **peer = (struct by_control_peer){.next = peers->all, .peers = peers, .rank = -1, .state = BY_PEER_WAITING};
  peers->all = *peer;
  assert_ok(by_stream_create(&options, &(*peer)->stream));
  return fds[1];
}

static void run(struct by_loop *loop, uint64_t milliseconds) {
  for (uint64_t end = time_now + milliseconds * BY_MILLISECOND; time_now < end; time_now += 10 * BY_MILLISECOND)
    assert_ok(by_loop_run_once(loop, 0));
}

/* ---- rank 0 of two ranks, while the job runs or starts ---- */

struct meeting {
  struct by_job job;
  struct by_control control;
  struct by_member members[3];
  struct by_control_peer *first, *again;
  int first_peer;
};

static void send_hello(struct meeting *meeting, struct by_control_peer *peer) {
  uint8_t bytes[HELLO_MOST];
  struct by_writer writer;
  struct by_join hello = {.rank = 1, .size = 2, .member = {.host = "a", .machine = "b", .local = ""}};
  by_writer_init(&writer, bytes, sizeof bytes);
  by_join_write(&writer, &hello);
  assert_false(writer.failed);
  by_meeting_opened(&meeting->control.meeting, peer, PURPOSE_CONTROL, bytes, writer.length);
}

static void begin_meeting(struct meeting *meeting, bool done) {
  *meeting = (struct meeting){.job = {.size = 2}};
  meeting->job.members = meeting->members;
  meeting->job.places = 3; /* The job also waits for a helper. */
  by_arena_init(&meeting->job.arena);
  assert_ok(by_loop_create(&clock_of_test, &meeting->job.loop));
  assert_ok(by_key_ring_create(JOB_KEY, NULL, NULL, &meeting->job.keys));
  assert_ok(by_features_attach(&meeting->job));
  struct by_control_events events = by_job_events.control;
  events.context = &meeting->job;
  struct by_control_join_options options = {.job = &meeting->job, .events = events};
  assert_ok(by_control_object_init(&meeting->control, &options));
  meeting->control.meeting.done = done;
  meeting->control.meeting.joined = 1;
  meeting->first_peer = open_peer(&meeting->control, NULL, &meeting->first);
  by_control_peer_join(meeting->first, 1);
}

static void end_meeting(struct meeting *meeting) {
  by_features_detach(&meeting->job);
  by_control_object_fini(&meeting->control);
  by_features_fini(&meeting->job);
  if (meeting->first_peer >= 0) close(meeting->first_peer);
  by_loop_destroy(meeting->job.loop);
  by_key_ring_destroy(meeting->job.keys);
  by_arena_fini(&meeting->job.arena);
}

/* Connects once more as rank 1. Returns the answer: REFUSED, or 0 if the connection was closed without one, after
 * which the process will try again. */
static int connect_again(struct meeting *meeting) {
  uint8_t bytes[1000];
  int peer = open_peer(&meeting->control, NULL, &meeting->again);
  send_hello(meeting, meeting->again);
  run(meeting->job.loop, 20);
  ssize_t n = read(peer, bytes, sizeof bytes);
  assert_true(n == 0 || n > 6);
  close(peer);
  by_control_peer_detach(meeting->again);
  by_control_peer_destroy(meeting->again);
  return n ? bytes[4] : 0;
}

static void test_two_of_a_rank(void **state) {
  struct meeting meeting;
  (void)state;
  for (int done = 0; done < 2; done++) {
    begin_meeting(&meeting, done);
    assert_int_equal(connect_again(&meeting), 0);
    run(meeting.job.loop, 500);
    assert_int_equal(connect_again(&meeting), 0);
    run(meeting.job.loop, 1000);
    assert_int_equal(connect_again(&meeting), REFUSED);
    end_meeting(&meeting);
  }
}

/* A process's LEAVING message, or the end of its connection, is overtaken by its next connection. */
static void test_message_comes_late(void **state) {
  struct meeting meeting;
  (void)state;
  begin_meeting(&meeting, true);
  assert_int_equal(connect_again(&meeting), 0);
  run(meeting.job.loop, 500);
  by_control_peer_set_state(meeting.first, BY_PEER_LEAVING);
  run(meeting.job.loop, 5000);
  assert_int_equal(connect_again(&meeting), 0); /* The job continues without it. */
  end_meeting(&meeting);
  begin_meeting(&meeting, false);
  assert_int_equal(connect_again(&meeting), 0);
  close(meeting.first_peer);
  meeting.first_peer = -1;
  meeting.control.peers.of_process[1] = NULL; /* This is what rank_left does. */
  int peer = open_peer(&meeting.control, NULL, &meeting.again);
  send_hello(&meeting, meeting.again);
  assert_ptr_equal(meeting.control.peers.of_process[1], meeting.again);
  close(peer);
  end_meeting(&meeting);
}

/* ---- helpers that are asked whether they are alive ---- */

/* Rank 0 of a job of one rank and one helper. */
struct job {
  struct by_job job;
  struct by_control control;
  struct by_member members[2];
  const char *names[2], *lost[2];
  bool left[2];
  struct by_control_peer *helper;
  int peer; /* The helper's end of the connection. */
};

static void init(struct job *job) {
  static bool fails = true;
  time_now = 0;
  struct by_engine_options engine = {.processes = 2, .self = 0};
  *job = (struct job){.names = {"rank 0", "a helper"}};
  struct by_job *c = &job->job;
  *c = (struct by_job){.size = 1, .processes = 2, .places = 2, .wake = -1, .left = job->left, .lost = job->lost};
  job->members[1] = (struct by_member){.kind = BY_MEMBER_HELPER, .host = "spare"};
  c->members = job->members;
  c->names = job->names;
  c->control = &job->control;
  by_arena_init(&c->arena);
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->changed, NULL);
  assert_ok(by_loop_create(&clock_of_test, &c->loop));
  assert_ok(by_key_ring_create(JOB_KEY, NULL, NULL, &c->keys));
  assert_ok(by_engine_create(&engine, &c->engine));
  assert_ok(by_features_attach(c));
  struct by_control_events events = by_job_events.control;
  events.context = c;
  struct by_control_join_options options = {.job = c, .events = events};
  assert_ok(by_control_object_init(&job->control, &options));
  job->peer = open_peer(&job->control, &fails, &job->helper);
  by_control_peer_join(job->helper, 1);
}

static void fini(struct job *job) {
  struct by_job *c = &job->job;
  by_features_detach(c);
  by_control_object_fini(&job->control);
  by_features_fini(c);
  close(job->peer);
  by_loop_destroy(c->loop);
  by_key_ring_destroy(c->keys);
  by_engine_destroy(c->engine);
  by_arena_fini(&c->arena);
  pthread_mutex_destroy(&c->lock);
  pthread_cond_destroy(&c->changed);
}

/* Advances the clock to the given number of seconds after the beginning. */
static void run_to(struct job *job, double seconds) {
  for (uint64_t end = by_clock_from_seconds(seconds); time_now < end; time_now += BY_SECOND / 10)
    assert_ok(by_loop_run_once(job->job.loop, 0));
}

/* Reports that a process cannot reach the helper. Returns whether the helper was asked now. */
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
  assert_false(ask(&job)); /* The helper has not answered the last question yet. */
  run_to(&job, 4.5);
  assert_false(by_control_peers_has_lost(&job.control.peers, 1));
  run_to(&job, 5.5);
  assert_true(by_control_peers_has_lost(&job.control.peers, 1));
  fini(&job);
}

/* The helper's host is lost between two questions, and the second is asked before the timeout of the first: the
 * process that asked waits 6 s for a verdict. */
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

/* ---- what helpers have refused ---- */

static void send_refusals(struct job *job, uint64_t keys, size_t length) {
  struct by_refusals_message message = {.counts = {[BY_REFUSED_KEY] = keys, [BY_REFUSED_EVICTED] = 7}};
  uint8_t bytes[BY_REFUSALS_BYTES];
  struct by_writer writer;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_refusals_message_write(&writer, &message);
  assert_int_equal(writer.length, BY_REFUSALS_BYTES);
  by_control_refusals_handle(&job->control.refusals, &(struct by_received){job->helper, REFUSALS, bytes, length});
}

/* The last counts that can be read are kept, and of a helper only. */
static void test_refusals_of_helpers(void **state) {
  struct job job;
  (void)state;
  init(&job);
  assert_null(by_control_get_refusals(&job.control, 1));
  send_refusals(&job, 3, BY_REFUSALS_BYTES);
  send_refusals(&job, 5, BY_REFUSALS_BYTES);
  send_refusals(&job, 9, BY_REFUSALS_BYTES - 1);
  assert_int_equal(by_control_get_refusals(&job.control, 1)->counts[BY_REFUSED_KEY], 5);
  assert_int_equal(by_control_get_refusals(&job.control, 1)->counts[BY_REFUSED_EVICTED], 7);
  job.helper->rank = 0; /* a rank counts for itself */
  send_refusals(&job, 1, BY_REFUSALS_BYTES);
  job.helper->rank = 1;
  assert_null(by_control_get_refusals(&job.control, 0));
  assert_null(by_control_get_refusals(&job.control, 1000));
  fini(&job);
}

/* A helper sends its counts when they have changed, and only then. */
static void test_refusals_are_sent(void **state) {
  struct job job;
  uint8_t bytes[2 * BY_REFUSALS_BYTES];
  (void)state;
  init(&job);
  job.job.role.kind = BY_MEMBER_HELPER;
  job.job.rank = 1;
  job.helper->rank = 0; /* the peer is rank 0 now */
  by_control_refusals_fini(&job.control.refusals);
  by_control_refusals_init(&job.control.refusals, &job.control.peers);
  by_refusal_count(BY_REFUSED_KEY);
  run_to(&job, 6);
  assert_int_equal(read(job.peer, bytes, sizeof bytes), 6 + BY_REFUSALS_BYTES);
  assert_int_equal(bytes[4], REFUSALS);
  struct by_refusals_message message;
  assert_ok(by_refusals_message_read(bytes + 6, BY_REFUSALS_BYTES, &message));
  assert_int_equal(message.counts[BY_REFUSED_KEY], by_refusals(BY_REFUSED_KEY));
  run_to(&job, 30);
  assert_int_equal(read(job.peer, bytes, sizeof bytes), -1);
  by_refusal_count(BY_REFUSED_LATE);
  run_to(&job, 36);
  assert_int_equal(read(job.peer, bytes, sizeof bytes), 6 + BY_REFUSALS_BYTES);
  job.helper->rank = 1;
  fini(&job);
}

/* ---- in-network trees at rank 0 ---- */

static const char tree_plan[] =
    "{\"format\": \"banyan-plan 1\", \"name\": \"one\", \"ranks\": 2, \"vertices\": {\"h/0\": {\"kind\": \"server\"}, "
    "\"s1\": {\"kind\": \"switch\"}}, \"trees\": [{\"share\": 1, \"root\": \"h/0\", \"up\": {\"0\": \"s1\", \"1\": "
    "\"s1\", "
    "\"s1\": \"h/0\"}, \"ports\": {\"s1\": {\"0\": \"lo\", \"1\": \"lo\", \"h/0\": \"lo\"}}}]}";

static bool is_there(void *context) {
  (void)context;
  return true;
}

static void reserve(void *context, const struct by_cluster_cells *cells, uint32_t n) {
  (void)context;
  assert_true(!n || !strcmp(cells[0].at, "s1"));
}

/* Sets up the trees of tree_plan under this version; the manager is asked for cells. */
static void prepare_trees(struct meeting *meeting, uint32_t version) {
  static const uint32_t processes[] = {0, 1};
  struct by_plan *plan;
  uint32_t helpers[2];
  assert_ok(by_plan_named(tree_plan, 2, &plan));
  for (uint32_t v = 2; v < plan->n_vertices; v++)
    helpers[v - 2] = plan->vertices[v].kind == BY_VERTEX_SERVER ? 2 : UINT32_MAX;
  struct by_tree_wanted wanted = {.version = version, .plan = plan, .processes = processes, .helpers = helpers};
  assert_ok(by_trees_prepare(&by_in_network_of(&meeting->job)->trees, &wanted));
  by_plan_destroy(plan);
}

/* A plan is withdrawn while the manager is asked for its cells, and it answers after its trees are gone: those of the
 * other plan that it was asked for get their cells. */
static void test_answer_for_trees_that_are_gone(void **state) {
  struct meeting meeting;
  struct by_cluster_cells cells[] = {{.at = "s1", .slots = 300}, {.at = "s1", .slots = 300}};
  (void)state;
  begin_meeting(&meeting, true);
  struct by_trees *trees = &by_in_network_of(&meeting.job)->trees;
  meeting.control.events.has_manager = meeting.control.events.may_answer = is_there;
  meeting.control.events.reservation = reserve;
  meeting.job.settings.sums = "fixed";
  meeting.job.settings.switches = "s1=127.0.0.1:1";
  for (int m = 0; m < 3; m++) meeting.members[m] = (struct by_member){.host = "a", .machine = "b", .udp_port = 7612};
  prepare_trees(&meeting, 1);
  prepare_trees(&meeting, 2);
  by_trees_withdraw(trees, 1);
  run(meeting.job.loop, 20);
  assert_non_null(LIST_FIRST(&trees->sets));
  assert_null(LIST_NEXT(LIST_FIRST(&trees->sets), entry));
  assert_int_equal(trees->switches.trees->stage, BY_TREE_PLANNED);
  by_trees_handle_cells(trees, cells, 2);
  assert_int_equal(trees->switches.trees->stage, BY_TREE_ASKED);
  assert_int_equal(trees->switches.trees->parts[0].allowed, 300);
  end_meeting(&meeting);
}

/* No two trees get the same number: where many are there, one in 64 would be taken. */
static void test_numbers_of_trees(void **state) {
  enum { TREES = 1024, TRIES = 4000 };
  struct by_switches switches = {0};
  static bool taken[1 << 16];
  (void)state;
  for (int i = 0; i < TREES; i++) {
    struct by_in_network_tree *tree = calloc(1, sizeof *tree);
    assert_non_null(tree);
    tree->ends.job = (uint16_t)(64 * i + 1);
    tree->next = switches.trees;
    taken[tree->ends.job] = true;
    switches.trees = tree;
  }
  struct by_in_network_tree *first = switches.trees;
  taken[first->ends.job] = false;
  for (int i = 0; i < TRIES; i++) {
    assert_ok(by_switches_choose_numbers(&switches, first));
    assert_false(taken[first->ends.job]);
  }
  while (switches.trees) {
    first = switches.trees->next;
    free(switches.trees);
    switches.trees = first;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_two_of_a_rank),     cmocka_unit_test(test_message_comes_late),
      cmocka_unit_test(test_answers),           cmocka_unit_test(test_silent),
      cmocka_unit_test(test_gone_since),        cmocka_unit_test(test_refusals_of_helpers),
      cmocka_unit_test(test_refusals_are_sent), cmocka_unit_test(test_answer_for_trees_that_are_gone),
      cmocka_unit_test(test_numbers_of_trees)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
