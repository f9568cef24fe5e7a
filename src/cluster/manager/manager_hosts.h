/* The hosts of the topology and others that have connected, with the interfaces that their agents report; and the
 * connections of agents, and of ranks without one. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_HOSTS_H
#define BY_CLUSTER_MANAGER_MANAGER_HOSTS_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "manager_job.h"

enum {
  BY_MANAGER_UNAUTHENTICATED = 1024, /* Maximum of hosts that are not in the topology. */
  BY_MANAGER_DISCOVERED = 16384,     /* Maximum of hosts that a discovered topology does not contain yet. */
  BY_MANAGER_UNKNOWN = 64,           /* Unknown jobs that are remembered for each host. */
};

/* State of a connection.
 *
 *   state      next states   meaning
 *   NEW        WELCOME       waits for hello
 *   WELCOME    REPORTED      waits for the first report
 *   REPORTED   -             has reported everything that it knows */
enum by_peer_state { BY_PEER_NEW, BY_PEER_WELCOME, BY_PEER_REPORTED };

/* A connection; manager_peers.c. */
struct by_manager_peer {
  TAILQ_ENTRY(by_manager_peer) entry;
  uint64_t number; /* Consecutive number, from 1 on. */
  void *connection;
  enum by_manager_role role;
  char *name; /* Name in the certificate; NULL: none. */
  enum by_peer_state state;
  char *host;
  uint32_t index;                  /* Index of the host; BY_NOWHERE: a rank without an agent. */
  char job[BY_CLUSTER_JOB_ID + 1]; /* Job of a rank without an agent; "": an agent. */
  double born, last_message;       /* `born`: when the agent began, as it states. */
};

void by_manager_peers_fini(struct by_manager *m);

/* ---- hosts: manager_hosts.c */

struct by_manager_interface {
  char *name;
  struct by_cluster_interface message; /* The last report, without its texts. */
  double mean[2], mean_ours[2];        /* Smoothed bit/s sent and received; < 0: nothing was reported yet. */
  uint32_t link;                       /* Link of the topology; BY_NOWHERE: unknown. */
};

/* The memory of a switch that aggregates, as its agent describes it. */
struct by_manager_aggregates {
  uint32_t cells, bytes; /* Bytes of each cell. */
  char *address, *key;   /* The key is NULL without one. */
  bool float32;
};

/* A node of the topology, or a host that is not in it. */
struct by_manager_host {
  const char *name; /* Owned by hosts that are not in the topology. */
  uint32_t node;    /* BY_NOWHERE: not in the topology. */
  struct by_manager_peer *agent;
  double parted;        /* When the last agent disconnected. */
  double offered_until; /* End of its reservation for a job to which it was offered; manager_meetings.c. */
  bool may_help;        /* The agent offers it, and the manager allows it. */
  bool may_serve;
  struct by_manager_aggregates *aggregates; /* As the last agent has described it; NULL: it does not aggregate. */
  uint32_t n_interfaces;
  struct by_manager_interface *interfaces;
  uint32_t n_unknown; /* Jobs that its agent has last reported and whose rank 0 is not connected yet. */
  char (*unknown)[BY_CLUSTER_JOB_ID + 1];
  UT_hash_handle hh;
};

struct by_manager_hosts {
  uint32_t n;                  /* Nodes of the topology first, then other hosts. */
  struct by_manager_host *all; /* Allocated for the maximum. */
  struct by_manager_host *by_name;
  bool *allowed, *may_serve; /* For each node: whether the options allow it to help or to serve. */
  double switches_changed;   /* When a switch that aggregates last came or went. */
  double switches_unsettled; /* When such changes began, after half a second without any. */
};

BANYAN_CHECK enum banyan_status by_manager_hosts_init(struct by_manager *m);
void by_manager_hosts_fini(struct by_manager *m);
/* Returns BY_NOWHERE if there is no such node. */
uint32_t by_manager_hosts_find(const struct by_manager *m, const char *name);
/* Finds a host, or adds it as one that is not in the topology. BANYAN_ERR_UNSUPPORTED: too many. */
BANYAN_CHECK enum banyan_status by_manager_hosts_find_or_add(struct by_manager *m, const char *name, uint32_t *out);
/* Sets the agent of a host, with what its hello offers. */
BANYAN_CHECK enum banyan_status by_manager_hosts_set_agent(struct by_manager *m, uint32_t index,
                                                           struct by_manager_peer *agent,
                                                           const struct by_cluster_message *hello);
/* Records the interfaces that an agent reports; forgets its unknown jobs. */
BANYAN_CHECK enum banyan_status by_manager_hosts_report(struct by_manager *m, uint32_t index,
                                                        const struct by_cluster_interface *message, uint32_t n);
/* The agent has gone, so its use of links is unknown. */
void by_manager_hosts_forget(struct by_manager *m, uint32_t index);
/* Tells whether a job which may use all switches should wait since they are coming or going: the last one did less than
 * half a second ago, and both that and the job's last planning are less than 3 s old. */
bool by_manager_hosts_settle(const struct by_manager *m, double planned);
/* Remembers a job that an agent reports before its rank 0 is connected. */
void by_manager_hosts_note_unknown(struct by_manager *m, uint32_t index, const char *job);
bool by_manager_hosts_has_unknown(const struct by_manager *m, uint32_t index, const char *job);
/* Returns the bit/s of a host's links by the topology; 0: unknown. */
double by_manager_hosts_rate(const struct by_manager *m, uint32_t index);

/* ---- manager_meetings.c
 *
 * Where processes of a job with changing membership find each other, if nothing else introduces them: the first ones
 * form the first membership, later ones get the handles of members. It has no influence on decisions of members, and
 * stores nothing: agents repeat which processes there are.
 *
 *   WAITING --list of the founders--> FORMING --reports--> MEMBER
 *      |  +----members to ask-------> JOINING --reports------^
 *      +<-- asks again after a failure -- FORMING, JOINING */

/* Handles a process that is new, asks again, or reports that it is a member. BANYAN_ERR_PROTOCOL;
 * BANYAN_ERR_UNSUPPORTED: too many. */
BANYAN_CHECK enum banyan_status by_meetings_take(struct by_manager *m, struct by_manager_peer *peer,
                                                 const struct by_cluster_message *meet);
/* Removes a process that has ended. */
void by_meetings_part(struct by_manager *m, const struct by_manager_peer *peer,
                      const struct by_cluster_message *parted);
/* Records that an agent has disconnected. Its processes are removed after a minute unless they are repeated. */
void by_meetings_forget_peer(struct by_manager *m, const struct by_manager_peer *peer);
void by_meetings_tick(struct by_manager *m);
void by_meetings_free_all(struct by_manager *m);

/* ---- offers: manager_meetings.c
 *
 * Hosts for jobs that can use more: those with an agent and without a job are offered to one job at a time. */

/* Answers a launcher's request, which its host's agent forwards, with at most as many hosts as it wants. A host that
 * was offered is offered again 30 intervals later if no job runs there by then. */
BANYAN_CHECK enum banyan_status by_manager_offer(struct by_manager *m, struct by_manager_peer *peer,
                                                 const struct by_cluster_message *wanted);

#endif
