/* A plan's class as trees over ranks: which rank is above which, and how much goes by each. An exchange becomes stars,
 * one around each of its ranks. Trees that follow from one template are not written out: memory is linear in the ranks
 * of each group. Immutable once made. */
#ifndef BY_SPARSE_SPARSE_TREES_H
#define BY_SPARSE_SPARSE_TREES_H

#include "plan.h"

struct by_sparse_tree {
  uint32_t group, turn; /* The tree is number `turn` of this group of the class. */
  uint32_t root;        /* The root's rank. */
  double share;
};

/* A group's template in the form that exchanges use. */
struct by_sparse_group {
  const struct by_group *group;
  uint32_t n_trees, height; /* height: counts twigs. */
  bool direct;              /* Each rank sends to the root itself. */
  uint32_t *place;          /* Position of each rank; UINT32_MAX: the rank is a twig. */
  uint32_t *above_twig;     /* Parent of each rank that is a twig; unused without twigs. */
  uint32_t *starts, *below; /* Children of position u of the template: below[starts[u]] .. below[starts[u + 1] - 1]. */
  uint32_t *twig_starts, *twigs; /* Twigs of rank r, in the same form; NULL: no twigs. */
};

/* Bytes that a rank sends, as multiples of the bytes of all ranks and of its own bytes. */
struct by_sparse_load {
  double all, own;
};

struct by_sparse_trees {
  uint32_t n, n_ranks, n_groups;
  struct by_sparse_group *groups;
  struct by_sparse_tree *trees; /* Trees in ascending order of their roots. */
  double *upto;                 /* Cumulative shares of the trees; the last is 1. */
  uint32_t height;
  struct by_sparse_load *gather; /* Load of each rank in an AllGather over this class. */
  double reduce;                 /* Bytes that the busiest rank sends in an AllReduce, for each byte of its buffer. */
  uint32_t gather_steps, reduce_steps; /* Consecutive messages of an AllGather and of an AllReduce. */
  uint32_t gather_messages;            /* Messages that a rank sends in an AllGather. */
  double rate;                         /* Bytes/s of an AllReduce's buffer that the plan promises; 0: no promise. */
  uint32_t version;
  uint64_t up_to; /* The largest buffer of the class, in bytes. */
  struct by_plan *plan;
  struct by_arena arena;
};

/* Makes the trees of a plan without helpers and switches, of which it keeps a copy. The caller owns *out. Cost: groups
 * times ranks. */
BANYAN_CHECK enum banyan_status by_sparse_trees_create(const struct by_plan *plan, const struct by_class *class_,
                                                       struct by_sparse_trees **out);
/* NULL is allowed. */
void by_sparse_trees_destroy(struct by_sparse_trees *trees);
/* Returns whether these are the trees of that class of the plan. */
bool by_sparse_trees_are(const struct by_sparse_trees *trees, const struct by_plan *plan,
                         const struct by_class *class_);

/* Returns the parent of `rank` in a tree; the root's is itself. Cost: digits of the group's radix. */
uint32_t by_sparse_tree_up(const struct by_sparse_trees *trees, const struct by_sparse_tree *tree, uint32_t rank);
/* Returns the number of children of `rank`, and writes them to `out` unless it is NULL. Cost: as many. */
uint32_t by_sparse_tree_below(const struct by_sparse_trees *trees, const struct by_sparse_tree *tree, uint32_t rank,
                              uint32_t *out);

#endif
