/* Makes a cluster's authority and the certificates it signs: EC P-256 keys,
 * texts in PEM. No files and no clock: the time is handed in, s since 1970.
 * Texts with a private key are wiped by by_key_maker_wipe.
 * It also makes lists of the certificates that an authority has revoked, signed
 * by it (CRL). */
#ifndef BY_CLI_KEY_MAKER_H
#define BY_CLI_KEY_MAKER_H

#include <stdbool.h>

#include "text.h"
#include "tls_identity.h"

/* What an authority is: its certificate, and the key that signs. */
struct by_key_authority {
  struct by_text certificate, key;
};

struct by_key_wish {
  enum by_tls_role role;
  const char *name;             /* of the host, or of a person */
  const char *const *addresses; /* names and addresses that the host is reached by, beside its name */
  int address_count;
  int64_t now;
  long days; /* it holds; never longer than its authority */
};

/* What a certificate says. */
struct by_key_facts {
  bool authority;        /* else `who` is filled */
  struct by_tls_who who; /* `expires` is always filled */
  int64_t begins;
  char serial[64];          /* hexadecimal */
  struct by_text addresses; /* "10.0.0.1 h1.example", without the name itself */
};

/* A new authority; of one that is there (`old` not NULL) a new certificate with the same key, so that what it has
 * signed stays valid. The caller wipes *out, also after a failure. */
enum banyan_status by_key_maker_authority(const struct by_key_authority *old, int64_t now, long days,
                                          struct by_key_authority *out) BANYAN_CHECK;
/* A certificate and its new key, in one text, which the caller wipes. BANYAN_ERR_ARGUMENT: a name or address that none
 * can have, or an authority that has expired or whose parts do not match. */
enum banyan_status by_key_maker_make(const struct by_key_authority *authority, const struct by_key_wish *wish,
                                     struct by_text *out) BANYAN_CHECK;
/* The first certificate of a text. BANYAN_ERR_PARSE: there is none, or none of a cluster. The caller finishes
 * out->addresses. */
enum banyan_status by_key_maker_read(const char *text, struct by_key_facts *out) BANYAN_CHECK;
/* The same certificate without its key, in PEM. The caller finishes *out, also after a failure. */
enum banyan_status by_key_maker_strip(const char *text, struct by_text *out) BANYAN_CHECK;
/* Letters, digits, '.', '-' and '_', beginning with a letter or digit: fit for a file's name. */
enum banyan_status by_key_maker_check_name(const char *name) BANYAN_CHECK;

void by_key_maker_wipe(struct by_text *text);
void by_key_authority_fini(struct by_key_authority *authority);

/* A new list in PEM: what the list `old` names (NULL: nothing), and `n` certificates more. It holds as long as the
 * authority's certificate. The caller finishes *out, also after a failure. BANYAN_ERR_PARSE: `old` is no list, or a
 * text no certificate. */
enum banyan_status by_key_revoker_make(const struct by_key_authority *authority, const char *old,
                                       const char *const *certificates, size_t n, int64_t now,
                                       struct by_text *out) BANYAN_CHECK;
/* How many certificates a list names, and when it was made. BANYAN_ERR_PARSE: it is none. */
enum banyan_status by_key_revoker_read(const char *text, size_t *count, int64_t *made) BANYAN_CHECK;

#endif
