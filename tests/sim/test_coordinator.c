/* A tree of controllers starts what one coordinator would that hears of every submission at once: the same groups in
 * the same order, with the same notes between them, each before what starts after it was made. The root says nothing
 * until all that was submitted is known to it, so that there is one right answer; below it letters take their time. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "controllers.h"

enum { OPERATIONS = 30, SHAPES_OF_ONE = 2, ITERATIONS = 7, NEW = 100 /* priority of what has no bit yet */ };

/* An operation, in one of its shapes. */
struct item {
  struct by_operation what;
  uint32_t name, id, bit, starts; /* id, bit: plus one */
  uint64_t have;                  /* ranks */
  int32_t priority;
  bool ready;
};

/* The reference. */
struct coordinator {
  struct by_controller_config config;
  struct item items[OPERATIONS][SHAPES_OF_ONE];
  struct item *ready[OPERATIONS];
  uint32_t n_ready, n_ids, n_table;
  uint64_t under_way;
  uint32_t n_groups;
  uint64_t groups[MOST_LOG]; /* bytes of those that have started and not ended */
  bool stepped, renews;
  uint64_t step;
  uint32_t n_log;
  uint64_t log[MOST_LOG];
};

static uint64_t bytes_of(const struct item *item) {
  return by_operation_bytes(&item->what);
}

static bool starts_before(const struct item *a, const struct item *b) {
  return a->priority != b->priority ? a->priority > b->priority : a->bit > b->bit;
}

/* Neighbours "in memory". */
static uint32_t address_of(uint32_t operation) {
  return operation * 37 % OPERATIONS;
}

static const uint8_t *at_root; /* what cookies of the root's rank point into */

static bool comes_before(const void *a, const void *b) {
  return address_of((uint32_t)((const uint8_t *)a - at_root)) < address_of((uint32_t)((const uint8_t *)b - at_root));
}

static void receive(struct coordinator *c, struct item *item, uint32_t rank, uint32_t ranks) {
  item->have |= 1ull << rank;
  if (item->have != (1ull << ranks) - 1) return;
  item->have = 0;
  uint32_t at = c->n_ready++;
  for (; at && starts_before(item, c->ready[at - 1]); at--) c->ready[at] = c->ready[at - 1];
  c->ready[at] = item;
}

static struct item *take(struct coordinator *c, uint32_t at) {
  struct item *item = c->ready[at];
  c->n_ready--;
  memmove(&c->ready[at], &c->ready[at + 1], (c->n_ready - at) * sizeof(struct item *));
  return item;
}

static bool fuses(const struct coordinator *c, const struct item *a, const struct item *b) {
  uint64_t each = c->config.fuse_each ? c->config.fuse_each : UINT64_MAX;
  return a->what.dtype == b->what.dtype && bytes_of(a) <= each && bytes_of(b) <= each;
}

static void write_group(struct coordinator *c, struct item **group, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    struct item *item = group[i];
    if (!item->id) item->id = ++c->n_ids;
    item->starts++;
    if (!c->stepped && item->starts == 3) c->renews = true;
    c->log[c->n_log++] = c->step << 32 | (uint64_t)item->name << 1 | (i + 1 == n);
  }
}

static uint64_t charge(const struct coordinator *c, uint64_t bytes) {
  return bytes > c->config.window / 4 ? bytes : c->config.window / 4;
}

static void start_group(struct coordinator *c) {
  struct item *group[OPERATIONS] = {take(c, 0)}, *first = group[0];
  uint64_t bytes = bytes_of(first);
  uint32_t n = 1;
  for (uint32_t i = 0; i < c->n_ready;) {
    struct item *item = c->ready[i];
    if (!fuses(c, first, item) || bytes + bytes_of(item) > c->config.fuse) {
      i++;
      continue;
    }
    bytes += bytes_of(item);
    uint32_t at = n++;
    for (; at && c->config.before && address_of(item->name) < address_of(group[at - 1]->name); at--)
      group[at] = group[at - 1];
    group[at] = take(c, i);
  }
  write_group(c, group, n);
  c->under_way += charge(c, bytes);
  c->groups[c->n_groups++] = bytes;
}

static int by_id(const void *a, const void *b) {
  const struct item *x = *(struct item *const *)a, *y = *(struct item *const *)b;
  return x->id < y->id ? -1 : x->id > y->id;
}

static void renew(struct coordinator *c) {
  struct item *chosen[OPERATIONS * SHAPES_OF_ONE];
  uint32_t n = 0, enough = !c->stepped ? 3 : c->n_table ? 2 : 1;
  c->renews = false;
  for (uint32_t k = 0; k < OPERATIONS; k++)
    for (uint32_t s = 0; s < SHAPES_OF_ONE; s++)
      if (!c->items[k][s].bit && c->items[k][s].starts >= enough) chosen[n++] = &c->items[k][s];
  qsort(chosen, n, sizeof(struct item *), by_id);
  for (uint32_t i = 0; i < n; i++) chosen[i]->bit = ++c->n_table;
}

static void decide(struct coordinator *c, uint32_t note) {
  bool renews = c->renews;
  if (note) c->log[c->n_log++] = NOTED | note;
  while (c->n_ready && (!c->config.window || c->under_way < c->config.window)) start_group(c);
  if (renews || c->renews) renew(c);
}

/* ---- both */

struct pair {
  struct job *job;
  struct coordinator c;
  struct item *now[OPERATIONS]; /* of this iteration; NULL: it has none */
  uint32_t note;
};

static bool is_waiting(const struct pair *pair, uint32_t rank, uint32_t k) {
  return pair->now[k] && !(pair->job->submitted[k] >> rank & 1);
}

/* Some of what is left, each rank in an order of its own. Returns how much is left. */
static uint32_t submit_some(struct pair *pair, uint32_t share) {
  struct job *job = pair->job;
  uint32_t left = 0, first = below(job, OPERATIONS);
  for (uint32_t i = 0; i < OPERATIONS * job->n; i++) {
    uint32_t rank = below(job, job->n), k = (first + below(job, OPERATIONS)) % OPERATIONS;
    if (!is_waiting(pair, rank, k) || below(job, share)) continue;
    assert_ok(submit_as(job, rank, k, &pair->now[k]->what, pair->now[k]->priority));
    receive(&pair->c, pair->now[k], rank, job->n);
    if (below(job, 2)) flush(job, rank);
    if (below(job, 2) && job->under_way) deliver_one(job);
  }
  for (uint32_t rank = 0; rank < job->n; rank++)
    for (uint32_t k = 0; k < OPERATIONS; k++) left += is_waiting(pair, rank, k);
  return left;
}

static void end_some(struct pair *pair) {
  struct coordinator *c = &pair->c;
  uint32_t n = below(pair->job, c->n_groups + 1);
  for (; n; n--) {
    uint64_t bytes = c->groups[--c->n_groups];
    by_controller_ended(pair->job->members[pair->job->root].controller, bytes);
    c->under_way -= charge(c, bytes);
  }
}

static void compare(const struct pair *pair, uint64_t seed) {
  const struct member *root = &pair->job->members[pair->job->root];
  const struct coordinator *c = &pair->c;
  for (uint32_t i = 0; i < root->n_log && i < c->n_log; i++)
    if (root->log[i] != c->log[i])
      fail_msg("seed %llu: %u is %llx, must be %llx", (unsigned long long)seed, i, (unsigned long long)root->log[i],
               (unsigned long long)c->log[i]);
  assert_int_equal(root->n_log, c->n_log);
  expect_same_logs(pair->job);
}

/* All that was submitted becomes known to the root, which then speaks. */
static void decide_both(struct pair *pair, uint64_t seed) {
  struct job *job = pair->job;
  uint32_t note = below(job, 6) ? 0 : ++pair->note;
  if (note) by_controller_announce(job->members[job->root].controller, note);
  settle(job);
  job->holds = false;
  flush(job, job->root);
  settle(job);
  job->holds = true;
  decide(&pair->c, note);
  compare(pair, seed);
}

/* What has no bit yet is told apart by priority, as nobody says in which order the root hears of it. */
static void begin_iteration(struct pair *pair, bool steps) {
  struct job *job = pair->job;
  struct coordinator *c = &pair->c;
  c->step = job->step;
  if (steps) {
    for (uint32_t r = 0; r < job->n; r++) by_controller_step(job->members[r].controller, job->step);
    c->renews |= c->stepped;
    c->stepped = true;
    decide_both(pair, 0);
  }
  for (uint32_t k = 0; k < OPERATIONS; k++) {
    struct item *item = &c->items[k][below(job, 8) == 0];
    job->submitted[k] = 0;
    pair->now[k] = below(job, 5) ? item : NULL;
    item->priority = item->bit ? (int32_t)below(job, 3) - 1 : NEW + (int32_t)k;
  }
}

static void run_iteration(struct pair *pair, uint64_t seed) {
  struct job *job = pair->job;
  uint32_t left = 1;
  while (left || pair->c.n_ready) {
    left = submit_some(pair, 1 + below(job, 12));
    if (below(job, 2)) end_some(pair);
    decide_both(pair, seed);
  }
  for (uint32_t r = 0; r < job->n; r++) assert_int_equal(by_controller_waiting(job->members[r].controller), 0);
}

static struct pair *make_pair(uint64_t seed) {
  struct pair *pair = calloc(1, sizeof *pair);
  assert_non_null(pair);
  struct by_controller_config config = {.before = seed % 2 ? comes_before : NULL};
  if (seed % 3) config.fuse = 20000;
  if (seed % 5 == 0) config.fuse_each = 3000;
  if (seed % 4) config.window = 40000;
  pair->c.config = config;
  pair->job = make_job(seed, 1 + (uint32_t)(seed * 7 % 17), (enum shape)(seed % SHAPES), &config);
  pair->job->holds = true;
  at_root = pair->job->members[pair->job->root].state;
  for (uint32_t k = 0; k < OPERATIONS; k++)
    for (uint32_t s = 0; s < SHAPES_OF_ONE; s++) {
      struct item *item = &pair->c.items[k][s];
      item->name = k;
      item->what.dtype = below(pair->job, 4) ? BANYAN_FLOAT32 : BANYAN_FLOAT64;
      item->what.count = 1 + s + 2ull * below(pair->job, 1000);
    }
  return pair;
}

static void test_as_one_coordinator(void **state) {
  (void)state;
  for (uint64_t seed = check_first_seed(), n = check_seeds(1000); n; seed++, n--) {
    struct pair *pair = make_pair(seed);
    for (pair->job->step = 0; pair->job->step < ITERATIONS; pair->job->step++) {
      begin_iteration(pair, seed % 7 > 0);
      run_iteration(pair, seed);
    }
    assert_int_equal(by_controller_table(pair->job->members[pair->job->root].controller), pair->c.n_table);
    free_job(pair->job);
    free(pair);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_as_one_coordinator),
  };
  return cmocka_run_group_tests_name("coordinator", tests, NULL, NULL);
}
