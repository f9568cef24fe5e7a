/* The ledgers that a member holds, and their comparison by membership. */
#include "ledger.h"

#include <stdlib.h>
#include <string.h>

struct by_held_ledger {
  struct by_held_ledger *next;
  struct by_fingerprint from;
  uint64_t membership;
  bool own;
  size_t length;
  uint8_t bytes[];
};

void by_ledger_pool_drop(struct by_ledger_pool *pool) {
  while (pool->first) {
    struct by_held_ledger *held = pool->first;
    pool->first = held->next;
    free(held);
  }
}

static struct by_held_ledger **find(const struct by_ledger_pool *pool, const struct by_fingerprint *from,
                                    uint64_t membership) {
  struct by_held_ledger **place = (struct by_held_ledger **)(uintptr_t)&pool->first;
  while (*place && ((*place)->membership != membership || !by_fingerprint_equal(&(*place)->from, from)))
    place = &(*place)->next;
  return place;
}

/* Adds a ledger whose bytes the caller fills in; NULL if memory is exhausted. */
static struct by_held_ledger *hold(struct by_ledger_pool *pool, const struct by_fingerprint *from, uint64_t membership,
                                   size_t length) {
  struct by_held_ledger **place = find(pool, from, membership);
  struct by_held_ledger *held = malloc(sizeof *held + length);
  if (!held) return NULL;
  *held = (struct by_held_ledger){.from = *from, .membership = membership, .length = length};
  memset(held->bytes, 0, length);
  *place = held;
  return held;
}

enum banyan_status by_ledger_pool_keep(struct by_ledger_pool *pool, const struct by_ledger *ledger, uint64_t membership,
                                       const struct by_fingerprint *self) {
  size_t length = 4 + ledger->length;
  struct by_held_ledger *held = ledger->lacks ? NULL : hold(pool, self, membership, length);
  if (!held) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a ledger of calls");
  held->own = true;
  by_put_u32(held->bytes, ledger->n_series);
  if (ledger->length) memcpy(held->bytes + 4, ledger->data, ledger->length);
  return BANYAN_OK;
}

enum { HEAD_BYTES = BY_FINGERPRINT_BYTES + 8 + 4 };

size_t by_ledger_pool_length(const struct by_ledger_pool *pool) {
  size_t bytes = 0;
  for (const struct by_held_ledger *held = pool->first; held; held = held->next) bytes += HEAD_BYTES + held->length;
  return bytes;
}

void by_ledger_pool_write(const struct by_ledger_pool *pool, struct by_writer *writer) {
  for (const struct by_held_ledger *held = pool->first; held; held = held->next) {
    by_write_bytes(writer, held->from.bytes, BY_FINGERPRINT_BYTES);
    by_write_u64(writer, held->membership);
    by_write_blob(writer, held->bytes, held->length);
  }
}

enum banyan_status by_ledger_pool_take(struct by_ledger_pool *pool, const void *bytes, size_t length) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  while (by_reader_left(&reader)) {
    struct by_fingerprint from;
    size_t n;
    const uint8_t *fingerprint = by_read_bytes(&reader, BY_FINGERPRINT_BYTES);
    uint64_t membership = by_read_u64(&reader);
    const uint8_t *ledger = by_read_blob(&reader, &n);
    if (reader.failed) break;
    memcpy(from.bytes, fingerprint, sizeof from.bytes);
    if (*find(pool, &from, membership)) continue; /* A copy of this ledger is held already. */
    struct by_held_ledger *held = hold(pool, &from, membership, n);
    if (!held) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %zu bytes of a ledger", n);
    if (n) memcpy(held->bytes, ledger, n);
  }
  return by_reader_check(&reader, "what became of calls");
}

/* ---- comparing */

static enum banyan_status add(struct by_interrupted_calls *to, const struct banyan_interrupted *calls, size_t n,
                              uint64_t membership, struct by_arena *arena) {
  struct banyan_interrupted *all = BY_ARENA_ARRAY(arena, struct banyan_interrupted, to->n + n);
  uint64_t *memberships = BY_ARENA_ARRAY(arena, uint64_t, to->n + n);
  if (!all || !memberships)
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %zu calls that were interrupted", n);
  if (to->n) memcpy(all, to->calls, to->n * sizeof *all);
  if (to->n) memcpy(memberships, to->memberships, to->n * sizeof *memberships);
  for (size_t i = 0; i < n; i++) {
    all[to->n] = calls[i];
    memberships[to->n++] = membership;
  }
  to->calls = all;
  to->memberships = memberships;
  return BANYAN_OK;
}

static int rank_of(const struct by_membership *formed, const struct by_fingerprint *fingerprint) {
  uint32_t rank = by_membership_find(formed, fingerprint);
  return rank < formed->n ? (int)rank : -1;
}

/* Compares all ledgers of one membership, also those of processes that are gone: processes that completed an exchange
 * decided by them, too. */
static enum banyan_status compare(const struct by_ledger_pool *pool, uint64_t membership,
                                  const struct by_membership *formed, struct by_arena *arena,
                                  struct by_interrupted_calls *out) {
  uint32_t all = 0, n_views = 0;
  for (const struct by_held_ledger *held = pool->first; held; held = held->next) all += held->membership == membership;
  struct by_ledger_view *views = BY_ARENA_ARRAY(arena, struct by_ledger_view, all);
  int *ranks = BY_ARENA_ARRAY(arena, int, all);
  struct banyan_interrupted *calls;
  size_t n;
  if (!views || !ranks) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u ledgers", all);
  for (const struct by_held_ledger *held = pool->first; held; held = held->next) {
    if (held->membership != membership) continue;
    BY_TRY(by_ledger_read(held->bytes, held->length, arena, &views[n_views]));
    ranks[n_views++] = rank_of(formed, &held->from);
  }
  BY_TRY(by_ledger_compare(views, ranks, n_views, arena, &calls, &n));
  return n ? add(out, calls, n, membership, arena) : BANYAN_OK;
}

static bool has_newcomers(const struct by_ledger_pool *pool, uint64_t membership, const struct by_membership *formed) {
  for (uint32_t r = 0; r < formed->n; r++)
    if (!*find(pool, &formed->members[r].fingerprint, membership)) return true;
  return false;
}

enum banyan_status by_ledger_pool_compare(const struct by_ledger_pool *pool, const struct by_membership *formed,
                                          struct by_arena *arena, struct by_interrupted_calls *out) {
  size_t own = 0;
  for (const struct by_held_ledger *held = pool->first; held; held = held->next) own += held->own;
  *out = (struct by_interrupted_calls){.ended = BY_ARENA_ARRAY(arena, struct by_ended_membership, own)};
  if (!out->ended) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %zu ledgers", own);
  for (const struct by_held_ledger *held = pool->first; held; held = held->next) {
    if (!held->own) continue;
    out->ended[out->n_ended++] =
        (struct by_ended_membership){held->membership, has_newcomers(pool, held->membership, formed)};
    BY_TRY(compare(pool, held->membership, formed, arena, out));
  }
  return BANYAN_OK;
}

/* ---- verdicts */

static const struct by_ended_membership *find_ended(const struct by_interrupted_calls *calls, uint64_t membership) {
  for (size_t i = 0; i < calls->n_ended; i++)
    if (calls->ended[i].number == membership) return &calls->ended[i];
  return NULL;
}

enum by_verdict by_interrupted_calls_judge(const struct by_interrupted_calls *calls, uint64_t membership,
                                           uint32_t communicator, uint32_t number, bool begun) {
  const struct by_ended_membership *ended = find_ended(calls, membership);
  bool listed = false;
  if (!ended) return BY_CALL_UNKNOWN;
  for (size_t i = 0; i < calls->n && !listed; i++) {
    const struct banyan_interrupted *call = &calls->calls[i];
    bool of = calls->memberships[i] == membership && call->communicator == communicator && !call->name;
    listed = of && number - call->call < call->n_calls;
  }
  if (begun && !listed) return BY_CALL_HAS_RESULT;
  return ended->newcomers ? BY_CALL_WITHDRAWN : BY_CALL_AGAIN;
}

bool by_interrupted_calls_lack(const struct by_interrupted_calls *calls, uint32_t communicator, uint32_t rank) {
  for (size_t i = 0; i < calls->n; i++) {
    const struct banyan_interrupted *call = &calls->calls[i];
    if (call->communicator != communicator || call->name || !find_ended(calls, calls->memberships[i])->newcomers)
      continue;
    for (int r = 0; r < call->size; r++)
      if (call->ranks[r] == (int)rank && call->outcomes[r] == BANYAN_OUTCOME_NOT_BEGUN) return true;
  }
  return false;
}
