/* An embedding in words. */
#include "embed_parts.h"
#include "text.h"

static void add_used(const struct by_embedding *e, struct by_text *text) {
  char rate[32];
  by_text_add(text, "Used, and what they carry:\n");
  for (uint32_t i = 0; i < e->picks.n; i++) {
    const struct by_embed_candidate *c = &e->candidates.items[e->picks.items[i].candidate];
    by_text_add(text, "  %5.1f %%  %s: %s", 100 * e->picks.items[i].rate / e->picks.throughput,
                by_embed_candidate_kind_name(c->kind), by_print_rate(e->picks.items[i].rate, rate));
    uint32_t root = c->group.order[c->group.root];
    if (c->group.kind == BY_GROUP_ROTATED)
      by_text_add(text, ", a piece for each of %u ranks", c->group.n);
    else
      by_text_add(text, ", root %s", e->name[root]);
    by_text_add(text, ", height %u\n", c->height);
  }
}

/* The best candidate of a kind; NULL: there is none. */
static const struct by_embed_candidate *best_of(const struct by_embedding *e, int kind) {
  const struct by_embed_candidate *best = NULL;
  for (uint32_t i = 0; i < e->candidates.n; i++) {
    const struct by_embed_candidate *c = &e->candidates.items[i];
    if ((int)c->kind == kind && (!best || c->theta < best->theta)) best = c;
  }
  return best;
}

static void add_alone(const struct by_embedding *e, struct by_text *text) {
  char rate[32];
  by_text_add(text, "The best candidate of each kind alone, and how many times as long it would take:\n");
  for (int kind = 0; kind < BY_EMBED_N_KINDS; kind++) {
    const struct by_embed_candidate *c = best_of(e, kind);
    if (c)
      by_text_add(text, "  %-31s %10s  %6.2f\n", by_embed_candidate_kind_name((enum by_embed_candidate_kind)kind),
                  by_print_rate(1 / c->theta, rate), c->theta * e->picks.throughput);
  }
}

void by_embedding_explain(const struct by_embedding *embedding, struct by_text *text) {
  const struct by_embedding *e = embedding;
  char rate[3][32];
  by_text_add(text, "%u workers", e->graph->n_terminals);
  if (e->graph->n_vertices > e->graph->n_terminals)
    by_text_add(text, " and %u that may help", e->graph->n_vertices - e->graph->n_terminals);
  by_text_add(text, ": %u of %u candidates carry %s, %.1f %% of the %s that no set of trees exceeds here; ", e->picks.n,
              e->candidates.n, by_print_rate(e->picks.throughput, rate[0]), 100 * e->picks.throughput / e->bound,
              by_print_rate(e->bound, rate[1]));
  by_text_add(text, "any number of them would carry %s.\n", by_print_rate(e->any_number, rate[2]));
  add_used(e, text);
  add_alone(e, text);
}
