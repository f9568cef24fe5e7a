/* Lists of the certificates that an authority has revoked, signed by it (CRL).
 * No files and no clock. */
#ifndef BY_CLI_KEY_REVOKER_H
#define BY_CLI_KEY_REVOKER_H

#include "key_maker.h"

/* A new list in PEM: what the list `old` names (NULL: nothing), and `n` certificates more. It holds as long as the
 * authority's certificate. The caller finishes *out, also after a failure. BANYAN_ERR_PARSE: `old` is no list, or a
 * text no certificate. */
enum banyan_status by_key_revoker_make(const struct by_key_authority *authority, const char *old,
                                       const char *const *certificates, size_t n, int64_t now,
                                       struct by_text *out) BANYAN_CHECK;
/* How many certificates a list names, and when it was made. BANYAN_ERR_PARSE: it is none. */
enum banyan_status by_key_revoker_read(const char *text, size_t *count, int64_t *made) BANYAN_CHECK;

#endif
