/* Of each way a chunk takes the first link when that is free, the one furthest behind first, as the executor sends; on
 * the links behind it they queue. */
#include "cost_flow.h"

#include <math.h>
#include <stdlib.h>

#include "cost_tree.h"
#include "plan_make.h"

/* So many chunks of edges are followed at most, and so many of an edge. */
enum { MOST_FOLLOWED = 4096, MOST_CHUNKS = 16 };
#define NONE UINT32_MAX

/* --- who waits for whom --- */

/* 0: there is no flow. */
static uint32_t count_edges(const struct by_cost *cost, const struct by_class *class_) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < class_->n_groups; i++)
    if (class_->groups[i].kind != BY_GROUP_TREE) return 0;
  for (uint32_t t = 0; t < cost->n_trees; t++) n += cost->trees[t].n_up + cost->trees[t].n_down;
  return n <= MOST_FOLLOWED ? (uint32_t)n : 0;
}

static void add_edge(const struct by_cost *cost, struct by_cost_flow *flow, const struct by_cost_edge *edge,
                     uint32_t first_place, bool up) {
  uint32_t e = flow->n_edges++;
  flow->edges[e] = (struct by_flow_edge){
      .way = edge->way, .place = first_place + edge->to, .vertex = edge->to, .beside = NONE, edge->share, up};
  flow->share = fmax(flow->share, edge->share);
  if (up) {
    flow->places[first_place + edge->to].needs++;
    flow->places[first_place + edge->from].above = e;
  } else {
    flow->places[first_place + edge->from].n_down++;
  }
  if (!edge->way) return;
  uint32_t link = cost->load.steps[edge->way->step];
  flow->edges[e].beside = flow->first[link];
  flow->first[link] = e;
}

static void add_tree(const struct by_cost *cost, struct by_cost_flow *flow, const struct by_cost_tree *tree,
                     uint32_t *n_downs) {
  uint32_t first = flow->n_places, n = cost->load.n_vertices;
  flow->n_places += n;
  for (uint32_t v = 0; v < n; v++) flow->places[first + v] = (struct by_flow_place){.above = NONE};
  for (uint32_t i = 0; i < tree->n_up; i++) add_edge(cost, flow, &tree->up[i], first, true);
  uint32_t down = flow->n_edges;
  for (uint32_t i = 0; i < tree->n_down; i++) add_edge(cost, flow, &tree->down[i], first, false);
  for (uint32_t v = 0; v < n; v++) {
    struct by_flow_place *place = &flow->places[first + v];
    place->down = *n_downs;
    *n_downs += place->n_down;
    place->n_down = 0;
  }
  for (uint32_t i = 0; i < tree->n_down; i++) {
    struct by_flow_place *place = &flow->places[first + tree->down[i].from];
    flow->downs[place->down + place->n_down++] = down + i;
  }
}

enum banyan_status by_cost_flow_init(struct by_cost *cost, const struct by_class *class_) {
  struct by_arena *arena = &cost->arena;
  size_t edges = count_edges(cost, class_), links = 2 * (size_t)cost->topology->n_links;
  size_t places = (size_t)cost->n_trees * cost->load.n_vertices;
  struct by_cost_flow *flow = edges ? BY_ARENA_NEW(arena, struct by_cost_flow) : NULL;
  if (!edges) return BANYAN_OK;
  if (!flow) return by_plan_no_memory();
  *flow = (struct by_cost_flow){.edges = BY_ARENA_ARRAY(arena, struct by_flow_edge, edges),
                                .places = BY_ARENA_ARRAY(arena, struct by_flow_place, places),
                                .downs = BY_ARENA_ARRAY(arena, uint32_t, edges),
                                .first = BY_ARENA_ARRAY(arena, uint32_t, links + 1)};
  if (!flow->edges || !flow->places || !flow->downs || !flow->first) return by_plan_no_memory();
  uint32_t n_downs = 0;
  for (size_t i = 0; i < links; i++) flow->first[i] = NONE;
  for (uint32_t t = 0; t < cost->n_trees; t++) add_tree(cost, flow, &cost->trees[t], &n_downs);
  cost->flow = flow;
  return BANYAN_OK;
}

/* --- events --- */

/* A chunk arrives over an edge; or, at n_edges + i, link i is free. */
struct event {
  double when;
  uint32_t what;
};

struct run {
  const struct by_cost *cost;
  const struct by_cost_flow *flow;
  const struct by_cost_rates *rates;
  double bytes; /* of the buffer, per chunk of an edge with share 1 */
  uint32_t chunks;
  struct event *heap;
  uint32_t n_heap;
  double *until; /* of each direction of a link, then of what each node sends, receives: taken until then */
  double *busy;  /* of each vertex: until it has taken first chunks that came before */
  uint32_t *sent, *available, *arrived; /* chunks of each edge */
  uint16_t *gathered;                   /* of each place and chunk: edges over which it has come */
  bool *awaited;                        /* of each direction of a link: an event will say that it is free */
};

static bool is_before(const struct event *a, const struct event *b) {
  return a->when < b->when || (a->when <= b->when && a->what < b->what);
}

static void push(struct run *run, double when, uint32_t what) {
  struct event event = {when, what};
  uint32_t i = run->n_heap++;
  for (; i && is_before(&event, &run->heap[(i - 1) / 2]); i = (i - 1) / 2) run->heap[i] = run->heap[(i - 1) / 2];
  run->heap[i] = event;
}

static struct event pop(struct run *run) {
  struct event first = run->heap[0], last = run->heap[--run->n_heap];
  uint32_t i = 0, child;
  while ((child = 2 * i + 1) < run->n_heap) {
    if (child + 1 < run->n_heap && is_before(&run->heap[child + 1], &run->heap[child])) child++;
    if (!is_before(&run->heap[child], &last)) break;
    run->heap[i] = run->heap[child];
    i = child;
  }
  run->heap[i] = last;
  return first;
}

/* A chunk's bytes pass something from `when` on; returns when they have. What has idled lets a burst through. */
static double pass(struct run *run, uint32_t resource, struct by_capacity capacity, double bytes, double when) {
  double left = by_residual(capacity), *until = &run->until[resource];
  if (isinf(left)) return when;
  *until = fmax(*until, when - run->rates->burst) + bytes * 8 * run->rates->wire / left;
  return fmax(when, *until);
}

static double cross(struct run *run, const struct by_flow_edge *edge, double when) {
  const struct by_topology *t = run->cost->topology;
  const uint32_t *steps = run->cost->load.steps + edge->way->step;
  double bytes = edge->share * run->bytes, out = when;
  for (uint32_t i = 0; i < edge->way->n_steps; i++) {
    const struct by_link *link = &t->links[steps[i] / 2];
    uint32_t from = steps[i] % 2 ? link->b : link->a, to = steps[i] % 2 ? link->a : link->b;
    out = fmax(out, pass(run, steps[i], link->capacity[steps[i] % 2], bytes, when));
    out = fmax(out, pass(run, 2 * t->n_links + 2 * from, t->nodes[from].out, bytes, when));
    out = fmax(out, pass(run, 2 * t->n_links + 2 * to + 1, t->nodes[to].in, bytes, when));
  }
  return out;
}

static void send(struct run *run, uint32_t e, double when) {
  const struct by_flow_edge *edge = &run->flow->edges[e];
  const struct by_cost_rates *rates = run->rates;
  double arrival = cross(run, edge, when) + edge->way->delay + edge->way->n_steps * rates->link + rates->hop;
  if (!run->sent[e]++) {
    arrival = fmax(arrival, run->busy[edge->vertex]) + rates->message;
    run->busy[edge->vertex] = arrival;
  }
  push(run, arrival, e);
}

static void use_link(struct run *run, uint32_t link, double now) {
  const struct by_cost_flow *flow = run->flow;
  for (;;) {
    uint32_t best = NONE;
    for (uint32_t e = flow->first[link]; e != NONE; e = flow->edges[e].beside)
      if (run->sent[e] < run->available[e] && (best == NONE || run->sent[e] <= run->sent[best])) best = e;
    if (best == NONE || run->awaited[link]) return;
    if (run->until[link] > now) {
      run->awaited[link] = true;
      push(run, run->until[link], flow->n_edges + link);
      return;
    }
    send(run, best, now);
  }
}

static void offer(struct run *run, uint32_t e, uint32_t chunks, double now) {
  const struct by_flow_edge *edge = &run->flow->edges[e];
  run->available[e] += chunks;
  if (edge->way)
    use_link(run, run->cost->load.steps[edge->way->step], now);
  else
    for (uint32_t i = 0; i < chunks; i++) push(run, now, e);
}

static void arrive(struct run *run, uint32_t e, double now) {
  const struct by_flow_edge *edge = &run->flow->edges[e];
  const struct by_flow_place *place = &run->flow->places[edge->place];
  uint32_t chunk = run->arrived[e]++;
  if (edge->up) {
    uint16_t *gathered = &run->gathered[(size_t)edge->place * run->chunks + chunk];
    if (++*gathered < place->needs) return;
    if (place->above != NONE) {
      offer(run, place->above, 1, now);
      return;
    }
  }
  for (uint32_t i = 0; i < place->n_down; i++) offer(run, run->flow->downs[place->down + i], 1, now);
}

static double follow(struct run *run) {
  const struct by_cost_flow *flow = run->flow;
  uint32_t resources = 2 * (run->cost->topology->n_links + run->cost->topology->n_nodes);
  double now = 0;
  for (uint32_t i = 0; i < resources; i++) run->until[i] = -run->rates->burst;
  for (uint32_t p = 0; p < flow->n_places; p++)
    if (!flow->places[p].needs && flow->places[p].above != NONE) offer(run, flow->places[p].above, run->chunks, 0);
  while (run->n_heap) {
    struct event event = pop(run);
    now = event.when;
    if (event.what < flow->n_edges) {
      arrive(run, event.what, now);
      continue;
    }
    run->awaited[event.what - flow->n_edges] = false;
    use_link(run, event.what - flow->n_edges, now);
  }
  return now;
}

/* --- one size --- */

static double run_flow(struct run *run) {
  const struct by_topology *t = run->cost->topology;
  const struct by_cost_flow *flow = run->flow;
  size_t links = 2 * (size_t)t->n_links, edges = flow->n_edges;
  run->heap = malloc((edges * run->chunks + links) * sizeof *run->heap);
  run->until = calloc(links + 2 * (size_t)t->n_nodes + run->cost->load.n_vertices, sizeof *run->until);
  run->sent = calloc(3 * edges, sizeof *run->sent);
  run->gathered = calloc((size_t)flow->n_places * run->chunks, sizeof *run->gathered);
  run->awaited = calloc(links + 1, sizeof *run->awaited);
  double seconds = NAN;
  if (run->heap && run->until && run->sent && run->gathered && run->awaited) {
    run->busy = run->until + links + 2 * (size_t)t->n_nodes;
    run->available = run->sent + edges;
    run->arrived = run->available + edges;
    seconds = follow(run);
  }
  free(run->heap);
  free(run->until);
  free(run->sent);
  free(run->gathered);
  free(run->awaited);
  return seconds;
}

double by_cost_flow_time(const struct by_cost *cost, const struct by_cost_rates *rates, double bytes) {
  struct run run = {.cost = cost, .flow = cost->flow, .rates = rates};
  double longest = cost->flow->share * bytes, chunk = by_cost_chunk(rates, longest);
  double chunks = chunk > 0 ? ceil(longest / chunk) : 1;
  uint32_t most = MOST_FOLLOWED / cost->flow->n_edges;
  if (most > MOST_CHUNKS) most = MOST_CHUNKS;
  run.chunks = chunks < most ? (uint32_t)chunks : most;
  run.bytes = bytes / chunks;
  double rest = bytes - run.chunks * run.bytes;
  double at_rate = isinf(cost->load.rate) ? 0 : rest * 8 * rates->wire / cost->load.rate;
  return run_flow(&run) + at_rate;
}
