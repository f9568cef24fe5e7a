/* How a membership is formed: an ordered list of processes under a name, whose first one takes the others. No I/O.
 *
 * The membership's number depends on name and list, so two never share one; who forms another list under the same name
 * is recognised by the hash of the name alone. */
#ifndef BY_JOB_MEMBERSHIP_FORMATION_H
#define BY_JOB_MEMBERSHIP_FORMATION_H

#include "handle.h"
#include "membership.h"

struct by_formation {
  struct by_membership *membership;
  uint64_t name;                   /* the hash of its name alone */
  uint32_t rank;                   /* of this process */
  const struct by_handle *handles; /* of all, by rank; borrowed */
  int listener;                    /* of rank 0: where the others come. Borrowed */
  const char *root;                /* "address:port,..." of rank 0 */
  double deadline;                 /* seconds until all must have come */
};

/* From the job's key and the handles of all members in order of their ranks, of which `self` is this process: fills all
 * but `listener` and `deadline`; `root` goes to the arena. BANYAN_ERR_ARGUMENT: the name is empty or too long, one
 * process stands there twice, this one is not among them, or rank 0 offers no address that can be used from here.
 * by_formation_fini is to be called whatever the status. */
BANYAN_CHECK enum banyan_status by_formation_init(const struct by_key *key, const char *name,
                                                  const struct by_handle *handles, uint32_t n,
                                                  const struct by_handle *self, struct by_arena *arena,
                                                  struct by_formation *out);
void by_formation_fini(struct by_formation *formation);

#endif
