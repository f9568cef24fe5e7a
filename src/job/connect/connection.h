/* Inside the connector: shared by its files only. Everything on the loop's thread.
 *
 *   connector.c   life, listening, requests for links
 *   greet.c       the handshake
 *   outgoing.c    towards one process: its addresses one after the other, and how that ends
 *   incoming.c    accepted connections, and the exchange of descriptors over local ones
 *   link_lanes.c  sockets become a link's lanes
 *   kept_lanes.c  so do lanes of the membership before */
#ifndef BY_JOB_CONNECT_CONNECTION_H
#define BY_JOB_CONNECT_CONNECTION_H

#include <sys/queue.h>

#include "acceptor.h"
#include "connector.h"
#include "log.h"
#include "opening.h"
#include "settings.h"
#include "shm.h"

enum {
  PURPOSE_TCP = 'D',
  PURPOSE_LOCAL = 'L',
  HELLO = 18,
  /* For a link, from the request to its first connection; and for the descriptors of a local one. */
  TIMEOUT_S = 30,
  /* For one handshake, at both ends. */
  GREET_S = 5,
  AGAIN_MS = 250 /* until a peer that answered, and then closed the connection, is tried once more */
};

/* What goes on towards one process. outgoing.c alone changes the state, from one to the next:
 *
 *   IDLE        -> CONNECTING  a link is wanted
 *   IDLE        -> DONE        the peer connected, or the job ends
 *   CONNECTING  -> DONE        the link is there, or cannot be made */
enum by_target_state { BY_TARGET_IDLE, BY_TARGET_CONNECTING, BY_TARGET_DONE };

struct by_kept;

struct by_connect_target {
  struct by_connector *connector;
  uint32_t process, next_address, open; /* attempts under way */
  enum by_target_state state;
  bool greeting;  /* one attempt at a time shakes hands: the other end takes what it finishes */
  bool requested; /* under the connector's lock */
  bool again;     /* a process was there, but slow: all addresses are worth another round */
  struct by_timer stagger, timeout, verdict;
  LIST_HEAD(, attempt) attempts;
  struct by_address winner; /* where the first connection went */
  /* connections of the link that are there, -1 elsewhere; it begins when it has all `lanes` */
  int fds[BY_LANES];
  struct by_tls *tls[BY_LANES]; /* of these; NULL: in plain text */
  uint32_t lanes, have;
  enum banyan_status last_status; /* BANYAN_ERR_SYSTEM: this process is out of something, */
  struct by_timer lacking;        /* for long */
  struct by_kept *kept;           /* lanes of the membership before, on their way into this one; NULL: none */
  /* They have become the link's lanes; or they are of no use, and calls wait for the link. */
  void (*kept_ended)(struct by_connect_target *target, bool attached);
  char last_error[400];
};

struct by_connector {
  struct by_job *job;
  struct by_connector_events events;
  struct by_key links;            /* see by_connector_take_keys */
  uint8_t ticket[BY_TICKET_HEAD]; /* of a helper or server, for links */
  struct by_key *helper_keys;
  uint32_t n_helper_keys;
  int tcp_listener, local_listener; /* until the acceptors have them; -1: none */
  struct by_acceptor *tcp, *local;
  struct by_connect_target **targets; /* by process; more of them under the lock, too */
  uint32_t n_targets, targets_room;
  LIST_HEAD(, incoming) incoming; /* newest first */
  /* Connections whose peers have not authenticated, over TCP and local ones, and the log of those that never did. */
  struct by_admission tcp_admission, local_admission;
  struct by_repeats rejected;
  pthread_mutex_t lock; /* of the rest */
  uint32_t *requests, n_requests, requests_room, taken;
  bool posted; /* a task that takes them is on its way */
};

/* Which process connects to which, and which connection of how many of the link. */
struct by_link_hello {
  uint32_t from, to;
  uint8_t lane, lanes;
  uint64_t membership; /* of both, see by_job */
};

/* What came of a handshake (greet.c): the socket, its TLS, what the peer came for and its hello. Socket and TLS are the
 * callee's. */
struct by_greeted {
  int fd;
  bool unused;        /* it was closed, and the peer had sent nothing: it has kept another connection */
  struct by_tls *tls; /* NULL: in plain text */
  uint8_t purpose;
  const uint8_t *ticket; /* the head of a helper's or server's */
  const uint8_t *hello;
  size_t length;
};

/* link_lanes.c. `out` holds HELLO bytes. */
void by_hello_write(const struct by_link_hello *hello, uint8_t *out);
enum banyan_status by_hello_read(const struct by_job *job, const uint8_t *bytes, size_t length,
                                 struct by_link_hello *out);
/* How many connections a link to this address has. */
uint8_t by_connector_lanes_to(const struct by_job *job, const struct by_address *peer);
/* One more connection of a link. True: that was the last one, and the link has begun. Takes socket and TLS over. */
bool by_target_add_connection(struct by_connect_target *target, const struct by_link_hello *hello,
                              const struct by_greeted *greeted);
void by_target_forget_connections(struct by_connect_target *target);
/* A link over shared memory: takes segment and wake over, and the socket. */
void by_target_make_shm_link(struct by_connect_target *target, struct by_shm_ends *ends);

/* incoming.c */
/* A connection was accepted. */
void by_incoming_accept(struct by_connector *connector, int fd, bool local);
/* This side made a local connection, and hands were shaken. */
void by_incoming_exchange(struct by_connect_target *target, int fd);
void by_incoming_free(struct by_connector *connector);

/* outgoing.c */
void by_target_init(struct by_connect_target *target, struct by_connector *connector, uint32_t process);
/* A link is wanted. */
void by_target_begin(struct by_connect_target *target);
/* Nothing goes on towards it any more. */
void by_target_finish(struct by_connect_target *target);
/* It cannot be reached; `why` if no attempt has left a reason. Unless it turns out to have died, the job fails with it.
 */
void by_target_fail(struct by_connect_target *target, const char *why);
/* It was reached, but this could not be made a link; the thread's error text has the reason. The same, but at once
 * unless `status` says that the peer is gone. */
void by_target_broken(struct by_connect_target *target, enum banyan_status status, const char *what);
void by_target_fini(struct by_connect_target *target);

/* kept_lanes.c */
/* Whether there are such lanes: the link begins with them, or is made when they turn out to be of no use. */
bool by_target_awaits_kept(struct by_connect_target *target);
/* Closes them: the link has another connection, or is not needed. */
void by_target_forget_kept(struct by_connect_target *target);

/* greet.c: the handshake on a data connection. It reads not a byte beyond it, so that the socket can become a lane. One
 * for each connection; it frees itself after reporting how it went. */
struct by_greet;

struct by_greet_options {
  struct by_loop *loop;
  int fd;                                /* connected and non-blocking; taken over until `done` hands it back */
  bool packets;                          /* a local socket that keeps message boundaries */
  uint64_t timeout;                      /* nanoseconds for the whole handshake */
  struct by_handshake_options handshake; /* the hello is copied */
  struct by_admission *admission; /* where an accepted connection waits for its peer's proof; NULL: not bounded */
  /* Called once. Unless BANYAN_OK the socket is closed and its number -1, and the error text is set. */
  void (*done)(void *context, enum banyan_status status, const struct by_greeted *greeted);
  void *context;
};

/* The keys of a connection to this process, or of one that is accepted (UINT32_MAX). The caller wipes *out. */
void by_greet_get_keys(const struct by_connector *connector, uint32_t process, struct by_job_keys *out);
/* On failure the descriptor is closed and `done` is not called. */
BANYAN_CHECK enum banyan_status by_greet_start(const struct by_greet_options *options, struct by_greet **out);
/* Gives it up without calling `done`. NULL is allowed. */
void by_greet_cancel(struct by_greet *greet);

#endif
