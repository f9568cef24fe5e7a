/* Fabrics over a worker of trees through switches, and the one whose packets use UDP. */
#include "fabric.h"
#include "udp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "log.h"
#include "sum_key.h"
#include "worker.h"

struct tree_fabric {
  struct by_fabric fabric;
  struct by_worker *worker; /* NULL: the fabric was withdrawn. */
  unsigned rank, job;
  struct by_tree_io io;
  struct by_clock clock;
  uint32_t under_way;             /* Calls begun and not yet reported as done. */
  size_t counts[BY_WORKER_CALLS]; /* Elements of those calls, by number. */
  uint32_t shifts[BY_WORKER_CALLS];
  uint32_t fragment; /* Bytes of a fragment. */
};

static struct tree_fabric *tree_of(const struct by_fabric *fabric) {
  return (struct tree_fabric *)(uintptr_t)fabric;
}

static void fail_fabric(struct tree_fabric *tree, enum banyan_status status) {
  if (tree->fabric.status != BANYAN_OK) return;
  tree->fabric.status = status;
  snprintf(tree->fabric.error, sizeof tree->fabric.error, "%s", banyan_error_text());
}

static bool tree_begin(struct by_fabric *fabric, const struct by_frame *descriptor, const void *src, void *dst,
                       uint64_t bytes, uint32_t *number) {
  struct tree_fabric *tree = tree_of(fabric);
  enum banyan_dtype dtype = (enum banyan_dtype)(descriptor->dtype_op >> 4);
  enum banyan_op op = (enum banyan_op)(descriptor->dtype_op & 15);
  uint32_t shift = (uint32_t)__builtin_ctzl(banyan_dtype_size(dtype));
  if (fabric->status != BANYAN_OK || tree->under_way == BY_WORKER_CALLS) return false;
  enum banyan_status status = by_worker_begin(tree->worker, dtype, op, src, dst, bytes >> shift, number);
  if (status != BANYAN_OK) {
    fail_fabric(tree, status);
    return false;
  }
  tree->under_way++;
  tree->counts[*number % BY_WORKER_CALLS] = bytes >> shift;
  tree->shifts[*number % BY_WORKER_CALLS] = shift;
  return true;
}

static void tree_advance(struct by_fabric *fabric, uint32_t number, uint64_t bytes) {
  struct tree_fabric *tree = tree_of(fabric);
  if (fabric->status == BANYAN_OK)
    by_worker_advance(tree->worker, number, bytes >> tree->shifts[number % BY_WORKER_CALLS]);
}

static uint64_t tree_done(struct by_fabric *fabric, uint32_t number) {
  struct tree_fabric *tree = tree_of(fabric);
  uint32_t at = number % BY_WORKER_CALLS;
  if (fabric->status != BANYAN_OK) return 0;
  size_t elements = by_worker_done(tree->worker, number);
  if (elements == tree->counts[at]) tree->under_way--;
  return (uint64_t)elements << tree->shifts[at];
}

static void note_sent(struct tree_fabric *tree) {
  const struct by_worker_counters *counters = by_worker_counters(tree->worker);
  tree->fabric.sent = (counters->sent + counters->retransmitted) * tree->fragment;
}

static bool tree_progress(struct by_fabric *fabric) {
  struct tree_fabric *tree = tree_of(fabric);
  if (fabric->status != BANYAN_OK) return false;
  const struct by_worker_counters *counters = by_worker_counters(tree->worker);
  uint64_t before = counters->sent + counters->results, now = by_clock_now(&tree->clock);
  bool came = tree->io.take(tree->io.context, tree->worker, now);
  by_worker_progress(tree->worker, now);
  if (tree->io.flush) tree->io.flush(tree->io.context);
  note_sent(tree);
  enum banyan_status status = by_worker_state(tree->worker);
  if (status != BANYAN_OK) fail_fabric(tree, status);
  return came || counters->sent + counters->results != before || status != BANYAN_OK;
}

static uint64_t tree_deadline(const struct by_fabric *fabric) {
  return fabric->status == BANYAN_OK ? by_worker_deadline(tree_of(fabric)->worker) : UINT64_MAX;
}

static void tree_set_mark(struct by_fabric *fabric, const struct by_mark *mark) {
  struct tree_fabric *tree = tree_of(fabric);
  if (tree->io.set_mark && tree->worker) tree->io.set_mark(tree->io.context, mark);
}

static void tree_lose(struct by_fabric *fabric, uint32_t process) {
  struct tree_fabric *tree = tree_of(fabric);
  if (tree->io.lose && tree->worker) tree->io.lose(tree->io.context, process);
}

static void end_call(struct tree_fabric *tree) {
  if (!tree->worker) return;
  const struct by_worker_counters *c = by_worker_counters(tree->worker);
  note_sent(tree);
  by_info("innetwork",
          "worker %u of tree %u: %" PRIu64 " fragments, %" PRIu64 " probes, %" PRIu64 " sent again, of them %" PRIu64
          " past switches; %" PRIu64 " results, at most %.0f ms after their terms, %" PRIu64 " late, %" PRIu64
          " marked, %" PRIu64 " wrong, %" PRIu64 " forged, %" PRIu64 " replayed",
          tree->rank, tree->job, c->sent, c->probes, c->retransmitted, c->escalated, c->results,
          (double)c->longest / 1e6, c->late, c->marked, c->failed_checks, c->forged, c->replayed);
  if (tree->io.close) tree->io.close(tree->io.context);
  by_worker_destroy(tree->worker);
  tree->worker = NULL;
}

static void tree_withdraw(struct by_fabric *fabric) {
  struct tree_fabric *tree = tree_of(fabric);
  (void)by_fail(BANYAN_ERR_CLOSED, "its calls were given up");
  fail_fabric(tree, BANYAN_ERR_CLOSED);
  end_call(tree);
}

static void tree_destroy(struct by_fabric *fabric) {
  struct tree_fabric *tree = tree_of(fabric);
  end_call(tree);
  free(tree);
}

static const struct by_fabric_ops tree_ops = {
    .name = "switches",
    .begin = tree_begin,
    .advance = tree_advance,
    .done = tree_done,
    .progress = tree_progress,
    .deadline = tree_deadline,
    .set_mark = tree_set_mark,
    .lose = tree_lose,
    .withdraw = tree_withdraw,
    .destroy = tree_destroy,
};

enum banyan_status by_tree_fabric_create(const struct by_worker_config *config, const struct by_tree_io *io,
                                         const struct by_clock *clock, struct by_fabric **out) {
  struct tree_fabric *tree = calloc(1, sizeof *tree);
  if (!tree) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a tree through switches");
  *tree = (struct tree_fabric){.fabric = {.ops = &tree_ops, .poll_fd = io->poll_fd},
                               .rank = config->rank,
                               .job = config->job,
                               .fragment = config->lines * BY_FRAGMENT_LINE,
                               .io = *io,
                               .clock = *clock};
  enum banyan_status status = by_worker_create(config, &tree->worker);
  if (status != BANYAN_OK) {
    free(tree);
    return status;
  }
  *out = &tree->fabric;
  return BANYAN_OK;
}

/* ---- over UDP */

struct udp_tree {
  struct by_udp *udp;
  struct by_udp_peer *server, *aggregator; /* NULL: there is none. */
  bool lost;                               /* The aggregator is lost. */
  uint32_t process;                        /* The aggregator's process. */
  struct by_worker *worker;                /* NULL: its turn has not come yet. */
  uint16_t job;
  struct by_hop_key key; /* The key, if the tree has one. */
};

/* Sends a fragment: to the server unless it may be merged in the network. */
static void send_fragment(void *context, const struct by_fragment *packet) {
  const struct udp_tree *tree = context;
  bool passes = tree->aggregator && !tree->lost && packet->hops && !(packet->flags & BY_FRAGMENT_ESCALATE);
  struct by_udp_peer *to = passes ? tree->aggregator : tree->server;
  if (packet->type == BY_FRAGMENT_UP)
    by_udp_lend(to, packet);
  else
    by_udp_send(to, packet);
}

static void take_packets(void *context, const struct by_fragment *packet, size_t bytes, uint64_t now) {
  const struct udp_tree *tree = context;
  if (!tree->worker) return;
  const struct by_worker_counters *counters = by_worker_counters(tree->worker);
  uint64_t forged = counters->forged, replayed = counters->replayed;
  by_worker_take(tree->worker, packet, bytes, now);
  by_udp_note_dropped(tree->udp, counters->forged - forged, counters->replayed - replayed);
}

/* Passes received packets to all trees on this socket. */
static bool take_all(void *context, struct by_worker *worker, uint64_t now) {
  struct udp_tree *tree = context;
  tree->worker = worker;
  return by_udp_progress(tree->udp, now);
}

static void flush_socket(void *context) {
  const struct udp_tree *tree = context;
  (void)by_udp_flush(tree->udp);
}

static void set_mark(void *context, const struct by_mark *mark) {
  by_udp_set_mark(((const struct udp_tree *)context)->udp, mark);
}

static void note_lost(void *context, uint32_t process) {
  struct udp_tree *tree = context;
  if (!tree->aggregator || tree->process != process || tree->lost) return;
  tree->lost = true;
  by_warn("innetwork", "the aggregator of tree %u is lost: sending to the server", tree->job);
}

static void free_tree(struct udp_tree *tree) {
  by_udp_peer_destroy(tree->server);
  by_udp_peer_destroy(tree->aggregator);
  explicit_bzero(&tree->key, sizeof tree->key);
  free(tree);
}

static void close_tree(void *context) {
  struct udp_tree *tree = context;
  by_udp_forget(tree->udp, tree->job);
  free_tree(tree);
}

enum banyan_status by_udp_fabric_create(struct by_udp *udp, const struct by_udp_path *path,
                                        const struct by_worker_config *config, const struct by_clock *clock,
                                        struct by_fabric **out) {
  struct udp_tree *tree = calloc(1, sizeof *tree);
  if (!tree) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a tree through switches");
  *tree = (struct udp_tree){.udp = udp, .process = path->process, .job = config->job};
  struct by_tree_io io = {.take = take_all,
                          .flush = flush_socket,
                          .set_mark = set_mark,
                          .lose = note_lost,
                          .close = close_tree,
                          .context = tree,
                          .poll_fd = by_udp_fd(udp)};
  struct by_worker_config own = *config;
  own.emit = send_fragment;
  own.context = tree;
  enum banyan_status status = by_udp_peer_create(udp, &path->server, &tree->server);
  if (status == BANYAN_OK) by_udp_peer_set_source(tree->server, &path->source);
  if (status == BANYAN_OK && path->has_aggregator)
    status = by_udp_peer_create(udp, &path->aggregator, &tree->aggregator);
  if (status == BANYAN_OK && config->keyed)
    status = by_hop_key_of_tree(config->secret, sizeof config->secret, config->job, config->key, &tree->key);
  if (status == BANYAN_OK) status = by_udp_listen(udp, tree->job, take_packets, tree);
  if (status == BANYAN_OK) {
    if (config->keyed) by_udp_authenticate(udp, tree->job, &tree->key);
    status = by_tree_fabric_create(&own, &io, clock, out);
    if (status == BANYAN_OK) return BANYAN_OK;
    by_udp_forget(udp, tree->job);
  }
  free_tree(tree);
  return status;
}
