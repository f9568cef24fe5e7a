/* Streams of calls through switches in virtual time, how fast they are: over two levels whose links all lose packets,
 * where no call is to be much slower than the others, short ones, and over fast links. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "tree_trial.h"

enum { WORKERS = 4, CALLS = 12, COUNT = 1 << 20, SEEDS = 3 };
enum { MANY = 24, RACKS = 3 };

struct stream {
  struct trial *trial;
  size_t count;
  int32_t *src[MANY], *dst[MANY], *sum;
  unsigned done[MANY];
  bool active[MANY];
  uint32_t number[MANY];
  uint64_t begun[MANY], longest[CALLS]; /* of all workers, ns */
};

struct speed {
  double goodput, slowest; /* Mbit/s of a worker; the slowest call divided by the median */
  double questions;        /* of a worker, for each result */
  uint64_t escalated;      /* terms sent past switches */
};

static void fill(struct stream *stream) {
  stream->sum = calloc(stream->count, 4);
  for (unsigned w = 0; w < stream->trial->net.workers; w++) {
    stream->src[w] = malloc(stream->count * 4);
    stream->dst[w] = malloc(stream->count * 4);
    for (size_t i = 0; i < stream->count; i++) {
      stream->src[w][i] = (int32_t)((uint32_t)i * 2654435761u * (w + 1)) >> 8;
      stream->sum[i] += stream->src[w][i];
    }
  }
}

/* Ends the worker's call if it is over, and begins the next one. */
static void turn(struct stream *stream, unsigned w) {
  struct by_worker *worker = stream->trial->workers[w];
  uint64_t now = stream->trial->net.now;
  if (stream->active[w]) {
    if (by_worker_done(worker, stream->number[w]) < stream->count) return;
    assert_memory_equal(stream->dst[w], stream->sum, stream->count * 4);
    uint64_t *longest = &stream->longest[stream->done[w]++];
    if (now - stream->begun[w] > *longest) *longest = now - stream->begun[w];
    stream->active[w] = false;
  }
  if (stream->done[w] == CALLS) return;
  memset(stream->dst[w], 0, stream->count * 4);
  assert_ok(by_worker_begin(worker, BANYAN_INT32, BANYAN_SUM, stream->src[w], stream->dst[w], stream->count,
                            &stream->number[w]));
  by_worker_advance(worker, stream->number[w], stream->count);
  stream->begun[w] = now;
  stream->active[w] = true;
  by_worker_progress(worker, now);
}

static void step(struct trial *trial) {
  uint64_t next = net_next(&trial->net), due = UINT64_MAX;
  unsigned first = 0;
  for (unsigned w = 0; w < trial->net.workers; w++) {
    uint64_t at = by_worker_deadline(trial->workers[w]), resumes = net_resumes(&trial->net, NET_SWITCHES + (int)w);
    if (at < resumes) at = resumes;
    if (at < due) due = at, first = w;
  }
  if (due == UINT64_MAX && next == UINT64_MAX) fail_msg("nothing is under way, at %g s", (double)trial->net.now / 1e9);
  if (next <= due) {
    net_step(&trial->net);
    return;
  }
  if (due > trial->net.now) trial->net.now = due;
  if (net_resumes(&trial->net, NET_SWITCHES + (int)first) == trial->net.now)
    by_worker_progress(trial->workers[first], trial->net.now);
}

static int compare(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static struct speed run(struct trial *trial, size_t count) {
  struct stream stream = {.trial = trial, .count = count};
  unsigned workers = trial->net.workers;
  fill(&stream);
  trial_make_ends(trial);
  for (unsigned over = 0; over < workers;) {
    over = 0;
    for (unsigned w = 0; w < workers; w++) {
      turn(&stream, w);
      over += stream.done[w] == CALLS;
    }
    if (over < workers) step(trial);
    if (trial->net.now > trial->limit) fail_msg("not done at %g s", (double)trial->net.now / 1e9);
  }
  double seconds = (double)trial->net.now / 1e9;
  qsort(stream.longest, CALLS, sizeof *stream.longest, compare);
  struct speed speed = {.goodput = (double)count * 32 * CALLS / seconds / 1e6,
                        .slowest = (double)stream.longest[CALLS - 1] / (double)stream.longest[CALLS / 2]};
  for (unsigned w = 0; w < workers; w++) {
    const struct by_worker_counters *counters = by_worker_counters(trial->workers[w]);
    speed.questions += (double)counters->probes / (double)counters->results / workers;
    speed.escalated += counters->escalated;
  }
  for (unsigned w = 0; w < workers; w++) {
    free(stream.src[w]);
    free(stream.dst[w]);
  }
  free(stream.sum);
  trial_destroy(trial);
  return speed;
}

/* The mean goodput of some seeds, and the slowest of all calls. */
static struct speed measure(double lost, struct net_pauses pauses) {
  struct speed all = {0};
  uint64_t n = CHECK_FEWER ? 1 : check_seeds(SEEDS);
  for (uint64_t seed = 0; seed < n; seed++) {
    struct trial *trial = trial_create(TWO_LEVELS, WORKERS, 512, 1000 + seed);
    trial->lines = 22;
    trial->net.queue = 50000000;
    trial->net.faults.lost = lost;
    trial->net.pauses = pauses;
    struct speed one = run(trial, COUNT);
    all.goodput += one.goodput / (double)n;
    if (one.slowest > all.slowest) all.slowest = one.slowest;
  }
  print_message("%g %% lost on each link: %.1f Mbit/s, slowest call %.2f times the median\n", 100 * lost, all.goodput,
                all.slowest);
  return all;
}

static void test_losses_on_all_links(void **state) {
  (void)state;
  struct net_pauses at_once = {0};
  struct speed none = measure(0, at_once), few = measure(0.01, at_once), many = measure(0.05, at_once);
  assert_true(few.goodput > 0.9 * none.goodput && few.slowest < 2);
  assert_true(many.goodput > 0.6 * none.goodput && many.slowest < 2);
}

/* Processes wait for processors about as long as packets travel, as in labs. */
static void test_losses_beside_waits(void **state) {
  (void)state;
  struct net_pauses waits = {.run = 5e6, .wait = 1e6};
  struct speed none = measure(0, waits), many = measure(0.05, waits);
  assert_true(many.goodput > 0.55 * none.goodput && many.slowest < 2.5);
}

/* Nothing is asked about that is not lost, although calls are short: the last results of a burst take long. */
static void test_short_calls(void **state) {
  (void)state;
  struct trial *trial = trial_create(ONE_SWITCH, WORKERS, 512, 7);
  trial->lines = 22;
  struct speed speed = run(trial, 16384);
  print_message("64 KiB at one switch: %.1f Mbit/s\n", speed.goodput);
  assert_true(speed.goodput > 75);
}

/* 25 Gbit/s at a round trip of 100 us, with the slots that jobs request. */
static void test_fast_links(void **state) {
  (void)state;
  static const unsigned lines[] = {22, BY_FRAGMENT_LINES};
  for (int i = 0; i < 2; i++) {
    struct trial *trial = trial_create(TWO_LEVELS, WORKERS, 512, 7);
    trial->lines = lines[i];
    trial->net.rate = 25e9;
    trial->net.delay = 16600; /* six links there and back */
    struct speed speed = run(trial, 2 << 20);
    print_message("25 Gbit/s and 100 us, %u lines: %.1f Gbit/s\n", lines[i], speed.goodput / 1e3);
    double room = lines[i] * 64.0 / (lines[i] * 64.0 + 130);
    assert_true(speed.goodput > 0.9 * 25e3 * room);
  }
}

/* Where processes wait for processors much longer than packets travel, all ways are silent for longer than dead ones:
 * hardly anything is sent past the switches, and few questions are asked, since both would need processors. */
static void test_starved(void **state) {
  (void)state;
  struct trial *trial = trial_create(TWO_LEVELS, MANY, 512, 7);
  struct net *net = &trial->net;
  trial->lines = 22;
  trial->limit = 600 * BY_SECOND;
  net->switches = 1 + RACKS;
  for (int s = 1; s <= RACKS; s++) net->at[s] = (struct net_switch){.above = 0, .aggregates = true, .slots = 512};
  for (unsigned w = 0; w < MANY; w++) net->worker_at[w] = 1 + (int)(w % RACKS);
  net->queue = 50000000;
  net->mark = UINT64_MAX;
  net->pauses = (struct net_pauses){.run = 5e6, .wait = 100e6};
  struct speed speed = run(trial, 1 << 18);
  print_message("starved: %.2f Mbit/s, %.3f questions for each result, %d terms past switches\n", speed.goodput,
                speed.questions, (int)speed.escalated);
  assert_true(speed.escalated < 100); /* some are lost where queues overflow after a pause */
  assert_true(speed.questions < 0.1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_losses_on_all_links),
      cmocka_unit_test(test_losses_beside_waits),
      cmocka_unit_test(test_short_calls),
      cmocka_unit_test(test_fast_links),
      cmocka_unit_test(test_starved),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
