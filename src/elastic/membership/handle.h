/* Handles: the text by which processes that form a membership name and reach each other. It may be passed on through
 * any store, because it holds no secret; a tag under the job's key shows whether it is whole and of this job. No I/O.
 *
 *   "banyan2:" and, in base64url without padding, the fingerprint, the tag, the port of the member service and a
 * member's description (member.h) */
#ifndef BY_ELASTIC_MEMBERSHIP_HANDLE_H
#define BY_ELASTIC_MEMBERSHIP_HANDLE_H

#include "handshake.h"
#include "member.h"
#include "membership.h"

enum { BY_HANDLE_MOST = BY_MEMBER_HANDLE + 1 /* Maximum characters, with the NUL. */ };

struct by_handle {
  struct by_fingerprint fingerprint; /* Fingerprint of the process's key; a restarted process has another one. */
  uint32_t service_port;             /* Port of the member service, at the same addresses. */
  /* Describes the process; at its addresses it accepts others that form a membership of which it is the first member.
   */
  struct by_member member;
};

/* Prints a handle to `out`, which holds BY_HANDLE_MOST bytes. Returns BANYAN_ERR_ARGUMENT if its addresses do not fit.
 */
BANYAN_CHECK enum banyan_status by_handle_print(const struct by_key *key, const struct by_handle *handle, char *out);
/* Parses a handle; strings and addresses are allocated in the arena. Returns BANYAN_ERR_ARGUMENT if the text is no
 * handle, was damaged, or belongs to another job. */
BANYAN_CHECK enum banyan_status by_handle_parse(const struct by_key *key, const char *text, struct by_arena *arena,
                                                struct by_handle *out);

#endif
