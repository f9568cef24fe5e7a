/* Golden bytes of control messages as they cross a connection, with length and type: messages of rank 0 (WELCOME,
 * REFUSED, FAILED, LOST, LEAVING, LEFT, DESCRIBE, CLASS, LISTEN, JOINED, PLAN, MOVE) and of other processes (ASK,
 * DESCRIPTION, SUSPECT, FAILED, KNOWN, LISTEN), for a job of two ranks and a helper. Each message is sent into a
 * socket pair by the part of control that sends it in a job; the receiving part reads it, and the result is checked.
 *
 * golden_payloads.c has the payloads of TREE and TIMELINE; the numbers of all types are listed here. */
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "comm.h"
#include "connection.h"
#include "control_object.h"
#include "feature.h"
#include "golden.h"
#include "job_events.h"
#include "job_keys.h"
#include "job_life.h"
#include "key_ring.h"
#include "loop.h"
#include "socket.h"

enum { RANKS = 2, HELPER = 2, PROCESSES = 3, ROOM = 8, MOST = 4096, HEAD = 6 };

/* One process's control. */
struct job {
  struct by_job job;
  struct by_control control;
  struct by_connector connector;
  struct by_clock clock;
  struct by_member members[ROOM];
  struct by_address address;
  const char *names[ROOM], *lost[ROOM];
  bool left[ROOM];
  struct by_team *team;
  struct by_control_peer *ends[PROCESSES];
  int peers[PROCESSES]; /* The sockets of the other ends, or -1 where there is no connection. */
};

struct sent {
  size_t n;
  uint8_t bytes[MOST];
};

/* ---- the job ---- */

static uint64_t now_of(void *context) {
  (void)context;
  return BY_SECOND;
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
  (void)reason;
}

static void connect_end(struct job *job, uint32_t process) {
  int fds[2];
  struct by_control_peer *peer = calloc(1, sizeof *peer);
  assert_non_null(peer);
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  job->peers[process] = fds[1];
  job->ends[process] = peer;
  *peer = (struct by_control_peer){
      .next = job->control.peers.all, .peers = &job->control.peers, .rank = process, .state = BY_PEER_WAITING};
  job->control.peers.all = peer;
  struct by_stream_options options = {.loop = job->job.loop,
                                      .fd = fds[0],
                                      .max_frame = MOST_FRAME,
                                      .max_queued = MOST_QUEUED,
                                      .frame = came,
                                      .ended = ended};
  assert_ok(by_stream_create(&options, &peer->stream));
  by_control_peer_set_state(peer, BY_PEER_JOINED);
  if (job->job.rank == 0) job->control.peers.of_process[process] = peer;
}

static void make_members(struct job *job) {
  assert_ok(by_address_parse("10.0.0.1:5000", &job->address));
  for (uint32_t i = 0; i < PROCESSES; i++) {
    job->members[i] = (struct by_member){.kind = i == HELPER ? BY_MEMBER_HELPER : BY_MEMBER_RANK,
                                         .host = i == HELPER ? "spare"
                                                 : i         ? "node-b"
                                                             : "node-a",
                                         .machine = "boot net:1 pid:2",
                                         .local = i == HELPER ? "" : "banyan-77-0123456789abcdef",
                                         .pid = 77 + i,
                                         .cores = 64,
                                         .eager_limit = 1 << 20,
                                         .credit = 4 << 20,
                                         .mtu = 1500,
                                         .n_addresses = i == 1,
                                         .addresses = i == 1 ? &job->address : NULL};
    job->names[i] = i == HELPER ? "helper 0 (host spare)" : i ? "rank 1 (host node-b)" : "rank 0 (host node-a)";
  }
}

static void make_engine(struct job *job) {
  static const uint32_t all[RANKS] = {0, 1};
  struct by_engine_options options = {
      .clock = job->clock, .processes = PROCESSES, .ranks = RANKS, .self = job->job.rank};
  struct by_plan *plan;
  assert_ok(by_engine_create(&options, &job->job.engine));
  assert_ok(by_team_create(job->job.engine, 5, job->job.rank, RANKS, all, &job->team));
  assert_ok(by_plan_builtin("star", RANKS, &plan));
  by_team_set_plan(job->team, plan);
}

static void begin(struct job *job, uint32_t rank) {
  *job = (struct job){.clock = {now_of, NULL}, .peers = {-1, -1, -1}};
  struct by_job *c = &job->job;
  struct by_control *control = &job->control;
  *c = (struct by_job){.rank = rank, .size = RANKS, .processes = PROCESSES, .room = ROOM, .places = PROCESSES};
  c->settings.class_ = c->settings.tos = -1;
  c->wake = -1;
  c->class_ = -1;
  c->left = job->left;
  c->lost = job->lost;
  make_members(job);
  c->members = job->members;
  c->names = job->names;
  c->control = control;
  c->connector = &job->connector;
  job->connector.job = c;
  pthread_mutex_init(&job->connector.lock, NULL);
  by_arena_init(&c->arena);
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->changed, NULL);
  assert_ok(by_loop_create(&job->clock, &c->loop));
  assert_ok(by_key_ring_create(JOB_KEY, NULL, NULL, &c->keys));
  make_engine(job);
  assert_ok(by_features_attach(c));
  struct by_control_events events = by_job_events.control;
  events.context = c;
  struct by_control_join_options options = {.job = c, .connector = c->connector, .events = events};
  assert_ok(by_control_object_init(control, &options));
  control->meeting.done = true;
  control->meeting.joined = RANKS;
  control->meeting.helpers = PROCESSES - RANKS;
  for (uint32_t p = 0; p < PROCESSES; p++)
    assert_true(by_control_peers_set_member(&control->peers, p, BY_MEMBER_JOINED));
  for (uint32_t process = PROCESSES; process-- > 0;)
    if (rank == 0 ? process > 0 : process == 0) connect_end(job, process);
}

static void finish(struct job *job) {
  struct by_control *control = &job->control;
  struct by_job *c = &job->job;
  by_features_detach(c);
  by_control_object_fini(control);
  by_features_fini(c);
  for (uint32_t i = 0; i < PROCESSES; i++)
    if (job->peers[i] >= 0) close(job->peers[i]);
  for (uint32_t i = 0; i < job->connector.n_targets; i++) {
    by_target_fini(job->connector.targets[i]);
    free(job->connector.targets[i]);
  }
  free(job->connector.targets);
  pthread_mutex_destroy(&job->connector.lock);
  by_engine_destroy(c->engine);
  by_loop_destroy(c->loop);
  by_key_ring_destroy(c->keys);
  by_arena_fini(&c->arena);
  pthread_mutex_destroy(&c->lock);
  pthread_cond_destroy(&c->changed);
}

/* Takes what has been sent to a process, which is one message of this type. */
static struct sent take(struct job *job, uint32_t process, enum message type) {
  struct sent message;
  ssize_t n = read(job->peers[process], message.bytes, sizeof message.bytes);
  if (n < HEAD) fail_msg("process %u has been sent nothing", process);
  message.n = (size_t)n;
  assert_int_equal(by_get_u32(message.bytes), message.n - HEAD);
  assert_int_equal(by_get_u16(message.bytes + 4), type);
  return message;
}

static struct sent keep(struct job *job, uint32_t process, enum message type, const char *name) {
  struct sent message = take(job, process, type);
  golden_bytes(name, message.bytes, message.n);
  return message;
}

static void run(struct job *job) {
  assert_ok(by_loop_run_once(job->job.loop, 0));
}

/* ---- joining ---- */

static void check_members(const struct by_job *job, const struct sent *message) {
  uint8_t bytes[MOST];
  struct by_writer writer;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_write_u32(&writer, job->size);
  by_write_u32(&writer, job->rank);
  by_write_u32(&writer, job->processes);
  for (uint32_t i = 0; i < job->processes; i++) by_member_write(&writer, &job->members[i]);
  by_write_u64(&writer, job->membership);
  assert_memory_equal(bytes, message->bytes + HEAD, writer.length);
  assert_int_equal(writer.length + sizeof(struct by_key) + 4, message->n - HEAD);
  /* no links to helpers begin at ranks */
  assert_int_equal(by_get_u32(message->bytes + message->n - 4), 0);
}

static void test_welcome(void **state) {
  static struct job root, rank;
  (void)state;
  begin(&root, 0);
  begin(&rank, 1);
  root.control.meeting.links = (struct by_key){"a key of links"};
  rank.ends[0]->secret = root.ends[1]->secret = (struct by_key){"a secret of rank 1"};
  root.ends[HELPER]->secret = (struct by_key){"a secret of the helper"};
  by_meeting_welcome(&root.control.meeting);
  struct sent message = keep(&root, 1, WELCOME, "WELCOME to rank 1");
  by_meeting_handle_welcome(&rank.control.meeting,
                            &(struct by_received){rank.ends[0], WELCOME, message.bytes + HEAD, message.n - HEAD});
  assert_ok(rank.control.deaths.status);
  check_members(&rank.job, &message);
  assert_memory_equal(&rank.connector.links, &root.control.meeting.links, sizeof rank.connector.links);
  (void)keep(&root, HELPER, WELCOME, "WELCOME to the helper");
  finish(&root);
  finish(&rank);
}

static void test_refused(void **state) {
  static struct job root;
  (void)state;
  begin(&root, 0);
  by_control_peer_refuse(root.ends[1], BANYAN_ERR_ARGUMENT, "rank 1 was started twice");
  (void)keep(&root, 1, REFUSED, "REFUSED");
  finish(&root);
}

static void test_newcomer(void **state) {
  static struct job root, rank;
  struct by_member member;
  struct by_control_peer newcomer = {.peers = &root.control.peers, .rank = -1};
  (void)state;
  begin(&root, 0);
  begin(&rank, 1);
  member = root.members[HELPER];
  member.host = "late";
  by_helpers_join(&root.control.helpers, &newcomer, &member);
  struct sent message = keep(&root, 1, JOINED, "JOINED");
  by_helpers_handle(&rank.control.helpers,
                    &(struct by_received){rank.ends[0], JOINED, message.bytes + HEAD, message.n - HEAD});
  assert_int_equal(rank.job.processes, PROCESSES + 1);
  assert_string_equal(rank.job.members[PROCESSES].host, "late");
  (void)keep(&rank, 0, KNOWN, "KNOWN");
  finish(&root);
  finish(&rank);
}

/* ---- the next membership ---- */

static char followed[64], ticket_text[BY_TICKET_TEXT];

static void follow(void *context, const char *root, const char *ticket) {
  (void)context;
  snprintf(followed, sizeof followed, "%s", root);
  snprintf(ticket_text, sizeof ticket_text, "%s", ticket);
}

static void test_follow(void **state) {
  static struct job root, helper;
  static const char place[] = "10.0.0.2:4001,[fd00::2]:4001";
  (void)state;
  begin(&root, 0);
  begin(&helper, HELPER);
  struct by_control_report *report = calloc(1, sizeof *report + sizeof place);
  assert_non_null(report);
  report->context = &root.control.helpers;
  report->length = strlen(place);
  memcpy(report->bytes, place, report->length);
  by_helpers_send_follow(report);
  free(report);
  struct sent message = take(&root, HELPER, FOLLOW), shown = message;
  memset(shown.bytes + shown.n - BY_TICKET_HEAD - 32, 0, BY_TICKET_HEAD + 32); /* another one each time */
  golden_bytes("FOLLOW", shown.bytes, shown.n);
  helper.job.role.follow = follow;
  by_helpers_handle(&helper.control.helpers,
                    &(struct by_received){helper.ends[0], FOLLOW, message.bytes + HEAD, message.n - HEAD});
  assert_string_equal(followed, place);
  struct by_ticket ticket;
  struct by_key secret;
  uint64_t now = (uint64_t)time(NULL);
  assert_ok(by_ticket_parse(ticket_text, &ticket));
  assert_ok(by_ticket_check(ticket.head, &(struct by_ticket_subject){BY_TICKET_HELPER, "spare"}, now));
  assert_int_equal(by_ticket_check(ticket.head, &(struct by_ticket_subject){BY_TICKET_HELPER, "spare"}, now + 3700),
                   BANYAN_ERR_AUTH);
  struct by_job_keys keys;
  by_key_ring_get(root.job.keys, &keys);
  assert_ok(by_ticket_prove(&keys.tickets, ticket.head, &secret));
  assert_memory_equal(&secret, &ticket.secret, sizeof secret);
  assert_null(memmem(message.bytes, message.n, &secret, sizeof secret)); /* others may read the message */
  ticket_text[0] = followed[0] = '\0';
  for (size_t n = 0; n < message.n - HEAD; n++) /* cut anywhere, and without anything */
    by_helpers_handle(&helper.control.helpers, &(struct by_received){helper.ends[0], FOLLOW, message.bytes + HEAD, n});
  by_helpers_handle(&helper.control.helpers, &(struct by_received){helper.ends[0], FOLLOW, "nowhere", 7});
  assert_string_equal(followed, "");
  finish(&root);
  finish(&helper);
}

/* ---- failing ---- */

static void test_failures(void **state) {
  static struct job root, rank;
  (void)state;
  begin(&root, 0);
  begin(&rank, 1);
  by_deaths_fail(&root.control.deaths, BANYAN_ERR_TIMEOUT, 1, "call 7 is late");
  (void)keep(&root, 1, FAILED, "FAILED from rank 0");
  by_deaths_suspect(&rank.control.deaths, HELPER, "the link to helper 0 ended");
  (void)keep(&rank, 0, SUSPECT, "SUSPECT");
  by_deaths_fail(&rank.control.deaths, BANYAN_ERR_ABORTED, UINT32_MAX, "the program gave up");
  (void)keep(&rank, 0, FAILED, "FAILED from a rank");
  finish(&root);
  finish(&rank);
}

static void test_lost(void **state) {
  static struct job root, rank;
  (void)state;
  begin(&root, 0);
  begin(&rank, 1);
  by_deaths_lose(&root.control.deaths, HELPER, "it closed its connection");
  struct sent message = keep(&root, 1, LOST, "LOST");
  by_helpers_handle(&rank.control.helpers,
                    &(struct by_received){rank.ends[0], LOST, message.bytes + HEAD, message.n - HEAD});
  assert_non_null(rank.lost[HELPER]);
  finish(&root);
  finish(&rank);
}

/* ---- leaving ---- */

static void *run_loop(void *argument) {
  struct job *job = argument;
  while (!atomic_load(&job->control.peers.leaving))
    if (by_loop_run_once(job->job.loop, BY_MILLISECOND) != BANYAN_OK) break;
  return NULL;
}

static void test_leaving(void **state) {
  static struct job root, rank;
  pthread_t thread;
  (void)state;
  begin(&root, 0);
  begin(&rank, 1);
  by_notices_handle_leaving(&root.control.notices, 1);
  by_notices_send_left(&root.control.notices);
  (void)keep(&root, HELPER, LEFT, "LEFT");
  assert_int_equal(pthread_create(&thread, NULL, run_loop, &rank), 0);
  by_control_leave(&rank.control);
  assert_int_equal(pthread_join(thread, NULL), 0);
  (void)keep(&rank, 0, LEAVING, "LEAVING");
  finish(&root);
  finish(&rank);
}

static void test_left_is_read(void **state) {
  static struct job root, rank;
  (void)state;
  begin(&root, 0);
  begin(&rank, 1);
  rank.job.size = PROCESSES; /* This is a job of three ranks. */
  by_notices_handle_leaving(&root.control.notices, HELPER);
  by_notices_send_left(&root.control.notices);
  struct sent message = take(&root, 1, LEFT);
  by_notices_handle_left(&rank.control.notices,
                         &(struct by_received){rank.ends[0], LEFT, message.bytes + HEAD, message.n - HEAD});
  assert_true(by_control_peers_has_left(&rank.control.peers, HELPER));
  finish(&root);
  finish(&rank);
}

/* ---- deadlock checks ---- */

static struct by_call *start(struct job *job, enum banyan_collective what, size_t count) {
  static float memory[8];
  struct banyan_call call = {
      .collective = what, .dtype = BANYAN_FLOAT32, .op = BANYAN_MAX, .send = memory, .recv = memory, .count = count};
  struct by_call *out;
  call.tag = what == BANYAN_SEND ? 3 : 0;
  assert_ok(by_engine_start(job->team, &call, 0, &out));
  return out;
}

/* Makes a communicator of this process alone, whose only call has ended. */
static void call_alone(struct job *job) {
  struct banyan_call call = {.collective = BANYAN_BARRIER, .dtype = BANYAN_UINT8};
  struct by_team *alone;
  struct by_plan *plan;
  struct by_call *ended_call;
  assert_ok(by_team_create(job->job.engine, 6, 0, 1, &job->job.rank, &alone));
  assert_ok(by_plan_builtin("star", 1, &plan));
  by_team_set_plan(alone, plan);
  assert_ok(by_engine_start(alone, &call, 0, &ended_call));
  by_engine_progress(job->job.engine);
  assert_true(by_call_ended(ended_call));
  by_call_release(ended_call);
}

/* A rank that loses large packets to rank 0, which therefore does not answer: both are named, and the MTU. */
static void judge_unreached(struct by_job *job, const uint8_t *answer, size_t length) {
  static const struct by_unreached_list list = {
      .n = 2,
      .all = {{.to = 0, .milliseconds = 6000, .packet = 8948, .way = "on the connection from a to b (MTU 9000)"},
              {.to = 2, .milliseconds = 9000, .way = "no connection to c"}}};
  struct by_deadlock_round *round;
  struct by_writer writer;
  uint8_t bytes[1024];
  char text[600];
  uint32_t culprit;
  assert_true(length < sizeof bytes / 2);
  memcpy(bytes, answer, length);
  by_writer_init(&writer, bytes + length, sizeof bytes - length);
  by_unreached_write(&writer, &list);
  golden_bytes("DESCRIPTION, who is not reached", bytes + length, writer.length);
  assert_ok(by_deadlock_round_create(job, &round));
  assert_false(by_deadlock_round_answer(round, 1, bytes, length + writer.length));
  by_deadlock_round_late(round, "call 0 is late", "rank 1");
  assert_status(by_deadlock_round_judge(round, &culprit, text, sizeof text), BANYAN_ERR_CONNECT);
  assert_int_equal(culprit, 0);
  for (const char *const *part = (const char *const[]){"rank 1 (host node-b) and rank 0 (host node-a)", "MTU 9000",
                                                       "8948 bytes", "6 s", "tcp_mtu_probing", NULL};
       *part; part++)
    if (!strstr(text, *part)) fail_msg("no \"%s\" in: %s", *part, text);
  by_deadlock_round_destroy(round);
}

static void test_deadlock_check(void **state) {
  static struct job root, rank;
  char text[400];
  uint32_t culprit;
  (void)state;
  begin(&root, 0);
  begin(&rank, 1);
  for (uint32_t p = 0; p < PROCESSES; p++) /* The processes must exist, else they are suspected. */
    root.members[p].pid = rank.members[p].pid = (uint32_t)getpid();
  by_deadlock_check_ask(&rank.control.check, "call 0 is late", "rank 0 (host node-a)");
  (void)keep(&rank, 0, ASK, "ASK");
  by_deadlock_check_ask(&root.control.check, "call 0 is late", "rank 1 (host node-b)");
  struct sent question = keep(&root, 1, DESCRIBE, "DESCRIBE");
  call_alone(&rank);
  struct by_call *calls[2] = {start(&rank, BANYAN_ALLREDUCE, 5), start(&rank, BANYAN_SEND, 4)};
  by_deadlock_check_handle(&rank.control.check,
                           &(struct by_received){rank.ends[0], DESCRIBE, question.bytes + HEAD, question.n - HEAD});
  struct sent answer = keep(&rank, 0, DESCRIPTION, "DESCRIPTION");
  assert_true(by_deadlock_round_answer(root.control.check.round, 1, answer.bytes + HEAD + 4, answer.n - HEAD - 4));
  assert_status(by_deadlock_round_judge(root.control.check.round, &culprit, text, sizeof text), BANYAN_ERR_TIMEOUT);
  assert_int_equal(culprit, 0); /* This process has made no such call. */
  judge_unreached(&root.job, answer.bytes + HEAD + 4, answer.n - HEAD - 4);
  for (int i = 0; i < 2; i++) by_call_release(calls[i]);
  finish(&root);
  finish(&rank);
}

/* ---- while the job runs ---- */

static void test_class(void **state) {
  static struct job root, rank;
  (void)state;
  begin(&root, 0);
  begin(&rank, 1);
  by_control_send_class(&root.control, 2, true);
  struct sent message = keep(&root, 1, CLASS, "CLASS");
  by_notices_handle_class(&rank.control.notices,
                          &(struct by_received){rank.ends[0], CLASS, message.bytes + HEAD, message.n - HEAD});
  assert_int_equal(rank.job.class_, 2);
  finish(&root);
  finish(&rank);
}

/* Without engines, no connection is accepted here. */
static void test_listen(void **state) {
  static struct job job;
  (void)state;
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    begin(&job, rank);
    by_engine_destroy(job.job.engine);
    job.job.engine = NULL;
    by_control_have_listen(&job.control);
    run(&job);
    (void)keep(&job, 1 - rank, LISTEN, rank ? "LISTEN from a rank" : "LISTEN from rank 0");
    finish(&job);
  }
}

static void test_plans(void **state) {
  static struct job root;
  struct by_plan_switch_message fix = {.kind = BY_PLAN_SWITCH_FIX, .comm = 5, .number = 1, .at = 9, .text = ""};
  (void)state;
  begin(&root, 0);
  by_control_send_plan(&root.control, "the plan's bytes", 16);
  run(&root);
  (void)keep(&root, HELPER, PLAN, "PLAN");
  by_control_send_plan_switch(root.ends[1], &fix);
  (void)keep(&root, 1, PLAN_SWITCH, "MOVE");
  finish(&root);
}

static void test_numbers(void **state) {
  static const struct {
    const char *name;
    enum message type;
  } types[] = {{"WELCOME", WELCOME},
               {"REFUSED", REFUSED},
               {"FAILED", FAILED},
               {"SUSPECT", SUSPECT},
               {"LEAVING", LEAVING},
               {"ASK", ASK},
               {"DESCRIBE", DESCRIBE},
               {"DESCRIPTION", DESCRIPTION},
               {"LEFT", LEFT},
               {"PLAN", PLAN},
               {"LOST", LOST},
               {"TREE", TREE},
               {"MOVE", PLAN_SWITCH},
               {"LISTEN", LISTEN},
               {"CLASS", CLASS},
               {"JOINED", JOINED},
               {"KNOWN", KNOWN},
               {"TREE_ASK", TREE_ASK},
               {"TREE_REPORT", TREE_REPORT},
               {"TIMELINE", TIMELINE},
               {"PATHS", PATHS},
               {"NETWORK", NETWORK},
               {"FOLLOW", FOLLOW},
               {"purpose", (enum message)PURPOSE_CONTROL}};
  struct by_text text;
  (void)state;
  by_text_init(&text);
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    by_text_add(&text, "%s%s %d", i ? ", " : "", types[i].name, (int)types[i].type);
  golden_line("numbers of types", by_text_get(&text));
  by_text_fini(&text);
}

int golden_control(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_welcome),      cmocka_unit_test(test_refused),        cmocka_unit_test(test_newcomer),
      cmocka_unit_test(test_failures),     cmocka_unit_test(test_lost),           cmocka_unit_test(test_leaving),
      cmocka_unit_test(test_left_is_read), cmocka_unit_test(test_deadlock_check), cmocka_unit_test(test_class),
      cmocka_unit_test(test_listen),       cmocka_unit_test(test_plans),          cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_follow),       cmocka_unit_test(golden_end),
  };
  golden_begin("control", "Control messages with their length and type.");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
