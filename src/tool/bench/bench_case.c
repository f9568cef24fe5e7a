#include "bench_case.h"

#include <string.h>

#include "collective.h"
#include "fail.h"
#include "suggest.h"

static const char ping_pong[] = "sendrecv";

const char *by_bench_collective_name(const struct by_bench_case *c) {
  return c->collective == BANYAN_SEND ? ping_pong : banyan_collective_name(c->collective);
}

static enum banyan_status unknown_collective(const char *name) {
  const char *names[BANYAN_COLLECTIVES];
  size_t n = 0;
  for (int i = 0; i < BANYAN_SEND; i++) names[n++] = banyan_collective_name((enum banyan_collective)i);
  names[n++] = ping_pong;
  const char *near = by_suggest(name, names, n);
  return by_fail(BANYAN_ERR_ARGUMENT, "there is no collective \"%.40s\"%s%s%s", name, near ? "; did you mean " : "",
                 near ? near : "", near ? "?" : "");
}

enum banyan_status by_bench_parse_collective(const char *name, struct by_bench_case *out) {
  if (!strcmp(name, ping_pong)) {
    out->collective = BANYAN_SEND;
    return BANYAN_OK;
  }
  if (banyan_collective_parse(name, &out->collective) || out->collective >= BANYAN_SEND)
    return unknown_collective(name);
  return BANYAN_OK;
}

bool by_bench_reduces(const struct by_bench_case *c) {
  return by_collective(c->collective)->adds;
}

/* Each rank's block lies in the result, or the result takes the place of the terms on all ranks. */
static bool has_in_place(enum banyan_collective collective) {
  const struct by_collective *row = by_collective(collective);
  return row->send == BY_EXTENT_BLOCK || (row->adds && !row->rooted);
}

enum banyan_status by_bench_check(const struct by_bench_case *c) {
  bool bits = c->op == BANYAN_AND || c->op == BANYAN_OR || c->op == BANYAN_XOR, floating = c->dtype <= BANYAN_BFLOAT16;
  if (by_bench_reduces(c) && bits && floating)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s is for integers, not for %s", banyan_op_name(c->op),
                   banyan_dtype_name(c->dtype));
  if (c->root >= c->ranks) return by_fail(BANYAN_ERR_ARGUMENT, "there is no rank %d to be the root", c->root);
  if (c->in_place && !has_in_place(c->collective))
    return by_fail(BANYAN_ERR_ARGUMENT, "%s has no in-place form", by_bench_collective_name(c));
  if (c->collective == BANYAN_SEND && c->ranks < 2)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s takes two ranks", ping_pong);
  return BANYAN_OK;
}

int by_bench_peer(const struct by_bench_case *c) {
  int peer = c->rank ^ 1;
  return peer < c->ranks ? peer : -1;
}

/* Elements of a buffer. Of a reduction every rank has a result to look at, also where the call gives none. */
static size_t count_of(const struct by_bench_case *c, enum by_extent extent, size_t block, size_t total) {
  bool at_root = c->rank == c->root || by_collective(c->collective)->adds;
  if (extent == BY_EXTENT_NOTHING || (extent == BY_EXTENT_ALL_AT_ROOT && !at_root)) return 0;
  return extent == BY_EXTENT_BLOCK ? block : total;
}

void by_bench_resize(struct by_bench_case *c, size_t bytes) {
  const struct by_collective *row = by_collective(c->collective);
  size_t size = banyan_dtype_size(c->dtype), n = (size_t)c->ranks, total = bytes / size, block = total / n;
  if (!block) block = 1;
  if (!total) total = 1;
  if (row->blocks) total = block * n;
  if (c->collective == BANYAN_BARRIER) total = 0;
  c->count = row->blocks ? block : total;
  c->send_count = count_of(c, row->send, block, total);
  c->recv_count = row->pair ? total : count_of(c, row->recv, block, total); /* there and back */
  c->bytes = total * size;
}

double by_bench_bus_factor(const struct by_bench_case *c) {
  double n = c->ranks;
  if (c->collective == BANYAN_ALLREDUCE) return 2 * (n - 1) / n;
  return by_collective(c->collective)->blocks ? (n - 1) / n : 1;
}

static enum banyan_status pass(const struct by_bench_case *c, struct banyan_comm *comm,
                               enum banyan_collective direction, const void *send, void *recv) {
  struct banyan_call call = {.collective = direction,
                             .dtype = c->dtype,
                             .root = by_bench_peer(c),
                             .send = send,
                             .recv = recv,
                             .count = c->count};
  return banyan_run(comm, &call);
}

/* The even rank serves. */
static enum banyan_status play(const struct by_bench_case *c, struct banyan_comm *comm, const void *send, void *recv) {
  if (by_bench_peer(c) < 0) return BANYAN_OK;
  if (c->rank % 2) BY_TRY(pass(c, comm, BANYAN_RECV, NULL, recv));
  BY_TRY(pass(c, comm, BANYAN_SEND, send, NULL));
  if (c->rank % 2 == 0) BY_TRY(pass(c, comm, BANYAN_RECV, NULL, recv));
  return BANYAN_OK;
}

enum banyan_status by_bench_call(const struct by_bench_case *c, struct banyan_comm *comm, const void *send,
                                 void *recv) {
  if (c->collective == BANYAN_SEND) return play(c, comm, send, recv);
  struct banyan_call call = {.collective = c->collective,
                             .dtype = c->dtype,
                             .op = c->op,
                             .root = c->root,
                             .send = send,
                             .recv = recv,
                             .count = c->count};
  return banyan_run(comm, &call);
}
