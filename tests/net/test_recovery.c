/* Groups whose members agree on the next one: real processes are killed, leave, come late or hang, and those that are
 * left go on with right sums. Processes find each other's handles on a board, in place of a store. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "job.h"
#include "member_object.h"

enum { HANDLE = 2048, WHOLE = 1 << 16, SOME_S = 30 };

static struct board {
  char handles[JOB_RANKS][HANDLE];
  _Atomic int published[JOB_RANKS];
  _Atomic bool go; /* of the test, to processes that wait for it */
} * board;

/* Stages of a process. */
enum { READY = 1, RECOVERED = 2, DONE = 3 };

/* What a process of a test has. */
struct self {
  struct job *job;
  int id;
  struct banyan_member *member;
  struct banyan_comm *comm;
};

static struct self begin(struct job *job, int id) {
  struct self self = {.job = job, .id = id};
  setenv("BANYAN_HOST", "here", 1);
  must(banyan_member_create(NULL, &self.member));
  snprintf(board->handles[id], HANDLE, "%s", banyan_member_handle(self.member));
  atomic_store(&board->published[id], 1);
  return self;
}

static void end(struct self *self) {
  banyan_comm_destroy(self->comm);
  banyan_member_destroy(self->member);
}

static void list_handles(int n, const char **handles) {
  for (int i = 0; i < n; i++) {
    while (!atomic_load(&board->published[i])) usleep(500);
    handles[i] = board->handles[i];
  }
}

/* The group of the first n processes. */
static void found(struct self *self, int n) {
  const char *handles[JOB_RANKS];
  list_handles(n, handles);
  must(banyan_member_reconfigure(self->member, "first", handles, n, SOME_S, &self->comm));
}

/* That the group consists of these processes, in this order, and sums. */
static void check_group(const struct self *self, unsigned ids) {
  struct banyan_comm *comm = self->comm;
  const char *const *handles;
  int n = __builtin_popcount(ids), all = 0, rank = 0;
  must_hold(banyan_comm_size(comm) == n);
  must_hold(banyan_member_handles(self->member, &handles) == n);
  for (int i = 0; i < JOB_RANKS; i++) {
    if (!(ids >> i & 1)) continue;
    if (strcmp(handles[rank], board->handles[i])) rank_fail("process %d: rank %d is not process %d", self->id, rank, i);
    if (i == self->id) must_hold(banyan_comm_rank(comm) == rank);
    all += i;
    rank++;
  }
  int *numbers = malloc(WHOLE * sizeof *numbers);
  must_hold(numbers);
  for (int i = 0; i < WHOLE; i++) numbers[i] = self->id + i;
  must(banyan_allreduce(comm, numbers, numbers, WHOLE, BANYAN_INT32, BANYAN_SUM));
  for (int i = 0; i < WHOLE; i++)
    if (numbers[i] != all + n * i) rank_fail("process %d: element %d is %d", self->id, i, numbers[i]);
  free(numbers);
}

static enum banyan_status try_to_recover(struct self *self, double timeout) {
  banyan_comm_destroy(self->comm);
  self->comm = NULL;
  return banyan_member_recover(self->member, timeout, &self->comm);
}

static void recover(struct self *self, unsigned ids) {
  must(try_to_recover(self, SOME_S));
  check_group(self, ids);
}

/* Calls until one fails. */
static enum banyan_status work(const struct self *self) {
  int number = 1;
  enum banyan_status status = BANYAN_OK;
  while (status == BANYAN_OK) status = banyan_allreduce(self->comm, &number, &number, 1, BANYAN_INT32, BANYAN_MAX);
  return status;
}

static void run_job(struct job job) {
  memset(board, 0, sizeof *board);
  job_run(&job);
}

/* ---- deaths */

struct deaths {
  int n;
  unsigned victims;
  const char *transport;
};

static void survive(struct job *job, int id) {
  const struct deaths *deaths = job->argument;
  struct self self = begin(job, id);
  found(&self, job->n);
  check_group(&self, (1u << job->n) - 1);
  job_set_stage(job, id, READY);
  enum banyan_status status = work(&self);
  if (status != BANYAN_ERR_PEER_DEAD && status != BANYAN_ERR_CLOSED)
    rank_fail("process %d: %s", id, banyan_error_text());
  recover(&self, ((1u << job->n) - 1) & ~deaths->victims);
  job_set_stage(job, id, RECOVERED);
  end(&self);
}

static void run_deaths(struct deaths deaths) {
  memset(board, 0, sizeof *board);
  struct job job = {.n = deaths.n, .run = survive, .argument = &deaths, .transport = deaths.transport};
  job_start(&job);
  for (int r = 0; r < job.n; r++) job_wait_stage(&job, r, READY);
  for (int r = 0; r < job.n; r++)
    if (deaths.victims >> r & 1) job_signal(&job, r, SIGKILL);
  job_wait(&job);
  for (int r = 0; r < job.n; r++) {
    if (deaths.victims >> r & 1)
      job_check_killed(&job, r, SIGKILL);
    else
      job_check_exit(&job, r);
  }
  job_end(&job, false);
}

static void test_deaths(void **state) {
  (void)state;
  for (int victim = 0; victim < 4; victim++) run_deaths((struct deaths){4, 1u << victim, victim % 2 ? "tcp" : "auto"});
}

static void test_two_deaths(void **state) {
  static const unsigned victims[] = {1u << 0 | 1u << 1, 1u << 3 | 1u << 4, 1u << 0 | 1u << 4};
  (void)state;
  for (int i = 0; i < 3; i++) run_deaths((struct deaths){5, victims[i], i % 2 ? "tcp" : "auto"});
}

/* ---- newcomers */

/* Steps until the members agree that a change is wanted. */
static void step_until_change(const struct self *self) {
  int wanted = 0;
  while (!wanted) {
    int mine = banyan_member_change_wanted(self->member);
    must(banyan_allreduce(self->comm, &mine, &wanted, 1, BANYAN_INT32, BANYAN_MAX));
  }
}

/* The last process joins the others, which it asks by all of their handles, or by one. */
static void come_late(struct job *job, int id) {
  const int *asked = job->argument;
  int n = job->n - 1;
  struct self self = begin(job, id);
  if (id < n) {
    found(&self, n);
    job_set_stage(job, id, READY);
    step_until_change(&self);
    recover(&self, (1u << job->n) - 1);
  } else {
    const char *handles[JOB_RANKS];
    for (int i = 0; i < n; i++)
      while (atomic_load(&job->reports[i].stage) < READY) usleep(500);
    list_handles(n, handles);
    must(banyan_member_join(self.member, *asked < 0 ? handles : handles + *asked, *asked < 0 ? n : 1, SOME_S,
                            &self.comm));
    check_group(&self, (1u << job->n) - 1);
  }
  end(&self);
}

static void test_newcomer(void **state) {
  (void)state;
  for (int asked = -1; asked < 3; asked++)
    run_job((struct job){.n = asked == 1 ? 2 : 4, .run = come_late, .argument = &(int){asked == 1 ? 0 : asked}});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_deaths),
      cmocka_unit_test(test_two_deaths),
      cmocka_unit_test(test_newcomer),
  };
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (board == MAP_FAILED) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
