/* Connections between processes of groups that change, by fingerprint. They are made when something is sent, and closed
 * by their maker when nothing was sent for a while. Both ends prove the job's key. What is sent may be lost, come twice
 * or in another order. Of processes that connect by themselves, and of the connections of one, a bounded number is
 * accepted. Both show what their hosts' agents state about them, which is judged again as long as a connection lasts.
 * Everything on the loop's thread. */
#ifndef BY_ELASTIC_MEMBER_LINKS_H
#define BY_ELASTIC_MEMBER_LINKS_H

#include "host_trust.h"
#include "loop.h"
#include "member_message.h"

struct by_member_links;

/* From the loop only, never from within a call. */
struct by_member_links_events {
  /* A frame other than a hello. The payload is gone when this returns. */
  void (*frame)(void *context, const struct by_fingerprint *from, uint16_t type, const void *payload, size_t length);
  /* There is a connection to this process. `silent`: nothing waited for it, so what was sent before may be lost: with
   * a connection that has ended, or since the process was unknown then. */
  void (*reached)(void *context, const struct by_fingerprint *to, bool silent);
  /* Its last connection has ended. */
  void (*lost)(void *context, const struct by_fingerprint *to);
  /* None of its addresses can be connected to, or another process answers there. What was to be sent is forgotten. */
  void (*unreachable)(void *context, const struct by_fingerprint *to, const char *text);
  /* Whether this process is to stay known, though it has only connected by itself. */
  bool (*keeps)(void *context, const struct by_fingerprint *process);
  void *context;
};

struct by_member_links_options {
  struct by_loop *loop;
  struct by_key_ring *keys;     /* held */
  const struct by_handle *self; /* borrowed, as its text */
  const char *handle;
  enum by_encryption encryption;
  struct by_process_identity *identity; /* borrowed */
  struct by_own_statement *statement;   /* held; NULL: it does not encrypt */
  int listener;                         /* taken over, also on failure */
  double silence;                       /* see by_socket_set_vigilant */
  struct by_member_links_events events;
};

BANYAN_CHECK enum banyan_status by_member_links_create(const struct by_member_links_options *options,
                                                       struct by_member_links **out);
/* NULL is allowed. */
void by_member_links_destroy(struct by_member_links *links);

/* From now on this process can be reached. Errors of by_handle_parse. `fingerprint` may be NULL. */
BANYAN_CHECK enum banyan_status by_member_links_learn(struct by_member_links *links, const char *handle,
                                                      struct by_fingerprint *fingerprint);
/* Its handle's text; NULL: unknown. Borrowed until it is forgotten. */
const char *by_member_links_handle(const struct by_member_links *links, const struct by_fingerprint *fingerprint);
/* The same, parsed. */
const struct by_handle *by_member_links_find(const struct by_member_links *links,
                                             const struct by_fingerprint *fingerprint);
/* Forgets processes that are not to be kept, unless there is a connection. */
void by_member_links_prune(struct by_member_links *links);
/* Sends a frame, perhaps once there is a connection; to processes whose handle is unknown, nothing. */
void by_member_links_send(struct by_member_links *links, const struct by_fingerprint *to, uint16_t type,
                          const void *payload, size_t length);
/* Whether there is a connection to it, or one is being made. */
enum by_member_link { BY_LINK_NONE, BY_LINK_BEGUN, BY_LINK_OPEN };
enum by_member_link by_member_links_state(const struct by_member_links *links, const struct by_fingerprint *to);
/* Finds out whether it can be reached, unless there is a connection already: `reached` or `unreachable` follows. */
void by_member_links_probe(struct by_member_links *links, const struct by_fingerprint *to);
/* Ends the connections of processes whose hosts are not believed now: the files of the authority may have changed. */
void by_member_links_judge(struct by_member_links *links);
/* Closes the connections to it. */
void by_member_links_close(struct by_member_links *links, const struct by_fingerprint *to);

#endif
