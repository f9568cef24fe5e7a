#include "budget.h"

const struct by_budget_rules by_budget_of_peer = {8192, 100, 8 << 20, 1 << 20};
const struct by_budget_rules by_budget_of_agent = {4096, 50, 4 << 20, 1 << 19};

struct by_budget by_budget_full(const struct by_budget_rules *rules, double now) {
  return (struct by_budget){rules, rules->lines_at_once, rules->bytes_at_once, now};
}

static void fill(struct by_budget *budget, double now) {
  const struct by_budget_rules *rules = budget->rules;
  double passed = now - budget->filled;
  budget->filled = now;
  budget->lines += passed * rules->lines_a_second;
  budget->bytes += passed * rules->bytes_a_second;
  if (budget->lines > rules->lines_at_once) budget->lines = rules->lines_at_once;
  if (budget->bytes > rules->bytes_at_once) budget->bytes = rules->bytes_at_once;
}

bool by_budget_take(struct by_budget *budget, size_t bytes, double now) {
  fill(budget, now);
  if (budget->lines < 1 || budget->bytes < (double)bytes) return false;
  budget->lines -= 1;
  budget->bytes -= (double)bytes;
  return true;
}

bool by_budget_is_full(struct by_budget *budget, double now) {
  fill(budget, now);
  return budget->lines >= budget->rules->lines_at_once && budget->bytes >= budget->rules->bytes_at_once;
}
