/* Times how members that lack a state receive it: the last NEWCOMERS ranks have none, all others have committed it.
 *
 *   banyan lab star:3,nic=1g -- build/state_bench [MIB [NEWCOMERS]]
 *
 * MIB is the size of the state (1024). Prints how long a commit takes, the first one and one that writes to memory that
 * was written to before; how long each newcomer received, with its rate; and the longest time that a member waited in
 * banyan_state_sync, from when all had come to its end. */
#include <banyan/banyan.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_RANKS = 64 };

struct times {
  double first, commit; /* seconds; of rank 0's commits */
  double pause, transfer, bytes;
};

static void check(enum banyan_status status, const char *what) {
  if (status == BANYAN_OK) return;
  fprintf(stderr, "state_bench: %s: %s\n", what, banyan_error_text());
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Different in each word and for each version. */
static uint64_t word(size_t i, uint64_t version) {
  uint64_t x = (i + version * 0x10001) * 0x9e3779b97f4a7c15u;
  return x ^ x >> 29;
}

static void fill(uint64_t *words, size_t n, uint64_t version) {
  for (size_t i = 0; i < n; i++) words[i] = word(i, version);
}

static void print(const struct times *all, int size, int newcomers, size_t mib) {
  double pause = 0, transfer = 0;
  printf("%zu MiB, %d holders, %d newcomers\n", mib, size - newcomers, newcomers);
  printf("commit: %.3f s first, %.3f s later\n", all[0].first, all[0].commit);
  for (int r = 0; r < size; r++) {
    if (all[r].pause > pause) pause = all[r].pause;
    if (all[r].transfer > transfer) transfer = all[r].transfer;
    if (r >= size - newcomers)
      printf("rank %d: received %.0f MiB in %.3f s, %.1f Mbit/s\n", r, all[r].bytes / (1 << 20), all[r].transfer,
             8e-6 * all[r].bytes / all[r].transfer);
  }
  printf("members waited %.3f s, %.3f times the transfer\n", pause, pause / transfer);
}

int main(int argc, char **argv) {
  size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 1024, n = mib * (1 << 20) / sizeof(uint64_t);
  int newcomers = argc > 2 ? atoi(argv[2]) : 1;
  struct banyan_comm *comm;
  struct banyan_state *state;
  struct banyan_state_report report;
  struct times mine = {0}, all[MOST_RANKS];
  check(banyan_comm_create(NULL, &comm), "join");
  int rank = banyan_comm_rank(comm), size = banyan_comm_size(comm);
  if (!n || newcomers < 1 || newcomers >= size || size > MOST_RANKS) {
    fprintf(stderr, "usage: state_bench [MIB [NEWCOMERS]], with at most %d ranks\n", MOST_RANKS);
    return 2;
  }
  uint64_t *words = calloc(n, sizeof *words);
  if (!words) return 1;
  const struct banyan_state_buffer buffer = {"words", words, n, BANYAN_INT64};
  check(banyan_state_create(&buffer, 1, &state), "create");
  fill(words, n, 99);
  bool holds = rank < size - newcomers;
  for (int version = 1; version <= 3 && holds; version++) { /* each copy is written once before the third */
    fill(words, n, (uint64_t)version);
    double began = now();
    check(banyan_state_commit(state, version), "commit");
    *(version == 1 ? &mine.first : &mine.commit) = now() - began;
  }
  check(banyan_barrier(comm), "barrier");
  double began = now();
  check(banyan_state_sync(state, comm, NULL, &report), "sync");
  mine.pause = now() - began;
  mine.transfer = report.seconds;
  mine.bytes = (double)report.bytes;
  for (size_t i = 0; i < n; i++)
    if (words[i] != word(i, 3)) {
      fprintf(stderr, "state_bench: rank %d: word %zu is wrong\n", rank, i);
      return 1;
    }
  check(banyan_allgather(comm, &mine, all, sizeof mine, BANYAN_UINT8), "gather");
  if (rank == 0) print(all, size, newcomers, mib);
  banyan_state_destroy(state);
  banyan_comm_destroy(comm);
  free(words);
  return 0;
}
