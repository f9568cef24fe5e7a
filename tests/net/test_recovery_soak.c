/* Processes of a group are killed at random moments, in calls, in the midst of a recovery, while they join; others take
 * their places. Every sum must be right, and every process must come forward. BANYAN_TEST_LONGER=N kills N times as
 * many. Prints how long it took from a death to the next sum of all that are left. With BANYAN_TEST_CLUSTER=FOLDER
 * processes are on four hosts, which have agents at FOLDER/h0 to FOLDER/h3, and die less often, so that plans of a
 * manager come; see test_recovery_cluster.sh. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "job.h"
#include "job_keys.h"
#include "member_object.h"

enum { MOST = 8, HOSTS = 4, HANDLE = 2048, DEATHS = 4096, KILLS = 5, RECOVER_S = 60, HANG_S = 60, LARGE = 1 << 16 };
enum { SHOWN = 50 /* kills between two lines about how far a long run is */ };

/* How a process ends by itself. */
enum { EXIT_CLOSED = 7, EXIT_WRONG = 8, EXIT_FAILED = 9 };

/* A place for a process, whichever is there. */
struct slot {
  char handle[HANDLE];
  _Atomic int published; /* the process that `handle` is of */
  _Atomic double at;     /* of its last sum, */
  _Atomic int size;      /* in a group of so many */
  _Atomic int fds, kilobytes;
};

static struct board {
  struct slot slots[MOST];
  _Atomic bool begun, ends; /* the first group has formed; processes are to end */
  _Atomic uint32_t n_dead;
  struct by_fingerprint dead[DEATHS]; /* whose ends the test has seen, as a launcher does */
  _Atomic int wrong, failed;
  char text[400]; /* of the last failure */
} * board;

/* ---- a process */

static struct {
  int slot, n;
  struct banyan_member *member;
  struct banyan_comm *comm;
} self;

static _Noreturn void quit(int code, const char *what) {
  snprintf(board->text, sizeof board->text, "process %d, slot %d: %s: %s", (int)getpid(), self.slot, what,
           banyan_error_text());
  fprintf(stderr, "%s\n", board->text);
  _exit(code);
}

/* Tells the service of deaths that the test has seen. */
static void *witness(void *argument) {
  (void)argument;
  for (uint32_t told = 0;; usleep(5000))
    while (told < atomic_load(&board->n_dead)) by_member_service_dead(self.member->service, &board->dead[told++]);
  return NULL;
}

static int count_kilobytes(void) {
  char line[200];
  int kilobytes = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "VmRSS: %d", &kilobytes) == 1) break;
  if (file) fclose(file);
  return kilobytes;
}

/* A step: sums whose results are known, and whether a change is wanted. */
static enum banyan_status step(int *numbers, int *wanted) {
  int n = banyan_comm_size(self.comm), rank = banyan_comm_rank(self.comm);
  int mine = banyan_member_change_wanted(self.member);
  for (int i = 0; i < LARGE; i++) numbers[i] = rank + i;
  BY_TRY(banyan_allreduce(self.comm, numbers, numbers, LARGE, BANYAN_INT32, BANYAN_SUM));
  for (int i = 0; i < LARGE; i++)
    if (numbers[i] != n * (n - 1) / 2 + n * i) {
      atomic_fetch_add(&board->wrong, 1);
      quit(EXIT_WRONG, "a sum is wrong");
    }
  BY_TRY(banyan_allreduce(self.comm, &mine, wanted, 1, BANYAN_INT32, BANYAN_MAX));
  struct slot *slot = &board->slots[self.slot];
  atomic_store(&slot->size, n);
  atomic_store(&slot->at, job_now());
  return BANYAN_OK;
}

static void enter(void) {
  const char *handles[MOST];
  int n = 0;
  if (!atomic_load(&board->begun)) {
    for (int i = 0; i < self.n; i++) {
      while (!atomic_load(&board->slots[i].published)) usleep(500);
      handles[i] = board->slots[i].handle;
    }
    if (banyan_member_reconfigure(self.member, "first", handles, self.n, RECOVER_S, &self.comm) != BANYAN_OK)
      quit(EXIT_FAILED, "the first group");
    return;
  }
  for (int i = 0; i < self.n; i++)
    if (i != self.slot && atomic_load(&board->slots[i].published)) handles[n++] = board->slots[i].handle;
  enum banyan_status status = banyan_member_join(self.member, handles, n, RECOVER_S, &self.comm);
  if (status != BANYAN_OK) quit(status == BANYAN_ERR_CLOSED ? EXIT_CLOSED : EXIT_FAILED, "joining");
}

static const char *cluster(void) {
  return getenv("BANYAN_TEST_CLUSTER");
}

static void set_host(int slot) {
  char host[8] = "here", agent[HANDLE] = "off";
  if (cluster()) snprintf(host, sizeof host, "h%d", slot % HOSTS);
  if (cluster()) snprintf(agent, sizeof agent, "%s/%s", cluster(), host);
  setenv("BANYAN_HOST", host, 1);
  setenv("BANYAN_AGENT", agent, 1);
}

static _Noreturn void be_process(int slot, int n, const char *transport, bool proof) {
  static int numbers[LARGE];
  pthread_t thread;
  struct slot *mine = &board->slots[slot];
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int s = 1; s < 32; s++) signal(s, SIG_DFL);
  setenv("BANYAN_KEY", JOB_KEY, 1);
  set_host(slot);
  setenv("BANYAN_TRANSPORT", transport, 1);
  setenv("BANYAN_QUORUM", proof ? "survivors" : "majority", 1); /* else the last founder may die, see decision 181 */
  self.slot = slot;
  self.n = n;
  if (banyan_member_create(NULL, &self.member) != BANYAN_OK) quit(EXIT_FAILED, "a member");
  snprintf(mine->handle, HANDLE, "%s", banyan_member_handle(self.member));
  atomic_store(&mine->published, (int)getpid());
  if (proof && pthread_create(&thread, NULL, witness, NULL)) quit(EXIT_FAILED, "a thread");
  enter();
  for (int steps = 0; !atomic_load(&board->ends); steps++) {
    int wanted = 0;
    enum banyan_status status = step(numbers, &wanted);
    if (steps % 64 == 0) atomic_store(&mine->fds, job_count_fds());
    if (steps % 64 == 0) atomic_store(&mine->kilobytes, count_kilobytes());
    if (status == BANYAN_OK && !wanted) continue;
    banyan_comm_destroy(self.comm);
    self.comm = NULL;
    status = banyan_member_recover(self.member, RECOVER_S, &self.comm);
    if (status == BANYAN_ERR_CLOSED) quit(EXIT_CLOSED, "excluded");
    if (status != BANYAN_OK) quit(EXIT_FAILED, "recovering");
  }
  _exit(0);
}

/* ---- the test */

struct soak {
  int n, kills, twice; /* twice: in one of so many cases a second process dies soon after */
  const char *transport;
  bool proof;
  uint64_t seed;
};

struct run {
  struct soak soak;
  struct by_rng rng;
  pid_t pids[MOST];
  int kills, excluded;
  double delays[DEATHS];
  int n_delays;
};

static void start_process(struct run *run, int slot) {
  fflush(NULL);
  atomic_store(&board->slots[slot].published, 0);
  atomic_store(&board->slots[slot].size, 0);
  pid_t pid = fork();
  if (pid == 0) be_process(slot, run->soak.n, run->soak.transport, run->soak.proof);
  if (pid < 0) fail_msg("fork failed");
  run->pids[slot] = pid;
}

static void stop_all(struct run *run) {
  for (int i = 0; i < run->soak.n; i++)
    if (run->pids[i]) kill(run->pids[i], SIGKILL), waitpid(run->pids[i], NULL, 0);
}

/* The death of a process is known, as to a launcher. */
static void note_death(const struct run *run, int slot) {
  struct by_arena arena;
  struct by_handle handle;
  struct by_key key;
  by_arena_init(&arena);
  uint32_t n = atomic_load(&board->n_dead);
  struct slot *of = &board->slots[slot];
  if (run->soak.proof && n < DEATHS && atomic_load(&of->published) && by_key_derive(JOB_KEY, &key) == BANYAN_OK &&
      by_handle_parse(&key, of->handle, &arena, &handle) == BANYAN_OK) {
    board->dead[n] = handle.fingerprint;
    atomic_store(&board->n_dead, n + 1);
  }
  by_arena_fini(&arena);
}

/* A process that ends by itself has been excluded, which is no failure if it was held up. */
static void reap(struct run *run) {
  for (int i = 0; i < run->soak.n; i++) {
    int status;
    if (!run->pids[i] || waitpid(run->pids[i], &status, WNOHANG) != run->pids[i]) continue;
    run->pids[i] = 0;
    note_death(run, i);
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_CLOSED) {
      run->excluded++;
    } else {
      stop_all(run);
      fail_msg("seed %llu, %d of \"%s\", kill %d: slot %d ended with %x: %s", (unsigned long long)run->soak.seed,
               run->soak.n, run->soak.transport, run->kills, i, status, board->text);
    }
  }
}

static void fill_places(struct run *run) {
  for (int i = 0; i < run->soak.n; i++)
    if (!run->pids[i]) start_process(run, i);
}

/* Until all that are there have made a sum after `since`, in a group of `size`, 0: of any size. Returns when. */
static double wait_for_sums(struct run *run, double since, int size) {
  double until = job_now() + HANG_S, last = 0;
  for (;;) {
    bool all = true;
    last = 0;
    usleep(size ? 1000 : 100);
    reap(run);
    if (size) fill_places(run);
    for (int i = 0; i < run->soak.n; i++) {
      if (!run->pids[i]) continue;
      double at = atomic_load(&board->slots[i].at);
      all &= at > since && (!size || atomic_load(&board->slots[i].size) == size);
      if (at > last) last = at;
    }
    if (all) return last;
    if (job_now() < until) continue;
    for (int i = 0; i < run->soak.n; i++)
      print_error("slot %d: process %d, last sum %.3f s after, in a group of %d\n", i, (int)run->pids[i],
                  atomic_load(&board->slots[i].at) - since, atomic_load(&board->slots[i].size));
    stop_all(run);
    fail_msg("seed %llu, %d of \"%s\", kill %d: no sums for %d s; the last text is: %s",
             (unsigned long long)run->soak.seed, run->soak.n, run->soak.transport, run->kills, HANG_S, board->text);
  }
}

static void kill_one(struct run *run, int slot) {
  kill(run->pids[slot], SIGKILL);
  waitpid(run->pids[slot], NULL, 0);
  run->pids[slot] = 0;
  atomic_store(&board->slots[slot].size, 0);
  note_death(run, slot);
  run->kills++;
}

/* Kills one process, and perhaps another one soon after; the places are taken again. */
static void disturb(struct run *run) {
  const struct soak *soak = &run->soak;
  job_doze(&run->rng, cluster() ? 600000 : 20000);
  int first = (int)by_rng_below(&run->rng, (uint64_t)soak->n), second = first;
  kill_one(run, first);
  double at = job_now();
  if (soak->twice && by_rng_below(&run->rng, (uint64_t)soak->twice) == 0) {
    job_doze(&run->rng, 5000);
    while (second == first) second = (int)by_rng_below(&run->rng, (uint64_t)soak->n);
    kill_one(run, second);
    at = job_now();
  }
  if (run->n_delays < DEATHS) run->delays[run->n_delays++] = wait_for_sums(run, at, 0) - at;
  start_process(run, first);
  job_doze(&run->rng, 5000);
  fill_places(run);
  /* At times a process dies while the new one joins. */
  if (soak->proof && by_rng_below(&run->rng, 4) == 0) {
    job_doze(&run->rng, 30000);
    int third = (int)by_rng_below(&run->rng, (uint64_t)soak->n);
    if (run->pids[third]) kill_one(run, third);
  }
  wait_for_sums(run, job_now(), soak->n);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void report(struct run *run, int fds, int kilobytes) {
  int most_fds = 0, most_kilobytes = 0, n = run->n_delays;
  for (int i = 0; i < run->soak.n; i++) {
    if (atomic_load(&board->slots[i].fds) > most_fds) most_fds = atomic_load(&board->slots[i].fds);
    if (atomic_load(&board->slots[i].kilobytes) > most_kilobytes)
      most_kilobytes = atomic_load(&board->slots[i].kilobytes);
  }
  qsort(run->delays, (size_t)n, sizeof *run->delays, compare);
  print_message("%d processes, %s, %s: %d kills, %d excluded; from a death to the next sum: median %.0f ms, p99 %.0f, "
                "most %.0f; descriptors %d, then %d at most; memory %d, then %d KiB at most\n",
                run->soak.n, run->soak.transport, run->soak.proof ? "survivors with proofs" : "majority", run->kills,
                run->excluded, 1e3 * run->delays[n / 2], 1e3 * run->delays[n * 99 / 100], 1e3 * run->delays[n - 1], fds,
                most_fds, kilobytes, most_kilobytes);
}

static void soak(struct soak what) {
  memset(board, 0, sizeof *board);
  struct run *run = calloc(1, sizeof *run);
  assert_non_null(run);
  run->soak = what;
  by_rng_init(&run->rng, what.seed);
  double began = job_now();
  for (int i = 0; i < what.n; i++) start_process(run, i);
  wait_for_sums(run, began, what.n);
  atomic_store(&board->begun, true);
  int fds = atomic_load(&board->slots[0].fds), kilobytes = atomic_load(&board->slots[0].kilobytes);
  for (int shown = SHOWN; run->kills < what.kills; disturb(run)) {
    if (run->kills < shown) continue;
    print_message("%d processes, %s: %d of %d kills, %.0f s\n", what.n, what.transport, run->kills, what.kills,
                  job_now() - began);
    shown += SHOWN;
  }
  report(run, fds, kilobytes);
  assert_int_equal(atomic_load(&board->wrong), 0);
  stop_all(run);
  free(run);
}

static void test_soak(void **state) {
  (void)state;
  int kills = job_rounds(KILLS);
  if (cluster()) {
    soak((struct soak){.n = 4, .kills = kills, .twice = 4, .transport = "tcp", .proof = true, .seed = job_seed(4)});
    soak((struct soak){.n = 8, .kills = kills, .twice = 4, .transport = "auto", .proof = true, .seed = job_seed(5)});
    return;
  }
  soak((struct soak){.n = 4, .kills = kills, .transport = "auto", .seed = job_seed(0)});
  soak((struct soak){.n = 4, .kills = kills, .twice = 3, .transport = "tcp", .proof = true, .seed = job_seed(1)});
  soak((struct soak){.n = 8, .kills = kills, .twice = 3, .transport = "auto", .proof = true, .seed = job_seed(2)});
  soak((struct soak){.n = 8, .kills = kills, .transport = "tcp", .seed = job_seed(3)});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_soak)};
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (board == MAP_FAILED) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
