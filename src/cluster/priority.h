/* Which class a job sends in. The first iterations of a job are in the highest
 * one, which is for them alone, so that its people see early whether it works;
 * after that it is a multi-level feedback queue of the others: the more a job
 * has sent, the lower its class, so that short jobs overtake long ones though
 * nobody said which is which. A value without I/O. */
#ifndef BY_CLUSTER_PRIORITY_H
#define BY_CLUSTER_PRIORITY_H

#include <stdint.h>

enum { BY_PRIORITY_CLASSES = 4 }; /* 0 is the highest */

struct by_priority_rules {
  uint64_t iterations; /* the first so many are in class 0 */
  uint64_t threshold;  /* bytes that a job may have sent in class 1; in each lower class 4 times as many */
};

/* 10 iterations, 10 GB. */
struct by_priority_rules by_priority_usual(void);
/* Of a job that has made so many iterations (0: none, or it is not known), all ranks of it having sent so many bytes.
 * A job whose iterations nobody can tell apart is first up to the threshold. */
uint32_t by_priority_class(const struct by_priority_rules *rules, uint64_t iterations, uint64_t bytes);
/* ToS byte that marks a class: CS4 (0x80) for the highest, then CS3, CS2, and CS1, which networks take for what may
 * wait. */
uint8_t by_priority_tos(uint32_t class_);
/* The priority of its sockets inside the host: so that the kernel's usual queues (pfifo_fast, prio) keep the order. */
int by_priority_socket(uint32_t class_);

#endif
