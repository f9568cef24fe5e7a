/* Makes control trees by the numbers of ranks. */
#include <stdlib.h>

#include "control_tree.h"
#include "plan_make.h"

static enum banyan_status compute_time(const struct by_control_numbered *shape, struct by_control_tree *tree,
                                       const struct by_control_costs *costs, double *out) {
  for (uint32_t i = 0; i < tree->n; i++) tree->parent[i] = by_control_parent(shape, i);
  return by_control_tree_time(tree, NULL, costs, out);
}

/* Reduces the children of the root, which are `fan_out` at first: takes the first number, from the fewest that keep the
 * height, that does not make the tree slower. */
static enum banyan_status reduce_root(struct by_control_numbered *shape, struct by_control_tree *tree,
                                      const struct by_control_costs *costs) {
  uint64_t below = 1, level = 1; /* ranks of a full tree one lower */
  double max, seconds;
  for (; 1 + shape->fan_out * below < tree->n; below += level) level *= shape->fan_out;
  BY_TRY(compute_time(shape, tree, costs, &max));
  struct by_control_numbered other = *shape;
  for (other.at_root = (uint32_t)((tree->n - 2) / below + 1); other.at_root < shape->at_root; other.at_root++) {
    BY_TRY(compute_time(&other, tree, costs, &seconds));
    if (seconds > max * (1 + 1e-9)) continue;
    *shape = other;
    break;
  }
  return BANYAN_OK;
}

enum banyan_status by_control_numbered_make(uint32_t n, uint32_t fan_out, const struct by_control_costs *costs,
                                            struct by_control_numbered *out) {
  *out = (struct by_control_numbered){.at_root = fan_out, .fan_out = fan_out};
  if (n < 2) return BANYAN_OK;
  struct by_control_tree tree = {.n = n, .parent = calloc(n, sizeof *tree.parent)};
  enum banyan_status status = tree.parent ? reduce_root(out, &tree, costs) : by_plan_no_memory();
  free(tree.parent);
  return status;
}
