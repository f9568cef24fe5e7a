/* The connections of this host's processes: the ranks of its jobs, what they have done, and what they send; and what
 * the agent reports to the manager of them and of this host's interfaces. */
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
  LIST_ENTRY(by_agent_rank) entry;
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
  LIST_HEAD(, by_agent_rank) all;
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

/* What the ranks of a job have done together; agent_reports.c, as is all that follows. */
void by_agent_usage_merge(const struct by_agent_ranks *ranks, const struct by_agent_job *job,
                          struct by_agent_usage *out);

struct by_agent_interface {
  struct by_agent_counter counter;                             /* when it was last looked at */
  double sent, received, marked, helped_sent, helped_received; /* bit/s before that */
};

struct by_agent_reports {
  const struct by_agent_options *options; /* borrowed, like the next two */
  struct by_agent_session *session;
  const struct by_agent_ranks *ranks;
  uint64_t started, counted_at;
  uint32_t n;
  struct by_agent_interface interfaces[BY_AGENT_INTERFACES];
  bool renew;      /* there is an interface that the last hello did not name */
  uint64_t n_sent; /* reports */
};

/* Reads the interfaces' counters, too. */
void by_agent_reports_init(struct by_agent_reports *reports, const struct by_agent_options *options,
                           struct by_agent_session *session, const struct by_agent_ranks *ranks, uint64_t now);
/* Reads the interfaces' counters. */
void by_agent_reports_count(struct by_agent_reports *reports, uint64_t now);
void by_agent_reports_send_hello(struct by_agent_reports *reports, uint64_t now);
void by_agent_reports_send(struct by_agent_reports *reports, uint64_t now);
/* All jobs, in the order of the list; they lie in the arena. */
BANYAN_CHECK enum banyan_status by_agent_reports_list_jobs(const struct by_agent_reports *reports, uint64_t now,
                                                           struct by_arena *arena, struct by_cluster_job **out);
/* The interfaces with what jobs send and receive over each. */
void by_agent_reports_list_interfaces(const struct by_agent_reports *reports, struct by_cluster_interface *out);

#endif
