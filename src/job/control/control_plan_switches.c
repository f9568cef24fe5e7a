/* Rank 0's part in plan switches: queues proposals, prepares trees and links, and asks the members. */
#include "control_plan_switches.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/param.h>

#include "control.h"
#include "job_state.h"
#include "log.h"
#include "pending_switch.h"

enum {
  AGAIN_MS = 50, /* Pause before the next look; it doubles each time, up to the next value. */
  LONGEST_MS = 1000,
  AGAIN_S = 10,                           /* Time for which a plan is proposed that a member cannot prepare yet. */
  MOST_WAITING = MOST_QUEUED - (1 << 20), /* For plans: other messages are short, and must fit. */
  TREES_S = 30,                           /* Time for trees through switches: longer than switches are asked. */
  LINKS_S = 45,                           /* Time for links: longer than a helper tries to make one. */
  LINKS_ALONE_S = 5,                      /* Time for links while another proposal waits. */
  TURN_S = 60,                            /* Time until a proposal's turn comes. */
  ANSWERS_S = 60                          /* Time for answers. */
};

static const char replaced[] = "another one was proposed";
static const char users[] = "the user has set or proposed a plan, which no other replaces";

static void handle_answer(struct by_pending_switch *pending, uint32_t process,
                          const struct by_plan_switch_message *message);

static uint64_t now(const struct by_plan_switching *switching) {
  return by_loop_now(switching->peers->job->loop);
}

static void set_late(struct by_pending_switch *pending, uint64_t seconds) {
  by_loop_set_delay(pending->switching->peers->job->loop, &pending->late, seconds * BY_SECOND);
}

/* ---- sending */

static void notify(const struct by_pending_switch *pending, uint32_t process,
                   const struct by_plan_switch_message *message) {
  const struct by_control_peer *peer = process ? pending->switching->peers->of_process[process] : NULL;
  if (peer) by_control_send_plan_switch(peer, message);
}

static void notify_others(const struct by_pending_switch *pending, const struct by_plan_switch_message *message) {
  for (uint32_t i = 0; i < pending->n; i++) notify(pending, pending->members[i].process, message);
}

/* Handles a message on this process itself. */
static bool handle_here(const struct by_plan_switching *switching, const struct by_plan_switch_message *message,
                        struct by_plan_switch_message *answer, char text[TEXT_MOST]) {
  return switching->events->handle_plan_switch(switching->events->context, message, answer, text, TEXT_MOST);
}

static struct by_plan_switches_view view_of(const struct by_pending_switch *pending) {
  const struct by_control_events *events = pending->switching->events;
  return events->view_plan_switches(events->context, pending->comm);
}

/* Sends TAKE or DROP to all. */
static void notify_all(const struct by_pending_switch *pending, const struct by_plan_switch_message *message) {
  struct by_plan_switch_message none;
  char text[TEXT_MOST];
  notify_others(pending, message);
  (void)handle_here(pending->switching, message, &none, text);
}

/* Sends PROPOSE or FIX to all. Rank 0 answers at once, which may decide: the plan switch may be gone after it. */
static void ask(struct by_pending_switch *pending, const struct by_plan_switch_message *message) {
  struct by_plan_switch_message answer, own = *message;
  char text[TEXT_MOST];
  for (uint32_t i = 0; i < pending->n; i++) pending->members[i].answered = false;
  notify_others(pending, message);
  own.plan = pending->plan;
  if (handle_here(pending->switching, &own, &answer, text)) handle_answer(pending, 0, &answer);
}

/* ---- ending */

/* Sets the timer to `due` at the latest. */
static void look_at(struct by_plan_switching *switching, uint64_t due) {
  if (!by_timer_is_set(&switching->due) || due < switching->due.at)
    by_loop_set_timer(switching->peers->job->loop, &switching->due, due);
}

static void look_later(struct by_pending_switch *pending) {
  pending->due = now(pending->switching) + pending->again;
  pending->again = MIN(2 * pending->again, LONGEST_MS * BY_MILLISECOND);
  look_at(pending->switching, pending->due);
}

static void drop(const struct by_pending_switch *pending, const char *why) {
  struct by_plan_switch_message message = by_pending_switch_message(pending, BY_PLAN_SWITCH_DROP);
  message.text = why;
  message.length = strlen(why);
  if (pending->state >= BY_SWITCH_ASKED) notify_all(pending, &message);
  for (uint32_t i = 0; pending->state == BY_SWITCH_LINKING && i < pending->links.n; i++)
    notify(pending, pending->links.helpers[i].helper, &message);
}

/* Frees a plan switch. The manager's is kept once it is decided on: its plan may be proposed again, with the same
 * cells. */
static void free_or_keep(struct by_pending_switch *pending, bool decided) {
  struct by_plan_switching *switching = pending->switching;
  if (!decided || !pending->grants.number) {
    by_pending_switch_free(pending);
    return;
  }
  by_loop_cancel_timer(&pending->late);
  if (switching->granted) by_pending_switch_free(switching->granted);
  switching->granted = pending;
}

static const struct by_tree_grants *grants_of(const struct by_pending_switch *pending) {
  const struct by_pending_switch *granted = pending->switching->granted;
  if (pending->grants.number) return &pending->grants;
  return pending->repeats && by_pending_switch_is_managers(pending) && granted ? &granted->grants : NULL;
}

/* Ends a plan switch. A waiting one begins a little later, so that ending one never ends another. */
static void end(struct by_pending_switch *pending, const char *why) {
  look_at(pending->switching, now(pending->switching));
  if (pending->notify.notified) pending->notify.notified(pending->notify.context, why ? 0 : pending->agreement.at, why);
  free_or_keep(pending, !why);
}

__attribute__((format(printf, 2, 3))) static void give_up(struct by_pending_switch *pending, const char *format, ...) {
  char why[TEXT_MOST];
  va_list values;
  va_start(values, format);
  vsnprintf(why, sizeof why, format, values);
  va_end(values);
  by_log(by_pending_switch_is_own(pending) ? BY_LOG_INFO : BY_LOG_WARN, "plan", "the new plan is not used: %s", why);
  LIST_REMOVE(pending, entry);
  if (pending->state != BY_SWITCH_QUEUED) drop(pending, why);
  const struct by_control_events *events = pending->switching->events;
  if (pending->trees) events->withdraw_trees(events->context, pending->trees);
  end(pending, why);
}

/* ---- beginning, and again */

/* Returns the first process that has not read its messages for long, or 0. */
static uint32_t find_full(const struct by_pending_switch *pending) {
  size_t more = pending->length + 4 * pending->n_places + BY_PLAN_SWITCH_FIXED_BYTES;
  for (uint32_t i = 0; i < pending->n; i++) {
    uint32_t process = pending->members[i].process;
    const struct by_control_peer *peer = process ? pending->switching->peers->of_process[process] : NULL;
    if (peer && by_stream_queued(peer->stream) + more > MOST_WAITING) return process;
  }
  return 0;
}

/* Returns whether it repeats a plan that is not in use any more. */
static bool is_outdated(const struct by_pending_switch *pending) {
  return pending->repeats && view_of(pending).used != pending->used;
}

/* Proposes a plan without helpers, or whose helpers are linked. */
static void propose(struct by_pending_switch *pending) {
  uint32_t full = find_full(pending);
  if (is_outdated(pending)) {
    give_up(pending, replaced);
    return;
  }
  if (full) {
    give_up(pending, "rank %u does not read the plans before it: is it stopped?", full);
    return;
  }
  by_pending_switch_set_state(pending, BY_SWITCH_ASKED);
  set_late(pending, ANSWERS_S);
  by_agreement_init(&pending->agreement, pending->n);
  pending->started = view_of(pending).started;
  struct by_plan_switch_message message = by_pending_switch_message(pending, BY_PLAN_SWITCH_PROPOSE);
  message.text = pending->text;
  message.length = pending->length;
  message.origin = pending->plan->origin;
  message.trees = pending->trees;
  message.processes = pending->places;
  message.n_processes = pending->n_places;
  ask(pending, &message);
}

static uint64_t under_way(const struct by_pending_switch *pending) {
  return now(pending->switching) - pending->begun;
}

/* Puts a plan switch off: a communicator is made on one rank before another, and a rank reaches the call of the switch
 * before sooner than another. */
static void put_off(struct by_pending_switch *pending, uint32_t process, const struct by_plan_switch_message *message) {
  if (under_way(pending) > AGAIN_S * BY_SECOND || pending->agreement.fixing) {
    give_up(pending, "rank %u: %.*s", process, message->length ? (int)message->length : TEXT_MOST,
            message->length ? message->text : "it has no such communicator");
    return;
  }
  drop(pending, "");
  by_pending_switch_set_state(pending, BY_SWITCH_PUT_OFF);
  look_later(pending);
}

/* Asks helpers for links, if there are any; otherwise proposes. */
static void link_or_propose(struct by_pending_switch *pending) {
  if (!pending->links.n) {
    propose(pending);
    return;
  }
  by_pending_switch_set_state(pending,
                              BY_SWITCH_LINKING); /* The helpers that are asked are notified if the switch fails. */
  pending->begun = now(pending->switching);
  if (by_helper_links_ask(&pending->links, pending->switching->peers, pending->comm, pending->number))
    set_late(pending, LINKS_S);
  else
    give_up(pending, "a helper that it names is not here any more, or not yet");
}

/* Sets up the plan's trees. A server without a tree needs no setup. */
static void grow(struct by_pending_switch *pending) {
  struct by_plan_switching *switching = pending->switching;
  by_pending_switch_set_state(pending, BY_SWITCH_GROWING);
  set_late(pending, TREES_S);
  uint32_t of = view_of(pending).operations ? BY_TREES_OF_OPERATIONS : 0;
  struct by_tree_wanted wanted = {.version = ++switching->n_trees | of,
                                  .plan = pending->plan,
                                  .processes = pending->processes,
                                  .helpers = pending->processes + pending->plan->n_ranks,
                                  .grants = grants_of(pending)};
  if (switching->events->prepare_trees(switching->events->context, &wanted) == BANYAN_OK)
    pending->trees = wanted.version;
  else
    give_up(pending, "%s", banyan_error_text());
}

static void start(struct by_pending_switch *pending) {
  struct by_plan_switching *switching = pending->switching;
  pending->number = ++switching->n;
  pending->begun = now(switching);
  pending->again = AGAIN_MS * BY_MILLISECOND;
  bool yields = by_pending_switch_is_made(pending) && view_of(pending).supplied;
  if (yields || is_outdated(pending)) {
    give_up(pending, yields ? users : replaced);
    return;
  }
  if (by_pending_switch_has_trees(pending))
    grow(pending);
  else
    link_or_propose(pending);
}

void by_plan_switching_have_trees(struct by_plan_switching *switching, uint32_t version, const char *why) {
  struct by_pending_switch *pending;
  LIST_FOREACH(pending, &switching->pending, entry)
  if (pending->trees == version && pending->state == BY_SWITCH_GROWING) break;
  if (!pending) return;
  pending->begun = now(switching);
  if (why)
    give_up(pending, "%s", why);
  else
    link_or_propose(pending);
}

/* Returns the plan switch of a communicator that is in progress. */
static struct by_pending_switch *find_started(const struct by_plan_switching *switching, uint32_t comm) {
  struct by_pending_switch *pending;
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): as below */
  LIST_FOREACH(pending, &switching->pending, entry)
  if (pending->comm == comm && pending->state != BY_SWITCH_QUEUED) break;
  return pending;
}

/* Returns the queued plan switch: a new plan, or one that repeats the plan in use. */
static struct by_pending_switch *find_queued(const struct by_plan_switching *switching, uint32_t comm, bool repeats) {
  struct by_pending_switch *pending;
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): as below */
  LIST_FOREACH(pending, &switching->pending, entry)
  if (pending->comm == comm && pending->state == BY_SWITCH_QUEUED && pending->repeats == repeats) break;
  return pending;
}

static bool holds_up_another(const struct by_pending_switch *pending) {
  return (pending->state == BY_SWITCH_LINKING || pending->state == BY_SWITCH_GROWING) &&
         under_way(pending) > LINKS_ALONE_S * BY_SECOND && find_queued(pending->switching, pending->comm, false);
}

/* Returns whether its turn has come: no other switch of its communicator is in progress, and this rank has reached the
 * call of the last. New plans go before one that repeats the plan in use. */
static bool may_start(const struct by_pending_switch *pending) {
  return !find_started(pending->switching, pending->comm) && !view_of(pending).taken &&
         !(pending->repeats && find_queued(pending->switching, pending->comm, false));
}

static bool is_due(const struct by_pending_switch *pending) {
  return pending->due <= now(pending->switching);
}

static void pending_due(void *argument) {
  struct by_plan_switching *switching = argument;
  struct by_pending_switch *pending, *next;
  for (pending = LIST_FIRST(&switching->pending); pending; pending = next) {
    next = LIST_NEXT(pending, entry);
    if (holds_up_another(pending)) {
      give_up(pending, replaced);
    } else if (pending->state == BY_SWITCH_PUT_OFF && is_due(pending)) {
      pending->number = ++switching->n;
      propose(pending);
    }
  }
  for (pending = LIST_FIRST(&switching->pending); pending; pending = next) {
    next = LIST_NEXT(pending, entry); /* NOLINT(clang-analyzer-unix.Malloc): what has ended is in the list no more */
    if (pending->state == BY_SWITCH_QUEUED && may_start(pending)) start(pending);
  }
  LIST_FOREACH(pending, &switching->pending, entry) {
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what has ended is in the list no more */
    if (pending->state == BY_SWITCH_QUEUED && is_due(pending)) look_later(pending);
    if (pending->state == BY_SWITCH_QUEUED || pending->state == BY_SWITCH_PUT_OFF) look_at(switching, pending->due);
  }
}

/* ---- answers */

static void handle_started(struct by_pending_switch *pending, uint32_t member,
                           const struct by_plan_switch_message *message) {
  enum by_plan_switch_kind awaited = pending->agreement.fixing ? BY_PLAN_SWITCH_FIXED : BY_PLAN_SWITCH_PREPARED;
  if (message->kind != awaited || pending->members[member].answered) return;
  pending->members[member].answered = true;
  uint64_t lead = view_of(pending).started - pending->started;
  enum by_agreement_next next = by_agreement_handle(&pending->agreement, message->at, &message->iteration, lead);
  if (next == BY_AGREEMENT_WAITS) return;
  bool decided = next == BY_AGREEMENT_TAKE;
  struct by_plan_switch_message then =
      by_pending_switch_message(pending, decided ? BY_PLAN_SWITCH_TAKE : BY_PLAN_SWITCH_FIX);
  if (!decided) {
    ask(pending, &then);
    return;
  }
  LIST_REMOVE(pending, entry);
  notify_all(pending, &then);
  end(pending, NULL);
}

static void handle_answer(struct by_pending_switch *pending, uint32_t process,
                          const struct by_plan_switch_message *message) {
  uint32_t member = 0;
  while (member < pending->n && pending->members[member].process != process) member++;
  if (member == pending->n || pending->state != BY_SWITCH_ASKED) return;
  if (message->kind == BY_PLAN_SWITCH_REFUSED)
    give_up(pending, "%.*s", (int)message->length, message->text);
  else if (message->kind == BY_PLAN_SWITCH_NOT_YET)
    put_off(pending, process, message);
  else
    handle_started(pending, member, message);
}

static void handle_linked(struct by_pending_switch *pending, uint32_t helper) {
  if (pending->state != BY_SWITCH_LINKING || !by_helper_links_made(&pending->links, helper)) return;
  pending->begun = now(pending->switching);
  propose(pending);
}

static void handle_at_root(struct by_plan_switching *switching, uint32_t process,
                           const struct by_plan_switch_message *message) {
  struct by_pending_switch *pending;
  LIST_FOREACH(pending, &switching->pending, entry)
  if (pending->state != BY_SWITCH_QUEUED && pending->comm == message->comm && pending->number == message->number) break;
  if (pending && message->kind == BY_PLAN_SWITCH_LINKED)
    handle_linked(pending, process);
  else if (pending)
    handle_answer(pending, process, message);
}

void by_plan_switching_handle(void *argument, const struct by_received *received) {
  struct by_plan_switching *switching = argument;
  const struct by_control_peers *peers = switching->peers;
  const struct by_control_peer *peer = received->peer;
  enum by_member_kind kind = peers->job->role.kind;
  bool root = by_control_peers_is_root(peers);
  struct by_plan_switch_message message, answer;
  char text[TEXT_MOST];
  bool fits = by_plan_switch_message_read(received->payload, received->length, &message) == BANYAN_OK &&
              root == (message.kind >= BY_PLAN_SWITCH_PREPARED);
  bool linked = fits && message.kind == BY_PLAN_SWITCH_LINKED;
  if (!fits || (root && by_control_peers_is_helper(peers, peer->rank) != linked))
    by_warn("control", "%s: malformed message about a new plan; ignored", by_stream_get_name(peer->stream));
  else if (root)
    handle_at_root(switching, (uint32_t)peer->rank, &message);
  else if (kind == BY_MEMBER_HELPER)
    by_wanted_links_handle(&switching->links, peer, &message);
  else if (kind == BY_MEMBER_RANK && handle_here(switching, &message, &answer, text))
    by_control_send_plan_switch(peer, &answer);
}

/* ---- the end */

void by_plan_switching_drop(struct by_plan_switching *switching, uint32_t process, const char *why) {
  for (struct by_pending_switch *pending = LIST_FIRST(&switching->pending), *next; pending; pending = next) {
    next = LIST_NEXT(pending, entry);
    if (by_pending_switch_has_member(pending, process)) give_up(pending, "%s", why);
  }
}

void by_plan_switching_withdraw(struct by_plan_switching *switching, uint32_t comm) {
  for (struct by_pending_switch *pending = LIST_FIRST(&switching->pending), *next; pending; pending = next) {
    next = LIST_NEXT(pending, entry);
    if (pending->comm == comm && by_pending_switch_is_own(pending)) give_up(pending, "its communicator is gone");
  }
}

static uint32_t find_silent(const struct by_pending_switch *pending) {
  uint32_t i = 0;
  while (i + 1 < pending->n && pending->members[i].answered) i++;
  return pending->members[i].process;
}

static void too_late(void *argument) {
  struct by_pending_switch *pending = argument;
  const struct by_pending_switch *before = find_started(pending->switching, pending->comm);
  if (pending->state == BY_SWITCH_LINKING)
    give_up(pending, "its helpers have not made their links: are they stopped, or kept apart by a firewall?");
  else if (pending->state == BY_SWITCH_GROWING)
    give_up(pending, "its trees through switches have not been set up for %d s: is one of their ends stopped?",
            TREES_S);
  else if (pending->state != BY_SWITCH_QUEUED)
    give_up(pending, "rank %u has not answered for %d s: is it stopped?", find_silent(pending), ANSWERS_S);
  else if (before)
    give_up(pending, "the plan before it is not decided on: rank %u does not answer: is it stopped?",
            find_silent(before));
  else
    give_up(pending, "the plan before it has not come into use for %d s: are no calls made?", TURN_S);
}

/* ---- from other threads */

static void begin(void *argument) {
  struct by_pending_switch *pending = argument;
  struct by_plan_switching *switching = pending->switching;
  struct by_pending_switch *before = find_queued(switching, pending->comm, pending->repeats);
  bool yields = before && !pending->repeats && by_pending_switch_is_made(pending) && before->plan->origin.supplied;
  if (before && !yields) give_up(before, replaced);
  LIST_INSERT_HEAD(&switching->pending, pending, entry);
  if (yields) {
    give_up(pending, users);
    return;
  }
  if (may_start(pending)) {
    start(pending);
    return;
  }
  set_late(pending, TURN_S);
  look_later(pending);
}

enum banyan_status by_plan_switching_propose(struct by_plan_switching *switching, const struct by_proposal *proposal) {
  struct by_pending_switch *pending;
  BY_TRY(by_pending_switch_make(switching, proposal, too_late, &pending));
  pending->again = AGAIN_MS * BY_MILLISECOND;
  enum banyan_status status = by_loop_post(switching->peers->job->loop, begin, pending);
  if (status == BANYAN_OK) return status;
  pending->plan = NULL;
  by_pending_switch_free(pending);
  return status;
}

void by_plan_switching_init(struct by_plan_switching *switching, struct by_control_peers *peers,
                            struct by_connector *connector, const struct by_control_events *events) {
  *switching = (struct by_plan_switching){.peers = peers, .events = events};
  by_timer_init(&switching->due, pending_due, switching);
  by_wanted_links_init(&switching->links, peers, connector);
}

void by_plan_switching_fini(struct by_plan_switching *switching) {
  by_wanted_links_fini(&switching->links);
  by_loop_cancel_timer(&switching->due);
  if (switching->granted) by_pending_switch_free(switching->granted);
  for (struct by_pending_switch *pending; (pending = LIST_FIRST(&switching->pending));) {
    LIST_REMOVE(pending, entry);
    by_pending_switch_free(pending);
  }
}
