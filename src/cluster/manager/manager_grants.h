/* Cells of switches for the trees of the manager's plans. Cells of a tree at a switch are a guarantee, which keeps the
 * tree's way full, and as many more as nobody else is guaranteed. All cells of a plan are given together or none of
 * them, and each plan gets fresh ones: what it had stays in the account until rank 0 reports that it has been returned
 * (released). So where a plan finds no room that others have beyond their guarantees, these are to change to fresh,
 * smaller cells first. A job that has few and could have twice as many changes, too.
 *
 *     total  =  held (given, and not yet returned; of all jobs and plans)  +  free
 *     free   =  a quarter, for guarantees, and while plans change  +  the rest, for anybody */
#ifndef BY_CLUSTER_MANAGER_MANAGER_GRANTS_H
#define BY_CLUSTER_MANAGER_MANAGER_GRANTS_H

#include "manager_job.h"

enum by_grants_result {
  BY_GRANTS_GIVEN,
  BY_GRANTS_WAIT, /* there will be room when others have changed to their guarantees, or returned what they had */
  BY_GRANTS_NONE, /* there is no room beside the guarantees of others, or a switch is not there */
};

/* Cells of a switch that its agent reports to be there now. */
bool by_grants_switch_is_there(const struct by_manager *m, uint32_t node);
/* Bytes in flight that a switch has cells for in a new plan of the job: what others are not guaranteed, and the job
 * does not hold; 0: not enough for a tree. strict: only what is free now. */
uint64_t by_grants_room(const struct by_manager *m, const struct by_manager_job *job, uint32_t node, bool strict);
/* Gives the cells that a plan's trees need. */
enum by_grants_result by_grants_give(struct by_manager *m, struct by_manager_job *job, uint64_t number,
                                     const struct by_plan_needs *needs, enum by_grants_share share);
/* A job that is to change to this share on fresh cells, so that there is room for these needs of `of`, and for later
 * changes: the one that would return most where it is crowded. NULL: it is not, none can, or one is changing. */
struct by_manager_job *by_grants_find_victim(const struct by_manager *m, const struct by_manager_job *of,
                                             const struct by_plan_needs *needs, enum by_grants_share share);
/* Whether a fair share is at least twice what one of the trees of the plan that the job has can have under way, and no
 * less than what any of them can: cells have become free that nobody needs. */
bool by_grants_may_grow(const struct by_manager *m, const struct by_manager_job *job, uint64_t number,
                        const struct by_plan_needs *needs);
/* A job that holds more than its fair share at a switch where `of`, which has this plan, has less than half of its own,
 * and that would return enough for `of` to have twice as much: the one that would return most. NULL: there is none. */
struct by_manager_job *by_grants_find_rich(const struct by_manager *m, const struct by_manager_job *of,
                                           const struct by_plan_needs *needs);
bool by_grants_has(const struct by_manager_job *job, uint64_t number);
/* Whether a plan's trees pass a switch that is not there any more, also one that only forwards for them: it removes its
 * entry from the stacks of fragments. *node: one of these. */
bool by_grants_miss_switch(const struct by_manager *m, const struct by_plan *plan, uint32_t *node);
/* Whether a switch where a plan has cells has begun again since the plan was made: they are gone, and what its trees
 * send passes the switch unmerged. *node: one of these. */
bool by_grants_are_lost(const struct by_manager *m, const struct by_manager_plan *plan, uint32_t *node);
/* Whether the job holds cells for trees of the server on this host. */
bool by_grants_use_server(const struct by_manager_job *job, const char *host);
/* What the plan was given is free; through: and what all earlier ones were. */
void by_grants_return(struct by_manager *m, struct by_manager_job *job, uint64_t number, bool through);
/* What plans with numbers between these two were given is free: the job has never run them. */
void by_grants_return_between(struct by_manager *m, struct by_manager_job *job, uint64_t after, uint64_t before);
/* The job leaves. */
void by_grants_end(struct by_manager *m, struct by_manager_job *job);

/* The cells of a plan, to be sent. *n of them; free *out, which borrows the rest. NULL: no memory. */
struct by_cluster_cells *by_grants_list(const struct by_manager *m, const struct by_manager_job *job, uint64_t number,
                                        uint32_t *n);
/* Slots that all jobs hold at a switch, and how many of them they are guaranteed. */
uint64_t by_grants_held(const struct by_manager *m, uint32_t node, uint64_t *guaranteed);

void by_grants_keep(const struct by_manager *m, const struct by_manager_job *job);
/* From a row that was kept. */
BANYAN_CHECK enum banyan_status by_grants_restore(struct by_manager *m, struct by_manager_job *job,
                                                  const struct by_manager_row *row);
void by_grants_free(struct by_manager_job *job);
/* JSON objects of the cells of a job, each with a comma before it if one is needed; node: only those at a switch, with
 * the job in place of the switch; BY_NOWHERE: all. */
void by_grants_print(const struct by_manager *m, const struct by_manager_job *job, uint32_t node, struct by_text *text);

#endif
