#include "ways.h"

#include <math.h>
#include <stdlib.h>

#include "array.h"
#include "plan_load.h"
#include "topology_paths.h"

enum { MOST_STREAMS = 4 << 20, MOST_HOPS = 32 << 20 };

#define NO_MEMORY by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the ways of a plan's messages")

/* A stream and where it goes. */
struct leg {
  uint32_t stream, from, to; /* nodes */
};

struct walking {
  struct by_ways *out;
  const struct by_topology *topology;
  const struct by_plan *plan;
  uint32_t *node_of; /* vertex -> node */
  struct leg *legs;
  uint32_t n_legs;
  struct by_hop *hops;
  uint32_t *sources; /* of the legs to one node */
  uint32_t room;     /* of out->resources */
  uint32_t *length;  /* by stream */
  uint32_t *start;   /* by stream: in the order in which they were walked */
};

/* --- streams --- */

static enum banyan_status count_streams(struct by_ways *ways) {
  const struct by_roles *roles = ways->roles;
  uint64_t n = 0;
  ways->first_stream = calloc((size_t)roles->n + 1, sizeof *ways->first_stream);
  if (!ways->first_stream) return NO_MEMORY;
  for (uint32_t r = 0; r < roles->n; r++) {
    ways->first_stream[r] = (uint32_t)n;
    n += by_roles_schedule(roles, r)->n_peers;
    if (n > MOST_STREAMS)
      return by_fail(BANYAN_ERR_UNSUPPORTED,
                     "the plan has more than %d pairs of ranks that send to each other, which would take too much "
                     "memory; simulate it over fewer ranks",
                     MOST_STREAMS);
  }
  ways->first_stream[roles->n] = ways->n_streams = (uint32_t)n;
  return BANYAN_OK;
}

static int by_destination(const void *left, const void *right) {
  const struct leg *a = left, *b = right;
  if (a->to != b->to) return a->to < b->to ? -1 : 1;
  return (a->stream > b->stream) - (a->stream < b->stream);
}

static void list_legs(struct walking *w) {
  const struct by_roles *roles = w->out->roles;
  for (uint32_t r = 0; r < roles->n; r++) {
    const struct by_schedule *schedule = by_roles_schedule(roles, r);
    for (uint32_t j = 0; j < schedule->n_peers; j++) {
      uint32_t from = w->node_of[r], to = w->node_of[by_roles_peer(roles, r, j)];
      if (schedule->peers[j].n_out && from != to)
        w->legs[w->n_legs++] = (struct leg){w->out->first_stream[r] + j, from, to};
    }
  }
  if (w->n_legs) qsort(w->legs, w->n_legs, sizeof *w->legs, by_destination);
}

/* --- walking --- */

static enum banyan_status make_room(struct walking *w, uint32_t used, uint32_t hops) {
  uint64_t need = (uint64_t)used + 3 * (uint64_t)hops;
  if (need <= w->room) return BANYAN_OK;
  if (need > MOST_HOPS)
    return by_fail(BANYAN_ERR_UNSUPPORTED,
                   "the plan's messages pass more than %d links in all, which would take too much memory; simulate it "
                   "over fewer ranks",
                   MOST_HOPS);
  return BY_ARRAY_GROW(&w->out->resources, &w->room, need) ? BANYAN_OK : NO_MEMORY;
}

static void step_on(const struct by_ways *ways, uint32_t resource, uint32_t *used) {
  if (ways->capacity[resource] > 0) ways->resources[(*used)++] = resource;
}

/* Every node on the way sends what it passes on, and every next one receives it, as in plan_load.h. */
static void walk(const struct walking *w, const struct leg *leg, uint32_t *used) {
  const struct by_topology *t = w->topology;
  struct by_ways *ways = w->out;
  uint32_t start = *used;
  for (uint32_t at = leg->from; at != leg->to; at = w->hops[at].next) {
    uint32_t link = w->hops[at].link;
    step_on(ways, 2 * t->n_links + 2 * at, used);
    step_on(ways, 2 * link + (t->links[link].a == at ? BY_AB : BY_BA), used);
    step_on(ways, 2 * t->n_links + 2 * w->hops[at].next + 1, used);
  }
  ways->delay[leg->stream] = w->hops[leg->from].delay;
  w->start[leg->stream] = start;
  w->length[leg->stream] = *used - start;
}

/* The n legs to one node: one search serves them. */
static enum banyan_status walk_to(struct walking *w, const struct by_paths *paths, const struct leg *legs, uint32_t n,
                                  uint32_t *used) {
  const struct by_node *nodes = w->topology->nodes;
  for (uint32_t i = 0; i < n; i++) w->sources[i] = legs[i].from;
  BY_TRY(by_paths_between(paths, legs->to, w->sources, n, w->hops));
  for (uint32_t i = 0; i < n; i++) {
    uint32_t hops = w->hops[legs[i].from].hops;
    if (hops == UINT32_MAX)
      return by_fail(BANYAN_ERR_PLAN, "plan %s sends from \"%.64s\" to \"%.64s\", between which there is no way",
                     w->plan->name, nodes[legs[i].from].name, nodes[legs[i].to].name);
    BY_TRY(make_room(w, *used, hops));
    walk(w, &legs[i], used);
  }
  return BANYAN_OK;
}

static enum banyan_status walk_all(struct walking *w, const struct by_paths *paths) {
  uint32_t used = 0;
  for (uint32_t i = 0, end; i < w->n_legs; i = end) {
    for (end = i + 1; end < w->n_legs && w->legs[end].to == w->legs[i].to;) end++;
    BY_TRY(walk_to(w, paths, &w->legs[i], end - i, &used));
  }
  return BANYAN_OK;
}

/* Ways in the order of streams. */
static enum banyan_status put_in_order(struct walking *w) {
  struct by_ways *ways = w->out;
  uint32_t n = 0;
  for (uint32_t s = 0; s < ways->n_streams; s++) n += w->length[s];
  uint32_t *sorted = malloc(((size_t)n + 1) * sizeof *sorted);
  if (!sorted) return NO_MEMORY;
  n = 0;
  for (uint32_t s = 0; s < ways->n_streams; s++) {
    ways->first[s] = n;
    for (uint32_t i = 0; i < w->length[s]; i++) sorted[n++] = ways->resources[w->start[s] + i];
  }
  ways->first[ways->n_streams] = n;
  free(ways->resources);
  ways->resources = sorted;
  return BANYAN_OK;
}

/* --- all of it --- */

static void fill_capacities(const struct by_ways *ways, const struct by_topology *t) {
  for (uint32_t i = 0; i < 2 * t->n_links; i++) ways->capacity[i] = by_residual(t->links[i / 2].capacity[i % 2]);
  for (uint32_t i = 0; i < 2 * t->n_nodes; i++) {
    double left = by_residual(i % 2 ? t->nodes[i / 2].in : t->nodes[i / 2].out);
    ways->capacity[2 * t->n_links + i] = isfinite(left) ? left : 0;
  }
}

static enum banyan_status find(struct walking *w) {
  struct by_paths paths;
  list_legs(w);
  BY_TRY(by_paths_init(&paths, w->topology));
  enum banyan_status status = walk_all(w, &paths);
  by_paths_fini(&paths);
  return status == BANYAN_OK ? put_in_order(w) : status;
}

static enum banyan_status fill(struct walking *w) {
  struct by_ways *ways = w->out;
  const struct by_topology *t = w->topology;
  w->node_of = calloc(w->plan->n_vertices, sizeof *w->node_of);
  if (!w->node_of) return NO_MEMORY;
  BY_TRY(by_plan_place(w->plan, t, w->node_of));
  BY_TRY(count_streams(ways));
  size_t n = (size_t)ways->n_streams + 1;
  ways->n_resources = 2 * (t->n_links + t->n_nodes);
  ways->first = calloc(n, sizeof *ways->first);
  ways->delay = calloc(n, sizeof *ways->delay);
  ways->capacity = calloc((size_t)ways->n_resources + 1, sizeof *ways->capacity);
  w->legs = calloc(n, sizeof *w->legs);
  w->length = calloc(n, sizeof *w->length);
  w->start = calloc(n, sizeof *w->start);
  w->hops = calloc((size_t)t->n_nodes + 1, sizeof *w->hops);
  w->sources = calloc(n, sizeof *w->sources);
  if (!ways->first || !ways->delay || !ways->capacity || !w->legs || !w->length || !w->start || !w->hops || !w->sources)
    return NO_MEMORY;
  fill_capacities(ways, t);
  return find(w);
}

enum banyan_status by_ways_init(struct by_ways *ways, const struct by_roles *roles, const struct by_plan *plan,
                                const struct by_topology *topology) {
  *ways = (struct by_ways){.roles = roles};
  struct walking w = {.out = ways, .plan = plan, .topology = topology};
  enum banyan_status status = fill(&w);
  free(w.node_of);
  free(w.legs);
  free(w.length);
  free(w.start);
  free(w.hops);
  free(w.sources);
  if (status != BANYAN_OK) by_ways_fini(ways);
  return status;
}

void by_ways_fini(struct by_ways *ways) {
  free(ways->first_stream);
  free(ways->first);
  free(ways->resources);
  free(ways->delay);
  free(ways->capacity);
  *ways = (struct by_ways){0};
}
