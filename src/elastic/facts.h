/* Processes about which something is known for ever, as that they have ended. It is remembered for memberships in which
 * they appear later. Far more are kept than a membership has members; where the oldest one makes room, that is in the
 * log. A value. */
#ifndef BY_ELASTIC_FACTS_H
#define BY_ELASTIC_FACTS_H

#include "membership.h"

enum { BY_FACTS_MOST = 65536 };

struct by_fact;

/* Zero-initialised, it is empty. */
struct by_facts {
  struct by_fact *all; /* Hash table in order of insertion. */
};

void by_facts_fini(struct by_facts *facts);
bool by_facts_has(const struct by_facts *facts, const struct by_fingerprint *process);
/* Adds a process. `what` describes such processes in the log. */
void by_facts_note(struct by_facts *facts, const struct by_fingerprint *process, const char *what);

#endif
