/* Messages that have come and that nobody receives yet. As engine.h. */
#ifndef BY_EXECUTOR_PROBE_H
#define BY_EXECUTOR_PROBE_H

#include "engine.h"

/* Messages may come from any rank, until as many calls say that no more do: what comes is taken out of the lanes, and
 * all ranks get one, since of a pair it may be this rank that has to make it. */
void by_team_expect(const struct by_team *team);
void by_team_expect_no_more(const struct by_team *team);
/* Whether the next message with this tag from some rank has begun to come, and from which, the lowest one first. */
bool by_team_probe(const struct by_team *team, uint32_t tag, uint32_t *rank);

#endif
