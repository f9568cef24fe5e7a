#include "bench_measure.h"

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "bench_values.h"
#include "clock.h"
#include "collective.h"
#include "fail.h"

enum { FIRST_CALLS = 2, LEAST_CALLS = 8, MOST_CALLS = 2000, CALLS_BYTES = 64 << 20, ALIGNMENT = 64 };

struct buffers {
  void *memory[2];   /* as allocated; [1] NULL when in place */
  void *send, *recv; /* what the call gets */
};

static enum banyan_status get_memory(struct banyan_comm *comm, bool registered, size_t bytes, void **out) {
  *out = NULL;
  if (!bytes) return BANYAN_OK;
  if (registered) return banyan_alloc(comm, bytes, out);
  if (posix_memalign(out, ALIGNMENT, bytes)) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for %zu bytes", bytes);
  return BANYAN_OK;
}

static void give_back(struct banyan_comm *comm, bool registered, struct buffers *buffers) {
  for (int i = 0; i < 2; i++) {
    if (registered)
      banyan_free(comm, buffers->memory[i]);
    else
      free(buffers->memory[i]);
  }
}

/* Whether this rank's own part lies in the buffer it receives into. */
static bool shares_buffer(const struct by_bench_case *c) {
  return c->in_place && (c->collective != BANYAN_GATHER || c->rank == c->root);
}

static enum banyan_status make_buffers(const struct by_bench_case *c, bool registered, struct banyan_comm *comm,
                                       struct buffers *out) {
  size_t size = banyan_dtype_size(c->dtype);
  *out = (struct buffers){0};
  if (shares_buffer(c)) {
    BY_TRY(get_memory(comm, registered, MAX(c->send_count, c->recv_count) * size, &out->memory[0]));
    bool block = by_collective(c->collective)->send == BY_EXTENT_BLOCK;
    out->recv = out->memory[0];
    out->send = (char *)out->memory[0] + (block ? (size_t)c->rank * c->count * size : 0);
    return BANYAN_OK;
  }
  BY_TRY(get_memory(comm, registered, c->send_count * size, &out->memory[0]));
  BY_TRY(get_memory(comm, registered, c->recv_count * size, &out->memory[1]));
  out->send = out->memory[0];
  out->recv = out->memory[1];
  return BANYAN_OK;
}

/* What every rank contributes; everything else is 0xff, which no result holds. */
static void fill(const struct by_bench_case *c, const struct buffers *buffers) {
  struct by_pattern own;
  by_pattern_of_rank(c, c->rank, &own);
  if (buffers->recv) memset(buffers->recv, 0xff, c->recv_count * own.size);
  if (buffers->send) by_pattern_fill(&own, buffers->send, c->send_count);
  if (c->collective == BANYAN_BROADCAST && c->rank == c->root) by_pattern_fill(&own, buffers->recv, c->recv_count);
}

static enum banyan_status check(const struct by_bench_case *c, struct banyan_comm *comm, const struct buffers *buffers,
                                uint64_t *wrong) {
  fill(c, buffers);
  BY_TRY(by_bench_call(c, comm, buffers->send, buffers->recv));
  *wrong = by_bench_wrong(c, shares_buffer(c) || !c->send_count ? NULL : buffers->send, buffers->recv);
  size_t bytes = MAX(c->send_count, c->recv_count) * banyan_dtype_size(c->dtype);
  if (shares_buffer(c) && buffers->recv) memset(buffers->recv, 0, bytes); /* sums of sums would grow without end */
  return BANYAN_OK;
}

static enum banyan_status repeat(const struct by_bench_case *c, bool barrier, struct banyan_comm *comm,
                                 const struct buffers *buffers, long calls, double *seconds) {
  for (long k = 0; k < calls; k++) {
    if (barrier) BY_TRY(banyan_barrier(comm));
    uint64_t start = by_clock_now(&by_clock_system);
    BY_TRY(by_bench_call(c, comm, buffers->send, buffers->recv));
    seconds[k] = (double)(by_clock_now(&by_clock_system) - start) * 1e-9;
  }
  return BANYAN_OK;
}

static long clamp(double value, long least, long most) {
  return value < (double)least ? least : value > (double)most ? most : (long)value;
}

/* Rank 0's number, on every rank. */
static enum banyan_status agree(struct banyan_comm *comm, long *number) {
  int64_t agreed = *number;
  BY_TRY(banyan_broadcast(comm, &agreed, 1, BANYAN_INT64, 0));
  *number = agreed;
  return BANYAN_OK;
}

/* Makes calls, all ranks from the same moment on, and tells what one took here. */
static enum banyan_status estimate(const struct by_bench_case *c, struct banyan_comm *comm,
                                   const struct buffers *buffers, long calls, double *seconds) {
  BY_TRY(banyan_barrier(comm));
  uint64_t start = by_clock_now(&by_clock_system);
  for (long k = 0; k < calls; k++) BY_TRY(by_bench_call(c, comm, buffers->send, buffers->recv));
  *seconds = (double)(by_clock_now(&by_clock_system) - start) * 1e-9 / (double)calls;
  return BANYAN_OK;
}

/* Warms up and finds how many calls to time: the same number on every rank. */
static enum banyan_status warm_up(const struct by_bench_case *c, const struct by_bench_how *how,
                                  struct banyan_comm *comm, const struct buffers *buffers, long *calls) {
  long cap = clamp((double)CALLS_BYTES / (double)MAX(c->bytes, (size_t)1), LEAST_CALLS, MOST_CALLS),
       warm = how->warm_up;
  double each = 0;
  if (warm < 0 || (warm == 0 && !how->calls)) BY_TRY(estimate(c, comm, buffers, FIRST_CALLS, &each));
  if (warm < 0) {
    warm = clamp(how->budget / 5 / each, 1, MAX(cap / 10, 1));
    BY_TRY(agree(comm, &warm));
  }
  if (warm > 0) BY_TRY(estimate(c, comm, buffers, warm, &each));
  *calls = how->calls ? how->calls : clamp(how->budget / each, LEAST_CALLS, cap);
  return agree(comm, calls);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The slowest rank's time of each call, sorted; `slowest` is rank 0's. */
static enum banyan_status summarise(const struct by_bench_case *c, struct banyan_comm *comm, const double *seconds,
                                    double *slowest, struct by_bench_result *out) {
  size_t n = (size_t)out->calls;
  BY_TRY(banyan_reduce(comm, seconds, slowest, n, BANYAN_FLOAT64, BANYAN_MAX, 0));
  if (c->rank) return BANYAN_OK;
  double ways = c->collective == BANYAN_SEND ? 2 : 1; /* ping-pong: half of there and back */
  qsort(slowest, n, sizeof *slowest, compare);
  out->median = (slowest[(n - 1) / 2] + slowest[n / 2]) / 2 / ways;
  out->least = slowest[0] / ways;
  out->most = slowest[n - 1] / ways;
  return BANYAN_OK;
}

/* Sums the counters' growth and the wrong elements over all ranks. */
static enum banyan_status sum_up(const struct by_bench_case *c, struct banyan_comm *comm,
                                 const struct banyan_counters *before, const struct banyan_counters *after,
                                 struct by_bench_result *out) {
  int64_t own[] = {(int64_t)out->wrong, (int64_t)(after->frames_sent - before->frames_sent),
                   (int64_t)(after->sleeps - before->sleeps), (int64_t)(after->wakes_sent - before->wakes_sent),
                   (int64_t)(after->allocations - before->allocations)};
  int64_t all[sizeof own / sizeof *own];
  BY_TRY(banyan_allreduce(comm, own, all, sizeof own / sizeof *own, BANYAN_INT64, BANYAN_SUM));
  double share = (double)c->ranks * (double)out->calls;
  out->wrong = MAX(out->wrong, (uint64_t)all[0]); /* what this rank saw itself is never lost in a wrong sum */
  out->frames = (double)all[1] / share;
  out->sleeps = (double)all[2] / share;
  out->wakes = (double)all[3] / share;
  out->allocations = (uint64_t)all[4];
  return BANYAN_OK;
}

static enum banyan_status time_calls(const struct by_bench_case *c, bool barrier, struct banyan_comm *comm,
                                     const struct buffers *buffers, struct by_bench_result *out) {
  struct banyan_counters before, after;
  size_t bytes = (size_t)out->calls * sizeof(double);
  double *seconds = calloc(2, bytes);
  if (!seconds) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for %ld times", out->calls);
  memset(seconds, 0xff, 2 * bytes); /* touched before, not while timing */
  enum banyan_status status = banyan_barrier(comm);
  banyan_comm_counters(comm, &before);
  if (!status) status = repeat(c, barrier, comm, buffers, out->calls, seconds);
  banyan_comm_counters(comm, &after);
  if (!status) status = summarise(c, comm, seconds, seconds + out->calls, out);
  if (!status) status = sum_up(c, comm, &before, &after, out);
  free(seconds);
  return status;
}

enum banyan_status by_bench_measure(const struct by_bench_case *c, const struct by_bench_how *how,
                                    struct banyan_comm *comm, struct by_bench_result *out) {
  struct buffers buffers;
  *out = (struct by_bench_result){0};
  enum banyan_status status = make_buffers(c, how->registered, comm, &buffers);
  if (!status && how->check)
    status = check(c, comm, &buffers, &out->wrong);
  else if (!status)
    fill(c, &buffers);
  if (!status) status = warm_up(c, how, comm, &buffers, &out->calls);
  if (!status) status = time_calls(c, how->barrier, comm, &buffers, out);
  give_back(comm, how->registered, &buffers);
  return status;
}
