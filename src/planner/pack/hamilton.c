/* Searches Hamiltonian cycles, rings for short: exactly in small graphs, by rotations in large ones. Proves that there
 * is none. */
#include "plan_order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_make.h"
#include "rng.h"

#define NONE UINT32_MAX

/* --- The graph. --- */

enum banyan_status by_adjacency_init(struct by_adjacency *graph, uint32_t n) {
  *graph = (struct by_adjacency){.n = n, .words = (n + 63) / 64};
  if (n > BY_HAMILTON_MAX)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "a ring is looked for among at most %d ranks, not %u", BY_HAMILTON_MAX, n);
  graph->bits = calloc((size_t)n * graph->words + 1, sizeof *graph->bits);
  return graph->bits ? BANYAN_OK : by_plan_no_memory();
}

void by_adjacency_fini(struct by_adjacency *graph) {
  free(graph->bits);
  *graph = (struct by_adjacency){0};
}

void by_adjacency_join(struct by_adjacency *graph, uint32_t v, uint32_t w) {
  if (v == w) return;
  graph->bits[(size_t)v * graph->words + w / 64] |= 1ull << w % 64;
  graph->bits[(size_t)w * graph->words + v / 64] |= 1ull << v % 64;
}

/* Returns the first neighbour of v that is at least `from`. Returns NONE if there is no such neighbour. */
static uint32_t find_neighbour(const struct by_adjacency *graph, uint32_t v, uint32_t from) {
  const uint64_t *row = &graph->bits[(size_t)v * graph->words];
  if (from >= graph->n) return NONE;
  uint64_t word = row[from / 64] >> from % 64 << from % 64;
  for (uint32_t i = from / 64;; word = row[i]) {
    if (word) return i * 64 + (uint32_t)__builtin_ctzll(word);
    if (++i == graph->words) return NONE;
  }
}

bool by_hamilton_is_ring(const struct by_adjacency *graph, const uint32_t *order) {
  if (graph->n < 2) return true;
  for (uint32_t i = 0; i < graph->n; i++)
    if (!by_adjacent(graph, order[i], order[(i + 1) % graph->n])) return false;
  return true;
}

/* --- Small graphs: dynamic programming. --- */

/* The table of paths from the last vertex through sets of the others. best[set * m + v] is the smallest length of a
 * path through the whole set that ends at its member v. */
struct table {
  uint32_t m; /* The number of vertices without the last one. */
  uint32_t beside[BY_HAMILTON_EXACT];
  float length[BY_HAMILTON_EXACT][BY_HAMILTON_EXACT]; /* INFINITY: no edge. */
  float *best;
};

static void list_edges(struct table *t, const struct by_adjacency *graph, const float *length) {
  for (uint32_t v = 0; v < graph->n; v++)
    for (uint32_t w = 0; w < graph->n; w++) {
      bool joined = by_adjacent(graph, v, w);
      t->beside[v] |= (uint32_t)joined << w;
      t->length[v][w] = !joined ? INFINITY : length ? length[(size_t)v * graph->n + w] : 1;
    }
}

/* Returns the vertex before v on the best path through the set. Returns NONE if v is the first, or if there is no
 * path. */
static uint32_t find_before(const struct table *t, uint32_t set, uint32_t v, float *length) {
  uint32_t rest = set & ~(1u << v), best = NONE;
  *length = rest ? INFINITY : t->length[t->m][v];
  for (uint32_t left = rest & t->beside[v]; left; left &= left - 1) {
    uint32_t u = (uint32_t)__builtin_ctz(left);
    float through = t->best[(size_t)rest * t->m + u] + t->length[u][v];
    if (through >= *length) continue;
    *length = through;
    best = u;
  }
  return best;
}

/* Returns whether there is a ring, and stores the shortest one in `order`. */
static bool read_table(const struct table *t, uint32_t *order) {
  uint32_t set = (1u << t->m) - 1, last = NONE;
  float min = INFINITY, length;
  for (uint32_t v = 0; v < t->m; v++) {
    length = t->best[(size_t)set * t->m + v] + t->length[v][t->m];
    if (length < min) {
      min = length;
      last = v;
    }
  }
  if (last == NONE) return false;
  for (uint32_t i = t->m; i > 0 && last != NONE; i--) {
    uint32_t before = find_before(t, set, last, &length);
    order[i] = last;
    set &= ~(1u << last);
    last = before;
  }
  order[0] = t->m;
  return true;
}

static enum banyan_status find_exactly(const struct by_adjacency *graph, const float *length, uint32_t *order,
                                       struct by_hamilton *out) {
  struct table t = {.m = graph->n - 1};
  list_edges(&t, graph, length);
  t.best = calloc(((size_t)1 << t.m) * t.m + 1, sizeof *t.best);
  if (!t.best) return by_plan_no_memory();
  for (uint32_t set = 1; set < 1u << t.m; set++)
    for (uint32_t v = 0; v < t.m; v++)
      if (set >> v & 1) (void)find_before(&t, set, v, &t.best[(size_t)set * t.m + v]);
  bool found = read_table(&t, order);
  free(t.best);
  if (found) {
    uint32_t copy[BY_HAMILTON_EXACT], at = 0; /* The ring is rotated so that it begins with vertex 0. */
    memcpy(copy, order, graph->n * sizeof *order);
    while (copy[at]) at++;
    for (uint32_t i = 0; i < graph->n; i++) order[i] = copy[(at + i) % graph->n];
    return BANYAN_OK;
  }
  if (graph->n > 2) BY_TRY(by_hamilton_refute(graph, out));
  if (graph->n == 2 || out->answer == BY_HAMILTON_UNKNOWN)
    *out = (struct by_hamilton){.answer = BY_HAMILTON_NO, .reason = BY_HAMILTON_TRIED_ALL};
  return BANYAN_OK;
}

enum banyan_status by_hamilton_find(const struct by_adjacency *graph, const float *length, uint64_t seed,
                                    uint32_t *order, struct by_hamilton *out) {
  bool found = false;
  *out = (struct by_hamilton){.answer = BY_HAMILTON_YES};
  if (graph->n < 2) return BANYAN_OK;
  if (graph->n <= BY_HAMILTON_EXACT) return find_exactly(graph, length, order, out);
  if (by_hamilton_is_ring(graph, order)) return BANYAN_OK;
  BY_TRY(by_hamilton_refute(graph, out));
  if (out->answer == BY_HAMILTON_NO) return BANYAN_OK;
  BY_TRY(by_hamilton_rotate(graph, seed, order, &found));
  if (found) *out = (struct by_hamilton){.answer = BY_HAMILTON_YES};
  return BANYAN_OK;
}

/* --- Rotations. --- */

/* Posa's rotations. A path p grows at its end. If the end has no free neighbour, an edge joins it to one of its
 * neighbours p[i] on the path, and p[i] - p[i+1] is cut: p[i+1] becomes the new end.
 *
 *   p0 .. pi  pi+1 .. end    becomes    p0 .. pi  end .. pi+1      Ends that have a free neighbour, or that close the
 *            ^--- reversed ---^                                    ring, are preferred. */

enum { WORK = 200 << 20, MAX_EXAMINED = 32 };

struct path {
  const struct by_adjacency *graph;
  const uint32_t *preferred; /* The preferred order. */
  uint32_t *vertex;          /* The vertex at each index. */
  uint32_t *index;           /* The index of each vertex; NONE: it is free. */
  uint64_t *free;            /* One bit for each vertex, set if it is free. */
  uint32_t *preferred_index; /* The index of each vertex in the preferred order. */
  uint32_t n;
  uint32_t work; /* The number of examined words and indices. */
  struct by_rng rng;
};

static uint32_t count_free(struct path *p, uint32_t v) {
  const uint64_t *row = &p->graph->bits[(size_t)v * p->graph->words];
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->graph->words; i++) n += (uint32_t)__builtin_popcountll(row[i] & p->free[i]);
  p->work += p->graph->words;
  return n;
}

static void append_vertex(struct path *p, uint32_t v) {
  p->vertex[p->n] = v;
  p->index[v] = p->n++;
  p->free[v / 64] &= ~(1ull << v % 64);
}

/* Returns the next neighbour of v from `*from` on, in a cycle, and advances `*from`. */
static uint32_t get_neighbour(struct path *p, uint32_t v, uint32_t *from) {
  uint32_t w = find_neighbour(p->graph, v, *from);
  if (w == NONE) w = find_neighbour(p->graph, v, 0);
  *from = w == NONE ? 0 : w + 1;
  p->work++;
  return w;
}

/* Returns the free neighbour with the fewest free neighbours among those examined. Returns NONE if there is none. */
static uint32_t choose_free_neighbour(struct path *p, uint32_t v) {
  uint32_t from = (uint32_t)by_rng_below(&p->rng, p->graph->n), best = NONE, min = NONE, first = NONE;
  if (!count_free(p, v)) return NONE;
  for (uint32_t examined = 0; examined < MAX_EXAMINED || best == NONE;) {
    uint32_t w = get_neighbour(p, v, &from);
    if (w == first) break;
    if (first == NONE) first = w;
    if (p->index[w] != NONE) continue;
    examined++;
    uint32_t n = count_free(p, w);
    if (n >= min) continue;
    min = n;
    best = w;
  }
  return best;
}

static void extend_path(struct path *p, bool prefer) {
  while (p->n < p->graph->n) {
    uint32_t end = p->vertex[p->n - 1], next = p->preferred[(p->preferred_index[end] + 1) % p->graph->n];
    if (!prefer || p->index[next] != NONE || !by_adjacent(p->graph, end, next)) next = choose_free_neighbour(p, end);
    if (next == NONE) return;
    append_vertex(p, next);
  }
}

static void reverse_path(struct path *p, uint32_t from) {
  for (uint32_t i = from, j = p->n - 1; i < j; i++, j--) {
    uint32_t v = p->vertex[i];
    p->vertex[i] = p->vertex[j];
    p->vertex[j] = v;
  }
  for (uint32_t i = from; i < p->n; i++) p->index[p->vertex[i]] = i;
  p->work += 2 * (p->n - from);
}

/* Rotates the path. Returns false if its end has no neighbour on the path but the previous vertex. */
static bool rotate_path(struct path *p) {
  uint32_t end = p->vertex[p->n - 1], from = (uint32_t)by_rng_below(&p->rng, p->graph->n), chosen = NONE, first = NONE;
  for (uint32_t examined = 0; examined < MAX_EXAMINED; examined++) {
    uint32_t w = get_neighbour(p, end, &from);
    if (w == first || w == NONE) break;
    if (first == NONE) first = w;
    if (p->index[w] == NONE || p->index[w] + 2 >= p->n) continue;
    if (chosen == NONE) chosen = p->index[w] + 1;
    uint32_t new_end = p->vertex[p->index[w] + 1];
    bool good = p->n == p->graph->n ? by_adjacent(p->graph, new_end, p->vertex[0]) : count_free(p, new_end) > 0;
    if (!good) continue; /* A path with this end can neither grow nor close the ring. */
    chosen = p->index[w] + 1;
    break;
  }
  if (chosen == NONE) return false;
  reverse_path(p, chosen);
  return true;
}

/* Makes one attempt, which ends with a ring or after many rotations without growth. */
static bool try_once(struct path *p, bool prefer) {
  uint32_t n = p->graph->n, max = 10 * n + 1000;
  p->n = 0;
  memset(p->index, 0xff, n * sizeof *p->index);
  memset(p->free, 0, p->graph->words * sizeof *p->free);
  for (uint32_t v = 0; v < n; v++) p->free[v / 64] |= 1ull << v % 64;
  append_vertex(p, prefer ? p->preferred[0] : (uint32_t)by_rng_below(&p->rng, n));
  for (uint32_t idle = 0; idle < max && p->work < WORK; idle++) {
    uint32_t before = p->n;
    extend_path(p, prefer);
    if (p->n > before) idle = 0;
    if (p->n == n && by_adjacent(p->graph, p->vertex[n - 1], p->vertex[0])) return true;
    if (by_rng_below(&p->rng, 64) == 0) reverse_path(p, 0);
    if (!rotate_path(p)) reverse_path(p, 0);
  }
  return false;
}

enum banyan_status by_hamilton_rotate(const struct by_adjacency *graph, uint64_t seed, uint32_t *order, bool *found) {
  struct by_arena arena = {0};
  struct path p = {.graph = graph,
                   .preferred = order,
                   .vertex = BY_ARENA_ARRAY(&arena, uint32_t, graph->n),
                   .index = BY_ARENA_ARRAY(&arena, uint32_t, graph->n),
                   .free = BY_ARENA_ARRAY(&arena, uint64_t, graph->words),
                   .preferred_index = BY_ARENA_ARRAY(&arena, uint32_t, graph->n)};
  bool ready = !arena.failed;
  *found = false;
  by_rng_init(&p.rng, seed);
  for (uint32_t i = 0; ready && i < graph->n; i++) p.preferred_index[order[i]] = i;
  for (uint32_t tries = 0; ready && p.work < WORK && !*found; tries++) *found = try_once(&p, !tries);
  if (*found) memcpy(order, p.vertex, graph->n * sizeof *order);
  by_arena_fini(&arena);
  return ready ? BANYAN_OK : by_plan_no_memory();
}

/* --- Simple reasons why a graph has no ring. --- */

struct search {
  struct by_adjacency graph; /* A copy, from which edges are removed. */
  uint32_t *seen;            /* The time when each vertex was first seen; NONE: not yet. */
  uint32_t *low;             /* The earliest time that the subtree of each vertex reaches. */
  uint32_t *from;            /* The parent of each vertex in the search. */
  uint32_t *at;              /* The next neighbour of each vertex to examine. */
  uint32_t *degree;
  /* For each end of a path of forced edges its other end; for other vertices the vertex itself. */
  uint32_t *end;
  uint32_t (*need)[2]; /* The forced neighbours of each vertex; NONE: fewer. */
  uint32_t *queue;     /* The vertices with only two usable neighbours. */
  uint32_t n_queue;
};

static void set_reason(struct by_hamilton *out, enum by_hamilton_reason reason, uint32_t where) {
  *out = (struct by_hamilton){.answer = BY_HAMILTON_NO, .reason = reason, .where = where};
}

/* --- A vertex whose removal separates the others (Tarjan 1972), and bipartite graphs. --- */

/* Continues the search at v. Returns a new vertex, or the parent of v. */
static uint32_t continue_search(struct search *s, uint32_t v, uint32_t *time) {
  for (uint32_t w; (w = find_neighbour(&s->graph, v, s->at[v])) != NONE;) {
    s->at[v] = w + 1;
    if (s->seen[w] == NONE) {
      s->from[w] = v;
      s->seen[w] = s->low[w] = (*time)++;
      return w;
    }
    if (s->seen[w] < s->low[v]) s->low[v] = s->seen[w];
  }
  uint32_t parent = s->from[v];
  if (parent != NONE && s->low[v] < s->low[parent]) s->low[parent] = s->low[v];
  return parent;
}

static void find_cut(struct search *s, struct by_hamilton *out) {
  uint32_t time = 1, below_root = 0;
  for (uint32_t v = 0; v < s->graph.n; v++) s->seen[v] = s->from[v] = NONE;
  memset(s->at, 0, s->graph.n * sizeof *s->at);
  s->seen[0] = s->low[0] = 0;
  for (uint32_t v = 0; v != NONE;) v = continue_search(s, v, &time);
  for (uint32_t v = 1; v < s->graph.n; v++) {
    uint32_t parent = s->from[v];
    if (parent == NONE) {
      set_reason(out, BY_HAMILTON_CUT, v); /* The graph is not connected. */
      return;
    }
    if (parent ? s->low[v] >= s->seen[parent] : ++below_root == 2) {
      set_reason(out, BY_HAMILTON_CUT, parent);
      return;
    }
  }
}

/* Checks for a bipartite graph with unequal sides. It uses the search of find_cut, along which sides alternate. */
static void find_sides(struct search *s, struct by_hamilton *out) {
  uint32_t *side = s->low, *by_time = s->at, n = s->graph.n, ones = 0;
  for (uint32_t v = 0; v < n; v++) by_time[s->seen[v]] = v;
  for (uint32_t at = 0; at < n; at++) side[by_time[at]] = at ? !side[s->from[by_time[at]]] : 0;
  for (uint32_t v = 0; v < n; v++) {
    ones += side[v];
    for (uint32_t w = find_neighbour(&s->graph, v, v); w != NONE; w = find_neighbour(&s->graph, v, w + 1))
      if (side[v] == side[w]) return;
  }
  if (2 * ones != n) set_reason(out, BY_HAMILTON_SIDES, 0);
}

/* --- Edges that every ring needs. --- */

/* Removes an edge that no ring uses. */
static void remove_edge(struct search *s, uint32_t v, uint32_t w) {
  s->graph.bits[(size_t)v * s->graph.words + w / 64] &= ~(1ull << w % 64);
  s->graph.bits[(size_t)w * s->graph.words + v / 64] &= ~(1ull << v % 64);
  if (--s->degree[v] == 2) s->queue[s->n_queue++] = v;
  if (--s->degree[w] == 2) s->queue[s->n_queue++] = w;
}

/* Removes the other edges of a vertex that has two forced edges. */
static void remove_other_edges(struct search *s, uint32_t v) {
  if (s->need[v][1] == NONE) return;
  for (uint32_t w = find_neighbour(&s->graph, v, 0); w != NONE; w = find_neighbour(&s->graph, v, w + 1))
    if (w != s->need[v][0] && w != s->need[v][1]) remove_edge(s, v, w);
}

/* Forces an edge. Returns false if that would close a ring of only some vertices. *length is the number of forced
 * edges. */
static bool force_edge(struct search *s, uint32_t v, uint32_t w, uint32_t *length) {
  if (s->need[v][0] == w || s->need[v][1] == w) return true;
  if (s->need[v][1] != NONE || s->need[w][1] != NONE) return false;
  s->need[v][s->need[v][0] != NONE] = w;
  s->need[w][s->need[w][0] != NONE] = v;
  ++*length;
  uint32_t a = s->end[v], b = s->end[w];
  if (a == w) return *length == s->graph.n;
  s->end[a] = b;
  s->end[b] = a;
  remove_other_edges(s, v);
  remove_other_edges(s, w);
  if (*length + 1 < s->graph.n && s->need[a][0] != b && s->need[a][1] != b && by_adjacent(&s->graph, a, b))
    remove_edge(s, a, b);
  return true;
}

static void find_forced(struct search *s, struct by_hamilton *out) {
  uint32_t length = 0;
  while (s->n_queue) {
    uint32_t v = s->queue[--s->n_queue];
    uint32_t one = find_neighbour(&s->graph, v, 0), two = one == NONE ? NONE : find_neighbour(&s->graph, v, one + 1);
    if (two == NONE || !force_edge(s, v, one, &length) || !force_edge(s, v, two, &length)) {
      set_reason(out, BY_HAMILTON_FORCED, v);
      return;
    }
  }
}

/* --- All reasons. --- */

static void find_degrees(struct search *s, struct by_hamilton *out) {
  for (uint32_t v = 0; v < s->graph.n; v++) {
    for (uint32_t i = 0; i < s->graph.words; i++)
      s->degree[v] += (uint32_t)__builtin_popcountll(s->graph.bits[(size_t)v * s->graph.words + i]);
    s->end[v] = v;
    s->need[v][0] = s->need[v][1] = NONE;
    if (s->degree[v] == 2) s->queue[s->n_queue++] = v;
    if (s->degree[v] < 2 && out->answer == BY_HAMILTON_UNKNOWN) set_reason(out, BY_HAMILTON_LONELY, v);
  }
}

enum banyan_status by_hamilton_refute(const struct by_adjacency *graph, struct by_hamilton *out) {
  size_t n = graph->n, bits = n * graph->words;
  struct by_arena arena = {0};
  struct search s = {.graph = *graph,
                     .seen = BY_ARENA_ARRAY(&arena, uint32_t, n),
                     .low = BY_ARENA_ARRAY(&arena, uint32_t, n),
                     .from = BY_ARENA_ARRAY(&arena, uint32_t, n),
                     .at = BY_ARENA_ARRAY(&arena, uint32_t, n),
                     .degree = BY_ARENA_ARRAY(&arena, uint32_t, n),
                     .end = BY_ARENA_ARRAY(&arena, uint32_t, n),
                     .need = by_arena_alloc(&arena, n, sizeof *s.need),
                     /* Each vertex is queued only once, when two neighbours are left. */
                     .queue = BY_ARENA_ARRAY(&arena, uint32_t, n)};
  s.graph.bits = BY_ARENA_ARRAY(&arena, uint64_t, bits);
  *out = (struct by_hamilton){.answer = BY_HAMILTON_UNKNOWN, .reason = BY_HAMILTON_GAVE_UP};
  bool ready = !arena.failed;
  if (ready) {
    memcpy(s.graph.bits, graph->bits, bits * sizeof *graph->bits);
    find_degrees(&s, out);
    if (out->answer == BY_HAMILTON_UNKNOWN) find_cut(&s, out);
    if (out->answer == BY_HAMILTON_UNKNOWN) find_sides(&s, out);
    if (out->answer == BY_HAMILTON_UNKNOWN) find_forced(&s, out);
  }
  by_arena_fini(&arena);
  return ready ? BANYAN_OK : by_plan_no_memory();
}
