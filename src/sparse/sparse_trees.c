/* Trees over ranks that follow from a class of a plan, and the load that calls over them put on each rank. */
#include "sparse_cost.h"

#include <stdlib.h>

/* ---- templates */

/* Lists the children of each of n items. `parent`: of each item; UINT32_MAX or the item itself: no parent. */
static bool list_children(struct by_arena *arena, const uint32_t *parent, uint32_t n, uint32_t **starts,
                          uint32_t **below) {
  *starts = BY_ARENA_ARRAY(arena, uint32_t, (size_t)n + 2);
  *below = BY_ARENA_ARRAY(arena, uint32_t, n);
  if (!*starts || !*below) return false;
  uint32_t *next = *starts + 1; /* Advances to the end of each item's list. */
  for (uint32_t i = 0; i < n; i++)
    if (parent[i] != i && parent[i] != UINT32_MAX) next[parent[i] + 1]++;
  for (uint32_t i = 1; i <= n; i++) next[i] += next[i - 1];
  for (uint32_t i = 0; i < n; i++)
    if (parent[i] != i && parent[i] != UINT32_MAX) (*below)[next[parent[i]]++] = i;
  return true;
}

/* Returns the number of edges from the farthest position to the root. Each path is followed until a position whose
 * depth is known. */
static uint32_t height_of(const uint32_t *up, uint32_t n, uint32_t *depth) {
  uint32_t height = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t steps = 0, at = i;
    for (; up[at] != at && !depth[at]; at = up[at]) steps++;
    uint32_t here = steps + depth[at];
    if (here > height) height = here;
    for (at = i; up[at] != at && !depth[at]; at = up[at]) depth[at] = here--;
  }
  return height;
}

static enum banyan_status fill_template(struct by_sparse_trees *trees, struct by_sparse_group *of) {
  const struct by_group *group = of->group;
  struct by_arena *arena = &trees->arena;
  uint32_t n = trees->n_ranks, *depth = BY_ARENA_ARRAY(arena, uint32_t, group->n);
  of->place = BY_ARENA_ARRAY(arena, uint32_t, n);
  if (group->n_twigs) of->above_twig = BY_ARENA_ARRAY(arena, uint32_t, n);
  if (!depth || !of->place || arena->failed) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for trees");
  for (uint32_t r = 0; r < n; r++) of->place[r] = UINT32_MAX;
  for (uint32_t p = 0; p < group->n; p++) of->place[group->order[p]] = p;
  of->height = 1;
  if (group->kind != BY_GROUP_EXCHANGE) {
    if (!list_children(arena, group->up, group->n, &of->starts, &of->below))
      return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for trees");
    of->height = height_of(group->up, group->n, depth);
  }
  of->direct = of->height <= 1 && !group->n_twigs;
  if (!group->n_twigs) return BANYAN_OK;
  for (uint32_t r = 0; r < n; r++) of->above_twig[r] = UINT32_MAX;
  for (uint32_t i = 0; i < group->n_twigs; i++) of->above_twig[group->twigs[i].child] = group->twigs[i].parent;
  of->height++;
  return list_children(arena, of->above_twig, n, &of->twig_starts, &of->twigs)
             ? BANYAN_OK
             : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for trees");
}

/* ---- trees */

/* Returns the parent of `position` in a group's tree. */
static uint32_t above(const struct by_group *group, uint32_t turn, uint32_t position) {
  switch (group->kind) {
  case BY_GROUP_TREE: return group->up[position];
  case BY_GROUP_ROTATED: return by_group_translate(group, group->up[by_group_untranslate(group, position, turn)], turn);
  default: return turn;
  }
}

uint32_t by_sparse_tree_up(const struct by_sparse_trees *trees, const struct by_sparse_tree *tree, uint32_t rank) {
  const struct by_sparse_group *of = &trees->groups[tree->group];
  uint32_t place = of->place[rank];
  if (place == UINT32_MAX) return of->above_twig[rank];
  return of->group->order[above(of->group, tree->turn, place)];
}

uint32_t by_sparse_tree_below(const struct by_sparse_trees *trees, const struct by_sparse_tree *tree, uint32_t rank,
                              uint32_t *out) {
  const struct by_sparse_group *of = &trees->groups[tree->group];
  const struct by_group *group = of->group;
  uint32_t n = 0, place = of->place[rank], turn = tree->turn;
  if (place != UINT32_MAX && group->kind == BY_GROUP_EXCHANGE) {
    for (uint32_t p = 0; place == turn && p < group->n; p++) {
      if (p == turn) continue;
      if (out) out[n] = group->order[p];
      n++;
    }
  } else if (place != UINT32_MAX) {
    bool turned = group->kind == BY_GROUP_ROTATED;
    uint32_t from = turned ? by_group_untranslate(group, place, turn) : place;
    for (uint32_t i = of->starts[from]; i < of->starts[from + 1]; i++, n++)
      if (out) out[n] = group->order[turned ? by_group_translate(group, of->below[i], turn) : of->below[i]];
  }
  for (uint32_t i = of->twigs ? of->twig_starts[rank] : 0; of->twigs && i < of->twig_starts[rank + 1]; i++, n++)
    if (out) out[n] = of->twigs[i];
  return n;
}

static uint32_t root_of(const struct by_group *group, uint32_t turn) {
  switch (group->kind) {
  case BY_GROUP_TREE: return group->order[group->root];
  case BY_GROUP_ROTATED: return group->order[by_group_translate(group, group->root, turn)];
  default: return group->order[turn];
  }
}

/* Lists the trees by their roots; those of one root in the order of the plan. */
static enum banyan_status list_trees(struct by_sparse_trees *trees) {
  trees->trees = BY_ARENA_ARRAY(&trees->arena, struct by_sparse_tree, trees->n);
  trees->upto = BY_ARENA_ARRAY(&trees->arena, double, trees->n);
  uint32_t *next = BY_ARENA_ARRAY(&trees->arena, uint32_t, (size_t)trees->n_ranks + 1);
  if (!trees->trees || !trees->upto || !next)
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u trees", trees->n);
  for (uint32_t g = 0; g < trees->n_groups; g++)
    for (uint32_t t = 0; t < trees->groups[g].n_trees; t++) next[root_of(trees->groups[g].group, t) + 1]++;
  for (uint32_t r = 1; r <= trees->n_ranks; r++) next[r] += next[r - 1];
  for (uint32_t g = 0; g < trees->n_groups; g++)
    for (uint32_t t = 0; t < trees->groups[g].n_trees; t++) {
      const struct by_group *group = trees->groups[g].group;
      uint32_t root = root_of(group, t);
      trees->trees[next[root]++] = (struct by_sparse_tree){
          .group = g, .turn = t, .root = root, .share = group->share / trees->groups[g].n_trees};
    }
  double sum = 0;
  for (uint32_t t = 0; t < trees->n; t++) trees->upto[t] = sum += trees->trees[t].share;
  trees->upto[trees->n - 1] = 1;
  return BANYAN_OK;
}

/* ---- what calls over this class take */

static uint32_t max(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

/* Adds the load of a tree among neighbours: blocks spread from their owners over all of its edges; sums go up and
 * results come down. */
static void add_tree_load(struct by_sparse_trees *trees, const struct by_sparse_group *of, double *reduce) {
  const struct by_sparse_tree tree = {.group = (uint32_t)(of - trees->groups)};
  double share = of->group->share;
  uint32_t root = root_of(of->group, 0);
  for (uint32_t r = 0; r < trees->n_ranks; r++) {
    double degree = by_sparse_tree_below(trees, &tree, r, NULL) + (r != root);
    trees->gather[r].all += share * (degree > 0 ? degree - 1 : 0);
    trees->gather[r].own += share;
    reduce[r] += share * degree;
  }
  trees->gather_steps = max(trees->gather_steps, of->height <= 1 && trees->n_ranks <= 2 ? 1 : 2 * of->height);
  trees->reduce_steps = max(trees->reduce_steps, 2 * of->height);
  trees->gather_messages = max(trees->gather_messages, trees->gather_steps);
}

/* Adds the load of trees that rotate: over all of them, positions do the same. A twig receives everything from its
 * parent. */
static void add_turned_load(struct by_sparse_trees *trees, const struct by_sparse_group *of, double *reduce) {
  const struct by_group *group = of->group;
  double share = group->share, n = group->n, steps = of->height, each = 2 * (n - 1) / n;
  bool exchange = group->kind == BY_GROUP_EXCHANGE;
  for (uint32_t i = 0; exchange && i < group->n_radix; i++) each = (i ? each : 0) + group->radix[i] - 1;
  if (exchange) steps = group->n_radix + (group->n_twigs > 0);
  bool direct = exchange ? group->n_radix <= 1 : of->height - (group->n_twigs > 0) <= 1;
  for (uint32_t p = 0; p < group->n; p++) {
    uint32_t r = group->order[p];
    double twigs = of->twigs ? of->twig_starts[r + 1] - of->twig_starts[r] : 0;
    trees->gather[r].all += share * (twigs + (direct ? 0 : (n - 1) / n));
    trees->gather[r].own += share * (direct ? n - 1 : 0);
    reduce[r] += share * (each + twigs);
  }
  for (uint32_t i = 0; i < group->n_twigs; i++) {
    trees->gather[group->twigs[i].child].own += share;
    reduce[group->twigs[i].child] += share;
  }
  trees->gather_steps = max(trees->gather_steps, (uint32_t)steps + (group->n_twigs > 0));
  trees->gather_messages = max(trees->gather_messages, direct ? group->n - 1 : trees->gather_steps);
  trees->reduce_steps = max(trees->reduce_steps, exchange ? (uint32_t)steps : 2 * (uint32_t)steps);
}

static enum banyan_status add_loads(struct by_sparse_trees *trees) {
  double *reduce = BY_ARENA_ARRAY(&trees->arena, double, trees->n_ranks), promised = 0;
  trees->gather = BY_ARENA_ARRAY(&trees->arena, struct by_sparse_load, trees->n_ranks);
  if (!reduce || !trees->gather) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for trees");
  for (uint32_t g = 0; g < trees->n_groups; g++) {
    const struct by_sparse_group *of = &trees->groups[g];
    trees->height = max(trees->height, of->height);
    promised += of->group->rate > 0 ? of->group->share : 0;
    trees->rate += of->group->rate / 8;
    if (of->group->kind == BY_GROUP_TREE)
      add_tree_load(trees, of, reduce);
    else
      add_turned_load(trees, of, reduce);
  }
  if (promised < 0.99) trees->rate = 0; /* Some trees have no promised rate. */
  for (uint32_t r = 0; r < trees->n_ranks; r++)
    if (reduce[r] > trees->reduce) trees->reduce = reduce[r];
  return BANYAN_OK;
}

/* ---- a value */

static enum banyan_status fill(struct by_sparse_trees *trees, const struct by_class *class_) {
  trees->n_groups = class_->n_groups;
  trees->groups = BY_ARENA_ARRAY(&trees->arena, struct by_sparse_group, class_->n_groups);
  if (!trees->groups) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for trees");
  for (uint32_t g = 0; g < class_->n_groups; g++) {
    struct by_sparse_group *of = &trees->groups[g];
    of->group = &class_->groups[g];
    of->n_trees = of->group->kind == BY_GROUP_TREE ? 1 : of->group->n;
    trees->n += of->n_trees;
    BY_TRY(fill_template(trees, of));
  }
  BY_TRY(list_trees(trees));
  return add_loads(trees);
}

enum banyan_status by_sparse_trees_create(const struct by_plan *plan, const struct by_class *class_,
                                          struct by_sparse_trees **out) {
  struct by_sparse_trees *trees = calloc(1, sizeof *trees);
  if (!trees) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for trees");
  by_arena_init(&trees->arena);
  trees->n_ranks = plan->n_ranks;
  trees->version = plan->version;
  trees->up_to = class_->up_to;
  trees->plan = by_plan_hold(plan);
  enum banyan_status status = fill(trees, &trees->plan->classes[class_ - plan->classes]);
  if (status == BANYAN_OK)
    *out = trees;
  else
    by_sparse_trees_destroy(trees);
  return status;
}

void by_sparse_trees_destroy(struct by_sparse_trees *trees) {
  if (!trees) return;
  by_plan_destroy(trees->plan);
  by_arena_fini(&trees->arena);
  free(trees);
}

bool by_sparse_trees_are(const struct by_sparse_trees *trees, const struct by_plan *plan,
                         const struct by_class *class_) {
  return trees && trees->version == plan->version && trees->up_to == class_->up_to && trees->n_ranks == plan->n_ranks;
}
