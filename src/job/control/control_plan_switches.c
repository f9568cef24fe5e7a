#include "control_plan_switches.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

enum {
  AGAIN_MS = 50, /* until it is looked at again; twice as long each time, up to */
  LONGEST_MS = 1000,
  AGAIN_S = 10,                           /* so long one is proposed that somebody cannot prepare yet */
  MOST_WAITING = MOST_QUEUED - (1 << 20), /* for plans: other messages are short, and none may be missed */
  LINKS_S = 45,                           /* for links: longer than a helper tries to make one, */
  LINKS_ALONE_S = 5,                      /* or so long where another proposal waits */
  TURN_S = 60,                            /* until its turn comes, */
  ANSWERS_S = 60                          /* and for answers */
};

/* Where a move stands. set_state alone changes it, from one to the next:
 *
 *   QUEUED   -> LINKING   its turn has come, and its plan names helpers, which make their links
 *   QUEUED   -> ASKED     it names none: the members are asked
 *   LINKING  -> ASKED     all helpers have made them
 *   ASKED    -> PUT_OFF   a member could not prepare it yet
 *   PUT_OFF  -> ASKED     it is proposed again
 *
 * Any may be the last. */
enum move_state { QUEUED, LINKING, ASKED, PUT_OFF, MOVE_STATES };

/* Rank 0: a move that is not decided on. */
struct by_control_plan_switch {
  struct by_control_plan_switch *next;
  struct by_control_moves *plan_switches;
  uint32_t comm, number;
  enum move_state state;
  struct by_agreement agreement;
  uint64_t started;     /* calls of this rank, when it was proposed */
  struct by_timer late; /* what it waits for has not come for long */
  uint64_t begun;       /* when its turn came, or its links were made */
  uint64_t due, again;  /* when it is looked at next, where it is queued or put off; and how long after that */
  struct by_helper_links links;
  struct by_plan_switch_observer notify;
  uint32_t n;
  uint32_t *processes;
  bool *answered;
  size_t n_places;
  uint8_t *places;      /* who is at the plan's vertices behind the ranks */
  struct by_plan *plan; /* as `text` describes it */
  char *text;
  size_t length;
};

static const char replaced[] = "another one was proposed";
static const char users[] = "the user has set or proposed a plan, which a manager does not replace";

static void handle_answer(struct by_control_plan_switch *plan_switch, uint32_t process,
                          const struct by_plan_switch_message *message);
static void give_up(struct by_control_plan_switch *plan_switch, const char *why, size_t length);

static void free_plan_switch(struct by_control_plan_switch *plan_switch) {
  by_loop_cancel_timer(&plan_switch->late);
  by_helper_links_fini(&plan_switch->links);
  free(plan_switch->processes);
  free(plan_switch->answered);
  free(plan_switch->places);
  by_plan_destroy(plan_switch->plan);
  free(plan_switch->text);
  free(plan_switch);
}

static void set_state(struct by_control_plan_switch *plan_switch, enum move_state state) {
  static const unsigned next[MOVE_STATES] = {[QUEUED] = 1u << LINKING | 1u << ASKED,
                                             [LINKING] = 1u << ASKED,
                                             [ASKED] = 1u << PUT_OFF,
                                             [PUT_OFF] = 1u << ASKED};
  static const char *const names[] = {"queued", "linking", "asked", "put off"};
  assert(next[plan_switch->state] >> state & 1);
  by_debug("plan", "move %u of communicator %u: %s -> %s", plan_switch->number, plan_switch->comm,
           names[plan_switch->state], names[state]);
  plan_switch->state = state;
}

static void unlist(struct by_control_plan_switch *plan_switch) {
  struct by_control_plan_switch **place = &plan_switch->plan_switches->first;
  while (*place != plan_switch) place = &(*place)->next;
  *place = plan_switch->next;
}

/* ---- sending */

static struct by_plan_switch_message message_of(const struct by_control_plan_switch *plan_switch,
                                                enum by_plan_switch_kind kind) {
  return (struct by_plan_switch_message){.kind = kind,
                                         .comm = plan_switch->comm,
                                         .number = plan_switch->number,
                                         .at = plan_switch->agreement.at,
                                         .text = ""};
}

static void notify_others(const struct by_control_plan_switch *plan_switch,
                          const struct by_plan_switch_message *message) {
  for (uint32_t i = 0; i < plan_switch->n; i++) {
    const struct by_control_peer *peer =
        plan_switch->processes[i] ? plan_switch->plan_switches->peers->of_process[plan_switch->processes[i]] : NULL;
    if (peer) by_control_send_plan_switch(peer, message);
  }
}

static void notify_helpers(const struct by_control_plan_switch *plan_switch,
                           const struct by_plan_switch_message *message) {
  for (uint32_t i = 0; i < plan_switch->links.n; i++) {
    const struct by_control_peer *peer =
        plan_switch->plan_switches->peers->of_process[plan_switch->links.helpers[i].helper];
    if (peer) by_control_send_plan_switch(peer, message);
  }
}

/* What this process itself does about a word. */
static bool handle_here(const struct by_control_moves *plan_switches, const struct by_plan_switch_message *message,
                        struct by_plan_switch_message *answer, char *text, size_t room) {
  return plan_switches->events->handle_plan_switch(plan_switches->events->context, message, answer, text, room);
}

static struct by_plan_switches_view view_of(const struct by_control_plan_switch *plan_switch) {
  const struct by_control_events *events = plan_switch->plan_switches->events;
  return events->view_plan_switches(events->context, plan_switch->comm);
}

/* TAKE and DROP. */
static void notify_all(const struct by_control_plan_switch *plan_switch, const struct by_plan_switch_message *message) {
  struct by_plan_switch_message none;
  char text[TEXT_MOST];
  notify_others(plan_switch, message);
  (void)handle_here(plan_switch->plan_switches, message, &none, text, sizeof text);
}

/* PROPOSE and FIX. Rank 0 answers at once, which may decide: the move may be gone after it. */
static void ask(struct by_control_plan_switch *plan_switch, const struct by_plan_switch_message *message) {
  struct by_plan_switch_message answer, own = *message;
  char text[TEXT_MOST];
  memset(plan_switch->answered, 0, plan_switch->n * sizeof *plan_switch->answered);
  notify_others(plan_switch, message);
  own.plan = plan_switch->plan;
  if (handle_here(plan_switch->plan_switches, &own, &answer, text, sizeof text)) handle_answer(plan_switch, 0, &answer);
}

/* ---- beginning, and again */

/* The first that has not read for long what it was told, or 0. */
static uint32_t find_full(const struct by_control_plan_switch *plan_switch) {
  size_t more = plan_switch->length + 4 * plan_switch->n_places + MOVE_WORD_MORE;
  for (uint32_t i = 0; i < plan_switch->n; i++) {
    const struct by_control_peer *peer =
        plan_switch->processes[i] ? plan_switch->plan_switches->peers->of_process[plan_switch->processes[i]] : NULL;
    if (peer && by_stream_queued(peer->stream) + more > MOST_WAITING) return plan_switch->processes[i];
  }
  return 0;
}

/* Of a plan without helpers, or one whose helpers are linked. */
static void propose(struct by_control_plan_switch *plan_switch) {
  uint32_t full = find_full(plan_switch);
  if (full) {
    char text[TEXT_MOST];
    snprintf(text, sizeof text, "rank %u does not read the plans before it: is it stopped?", full);
    give_up(plan_switch, text, strlen(text));
    return;
  }
  set_state(plan_switch, ASKED);
  by_loop_set_delay(plan_switch->plan_switches->peers->job->loop, &plan_switch->late, ANSWERS_S * BY_SECOND);
  by_agreement_init(&plan_switch->agreement, plan_switch->n);
  plan_switch->started = view_of(plan_switch).started;
  struct by_plan_switch_message message = message_of(plan_switch, BY_PLAN_SWITCH_PROPOSE);
  message.text = plan_switch->text;
  message.length = plan_switch->length;
  message.origin = plan_switch->plan->origin;
  message.processes = plan_switch->places;
  message.n_processes = plan_switch->n_places;
  ask(plan_switch, &message);
}

static void drop(const struct by_control_plan_switch *plan_switch, const char *why, size_t length) {
  struct by_plan_switch_message message = message_of(plan_switch, BY_PLAN_SWITCH_DROP);
  message.text = why;
  message.length = length;
  if (plan_switch->state == LINKING)
    notify_helpers(plan_switch, &message);
  else
    notify_all(plan_switch, &message);
}

/* No later than so. */
static void look_at(struct by_control_moves *plan_switches, uint64_t due) {
  if (!by_timer_is_set(&plan_switches->due) || due < plan_switches->due.at)
    by_loop_set_timer(plan_switches->peers->job->loop, &plan_switches->due, due);
}

static void look_later(struct by_control_plan_switch *plan_switch) {
  plan_switch->due = by_loop_now(plan_switch->plan_switches->peers->job->loop) + plan_switch->again;
  plan_switch->again *= 2;
  if (plan_switch->again > LONGEST_MS * BY_MILLISECOND) plan_switch->again = LONGEST_MS * BY_MILLISECOND;
  look_at(plan_switch->plan_switches, plan_switch->due);
}

/* What waits for it begins in a while: nothing ends another move than its own. */
static void end(struct by_control_plan_switch *plan_switch, const char *why) {
  look_at(plan_switch->plan_switches, by_loop_now(plan_switch->plan_switches->peers->job->loop));
  if (plan_switch->notify.notified)
    plan_switch->notify.notified(plan_switch->notify.context, why ? 0 : plan_switch->agreement.at, why);
  free_plan_switch(plan_switch);
}

static void give_up(struct by_control_plan_switch *plan_switch, const char *why, size_t length) {
  by_warn("plan", "the new plan is not used: %.*s", (int)length, why);
  char text[TEXT_MOST];
  snprintf(text, sizeof text, "%.*s", (int)length, why);
  unlist(plan_switch);
  if (plan_switch->state != QUEUED) drop(plan_switch, text, strlen(text));
  end(plan_switch, text);
}

static uint64_t under_way(const struct by_control_plan_switch *plan_switch) {
  return by_loop_now(plan_switch->plan_switches->peers->job->loop) - plan_switch->begun;
}

/* A communicator is made on one rank before another, and comes to the call of the move before sooner. */
static void put_off(struct by_control_plan_switch *plan_switch, uint32_t process,
                    const struct by_plan_switch_message *message) {
  static const char absent[] = "it has no such communicator";
  char text[TEXT_MOST];
  if (under_way(plan_switch) > AGAIN_S * BY_SECOND || plan_switch->agreement.fixing) {
    size_t length = message->length ? message->length : strlen(absent);
    snprintf(text, sizeof text, "rank %u: %.*s", process, (int)length, message->length ? message->text : absent);
    give_up(plan_switch, text, strlen(text));
    return;
  }
  drop(plan_switch, "", 0);
  set_state(plan_switch, PUT_OFF);
  look_later(plan_switch);
}

static bool is_managers(const struct by_control_plan_switch *plan_switch) {
  return plan_switch->plan->origin.source == BANYAN_PLAN_MANAGER;
}

static void start(struct by_control_plan_switch *plan_switch) {
  static const char gone[] = "a helper that it names is not here any more, or not yet";
  struct by_control_moves *plan_switches = plan_switch->plan_switches;
  plan_switch->number = ++plan_switches->n;
  plan_switch->begun = by_loop_now(plan_switches->peers->job->loop);
  plan_switch->again = AGAIN_MS * BY_MILLISECOND;
  if (is_managers(plan_switch) && view_of(plan_switch).supplied) {
    give_up(plan_switch, users, strlen(users));
    return;
  }
  if (!plan_switch->links.n) {
    propose(plan_switch);
    return;
  }
  set_state(plan_switch, LINKING); /* the helpers that are asked are notified if nothing comes of it */
  if (by_helper_links_ask(&plan_switch->links, plan_switches->peers, plan_switch->comm, plan_switch->number))
    by_loop_set_delay(plan_switches->peers->job->loop, &plan_switch->late, LINKS_S * BY_SECOND);
  else
    give_up(plan_switch, gone, strlen(gone));
}

/* The one of a communicator that is queued, or the one that is under way. */
static struct by_control_plan_switch *find_of(const struct by_control_moves *plan_switches, uint32_t comm,
                                              bool queued) {
  struct by_control_plan_switch *plan_switch = plan_switches->first;
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): as below */
  while (plan_switch && (plan_switch->comm != comm || (plan_switch->state == QUEUED) != queued))
    plan_switch = plan_switch->next;
  return plan_switch;
}

static bool holds_up_another(const struct by_control_plan_switch *plan_switch) {
  return plan_switch->state == LINKING && under_way(plan_switch) > LINKS_ALONE_S * BY_SECOND &&
         find_of(plan_switch->plan_switches, plan_switch->comm, true);
}

/* Its turn comes when nothing else of its communicator is under way, and this rank has come to the call of the last. */
static bool may_start(const struct by_control_plan_switch *plan_switch) {
  return !find_of(plan_switch->plan_switches, plan_switch->comm, false) && !view_of(plan_switch).taken;
}

static void propose_again(struct by_control_plan_switch *plan_switch) {
  plan_switch->number = ++plan_switch->plan_switches->n;
  propose(plan_switch);
}

static bool is_due(const struct by_control_plan_switch *plan_switch) {
  return plan_switch->due <= by_loop_now(plan_switch->plan_switches->peers->job->loop);
}

static void plan_switches_due(void *argument) {
  struct by_control_moves *plan_switches = argument;
  for (struct by_control_plan_switch *plan_switch = plan_switches->first, *next; plan_switch; plan_switch = next) {
    next = plan_switch->next;
    if (holds_up_another(plan_switch))
      give_up(plan_switch, replaced, strlen(replaced));
    else if (plan_switch->state == PUT_OFF && is_due(plan_switch))
      propose_again(plan_switch);
  }
  for (struct by_control_plan_switch *plan_switch = plan_switches->first, *next; plan_switch; plan_switch = next) {
    next = plan_switch->next; /* NOLINT(clang-analyzer-unix.Malloc): what has ended is in the list no more */
    if (plan_switch->state == QUEUED && may_start(plan_switch)) start(plan_switch);
  }
  for (struct by_control_plan_switch *plan_switch = plan_switches->first; plan_switch;
       plan_switch = plan_switch->next) {
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what has ended is in the list no more */
    if (plan_switch->state == QUEUED && is_due(plan_switch)) look_later(plan_switch);
    if (plan_switch->state == QUEUED || plan_switch->state == PUT_OFF) look_at(plan_switches, plan_switch->due);
  }
}

/* ---- answers */

static void decide(struct by_control_plan_switch *plan_switch) {
  struct by_plan_switch_message message = message_of(plan_switch, BY_PLAN_SWITCH_TAKE);
  unlist(plan_switch);
  notify_all(plan_switch, &message);
  end(plan_switch, NULL);
}

static void handle_started(struct by_control_plan_switch *plan_switch, uint32_t member,
                           const struct by_plan_switch_message *message) {
  enum by_plan_switch_kind awaited = plan_switch->agreement.fixing ? BY_PLAN_SWITCH_FIXED : BY_PLAN_SWITCH_PREPARED;
  if (message->kind != awaited || plan_switch->answered[member]) return;
  plan_switch->answered[member] = true;
  uint64_t lead = view_of(plan_switch).started - plan_switch->started;
  enum by_agreement_next next = by_agreement_handle(&plan_switch->agreement, message->at, &message->iteration, lead);
  struct by_plan_switch_message fix = message_of(plan_switch, BY_PLAN_SWITCH_FIX);
  if (next == BY_AGREEMENT_TAKE) decide(plan_switch);
  if (next == BY_AGREEMENT_FIX) ask(plan_switch, &fix);
}

static void handle_answer(struct by_control_plan_switch *plan_switch, uint32_t process,
                          const struct by_plan_switch_message *message) {
  uint32_t member = 0;
  while (member < plan_switch->n && plan_switch->processes[member] != process) member++;
  if (member == plan_switch->n || plan_switch->state != ASKED) return;
  if (message->kind == BY_PLAN_SWITCH_REFUSED)
    give_up(plan_switch, message->text, message->length);
  else if (message->kind == BY_PLAN_SWITCH_NOT_YET)
    put_off(plan_switch, process, message);
  else
    handle_started(plan_switch, member, message);
}

static void handle_linked(struct by_control_plan_switch *plan_switch, uint32_t helper) {
  if (plan_switch->state != LINKING || !by_helper_links_made(&plan_switch->links, helper)) return;
  plan_switch->begun = by_loop_now(plan_switch->plan_switches->peers->job->loop);
  propose(plan_switch);
}

static struct by_control_plan_switch *find(const struct by_control_moves *plan_switches,
                                           const struct by_plan_switch_message *message) {
  struct by_control_plan_switch *plan_switch = plan_switches->first;
  while (plan_switch &&
         (plan_switch->state == QUEUED || plan_switch->comm != message->comm || plan_switch->number != message->number))
    plan_switch = plan_switch->next;
  return plan_switch;
}

static void answer_root(const struct by_control_moves *plan_switches, const struct by_control_peer *peer,
                        const struct by_plan_switch_message *message) {
  struct by_plan_switch_message answer;
  char text[TEXT_MOST];
  if (handle_here(plan_switches, message, &answer, text, sizeof text)) by_control_send_plan_switch(peer, &answer);
}

void by_control_moves_handle(struct by_control_moves *plan_switches, const struct by_control_peer *peer,
                             const void *payload, size_t length) {
  struct by_control_peers *peers = plan_switches->peers;
  enum by_member_kind kind = peers->job->role.kind;
  bool root = by_control_peers_is_root(peers);
  struct by_plan_switch_message message;
  bool fits = by_plan_switch_message_read(payload, length, &message) == BANYAN_OK &&
              root == by_plan_switch_is_answer(message.kind);
  bool linked = fits && message.kind == BY_PLAN_SWITCH_LINKED;
  if (!fits || (root && by_control_peers_is_helper(peers, peer->rank) != linked)) {
    by_warn("control", "%s: a malformed word about a new plan; ignored", by_stream_get_name(peer->stream));
    return;
  }
  struct by_control_plan_switch *plan_switch = root ? find(plan_switches, &message) : NULL;
  if (plan_switch && linked)
    handle_linked(plan_switch, (uint32_t)peer->rank);
  else if (plan_switch)
    handle_answer(plan_switch, (uint32_t)peer->rank, &message);
  if (!root && kind == BY_MEMBER_RANK) answer_root(plan_switches, peer, &message);
  if (!root && kind == BY_MEMBER_HELPER) by_wanted_links_handle(&plan_switches->links, peer, &message);
}

/* ---- the end */

static bool has_member(const struct by_control_plan_switch *plan_switch, uint32_t process) {
  for (uint32_t i = 0; i < plan_switch->n; i++)
    if (plan_switch->processes[i] == process) return true;
  return by_helper_links_has(&plan_switch->links, process);
}

void by_control_moves_drop(struct by_control_moves *plan_switches, uint32_t process, const char *why) {
  for (struct by_control_plan_switch *plan_switch = plan_switches->first, *next; plan_switch; plan_switch = next) {
    next = plan_switch->next;
    if (has_member(plan_switch, process)) give_up(plan_switch, why, strlen(why));
  }
}

/* ---- from other threads */

static uint32_t find_silent(const struct by_control_plan_switch *plan_switch) {
  uint32_t i = 0;
  while (i + 1 < plan_switch->n && plan_switch->answered[i]) i++;
  return plan_switch->processes[i];
}

/* The turn of one that waits has not come: the one before it is not decided on, or has not come into use. */
static void send_turn(const struct by_control_plan_switch *plan_switch, char *why, size_t room) {
  const struct by_control_plan_switch *before = find_of(plan_switch->plan_switches, plan_switch->comm, false);
  if (before)
    snprintf(why, room, "the plan before it is not decided on: rank %u does not answer: is it stopped?",
             find_silent(before));
  else
    snprintf(why, room, "the plan before it has not come into use for %d s: are no calls made?", TURN_S);
}

static void too_late(void *argument) {
  struct by_control_plan_switch *plan_switch = argument;
  char why[TEXT_MOST];
  if (plan_switch->state == QUEUED)
    send_turn(plan_switch, why, sizeof why);
  else if (plan_switch->state == LINKING)
    snprintf(why, sizeof why, "its helpers have not made their links: are they stopped, or kept apart by a firewall?");
  else
    snprintf(why, sizeof why, "rank %u has not answered for %d s: is it stopped?", find_silent(plan_switch), ANSWERS_S);
  give_up(plan_switch, why, strlen(why));
}

static void begin(void *argument) {
  struct by_control_plan_switch *plan_switch = argument;
  struct by_control_moves *plan_switches = plan_switch->plan_switches;
  struct by_control_plan_switch *before = find_of(plan_switches, plan_switch->comm, true);
  bool yields = before && is_managers(plan_switch) && before->plan->origin.supplied;
  if (before && !yields) give_up(before, replaced, strlen(replaced));
  plan_switch->next = plan_switches->first;
  plan_switches->first = plan_switch;
  if (yields) {
    give_up(plan_switch, users, strlen(users));
    return;
  }
  if (may_start(plan_switch)) {
    start(plan_switch);
    return;
  }
  by_loop_set_delay(plan_switches->peers->job->loop, &plan_switch->late, TURN_S * BY_SECOND);
  look_later(plan_switch);
}

static enum banyan_status copy(struct by_control_plan_switch *plan_switch, const struct by_proposal *proposal) {
  const struct by_plan *plan = proposal->plan;
  struct by_text text;
  struct by_writer writer;
  plan_switch->n_places = plan->n_vertices - plan->n_ranks;
  plan_switch->places = malloc(4 * plan_switch->n_places + 1);
  plan_switch->processes = calloc(plan_switch->n, sizeof *plan_switch->processes);
  plan_switch->answered = calloc(plan_switch->n, sizeof *plan_switch->answered);
  by_text_init(&text);
  by_plan_print(plan, &text);
  plan_switch->text = text.data;
  plan_switch->length = text.length;
  if (!plan_switch->places || !plan_switch->processes || !plan_switch->answered || text.failed)
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a new plan");
  by_writer_init(&writer, plan_switch->places, 4 * plan_switch->n_places);
  for (size_t i = 0; i < plan_switch->n_places; i++) by_write_u32(&writer, proposal->helpers[i]);
  memcpy(plan_switch->processes, proposal->processes, plan_switch->n * sizeof *plan_switch->processes);
  size_t bytes = plan_switch->length + 4 * plan_switch->n_places;
  if (bytes <= MOST_FRAME - MOVE_WORD_MORE) return by_helper_links_find(&plan_switch->links, proposal);
  return by_fail(BANYAN_ERR_UNSUPPORTED, "the plan is %zu bytes of JSON; at most %d can be proposed", bytes,
                 MOST_FRAME - MOVE_WORD_MORE);
}

enum banyan_status by_control_moves_propose(struct by_control_moves *plan_switches,
                                            const struct by_proposal *proposal) {
  struct by_control_plan_switch *plan_switch = calloc(1, sizeof *plan_switch);
  if (!plan_switch) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a new plan");
  *plan_switch = (struct by_control_plan_switch){.plan_switches = plan_switches,
                                                 .state = QUEUED,
                                                 .comm = proposal->comm,
                                                 .n = proposal->n,
                                                 .notify = proposal->notify};
  plan_switch->again = AGAIN_MS * BY_MILLISECOND;
  by_timer_init(&plan_switch->late, too_late, plan_switch);
  enum banyan_status status = copy(plan_switch, proposal);
  if (status == BANYAN_OK) plan_switch->plan = proposal->plan; /* before others can see it */
  if (status == BANYAN_OK) status = by_loop_post(plan_switches->peers->job->loop, begin, plan_switch);
  if (status == BANYAN_OK) return status;
  plan_switch->plan = NULL;
  free_plan_switch(plan_switch);
  return status;
}

void by_control_moves_init(struct by_control_moves *plan_switches, struct by_control_peers *peers,
                           struct by_connector *connector, const struct by_control_events *events) {
  *plan_switches = (struct by_control_moves){.peers = peers, .events = events};
  by_timer_init(&plan_switches->due, plan_switches_due, plan_switches);
  by_wanted_links_init(&plan_switches->links, peers, connector);
}

void by_control_moves_fini(struct by_control_moves *plan_switches) {
  by_wanted_links_fini(&plan_switches->links);
  by_loop_cancel_timer(&plan_switches->due);
  for (struct by_control_plan_switch *next; plan_switches->first; plan_switches->first = next) {
    next = plan_switches->first->next;
    free_plan_switch(plan_switches->first);
  }
}
