/* An identity that follows its files: looks at them again and again, and takes
 * what has changed and then stayed as it is for one look, so that nothing is read
 * that is half copied. What cannot be used is said in the log, once, and what was
 * there before stays. Warns each day of a certificate that ends soon. On the
 * loop's thread. */
#ifndef BY_NET_TLS_WATCH_H
#define BY_NET_TLS_WATCH_H

#include "loop.h"
#include "tls_identity.h"

#define BY_TLS_LOOK (5 * BY_SECOND)

struct by_tls_watch;

struct by_tls_watch_options {
  struct by_loop *loop;
  const char *folder, *name; /* as for by_tls_identity_load; a name that is NULL is looked for once. Borrowed. */
  enum by_tls_role role;
  /* There is another identity from now on; the one before is gone when this returns. May be NULL. */
  void (*changed)(void *context);
  void *context;
};

/* Errors of by_tls_identity_load. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_tls_watch_create(const struct by_tls_watch_options *options,
                                                    struct by_tls_watch **out);
/* NULL is allowed. */
void by_tls_watch_destroy(struct by_tls_watch *watch);
/* The identity of now; borrowed until the next `changed` returns. */
const struct by_tls_identity *by_tls_watch_get(const struct by_tls_watch *watch);
/* Reads the files now if they have changed, for who is about to need them. */
void by_tls_watch_look(struct by_tls_watch *watch);
/* Reads the files now, changed or not, and calls `changed` if that goes well. */
void by_tls_watch_read(struct by_tls_watch *watch);

#endif
