/* The identity of a process in a cluster, and the peers that it accepts: a certificate with its key, the cluster's
 * own authority, and its lists of revoked certificates, from the files that `banyan keys` makes. A certificate's
 * subject has role (OU) and name (CN). Loading reads files; nothing changes afterwards, so threads may share an
 * identity. Connections made with it keep what they need of it. */
#ifndef BY_SECURITY_TLS_IDENTITY_H
#define BY_SECURITY_TLS_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop.h"

/* The default folder of keys. */
#define BY_TLS_FOLDER "/etc/banyan/keys"
#define BY_TLS_AUTHORITY "ca.crt"
#define BY_TLS_REVOKED "ca.crl"

/* Bits, so that several may be allowed at once. */
enum by_tls_role {
  BY_TLS_NOBODY = 0, /* An identity that only judges others: it has no certificate, and makes no connections. */
  BY_TLS_MANAGER = 1,
  BY_TLS_AGENT = 2,
  BY_TLS_JOB = 4,
  BY_TLS_CLIENT = 8
};

enum {
  BY_TLS_NAME = 65, /* A name and its NUL. */
  BY_TLS_SOON = 30  /* Days before its end at which warnings about a certificate begin. */
};

struct by_tls_subject {
  enum by_tls_role role;
  char name[BY_TLS_NAME]; /* Printable. */
  int64_t expires;        /* Seconds since 1970. */
};

struct x509_st;
struct ssl_ctx_st;
struct x509_store_ctx_st;
struct stack_st_X509;

/* Only tls_identity.c changes it. */
struct by_tls_identity {
  struct ssl_ctx_st *context; /* The context of connections. */
  struct by_tls_subject subject;
  int64_t expires; /* When its own certificate or the authority's ends, whichever is first; s since 1970. */
  int revoked;     /* The number of revoked certificates; -1: there is no list. */
};

/* The role's name, such as "agent"; NULL: no role. */
const char *by_tls_role_name(enum by_tls_role role);
/* The role of a name; 0: none. */
unsigned by_tls_role_parse(const char *text);
/* The folder of keys: $BANYAN_KEYS, or BY_TLS_FOLDER. Borrowed. */
const char *by_tls_folder(void);

/* Reads FOLDER/ca.crt, FOLDER/ca.crl if there is one, and FOLDER/ROLE-NAME.pem. `folder` NULL: by_tls_folder().
 * `name` NULL: the only certificate of that role there. BANYAN_ERR_SYSTEM: a file cannot be read. BANYAN_ERR_AUTH:
 * other users can read it, or it is no certificate with its key from that authority for this role and name. With
 * BY_TLS_NOBODY only the first two files are read. The caller destroys *out. */
enum banyan_status by_tls_identity_load(const char *folder, enum by_tls_role role, const char *name,
                                        struct by_tls_identity **out) BANYAN_CHECK;
/* Makes an identity of texts in PEM: one or more certificates of authorities; lists of revoked certificates, or NULL;
 * a certificate and its key, or NULL as with BY_TLS_NOBODY. */
enum banyan_status by_tls_identity_make(const char *authority, const char *revoked, const char *own,
                                        struct by_tls_identity **out) BANYAN_CHECK;
/* Reads a file of keys as a text; for one with a private key file.h states who may own and read it. The caller
 * frees it. */
enum banyan_status by_tls_file_read(const char *path, bool private_key, char **text) BANYAN_CHECK;
/* Destroys an identity; NULL is allowed. */
void by_tls_identity_destroy(struct by_tls_identity *identity);

/* Logs a warning if it has expired, or will within BY_TLS_SOON days after `now`. */
void by_tls_identity_warn(const struct by_tls_identity *identity, int64_t now);
/* An accepted authority, by its key, and the number of its newest list. */
enum {
  BY_TLS_AUTHORITY_KEY = 65, /* SHA-256 in hexadecimal and its NUL. */
  BY_TLS_LISTS = 16
};
struct by_tls_list {
  char authority[BY_TLS_AUTHORITY_KEY];
  int64_t number; /* Increases with each list of an authority; -1: there is no list. */
};
/* Writes one entry for each certificate in ca.crt to `out`, at most `max`, and returns their number. Cost: each
 * list's signature is checked. */
uint32_t by_tls_identity_lists(const struct by_tls_identity *identity, struct by_tls_list *out, uint32_t max);
/* BANYAN_ERR_AUTH: the identity accepts the authority of `known` without that list or a later one, and so peers that
 * this list revokes. */
enum banyan_status by_tls_identity_check_list(const struct by_tls_identity *identity,
                                              const struct by_tls_list *known) BANYAN_CHECK;

/* Reads the subject of a certificate. BANYAN_ERR_AUTH: no role, or no name. */
enum banyan_status by_tls_subject_read(const struct x509_st *certificate, struct by_tls_subject *out) BANYAN_CHECK;
/* In a callback that judges a chain: whether to ignore an error. A list that is old is still true, and an authority
 * without a list has revoked nothing. */
bool by_tls_revoked_excuses(struct x509_store_ctx_st *chain);

/* --- following files --- */

/* An identity that follows its files: it checks them repeatedly, and takes a change that has stayed for one check, so
 * that nothing is read that is half copied. Files that cannot be used are logged once, and the identity stays. It
 * warns each day of a certificate that ends soon. On the loop's thread. */
#define BY_TLS_LOOK (5 * BY_SECOND)

struct by_tls_watch;

struct by_tls_watch_options {
  struct by_loop *loop;
  const char *folder, *name; /* As for by_tls_identity_load; a name that is NULL is searched once. Borrowed. */
  enum by_tls_role role;
  /* There is another identity; the previous one is freed when this returns. May be NULL. */
  void (*changed)(void *context);
  /* Called after each check, every BY_TLS_LOOK: certificates may have expired meanwhile. May be NULL. */
  void (*looked)(void *context);
  void *context;
};

/* Creates a watch, which the caller owns. Errors of by_tls_identity_load. */
BANYAN_CHECK enum banyan_status by_tls_watch_create(const struct by_tls_watch_options *options,
                                                    struct by_tls_watch **out);
/* Destroys a watch; NULL is allowed. */
void by_tls_watch_destroy(struct by_tls_watch *watch);
/* The current identity; borrowed until the next `changed` returns. */
const struct by_tls_identity *by_tls_watch_get(const struct by_tls_watch *watch);
/* Reads the files now if they have changed, for a caller that is about to need them. */
void by_tls_watch_look(struct by_tls_watch *watch);
/* Reads the files now, and calls `changed` if that succeeds. */
void by_tls_watch_read(struct by_tls_watch *watch);

/* Judges whether a certificate of the cluster is accepted now, and explains to people why not. Any thread. */

struct stack_st_X509;

/* Judges for an end with this identity, which may have no certificate of its own. `others`: other certificates that
 * the peer has shown; may be NULL. `now`: s since 1970; 0: now. `until`: when the first certificate of its chain
 * ends, if it is accepted; may be NULL. BANYAN_ERR_AUTH: it has expired or was revoked, or its authority is not
 * accepted. BANYAN_ERR_NO_MEMORY. */
enum banyan_status by_tls_judge(const struct by_tls_identity *identity, struct x509_st *certificate,
                                struct stack_st_X509 *others, int64_t now, int64_t *until) BANYAN_CHECK;
/* Explains what is wrong with a peer's certificate, or with that of its authority: `why` is an X509_V_ERR_*. */
void by_tls_explain(const struct x509_st *certificate, int why, bool authority, char *out, size_t capacity);

#endif
