#include "control_moves.h"

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
struct by_control_move {
  struct by_control_move *next;
  struct by_control_moves *moves;
  uint32_t comm, number;
  enum move_state state;
  struct by_agreement agreement;
  uint64_t started;     /* calls of this rank, when it was proposed */
  struct by_timer late; /* what it waits for has not come for long */
  uint64_t begun;       /* when its turn came, or its links were made */
  uint64_t due, again;  /* when it is looked at next, where it is queued or put off; and how long after that */
  struct by_helper_links links;
  struct by_move_observer notify;
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

static void handle_answer(struct by_control_move *move, uint32_t process, const struct by_move_message *message);
static void give_up(struct by_control_move *move, const char *why, size_t length);

static void free_move(struct by_control_move *move) {
  by_loop_cancel_timer(&move->late);
  by_helper_links_fini(&move->links);
  free(move->processes);
  free(move->answered);
  free(move->places);
  by_plan_destroy(move->plan);
  free(move->text);
  free(move);
}

static void set_state(struct by_control_move *move, enum move_state state) {
  static const unsigned next[MOVE_STATES] = {[QUEUED] = 1u << LINKING | 1u << ASKED,
                                             [LINKING] = 1u << ASKED,
                                             [ASKED] = 1u << PUT_OFF,
                                             [PUT_OFF] = 1u << ASKED};
  static const char *const names[] = {"queued", "linking", "asked", "put off"};
  assert(next[move->state] >> state & 1);
  by_debug("plan", "move %u of communicator %u: %s -> %s", move->number, move->comm, names[move->state], names[state]);
  move->state = state;
}

static void unlist(struct by_control_move *move) {
  struct by_control_move **place = &move->moves->first;
  while (*place != move) place = &(*place)->next;
  *place = move->next;
}

/* ---- sending */

static struct by_move_message message_of(const struct by_control_move *move, enum by_move_kind kind) {
  return (struct by_move_message){
      .kind = kind, .comm = move->comm, .number = move->number, .at = move->agreement.at, .text = ""};
}

static void notify_others(const struct by_control_move *move, const struct by_move_message *message) {
  for (uint32_t i = 0; i < move->n; i++) {
    const struct by_control_peer *peer = move->processes[i] ? move->moves->peers->of_process[move->processes[i]] : NULL;
    if (peer) by_control_send_move(peer, message);
  }
}

static void notify_helpers(const struct by_control_move *move, const struct by_move_message *message) {
  for (uint32_t i = 0; i < move->links.n; i++) {
    const struct by_control_peer *peer = move->moves->peers->of_process[move->links.helpers[i].helper];
    if (peer) by_control_send_move(peer, message);
  }
}

/* What this process itself does about a word. */
static bool handle_here(const struct by_control_moves *moves, const struct by_move_message *message,
                        struct by_move_message *answer, char *text, size_t room) {
  return moves->events->handle_move(moves->events->context, message, answer, text, room);
}

static struct by_moves_view view_of(const struct by_control_move *move) {
  const struct by_control_events *events = move->moves->events;
  return events->view_moves(events->context, move->comm);
}

/* TAKE and DROP. */
static void notify_all(const struct by_control_move *move, const struct by_move_message *message) {
  struct by_move_message none;
  char text[TEXT_MOST];
  notify_others(move, message);
  (void)handle_here(move->moves, message, &none, text, sizeof text);
}

/* PROPOSE and FIX. Rank 0 answers at once, which may decide: the move may be gone after it. */
static void ask(struct by_control_move *move, const struct by_move_message *message) {
  struct by_move_message answer, own = *message;
  char text[TEXT_MOST];
  memset(move->answered, 0, move->n * sizeof *move->answered);
  notify_others(move, message);
  own.plan = move->plan;
  if (handle_here(move->moves, &own, &answer, text, sizeof text)) handle_answer(move, 0, &answer);
}

/* ---- beginning, and again */

/* The first that has not read for long what it was told, or 0. */
static uint32_t find_full(const struct by_control_move *move) {
  size_t more = move->length + 4 * move->n_places + MOVE_WORD_MORE;
  for (uint32_t i = 0; i < move->n; i++) {
    const struct by_control_peer *peer = move->processes[i] ? move->moves->peers->of_process[move->processes[i]] : NULL;
    if (peer && by_stream_queued(peer->stream) + more > MOST_WAITING) return move->processes[i];
  }
  return 0;
}

/* Of a plan without helpers, or one whose helpers are linked. */
static void propose(struct by_control_move *move) {
  uint32_t full = find_full(move);
  if (full) {
    char text[TEXT_MOST];
    snprintf(text, sizeof text, "rank %u does not read the plans before it: is it stopped?", full);
    give_up(move, text, strlen(text));
    return;
  }
  set_state(move, ASKED);
  by_loop_set_delay(move->moves->peers->job->loop, &move->late, ANSWERS_S * BY_SECOND);
  by_agreement_init(&move->agreement, move->n);
  move->started = view_of(move).started;
  struct by_move_message message = message_of(move, BY_MOVE_PROPOSE);
  message.text = move->text;
  message.length = move->length;
  message.origin = move->plan->origin;
  message.processes = move->places;
  message.n_processes = move->n_places;
  ask(move, &message);
}

static void drop(const struct by_control_move *move, const char *why, size_t length) {
  struct by_move_message message = message_of(move, BY_MOVE_DROP);
  message.text = why;
  message.length = length;
  if (move->state == LINKING)
    notify_helpers(move, &message);
  else
    notify_all(move, &message);
}

/* No later than so. */
static void look_at(struct by_control_moves *moves, uint64_t due) {
  if (!by_timer_is_set(&moves->due) || due < moves->due.at)
    by_loop_set_timer(moves->peers->job->loop, &moves->due, due);
}

static void look_later(struct by_control_move *move) {
  move->due = by_loop_now(move->moves->peers->job->loop) + move->again;
  move->again *= 2;
  if (move->again > LONGEST_MS * BY_MILLISECOND) move->again = LONGEST_MS * BY_MILLISECOND;
  look_at(move->moves, move->due);
}

/* What waits for it begins in a while: nothing ends another move than its own. */
static void end(struct by_control_move *move, const char *why) {
  look_at(move->moves, by_loop_now(move->moves->peers->job->loop));
  if (move->notify.notified) move->notify.notified(move->notify.context, why ? 0 : move->agreement.at, why);
  free_move(move);
}

static void give_up(struct by_control_move *move, const char *why, size_t length) {
  by_warn("plan", "the new plan is not used: %.*s", (int)length, why);
  char text[TEXT_MOST];
  snprintf(text, sizeof text, "%.*s", (int)length, why);
  unlist(move);
  if (move->state != QUEUED) drop(move, text, strlen(text));
  end(move, text);
}

static uint64_t under_way(const struct by_control_move *move) {
  return by_loop_now(move->moves->peers->job->loop) - move->begun;
}

/* A communicator is made on one rank before another, and comes to the call of the move before sooner. */
static void put_off(struct by_control_move *move, uint32_t process, const struct by_move_message *message) {
  static const char absent[] = "it has no such communicator";
  char text[TEXT_MOST];
  if (under_way(move) > AGAIN_S * BY_SECOND || move->agreement.fixing) {
    size_t length = message->length ? message->length : strlen(absent);
    snprintf(text, sizeof text, "rank %u: %.*s", process, (int)length, message->length ? message->text : absent);
    give_up(move, text, strlen(text));
    return;
  }
  drop(move, "", 0);
  set_state(move, PUT_OFF);
  look_later(move);
}

static bool is_managers(const struct by_control_move *move) {
  return move->plan->origin.source == BANYAN_PLAN_MANAGER;
}

static void start(struct by_control_move *move) {
  static const char gone[] = "a helper that it names is not here any more, or not yet";
  struct by_control_moves *moves = move->moves;
  move->number = ++moves->n;
  move->begun = by_loop_now(moves->peers->job->loop);
  move->again = AGAIN_MS * BY_MILLISECOND;
  if (is_managers(move) && view_of(move).supplied) {
    give_up(move, users, strlen(users));
    return;
  }
  if (!move->links.n) {
    propose(move);
    return;
  }
  set_state(move, LINKING); /* the helpers that are asked are notified if nothing comes of it */
  if (by_helper_links_ask(&move->links, moves->peers, move->comm, move->number))
    by_loop_set_delay(moves->peers->job->loop, &move->late, LINKS_S * BY_SECOND);
  else
    give_up(move, gone, strlen(gone));
}

/* The one of a communicator that is queued, or the one that is under way. */
static struct by_control_move *find_of(const struct by_control_moves *moves, uint32_t comm, bool queued) {
  struct by_control_move *move = moves->first;
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): as below */
  while (move && (move->comm != comm || (move->state == QUEUED) != queued)) move = move->next;
  return move;
}

static bool holds_up_another(const struct by_control_move *move) {
  return move->state == LINKING && under_way(move) > LINKS_ALONE_S * BY_SECOND &&
         find_of(move->moves, move->comm, true);
}

/* Its turn comes when nothing else of its communicator is under way, and this rank has come to the call of the last. */
static bool may_start(const struct by_control_move *move) {
  return !find_of(move->moves, move->comm, false) && !view_of(move).taken;
}

static void propose_again(struct by_control_move *move) {
  move->number = ++move->moves->n;
  propose(move);
}

static bool is_due(const struct by_control_move *move) {
  return move->due <= by_loop_now(move->moves->peers->job->loop);
}

static void moves_due(void *argument) {
  struct by_control_moves *moves = argument;
  for (struct by_control_move *move = moves->first, *next; move; move = next) {
    next = move->next;
    if (holds_up_another(move))
      give_up(move, replaced, strlen(replaced));
    else if (move->state == PUT_OFF && is_due(move))
      propose_again(move);
  }
  for (struct by_control_move *move = moves->first, *next; move; move = next) {
    next = move->next; /* NOLINT(clang-analyzer-unix.Malloc): what has ended is in the list no more */
    if (move->state == QUEUED && may_start(move)) start(move);
  }
  for (struct by_control_move *move = moves->first; move; move = move->next) {
    if (move->state == QUEUED && is_due(move)) look_later(move); /* NOLINT(clang-analyzer-unix.Malloc) */
    if (move->state == QUEUED || move->state == PUT_OFF) look_at(moves, move->due);
  }
}

/* ---- answers */

static void decide(struct by_control_move *move) {
  struct by_move_message message = message_of(move, BY_MOVE_TAKE);
  unlist(move);
  notify_all(move, &message);
  end(move, NULL);
}

static void handle_started(struct by_control_move *move, uint32_t member, const struct by_move_message *message) {
  enum by_move_kind awaited = move->agreement.fixing ? BY_MOVE_FIXED : BY_MOVE_PREPARED;
  if (message->kind != awaited || move->answered[member]) return;
  move->answered[member] = true;
  uint64_t lead = view_of(move).started - move->started;
  enum by_agreement_next next = by_agreement_handle(&move->agreement, message->at, &message->iteration, lead);
  struct by_move_message fix = message_of(move, BY_MOVE_FIX);
  if (next == BY_AGREEMENT_TAKE) decide(move);
  if (next == BY_AGREEMENT_FIX) ask(move, &fix);
}

static void handle_answer(struct by_control_move *move, uint32_t process, const struct by_move_message *message) {
  uint32_t member = 0;
  while (member < move->n && move->processes[member] != process) member++;
  if (member == move->n || move->state != ASKED) return;
  if (message->kind == BY_MOVE_REFUSED)
    give_up(move, message->text, message->length);
  else if (message->kind == BY_MOVE_NOT_YET)
    put_off(move, process, message);
  else
    handle_started(move, member, message);
}

static void handle_linked(struct by_control_move *move, uint32_t helper) {
  if (move->state != LINKING || !by_helper_links_made(&move->links, helper)) return;
  move->begun = by_loop_now(move->moves->peers->job->loop);
  propose(move);
}

static struct by_control_move *find(const struct by_control_moves *moves, const struct by_move_message *message) {
  struct by_control_move *move = moves->first;
  while (move && (move->state == QUEUED || move->comm != message->comm || move->number != message->number))
    move = move->next;
  return move;
}

static void answer_root(const struct by_control_moves *moves, const struct by_control_peer *peer,
                        const struct by_move_message *message) {
  struct by_move_message answer;
  char text[TEXT_MOST];
  if (handle_here(moves, message, &answer, text, sizeof text)) by_control_send_move(peer, &answer);
}

void by_control_moves_handle(struct by_control_moves *moves, const struct by_control_peer *peer, const void *payload,
                             size_t length) {
  struct by_control_peers *peers = moves->peers;
  enum by_member_kind kind = peers->job->role.kind;
  bool root = by_control_peers_is_root(peers);
  struct by_move_message message;
  bool fits = by_move_message_read(payload, length, &message) == BANYAN_OK && root == by_move_is_answer(message.kind);
  bool linked = fits && message.kind == BY_MOVE_LINKED;
  if (!fits || (root && by_control_peers_is_helper(peers, peer->rank) != linked)) {
    by_warn("control", "%s: a malformed word about a new plan; ignored", by_stream_get_name(peer->stream));
    return;
  }
  struct by_control_move *move = root ? find(moves, &message) : NULL;
  if (move && linked)
    handle_linked(move, (uint32_t)peer->rank);
  else if (move)
    handle_answer(move, (uint32_t)peer->rank, &message);
  if (!root && kind == BY_MEMBER_RANK) answer_root(moves, peer, &message);
  if (!root && kind == BY_MEMBER_HELPER) by_wanted_links_handle(&moves->links, peer, &message);
}

/* ---- the end */

static bool has_member(const struct by_control_move *move, uint32_t process) {
  for (uint32_t i = 0; i < move->n; i++)
    if (move->processes[i] == process) return true;
  return by_helper_links_has(&move->links, process);
}

void by_control_moves_drop(struct by_control_moves *moves, uint32_t process, const char *why) {
  for (struct by_control_move *move = moves->first, *next; move; move = next) {
    next = move->next;
    if (has_member(move, process)) give_up(move, why, strlen(why));
  }
}

/* ---- from other threads */

static uint32_t find_silent(const struct by_control_move *move) {
  uint32_t i = 0;
  while (i + 1 < move->n && move->answered[i]) i++;
  return move->processes[i];
}

/* The turn of one that waits has not come: the one before it is not decided on, or has not come into use. */
static void send_turn(const struct by_control_move *move, char *why, size_t room) {
  const struct by_control_move *before = find_of(move->moves, move->comm, false);
  if (before)
    snprintf(why, room, "the plan before it is not decided on: rank %u does not answer: is it stopped?",
             find_silent(before));
  else
    snprintf(why, room, "the plan before it has not come into use for %d s: are no calls made?", TURN_S);
}

static void too_late(void *argument) {
  struct by_control_move *move = argument;
  char why[TEXT_MOST];
  if (move->state == QUEUED)
    send_turn(move, why, sizeof why);
  else if (move->state == LINKING)
    snprintf(why, sizeof why, "its helpers have not made their links: are they stopped, or kept apart by a firewall?");
  else
    snprintf(why, sizeof why, "rank %u has not answered for %d s: is it stopped?", find_silent(move), ANSWERS_S);
  give_up(move, why, strlen(why));
}

static void begin(void *argument) {
  struct by_control_move *move = argument;
  struct by_control_moves *moves = move->moves;
  struct by_control_move *before = find_of(moves, move->comm, true);
  bool yields = before && is_managers(move) && before->plan->origin.supplied;
  if (before && !yields) give_up(before, replaced, strlen(replaced));
  move->next = moves->first;
  moves->first = move;
  if (yields) {
    give_up(move, users, strlen(users));
    return;
  }
  if (may_start(move)) {
    start(move);
    return;
  }
  by_loop_set_delay(moves->peers->job->loop, &move->late, TURN_S * BY_SECOND);
  look_later(move);
}

static enum banyan_status copy(struct by_control_move *move, const struct by_proposal *proposal) {
  const struct by_plan *plan = proposal->plan;
  struct by_text text;
  struct by_writer writer;
  move->n_places = plan->n_vertices - plan->n_ranks;
  move->places = malloc(4 * move->n_places + 1);
  move->processes = calloc(move->n, sizeof *move->processes);
  move->answered = calloc(move->n, sizeof *move->answered);
  by_text_init(&text);
  by_plan_print(plan, &text);
  move->text = text.data;
  move->length = text.length;
  if (!move->places || !move->processes || !move->answered || text.failed)
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a new plan");
  by_writer_init(&writer, move->places, 4 * move->n_places);
  for (size_t i = 0; i < move->n_places; i++) by_write_u32(&writer, proposal->helpers[i]);
  memcpy(move->processes, proposal->processes, move->n * sizeof *move->processes);
  size_t bytes = move->length + 4 * move->n_places;
  if (bytes <= MOST_FRAME - MOVE_WORD_MORE) return by_helper_links_find(&move->links, proposal);
  return by_fail(BANYAN_ERR_UNSUPPORTED, "the plan is %zu bytes of JSON; at most %d can be proposed", bytes,
                 MOST_FRAME - MOVE_WORD_MORE);
}

enum banyan_status by_control_moves_propose(struct by_control_moves *moves, const struct by_proposal *proposal) {
  struct by_control_move *move = calloc(1, sizeof *move);
  if (!move) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a new plan");
  *move = (struct by_control_move){
      .moves = moves, .state = QUEUED, .comm = proposal->comm, .n = proposal->n, .notify = proposal->notify};
  move->again = AGAIN_MS * BY_MILLISECOND;
  by_timer_init(&move->late, too_late, move);
  enum banyan_status status = copy(move, proposal);
  if (status == BANYAN_OK) move->plan = proposal->plan; /* before others can see it */
  if (status == BANYAN_OK) status = by_loop_post(moves->peers->job->loop, begin, move);
  if (status == BANYAN_OK) return status;
  move->plan = NULL;
  free_move(move);
  return status;
}

void by_control_moves_init(struct by_control_moves *moves, struct by_control_peers *peers,
                           struct by_connector *connector, const struct by_control_events *events) {
  *moves = (struct by_control_moves){.peers = peers, .events = events};
  by_timer_init(&moves->due, moves_due, moves);
  by_wanted_links_init(&moves->links, peers, connector);
}

void by_control_moves_fini(struct by_control_moves *moves) {
  by_wanted_links_fini(&moves->links);
  by_loop_cancel_timer(&moves->due);
  for (struct by_control_move *next; moves->first; moves->first = next) {
    next = moves->first->next;
    free_move(moves->first);
  }
}
