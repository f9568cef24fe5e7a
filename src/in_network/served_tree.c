/* A tree that this process serves over UDP, as its server or as one of its aggregators. */
#include "in_network.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "server.h"
#include "sum_key.h"

struct by_served_tree {
  struct by_udp *udp;
  const struct by_tree_message *message;
  bool listens;
  /* Either the server or the aggregator is set. */
  struct by_server *server;
  struct by_aggregator *aggregator;
  struct by_udp_peer *ways[BY_TREE_WORKERS]; /* Paths to workers; an aggregator has one path, to the server. */
  struct by_udp_peer *vias[BY_FRAGMENT_PORTS];
  bool lost[BY_FRAGMENT_PORTS]; /* Whether the aggregator at each port is lost. */
  struct by_hop_key key;        /* The key of the hop, if the tree is keyed. */
};

/* ---- packets out */

/* Lends a result to all peers: its memory stays until all have sent it. */
static void lend_to_all(const struct by_served_tree *tree, const struct by_fragment *packet) {
  const struct by_tree_message *message = tree->message;
  bool lost = false;
  for (uint32_t i = 0; i < message->n_vias; i++) {
    lost |= tree->lost[i];
    if (!tree->lost[i]) by_udp_lend(tree->vias[i], packet);
  }
  for (uint32_t w = 0; lost && w < by_workers_of(&message->groups); w++)
    if (message->ways[w].via < message->n_vias && tree->lost[message->ways[w].via]) by_udp_lend(tree->ways[w], packet);
}

static void server_emits(void *context, const struct by_fragment *packet, int to) {
  const struct by_served_tree *tree = context;
  if (to == BY_SERVER_ALL)
    lend_to_all(tree, packet);
  else
    by_udp_send(tree->ways[to], packet);
}

static void aggregator_emits(void *context, const struct by_fragment *packet, enum by_aggregator_direction way) {
  const struct by_served_tree *tree = context;
  if (way == BY_AGGREGATOR_UP) by_udp_send(tree->ways[0], packet);
  for (uint32_t i = 0; way == BY_AGGREGATOR_DOWN && i < tree->message->n_vias; i++) by_udp_send(tree->vias[i], packet);
}

/* ---- packets in */

static void take(void *context, const struct by_fragment *packet, size_t bytes, uint64_t now) {
  const struct by_served_tree *tree = context;
  if (tree->server)
    by_server_take(tree->server, packet, bytes);
  else
    by_aggregator_take(tree->aggregator, packet, bytes, now);
}

/* ---- its beginning and end */

static enum banyan_status make_server(struct by_served_tree *tree) {
  const struct by_tree_message *message = tree->message;
  struct by_server_path ways[BY_TREE_WORKERS];
  for (uint32_t w = 0; w < by_workers_of(&message->groups); w++) {
    ways[w] = (struct by_server_path){.hops = message->ways[w].hops, .alone = message->ways[w].via == BY_TREE_ALONE};
    memcpy(ways[w].stack, message->ways[w].stack, sizeof ways[w].stack);
  }
  struct by_server_config config = {.job = message->job,
                                    .key = message->key,
                                    .groups = message->groups,
                                    .slots = message->slots,
                                    .lines = message->lines,
                                    .multicast = message->n_vias > 0,
                                    .exact = message->exact,
                                    .n_sets = message->n_sets,
                                    .sets = message->sets,
                                    .secret = message->secret,
                                    .secret_bytes = sizeof message->secret,
                                    .keyed = message->keyed,
                                    .paths = ways,
                                    .emit = server_emits,
                                    .context = tree};
  return by_server_create(&config, &tree->server);
}

static enum banyan_status make_aggregator(struct by_served_tree *tree) {
  const struct by_tree_message *message = tree->message;
  struct by_aggregator_config config = {.job = message->job,
                                        .key = message->key,
                                        .groups = message->groups,
                                        .slots = message->slots,
                                        .lines = message->lines,
                                        .exact = message->exact,
                                        .secret = message->secret,
                                        .secret_bytes = sizeof message->secret,
                                        .keyed = message->keyed,
                                        .emit = aggregator_emits,
                                        .context = tree};
  return by_aggregator_create(&config, &tree->aggregator);
}

/* Sets the source addresses: switches on the path know this server by them. */
static void set_sources(struct by_served_tree *tree, const struct by_member *self) {
  const struct by_tree_message *message = tree->message;
  for (uint32_t w = 0; message->worker == BY_TREE_FOR_SERVER && w < by_workers_of(&message->groups); w++) {
    const struct by_address source = by_member_source(self, &message->ways[w].address);
    uint32_t via = message->ways[w].via;
    if (!message->ways[w].hops) continue;
    by_udp_peer_set_source(tree->ways[w], &source);
    if (via != BY_TREE_ALONE) by_udp_peer_set_source(tree->vias[via], &source);
  }
}

static enum banyan_status make(struct by_served_tree *tree, const struct by_member *self) {
  const struct by_tree_message *message = tree->message;
  bool finishes = message->worker == BY_TREE_FOR_SERVER;
  uint32_t n = finishes ? by_workers_of(&message->groups) : 1;
  for (uint32_t i = 0; i < n; i++) BY_TRY(by_udp_peer_create(tree->udp, &message->ways[i].address, &tree->ways[i]));
  for (uint32_t i = 0; i < message->n_vias; i++)
    BY_TRY(by_udp_peer_create(tree->udp, &message->vias[i].address, &tree->vias[i]));
  set_sources(tree, self);
  BY_TRY(finishes ? make_server(tree) : make_aggregator(tree));
  BY_TRY(by_udp_listen(tree->udp, message->job, take, tree));
  tree->listens = true;
  if (!message->keyed) return BANYAN_OK;
  by_udp_authenticate(tree->udp, message->job, &tree->key);
  return by_hop_key_of_tree(message->secret, sizeof message->secret, message->job, message->key, &tree->key);
}

enum banyan_status by_served_tree_create(struct by_udp *udp, const struct by_member *self,
                                         const struct by_tree_message *message, struct by_served_tree **out) {
  struct by_served_tree *tree = calloc(1, sizeof *tree);
  if (!tree) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a tree");
  tree->udp = udp;
  tree->message = message;
  enum banyan_status status = make(tree, self);
  if (status != BANYAN_OK) {
    by_served_tree_destroy(tree);
    return status;
  }
  *out = tree;
  return BANYAN_OK;
}

static void log_server(const struct by_served_tree *tree) {
  const struct by_server_counters *c = by_server_counters(tree->server);
  by_info("innetwork",
          "server of tree %u at UDP port %d: %" PRIu64 " results, %" PRIu64 " asked for again, %" PRIu64
          " probes; %" PRIu64 " terms, of them %" PRIu64 " sums, %" PRIu64 " unmerged; %" PRIu64 " twice, %" PRIu64
          " overlapping, %" PRIu64 " wrong, %" PRIu64 " forged, %" PRIu64 " replayed",
          tree->message->job, by_udp_port(tree->udp), c->results, c->repeated, c->probes, c->terms, c->merged,
          c->unmerged, c->duplicates, c->overlapping, c->failed_checks, c->forged, c->replayed);
}

static void log_aggregator(const struct by_served_tree *tree) {
  const struct by_aggregator_counters *c = by_aggregator_counters(tree->aggregator);
  by_info("innetwork",
          "aggregator of tree %u at UDP port %d: %" PRIu64 " terms, %" PRIu64 " sums, %" PRIu64
          " of them again; %" PRIu64 " results; %" PRIu64 " unmerged, %" PRIu64 " stale, %" PRIu64 " wrong, %" PRIu64
          " forged, %" PRIu64 " replayed",
          tree->message->job, by_udp_port(tree->udp),
          c->events[BY_EVENT_STORED] + c->events[BY_EVENT_ADDED] + c->events[BY_EVENT_COMPLETED],
          c->events[BY_EVENT_COMPLETED] + c->events[BY_EVENT_REPEATED], c->events[BY_EVENT_REPEATED],
          c->events[BY_EVENT_RELEASED] + c->events[BY_EVENT_RESULT],
          c->events[BY_EVENT_UNMERGED] + c->events[BY_EVENT_CONFLICT] + c->events[BY_EVENT_NO_CELL],
          c->events[BY_EVENT_STALE], c->failed_checks, c->events[BY_EVENT_FORGED], c->events[BY_EVENT_REPLAYED]);
}

/* The server's results are lent to peers, which are gone before it. */
void by_served_tree_destroy(struct by_served_tree *tree) {
  if (!tree) return;
  if (tree->server) log_server(tree);
  if (tree->aggregator) log_aggregator(tree);
  if (tree->listens) by_udp_forget(tree->udp, tree->message->job);
  for (uint32_t w = 0; w < BY_TREE_WORKERS; w++) by_udp_peer_destroy(tree->ways[w]);
  for (uint32_t i = 0; i < BY_FRAGMENT_PORTS; i++) by_udp_peer_destroy(tree->vias[i]);
  by_server_destroy(tree->server);
  by_aggregator_destroy(tree->aggregator);
  explicit_bzero(&tree->key, sizeof tree->key);
  free(tree);
}

/* ---- what is lost */

uint32_t by_served_tree_aggregator(const struct by_served_tree *tree, uint32_t i) {
  for (uint32_t v = 0; v < tree->message->n_vias; v++)
    if (tree->message->vias[v].aggregator != UINT32_MAX && i-- == 0) return tree->message->vias[v].aggregator;
  return UINT32_MAX;
}

void by_served_tree_lose(struct by_served_tree *tree, uint32_t process) {
  for (uint32_t v = 0; v < tree->message->n_vias; v++) {
    if (tree->message->vias[v].aggregator != process || tree->lost[v]) continue;
    tree->lost[v] = true;
    by_warn("innetwork", "an aggregator of tree %u is lost: its workers get their results from here",
            tree->message->job);
  }
}
