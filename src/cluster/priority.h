/* Which class a job sends in. The first iterations of a job are in the highest
 * one, which is for them alone, so that its people see early whether it works.
 * After that it is a multi-level feedback queue: the more a job has sent, the
 * lower its queue, so that short jobs overtake long ones though nobody said
 * which is which; and of the jobs in one queue those go first that came first,
 * as two of equal length are done sooner one after the other than both at once.
 * Queues are many and classes, which the network knows, are few: so jobs are in
 * different ones where they meet. Values without I/O. */
#ifndef BY_CLUSTER_PRIORITY_H
#define BY_CLUSTER_PRIORITY_H

#include <stdbool.h>
#include <stdint.h>

#include "fail.h"

enum {
  BY_PRIORITY_CLASSES = 4, /* 0 is the highest */
  BY_PRIORITY_QUEUES = 16  /* 0: the first iterations */
};

struct by_priority_rules {
  uint64_t iterations; /* the first so many are in queue 0 */
  uint64_t threshold;  /* bytes that a job may have sent in queue 1; in each lower queue 4 times as many */
  bool equal;          /* jobs of a queue go as equals, not in the order in which they came */
};

/* 10 iterations, 10 GB, in order. */
struct by_priority_rules by_priority_usual(void);
/* "first" or "share", as people say `equal`. BANYAN_ERR_ARGUMENT: anything else. */
BANYAN_CHECK enum banyan_status by_priority_parse_order(const char *text, bool *equal);
/* Of a job that has made so many iterations (0: none, or it is not known), all ranks of it having sent so many bytes.
 * A job whose iterations nobody can tell apart is first up to the threshold. */
uint32_t by_priority_queue(const struct by_priority_rules *rules, uint64_t iterations, uint64_t bytes);
/* Its class among those that it meets. Alone it is the queue, or the lowest class. above: the lowest class of those
 * that go before it, 0: nobody does. behind: how many follow one after the other behind it; it leaves them room. */
uint32_t by_priority_class(uint32_t queue, uint32_t above, uint32_t behind);
/* ToS byte that marks a class: CS4 (0x80) for the highest, then CS3, CS2, and CS1, which networks take for what may
 * wait. */
uint8_t by_priority_tos(uint32_t class_);
/* The priority of its sockets inside the host: so that the kernel's usual queues (pfifo_fast, prio) keep the order. */
int by_priority_socket(uint32_t class_);

#endif
