/* Calls that a death interrupts, of real processes: the input is unchanged, the members of the next membership know
 * what became of each call, as the processes themselves have seen it, and copy results. One process is killed at a
 * random moment. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <banyan/interrupted.h>

#include "check.h"
#include "net_operations.h"

enum { N = 4, HANDLE = 2048, IN_FLIGHT = 3, KEPT = 12, CALLS = 65536, NAMES = 6 };
enum { CALLS_BEGIN = 1, FORMED };

/* What processes have seen of their calls, for the others. */
static struct board {
  char handles[N][HANDLE];
  _Atomic int published[N];
  uint8_t outcomes[2][N][CALLS]; /* by communicator, process and number */
  uint32_t calls[2][N];
  uint32_t kept_from[2][N];     /* results of calls from this number on are still there */
  uint32_t completed[N][NAMES]; /* operations of a name */
  bool failed[N][NAMES];
  _Atomic unsigned killed; /* bits by process */
  bool plans;              /* each process is a host, and each membership plans before it is given out */
  bool dies_forming[N];    /* this process kills itself while it forms the next membership */
  bool agree;              /* by banyan_member_recover */
} * board;

struct self {
  struct job *job;
  int id;
  struct banyan_member *member;
  struct banyan_comm *comm;
  int survivors[N], n;
};

/* The one that is to be killed may learn of it before. */
static void form(struct self *self, const char *name, const int *ids, int n) {
  const char *handles[N];
  struct banyan_comm *comm;
  bool has_part = false;
  for (int i = 0; i < n; i++) handles[i] = board->handles[ids[i]];
  for (int i = 0; i < n; i++) has_part |= ids[i] == self->id;
  while (!has_part) pause();
  must(banyan_member_reconfigure(self->member, name, handles, n, 30, &comm));
  self->comm = comm;
}

static struct self begin(struct job *job, int id) {
  static const int all[] = {0, 1, 2, 3};
  struct self self = {.job = job, .id = id};
  int victim = *(const int *)job->argument;
  char host[16] = "here";
  if (board->plans) snprintf(host, sizeof host, "host%d", id);
  if (board->plans) setenv("BANYAN_TOPOLOGY", "clos:racks=2,hosts=2", 1);
  setenv("BANYAN_HOST", host, 1);
  must(banyan_member_create(NULL, &self.member));
  snprintf(board->handles[id], HANDLE, "%s", banyan_member_handle(self.member));
  atomic_store(&board->published[id], 1);
  for (int i = 0; i < N; i++)
    while (!atomic_load(&board->published[i])) usleep(500);
  for (int i = 0; i < N; i++)
    if (i != victim) self.survivors[self.n++] = i;
  form(&self, "all", all, N);
  return self;
}

/* ---- dense calls, on the communicator of all and on one of its halves */

struct pending {
  struct operation operation;
  struct banyan_request *request;
  int group;
  uint32_t number;
};

static void choose(struct by_rng *rng, struct operation *operation) {
  size_t most = by_rng_below(rng, 3) ? 2000 : 150000;
  operation_choose(rng, N, -1, most, operation);
}

static void note(const struct self *self, const struct pending *call, enum banyan_status status) {
  board->outcomes[call->group][self->id][call->number] =
      status == BANYAN_OK ? BANYAN_OUTCOME_COMPLETED : BANYAN_OUTCOME_FAILED;
  operation_check_input(&call->operation);
  if (status == BANYAN_OK) operation_check(&call->operation);
}

/* False: it failed before it began. */
static bool start(struct self *self, struct banyan_comm *comm, struct pending *call, unsigned shared) {
  operation_prepare(comm, &call->operation, shared);
  call->number = banyan_comm_calls(comm);
  must_hold(call->number < CALLS);
  if (banyan_start(comm, &call->operation.call, &call->request) == BANYAN_OK) {
    board->calls[call->group][self->id] = call->number + 1;
    return true;
  }
  must_hold(banyan_comm_calls(comm) == call->number);
  operation_check_input(&call->operation);
  operation_free(&call->operation);
  return false;
}

/* Calls until one fails. The last ones, with their results, are left in `calls`; returns how many. */
static int call_until_failure(struct self *self, struct banyan_comm *const *groups, struct pending *calls) {
  struct by_rng rng, own;
  enum banyan_status status = BANYAN_OK;
  int n = 0, ended = 0;
  by_rng_init(&rng, self->job->seed);
  by_rng_init(&own, self->job->seed * N + (uint64_t)self->id);
  while (status == BANYAN_OK) {
    if (n == KEPT) {
      board->kept_from[calls[0].group][self->id] = calls[0].number + 1;
      operation_free(&calls[0].operation);
      memmove(calls, calls + 1, (size_t)--n * sizeof *calls);
      ended--;
    }
    calls[n] = (struct pending){.group = by_rng_below(&rng, 4) == 0};
    choose(&rng, &calls[n].operation);
    if (calls[n].group) operation_choose(&rng, N / 2, BANYAN_ALLREDUCE, 5000, &calls[n].operation);
    if (!start(self, groups[calls[n].group], &calls[n], (unsigned)by_rng_below(&own, 4))) break;
    if (++n - ended < IN_FLIGHT) continue;
    status = banyan_wait(calls[ended].request);
    note(self, &calls[ended++], status);
  }
  for (; ended < n; ended++) note(self, &calls[ended], banyan_wait(calls[ended].request));
  return n;
}

static const struct banyan_interrupted *find(const struct self *self, uint32_t communicator, uint32_t number) {
  const struct banyan_interrupted *calls, *found = NULL;
  size_t n = banyan_member_interrupted(self->member, &calls);
  for (size_t i = 0; i < n; i++) {
    if (calls[i].communicator != communicator || calls[i].name) continue;
    if (number - calls[i].call >= calls[i].n_calls) continue;
    if (found) rank_fail("call %u is listed twice", number);
    found = &calls[i];
  }
  return found;
}

static enum banyan_outcome seen(int group, int id, uint32_t number) {
  return number < board->calls[group][id] ? board->outcomes[group][id][number] : BANYAN_OUTCOME_NOT_BEGUN;
}

/* Process `id` is at this rank of the communicator, and the call is the number-th on it. */
static void check_outcome(const struct self *self, const struct banyan_interrupted *record, int group, int id,
                          uint32_t number) {
  int rank = group ? id / 2 : id;
  bool lives = false;
  for (int i = 0; i < self->n; i++) lives |= self->survivors[i] == id;
  enum banyan_outcome wanted = lives ? seen(group, id, number) : BANYAN_OUTCOME_ABSENT;
  if (record->outcomes[rank] != wanted)
    rank_fail("process %d: call %u of communicator %d: that of process %d is %d, not %d", self->id, number, group, id,
              record->outcomes[rank], (int)wanted);
  must_hold((record->ranks[rank] < 0) == !lives);
  if (lives) must_hold(self->survivors[record->ranks[rank]] == id);
}

/* A group of 1 has the processes with the parity of this one. */
static void check_records(const struct self *self, int group, uint32_t communicator) {
  uint32_t most = 0;
  for (int i = 0; i < self->n; i++) {
    int id = self->survivors[i];
    if (group && id % 2 != self->id % 2) continue;
    if (board->calls[group][id] > most) most = board->calls[group][id];
  }
  for (uint32_t number = 0; number < most + 2; number++) {
    const struct banyan_interrupted *record = find(self, communicator, number);
    bool all = true, none = true;
    for (int i = 0; i < self->n; i++) {
      int id = self->survivors[i];
      if (group && id % 2 != self->id % 2) continue;
      all &= seen(group, id, number) == BANYAN_OUTCOME_COMPLETED;
      none &= seen(group, id, number) == BANYAN_OUTCOME_NOT_BEGUN;
    }
    if ((record != NULL) != (!all && !none))
      rank_fail("process %d: call %u is%s listed", self->id, number, record ? "" : " not");
    for (int id = 0; record && id < N; id++)
      if (!group || id % 2 == self->id % 2) check_outcome(self, record, group, id, number);
    if (record) must_hold(record->size == (group ? N / 2 : N));
  }
}

static bool same_for_all(const struct banyan_interrupted *call) {
  return call->known && (call->collective == BANYAN_ALLREDUCE || call->collective == BANYAN_BROADCAST ||
                         call->collective == BANYAN_ALLGATHER);
}

/* Whether all that have part in a call made it, and have its result if it completed. */
static bool all_keep(const struct self *self, const struct banyan_interrupted *call, int group) {
  for (int i = 0; i < self->n; i++) {
    int id = self->survivors[i], rank = group ? id / 2 : id;
    if (group && id % 2 != self->id % 2) continue;
    if (call->outcomes[rank] != BANYAN_OUTCOME_ABSENT && board->kept_from[group][id] > call->call) return false;
  }
  return !call->not_begun;
}

/* Results are copied for the calls that all survivors still have buffers of. */
static int copy_results(const struct self *self, const struct pending *calls, int n, const uint32_t *numbers) {
  const struct banyan_interrupted *records;
  size_t n_records = banyan_member_interrupted(self->member, &records);
  int copied = 0;
  for (size_t i = 0; i < n_records; i++) {
    const struct banyan_interrupted *call = &records[i];
    const struct operation *operation = NULL;
    int group = call->communicator == numbers[1];
    if (call->communicator != numbers[group]) continue; /* of the other half */
    if (call->n_calls > 1 || !all_keep(self, call, group)) continue;
    for (int k = 0; k < n; k++)
      if (calls[k].number == call->call && calls[k].group == group) operation = &calls[k].operation;
    must_hold(operation);
    if (!call->completed || !same_for_all(call)) {
      must_hold(banyan_member_copy_result(self->member, call, operation->recv, operation->recv_bytes, 10) != BANYAN_OK);
      continue;
    }
    must_hold(operation->call.collective == call->collective && operation->call.dtype == call->dtype);
    must(banyan_member_copy_result(self->member, call, operation->recv, operation->recv_bytes, 10));
    operation_check(operation);
    copied++;
  }
  return copied;
}

static void interrupt_calls(struct job *job, int id) {
  struct self self = begin(job, id);
  struct pending calls[KEPT];
  struct banyan_comm *groups[2] = {self.comm}, *before = self.comm;
  must(banyan_comm_split(self.comm, id % 2, 0, &groups[1]));
  uint32_t numbers[] = {banyan_comm_number(groups[0]), banyan_comm_number(groups[1])}, one = 1;
  board->calls[0][id] = banyan_comm_calls(before);
  memset(board->outcomes[0][id], BANYAN_OUTCOME_COMPLETED, board->calls[0][id]);
  job_set_stage(job, id, CALLS_BEGIN);
  int n = call_until_failure(&self, groups, calls);
  form(&self, "survivors", self.survivors, self.n);
  must(banyan_allreduce(self.comm, &one, &one, 1, BANYAN_INT32, BANYAN_SUM)); /* all have written to the board */
  must_hold(one == (uint32_t)self.n);
  check_records(&self, 0, numbers[0]);
  check_records(&self, 1, numbers[1]);
  atomic_store(&job->reports[id].number, (uint64_t)copy_results(&self, calls, n, numbers));
  must(banyan_barrier(self.comm));
  for (int i = 0; i < n; i++) operation_free(&calls[i].operation);
  banyan_comm_destroy(groups[1]);
  banyan_comm_destroy(before);
  job_set_stage(job, id, FORMED);
  banyan_comm_destroy(self.comm);
  banyan_member_destroy(self.member);
}

/* ---- named operations and sparse calls */

static void submit_until_failure(const struct self *self) {
  static float values[NAMES][3000];
  enum banyan_status status = BANYAN_OK;
  struct banyan_sparse in = {.dtype = BANYAN_FLOAT32, .row_dtype = BANYAN_INT64, .height = 100, .width = 2}, out = {0};
  int64_t rows[] = {self->id, 7};
  float of_rows[4] = {1, 2, 3, 4};
  in.rows = rows, in.values = of_rows, in.count = 2;
  while (status == BANYAN_OK) {
    struct banyan_request *requests[NAMES] = {0};
    for (int i = 0; i < NAMES && status == BANYAN_OK; i++) {
      char name[16];
      int k = (i + self->id) % NAMES;
      snprintf(name, sizeof name, "gradient %d", k);
      status = banyan_submit_allreduce(self->comm, name, values[k], values[k], 1 + 500 * (size_t)k, BANYAN_FLOAT32,
                                       BANYAN_MAX, &requests[k]);
    }
    uint32_t number = banyan_comm_calls(self->comm);
    struct banyan_sparse_call call = {.collective = BANYAN_ALLREDUCE, .in = &in, .out = &out};
    enum banyan_status sparse = banyan_sparse_run(self->comm, &call);
    if (banyan_comm_calls(self->comm) > number) {
      board->calls[0][self->id] = number + 1;
      board->outcomes[0][self->id][number] = sparse == BANYAN_OK ? BANYAN_OUTCOME_COMPLETED : BANYAN_OUTCOME_FAILED;
    }
    must_hold(in.count == 2 && rows[0] == self->id && rows[1] == 7 && of_rows[0] == 1 && of_rows[3] == 4);
    for (int k = 0; k < NAMES; k++) {
      if (!requests[k]) continue;
      enum banyan_status is = banyan_wait(requests[k]);
      board->completed[self->id][k] += is == BANYAN_OK;
      board->failed[self->id][k] = is != BANYAN_OK;
      if (is != BANYAN_OK) status = is;
    }
    if (sparse != BANYAN_OK) status = sparse;
  }
  banyan_sparse_free(&out);
}

/* What records of a name say of a process: how many it has that did not complete there, and how many did. */
static void count_named(const struct self *self, const char *name, int id, int *lacks, int *has) {
  const struct banyan_interrupted *calls;
  size_t n = banyan_member_interrupted(self->member, &calls);
  *lacks = *has = 0;
  for (size_t i = 0; i < n; i++) {
    if (!calls[i].name || strcmp(calls[i].name, name) != 0) continue;
    must_hold(calls[i].n_calls == 1 && calls[i].known && calls[i].collective == BANYAN_ALLREDUCE);
    *lacks += calls[i].outcomes[id] != BANYAN_OUTCOME_COMPLETED;
    *has += calls[i].outcomes[id] == BANYAN_OUTCOME_COMPLETED;
  }
}

static void check_names(const struct self *self) {
  for (int k = 0; k < NAMES; k++) {
    char name[16];
    uint32_t most = 0;
    bool failed = false;
    snprintf(name, sizeof name, "gradient %d", k);
    for (int i = 0; i < self->n; i++) {
      if (board->completed[self->survivors[i]][k] > most) most = board->completed[self->survivors[i]][k];
      failed |= board->failed[self->survivors[i]][k];
    }
    for (int i = 0; i < self->n; i++) {
      int id = self->survivors[i], lacks, has;
      count_named(self, name, id, &lacks, &has);
      int behind = (int)(most - board->completed[id][k]);
      if (lacks < behind || lacks > behind + 1 || (board->failed[id][k] && !lacks) || (!failed && !behind && has))
        rank_fail("process %d: \"%s\" of process %d: %d behind, failed %d, but %d lack and %d do not", self->id, name,
                  id, behind, board->failed[id][k], lacks, has);
    }
  }
}

static void interrupt_operations(struct job *job, int id) {
  struct self self = begin(job, id);
  struct banyan_comm *before = self.comm;
  uint32_t number = banyan_comm_number(before), one = 1;
  board->calls[0][id] = banyan_comm_calls(before);
  memset(board->outcomes[0][id], BANYAN_OUTCOME_COMPLETED, board->calls[0][id]);
  job_set_stage(job, id, CALLS_BEGIN);
  submit_until_failure(&self);
  if (id % 2) banyan_comm_destroy(before);
  form(&self, "survivors", self.survivors, self.n);
  must(banyan_allreduce(self.comm, &one, &one, 1, BANYAN_INT32, BANYAN_SUM));
  check_names(&self);
  check_records(&self, 0, number);
  if (id % 2 == 0) banyan_comm_destroy(before);
  job_set_stage(job, id, FORMED);
  banyan_comm_destroy(self.comm);
  banyan_member_destroy(self.member);
}

/* ---- calls that survivors complete: who dies may be decided by the test at any time */

enum { STEPS = 120, PAUSES = 4, ELEMENTS = 20000 };

/* Of each process and step. */
static struct ended {
  uint64_t hash;
  int contributors;
} (*ended)[STEPS];

/* This process is killed a random moment later. */
static void die_soon(const struct self *self) {
  struct by_rng rng;
  by_rng_init(&rng, self->job->seed);
  struct itimerval soon = {.it_value.tv_usec = 1 + (suseconds_t)by_rng_below(&rng, 15000)};
  (void)signal(SIGALRM, SIG_DFL);
  must_hold(setitimer(ITIMER_REAL, &soon, NULL) == 0);
}

/* The processes that the test has not killed form the next membership; its name says which ones these are. Who tries in
 * vain to form the one with a process that dies meanwhile is waited for. */
static enum banyan_status recover(void *argument, struct banyan_comm **out) {
  struct self *self = argument;
  const char *handles[N];
  char name[64];
  enum banyan_status status = BANYAN_ERR_PEER_DEAD;
  unsigned tried = 0;
  if (board->dies_forming[self->id]) die_soon(self);
  for (double until = job_now() + 30; status != BANYAN_OK && job_now() < until;) {
    unsigned killed = atomic_load(&board->killed);
    int n = 0;
    if (killed == tried) {
      usleep(1000);
      continue;
    }
    tried = killed;
    while (killed >> self->id & 1) pause();
    for (int i = 0; i < N; i++)
      if (!(killed >> i & 1)) handles[n++] = board->handles[i];
    snprintf(name, sizeof name, "without %x", killed);
    status = banyan_member_reconfigure(self->member, name, handles, n, killed & (killed - 1) ? 12 : 3, out);
  }
  return status;
}

static float element(int id, uint32_t step, size_t i) {
  return (float)(1 << id) + (float)(step % 7) * 16 + (float)(i % 5) * 64; /* sums are exact and say who is in them */
}

static uint64_t hash_of(const float *values, size_t n) {
  uint64_t hash = 14695981039346656037ull;
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &values[i], sizeof bits);
    hash = (hash ^ bits) * 1099511628211ull;
  }
  return hash;
}

/* The sum is that of some processes, as many as are said to have contributed, among them this one. */
static void check_sum(const struct self *self, const float *sum, size_t count, uint32_t step, int contributors,
                      bool average) {
  for (unsigned set = 1; set < 1u << N; set++) {
    bool fits = __builtin_popcount(set) == contributors && set >> self->id & 1;
    for (size_t i = 0; i < count && fits; i++) {
      float wanted = 0;
      for (int id = 0; id < N; id++) wanted += set >> id & 1 ? element(id, step, i) : 0;
      fits = sum[i] == (average ? wanted / (float)contributors : wanted);
    }
    if (fits) return;
  }
  rank_fail("process %d: step %u: a sum of no %d processes", self->id, step, contributors);
}

static void complete_calls(struct job *job, int id) {
  struct self self = begin(job, id);
  struct by_rng rng, own;
  static float in[ELEMENTS], out[ELEMENTS];
  by_rng_init(&rng, job->seed);
  by_rng_init(&own, job->seed * N + (uint64_t)id);
  job_set_stage(job, id, CALLS_BEGIN);
  for (uint32_t step = 0; step < STEPS; step++) {
    size_t count = 1 + by_rng_below(&rng, by_rng_below(&rng, 2) ? 100 : ELEMENTS);
    bool average = by_rng_below(&rng, 2), in_place = by_rng_below(&rng, 2);
    struct banyan_completion completion = {
        .size_of_struct = sizeof completion, .recover = board->agree ? NULL : recover, .argument = &self};
    for (size_t i = 0; i < count; i++) in[i] = out[i] = element(id, step, i);
    struct banyan_call call = {.collective = BANYAN_ALLREDUCE,
                               .op = average ? BANYAN_AVERAGE : BANYAN_SUM,
                               .send = in_place ? out : in,
                               .recv = out,
                               .count = count};
    must(banyan_member_allreduce(self.member, &self.comm, &call, &completion));
    check_sum(&self, out, count, step, completion.contributors, average);
    for (size_t i = 0; i < count; i++) must_hold(in[i] == element(id, step, i));
    ended[id][step] = (struct ended){hash_of(out, count), completion.contributors};
    if (by_rng_below(&own, PAUSES) == 0) job_doze(&own, 3000);
  }
  job_set_stage(job, id, FORMED);
  banyan_comm_destroy(self.comm);
  banyan_member_destroy(self.member);
}

static void kill_some(struct job *job, struct by_rng *rng, const int *victims, int n) {
  for (int i = 0; i < n; i++) {
    job_doze(rng, i && by_rng_below(rng, 4) ? 200000 : 20000);
    atomic_fetch_or(&board->killed, 1u << victims[i]);
    job_signal(job, victims[i], SIGKILL);
  }
  for (int r = 0; r < N; r++) {
    if (!board->dies_forming[r]) continue;
    job_wait_rank(job, r);
    atomic_fetch_or(&board->killed, 1u << r);
  }
  job_wait(job);
  for (int r = 0; r < N; r++)
    if (!(board->killed >> r & 1)) job_check_exit(job, r);
}

/* Two of four are killed at random moments: the second one perhaps while the others form the membership without the
 * first, or with `forming` a few milliseconds after it has begun to form it. With `agree` it is one, and the others
 * agree on the membership. */
static void complete_after_kills(uint64_t seed, const char *transport, bool agree, bool forming) {
  struct by_rng rng;
  by_rng_init(&rng, seed);
  int victims[2] = {(int)by_rng_below(&rng, N)}, nobody = -1;
  victims[1] = (victims[0] + 1 + (int)by_rng_below(&rng, N - 1)) % N;
  memset(board, 0, sizeof *board);
  memset(ended, 0, N * sizeof *ended);
  board->agree = agree;
  board->plans = board->dies_forming[victims[1]] = forming;
  struct job job = {.n = N, .run = complete_calls, .argument = &nobody, .transport = transport, .seed = seed};
  job_start(&job);
  for (int r = 0; r < N; r++) job_wait_stage(&job, r, CALLS_BEGIN);
  kill_some(&job, &rng, victims, agree || forming ? 1 : 2);
  for (int step = 0; step < STEPS; step++) {
    const struct ended *a = NULL;
    for (int r = 0; r < N; r++) {
      const struct ended *b = &ended[r][step];
      if (!b->contributors) continue;
      if (a && (a->hash != b->hash || a->contributors != b->contributors))
        job_fail(&job, "step %d: process %d has another result", step, r);
      a = b;
    }
    assert_non_null(a);
  }
  job_end(&job, false);
}

static void test_completion(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(4); i++) complete_after_kills(job_seed(i), i % 2 ? "tcp" : "auto", i % 4 > 1, false);
}

static void test_death_while_forming(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(40); i++) complete_after_kills(job_seed(i), i % 2 ? "tcp" : "auto", false, true);
}

/* ---- all */

static void kill_one(uint64_t seed, const char *transport, void (*run)(struct job *job, int id)) {
  struct by_rng rng;
  by_rng_init(&rng, seed);
  int victim = (int)by_rng_below(&rng, N);
  memset(board, 0, sizeof *board);
  struct job job = {.n = N, .run = run, .argument = &victim, .transport = transport, .seed = seed};
  job_start(&job);
  for (int r = 0; r < N; r++) job_wait_stage(&job, r, CALLS_BEGIN);
  job_doze(&rng, 60000);
  job_signal(&job, victim, SIGKILL);
  job_wait(&job);
  for (int r = 0; r < N; r++)
    if (r != victim) job_check_exit(&job, r);
  job_check_killed(&job, victim, SIGKILL);
  job_end(&job, false);
}

static void test_calls(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(6); i++) kill_one(job_seed(i), i % 2 ? "tcp" : "auto", interrupt_calls);
}

static void test_operations(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(4); i++) kill_one(job_seed(i), i % 2 ? "tcp" : "auto", interrupt_operations);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_calls), cmocka_unit_test(test_operations),
                                     cmocka_unit_test(test_completion), cmocka_unit_test(test_death_while_forming)};
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ended = mmap(NULL, N * sizeof *ended, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (board == MAP_FAILED || ended == MAP_FAILED) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
