#include "control_plan_switches.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "control_tree_set.h"
#include "log.h"

enum {
  AGAIN_MS = 50, /* until it is looked at again; twice as long each time, up to */
  LONGEST_MS = 1000,
  AGAIN_S = 10,                           /* so long one is proposed that a member cannot prepare yet */
  MOST_WAITING = MOST_QUEUED - (1 << 20), /* for plans: other messages are short, and none may be missed */
  TREES_S = 30,                           /* for trees through switches: longer than these are asked */
  LINKS_S = 45,                           /* for links: longer than a helper tries to make one, */
  LINKS_ALONE_S = 5,                      /* or so long where another proposal waits */
  TURN_S = 60,                            /* until its turn comes, */
  ANSWERS_S = 60                          /* and for answers */
};

/* Where a plan switch stands. set_state alone changes it, from one to the next:
 *
 *   QUEUED   -> GROWING   its turn has come, and its plan has in-network trees, which are set up
 *   QUEUED   -> LINKING   it has none, or they are set up, and its plan names helpers, which make their links
 *   GROWING  -> LINKING
 *   QUEUED   -> ASKED     it names none: the members are asked
 *   GROWING  -> ASKED
 *   LINKING  -> ASKED     all helpers have made them
 *   ASKED    -> PUT_OFF   a member could not prepare it yet
 *   PUT_OFF  -> ASKED     it is proposed again
 *
 * Any may be the last. */
enum state { QUEUED, GROWING, LINKING, ASKED, PUT_OFF, STATES };

/* Rank 0: a plan switch that is not decided on. */
struct by_pending_switch {
  LIST_ENTRY(by_pending_switch) entry;
  struct by_plan_switching *switching;
  uint32_t comm, number;
  enum state state;
  struct by_agreement agreement;
  uint64_t started;     /* calls of this rank, when it was proposed */
  struct by_timer late; /* what it waits for has not come for long */
  uint64_t begun;       /* when its turn came, or its links were made */
  uint64_t due, again;  /* when it is looked at next, where it is queued or put off; and how long after that */
  struct by_helper_links links;
  struct by_plan_switch_observer notify;
  uint32_t n;
  struct {
    uint32_t process;
    bool answered;
  } * members;
  bool repeats;                 /* see struct by_proposal, */
  uint32_t used;                /* and this */
  uint32_t trees;               /* the version of its in-network trees; 0: it has none */
  struct by_tree_grants grants; /* number 0: it is not the manager's. In the plan's arena */
  uint32_t *processes;          /* members by rank, and those at the vertices behind them; in the plan's arena */
  size_t n_places;
  uint8_t *places;      /* the processes at the plan's vertices behind the ranks */
  struct by_plan *plan; /* as `text` describes it */
  char *text;
  size_t length;
};

static const char replaced[] = "another one was proposed";
static const char users[] = "the user has set or proposed a plan, which no other replaces";

static void handle_answer(struct by_pending_switch *pending, uint32_t process,
                          const struct by_plan_switch_message *message);

static void free_pending(struct by_pending_switch *pending) {
  by_loop_cancel_timer(&pending->late);
  by_helper_links_fini(&pending->links);
  free(pending->members);
  free(pending->places);
  by_plan_destroy(pending->plan);
  free(pending->text);
  free(pending);
}

static void set_state(struct by_pending_switch *pending, enum state state) {
  static const unsigned next[STATES] = {[QUEUED] = 1u << GROWING | 1u << LINKING | 1u << ASKED,
                                        [GROWING] = 1u << LINKING | 1u << ASKED,
                                        [LINKING] = 1u << ASKED,
                                        [ASKED] = 1u << PUT_OFF,
                                        [PUT_OFF] = 1u << ASKED};
  static const char *const names[] = {"queued", "growing", "linking", "asked", "put off"};
  assert(next[pending->state] >> state & 1);
  by_debug("plan", "plan switch %u of communicator %u: %s -> %s", pending->number, pending->comm, names[pending->state],
           names[state]);
  pending->state = state;
}

static uint64_t now(const struct by_plan_switching *switching) {
  return by_loop_now(switching->peers->job->loop);
}

static void set_late(struct by_pending_switch *pending, uint64_t seconds) {
  by_loop_set_delay(pending->switching->peers->job->loop, &pending->late, seconds * BY_SECOND);
}

/* ---- sending */

static struct by_plan_switch_message message_of(const struct by_pending_switch *pending,
                                                enum by_plan_switch_kind kind) {
  return (struct by_plan_switch_message){
      .kind = kind, .comm = pending->comm, .number = pending->number, .at = pending->agreement.at, .text = ""};
}

static void notify(const struct by_pending_switch *pending, uint32_t process,
                   const struct by_plan_switch_message *message) {
  const struct by_control_peer *peer = process ? pending->switching->peers->of_process[process] : NULL;
  if (peer) by_control_send_plan_switch(peer, message);
}

static void notify_others(const struct by_pending_switch *pending, const struct by_plan_switch_message *message) {
  for (uint32_t i = 0; i < pending->n; i++) notify(pending, pending->members[i].process, message);
}

/* What this process itself does about a message. */
static bool handle_here(const struct by_plan_switching *switching, const struct by_plan_switch_message *message,
                        struct by_plan_switch_message *answer, char text[TEXT_MOST]) {
  return switching->events->handle_plan_switch(switching->events->context, message, answer, text, TEXT_MOST);
}

static struct by_plan_switches_view view_of(const struct by_pending_switch *pending) {
  const struct by_control_events *events = pending->switching->events;
  return events->view_plan_switches(events->context, pending->comm);
}

/* TAKE and DROP. */
static void notify_all(const struct by_pending_switch *pending, const struct by_plan_switch_message *message) {
  struct by_plan_switch_message none;
  char text[TEXT_MOST];
  notify_others(pending, message);
  (void)handle_here(pending->switching, message, &none, text);
}

/* PROPOSE and FIX. Rank 0 answers at once, which may decide: the plan switch may be gone after it. */
static void ask(struct by_pending_switch *pending, const struct by_plan_switch_message *message) {
  struct by_plan_switch_message answer, own = *message;
  char text[TEXT_MOST];
  for (uint32_t i = 0; i < pending->n; i++) pending->members[i].answered = false;
  notify_others(pending, message);
  own.plan = pending->plan;
  if (handle_here(pending->switching, &own, &answer, text)) handle_answer(pending, 0, &answer);
}

/* ---- ending */

/* No later than so. */
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
  struct by_plan_switch_message message = message_of(pending, BY_PLAN_SWITCH_DROP);
  message.text = why;
  message.length = strlen(why);
  if (pending->state >= ASKED) notify_all(pending, &message);
  for (uint32_t i = 0; pending->state == LINKING && i < pending->links.n; i++)
    notify(pending, pending->links.helpers[i].helper, &message);
}

/* The plan that rank 0 made of what it knows of the network: nobody waits for it. */
static bool is_own(const struct by_pending_switch *pending) {
  enum banyan_plan_source source = pending->plan->origin.source;
  return !pending->plan->origin.supplied && (source == BANYAN_PLAN_TOPOLOGY || source == BANYAN_PLAN_MEASURED);
}

static bool is_managers(const struct by_pending_switch *pending) {
  return pending->plan->origin.source == BANYAN_PLAN_MANAGER && !pending->plan->origin.supplied;
}

/* One that may not take the place of a plan that the user set; the default plan, which the program may propose, may. */
static bool is_made(const struct by_pending_switch *pending) {
  return is_managers(pending) || is_own(pending);
}

/* The manager's is kept once it is decided on: its plan may be proposed again, with the same cells. */
static void free_or_keep(struct by_pending_switch *pending, bool decided) {
  struct by_plan_switching *switching = pending->switching;
  if (!decided || !pending->grants.number) {
    free_pending(pending);
    return;
  }
  by_loop_cancel_timer(&pending->late);
  if (switching->granted) free_pending(switching->granted);
  switching->granted = pending;
}

static const struct by_tree_grants *grants_of(const struct by_pending_switch *pending) {
  const struct by_pending_switch *granted = pending->switching->granted;
  if (pending->grants.number) return &pending->grants;
  return pending->repeats && is_managers(pending) && granted ? &granted->grants : NULL;
}

/* What waits for it begins in a while: nothing ends another plan switch than its own. */
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
  by_log(is_own(pending) ? BY_LOG_INFO : BY_LOG_WARN, "plan", "the new plan is not used: %s", why);
  LIST_REMOVE(pending, entry);
  if (pending->state != QUEUED) drop(pending, why);
  if (pending->trees) pending->switching->trees.withdraw(pending->switching->trees.context, pending->trees);
  end(pending, why);
}

/* ---- beginning, and again */

/* The first that has not read for long what it was sent, or 0. */
static uint32_t find_full(const struct by_pending_switch *pending) {
  size_t more = pending->length + 4 * pending->n_places + BY_PLAN_SWITCH_FIXED_BYTES;
  for (uint32_t i = 0; i < pending->n; i++) {
    uint32_t process = pending->members[i].process;
    const struct by_control_peer *peer = process ? pending->switching->peers->of_process[process] : NULL;
    if (peer && by_stream_queued(peer->stream) + more > MOST_WAITING) return process;
  }
  return 0;
}

/* It repeats a plan that is not in use any more. */
static bool is_outdated(const struct by_pending_switch *pending) {
  return pending->repeats && view_of(pending).used != pending->used;
}

/* Of a plan without helpers, or one whose helpers are linked. */
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
  set_state(pending, ASKED);
  set_late(pending, ANSWERS_S);
  by_agreement_init(&pending->agreement, pending->n);
  pending->started = view_of(pending).started;
  struct by_plan_switch_message message = message_of(pending, BY_PLAN_SWITCH_PROPOSE);
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

/* A communicator is made on one rank before another, and comes to the call of the plan switch before sooner. */
static void put_off(struct by_pending_switch *pending, uint32_t process, const struct by_plan_switch_message *message) {
  if (under_way(pending) > AGAIN_S * BY_SECOND || pending->agreement.fixing) {
    give_up(pending, "rank %u: %.*s", process, message->length ? (int)message->length : TEXT_MOST,
            message->length ? message->text : "it has no such communicator");
    return;
  }
  drop(pending, "");
  set_state(pending, PUT_OFF);
  look_later(pending);
}

/* Helpers first, if there are any. */
static void link_or_propose(struct by_pending_switch *pending) {
  if (!pending->links.n) {
    propose(pending);
    return;
  }
  set_state(pending, LINKING); /* the helpers that are asked are notified if nothing comes of it */
  pending->begun = now(pending->switching);
  if (by_helper_links_ask(&pending->links, pending->switching->peers, pending->comm, pending->number))
    set_late(pending, LINKS_S);
  else
    give_up(pending, "a helper that it names is not here any more, or not yet");
}

/* A server to which no tree goes needs nothing to be set up. */
static bool has_trees(const struct by_pending_switch *pending) {
  const struct by_plan *plan = pending->plan;
  for (uint32_t c = 0; c < plan->n_classes; c++)
    for (uint32_t g = 0; g < plan->classes[c].n_groups; g++) {
      const struct by_group *group = &plan->classes[c].groups[g];
      if (by_group_has_server(plan, group) && pending->processes[group->order[group->root]] != UINT32_MAX) return true;
    }
  return false;
}

static void grow(struct by_pending_switch *pending) {
  struct by_plan_switching *switching = pending->switching;
  set_state(pending, GROWING);
  set_late(pending, TREES_S);
  uint32_t of = view_of(pending).operations ? BY_TREES_OF_OPERATIONS : 0;
  struct by_tree_wanted wanted = {.version = ++switching->n_trees | of,
                                  .plan = pending->plan,
                                  .processes = pending->processes,
                                  .helpers = pending->processes + pending->plan->n_ranks,
                                  .grants = grants_of(pending)};
  if (switching->trees.prepare(switching->trees.context, &wanted) == BANYAN_OK)
    pending->trees = wanted.version;
  else
    give_up(pending, "%s", banyan_error_text());
}

static void start(struct by_pending_switch *pending) {
  struct by_plan_switching *switching = pending->switching;
  pending->number = ++switching->n;
  pending->begun = now(switching);
  pending->again = AGAIN_MS * BY_MILLISECOND;
  bool yields = is_made(pending) && view_of(pending).supplied;
  if (yields || is_outdated(pending)) {
    give_up(pending, yields ? users : replaced);
    return;
  }
  if (has_trees(pending))
    grow(pending);
  else
    link_or_propose(pending);
}

void by_plan_switching_have_trees(struct by_plan_switching *switching, uint32_t version, const char *why) {
  struct by_pending_switch *pending;
  LIST_FOREACH(pending, &switching->pending, entry)
  if (pending->trees == version && pending->state == GROWING) break;
  if (!pending) return;
  pending->begun = now(switching);
  if (why)
    give_up(pending, "%s", why);
  else
    link_or_propose(pending);
}

/* The one of a communicator that is queued, or the one that is under way. */
static struct by_pending_switch *find_of(const struct by_plan_switching *switching, uint32_t comm, bool queued) {
  struct by_pending_switch *pending;
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): as below */
  LIST_FOREACH(pending, &switching->pending, entry)
  if (pending->comm == comm && (pending->state == QUEUED) == queued) break;
  return pending;
}

static bool holds_up_another(const struct by_pending_switch *pending) {
  if ((pending->state != LINKING && pending->state != GROWING) || under_way(pending) <= LINKS_ALONE_S * BY_SECOND)
    return false;
  const struct by_pending_switch *queued = find_of(pending->switching, pending->comm, true);
  return queued && !queued->repeats;
}

/* Its turn comes when nothing else of its communicator is under way, and this rank has come to the call of the last. */
static bool may_start(const struct by_pending_switch *pending) {
  return !find_of(pending->switching, pending->comm, false) && !view_of(pending).taken;
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
    } else if (pending->state == PUT_OFF && is_due(pending)) {
      pending->number = ++switching->n;
      propose(pending);
    }
  }
  for (pending = LIST_FIRST(&switching->pending); pending; pending = next) {
    next = LIST_NEXT(pending, entry); /* NOLINT(clang-analyzer-unix.Malloc): what has ended is in the list no more */
    if (pending->state == QUEUED && may_start(pending)) start(pending);
  }
  LIST_FOREACH(pending, &switching->pending, entry) {
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what has ended is in the list no more */
    if (pending->state == QUEUED && is_due(pending)) look_later(pending);
    if (pending->state == QUEUED || pending->state == PUT_OFF) look_at(switching, pending->due);
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
  struct by_plan_switch_message then = message_of(pending, decided ? BY_PLAN_SWITCH_TAKE : BY_PLAN_SWITCH_FIX);
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
  if (member == pending->n || pending->state != ASKED) return;
  if (message->kind == BY_PLAN_SWITCH_REFUSED)
    give_up(pending, "%.*s", (int)message->length, message->text);
  else if (message->kind == BY_PLAN_SWITCH_NOT_YET)
    put_off(pending, process, message);
  else
    handle_started(pending, member, message);
}

static void handle_linked(struct by_pending_switch *pending, uint32_t helper) {
  if (pending->state != LINKING || !by_helper_links_made(&pending->links, helper)) return;
  pending->begun = now(pending->switching);
  propose(pending);
}

static void handle_at_root(struct by_plan_switching *switching, uint32_t process,
                           const struct by_plan_switch_message *message) {
  struct by_pending_switch *pending;
  LIST_FOREACH(pending, &switching->pending, entry)
  if (pending->state != QUEUED && pending->comm == message->comm && pending->number == message->number) break;
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

static bool has_member(const struct by_pending_switch *pending, uint32_t process) {
  for (uint32_t i = 0; i < pending->n; i++)
    if (pending->members[i].process == process) return true;
  for (uint32_t v = pending->plan->n_ranks; pending->trees && v < pending->plan->n_vertices; v++)
    if (pending->processes[v] == process) return true; /* a server */
  return by_helper_links_has(&pending->links, process);
}

void by_plan_switching_drop(struct by_plan_switching *switching, uint32_t process, const char *why) {
  for (struct by_pending_switch *pending = LIST_FIRST(&switching->pending), *next; pending; pending = next) {
    next = LIST_NEXT(pending, entry);
    if (has_member(pending, process)) give_up(pending, "%s", why);
  }
}

void by_plan_switching_withdraw(struct by_plan_switching *switching, uint32_t comm) {
  for (struct by_pending_switch *pending = LIST_FIRST(&switching->pending), *next; pending; pending = next) {
    next = LIST_NEXT(pending, entry);
    if (pending->comm == comm && is_own(pending)) give_up(pending, "its communicator is gone");
  }
}

static uint32_t find_silent(const struct by_pending_switch *pending) {
  uint32_t i = 0;
  while (i + 1 < pending->n && pending->members[i].answered) i++;
  return pending->members[i].process;
}

static void too_late(void *argument) {
  struct by_pending_switch *pending = argument;
  const struct by_pending_switch *before = find_of(pending->switching, pending->comm, false);
  if (pending->state == LINKING)
    give_up(pending, "its helpers have not made their links: are they stopped, or kept apart by a firewall?");
  else if (pending->state == GROWING)
    give_up(pending, "its trees through switches have not been set up for %d s: is one of their ends stopped?",
            TREES_S);
  else if (pending->state != QUEUED)
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
  struct by_pending_switch *before = find_of(switching, pending->comm, true);
  bool yields = before && is_made(pending) && before->plan->origin.supplied;
  if (before && !yields && !pending->repeats) give_up(before, replaced);
  LIST_INSERT_HEAD(&switching->pending, pending, entry);
  if (yields || (before && pending->repeats)) {
    give_up(pending, yields ? users : replaced);
    return;
  }
  if (may_start(pending)) {
    start(pending);
    return;
  }
  set_late(pending, TURN_S);
  look_later(pending);
}

static enum banyan_status no_memory(void) {
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a new plan");
}

static enum banyan_status copy_processes(struct by_pending_switch *pending, const struct by_proposal *proposal) {
  uint32_t n = proposal->plan->n_ranks, more = proposal->plan->n_vertices - n;
  pending->processes = BY_ARENA_ARRAY(&proposal->plan->arena, uint32_t, n + more);
  if (!pending->processes) return no_memory();
  memcpy(pending->processes, proposal->processes, n * sizeof *pending->processes);
  memcpy(pending->processes + n, proposal->helpers, more * sizeof *pending->processes);
  return BANYAN_OK;
}

static enum banyan_status copy(struct by_pending_switch *pending, const struct by_proposal *proposal) {
  const struct by_plan *plan = proposal->plan;
  if (proposal->grants) BY_TRY(by_tree_grants_copy(&proposal->plan->arena, proposal->grants, &pending->grants));
  BY_TRY(copy_processes(pending, proposal));
  struct by_text text;
  struct by_writer writer;
  pending->n_places = plan->n_vertices - plan->n_ranks;
  pending->places = malloc(4 * pending->n_places + 1);
  pending->members = calloc(pending->n, sizeof *pending->members);
  by_text_init(&text);
  by_plan_print(plan, &text);
  pending->text = text.data;
  pending->length = text.length;
  if (!pending->places || !pending->members || text.failed) return no_memory();
  by_writer_init(&writer, pending->places, 4 * pending->n_places);
  for (size_t i = 0; i < pending->n_places; i++) by_write_u32(&writer, proposal->helpers[i]);
  for (uint32_t i = 0; i < pending->n; i++) pending->members[i].process = proposal->processes[i];
  size_t bytes = pending->length + 4 * pending->n_places, most = MOST_FRAME - BY_PLAN_SWITCH_FIXED_BYTES;
  if (bytes <= most) return by_helper_links_find(&pending->links, proposal);
  return by_fail(BANYAN_ERR_UNSUPPORTED, "the plan is %zu bytes of JSON; at most %zu can be proposed", bytes, most);
}

enum banyan_status by_plan_switching_propose(struct by_plan_switching *switching, const struct by_proposal *proposal) {
  struct by_pending_switch *pending = calloc(1, sizeof *pending);
  if (!pending) return no_memory();
  *pending = (struct by_pending_switch){.switching = switching,
                                        .state = QUEUED,
                                        .comm = proposal->comm,
                                        .n = proposal->n,
                                        .repeats = proposal->repeats,
                                        .used = proposal->used,
                                        .notify = proposal->notify,
                                        .again = AGAIN_MS * BY_MILLISECOND};
  by_timer_init(&pending->late, too_late, pending);
  enum banyan_status status = copy(pending, proposal);
  if (status == BANYAN_OK) pending->plan = proposal->plan; /* before others can see it */
  if (status == BANYAN_OK) status = by_loop_post(switching->peers->job->loop, begin, pending);
  if (status == BANYAN_OK) return status;
  pending->plan = NULL;
  free_pending(pending);
  return status;
}

void by_plan_switching_init(struct by_plan_switching *switching, struct by_control_peers *peers,
                            struct by_connector *connector, const struct by_control_events *events,
                            const struct by_plan_switch_trees *trees) {
  *switching = (struct by_plan_switching){.peers = peers, .events = events, .trees = *trees};
  by_timer_init(&switching->due, pending_due, switching);
  by_wanted_links_init(&switching->links, peers, connector);
}

void by_plan_switching_fini(struct by_plan_switching *switching) {
  by_wanted_links_fini(&switching->links);
  by_loop_cancel_timer(&switching->due);
  if (switching->granted) free_pending(switching->granted);
  for (struct by_pending_switch *pending; (pending = LIST_FIRST(&switching->pending));) {
    LIST_REMOVE(pending, entry);
    free_pending(pending);
  }
}
