/* What one may say to another: so many lines and bytes at once, and so many a
 * second from then on. Two leaky buckets; a value, without a clock: seconds are
 * handed in, and never go back. */
#ifndef BY_CLUSTER_BUDGET_H
#define BY_CLUSTER_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

struct by_budget_rules {
  double lines_at_once, lines_a_second, bytes_at_once, bytes_a_second;
};

struct by_budget {
  const struct by_budget_rules *rules; /* borrowed */
  double lines, bytes, filled;
};

/* What a manager hears of one certificate, and half of that, which an agent takes care to stay below. */
extern const struct by_budget_rules by_budget_of_peer, by_budget_of_agent;

struct by_budget by_budget_full(const struct by_budget_rules *rules, double now);
/* False: it is too much now, and nothing is taken. */
bool by_budget_take(struct by_budget *budget, size_t bytes, double now);
/* Nothing of late. */
bool by_budget_is_full(struct by_budget *budget, double now);

#endif
