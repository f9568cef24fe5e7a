#include "ring_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "plan_make.h"
#include "topology_paths.h"

/* Less of a gain is rounding. */
static const double gain = 1e-9;

struct search {
  const struct by_topology *topology;
  const struct by_graph *graph;
  uint32_t n;
  uint32_t *first; /* of each pair: uses[first[i * n + j]] .. are what is passed from rank i to rank j */
  uint32_t *uses;  /* directions of links, then what each node sends, receives */
  size_t n_uses, room;
  double *seconds; /* of each of these, for a bit */
  double *load;    /* scratch, zero */
};

struct score {
  double most, all; /* seconds of the fullest; of all, the fuller the more */
};

/* --- what is passed --- */

static bool use(struct search *s, uint32_t what, struct by_capacity capacity) {
  double left = by_residual(capacity);
  if (isinf(left)) return true;
  if (!BY_ARRAY_GROW(&s->uses, &s->room, s->n_uses + 1)) return false;
  s->uses[s->n_uses++] = what;
  s->seconds[what] = 1 / left;
  return true;
}

static bool list_way(struct search *s, const struct by_hop *hops, uint32_t from, uint32_t to) {
  const struct by_topology *t = s->topology;
  for (uint32_t at = from, next; at != to; at = next) {
    uint32_t link = hops[at].link, way = t->links[link].a == at ? BY_AB : BY_BA;
    next = hops[at].next;
    if (!use(s, 2 * link + way, t->links[link].capacity[way]) || !use(s, 2 * t->n_links + 2 * at, t->nodes[at].out) ||
        !use(s, 2 * t->n_links + 2 * next + 1, t->nodes[next].in))
      return false;
  }
  return true;
}

/* Ways are found by their end, so pairs stand by it: that of i and j is from j to i. */
static enum banyan_status list_ways(struct search *s, const struct by_paths *paths, struct by_hop *hops) {
  for (uint32_t i = 0; i < s->n; i++) {
    BY_TRY(by_paths_between(paths, s->graph->node[i], s->graph->node, s->n, hops));
    for (uint32_t j = 0; j < s->n; j++) {
      s->first[i * s->n + j] = (uint32_t)s->n_uses;
      uint32_t from = s->graph->node[j], to = s->graph->node[i];
      if (hops[from].hops != UINT32_MAX && !list_way(s, hops, from, to)) return by_plan_no_memory();
    }
  }
  s->first[s->n * s->n] = (uint32_t)s->n_uses;
  return BANYAN_OK;
}

/* --- orders --- */

static struct score rate(const struct search *s, const uint32_t *order) {
  struct score score = {0, 0};
  for (int pass = 0; pass < 3; pass++)
    for (uint32_t k = 0; k < s->n; k++) {
      size_t pair = (size_t)order[(k + 1) % s->n] * s->n + order[k];
      for (uint32_t u = s->first[pair]; u < s->first[pair + 1]; u++) {
        double *load = &s->load[s->uses[u]];
        if (pass == 0) *load += s->seconds[s->uses[u]];
        if (pass == 1) score.most = fmax(score.most, *load);
        if (pass == 1) score.all += *load;
        if (pass == 2) *load = 0;
      }
    }
  return score;
}

static bool is_better(const struct score *a, const struct score *b) {
  if (a->most < b->most * (1 - gain)) return true;
  return a->most <= b->most * (1 + gain) && a->all < b->all * (1 - gain);
}

static void turn(uint32_t *order, uint32_t i, uint32_t j) {
  for (; i < j; i++, j--) {
    uint32_t swapped = order[i];
    order[i] = order[j];
    order[j] = swapped;
  }
}

static struct score improve(const struct search *s, uint32_t *order) {
  struct score best = rate(s, order);
  for (bool better = true; better;) {
    better = false;
    for (uint32_t i = 1; i + 1 < s->n; i++)
      for (uint32_t j = i + 1; j < s->n; j++) {
        turn(order, i, j);
        struct score score = rate(s, order);
        if (is_better(&score, &best)) {
          best = score;
          better = true;
        } else {
          turn(order, i, j);
        }
      }
  }
  return best;
}

static enum banyan_status find(struct search *s, uint32_t *order) {
  uint32_t given[BY_RING_SEARCHED];
  struct by_paths paths;
  struct by_hop *hops = calloc(s->topology->n_nodes, sizeof *hops);
  enum banyan_status status = hops ? by_paths_init(&paths, s->topology) : by_plan_no_memory();
  if (status == BANYAN_OK) {
    status = list_ways(s, &paths, hops);
    by_paths_fini(&paths);
  }
  free(hops);
  BY_TRY(status);
  for (uint32_t r = 0; r < s->n; r++) given[r] = r;
  struct score of_order = improve(s, order), of_given = improve(s, given);
  if (is_better(&of_given, &of_order)) memcpy(order, given, s->n * sizeof *order);
  return BANYAN_OK;
}

enum banyan_status by_ring_search(const struct by_topology *topology, const struct by_graph *graph, uint32_t *order) {
  struct search s = {.topology = topology, .graph = graph, .n = graph->n_terminals, .room = 64};
  size_t things = 2 * ((size_t)topology->n_links + topology->n_nodes);
  if (s.n > BY_RING_SEARCHED) return BANYAN_OK;
  s.first = calloc((size_t)s.n * s.n + 1, sizeof *s.first);
  s.uses = calloc(s.room, sizeof *s.uses);
  s.seconds = calloc(2 * things, sizeof *s.seconds);
  s.load = s.seconds ? s.seconds + things : NULL;
  enum banyan_status status = s.first && s.uses && s.seconds ? find(&s, order) : by_plan_no_memory();
  free(s.first);
  free(s.seconds);
  free(s.uses);
  return status;
}
