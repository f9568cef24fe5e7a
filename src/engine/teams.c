/* The functions of engine.h for teams and for messages to them. */
#include "engine.h"
#include "recovery.h"

void by_team_destroy(struct by_team *team) {
  if (!team) return;
  const struct by_transfer *transfer = &team->runner->transfer;
  if (transfer->status == BANYAN_OK)
    for (uint32_t i = 0; i < transfer->active; i++) by_link_flush(transfer->ends[i]->link);
  by_calls_end(team);
  by_due_forget(team);
  by_programs_destroy(team);
  by_helped_fini(team);
  by_team_free(team);
}

static struct by_transfer_link *link_to(const struct by_team *team, uint32_t rank) {
  return team->runner->transfer.links[team->vertices.processes[rank]];
}

/* Whether the team owes notices on this link. Peers that are lost are not notified. */
static bool owes_on(const struct by_transfer_link *link, const struct by_team *team) {
  if (!link->lane || link->lane->status != BANYAN_OK) return false;
  for (const struct by_in *in = TAILQ_FIRST(&link->notes); in; in = TAILQ_NEXT(in, notes))
    if (by_call_of(in->exchange)->team == team && by_call_of(in->exchange)->state == BY_CALL_ENDED) return true;
  return false;
}

bool by_team_owes(const struct by_team *team) {
  for (uint32_t r = 0; r < team->n; r++)
    if (owes_on(link_to(team, r), team)) return true;
  return false;
}

void by_team_set_plan(struct by_team *team, struct by_plan *plan) {
  by_programs_retire(team, NULL);
  by_team_use_plan(team, plan, false);
  by_helped_sweep(team);
}

uint32_t by_team_id(const struct by_team *team) {
  return team->id;
}

uint32_t by_team_rank(const struct by_team *team) {
  return team->vertices.self;
}

const struct by_plan *by_team_plan(const struct by_team *team) {
  return team->plan;
}

const uint32_t *by_team_helpers(const struct by_team *team) {
  const struct by_helped *helped = by_helped_current(team);
  return helped ? helped->vertices.processes + team->n : NULL;
}

uint32_t by_team_next_call(const struct by_team *team) {
  return team->next_call;
}

void by_team_add_history(const struct by_team *team, struct by_history *to) {
  for (uint32_t i = 0; i < team->failed.n_failed; i++) by_history_add(to, &team->failed.failed[i]);
  to->lacks |= team->failed.lacks;
  by_call_report_history(team, to);
}

/* ---- messages that no call receives yet */

static bool has_next(const struct by_transfer_link *link, const struct by_team *team, uint32_t peer, uint32_t tag) {
  const struct by_pair *pair = by_team_find_pair(team, peer, tag, false);
  uint32_t awaited = pair ? pair->number : 0;
  for (const struct by_stored *stored = TAILQ_FIRST(&link->stored); stored; stored = TAILQ_NEXT(stored, next)) {
    const struct by_frame *frame = &stored->frame;
    if (frame->team == team->id && frame->flags & BY_FRAME_PAIR && frame->tag == tag &&
        frame->collective == BANYAN_SEND && frame->call == awaited)
      return true;
  }
  return false;
}

void by_team_expect(const struct by_team *team, int more) {
  for (uint32_t r = 0; r < team->n; r++) {
    struct by_transfer_link *link = link_to(team, r);
    if (r == team->vertices.self) continue;
    link->running += (uint32_t)more;
    if (more > 0) by_link_want(link);
  }
}

bool by_team_probe(const struct by_team *team, uint32_t tag, uint32_t *rank) {
  for (uint32_t r = 0; r < team->n; r++) {
    if (!has_next(link_to(team, r), team, r, tag)) continue;
    *rank = r;
    return true;
  }
  return false;
}
