#include "bench_case.h"

#include <string.h>

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
  return c->collective == BANYAN_ALLREDUCE || c->collective == BANYAN_REDUCE || c->collective == BANYAN_REDUCE_SCATTER;
}

static bool has_in_place(enum banyan_collective collective) {
  return collective == BANYAN_ALLREDUCE || collective == BANYAN_REDUCE_SCATTER || collective == BANYAN_ALLGATHER ||
         collective == BANYAN_GATHER;
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

void by_bench_resize(struct by_bench_case *c, size_t bytes) {
  size_t size = banyan_dtype_size(c->dtype), n = (size_t)c->ranks, total = bytes / size, block = total / n;
  bool is_root = c->rank == c->root;
  if (!block) block = 1;
  if (!total) total = 1;
  c->count = block;
  switch (c->collective) {
  case BANYAN_REDUCE_SCATTER: c->send_count = block * n, c->recv_count = block; break;
  case BANYAN_ALLGATHER: c->send_count = block, c->recv_count = block * n; break;
  case BANYAN_GATHER: c->send_count = block, c->recv_count = is_root ? block * n : 0; break;
  case BANYAN_SCATTER: c->send_count = is_root ? block * n : 0, c->recv_count = block; break;
  case BANYAN_ALLTOALL: c->send_count = c->recv_count = block * n; break;
  case BANYAN_BARRIER: c->count = c->send_count = c->recv_count = block = 0; break;
  case BANYAN_BROADCAST: c->count = c->recv_count = total, c->send_count = 0; break;
  default: c->count = c->send_count = c->recv_count = total; break;
  }
  bool blocks = c->collective >= BANYAN_REDUCE_SCATTER && c->collective <= BANYAN_BARRIER;
  c->bytes = (blocks ? block * n : total) * size;
}

double by_bench_bus_factor(const struct by_bench_case *c) {
  double n = c->ranks;
  switch (c->collective) {
  case BANYAN_ALLREDUCE: return 2 * (n - 1) / n;
  case BANYAN_REDUCE_SCATTER:
  case BANYAN_ALLGATHER:
  case BANYAN_GATHER:
  case BANYAN_SCATTER:
  case BANYAN_ALLTOALL: return (n - 1) / n;
  default: return 1;
  }
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
