/* An agent's connection to the manager: looks its name up, connects, and carries
 * lines. One attempt at a time; when to try again is the owner's to say. On the
 * loop's thread. */
#ifndef BY_AGENT_MANAGER_LINK_H
#define BY_AGENT_MANAGER_LINK_H

#include <stdbool.h>
#include <stddef.h>

#include "fail.h"
#include "loop.h"

struct by_manager_link;

struct by_manager_link_options {
  struct by_loop *loop;
  const char *manager; /* HOST:PORT; borrowed, like the next */
  const char *keys;    /* folder with this agent's certificate; NULL: by_tls_folder() */
  const char *host;    /* whose it is */
  void (*came)(void *context);
  void (*heard)(void *context, const char *line, size_t length);
  /* It could not be made, or has ended. Not from within a call of the owner's. */
  void (*gone)(void *context, const char *why);
  void *context;
};

/* The certificate must be there. Files that have changed are read again, see tls_watch.h; the connection is then made
 * anew if it was made with another certificate, or the manager's is believed no more. */
BANYAN_CHECK enum banyan_status by_manager_link_create(const struct by_manager_link_options *options,
                                                       struct by_manager_link **out);
/* NULL is allowed. */
void by_manager_link_destroy(struct by_manager_link *link);
/* Reads the files now. */
void by_manager_link_renew(struct by_manager_link *link);
/* When the certificate it has now ends, s since 1970. */
int64_t by_manager_link_expires(const struct by_manager_link *link);
/* `came` or `gone` follows, or it fails at once. */
BANYAN_CHECK enum banyan_status by_manager_link_connect(struct by_manager_link *link);
/* Ends it; no call follows. */
void by_manager_link_disconnect(struct by_manager_link *link);
/* False: it is not there, or does not read. */
bool by_manager_link_say(struct by_manager_link *link, const char *line, size_t length);

#endif
