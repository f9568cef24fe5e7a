#include "embed_master.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "embed_hang.h"
#include "span.h"

static const double least_part = 1e-9; /* of the unit: what is less is the solver's rounding */

/* ---- making it */

enum banyan_status by_embed_master_add(struct by_embed_master *m) {
  uint32_t n_resources = m->list->net->graph->n_resources;
  if (!BY_ARRAY_GROW(&m->rate, &m->room, m->list->n)) return by_embed_no_memory();
  for (uint32_t c = by_lp_columns(m->lp); c < m->list->n; c++) {
    const struct by_embed_candidate *candidate = &m->list->items[c];
    uint32_t n = 0;
    for (uint32_t r = 0; r < n_resources; r++) {
      if (candidate->load[r] == 0) continue;
      m->rows[n] = r;
      m->values[n++] = candidate->load[r] * m->unit;
    }
    m->rate[c] = 0;
    BY_TRY(by_lp_add(m->lp, 1, n, m->rows, m->values));
  }
  return BANYAN_OK;
}

static enum banyan_status create(struct by_embed_master *m) {
  uint32_t n = m->list->net->graph->n_resources;
  double least = INFINITY;
  for (uint32_t c = 0; c < m->list->n; c++) least = fmin(least, m->list->items[c].theta);
  m->unit = 1 / least;
  m->price = calloc(n, sizeof *m->price);
  m->fair = calloc(n, sizeof *m->fair);
  m->rows = calloc(n, sizeof *m->rows);
  m->values = calloc(n, sizeof *m->values);
  m->load = calloc(n, sizeof *m->load);
  if (!m->price || !m->fair || !m->rows || !m->values || !m->load) return by_embed_no_memory();
  for (uint32_t r = 0; r < n; r++) {
    m->values[r] = 1;
    m->fair[r] = 1.0 / n;
  }
  BY_TRY(by_lp_create(n, m->values, &m->lp));
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
  free(master->rate);
  free(master->price);
  free(master->fair);
  free(master->rows);
  free(master->values);
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
    for (uint32_t r = 0; m->rate[c] > 0 && r < n; r++) m->load[r] += m->rate[c] * m->list->items[c].load[r];
  for (uint32_t r = 0; r < n; r++) most = fmax(most, m->load[r]);
  return most;
}

enum banyan_status by_embed_master_solve(struct by_embed_master *m) {
  BY_TRY(by_lp_solve(m->lp));
  const double *values = by_lp_values(m->lp), *duals = by_lp_duals(m->lp);
  for (uint32_t c = 0; c < m->list->n; c++) m->rate[c] = values[c] > least_part ? values[c] * m->unit : 0;
  for (uint32_t r = 0; r < m->list->net->graph->n_resources; r++) m->price[r] = fmax(duals[r], 0);
  double most = fullest(m);
  m->throughput = 0;
  for (uint32_t c = 0; c < m->list->n; c++) m->throughput += m->rate[c] /= most > 0 ? most : 1;
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
      sum += p->master->price[r] / graph->capacity[r];
    }
  }
  return sum * p->master->unit;
}

/* A light tree under `part` of the best prices and the program's for the rest. What these prices prove is worked out
 * with that tree, as if there were no lighter one. */
static enum banyan_status price_tree(struct pricing *p, double part) {
  struct by_embed_master *m = p->master;
  const struct by_graph *graph = m->list->net->graph;
  double all = 0;
  for (uint32_t r = 0; r < graph->n_resources; r++) all += m->price[r];
  for (uint32_t r = 0; r < graph->n_resources; r++)
    p->price[r] = (part * m->fair[r] + (1 - part) * m->price[r] / all) / graph->capacity[r];
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
