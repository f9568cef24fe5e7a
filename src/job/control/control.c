/* The control object: creates its parts, passes control messages on to them, and offers their functions to the job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control_object.h"
#include "control_plan_wants.h"
#include "formation.h"
#include "job_state.h"
#include "log.h"

/* ---- messages */

static void lose_process(const struct by_control *control, uint32_t process) {
  if (control->events.process_lost) control->events.process_lost(control->events.context, process);
}

static void handle_leaving(void *context, const struct by_received *message) {
  struct by_control *control = context;
  struct by_control_peers *peers = &control->peers;
  struct by_control_peer *peer = message->peer;
  by_control_peer_set_state(peer, BY_PEER_LEAVING);
  by_helpers_forget(&control->helpers, peer);
  if (!by_control_peers_is_root(peers)) atomic_store(&peers->deaf, true);
  if (by_control_peers_is_root(peers) && by_control_peers_is_helper(peers, peer->rank))
    by_deaths_lose(&control->deaths, (uint32_t)peer->rank, "it left");
  else if (peer->rank >= 0)
    by_notices_handle_leaving(&control->notices, (uint32_t)peer->rank);
  if (by_control_peers_is_root(peers) && peer->rank > 0) lose_process(control, (uint32_t)peer->rank);
  by_timeline_lost(control->timeline);
}

static void handle_text(void *context, const struct by_received *message) {
  struct by_control *control = context;
  struct by_text_message text;
  if (by_text_message_read(message->payload, message->length, &text) != BANYAN_OK)
    by_warn("control", "%s: malformed message; ignored", by_stream_get_name(message->peer->stream));
  else if (message->type != REFUSED)
    by_deaths_handle(&control->deaths, message->peer, message->type, &text);
  else if (!control->meeting.done)
    by_deaths_give_up(&control->deaths, text.status, text.text);
}

static void handle_timeline(void *context, const struct by_received *message) {
  struct by_control *control = context;
  by_timeline_handle(control->timeline, (uint32_t)message->peer->rank, message->payload, message->length);
}

/* The job's own rules, by type, each with the part of the control object that its handler gets as context. */
static const struct own_rule {
  struct by_control_rule rule;
  size_t part; /* The part's offset in struct by_control. */
} rules[] = {
#define PART(member) offsetof(struct by_control, member)
    [WELCOME] = {{WELCOME, BY_CONTROL_FROM_ROOT, BY_CONTROL_WHILE_STARTING, by_meeting_handle_welcome}, PART(meeting)},
    [REFUSED] = {{REFUSED, BY_CONTROL_FROM_ALL, BY_CONTROL_ALWAYS, handle_text}, 0},
    [FAILED] = {{FAILED, BY_CONTROL_FROM_ALL, BY_CONTROL_ALWAYS, handle_text}, 0},
    [SUSPECT] = {{SUSPECT, BY_CONTROL_FROM_ALL, BY_CONTROL_ALWAYS, handle_text}, 0},
    [LEAVING] = {{LEAVING, BY_CONTROL_FROM_ALL, BY_CONTROL_ALWAYS, handle_leaving}, 0},
    [ASK] = {{ASK, BY_CONTROL_TO_ROOT, BY_CONTROL_ONCE_STARTED, by_deadlock_check_handle}, PART(check)},
    [DESCRIBE] = {{DESCRIBE, BY_CONTROL_FROM_ROOT, BY_CONTROL_ONCE_STARTED, by_deadlock_check_handle}, PART(check)},
    [DESCRIPTION] = {{DESCRIPTION, BY_CONTROL_TO_ROOT, BY_CONTROL_ONCE_STARTED, by_deadlock_check_handle}, PART(check)},
    [LEFT] = {{LEFT, BY_CONTROL_FROM_ROOT, BY_CONTROL_ONCE_STARTED, by_notices_handle_left}, PART(notices)},
    [PLAN] = {{PLAN, BY_CONTROL_FROM_ROOT, BY_CONTROL_ONCE_STARTED, by_helpers_handle}, PART(helpers)},
    [LOST] = {{LOST, BY_CONTROL_FROM_ROOT, BY_CONTROL_ONCE_STARTED, by_helpers_handle}, PART(helpers)},
    [TREE] = {{TREE, BY_CONTROL_FROM_ROOT, BY_CONTROL_ONCE_STARTED, by_helpers_handle}, PART(helpers)},
    [TREE_ASK] = {{TREE_ASK, BY_CONTROL_FROM_ROOT, BY_CONTROL_ONCE_STARTED, by_helpers_handle}, PART(helpers)},
    [PLAN_SWITCH] = {{PLAN_SWITCH, BY_CONTROL_FROM_ALL, BY_CONTROL_ALWAYS, by_plan_wants_handle}, PART(plan_switches)},
    [LISTEN] = {{LISTEN, BY_CONTROL_FROM_ALL, BY_CONTROL_ONCE_STARTED, by_notices_handle_listen}, PART(notices)},
    [CLASS] = {{CLASS, BY_CONTROL_FROM_ROOT, BY_CONTROL_ONCE_STARTED, by_notices_handle_class}, PART(notices)},
    [JOINED] = {{JOINED, BY_CONTROL_FROM_ROOT, BY_CONTROL_ONCE_STARTED, by_helpers_handle}, PART(helpers)},
    [KNOWN] = {{KNOWN, BY_CONTROL_TO_ROOT, BY_CONTROL_ALWAYS, by_helpers_handle_known}, PART(helpers)},
    [TIMELINE] = {{TIMELINE, BY_CONTROL_FROM_ALL, BY_CONTROL_ONCE_STARTED, handle_timeline}, 0},
    [STATEMENT] = {{STATEMENT, BY_CONTROL_FROM_ALL, BY_CONTROL_ONCE_STARTED, by_control_trust_handle}, PART(trust)},
    [REFUSALS] = {{REFUSALS, BY_CONTROL_TO_ROOT, BY_CONTROL_ONCE_STARTED, by_control_refusals_handle}, PART(refusals)},
    [FOLLOW] = {{FOLLOW, BY_CONTROL_FROM_ROOT, BY_CONTROL_ONCE_STARTED, by_helpers_handle}, PART(helpers)},
};

static void frame_came(void *context, const struct by_received *message) {
  struct by_control *control = context;
  bool root = by_control_peers_is_root(&control->peers), done = control->meeting.done;
  uint16_t type = message->type;
  if (root && message->peer->rank < 0) return; /* The peer was refused. */
  if (!root && !done && type != WELCOME && type != REFUSED)
    return; /* The message is about a job of which this rank is no part. */
  const struct own_rule *own = type < sizeof rules / sizeof *rules && rules[type].rule.handle ? &rules[type] : NULL;
  const struct by_control_rule *rule = own ? &own->rule : NULL;
  if (!rule && control->events.find_rule) rule = control->events.find_rule(control->events.context, type);
  if (!rule || (rule->direction != BY_CONTROL_FROM_ALL && (rule->direction == BY_CONTROL_TO_ROOT) != root) ||
      (rule->phase == BY_CONTROL_WHILE_STARTING && done))
    by_warn("control", "%s: message of unknown or unexpected type %u; ignored",
            by_stream_get_name(message->peer->stream), type);
  else if (rule->phase != BY_CONTROL_ONCE_STARTED || done)
    rule->handle(own ? (char *)control + own->part : control->events.context, message);
}

static void opened(void *context, struct by_control_peer *peer, uint8_t purpose, const void *hello, size_t length) {
  struct by_control *control = context;
  by_meeting_opened(&control->meeting, peer, purpose, hello, length);
}

static void ended(void *context, struct by_control_peer *peer, enum banyan_status status, const char *reason) {
  struct by_control *control = context;
  struct by_control_peers *peers = &control->peers;
  if (!control->meeting.done) {
    by_meeting_ended(&control->meeting, peer, status, reason);
    return;
  }
  int64_t rank = peer->rank;
  bool root = by_control_peers_is_root(peers); /* Rank 0 can still notify the others, while it leaves itself. */
  bool leaving = peer->state == BY_PEER_LEAVING || (!root && atomic_load(&peers->leaving));
  if (rank >= 0 && peer->vanished && control->events.vanished)
    control->events.vanished(control->events.context, (uint32_t)rank);
  by_control_peer_detach(peer);
  by_helpers_forget(&control->helpers, peer);
  by_control_peer_destroy(peer);
  if (rank == 0 && !root) atomic_store(&peers->cut, true);
  if (rank > 0 && root && !by_control_peers_is_helper(peers, rank))
    by_plan_switching_drop(&control->plan_switches, (uint32_t)rank, "a rank has left");
  by_timeline_lost(control->timeline);
  if (rank >= 0 && !leaving) by_deaths_disconnected(&control->deaths, (uint32_t)rank, reason);
}

/* ---- what lower parts need of higher ones */

static void helper_lost(void *context, uint32_t process, const char *reason) {
  struct by_control *control = context;
  by_helpers_handle_lost(&control->helpers, process, reason);
  by_plan_switching_drop(&control->plan_switches, process, reason);
  lose_process(control, process);
  struct by_control_peer *peer = control->peers.of_process[process];
  if (peer) by_helpers_knows(&control->helpers, peer);
}

static void failed(void *context) {
  struct by_control *control = context;
  if (control->events.failed) control->events.failed(control->events.context);
}

static void newcomer(void *context, struct by_control_peer *peer, const struct by_member *member) {
  struct by_control *control = context;
  by_helpers_join(&control->helpers, peer, member);
}

static enum banyan_status make_room(void *context) {
  struct by_control *control = context;
  BY_TRY(by_control_peers_make_room(&control->peers, 0, control->peers.job->processes));
  return by_notices_make_room(&control->notices, control->peers.job->processes);
}

/* ---- the timeline's messages */

static const struct by_control_peer *find_peer(const struct by_control *control, uint32_t process) {
  const struct by_control_peers *peers = &control->peers;
  if (by_control_peers_is_root(peers)) return peers->of_process[process];
  return process == 0 ? by_control_peers_root(peers) : NULL;
}

static enum banyan_status send_timeline(void *context, uint32_t process, const void *bytes, size_t length) {
  const struct by_control_peer *peer = find_peer(context, process);
  if (!peer) return by_fail(BANYAN_ERR_PEER_DEAD, "the connection has ended");
  return by_control_peer_try_send(peer, TIMELINE, bytes, length);
}

static bool takes_timeline(void *context, uint32_t process) {
  const struct by_control *control = context;
  const struct by_control_peer *peer = find_peer(control, process);
  return peer && (!by_control_peers_is_root(&control->peers) || by_control_peer_stays(peer));
}

/* ---- joining */

enum banyan_status by_control_object_init(struct by_control *control, const struct by_control_join_options *options) {
  const struct by_job *job = options->job;
  uint32_t places = job->role.kind == BY_MEMBER_RANK ? job->places : 1;
  *control = (struct by_control){.events = options->events, .timeline = options->timeline};
  struct by_control_peers *peers = &control->peers;
  struct by_control_peer_events peer_events = {opened, frame_came, ended, control};
  enum banyan_status status = by_control_peers_init(peers, options->job, &peer_events, places);
  by_deaths_init(&control->deaths, peers, options->timeline, &(struct by_death_events){helper_lost, failed, control});
  by_deadlock_check_init(&control->check, &control->deaths, options->connector);
  by_notices_init(&control->notices, &control->check, options->connector, &control->events);
  by_plan_switching_init(&control->plan_switches, peers, options->connector, &control->events);
  enum banyan_status trusts = by_control_trust_init(&control->trust, &control->deaths, &control->meeting.done);
  by_meeting_init(&control->meeting, &control->trust, options->connector, options->plan, options->plan_version,
                  &(struct by_meeting_events){newcomer, make_room, control});
  by_helpers_init(&control->helpers, &control->meeting, &control->notices, &control->events);
  by_control_refusals_init(&control->refusals, peers);
  if (control->events.made) control->events.made(control->events.context, control);
  if (status == BANYAN_OK) status = trusts;
  return status == BANYAN_OK ? by_notices_make_room(&control->notices, places) : status;
}

void by_control_object_fini(struct by_control *control) {
  by_notices_send_left(&control->notices);
  by_control_peers_close(&control->peers);
  by_control_refusals_fini(&control->refusals);
  by_helpers_fini(&control->helpers);
  by_meeting_fini(&control->meeting);
  by_plan_switching_fini(&control->plan_switches);
  by_notices_fini(&control->notices);
  by_deadlock_check_fini(&control->check);
  by_control_trust_fini(&control->trust);
  by_deaths_fini(&control->deaths);
  by_control_peers_fini(&control->peers);
}

static enum banyan_status join(struct by_control *control, const struct by_control_join_options *options) {
  struct by_control_peers *peers = &control->peers;
  const struct by_formation *formation = options->job->role.formation;
  struct by_writer writer;
  BY_TRY(by_control_object_init(control, options));
  struct by_join hello = {.rank = options->job->rank,
                          .size = options->job->size,
                          .plan = options->plan,
                          .plan_version = options->plan_version,
                          .membership = options->job->membership,
                          .name = formation ? formation->name : 0,
                          .member = *options->self};
  by_writer_init(&writer, peers->hello, sizeof peers->hello);
  by_join_write(&writer, &hello);
  peers->hello_length = writer.failed ? 0 : writer.length;
  by_timeline_connect(control->timeline, &(struct by_timeline_peers){send_timeline, takes_timeline, control});
  return by_meeting_run(&control->meeting, options->self);
}

enum banyan_status by_control_join(const struct by_control_join_options *options, struct by_control **out) {
  struct by_control *control = calloc(1, sizeof *control);
  if (!control) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for joining");
  enum banyan_status status = join(control, options);
  if (status != BANYAN_OK) {
    char text[TEXT_MOST];
    snprintf(text, sizeof text, "%s", banyan_error_text());
    by_control_destroy(control);
    return by_fail(status, "%s", text);
  }
  *out = control;
  return BANYAN_OK;
}

void by_control_destroy(struct by_control *control) {
  if (control) by_control_object_fini(control);
  free(control);
}

enum banyan_status by_control_check(const struct by_control *control) {
  const struct by_deaths *deaths = &control->deaths;
  return deaths->status == BANYAN_OK ? BANYAN_OK : by_fail(deaths->status, "%s", deaths->text);
}

const struct by_refusals_message *by_control_get_refusals(const struct by_control *control, uint32_t process) {
  const struct by_control_refusals *refusals = &control->refusals;
  return process < refusals->room ? refusals->received[process] : NULL;
}

/* ---- for other threads */

static void handle_failure(const struct by_control_report *report) {
  by_deaths_report(report->context, report->status, report->process, report->text);
}

bool by_control_failed(struct by_control *control, enum banyan_status status, uint32_t process, const char *text) {
  const struct by_control_peers *peers = &control->peers;
  struct by_control_report report = {
      .handle = handle_failure, .context = &control->deaths, .status = status, .process = process};
  bool posted = by_control_peers_post(peers, &report, NULL, text);
  return posted && !by_control_peers_is_helper(peers, peers->job->rank) && !atomic_load(&peers->leaving);
}

bool by_control_suspect(struct by_control *control, uint32_t process, const char *text) {
  return by_deaths_post_suspicion(&control->deaths, process, text);
}

static void handle_question(const struct by_control_report *report) {
  by_deadlock_check_ask(report->context, report->text, report->awaited);
}

bool by_control_ask(struct by_control *control, const char *late, const char *awaited) {
  const struct by_control_peers *peers = &control->peers;
  struct by_control_report report = {.handle = handle_question, .context = &control->check};
  if (atomic_load(&peers->deaf) || atomic_load(&peers->leaving)) return false;
  snprintf(report.awaited, sizeof report.awaited, "%s", awaited ? awaited : "");
  return by_control_peers_post(peers, &report, NULL, late ? late : "");
}

void by_control_have_listen(struct by_control *control) {
  if (by_loop_post(control->peers.job->loop, by_notices_send_listen, &control->notices) != BANYAN_OK)
    by_warn("control", "LISTEN could not be sent to other ranks: %s", banyan_error_text());
}

void by_control_send_plan(struct by_control *control, const void *bytes, size_t length) {
  struct by_control_report report = {.handle = by_helpers_send_plan, .context = &control->helpers, .length = length};
  (void)by_control_peers_post(&control->peers, &report, bytes, "the plan of a communicator");
}

void by_control_send_class(struct by_control *control, uint32_t class_, bool ranks) {
  by_notices_send_class(&control->notices, class_, ranks);
}

enum banyan_status by_control_propose(struct by_control *control, const struct by_proposal *proposal) {
  return by_plan_switching_propose(&control->plan_switches, proposal);
}

void by_control_want_plan(struct by_control *control, uint32_t comm, uint32_t n, const uint32_t *processes) {
  by_plan_wants_post(&control->plan_switches, comm, n, processes);
}

static void send_to_rank(const struct by_control_report *report) {
  const struct by_control_peers *peers = report->context;
  const struct by_control_peer *peer = peers->of_process[report->process];
  if (!peer || !by_control_peer_stays(peer)) return;
  enum message type = (enum message)report->number;
  if (by_control_peer_try_send(peer, type, report->bytes, report->length) != BANYAN_OK)
    by_debug("control", "%s: %s is not sent: %s", by_stream_get_name(peer->stream), report->text, banyan_error_text());
}

void by_control_send(struct by_control *control, uint32_t rank, uint16_t type, const void *bytes, size_t length,
                     const char *what) {
  struct by_control_report report = {
      .handle = send_to_rank, .context = &control->peers, .process = rank, .number = type, .length = length};
  (void)by_control_peers_post(&control->peers, &report, bytes, what);
}

struct by_control_peers *by_control_get_peers(struct by_control *control) {
  return &control->peers;
}

struct by_deaths *by_control_get_deaths(struct by_control *control) {
  return &control->deaths;
}

struct by_plan_switching *by_control_get_plan_switching(struct by_control *control) {
  return &control->plan_switches;
}

const struct by_control_events *by_control_get_events(const struct by_control *control) {
  return &control->events;
}

void by_control_send_to_self(struct by_control *control, const struct by_received *message) {
  by_helpers_handle(&control->helpers, message);
}

void by_control_send_follow(struct by_control *control, const char *root) {
  struct by_control_report report = {
      .handle = by_helpers_send_follow, .context = &control->helpers, .length = strlen(root)};
  (void)by_control_peers_post(&control->peers, &report, root, "where the next membership meets");
}

bool by_control_is_over(const struct by_control *control) {
  return atomic_load(&control->peers.deaf);
}

bool by_control_is_cut(const struct by_control *control) {
  return atomic_load(&control->peers.deaf) || atomic_load(&control->peers.cut);
}

void by_control_leave(struct by_control *control) {
  _Atomic bool *sent = &control->peers.leaving;
  if (by_loop_post(control->peers.job->loop, by_notices_send_leaving, &control->notices) != BANYAN_OK) return;
  for (int i = 0; i < 1000 && !atomic_load(sent); i++) usleep(i < 100 ? 20 : 1000);
}
