/* A rank that runs out of file descriptors reports this. The others receive this reason, and no error mentions
 * firewalls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "check.h"
#include "net_operations.h"

/* Descriptors in addition to those that a rank starts with. Joining needs at least LEAST; MOST is always enough. */
enum { RANKS = 4, LEAST = 7, MOST = 17 };

struct limit {
  int rank, more;
};

static void rank_lacks(struct job *job, int rank) {
  const struct limit *limit = job->argument;
  struct banyan_comm *world = NULL;
  float in = 1, out = 0;
  setenv("BANYAN_PLAN", "exchange", 1); /* needs all links */
  setenv("BANYAN_HOST", "here", 1);
  if (rank == limit->rank) {
    rlim_t most = (rlim_t)(job_count_fds() + limit->more);
    must_hold(setrlimit(RLIMIT_NOFILE, &(struct rlimit){most, most}) == 0);
  }
  enum banyan_status status = banyan_comm_create(NULL, &world);
  for (int i = 0; i < 10 && status == BANYAN_OK; i++)
    status = banyan_allreduce(world, &in, &out, 1, BANYAN_FLOAT32, BANYAN_SUM);
  job_report_status(job, rank, status);
  banyan_comm_destroy(world);
}

/* Checks that all ranks end with the same reason or that all have their sums. */
static bool judge(struct job *job) {
  const struct limit *limit = job->argument;
  enum banyan_status first = job->reports[limit->rank].status;
  char name[32];
  snprintf(name, sizeof name, "rank %d (host here)", limit->rank);
  for (int r = 0; r < RANKS; r++) {
    const struct job_report *report = &job->reports[r];
    bool notified = strstr(report->text, name) && strstr(report->text, "Too many open files") &&
                    strstr(report->text, "ulimit -n") && !strstr(report->text, "firewall");
    bool known = first == BANYAN_ERR_SYSTEM /* while joining */ || first == BANYAN_ERR_CONNECT;
    if (report->status != first || (first != BANYAN_OK && !(known && notified)))
      job_fail(job, "rank %d with %d descriptors more, over %s: rank %d ended with \"%s\", %s", limit->rank,
               limit->more, job->transport, r, banyan_status_name(report->status), report->text);
  }
  return first == BANYAN_OK;
}

static void lack(int rank, const char *transport) {
  static struct job jobs[MOST - LEAST + 1];
  static struct limit limits[MOST - LEAST + 1];
  int well = 0;
  for (int i = 0; i <= MOST - LEAST; i++) { /* all jobs run at once because they mostly wait */
    limits[i] = (struct limit){.rank = rank, .more = LEAST + i};
    jobs[i] = (struct job){.n = RANKS, .run = rank_lacks, .transport = transport, .argument = &limits[i]};
    job_start(&jobs[i]);
  }
  for (int i = 0; i <= MOST - LEAST; i++) {
    job_wait(&jobs[i]);
    bool enough = judge(&jobs[i]);
    if (i == 0 && enough) job_fail(&jobs[i], "%d descriptors are enough: the test tests nothing", LEAST);
    well += enough;
    job_end(&jobs[i], true);
  }
  print_message("rank %d over %s: %d of %d limits were enough\n", rank, transport, well, MOST - LEAST + 1);
}

static void test_root_lacks(void **state) {
  (void)state;
  lack(0, "tcp");
  lack(0, "shm");
}

static void test_another_lacks(void **state) {
  (void)state;
  lack(1, "tcp");
  lack(2, "shm");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_root_lacks),
      cmocka_unit_test(test_another_lacks),
  };
  return cmocka_run_group_tests_name("descriptors", tests, NULL, NULL);
}
