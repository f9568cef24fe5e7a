#include "job.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "job_keys.h"

enum { LIMIT_S = 240, MANY = 8 /* rounds */ };

double job_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int job_rounds(int usual) {
  int times = (int)check_number("BANYAN_TEST_LONGER", 1);
  if (times > 1) return usual * times;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  if (usual >= MANY) return usual / 2;
#endif
  return usual;
}

uint64_t job_seed(int i) {
  return check_first_seed() + (uint64_t)i;
}

void job_doze(struct by_rng *rng, unsigned most) {
  usleep((useconds_t)by_rng_below(rng, most + 1));
}

/* Whether a process could listen on this port now. */
static bool is_free(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  bool free = bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 1) == 0;
  close(fd);
  return free;
}

int job_free_port(void) {
  static struct by_rng rng;
  static bool seeded;
  if (!seeded) by_rng_init(&rng, (uint64_t)getpid() << 32 ^ (uint64_t)(job_now() * 1e9));
  seeded = true;
  for (;;) { /* Chooses ports below those that the kernel assigns to connections. */
    int port = 18000 + (int)by_rng_below(&rng, 14000);
    if (is_free(port)) return port;
  }
}

int job_count_fds(void) {
  DIR *folder = opendir("/proc/self/fd");
  int n = 0;
  while (folder && readdir(folder)) n++;
  if (folder) closedir(folder);
  return n - 3; /* Does not count ".", ".." and the folder itself. */
}

/* ---- the test's process */

static void make_log(struct job *job) {
  char path[] = "/tmp/banyan-test-XXXXXX";
  job->log = mkostemp(path, O_APPEND | O_CLOEXEC);
  if (job->log < 0) fail_msg("no temporary file");
  unlink(path);
}

void job_prepare(struct job *job) {
  assert_in_range(job->n, 1, JOB_RANKS);
  if (job->limit <= 0) job->limit = LIMIT_S;
  if (job->reports) return;
  job->reports =
      mmap(NULL, sizeof *job->reports * JOB_RANKS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (job->reports == MAP_FAILED) fail_msg("no shared memory");
  make_log(job);
  if (!job->root[0]) snprintf(job->root, sizeof job->root, "127.0.0.1:%d", job_free_port());
  for (int r = 0; r < JOB_RANKS; r++) job->exits[r] = 0;
}

static void set_number(const char *name, int number) {
  char text[16];
  snprintf(text, sizeof text, "%d", number);
  setenv(name, text, 1);
}

/* Variables of the caller's environment must not change a test. */
static void clear_environment(void) {
  static const char *const names[] = {"BANYAN_HOST", "BANYAN_PLAN", "BANYAN_TRANSPORT", "BANYAN_IFACE", "BANYAN_PORTS"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
}

static _Noreturn void be_rank(struct job *job, int rank, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  for (int s = 1; s < 32; s++) signal(s, SIG_DFL); /* cmocka handles some signals */
  dup2(job->log, STDERR_FILENO);
  clear_environment();
  set_number("BANYAN_RANK", rank);
  set_number("BANYAN_SIZE", job->n);
  setenv("BANYAN_ROOT", job->root, 1);
  setenv("BANYAN_KEY", JOB_KEY, 1);
  setenv("BANYAN_DEADLINE", "50", 0);
  setenv("BANYAN_JOIN_DEADLINE", "50", 0);
  setenv("BANYAN_AGENT", "off", 0);
  if (job->transport) setenv("BANYAN_TRANSPORT", job->transport, 1);
  job->run(job, rank);
  exit(0);
}

void job_set_engine(const char *key, const char *value) {
  const char *before = getenv("BANYAN_ENGINE");
  char text[200];
  snprintf(text, sizeof text, "%s%s%s=%s", before ? before : "", before ? "," : "", key, value);
  setenv("BANYAN_ENGINE", text, 1);
}

void job_start_rank(struct job *job, int rank) {
  pid_t parent = getpid();
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) be_rank(job, rank, parent);
  if (pid < 0) fail_msg("fork failed");
  job->pids[rank] = pid;
  job->exits[rank] = -1;
}

void job_start(struct job *job) {
  job_prepare(job);
  for (int r = 0; r < job->n; r++) job_start_rank(job, r);
}

static void reap(struct job *job, int rank, int options) {
  int status;
  if (job->exits[rank] != -1) return;
  if (waitpid(job->pids[rank], &status, options) == job->pids[rank]) job->exits[rank] = status;
}

static void kill_all(const struct job *job) {
  for (int r = 0; r < job->n; r++)
    if (job->exits[r] == -1) kill(job->pids[r], SIGKILL);
}

char *job_log(const struct job *job) {
  off_t size = lseek(job->log, 0, SEEK_END);
  char *text = calloc(1, (size_t)size + 1);
  if (text && pread(job->log, text, (size_t)size, 0) < 0) text[0] = 0;
  return text;
}

void job_fail(const struct job *job, const char *format, ...) {
  char text[1500], *log = job_log(job);
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (log && strlen(log) > 20000) log[20000] = 0;
  print_error("seed %llu, transport %s; the ranks wrote:\n", (unsigned long long)job->seed,
              job->transport ? job->transport : "auto");
  fputs(log ? log : "", stderr); /* print_error cuts long texts */
  free(log);
  kill_all(job);
  fail_msg("%s", text);
  abort();
}

static void describe_late(const struct job *job, char *text, size_t room) {
  size_t used = 0;
  text[0] = 0;
  for (int r = 0; r < job->n && used < room; r++)
    if (job->exits[r] == -1)
      used += (size_t)snprintf(text + used, room - used, " %d (stage %d)", r, atomic_load(&job->reports[r].stage));
}

void job_wait_rank(struct job *job, int rank) {
  double until = job_now() + job->limit;
  for (int i = 0; job->exits[rank] == -1; i++) {
    reap(job, rank, WNOHANG);
    if (job->exits[rank] != -1) return;
    usleep(i < 20 ? 200 : 2000);
    if (job_now() < until) continue;
    char late[200];
    describe_late(job, late, sizeof late);
    job_fail(job, "not done after %g s: ranks%s", job->limit, late);
  }
}

void job_wait(struct job *job) {
  for (int r = 0; r < job->n; r++) job_wait_rank(job, r);
}

void job_wait_stage(struct job *job, int rank, int stage) {
  double until = job_now() + job->limit;
  while (atomic_load(&job->reports[rank].stage) < stage) {
    reap(job, rank, WNOHANG);
    if (job->exits[rank] != -1 && atomic_load(&job->reports[rank].stage) < stage)
      job_fail(job, "rank %d ended at stage %d, before %d", rank, atomic_load(&job->reports[rank].stage), stage);
    if (job_now() > until) job_fail(job, "rank %d is still not at stage %d", rank, stage);
    usleep(500);
  }
}

void job_signal(struct job *job, int rank, int signal) {
  if (job->exits[rank] == -1) kill(job->pids[rank], signal);
}

void job_check_exit(struct job *job, int rank) {
  int status = job->exits[rank];
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  if (WIFEXITED(status)) job_fail(job, "rank %d exited with %d", rank, WEXITSTATUS(status));
  job_fail(job, "rank %d was ended by signal %d", rank, WTERMSIG(status));
}

void job_check_killed(struct job *job, int rank, int signal) {
  int status = job->exits[rank];
  if (!WIFSIGNALED(status) || WTERMSIG(status) != signal)
    job_fail(job, "rank %d ended with status %#x, not by signal %d", rank, (unsigned)status, signal);
}

int job_count_log(const struct job *job, const char *text) {
  char *log = job_log(job);
  int found = 0;
  for (const char *at = log; at && (at = strstr(at, text)); at++) found++;
  free(log);
  return found;
}

void job_check_log(const struct job *job, const char *text, int times) {
  int found = job_count_log(job, text);
  if (times < 0 ? !found : found != times)
    job_fail(job, "\"%s\" stands %d times in the log, not %d", text, found, times < 0 ? 1 : times);
}

void job_end(struct job *job, bool clean) {
  job_wait(job);
  for (int r = 0; clean && r < job->n; r++) job_check_exit(job, r);
  munmap(job->reports, sizeof *job->reports * JOB_RANKS);
  close(job->log);
  job->reports = NULL;
}

void job_run(struct job *job) {
  job_start(job);
  job_end(job, true);
}

/* ---- a rank's process */

void rank_fail(const char *format, ...) {
  char text[1500];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  fprintf(stderr, "rank %s: %s\n", getenv("BANYAN_RANK"), text);
  _exit(3);
}

void must_be(enum banyan_status wanted, enum banyan_status got, const char *what, const char *file, int line) {
  if (got != wanted)
    rank_fail("%s:%d: %s is \"%s\", not \"%s\": %s", file, line, what, banyan_status_name(got),
              banyan_status_name(wanted), banyan_error_text());
}

void must_hold_at(bool condition, const char *what, const char *file, int line) {
  if (!condition) rank_fail("%s:%d: not so: %s", file, line, what);
}

struct banyan_comm *job_join(void) {
  struct banyan_comm *world = NULL;
  must(banyan_comm_create(NULL, &world));
  return world;
}

void job_report_status(struct job *job, int rank, enum banyan_status status) {
  struct job_report *report = &job->reports[rank];
  report->status = status;
  report->at = job_now();
  snprintf(report->text, sizeof report->text, "%s", status == BANYAN_OK ? "" : banyan_error_text());
  job_set_stage(job, rank, 1000);
}

void job_set_stage(struct job *job, int rank, int stage) {
  atomic_store(&job->reports[rank].stage, stage);
}
