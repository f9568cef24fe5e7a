/* State that is synchronised in real processes: the newest version, from whoever has it, to whoever lacks it; what
 * differs between members; wrong bytes; and members that die meanwhile. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <banyan/banyan.h>

#include "check.h"
#include "job.h"
#include "state_contents.h"
#include "state_copies.h"

enum { MIB = 1 << 20, LARGE = 5 * MIB / 4 + 3 /* elements: 5 MiB and 12 bytes */, SMALL = 100 };

/* What the members of a test keep. */
struct model {
  struct banyan_comm *comm;
  struct banyan_state *state;
  int rank, size;
  float *large;
  double *small;
  int64_t step;
};

static float element(int64_t version, size_t i) {
  return (float)((i * 7 + (size_t)version * 13) % 1000);
}

static void set_contents(struct model *m, int64_t version) {
  for (size_t i = 0; i < LARGE; i++) m->large[i] = element(version, i);
  for (size_t i = 0; i < SMALL; i++) m->small[i] = (double)version + (double)i;
  char text[32];
  m->step = version;
  must(banyan_state_set_value(m->state, "note", text, (size_t)snprintf(text, sizeof text, "at %d", (int)version)));
}

static void check_contents(const struct model *m, int64_t version) {
  const void *note;
  size_t length;
  char text[32];
  for (size_t i = 0; i < LARGE; i++)
    if (m->large[i] != element(version, i)) rank_fail("rank %d: element %zu is %g", m->rank, i, (double)m->large[i]);
  for (size_t i = 0; i < SMALL; i++) must_hold(m->small[i] == (double)version + (double)i);
  must_hold(m->step == version && banyan_state_version(m->state) == version);
  must(banyan_state_get_value(m->state, "note", &note, &length));
  must_hold(length == (size_t)snprintf(text, sizeof text, "at %d", (int)version) && !memcmp(note, text, length));
}

static struct model begin_on(struct banyan_comm *comm) {
  struct model m = {.comm = comm, .rank = banyan_comm_rank(comm), .size = banyan_comm_size(comm)};
  m.large = calloc(LARGE, sizeof *m.large);
  m.small = calloc(SMALL, sizeof *m.small);
  must_hold(m.large && m.small);
  return m;
}

static void make_state(struct model *m) {
  const struct banyan_state_buffer buffers[] = {{"large", m->large, LARGE, BANYAN_FLOAT32},
                                                {"small", m->small, SMALL, BANYAN_FLOAT64},
                                                {"step", &m->step, 1, BANYAN_INT64}};
  must(banyan_state_create(buffers, 3, &m->state));
}

/* `apart`: each rank seems to be on a host of its own, so that all goes over TCP. */
static struct model begin(int rank, bool apart) {
  char host[16];
  snprintf(host, sizeof host, "host%d", rank);
  setenv("BANYAN_HOST", apart ? host : "here", 1);
  return begin_on(job_join());
}

static void end(struct model *m) {
  int one = 1; /* the communicator is healthy */
  must(banyan_allreduce(m->comm, &one, &one, 1, BANYAN_INT32, BANYAN_SUM));
  must_hold(one == m->size);
  banyan_state_destroy(m->state);
  banyan_comm_destroy(m->comm);
  free(m->large);
  free(m->small);
}

/* ---- versions */

/* Bit r: rank r has the newest version. Of the others, odd ranks have an older one and even ranks have none. */
static void newest(struct job *job, int rank) {
  unsigned holders = *(const unsigned *)job->argument;
  struct model m = begin(rank, job->seed & 1);
  struct banyan_state_report report;
  bool holds = holders >> rank & 1;
  make_state(&m);
  set_contents(&m, 3);
  if (holds || rank % 2) must(banyan_state_commit(m.state, 3));
  set_contents(&m, 8);
  if (holds) must(banyan_state_commit(m.state, 8));
  set_contents(&m, 77 + rank); /* what is not committed is lost */
  must(banyan_state_sync(m.state, m.comm, NULL, &report));
  check_contents(&m, 8);
  must_hold(report.version == 8 && report.holders == __builtin_popcount(holders));
  must_hold(report.holders + report.receivers == m.size);
  must_hold(holds == (report.bytes == 0)); /* every chunk differs */
  must_hold(holds || report.bytes == by_state_layout_bytes(by_state_current(m.state)->layout));
  set_contents(&m, 9);
  must(banyan_state_commit(m.state, 9));
  must(banyan_state_sync(m.state, m.comm, NULL, &report));
  check_contents(&m, 9);
  must_hold(report.receivers == 0 && report.bytes == 0);
  end(&m);
}

static void test_newest(void **state) {
  static const struct {
    int n;
    unsigned holders;
    bool apart;
  } cases[] = {{2, 2, true}, {4, 0xb, true}, {5, 0x4, true}, {6, 0x25, false}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct job job = {.n = cases[i].n, .run = newest, .argument = &cases[i].holders, .seed = cases[i].apart};
    job_run(&job);
  }
}

/* Nobody has a version: rank 0's state becomes version 0. Equal contents are not sent. */
static void nobody(struct job *job, int rank) {
  struct model m = begin(rank, false);
  struct banyan_state_report report;
  make_state(&m);
  must_fail(BANYAN_ERR_ARGUMENT, banyan_state_restore(m.state));
  set_contents(&m, 0);
  if (rank == job->n - 1) m.small[0] = 5;
  must(banyan_state_sync(m.state, m.comm, NULL, &report));
  check_contents(&m, 0);
  uint64_t all = by_state_layout_bytes(by_state_current(m.state)->layout);
  must_hold(report.bytes == (rank == job->n - 1 ? all - 5 * MIB : 0));
  must_fail(BANYAN_ERR_ARGUMENT, banyan_state_commit(m.state, 0));
  end(&m);
}

static void test_nobody(void **state) {
  (void)state;
  struct job job = {.n = 3, .run = nobody};
  job_run(&job);
}

/* ---- what differs */

/* The last rank has other buffers. All members get the same error, and nothing has changed. */
static void other_buffers(struct job *job, int rank) {
  static const struct {
    const char *name;
    size_t count;
    enum banyan_dtype dtype;
    const char *text;
  } cases[] = {
      {"small", SMALL + 1, BANYAN_FLOAT64, "buffer \"small\" has 101 elements of f64 on rank 2 (host here)"},
      {"small", SMALL, BANYAN_INT64, "and 100 elements of f64 on rank 0 (host here), which has version 4"},
      {"little", SMALL, BANYAN_FLOAT64, "buffer 1 of the state is \"little\" on rank 2 (host here) and \"small\""},
      {NULL, 0, BANYAN_FLOAT64,
       "buffer \"small\" is in the state of rank 0 (host here), which has version 4 only, not in"},
  };
  bool last = rank == job->n - 1;
  struct model m = begin(rank, false);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    banyan_state_destroy(m.state);
    m.small[1] = 0;
    double more[SMALL + 1] = {3};
    struct banyan_state_buffer buffers[] = {{"large", m.large, LARGE, BANYAN_FLOAT32},
                                            {"small", m.small, SMALL, BANYAN_FLOAT64}};
    if (last) buffers[1] = (struct banyan_state_buffer){cases[i].name, more, cases[i].count, cases[i].dtype};
    must(banyan_state_create(buffers, last && !cases[i].name ? 1 : 2, &m.state));
    if (!last) must(banyan_state_commit(m.state, 4));
    m.small[1] = 6;
    must_fail(BANYAN_ERR_MISMATCH, banyan_state_sync(m.state, m.comm, NULL, NULL));
    if (!strstr(banyan_error_text(), cases[i].text)) rank_fail("the text is: %s", banyan_error_text());
    must_hold(banyan_state_version(m.state) == (last ? -1 : 4) && m.small[1] == 6 && more[0] == 3);
  }
  end(&m);
}

static void test_other_buffers(void **state) {
  (void)state;
  struct job job = {.n = 3, .run = other_buffers};
  job_run(&job);
}

struct fitting {
  struct model *m;
  int calls;
};

static void fit(void *argument, const struct banyan_state_buffer *buffers, size_t n) {
  struct fitting *f = argument;
  must_hold(n == 3 && !strcmp(buffers[1].name, "small") && buffers[1].count == SMALL && !buffers[1].data);
  const struct banyan_state_buffer own[] = {{"large", f->m->large, LARGE, BANYAN_FLOAT32},
                                            {"small", f->m->small, SMALL, BANYAN_FLOAT64},
                                            {"step", &f->m->step, 1, BANYAN_INT64}};
  must(banyan_state_set_buffers(f->m->state, own, 3));
  f->calls++;
}

/* Who has other buffers than the newest version may make them fit. */
static void prepared(struct job *job, int rank) {
  struct model m = begin(rank, false);
  struct fitting fitting = {.m = &m};
  struct banyan_state_sync_options options = {.prepare = fit, .argument = &fitting};
  bool last = rank == job->n - 1;
  if (last)
    must(banyan_state_create(NULL, 0, &m.state));
  else
    make_state(&m);
  if (!last) set_contents(&m, 2);
  if (!last) must(banyan_state_commit(m.state, 2));
  must(banyan_state_sync(m.state, m.comm, &options, NULL));
  check_contents(&m, 2);
  must_hold(fitting.calls == last);
  end(&m);
}

static void test_prepared(void **state) {
  (void)state;
  struct job job = {.n = 3, .run = prepared};
  job_run(&job);
}

/* Rank 1 has other contents under the same version: an error that says so, or it gets those of rank 0. */
static void other_contents(struct job *job, int rank) {
  struct model m = begin(rank, false);
  struct banyan_state_sync_options options = {.adopt = true};
  struct banyan_state_report report;
  make_state(&m);
  set_contents(&m, 6);
  if (rank == 1) m.small[7] = -1;
  if (rank != job->n - 1) must(banyan_state_commit(m.state, 6));
  must_fail(BANYAN_ERR_MISMATCH, banyan_state_sync(m.state, m.comm, NULL, NULL));
  if (!strstr(banyan_error_text(),
              "version 6 of the state has different contents on rank 0 (host here) and rank 1 (host here): "
              "buffer \"small\" first"))
    rank_fail("the text is: %s", banyan_error_text());
  must(banyan_state_sync(m.state, m.comm, &options, &report));
  check_contents(&m, 6);
  must_hold(report.holders == job->n - 2 && report.receivers == 2);
  must_hold(rank != 1 || report.bytes <= MIB);
  end(&m);
}

static void test_other_contents(void **state) {
  (void)state;
  struct job job = {.n = 4, .run = other_contents};
  job_run(&job);
}

/* ---- wrong bytes */

/* The copies of as many ranks were damaged after they were hashed. */
static void damaged(struct job *job, int rank) {
  int bad = *(const int *)job->argument;
  struct model m = begin(rank, true);
  make_state(&m);
  bool last = rank == job->n - 1;
  set_contents(&m, 1);
  if (!last) must(banyan_state_commit(m.state, 1));
  if (!last) by_state_copy_hash(by_state_current(m.state));
  for (size_t c = 0; c < 6 && rank < bad; c++) by_state_current(m.state)->area[c * BY_STATE_CHUNK + 5] ^= 1;
  memset(m.large, 0, LARGE * sizeof *m.large);
  if (bad < job->n - 1) {
    must(banyan_state_sync(m.state, m.comm, NULL, NULL));
    if (rank >= bad) check_contents(&m, 1);
  } else {
    must_fail(BANYAN_ERR_PROTOCOL, banyan_state_sync(m.state, m.comm, NULL, NULL));
    must_hold(strstr(banyan_error_text(), "sent wrong bytes of version 1 of the state: chunk "));
    must_hold(strstr(banyan_error_text(), "at buffer \"large\", as all others did before"));
    must_hold(banyan_state_version(m.state) == (last ? -1 : 1));
  }
  end(&m);
}

static void test_damaged(void **state) {
  (void)state;
  for (int bad = 1; bad <= 3; bad += 2) {
    struct job job = {.n = 4, .run = damaged, .argument = &bad};
    job_start(&job);
    job_wait(&job);
    if (!job_count_log(&job, "asking another member")) job_fail(&job, "nothing was asked again");
    job_end(&job, true);
  }
}

/* ---- deaths */

enum { HANDLE = 2048, MEMBERS = 4, FIRST_NEWCOMER = 2, HUGE = 16 * MIB / (int)sizeof(float) };

static struct board {
  char handles[MEMBERS][HANDLE];
  _Atomic int published[MEMBERS];
  _Atomic uint64_t received; /* Bytes that newcomers get after the death. */
} * board;

static struct banyan_comm *form(struct banyan_member *member, const char *name, const int *ids, int n) {
  const char *handles[MEMBERS];
  struct banyan_comm *comm;
  for (int i = 0; i < n; i++) handles[i] = board->handles[ids[i]];
  must(banyan_member_reconfigure(member, name, handles, n, 30, &comm));
  return comm;
}

/* Ends this process when it has sent a part of the state: more than others can have requested at first. */
static void *die_early(void *argument) {
  struct banyan_comm *comm = argument;
  struct banyan_counters counters;
  do {
    usleep(100);
    banyan_comm_counters(comm, &counters);
  } while (counters.bytes_sent < 6 * MIB);
  raise(SIGKILL);
  return NULL;
}

static struct banyan_member *begin_member(const struct job *job, int id) {
  struct banyan_member *member;
  char host[16];
  snprintf(host, sizeof host, "host%d", id);
  setenv("BANYAN_HOST", host, 1);
  must(banyan_member_create(NULL, &member));
  snprintf(board->handles[id], HANDLE, "%s", banyan_member_handle(member));
  atomic_store(&board->published[id], 1);
  for (int i = 0; i < job->n; i++)
    while (!atomic_load(&board->published[i])) usleep(500);
  return member;
}

/* Processes 0 and 1 have the state, and one process dies while 2 and 3 receive it, perhaps from each other. Those that
 * are left get the rest in the next membership. */
static void interrupted(struct job *job, int id) {
  int victim = *(const int *)job->argument, every[MEMBERS], rest[MEMBERS], n = 0;
  bool is_new = id >= FIRST_NEWCOMER;
  struct banyan_state_report report;
  pthread_t thread;
  for (int i = 0; i < MEMBERS; i++) every[i] = i;
  for (int i = 0; i < MEMBERS; i++)
    if (i != victim) rest[n++] = i;
  struct banyan_member *member = begin_member(job, id);
  struct model m = begin_on(form(member, "all", every, MEMBERS));
  float *huge = malloc(HUGE * sizeof *huge);
  must_hold(huge);
  for (size_t i = 0; i < HUGE; i++) huge[i] = is_new ? 0 : element(5, i) + 1;
  const struct banyan_state_buffer buffer = {"huge", huge, HUGE, BANYAN_FLOAT32};
  must(banyan_state_create(&buffer, 1, &m.state));
  if (!is_new) must(banyan_state_commit(m.state, 5));
  if (id == victim) must_hold(!pthread_create(&thread, NULL, die_early, m.comm));
  enum banyan_status status = banyan_state_sync(m.state, m.comm, NULL, NULL), later = status;
  while (later == BANYAN_OK) later = banyan_barrier(m.comm); /* it died at the end, or later */
  if (later != BANYAN_ERR_PEER_DEAD) rank_fail("process %d: %s", id, banyan_error_text());
  must_hold(!is_new || banyan_state_version(m.state) == (status == BANYAN_OK ? 5 : -1));
  struct banyan_comm *before = m.comm;
  m.comm = form(member, "rest", rest, n);
  m.size = n;
  banyan_comm_destroy(before);
  must(banyan_state_sync(m.state, m.comm, NULL, &report));
  for (size_t i = 0; i < HUGE; i++)
    if (huge[i] != element(5, i) + 1) rank_fail("process %d: element %zu is %g", id, i, (double)huge[i]);
  must_hold(report.version == 5);
  if (is_new) atomic_fetch_add(&board->received, report.bytes);
  end(&m);
  free(huge);
  banyan_member_destroy(member);
}

static void test_interrupted(void **state) {
  static const int victims[] = {1, 0, 3};
  uint64_t received = 0, whole = 0;
  (void)state;
  for (size_t i = 0; i < sizeof victims / sizeof *victims; i++) {
    memset(board, 0, sizeof *board);
    struct job job = {.n = MEMBERS, .run = interrupted, .argument = &victims[i]};
    job_start(&job);
    job_wait(&job);
    for (int r = 0; r < MEMBERS; r++)
      if (r != victims[i]) job_check_exit(&job, r);
    job_check_killed(&job, victims[i], SIGKILL);
    received += atomic_load(&board->received);
    whole += (victims[i] < FIRST_NEWCOMER ? 2 : 1) * HUGE * sizeof(float);
    job_end(&job, false);
  }
  assert_true(received < whole); /* What had come before a death is not sent again. */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_newest),      cmocka_unit_test(test_nobody),         cmocka_unit_test(test_other_buffers),
      cmocka_unit_test(test_prepared),    cmocka_unit_test(test_other_contents), cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_interrupted),
  };
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (board == MAP_FAILED) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
