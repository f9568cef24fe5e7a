/* What only the root does: it picks what starts, by priority and as far as the
 * network has room, fuses small operations, and puts into the table what comes
 * again. */
#include "arena.h"
#include "controller_parts.h"

#include <stdlib.h>
#include <string.h>

#include <banyan/collectives.h>

enum { OFTEN = 3 /* starts after which an operation enters the table although no step was marked */ };

static uint64_t bytes_of(const struct by_variant *variant) {
  return by_operation_bytes(&variant->operation);
}

/* Many small groups under way would leave nothing to be fused. */
static uint64_t charge_of(const struct by_controller *c, uint64_t bytes) {
  uint64_t least = c->config.window / 4;
  return bytes > least ? bytes : least;
}

static bool is_small(const struct by_controller *c, const struct by_variant *variant) {
  return !c->config.fuse_each || bytes_of(variant) <= c->config.fuse_each;
}

static bool fuses(const struct by_controller *c, const struct by_variant *a, const struct by_variant *b) {
  const struct by_operation *x = &a->operation, *y = &b->operation;
  return is_small(c, a) && is_small(c, b) && x->collective == BANYAN_ALLREDUCE && y->collective == BANYAN_ALLREDUCE &&
         x->dtype == y->dtype && x->op == y->op;
}

/* The larger, the earlier it starts: by priority, then those with a bit, the last one first; then the others, all
 * alike. */
static uint64_t urgency_of(const struct by_variant *variant) {
  uint64_t priority = (uint32_t)variant->priority ^ 1u << 31;
  return priority << 32 | (variant->bit == BY_NO_NUMBER ? 0 : variant->bit + 1);
}

bool by_controller_make_ready(struct by_controller *c, struct by_variant *variant) {
  uint64_t urgency = urgency_of(variant);
  uint32_t from = 0, to = c->n_ready;
  if (!BY_ARRAY_GROW(&c->ready, &c->room_ready, c->n_ready + 1)) return false;
  while (from < to) { /* behind those that are alike */
    uint32_t middle = (from + to) / 2;
    if (urgency_of(c->ready[middle]) >= urgency)
      from = middle + 1;
    else
      to = middle;
  }
  memmove(c->ready + from + 1, c->ready + from, (c->n_ready - from) * sizeof *c->ready);
  c->ready[from] = variant;
  c->n_ready++;
  return true;
}

/* Into the group, at its place. */
static void pick(struct by_controller *c, struct by_variant *variant) {
  if (!BY_ARRAY_GROW(&c->group, &c->room_group, c->n_group + 1)) {
    c->failed = true;
    return;
  }
  uint32_t at = c->n_group++;
  for (; at && c->config.before && c->config.before(variant->cookie, c->group[at - 1]->cookie); at--)
    c->group[at] = c->group[at - 1];
  c->group[at] = variant;
  variant->picked = true;
}

static void send_started(struct by_controller *c, struct by_variant *variant) {
  if (variant->bit == BY_NO_NUMBER && variant->id == BY_NO_NUMBER &&
      !by_operations_number(&c->operations, variant, c->next_id++))
    c->failed = true;
  by_list_writer_started(&c->told, variant->bit, variant->id, variant->named->name, &variant->operation);
}

static void forget_picked(struct by_controller *c) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < c->n_ready; i++) {
    if (!c->ready[i]->picked)
      c->ready[n++] = c->ready[i];
    else
      c->ready[i]->picked = false;
  }
  c->n_ready = n;
}

/* The first of those that are ready that is not picked, and with it the next ones that are like it, as far as they
 * fit. c->told is free at the root. */
static void release_group(struct by_controller *c, uint32_t first) {
  uint64_t bytes = bytes_of(c->ready[first]), fuse = c->config.fuse;
  c->n_group = 0;
  pick(c, c->ready[first]);
  for (uint32_t i = first + 1; i < c->n_ready && bytes < fuse && !c->failed; i++) {
    struct by_variant *next = c->ready[i];
    if (next->picked || bytes_of(next) > fuse - bytes || !fuses(c, c->ready[first], next)) continue;
    pick(c, next);
    bytes += bytes_of(next);
  }
  by_list_writer_clear(&c->told);
  for (uint32_t i = 0; i < c->n_group; i++) send_started(c, c->group[i]);
  by_list_writer_group(&c->down.groups, &c->told);
  c->under_way += charge_of(c, bytes);
}

void by_controller_release(struct by_controller *c) {
  bool any = false;
  for (uint32_t i = 0; i < c->n_ready && !c->failed; i++) {
    if (c->ready[i]->picked) continue;
    if (c->config.window && c->under_way >= c->config.window) break;
    release_group(c, i);
    any = true;
  }
  if (any) forget_picked(c);
}

void by_controller_ended(struct by_controller *c, uint64_t bytes) {
  uint64_t charge = charge_of(c, bytes);
  c->under_way -= charge < c->under_way ? charge : c->under_way;
}

/* --- the table --- */

static int by_id(const void *a, const void *b) {
  const struct by_variant *x = *(struct by_variant *const *)a, *y = *(struct by_variant *const *)b;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* Everything that the first iteration had, later what has come again. */
static bool belongs(const struct by_controller *c, const struct by_variant *variant) {
  uint32_t enough = !c->stepped ? OFTEN : c->n_table ? 2 : 1;
  return variant->id != BY_NO_NUMBER && variant->bit == BY_NO_NUMBER && variant->starts >= enough;
}

void by_controller_renew(struct by_controller *c) {
  if (!c->renew) return;
  c->renew = false;
  uint32_t n = 0;
  struct by_variant **chosen = calloc(HASH_COUNT(c->operations.ids) + 1, sizeof(struct by_variant *));
  if (!chosen) {
    c->failed = true;
    return;
  }
  for (struct by_variant *variant = c->operations.ids; variant; variant = variant->hh.next)
    if (belongs(c, variant)) chosen[n++] = variant;
  qsort(chosen, n, sizeof *chosen, by_id);
  for (uint32_t i = 0; i < n && c->n_table + i < BY_TABLE_MOST; i++)
    by_list_writer_number(&c->down.table, chosen[i]->id);
  free(chosen);
}
