/* Sums through trees of switches, whole, in memory: workers, switches and the server over links that lose, duplicate,
 * delay, reorder and corrupt packets, in virtual time. Every element of every worker is compared with the expected
 * result. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "cost.h"
#include "text.h"
#include "topology.h"
#include "tree_trial.h"

enum { LONG = 3 << 20 };

/* --- data --- */

static uint32_t some_float(struct by_rng *rng, unsigned block) {
  static const float special[] = {INFINITY, -INFINITY, NAN, 0x1.fffffep127F, -0x1.fffffep127F, 0x1p-149F, 0, -0.0F};
  float value = (float)(by_rng_unit(rng) - 0.5) * ldexpf(1, (int)(block * 7 % 40) - 20);
  if (block % 13 == 5 && by_rng_below(rng, 100) == 0) value = special[by_rng_below(rng, 8)];
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static void fill(struct by_rng *rng, const struct sum_call *call, bool plain, unsigned char *to) {
  size_t size = banyan_dtype_size(call->dtype);
  for (size_t i = 0; i < call->count; i++) {
    uint32_t bits = some_float(rng, (unsigned)(i / 200));
    if (call->dtype == BANYAN_BFLOAT16) bits >>= 16;
    if (call->dtype == BANYAN_FLOAT16) bits = (uint32_t)by_rng_next(rng) & 0xbfff;
    if (call->dtype == BANYAN_INT32)
      bits = (uint32_t)((int32_t)by_rng_next(rng) >> (i / 500 % 7 == 3 && !plain ? 0 : 8));
    memcpy(to + i * size, &bits, size);
  }
}

static void add_call(struct trial *trial, enum banyan_dtype dtype, size_t count) {
  struct sum_call *call = &trial->calls[trial->n_calls++];
  struct by_rng rng;
  by_rng_init(&rng, 1000 + trial->n_calls); /* the same numbers in every trial */
  call->dtype = dtype;
  call->count = count;
  for (unsigned w = 0; w < trial->net.workers; w++) {
    size_t bytes = count * banyan_dtype_size(dtype) + 1;
    call->src[w] = malloc(bytes);
    call->dst[w] = trial->in_place ? call->src[w] : calloc(bytes, 1);
    fill(&rng, call, trial->plain, call->src[w]);
  }
}

/* What the elements near one have in common. */
struct nearby {
  double largest;
  bool folded; /* some are not finite: a fragment's terms are added as floats */
};

/* Of elements from - to, as far as the call has them. */
static struct nearby look_around(const struct trial *trial, const struct sum_call *call,
                                 const unsigned char *const *src, size_t from, size_t to) {
  struct nearby near = {0};
  for (unsigned w = 0; w < trial->net.workers; w++)
    for (size_t k = from; k < to && k < call->count; k++) {
      float value;
      memcpy(&value, src[w] + k * 4, 4);
      if (!isfinite(value)) near.folded = true;
      if (isfinite(value)) near.largest = fmax(near.largest, (double)fabsf(value));
    }
  return near;
}

/* A sum of floats equals the sum of doubles within the quantisation error of the largest number nearby or, where a
 * fragment's terms are added as floats, within rounding. It is infinite or NaN where IEEE arithmetic requires it. In
 * exact mode it equals the sum of floats. */
static void check_float(const struct trial *trial, const struct sum_call *call, const unsigned char *const *src,
                        size_t i, struct nearby near) {
  double exact = 0;
  float got, terms[NET_WORKERS];
  for (unsigned w = 0; w < trial->net.workers; w++) {
    memcpy(&terms[w], src[w] + i * 4, 4);
    exact += (double)terms[w];
  }
  memcpy(&got, call->dst[0] + i * 4, 4);
  if (trial->exact) {
    float sum = net_sum(&trial->net, terms, NET_SERVER);
    if (!isnan(sum) && memcmp(&got, &sum, 4)) fail_msg("%a in place of %a", (double)got, (double)sum);
    assert_int_equal(isnan(got) != 0, isnan(sum) != 0);
    return;
  }
  double allowed = near.largest * (near.folded ? 0x1p-22 : 0x1.4p-24) * trial->net.workers + 0x1p-149;
  if (isnan(exact))
    assert_true(isnan(got));
  else if (isnan(got)) /* large terms have become an infinity, beside one of the other sign */
    assert_true(isinf(exact) && near.largest * trial->net.workers >= 0x1.fffffep127);
  else if (isinf(got))
    assert_true(fabs(exact) + allowed >= 0x1.fffffep127 && (got > 0) == (exact > 0));
  else
    assert_true(fabs((double)got - exact) <= allowed);
}

/* In trees of several groups scales may be 2^7 coarser, and not finer than 2^-44 of a fragment's before. */
static void check_floats(const struct trial *trial, const struct sum_call *call, const unsigned char *const *src) {
  bool groups = trial->net.workers > BY_FRAGMENT_WORKERS;
  size_t block = (size_t)trial->lines * 16;
  double floor = groups ? look_around(trial, call, src, 0, call->count).largest * 0x1p-43 : 0;
  for (size_t from = 0; from < call->count; from += block) {
    size_t margin = groups ? block : 0;
    struct nearby near = look_around(trial, call, src, from > margin ? from - margin : 0, from + block + margin);
    near.largest = fmax(groups ? near.largest * 0x1p8 : near.largest, floor);
    for (size_t i = from; i < from + block && i < call->count; i++) check_float(trial, call, src, i, near);
  }
}

static void check_call(const struct trial *trial, const struct sum_call *call, const unsigned char *const *src) {
  size_t size = banyan_dtype_size(call->dtype);
  for (unsigned w = 1; w < trial->net.workers; w++) assert_memory_equal(call->dst[w], call->dst[0], call->count * size);
  if (call->dtype == BANYAN_FLOAT32) check_floats(trial, call, src);
  for (size_t i = 0; i < call->count && call->dtype == BANYAN_INT32; i++) {
    uint32_t sum = 0, term;
    for (unsigned w = 0; w < trial->net.workers; w++) {
      memcpy(&term, src[w] + i * 4, 4);
      sum += term;
    }
    assert_memory_equal(call->dst[0] + i * 4, &sum, 4);
  }
}

static uint64_t hash_results(const struct trial *trial) {
  uint64_t hash = 14695981039346656037u;
  for (unsigned c = 0; c < trial->n_calls; c++) {
    const struct sum_call *call = &trial->calls[c];
    for (size_t i = 0; i < call->count * banyan_dtype_size(call->dtype); i++)
      hash = (hash ^ call->dst[0][i]) * 1099511628211u;
  }
  return hash;
}

/* --- a run --- */

static bool all_done(const struct trial *trial) {
  for (unsigned w = 0; w < trial->net.workers; w++)
    for (unsigned c = 0; c < trial->n_calls; c++)
      if (by_worker_done(trial->workers[w], trial->calls[c].number[w]) < trial->calls[c].count) return false;
  return true;
}

/* Handles the next event: a packet arrives, a deadline passes, or a worker gets its elements. */
static void advance(struct trial *trial) {
  uint64_t next = net_next(&trial->net), due = UINT64_MAX;
  unsigned worker = 0;
  for (unsigned w = 0; w < trial->net.workers; w++) {
    uint64_t at = by_worker_deadline(trial->workers[w]);
    if (trial->start[w] && trial->start[w] < at) at = trial->start[w];
    if (at < due) due = at, worker = w;
  }
  if (due == UINT64_MAX && next == UINT64_MAX) fail_msg("nothing is under way, at %g s", (double)trial->net.now / 1e9);
  if (next <= due) {
    net_step(&trial->net);
    return;
  }
  if (due > trial->net.now) trial->net.now = due;
  if (trial->start[worker] && trial->start[worker] <= trial->net.now) {
    trial->start[worker] = 0;
    for (unsigned c = 0; c < trial->n_calls; c++)
      by_worker_advance(trial->workers[worker], trial->calls[c].number[worker], trial->calls[c].count);
  }
  by_worker_progress(trial->workers[worker], trial->net.now);
}

static void run(struct trial *trial) {
  unsigned char *src[TRIAL_CALLS][NET_WORKERS];
  trial_make_ends(trial);
  for (unsigned c = 0; c < trial->n_calls; c++) {
    struct sum_call *call = &trial->calls[c];
    for (unsigned w = 0; w < trial->net.workers; w++) {
      size_t bytes = call->count * banyan_dtype_size(call->dtype);
      src[c][w] = malloc(bytes + 1);
      memcpy(src[c][w], call->src[w], bytes);
      assert_ok(by_worker_begin(trial->workers[w], call->dtype, BANYAN_SUM, call->src[w], call->dst[w], call->count,
                                &call->number[w]));
    }
  }
  for (unsigned w = 0; w < trial->net.workers; w++)
    if (!trial->start[w]) trial->start[w] = 1;
  while (!all_done(trial)) {
    if (trial->meddle) trial->meddle(trial);
    advance(trial);
    if (trial->net.now > trial->limit) fail_msg("not done at %g s", (double)trial->net.now / 1e9);
  }
  trial->ended = trial->net.now;
  for (unsigned c = 0; c < trial->n_calls; c++) {
    check_call(trial, &trial->calls[c], (const unsigned char *const *)src[c]);
    for (unsigned w = 0; w < trial->net.workers; w++) free(src[c][w]);
  }
  for (unsigned w = 0; w < trial->net.workers; w++) assert_ok(by_worker_state(trial->workers[w]));
}

/* --- the tests --- */

static void add_mixed_calls(struct trial *trial) {
  static const enum banyan_dtype dtypes[] = {BANYAN_FLOAT32, BANYAN_INT32, BANYAN_BFLOAT16, BANYAN_FLOAT16};
  static const size_t counts[] = {1, 5000, 64, 0, 20000, 777, 3000, 65, 12000};
  for (unsigned c = 0; c < 9; c++) add_call(trial, dtypes[(c + c / 4) % 4], counts[c]);
}

static const struct net_faults every_fault = {.lost = 0.02, .doubled = 0.02, .spoiled = 0.01, .late = 0.02};

static void restart_every_20_ms(struct trial *trial) {
  uint64_t times = trial->net.now / (20 * BY_MILLISECOND);
  static uint64_t before;
  if (times == before) return;
  before = times;
  unsigned which = (unsigned)(times % (trial->net.switches + 1));
  if (which < trial->net.switches && trial->net.at[which].off_path)
    trial_restart_aggregator(trial, which);
  else
    net_restart(&trial->net, which);
}

/* The result has the same bits in every tree, whatever happens on the way. Where switches add float32, as aggregators
 * always can, the bits depend only on the tree. */
static void test_same_bits_everywhere(void **state) {
  uint64_t wanted[3][TREES] = {{0}};
  for (uint64_t seed = 0; seed < 24; seed += check_share()) {
    for (enum tree tree = NO_SWITCH; tree < TREES; tree++) {
      struct trial *trial = trial_create(tree, 5, seed % 4 > 1 ? 32 : 7, seed);
      trial->exact = seed % 3 > 0;
      trial->net.floats = trial->exact && (seed % 3 == 2 || tree >= OFF_PATH);
      trial->unicast = seed % 5 == 2;
      trial->in_place = seed % 4 == 3;
      if (seed > 1) trial->net.faults = every_fault;
      if (seed > 12) trial->meddle = restart_every_20_ms;
      if (seed % 7 == 6) trial->net.at[1].slots = 3; /* fewer cells than slots */
      add_mixed_calls(trial);
      run(trial);
      uint64_t *hash = &wanted[seed % 3][trial->net.floats ? tree : 0];
      if (!*hash) *hash = hash_results(trial);
      if (hash_results(trial) != *hash) fail_msg("other bits: seed %d tree %d", (int)seed, (int)tree);
      if (seed == 2 && tree != NO_SWITCH) assert_true(by_server_counters(trial->server)->merged > 0);
      trial_destroy(trial);
    }
  }
}

/* --- more than 64 workers --- */

enum large { LARGE_NO_SWITCH, LARGE_TWO_LEVELS, LARGE_THREE_LEVELS, LARGE, DEEP = LARGE };

/* 128 workers next to the server; below four leaves of 32 each; or below eight leaves of 16, four of them below each of
 * two switches. Deep: two switches with 94 workers each, below three leaves or next to them, and one worker at the
 * root.
 */
static void make_large_tree(struct net *net, enum large tree) {
  static const unsigned middles[] = {0, 0, 2, 2}, leaves[] = {0, 4, 8, 6}, each[] = {0, 32, 16, 31};
  net->workers = 0;
  net->switches = tree == LARGE_NO_SWITCH ? 0 : 1 + middles[tree] + leaves[tree];
  for (unsigned s = 0; s < net->switches; s++) {
    unsigned leaf = s - 1 - middles[tree];
    int above = s == 0                                 ? NET_SERVER
                : s <= middles[tree] || !middles[tree] ? 0
                                                       : 1 + (int)(leaf * middles[tree] / leaves[tree]);
    net->at[s] = (struct net_switch){.above = above, .aggregates = true, .slots = NET_CELLS};
  }
  while (tree == LARGE_NO_SWITCH && net->workers < 128) net->worker_at[net->workers++] = NET_SERVER;
  for (unsigned leaf = 0; leaf < leaves[tree]; leaf++) {
    for (unsigned w = 0; w < each[tree]; w++) net->worker_at[net->workers++] = (int)(1 + middles[tree] + leaf);
    if (tree == DEEP && leaf % 3 == 2) net->worker_at[net->workers++] = 1 + (int)leaf / 3;
  }
  if (tree == DEEP) net->worker_at[net->workers++] = 0;
}

static uint64_t sum_of_large(enum large tree, unsigned mode, bool faults, struct by_server_counters *served) {
  struct trial *trial = trial_create(NO_SWITCH, 1, 24, 5 + faults);
  make_large_tree(&trial->net, tree);
  trial->lines = 10;
  trial->exact = mode > 0;
  trial->net.floats = mode == 2;
  trial->net.rate = 1e9;
  if (faults) trial->net.faults = (struct net_faults){.lost = 0.01, .doubled = 0.01, .spoiled = 0.002, .late = 0.01};
  add_call(trial, BANYAN_FLOAT32, 9000);
  add_call(trial, BANYAN_INT32, 2000);
  add_call(trial, BANYAN_BFLOAT16, 3000);
  add_call(trial, BANYAN_FLOAT32, 1);
  run(trial);
  uint64_t hash = hash_results(trial);
  if (served) *served = *by_server_counters(trial->server);
  trial_destroy(trial);
  return hash;
}

/* 128 and 189 workers: the same bits with losses and without, and in fixed point and exact mode in all trees. */
static void test_groups(void **state) {
  struct by_server_counters served;
  (void)state;
  for (unsigned mode = 0; mode < 3; mode++) {
    uint64_t wanted = 0;
    for (enum large tree = LARGE_NO_SWITCH; tree <= DEEP; tree++) {
      uint64_t clean = sum_of_large(tree, mode, false, &served), lossy = sum_of_large(tree, mode, true, NULL);
      bool same = mode < 2 && tree < LARGE;
      assert_true(clean == lossy);
      if (same && wanted) assert_true(clean == wanted);
      if (same) wanted = clean;
      /* One packet for all, but for numbers without fixed point. */
      if (mode != 1 && tree != LARGE_NO_SWITCH)
        assert_true(served.merged > 0 && served.terms - served.unmerged == served.merged);
    }
  }
}

/* Computes a long sum over two levels. Returns the seconds it took. */
static double long_sum(struct net_faults faults, void (*meddle)(struct trial *), uint64_t start_of_last, bool ordinary,
                       struct by_worker_counters *counters, struct by_server_counters *served) {
  struct trial *trial = trial_create(TWO_LEVELS, 4, 256, 99);
  trial->lines = 22;
  trial->plain = true;
  trial->net.faults = faults;
  trial->meddle = meddle;
  trial->start[3] = start_of_last;
  if (ordinary)
    for (unsigned s = 0; s < trial->net.switches; s++) trial->net.at[s].aggregates = false;
  add_call(trial, BANYAN_INT32, LONG);
  run(trial);
  double seconds = (double)trial->ended / 1e9;
  if (counters) *counters = *by_worker_counters(trial->workers[0]);
  if (served) *served = *by_server_counters(trial->server);
  trial_destroy(trial);
  return seconds;
}

static double goodput(double seconds) {
  return LONG * 4.0 * 8 / seconds / 1e6;
}

/* The links have 100 Mbit/s, of which 91.5 Mbit/s can be payload. */
static void test_goodput(void **state) {
  struct by_worker_counters counters;
  struct by_server_counters served;
  double clean = goodput(long_sum((struct net_faults){0}, NULL, 0, false, &counters, &served));
  print_message("goodput %.1f Mbit/s\n", clean);
  assert_true(clean > 84);
  assert_int_equal(counters.retransmitted, 0);
  assert_int_equal(served.merged, served.terms); /* the server's link carries one packet for all workers */
  double alone = goodput(long_sum((struct net_faults){0}, NULL, 0, true, &counters, &served));
  double lossy = goodput(long_sum((struct net_faults){.dropped = 0.01}, NULL, 0, false, &counters, &served));
  print_message("without merging %.1f, 1 %% lost at each switch %.1f Mbit/s, %d of %d sent again\n", alone, lossy,
                (int)counters.retransmitted, (int)counters.sent);
  assert_true(clean > 3 * alone);
  assert_true(lossy > 0.85 * clean);
}

/* Nodes have one letter: digits take part, upper case letters are switches. `links`: pairs of them, with spaces. */
static struct by_topology *make_topology(const char *hosts, const char *switches, const char *links) {
  struct by_topology *topology;
  struct by_text text;
  by_text_init(&text);
  by_text_add(&text, "{\"format\": \"banyan-topology 1\", \"nodes\": [\"0\", \"1\", \"2\", \"3\"");
  for (; *hosts; hosts++) by_text_add(&text, ", {\"name\": \"%c\", \"takes_part\": false}", *hosts);
  for (; *switches; switches++) by_text_add(&text, ", {\"name\": \"%c\", \"kind\": \"switch\"}", *switches);
  by_text_add(&text, "], \"links\": [");
  for (const char *at = links; *at; at += 2 + (at[2] == ' '))
    by_text_add(&text, "%s{\"a\": \"%c\", \"b\": \"%c\", \"capacity\": \"100m\", \"delay\": \"50us\"}",
                at > links ? ", " : "", at[0], at[1]);
  by_text_add(&text, "]}");
  assert_ok(by_topology_parse("links", by_text_get(&text), text.length, &topology));
  by_text_fini(&text);
  return topology;
}

/* Predicts a call, with hosts that take no time. */
static double predict(struct by_topology *topology, const char *tree, double bytes) {
  struct by_cost_rates rates = {.wire = 1538.0 / 1448, .cores = INFINITY, .grain = 32 << 10};
  struct by_plan *plan;
  struct by_cost cost;
  assert_ok(by_plan_parse("tree", tree, strlen(tree), &plan));
  assert_ok(by_cost_init(&cost, plan, plan->classes, topology, &rates));
  double seconds = by_cost_time(&cost, bytes);
  by_cost_fini(&cost);
  by_plan_destroy(plan);
  by_topology_destroy(topology);
  return seconds;
}

static double predict_two_levels(double bytes) {
  static const char tree[] =
      "{\"format\": \"banyan-plan 1\", \"ranks\": 4, \"vertices\": {\"d/0\": {\"kind\": \"server\"}, \"s\": {\"kind\": "
      "\"switch\"}, \"a\": {\"kind\": \"switch\"}, \"b\": {\"kind\": \"switch\"}}, \"trees\": [{\"share\": 1, "
      "\"root\": "
      "\"d/0\", \"up\": {\"s\": \"d/0\", \"a\": \"s\", \"b\": \"s\", \"0\": \"a\", \"1\": \"b\", \"2\": \"a\", \"3\": "
      "\"b\"}}]}";
  return predict(make_topology("d", "sab", "ds sa sb a0 b1 a2 b3"), tree, bytes);
}

static void test_predicted(void **state) {
  static const size_t counts[] = {2, 1 << 10, 16 << 10, 256 << 10, LONG};
  (void)state;
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    struct trial *trial = trial_create(TWO_LEVELS, 4, 512, 99);
    trial->lines = 22;
    trial->plain = true;
    add_call(trial, BANYAN_INT32, counts[i]);
    run(trial);
    double seconds = (double)trial->ended / 1e9, predicted = predict_two_levels(4.0 * (double)counts[i]);
    print_message("%zu bytes: %.3f ms, predicted %.3f ms\n", 4 * counts[i], 1e3 * seconds, 1e3 * predicted);
    if (fabs(predicted / seconds - 1) > 0.05) fail_msg("%zu bytes: %g s, not %g", 4 * counts[i], seconds, predicted);
    trial_destroy(trial);
  }
}

/* A worker that still computes receives few requests. */
static void test_straggler(void **state) {
  struct by_worker_counters counters;
  struct by_server_counters served;
  double seconds = long_sum((struct net_faults){0}, NULL, 2 * BY_SECOND, false, &counters, &served);
  assert_true(seconds < 3.4);
  assert_int_equal(counters.retransmitted, 0);
  assert_true(counters.probes > 0 && counters.probes < 256 * 20);
  assert_true(served.last[3] > served.results / 8);
}

static void restart_at_200_ms(struct trial *trial) {
  static bool done;
  if (trial->net.now < 200 * BY_MILLISECOND) done = false;
  if (trial->net.now < 200 * BY_MILLISECOND || done) return;
  done = true;
  for (unsigned s = 0; s < trial->net.switches; s++) net_restart(&trial->net, s);
}

static void leaf_gone_at_200_ms(struct trial *trial) {
  trial->net.at[1].gone = trial->net.now >= 200 * BY_MILLISECOND;
}

static void root_gone_at_200_ms(struct trial *trial) {
  trial->net.at[0].gone = trial->net.now >= 200 * BY_MILLISECOND;
}

static void leaf_lapsed_at_200_ms(struct trial *trial) {
  trial->net.at[1].lapsed = trial->net.now >= 200 * BY_MILLISECOND;
}

static void hole_at_200_ms(struct trial *trial) {
  trial->net.at[1].hole = trial->net.now >= 200 * BY_MILLISECOND;
}

/* The switches in this set are killed, and started again 100 ms later. */
static unsigned away;

static void away_at_200_ms(struct trial *trial) {
  bool gone = trial->net.now >= 200 * BY_MILLISECOND && trial->net.now < 300 * BY_MILLISECOND;
  for (unsigned s = 0; s < trial->net.switches; s++) {
    if (!(away >> s & 1) || trial->net.at[s].gone == gone) continue;
    trial->net.at[s].gone = gone;
    net_restart(&trial->net, s);
  }
}

/* Terms that passed the switches meanwhile are already at the server. Later terms wait for them in cells. */
static void test_switches_that_come_back(void **state) {
  struct by_worker_counters c;
  for (away = 1; away < 8; away++) {
    double seconds = long_sum((struct net_faults){0}, away_at_200_ms, 0, false, &c, NULL);
    print_message("away %u: %.2f s; %d probes %d again %d escalated\n", away, seconds, (int)c.probes,
                  (int)c.retransmitted, (int)c.escalated);
    assert_true(seconds < 2.5);
  }
}

static void hole_twice(struct trial *trial) {
  uint64_t ms = trial->net.now / BY_MILLISECOND;
  trial->net.at[1].hole = (ms >= 200 && ms < 700) || (ms >= 1200 && ms < 1700);
}

/* Workers go past a switch that swallows everything, until it answers; the second time as soon as the first. */
static void test_holes_that_end(void **state) {
  (void)state;
  struct by_worker_counters c;
  double seconds = long_sum((struct net_faults){0}, hole_twice, 0, false, &c, NULL);
  print_message("two holes of 0.5 s: %.2f s; %d probes %d again %d escalated, longest wait %.2f s\n", seconds,
                (int)c.probes, (int)c.retransmitted, (int)c.escalated, (double)c.longest / 1e9);
  assert_true(c.escalated > 0 && seconds < 3.5 && c.longest < 400 * BY_MILLISECOND);
}

static void test_switches_that_go(void **state) {
  struct by_worker_counters c;
  struct by_server_counters s;
  double clean = long_sum((struct net_faults){0}, NULL, 0, false, NULL, NULL);
  double restarted = long_sum((struct net_faults){0}, restart_at_200_ms, 0, false, NULL, NULL);
  print_message("clean %.2f s, restarted %.2f s\n", clean, restarted);
  assert_true(restarted < clean + 1);
  double leaf = long_sum((struct net_faults){0}, leaf_gone_at_200_ms, 0, false, &c, &s);
  print_message("leaf gone %.2f s; %d probes %d again %d escalated; %d repeated\n", leaf, (int)c.probes,
                (int)c.retransmitted, (int)c.escalated, (int)s.repeated);
  assert_true(leaf < 3 * clean + 2);
  double lapsed = long_sum((struct net_faults){0}, leaf_lapsed_at_200_ms, 0, false, &c, &s);
  print_message("leaf without a grant %.2f s; %d probes %d again %d escalated; %d repeated\n", lapsed, (int)c.probes,
                (int)c.retransmitted, (int)c.escalated, (int)s.repeated);
  assert_true(lapsed < 3 * clean + 2);
  double root = long_sum((struct net_faults){0}, root_gone_at_200_ms, 0, false, &c, &s);
  print_message("root gone %.2f s; %d probes %d again %d escalated; %d repeated\n", root, (int)c.probes,
                (int)c.retransmitted, (int)c.escalated, (int)s.repeated);
  assert_true(root < 4 * clean + 2);
  double hole = long_sum((struct net_faults){0}, hole_at_200_ms, 0, false, &c, &s);
  print_message("hole %.2f s; %d probes %d again %d escalated; %d repeated\n", hole, (int)c.probes,
                (int)c.retransmitted, (int)c.escalated, (int)s.repeated);
  assert_true(hole < 4 * clean + 3);
}

/* --- aggregators --- */

enum { SHORT = 1 << 20 };

static double off_path_sum(enum tree tree, struct net_faults faults, void (*meddle)(struct trial *),
                           struct by_server_counters *served) {
  struct trial *trial = trial_create(tree, 4, 256, 99);
  trial->lines = 22;
  trial->plain = true;
  trial->net.faults = faults;
  trial->meddle = meddle;
  add_call(trial, BANYAN_INT32, SHORT);
  run(trial);
  double seconds = (double)trial->ended / 1e9;
  if (served) *served = *by_server_counters(trial->server);
  trial_destroy(trial);
  return seconds;
}

/* What limits a sum is the aggregator's link, which carries each worker's terms and the results in, the sums and each
 * worker's results out. */
static void test_off_path(void **state) {
  static const char tree[] =
      "{\"format\": \"banyan-plan 1\", \"ranks\": 4, \"vertices\": {\"d/0\": {\"kind\": \"server\"}, \"e/0\": "
      "{\"kind\": \"server\"}}, \"trees\": [{\"share\": 1, \"root\": \"d/0\", \"up\": {\"e/0\": \"d/0\", \"0\": "
      "\"e/0\", \"1\": \"e/0\", \"2\": \"e/0\", \"3\": \"e/0\"}}]}";
  struct by_server_counters served;
  (void)state;
  double seconds = off_path_sum(OFF_PATH, (struct net_faults){0}, NULL, &served);
  double predicted = predict(make_topology("de", "s", "ds es 0s 1s 2s 3s"), tree, 4.0 * SHORT);
  double lossy = off_path_sum(OFF_PATH, (struct net_faults){.lost = 0.01}, NULL, NULL);
  double racks = off_path_sum(TWO_RACKS, (struct net_faults){0}, NULL, NULL);
  print_message("off path: %.3f s, predicted %.3f s; 1 %% lost on each link: %.3f s; two racks: %.3f s\n", seconds,
                predicted, lossy, racks);
  if (fabs(predicted / seconds - 1) > 0.1) fail_msg("%g s, not %g", seconds, predicted);
  assert_int_equal(served.merged, served.terms); /* one packet for all workers */
  assert_true(lossy < 1.5 * seconds);
  assert_true(racks < 0.75 * seconds); /* there are two terms in and two results out of each aggregator */
}

static void aggregator_lost_at_200_ms(struct trial *trial) {
  trial->net.at[1].lost = trial->net.now >= 200 * BY_MILLISECOND;
}

static void aggregator_gone_at_200_ms(struct trial *trial) {
  trial->net.at[1].gone = trial->net.now >= 200 * BY_MILLISECOND;
}

static void aggregator_away_at_200_ms(struct trial *trial) {
  bool gone = trial->net.now >= 200 * BY_MILLISECOND && trial->net.now < 300 * BY_MILLISECOND;
  if (trial->net.at[1].gone && !gone) trial_restart_aggregator(trial, 1);
  trial->net.at[1].gone = gone;
}

/* An aggregator that is lost is not needed: the server gets all workers' terms, and sends each its results. */
static void test_aggregators_that_go(void **state) {
  struct by_server_counters served;
  (void)state;
  double clean = off_path_sum(OFF_PATH, (struct net_faults){0}, NULL, NULL);
  double lost = off_path_sum(OFF_PATH, (struct net_faults){0}, aggregator_lost_at_200_ms, &served);
  assert_true(served.terms > served.results + served.merged);
  double gone = off_path_sum(OFF_PATH, (struct net_faults){0}, aggregator_gone_at_200_ms, NULL);
  double back = off_path_sum(OFF_PATH, (struct net_faults){0}, aggregator_away_at_200_ms, NULL);
  print_message("clean %.2f s, aggregator lost %.2f s, silent %.2f s, away for 0.1 s %.2f s\n", clean, lost, gone,
                back);
  assert_true(lost < clean + 1); /* four terms in, four results out: a fifth less than at the aggregator */
  assert_true(gone < 2 * clean + 2);
  assert_true(back < clean + 1);
}

/* Workers make different calls. All of them receive an error that names the calls. */
static void test_mismatch(void **state) {
  for (unsigned round = 0; round < 2 * TREES; round++) {
    struct trial *trial = trial_create((enum tree)(round / 2), 4, 16, 5);
    trial->exact = round % 2;
    float numbers[4][3000] = {{0}};
    uint32_t call;
    trial_make_ends(trial);
    for (unsigned w = 0; w < 4; w++) {
      size_t count = w == 2 ? 2999 : 3000;
      assert_ok(by_worker_begin(trial->workers[w], BANYAN_FLOAT32, BANYAN_SUM, numbers[w], numbers[w], count, &call));
      by_worker_advance(trial->workers[w], call, count);
      by_worker_progress(trial->workers[w], 1);
    }
    while (net_next(&trial->net) < 2 * BY_SECOND || by_worker_deadline(trial->workers[0]) < 2 * BY_SECOND) {
      if (net_next(&trial->net) == UINT64_MAX)
        trial->net.now += BY_MILLISECOND;
      else
        net_step(&trial->net);
      for (unsigned w = 0; w < 4; w++) by_worker_progress(trial->workers[w], trial->net.now);
    }
    for (unsigned w = 0; w < 4; w++) assert_status(by_worker_state(trial->workers[w]), BANYAN_ERR_MISMATCH);
    assert_status(by_worker_state(trial->workers[0]), BANYAN_ERR_MISMATCH);
    assert_string_equal(banyan_error_text(),
                        "worker 0 sums 3000 elements of f32 (sum) over tree 7 while 2 made another call");
    trial_destroy(trial);
  }
}

/* The error names a server that does not answer. */
static void test_silent_server(void **state) {
  struct trial *trial = trial_create(ONE_SWITCH, 2, 8, 5);
  float numbers[2][100] = {{0}};
  uint32_t call;
  trial_make_ends(trial);
  trial->net.faults.lost = 1;
  for (unsigned w = 0; w < 2; w++) {
    assert_ok(by_worker_begin(trial->workers[w], BANYAN_FLOAT32, BANYAN_SUM, numbers[w], numbers[w], 100, &call));
    by_worker_advance(trial->workers[w], call, 100);
    by_worker_progress(trial->workers[w], 1);
    for (uint64_t at; (at = by_worker_deadline(trial->workers[w])) != UINT64_MAX;) {
      assert_true(at < 4 * BY_SECOND);
      by_worker_progress(trial->workers[w], at);
    }
    assert_status(by_worker_state(trial->workers[w]), BANYAN_ERR_PEER_DEAD);
  }
  trial_destroy(trial);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_bits_everywhere),
      cmocka_unit_test(test_groups),
      cmocka_unit_test(test_goodput),
      cmocka_unit_test(test_predicted),
      cmocka_unit_test(test_straggler),
      cmocka_unit_test(test_switches_that_go),
      cmocka_unit_test(test_switches_that_come_back),
      cmocka_unit_test(test_holes_that_end),
      cmocka_unit_test(test_off_path),
      cmocka_unit_test(test_aggregators_that_go),
      cmocka_unit_test(test_mismatch),
      cmocka_unit_test(test_silent_server),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
