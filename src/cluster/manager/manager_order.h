/* Which job goes before which. Jobs are in order by their queue and, in a queue,
 * by what they have left. Those that have not said what that is come after them,
 * as equals (or by when they came, where that is wished for). The few classes
 * that the network has are given out along that order, to each part of the
 * network by itself:
 *
 *   A before B on one link, B before C on another:    A 1, B 2, C 3
 *   D meets none of them:                             D 1, and lower as it falls in the queues
 *
 * So a class says who goes first where jobs meet, and little of the job. Jobs
 * that have the last class are equals, whatever the order says. */
#ifndef BY_MANAGER_MANAGER_ORDER_H
#define BY_MANAGER_MANAGER_ORDER_H

#include "manager_job.h"

/* Gives each job a class, by its queue and those that it meets; by_use_sum calls it. Without memory all keep theirs. */
void by_order_find(const struct by_manager *m, uint32_t n_steps);
/* The class that a job had when it was kept. */
void by_order_restore(struct by_manager_job *job, uint32_t class_);

#endif
