/* Groups whose members agree on the next one: real processes are killed, leave, come late or hang, and those that are
 * left go on with right sums. Processes find each other's handles on a board, in place of a store. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "job.h"
#include "job_keys.h"
#include "job_state.h"
#include "member_object.h"
#include "members.h"

enum { WHOLE = 1 << 16, SOME_S = 30 };

/* Stages of a process. */
enum { SUMMED = 1, READY = 2, RECOVERED = 3 };

static void list_handles(int n, const char **handles) {
  for (int i = 0; i < n; i++) {
    while (!atomic_load(&board->published[i])) usleep(500);
    handles[i] = board->handles[i];
  }
}

/* The group of the first n processes. Returns when all have it: a change before would end the plan's calls. */
static void found(struct self *self, int n) {
  const char *handles[JOB_RANKS] = {NULL};
  list_handles(n, handles);
  must(banyan_member_reconfigure(self->member, "first", handles, n, SOME_S, &self->comm));
  atomic_store(&self->job->reports[self->id].number, 1);
  for (int r = 0; r < n; r++)
    while (!atomic_load(&self->job->reports[r].number)) usleep(500);
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

/* Until these processes have come so far: their calls have ended. */
static void wait_for(struct job *job, int id, unsigned ids, int stage) {
  job_set_stage(job, id, stage);
  for (int r = 0; r < job->n; r++)
    while (ids >> r & 1 && atomic_load(&job->reports[r].stage) < stage) usleep(500);
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

/* Those that are left are no majority, nor half with rank 0: the kernel of this host proves that the others are dead.
 */
static void test_proven_deaths(void **state) {
  (void)state;
  run_deaths((struct deaths){2, 1u << 0, "auto"});
  run_deaths((struct deaths){2, 1u << 0, "tcp"});
  run_deaths((struct deaths){4, 1u << 0 | 1u << 1 | 1u << 2, "auto"});
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
    const char *handles[JOB_RANKS] = {NULL};
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

/* A newcomer dies when the members have agreed to take it in: they go on without it. */
static void die_while_joining(struct job *job, int id) {
  const char *handles[JOB_RANKS] = {NULL};
  int n = job->n - 1;
  struct self self = begin(job, id);
  if (id == n) {
    list_handles(n, handles);
    while (atomic_load(&job->reports[0].stage) < READY) usleep(500);
    (void)!banyan_member_join(self.member, handles, n, SOME_S, &self.comm);
    pause();
  }
  found(&self, n);
  job_set_stage(job, id, READY);
  step_until_change(&self);
  job_set_stage(job, id, RECOVERED);
  while (!atomic_load(&board->go)) usleep(500);
  must(try_to_recover(&self, SOME_S));
  if (banyan_comm_size(self.comm) > n) { /* it may have been in the next group for a moment */
    must_hold(work(&self) != BANYAN_OK);
    must(try_to_recover(&self, SOME_S));
  }
  check_group(&self, (1u << n) - 1);
  end(&self);
}

static void test_newcomer_dies(void **state) {
  (void)state;
  memset(board, 0, sizeof *board);
  struct job job = {.n = 4, .run = die_while_joining};
  job_start(&job);
  for (int r = 0; r < job.n - 1; r++) job_wait_stage(&job, r, RECOVERED);
  job_signal(&job, job.n - 1, SIGKILL);
  atomic_store(&board->go, true);
  job_wait(&job);
  for (int r = 0; r < job.n - 1; r++) job_check_exit(&job, r);
  job_end(&job, false);
}

/* ---- departures */

static void leave(struct job *job, int id) {
  int leaver = *(const int *)job->argument;
  unsigned all = (1u << job->n) - 1;
  struct self self = begin(job, id);
  bool early = leaver == 0; /* before it is in a group */
  if (id == leaver && early) must(banyan_member_leave(self.member));
  found(&self, job->n);
  if (id == leaver && !early) must(banyan_member_leave(self.member));
  step_until_change(&self);
  if (id == leaver) {
    must_fail(BANYAN_ERR_CLOSED, try_to_recover(&self, SOME_S));
    must_hold(strstr(banyan_error_text(), "as it asked to leave"));
    must_fail(BANYAN_ERR_CLOSED, try_to_recover(&self, SOME_S));
  } else {
    recover(&self, all & ~(1u << leaver));
    wait_for(job, id, all & ~(1u << leaver), RECOVERED);
    must_hold(!banyan_member_change_wanted(self.member));
    recover(&self, all & ~(1u << leaver));
  }
  end(&self);
}

static void test_leave(void **state) {
  (void)state;
  for (int leaver = 0; leaver < 4; leaver += 3) run_job((struct job){.n = 4, .run = leave, .argument = &leaver});
}

/* ---- nobody is dead */

/* The calls of process 2, which computes, end when the others have agreed; and again and again. */
static void nobody_is_dead(struct job *job, int id) {
  struct self self = begin(job, id);
  found(&self, job->n);
  for (int round = 0; round < 2; round++) {
    check_group(&self, (1u << job->n) - 1);
    wait_for(job, id, (1u << job->n) - 1, round + 1);
    while (id == 2 && banyan_comm_state(self.comm) == BANYAN_OK) usleep(500);
    int number = 0;
    if (id == 2) {
      must_fail(BANYAN_ERR_CLOSED, banyan_allreduce(self.comm, &number, &number, 1, BANYAN_INT32, BANYAN_SUM));
      must_hold(strstr(banyan_error_text(), "call banyan_member_recover"));
    }
    must(try_to_recover(&self, SOME_S));
  }
  check_group(&self, (1u << job->n) - 1);
  end(&self);
}

static void test_nobody_is_dead(void **state) {
  (void)state;
  run_job((struct job){.n = 4, .run = nobody_is_dead});
}

static void after_abort(struct job *job, int id) {
  struct self self = begin(job, id);
  found(&self, job->n);
  check_group(&self, (1u << job->n) - 1);
  wait_for(job, id, (1u << job->n) - 1, READY);
  if (id == 1) banyan_comm_abort(self.comm, "as the test wants it");
  while (banyan_comm_state(self.comm) == BANYAN_OK) usleep(500);
  recover(&self, (1u << job->n) - 1);
  end(&self);
}

static void test_after_abort(void **state) {
  (void)state;
  run_job((struct job){.n = 3, .run = after_abort, .transport = "tcp"});
}

/* ---- programs that hang, and processes that are stopped */

enum { HANGS = 3, HANG_S = 10 };

/* The program of process 3 does not come, though its service answers. */
static void hang(struct job *job, int id) {
  unsigned all = (1u << job->n) - 1;
  struct self self = begin(job, id);
  found(&self, job->n);
  if (id == HANGS) {
    for (int r = 0; r < HANGS; r++)
      while (atomic_load(&job->reports[r].stage) < RECOVERED) usleep(500);
    must_fail(BANYAN_ERR_CLOSED, try_to_recover(&self, SOME_S));
    must_hold(strstr(banyan_error_text(), "its program did not call banyan_member_recover in time"));
  } else {
    must(try_to_recover(&self, HANG_S));
    check_group(&self, all & ~(1u << HANGS));
    job_set_stage(job, id, RECOVERED);
  }
  end(&self);
}

static void test_hanging_program(void **state) {
  (void)state;
  run_job((struct job){.n = 4, .run = hang});
}

/* The same by named operations, whose control tree is all that they exchange while one is missing. */
static enum banyan_status work_by_name(const struct self *self) {
  int number = 1;
  enum banyan_status status = BANYAN_OK;
  while (status == BANYAN_OK) {
    struct banyan_request *request;
    status = banyan_submit_allreduce(self->comm, "number", &number, &number, 1, BANYAN_INT32, BANYAN_MAX, &request);
    if (status == BANYAN_OK) status = banyan_wait(request);
  }
  return status;
}

/* The first one is stopped while the others call. These leave it out long before the deadline of calls, and it learns
 * that when it goes on. */
static void outlast(struct job *job, int id) {
  setenv("BANYAN_SILENCE", "2", 1);
  struct self self = begin(job, id);
  found(&self, job->n);
  job_set_stage(job, id, READY);
  bool by_name = *(const bool *)job->argument;
  while (by_name && id == 0 && !atomic_load(&board->go)) usleep(500); /* so that no operation has started */
  enum banyan_status status = by_name ? work_by_name(&self) : work(&self);
  if (id) {
    if (status != BANYAN_ERR_CLOSED) rank_fail("process %d: %s", id, banyan_error_text());
    recover(&self, ((1u << job->n) - 1) & ~1u);
  } else {
    must_fail(BANYAN_ERR_CLOSED, try_to_recover(&self, SOME_S));
    if (!strstr(banyan_error_text(), "did not answer")) rank_fail("process 0: %s", banyan_error_text());
  }
  job_set_stage(job, id, RECOVERED);
  end(&self);
}

static void stop_member(bool by_name) {
  memset(board, 0, sizeof *board);
  struct job job = {.n = 4, .run = outlast, .argument = &by_name};
  job_start(&job);
  for (int r = 0; r < job.n; r++) job_wait_stage(&job, r, READY);
  job_signal(&job, 0, SIGSTOP);
  for (int r = 1; r < job.n; r++) job_wait_stage(&job, r, RECOVERED);
  atomic_store(&board->go, true);
  job_signal(&job, 0, SIGCONT);
  job_end(&job, true);
}

static void test_stopped_member(void **state) {
  (void)state;
  stop_member(false);
}

static void test_stopped_in_operations(void **state) {
  (void)state;
  stop_member(true);
}

/* ---- quorums */

/* The first process of two dies. The other one goes on only if its death is proven, and the rule allows that. */
static void alone(struct job *job, int id) {
  bool proof = *(const bool *)job->argument;
  setenv("BANYAN_QUORUM", proof ? "survivors" : "majority", 1);
  struct self self = begin(job, id);
  found(&self, 2);
  struct by_fingerprint first = self.member->current->formed->members[0].fingerprint;
  job_set_stage(job, id, READY);
  while (!atomic_load(&board->go)) usleep(500);
  must_hold(work(&self) != BANYAN_OK);
  if (proof) {
    by_member_service_dead(self.member->service, &first);
    recover(&self, 2);
  } else {
    must_fail(BANYAN_ERR_TIMEOUT, try_to_recover(&self, 2.5));
    must_hold(strstr(banyan_error_text(), "to go on takes 2, or half of them with rank 0"));
  }
  end(&self);
}

static void test_quorum(void **state) {
  (void)state;
  for (int proof = 0; proof < 2; proof++) {
    memset(board, 0, sizeof *board);
    struct job job = {.n = 2, .run = alone, .argument = &(bool){proof}};
    job_start(&job);
    for (int r = 0; r < job.n; r++) job_wait_stage(&job, r, READY);
    job_signal(&job, 0, SIGKILL);
    atomic_store(&board->go, true);
    job_wait(&job);
    job_check_exit(&job, 1);
    job_end(&job, false);
  }
}

/* Processes with different rules form no group. */
static void differing_rules(struct job *job, int id) {
  const char *handles[JOB_RANKS] = {NULL};
  setenv("BANYAN_QUORUM", id ? "majority" : "none", 1);
  struct self self = begin(job, id);
  list_handles(2, handles);
  must_fail(BANYAN_ERR_MISMATCH, banyan_member_reconfigure(self.member, "rules", handles, 2, SOME_S, &self.comm));
  must_hold(strstr(banyan_error_text(), "BANYAN_QUORUM"));
  end(&self);
}

static void test_differing_rules(void **state) {
  (void)state;
  run_job((struct job){.n = 2, .run = differing_rules});
}

/* ---- wrong calls */

static void call_wrongly(struct job *job, int id) {
  char old[HANDLE];
  struct self self = begin(job, id);
  const char *mine = board->handles[0], *foreign, *handles[] = {mine, NULL, old};
  struct banyan_member *other;
  struct banyan_options options = {.key = OTHER_JOB_KEY};
  must_fail(BANYAN_ERR_ARGUMENT, try_to_recover(&self, 1));
  must_hold(strstr(banyan_error_text(), "this process is in no group"));
  must_fail(BANYAN_ERR_ARGUMENT, banyan_member_recover(NULL, 1, &self.comm));
  must_fail(BANYAN_ERR_ARGUMENT, banyan_member_recover(self.member, 0, &self.comm));
  must_fail(BANYAN_ERR_ARGUMENT, banyan_member_recover(self.member, 1, NULL));
  must_fail(BANYAN_ERR_ARGUMENT, banyan_member_join(self.member, handles, 0, 1, &self.comm));
  must_fail(BANYAN_ERR_ARGUMENT, banyan_member_join(self.member, handles, 2, 1, &self.comm));
  must_fail(BANYAN_ERR_ARGUMENT, banyan_member_join(self.member, handles, 1, 1, &self.comm));
  must_hold(strstr(banyan_error_text(), "the only handle to ask is that of this process itself"));
  must(banyan_member_create(&options, &other));
  foreign = banyan_member_handle(other);
  must_fail(BANYAN_ERR_ARGUMENT, banyan_member_join(self.member, &foreign, 1, 1, &self.comm));
  must_hold(strstr(banyan_error_text(), "belongs to a job with another key"));
  banyan_member_destroy(other);
  snprintf(old, sizeof old, "banyan1%s", strchr(mine, ':'));
  must_fail(BANYAN_ERR_ARGUMENT, banyan_member_join(self.member, &handles[2], 1, 1, &self.comm));
  must_hold(strstr(banyan_error_text(), "is of another version of Banyan"));
  setenv("BANYAN_QUORUM", "most", 1);
  must_fail(BANYAN_ERR_ARGUMENT, banyan_member_create(NULL, &other));
  must_hold(strstr(banyan_error_text(), "must be majority, survivors or none"));
  unsetenv("BANYAN_QUORUM");
  must(banyan_member_create(NULL, &other)); /* in no group, and then gone */
  snprintf(old, sizeof old, "%s", banyan_member_handle(other));
  must_fail(BANYAN_ERR_TIMEOUT, banyan_member_join(self.member, &handles[2], 1, 0.5, &self.comm));
  banyan_member_destroy(other);
  must_fail(BANYAN_ERR_TIMEOUT, banyan_member_join(self.member, &handles[2], 1, 0.5, &self.comm));
  must_hold(strstr(banyan_error_text(), "the last one that was asked: process "));
  found(&self, 1);
  must_fail(BANYAN_ERR_ARGUMENT, banyan_member_join(self.member, &handles[2], 1, 1, &self.comm));
  must_hold(strstr(banyan_error_text(), "is in a group already"));
  recover(&self, 1);
  end(&self);
}

static void refused_in_child(enum banyan_status status) {
  if (status != BANYAN_ERR_ARGUMENT || !strstr(banyan_error_text(), "fork()")) _exit(1);
}

/* A child has the member, and not the thread of its service. */
static void call_in_child(struct job *job, int id) {
  struct self self = begin(job, id);
  struct banyan_comm *comm;
  int status = -1;
  found(&self, 1);
  pid_t child = fork();
  if (child == 0) {
    alarm(SOME_S);
    refused_in_child(banyan_member_leave(self.member));
    refused_in_child(banyan_member_start(self.member, 1, &comm));
    refused_in_child(banyan_member_recover(self.member, 1, &comm));
    must_hold(!banyan_member_change_wanted(self.member));
    banyan_member_destroy(self.member);
    _exit(0);
  }
  must_hold(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  end(&self);
}

static void test_calls_in_child(void **state) {
  (void)state;
  run_job((struct job){.n = 1, .run = call_in_child});
}

static void test_wrong_calls(void **state) {
  (void)state;
  run_job((struct job){.n = 1, .run = call_wrongly});
}

/* Members that were in a group, and others of this program's processes, do not disturb each other: the first two go on
 * by a list of their own, and the other two agree on what follows for them. */
static void divide_by_wish(struct job *job, int id) {
  struct self self = begin(job, id);
  found(&self, job->n);
  check_group(&self, (1u << job->n) - 1);
  wait_for(job, id, (1u << job->n) - 1, SUMMED);
  if (id < 3) {
    const char *handles[JOB_RANKS] = {NULL};
    list_handles(3, handles);
    struct banyan_comm *before = self.comm;
    must(banyan_member_reconfigure(self.member, "by wish", handles, 3, SOME_S, &self.comm));
    banyan_comm_destroy(before);
    job_set_stage(job, id, READY);
    check_group(&self, 7);
    wait_for(job, id, (1u << job->n) - 1, RECOVERED);
    recover(&self, 7);
  } else {
    for (int r = 0; r < 3; r++)
      while (atomic_load(&job->reports[r].stage) < READY) usleep(500);
    must(try_to_recover(&self, SOME_S)); /* the three vote, but have left */
    check_group(&self, 1u << 3 | 1u << 4);
    job_set_stage(job, id, RECOVERED);
  }
  end(&self);
}

static void test_divide_by_wish(void **state) {
  (void)state;
  run_job((struct job){.n = 5, .run = divide_by_wish});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_deaths),
      cmocka_unit_test(test_two_deaths),
      cmocka_unit_test(test_proven_deaths),
      cmocka_unit_test(test_stopped_member),
      cmocka_unit_test(test_stopped_in_operations),
      cmocka_unit_test(test_newcomer),
      cmocka_unit_test(test_newcomer_dies),
      cmocka_unit_test(test_leave),
      cmocka_unit_test(test_nobody_is_dead),
      cmocka_unit_test(test_after_abort),
      cmocka_unit_test(test_hanging_program),
      cmocka_unit_test(test_quorum),
      cmocka_unit_test(test_differing_rules),
      cmocka_unit_test(test_wrong_calls),
      cmocka_unit_test(test_divide_by_wish),
      cmocka_unit_test(test_calls_in_child),
  };
  if (!board_create()) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
