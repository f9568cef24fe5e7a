/* Groups whose processes change: real processes form one membership after the other from their handles. The scenarios
 * are those of PyTorch's tests for groups that are reconfigured, with 2, 3, 4 and 8 processes, and deaths. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "job.h"
#include "members.h"

enum { WHOLE = 1 << 20 };

static void wait_for_handles(const struct job *job) {
  for (int i = 0; i < job->n; i++)
    while (!atomic_load(&board->published[i])) usleep(500);
}

/* A communicator of those processes; the one before is destroyed. */
static enum banyan_status try_to_form(struct self *self, const char *name, const int *ids, int n, double timeout) {
  const char *handles[JOB_RANKS];
  struct banyan_comm *comm = NULL;
  for (int i = 0; i < n; i++) handles[i] = board->handles[ids[i]];
  enum banyan_status status = banyan_member_reconfigure(self->member, name, handles, n, timeout, &comm);
  if (status != BANYAN_OK) return status;
  banyan_comm_destroy(self->comm);
  self->comm = comm;
  return status;
}

/* Sums, ranks and sizes, and a large sum that goes over all links. */
static void check_group(const struct self *self, const int *ids, int n) {
  struct banyan_comm *comm = self->comm;
  int sum = self->id, wanted = 0, rank = banyan_comm_rank(comm);
  for (int i = 0; i < n; i++) wanted += ids[i];
  must_hold(banyan_comm_size(comm) == n && rank < n && ids[rank] == self->id);
  must(banyan_allreduce(comm, &sum, &sum, 1, BANYAN_INT32, BANYAN_SUM));
  if (sum != wanted) rank_fail("process %d: the sum is %d, not %d", self->id, sum, wanted);
  int *numbers = malloc(WHOLE * sizeof *numbers);
  must_hold(numbers);
  for (int i = 0; i < WHOLE; i++) numbers[i] = self->id + i;
  must(banyan_allreduce(comm, numbers, numbers, WHOLE, BANYAN_INT32, BANYAN_SUM));
  for (int i = 0; i < WHOLE; i++)
    if (numbers[i] != wanted + n * i) rank_fail("process %d: element %d is %d", self->id, i, numbers[i]);
  free(numbers);
}

static void form(struct self *self, const char *name, const int *ids, int n) {
  must(try_to_form(self, name, ids, n, 30));
  check_group(self, ids, n);
}

static struct banyan_call message(enum banyan_collective collective, int peer, int *number) {
  return (struct banyan_call){.collective = collective,
                              .dtype = BANYAN_INT32,
                              .root = peer,
                              .send = number,
                              .recv = number,
                              .count = 1,
                              .tag = 7};
}

static const int every[JOB_RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};

/* ---- scenarios: each is run by all processes of a job */

static void first_group(struct job *job, int id) {
  struct self self = begin(job, id);
  wait_for_handles(job);
  form(&self, "first", every, job->n);
  end(&self);
}

/* Each process forms groups again and again, in other orders: rank 0 moves. */
static void again(struct job *job, int id) {
  struct self self = begin(job, id);
  wait_for_handles(job);
  for (int round = 0; round < 4; round++) {
    char name[16];
    int ids[JOB_RANKS];
    for (int i = 0; i < job->n; i++) ids[i] = (i + round) % job->n;
    snprintf(name, sizeof name, "round %d", round);
    form(&self, name, ids, job->n);
  }
  end(&self);
}

static void pairs(struct job *job, int id) {
  struct self self = begin(job, id);
  wait_for_handles(job);
  form(&self, "pairs", every, job->n);
  int n = job->n, from = -1, to = id;
  struct banyan_call send = message(BANYAN_SEND, (id + 1) % n, &to),
                     take = message(BANYAN_RECV, (id + n - 1) % n, &from);
  struct banyan_request *requests[2];
  must(banyan_start(self.comm, &send, &requests[0]));
  must(banyan_start(self.comm, &take, &requests[1]));
  must(banyan_wait_all(requests, 2));
  must_hold(from == (id + n - 1) % n);
  end(&self);
}

/* Those that are in neither group end. */
static void without(struct job *job, int id, int left_out) {
  struct self self = begin(job, id);
  int rest[JOB_RANKS], n = 0;
  wait_for_handles(job);
  form(&self, "all", every, job->n);
  for (int i = 0; i < job->n; i++)
    if (i != left_out) rest[n++] = i;
  if (id != left_out) form(&self, "the rest", rest, n);
  end(&self);
}

static void without_last(struct job *job, int id) {
  without(job, id, job->n - 1);
}

static void without_middle(struct job *job, int id) {
  without(job, id, job->n / 2);
}

static void without_first(struct job *job, int id) {
  without(job, id, 0);
}

static void shrink_and_grow(struct job *job, int id) {
  struct self self = begin(job, id);
  wait_for_handles(job);
  form(&self, "all", every, job->n);
  if (id == 0) form(&self, "alone", every, 1);
  form(&self, "all again", every, job->n);
  end(&self);
}

static void one_to_all(struct job *job, int id) {
  struct self self = begin(job, id);
  wait_for_handles(job);
  const int alone[] = {id};
  char name[16];
  snprintf(name, sizeof name, "alone %d", id);
  form(&self, name, alone, 1);
  form(&self, "all", every, job->n);
  end(&self);
}

/* The last process begins when the others have a group. */
static void late(struct job *job, int id) {
  if (id == job->n - 1) job_set_stage(job, id, 1);
  while (id == job->n - 1 && atomic_load(&job->reports[0].stage) < 1) usleep(500);
  struct self self = begin(job, id);
  for (int i = 0; i < job->n - 1; i++)
    while (!atomic_load(&board->published[i])) usleep(500);
  if (id < job->n - 1) form(&self, "early", every, job->n - 1);
  if (id == 0) job_set_stage(job, 0, 1);
  wait_for_handles(job);
  form(&self, "all", every, job->n);
  end(&self);
}

static void merge(struct job *job, int id) {
  struct self self = begin(job, id);
  int half = job->n / 2;
  wait_for_handles(job);
  if (id < half)
    form(&self, "lower", every, half);
  else
    form(&self, "upper", every + half, job->n - half);
  form(&self, "merged", every, job->n);
  end(&self);
}

/* Process `by` aborts the group when the calls of all have ended. Sets the stage to 1. */
static void abort_group(const struct self *self, int by) {
  struct job *job = self->job;
  job_set_stage(job, self->id, 1);
  for (int i = 0; i < job->n && self->id == by; i++)
    while (atomic_load(&job->reports[i].stage) < 1) usleep(500);
  if (self->id == by) banyan_comm_abort(self->comm, "as the test wants it");
  while (banyan_comm_state(self->comm) == BANYAN_OK) usleep(500);
}

static void after_abort(struct job *job, int id) {
  struct self self = begin(job, id);
  int number = 1;
  wait_for_handles(job);
  form(&self, "before", every, job->n);
  abort_group(&self, job->n - 1);
  must_fail(BANYAN_ERR_ABORTED, banyan_allreduce(self.comm, &number, &number, 1, BANYAN_INT32, BANYAN_SUM));
  form(&self, "after", every, job->n);
  end(&self);
}

static void reused_name(struct job *job, int id) {
  struct self self = begin(job, id);
  wait_for_handles(job);
  form(&self, "once", every, job->n);
  must_fail(BANYAN_ERR_ARGUMENT, try_to_form(&self, "once", every, job->n, 5));
  must_hold(strstr(banyan_error_text(), "\"once\" was already used"));
  check_group(&self, every, job->n); /* the group goes on */
  end(&self);
}

/* Calls of the group before end when another one is formed, and say so: this process has left it, or the one that it
 * waits for, whichever is seen first. */
static void old_group(struct job *job, int id) {
  struct self self = begin(job, id);
  struct banyan_request *request = NULL;
  struct banyan_comm *before;
  int number = 0, other = -1;
  wait_for_handles(job);
  form(&self, "before", every, job->n);
  before = self.comm;
  self.comm = NULL;
  struct banyan_call take = message(BANYAN_RECV, (id + 1) % job->n, &other);
  must(banyan_start(before, &take, &request)); /* nobody sends */
  form(&self, "after", every, job->n);
  enum banyan_status status = banyan_wait(request), later;
  const char *text = banyan_error_text();
  if (status != BANYAN_ERR_CLOSED && status != BANYAN_ERR_PEER_DEAD) rank_fail("process %d: %s", id, text);
  must_hold(strstr(text, status == BANYAN_ERR_CLOSED ? "left the membership \"before\" for \"after\"" : "left ("));
  later = banyan_allreduce(before, &number, &number, 1, BANYAN_INT32, BANYAN_SUM);
  must_hold(later == status);
  banyan_comm_destroy(before);
  check_group(&self, every, job->n);
  end(&self);
}

/* A member is destroyed before the communicators of its group. */
static void member_first(struct job *job, int id) {
  struct self self = begin(job, id);
  wait_for_handles(job);
  form(&self, "all", every, job->n);
  banyan_member_destroy(self.member);
  check_group(&self, every, job->n);
  banyan_comm_destroy(self.comm);
}

static void run_one(int n, void (*run)(struct job *job, int id), const char *transport) {
  memset(board, 0, sizeof *board);
  struct job job = {.n = n, .run = run, .transport = transport};
  job_run(&job);
}

static void run_all(void (*run)(struct job *job, int id)) {
  static const struct {
    int n;
    const char *transport;
  } cases[] = {{2, "auto"}, {3, "tcp"}, {4, "auto"}, {8, "tcp"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) run_one(cases[i].n, run, cases[i].transport);
}

#define SCENARIO(name)                                                                                                 \
  static void test_##name(void **state) {                                                                              \
    (void)state;                                                                                                       \
    run_all(name);                                                                                                     \
  }
SCENARIO(first_group)
SCENARIO(again)
SCENARIO(pairs)
SCENARIO(without_last)
SCENARIO(without_middle)
SCENARIO(without_first)
SCENARIO(shrink_and_grow)
SCENARIO(one_to_all)
SCENARIO(late)
SCENARIO(merge)
SCENARIO(after_abort)
SCENARIO(reused_name)
SCENARIO(old_group)
SCENARIO(member_first)

/* Connections between processes that stay are kept, also where frames were under way. */
static void keep_connections(struct job *job, int id) {
  setenv("BANYAN_LOG", "net:info", 1);
  struct self self = begin(job, id);
  wait_for_handles(job);
  form(&self, "first", every, job->n);
  struct banyan_request *request;
  int *numbers = calloc(WHOLE, sizeof *numbers);
  must_hold(numbers);
  struct banyan_call call = {
      .collective = BANYAN_ALLREDUCE, .dtype = BANYAN_INT32, .send = numbers, .recv = numbers, .count = WHOLE};
  must(banyan_start(self.comm, &call, &request)); /* it may end or not */
  struct banyan_comm *before = self.comm;
  self.comm = NULL;
  form(&self, "second", every, job->n);
  (void)!banyan_wait(request);
  banyan_comm_destroy(before);
  free(numbers);
  end(&self);
}

static void test_keep_connections(void **state) {
  (void)state;
  memset(board, 0, sizeof *board);
  struct job job = {.n = 3, .run = keep_connections, .transport = "tcp"};
  job_start(&job);
  job_wait(&job);
  int made = job_count_log(&job, " over TCP, "), kept = job_count_log(&job, " over a kept connection");
  if (!made || kept != made) job_fail(&job, "%d links were made, %d were kept", made, kept);
  job_end(&job, true);
}

/* Process 1 is stopped between its arrival in the new group and its end of the one before, for longer than others wait
 * for it to keep connections: they must not give up a connection that it then takes. */
enum { COMES = 2, HELD_UP_MS = 1300, WAITS = 30000 };

static void held_up(struct job *job, int id) {
  setenv("BANYAN_LOG", "communicator:info", 1);
  struct self self = begin(job, id);
  wait_for_handles(job);
  form(&self, "first", every, job->n);
  abort_group(&self, 0); /* so no link says goodbye */
  job_set_stage(job, id, COMES);
  while (id == job->n - 1 && !atomic_load(&board->go)) usleep(500);
  form(&self, "second", every, job->n);
  end(&self);
}

static void test_held_up(void **state) {
  (void)state;
  memset(board, 0, sizeof *board);
  struct job job = {.n = 3, .run = held_up, .transport = "tcp"};
  job_start(&job);
  for (int r = 0; r < job.n; r++) job_wait_stage(&job, r, COMES);
  usleep(300000); /* for process 1 to meet process 0 */
  job_signal(&job, 1, SIGSTOP);
  atomic_store(&board->go, true);
  for (int waited = 0; job_count_log(&job, "membership \"second\" of 3 processes") < 2; waited++) {
    if (waited == WAITS) job_fail(&job, "the others have not come");
    usleep(1000);
  }
  usleep(HELD_UP_MS * 1000);
  job_signal(&job, 1, SIGCONT);
  job_wait(&job);
  job_end(&job, true);
}

/* ---- deaths */

enum { VICTIM_AT = 1, FORMED = 2 };

/* One process is killed; the others learn of it in a call, and form a group without it. */
static void survive(struct job *job, int id) {
  int victim = *(const int *)job->argument, rest[JOB_RANKS], n = 0, number = 1;
  struct self self = begin(job, id);
  wait_for_handles(job);
  form(&self, "all", every, job->n);
  job_set_stage(job, id, VICTIM_AT);
  enum banyan_status status = BANYAN_OK;
  while (status == BANYAN_OK) status = banyan_allreduce(self.comm, &number, &number, 1, BANYAN_INT32, BANYAN_MAX);
  if (status != BANYAN_ERR_PEER_DEAD) rank_fail("process %d: %s", id, banyan_error_text());
  for (int i = 0; i < job->n; i++)
    if (i != victim) rest[n++] = i;
  form(&self, "survivors", rest, n);
  job_set_stage(job, id, FORMED);
  end(&self);
}

static void test_deaths(void **state) {
  static const char *const transports[] = {"auto", "tcp"};
  (void)state;
  for (int victim = 0; victim < 4; victim++) {
    memset(board, 0, sizeof *board);
    struct job job = {.n = 4, .run = survive, .argument = &victim, .transport = transports[victim % 2]};
    job_start(&job);
    for (int r = 0; r < job.n; r++) job_wait_stage(&job, r, VICTIM_AT);
    job_signal(&job, victim, SIGKILL);
    for (int r = 0; r < job.n; r++)
      if (r != victim) job_wait_stage(&job, r, FORMED);
    job_wait(&job);
    for (int r = 0; r < job.n; r++)
      if (r != victim) job_check_exit(&job, r);
    job_check_killed(&job, victim, SIGKILL);
    job_end(&job, false);
  }
}

/* ---- what is wrong with a list of handles: the group that there is goes on */

static void wrong_lists(struct job *job, int id) {
  struct self self = begin(job, id);
  const int twice[] = {0, 1, 0}, other[] = {1 - id};
  char damaged[HANDLE], longest[300];
  struct banyan_comm *comm = NULL;
  const char *handles[] = {board->handles[0], damaged};
  wait_for_handles(job);
  form(&self, "all", every, job->n);
  must_fail(BANYAN_ERR_ARGUMENT, try_to_form(&self, "twice", twice, 3, 5));
  must_hold(strstr(banyan_error_text(), "names one process twice, as 0 and 2"));
  must_fail(BANYAN_ERR_ARGUMENT, try_to_form(&self, "other", other, 1, 5));
  must_hold(strstr(banyan_error_text(), "this process is not among the 1"));
  must_fail(BANYAN_ERR_ARGUMENT, try_to_form(&self, "", every, job->n, 5));
  memset(longest, 'a', sizeof longest - 1);
  longest[sizeof longest - 1] = 0;
  must_fail(BANYAN_ERR_ARGUMENT, try_to_form(&self, longest, every, job->n, 5));
  must_fail(BANYAN_ERR_ARGUMENT, try_to_form(&self, "no time", every, job->n, 0));
  must_fail(BANYAN_ERR_ARGUMENT, try_to_form(&self, "nobody", every, 0, 5));
  snprintf(damaged, sizeof damaged, "%s", board->handles[1]);
  damaged[30] = damaged[30] == 'A' ? 'B' : 'A';
  must_fail(BANYAN_ERR_ARGUMENT, banyan_member_reconfigure(self.member, "damaged", handles, 2, 5, &comm));
  must_hold(strstr(banyan_error_text(), "handle 1 of the membership: the handle"));
  must_hold(strstr(banyan_error_text(), "was damaged, or belongs to a job with another key"));
  snprintf(damaged, sizeof damaged, "no handle at all");
  must_fail(BANYAN_ERR_ARGUMENT, banyan_member_reconfigure(self.member, "none", handles, 2, 5, &comm));
  must_hold(strstr(banyan_error_text(), "is not the handle of a process"));
  check_group(&self, every, job->n);
  end(&self);
}

static void test_wrong_lists(void **state) {
  (void)state;
  run_one(2, wrong_lists, NULL);
}

/* Members that form lists that differ under one name are all told, also those that come when others know already: one
 * with the list of the first process, and one with another. */
static void differing_lists(struct job *job, int id) {
  struct self self = begin(job, id);
  const int orders[2][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}};
  wait_for_handles(job);
  form(&self, "all", every, job->n);
  while (id % 2 && atomic_load(&job->reports[2].stage) < 1) usleep(1000);
  must_fail(BANYAN_ERR_MISMATCH, try_to_form(&self, "differ", orders[id > 1], 4, 30));
  must_hold(strstr(banyan_error_text(), "give all the same handles in the same order"));
  if (id == 2) job_set_stage(job, id, 1);
  check_group(&self, every, job->n);
  end(&self);
}

static void test_differing_lists(void **state) {
  (void)state;
  run_one(4, differing_lists, NULL);
}

/* Lists whose first processes differ, so that nobody meets who would notice: all are told, whether those that come
 * first wait for each other, or never come. */
enum { LISTED = 5 };

struct lists {
  int n;
  bool again;             /* all form a group afterwards; else the processes end at once */
  const char *of[LISTED]; /* digits; NULL: this process forms nothing under the name */
};

static void other_firsts(struct job *job, int id) {
  const struct lists *lists = job->argument;
  const char *list = lists->of[id];
  int ids[LISTED], n = 0;
  struct self self = begin(job, id);
  wait_for_handles(job);
  for (; list && list[n]; n++) ids[n] = list[n] - '0';
  if (list) {
    must_fail(BANYAN_ERR_MISMATCH, try_to_form(&self, "differ", ids, n, 10));
    must_hold(strstr(banyan_error_text(), "give all the same handles in the same order"));
  }
  if (lists->again) form(&self, "all", every, job->n);
  end(&self);
}

static void test_other_firsts(void **state) {
  static struct lists cases[] = {
      {2, true, {"01", "10"}},
      {3, false, {"012", "120", "201"}},
      {3, true, {"012", "10", "21"}},
      {4, true, {"10", "21", "312"}},
      {5, false, {"3012", "4102", "3012"}},
      {5, true, {"01234", "01234", "34012", "34012", "34012"}},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    memset(board, 0, sizeof *board);
    struct job job = {.n = cases[i].n, .run = other_firsts, .argument = &cases[i]};
    job_run(&job);
  }
}

/* The first process of the list comes when the others have asked each other. */
static void late_first(struct job *job, int id) {
  struct self self = begin(job, id);
  wait_for_handles(job);
  if (!id) usleep(1200000);
  form(&self, "all", every, job->n);
  end(&self);
}

static void test_late_first(void **state) {
  (void)state;
  run_one(4, late_first, NULL);
}

/* A process of the list does not come: the others are told which, and their group goes on. */
static void missing_process(struct job *job, int id) {
  struct self self = begin(job, id);
  const int two[] = {0, 1};
  wait_for_handles(job);
  if (id < 2) {
    form(&self, "two", two, 2);
    must_fail(BANYAN_ERR_TIMEOUT, try_to_form(&self, "three", every, 3, 1));
    must_hold(strstr(banyan_error_text(), "2 of 3 ranks joined within 1 s; missing: 2 (host here, process "));
    check_group(&self, two, 2);
    job_set_stage(job, id, 1);
  }
  while (id == 2 && (atomic_load(&job->reports[0].stage) < 1 || atomic_load(&job->reports[1].stage) < 1)) usleep(1000);
  form(&self, "three at last", every, 3);
  end(&self);
}

static void test_missing_process(void **state) {
  (void)state;
  run_one(3, missing_process, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_first_group),
      cmocka_unit_test(test_again),
      cmocka_unit_test(test_pairs),
      cmocka_unit_test(test_without_last),
      cmocka_unit_test(test_without_middle),
      cmocka_unit_test(test_without_first),
      cmocka_unit_test(test_shrink_and_grow),
      cmocka_unit_test(test_one_to_all),
      cmocka_unit_test(test_late),
      cmocka_unit_test(test_merge),
      cmocka_unit_test(test_after_abort),
      cmocka_unit_test(test_reused_name),
      cmocka_unit_test(test_old_group),
      cmocka_unit_test(test_member_first),
      cmocka_unit_test(test_keep_connections),
      cmocka_unit_test(test_held_up),
      cmocka_unit_test(test_deaths),
      cmocka_unit_test(test_wrong_lists),
      cmocka_unit_test(test_differing_lists),
      cmocka_unit_test(test_other_firsts),
      cmocka_unit_test(test_late_first),
      cmocka_unit_test(test_missing_process),
  };
  if (!board_create()) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
