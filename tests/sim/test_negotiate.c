/* Whole controllers of many ranks in memory. Each rank submits the same operations in its own order, and messages are
 * delayed. All ranks must start the same groups in the same order, each operation once all ranks have submitted it.
 *
 * A tree of controllers must also start what a single coordinator would start that receives every submission at once,
 * with the same notes between the groups. In this comparison the root sends nothing until it knows all submissions, so
 * that there is one right answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "controllers.h"

enum { STEPS = 6 };

/* All ranks submit operations first .. last - 1, each in its own order, while messages travel. */
static void run_step(struct job *job, uint32_t first, uint32_t last, uint64_t count) {
  uint32_t n = last - first, left = n * job->n;
  static uint32_t todo[MOST_RANKS][MOST_OPERATIONS];
  uint32_t n_todo[MOST_RANKS];
  for (uint32_t i = 0; i < job->n; i++) {
    n_todo[i] = n;
    for (uint32_t k = 0; k < n; k++) todo[i][k] = first + k;
  }
  for (uint32_t k = first; k < last; k++) job->submitted[k] = 0;
  while (left) {
    uint32_t rank = below(job, job->n), plan_switches = below(job, 4);
    if (n_todo[rank]) {
      uint32_t pick = below(job, n_todo[rank]), operation = todo[rank][pick];
      todo[rank][pick] = todo[rank][--n_todo[rank]];
      assert_int_equal(submit(job, rank, operation, count), BANYAN_OK);
      left--;
      if (below(job, 2)) flush(job, rank);
    }
    while (plan_switches-- && job->under_way) deliver_one(job);
  }
  settle(job);
  for (uint32_t i = 0; i < job->n; i++) {
    for (uint32_t k = first; k < last; k++) assert_int_equal(job->members[i].state[k], STARTED);
    assert_int_equal(job->members[i].controller->waiting, 0);
  }
  expect_same_logs(job);
}

/* --- tests --- */

static void test_steps(void **state) {
  (void)state;
  for (int seed = 1; seed <= (int)check_seeds(200); seed++) {
    struct by_controller_config config = {.fuse = seed % 3 ? 10000 : 0, .fuse_each = seed % 7 ? 0 : 100};
    if (seed % 4 >= 2) config.window = 40000;
    uint32_t n = 1 + (uint32_t)seed % 40, operations = 5 + (uint32_t)seed % 60;
    struct job *job = make_job((uint64_t)seed, n, (enum shape)(seed % SHAPES), &config);
    job->moves = seed % 2;
    job->ends = config.window > 0;
    for (job->step = 0; job->step < STEPS; job->step++) {
      for (uint32_t i = 0; i < n && seed % 5; i++) by_controller_step(job->members[i].controller, job->step);
      run_step(job, 0, operations, 1000);
      /* The middle of the training has new operations, and later they have other shapes. */
      if (job->step >= 2) run_step(job, operations, operations + 3, job->step >= 4 ? 77 : 78);
    }
    for (uint32_t i = 0; i < n; i++) {
      const struct by_controller_counters *counters = by_controller_counters(job->members[i].controller);
      assert_true(counters->by_bit >= operations * (STEPS - 3));
      assert_true(job->members[i].controller->n_table >= operations);
      assert_int_equal(counters->malformed, 0);
      assert_true(!job->moves || counters->trees > 0);
      assert_int_equal(counters->trees, by_controller_counters(job->members[0].controller)->trees);
      if (config.fuse && !config.fuse_each && n > 1) assert_true(counters->groups < counters->started);
      if (config.fuse_each) assert_int_equal(counters->groups, counters->started); /* all exceed the limit */
    }
    free_job(job);
  }
}

/* A controller with more children than a word has bits, before and after others. */
static void test_many_children(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 2; seed++) {
    const struct by_controller_config config = {.fuse = 10000};
    struct job *job = make_job(seed, 70, STAR, &config);
    assert_true(job->members[job->root].controller->operations.have_words == 2);
    job->moves = true;
    for (job->step = 0; job->step < 3; job->step++) run_step(job, 0, 8, 1000);
    assert_true(by_controller_counters(job->members[0].controller)->trees > 0);
    free_job(job);
  }
}

/* Ranks submit operation 0 while messages travel; odd ranks submit another operation of the same name. As soon as a
 * rank's submission is refused, it submits the right operation. */
static void submit_oddly(struct job *job, uint64_t odd) {
  bool differ = odd && odd != (1ull << job->n) - 1;
  uint64_t again = 0;
  uint32_t left = job->n;
  for (uint32_t i = 0; i < job->n; i++) job->members[i].state[0] = 0;
  while (left) {
    uint32_t rank = below(job, job->n), plan_switches = below(job, 4);
    uint8_t *state = &job->members[rank].state[0];
    if (*state == 0) {
      enum banyan_status status = submit(job, rank, 0, odd >> rank & 1 ? 7 : 1000);
      assert_true(status == BANYAN_OK || (differ && status == BANYAN_ERR_MISMATCH));
      left -= !differ;
    } else if (*state == REFUSED) {
      assert_int_equal(again >> rank & 1, 0);
      again |= 1ull << rank;
      assert_int_equal(submit(job, rank, 0, 1000), BANYAN_OK);
      left--;
    }
    flush(job, rank);
    while (plan_switches-- && job->under_way) deliver_one(job);
  }
}

/* Some ranks submit something else under a name. No rank starts it, every rank receives one error, and the next
 * submission of the name works. */
static void test_mismatch(void **state) {
  (void)state;
  uint32_t refused = 0;
  for (int seed = 1; seed <= (int)check_seeds(300); seed++) {
    struct by_controller_config config = {0};
    uint32_t n = 2 + (uint32_t)seed % 30;
    struct job *job = make_job((uint64_t)seed, n, (enum shape)(seed % SHAPES), &config);
    job->moves = seed % 2;
    for (job->step = 0; job->step < STEPS; job->step++) {
      for (uint32_t i = 0; i < n; i++) by_controller_step(job->members[i].controller, job->step);
      run_step(job, 0, 5, 1000);
      uint64_t odd = by_rng_next(&job->rng) & ((1ull << n) - 1);
      job->submitted[0] = 0;
      submit_oddly(job, odd);
      settle(job);
      for (uint32_t i = 0; i < n; i++) assert_int_equal(job->members[i].state[0], STARTED);
      refused += by_controller_counters(job->members[0].controller)->refused > 0;
      expect_same_logs(job);
    }
    free_job(job);
  }
  assert_true(refused > 0);
}

/* Among operations that are ready at once, the one that came last in the first iteration starts first. Urgent
 * operations start before all others. */
static void test_order(void **state) {
  (void)state;
  struct by_controller_config config = {0};
  struct job *job = make_job(5, 6, RANDOM_TREE, &config);
  for (job->step = 0; job->step < 3; job->step++) {
    uint32_t first = job->members[0].n_log;
    for (uint32_t i = 0; i < job->n; i++) by_controller_step(job->members[i].controller, job->step);
    for (uint32_t k = 0; k < 10; k++) {
      struct by_operation what = usual_operation;
      char name[32];
      snprintf(name, sizeof name, "gradient %u", k);
      job->submitted[k] = first_ranks(job->n);
      for (uint32_t i = 0; i < job->n; i++) {
        uint8_t *at = &job->members[i].state[k];
        *at = WAITS;
        assert_ok(by_controller_submit(job->members[i].controller, name, &what, job->step == 2 && k == 4, at, 1));
      }
    }
    settle(job);
    for (uint32_t k = 0; k < 10; k++) {
      uint32_t reversed = 9 - k, urgent = k == 0 ? 4 : 10 - k <= 4 ? 9 - k : 10 - k;
      uint32_t wanted = job->step == 0 ? k : job->step == 1 ? reversed : urgent;
      assert_int_equal(job->members[0].log[first + k] >> 1 & 0x7fffffff, wanted);
    }
    expect_same_logs(job);
  }
  free_job(job);
}

/* A rank submits nothing. The root reports which rank it is and what it lacks. */
static void test_stall(void **state) {
  (void)state;
  for (int seed = 1; seed <= (int)check_seeds(200); seed++) {
    struct by_controller_config config = {.timeout = 1000000000};
    uint32_t n = 2 + (uint32_t)seed % 40;
    struct job *job = make_job((uint64_t)seed, n, (enum shape)(seed % SHAPES), &config);
    uint32_t quiet = below(job, n), also = seed % 2 ? quiet : below(job, n);
    run_step(job, 0, 5, 1000);
    job->submitted[3] = 0;
    for (uint32_t i = 0; i < n; i++)
      if (i != quiet && i != also) assert_int_equal(submit(job, i, 3, 1000), BANYAN_OK);
    settle(job);
    for (uint32_t i = 0; i < n; i++) by_controller_check(job->members[i].controller, job->now + 500000000);
    settle(job);
    assert_int_equal(job->stalls, 0);
    for (uint32_t i = 0; i < n; i++) by_controller_check(job->members[i].controller, job->now + 1000000000);
    settle(job);
    assert_int_equal(job->stalls, n > 1 && (n > 2 || quiet == also) ? 1 : 0);
    if (job->stalls) {
      assert_string_equal(job->stalled, "gradient 3");
      uint32_t lacking = 0;
      for (uint32_t k = 0; k < job->stall.n_ranges; k++) {
        struct by_rank_range range = job->stall.ranges[k];
        for (uint32_t r = range.first; r <= range.last; r++, lacking++) assert_true(r == quiet || r == also);
      }
      assert_int_equal(lacking, quiet == also ? 1 : 2);
      assert_int_equal(job->stall.silent, 0);
      if (quiet == also) assert_int_equal(job->stall.top, quiet);
    }
    assert_int_equal(submit(job, quiet, 3, 1000), BANYAN_OK); /* the rank submits late */
    if (also != quiet) assert_int_equal(submit(job, also, 3, 1000), BANYAN_OK);
    settle(job);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(job->members[i].state[3], STARTED);
    free_job(job);
  }
}

/* Controllers at the far end are dead. The root reports how many have not answered. */
static void test_silent(void **state) {
  (void)state;
  struct by_controller_config config = {.timeout = 1000};
  struct job *job = make_job(1, 3, STAR, &config);
  uint32_t quiet = (job->root + 1) % 3, other = (job->root + 2) % 3;
  assert_int_equal(submit(job, job->root, 0, 1000), BANYAN_OK);
  assert_int_equal(submit(job, other, 0, 1000), BANYAN_OK);
  settle(job);
  by_controller_check(job->members[job->root].controller, 5000);
  flush(job, job->root);
  for (struct message **lost = &job->queues[job->root][quiet]; *lost;) {
    struct message *next = (*lost)->next;
    free(*lost);
    *lost = next;
    job->under_way--;
  }
  settle(job);
  assert_int_equal(job->stalls, 0);
  uint64_t until = by_controller_deadline(job->members[job->root].controller);
  assert_true(until < UINT64_MAX);
  by_controller_check(job->members[job->root].controller, 5000 + 1000000000);
  assert_int_equal(job->stalls, 1);
  assert_int_equal(job->stall.silent, 1);
  assert_int_equal(job->stall.n_ranges, 1);
  assert_int_equal(job->stall.ranges[0].first, quiet);
  assert_int_equal(job->stall.ranges[0].last, quiet);
  free_job(job);
}

/* Counts the root's messages when all ranks are ready at once: one from each child and one to each child. No message is
 * sent when no rank has anything new. */
static void test_control_messages(void **state) {
  (void)state;
  struct by_controller_config config = {0};
  struct job *job = make_job(7, 40, RANDOM_TREE, &config);
  uint32_t children = 0;
  for (job->step = 0; job->step < 4; job->step++) {
    for (uint32_t i = 0; i < job->n; i++) by_controller_step(job->members[i].controller, job->step);
    for (uint32_t k = 0; k < 60; k++) job->submitted[k] = first_ranks(job->n);
    job->handled = 0;
    for (uint32_t i = 0; i < job->n; i++)
      for (uint32_t k = 0; k < 60; k++) assert_int_equal(submit(job, i, (k * 7 + i) % 60, 1000), BANYAN_OK);
    /* The leaves come first, as the ranks would wake each other. */
    settle(job);
    if (job->step == 0) children = (uint32_t)job->handled;
    for (uint32_t i = 0; i < job->n; i++) flush(job, i);
    assert_int_equal(job->under_way, 0);
  }
  assert_true(children > 0);
  for (uint32_t i = 0; i < job->n; i++) {
    const struct by_controller_counters *counters = by_controller_counters(job->members[i].controller);
    uint64_t before = counters->messages_up + counters->messages_down;
    by_controller_check(job->members[i].controller, 1ull << 50);
    flush(job, i);
    assert_int_equal(counters->messages_up + counters->messages_down, before);
  }
  free_job(job);
}

/* Names that never come again do not fill the memory. */
static void test_forgetting(void **state) {
  (void)state;
  struct by_controller_config config = {0};
  struct job *job = make_job(11, 3, STAR, &config);
  for (uint32_t i = 0; i < 3; i++) by_controller_step(job->members[i].controller, 0);
  for (uint32_t round = 0; round < 20000; round++) {
    char name[32];
    if (round % 100 == 0)
      for (uint32_t i = 0; i < 3; i++) by_controller_step(job->members[i].controller, 1 + round / 100);
    snprintf(name, sizeof name, "gradient of step %u", round);
    job->submitted[0] = 7;
    for (uint32_t i = 0; i < 3; i++) {
      job->members[i].state[0] = WAITS;
      job->members[i].n_log = 0;
      assert_ok(
          by_controller_submit(job->members[i].controller, name, &usual_operation, 0, &job->members[i].state[0], 1));
    }
    settle(job);
    assert_int_equal(job->members[0].state[0], STARTED);
  }
  for (uint32_t i = 0; i < 3; i++) {
    assert_in_range(job->members[i].controller->operations.n, 1, 12000);
    assert_in_range(job->members[i].controller->n_table, 0, 100);
  }
  free_job(job);
}

static void test_misuse(void **state) {
  (void)state;
  struct by_controller_config config = {0};
  struct job *job = make_job(3, 2, STAR, &config);
  struct by_controller *c = job->members[0].controller;
  char longest[BY_OPERATION_NAME + 2];
  memset(longest, 'x', sizeof longest);
  longest[sizeof longest - 1] = 0;
  assert_int_equal(by_controller_submit(c, "", &usual_operation, 0, NULL, 0), BANYAN_ERR_ARGUMENT);
  assert_int_equal(by_controller_submit(c, "a\nb", &usual_operation, 0, NULL, 0), BANYAN_ERR_ARGUMENT);
  assert_int_equal(by_controller_submit(c, longest, &usual_operation, 0, NULL, 0), BANYAN_ERR_ARGUMENT);
  assert_int_equal(submit(job, 0, 1, 10), BANYAN_OK);
  assert_int_equal(submit(job, 0, 1, 10), BANYAN_ERR_ARGUMENT);
  assert_int_equal(submit(job, 0, 1, 11), BANYAN_ERR_ARGUMENT);
  free_job(job);
}

/* Every prefix of a message, and every message with a changed byte, is rejected or is valid. None does harm. */
static void test_control_messages_broken(void **state) {
  (void)state;
  uint64_t refused = 0;
  for (int seed = 1; seed <= (int)check_seeds(60); seed++) {
    struct by_controller_config config = {0};
    struct job *job = make_job((uint64_t)seed, 4, (enum shape)(seed % SHAPES), &config);
    run_step(job, 0, 4, 1000);
    for (uint32_t i = 0; i < job->n; i++)
      for (uint32_t k = 0; k < 4; k++) {
        job->submitted[k] = first_ranks(job->n);
        assert_int_equal(submit(job, i, k, 1000), BANYAN_OK);
      }
    for (uint32_t i = 0; i < job->n; i++) flush(job, i);
    for (uint32_t i = 0; i < job->n; i++)
      for (uint32_t k = 0; k < job->n; k++) {
        struct message *message = job->queues[i][k];
        if (!message) continue;
        for (size_t cut = 0; cut < message->bytes; cut++)
          refused +=
              by_controller_take(job->members[k].controller, i, message->data, cut, job->now) == BANYAN_ERR_PROTOCOL;
        assert_true(by_controller_counters(job->members[k].controller)->malformed >= message->bytes);
      }
    settle(job); /* the truncated messages have changed nothing */
    for (uint32_t i = 0; i < job->n; i++)
      for (uint32_t k = 0; k < 4; k++) assert_int_equal(job->members[i].state[k], STARTED);
    free_job(job);
  }
  assert_true(refused > 0);
}

enum { OPERATIONS = 30, SHAPES_OF_ONE = 2, ITERATIONS = 7, NEW = 100 /* priority of operations without a bit */ };

/* An operation in one of its shapes. */
struct item {
  struct by_operation what;
  uint32_t name, id, bit, starts; /* id, bit: plus one */
  uint64_t have;                  /* ranks that have submitted it */
  int32_t priority;
  bool ready;
};

/* The reference coordinator. */
struct coordinator {
  struct by_controller_config config;
  struct item items[OPERATIONS][SHAPES_OF_ONE];
  struct item *ready[OPERATIONS];
  uint32_t n_ready, n_ids, n_table;
  uint64_t under_way;
  uint32_t n_groups;
  uint64_t groups[MOST_LOG]; /* bytes of the groups that have started and not ended */
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

/* Returns an address. Neighbouring operations have neighbouring addresses. */
static uint32_t address_of(uint32_t operation) {
  return operation * 37 % OPERATIONS;
}

static const uint8_t *at_root; /* what the cookies of the root's rank point to */

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

/* ---- the tree of controllers and the coordinator */

struct pair {
  struct job *job;
  struct coordinator c;
  struct item *now[OPERATIONS]; /* operations of this iteration; NULL: absent */
  uint32_t note;
};

static bool is_waiting(const struct pair *pair, uint32_t rank, uint32_t k) {
  return pair->now[k] && !(pair->job->submitted[k] >> rank & 1);
}

/* Submits some of the remaining operations, on each rank in its own order. Returns how many remain. */
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

/* Lets the root learn of all submissions and then send its decision. */
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

/* Operations without a bit get different priorities, as the order in which the root learns of them is open. */
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
  for (uint32_t r = 0; r < job->n; r++) assert_int_equal(job->members[r].controller->waiting, 0);
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
    assert_int_equal(pair->job->members[pair->job->root].controller->n_table, pair->c.n_table);
    free_job(pair->job);
    free(pair);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_steps),
      cmocka_unit_test(test_many_children),
      cmocka_unit_test(test_mismatch),
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_stall),
      cmocka_unit_test(test_silent),
      cmocka_unit_test(test_control_messages),
      cmocka_unit_test(test_misuse),
      cmocka_unit_test(test_forgetting),
      cmocka_unit_test(test_control_messages_broken),
      cmocka_unit_test(test_as_one_coordinator),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
