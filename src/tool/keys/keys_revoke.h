/* What `banyan keys` does with certificates that are to hold no more. */
#ifndef BY_CLI_KEYS_REVOKE_H
#define BY_CLI_KEYS_REVOKE_H

#include "key_maker.h"

/* Adds to the folder's BY_TLS_REVOKED every certificate that was made there for `name` in one of `roles` (bits), or
 * with a '/' in `name` the one in that file, and removes ROLE-NAME.pem. Says what it did. BANYAN_ERR_ARGUMENT: there
 * is none. `now` is in s since 1970. */
enum banyan_status by_keys_revoke(const char *folder, unsigned roles, const char *name, int64_t now) BANYAN_CHECK;
/* Signs the list again, if there is one, as it ends with the authority's certificate. */
enum banyan_status by_keys_revoke_again(const char *folder, const struct by_key_authority *authority,
                                        int64_t now) BANYAN_CHECK;
/* Forgets certificates that have expired. */
enum banyan_status by_keys_forget_expired(const char *folder, int64_t now) BANYAN_CHECK;

#endif
