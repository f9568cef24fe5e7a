#include "negotiate_ranks.h"

#include <stdio.h>
#include <stdlib.h>

enum { NAME_BYTES = 32 };

uint32_t by_negotiate_children(const struct by_negotiate_case *c, uint32_t rank, uint32_t *first) {
  uint64_t from = (uint64_t)rank * c->fan_out + 1, to = from + c->fan_out;
  *first = (uint32_t)(from < c->ranks ? from : c->ranks);
  return (uint32_t)(to < c->ranks ? to : c->ranks) - *first;
}

enum banyan_status by_negotiate_join(const struct by_negotiate_case *c, uint32_t rank,
                                     struct by_controller_config *config, struct by_controller **out) {
  uint32_t first, n = by_negotiate_children(c, rank, &first);
  uint32_t *children = calloc((size_t)n + 1, sizeof *children);
  if (!children) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a controller");
  for (uint32_t i = 0; i < n; i++) children[i] = first + i;
  config->rank = rank;
  config->ranks = c->ranks;
  config->up_parent = config->down_parent = rank ? (rank - 1) / c->fan_out : 0;
  config->n_up_children = config->n_down_children = n;
  config->up_children = config->down_children = children;
  enum banyan_status status = by_controller_create(config, out);
  free(children);
  return status;
}

/* Made once: the time that this takes is nobody's. */
static const char *name_of(uint32_t operation) {
  static char names[BY_NEGOTIATE_OPERATIONS][NAME_BYTES];
  char *name = names[operation];
  if (!*name) snprintf(name, NAME_BYTES, "model.layer%u.weight", operation);
  return name;
}

enum banyan_status by_negotiate_submit(const struct by_negotiate_case *c, struct by_controller *controller,
                                       struct by_rng *rng) {
  uint32_t n = c->operations;
  uint32_t *order = malloc((n + 1) * sizeof *order);
  enum banyan_status status = BANYAN_OK;
  if (!order) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for operations");
  for (uint32_t i = 0; i < n; i++) order[i] = i;
  for (uint32_t i = n; i > 1; i--) {
    uint32_t j = (uint32_t)by_rng_below(rng, i), last = order[i - 1];
    order[i - 1] = order[j];
    order[j] = last;
  }
  for (uint32_t i = 0; i < n && status == BANYAN_OK; i++) {
    struct by_operation operation = {.dtype = BANYAN_FLOAT32, .count = 1000 + order[i]};
    status = by_controller_submit(controller, name_of(order[i]), &operation, 0, NULL, 1);
  }
  free(order);
  return status;
}
