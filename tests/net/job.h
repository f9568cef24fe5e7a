/* Jobs of real processes for tests. The test forks the ranks. Each rank runs one function and reports through shared
 * memory. The test may kill or stop ranks. It waits with a deadline of its own, after which it kills the remaining
 * ranks and fails.
 *
 * Assertions (cmocka) belong to the test's process only. Ranks use must() and related functions, which end the rank
 * with a text on standard error. The test keeps what ranks print there in a file and shows it when a test fails. */
#ifndef BY_TESTS_NET_JOB_H
#define BY_TESTS_NET_JOB_H

#include <banyan/banyan.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "rng.h"

enum { JOB_RANKS = 8, JOB_TEXT = 640 };

/* The report of one rank. The rank writes it and the test reads it. */
struct job_report {
  _Atomic int stage;         /* progress of the rank; each test defines its meaning */
  enum banyan_status status; /* set by job_report_status */
  char text[JOB_TEXT];
  double at; /* job_now() at the time of the report */
  _Atomic uint64_t number;
};

struct job {
  /* The test sets these fields; all others are 0. */
  int n;
  void (*run)(struct job *job, int rank); /* runs in the rank's process, which then exits with 0 */
  const char *transport;                  /* NULL: auto */
  const void *argument;
  uint64_t seed;
  double limit; /* time limit for the whole job in seconds; 0: 240 */
  /* The fields below belong to job.c. */
  pid_t pids[JOB_RANKS];
  int exits[JOB_RANKS]; /* exit statuses as waitpid returns them; -1: still running */
  struct job_report *reports;
  char root[160];
  int log;
};

/* ---- functions for the test's process */

/* Creates the root address and the reports, and starts all ranks. */
void job_start(struct job *job);
/* Prepares everything but starts no rank. Jobs whose ranks start one by one then call job_start_rank. */
void job_prepare(struct job *job);
void job_start_rank(struct job *job, int rank);
/* Waits until all ranks have ended. Fails the test, at once or in job_end, if they do not end in time. */
void job_wait(struct job *job);
void job_wait_rank(struct job *job, int rank);
/* Waits until a rank's stage is at least `stage`. */
void job_wait_stage(struct job *job, int rank, int stage);
void job_signal(struct job *job, int rank, int signal);
/* Fails the test unless the rank exited with 0 or was ended by the expected signal. */
void job_check_exit(struct job *job, int rank);
void job_check_killed(struct job *job, int rank, int signal);
/* Returns what the ranks wrote to standard error. The caller frees it. */
char *job_log(const struct job *job);
/* Returns how often the ranks wrote this text to standard error. */
int job_count_log(const struct job *job, const char *text);
/* Fails unless the log contains the text exactly `times` times. -1: at least once. */
void job_check_log(const struct job *job, const char *text, int times);
/* Waits for the ranks, checks that all exit statuses are 0 if `clean`, and frees everything. */
void job_end(struct job *job, bool clean);
/* Shows the ranks' output and fails the test. */
void job_fail(const struct job *job, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
/* Calls job_start, and job_end with `clean` set. */
void job_run(struct job *job);

/* ---- functions for a rank's process */

#define must(expression) must_be(BANYAN_OK, (expression), #expression, __FILE__, __LINE__)
#define must_fail(wanted, expression) must_be(wanted, (expression), #expression, __FILE__, __LINE__)
#define must_hold(condition) must_hold_at((condition), #condition, __FILE__, __LINE__)
void must_be(enum banyan_status wanted, enum banyan_status got, const char *what, const char *file, int line);
void must_hold_at(bool condition, const char *what, const char *file, int line);
/* Prints a text and ends the rank. */
void rank_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Returns the world communicator, or ends the rank. */
struct banyan_comm *job_join(void);
/* Adds a key to BANYAN_ENGINE of this process, before it joins. */
void job_set_engine(const char *key, const char *value);
/* Reports a status with the thread's error text and the time, and sets the stage to 1000. */
void job_report_status(struct job *job, int rank, enum banyan_status status);
void job_set_stage(struct job *job, int rank, int stage);

/* ---- functions for both */

double job_now(void); /* seconds, by the same clock in all processes */
/* Returns `usual`, multiplied by BANYAN_TEST_LONGER where that is set. Of eight and more half under a sanitizer: the
 * same code runs in each round, several times as long. */
int job_rounds(int usual);
/* Returns the seed of round i: i + 1, or counted from BANYAN_TEST_SEED to repeat a failure. */
uint64_t job_seed(int i);
/* Sleeps for a random time of at most `most` microseconds. */
void job_doze(struct by_rng *rng, unsigned most);
/* Returns a port of 127.0.0.1 on which no process listens. */
int job_free_port(void);
/* Returns the number of open descriptors of this process. */
int job_count_fds(void);

#endif
