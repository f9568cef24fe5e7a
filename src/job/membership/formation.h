/* How a membership is formed: an ordered list of processes under a name, whose first one takes the others. No I/O.
 *
 * Its number is a hash of name and list, so two memberships never share one; who forms another list under the same name
 * is recognised by the hash of the name alone. */
#ifndef BY_JOB_MEMBERSHIP_FORMATION_H
#define BY_JOB_MEMBERSHIP_FORMATION_H

#include "handle.h"
#include "membership.h"

struct by_formation {
  uint64_t number, name; /* of the membership; the hash of its name alone. Neither is 0 */
  uint32_t rank, size;
  const struct by_handle *handles; /* of all, by rank; borrowed */
  int listener;                    /* of rank 0: where the others come. Borrowed */
  const char *root;                /* "address:port,..." of rank 0 */
  double deadline;                 /* seconds until all must have come */
};

/* The hash of a membership's name, not 0. */
BANYAN_CHECK enum banyan_status by_membership_hash(const char *name, uint64_t *out);
/* From the handles of all members in order of their ranks, of which this process has the identity `self`: fills all but
 * `listener` and `deadline`; `root` goes to the arena. BANYAN_ERR_ARGUMENT: the name is empty or too long, one handle
 * stands there twice, this process is not among them, or rank 0 offers no address that can be used from here. */
BANYAN_CHECK enum banyan_status by_formation_init(const char *name, const struct by_handle *handles, uint32_t n,
                                                  const struct by_handle *self, struct by_arena *arena,
                                                  struct by_formation *out);

#endif
