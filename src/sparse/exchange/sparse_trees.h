/* A plan's class as trees over ranks: which rank is above which, and how much goes by each. An exchange becomes stars,
 * one around each of its ranks. Trees that follow from one template are not written out: memory is linear in the ranks
 * of each group. Immutable once made. */
#ifndef BY_SPARSE_EXCHANGE_SPARSE_TREES_H
#define BY_SPARSE_EXCHANGE_SPARSE_TREES_H

#include "plan.h"

struct by_sparse_tree {
  uint32_t group, turn; /* the turn-th tree of this group of the class */
  uint32_t root;        /* a rank */
  double share;
};

/* What follows from a group's template. */
struct by_sparse_group {
  const struct by_group *group;
  uint32_t n_trees, height; /* height: twigs included */
  bool direct;              /* every rank sends to the root itself */
  uint32_t *place;          /* rank -> position; UINT32_MAX: it is a twig */
  uint32_t *above_twig;     /* rank -> the parent of a twig; not of a group without twigs */
  uint32_t *starts, *below; /* children of position u of the template: below[starts[u]] .. below[starts[u + 1] - 1] */
  uint32_t *twig_starts, *twigs; /* the same of rank r's twigs; NULL: there are none */
};

/* Bytes that a rank sends, of the bytes that all ranks have and of those that it has itself. */
struct by_sparse_load {
  double all, own;
};

struct by_sparse_trees {
  uint32_t n, n_ranks, n_groups;
  struct by_sparse_group *groups;
  struct by_sparse_tree *trees; /* ascending by root */
  double *upto;                 /* shares of the trees up to and with this one, the last is 1 */
  uint32_t height;
  struct by_sparse_load *gather;       /* of each rank in an AllGather over this class */
  double reduce;                       /* bytes that the busiest rank sends in an AllReduce, for each of its buffer */
  uint32_t gather_steps, reduce_steps; /* messages that stand one behind the other */
  uint32_t gather_messages;            /* that a rank sends */
  double rate;                         /* bytes/s of an AllReduce's buffer that the plan promises; 0: it does not */
  uint32_t version;
  uint64_t up_to; /* of the class */
  struct by_plan *plan;
  struct by_arena arena;
};

/* Of a plan among ranks alone, of which it keeps a copy. The caller owns *out. Cost: groups times ranks. */
BANYAN_CHECK enum banyan_status by_sparse_trees_create(const struct by_plan *plan, const struct by_class *class_,
                                                       struct by_sparse_trees **out);
/* NULL is allowed. */
void by_sparse_trees_destroy(struct by_sparse_trees *trees);
/* Whether these are the trees of that class. */
bool by_sparse_trees_are(const struct by_sparse_trees *trees, const struct by_plan *plan,
                         const struct by_class *class_);

/* The rank above `rank` in a tree; the root's is itself. Cost: digits of the group's radix. */
uint32_t by_sparse_tree_up(const struct by_sparse_trees *trees, const struct by_sparse_tree *tree, uint32_t rank);
/* How many ranks are below `rank`, which go into `out` unless it is NULL. Cost: as many. */
uint32_t by_sparse_tree_below(const struct by_sparse_trees *trees, const struct by_sparse_tree *tree, uint32_t rank,
                              uint32_t *out);

#endif
