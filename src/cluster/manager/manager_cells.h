/* Memory of the topology's switches that aggregate: what each job requests there, is given, and has. If the memory of a
 * switch is unknown, each job is given what it requests.
 *
 * A job keeps its cells until it leaves, as its hosts have agreed on them. So a new job is given its fair share as if
 * all began now, and a quarter of the memory is reserved for jobs that come when the rest is gone. Fair is max-min: all
 * get the same fraction of their needs, weighted by class, but at most what they request. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_CELLS_H
#define BY_CLUSTER_MANAGER_MANAGER_CELLS_H

#include "manager_job.h"

/* A claim in bytes; both >= 0. */
struct by_cells_claim {
  double request, weight;
};

/* `need`: bytes in flight, > 0; only the ratio to those of others counts. One class higher counts twice. */
double by_cells_weight(double need, uint32_t class_);
/* Shares `memory`, of which `given` bytes are in use, among n claims, and stores the shares of one job's n_own claims,
 * which begin at claims[first]. If all requests fit three quarters of it, these are the requests; if too few bytes are
 * left, the same fraction of each. Cost: n. */
void by_cells_share(double memory, double given, const struct by_cells_claim *claims, uint32_t n, uint32_t first,
                    uint32_t n_own, double *shares);

/* Answers a request of rank 0, or records what it has at switches. */
BANYAN_CHECK enum banyan_status by_cells_reserve(struct by_manager *m, struct by_manager_job *job,
                                                 const struct by_cluster_message *message);
/* Restores a request from a row. */
BANYAN_CHECK enum banyan_status by_cells_restore(struct by_manager *m, struct by_manager_job *job, const char *request);
void by_cells_keep(struct by_manager *m, const struct by_manager_job *job);
/* Frees the job's cells, as it leaves. */
void by_cells_end(struct by_manager *m, struct by_manager_job *job);
void by_cells_free(struct by_manager_job *job);
/* Append JSON: the cells of a job; the switches that aggregate, with the cells of jobs. */
void by_cells_print(const struct by_manager *m, const struct by_manager_job *job, struct by_text *text);
void by_cells_print_switches(const struct by_manager *m, struct by_text *text);

/* ---- manager_grants.c
 *
 * Cells of switches for the trees of the manager's plans. A tree gets a guarantee at each switch, which keeps its path
 * full, and as many more cells as nobody else is guaranteed. A plan gets all of its cells together or none, and each
 * plan gets new ones: the old ones stay in the account until rank 0 reports their return (released). If a plan lacks
 * cells that others have beyond their guarantees, these jobs first change to new, fewer cells. A job with few cells
 * that could have twice as many changes, too.
 *
 *     total  =  held (given and not yet returned, for all jobs and plans)  +  free
 *     free   =  a quarter, the reserve for guarantees and while plans change  +  the rest, for anybody */

enum by_grants_result {
  BY_GRANTS_GIVEN,
  BY_GRANTS_WAIT, /* Cells will be free when others have changed to their guarantees, or returned old cells. */
  BY_GRANTS_NONE, /* Others are guaranteed the cells, or a switch is not connected. */
};

/* Returns the bytes in flight for which a switch has cells in a new plan of the job: those that others are not
 * guaranteed and the job does not hold; 0: not enough for a tree. `strict`: only cells that are free now. */
uint64_t by_grants_available(const struct by_manager *m, const struct by_manager_job *job, uint32_t node, bool strict);
/* Gives the cells that a plan's trees need. */
enum by_grants_result by_grants_give(struct by_manager *m, struct by_manager_job *job, uint64_t number,
                                     const struct by_plan_needs *needs, enum by_grants_share share);
/* Returns a job that must change to this share on new cells, so that these needs of `of` and later changes can be met:
 * the job that would return most. NULL: cells suffice, no job can change, or one is changing. */
struct by_manager_job *by_grants_find_victim(const struct by_manager *m, const struct by_manager_job *of,
                                             const struct by_plan_needs *needs, enum by_grants_share share);
/* Tells whether a fair share is at least twice the window of one of the trees of the job's plan, and no less than that
 * of any of them: cells that nobody needs have become free. */
bool by_grants_may_grow(const struct by_manager *m, const struct by_manager_job *job, uint64_t number,
                        const struct by_plan_needs *needs);
/* Returns the job that exceeds its fair share most at a switch where `of`, with this plan, has less than half of its
 * own, and that would return enough for `of` to have twice as much. NULL: none. */
struct by_manager_job *by_grants_find_rich(const struct by_manager *m, const struct by_manager_job *of,
                                           const struct by_plan_needs *needs);
bool by_grants_has(const struct by_manager_job *job, uint64_t number);
/* Tells whether a plan's trees pass a switch that is not connected, even one that only forwards for them, as it removes
 * its entry from the stacks of fragments. *node: one of these. */
bool by_grants_miss_switch(const struct by_manager *m, const struct by_plan *plan, uint32_t *node);
/* Tells whether a switch where a plan has cells has restarted since the plan was made. Its cells are gone, and
 * fragments pass it unmerged. *node: one of these. */
bool by_grants_are_lost(const struct by_manager *m, const struct by_manager_plan *plan, uint32_t *node);
/* Tells whether the job holds cells for trees of the server on this host. */
bool by_grants_use_server(const struct by_manager_job *job, const char *host);
/* Frees the cells of a plan; through: and those of all earlier plans. */
void by_grants_return(struct by_manager *m, struct by_manager_job *job, uint64_t number, bool through);
/* Frees the cells of plans with numbers between these two, which the job has never run. */
void by_grants_return_between(struct by_manager *m, struct by_manager_job *job, uint64_t after, uint64_t before);
/* Frees all cells, as the job leaves. */
void by_grants_end(struct by_manager *m, struct by_manager_job *job);

/* Returns the cells of a plan for a message: *n of them. Free the array; the texts are borrowed. NULL: no memory. */
struct by_cluster_cells *by_grants_list(const struct by_manager *m, const struct by_manager_job *job, uint64_t number,
                                        uint32_t *n);
/* Returns the slots that all jobs hold at a switch; *guaranteed: how many of them are guaranteed. */
uint64_t by_grants_held(const struct by_manager *m, uint32_t node, uint64_t *guaranteed);

void by_grants_keep(const struct by_manager *m, const struct by_manager_job *job);
/* Restores grants from a row. */
BANYAN_CHECK enum banyan_status by_grants_restore(struct by_manager *m, struct by_manager_job *job,
                                                  const struct by_manager_row *row);
void by_grants_free(struct by_manager_job *job);
/* Appends JSON objects of the cells of a job, each with a comma before it if one is needed. node: only those at this
 * switch, with the job instead of the switch; BY_NOWHERE: all. */
void by_grants_print(const struct by_manager *m, const struct by_manager_job *job, uint32_t node, struct by_text *text);

#endif
