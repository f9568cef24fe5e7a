/* Processes about which something is known for ever, as that they have ended. It is remembered for memberships in which
 * they appear later. Far more are kept than a membership has members; where the oldest one makes room, that is in the
 * log. A value. */
#ifndef BY_ELASTIC_FACTS_H
#define BY_ELASTIC_FACTS_H

#include "membership.h"

enum { BY_FACTS_MOST = 65536 };

struct by_fact;

/* All zeros: there are none. */
struct by_facts {
  struct by_fact *all; /* a hash table, the oldest first */
};

void by_facts_fini(struct by_facts *facts);
bool by_facts_has(const struct by_facts *facts, const struct by_fingerprint *process);
/* `what` they are, for the log. */
void by_facts_note(struct by_facts *facts, const struct by_fingerprint *process, const char *what);

#endif
