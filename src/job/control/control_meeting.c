/* How the members of a job meet: rank 0 listens and welcomes, the others dial it until they have joined. */
#include "control_meeting.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control_newcomers.h"
#include "descriptor.h"
#include "formation.h"
#include "job_state.h"
#include "link_keys.h"
#include "log.h"
#include "socket.h"

enum {
  RETRY_MS = 20,     /* Pause between attempts until rank 0 listens. */
  MOST_HANGUPS = 24, /* Maximum factor of the pause where rank 0 hangs up. */
  REFUSED_MS = 5000, /* Time for an address where another process answers, while other addresses may be rank 0's. */
  REPORT_MS = 5000,  /* Time after which it is logged who is missing at the start. */
  REPORT_EVERY_MS = 15000,
  MOST_NAMED = 32,     /* Maximum of ranks that an error lists. */
  TRIED_MOST = 800,    /* Maximum bytes of an error's list of tried addresses. */
  NOTIFYING_MS = 3000, /* Time to notify others, one rank at a time, that a start has failed for lack of descriptors. */
  ROOT_MS = 500,       /* Time for rank 0 to send who is missing. */
  LAST_MS = 20,        /* Time for rank 0's last messages. */
  ASK_MS = 500,        /* Until processes that have not come are asked for the list of their membership. */
  ASKED_MOST = 4       /* Processes asked at a time: each costs a handshake, and a late rank 0 is no error. */
};

static const double followed_within = 1; /* Seconds in which helpers of a membership come to the next one. */

/* ---- rank 0 */

static void write_members(const struct by_job *job, struct by_writer *writer) {
  by_write_u32(writer, job->size);
  by_write_u32(writer, 0); /* The receiver's number. */
  by_write_u32(writer, job->processes);
  for (uint32_t i = 0; i < job->processes; i++) by_member_write(writer, &job->members[i]);
  by_write_u64(writer, job->membership);
}

/* Sends the list of members. It is written once, as this takes a while with many members; only the receiver's number is
 * set for each. */
enum banyan_status by_meeting_send_welcome(const struct by_control_meeting *meeting, uint32_t first, uint32_t end) {
  const struct by_job *job = meeting->peers->job;
  struct by_writer measure, writer;
  enum banyan_status status = BANYAN_OK;
  by_writer_init(&measure, NULL, 0);
  write_members(job, &measure);
  size_t room = measure.length + sizeof(struct by_key) + 4 +
                (end - 1 > job->size ? (end - 1 - job->size) * sizeof(struct by_key) : 0);
  uint8_t *bytes = malloc(room);
  if (!bytes) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the list of members");
  by_writer_init(&writer, bytes, room);
  write_members(job, &writer);
  for (uint32_t p = first; p < end && status == BANYAN_OK; p++) {
    const struct by_control_peer *peer = meeting->peers->of_process[p];
    struct by_writer keys = writer;
    by_put_u32(bytes + 4, p);
    status = peer ? by_link_keys_write(meeting->peers, &meeting->links, p, &keys)
                  : by_fail(BANYAN_ERR_PEER_DEAD, "process %u is gone before all have met", p);
    if (status == BANYAN_OK) status = by_control_peer_try_send(peer, WELCOME, bytes, keys.length);
  }
  explicit_bzero(bytes, room);
  free(bytes);
  return status;
}

void by_meeting_welcome(struct by_control_meeting *meeting) {
  struct by_job *job = meeting->peers->job;
  job->processes = job->size + meeting->helpers;
  enum banyan_status status = by_meeting_send_welcome(meeting, 1, job->processes);
  if (status != BANYAN_OK) by_deaths_give_up(meeting->deaths, status, banyan_error_text());
  meeting->done = meeting->deaths->status == BANYAN_OK;
}

/* Others: checks rank 0's answer. */
static enum banyan_status check_root(struct by_control_meeting *meeting, struct by_control_peer *peer,
                                     const void *bytes, size_t length) {
  struct by_arena scratch;
  struct by_join hello;
  if (!meeting->trust->hosts) return BANYAN_OK;
  by_arena_init(&scratch);
  enum banyan_status status = by_join_read(bytes, length, &scratch, &hello);
  if (status == BANYAN_OK) status = by_control_trust_check(meeting->trust, peer, &hello, false);
  by_arena_fini(&scratch);
  return status == BANYAN_OK ? status : by_fail_within(status, "rank 0 at %s", by_stream_get_name(peer->stream));
}

void by_meeting_opened(struct by_control_meeting *meeting, struct by_control_peer *peer, uint8_t purpose,
                       const void *hello, size_t length) {
  bool root = by_control_peers_is_root(meeting->peers);
  if (!root && check_root(meeting, peer, hello, length) != BANYAN_OK)
    by_deaths_give_up(meeting->deaths, meeting->peers->job->role.formation ? BANYAN_ERR_CONNECT : BANYAN_ERR_AUTH,
                      banyan_error_text());
  else if (!root)
    by_dialer_keep(meeting->dialer);
  else if ((purpose & ~BY_PURPOSE_HELPER) != PURPOSE_CONTROL)
    by_newcomer_refuse(peer, BY_REFUSED_PURPOSE, "not a rendezvous connection");
  else if (by_newcomer_has_closed(peer))
    by_stream_refuse(peer->stream);
  else
    by_newcomer_joins(meeting, peer, purpose & BY_PURPOSE_HELPER, hello, length);
}

static void accepted(void *context, int fd) {
  const struct by_control_meeting *meeting = context;
  (void)by_control_peer_create(meeting->peers, fd, NULL, BY_ROLE_SERVER);
}

/* Notifies all that have come, one after the other, with the descriptors that were to listen for links. */
static void exhausted(void *argument) {
  struct by_control_meeting *meeting = argument;
  char text[TEXT_MOST];
  if (meeting->done) return; /* Only helpers come now. */
  snprintf(text, sizeof text, "rank 0 (host %s) takes no connections: %s", meeting->peers->job->members[0].host,
           banyan_error_text());
  by_connector_stop_listening(meeting->connector);
  by_newcomers_refuse_all(meeting, BANYAN_ERR_SYSTEM, text);
}

/* Listens at the root. The port of a process that forms memberships stays open from one to the next. */
static enum banyan_status listen_at_root(const struct by_job *job, int *listener) {
  struct by_address bound;
  int port = 0;
  if (job->role.formation) {
    *listener = BY_DESCRIPTOR(fcntl(job->role.formation->listener, F_DUPFD_CLOEXEC, 0));
    return *listener < 0 ? by_fail_errno(BANYAN_ERR_SYSTEM, errno, "duplicating a descriptor") : BANYAN_OK;
  }
  BY_TRY(by_dialer_check(job->settings.root, &port));
  enum banyan_status status = by_socket_listen(NULL, (struct by_port_range){port, port}, listener, &bound);
  if (status == BANYAN_OK) return BANYAN_OK;
  return by_fail_within(status, "rank 0 listens there, and only one process may be rank 0");
}

static enum banyan_status open_root(struct by_control_meeting *meeting, const struct by_member *self) {
  struct by_job *job = meeting->peers->job;
  int listener;
  BY_TRY(by_link_keys_make(meeting->connector, &meeting->links));
  enum banyan_status status = listen_at_root(job, &listener);
  if (status == BANYAN_OK) status = by_acceptor_create(job->loop, listener, accepted, meeting, &meeting->acceptor);
  if (status != BANYAN_OK)
    return by_fail_within(status, "%s %s", job->role.formation ? "listening at" : "BANYAN_ROOT is", job->settings.root);
  by_acceptor_on_exhaustion(meeting->acceptor, exhausted);
  job->members = BY_ARENA_ARRAY(&job->arena, struct by_member, job->places);
  if (!job->members) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for members");
  job->members[0] = *self;
  meeting->joined = 1;
  return BANYAN_OK;
}

/* Describes who is missing: "2 of 4 ranks joined within 120 s; missing: 1, 3; they must reach ...". `when` is "within
 * 120 s" or the like. */
static void describe_missing(const struct by_control_meeting *meeting, const char *when, struct by_text *out) {
  const struct by_job *job = meeting->peers->job;
  uint32_t shown = 0, missing = job->size - meeting->joined;
  by_text_add(out, "%u of %u ranks joined %s; missing: ", meeting->joined, job->size, when);
  for (uint32_t r = 1; r < job->size && shown < MOST_NAMED; r++) {
    if (meeting->peers->of_process[r]) continue;
    by_text_add(out, "%s%u", shown++ ? ", " : "", r);
    if (!job->role.formation || !job->role.formation->handles[r].member.host) continue;
    const struct by_member *member = &job->role.formation->handles[r].member;
    by_text_add(out, " (host %s, process %u)", member->host, member->pid);
  }
  if (missing > shown) by_text_add(out, " and %u more", missing - shown);
  by_text_add(out, "; they must reach %.*s", (int)strcspn(job->settings.root, "#"), job->settings.root);
  if (meeting->failed[0]) by_text_add(out, "; the last connection that failed: %s", meeting->failed);
}

/* Returns the seconds that processes wait for ranks that have not come at all. */
static double wait_of(const struct by_job *job) {
  const struct by_formation *formation = job->role.formation;
  return formation && formation->meeting_timeout > 0 ? formation->meeting_timeout : job->settings.join_deadline;
}

/* Returns the seconds to wait for helpers: those of the membership before have been notified, and come at once if they
 * live. */
static double wait_for_helpers(const struct by_job *job) {
  bool follows = job->role.formation && job->role.formation->follows;
  return follows ? fmin(job->settings.helper_deadline, followed_within) : job->settings.helper_deadline;
}

static void others_too_late(struct by_control_meeting *meeting) {
  struct by_text all;
  char when[32], text[TEXT_MOST];
  by_text_init(&all);
  snprintf(when, sizeof when, "within %g s", wait_of(meeting->peers->job));
  describe_missing(meeting, when, &all);
  (void)by_fail(BANYAN_ERR_TIMEOUT, "%s", by_text_get(&all)); /* This shortens the text to what a message holds. */
  snprintf(text, sizeof text, "%s", banyan_error_text());
  by_newcomers_refuse_all(meeting, BANYAN_ERR_TIMEOUT, text);
  by_text_fini(&all);
  const struct by_job *job = meeting->peers->job;
  const struct by_formation *formation = job->role.formation;
  for (uint32_t r = 1; formation && formation->missing && r < job->size; r++)
    if (!meeting->peers->of_process[r]) formation->missing(formation->context, r);
}

/* ---- the others */

static enum banyan_status read_members(struct by_control_meeting *meeting, const void *payload, size_t length) {
  struct by_job *job = meeting->peers->job;
  struct by_reader reader;
  by_reader_init(&reader, payload, length);
  uint32_t size = by_read_u32(&reader), self = by_read_u32(&reader), n = by_read_count(&reader, 4);
  bool fits = size <= n &&
              (job->role.kind != BY_MEMBER_RANK ? self >= size && self < n : size == job->size && self == job->rank);
  if (!fits) return by_fail(BANYAN_ERR_PROTOCOL, "rank 0 lists %u ranks and %u members in all", size, n);
  job->size = size;
  job->rank = self;
  job->processes = n;
  job->members = BY_ARENA_ARRAY(&job->arena, struct by_member, n);
  if (!job->members) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u members", n);
  for (uint32_t i = 0; i < n; i++) BY_TRY(by_member_read(&reader, &job->arena, &job->members[i]));
  uint64_t membership = by_read_u64(&reader);
  BY_TRY(by_link_keys_read(meeting->peers, meeting->connector, self > size ? self - size : 0, &reader));
  BY_TRY(by_reader_check(&reader, "the list of members"));
  if (job->role.kind == BY_MEMBER_RANK && membership != job->membership)
    return by_fail(BANYAN_ERR_PROTOCOL, "rank 0 is in another membership");
  job->membership = membership;
  return BANYAN_OK;
}

void by_meeting_handle_welcome(void *argument, const struct by_received *message) {
  struct by_control_meeting *meeting = argument;
  struct by_control_peers *peers = meeting->peers;
  enum banyan_status status = read_members(meeting, message->payload, message->length);
  if (status == BANYAN_OK) status = meeting->events.make_room(meeting->events.context);
  if (status != BANYAN_OK) {
    by_deaths_give_up(meeting->deaths, status, banyan_error_text());
    return;
  }
  for (uint32_t p = 0; p < peers->job->processes; p++) (void)by_control_peers_set_member(peers, p, BY_MEMBER_JOINED);
  by_control_peer_set_state(by_control_peers_root(peers), BY_PEER_JOINED);
  meeting->done = true;
}

static void reached_root(void *context, int fd, const struct by_address *to) {
  struct by_control_meeting *meeting = context;
  if (!by_control_peer_create(meeting->peers, fd, to, BY_ROLE_CLIENT))
    by_dialer_failed(meeting->dialer, BANYAN_ERR_CONNECT, banyan_error_text(), RETRY_MS * BY_MILLISECOND);
}

/* Returns the pause before the next attempt. Rank 0 may listen any time now; if it hung up, it is in another job, which
 * may take long. */
static uint64_t pause_after(struct by_control_meeting *meeting, enum banyan_status status) {
  uint32_t hangups = status == BANYAN_ERR_PEER_DEAD ? meeting->hangups + 1 : 0;
  meeting->hangups = hangups < MOST_HANGUPS ? hangups : MOST_HANGUPS;
  return (1 + meeting->hangups) * RETRY_MS * BY_MILLISECOND;
}

static enum banyan_status reach_root(struct by_control_meeting *meeting) {
  const char *root = meeting->peers->job->settings.root;
  struct by_dialer_options options = {
      .loop = meeting->peers->job->loop, .targets = root, .connected = reached_root, .context = meeting};
  enum banyan_status status = by_dialer_create(&options, &meeting->dialer);
  return status == BANYAN_OK ? status : by_fail_within(status, "BANYAN_ROOT is %s", root);
}

static enum banyan_status root_too_late(const struct by_control_meeting *meeting) {
  const struct by_job *job = meeting->peers->job;
  struct by_text tried;
  by_text_init(&tried);
  by_dialer_print(meeting->dialer, TRIED_MOST, &tried);
  enum banyan_status status =
      by_fail(BANYAN_ERR_TIMEOUT, "rank 0 did not answer within %g s; is it running, and can this host reach it? %s",
              wait_of(job), by_text_get(&tried));
  by_text_fini(&tried);
  return status;
}

/* ---- both */

/* Logs what this process waits for, unless rank 0 knows this rank: then rank 0 logs it. */
static void report_waiting(const struct by_control_meeting *meeting, uint64_t left) {
  const struct by_job *job = meeting->peers->job;
  struct by_text text;
  by_text_init(&text);
  if (job->rank == 0 && !meeting->waits_for_helpers)
    describe_missing(meeting, "so far", &text);
  else if (job->rank != 0 && !by_control_peers_root(meeting->peers))
    by_dialer_print(meeting->dialer, TRIED_MOST, &text);
  if (text.length)
    by_warn("control", "%s%s; still trying for %.0f s (BANYAN_JOIN_DEADLINE)",
            job->rank ? "rank 0 is not reached yet: " : "", by_text_get(&text), by_clock_to_seconds(left));
  by_text_fini(&text);
}

/* Rank 0: handles a rank's leaving: one that timed out just before its welcome comes again at once, a dead one
 * never. */
static void rank_left(struct by_control_meeting *meeting, uint32_t rank, const char *reason) {
  bool one_more = by_timer_is_set(&meeting->absence) && !meeting->peers->of_process[meeting->absent];
  (void)by_control_peers_set_member(meeting->peers, rank, BY_MEMBER_JOINING);
  meeting->peers->of_process[rank] = NULL;
  meeting->joined--;
  meeting->waits_for_helpers = false;
  if (one_more || meeting->deaths->status != BANYAN_OK) return;
  meeting->absent = rank;
  snprintf(meeting->absent_text, sizeof meeting->absent_text, "rank %u (host %s) left while the job was starting: %s",
           rank, meeting->peers->job->members[rank].host, reason);
  by_loop_set_delay(meeting->peers->job->loop, &meeting->absence, BY_ABSENCE_MS * BY_MILLISECOND);
}

static void absence_over(void *argument) {
  struct by_control_meeting *meeting = argument;
  char text[TEXT_MOST];
  if (meeting->done || meeting->peers->of_process[meeting->absent]) return;
  snprintf(text, sizeof text, "%s", meeting->absent_text);
  by_newcomers_refuse_all(meeting, BANYAN_ERR_ARGUMENT, text);
}

/* Gives up if a process answers that is not this job's rank 0, and no other address is left. */
static void give_up_if_refused(struct by_control_meeting *meeting) {
  enum banyan_status status = by_dialer_refusal(meeting->dialer);
  if (status == BANYAN_OK) return;
  struct by_text tried;
  by_text_init(&tried);
  by_dialer_print(meeting->dialer, TRIED_MOST, &tried);
  by_deaths_give_up(meeting->deaths, status, by_text_get(&tried));
  by_text_fini(&tried);
}

void by_meeting_ended(struct by_control_meeting *meeting, struct by_control_peer *peer, enum banyan_status status,
                      const char *reason) {
  bool root = meeting->peers->job->rank == 0;
  if (root && by_control_peers_is_helper(meeting->peers, peer->rank)) /* Another helper may come. */
    by_newcomer_left(meeting, (uint32_t)peer->rank);
  else if (root && peer->rank > 0)
    rank_left(meeting, (uint32_t)peer->rank, reason);
  else if (root)
    snprintf(meeting->failed, sizeof meeting->failed, "%s", reason);
  by_control_peer_detach(peer);
  by_control_peer_destroy(peer);
  if (root || meeting->deaths->status != BANYAN_OK) return;
  bool others = status != BANYAN_ERR_CONNECT && status != BANYAN_ERR_PEER_DEAD && status != BANYAN_ERR_TIMEOUT;
  by_dialer_failed(meeting->dialer, status, reason,
                   others ? REFUSED_MS * BY_MILLISECOND : pause_after(meeting, status));
  give_up_if_refused(meeting);
}

static bool is_superseded(const struct by_job *job) {
  const struct by_formation *formation = job->role.formation;
  return formation && formation->superseded && formation->superseded(formation->context);
}

/* Asks absent members for their lists: those whose lists begin with different processes do not meet. Rank 0 asks those
 * that have not come; the others ask all while rank 0 does not answer. */
static void ask_absent(struct by_control_meeting *meeting) {
  const struct by_job *job = meeting->peers->job;
  const struct by_control_peer *root = job->rank ? by_control_peers_root(meeting->peers) : NULL;
  if (root && root->state != BY_PEER_GREETING) return;
  for (uint32_t i = 0, asked = 0; i < job->size && asked < ASKED_MOST; i++) {
    uint32_t r = meeting->next_asked++ % job->size;
    if (r == job->rank || meeting->peers->of_process[r]) continue;
    job->role.formation->ops->ask(job->role.formation->service, job->role.formation, r);
    asked++;
  }
}

/* Compares lists of handles that programs gave with those of other members. */
static void compare_lists(struct by_control_meeting *meeting) {
  const struct by_job *job = meeting->peers->job;
  const struct by_formation *formation = job->role.formation;
  char text[TEXT_MOST];
  if (!formation || !formation->texts || meeting->done || meeting->deaths->status != BANYAN_OK) return;
  if (formation->ops->compare(formation->service) != BANYAN_OK) {
    snprintf(text, sizeof text, "%s", banyan_error_text());
    if (job->rank == 0)
      by_newcomers_refuse_all(meeting, BANYAN_ERR_MISMATCH, text);
    else
      by_deaths_give_up(meeting->deaths, BANYAN_ERR_MISMATCH, text);
  } else if (by_loop_now(job->loop) >= meeting->ask_at) {
    ask_absent(meeting);
    meeting->ask_at = by_loop_now(job->loop) + ASK_MS * BY_MILLISECOND;
  }
}

/* Runs the meeting. Rank 0 decides when time is over, because it knows which ranks are missing; the others give it a
 * moment more. The last rank that joined is greeted before all are notified, which can take longer than its timeout
 * with many ranks. */
enum banyan_status by_meeting_run(struct by_control_meeting *meeting, const struct by_member *self) {
  struct by_job *job = meeting->peers->job;
  BY_TRY(job->rank == 0 ? open_root(meeting, self) : reach_root(meeting));
  uint64_t began = by_loop_now(job->loop), report_at = began + REPORT_MS * BY_MILLISECOND;
  uint64_t met_until = began + by_clock_from_seconds(job->settings.join_deadline);
  uint64_t unmet_until = began + by_clock_from_seconds(wait_of(job));
  if (job->rank != 0) met_until += ROOT_MS * BY_MILLISECOND, unmet_until += ROOT_MS * BY_MILLISECOND;
  uint64_t helpers_until = 0;
  meeting->next_asked = job->rank + 1;
  meeting->ask_at = began + ASK_MS * BY_MILLISECOND;
  while (!meeting->done && meeting->deaths->status == BANYAN_OK) {
    uint64_t now = by_loop_now(job->loop);
    uint64_t until = job->rank && by_control_peers_root(meeting->peers) ? met_until : unmet_until;
    bool helpers = meeting->waits_for_helpers;
    if (is_superseded(job)) return by_fail(BANYAN_ERR_CLOSED, "another membership follows this one before it has met");
    if (!helpers)
      helpers_until = 0;
    else if (!helpers_until)
      helpers_until = now + by_clock_from_seconds(wait_for_helpers(job));
    if (helpers && (job->size + meeting->helpers == job->places || now >= helpers_until)) {
      by_meeting_welcome(meeting);
    } else if (now >= until && !helpers) {
      if (job->rank != 0) return root_too_late(meeting);
      others_too_late(meeting);
    } else {
      if (now >= report_at) {
        report_waiting(meeting, until - now);
        report_at = now + REPORT_EVERY_MS * BY_MILLISECOND;
      }
      BY_TRY(by_loop_run_once(job->loop, (job->role.formation ? 20 : 100) * BY_MILLISECOND));
      compare_lists(meeting);
      if (job->rank != 0 && !meeting->done && meeting->deaths->status == BANYAN_OK) give_up_if_refused(meeting);
    }
  }
  by_dialer_destroy(meeting->dialer);
  meeting->dialer = NULL;
  if (job->role.formation && meeting->done) { /* Processes that come from now on are for the next membership. */
    by_acceptor_destroy(meeting->acceptor);
    meeting->acceptor = NULL;
  }
  if (meeting->done) return BANYAN_OK;
  bool lacks = meeting->deaths->status == BANYAN_ERR_SYSTEM;
  uint64_t end = by_loop_now(job->loop) + (lacks ? NOTIFYING_MS : LAST_MS) * BY_MILLISECOND;
  while (job->rank == 0 && by_loop_now(job->loop) < end) (void)!by_loop_run_once(job->loop, BY_MILLISECOND);
  return by_fail(meeting->deaths->status, "%s", meeting->deaths->text);
}

void by_meeting_init(struct by_control_meeting *meeting, struct by_control_trust *trust, struct by_connector *connector,
                     const char *plan, uint32_t plan_version, const struct by_meeting_events *events) {
  *meeting = (struct by_control_meeting){.peers = trust->peers,
                                         .deaths = trust->deaths,
                                         .trust = trust,
                                         .connector = connector,
                                         .events = *events,
                                         .given_version = plan_version};
  if (plan) snprintf(meeting->given_plan, sizeof meeting->given_plan, "%s", plan);
  by_timer_init(&meeting->absence, absence_over, meeting);
}

void by_meeting_fini(struct by_control_meeting *meeting) {
  free(meeting->used);
  explicit_bzero(&meeting->links, sizeof meeting->links);
  by_acceptor_destroy(meeting->acceptor);
  by_dialer_destroy(meeting->dialer);
  by_loop_cancel_timer(&meeting->absence);
}
