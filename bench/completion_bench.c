/* Times AllReduces that survivors would complete, where nothing fails, beside others: call by call in turn.
 *
 *   banyan run -n 4 build/completion_bench
 *
 * Prints for each size the median of rank 0's calls of banyan_allreduce and, as ratios to it, of
 * banyan_member_allreduce with another buffer for the result, of banyan_allreduce in place, and of
 * banyan_member_allreduce in place, which copies its input. */
#include <banyan/banyan.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HANDLE = 2048, MOST_RANKS = 64, KINDS = 4, MOST_CALLS = 2000 };

static void check(enum banyan_status status, const char *what) {
  if (status == BANYAN_OK) return;
  fprintf(stderr, "completion_bench: %s: %s\n", what, banyan_error_text());
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The processes of the job form a membership. */
static struct banyan_comm *form(struct banyan_member *member) {
  static char all[MOST_RANKS][HANDLE], own[HANDLE];
  const char *handles[MOST_RANKS];
  struct banyan_comm *job, *comm;
  check(banyan_comm_create(NULL, &job), "joining");
  int size = banyan_comm_size(job);
  if (size > MOST_RANKS) {
    fprintf(stderr, "completion_bench: at most %d ranks\n", MOST_RANKS);
    exit(2);
  }
  snprintf(own, sizeof own, "%s", banyan_member_handle(member));
  check(banyan_allgather(job, own, all, HANDLE, BANYAN_UINT8), "exchanging handles");
  for (int r = 0; r < size; r++) handles[r] = all[r];
  check(banyan_member_reconfigure(member, "bench", handles, size, 60, &comm), "forming");
  banyan_comm_destroy(job);
  return comm;
}

static double time_call(struct banyan_member *member, struct banyan_comm **comm, int kind, float *in, float *out,
                        size_t count) {
  struct banyan_completion completion = {.size_of_struct = sizeof completion};
  struct banyan_call call = {.collective = BANYAN_ALLREDUCE, .send = kind < 2 ? in : out, .recv = out, .count = count};
  if (kind >= 2) memcpy(out, in, count * sizeof *out); /* sums of sums would grow */
  check(banyan_barrier(*comm), "barrier");
  double begun = now();
  check(kind % 2 ? banyan_member_allreduce(member, comm, &call, &completion) : banyan_run(*comm, &call), "allreduce");
  return now() - begun;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void run_size(struct banyan_member *member, struct banyan_comm **comm, size_t bytes) {
  static double times[KINDS][MOST_CALLS];
  size_t count = bytes / sizeof(float), calls = bytes > 1 << 20 ? 40 : bytes > 1 << 14 ? 300 : MOST_CALLS;
  float *in = aligned_alloc(64, (bytes + 63) / 64 * 64), *out = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!in || !out) exit(3);
  for (size_t i = 0; i < count; i++) in[i] = (float)(i % 1021);
  for (int kind = 0; kind < KINDS; kind++) (void)time_call(member, comm, kind, in, out, count);
  for (size_t i = 0; i < calls; i++)
    for (int kind = 0; kind < KINDS; kind++) times[kind][i] = time_call(member, comm, kind, in, out, count);
  for (int kind = 0; kind < KINDS; kind++) qsort(times[kind], calls, sizeof(double), ascending);
  double plain = times[0][calls / 2];
  if (banyan_comm_rank(*comm) == 0)
    printf("%10zu bytes: %10.1f us; completed %.3f; in place %.3f; completed in place %.3f\n", bytes, 1e6 * plain,
           times[1][calls / 2] / plain, times[2][calls / 2] / plain, times[3][calls / 2] / plain);
  free(in);
  free(out);
}

int main(void) {
  static const size_t sizes[] = {4, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
  struct banyan_member *member;
  check(banyan_member_create(NULL, &member), "a member");
  struct banyan_comm *comm = form(member);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) run_size(member, &comm, sizes[i]);
  banyan_comm_destroy(comm);
  banyan_member_destroy(member);
  return 0;
}
