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
  bool settled; /* The predecessor is settled, so all of its members count as founders. */
  struct by_rank_set kept;
  /* Members and excluded processes of the predecessor that are not in the successor and may be alive. */
  struct by_rank_set excluded;
  uint32_t n_added;
  struct by_fingerprint *added;
};

/* Makes an empty successor. May return BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_successor_init(struct by_successor *successor, const struct by_membership *before);
/* Accepts a zero-initialised successor. */
void by_successor_fini(struct by_successor *successor);
BANYAN_CHECK enum banyan_status by_successor_add(struct by_successor *successor,
                                                 const struct by_fingerprint *fingerprint);

/* Whether this member of the predecessor is in the successor. */
bool by_successor_has(const struct by_successor *successor, const struct by_membership *before, uint32_t rank);
/* Returns BANYAN_ERR_ARGUMENT if the successor has no name, no member, too many members, a member twice or one that was
 * excluded before; or if the rule is BY_QUORUM_SURVIVORS and it has no founder. */
BANYAN_CHECK enum banyan_status by_successor_check(const struct by_successor *successor,
                                                   const struct by_membership *before);
/* Makes the successor's membership. Fails as by_successor_check does. Cost: n log(n). */
BANYAN_CHECK enum banyan_status by_successor_apply(const struct by_successor *successor,
                                                   const struct by_membership *before, struct by_membership **out);

/* Encode and decode a successor. Reading checks it, and returns BANYAN_ERR_PROTOCOL; after success, `out` needs
 * by_successor_fini. */
void by_successor_write(struct by_writer *writer, const struct by_successor *successor);
BANYAN_CHECK enum banyan_status by_successor_read(const void *bytes, size_t length, const struct by_membership *before,
                                                  struct by_successor *out);

#endif
