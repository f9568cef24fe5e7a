/* Networks between hosts in network namespaces that lose everything for a while or for ever. An outage that ends in
 * time does no harm. A longer outage ends the job on all ranks with an error that names the right rank. All jobs here
 * run at once, as they mostly wait. BANYAN_TEST_LONGER=N adds N rounds with outages of 5 to 20 s and prints their
 * results. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "net_operations.h"

enum {
  HOSTS = 3,
  LATEST_S = 75,
  DEADLINE_S = 45,
  AT_ONCE = 12,
  SILENCE_S = 6, /* BANYAN_SILENCE here */
  USUAL_S = 12   /* if it is not set */
};

/* What is lost of the rank that is cut off: both directions, or one. */
enum direction { BOTH, WHAT_IT_SENDS, WHAT_IT_RECEIVES, CABLE /* both, and it is seen there that the link is down */ };

/* A failure in the middle of a job's calls, and its expected result. */
struct trouble {
  const char *what;
  int host;       /* the host, 0 to 2, of the rank that is cut off from all others; -1: none */
  double seconds; /* 0: for ever */
  enum direction lost;
  double silence; /* BANYAN_SILENCE; 0: SILENCE_S */
  bool pair;      /* ranks 1 and 2 cannot reach each other, but both reach rank 0 */
  bool stop;      /* rank 0 is stopped */
  bool submit;    /* the ranks submit operations */
  bool idle;      /* the ranks compute meanwhile */
  bool early;     /* the failure happens before the first call */
  int deadline;   /* seconds; 0: DEADLINE_S */
  /* The expected status of all ranks except that of `host`. OK: the job continues. */
  enum banyan_status wanted;
  const char *names[4]; /* all of these appear in the error text */
  bool either;          /* the job may also continue, as the outage may be short enough */
};

struct run {
  struct trouble trouble;
  struct job job;
  char prefix[24];   /* prefix of the names of its namespaces */
  double until, end; /* end of the outage; end of the job */
  double began, healed;
  bool cut;
};

static double silence_of(const struct trouble *trouble) {
  return trouble->silence > 0 ? trouble->silence : SILENCE_S;
}

/* ---- namespaces: a bridge in one, and one host in each of the others */

static bool run_quietly(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool run_quietly(const char *format, ...) {
  char command[800];
  va_list list;
  va_start(list, format);
  int n = vsnprintf(command, sizeof command - 16, format, list);
  va_end(list);
  snprintf(command + n, sizeof command - (size_t)n, " 2>/dev/null");
  return system(command) == 0; /* NOLINT(cert-env33-c) */
}

/* The cuts concern IPv4, so the hosts have no IPv6: the ranks would connect over link-local addresses, which are ready
 * about two seconds after an interface is up. A kernel without IPv6 refuses the mode, and needs none. */
static void lay_out(struct run *run) {
  const char *id = run->prefix;
  bool made = run_quietly("ip netns add %sb && ip -n %sb link add name hub type bridge && ip -n %sb link set hub up",
                          id, id, id);
  for (int h = 0; h < HOSTS && made; h++)
    made = run_quietly("ip netns add %s%d && ip link add p%d netns %sb type veth peer name eth0 netns %s%d && "
                       "ip -n %sb link set p%d master hub up && ip -n %s%d addr add 10.66.0.%d/24 dev eth0 && "
                       "{ ip -n %s%d link set eth0 addrgenmode none || ! test -e /proc/net/if_inet6; } && "
                       "ip -n %s%d link set eth0 up && ip -n %s%d link set lo up",
                       id, h, h, id, id, h, id, h, id, h, h + 1, id, h, id, h, id, h);
  if (!made) fail_msg("no network could be laid out for %s", run->trouble.what);
}

static void tear_down(const struct run *run) {
  for (int h = 0; h < HOSTS; h++) (void)run_quietly("ip netns del %s%d", run->prefix, h);
  (void)run_quietly("ip netns del %sb", run->prefix);
}

static void enter(const char *prefix, int host) {
  char path[80];
  snprintf(path, sizeof path, "/run/netns/%s%d", prefix, host);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  must_hold(fd >= 0 && setns(fd, CLONE_NEWNET) == 0);
  close(fd);
}

/* What host `from` sends to host `to` goes to an address that no interface has. */
static bool misdirect(const char *id, int from, int to) {
  return run_quietly("ip -n %s%d neigh replace 10.66.0.%d lladdr 02:00:00:00:00:99 nud permanent dev eth0", id, from,
                     to + 1);
}

static bool cut_off(const char *id, int host, enum direction lost) {
  bool done = true;
  if (lost == BOTH) return run_quietly("ip -n %sb link set p%d nomaster", id, host);
  if (lost == CABLE) return run_quietly("ip -n %sb link set p%d down", id, host);
  for (int h = 0; h < HOSTS; h++)
    if (h != host) done &= lost == WHAT_IT_SENDS ? misdirect(id, host, h) : misdirect(id, h, host);
  return done;
}

static bool restore(const char *id, int host, enum direction lost) {
  bool done = true;
  if (lost == BOTH) return run_quietly("ip -n %sb link set p%d master hub", id, host);
  if (lost == CABLE) return run_quietly("ip -n %sb link set p%d up", id, host);
  for (int h = 0; h < HOSTS; h++) {
    int from = lost == WHAT_IT_SENDS ? host : h, to = lost == WHAT_IT_SENDS ? h : host;
    if (h != host) done &= run_quietly("ip -n %s%d neigh del 10.66.0.%d dev eth0", id, from, to + 1);
  }
  return done;
}

/* Frames are dropped silently, but for CABLE: no host sees a link go down. */
static void cut(struct run *run) {
  const char *id = run->prefix;
  const struct trouble *trouble = &run->trouble;
  bool done = true;
  run->began = job_now();
  if (trouble->host >= 0) done = cut_off(id, trouble->host, trouble->lost);
  if (trouble->pair) done = misdirect(id, 1, 2) && misdirect(id, 2, 1);
  if (trouble->stop) job_signal(&run->job, 0, SIGSTOP);
  if (!done) fail_msg("the network of %s could not be cut", trouble->what);
  run->cut = true;
  if (trouble->seconds > 0) run->until = run->began + trouble->seconds;
}

static void heal(struct run *run) {
  if (run->trouble.host >= 0 && !restore(run->prefix, run->trouble.host, run->trouble.lost))
    fail_msg("the network of %s could not be healed", run->trouble.what);
  run->until = 0;
  run->healed = job_now();
  run->end = run->healed + 3;
}

/* ---- a rank's process */

enum { GOING = 1, CUT, OVER };

static enum banyan_status submit(struct banyan_comm *world, const float *in, float *out, size_t n) {
  struct banyan_request *request;
  must(banyan_submit_allreduce(world, "sum", in, out, n, BANYAN_FLOAT32, BANYAN_SUM, &request));
  return banyan_wait(request);
}

static void one_sum(struct banyan_comm *world, int rank, uint32_t i, bool submits, enum banyan_status *status) {
  enum { COUNT = 3000 };
  float in[COUNT], out[COUNT];
  for (int k = 0; k < COUNT; k++) in[k] = (float)((i + (uint32_t)k) % 1000 + (uint32_t)rank);
  *status =
      submits ? submit(world, in, out, COUNT) : banyan_allreduce(world, in, out, COUNT, BANYAN_FLOAT32, BANYAN_SUM);
  for (int k = 0; k < COUNT && *status == BANYAN_OK; k++)
    must_hold(out[k] == (float)(HOSTS * ((i + (uint32_t)k) % 1000) + 3));
}

static void rank_sums(struct job *job, int rank) {
  const struct run *run = job->argument;
  char host[8], silence[16];
  const char *plans[] = {"exchange", "ring", "star", "halving"};
  enter(run->prefix, rank);
  snprintf(host, sizeof host, "h%d", rank);
  snprintf(silence, sizeof silence, "%g", silence_of(&run->trouble));
  setenv("BANYAN_HOST", host, 1);
  setenv("BANYAN_SILENCE", silence, 1);
  setenv("BANYAN_PLAN", run->trouble.pair ? "exchange" : plans[job->seed % 4], 1);
  struct banyan_comm *world = job_join();
  must(banyan_comm_set_deadline(world, run->trouble.deadline ? run->trouble.deadline : DEADLINE_S));
  enum banyan_status status = BANYAN_OK;
  int32_t over = 0;
  for (uint32_t i = 0; status == BANYAN_OK && !over; i++) {
    one_sum(world, rank, i, run->trouble.submit, &status);
    job_set_stage(job, rank, GOING);
    while (run->trouble.idle && atomic_load(&job->reports[rank].number) == CUT) usleep(20000);
    over = atomic_load(&job->reports[rank].number) == OVER;
    if (status == BANYAN_OK && !run->trouble.stop) status = banyan_broadcast(world, &over, 1, BANYAN_INT32, 0);
    usleep(3000);
  }
  job_report_status(job, rank, status);
  banyan_comm_destroy(world);
}

/* ---- the test's process */

static void print_ranks(struct run *run, uint64_t what) {
  for (int r = 0; r < HOSTS; r++) atomic_store(&run->job.reports[r].number, what);
}

static bool all_have_started(const struct run *run) {
  for (int r = 0; r < HOSTS; r++)
    if (atomic_load(&run->job.reports[r].stage) < GOING) return false;
  return true;
}

static void look_after(struct run *run, double now) {
  struct by_rng rng;
  if (!run->cut && all_have_started(run)) {
    by_rng_init(&rng, run->job.seed);
    job_doze(&rng, 50000);
    print_ranks(run, CUT);
    if (run->trouble.idle) usleep(100000);
    cut(run);
  }
  if (run->until > 0 && now > run->until) heal(run);
  if (run->end > 0 && now > run->end) {
    print_ranks(run, OVER);
    run->end = 0;
  }
}

/* Whether this rank must report a reason. */
static bool is_judged(const struct run *run, int rank) {
  return rank != run->trouble.host && !(run->trouble.stop && rank == 0);
}

/* Checks whether the job ended as expected. Returns how long the last rank took to learn of it. */
static double judge(struct run *run, bool *survived) {
  double latest = 0;
  const struct trouble *trouble = &run->trouble;
  /* On a busy machine, an outage may last longer than requested. */
  bool longer = trouble->seconds > 0 && run->healed - run->began > silence_of(trouble) - 1;
  *survived = run->job.reports[HOSTS - 1].status == BANYAN_OK;
  for (int r = 0; r < HOSTS; r++) {
    const struct job_report *report = &run->job.reports[r];
    if (!is_judged(run, r)) continue;
    bool well = report->status == trouble->wanted;
    if (trouble->either && *survived) well = report->status == BANYAN_OK;
    if (longer && !*survived) well = report->status == BANYAN_ERR_PEER_DEAD;
    for (int i = 0; i < 4 && trouble->names[i] && report->status != BANYAN_OK; i++)
      well &= strstr(report->text, trouble->names[i]) != NULL;
    if (!well) job_fail(&run->job, "%s: rank %d ended with \"%s\"", trouble->what, r, report->text);
    if (report->at - run->began > latest) latest = report->at - run->began;
  }
  return latest;
}

static void finish(struct run *run) {
  if (run->trouble.stop) job_signal(&run->job, 0, SIGKILL);
  for (int r = 0; r < HOSTS; r++) {
    job_wait_rank(&run->job, r);
    if (!run->trouble.stop || r) job_check_exit(&run->job, r);
  }
  bool survived;
  char lasted[40] = "";
  double latest = judge(run, &survived);
  if (run->trouble.seconds > 0) snprintf(lasted, sizeof lasted, " (%.1f s)", run->healed - run->began);
  print_message("%s%s: %s, %.1f s after it began\n", run->trouble.what, lasted, survived ? "survived" : "ended",
                latest);
  job_end(&run->job, false);
}

#define SILENT "its host has not answered for"

static struct run runs[AT_ONCE];
static int n_runs;

static bool are_over(void) {
  for (int i = 0; i < n_runs; i++)
    for (int r = 0; r < HOSTS; r++)
      if (is_judged(&runs[i], r) && atomic_load(&runs[i].job.reports[r].stage) < 1000) return false;
  return true;
}

static int clean_up(void **state) {
  (void)state;
  for (int i = 0; i < n_runs; i++) tear_down(&runs[i]);
  return 0;
}

static void run_all(const struct trouble *troubles, int n, int seed) {
  n_runs = 0;
  for (int i = 0; i < n; i++) {
    struct run *run = &runs[i];
    *run = (struct run){.trouble = troubles[i]};
    snprintf(run->prefix, sizeof run->prefix, "by%d-%c-", (int)getpid(), 'a' + i);
    n_runs++;
    lay_out(run);
    run->job =
        (struct job){.n = HOSTS, .run = rank_sums, .argument = run, .limit = LATEST_S, .seed = (uint64_t)(seed + i)};
    snprintf(run->job.root, sizeof run->job.root, "10.66.0.1:20000");
    job_prepare(&run->job);
    if (run->trouble.early) cut(run);
    job_start(&run->job);
  }
  double until = job_now() + LATEST_S; /* on a busy machine, the networks alone take a minute */
  while (!are_over() && job_now() < until) {
    for (int i = 0; i < n; i++) look_after(&runs[i], job_now());
    usleep(10000);
  }
  for (int i = 0; i < n; i++) print_ranks(&runs[i], OVER); /* some may continue that should have ended */
  for (int i = 0; i < n; i++) finish(&runs[i]);
  (void)clean_up(NULL);
  n_runs = 0;
}

static void test_outages(void **state) {
  (void)state;
  static const struct trouble troubles[] = {
      {.what = "4 s without host 2", .host = 2, .seconds = 4},
      {.what = "4 s without host 0", .host = 0, .seconds = 4, .lost = CABLE},
      {.what = "4 s without host 1, while all compute", .host = 1, .seconds = 4, .idle = true},
      {.what = "host 1 vanishes", .host = 1, .wanted = BANYAN_ERR_PEER_DEAD, .names = {"rank 1 (host h1)", SILENT}},
      {.what = "9 s without host 1, while all compute",
       .host = 1,
       .seconds = 9,
       .idle = true,
       .wanted = BANYAN_ERR_PEER_DEAD,
       .names = {"rank 1 (host h1)", SILENT}},
      {.what = "what host 2 sends is lost",
       .host = 2,
       .lost = WHAT_IT_SENDS,
       .wanted = BANYAN_ERR_PEER_DEAD,
       .names = {"rank 2 (host h2)", SILENT}},
      /* what it finds itself, that the others are gone, may reach them first */
      {.what = "what host 0 receives is lost", .host = 0, .lost = WHAT_IT_RECEIVES, .wanted = BANYAN_ERR_PEER_DEAD},
      {.what = "hosts 1 and 2 lose each other",
       .host = -1,
       .pair = true,
       .deadline = 6,
       .wanted = BANYAN_ERR_CONNECT,
       .names = {"rank 1 (host h1)", "rank 2 (host h2)", "cannot reach each other", "from 10.66.0."}},
      {.what = "hosts 1 and 2 never reach each other",
       .host = -1,
       .pair = true,
       .early = true,
       .deadline = 6,
       .wanted = BANYAN_ERR_CONNECT,
       .names = {"rank 2 (host h2)", "rank 1 (host h1)", "cannot reach each other", "no connection to 10.66.0.2:"}},
      {.what = "rank 0 is stopped",
       .host = -1,
       .stop = true,
       .deadline = 6,
       .wanted = BANYAN_ERR_TIMEOUT,
       .names = {"rank 0 (host h0) does not answer"}},
      {.what = "rank 0 is stopped, and operations are submitted",
       .host = -1,
       .stop = true,
       .submit = true,
       .deadline = 3,
       .wanted = BANYAN_ERR_TIMEOUT,
       .names = {"rank 0 (host h0) does not answer"}},
      {.what = "host 0 vanishes", .host = 0, .wanted = BANYAN_ERR_PEER_DEAD, .names = {"rank 0 (host h0)", SILENT}},
  };
  run_all(troubles, sizeof troubles / sizeof *troubles, 0);
}

/* In longer runs: outages with durations around the limit. */
static void test_many_outages(void **state) {
  (void)state;
  static const double lengths[] = {5, 7, 9, 10, 11, 13, 15, 20};
  static const char *const names[] = {"rank 0 (host h0)", "rank 1 (host h1)", "rank 2 (host h2)"};
  enum { LENGTHS = sizeof lengths / sizeof *lengths };
  int rounds = job_rounds(1) > 1 ? job_rounds(1) : 0;
  for (int round = 0; round < rounds; round++) {
    struct trouble troubles[LENGTHS];
    char what[LENGTHS][64];
    for (int i = 0; i < LENGTHS; i++) {
      int host = (round + i) % HOSTS;
      snprintf(what[i], sizeof what[i], "%g s without host %d%s", lengths[i], host, (round + i) % 4 ? "" : ", idle");
      troubles[i] = (struct trouble){.what = what[i],
                                     .host = host,
                                     .seconds = lengths[i],
                                     .idle = (round + i) % 4 == 0,
                                     .silence = USUAL_S,
                                     .wanted = lengths[i] > USUAL_S - 1 ? BANYAN_ERR_PEER_DEAD : BANYAN_OK,
                                     .names = {names[host]},
                                     .either = lengths[i] < USUAL_S + 2};
    }
    run_all(troubles, LENGTHS, 100 * (int)job_seed(round));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_outages, clean_up),
      cmocka_unit_test_teardown(test_many_outages, clean_up),
  };
  int id = (int)getpid();
  bool can_make = run_quietly("ip netns add by%d-try", id),
       can_enter = can_make && run_quietly("ip -n by%d-try link set lo up", id);
  if (can_make) (void)run_quietly("ip netns del by%d-try", id);
  if (!can_enter) {
    printf("skipped: network namespaces may not be made here%s\n",
           can_make ? ", or not be entered, as in a chroot" : "");
    return 77;
  }
  return cmocka_run_group_tests_name("outages", tests, NULL, NULL);
}
