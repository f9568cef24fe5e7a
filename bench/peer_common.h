/* The timing loop that all peers share, header-only so that C and C++ programs build with one compiler call each.
 *
 * A program fills a struct peer with the functions of its library and calls peer_main_loop(). README.md documents
 * what is measured and why. A change here must be repeated there and in `banyan bench`. Each rank is a process with
 * one thread. */
#ifndef BENCH_PEER_COMMON_H
#define BENCH_PEER_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PEER_MAX_SIZES = 64, PEER_LEAST_CALLS = 8, PEER_MOST_CALLS = 2000 };

/* The last one is a step of sharded training (FSDP): all sizes together are the units of a model. */
enum peer_collective {
  PEER_ALLREDUCE,
  PEER_REDUCE_SCATTER,
  PEER_ALLGATHER,
  PEER_BROADCAST,
  PEER_ALLTOALL,
  PEER_SHARDED,
  PEER_COLLECTIVES
};
static const char *const peer_collectives[PEER_COLLECTIVES] = {"allreduce", "reduce_scatter", "allgather",
                                                               "broadcast", "alltoall",       "sharded"};

struct peer_options {
  size_t sizes[PEER_MAX_SIZES];
  int size_count;
  double budget;
  enum peer_collective collective;
  bool pin, in_place;
  bool barrier; /* before every timed call, outside its time */
  const char *algorithm;
  const char *transport;
  int ranks;        /* only for programs that start their own ranks */
  const char *meet; /* a directory that all ranks share, for a program that is started once for each rank; or NULL */
  long calls;       /* timed calls for a size; 0: as many as the budget allows */
};

struct peer {
  const char *impl;
  int rank, ranks;
  void *state;
  enum peer_collective collective;
  bool only_in_place; /* `allreduce` ignores `send` and sums `recv`; peer_call() copies the terms there */
  void (*prepare)(struct peer *peer, const float *send, float *recv, size_t count); /* of allreduce; may be NULL */
  void (*allreduce)(struct peer *peer, const float *send, float *recv, size_t count);
  /* Others: `count` elements in the larger of the buffers, a multiple of the ranks where there are blocks. A broadcast
   * is from rank 0's `recv` to all others'. NULL: not offered. */
  void (*reduce_scatter)(struct peer *peer, float *send, float *recv, size_t count);
  void (*allgather)(struct peer *peer, float *send, float *recv, size_t count);
  void (*broadcast)(struct peer *peer, float *recv, size_t count);
  void (*alltoall)(struct peer *peer, float *send, float *recv, size_t count);
  void (*barrier)(struct peer *peer);
  void (*broadcast_from_0)(struct peer *peer, long *value);
  void (*max_to_0)(struct peer *peer, double *values, size_t count);
  void (*sum_to_0)(struct peer *peer, double *value);
};

static inline double peer_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline size_t peer_parse_size(const char *text, char **end) {
  size_t value = strtoul(text, end, 10);
  int shift = **end == 'K' ? 10 : **end == 'M' ? 20 : **end == 'G' ? 30 : 0;
  if (shift) ++*end;
  return value << shift;
}

static inline void peer_parse_sizes(struct peer_options *options, const char *text) {
  while (*text && options->size_count < PEER_MAX_SIZES) {
    char *end;
    size_t size = peer_parse_size(text, &end);
    if (end == text || size < sizeof(float)) {
      fprintf(stderr, "bad size: %s\n", text);
      exit(2);
    }
    options->sizes[options->size_count++] = size;
    text = *end == ',' ? end + 1 : end;
  }
}

static inline long peer_clamp(double value, long low, long high) {
  return value < (double)low ? low : value > (double)high ? high : (long)value;
}

static inline enum peer_collective peer_parse_collective(const char *text) {
  for (int i = 0; i < PEER_COLLECTIVES; i++)
    if (!strcmp(text, peer_collectives[i])) return (enum peer_collective)i;
  fprintf(stderr, "no such collective: %s\n", text);
  exit(2);
}

static inline void peer_parse_options(struct peer_options *options, int argc, char **argv) {
  memset(options, 0, sizeof *options);
  options->budget = 0.5;
  options->ranks = 2;
  options->algorithm = options->transport = "";
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    if (!strcmp(argv[i], "--pin")) {
      options->pin = true;
      continue;
    }
    if (!strcmp(argv[i], "--in-place")) {
      options->in_place = true;
      continue;
    }
    if (!strcmp(argv[i], "--barrier")) {
      options->barrier = true;
      continue;
    }
    if (!strcmp(argv[i], "--sizes"))
      peer_parse_sizes(options, value);
    else if (!strcmp(argv[i], "--algorithm"))
      options->algorithm = value;
    else if (!strcmp(argv[i], "--transport"))
      options->transport = value;
    else if (!strcmp(argv[i], "--collective"))
      options->collective = peer_parse_collective(value);
    else if (!strcmp(argv[i], "--budget"))
      options->budget = atof(value);
    else if (!strcmp(argv[i], "-n"))
      options->ranks = atoi(value);
    else if (!strcmp(argv[i], "--meet"))
      options->meet = value;
    else if (!strcmp(argv[i], "--calls"))
      options->calls = peer_clamp(atof(value), 1, PEER_MOST_CALLS);
    else {
      fprintf(stderr, "unknown option: %s\n", argv[i]);
      exit(2);
    }
    i++;
  }
}

/* Binds the process to the (rank mod C)-th core of its C cores, before any thread exists, so that all threads
 * inherit it. */
static inline void peer_pin(int rank) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed)) return;
  int wanted = rank % CPU_COUNT(&allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &allowed) || wanted--) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

static inline float *peer_buffer(size_t bytes) {
  void *buffer;
  if (posix_memalign(&buffer, 64, bytes)) {
    fprintf(stderr, "out of memory\n");
    exit(1);
  }
  memset(buffer, 0, bytes);
  return (float *)buffer;
}

static inline void peer_call(struct peer *peer, float *send, float *recv, size_t count) {
  switch (peer->collective) {
  case PEER_REDUCE_SCATTER: peer->reduce_scatter(peer, send, recv, count); return;
  case PEER_ALLGATHER: peer->allgather(peer, send, recv, count); return;
  case PEER_BROADCAST: peer->broadcast(peer, recv, count); return;
  case PEER_ALLTOALL: peer->alltoall(peer, send, recv, count); return;
  default:
    if (peer->only_in_place && send != recv) memcpy(recv, send, count * sizeof *recv);
    peer->allreduce(peer, send, recv, count);
  }
}

/* What element i of a rank's own data is: of an alltoall its block for `to`. All sums fit into a float exactly. */
static inline float peer_value(size_t i, int rank, int to) {
  return (float)(i % 1021 + (size_t)rank + 1 + 100 * (size_t)to);
}

/* Element i of what this rank sends. */
static inline float peer_sent(const struct peer *peer, size_t i, size_t block) {
  size_t mine = block * (size_t)peer->rank;
  if (peer->collective == PEER_ALLGATHER) return peer_value(mine + i, peer->rank, 0);
  return peer_value(i, peer->rank, peer->collective == PEER_ALLTOALL ? (int)(i / block) : 0);
}

/* Element i of this rank's result. */
static inline float peer_expected(const struct peer *peer, size_t i, size_t block) {
  size_t n = (size_t)peer->ranks, mine = block * (size_t)peer->rank;
  if (peer->collective == PEER_ALLGATHER) return peer_value(i, (int)(i / block), 0);
  if (peer->collective == PEER_ALLTOALL) return peer_value(mine + i % block, (int)(i / block), peer->rank);
  if (peer->collective == PEER_BROADCAST) return peer_value(i, 0, 0);
  if (peer->collective == PEER_REDUCE_SCATTER) i += mine;
  return (float)(n * (i % 1021) + n * (n + 1) / 2);
}

static inline double peer_check(struct peer *peer, float *send, float *recv, size_t count) {
  size_t block = count / (size_t)peer->ranks;
  size_t sent = peer->collective == PEER_ALLGATHER ? block : count;
  size_t received = peer->collective == PEER_REDUCE_SCATTER ? block : count;
  double wrong = 0;
  memset(recv, 0xff, received * sizeof *recv);
  for (size_t i = 0; i < sent; i++) send[i] = peer_sent(peer, i, block);
  if (peer->collective == PEER_BROADCAST && !peer->rank) memcpy(recv, send, count * sizeof *recv);
  peer_call(peer, send, recv, count);
  for (size_t i = 0; i < received; i++) wrong += recv[i] != peer_expected(peer, i, block);
  peer->sum_to_0(peer, &wrong);
  if (send == recv) /* Repeated sums of sums would grow without limit. */
    memset(recv, 0, count * sizeof *recv);
  return wrong;
}

/* Makes `calls` calls. Returns rank 0's seconds for one. */
static inline double peer_batch(struct peer *peer, long calls, float *send, float *recv, size_t count) {
  peer->barrier(peer);
  double start = peer_now();
  for (long k = 0; k < calls; k++) peer_call(peer, send, recv, count);
  return (peer_now() - start) / (double)calls;
}

/* Warms up and returns how many calls to time: the same number on every rank. */
static inline long peer_warm_up(struct peer *peer, double budget, float *send, float *recv, size_t count) {
  long cap = peer_clamp(67108864.0 / (double)(count * sizeof *send), PEER_LEAST_CALLS, PEER_MOST_CALLS);
  double each = peer_batch(peer, 2, send, recv, count);
  long calls = peer_clamp(budget / 5 / each, 1, cap / 10 > 1 ? cap / 10 : 1);
  peer->broadcast_from_0(peer, &calls);
  each = peer_batch(peer, calls, send, recv, count);
  calls = peer_clamp(budget / each, PEER_LEAST_CALLS, cap);
  peer->broadcast_from_0(peer, &calls);
  return calls;
}

static inline int peer_compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Of nccl-tests; a step of sharded training gathers twice and sums once. */
static inline double peer_bus_factor(const struct peer *peer, enum peer_collective collective) {
  double part = (double)(peer->ranks - 1) / peer->ranks;
  if (collective == PEER_BROADCAST) return 1;
  return part * (collective == PEER_ALLREDUCE ? 2 : collective == PEER_SHARDED ? 3 : 1);
}

static inline void peer_report(const struct peer *peer, const struct peer_options *options, size_t bytes, double *times,
                               long calls, double wrong) {
  qsort(times, (size_t)calls, sizeof *times, peer_compare);
  double median = (times[(calls - 1) / 2] + times[calls / 2]) / 2, algbw = 8 * (double)bytes / median;
  printf("{\"impl\": \"%s\", \"algorithm\": \"%s\", \"collective\": \"%s\", \"bytes\": %zu, \"dtype\": \"f32\", "
         "\"op\": \"sum\", \"ranks\": %d, \"transport\": \"%s\", \"plan\": \"\", \"registered\": false, "
         "\"in_place\": %s, \"calls\": %ld, \"time_us\": %.3f, \"min_us\": %.3f, \"max_us\": %.3f, \"algbw\": %.6g, "
         "\"busbw\": %.6g, \"wrong\": %.0f}\n",
         peer->impl, options->algorithm, peer_collectives[options->collective], bytes, peer->ranks, options->transport,
         options->in_place ? "true" : "false", calls, median * 1e6, times[0] * 1e6, times[calls - 1] * 1e6, algbw,
         algbw * peer_bus_factor(peer, options->collective), wrong);
  fflush(stdout);
}

/* Whether there is one block for each rank. */
static inline bool peer_has_blocks(enum peer_collective collective) {
  return collective != PEER_ALLREDUCE && collective != PEER_BROADCAST;
}

static inline double peer_one_size(struct peer *peer, const struct peer_options *options, size_t bytes) {
  size_t count = bytes / sizeof(float);
  if (peer_has_blocks(options->collective)) count -= count % (size_t)peer->ranks;
  bytes = count * sizeof(float);
  float *recv = peer_buffer(bytes), *send = options->in_place ? recv : peer_buffer(bytes);
  double *times = (double *)calloc(PEER_MOST_CALLS, sizeof *times);
  if (peer->prepare && options->collective == PEER_ALLREDUCE) peer->prepare(peer, send, recv, count);
  double wrong = peer_check(peer, send, recv, count);
  long calls = options->calls ? options->calls : peer_warm_up(peer, options->budget, send, recv, count);
  if (options->calls) peer_batch(peer, 1, send, recv, count);
  peer->barrier(peer);
  for (long k = 0; k < calls; k++) {
    if (options->barrier) peer->barrier(peer);
    double start = peer_now();
    peer_call(peer, send, recv, count);
    times[k] = peer_now() - start;
  }
  peer->max_to_0(peer, times, (size_t)calls);
  if (peer->rank == 0) peer_report(peer, options, bytes, times, calls, wrong);
  free(times);
  if (send != recv) free(send);
  free(recv);
  return wrong;
}

/* Forward every unit's parameters are gathered; backward, in reverse, gathered again, and its gradients summed. */
static inline void peer_sharded_step(struct peer *peer, const size_t *counts, int n, float *shard, float *whole,
                                     float *gradients) {
  for (int i = 0; i < n; i++) peer->allgather(peer, shard, whole, counts[i]);
  for (int i = n - 1; i >= 0; i--) {
    peer->allgather(peer, shard, whole, counts[i]);
    peer->reduce_scatter(peer, gradients, shard, counts[i]);
  }
}

/* Times steps; every call of one is checked before, once for each size of unit. */
static inline double peer_sharded(struct peer *peer, const struct peer_options *options) {
  size_t counts[PEER_MAX_SIZES], bytes = 0, most = 0;
  double wrong = 0, times[PEER_LEAST_CALLS];
  int n = options->size_count, calls = options->calls ? (int)peer_clamp(options->calls, 1, PEER_LEAST_CALLS) : 2;
  for (int i = 0; i < n; i++) {
    size_t count = options->sizes[i] / sizeof(float);
    counts[i] = count - count % (size_t)peer->ranks;
    bytes += counts[i] * sizeof(float);
    if (counts[i] > most) most = counts[i];
  }
  float *shard = peer_buffer(most * sizeof(float)), *whole = peer_buffer(most * sizeof(float));
  float *gradients = peer_buffer(most * sizeof(float));
  for (int i = 0; i < n; i++) {
    if (i && counts[i] == counts[i - 1]) continue;
    peer->collective = PEER_ALLGATHER;
    wrong += peer_check(peer, shard, whole, counts[i]);
    peer->collective = PEER_REDUCE_SCATTER;
    wrong += peer_check(peer, gradients, shard, counts[i]);
  }
  for (int k = 0; k < calls; k++) {
    peer->barrier(peer);
    double start = peer_now();
    peer_sharded_step(peer, counts, n, shard, whole, gradients);
    times[k] = peer_now() - start;
  }
  peer->max_to_0(peer, times, (size_t)calls);
  if (peer->rank == 0) peer_report(peer, options, bytes, times, calls, wrong);
  free(shard);
  free(whole);
  free(gradients);
  return wrong;
}

/* Times every size. Returns the exit status of the process: 1 if rank 0 found a wrong element. */
static inline int peer_main_loop(struct peer *peer, const struct peer_options *options) {
  double wrong = 0;
  peer->collective = options->collective;
  if (options->collective == PEER_SHARDED)
    wrong = peer_sharded(peer, options);
  else
    for (int i = 0; i < options->size_count; i++) wrong += peer_one_size(peer, options, options->sizes[i]);
  return peer->rank == 0 && wrong > 0;
}

#endif
