/* Statements of agents on control connections: rank 0 checks those of all other processes, and they check rank 0's, in
 * hellos and in STATEMENT; all judge again and again what they have believed. Rank 0 speaks for the whole job, so links
 * need none: whoever is not believed any more is gone for all. On the loop's thread. */
#ifndef BY_JOB_CONTROL_CONTROL_TRUST_H
#define BY_JOB_CONTROL_CONTROL_TRUST_H

#include "control_deaths.h"
#include "host_trust.h"

struct by_control_trust {
  struct by_control_peers *peers;
  struct by_deaths *deaths;
  struct by_host_trust *hosts; /* NULL: this process does not encrypt. */
  const bool *met;             /* All have joined. */
};

/* `met` is borrowed. BANYAN_ERR_AUTH: statements are required, and cannot be checked. */
BANYAN_CHECK enum banyan_status by_control_trust_init(struct by_control_trust *trust, struct by_deaths *deaths,
                                                      const bool *met);
void by_control_trust_fini(struct by_control_trust *trust);

/* Checks the peer of an opened connection by its hello; `is_helper`: it has come with a ticket. BANYAN_ERR_AUTH,
 * _PROTOCOL: it is to be refused. */
BANYAN_CHECK enum banyan_status by_control_trust_check(struct by_control_trust *trust, struct by_control_peer *peer,
                                                       const struct by_join *hello, bool is_helper);
/* Handles STATEMENT. */
void by_control_trust_handle(void *argument, const struct by_received *message);

#endif
