/* What the network carries, and how much of it is used: by others, and by jobs of each class. A job does not give way
 * to a lower class, which the hosts' queues hold back for it. Steps are those of plan_request.h.
 *
 * Which job goes before which. Jobs are in order by their queue and, in a queue,
 * by what they have left. Those that have not stated it come after them,
 * as equals (or by when they came, where that is configured). The few classes
 * that the network has are given out along that order, to each part of the
 * network by itself:
 *
 *   A before B on one link, B before C on another:    A 1, B 2, C 3
 *   D meets none of them:                             D 1, and lower as it falls in the queues
 *
 * So a class states which goes first where jobs meet, and little of the job. Jobs
 * that have the last class are equals, whatever their order. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_LINKS_H
#define BY_CLUSTER_MANAGER_MANAGER_LINKS_H

#include "manager_job.h"

/* The class that a job had when it was kept. */
void by_order_restore(struct by_manager_job *job, uint32_t class_);

/* One direction of a link, or of a node that has a limit. */
struct by_manager_step {
  double carries;                        /* by the topology, or less, as hosts report or as it is seen */
  double by_agent;                       /* of a link: as the agent at its sending end reports; INFINITY: it does not */
  double message;                        /* by the topology and agents */
  bool notified;                         /* an agent does */
  double seen;                           /* what it is seen to carry, if that is less; INFINITY: it is not */
  double marked;                         /* what it carried when jobs were last notified */
  double others[2];                      /* others' use: as the sending end reports, as the receiving one does */
  double ours[BY_PRIORITY_CLASSES];      /* of jobs, by class */
  uint32_t jobs_on[BY_PRIORITY_CLASSES]; /* how many put something there */
};

struct by_manager_links {
  bool stale;     /* ours is to be summed again, and classes */
  double changed; /* when a link last began to carry more or less */
  uint32_t n_steps;
  struct by_manager_step steps[];
};

BANYAN_CHECK enum banyan_status by_links_init(struct by_manager *m);

/* The step from a node over one of its links. */
uint32_t by_links_step_out(const struct by_topology *topology, uint32_t link, uint32_t node);
/* Both directions of a link carry so much at most, as the agent at one of its ends reports. */
void by_links_set_capacity(struct by_manager *m, uint32_t node, uint32_t link, double message);
/* What others send and receive over a link, as the agent at one of its ends reports. */
void by_links_set_others(struct by_manager *m, uint32_t node, uint32_t link, double sent, double received);
/* The agent at one of the link's ends has gone. */
void by_links_forget(struct by_manager *m, uint32_t node, uint32_t link);
/* What a step is seen to carry, if that is less than what is stated. */
void by_links_set_seen(struct by_manager *m, uint32_t step, double rate);

/* What jobs put on links, or their classes, may have changed. */
void by_use_set_stale(struct by_manager *m);
/* Sums what jobs put on each step, if anything has changed, and finds their classes. */
void by_use_sum(struct by_manager *m);
/* What jobs put on a step, all classes together; after by_use_sum. */
double by_use_of_jobs(const struct by_manager *m, uint32_t step);
/* What jobs of higher classes put on a step, and whether they do where a job sends, or anywhere, while it is not known
 * where that is; after by_use_sum. */
double by_use_of_higher(const struct by_manager *m, const struct by_manager_job *job, uint32_t step);
bool by_use_may_give_way(const struct by_manager *m, const struct by_manager_job *job);
/* Whether others send where a job does, or jobs of its class or a higher one; after by_use_sum, too. */
bool by_use_sways(const struct by_manager *m, const struct by_manager_job *job);
/* bit/s of input that these shares can carry for a job now. INFINITY: they need nothing. */
double by_use_rate(const struct by_manager *m, const struct by_manager_job *job, const struct by_link_shares *shares);
/* The same with the whole network for itself. */
double by_use_most(const struct by_manager *m, const struct by_link_shares *shares);
/* The network as a job sees it: of each step what others and higher classes leave, less what its own class does, or its
 * part of that class's, whichever is more; a twentieth of the step at least. Beside higher classes, or while they are
 * silent. Nodes and links are to be freed. */
BANYAN_CHECK enum banyan_status by_use_residual(struct by_manager *m, const struct by_manager_job *job, bool beside,
                                                struct by_topology *out);
/* Others' use of a step. */
double by_use_others(const struct by_manager *m, uint32_t step);

#endif
