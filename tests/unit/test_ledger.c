/* Ledgers of calls, against a model: random histories of random processes, which are written, read and compared, say of
 * each call what became of it on each process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ledger.h"
#include "rng.h"

enum { MOST = 7, CALLS = 40, NAMES = 5 };

/* What became of the calls of one communicator, from number `first` on. */
struct world {
  struct by_rng rng;
  uint32_t n, first;
  bool lives[MOST];
  uint32_t begun[MOST];
  bool failed[MOST][CALLS];
  bool waits[MOST][NAMES]; /* for an operation of this name that has not started here */
  int ranks[MOST];
  struct by_ledger_view views[MOST];
  struct by_arena arena;
};

static uint32_t below(struct world *world, uint64_t n) {
  return (uint32_t)by_rng_below(&world->rng, n);
}

static void name_of(uint32_t call, char name[16]) {
  snprintf(name, 16, "operation %u", call % NAMES);
}

static void choose(struct world *world, uint64_t seed) {
  memset(world, 0, sizeof *world);
  by_rng_init(&world->rng, seed);
  by_arena_init(&world->arena);
  world->n = 1 + below(world, MOST);
  world->first = below(world, 2) ? UINT32_MAX - below(world, CALLS) : below(world, 1000); /* numbers wrap */
  uint32_t common = below(world, CALLS / 2), spread = 1 + below(world, CALLS / 2);
  for (uint32_t p = 0; p < world->n; p++) {
    world->lives[p] = below(world, 4);
    world->begun[p] = common + below(world, spread);
    for (uint32_t c = 0; c < world->begun[p]; c++) world->failed[p][c] = c + 6 >= world->begun[p] && !below(world, 3);
    for (uint32_t c = 0; c < NAMES; c++) world->waits[p][c] = !below(world, 6);
  }
}

static void write(struct world *world, uint32_t p, enum by_ledger_kind kind, struct by_ledger *ledger) {
  struct by_ledger_series series = {
      .kind = kind, .communicator = 77, .size = world->n, .rank = p, .begun = world->first + world->begun[p]};
  struct by_history history = {0};
  by_ledger_add_series(ledger, &series);
  for (uint32_t c = 0; c < world->begun[p]; c++) {
    struct by_history_call call = {.number = world->first + c, .count = 100 + c, .collective = BANYAN_BROADCAST};
    call.outcome = world->failed[p][c] ? BY_HISTORY_FAILED : BY_HISTORY_COMPLETED;
    if (kind == BY_LEDGER_OPERATIONS) name_of(c, call.name);
    by_history_add(&history, &call);
  }
  for (uint32_t c = 0; c < NAMES && kind == BY_LEDGER_OPERATIONS; c++) {
    struct by_history_call call = {.outcome = BY_HISTORY_WAITED, .collective = BANYAN_ALLREDUCE};
    name_of(c, call.name);
    if (world->waits[p][c]) by_history_add(&history, &call);
  }
  by_ledger_add_history(ledger, &history);
  by_history_fini(&history);
}

static enum banyan_status read_ledger(struct world *world, const struct by_ledger *ledger, size_t length,
                                      struct by_ledger_view *view) {
  uint8_t *bytes = malloc(4 + ledger->length);
  assert_non_null(bytes);
  by_put_u32(bytes, ledger->n_series);
  if (ledger->length) memcpy(bytes + 4, ledger->data, ledger->length);
  enum banyan_status status = by_ledger_read(bytes, length, &world->arena, view);
  free(bytes);
  return status;
}

/* Those that live have the ranks in order. */
static uint32_t exchange(struct world *world, enum by_ledger_kind kind) {
  uint32_t n = 0;
  for (uint32_t p = 0; p < world->n; p++) {
    struct by_ledger ledger = {0};
    if (!world->lives[p]) continue;
    write(world, p, kind, &ledger);
    if (below(world, 2)) {
      assert_int_equal(read_ledger(world, &ledger, below(world, 4 + ledger.length), &world->views[n]),
                       BANYAN_ERR_PROTOCOL);
    }
    assert_ok(read_ledger(world, &ledger, 4 + ledger.length, &world->views[n]));
    world->ranks[n] = (int)n;
    by_ledger_fini(&ledger);
    n++;
  }
  return n;
}

static enum banyan_outcome outcome_of(const struct world *world, uint32_t p, uint32_t call) {
  if (!world->lives[p]) return BANYAN_OUTCOME_ABSENT;
  if (call >= world->begun[p]) return BANYAN_OUTCOME_NOT_BEGUN;
  return world->failed[p][call] ? BANYAN_OUTCOME_FAILED : BANYAN_OUTCOME_COMPLETED;
}

/* Whether a record of this call must be there, and what it must say of each process. */
static void check_call(const struct world *world, uint32_t call, const struct banyan_interrupted *record) {
  uint32_t n[4] = {0};
  int rank = 0;
  for (uint32_t p = 0; p < world->n; p++) n[outcome_of(world, p, call)]++;
  bool wanted = n[BANYAN_OUTCOME_FAILED] || (n[BANYAN_OUTCOME_NOT_BEGUN] && n[BANYAN_OUTCOME_COMPLETED]);
  if (wanted != (record != NULL)) fail_msg("call %u is%s listed", call, record ? "" : " not");
  if (!record) return;
  assert_int_equal(record->size, world->n);
  assert_int_equal(record->completed, n[BANYAN_OUTCOME_COMPLETED]);
  assert_int_equal(record->failed, n[BANYAN_OUTCOME_FAILED]);
  assert_int_equal(record->not_begun, n[BANYAN_OUTCOME_NOT_BEGUN]);
  for (uint32_t p = 0; p < world->n; p++) {
    assert_int_equal(record->outcomes[p], outcome_of(world, p, call));
    assert_int_equal(record->ranks[p], world->lives[p] ? rank : -1);
    rank += world->lives[p];
  }
  if (record->known) assert_true(record->count == 100 + call && record->collective == BANYAN_BROADCAST);
  if (n[BANYAN_OUTCOME_FAILED]) assert_true(record->known && record->n_calls == 1);
}

static void check_calls(const struct world *world, const struct banyan_interrupted *records, size_t n) {
  for (uint32_t call = 0; call < CALLS; call++) {
    const struct banyan_interrupted *found = NULL;
    for (size_t i = 0; i < n; i++)
      if (world->first + call - records[i].call < records[i].n_calls && records[i].collective != BANYAN_ALLREDUCE) {
        assert_null(found);
        found = &records[i];
      }
    check_call(world, call, found);
  }
}

/* Each process that waited for an operation finds it: it started elsewhere, or nowhere. */
static void check_waiting(const struct world *world, const struct banyan_interrupted *records, size_t n) {
  for (uint32_t p = 0; p < world->n; p++)
    for (uint32_t c = 0; c < NAMES; c++) {
      char name[16];
      uint32_t elsewhere = 0, nowhere = 0;
      name_of(c, name);
      if (!world->lives[p]) continue;
      for (size_t i = 0; i < n; i++) {
        if (!records[i].name || strcmp(records[i].name, name) != 0) continue;
        if (records[i].collective == BANYAN_ALLREDUCE)
          nowhere += records[i].outcomes[p] == BANYAN_OUTCOME_FAILED;
        else
          elsewhere += records[i].outcomes[p] == BANYAN_OUTCOME_NOT_BEGUN;
      }
      assert_true(nowhere == (world->waits[p][c] && !elsewhere));
    }
}

static void test_compare(void **state) {
  (void)state;
  size_t listed = 0;
  for (uint64_t seed = 1; seed <= check_seeds(3000); seed++) {
    struct world *world = malloc(sizeof *world);
    struct banyan_interrupted *records, *again;
    size_t n, n_again;
    assert_non_null(world);
    choose(world, seed);
    enum by_ledger_kind kind = seed % 2 ? BY_LEDGER_CALLS : BY_LEDGER_OPERATIONS;
    uint32_t views = exchange(world, kind);
    assert_ok(by_ledger_compare(world->views, world->ranks, views, &world->arena, &records, &n));
    check_calls(world, records, n);
    if (kind == BY_LEDGER_OPERATIONS) check_waiting(world, records, n);
    for (uint32_t i = 0; i < views / 2; i++) {
      struct by_ledger_view view = world->views[i];
      int rank = world->ranks[i];
      world->views[i] = world->views[views - 1 - i];
      world->ranks[i] = world->ranks[views - 1 - i];
      world->views[views - 1 - i] = view;
      world->ranks[views - 1 - i] = rank;
    }
    assert_ok(by_ledger_compare(world->views, world->ranks, views, &world->arena, &again, &n_again));
    assert_int_equal(n, n_again);
    for (size_t i = 0; i < n; i++) assert_int_equal(records[i].call, again[i].call);
    listed += n;
    by_arena_fini(&world->arena);
    free(world);
  }
  assert_true(listed > 1000);
}

/* A communicator that two members describe differently counts as none; others are listed all the same. */
static void test_contradictions(void **state) {
  (void)state;
  struct by_ledger_note notes[] = {{.number = 0, .outcome = BY_HISTORY_FAILED, .name = ""}};
  struct by_ledger_series series[] = {
      {.communicator = 1, .size = 2, .rank = 0, .begun = 1, .n_notes = 1, .notes = notes},
      {.communicator = 2, .size = 2, .rank = 0, .begun = 1, .n_notes = 1, .notes = notes},
      {.communicator = 1, .size = 3, .rank = 1, .begun = 1, .n_notes = 1, .notes = notes},
      {.communicator = 2, .size = 2, .rank = 1, .begun = 1}};
  const struct by_ledger_view views[] = {{.series = series, .n_series = 2}, {.series = series + 2, .n_series = 2}};
  const int ranks[] = {0, 1};
  struct banyan_interrupted *records;
  struct by_arena arena;
  size_t n;
  by_arena_init(&arena);
  assert_ok(by_ledger_compare(views, ranks, 2, &arena, &records, &n));
  assert_int_equal(n, 1);
  assert_int_equal(records[0].communicator, 2);
  by_arena_fini(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_compare), cmocka_unit_test(test_contradictions)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
