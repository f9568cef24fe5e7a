/* Which class a job sends in. The first iterations of a job are in the highest
 * one, which is for them alone, so that users see early whether it works.
 * After that it is a multi-level feedback queue: the more a job has sent, the
 * lower its queue, so that short jobs overtake long ones though it is not known
 * which is which. A job that has stated its length is in the queue of what it
 * has still to send, and goes before those of its queue that have more left or
 * have stated nothing. Queues are many and classes, which the network
 * knows, are few: so jobs are in different ones where they meet. No I/O. */
#ifndef BY_CLUSTER_PROTOCOL_PRIORITY_H
#define BY_CLUSTER_PROTOCOL_PRIORITY_H

#include <stdbool.h>
#include <stdint.h>

#include "fail.h"

/* How many iterations a job is to make as it states, when its launcher ends it
 * at the latest, and whether that is still believed. A job that has little left
 * goes before others, so this counts until it turns out to have been too small:
 * a larger number later, more iterations than that, or the job going on after
 * its end, ends it for good. A value without I/O or a clock. */
struct by_job_length {
  uint64_t expected; /* iterations in all; 0: not stated, or not believed any more */
  double ends;       /* at the latest, by the caller's clock in seconds; 0: not stated, or not believed any more */
  bool doubted;      /* what the job stated was too small: what it states no longer counts */
};

/* What a job states, 0: nothing; and how many iterations it has made. Iterations that are found in calls are not always
 * found where the program has them, so a job may make 2, and a 64th, more than stated. True: something has changed. */
bool by_job_length_update(struct by_job_length *length, uint64_t stated, uint64_t iterations);
/* Iterations left; 0: none, or it is not known, as `expected` shows. */
uint64_t by_job_length_left(const struct by_job_length *length, uint64_t iterations);
/* It is to end within so many seconds, 0: that is not stated; of several ends the first one counts. A minute after it
 * the job is doubted, as what ends jobs also takes a while. True: it is from now on. */
bool by_job_length_limit(struct by_job_length *length, double seconds, double now);
/* So many iterations, each of so many seconds, are possible until then; INFINITY: that is not known. */
double by_job_length_most(const struct by_job_length *length, double iteration_time, double now);

enum {
  BY_PRIORITY_CLASSES = 4, /* 0 is the highest */
  BY_PRIORITY_QUEUES = 16  /* 0: the first iterations */
};

struct by_priority_rules {
  uint64_t iterations; /* the first so many are in queue 0 */
  uint64_t threshold;  /* bytes that a job may have sent in queue 1; in each lower queue 4 times as many */
  bool equal;          /* jobs of a queue that have not stated their lengths go as equals, not as they came */
};

/* Where a job stands in the order, beside when it came. */
struct by_priority_place {
  uint32_t queue;
  double left; /* bytes that a host of it has still to send, as it states; INFINITY: it has not */
};

/* 10 iterations, 10 GB, as equals. */
struct by_priority_rules by_priority_usual(void);
/* "first" or "share", as users set `equal`. BANYAN_ERR_ARGUMENT: anything else. */
BANYAN_CHECK enum banyan_status by_priority_parse_order(const char *text, bool *equal);
/* Of a job that has made so many iterations (0: none, or it is not known), all ranks of it having sent so many bytes.
 * A job whose iterations cannot be told apart is first up to the threshold. */
uint32_t by_priority_queue(const struct by_priority_rules *rules, uint64_t iterations, uint64_t bytes);
/* The same of one on so many hosts that may have stated how many iterations there will be: by what those that are left
 * will send. If there is only time for `most`, that is what is left at most: it can lower the queue, and without a
 * number of iterations says nothing about which of two jobs has less left. */
struct by_priority_place by_priority_find(const struct by_priority_rules *rules, uint32_t hosts, uint64_t iterations,
                                          uint64_t bytes, const struct by_job_length *length, double most);
/* < 0: a goes before b; > 0: behind it; 0: as equals, or by which came first. */
int by_priority_compare(const struct by_priority_place *a, const struct by_priority_place *b);
bool by_priority_are_equals(const struct by_priority_rules *rules, const struct by_priority_place *a,
                            const struct by_priority_place *b);
/* Its class among those that it meets. Alone it is the queue, or the lowest class. above: the lowest class of those
 * that go before it, 0: none does. behind: how many follow one after the other behind it; it leaves them room. */
uint32_t by_priority_class(uint32_t queue, uint32_t above, uint32_t behind);
/* ToS byte that marks a class: CS4 (0x80) for the highest, then CS3, CS2, and CS1, which networks take for what may
 * wait. */
uint8_t by_priority_tos(uint32_t class_);
/* The priority of its sockets inside the host: so that the kernel's usual queues (pfifo_fast, prio) keep the order. */
int by_priority_socket(uint32_t class_);

#endif
