/* sum_calls BYTES SECONDS [PAUSE]: the program that measurements of clusters (bench/cluster_*.py) and their tests run
 * as each rank. It sums BYTES of float32 again and again, with PAUSE seconds between calls, for SECONDS by the clock of
 * rank 0, or until rank 0 gets SIGUSR1. Every rank checks every element of every sum. The elements differ from call to
 * call, so that a result of another call is found out.
 *
 * Rank 0 prints "call END SECONDS" after each call: when it ended, in s since 1970, and how long it took. At its end
 * each rank prints "WRONG wrong elements in CALLS calls", and exits with 1 if there are any. */
#include <banyan/banyan.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PERIOD = 1009 };

static double now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static float term(size_t i, uint64_t call) {
  return (float)((i + 7 * call) % PERIOD);
}

static void fill(float *numbers, size_t n, uint64_t call, int rank) {
  for (size_t i = 0; i < n; i++) numbers[i] = term(i, call) + (float)rank;
}

static uint64_t check(const float *numbers, size_t n, uint64_t call, int ranks) {
  uint64_t wrong = 0;
  float rest = (float)(ranks * (ranks - 1) / 2);
  for (size_t i = 0; i < n; i++) wrong += numbers[i] != (float)ranks * term(i, call) + rest;
  return wrong;
}

static enum banyan_status run(struct banyan_comm *comm, float *numbers, size_t n, double seconds, double pause,
                              uint64_t *wrong) {
  int rank = banyan_comm_rank(comm), ranks = banyan_comm_size(comm);
  double until = now(CLOCK_MONOTONIC) + seconds;
  uint64_t call = 0;
  enum banyan_status status = BANYAN_OK;
  for (bool over = false; !over && status == BANYAN_OK; call++) {
    fill(numbers, n, call, rank);
    numbers[n] = (float)(rank == 0 && now(CLOCK_MONOTONIC) > until); /* all end after the same call */
    double from = now(CLOCK_MONOTONIC);
    status = banyan_allreduce(comm, numbers, numbers, n + 1, BANYAN_FLOAT32, BANYAN_SUM);
    if (status != BANYAN_OK) break;
    if (rank == 0) printf("call %.6f %.6f\n", now(CLOCK_REALTIME), now(CLOCK_MONOTONIC) - from);
    *wrong += check(numbers, n, call, ranks);
    over = numbers[n] != 0;
    struct timespec wait = {.tv_sec = (time_t)pause, .tv_nsec = (long)((pause - (double)(time_t)pause) * 1e9)};
    if (pause > 0 && !over) nanosleep(&wait, NULL);
  }
  printf("%llu wrong elements in %llu calls\n", (unsigned long long)*wrong, (unsigned long long)call);
  return status;
}

int main(int argc, char **argv) {
  struct banyan_comm *comm;
  size_t n = argc > 2 ? strtoull(argv[1], NULL, 10) / sizeof(float) : 0;
  float *numbers = malloc((n + 1) * sizeof *numbers);
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc < 3 || argc > 4 || !n || !numbers) {
    fprintf(stderr, "usage: sum_calls BYTES SECONDS [PAUSE]\n");
    return 2;
  }
  uint64_t wrong = 0;
  enum banyan_status status = banyan_comm_create(NULL, &comm);
  if (status == BANYAN_OK) {
    status = run(comm, numbers, n, strtod(argv[2], NULL), argc > 3 ? strtod(argv[3], NULL) : 0, &wrong);
    if (status) fprintf(stderr, "%s\n", banyan_error_text());
    banyan_comm_destroy(comm);
  } else
    fprintf(stderr, "%s\n", banyan_error_text());
  free(numbers);
  return status != BANYAN_OK || wrong;
}
