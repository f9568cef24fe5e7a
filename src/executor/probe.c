/* Who has sent a message that nobody receives yet. */
#include "probe.h"

#include "engine_parts.h"

static struct by_link *link_to(const struct by_team *team, uint32_t rank) {
  return team->runner->transfer.links[team->vertices.processes[rank]];
}

static uint32_t awaited(const struct by_team *team, uint32_t peer, uint32_t tag) {
  for (const struct by_pair *p = team->pairs; p; p = p->next)
    if (!p->sends && p->peer == peer && p->tag == tag) return p->number;
  return 0;
}

static bool has_next(const struct by_link *link, const struct by_team *team, uint32_t peer, uint32_t tag) {
  for (const struct by_stored *stored = link->stored; stored; stored = stored->next) {
    const struct by_frame *frame = &stored->frame;
    if (frame->team == team->id && frame->flags & BY_FRAME_PAIR && frame->tag == tag &&
        frame->collective == BANYAN_SEND && frame->call == awaited(team, peer, tag))
      return true;
  }
  return false;
}

static void count(const struct by_team *team, int more) {
  for (uint32_t r = 0; r < team->n; r++) {
    struct by_link *link = link_to(team, r);
    if (r == team->vertices.self) continue;
    link->running += (uint32_t)more;
    if (more > 0) by_link_want(link);
  }
}

void by_team_expect(const struct by_team *team) {
  count(team, 1);
}

void by_team_expect_no_more(const struct by_team *team) {
  count(team, -1);
}

bool by_team_probe(const struct by_team *team, uint32_t tag, uint32_t *rank) {
  for (uint32_t r = 0; r < team->n; r++) {
    if (!link_to(team, r)->stored) continue;
    if (!has_next(link_to(team, r), team, r, tag)) continue;
    *rank = r;
    return true;
  }
  return false;
}
