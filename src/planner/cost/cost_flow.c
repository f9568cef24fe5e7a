/* Simulates the chunks of plain trees, event by event. Trees that share a link wait for each other there, and vertices
 * that share cores wait for these. Sums over links and heights do not show that. */
#include "cost_tree.h"

#include <math.h>
#include <stdlib.h>

#include "order.h"
#include "plan_make.h"

/* A flow with more edges would have too many events. */
enum { MAX_EDGES = 1024 };
#define NONE UINT32_MAX

struct by_flow_edge {
  const struct by_plan_pair *path; /* The path of its packets; NULL: within one node. */
  uint32_t from, to, tree;
  uint32_t next_on_link; /* Another edge whose path begins with this link; NONE: there is none. */
  uint32_t next_sibling; /* Another edge to this vertex of the tree; NONE: there is none. */
  bool up;
};

/* A vertex in a tree. */
struct by_flow_vertex {
  bool used;
  uint32_t n_below;      /* The number of edges into it for sums. */
  uint32_t below;        /* One of these edges; NONE: there is none. */
  uint32_t above;        /* The edge from it for sums; NONE: it is the root. */
  uint32_t down, n_down; /* The edges from it for results are downs[down .. down + n_down). */
};

struct by_cost_flow {
  uint32_t n_edges;
  uint32_t n_trees;
  struct by_flow_edge *edges;
  struct by_flow_vertex *tree_vertices; /* One element for each vertex of each tree. */
  double *share;                        /* The share of each tree. */
  uint32_t *downs;
  uint32_t *first;                  /* For each direction of a link: an edge whose path begins there. */
  double longest_followed, seconds; /* The longest buffer that is simulated, in bytes, and its seconds. */
  double pace;                      /* The seconds for each further byte. */
};

/* Counts the edges. Returns 0 if there is no flow. */
static uint32_t count_edges(const struct by_cost *cost, const struct by_class *class_) {
  uint64_t n = 0;
  if (cost->n_networks) return 0;
  for (uint32_t i = 0; i < class_->n_groups; i++)
    if (class_->groups[i].kind != BY_GROUP_TREE) return 0;
  for (uint32_t t = 0; t < cost->n_trees; t++) n += cost->trees[t].n_up + cost->trees[t].n_down;
  return n <= MAX_EDGES ? (uint32_t)n : 0;
}

static void add_edge(const struct by_cost *cost, struct by_cost_flow *flow, const struct by_cost_edge *edge, bool up) {
  struct by_flow_vertex *tree_vertices = &flow->tree_vertices[(size_t)flow->n_trees * cost->load.n_vertices];
  uint32_t e = flow->n_edges++;
  flow->edges[e] = (struct by_flow_edge){.path = edge->path,
                                         .from = edge->from,
                                         .to = edge->to,
                                         .tree = flow->n_trees,
                                         .next_on_link = NONE,
                                         .next_sibling = NONE,
                                         .up = up};
  flow->share[flow->n_trees] = edge->share;
  tree_vertices[edge->from].used = tree_vertices[edge->to].used = true;
  if (up) {
    flow->edges[e].next_sibling = tree_vertices[edge->to].below;
    tree_vertices[edge->to].below = e;
    tree_vertices[edge->to].n_below++;
    tree_vertices[edge->from].above = e;
  } else {
    tree_vertices[edge->from].n_down++;
  }
  if (!edge->path) return;
  uint32_t link = cost->load.steps[edge->path->step];
  flow->edges[e].next_on_link = flow->first[link];
  flow->first[link] = e;
}

static void add_tree(const struct by_cost *cost, struct by_cost_flow *flow, const struct by_cost_tree *tree,
                     uint32_t *n_downs) {
  uint32_t n = cost->load.n_vertices;
  struct by_flow_vertex *tree_vertices = &flow->tree_vertices[(size_t)flow->n_trees * n];
  for (uint32_t v = 0; v < n; v++) tree_vertices[v] = (struct by_flow_vertex){.above = NONE, .below = NONE};
  for (uint32_t i = 0; i < tree->n_up; i++) add_edge(cost, flow, &tree->up[i], true);
  uint32_t down = flow->n_edges;
  for (uint32_t i = 0; i < tree->n_down; i++) add_edge(cost, flow, &tree->down[i], false);
  for (uint32_t v = 0; v < n; v++) {
    tree_vertices[v].down = *n_downs;
    *n_downs += tree_vertices[v].n_down;
    tree_vertices[v].n_down = 0;
  }
  for (uint32_t i = 0; i < tree->n_down; i++) {
    struct by_flow_vertex *tree_vertex = &tree_vertices[tree->down[i].from];
    flow->downs[tree_vertex->down + tree_vertex->n_down++] = down + i;
  }
  flow->n_trees++;
}

enum banyan_status by_cost_flow_init(struct by_cost *cost, const struct by_class *class_) {
  struct by_arena *arena = &cost->arena;
  size_t edges = count_edges(cost, class_), links = 2 * (size_t)cost->topology->n_links;
  size_t tree_vertices = (size_t)cost->n_trees * cost->load.n_vertices;
  struct by_cost_flow *flow = edges ? BY_ARENA_NEW(arena, struct by_cost_flow) : NULL;
  if (!edges) return BANYAN_OK;
  if (!flow) return by_plan_no_memory();
  *flow = (struct by_cost_flow){.edges = BY_ARENA_ARRAY(arena, struct by_flow_edge, edges),
                                .tree_vertices = BY_ARENA_ARRAY(arena, struct by_flow_vertex, tree_vertices),
                                .share = BY_ARENA_ARRAY(arena, double, cost->n_trees),
                                .downs = BY_ARENA_ARRAY(arena, uint32_t, edges),
                                .first = BY_ARENA_ARRAY(arena, uint32_t, links + 1)};
  if (!flow->edges || !flow->tree_vertices || !flow->share || !flow->downs || !flow->first) return by_plan_no_memory();
  uint32_t n_downs = 0;
  for (size_t i = 0; i < links; i++) flow->first[i] = NONE;
  for (uint32_t t = 0; t < cost->n_trees; t++) add_tree(cost, flow, &cost->trees[t], &n_downs);
  cost->flow = flow;
  return BANYAN_OK;
}

/* --- Chunks. --- */

/* On the first link of a path a chunk waits until the link is free. If several edges wait, the one that is farthest
 * behind is next, as in the executor. On the following links chunks queue. Vertices receive and send chunks one after
 * the other, on a free core. Calls follow each other: a vertex with a result begins the next call, even if others still
 * wait for theirs. */

/* The largest numbers of simulated chunks of all edges in a call, and of one edge; the number of calls. Of the third
 * call only the beginning matters, while others wait for the end of the second. */
enum { MAX_FOLLOWED = 1024, MAX_CHUNKS = 16, CALLS = 3 };
/* The number of chunks that may wait at a vertex that cannot add them yet. The executor has more capacity, but also
 * longer buffers. */
enum { AHEAD = 4 };

/* A simulation. Events are numbered. Number e: the next chunk of edge e has passed its path; n_edges + e: it has been
 * received; after these numbers: a link is free; after these: a vertex begins a call. */
struct run {
  const struct by_cost *cost;
  const struct by_cost_flow *flow;
  const struct by_cost_rates *rates;
  uint32_t n_links;  /* The number of directions of links. */
  double bytes;      /* The size of the buffer. */
  uint32_t *chunks;  /* The number of chunks of each tree in a call. */
  uint32_t *missing; /* The number of chunks of results of each vertex in a call. */
  uint32_t *have;    /* The number of chunks of results that each vertex has received. */
  double ended[CALLS];
  struct by_heap events; /* The events by their time. */
  /* The seconds until each direction of a link is free, followed by those for what each node sends and receives. */
  double *until;
  double *busy;     /* The seconds until each vertex has processed everything received so far. */
  double *core;     /* The seconds until each core is free. */
  uint32_t n_cores; /* The number of cores; 0: each vertex has its own core. */
  /* The number of chunks that each edge has sent, may send, and has delivered. */
  uint32_t *sent, *available, *arrived;
  /* For each vertex of each tree: the number of chunks that all children have delivered. */
  uint32_t *complete;
  /* For each vertex of each tree and each chunk: the number of vertices that have delivered it, including the
   * vertex. */
  uint16_t *gathered;
  /* For each direction of a link: an event will report that it is free. */
  bool *awaited;
};

/* Processes a chunk at a vertex from `when` on. Returns the end in seconds. */
static double process_chunk(struct run *run, uint32_t vertex, double bytes, double when) {
  double start = fmax(when, run->busy[vertex]), *core = run->core;
  for (uint32_t i = 1; i < run->n_cores; i++)
    if (run->core[i] < *core) core = &run->core[i];
  if (run->n_cores) start = fmax(start, *core);
  double end = start + run->rates->message + run->rates->byte * bytes;
  run->busy[vertex] = end;
  if (run->n_cores) *core = end;
  return end;
}

/* Passes a chunk over a resource from `when` on. Returns the end in seconds. An idle resource permits a burst, and as
 * much again in advance: a packet that may start to pass does so completely. */
static double pass_resource(struct run *run, uint32_t resource, struct by_capacity capacity, double bytes,
                            double when) {
  double left = by_residual(capacity), burst = run->rates->burst, *until = &run->until[resource];
  if (isinf(left)) return when;
  double seconds = bytes * 8 * run->rates->wire / left;
  *until = fmax(*until, when - burst) + seconds;
  return fmax(when, *until - fmin(seconds, burst));
}

static double cross_path(struct run *run, const struct by_flow_edge *edge, double bytes, double when) {
  const struct by_topology *t = run->cost->topology;
  const uint32_t *steps = run->cost->load.steps + edge->path->step;
  double out = when;
  for (uint32_t i = 0; i < edge->path->n_steps; i++) {
    const struct by_link *link = &t->links[steps[i] / 2];
    uint32_t from = steps[i] % 2 ? link->b : link->a, to = steps[i] % 2 ? link->a : link->b;
    out = fmax(out, pass_resource(run, steps[i], link->capacity[steps[i] % 2], bytes, when));
    out = fmax(out, pass_resource(run, 2 * t->n_links + 2 * from, t->nodes[from].out, bytes, when));
    out = fmax(out, pass_resource(run, 2 * t->n_links + 2 * to + 1, t->nodes[to].in, bytes, when));
  }
  return out;
}

static double get_chunk_bytes(const struct run *run, uint32_t e) {
  uint32_t tree = run->flow->edges[e].tree;
  return run->flow->share[tree] * run->bytes / run->chunks[tree];
}

static void send_chunk(struct run *run, uint32_t e, double when) {
  const struct by_flow_edge *edge = &run->flow->edges[e];
  const struct by_cost_rates *rates = run->rates;
  double bytes = get_chunk_bytes(run, e),
         sent = cross_path(run, edge, bytes, process_chunk(run, edge->from, bytes, when));
  run->sent[e]++;
  by_heap_push(&run->events, sent + edge->path->delay + edge->path->n_steps * rates->link + rates->hop, e);
}

/* Returns which part of its tree's messages an edge has sent. */
static double get_progress(const struct run *run, uint32_t e) {
  return (double)run->sent[e] / run->chunks[run->flow->edges[e].tree];
}

static size_t get_vertex_index(const struct run *run, uint32_t tree, uint32_t vertex) {
  return (size_t)tree * run->cost->load.n_vertices + vertex;
}

static bool may_send(const struct run *run, uint32_t e) {
  const struct by_flow_edge *edge = &run->flow->edges[e];
  if (run->sent[e] == run->available[e]) return false;
  return !edge->up || run->arrived[e] < run->complete[get_vertex_index(run, edge->tree, edge->to)] + AHEAD;
}

static void use_link(struct run *run, uint32_t link, double now) {
  const struct by_cost_flow *flow = run->flow;
  for (;;) {
    uint32_t best = NONE;
    for (uint32_t e = flow->first[link]; e != NONE; e = flow->edges[e].next_on_link)
      if (may_send(run, e) && (best == NONE || get_progress(run, e) <= get_progress(run, best))) best = e;
    if (best == NONE || run->awaited[link]) return;
    if (run->until[link] > now) {
      run->awaited[link] = true;
      by_heap_push(&run->events, run->until[link], 2 * flow->n_edges + link);
      return;
    }
    send_chunk(run, best, now);
  }
}

static void try_edge(struct run *run, uint32_t e, double now) {
  const struct by_plan_pair *path = run->flow->edges[e].path;
  if (path) use_link(run, run->cost->load.steps[path->step], now);
}

static void make_available(struct run *run, uint32_t e, double now) {
  run->available[e]++;
  try_edge(run, e, now);
  if (!run->flow->edges[e].path) by_heap_push(&run->events, now, run->flow->n_edges + e);
}

/* Records that a vertex has a chunk of a result. */
static void record_result(struct run *run, uint32_t vertex, double now) {
  uint32_t call = run->have[vertex]++ / run->missing[vertex];
  if (run->have[vertex] % run->missing[vertex]) return;
  run->ended[call] = fmax(run->ended[call], now);
  if (call + 1 < CALLS)
    by_heap_push(&run->events, now + run->rates->call, 2 * run->flow->n_edges + run->n_links + vertex);
}

static void pass_down(struct run *run, const struct by_flow_vertex *tree_vertex, uint32_t vertex, double now) {
  record_result(run, vertex, now);
  for (uint32_t i = 0; i < tree_vertex->n_down; i++) make_available(run, run->flow->downs[tree_vertex->down + i], now);
}

/* Records that a vertex has a chunk of a tree's sum, its own or a child's. */
static void record_chunk(struct run *run, uint32_t tree, uint32_t vertex, uint32_t chunk, double now) {
  size_t at = get_vertex_index(run, tree, vertex);
  const struct by_flow_vertex *tree_vertex = &run->flow->tree_vertices[at];
  uint16_t *gathered = &run->gathered[at * CALLS * MAX_CHUNKS + chunk];
  if (++*gathered < tree_vertex->n_below + 1) return;
  run->complete[at]++;
  for (uint32_t e = tree_vertex->below; e != NONE; e = run->flow->edges[e].next_sibling) try_edge(run, e, now);
  if (tree_vertex->above != NONE)
    make_available(run, tree_vertex->above, now);
  else
    pass_down(run, tree_vertex, vertex, now);
}

static void receive_chunk(struct run *run, uint32_t e, double now) {
  const struct by_flow_edge *edge = &run->flow->edges[e];
  uint32_t chunk = run->arrived[e]++;
  if (edge->up)
    record_chunk(run, edge->tree, edge->to, chunk, now);
  else
    pass_down(run, &run->flow->tree_vertices[get_vertex_index(run, edge->tree, edge->to)], edge->to, now);
}

static void begin_call(struct run *run, uint32_t vertex, double now) {
  uint32_t call = run->have[vertex] / run->missing[vertex];
  for (uint32_t t = 0; t < run->flow->n_trees; t++)
    for (uint32_t i = 0; run->flow->tree_vertices[get_vertex_index(run, t, vertex)].used && i < run->chunks[t]; i++)
      record_chunk(run, t, vertex, call * run->chunks[t] + i, now);
}

static void handle_event(struct run *run, struct by_heap_item event) {
  uint32_t edges = run->flow->n_edges, what = event.number;
  if (what < edges) {
    const struct by_flow_edge *edge = &run->flow->edges[what];
    by_heap_push(&run->events, process_chunk(run, edge->to, get_chunk_bytes(run, what), event.key), edges + what);
  } else if (what < 2 * edges) {
    receive_chunk(run, what - edges, event.key);
  } else if (what < 2 * edges + run->n_links) {
    run->awaited[what - 2 * edges] = false;
    use_link(run, what - 2 * edges, event.key);
  } else {
    begin_call(run, what - 2 * edges - run->n_links, event.key);
  }
}

static double run_events(struct run *run) {
  uint32_t vertices = run->cost->load.n_vertices, resources = run->n_links + 2 * run->cost->topology->n_nodes;
  for (uint32_t i = 0; i < resources; i++) run->until[i] = -run->rates->burst;
  for (uint32_t t = 0; t < run->flow->n_trees; t++)
    for (uint32_t v = 0; v < vertices; v++)
      if (run->flow->tree_vertices[get_vertex_index(run, t, v)].used) run->missing[v] += run->chunks[t];
  for (uint32_t v = 0; v < vertices; v++)
    if (run->missing[v]) begin_call(run, v, 0);
  while (run->events.n) handle_event(run, by_heap_pop(&run->events));
  return run->ended[1] - run->ended[0];
}

/* --- One size. --- */

static void set_chunks(struct run *run) {
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
  size_t resources = links + 2 * (size_t)cost->topology->n_nodes, tree_vertices = flow->n_trees * vertices;
  struct run run = {.cost = cost, .flow = flow, .rates = rates, .n_links = (uint32_t)links, .bytes = bytes};
  double seconds = NAN;
  if (rates->cores < (double)vertices) run.n_cores = (uint32_t)rates->cores;
  run.events.items = malloc((edges * CALLS * MAX_CHUNKS + links + vertices) * sizeof *run.events.items);
  run.until = calloc(resources + vertices + run.n_cores, sizeof *run.until);
  run.sent = calloc(3 * edges + flow->n_trees + 2 * vertices + tree_vertices, sizeof *run.sent);
  run.gathered = calloc(tree_vertices * CALLS * MAX_CHUNKS + 1, sizeof *run.gathered);
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
    set_chunks(&run);
    seconds = run_events(&run);
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
  uint32_t max = MAX_FOLLOWED / flow->n_edges;
  double share = 0;
  if (max > MAX_CHUNKS) max = MAX_CHUNKS;
  if (max < 2) max = 2;
  for (uint32_t t = 0; t < flow->n_trees; t++) share = fmax(share, flow->share[t]);
  flow->longest_followed = max * cost->rates.grain / share;
  flow->seconds = run_flow(cost, flow->longest_followed);
  flow->pace = (flow->seconds - run_flow(cost, flow->longest_followed / 2)) / (flow->longest_followed / 2);
  return isnan(flow->pace) ? by_plan_no_memory() : BANYAN_OK;
}

double by_cost_flow_time(const struct by_cost *cost, double bytes) {
  const struct by_cost_flow *flow = cost->flow;
  if (bytes <= flow->longest_followed) return run_flow(cost, bytes);
  return flow->seconds + (bytes - flow->longest_followed) * flow->pace;
}
