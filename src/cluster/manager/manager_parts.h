/* What the files of manager.h share: hosts, peers, jobs, the use of links. */
#ifndef BY_MANAGER_MANAGER_PARTS_H
#define BY_MANAGER_MANAGER_PARTS_H

#include "job_length.h"
#include "link_ways.h"
#include "manager.h"

enum {
  BY_MANAGER_HISTORY = 32,     /* rows of a job that are shown */
  BY_MANAGER_STRANGERS = 1024, /* hosts that are not in the topology */
  BY_MANAGER_JOBS = 4096,
  BY_MANAGER_BUCKETS = 2048,
  BY_MANAGER_JOBS_OF_ONE = 512, /* of one certificate */
  BY_MANAGER_UNKNOWN = 64,      /* jobs of a host that are remembered before their rank 0 has come */
  BY_MANAGER_LEFT = 64,         /* jobs that have left and are still shown */
  BY_MANAGER_WHY = 256,
  BY_MANAGER_OWNER = 80,
};
#define BY_NOWHERE UINT32_MAX

struct by_manager_interface {
  char *name;
  double rate, sent, received, ours_sent, ours_received; /* as last said */
  double mean[2], mean_ours[2];                          /* sent and received, of late; < 0: nothing was said yet */
  uint32_t link;                                         /* of the topology; BY_NOWHERE: not known */
};

/* A node of the topology, or a stranger: a machine that is not in it. */
struct by_manager_host {
  const char *name; /* a stranger's is its own */
  uint32_t node;    /* BY_NOWHERE: a stranger */
  struct by_manager_peer *agent;
  double parted;         /* when the last one went */
  bool offers, may_help; /* says the agent; and the manager allows it */
  uint32_t n_interfaces;
  struct by_manager_interface *interfaces;
  uint32_t n_unknown; /* jobs that its agent has last reported and that nobody has begun yet */
  char (*unknown)[BY_CLUSTER_JOB_ID + 1];
};

struct by_manager_peer {
  struct by_manager_peer *before, *after; /* in a ring of all */
  uint64_t number;                        /* of all that ever came, from 1 on */
  void *connection;
  enum by_manager_role role;
  char *name; /* the certificate's; NULL: none */
  bool welcome;
  char *host;
  uint32_t index;                  /* of the host; BY_NOWHERE: a rank without an agent */
  char job[BY_CLUSTER_JOB_ID + 1]; /* of such a rank; "": an agent */
  double born, heard;              /* born: when the agent began, by its own word */
  bool reported;
};

/* Reports in a row of which the same is so. */
struct by_seen_row {
  uint32_t n;
  double last; /* when */
};

/* A job's connections from one host to another, as last said; link_seen.c. */
struct by_seen_path {
  struct by_seen_path *next;
  uint32_t from, to; /* nodes */
  bool routed;       /* its way is known: */
  uint32_t n_steps, *steps;
  double sent, busy, bandwidth; /* on links, with headers; see cluster_message.h */
  double named, told;           /* when; told: with words that were new */
  bool news;                    /* they were not looked at yet */
  struct by_seen_row slow;      /* reports in which all of its way was slower than it is taken to be, */
  struct by_seen_row more;      /* and in which a lowered link of it carried more */
  bool believed;                /* while all are looked at: it is slow */
};

/* One direction of a link, by step. */
struct by_seen_link {
  double said;     /* what topology and agents say it carries */
  double marked;   /* what it carried when jobs were last told */
  bool told;       /* an agent does */
  double rate;     /* what it is seen to carry, if that is less; INFINITY: it is not */
  double since;    /* when somebody was last seen to try */
  uint32_t doubts; /* times that it was taken to be whole again because nobody did */
  /* while it is looked at all paths */
  double of_others, of_paths, fastest; /* bit/s of others; of all paths; of the fastest, while it was busy */
  double busy;                         /* parts of the time of all paths together */
  double of_job;                       /* bit/s of one job's paths, while that is added up */
  double least, most;                  /* what it carries by slow paths; by fast ones. Or INFINITY, 0 */
  double once;                         /* by paths that were slow in one report at least; INFINITY: none */
  const struct by_seen_path *suspect;  /* one that was so in two; */
  bool suspects;                       /* another one too, between other hosts */
  uint32_t slow_paths;                 /* that are believed to be */
};

/* What one host, or rank without an agent, last said of its ranks of a job. */
struct by_manager_part {
  char *host;
  struct by_manager_peer *peer; /* NULL: it has gone */
  struct by_manager_part *next;
  uint32_t n_ranks;
  uint64_t iterations, sent, input, calls;
  double iteration_time;
  struct by_seen_path *paths;
};

enum by_helper_state { BY_HELPER_ASKED, BY_HELPER_JOINED, BY_HELPER_BARRED };
struct by_manager_helper {
  uint32_t host;
  enum by_helper_state state;
  double until; /* of ASKED and BARRED */
  uint64_t by;  /* the agent's connection on which it said that it has joined; 0: none of this manager's */
};

struct by_manager_plan {
  uint64_t number;
  struct by_plan *plan;
  struct by_embedding *embedding; /* NULL: not known any more */
  struct by_link_shares shares;
  double rate, made; /* bit/s that it was to carry */
  double carries;    /* beside higher classes, when it was made; 0: not known */
  double before;     /* what the one before would have; 0: nothing was known */
  char why[BY_MANAGER_WHY];
};

struct by_manager_event {
  uint64_t number;
  double time, before, after;
  char why[BY_MANAGER_WHY];
};

/* What one of a job's trees wishes for at a switch. */
struct by_manager_cells {
  uint32_t node; /* the switch's; BY_NOWHERE: not known */
  char *at, *server;
  uint32_t wished, given; /* slots */
  uint32_t bytes;         /* of memory that a slot takes */
  bool settled;           /* the job has said what it has there */
  double on_ways;         /* bytes on their way to its server and back at the job's rate; 0: not known */
  double need;            /* the same, or a guess */
};

/* What makes a job due, the most urgent first. */
enum by_job_due { BY_DUE_NEW, BY_DUE_HELPER, BY_DUE_LESS, BY_DUE_CHANGE, BY_DUE_TIME, BY_DUE_NONE };

struct by_manager_job {
  struct by_manager_job *next, *next_by_id, *next_by_root; /* job_index.c */
  char id[BY_CLUSTER_JOB_ID + 1];                          /* "": another one has it by now */
  char *name, *root, *key;                                 /* key: NULL where helpers may not join */
  uint32_t n_ranks, n_hosts;
  char **hosts;                             /* different ones, by their first rank */
  uint32_t *nodes;                          /* in the topology; BY_NOWHERE: not there */
  uint32_t *of_rank;                        /* which of these each rank is on */
  uint32_t *by_name;                        /* these in the order of their names */
  bool placed;                              /* all are there */
  bool *heard;                              /* of which hosts a report of it has come */
  uint32_t n_confirmed;                     /* hosts from the first on that are known to be its own: manager_due.c */
  struct by_manager_peer *peer;             /* who speaks for rank 0, */
  char owner[BY_MANAGER_OWNER];             /* with which certificate; "": not known since the manager began */
  struct by_manager_part *parts, **part_of; /* part_of: of each of the hosts; NULL: it has said nothing */
  uint64_t parts_sent;                      /* bytes that these have sent */
  double began;                             /* says rank 0; 0: it does not */
  double since, seen;                       /* seen: when somebody last spoke for it */
  bool left;
  double gone_at;

  uint64_t iterations, sent, input;
  struct by_job_length length; /* iterations in all, by its own word */
  double iteration_time;
  double input_rate; /* bit/s; smoothed */
  double rated;      /* when `input` was last looked at */
  uint64_t rated_input;
  struct by_priority_place place;
  uint32_t class_;
  uint32_t told;          /* the class that its hosts were told last */
  uint32_t above, behind; /* in the order, of those that it meets */
  double ordered;         /* when one of these last changed */

  char *own_plan;   /* the plan that its user set, which stays in use; NULL: none */
  uint64_t numbers; /* the last one that a plan got */
  struct by_manager_plan *plan, *proposed;
  struct by_manager_plan *retired; /* what the job had when its planning began, and has no more */
  bool asked;                      /* the proposed one was sent */
  bool late;                       /* and not answered in time: it may still come */
  double deadline;                 /* of the answer, or of the helpers */
  bool planning;
  double planned;      /* when it last was; 0: never */
  uint64_t planned_at; /* iterations then */
  double rate_then;    /* what its plan carried then; 0: not known */
  double not_before;   /* after a refusal, */
  uint32_t refusals;   /* of which there were so many in a row */
  uint32_t unknown;    /* times that it has said to run a plan that is not known */
  uint32_t gains;      /* plannings in a row that have found better trees, beside others */
  enum by_job_due due;
  char reason[BY_MANAGER_WHY];  /* of being due */
  double worse;                 /* rate_then over what its plan carries now */
  char trouble[BY_MANAGER_WHY]; /* why there is no plan, or no better one; "" */
  struct by_link_shares ring;   /* what it is taken to put on links without a plan */

  uint32_t n_helpers, n_cells;
  struct by_manager_helper *helpers;
  struct by_manager_cells *cells; /* none, once it has left */
  uint32_t n_history;
  struct by_manager_event history[BY_MANAGER_HISTORY]; /* the last ones, the oldest first */
};

struct by_manager {
  struct by_manager_options options;
  const struct by_topology *topology;
  double now, began;
  bool restoring; /* what is told to be kept is kept already */
  bool *allowed;  /* to help, of each node */

  uint32_t n_hosts;              /* nodes first, then strangers */
  struct by_manager_host *hosts; /* room for all */
  uint32_t *by_name;             /* nodes in the order of their names */

  struct by_manager_peer peers;
  uint64_t n_joined; /* that ever were */
  struct by_manager_job *jobs, *by_id[BY_MANAGER_BUCKETS], *by_root[BY_MANAGER_BUCKETS];

  /* The network, by step (plan_wish.h). */
  uint32_t n_steps;
  double *said;              /* of links, by their sending end's agent; INFINITY: it does not say */
  double *all;               /* what it carries: the topology's, or less, as hosts say or as it is seen */
  struct by_seen_link *seen; /* of the links' */
  struct by_link_ways ways;
  double *others[2];                      /* others' use: as the sending end says, as the receiving one does */
  double *ours[BY_PRIORITY_CLASSES];      /* of jobs, by class */
  uint32_t *jobs_on[BY_PRIORITY_CLASSES]; /* how many put something on a step */
  uint32_t *above, *behind;               /* while jobs are put in order */
  bool stale;                             /* ours is to be summed again, and classes */
  double changed;                         /* when a link last began to carry more or less */
  double looked;                          /* when it was last looked for who is due */
  struct by_manager_counters counters;
};

/* Inline, so that analysers see that it is never BANYAN_OK. */
static inline enum banyan_status by_manager_no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the cluster's hosts and jobs");
  return BANYAN_ERR_NO_MEMORY;
}

/* ---- manager_hosts.c */
BANYAN_CHECK enum banyan_status by_manager_hosts_init(struct by_manager *m);
void by_manager_hosts_fini(struct by_manager *m);
/* BY_NOWHERE: no such node. */
uint32_t by_manager_hosts_find(const struct by_manager *m, const char *name);
/* A stranger becomes one of the hosts. BANYAN_ERR_REFUSED: too many. */
BANYAN_CHECK enum banyan_status by_manager_hosts_find_or_add(struct by_manager *m, const char *name, uint32_t *out);
/* What an agent says of its machine. */
BANYAN_CHECK enum banyan_status by_manager_hosts_report(struct by_manager *m, uint32_t index,
                                                        const struct by_cluster_interface *said, uint32_t n);
/* The agent has gone: its use of links is not known any more. */
void by_manager_hosts_forget(struct by_manager *m, uint32_t index);
/* A job that an agent reports before its rank 0 has come. */
void by_manager_hosts_note_unknown(struct by_manager_host *host, const char *job);
bool by_manager_hosts_has_unknown(const struct by_manager_host *host, const char *job);
/* bit/s of a host's links by the topology; 0: not known. */
double by_manager_hosts_rate(const struct by_manager *m, uint32_t index);

/* ---- link_use.c */
/* Sums what jobs put on each step, if anything has changed, and finds their classes. */
void by_use_sum(struct by_manager *m);
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
/* What a job puts on the network: by its plan, or the ring that it is taken to have. */
const struct by_link_shares *by_use_shares(const struct by_manager_job *job);
/* Others' use of a step. */
double by_use_others(const struct by_manager *m, uint32_t step);
/* What the topology says a step carries. */
double by_use_given(const struct by_topology *topology, uint32_t step);

/* Sets what a link's direction carries to the least of what is said and seen; who it matters to is due. */
void by_links_set(struct by_manager *m, uint32_t step);

/* ---- manager_order.c */
/* Gives each job a class, by its queue and those that it meets; by_use_sum does it. */
void by_order_find(struct by_manager *m);

/* ---- link_seen.c */
void by_seen_report(struct by_manager *m, struct by_manager_part *part, const struct by_cluster_job *said);
void by_seen_free(struct by_manager_part *part);
/* Looks at what was reported, and lowers or raises links. */
void by_seen_tick(struct by_manager *m);

/* ---- job_index.c */
struct by_manager_job *by_jobs_find(const struct by_manager *m, const char *id);
/* Those whose rank 0 is on a host. */
struct by_manager_job *by_jobs_first_of(const struct by_manager *m, const char *host);
struct by_manager_job *by_jobs_next_of(const struct by_manager_job *job);
void by_jobs_index(struct by_manager *m, struct by_manager_job *job);
/* One that is there no more is passed over. */
void by_jobs_unindex(struct by_manager *m, struct by_manager_job *job);

/* ---- manager_jobs.c */
/* A job as rank 0 says it; hosts: of each rank. One of the same ID on other hosts leaves. */
BANYAN_CHECK enum banyan_status by_jobs_begin(struct by_manager *m, const struct by_cluster_message *message,
                                              struct by_manager_job **out);
void by_jobs_report(struct by_manager *m, struct by_manager_job *job, struct by_manager_peer *peer,
                    const struct by_cluster_job *said);
void by_jobs_leave(struct by_manager *m, struct by_manager_job *job, const char *why);
void by_jobs_forget_peer(struct by_manager *m, struct by_manager_peer *peer);
/* Rates, classes, and those that nobody speaks for any more. */
void by_jobs_tick(struct by_manager *m);
void by_jobs_free_all(struct by_manager *m);
void by_jobs_keep(struct by_manager *m, const struct by_manager_job *job);
void by_jobs_add_event(struct by_manager *m, struct by_manager_job *job, const struct by_manager_event *event,
                       bool keep);

/* ---- manager_due.c */
void by_due_mark(struct by_manager_job *job, enum by_job_due due, const char *format, ...) BY_PRINTF(3, 4);
/* All jobs that share a step with these shares. */
void by_due_mark_sharers(struct by_manager *m, const struct by_link_shares *shares, const char *why);
void by_due_mark_all(struct by_manager *m, const char *format, ...) BY_PRINTF(2, 3);
/* Looks for who is due. */
void by_due_look(struct by_manager *m);

/* ---- manager_plans.c */
void by_plans_free(struct by_manager_plan *plan);
/* Sends a proposal whose helpers are there, gives up one that takes too long. */
void by_plans_advance(struct by_manager *m, struct by_manager_job *job);
void by_plans_moved(struct by_manager *m, struct by_manager_job *job, uint64_t number);
void by_plans_kept(struct by_manager *m, struct by_manager_job *job, uint64_t number, const char *why);
/* by: the agent that says that it has joined; NULL: it has not, or has ended. */
void by_plans_helping(struct by_manager *m, struct by_manager_job *job, uint32_t host, const struct by_manager_peer *by,
                      const char *why);
/* An agent has said all that it knows: whom it has not named has ended. */
void by_plans_end_unsaid(struct by_manager *m, const struct by_manager_peer *agent);
/* Ends the helpers on hosts of which nothing has been heard for long. */
void by_plans_end_silent(struct by_manager *m, struct by_manager_job *job);
/* The job runs a plan of its user's, or does so no longer: what it has of the manager's is dropped, or planned anew. */
void by_plans_set_own(struct by_manager *m, struct by_manager_job *job, const char *own_plan);
/* The job leaves: all of its helpers may rest, its plans need not be kept. */
void by_plans_end(struct by_manager *m, struct by_manager_job *job);

/* ---- manager_cells.c */
/* Answers what rank 0 wishes for at switches, or takes down what it has there. */
BANYAN_CHECK enum banyan_status by_cells_wish(struct by_manager *m, struct by_manager_job *job,
                                              const struct by_cluster_message *said);
/* From a row that was kept. */
BANYAN_CHECK enum banyan_status by_cells_restore(struct by_manager *m, struct by_manager_job *job, const char *wish);
void by_cells_keep(struct by_manager *m, const struct by_manager_job *job);
/* The job leaves: what it has is free. */
void by_cells_end(struct by_manager *m, struct by_manager_job *job);
void by_cells_free(struct by_manager_job *job);
/* JSON: the cells of a job; the switches that add, with what jobs have there. */
void by_cells_print(const struct by_manager_job *job, struct by_text *text);
void by_cells_print_switches(const struct by_manager *m, struct by_text *text);

/* ---- manager.c */
void by_manager_send_to(struct by_manager *m, struct by_manager_peer *peer, const struct by_cluster_message *message);
void by_manager_keep_row(struct by_manager *m, const struct by_manager_row *row);
/* Seconds after which somebody who says nothing is taken for gone. */
double by_manager_patience(const struct by_manager *m);

#endif
