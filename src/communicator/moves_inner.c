/* Submitted operations run in a communicator of their own, and start where the log of their root says so. So does its
 * new plan: the root notes the number of a move there once that is decided on, and what starts behind the note is made
 * under the plan. Ranks may be late in making the inner communicator, and in reading the log, so each keeps the plans
 * of the last moves. Who reads the log cannot prepare a move before it has come to the notes of all but the last few;
 * nor can, therefore, anybody. Who has no inner communicator reads it only once it submits something: what starts then
 * is behind what the root has noted now, which is the last but those few. And each keeps the plan before all of them,
 * as the outer communicator moves on without the log. */
#include <string.h>

#include "log.h"
#include "moves.h"
#include "submitter.h"

enum {
  KEPT = sizeof((struct banyan_comm *)0)->kept / sizeof(struct by_kept_plan),
  AHEAD = 3,           /* moves, at most, whose notes who reads the log has not come to */
  DECIDED = AHEAD + 1, /* what others may need of those that are decided on: the last one noted, and these */
};
_Static_assert(KEPT == DECIDED + 1, "and one that is not decided on yet");

static struct by_kept_plan *find(struct banyan_comm *comm, uint32_t number) {
  for (uint32_t i = 0; i < comm->n_kept; i++)
    if (comm->kept[i].number == number) return &comm->kept[i];
  return NULL;
}

static void remove_kept(struct banyan_comm *comm, struct by_kept_plan *kept) {
  by_plan_destroy(kept->plan);
  comm->n_kept--;
  for (uint32_t i = (uint32_t)(kept - comm->kept); i < comm->n_kept; i++) comm->kept[i] = comm->kept[i + 1];
}

static bool has_inner(const struct banyan_comm *comm) {
  return comm->submitter && comm->submitter->inner;
}

static uint32_t count_ahead(const struct banyan_comm *comm) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < comm->n_kept; i++) n += comm->kept[i].number > comm->noted;
  return n;
}

bool by_moves_keep(struct banyan_comm *comm, const struct by_kept_plan *kept) {
  bool reads = has_inner(comm) || (comm->submitter && comm->submitter->root);
  if (comm->n_kept == KEPT || (reads && count_ahead(comm) >= AHEAD)) return false;
  comm->kept[comm->n_kept++] = *kept;
  return true;
}

void by_moves_let_go(struct banyan_comm *comm, uint32_t number) {
  struct by_kept_plan *kept = find(comm, number);
  if (kept) remove_kept(comm, kept);
}

static void forget_before(struct banyan_comm *comm) {
  by_plan_destroy(comm->before.plan);
  comm->before = (struct by_kept_plan){0};
}

void by_moves_let_all_go(struct banyan_comm *comm) {
  while (comm->n_kept) remove_kept(comm, &comm->kept[0]);
  forget_before(comm);
}

static bool is_under_way(const struct banyan_comm *comm, uint32_t number) {
  return comm->move.state != BY_MOVE_NONE && comm->move.number == number;
}

void by_moves_set_by_hand(struct banyan_comm *comm) {
  while (comm->n_kept && !is_under_way(comm, comm->kept[0].number)) remove_kept(comm, &comm->kept[0]);
  forget_before(comm);
  if (!is_under_way(comm, comm->moved)) {
    comm->moved = 0;
    comm->announces = false;
  }
  comm->set_by_hand++;
  by_moves_count(comm);
}

static enum banyan_status copy(const struct by_plan *plan, const uint32_t *helpers, struct by_kept_plan *out) {
  struct by_plan *copy = NULL;
  BY_TRY(by_plan_copy(plan, &copy));
  *out = (struct by_kept_plan){.plan = copy};
  if (!helpers) return BANYAN_OK;
  uint32_t n = copy->n_vertices - copy->n_ranks;
  out->helpers = BY_ARENA_ARRAY(&copy->arena, uint32_t, n);
  if (out->helpers) memcpy(out->helpers, helpers, n * sizeof *helpers);
  if (out->helpers) return BANYAN_OK;
  by_plan_destroy(copy);
  *out = (struct by_kept_plan){0};
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
}

/* The outer communicator's plan. */
static enum banyan_status copy_plan(const struct banyan_comm *comm, struct by_kept_plan *out) {
  return copy(by_domain_plan(comm->domain), by_domain_helpers(comm->domain), out);
}

enum banyan_status by_moves_choose_inner(const struct banyan_comm *comm, const struct by_plan *set,
                                         struct by_kept_plan *out) {
  const struct by_kept_plan *next = &comm->next_plan;
  bool ahead = is_under_way(comm, comm->noted) && next->plan && !by_plans_is_pinned(set, next->plan);
  return ahead ? copy(next->plan, next->helpers, out) : copy(set, NULL, out);
}

enum banyan_status by_moves_keep_before(struct banyan_comm *comm) {
  bool kept = has_inner(comm) || comm->before.plan || find(comm, comm->noted);
  return kept || comm->hidden ? BANYAN_OK : copy_plan(comm, &comm->before);
}

/* ---- the note, at the log's root */

static uint64_t count_submitted(const struct by_submitter *owner) {
  const struct by_controller_counters *counters = by_controller_counters(owner->controller);
  return counters->by_name + counters->by_bit;
}

static void announce(struct banyan_comm *comm) {
  struct by_submitter *owner = comm->submitter;
  comm->announces = false;
  by_controller_announce(owner->controller, comm->moved);
  owner->dirty = true;
  by_context_kick(comm->context);
}

/* Between two marks an iteration is under way. */
void by_moves_announce(struct banyan_comm *comm) {
  const struct by_submitter *owner = comm->submitter;
  if (!owner || !owner->root || !comm->moved) return;
  comm->announces = comm->each && count_submitted(owner) > comm->marked;
  if (!comm->announces) announce(comm);
}

void by_moves_decided(struct banyan_comm *comm, uint32_t number) {
  comm->moved = number;
  while (comm->n_kept > DECIDED && !has_inner(comm)) remove_kept(comm, &comm->kept[0]);
  by_moves_announce(comm);
}

/* No mark has come for twice as long as usual: perhaps none comes any more. */
void by_moves_announce_late(struct banyan_comm *comm) {
  if (count_submitted(comm->submitter) - comm->marked > 2 * comm->each) announce(comm);
}

static void mark(struct banyan_comm *comm) {
  const struct by_submitter *owner = comm->submitter;
  by_marks_add(&comm->marks, comm->started);
  if (!owner) return;
  uint64_t submitted = count_submitted(owner);
  if (submitted > comm->marked) comm->each = submitted - comm->marked;
  comm->marked = submitted;
  if (comm->announces) announce(comm);
}

/* Of the rank, so of all its communicators. */
void by_moves_mark(struct by_context *context) {
  for (struct banyan_comm *comm = context->comms; comm; comm = comm->next)
    if (!comm->hidden) mark(comm);
}

/* ---- what is noted */

static bool take_kept(struct banyan_comm *comm, struct by_kept_plan *out) {
  struct by_kept_plan *kept = find(comm, comm->noted);
  if (!kept) return false;
  if (is_under_way(comm, kept->number) && by_plans_is_pinned(by_domain_plan(comm->domain), kept->plan)) {
    remove_kept(comm, kept); /* where the user takes that plan back first, by_moves_choose_inner finds this one */
    return false;
  }
  *out = *kept;
  kept->plan = NULL;
  remove_kept(comm, kept);
  return true;
}

enum banyan_status by_moves_take_noted(struct banyan_comm *comm, struct by_kept_plan *out) {
  if (!take_kept(comm, out)) {
    if (!comm->before.plan) return copy_plan(comm, out);
    *out = comm->before;
    comm->before.plan = NULL;
  }
  forget_before(comm);
  return BANYAN_OK;
}

/* Without an inner communicator the plan waits for that. Those before it are of no use any more. */
enum banyan_status by_moves_noted(struct banyan_comm *comm, uint32_t number) {
  comm->noted = number;
  while (comm->n_kept && comm->kept[0].number != number && find(comm, number)) remove_kept(comm, &comm->kept[0]);
  if (!has_inner(comm)) return BANYAN_OK;
  const struct banyan_comm *inner = comm->submitter->inner;
  struct by_kept_plan kept;
  if (!take_kept(comm, &kept)) return BANYAN_OK; /* it was made under this plan, or keeps the user's */
  return by_plans_set(comm->context, inner->domain, inner->size, inner->processes, kept.plan, kept.helpers);
}
