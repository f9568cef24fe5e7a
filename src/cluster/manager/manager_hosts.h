/* The hosts of the topology and others that have connected, with what their agents report of their interfaces; and the
 * connections of agents, and of ranks without one. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_HOSTS_H
#define BY_CLUSTER_MANAGER_MANAGER_HOSTS_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "manager_job.h"

enum {
  BY_MANAGER_UNAUTHENTICATED = 1024, /* hosts that are not in the topology, */
  BY_MANAGER_DISCOVERED = 16384,     /* or not yet */
  BY_MANAGER_UNKNOWN = 64,           /* jobs of a host that are remembered before their rank 0 has come */
};

/* Where a connection is.
 *
 *   state      next states   meaning
 *   NEW        WELCOME       no hello has come
 *   WELCOME    REPORTED      it has
 *   REPORTED   -             it has reported all that it knows, too */
enum by_peer_state { BY_PEER_NEW, BY_PEER_WELCOME, BY_PEER_REPORTED };

/* A connection; manager_peers.c. */
struct by_manager_peer {
  TAILQ_ENTRY(by_manager_peer) entry;
  uint64_t number; /* of all that ever came, from 1 on */
  void *connection;
  enum by_manager_role role;
  char *name; /* the certificate's; NULL: none */
  enum by_peer_state state;
  char *host;
  uint32_t index;                  /* of the host; BY_NOWHERE: a rank without an agent */
  char job[BY_CLUSTER_JOB_ID + 1]; /* of such a rank; "": an agent */
  double born, last_message;       /* born: when the agent began, as it states */
};

void by_manager_peers_fini(struct by_manager *m);

/* ---- hosts: manager_hosts.c */

struct by_manager_interface {
  char *name;
  struct by_cluster_interface message; /* last, without its texts */
  double mean[2], mean_ours[2];        /* sent and received, of late; < 0: nothing was reported yet */
  uint32_t link;                       /* of the topology; BY_NOWHERE: not known */
};

/* A switch that adds, as its agent describes it. */
struct by_manager_adds {
  uint32_t cells, bytes; /* bytes of each */
  char *address, *key;   /* key: NULL without one */
  bool float32;
};

/* A node of the topology, or a machine that is not in it. */
struct by_manager_host {
  const char *name; /* of a machine that is not in the topology, its own */
  uint32_t node;    /* BY_NOWHERE: not in the topology */
  struct by_manager_peer *agent;
  double parted;        /* when the last one went */
  double offered_until; /* it was offered to a job, which has this long to use it; manager_offers.c */
  bool may_help;        /* the agent offers it, and the manager allows it */
  bool may_serve;
  struct by_manager_adds *adds; /* as the last agent has described it; NULL: it does not add */
  uint32_t n_interfaces;
  struct by_manager_interface *interfaces;
  uint32_t n_unknown; /* jobs that its agent has last reported and whose rank 0 has not come yet */
  char (*unknown)[BY_CLUSTER_JOB_ID + 1];
  UT_hash_handle hh;
};

struct by_manager_hosts {
  uint32_t n;                  /* nodes first, then other machines */
  struct by_manager_host *all; /* room for all */
  struct by_manager_host *by_name;
  bool *allowed, *may_serve; /* to help, and to serve, of each node */
  double adds_changed;       /* when a switch that adds last came or went, */
  double adds_unsettled;     /* and when that began, after half a second without it */
};

BANYAN_CHECK enum banyan_status by_manager_hosts_init(struct by_manager *m);
void by_manager_hosts_fini(struct by_manager *m);
/* BY_NOWHERE: no such node. */
uint32_t by_manager_hosts_find(const struct by_manager *m, const char *name);
/* A machine that is not in the topology becomes one of the hosts. BANYAN_ERR_UNSUPPORTED: too many. */
BANYAN_CHECK enum banyan_status by_manager_hosts_find_or_add(struct by_manager *m, const char *name, uint32_t *out);
/* The agent of a host has come, and says in its hello what it offers. */
BANYAN_CHECK enum banyan_status by_manager_hosts_set_agent(struct by_manager *m, uint32_t index,
                                                           struct by_manager_peer *agent,
                                                           const struct by_cluster_message *hello);
/* What an agent reports of its machine, before the jobs that are not known. */
BANYAN_CHECK enum banyan_status by_manager_hosts_report(struct by_manager *m, uint32_t index,
                                                        const struct by_cluster_interface *message, uint32_t n);
/* The agent has gone: its use of links is not known any more. */
void by_manager_hosts_forget(struct by_manager *m, uint32_t index);
/* Whether switches come and go just now, so that a job which may use all of them had better wait: the last one did less
 * than half a second ago, and it is not for 3 s that they do, nor that the job was planned. */
bool by_manager_hosts_settle(const struct by_manager *m, double planned);
/* Jobs that an agent reports before their rank 0 has come. */
void by_manager_hosts_note_unknown(struct by_manager *m, uint32_t index, const char *job);
bool by_manager_hosts_has_unknown(const struct by_manager *m, uint32_t index, const char *job);
/* bit/s of a host's links by the topology; 0: not known. */
double by_manager_hosts_rate(const struct by_manager *m, uint32_t index);

#endif
