/* Inside the connector: shared by its files only. Everything on the loop's thread.
 *
 *   connector.c          life, listening, wishes for links
 *   connector_target.c   towards one process: its addresses one after the other, and how that ends
 *   connector_attempt.c  one address: connecting and the handshake
 *   connector_visitor.c  accepted connections, and the exchange of descriptors over local ones
 *   connector_lanes.c    sockets become a link's lanes */
#ifndef BY_COMMUNICATOR_CONNECTOR_PARTS_H
#define BY_COMMUNICATOR_CONNECTOR_PARTS_H

#include "admission.h"
#include "connector.h"
#include "greet.h"
#include "repeats.h"
#include "shm.h"

enum {
  PURPOSE_TCP = 'D',
  PURPOSE_LOCAL = 'L',
  HELLO = 10,
  /* For a link, from the wish to its first connection; and for the descriptors of a local one. */
  PATIENCE_S = 30,
  /* For one handshake, at both ends. */
  GREET_S = 5,
  AGAIN_MS = 250 /* until somebody who answered, and then closed the connection, is tried once more */
};

/* What goes on towards one process. */
struct target {
  struct by_connector *connector;
  uint32_t process, next_address, open; /* attempts under way */
  bool active, done, greeting;          /* one attempt at a time shakes hands: the other end takes what it finishes */
  bool wished;                          /* under the connector's lock */
  bool again;                           /* somebody was there, but slow: all addresses are worth another round */
  struct by_timer stagger, patience, verdict;
  struct attempt *attempts;
  struct by_address winner; /* where the first connection went */
  /* connections of the link that are there, -1 elsewhere; it begins when it has all `lanes` */
  int fds[BY_LANES];
  uint32_t lanes, have;
  enum banyan_status last_status; /* BANYAN_ERR_SYSTEM: this process is out of something, */
  struct by_timer lacking;        /* for long */
  char last_error[400];
};

/* One address that is being tried, or a local socket. */
struct attempt {
  struct attempt *next;
  struct target *target;
  struct by_address to;
  struct by_watch *watch;
  struct by_greet *greet;
  struct by_timer late; /* of the second and later connections: the first one's address is tried instead */
  int fd;
  uint64_t connected_at;
  uint32_t lane;           /* of the link; all attempts for lane 0 race */
  bool connected, greeted; /* connected: waits for its turn to shake hands */
};

struct by_connector {
  struct by_context *context;
  struct by_key key;
  int tcp_listener, local_listener; /* until the acceptors have them; -1: none */
  struct by_acceptor *tcp, *local;
  struct target **targets; /* by process; more of them under the lock, too */
  uint32_t n_targets;
  struct visitor *visitors; /* newest first */
  /* Connections whose peers have not authenticated, over TCP and local ones, and the log of those that never did. */
  struct by_admission tcp_admission, local_admission;
  struct by_repeats rejected;
  pthread_mutex_t lock; /* of the rest */
  uint32_t *wishes, n_wishes, taken;
  bool posted; /* a task that takes them is on its way */
};

/* Who connects to whom, and which connection of how many of the link. */
struct hello {
  uint32_t from, to;
  uint8_t lane, lanes;
};

/* connector_lanes.c. `out` holds HELLO bytes. */
void by_hello_write(const struct hello *hello, uint8_t *out);
enum banyan_status by_hello_read(const struct by_context *context, const uint8_t *bytes, size_t length,
                                 struct hello *out);
/* How many connections a link to this address has. */
uint8_t by_connector_lanes_to(const struct by_context *context, const struct by_address *peer);
/* One more connection of a link. True: that was the last one, and the link has begun. Takes the socket over. */
bool by_target_add_connection(struct target *target, const struct hello *hello, int fd);
void by_target_forget_connections(struct target *target);
/* A link over shared memory: takes segment and wake over, and the socket. */
void by_target_make_shm_link(struct target *target, struct by_shm_ends *ends);

/* connector_visitor.c */
/* A connection was accepted. */
void by_visitor_greet(struct by_connector *connector, int fd, bool local);
/* This side made a local connection, and hands were shaken. */
void by_visitor_exchange(struct target *target, int fd);
void by_visitors_free(struct by_connector *connector);

/* connector_attempt.c */
/* Connects for the link's first connection. */
void by_attempt_race(struct target *target, const struct by_address *to);
/* The second and later connections of a link: where the first one won if this address does not answer soon. */
void by_attempt_connect_lane(struct target *target, uint32_t lane, const struct by_address *to);
void by_attempt_local(struct target *target);
void by_attempts_free(struct target *target);

/* connector_target.c */
void by_target_init(struct target *target, struct by_connector *connector, uint32_t process);
/* A link is wanted. */
void by_target_begin(struct target *target);
/* The next address that can be used from here, if there is one. */
void by_target_try_next(struct target *target);
/* The usable address so many places after the one that won, round and round. */
struct by_address by_target_address_after(const struct target *target, uint32_t places);
/* How an attempt ended. */
void by_target_note(struct target *target, enum banyan_status status);
/* Nothing goes on towards it any more. */
void by_target_finish(struct target *target);
/* It cannot be reached; `why` if no attempt has said why. Unless it turns out to have died, the job fails with it. */
void by_target_fail(struct target *target, const char *why);
/* It was reached, but this could not be made a link; the thread's error text says why. The same, but at once unless
 * `status` says that the peer is gone. */
void by_target_broken(struct target *target, enum banyan_status status, const char *what);
void by_target_fini(struct target *target);

#endif
