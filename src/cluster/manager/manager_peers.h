/* The manager's connections: agents, and ranks without one. */
#ifndef BY_MANAGER_MANAGER_PEERS_H
#define BY_MANAGER_MANAGER_PEERS_H

#include "manager_core.h"

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

struct by_manager_peers {
  struct by_manager_peer ring; /* its head */
  uint64_t n_joined;           /* that ever were */
};

BANYAN_CHECK enum banyan_status by_manager_peers_init(struct by_manager *m);
void by_manager_peers_fini(struct by_manager *m);

#endif
