/* The chunks of plain trees on their way, one event after the other. Trees that share a link wait for each other there,
 * and vertices that share cores for these, which no sum over links and heights knows. */
#include "cost_tree.h"

#include <math.h>
#include <stdlib.h>

#include "heap.h"
#include "plan_make.h"

/* A flow of more edges would have too many events. */
enum { MOST_EDGES = 1024 };
#define NONE UINT32_MAX

struct by_flow_edge {
  const struct by_plan_pair *way; /* NULL: within one node */
  uint32_t from, to, tree;
  uint32_t beside; /* another one whose way begins with the same link; UINT32_MAX: none */
  uint32_t sister; /* another one to the same place; UINT32_MAX: none */
  bool up;
};

/* A vertex in a tree. */
struct by_flow_place {
  bool used;
  uint32_t needs;        /* edges into it on the way up */
  uint32_t below;        /* one of these; UINT32_MAX: none */
  uint32_t above;        /* the one from it; UINT32_MAX: the root has none */
  uint32_t down, n_down; /* those from it on the way down stand in downs[] */
};

struct by_cost_flow {
  uint32_t n_edges;
  uint32_t n_trees;
  struct by_flow_edge *edges;
  struct by_flow_place *places; /* of each tree as many as there are vertices */
  double *share;                /* of each tree */
  uint32_t *downs;
  uint32_t *first;         /* of each direction of a link: an edge whose way begins there */
  double longest, seconds; /* the longest buffer that is followed takes so long, */
  double pace;             /* and each byte beyond */
};

/* 0: there is no flow. */
static uint32_t count_edges(const struct by_cost *cost, const struct by_class *class_) {
  uint64_t n = 0;
  if (cost->n_networks) return 0;
  for (uint32_t i = 0; i < class_->n_groups; i++)
    if (class_->groups[i].kind != BY_GROUP_TREE) return 0;
  for (uint32_t t = 0; t < cost->n_trees; t++) n += cost->trees[t].n_up + cost->trees[t].n_down;
  return n <= MOST_EDGES ? (uint32_t)n : 0;
}

static void add_edge(const struct by_cost *cost, struct by_cost_flow *flow, const struct by_cost_edge *edge, bool up) {
  struct by_flow_place *places = &flow->places[(size_t)flow->n_trees * cost->load.n_vertices];
  uint32_t e = flow->n_edges++;
  flow->edges[e] = (struct by_flow_edge){.way = edge->way,
                                         .from = edge->from,
                                         .to = edge->to,
                                         .tree = flow->n_trees,
                                         .beside = NONE,
                                         .sister = NONE,
                                         .up = up};
  flow->share[flow->n_trees] = edge->share;
  places[edge->from].used = places[edge->to].used = true;
  if (up) {
    flow->edges[e].sister = places[edge->to].below;
    places[edge->to].below = e;
    places[edge->to].needs++;
    places[edge->from].above = e;
  } else {
    places[edge->from].n_down++;
  }
  if (!edge->way) return;
  uint32_t link = cost->load.steps[edge->way->step];
  flow->edges[e].beside = flow->first[link];
  flow->first[link] = e;
}

static void add_tree(const struct by_cost *cost, struct by_cost_flow *flow, const struct by_cost_tree *tree,
                     uint32_t *n_downs) {
  uint32_t n = cost->load.n_vertices;
  struct by_flow_place *places = &flow->places[(size_t)flow->n_trees * n];
  for (uint32_t v = 0; v < n; v++) places[v] = (struct by_flow_place){.above = NONE, .below = NONE};
  for (uint32_t i = 0; i < tree->n_up; i++) add_edge(cost, flow, &tree->up[i], true);
  uint32_t down = flow->n_edges;
  for (uint32_t i = 0; i < tree->n_down; i++) add_edge(cost, flow, &tree->down[i], false);
  for (uint32_t v = 0; v < n; v++) {
    places[v].down = *n_downs;
    *n_downs += places[v].n_down;
    places[v].n_down = 0;
  }
  for (uint32_t i = 0; i < tree->n_down; i++) {
    struct by_flow_place *place = &places[tree->down[i].from];
    flow->downs[place->down + place->n_down++] = down + i;
  }
  flow->n_trees++;
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
                                .share = BY_ARENA_ARRAY(arena, double, cost->n_trees),
                                .downs = BY_ARENA_ARRAY(arena, uint32_t, edges),
                                .first = BY_ARENA_ARRAY(arena, uint32_t, links + 1)};
  if (!flow->edges || !flow->places || !flow->share || !flow->downs || !flow->first) return by_plan_no_memory();
  uint32_t n_downs = 0;
  for (size_t i = 0; i < links; i++) flow->first[i] = NONE;
  for (uint32_t t = 0; t < cost->n_trees; t++) add_tree(cost, flow, &cost->trees[t], &n_downs);
  cost->flow = flow;
  return BANYAN_OK;
}

/* --- chunks --- */

/* Of each way a chunk takes the first link when that is free, the one furthest behind first, as the executor sends; on
 * the links behind it they queue. Vertices take and send chunks one after the other, on a core while one is free. Calls
 * follow each other: who has a result begins the next call, though others still wait for theirs. */

/* So many chunks of edges are followed at most in a call, and so many of an edge. Of the third call only its beginning
 * counts, while others still wait for the second's end. */
enum { MOST_FOLLOWED = 1024, MOST_CHUNKS = 16, CALLS = 3 };
/* So many chunks may be at a vertex that it cannot add yet, till no more are sent there: the executor has more room,
 * but also longer buffers. */
enum { AHEAD = 4 };

/* What happens at a time is numbered: edge e's next chunk is through its way; at n_edges + e, it has been taken; behind
 * these, links are free; and behind these vertices begin a call. */
struct run {
  const struct by_cost *cost;
  const struct by_cost_flow *flow;
  const struct by_cost_rates *rates;
  uint32_t n_links;  /* directions of links */
  double bytes;      /* of the buffer */
  uint32_t *chunks;  /* of each tree in a call */
  uint32_t *missing; /* of each vertex: chunks of results in a call */
  uint32_t *have;    /* of each vertex: chunks of results */
  double ended[CALLS];
  struct by_heap events; /* by their time */
  double *until;         /* of each direction of a link, then of what each node sends, receives: taken until then */
  double *busy;          /* of each vertex: until it has dealt with what came before */
  double *core;          /* the same of each core */
  uint32_t n_cores;      /* 0: each vertex has its own */
  uint32_t *sent, *available, *arrived; /* chunks of each edge */
  uint32_t *complete;                   /* of each place: chunks that have come from everybody */
  uint16_t *gathered;                   /* of each place and chunk: from whom it has come, itself included */
  bool *awaited;                        /* of each direction of a link: an event will say that it is free */
};

/* A vertex's processor deals with a chunk from `when` on; returns when it has. */
static double handle(struct run *run, uint32_t vertex, double bytes, double when) {
  double start = fmax(when, run->busy[vertex]), *core = run->core;
  for (uint32_t i = 1; i < run->n_cores; i++)
    if (run->core[i] < *core) core = &run->core[i];
  if (run->n_cores) start = fmax(start, *core);
  double end = start + run->rates->message + run->rates->byte * bytes;
  run->busy[vertex] = end;
  if (run->n_cores) *core = end;
  return end;
}

/* A chunk's bytes pass something from `when` on; returns when they have. What has idled lets a burst through, and then
 * as much again on credit: a packet that may begin to pass does so whole. */
static double pass(struct run *run, uint32_t resource, struct by_capacity capacity, double bytes, double when) {
  double left = by_residual(capacity), burst = run->rates->burst, *until = &run->until[resource];
  if (isinf(left)) return when;
  double seconds = bytes * 8 * run->rates->wire / left;
  *until = fmax(*until, when - burst) + seconds;
  return fmax(when, *until - fmin(seconds, burst));
}

static double cross(struct run *run, const struct by_flow_edge *edge, double bytes, double when) {
  const struct by_topology *t = run->cost->topology;
  const uint32_t *steps = run->cost->load.steps + edge->way->step;
  double out = when;
  for (uint32_t i = 0; i < edge->way->n_steps; i++) {
    const struct by_link *link = &t->links[steps[i] / 2];
    uint32_t from = steps[i] % 2 ? link->b : link->a, to = steps[i] % 2 ? link->a : link->b;
    out = fmax(out, pass(run, steps[i], link->capacity[steps[i] % 2], bytes, when));
    out = fmax(out, pass(run, 2 * t->n_links + 2 * from, t->nodes[from].out, bytes, when));
    out = fmax(out, pass(run, 2 * t->n_links + 2 * to + 1, t->nodes[to].in, bytes, when));
  }
  return out;
}

static double chunk_bytes(const struct run *run, uint32_t e) {
  uint32_t tree = run->flow->edges[e].tree;
  return run->flow->share[tree] * run->bytes / run->chunks[tree];
}

static void send(struct run *run, uint32_t e, double when) {
  const struct by_flow_edge *edge = &run->flow->edges[e];
  const struct by_cost_rates *rates = run->rates;
  double bytes = chunk_bytes(run, e), sent = cross(run, edge, bytes, handle(run, edge->from, bytes, when));
  run->sent[e]++;
  by_heap_push(&run->events, sent + edge->way->delay + edge->way->n_steps * rates->link + rates->hop, e);
}

/* Which part of its tree's messages an edge has sent. */
static double progress(const struct run *run, uint32_t e) {
  return (double)run->sent[e] / run->chunks[run->flow->edges[e].tree];
}

static size_t place_of(const struct run *run, uint32_t tree, uint32_t vertex) {
  return (size_t)tree * run->cost->load.n_vertices + vertex;
}

static bool may_send(const struct run *run, uint32_t e) {
  const struct by_flow_edge *edge = &run->flow->edges[e];
  if (run->sent[e] == run->available[e]) return false;
  return !edge->up || run->arrived[e] < run->complete[place_of(run, edge->tree, edge->to)] + AHEAD;
}

static void use_link(struct run *run, uint32_t link, double now) {
  const struct by_cost_flow *flow = run->flow;
  for (;;) {
    uint32_t best = NONE;
    for (uint32_t e = flow->first[link]; e != NONE; e = flow->edges[e].beside)
      if (may_send(run, e) && (best == NONE || progress(run, e) <= progress(run, best))) best = e;
    if (best == NONE || run->awaited[link]) return;
    if (run->until[link] > now) {
      run->awaited[link] = true;
      by_heap_push(&run->events, run->until[link], 2 * flow->n_edges + link);
      return;
    }
    send(run, best, now);
  }
}

static void try_edge(struct run *run, uint32_t e, double now) {
  const struct by_plan_pair *way = run->flow->edges[e].way;
  if (way) use_link(run, run->cost->load.steps[way->step], now);
}

static void offer(struct run *run, uint32_t e, double now) {
  run->available[e]++;
  try_edge(run, e, now);
  if (!run->flow->edges[e].way) by_heap_push(&run->events, now, run->flow->n_edges + e);
}

/* A vertex has a chunk of a result. */
static void note_result(struct run *run, uint32_t vertex, double now) {
  uint32_t call = run->have[vertex]++ / run->missing[vertex];
  if (run->have[vertex] % run->missing[vertex]) return;
  run->ended[call] = fmax(run->ended[call], now);
  if (call + 1 < CALLS)
    by_heap_push(&run->events, now + run->rates->call, 2 * run->flow->n_edges + run->n_links + vertex);
}

static void pass_down(struct run *run, const struct by_flow_place *place, uint32_t vertex, double now) {
  note_result(run, vertex, now);
  for (uint32_t i = 0; i < place->n_down; i++) offer(run, run->flow->downs[place->down + i], now);
}

/* A vertex has a chunk, its own or a child's, of what is summed in a tree. */
static void gather(struct run *run, uint32_t tree, uint32_t vertex, uint32_t chunk, double now) {
  size_t at = place_of(run, tree, vertex);
  const struct by_flow_place *place = &run->flow->places[at];
  uint16_t *gathered = &run->gathered[at * CALLS * MOST_CHUNKS + chunk];
  if (++*gathered < place->needs + 1) return;
  run->complete[at]++;
  for (uint32_t e = place->below; e != NONE; e = run->flow->edges[e].sister) try_edge(run, e, now);
  if (place->above != NONE)
    offer(run, place->above, now);
  else
    pass_down(run, place, vertex, now);
}

static void take(struct run *run, uint32_t e, double now) {
  const struct by_flow_edge *edge = &run->flow->edges[e];
  uint32_t chunk = run->arrived[e]++;
  if (edge->up)
    gather(run, edge->tree, edge->to, chunk, now);
  else
    pass_down(run, &run->flow->places[place_of(run, edge->tree, edge->to)], edge->to, now);
}

static void begin(struct run *run, uint32_t vertex, double now) {
  uint32_t call = run->have[vertex] / run->missing[vertex];
  for (uint32_t t = 0; t < run->flow->n_trees; t++)
    for (uint32_t i = 0; run->flow->places[place_of(run, t, vertex)].used && i < run->chunks[t]; i++)
      gather(run, t, vertex, call * run->chunks[t] + i, now);
}

static void happen(struct run *run, struct by_heap_item event) {
  uint32_t edges = run->flow->n_edges, what = event.number;
  if (what < edges) {
    const struct by_flow_edge *edge = &run->flow->edges[what];
    by_heap_push(&run->events, handle(run, edge->to, chunk_bytes(run, what), event.key), edges + what);
  } else if (what < 2 * edges) {
    take(run, what - edges, event.key);
  } else if (what < 2 * edges + run->n_links) {
    run->awaited[what - 2 * edges] = false;
    use_link(run, what - 2 * edges, event.key);
  } else {
    begin(run, what - 2 * edges - run->n_links, event.key);
  }
}

static double follow(struct run *run) {
  uint32_t vertices = run->cost->load.n_vertices, resources = run->n_links + 2 * run->cost->topology->n_nodes;
  for (uint32_t i = 0; i < resources; i++) run->until[i] = -run->rates->burst;
  for (uint32_t t = 0; t < run->flow->n_trees; t++)
    for (uint32_t v = 0; v < vertices; v++)
      if (run->flow->places[place_of(run, t, v)].used) run->missing[v] += run->chunks[t];
  for (uint32_t v = 0; v < vertices; v++)
    if (run->missing[v]) begin(run, v, 0);
  while (run->events.n) happen(run, by_heap_pop(&run->events));
  return run->ended[1] - run->ended[0];
}

/* --- one size --- */

static void cut(struct run *run) {
  for (uint32_t t = 0; t < run->flow->n_trees; t++) {
    double message = run->flow->share[t] * run->bytes, chunk = by_cost_chunk(run->rates, message);
    double chunks = chunk > 0 ? ceil(message / chunk * (1 - 1e-9)) : 1;
    run->chunks[t] = chunks < 1 ? 1 : (uint32_t)chunks;
  }
}

static double run_flow(const struct by_cost *cost, double bytes) {
  const struct by_cost_flow *flow = cost->flow;
  const struct by_cost_rates *rates = &cost->rates;
  size_t links = 2 * (size_t)cost->topology->n_links, edges = flow->n_edges, vertices = cost->load.n_vertices;
  size_t resources = links + 2 * (size_t)cost->topology->n_nodes, places = flow->n_trees * vertices;
  struct run run = {.cost = cost, .flow = flow, .rates = rates, .n_links = (uint32_t)links, .bytes = bytes};
  double seconds = NAN;
  if (rates->cores < (double)vertices) run.n_cores = (uint32_t)rates->cores;
  run.events.items = malloc((edges * CALLS * MOST_CHUNKS + links + vertices) * sizeof *run.events.items);
  run.until = calloc(resources + vertices + run.n_cores, sizeof *run.until);
  run.sent = calloc(3 * edges + flow->n_trees + 2 * vertices + places, sizeof *run.sent);
  run.gathered = calloc(places * CALLS * MOST_CHUNKS + 1, sizeof *run.gathered);
  run.awaited = calloc(links + 1, sizeof *run.awaited);
  if (run.events.items && run.until && run.sent && run.gathered && run.awaited) {
    run.busy = run.until + resources;
    run.core = run.busy + vertices;
    run.available = run.sent + edges;
    run.arrived = run.available + edges;
    run.chunks = run.arrived + edges;
    run.missing = run.chunks + flow->n_trees;
    run.have = run.missing + vertices;
    run.complete = run.have + vertices;
    cut(&run);
    seconds = follow(&run);
  }
  free(run.events.items);
  free(run.until);
  free(run.sent);
  free(run.gathered);
  free(run.awaited);
  return seconds;
}

enum banyan_status by_cost_flow_find_pace(struct by_cost *cost) {
  struct by_cost_flow *flow = cost->flow;
  uint32_t most = MOST_FOLLOWED / flow->n_edges;
  double share = 0;
  if (most > MOST_CHUNKS) most = MOST_CHUNKS;
  if (most < 2) most = 2;
  for (uint32_t t = 0; t < flow->n_trees; t++) share = fmax(share, flow->share[t]);
  flow->longest = most * cost->rates.grain / share;
  flow->seconds = run_flow(cost, flow->longest);
  flow->pace = (flow->seconds - run_flow(cost, flow->longest / 2)) / (flow->longest / 2);
  return isnan(flow->pace) ? by_plan_no_memory() : BANYAN_OK;
}

double by_cost_flow_time(const struct by_cost *cost, double bytes) {
  const struct by_cost_flow *flow = cost->flow;
  if (bytes <= flow->longest) return run_flow(cost, bytes);
  return flow->seconds + (bytes - flow->longest) * flow->pace;
}
