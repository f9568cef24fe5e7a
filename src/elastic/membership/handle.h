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

enum { BY_HANDLE_MOST = BY_MEMBER_HANDLE + 1 /* characters, with the NUL */ };

struct by_handle {
  struct by_fingerprint fingerprint; /* of its key: one that is started again has another */
  uint32_t service_port;   /* at the same addresses: where members agree on the next membership, see member_service.h */
  struct by_member member; /* its addresses: where it takes those who form a membership with it as the first */
};

/* `out` holds BY_HANDLE_MOST bytes. BANYAN_ERR_ARGUMENT: it has more addresses than fit. */
BANYAN_CHECK enum banyan_status by_handle_print(const struct by_key *key, const struct by_handle *handle, char *out);
/* Strings and addresses go to the arena. BANYAN_ERR_ARGUMENT: it is no handle, or was damaged, or is of another job. */
BANYAN_CHECK enum banyan_status by_handle_parse(const struct by_key *key, const char *text, struct by_arena *arena,
                                                struct by_handle *out);

#endif
