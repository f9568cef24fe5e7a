/* The connections of this host's processes: the ranks of its jobs, what they have done, and what they send. */
#ifndef BY_AGENT_AGENT_RANKS_H
#define BY_AGENT_AGENT_RANKS_H

#include "agent_jobs.h"

/* What a rank, or all ranks of a job, have done since the job began. */
struct by_agent_usage {
  uint64_t iterations, calls, sent, input;
  uint64_t expected; /* iterations in all, by rank 0's word; 0: there is none */
  double iteration_time;
  uint64_t sizes[BY_CLUSTER_SIZES]; /* calls, by log2 of their bytes */
};

/* What the connections of a rank, or of all of a job's here, showed; `to` of a rank's own are its own. */
struct by_agent_paths {
  uint32_t n;
  struct by_cluster_path all[BY_CLUSTER_PATHS];
};

struct by_agent_rank {
  struct by_agent_rank *next;
  void *connection;
  struct by_agent_user *user;
  struct by_budget budget;  /* of what it sends */
  struct by_agent_job *job; /* NULL: no hello yet */
  uint32_t rank;
  struct by_agent_usage usage;
  uint64_t rated_at, rated_sent; /* from where on its rate is measured */
  double rate;                   /* bit/s that it sends */
  struct by_agent_paths *paths;  /* NULL: it has sent none */
  uint64_t paths_at;
};

struct by_agent_ranks {
  const struct by_agent_options *options; /* borrowed, like the next */
  struct by_agent_jobs *jobs;
  void (*print_status)(void *context, unsigned uid, uint64_t now, struct by_text *text);
  void *context;
  struct by_agent_rank *all;
  uint32_t n;
  uint64_t n_refused; /* lines that were not taken */
};

/* Calls nothing. */
void by_agent_ranks_fini(struct by_agent_ranks *ranks);
/* As by_agent_rank_came, _hear and _gone. */
BANYAN_CHECK enum banyan_status by_agent_ranks_connect(struct by_agent_ranks *ranks, void *connection, unsigned uid,
                                                       uint64_t now, struct by_agent_rank **out);
bool by_agent_ranks_receive(struct by_agent_ranks *ranks, struct by_agent_rank *rank, const char *line, size_t length,
                            uint64_t now);
void by_agent_ranks_disconnect(struct by_agent_ranks *ranks, struct by_agent_rank *rank, uint64_t now);

/* To all ranks of jobs. */
void by_agent_ranks_send(const struct by_agent_ranks *ranks, const struct by_cluster_message *message);
/* To rank 0 of the message's job. False: it is not here. */
bool by_agent_ranks_send_root(const struct by_agent_ranks *ranks, const struct by_cluster_message *message);
/* The class of a job, to all ranks of it. */
void by_agent_ranks_send_class(const struct by_agent_ranks *ranks, const struct by_agent_job *job);

/* What the ranks of a job have done together. */
void by_agent_ranks_merge(const struct by_agent_ranks *ranks, const struct by_agent_job *job,
                          struct by_agent_usage *out);
/* The paths of all ranks of a job that have sent some of late, those that carry most first; `to` is theirs. */
BANYAN_CHECK enum banyan_status by_agent_ranks_merge_paths(const struct by_agent_ranks *ranks,
                                                           const struct by_agent_job *job, uint64_t now,
                                                           struct by_arena *arena, struct by_agent_paths *out);
/* bit/s that ranks send whose rates were measured since then. */
double by_agent_ranks_rate(const struct by_agent_ranks *ranks, uint64_t since);

#endif
