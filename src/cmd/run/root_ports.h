/* The ports that rank 0's host keeps for its rank 0, and how other hosts find an address by which they reach them.
 *
 *   root      where the ranks of Banyan meet (BANYAN_ROOT); rank 0 listens there
 *   store     where PyTorch's store may listen (MASTER_PORT)
 *   answers   where this host itself listens: it sends rank 0's fingerprint to everybody, which other hosts know
 *
 * The first two are held by sockets that do not listen, so that only processes which ask for their numbers get them.
 * One thread. */
#ifndef BY_CMD_RUN_ROOT_PORTS_H
#define BY_CMD_RUN_ROOT_PORTS_H

#include "address.h"
#include "process_identity.h"

enum { BY_ROOT_PORTS = 3 };

struct by_root_ports {
  int root, store, answers; /* 0: none. */
  int fds[BY_ROOT_PORTS];   /* In this order; -1: none. */
  char fingerprint[BY_FINGERPRINT_TEXT];
};

void by_root_ports_init(struct by_root_ports *ports);
void by_root_ports_close(struct by_root_ports *ports);
/* Takes the first `n` of the three from a range ("": any). With n = 1 the store has the port of the root: a single rank
 * does not meet others. */
BANYAN_CHECK enum banyan_status by_root_ports_open(struct by_root_ports *ports, const char *range, int n);
/* Call it when the descriptor `fds[2]` is readable. Sends the fingerprint to the next connection. */
void by_root_ports_answer(const struct by_root_ports *ports);

/* Finds an address of rank 0's host that can be reached from here: `answers` is "a:1,10.0.0.1:1#fingerprint". All are
 * tried, as a rank does. Blocks for at most 3 s. `out` gets the address without a port. BANYAN_ERR_CONNECT: none. */
BANYAN_CHECK enum banyan_status by_root_reach(const char *answers, char out[BY_ADDRESS_TEXT]);

#endif
