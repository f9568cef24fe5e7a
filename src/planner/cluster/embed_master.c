#include "embed_master.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "span.h"

#define NONE UINT32_MAX

enum banyan_status by_hanger_init(struct by_hanger *hanger, const struct by_graph *graph) {
  size_t n = graph->n_vertices;
  *hanger = (struct by_hanger){0};
  BY_TRY(by_grower_init(&hanger->grower, graph, true));
  by_arena_init(&hanger->arena);
  hanger->draft.order = BY_ARENA_ARRAY(&hanger->arena, uint32_t, n);
  hanger->draft.up = BY_ARENA_ARRAY(&hanger->arena, uint32_t, n);
  hanger->first = BY_ARENA_ARRAY(&hanger->arena, uint32_t, n);
  hanger->next = BY_ARENA_ARRAY(&hanger->arena, uint32_t, 2 * n);
  hanger->position = BY_ARENA_ARRAY(&hanger->arena, uint32_t, n);
  if (hanger->draft.order && hanger->draft.up && hanger->first && hanger->next && hanger->position) return BANYAN_OK;
  by_hanger_fini(hanger);
  return by_embed_no_memory();
}

void by_hanger_fini(struct by_hanger *hanger) {
  if (!hanger->grower.graph) return;
  by_grower_fini(&hanger->grower);
  by_arena_fini(&hanger->arena);
  *hanger = (struct by_hanger){0};
}

/* Chains the edges' ends at their vertices: end 2e is edge e's at a, 2e + 1 at b. */
static void list_ends(struct by_hanger *h, const uint32_t *edges, uint32_t n) {
  const struct by_graph *graph = h->grower.graph;
  for (uint32_t v = 0; v < graph->n_vertices; v++) h->first[v] = h->position[v] = NONE;
  for (uint32_t i = 0; i < 2 * n; i++) {
    const struct by_graph_edge *edge = &graph->edges[edges[i / 2]];
    uint32_t v = i % 2 ? edge->b : edge->a;
    h->next[i] = h->first[v];
    h->first[v] = i;
  }
}

/* Breadth first from the root. */
static void find_parents(struct by_hanger *h, const uint32_t *edges, uint32_t root) {
  struct by_draft *draft = &h->draft;
  draft->kind = BY_EMBED_PACKED;
  draft->n_radix = draft->root = 0;
  draft->n = 1;
  draft->order[0] = root;
  draft->up[0] = h->position[root] = 0;
  for (uint32_t done = 0; done < draft->n; done++)
    for (uint32_t v = draft->order[done], i = h->first[v]; i != NONE; i = h->next[i]) {
      uint32_t to = by_graph_other_end(h->grower.graph, edges[i / 2], v);
      if (h->position[to] != NONE) continue;
      h->position[to] = draft->n;
      draft->up[draft->n] = done;
      draft->order[draft->n++] = to;
    }
}

enum banyan_status by_hanger_add(struct by_hanger *hanger, struct by_embed_candidates *list, const uint32_t *edges,
                                 uint32_t n, uint32_t *found) {
  uint32_t root;
  double height;
  by_tree_centre(&hanger->grower, edges, n, &root, &height);
  list_ends(hanger, edges, n);
  find_parents(hanger, edges, root);
  return by_embed_candidates_add(list, &hanger->draft, found);
}

/* ---- making it */

enum banyan_status by_embed_master_add(struct by_embed_master *m) {
  for (uint32_t c = m->lp->n_columns; c < m->list->n; c++) {
    for (uint32_t r = 0; r < m->lp->n_rows; r++) m->load[r] = m->list->items[c].load[r] * m->lp->unit;
    BY_TRY(by_lp_add(m->lp, 1, m->load));
  }
  return BANYAN_OK;
}

static enum banyan_status create(struct by_embed_master *m) {
  uint32_t n = m->list->net->graph->n_resources;
  double least = INFINITY;
  for (uint32_t c = 0; c < m->list->n; c++) least = fmin(least, m->list->items[c].theta);
  m->fair = calloc(n, sizeof *m->fair);
  m->load = calloc(n, sizeof *m->load);
  if (!m->fair || !m->load) return by_embed_no_memory();
  for (uint32_t r = 0; r < n; r++) {
    m->load[r] = 1;
    m->fair[r] = 1.0 / n;
  }
  BY_TRY(by_lp_create(n, m->load, 1 / least, &m->lp));
  return by_embed_master_add(m);
}

enum banyan_status by_embed_master_init(struct by_embed_master *master, struct by_embed_candidates *list) {
  *master = (struct by_embed_master){.list = list};
  enum banyan_status status = create(master);
  if (status != BANYAN_OK) by_embed_master_fini(master);
  return status;
}

void by_embed_master_fini(struct by_embed_master *master) {
  by_lp_destroy(master->lp);
  free(master->fair);
  free(master->load);
  *master = (struct by_embed_master){0};
}

/* ---- solving it */

/* The load of the fullest resource at the rates, over its capacity. */
static double fullest(struct by_embed_master *m) {
  uint32_t n = m->list->net->graph->n_resources;
  double most = 0;
  memset(m->load, 0, n * sizeof *m->load);
  for (uint32_t c = 0; c < m->list->n; c++)
    for (uint32_t r = 0; m->lp->rate[c] > 0 && r < n; r++) m->load[r] += m->lp->rate[c] * m->list->items[c].load[r];
  for (uint32_t r = 0; r < n; r++) most = fmax(most, m->load[r]);
  return most;
}

enum banyan_status by_embed_master_solve(struct by_embed_master *m) {
  BY_TRY(by_lp_solve(m->lp));
  double most = fullest(m);
  m->throughput = by_lp_scale(m->lp, most > 0 ? most : 1);
  return BANYAN_OK;
}

/* ---- pricing */

static const double smoothing = 0.7, worth_it = 1e-6; /* how far towards the best prices; gain of a new tree */
enum { PATIENCE = 40 };
static const double progress = 1e-4; /* of the ratio */

struct pricing {
  struct by_embed_master *master;
  struct by_span span;
  struct by_hanger hanger;
  double *price; /* for 1 bit/s of it */
  double bound;  /* bit/s that these prices seem to prove */
};

/* What the span's tree costs at the program's prices; below 1 it is worth more than it costs. */
static double cost_of_tree(const struct pricing *p) {
  const struct by_graph *graph = p->master->list->net->graph;
  double sum = 0;
  for (uint32_t i = 0; i < p->span.n_tree; i++) {
    const struct by_graph_edge *edge = &graph->edges[p->span.tree[i]];
    for (uint32_t j = 0; j < edge->n; j++) {
      uint32_t r = graph->uses[edge->first + j];
      sum += p->master->lp->price[r] / graph->capacity[r];
    }
  }
  return sum * p->master->lp->unit;
}

/* A light tree under `part` of the best prices and the program's for the rest. What these prices prove is worked out
 * with that tree, as if there were no lighter one. */
static enum banyan_status price_tree(struct pricing *p, double part) {
  struct by_embed_master *m = p->master;
  const struct by_graph *graph = m->list->net->graph;
  double all = 0;
  for (uint32_t r = 0; r < graph->n_resources; r++) all += m->lp->price[r];
  for (uint32_t r = 0; r < graph->n_resources; r++)
    p->price[r] = (part * m->fair[r] + (1 - part) * m->lp->price[r] / all) / graph->capacity[r];
  by_span_set_prices(&p->span, p->price);
  double least = by_span_lightest(&p->span);
  if (cost_of_tree(p) < 1 - worth_it) BY_TRY(by_hanger_add(&p->hanger, m->list, p->span.tree, p->span.n_tree, NULL));
  if (least * p->bound <= 1) return BANYAN_OK;
  p->bound = 1 / least;
  for (uint32_t r = 0; r < graph->n_resources; r++) m->fair[r] = p->price[r] * graph->capacity[r];
  return BANYAN_OK;
}

static enum banyan_status generate(struct pricing *p, double ratio, uint32_t rounds) {
  struct by_embed_master *m = p->master;
  double before = 0;
  uint32_t idle = 0;
  BY_TRY(by_embed_master_solve(m));
  for (uint32_t round = 0; round < rounds && idle < PATIENCE; round++) {
    uint32_t known = m->list->n;
    BY_TRY(price_tree(p, smoothing));
    BY_TRY(price_tree(p, 0));
    if (m->list->n == known) break;
    BY_TRY(by_embed_master_add(m));
    BY_TRY(by_embed_master_solve(m));
    if (m->throughput >= ratio * p->bound) break;
    idle = m->throughput > before + progress * p->bound ? 0 : idle + 1;
    if (!idle) before = m->throughput;
  }
  return BANYAN_OK;
}

static enum banyan_status price(struct pricing *p, double ratio, uint32_t rounds) {
  const struct by_graph *graph = p->master->list->net->graph;
  p->price = calloc(graph->n_resources, sizeof *p->price);
  if (!p->price) return by_embed_no_memory();
  BY_TRY(by_span_init(&p->span, graph));
  BY_TRY(by_hanger_init(&p->hanger, graph));
  BY_TRY(generate(p, ratio, rounds));
  for (uint32_t r = 0; r < graph->n_resources; r++) p->price[r] = p->master->fair[r] / graph->capacity[r];
  p->bound = by_span_certify_well(&p->span, p->price);
  return BANYAN_OK;
}

enum banyan_status by_embed_master_price(struct by_embed_master *master, double ratio, uint32_t rounds, double *bound) {
  struct pricing p = {.master = master, .bound = INFINITY};
  enum banyan_status status = price(&p, ratio, rounds);
  by_span_fini(&p.span);
  by_hanger_fini(&p.hanger);
  free(p.price);
  *bound = p.bound;
  return status;
}
