/* Jobs of real processes for tests. The test forks the ranks, which run one
 * function each and report through shared memory; it may kill or stop them,
 * and it waits with a deadline of its own, after which it kills what is left
 * and fails. Assertions (cmocka) belong to the test's process only: ranks use
 * must() and friends, which end the rank with a text on standard error. What
 * ranks print there is kept in a file and shown when a test fails. */
#ifndef BY_TESTS_NET_JOB_H
#define BY_TESTS_NET_JOB_H

#include <banyan/banyan.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "rng.h"

enum { JOB_RANKS = 8, JOB_TEXT = 640 };

/* Written by a rank, read by the test. */
struct job_report {
  _Atomic int stage;         /* how far it has come: the test's own meaning */
  enum banyan_status status; /* of job_report_status */
  char text[JOB_TEXT];
  double at; /* when it was reported, job_now() */
  _Atomic uint64_t number;
};

struct job {
  /* to be set; the rest is 0 */
  int n;
  void (*run)(struct job *job, int rank); /* in the rank's process, which then exits with 0 */
  const char *transport;                  /* NULL: auto */
  const void *argument;
  uint64_t seed;
  double limit; /* seconds for everything; 0: 60 */
  /* from here on the job's own */
  pid_t pids[JOB_RANKS];
  int exits[JOB_RANKS]; /* as waitpid gives them; -1: still there */
  struct job_report *reports;
  char root[64];
  int log;
};

/* ---- in the test's process */

/* Makes root and reports and starts all ranks. */
void job_start(struct job *job);
/* Prepares everything but starts nobody: for jobs whose ranks start one by one with job_start_rank. */
void job_prepare(struct job *job);
void job_start_rank(struct job *job, int rank);
/* Until all have ended; fails the test if they do not in time, then or when job_end does. */
void job_wait(struct job *job);
void job_wait_rank(struct job *job, int rank);
/* Until a rank's stage is at least this. */
void job_wait_stage(struct job *job, int rank, int stage);
void job_signal(struct job *job, int rank, int signal);
/* Fails the test unless the rank exited with 0 (or was ended by this signal). */
void job_check_exit(struct job *job, int rank);
void job_check_killed(struct job *job, int rank, int signal);
/* What the ranks wrote to standard error; to be freed. */
char *job_log(const struct job *job);
/* How often they wrote it. */
int job_count_log(const struct job *job, const char *text);
/* Fails unless the log has the text so many times; -1: at least once. */
void job_check_log(const struct job *job, const char *text, int times);
/* Waits, checks that all exits are 0 if `clean`, and gives everything back. */
void job_end(struct job *job, bool clean);
/* Shows the ranks' output, then fails. */
void job_fail(const struct job *job, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
/* start + end(clean) */
void job_run(struct job *job);

/* ---- in a rank */

#define must(expression) must_be(BANYAN_OK, (expression), #expression, __FILE__, __LINE__)
#define must_fail(wanted, expression) must_be(wanted, (expression), #expression, __FILE__, __LINE__)
#define must_hold(condition) must_hold_at((condition), #condition, __FILE__, __LINE__)
void must_be(enum banyan_status wanted, enum banyan_status got, const char *what, const char *file, int line);
void must_hold_at(bool condition, const char *what, const char *file, int line);
/* Ends the rank with a text. */
void rank_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* The world, or the rank ends. */
struct banyan_comm *job_join(void);
/* A status with the thread's error text, the time, and stage 1000. */
void job_report_status(struct job *job, int rank, enum banyan_status status);
void job_set_stage(struct job *job, int rank, int stage);

/* ---- both */

double job_now(void); /* seconds, the same clock in all processes */
/* `usual`, or more where BANYAN_TEST_LONGER is set: times it. */
int job_rounds(int usual);
/* Seed of round i: i + 1, or from BANYAN_TEST_SEED on, to repeat what failed. */
uint64_t job_seed(int i);
/* Sleeps up to so many microseconds. */
void job_doze(struct by_rng *rng, unsigned most);
/* A port of 127.0.0.1 on which nobody listens. */
int job_free_port(void);
/* Open descriptors of this process. */
int job_count_fds(void);

#endif
