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

struct peer_options {
  size_t sizes[PEER_MAX_SIZES];
  int size_count;
  double budget;
  bool pin, in_place;
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
  bool only_in_place; /* `allreduce` ignores `send` and sums `recv`; peer_call() copies the terms there */
  void (*prepare)(struct peer *peer, const float *send, float *recv, size_t count); /* may be NULL */
  void (*allreduce)(struct peer *peer, const float *send, float *recv, size_t count);
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
    if (!strcmp(argv[i], "--sizes"))
      peer_parse_sizes(options, value);
    else if (!strcmp(argv[i], "--algorithm"))
      options->algorithm = value;
    else if (!strcmp(argv[i], "--transport"))
      options->transport = value;
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

static inline void peer_call(struct peer *peer, const float *send, float *recv, size_t count) {
  if (peer->only_in_place && send != recv) memcpy(recv, send, count * sizeof *recv);
  peer->allreduce(peer, send, recv, count);
}

static inline double peer_check(struct peer *peer, float *send, float *recv, size_t count) {
  memset(recv, 0xff, count * sizeof *recv);
  for (size_t i = 0; i < count; i++) send[i] = (float)(i % 1021 + (size_t)peer->rank + 1);
  peer_call(peer, send, recv, count);
  double wrong = 0;
  size_t n = (size_t)peer->ranks;
  for (size_t i = 0; i < count; i++) wrong += recv[i] != (float)(n * (i % 1021) + n * (n + 1) / 2);
  peer->sum_to_0(peer, &wrong);
  if (send == recv) /* Repeated sums of sums would grow without limit. */
    memset(recv, 0, count * sizeof *recv);
  return wrong;
}

/* Makes `calls` calls. Returns rank 0's seconds for one. */
static inline double peer_batch(struct peer *peer, long calls, const float *send, float *recv, size_t count) {
  peer->barrier(peer);
  double start = peer_now();
  for (long k = 0; k < calls; k++) peer_call(peer, send, recv, count);
  return (peer_now() - start) / (double)calls;
}

/* Warms up and returns how many calls to time: the same number on every rank. */
static inline long peer_warm_up(struct peer *peer, double budget, const float *send, float *recv, size_t count) {
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

static inline void peer_report(const struct peer *peer, const struct peer_options *options, size_t bytes, double *times,
                               long calls, double wrong) {
  qsort(times, (size_t)calls, sizeof *times, peer_compare);
  double median = (times[(calls - 1) / 2] + times[calls / 2]) / 2, algbw = 8 * (double)bytes / median;
  printf("{\"impl\": \"%s\", \"algorithm\": \"%s\", \"collective\": \"allreduce\", \"bytes\": %zu, \"dtype\": \"f32\", "
         "\"op\": \"sum\", \"ranks\": %d, \"transport\": \"%s\", \"plan\": \"\", \"registered\": false, "
         "\"in_place\": %s, \"calls\": %ld, \"time_us\": %.3f, \"min_us\": %.3f, \"max_us\": %.3f, \"algbw\": %.6g, "
         "\"busbw\": %.6g, \"wrong\": %.0f}\n",
         peer->impl, options->algorithm, bytes, peer->ranks, options->transport, options->in_place ? "true" : "false",
         calls, median * 1e6, times[0] * 1e6, times[calls - 1] * 1e6, algbw,
         algbw * 2 * (peer->ranks - 1) / peer->ranks, wrong);
  fflush(stdout);
}

static inline double peer_one_size(struct peer *peer, const struct peer_options *options, size_t bytes) {
  size_t count = bytes / sizeof(float);
  float *recv = peer_buffer(bytes), *send = options->in_place ? recv : peer_buffer(bytes);
  double *times = (double *)calloc(PEER_MOST_CALLS, sizeof *times);
  if (peer->prepare) peer->prepare(peer, send, recv, count);
  double wrong = peer_check(peer, send, recv, count);
  long calls = peer_warm_up(peer, options->budget, send, recv, count);
  if (options->calls) calls = options->calls;
  peer->barrier(peer);
  for (long k = 0; k < calls; k++) {
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

/* Times every size. Returns the exit status of the process: 1 if rank 0 found a wrong sum. */
static inline int peer_main_loop(struct peer *peer, const struct peer_options *options) {
  double wrong = 0;
  for (int i = 0; i < options->size_count; i++) wrong += peer_one_size(peer, options, options->sizes[i]);
  return peer->rank == 0 && wrong > 0;
}

#endif
