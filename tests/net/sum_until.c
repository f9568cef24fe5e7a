/* sum_until DONE SUMS [SECONDS [count]]: the program that test_lab_cells.sh, test_forged_fragments.sh, bench/forged.sh
 * and bench/cluster_innetwork.py run as each rank. It rewrites the file SUMS after each sum. It goes on until rank 0
 * finds the file DONE, for SECONDS, or until a number is wrong. With `count`, a wrong number is only counted and is not
 * an error.
 *
 * It prints how many numbers were wrong, in how many sums, and the 50th and 99th percentile of the sums' durations. It
 * exits with 1 if a number was wrong. Where BANYAN_TEST_SUBMITS is set, sums are submitted by name, not called. Where
 * BANYAN_TEST_PLAN names a file, all ranks set the plan that rank 0 reads from it whenever the plan changes; "default"
 * sets none. With BANYAN_TEST_SPLIT=N the first N ranks, and the others, sum by themselves in a communicator of
 * their own; with BANYAN_TEST_DUPLICATE all ranks sum in a duplicate of the job's communicator, too. Into the file that
 * BANYAN_TEST_METRICS names rank 0 writes its metrics after each sum. */
#include <banyan/banyan.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 30000, MOST = 1 << 16, TEXT = 256, LONGEST = 120 /* s; the test fails before this */ };

static double times[MOST]; /* ms, one for each sum */
static int n_sums;
static FILE *all_times;

static enum banyan_status add(struct banyan_comm *comm, float *numbers) {
  struct banyan_request *request;
  if (!getenv("BANYAN_TEST_SUBMITS"))
    return banyan_allreduce(comm, numbers, numbers, COUNT, BANYAN_FLOAT32, BANYAN_SUM);
  enum banyan_status status =
      banyan_submit_allreduce(comm, "sum", numbers, numbers, COUNT, BANYAN_FLOAT32, BANYAN_SUM, &request);
  return status == BANYAN_OK ? banyan_wait(request) : status;
}

static int sum(struct banyan_comm *comm, float *numbers) {
  int rank = banyan_comm_rank(comm), ranks = banyan_comm_size(comm), wrong = 0;
  struct timespec from, to;
  for (int i = 0; i < COUNT; i++) numbers[i] = (float)(i % 1000 + rank);
  clock_gettime(CLOCK_MONOTONIC, &from);
  if (add(comm, numbers) != BANYAN_OK) return -1;
  clock_gettime(CLOCK_MONOTONIC, &to);
  double took = (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
  if (n_sums < MOST) times[n_sums++] = took;
  clock_gettime(CLOCK_REALTIME, &to);
  if (all_times) fprintf(all_times, "%.3f %.3f\n", (double)to.tv_sec + (double)to.tv_nsec / 1e9, took);
  for (int i = 0; i < COUNT; i++) wrong += numbers[i] != (float)(ranks * (i % 1000) + ranks * (ranks - 1) / 2);
  return wrong;
}

static int follow_plan(struct banyan_comm *comm, char *set) {
  char wanted[TEXT] = "";
  const char *path = getenv("BANYAN_TEST_PLAN");
  FILE *file = path && banyan_comm_rank(comm) == 0 ? fopen(path, "r") : NULL;
  if (file && fgets(wanted, TEXT, file)) wanted[strcspn(wanted, "\n")] = '\0';
  if (file) fclose(file);
  if (banyan_broadcast(comm, wanted, TEXT, BANYAN_UINT8, 0) != BANYAN_OK) return -1;
  if (!*wanted || !strcmp(wanted, set)) return 0;
  strcpy(set, wanted);
  return banyan_comm_set_plan(comm, strcmp(set, "default") ? set : NULL) == BANYAN_OK ? 0 : -1;
}

static void write_metrics(const struct banyan_comm *comm) {
  static char text[1 << 17], path[TEXT];
  const char *name = getenv("BANYAN_TEST_METRICS");
  if (!name || banyan_comm_rank(comm) != 0) return;
  snprintf(path, sizeof path, "%s.new", name);
  (void)banyan_comm_metrics(comm, text, sizeof text);
  FILE *file = fopen(path, "w");
  if (!file) return;
  fputs(text, file);
  if (fclose(file) == 0) (void)rename(path, name);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  static float numbers[COUNT];
  static char plan[TEXT];
  struct banyan_comm *comm, *group = NULL, *duplicate = NULL;
  time_t until = time(NULL) + (argc > 3 ? atoi(argv[3]) : LONGEST);
  int wrong = 0, wrong_sums = 0;
  bool count = argc == 5;
  if (argc < 3 || argc > 5 || banyan_comm_create(NULL, &comm) != BANYAN_OK) {
    fprintf(stderr, "%s\n", banyan_error_text());
    return 1;
  }
  const char *split = getenv("BANYAN_TEST_SPLIT");
  int first = split ? atoi(split) : 0;
  if (split && banyan_comm_split(comm, banyan_comm_rank(comm) < first, banyan_comm_rank(comm), &group) != BANYAN_OK)
    return 1;
  if (getenv("BANYAN_TEST_TIMES") && banyan_comm_rank(comm) == 0) all_times = fopen(getenv("BANYAN_TEST_TIMES"), "we");
  if (getenv("BANYAN_TEST_DUPLICATE") && banyan_comm_duplicate(comm, &duplicate) != BANYAN_OK) return 1;
  for (int32_t over = 0; !over && (wrong == 0 || (count && wrong > 0));) {
    int now = sum(group ? group : comm, numbers);
    if (duplicate && now == 0) now = sum(duplicate, numbers);
    wrong = now < 0 ? now : wrong + now;
    wrong_sums += now > 0;
    FILE *sums = now ? NULL : fopen(argv[2], "w");
    if (sums) fclose(sums);
    write_metrics(comm);
    over = access(argv[1], F_OK) == 0 || time(NULL) > until;
    if (banyan_broadcast(comm, &over, 1, BANYAN_INT32, 0) != BANYAN_OK) wrong = -1;
    if (!over && !count && wrong == 0) wrong = follow_plan(comm, plan);
    usleep(20000);
  }
  qsort(times, (size_t)n_sums, sizeof *times, compare);
  printf("%d wrong, in %d of %d sums, median %.2f ms, p99 %.2f ms\n", wrong, wrong_sums, n_sums, times[n_sums / 2],
         times[n_sums * 99 / 100]);
  if (wrong < 0) fprintf(stderr, "%s\n", banyan_error_text());
  if (all_times) fclose(all_times);
  banyan_comm_destroy(duplicate);
  banyan_comm_destroy(group);
  banyan_comm_destroy(comm);
  return count ? wrong < 0 : wrong != 0;
}
