/* Deaths at the control connections: suspicions, verdicts, and how the job's failure reaches all ranks. */
#include "control_deaths.h"

#include <stdio.h>
#include <stdlib.h>

#include "job_state.h"
#include "log.h"

enum { GRACE_MS = 500 }; /* Time for rank 0 to report that a process is dead. */

struct suspicion {
  STAILQ_ENTRY(suspicion) entry;
  uint32_t process;
  char text[TEXT_MOST];
};

/* ---- the job's failure */

static void keep_reason(struct by_deaths *deaths, enum banyan_status status, uint32_t process, const char *text) {
  deaths->status = status;
  deaths->process = process;
  bool own = status == BANYAN_ERR_PEER_DEAD && process == deaths->peers->job->rank;
  snprintf(deaths->text, sizeof deaths->text, "%s%.900s",
           own ? "another process cannot reach this one, which it takes for dead: " : "", text);
}

void by_deaths_give_up(struct by_deaths *deaths, enum banyan_status status, const char *text) {
  if (deaths->status == BANYAN_OK) keep_reason(deaths, status, UINT32_MAX, text);
}

static void note_failure(struct by_deaths *deaths, enum banyan_status status, uint32_t process, const char *text) {
  if (!deaths->spread && deaths->timeline) by_timeline_note_loss(deaths->timeline, process, text);
  deaths->spread = true;
  keep_reason(deaths, status, process, text);
}

/* Settles the failure: all ranks have the same reason from here on. Without an engine, the failure came with the
 * message that all have joined, and joining ends with it. */
static void settle(struct by_deaths *deaths) {
  struct by_job *job = deaths->peers->job;
  deaths->settled = true;
  by_loop_cancel_timer(&deaths->delivery);
  if (atomic_load(&deaths->peers->leaving) || !job->engine) return;
  by_job_settle(job, deaths->status, deaths->process, deaths->text);
  if (deaths->timeline) by_timeline_hurry(deaths->timeline);
}

/* Checks whether all have received the failure: rank 0's program may exit as soon as its calls end, and unsent data
 * would be lost. */
static void check_delivery(void *context) {
  struct by_deaths *deaths = context;
  struct by_loop *loop = deaths->peers->job->loop;
  bool waits = false;
  for (const struct by_control_peer *peer = deaths->peers->all; peer; peer = peer->next)
    waits |= by_control_peer_stays(peer) && !by_control_peer_has_all(peer);
  if (waits && by_loop_now(loop) < deaths->delivered_by)
    by_loop_set_delay(loop, &deaths->delivery, BY_MILLISECOND);
  else
    settle(deaths);
}

/* Rank 0 sends the job's failure to all others, others send it to rank 0; once. */
static void spread(struct by_deaths *deaths, enum banyan_status status, uint32_t process, const char *text) {
  if (deaths->spread) return;
  note_failure(deaths, status, process, text);
  by_control_peers_send_text(deaths->peers, FAILED, status, process, text);
  deaths->delivered_by = by_loop_now(deaths->peers->job->loop) + GRACE_MS * BY_MILLISECOND;
  deaths->events.failed(deaths->events.context);
}

void by_deaths_fail(struct by_deaths *deaths, enum banyan_status status, uint32_t process, const char *text) {
  spread(deaths, status, process, text);
  if (by_control_peers_is_root(deaths->peers))
    check_delivery(deaths);
  else
    settle(deaths);
}

void by_deaths_report(struct by_deaths *deaths, enum banyan_status status, uint32_t process, const char *text) {
  const struct by_control_peers *peers = deaths->peers;
  const struct by_control_peer *root = by_control_peers_is_root(peers) ? NULL : by_control_peers_root(peers);
  bool answers = root && by_control_peer_stays(root) && !deaths->spread;
  if (answers)
    spread(deaths, status, process, text);
  else
    by_deaths_fail(deaths, status, process, text);
}

void by_deaths_handle_failure(struct by_deaths *deaths, enum banyan_status status, uint32_t process, const char *text) {
  if (!by_control_peers_is_root(deaths->peers) && !deaths->settled) note_failure(deaths, status, process, text);
  by_deaths_fail(deaths, status, process, text);
}

void by_deaths_disconnected(struct by_deaths *deaths, uint32_t process, const char *reason) {
  struct by_control_peers *peers = deaths->peers;
  if (by_control_peers_is_helper(peers, process)) {
    by_deaths_lose(deaths, process, reason);
    return;
  }
  char text[TEXT_MOST]; /* The failure may come with the message that all have joined, before the job has names for
                           them. */
  snprintf(text, sizeof text, "rank %u (host %s) is gone: %s", process, peers->job->members[process].host, reason);
  by_deaths_handle_failure(deaths, BANYAN_ERR_PEER_DEAD, process, text);
}

/* ---- helpers */

void by_deaths_lose(struct by_deaths *deaths, uint32_t process, const char *text) {
  struct by_control_peers *peers = deaths->peers;
  const struct by_job *job = peers->job;
  char reason[TEXT_MOST];
  if (by_control_peers_has_lost(peers, process) || deaths->spread || atomic_load(&peers->leaving)) return;
  (void)by_control_peers_set_member(peers, process, BY_MEMBER_LOST);
  snprintf(reason, sizeof reason, "%s %u (host %s) is lost (%.300s)", by_member_kind_name(job->members[process].kind),
           process - job->size, job->members[process].host, text);
  by_error("communicator", "%s; what went through it goes among ranks from here on%s", reason,
           job->members[process].kind == BY_MEMBER_SERVER ? ", or if it was an aggregator, to its parent server" : "");
  if (deaths->timeline) by_timeline_note_loss(deaths->timeline, process, reason);
  by_control_peers_send_text(peers, LOST, BANYAN_ERR_PEER_DEAD, process, reason);
  deaths->events.lost(deaths->events.context, process, reason);
}

void by_deaths_lose_silent(struct by_deaths *deaths, uint32_t process) {
  by_deaths_lose(deaths, process, "it does not answer: is it stopped, or its machine overloaded?");
}

/* ---- suspicions */

static void drop_first(struct by_deaths *deaths) {
  struct suspicion *first = STAILQ_FIRST(&deaths->suspicions);
  STAILQ_REMOVE_HEAD(&deaths->suspicions, entry);
  free(first);
}

/* Sets the grace timer. Rank 0 decides a little sooner than the others would alone. */
static void give_grace(struct by_deaths *deaths) {
  uint64_t grace = by_control_peers_is_root(deaths->peers) ? GRACE_MS / 2 : GRACE_MS;
  by_loop_set_delay(deaths->peers->job->loop, &deaths->grace, grace * BY_MILLISECOND);
}

/* Decides on a suspicion. A rank that decides alone has asked rank 0 without an answer: rank 0 is stopped or has left,
 * so it is named as the reason. */
static void decide(struct by_deaths *deaths, const struct suspicion *suspicion) {
  const struct by_control_peers *peers = deaths->peers;
  char text[TEXT_MOST];
  snprintf(text, sizeof text, "%s", suspicion->text);
  if (!by_control_peers_is_root(peers) && suspicion->process != 0)
    snprintf(text, sizeof text,
             atomic_load(&peers->deaf) ? "%.380s, after rank 0 (host %.64s) left the job"
                                       : "%.380s. Nor does rank 0 (host %.64s) answer: is it stopped?",
             suspicion->text, peers->job->members[0].host);
  by_deaths_fail(deaths, BANYAN_ERR_PEER_DEAD, suspicion->process, text);
}

/* Ends the grace of the oldest suspicion. A process that has left may precede a dead one in the list. */
static void grace_over(void *context) {
  struct by_deaths *deaths = context;
  const struct suspicion *first = STAILQ_FIRST(&deaths->suspicions);
  if (!deaths->spread && !by_control_peers_has_left(deaths->peers, first->process)) {
    decide(deaths, first);
    return;
  }
  while ((first = STAILQ_FIRST(&deaths->suspicions)) && by_control_peers_has_left(deaths->peers, first->process))
    drop_first(deaths);
  if (first && !deaths->spread) give_grace(deaths);
}

void by_deaths_suspect(struct by_deaths *deaths, uint32_t process, const char *text) {
  bool at_root = by_control_peers_is_root(deaths->peers), helper = by_control_peers_is_helper(deaths->peers, process);
  struct suspicion *suspicion;
  if (deaths->spread) return;
  if (at_root && helper) by_deaths_lose(deaths, process, text); /* No rank ends with it: no need to be sure. */
  if (!helper) {
    STAILQ_FOREACH(suspicion, &deaths->suspicions, entry) {
      if (suspicion->process == process) return;
    }
    suspicion = calloc(1, sizeof *suspicion);
    if (!suspicion) { /* Without memory the job fails at once: hanging would be worse than ending because a rank left.
                       */
      by_deaths_fail(deaths, BANYAN_ERR_PEER_DEAD, process, text);
      return;
    }
    suspicion->process = process;
    snprintf(suspicion->text, sizeof suspicion->text, "%s", text);
    STAILQ_INSERT_TAIL(&deaths->suspicions, suspicion, entry);
    if (!by_timer_is_set(&deaths->grace)) give_grace(deaths);
  }
  struct by_control_peer *root = at_root ? NULL : by_control_peers_root(deaths->peers);
  if (root) by_control_peer_send_text(root, SUSPECT, BANYAN_ERR_PEER_DEAD, process, text);
}

/* ---- messages */

void by_deaths_handle(struct by_deaths *deaths, const struct by_control_peer *peer, uint16_t type,
                      const struct by_text_message *message) {
  const struct by_control_peers *peers = deaths->peers;
  bool helper = by_control_peers_is_root(peers) && by_control_peers_is_helper(peers, peer->rank);
  /* A helper that suspects a rank may itself have the broken link. */
  bool lost = helper && (type == FAILED ? message->status != BANYAN_ERR_MISMATCH
                                        : !by_control_peers_is_helper(peers, message->process));
  if (lost)
    by_deaths_lose(deaths, (uint32_t)peer->rank, message->text);
  else if (type == FAILED)
    by_deaths_handle_failure(deaths, message->status, message->process, message->text);
  else if (message->process < peers->job->processes)
    by_deaths_suspect(deaths, message->process, message->text);
}

static void handle_suspicion(const struct by_control_report *report) {
  by_deaths_suspect(report->context, report->process, report->text);
}

bool by_deaths_post_suspicion(struct by_deaths *deaths, uint32_t process, const char *text) {
  struct by_control_report report = {.handle = handle_suspicion, .context = deaths, .process = process};
  return by_control_peers_post(deaths->peers, &report, NULL, text);
}

void by_deaths_init(struct by_deaths *deaths, struct by_control_peers *peers, struct by_timeline *timeline,
                    const struct by_death_events *events) {
  *deaths = (struct by_deaths){.peers = peers, .timeline = timeline, .events = *events};
  STAILQ_INIT(&deaths->suspicions);
  by_timer_init(&deaths->grace, grace_over, deaths);
  by_timer_init(&deaths->delivery, check_delivery, deaths);
}

void by_deaths_fini(struct by_deaths *deaths) {
  by_loop_cancel_timer(&deaths->grace);
  by_loop_cancel_timer(&deaths->delivery);
  while (!STAILQ_EMPTY(&deaths->suspicions)) drop_first(deaths);
}
