#include "embed.h"

#include <math.h>
#include <stdlib.h>

#include "embed_hang.h"
#include "embed_parts.h"
#include "pack_few.h"
#include "packing.h"

enum { ROUNDS = 400, MESHED = BY_EMBED_MOST_VERTICES };
static const double near_enough = 0.998; /* of the bound */
static const double well_chosen = 0.97;  /* of what any number of candidates carries */

struct by_embed_options by_embed_defaults(void) {
  return (struct by_embed_options){.most_trees = 8, .most_height = INFINITY, .penalty = 0.01};
}

void by_embedding_destroy(struct by_embedding *embedding) {
  if (!embedding) return;
  free(embedding->picks.items);
  by_embed_candidates_fini(&embedding->candidates);
  by_embed_net_fini(&embedding->net);
  by_graph_destroy(embedding->graph);
  by_arena_fini(&embedding->arena);
  free(embedding);
}

/* ---- what is known of it */

struct by_embed_facts by_embedding_facts(const struct by_embedding *embedding) {
  return (struct by_embed_facts){.throughput = embedding->picks.throughput,
                                 .bound = embedding->bound,
                                 .any_number = embedding->any_number,
                                 .n_candidates = embedding->candidates.n,
                                 .n_used = embedding->picks.n};
}

const struct by_graph *by_embedding_graph(const struct by_embedding *embedding) {
  return embedding->graph;
}

double by_embedding_alone(const struct by_embedding *embedding, int kind) {
  double best = 0;
  for (uint32_t i = 0; i < embedding->candidates.n; i++)
    if ((int)embedding->candidates.items[i].kind == kind) best = fmax(best, 1 / embedding->candidates.items[i].theta);
  return best;
}

/* ---- making it */

static enum banyan_status copy_names(struct by_embedding *e, const struct by_topology *topology) {
  uint32_t n = e->graph->n_vertices;
  e->name = BY_ARENA_ARRAY(&e->arena, const char *, n);
  e->is_switch = BY_ARENA_ARRAY(&e->arena, bool, n);
  if (!e->name || !e->is_switch) return by_embed_no_memory();
  for (uint32_t v = 0; v < n; v++) {
    e->name[v] = by_arena_string(&e->arena, topology->nodes[e->graph->node[v]].name);
    e->is_switch[v] = by_embed_is_switch(&e->net, v);
    if (!e->name[v]) return by_embed_no_memory();
  }
  return BANYAN_OK;
}

static enum banyan_status make_candidates(struct by_embed_candidates *list) {
  struct by_hanger hanger;
  BY_TRY(by_hanger_init(&hanger, list->net->graph));
  enum banyan_status status = by_embed_candidates_make_shapes(list, &hanger.draft);
  if (status == BANYAN_OK) status = by_embed_candidates_make_elastic(list, &hanger.draft);
  by_hanger_fini(&hanger);
  return status;
}

/* At most so many trees of the search for few. One attempt, and no bound to reach: without what it does for the last
 * percent. BANYAN_ERR_PLAN: none is low enough. */
static enum banyan_status add_few(struct by_embed_candidates *list, uint32_t most_trees, double most_height) {
  const struct by_graph *graph = list->net->graph;
  struct by_few_options few = by_few_defaults();
  struct by_packing *packing;
  struct by_hanger hanger;
  few.most_trees = most_trees < BY_EMBED_MOST_LATER ? most_trees : BY_EMBED_MOST_LATER;
  few.most_height = most_height;
  few.tolerance = -1;
  few.attempts = 1;
  BY_TRY(by_pack_few(graph, &few, &packing));
  enum banyan_status status = by_hanger_init(&hanger, graph);
  for (uint32_t t = 0; status == BANYAN_OK && t < packing->n_trees; t++) {
    uint32_t found;
    status = by_hanger_add(&hanger, list, packing->trees[t].edges, packing->trees[t].n, &found);
    if (status == BANYAN_OK && found != UINT32_MAX) list->items[found].set = BY_EMBED_FEW;
  }
  by_hanger_fini(&hanger);
  by_packing_destroy(packing);
  return status;
}

/* Prices do not see how many children a vertex has in the same tree, so what they find are stars, of which many are
 * needed where machines differ; the search for few does see it. It takes as long as all else, so it is asked last. */
static enum banyan_status choose(struct by_embedding *e, struct by_embed_master *master,
                                 const struct by_embed_options *o) {
  struct by_embed_limits limits = {.most = o->most_trees, .least_rate = o->least_rate, .penalty = o->penalty};
  BY_TRY(by_embed_master_price(master, near_enough, ROUNDS, &e->bound));
  e->any_number = master->throughput;
  BY_TRY(by_embed_choose(master, &limits, &e->picks));
  if (e->picks.throughput >= well_chosen * e->any_number) return BANYAN_OK;
  enum banyan_status status = add_few(&e->candidates, o->most_trees, o->most_height);
  if (status != BANYAN_OK) return status == BANYAN_ERR_PLAN ? BANYAN_OK : status;
  return by_embed_choose_more(master, &limits, e->any_number, BY_EMBED_FEW, &e->picks);
}

/* `old` and `before` are those of by_embed_again; NULL: for the first time. */
static enum banyan_status make(struct by_embedding *e, const struct by_topology *topology,
                               const struct by_embed_options *o, const struct by_embedding *old, double *before) {
  struct by_graph_choice choice = o->choice;
  struct by_embed_master master;
  choice.switches_forward = true;
  choice.most_meshed = MESHED;
  BY_TRY(by_graph_of_topology(topology, &choice, &e->graph));
  BY_TRY(by_embed_net_init(&e->net, topology, e->graph));
  BY_TRY(copy_names(e, topology));
  BY_TRY(by_embed_candidates_init(&e->candidates, &e->net,
                                  o->most_height < UINT32_MAX ? (uint32_t)o->most_height : UINT32_MAX));
  BY_TRY(make_candidates(&e->candidates));
  if (old) BY_TRY(by_embed_take_over(e, old, before));
  if (!e->candidates.n) BY_TRY(add_few(&e->candidates, 1, o->most_height)); /* no shape fits */
  BY_TRY(by_embed_master_init(&master, &e->candidates));
  enum banyan_status status = choose(e, &master, o);
  by_embed_master_fini(&master);
  return status;
}

static enum banyan_status create(const struct by_topology *topology, const struct by_embed_options *options,
                                 const struct by_embedding *old, double *before, struct by_embedding **out) {
  struct by_embedding *e = calloc(1, sizeof *e);
  if (!e) return by_embed_no_memory();
  by_arena_init(&e->arena);
  enum banyan_status status = make(e, topology, options, old, before);
  if (status == BANYAN_OK)
    *out = e;
  else
    by_embedding_destroy(e);
  return status;
}

enum banyan_status by_embed(const struct by_topology *topology, const struct by_embed_options *options,
                            struct by_embedding **out) {
  return create(topology, options, NULL, NULL, out);
}

enum banyan_status by_embed_again(const struct by_topology *topology, const struct by_embed_options *options,
                                  const struct by_embedding *old, double gain, struct by_embed_change *change,
                                  struct by_embedding **out) {
  *change = (struct by_embed_change){0};
  BY_TRY(create(topology, options, old, &change->before, out));
  change->after = (*out)->picks.throughput;
  change->worth_it = change->after > (1 + gain) * change->before;
  return BANYAN_OK;
}
