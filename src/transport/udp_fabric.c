/* A worker of a tree through switches on a UDP socket. */
#include <stdlib.h>

#include "fail.h"
#include "tree_fabric.h"
#include "udp.h"

struct udp_tree {
  struct by_udp *udp;
  struct by_udp_peer *server;
  struct by_worker *worker; /* NULL: its turn has not come yet */
  uint16_t job;
};

static void emit(void *context, const struct by_fragment *packet) {
  const struct udp_tree *tree = context;
  if (packet->type == BY_FRAGMENT_UP)
    by_udp_lend(tree->server, packet);
  else
    by_udp_send(tree->server, packet);
}

static void take(void *context, const struct by_fragment *packet, size_t bytes, uint64_t now) {
  const struct udp_tree *tree = context;
  if (tree->worker) by_worker_take(tree->worker, packet, bytes, now);
}

/* Gives all trees on this socket what has come for them. */
static bool take_all(void *context, struct by_worker *worker, uint64_t now) {
  struct udp_tree *tree = context;
  tree->worker = worker;
  return by_udp_progress(tree->udp, now);
}

static void flush(void *context) {
  const struct udp_tree *tree = context;
  (void)by_udp_flush(tree->udp);
}

static void set_mark(void *context, const struct by_mark *mark) {
  by_udp_set_mark(((const struct udp_tree *)context)->udp, mark);
}

static void close_tree(void *context) {
  struct udp_tree *tree = context;
  by_udp_forget(tree->udp, tree->job);
  by_udp_peer_destroy(tree->server);
  free(tree);
}

static enum banyan_status make(struct udp_tree *tree, const struct by_address *to,
                               const struct by_worker_config *config, const struct by_clock *clock,
                               struct by_fabric **out) {
  struct by_tree_io io = {.take = take_all,
                          .flush = flush,
                          .set_mark = set_mark,
                          .close = close_tree,
                          .context = tree,
                          .poll_fd = by_udp_fd(tree->udp)};
  struct by_worker_config own = *config;
  own.emit = emit;
  own.context = tree;
  BY_TRY(by_udp_peer_create(tree->udp, to, &tree->server));
  BY_TRY(by_udp_listen(tree->udp, tree->job, take, tree));
  enum banyan_status status = by_tree_fabric_create(&own, &io, clock, out);
  if (status != BANYAN_OK) by_udp_forget(tree->udp, tree->job);
  return status;
}

enum banyan_status by_udp_fabric_create(struct by_udp *udp, const struct by_address *to,
                                        const struct by_worker_config *config, const struct by_clock *clock,
                                        struct by_fabric **out) {
  struct udp_tree *tree = calloc(1, sizeof *tree);
  if (!tree) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a tree through switches");
  *tree = (struct udp_tree){.udp = udp, .job = config->job};
  enum banyan_status status = make(tree, to, config, clock, out);
  if (status == BANYAN_OK) return BANYAN_OK;
  by_udp_peer_destroy(tree->server);
  free(tree);
  return status;
}
