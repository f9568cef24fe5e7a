#include "sparse_trees.h"

#include <stdlib.h>

static uint32_t trees_of(const struct by_group *group) {
  return group->kind == BY_GROUP_TREE ? 1 : group->n;
}

/* The position above `position` in tree t of a group. */
static uint32_t above(const struct by_group *group, uint32_t t, uint32_t position) {
  switch (group->kind) {
  case BY_GROUP_TREE: return group->up[position];
  case BY_GROUP_ROTATED: return by_group_translate(group, group->up[by_group_untranslate(group, position, t)], t);
  default: return t;
  }
}

static enum banyan_status add_tree(struct by_sparse_trees *trees, const struct by_group *group, uint32_t t) {
  struct by_sparse_tree *tree = &trees->trees[trees->n];
  tree->number = trees->n++;
  tree->up = BY_ARENA_ARRAY(&trees->arena, uint32_t, trees->n_ranks);
  if (!tree->up) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a tree over %u ranks", trees->n_ranks);
  tree->share = group->share / trees_of(group);
  for (uint32_t p = 0; p < group->n; p++) {
    uint32_t up = above(group, t, p);
    tree->up[group->order[p]] = group->order[up];
    if (up == p) tree->root = group->order[p];
  }
  for (uint32_t i = 0; i < group->n_twigs; i++) tree->up[group->twigs[i].child] = group->twigs[i].parent;
  return BANYAN_OK;
}

static int by_root(const void *a, const void *b) {
  const struct by_sparse_tree *x = a, *y = b;
  if (x->root != y->root) return x->root < y->root ? -1 : 1;
  return x->number < y->number ? -1 : x->number > y->number;
}

static enum banyan_status fill(struct by_sparse_trees *trees, const struct by_class *class_, uint64_t n) {
  trees->trees = BY_ARENA_ARRAY(&trees->arena, struct by_sparse_tree, n);
  trees->upto = BY_ARENA_ARRAY(&trees->arena, double, n);
  if (!trees->trees || !trees->upto) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u trees", (unsigned)n);
  for (uint32_t g = 0; g < class_->n_groups; g++)
    for (uint32_t t = 0; t < trees_of(&class_->groups[g]); t++) BY_TRY(add_tree(trees, &class_->groups[g], t));
  qsort(trees->trees, trees->n, sizeof *trees->trees, by_root);
  double sum = 0;
  for (uint32_t t = 0; t < trees->n; t++) trees->upto[t] = sum += trees->trees[t].share;
  trees->upto[trees->n - 1] = 1;
  return BANYAN_OK;
}

enum banyan_status by_sparse_trees_create(const struct by_plan *plan, const struct by_class *class_,
                                          struct by_sparse_trees **out) {
  uint64_t n = 0;
  for (uint32_t g = 0; g < class_->n_groups; g++) n += trees_of(&class_->groups[g]);
  if (n * plan->n_ranks > BY_SPARSE_MOST_PLACES)
    return by_fail(BANYAN_ERR_UNSUPPORTED,
                   "%u trees over %u ranks are too many to merge rows on the way up: use another way", (unsigned)n,
                   plan->n_ranks);
  struct by_sparse_trees *trees = calloc(1, sizeof *trees);
  if (!trees) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u trees", (unsigned)n);
  by_arena_init(&trees->arena);
  trees->n_ranks = plan->n_ranks;
  enum banyan_status status = fill(trees, class_, n);
  if (status == BANYAN_OK)
    *out = trees;
  else
    by_sparse_trees_destroy(trees);
  return status;
}

void by_sparse_trees_destroy(struct by_sparse_trees *trees) {
  if (!trees) return;
  by_arena_fini(&trees->arena);
  free(trees);
}
