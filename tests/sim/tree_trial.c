#include "tree_trial.h"

#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "sum_key.h"

/* --- the endpoints --- */

static void worker_emits(void *context, const struct by_fragment *packet) {
  unsigned *index = context;
  struct trial *trial = (struct trial *)(void *)((char *)(index - *index) - offsetof(struct trial, index));
  net_from_worker(&trial->net, *index, packet);
}

static void server_emits(void *context, const struct by_fragment *packet, int to) {
  struct trial *trial = context;
  net_from_server(&trial->net, packet, to);
}

static void aggregator_emits(void *context, const struct by_fragment *packet, enum by_aggregator_direction way) {
  unsigned *index = context;
  struct trial *trial =
      (struct trial *)(void *)((char *)(index - *index) - offsetof(struct trial, index_of_aggregator));
  net_from_aggregator(&trial->net, *index, packet, way == BY_AGGREGATOR_DOWN);
}

static void comes_to_worker(void *context, unsigned worker, const struct by_fragment *packet, size_t bytes) {
  struct trial *trial = context;
  by_worker_take(trial->workers[worker], packet, bytes, trial->net.now);
  if (!net_has_more(&trial->net, NET_SWITCHES + (int)worker))
    by_worker_progress(trial->workers[worker], trial->net.now);
}

static void comes_to_server(void *context, const struct by_fragment *packet, size_t bytes) {
  struct trial *trial = context;
  by_server_take(trial->server, packet, bytes);
}

static void comes_to_aggregator(void *context, unsigned which, const struct by_fragment *packet, size_t bytes) {
  struct trial *trial = context;
  by_aggregator_take(trial->aggregators[which], packet, bytes, trial->net.now);
}

static const unsigned char secret[BY_WORKER_SECRET] = "a secret of the job";

void trial_restart_aggregator(struct trial *trial, unsigned which) {
  const struct net *net = &trial->net;
  struct by_aggregator_config config = {.job = net->job,
                                        .key = net->key,
                                        .groups = net_groups(net),
                                        .slots = trial->slots,
                                        .lines = trial->lines,
                                        .exact = trial->exact,
                                        .secret = secret,
                                        .secret_bytes = sizeof secret,
                                        .keyed = trial->keyed,
                                        .emit = aggregator_emits,
                                        .context = &trial->index_of_aggregator[which]};
  trial->index_of_aggregator[which] = which;
  by_aggregator_destroy(trial->aggregators[which]);
  assert_ok(by_aggregator_create(&config, &trial->aggregators[which]));
}

void trial_make_ends(struct trial *trial) {
  struct by_server_path ways[NET_WORKERS] = {{0}};
  struct net *net = &trial->net;
  if (trial->keyed) {
    assert_ok(by_hop_key_of_tree(secret, sizeof secret, net->job, net->key, &trial->hop));
    net->hop = &trial->hop;
  }
  for (unsigned w = 0; w < net->workers; w++) {
    struct by_worker_config config = {.job = net->job,
                                      .key = net->key,
                                      .rank = w,
                                      .groups = net_groups(net),
                                      .slots = trial->slots,
                                      .lines = trial->lines,
                                      .exact = trial->exact,
                                      .keyed = trial->keyed,
                                      .timeout = 3 * BY_SECOND,
                                      .emit = worker_emits,
                                      .context = &trial->index[w]};
    trial->index[w] = w;
    config.hops = net_way(net, w, false, config.stack);
    net_below(net, w, config.below);
    ways[w].hops = net_way(net, w, true, ways[w].stack);
    memcpy(config.secret, secret, sizeof secret);
    assert_ok(by_worker_create(&config, &trial->workers[w]));
  }
  struct by_server_config config = {.job = net->job,
                                    .key = net->key,
                                    .groups = net_groups(net),
                                    .slots = trial->slots,
                                    .lines = trial->lines,
                                    .multicast = !trial->unicast,
                                    .exact = trial->exact,
                                    .secret = secret,
                                    .secret_bytes = sizeof secret,
                                    .keyed = trial->keyed,
                                    .paths = ways,
                                    .emit = server_emits,
                                    .context = trial};
  struct by_worker_set sets[NET_SWITCHES];
  if (net->floats) config.n_sets = net_sets(net, sets);
  config.sets = sets;
  assert_ok(by_server_create(&config, &trial->server));
  for (unsigned s = 0; s < net->switches; s++)
    if (net->at[s].off_path) trial_restart_aggregator(trial, s);
  net->context = trial;
  net->to_aggregator = comes_to_aggregator;
  net->to_worker = comes_to_worker;
  net->to_server = comes_to_server;
}

/* --- trees --- */

/* One rack is next to the server; of two, each has a router below a common one. */
static void make_racks(struct net *net, unsigned racks) {
  net->switches = racks > 1 ? 1 + 2 * racks : 2;
  if (racks > 1) net->at[0] = (struct net_switch){.above = NET_SERVER, .plain = true};
  for (unsigned r = 0; r < racks; r++) {
    unsigned router = racks > 1 ? 1 + 2 * r : 0;
    net->at[router] = (struct net_switch){.above = racks > 1 ? 0 : NET_SERVER, .plain = true};
    net->at[router + 1] =
        (struct net_switch){.above = NET_SERVER, .aggregates = true, .off_path = true, .beside = (int)router};
  }
  for (unsigned w = 0; w < net->workers; w++) net->worker_at[w] = racks > 1 ? (int)(2 + 2 * (w % racks)) : 1;
}

static void make_tree(struct net *net, enum tree tree, uint32_t slots) {
  static const int above[TREES][4] = {{0}, {NET_SERVER}, {NET_SERVER, 0, 0}, {NET_SERVER, 0, 1, 0}};
  static const unsigned switches[TREES] = {0, 1, 3, 4};
  if (tree == OFF_PATH || tree == TWO_RACKS) {
    make_racks(net, tree == OFF_PATH ? 1 : 2);
    return;
  }
  net->switches = switches[tree];
  for (unsigned s = 0; s < net->switches; s++)
    net->at[s] =
        (struct net_switch){.above = above[tree][s], .aggregates = tree != THREE_HOPS || s != 1, .slots = slots};
  for (unsigned w = 0; w < net->workers; w++) {
    if (tree == NO_SWITCH) net->worker_at[w] = NET_SERVER;
    if (tree == ONE_SWITCH) net->worker_at[w] = 0;
    if (tree == TWO_LEVELS) net->worker_at[w] = 1 + (int)(w % 2);
    if (tree == THREE_HOPS) net->worker_at[w] = 2 + (int)(w % 2);
  }
}

struct trial *trial_create(enum tree tree, unsigned workers, unsigned slots, uint64_t seed) {
  struct trial *trial = calloc(1, sizeof *trial);
  assert_non_null(trial);
  trial->slots = slots;
  trial->keyed = seed & 1;
  trial->lines = 4;
  trial->limit = 60 * BY_SECOND;
  trial->net.workers = workers;
  trial->net.rate = 1e8;
  trial->net.delay = 50000;
  trial->net.queue = 20000000;
  trial->net.mark = 5000000;
  trial->net.job = 7;
  trial->net.key = 3;
  net_init(&trial->net, seed);
  make_tree(&trial->net, tree, slots);
  return trial;
}

void trial_destroy(struct trial *trial) {
  for (unsigned w = 0; w < trial->net.workers; w++) by_worker_destroy(trial->workers[w]);
  for (unsigned s = 0; s < trial->net.switches; s++) by_aggregator_destroy(trial->aggregators[s]);
  by_server_destroy(trial->server);
  for (unsigned c = 0; c < trial->n_calls; c++) {
    for (unsigned w = 0; w < trial->net.workers; w++) {
      if (!trial->in_place) free(trial->calls[c].dst[w]);
      free(trial->calls[c].src[w]);
    }
  }
  net_fini(&trial->net);
  free(trial);
}
