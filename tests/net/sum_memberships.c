/* sum_memberships FOLDER BYTES CALLS MEMBERSHIP...: sums in one membership after the other. A MEMBERSHIP is the ranks
 * that this program was started with, a digit each, in their order: "0123" and then "312" has rank 0 die, and rank 3
 * become rank 0. Handles go through files in FOLDER. In each membership, CALLS sums of BYTES are made; then whoever is
 * in no later membership kills itself, and the others call on until they learn of it. Every sum is checked.
 *
 * Rank 0 of each membership prints "MEMBERSHIP: first SECONDS, best SECONDS": from the death before it, or from the
 * last call, to the end of the first sum, and the shortest sum. "set=PLAN" in place of a MEMBERSHIP sets a plan. */
#include <banyan/banyan.h>
#include <banyan/elastic.h>

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HANDLE = 2048, MOST = 10, PATH = 4096 };

static const char *folder;
static int self;
static float *numbers;
static size_t n_numbers;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void must(enum banyan_status status) {
  if (status == BANYAN_OK) return;
  fprintf(stderr, "rank %d: %s\n", self, banyan_error_text());
  exit(1);
}

static void write_file(const char *name, const char *text) {
  char path[PATH], final[PATH];
  snprintf(path, sizeof path, "%s/%s.new", folder, name);
  snprintf(final, sizeof final, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  if (!file || fputs(text, file) < 0 || fclose(file) || rename(path, final)) exit(1);
}

static void read_file(const char *name, char *text) {
  char path[PATH];
  FILE *file;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  while (!(file = fopen(path, "r"))) usleep(1000);
  if (!fgets(text, HANDLE, file)) exit(1);
  fclose(file);
}

static struct banyan_comm *form(struct banyan_member *member, const char *ranks, int step) {
  static char handles[MOST][HANDLE];
  const char *list[MOST];
  char name[64];
  int n = (int)strlen(ranks);
  struct banyan_comm *comm;
  for (int i = 0; i < n; i++) {
    snprintf(name, sizeof name, "handle%c", ranks[i]);
    read_file(name, handles[i]);
    list[i] = handles[i];
  }
  snprintf(name, sizeof name, "%d %s", step, ranks);
  must(banyan_member_reconfigure(member, name, list, n, 60, &comm));
  return comm;
}

static enum banyan_status sum(struct banyan_comm *comm, const char *ranks) {
  float wanted = 0;
  int n = banyan_comm_size(comm);
  for (int i = 0; i < n; i++) wanted += (float)(ranks[i] - '0');
  for (size_t i = 0; i < n_numbers; i++) numbers[i] = (float)self + (float)(i % 1000);
  enum banyan_status status = banyan_allreduce(comm, numbers, numbers, n_numbers, BANYAN_FLOAT32, BANYAN_SUM);
  for (size_t i = 0; i < n_numbers && status == BANYAN_OK; i++)
    if (numbers[i] != wanted + (float)n * (float)(i % 1000)) {
      fprintf(stderr, "rank %d: element %zu is %g\n", self, i, (double)numbers[i]);
      exit(1);
    }
  return status;
}

/* Since when others wait for this membership: the death, or the last call. */
static double read_time(int step) {
  char name[32], text[HANDLE];
  snprintf(name, sizeof name, "time%d", step);
  read_file(name, text);
  return strtod(text, NULL);
}

static void write_time(int step) {
  char name[32], text[64];
  snprintf(name, sizeof name, "time%d", step);
  snprintf(text, sizeof text, "%.9f", now());
  write_file(name, text);
}

static bool is_in(const char *ranks) {
  return strchr(ranks, '0' + self);
}

/* The next membership behind `at`; NULL: none. */
static char *next_of(char **memberships, int n, int at) {
  while (++at < n)
    if (memberships[at][0] != 's') return memberships[at];
  return NULL;
}

static void run(struct banyan_member *member, char **memberships, int n, int calls) {
  struct banyan_comm *comm = NULL;
  for (int step = 0; step < n; step++) {
    const char *ranks = memberships[step], *next = next_of(memberships, n, step);
    double best = 1e9, first = 0;
    if (!is_in(ranks)) continue;
    banyan_comm_destroy(comm);
    comm = form(member, ranks, step);
    if (next && !strncmp(memberships[step + 1], "set=", 4)) must(banyan_comm_set_plan(comm, memberships[step + 1] + 4));
    bool shrinks = next && strspn(ranks, next) < strlen(ranks);
    for (int i = 0; i < calls; i++) {
      double from = now();
      enum banyan_status status = sum(comm, ranks);
      if (shrinks && i == calls - 1 && status == BANYAN_ERR_PEER_DEAD) break; /* it had this sum sooner */
      must(status);
      if (!i) first = now();
      if (now() - from < best) best = now() - from;
    }
    struct banyan_plan_info plan;
    must(banyan_comm_plan(comm, n_numbers * sizeof *numbers, &plan));
    if (banyan_comm_rank(comm) == 0)
      printf("%s: first %.3f, best %.4f, plan %s\n", ranks, step ? first - read_time(step) : 0, best, plan.name);
    if (!next) break;
    int at = step + 1;
    while (memberships[at] != next) at++;
    if (!is_in(next)) {
      write_time(at);
      raise(SIGKILL);
    }
    if (!shrinks && banyan_comm_rank(comm) == 0) write_time(at);
    while (shrinks && sum(comm, ranks) == BANYAN_OK) continue;
  }
  banyan_comm_destroy(comm);
}

int main(int argc, char **argv) {
  struct banyan_member *member;
  const char *rank = getenv("BANYAN_RANK");
  if (argc < 5 || !rank) {
    fprintf(stderr, "usage: sum_memberships FOLDER BYTES CALLS MEMBERSHIP...\n");
    return 2;
  }
  self = atoi(rank);
  folder = argv[1];
  n_numbers = strtoull(argv[2], NULL, 10) / sizeof(float);
  numbers = malloc(n_numbers * sizeof *numbers);
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (!numbers) return 1;
  must(banyan_member_create(NULL, &member));
  char name[32];
  snprintf(name, sizeof name, "handle%d", self);
  write_file(name, banyan_member_handle(member));
  run(member, argv + 4, argc - 4, atoi(argv[3]));
  banyan_member_destroy(member);
  free(numbers);
  return 0;
}
