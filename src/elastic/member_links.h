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

/* Called by the loop only, never from within a function of this module. */
struct by_member_links_events {
  /* A frame other than a hello. The payload is gone when this returns. */
  void (*frame)(void *context, const struct by_fingerprint *from, uint16_t type, const void *payload, size_t length);
  /* There is a connection to this process. `silent`: no frame waited for it, so frames sent before may be lost, with a
   * connection that has ended or because the process was unknown. */
  void (*reached)(void *context, const struct by_fingerprint *to, bool silent);
  /* The last connection to this process has ended. */
  void (*lost)(void *context, const struct by_fingerprint *to);
  /* No address of this process accepts a connection, or another process answers there. Waiting frames are discarded. */
  void (*unreachable)(void *context, const struct by_fingerprint *to, const char *text);
  /* Whether to remember this process although it is known only because it has connected. */
  bool (*keeps)(void *context, const struct by_fingerprint *process);
  void *context;
};

struct by_member_links_options {
  struct by_loop *loop;
  struct by_key_ring *keys;     /* A reference is held. */
  const struct by_handle *self; /* Borrowed, as is its text `handle`. */
  const char *handle;
  enum by_encryption encryption;
  struct by_process_identity *identity; /* Borrowed. */
  struct by_own_statement *statement;   /* A reference is held; NULL if this process does not encrypt. */
  int listener;                         /* Owned by the links, also after a failure. */
  double silence; /* Seconds without an answer after which a connection ends; by_socket_set_vigilant explains it. */
  struct by_member_links_events events;
};

BANYAN_CHECK enum banyan_status by_member_links_create(const struct by_member_links_options *options,
                                                       struct by_member_links **out);
/* NULL is allowed. */
void by_member_links_destroy(struct by_member_links *links);

/* Learns how a process can be reached. Fails as by_handle_parse does. `fingerprint` may be NULL. */
BANYAN_CHECK enum banyan_status by_member_links_learn(struct by_member_links *links, const char *handle,
                                                      struct by_fingerprint *fingerprint);
/* Returns the text of a process's handle, borrowed until the process is forgotten; NULL if it is unknown. */
const char *by_member_links_handle(const struct by_member_links *links, const struct by_fingerprint *fingerprint);
/* Returns a process's parsed handle, borrowed until the process is forgotten; NULL if it is unknown. */
const struct by_handle *by_member_links_find(const struct by_member_links *links,
                                             const struct by_fingerprint *fingerprint);
/* Forgets processes that are not to be kept, unless there is a connection. */
void by_member_links_prune(struct by_member_links *links);
/* Sends a frame, if necessary after connecting. Frames to processes whose handle is unknown are dropped. */
void by_member_links_send(struct by_member_links *links, const struct by_fingerprint *to, uint16_t type,
                          const void *payload, size_t length);
/* State of the connection to a process: none, being made, or open. */
enum by_member_link { BY_LINK_NONE, BY_LINK_BEGUN, BY_LINK_OPEN };
enum by_member_link by_member_links_state(const struct by_member_links *links, const struct by_fingerprint *to);
/* Connects to a process to find out whether it can be reached, unless there is a connection; `reached` or `unreachable`
 * follows. */
void by_member_links_probe(struct by_member_links *links, const struct by_fingerprint *to);
/* Closes connections to processes whose hosts are no longer trusted, after the authority's files may have changed. */
void by_member_links_judge(struct by_member_links *links);
/* Closes the connections to a process, and discards what waits for them. */
void by_member_links_close(struct by_member_links *links, const struct by_fingerprint *to);

#endif
