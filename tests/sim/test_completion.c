/* AllReduces that survivors complete among themselves, as a model: processes that make calls, confirm them, die at any
 * moment, and form memberships in which they exchange their ledgers, which may fail on some of them, too. Ledgers and
 * what is decided from them are the library's. No process may end a call with another result than the others, or never.
 *
 * Calls are modelled by what holds of them: a process completes one only once all members have begun it, at a moment of
 * its own; and once a member is dead it may fail instead. Three mistakes are
 * found. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ledger.h"
#include "rng.h"

enum { MOST = 5, STEPS = 6, MEMBERSHIPS = 64, CALLS = 4 * STEPS };

enum mistake {
  NO_MISTAKE,
  RETURNS_AT_ONCE, /* without confirming */
  DECIDES_AT_ONCE, /* before all are known to have all ledgers */
  ALWAYS_ACCEPTS,  /* a result that it has, though others lack it */
  MISTAKES
};

enum state { COMPUTES, REDUCES, CONFIRMS, WAITS /* for a membership */, GATHERS, AGREES, ENDED };

struct membership {
  uint32_t members, begun[CALLS]; /* bits by process */
  uint32_t gathering, agreeing;   /* have begun the exchange of ledgers, and its barrier */
  struct by_membership *formed;
};

struct process {
  enum state state;
  bool dead;
  uint32_t membership, begun; /* calls begun in it */
  uint32_t failed[2], n_failed;
  uint32_t step, attempt; /* the call of this step has this number, */
  uint32_t at;            /* in this membership */
  bool has_begun;
  uint32_t tentative; /* membership in which the sum was made, + 1; 0: none */
  uint32_t results[STEPS];
  struct by_ledger_pool pool;
};

struct world {
  struct by_rng rng;
  enum mistake mistake;
  bool wrong; /* a verdict is */
  uint32_t n, n_memberships;
  struct membership memberships[MEMBERSHIPS];
  struct process processes[MOST];
};

static uint32_t below(struct world *world, uint64_t n) {
  return (uint32_t)by_rng_below(&world->rng, n);
}

static struct by_fingerprint fingerprint_of(uint32_t p) {
  return (struct by_fingerprint){{(uint8_t)(p + 1)}};
}

static void form(struct world *world, uint32_t members) {
  struct by_membership_member list[MOST] = {{.flags = 0}};
  struct by_membership from = {.tag = 1, .members = list};
  struct membership *membership = &world->memberships[world->n_memberships];
  snprintf(from.name, sizeof from.name, "%u", world->n_memberships);
  for (uint32_t p = 0; p < world->n; p++)
    if (members >> p & 1) list[from.n++].fingerprint = fingerprint_of(p);
  *membership = (struct membership){.members = members};
  assert_ok(by_membership_create(&from, &membership->formed));
  world->n_memberships++;
  assert_true(world->n_memberships < MEMBERSHIPS);
}

static struct membership *of(struct world *world, const struct process *process) {
  return &world->memberships[process->membership];
}

/* Whether a call that these have begun can complete, or fail, on a process. */
static bool can_complete(struct world *world, const struct process *process, uint32_t begun) {
  return (of(world, process)->members & ~begun) == 0;
}

static bool can_fail(struct world *world, const struct process *process) {
  for (uint32_t p = 0; p < world->n; p++) {
    const struct process *other = &world->processes[p];
    bool left = other->dead || other->membership != process->membership || other->state == WAITS;
    if (of(world, process)->members >> p & 1 && left) return true;
  }
  return false;
}

static void begin(struct world *world, struct process *process, uint32_t bit) {
  assert_true(process->begun < CALLS);
  of(world, process)->begun[process->begun++] |= bit;
}

static void end_step(struct process *process, uint32_t made_in) {
  process->results[process->step++] = made_in;
  process->state = process->step == STEPS ? ENDED : COMPUTES;
}

/* The call of this step, as a new one. */
static void call(struct world *world, struct process *process, uint32_t bit) {
  process->at = process->membership;
  process->attempt = process->begun;
  process->has_begun = !can_fail(world, process) || below(world, 2); /* or it fails at once */
  process->state = process->has_begun ? REDUCES : WAITS;
  if (process->has_begun) begin(world, process, bit);
}

static void fail_call(struct process *process) {
  process->failed[process->n_failed++] = process->begun - 1;
  process->state = WAITS;
}

/* ---- a change of members */

static void keep_ledger(struct world *world, struct process *process, uint32_t p) {
  const struct by_membership *formed = of(world, process)->formed;
  struct by_fingerprint self = fingerprint_of(p);
  struct by_ledger ledger = {0};
  struct by_history history = {0};
  by_ledger_add_series(&ledger, &(struct by_ledger_series){.size = formed->n,
                                                           .rank = by_membership_find(formed, &self),
                                                           .begun = process->begun});
  for (uint32_t i = 0; i < process->n_failed; i++)
    by_history_add(&history, &(struct by_history_call){.number = process->failed[i], .outcome = BY_HISTORY_FAILED});
  by_ledger_add_history(&ledger, &history);
  assert_ok(by_ledger_pool_keep(&process->pool, &ledger, formed->number, &self));
  by_history_fini(&history);
  by_ledger_fini(&ledger);
  process->begun = process->n_failed = 0;
}

/* All that live and have not ended wait: they form the next one. */
static bool try_to_form(struct world *world) {
  uint32_t members = 0;
  for (uint32_t p = 0; p < world->n; p++) {
    const struct process *process = &world->processes[p];
    if (process->dead || process->state == ENDED) continue;
    if (process->state != WAITS) return false;
    members |= 1u << p;
  }
  if (!members) return false;
  form(world, members);
  for (uint32_t p = 0; p < world->n; p++) {
    struct process *process = &world->processes[p];
    if (!(members >> p & 1)) continue;
    keep_ledger(world, process, p);
    process->membership = world->n_memberships - 1;
    process->state = GATHERS;
  }
  return true;
}

/* It has the ledgers of all. */
static void take_all(struct world *world, struct process *process) {
  for (uint32_t p = 0; p < world->n; p++) {
    const struct process *other = &world->processes[p];
    uint8_t bytes[16384];
    struct by_writer writer;
    if (!(of(world, process)->members >> p & 1) || other == process) continue;
    by_writer_init(&writer, bytes, sizeof bytes);
    by_ledger_pool_write(&other->pool, &writer);
    assert_false(writer.failed);
    assert_ok(by_ledger_pool_take(&process->pool, bytes, writer.length));
  }
}

/* Whether the call that was interrupted is to be made again. */
static bool is_to_repeat(struct world *world, struct process *process) {
  struct by_interrupted_calls found;
  struct by_arena arena;
  by_arena_init(&arena);
  assert_ok(by_ledger_pool_compare(&process->pool, of(world, process)->formed, &arena, &found));
  enum by_verdict verdict = by_interrupted_calls_judge(&found, world->memberships[process->at].formed->number, 0,
                                                       process->attempt, process->has_begun);
  world->wrong |= verdict == BY_CALL_WITHDRAWN; /* there are no newcomers */
  bool completed = verdict == BY_CALL_HAS_RESULT;
  if (world->mistake == ALWAYS_ACCEPTS && process->tentative) completed = true;
  by_arena_fini(&arena);
  world->wrong |= completed && !process->tentative; /* it does not have the result */
  return !completed;
}

static void decide(struct world *world, struct process *process, uint32_t bit) {
  bool again = is_to_repeat(world, process);
  by_ledger_pool_drop(&process->pool);
  if (again)
    process->tentative = 0, call(world, process, bit);
  else
    end_step(process, process->tentative);
}

/* ---- one step of one process */

static void act(struct world *world, uint32_t p) {
  struct process *process = &world->processes[p];
  struct membership *membership = of(world, process);
  uint32_t bit = 1u << p, begun = process->begun ? membership->begun[process->begun - 1] : 0;
  bool completes = below(world, 3);
  switch (process->state) {
  case COMPUTES:
    process->tentative = 0;
    call(world, process, bit);
    break;
  case REDUCES:
    if (can_complete(world, process, begun) && completes) {
      process->tentative = process->membership + 1;
      if (world->mistake == RETURNS_AT_ONCE)
        end_step(process, process->tentative);
      else
        begin(world, process, bit), process->state = CONFIRMS;
    } else if (can_fail(world, process)) {
      fail_call(process);
    }
    break;
  case CONFIRMS:
    if (can_complete(world, process, begun) && completes)
      end_step(process, process->tentative);
    else if (can_fail(world, process))
      fail_call(process);
    break;
  case GATHERS:
    if (!(membership->gathering & bit)) {
      membership->gathering |= bit; /* it sends what it holds */
    } else if (can_complete(world, process, membership->gathering) && completes) {
      take_all(world, process);
      process->state = AGREES;
      membership->agreeing |= bit;
      if (world->mistake == DECIDES_AT_ONCE) decide(world, process, bit);
    } else if (can_fail(world, process)) {
      process->state = WAITS;
    }
    break;
  case AGREES:
    if (can_complete(world, process, membership->agreeing) && completes)
      decide(world, process, bit);
    else if (can_fail(world, process))
      process->state = WAITS;
    break;
  case WAITS:
  case ENDED: break;
  }
}

/* ---- whole runs */

static bool is_over(const struct world *world) {
  for (uint32_t p = 0; p < world->n; p++)
    if (!world->processes[p].dead && world->processes[p].state != ENDED) return false;
  return true;
}

/* Whether two processes have ended a call with sums that were made in different memberships. */
static bool differ(const struct world *world) {
  for (uint32_t step = 0; step < STEPS; step++) {
    uint32_t result = 0;
    for (uint32_t p = 0; p < world->n; p++) {
      const struct process *process = &world->processes[p];
      if (process->step <= step) continue;
      if (result && process->results[step] != result) return true;
      result = process->results[step];
    }
  }
  return false;
}

/* False: it hangs, or results differ. */
static bool run(uint64_t seed, enum mistake mistake, uint32_t *deaths, uint32_t *changes) {
  struct world *world = calloc(1, sizeof *world);
  assert_non_null(world);
  by_rng_init(&world->rng, seed);
  world->mistake = mistake;
  world->n = 2 + below(world, MOST - 1);
  uint32_t alive = world->n, turns = 0, rate = 20 + below(world, 150);
  form(world, (1u << world->n) - 1);
  while (!is_over(world) && turns++ < 20000) {
    uint32_t p = below(world, world->n);
    if (world->processes[p].dead) continue;
    if (alive > 1 && !below(world, rate)) {
      world->processes[p].dead = true;
      alive--;
      ++*deaths;
    } else if (!try_to_form(world)) {
      act(world, p);
    }
  }
  bool good = is_over(world) && !world->wrong && !differ(world);
  *changes += world->n_memberships - 1;
  for (uint32_t p = 0; p < world->n; p++) by_ledger_pool_drop(&world->processes[p].pool);
  for (uint32_t m = 0; m < world->n_memberships; m++) by_membership_destroy(world->memberships[m].formed);
  free(world);
  return good;
}

static void test_completion(void **state) {
  (void)state;
  uint32_t deaths = 0, changes = 0;
  uint64_t n = check_seeds(20000);
  for (uint64_t seed = 1; seed <= n; seed++)
    if (!run(seed, NO_MISTAKE, &deaths, &changes)) fail_msg("seed %llu: hangs or differs", (unsigned long long)seed);
  print_message("%u deaths, %u memberships\n", deaths, changes);
  assert_true(deaths > n && changes > n);
}

static void test_mistakes(void **state) {
  (void)state;
  for (enum mistake mistake = NO_MISTAKE + 1; mistake < MISTAKES; mistake++) {
    uint32_t deaths = 0, changes = 0;
    uint64_t seed = 1;
    while (seed < 20000 && run(seed, mistake, &deaths, &changes)) seed++;
    print_message("mistake %d is found by seed %llu\n", (int)mistake, (unsigned long long)seed);
    assert_true(seed < 20000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_completion), cmocka_unit_test(test_mistakes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
