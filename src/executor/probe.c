/* Who has sent a message that nobody receives yet. */
#include "probe.h"

#include "engine_parts.h"

static struct by_link *link_to(const struct by_domain *domain, uint32_t rank) {
  return domain->runner->transfer.links[domain->vertices.processes[rank]];
}

static uint32_t awaited(const struct by_domain *domain, uint32_t peer, uint32_t tag) {
  for (const struct by_pair *p = domain->pairs; p; p = p->next)
    if (!p->sends && p->peer == peer && p->tag == tag) return p->number;
  return 0;
}

static bool has_next(const struct by_link *link, const struct by_domain *domain, uint32_t peer, uint32_t tag) {
  for (const struct by_stored *stored = link->stored; stored; stored = stored->next) {
    const struct by_frame *frame = &stored->frame;
    if (frame->domain == domain->id && frame->flags & BY_FRAME_PAIR && frame->tag == tag &&
        frame->collective == BANYAN_SEND && frame->call == awaited(domain, peer, tag))
      return true;
  }
  return false;
}

static void count(const struct by_domain *domain, int more) {
  for (uint32_t r = 0; r < domain->n; r++) {
    struct by_link *link = link_to(domain, r);
    if (r == domain->vertices.self) continue;
    link->running += (uint32_t)more;
    if (more > 0) by_link_want(link);
  }
}

void by_domain_expect(const struct by_domain *domain) {
  count(domain, 1);
}

void by_domain_expect_no_more(const struct by_domain *domain) {
  count(domain, -1);
}

bool by_domain_probe(const struct by_domain *domain, uint32_t tag, uint32_t *rank) {
  for (uint32_t r = 0; r < domain->n; r++) {
    if (!link_to(domain, r)->stored) continue;
    if (!has_next(link_to(domain, r), domain, r, tag)) continue;
    *rank = r;
    return true;
  }
  return false;
}
