/* Communicators of all ranks in the job's order, as duplicates are: they begin with the plan that the job was given
 * when it started, and follow it. Whenever the job has come to another plan, rank 0 proposes that to each of them that
 * has made a call. All on the loop's thread, but the beginning and the end. */
#ifndef BY_ADAPTATION_FOLLOWERS_H
#define BY_ADAPTATION_FOLLOWERS_H

#include "job_life.h"

struct by_followers;

BANYAN_CHECK enum banyan_status by_followers_create(struct by_job *job, struct by_followers **out);
/* The loop runs no more. NULL is allowed. */
void by_followers_destroy(struct by_followers *followers);
/* A communicator of the job's n ranks has made its first call. */
void by_followers_add(struct by_followers *followers, uint32_t comm);
/* It follows no more: the user has set its plan, or it goes. False: it did not follow. */
bool by_followers_remove(struct by_followers *followers, uint32_t comm);
/* The job has come to another plan, which is copied. Where one keeps its own for now, it is asked again a few times. */
void by_followers_lead(struct by_followers *followers, const struct by_plan *plan);

#endif
