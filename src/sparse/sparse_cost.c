#include "sparse_cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- trees */

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

static enum banyan_status fill_trees(struct by_sparse_trees *trees, const struct by_class *class_, uint64_t n) {
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
  enum banyan_status status = fill_trees(trees, class_, n);
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

/* ---- costs */

static double row_bytes(const struct by_sparse_case *of) {
  return (double)(of->words->width * banyan_dtype_size((enum banyan_dtype)of->words->dtype) +
                  banyan_dtype_size((enum banyan_dtype)of->words->row_dtype));
}

/* Ranks that share cores work one after the other. */
static double busy(const struct by_sparse_case *of, double busiest, double mean) {
  double shared = of->all->crowd * mean;
  return busiest > shared ? busiest : shared;
}

/* An AllGather of so many bytes in all, of which the busiest rank has `own` to send to all others. */
static double gather_work(const struct by_sparse_case *of, double total) {
  double n = of->all->n_ranks;
  return of->rates.byte * 2 * total * (n - 1) / n;
}

static double gather(const struct by_sparse_case *of, double rows, double calls) {
  double total = rows * row_bytes(of), merged = of->words->collective == BANYAN_ALLREDUCE;
  double work = gather_work(of, total) + of->rates.merge * merged * (double)of->all->total * row_bytes(of);
  return calls * of->rates.call + busy(of, work, work);
}

static double dense(const struct by_sparse_case *of) {
  double n = of->all->n_ranks, height = (double)of->words->height;
  if (of->words->collective != BANYAN_ALLREDUCE || !by_sparse_dense_fits(of->words, of->all->memory)) return INFINITY;
  double bytes = height * ((double)(of->words->width * banyan_dtype_size((enum banyan_dtype)of->words->dtype)) + 0.125);
  double work = 4 * bytes * (n - 1) / n * of->rates.byte + of->rates.clear * bytes;
  return 2 * of->rates.call + busy(of, work, work);
}

/* ---- merging on the way */

/* One tree, vertex by vertex from the leaves on. */
struct climb {
  const struct by_sparse_case *of;
  uint32_t *order;   /* ranks, each before the one above it */
  uint32_t *depth;   /* messages that stand one behind the other up to this rank */
  uint64_t *have;    /* rank -> which of the range's sample it has, with all below it */
  double *work;      /* rank -> seconds, of all trees */
  double *taken;     /* rank -> rows of its own, and what came from below, in this tree */
  uint32_t first, n; /* the range's part of the sample */
  uint32_t words;
  double scale; /* rows for each of the sample */
};

static double rows_of(const struct climb *climb, uint32_t rank) {
  uint32_t n = 0;
  for (uint32_t w = 0; w < climb->words; w++)
    n += (uint32_t)__builtin_popcountll(climb->have[(size_t)rank * climb->words + w]);
  return n * climb->scale;
}

static void sort_up(const struct by_sparse_tree *tree, struct climb *climb, uint32_t n) {
  uint32_t *below = climb->depth, done = 0;
  memset(below, 0, n * sizeof *below);
  for (uint32_t r = 0; r < n; r++) below[tree->up[r]] += tree->up[r] != r;
  for (uint32_t r = 0; r < n; r++)
    if (!below[r]) climb->order[done++] = r;
  for (uint32_t i = 0; i < done && done < n; i++) {
    uint32_t up = tree->up[climb->order[i]];
    if (up != climb->order[i] && !--below[up]) climb->order[done++] = up;
  }
  memset(climb->depth, 0, n * sizeof *climb->depth);
}

/* A vertex merges what it has got and sends it up. */
static void step_up(struct climb *climb, const struct by_sparse_tree *tree, uint32_t rank) {
  const struct by_sparse_rates *rates = &climb->of->rates;
  uint32_t up = tree->up[rank];
  double rows = rows_of(climb, rank), bytes = row_bytes(climb->of);
  if (climb->depth[rank]) climb->work[rank] += rates->merge * bytes * climb->taken[rank];
  if (up == rank) return;
  for (uint32_t w = 0; w < climb->words; w++)
    climb->have[(size_t)up * climb->words + w] |= climb->have[(size_t)rank * climb->words + w];
  climb->taken[up] += rows;
  climb->work[rank] += 3 * rates->message + rates->byte * bytes * rows;
  climb->work[up] += 3 * rates->message + rates->byte * bytes * rows;
  if (climb->depth[rank] + 1 > climb->depth[up]) climb->depth[up] = climb->depth[rank] + 1;
}

/* Its depth. */
static uint32_t climb_tree(struct climb *climb, const struct by_sparse_tree *tree) {
  const struct by_sparse_union *all = climb->of->all;
  uint32_t n = all->n_ranks;
  climb->words = (climb->n + 63) / 64;
  memset(climb->have, 0, (size_t)n * climb->words * sizeof *climb->have);
  for (uint32_t r = 0; r < n; r++) {
    for (uint32_t i = 0; i < climb->n; i++)
      if (all->who[(size_t)(climb->first + i) * all->words + r / 64] >> r % 64 & 1)
        climb->have[(size_t)r * climb->words + i / 64] |= (uint64_t)1 << i % 64;
    climb->taken[r] = rows_of(climb, r);
  }
  sort_up(tree, climb, n);
  for (uint32_t i = 0; i < n; i++) step_up(climb, tree, climb->order[i]);
  return climb->depth[tree->root];
}

static double climb_all(struct climb *climb) {
  const struct by_sparse_case *of = climb->of;
  uint32_t depth = 0, n = of->all->n_ranks;
  double busiest = 0, sum = 0;
  climb->scale = of->all->sampled ? of->all->rows / of->all->sampled : 0;
  climb->first = 0;
  for (uint32_t t = 0; t < of->trees->n; t++) {
    uint32_t end = (uint32_t)(of->trees->upto[t] * of->all->sampled + 0.5);
    climb->n = end - climb->first;
    uint32_t here = climb_tree(climb, &of->trees->trees[t]);
    if (here > depth) depth = here;
    climb->first = end;
  }
  for (uint32_t r = 0; r < n; r++) {
    if (climb->work[r] > busiest) busiest = climb->work[r];
    sum += climb->work[r];
  }
  double down = gather_work(of, of->all->rows * row_bytes(of));
  return 3 * of->rates.call + depth * of->rates.hop + busy(of, busiest + down, sum / n + down);
}

static double merge(const struct by_sparse_case *of) {
  uint32_t n = of->all->n_ranks;
  if (!of->trees || of->words->collective != BANYAN_ALLREDUCE) return INFINITY;
  struct by_arena arena;
  by_arena_init(&arena);
  struct climb climb = {.of = of,
                        .order = BY_ARENA_ARRAY(&arena, uint32_t, n),
                        .depth = BY_ARENA_ARRAY(&arena, uint32_t, n),
                        .have = BY_ARENA_ARRAY(&arena, uint64_t, (size_t)n * (of->all->sampled / 64 + 1)),
                        .work = BY_ARENA_ARRAY(&arena, double, n),
                        .taken = BY_ARENA_ARRAY(&arena, double, n)};
  bool good = climb.order && climb.depth && climb.have && climb.work && climb.taken;
  double seconds = good ? climb_all(&climb) : (double)NAN;
  by_arena_fini(&arena);
  return seconds;
}

double by_sparse_cost(const struct by_sparse_case *of, enum banyan_sparse_way way) {
  switch (way) {
  case BANYAN_SPARSE_PADDED: return gather(of, (double)of->all->most * of->all->n_ranks, 2);
  case BANYAN_SPARSE_GATHER: return gather(of, (double)of->all->total, 2);
  case BANYAN_SPARSE_BROADCAST: return gather(of, (double)of->all->total, 2 * of->all->n_ranks);
  case BANYAN_SPARSE_MERGE: return merge(of);
  case BANYAN_SPARSE_DENSE: return dense(of);
  default: return INFINITY;
  }
}

/* ---- names */

static const char *const names[BANYAN_SPARSE_WAYS] = {
    [BANYAN_SPARSE_CHOSEN] = "chosen",       [BANYAN_SPARSE_PADDED] = "padded", [BANYAN_SPARSE_GATHER] = "gather",
    [BANYAN_SPARSE_BROADCAST] = "broadcast", [BANYAN_SPARSE_MERGE] = "merge",   [BANYAN_SPARSE_DENSE] = "dense",
};

const char *banyan_sparse_way_name(enum banyan_sparse_way way) {
  return (unsigned)way < BANYAN_SPARSE_WAYS ? names[way] : "?";
}

enum banyan_status banyan_sparse_way_parse(const char *text, enum banyan_sparse_way *out) {
  for (int way = 0; text && way < BANYAN_SPARSE_WAYS; way++)
    if (!strcmp(text, names[way])) {
      *out = (enum banyan_sparse_way)way;
      return BANYAN_OK;
    }
  return by_fail(BANYAN_ERR_ARGUMENT,
                 "no way of sparse rows is called \"%.40s\"; there are chosen, padded, gather, broadcast, merge, dense",
                 text ? text : "");
}
