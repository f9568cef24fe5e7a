/* Which class a job sends in. Its first iterations are in the highest class, which is only for them, so that users see
 * early whether it works. After that it is a multi-level feedback queue: the more a job has sent, the lower its queue,
 * so that short jobs overtake long ones though nobody knows their lengths. A job that has stated its length is queued
 * by what it still has to send, and precedes jobs of its queue that have more left or have stated nothing. There are
 * many queues and few classes, which the network knows, so jobs get different classes only where they meet. No I/O. */
#ifndef BY_CLUSTER_PROTOCOL_PRIORITY_H
#define BY_CLUSTER_PROTOCOL_PRIORITY_H

#include <stdbool.h>
#include <stdint.h>

#include "fail.h"

/* How many iterations a job states, when its launcher ends it at the latest, and whether that is still credible. A job
 * with little left precedes others, so a statement that was too small (a larger number later, more iterations than
 * stated, or a job that continues after its end) makes all of its statements void. A value without I/O or a clock. */
struct by_job_length {
  uint64_t expected; /* Total iterations; 0: not stated, or void. */
  double ends;       /* Latest end by the caller's clock in seconds; 0: not stated, or void. */
  bool is_void;      /* A statement was too small, so all are ignored. */
};

/* Updates the length by what a job states (0: nothing) and its iterations so far. Detected iterations are not always
 * those of the program, so 2, and a 64th, more than stated are accepted. Returns true if something changed. */
bool by_job_length_update(struct by_job_length *length, uint64_t stated, uint64_t iterations);
/* Returns the iterations left; 0: none, or unknown, as `expected` shows. */
uint64_t by_job_length_left(const struct by_job_length *length, uint64_t iterations);
/* Sets a limit of so many seconds (0: not stated); the earliest of several counts. A minute after it the statement is
 * void, as ending a job also takes a while. Returns true if it has just become void. */
bool by_job_length_limit(struct by_job_length *length, double seconds, double now);
/* Returns how many iterations of so many seconds fit before the limit; INFINITY: unknown. */
double by_job_length_max_iterations(const struct by_job_length *length, double iteration_time, double now);

enum {
  BY_PRIORITY_CLASSES = 4, /* Class 0 is the highest. */
  BY_PRIORITY_QUEUES = 16  /* Queue 0 is for the first iterations. */
};

struct by_priority_rules {
  uint64_t iterations; /* So many iterations are in queue 0. */
  uint64_t threshold;  /* Bytes that a job may have sent in queue 1; each lower queue allows 4 times as many. */
  bool equal; /* Jobs of a queue that have not stated their lengths are equal; otherwise the first to come precedes. */
};

/* A job's position in the order, apart from when it came. */
struct by_priority_position {
  uint32_t queue;
  double left; /* Bytes that each of its hosts still has to send, as stated; INFINITY: not stated. */
};

/* Returns the defaults: 10 iterations, 10 GB, equal. */
struct by_priority_rules by_priority_defaults(void);
/* Parses "first" or "share" into `equal`. BANYAN_ERR_ARGUMENT: anything else. */
BANYAN_CHECK enum banyan_status by_priority_parse_order(const char *text, bool *equal);
/* Returns the queue of a job by its iterations (0: none, or unknown) and the bytes that all of its ranks have sent. A
 * job with unknown iterations is in queue 0 up to the threshold. */
uint32_t by_priority_queue(const struct by_priority_rules *rules, uint64_t iterations, uint64_t bytes);
/* Returns the position of a job on so many hosts, by what it still has to send if it states its length.
 * `max_iterations` limits what is left: it can lower the queue, but without a number of iterations it does not compare
 * two jobs. */
struct by_priority_position by_priority_find(const struct by_priority_rules *rules, uint32_t hosts, uint64_t iterations,
                                             uint64_t bytes, const struct by_job_length *length, double max_iterations);
/* Returns < 0 if a precedes b, > 0 if b precedes a, 0 if they are equal or in the order in which they came. */
int by_priority_compare(const struct by_priority_position *a, const struct by_priority_position *b);
bool by_priority_are_equals(const struct by_priority_rules *rules, const struct by_priority_position *a,
                            const struct by_priority_position *b);
/* Returns a job's class: alone that is the queue, or the lowest class. `above` is the lowest class of jobs that precede
 * it where they meet, 0: none. `behind` is the length of the chain of jobs behind it, for which it leaves classes. */
uint32_t by_priority_class(uint32_t queue, uint32_t above, uint32_t behind);
/* Returns the ToS byte of a class: CS4 (0x80) for the highest, then CS3, CS2, and CS1, which networks treat as
 * background traffic. */
uint8_t by_priority_tos(uint32_t class_);
/* Returns the priority of its sockets, by which the kernel's usual queues (pfifo_fast, prio) keep the order. */
int by_priority_socket(uint32_t class_);

#endif
