/* Growing one tree over a graph: Prim's algorithm with prices that may rise while it grows, kept within a height by
 * looking ahead, over the terminals and those of the other vertices that are allowed. Prices that differ by less than a
 * part in 64 may count as equal: buckets are much faster than a heap. A grower is the working memory for one graph; it
 * lives in its own arena; not for several threads. */
#ifndef BY_PLANNER_PACK_GROW_H
#define BY_PLANNER_PACK_GROW_H

#include <stdbool.h>
#include <string.h>

#include "graph.h"
#include "heap.h"
#include "rng.h"

/* A queue of items by keys, least first to within a part in 64: items are numbers below a limit, each in the queue at
 * most once, and keys are doubles >= 0. Keys that share their leading bits share a bucket, first in first out; three
 * levels of bits find the first bucket that is not empty. Adding and taking cost a few steps whatever is in it. Borrows
 * the arena's memory.
 *
 *   top    1 word:      which words of mid are not 0
 *   mid    32 words:    which words of low are not 0
 *   low    2048 words:  which buckets are not empty
 */
/* Buckets go by exponent and so many bits of the mantissa. */
enum { BY_BUCKET_DETAIL = 6, BY_BUCKETS = 2048 << BY_BUCKET_DETAIL };

struct by_bucket {
  uint32_t first, last; /* items, if the bucket's bit is set */
};

struct by_buckets {
  struct by_bucket *buckets;
  uint64_t top, *mid, *low;
  uint32_t *next; /* of each item */
  double *key;    /* of each item, as it was put in last */
};

/* For items 0 .. n_items - 1; empty. False: no memory. */
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
  return (uint32_t)(bits >> (52 - BY_BUCKET_DETAIL)) % BY_BUCKETS; /* also of -0 and NaN there is one */
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

/* Takes an item out; there must be one. */
static inline uint32_t by_buckets_take(struct by_buckets *queue) {
  uint32_t high = (uint32_t)__builtin_ctzll(queue->top), word = high * 64 + (uint32_t)__builtin_ctzll(queue->mid[high]);
  struct by_bucket *bucket = &queue->buckets[word * 64 + (uint32_t)__builtin_ctzll(queue->low[word])];
  uint32_t item = bucket->first;
  if (item != bucket->last) {
    bucket->first = queue->next[item];
    return item;
  }
  queue->low[word] &= queue->low[word] - 1; /* its lowest bit */
  if (!queue->low[word]) queue->mid[high] &= queue->mid[high] - 1;
  if (!queue->mid[high]) queue->top &= queue->top - 1;
  return item;
}

/* Takes all out. Cost: the buckets that are not empty. */
static inline void by_buckets_clear(struct by_buckets *queue) {
  for (; queue->top; queue->top &= queue->top - 1) {
    uint32_t high = (uint32_t)__builtin_ctzll(queue->top);
    for (; queue->mid[high]; queue->mid[high] &= queue->mid[high] - 1)
      queue->low[high * 64 + (uint32_t)__builtin_ctzll(queue->mid[high])] = 0;
  }
}

/* --- growing --- */

/* What an edge costs now, >= 0; less is better; INFINITY: it may not be used. It may only rise when edges are taken. */
struct by_price {
  double (*of)(void *context, uint32_t edge);
  void (*take)(void *context, uint32_t edge); /* the edge is in the tree from now on; NULL: changes nothing */
  void *context;
};

struct by_grower {
  const struct by_graph *graph;
  bool hops;            /* heights count edges; else they are seconds */
  const double *length; /* of each edge, what heights are made of */
  bool *allowed;        /* vertices; true for terminals; set it for the others */
  /* The tree that was grown last. */
  uint32_t n_edges;
  uint32_t *edges; /* ascending */
  double cost;     /* what its edges cost when they were taken */
  /* Working memory. */
  bool *in;
  uint32_t *via, *order, *degree;
  double *depth, *latest, *below;
  uint64_t *chosen;             /* of each edge one bit, 0 between calls */
  struct by_buckets offers;     /* edges that lead out of the tree */
  struct by_heap heap;          /* ways to vertices by their edges, for searches by delay */
  uint32_t *around_at, *around; /* the edges at each vertex of one tree */
  struct by_arena arena;
};

/* `hops`: heights count edges; else they are seconds of delay. The graph must outlive the grower. */
BANYAN_CHECK enum banyan_status by_grower_init(struct by_grower *grower, const struct by_graph *graph, bool hops);
void by_grower_fini(struct by_grower *grower);
/* Grows a tree in which no vertex is further than `most_height` from `root`, an allowed vertex; false: there is none,
 * since a terminal is too far away over edges that may be used, or cannot be reached. Without a height and with prices
 * that stay, it is a cheapest tree, to within a part in 64, over the allowed vertices less its useless leaves. Cost:
 * edges, and as much again for those whose price rises before they are taken; by delay, edges * log(edges). */
bool by_grow(struct by_grower *grower, const struct by_price *price, uint32_t root, double most_height);

/* How far the furthest terminal is from `root` over allowed vertices; INFINITY: cannot be reached. Cost: as above. */
double by_grower_reach(struct by_grower *grower, uint32_t root);
/* The vertex of the tree from which the furthest one is nearest, and how far that is. Cost: vertices + edges. */
void by_tree_centre(struct by_grower *grower, const uint32_t *edges, uint32_t n_edges, uint32_t *root, double *height);
/* Hangs a tree up at its centre: lists its vertices, the root first and each behind its parent, and the positions of
 * their parents. Cost: vertices. */
void by_tree_hang(struct by_grower *grower, const uint32_t *edges, uint32_t n_edges, uint32_t *order, uint32_t *up);
/* Walks a tree breadth first from a vertex: leaves its vertices in `order`, each behind its parent, the edge towards
 * the parent in `via`, UINT32_MAX for the root, and how far they are from the root in `depth`. Cost: vertices. */
void by_tree_walk(struct by_grower *grower, const uint32_t *edges, uint32_t n_edges, uint32_t root);

/* Lists the edges whose bits are set, ascending, and clears these bits. Returns how many there are. */
uint32_t by_take_chosen(const struct by_graph *graph, uint64_t *chosen, uint32_t *edges);

/* --- several trees --- */

/* K trees with shares, improved one after the other: each in turn is taken out and grown anew where the others leave
 * room. Room is priced: a resource costs more, exponentially, the fuller the others make it, so that a cheapest tree
 * lowers the sum of all prices, and each step brings the fullest resource down. It is a local search, the potential
 * game of Rosenthal (1973) with the prices of Plotkin, Shmoys and Tardos (1991); it promises nothing. The caller owns
 * it and fills the shares. */
struct by_slot {
  uint32_t n, *edges; /* ascending; n = 0: no tree yet */
  double share;       /* of the throughput */
  uint32_t number;    /* of its tree in a linear program; set and read by what solves that */
  bool *allowed;      /* optional vertex i, number n_terminals + i: the tree may use it */
};

struct by_slots {
  struct by_grower *grower;
  uint32_t n;
  struct by_slot *slots;
  double most_height;
  const uint32_t *roots; /* vertices from which that height can be kept */
  uint32_t n_roots;
  double target; /* throughput, bit/s, at which resources are called full */
  double steep;  /* price of a resource: exp(steep * (load - 1)) */
  double *load;  /* of each resource in parts of its capacity, at `target` */
  /* Working memory: loads of the other trees, what the growing tree adds, prices, inverse capacities, and noise. */
  double *others, *step, *price, *inverse, *noise;
  uint32_t luck; /* where the noise of edge 0 is */
  bool shared;   /* an edge that is taken makes others dearer */
  struct by_slot spare;
  struct by_rng rng;
  struct by_arena arena;
};

/* n slots without trees, of equal shares. The grower must outlive them, and is used for growing. */
BANYAN_CHECK enum banyan_status by_slots_init(struct by_slots *slots, struct by_grower *grower, uint32_t n,
                                              uint64_t seed);
void by_slots_fini(struct by_slots *slots);
/* Grows each tree anew, once, and keeps what is no worse. False: a slot is empty still, since no tree can be grown.
 * Cost: n times a growth. */
bool by_slots_sweep(struct by_slots *slots);
/* Makes loads fit the trees, shares and target, which somebody changed. */
void by_slots_recount(struct by_slots *slots);
/* The throughput that the trees reach with just these shares. */
double by_slots_throughput(const struct by_slots *slots);

/* Trees changed by one edge at a time: an edge comes in, another one of the circle that it closes goes out, and what
 * makes links fuller than full is taken less and less often (annealing: Kirkpatrick, Gelatt and Vecchi 1983). Finds
 * what growing whole trees anew does not, where few trees must fill unequal links; heights are not looked at. Works on
 * slots that all have a tree, over terminals alone. */
struct by_swaps {
  struct by_slots *slots;
  uint32_t *up;      /* of vertex v in tree t, up[t * n_vertices + v]: the edge towards the root */
  uint32_t *visited; /* of each vertex: when it was passed last */
  uint32_t now;
  uint64_t work; /* edges that were looked at */
  struct by_arena arena;
};

/* Reads the slots' trees. The slots must outlive it. */
BANYAN_CHECK enum banyan_status by_swaps_init(struct by_swaps *swaps, struct by_slots *slots);
void by_swaps_fini(struct by_swaps *swaps);
/* Tries swaps until `work` edges have been looked at, and writes the trees back. A swap that raises the sum of the
 * squares of what resources carry beyond their capacity, in parts of it, by d is made with probability exp(-d / heat).
 */
void by_swaps_try(struct by_swaps *swaps, uint64_t work, double heat);

#endif
