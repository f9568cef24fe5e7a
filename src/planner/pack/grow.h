/* Grows one tree over a graph by Prim's algorithm, with prices that may rise while it grows, and with a height limit.
 * The tree spans the terminals and may contain allowed optional vertices. Prices that differ by less than 1/64 may
 * count as equal: buckets are much faster than a heap. A grower is the working memory for one graph, in its own arena;
 * not thread-safe. */
#ifndef BY_PLANNER_PACK_GROW_H
#define BY_PLANNER_PACK_GROW_H

#include <stdbool.h>
#include <string.h>

#include "graph.h"
#include "order.h"
#include "rng.h"

/* A priority queue of items, smallest keys first to within 1/64. Items are numbers below a limit, each at most once in
 * the queue; keys are doubles >= 0. Keys with equal leading bits share a bucket, which is first in, first out. Three
 * levels of bits find the first bucket that is not empty. Adding and taking need constant time. Memory is the arena's.
 *
 *   top    1 word:      which words of mid are not 0
 *   mid    32 words:    which words of low are not 0
 *   low    2048 words:  which buckets are not empty */
/* The number of bits of the mantissa that choose a bucket, together with the exponent; the number of buckets. */
enum { BY_BUCKET_DETAIL = 6, BY_BUCKETS = 2048 << BY_BUCKET_DETAIL };

struct by_bucket {
  uint32_t first, last; /* The first and last item, valid if the bucket's bit is set. */
};

struct by_buckets {
  struct by_bucket *buckets;
  uint64_t top, *mid, *low;
  uint32_t *next; /* The item that follows each item in its bucket. */
  double *key;    /* The key with which each item was put in last. */
};

/* Makes an empty queue for items 0 .. n_items - 1. Returns false if memory is out. */
static inline bool by_buckets_init(struct by_buckets *queue, uint32_t n_items, struct by_arena *arena) {
  queue->buckets = BY_ARENA_ARRAY(arena, struct by_bucket, BY_BUCKETS);
  queue->low = BY_ARENA_ARRAY(arena, uint64_t, BY_BUCKETS / 64);
  queue->mid = BY_ARENA_ARRAY(arena, uint64_t, BY_BUCKETS / 64 / 64);
  queue->next = BY_ARENA_ARRAY(arena, uint32_t, n_items);
  queue->key = BY_ARENA_ARRAY(arena, double, n_items);
  queue->top = 0;
  return queue->buckets && queue->low && queue->mid && queue->next && queue->key;
}

static inline uint32_t by_bucket_of(double key) {
  uint64_t bits;
  memcpy(&bits, &key, sizeof bits);
  return (uint32_t)(bits >> (52 - BY_BUCKET_DETAIL)) % BY_BUCKETS; /* -0 and NaN have a bucket, too. */
}

static inline bool by_buckets_any(const struct by_buckets *queue) {
  return queue->top != 0;
}

static inline void by_buckets_put(struct by_buckets *queue, uint32_t item, double key) {
  uint32_t b = by_bucket_of(key), word = b / 64;
  struct by_bucket *bucket = &queue->buckets[b];
  queue->key[item] = key;
  if (queue->low[word] >> b % 64 & 1) {
    queue->next[bucket->last] = item;
  } else {
    queue->low[word] |= 1ull << b % 64;
    queue->mid[word / 64] |= 1ull << word % 64;
    queue->top |= 1ull << word / 64;
    bucket->first = item;
  }
  bucket->last = item;
}

/* Takes out the first item. The queue must not be empty. */
static inline uint32_t by_buckets_take(struct by_buckets *queue) {
  uint32_t high = (uint32_t)__builtin_ctzll(queue->top), word = high * 64 + (uint32_t)__builtin_ctzll(queue->mid[high]);
  struct by_bucket *bucket = &queue->buckets[word * 64 + (uint32_t)__builtin_ctzll(queue->low[word])];
  uint32_t item = bucket->first;
  if (item != bucket->last) {
    bucket->first = queue->next[item];
    return item;
  }
  queue->low[word] &= queue->low[word] - 1; /* This clears its lowest bit. */
  if (!queue->low[word]) queue->mid[high] &= queue->mid[high] - 1;
  if (!queue->mid[high]) queue->top &= queue->top - 1;
  return item;
}

/* Empties the queue. Cost: the buckets that are not empty. */
static inline void by_buckets_clear(struct by_buckets *queue) {
  for (; queue->top; queue->top &= queue->top - 1) {
    uint32_t high = (uint32_t)__builtin_ctzll(queue->top);
    for (; queue->mid[high]; queue->mid[high] &= queue->mid[high] - 1)
      queue->low[high * 64 + (uint32_t)__builtin_ctzll(queue->mid[high])] = 0;
  }
}

/* --- Growing a tree. --- */

/* The cost of adding an edge to the tree, >= 0; INFINITY: the edge may not be used. Costs may only rise when edges are
 * taken. */
struct by_price {
  double (*of)(void *context, uint32_t edge);
  /* Called when the edge is added to the tree; NULL: prices do not change. */
  void (*take)(void *context, uint32_t edge);
  void *context;
};

struct by_grower {
  const struct by_graph *graph;
  bool hops;            /* Heights count edges; if false, they are in seconds. */
  const double *length; /* The contribution of each edge to heights. */
  bool *allowed;        /* Whether each vertex may be used. True for terminals; the caller sets it for the others. */
  /* The tree that was grown last. */
  uint32_t n_edges;
  uint32_t *edges; /* The tree's edges, ascending. */
  double cost;     /* The sum of the costs of its edges when they were taken. */
  /* Working memory. */
  bool *in;
  uint32_t *via, *order, *degree;
  double *depth, *latest, *below;
  uint64_t *chosen;             /* One bit for each edge, 0 between calls. */
  struct by_buckets queue;      /* Edges that lead out of the tree. */
  struct by_heap heap;          /* Paths to vertices by their last edges, for searches by delay. */
  uint32_t *around_at, *around; /* The edges at each vertex of a tree. */
  struct by_arena arena;
};

/* Initialises a grower. If `hops`, heights count edges, otherwise they are seconds of delay. The graph must outlive
 * it. */
BANYAN_CHECK enum banyan_status by_grower_init(struct by_grower *grower, const struct by_graph *graph, bool hops);
static inline void by_grower_fini(struct by_grower *g) {
  by_arena_fini(&g->arena);
}
/* Grows a tree in which no vertex is farther than `max_height` from `root`, an allowed vertex. Returns false if there
 * is none, since a terminal is too far away over usable edges or cannot be reached. Without a height limit and with
 * constant prices it is a cheapest tree, to within 1/64, over the allowed vertices, without optional vertices as
 * leaves. Cost: edges, plus those whose price rises before they are taken; with delays, edges * log(edges). */
bool by_grow(struct by_grower *grower, const struct by_price *price, uint32_t root, double max_height);

/* Returns the distance of the farthest terminal from `root` over allowed vertices. INFINITY: one cannot be reached.
 * Cost: that of by_grow. */
double by_grower_reach(struct by_grower *grower, uint32_t root);
/* Finds the vertex of a tree whose farthest vertex is nearest, and that distance. Cost: vertices + edges. */
void by_tree_centre(struct by_grower *grower, const uint32_t *edges, uint32_t n_edges, uint32_t *root, double *height);
/* Roots a tree at its centre: lists its vertices, the root first and each behind its parent, and the positions of their
 * parents. Cost: vertices. */
void by_tree_root_at_centre(struct by_grower *grower, const uint32_t *edges, uint32_t n_edges, uint32_t *order,
                            uint32_t *up);
/* Traverses a tree breadth first: stores its vertices in `order`, each behind its parent, the edge to the parent in
 * `via` (UINT32_MAX for the root), and the distance to the root in `depth`. Cost: vertices. */
void by_tree_traverse(struct by_grower *grower, const uint32_t *edges, uint32_t n_edges, uint32_t root);

/* Lists the edges whose bits are set, ascending, and clears the bits. Returns their number. */
uint32_t by_list_chosen_edges(const struct by_graph *graph, uint64_t *chosen, uint32_t *edges);

/* --- Several trees. --- */

/* K trees with shares, improved one after the other: each in turn is removed and grown again where the others leave
 * capacity. A resource's price grows exponentially with the load of the others, so that a cheapest tree lowers the sum
 * of all prices, and each step relieves the fullest resource. This is a local search without guarantees: the potential
 * game of Rosenthal (1973) with the prices of Plotkin, Shmoys and Tardos (1991). The caller owns it and sets the
 * shares. */
struct by_slot {
  uint32_t n, *edges; /* The tree's edges, ascending. Their number is 0 if there is no tree yet. */
  double share;       /* The tree's part of the throughput, 0 to 1. */
  uint32_t number;    /* The number of the tree in a linear program, for the caller. */
  /* Whether the tree may use each optional vertex. Element i is for vertex n_terminals + i. */
  bool *allowed;
};

struct by_slots {
  struct by_grower *grower;
  uint32_t n;
  struct by_slot *slots;
  double max_height;
  const uint32_t *roots; /* The vertices from which the height limit can be met. */
  uint32_t n_roots;
  double target; /* The throughput in bit/s at which resources count as full. */
  double steep;  /* A resource's price is exp(steep * (load - 1)). */
  double *load;  /* The load of each resource at `target`, as a part of its capacity. */
  /* Working memory: loads by the other trees, additional load by one edge, prices, inverse capacities, and noise. */
  double *others, *step, *price, *inverse, *noise;
  uint32_t noise_offset; /* The offset of edge 0's noise. */
  bool shared;           /* Taking an edge makes other edges more expensive. */
  struct by_slot spare;
  struct by_rng rng;
  struct by_arena arena;
};

/* Makes n slots without trees, with equal shares. The grower must outlive them, and is used for growing. */
BANYAN_CHECK enum banyan_status by_slots_init(struct by_slots *slots, struct by_grower *grower, uint32_t n,
                                              uint64_t seed);
static inline void by_slots_fini(struct by_slots *s) {
  by_arena_fini(&s->arena);
}
/* Grows each tree again once, and keeps results that are no worse. Returns false if a slot is still empty, since no
 * tree can be grown. Cost: n growths. */
bool by_slots_sweep(struct by_slots *slots);
/* Computes the loads again, after the caller has changed trees, shares or target. */
void by_slots_recount(struct by_slots *slots);
/* Returns the throughput of the trees in bit/s with exactly these shares. */
double by_slots_throughput(const struct by_slots *slots);

/* Changes trees by one edge at a time: an edge is added, and another one of the resulting cycle is removed. Changes
 * that overload resources are accepted less and less often (annealing: Kirkpatrick, Gelatt and Vecchi 1983). This finds
 * what growing whole trees does not find where few trees must fill unequal links; heights are ignored. All slots must
 * have a tree, over terminals only. */
struct by_swaps {
  struct by_slots *slots;
  uint32_t *up;      /* Element t * n_vertices + v is the edge from vertex v towards the root of tree t. */
  uint32_t *visited; /* The value of `now` when each vertex was visited last. */
  uint32_t now;
  uint64_t work; /* The number of examined edges. */
  struct by_arena arena;
};

/* Reads the slots' trees. The slots must outlive the swaps. */
BANYAN_CHECK enum banyan_status by_swaps_init(struct by_swaps *swaps, struct by_slots *slots);
static inline void by_swaps_fini(struct by_swaps *s) {
  by_arena_fini(&s->arena);
}
/* Tries swaps until `work` edges have been examined, and writes the trees back. A swap that raises the sum of the
 * squares of the overloads, as parts of capacities, by d is made with probability exp(-d / heat). */
void by_swaps_try(struct by_swaps *swaps, uint64_t work, double heat);

#endif
