/* Which members of a membership may decide its successor. A value, no I/O.
 *
 * By majority: more than half of the members, or exactly half with the first member among them. Any two such quorums
 * share a member: together they count at least n, so two without a common member would be two halves, and only one half
 * holds the first member. By proof: all members except those whose death is proven. Such a quorum holds every live
 * member, so any two of them share whichever of their proposers lived longer. A quorum by majority and one by proof
 * need not share a member; paxos.h says what else is needed then. */
#ifndef BY_ELASTIC_MEMBERSHIP_QUORUM_H
#define BY_ELASTIC_MEMBERSHIP_QUORUM_H

#include "rank_set.h"

enum by_quorum_rule {
  BY_QUORUM_MAJORITY,  /* By majority only. */
  BY_QUORUM_SURVIVORS, /* By majority or by proof. */
  BY_QUORUM_NONE,      /* Any member, so that all parts of a divided network continue as separate jobs. */
  BY_QUORUM_RULES
};

/* Whether members that voted are a quorum. Votes of members whose death was proven afterwards count. */
bool by_quorum_holds(enum by_quorum_rule rule, const struct by_rank_set *votes, const struct by_rank_set *dead);

/* Says, for people, which members lack for a quorum. `text` holds BY_QUORUM_TEXT bytes. Returns `text`. */
enum { BY_QUORUM_TEXT = 384 };
const char *by_quorum_explain(enum by_quorum_rule rule, const struct by_rank_set *votes, const struct by_rank_set *dead,
                              char *text);

/* "majority", "survivors" or "none". BANYAN_ERR_ARGUMENT lists them. */
BANYAN_CHECK enum banyan_status by_quorum_rule_parse(const char *text, enum by_quorum_rule *out);
const char *by_quorum_rule_name(enum by_quorum_rule rule);

#endif
