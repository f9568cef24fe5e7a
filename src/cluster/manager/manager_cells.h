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

#endif
