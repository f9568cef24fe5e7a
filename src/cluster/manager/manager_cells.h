/* Memory of the topology's switches that add: what each job requests there, is given, and has. Of a switch whose
 * memory is not known each job is given what it requests.
 *
 * What a job is given it keeps until it leaves, as its ends have agreed on it. So a new job is given what would be its
 * fair share if all began now, and a quarter of the memory is only for those that come when the rest is gone. Fair is
 * max-min: all get the same part of what they need, weighted by class, but none more than it requests. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_CELLS_H
#define BY_CLUSTER_MANAGER_MANAGER_CELLS_H

#include "manager_job.h"

/* In bytes. */
struct by_cells_claim {
  double request, weight; /* >= 0 */
};

/* need: > 0, to do without waiting; only its ratio to that of others counts. One class higher counts twice. */
double by_cells_weight(double need, uint32_t class_);
/* What the n_own claims from claims[first] on, which are one job's, are to be given of `memory`, of which `given` is
 * gone. Where all requests together fit three quarters of it these are the requests; where too little is left, the same
 * part of each. Cost: n. */
void by_cells_share(double memory, double given, const struct by_cells_claim *claims, uint32_t n, uint32_t first,
                    uint32_t n_own, double *shares);

/* Answers what rank 0 requests at switches, or notes what it has there. */
BANYAN_CHECK enum banyan_status by_cells_reserve(struct by_manager *m, struct by_manager_job *job,
                                                 const struct by_cluster_message *message);
/* From a row that was kept. */
BANYAN_CHECK enum banyan_status by_cells_restore(struct by_manager *m, struct by_manager_job *job, const char *request);
void by_cells_keep(struct by_manager *m, const struct by_manager_job *job);
/* The job leaves: what it has is free. */
void by_cells_end(struct by_manager *m, struct by_manager_job *job);
void by_cells_free(struct by_manager_job *job);
/* JSON: the cells of a job; the switches that add, with what jobs have there. */
void by_cells_print(const struct by_manager *m, const struct by_manager_job *job, struct by_text *text);
void by_cells_print_switches(const struct by_manager *m, struct by_text *text);

#endif
