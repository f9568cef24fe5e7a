/* The successor of a membership, as a difference to it: which members stay, in their order, and who is added behind
 * them. An added process may be a member that does not stay in its place, so that a list in any order can be expressed.
 * Members know their membership, so that a message about 10,000 members of which one died has 2.5 KiB. A value. */
#ifndef BY_ELASTIC_MEMBERSHIP_SUCCESSOR_H
#define BY_ELASTIC_MEMBERSHIP_SUCCESSOR_H

#include "membership.h"

enum { BY_SECRET_BYTES = 32 };

struct by_successor {
  char name[BY_MEMBERSHIP_NAME + 1];
  uint8_t secret[BY_SECRET_BYTES];
  bool settled; /* the predecessor is: all of its members count as founders */
  struct by_rank_set kept;
  struct by_rank_set excluded; /* of the predecessor's members and excluded: not in the successor, may be alive */
  uint32_t n_added;
  struct by_fingerprint *added;
};

/* An empty one. BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_successor_init(struct by_successor *successor, const struct by_membership *before);
/* All zeros is allowed. */
void by_successor_fini(struct by_successor *successor);
BANYAN_CHECK enum banyan_status by_successor_add(struct by_successor *successor,
                                                 const struct by_fingerprint *fingerprint);

/* Whether this member of the predecessor is in the successor. */
bool by_successor_has(const struct by_successor *successor, const struct by_membership *before, uint32_t rank);
/* BANYAN_ERR_ARGUMENT: it has no name or no member, too many members, one twice or one that was excluded before; or its
 * rule is BY_QUORUM_SURVIVORS and no founder is in it. */
BANYAN_CHECK enum banyan_status by_successor_check(const struct by_successor *successor,
                                                   const struct by_membership *before);
/* Makes the membership. The same errors. Cost: n log(n). */
BANYAN_CHECK enum banyan_status by_successor_apply(const struct by_successor *successor,
                                                   const struct by_membership *before, struct by_membership **out);

/* Reading checks, and returns BANYAN_ERR_PROTOCOL; afterwards `out` needs by_successor_fini only if it succeeded. */
void by_successor_write(struct by_writer *writer, const struct by_successor *successor);
BANYAN_CHECK enum banyan_status by_successor_read(const void *bytes, size_t length, const struct by_membership *before,
                                                  struct by_successor *out);

#endif
