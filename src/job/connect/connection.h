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
#include "key_ring.h"
#include "lane.h"
#include "log.h"
#include "opening.h"
#include "settings.h"

enum {
  PURPOSE_TCP = 'D',
  PURPOSE_LOCAL = 'L',
  HELLO = 18,
  /* Seconds for a link, from the request to its first connection; also for the descriptors of a local one. */
  TIMEOUT_S = 30,
  /* Seconds for one handshake, at both ends. */
  GREET_S = 5,
  AGAIN_MS = 250 /* Pause before a peer that answered, and then closed the connection, is tried once more. */
};

/* The connecting of one process. outgoing.c alone changes the state: */
enum by_target_state { BY_TARGET_IDLE, BY_TARGET_CONNECTING, BY_TARGET_DONE };

struct by_kept;

struct by_connect_target {
  struct by_connector *connector;
  uint32_t process, next_address, open; /* open: attempts in progress. */
  enum by_target_state state;
  bool greeting;  /* An attempt is in its handshake; one at a time, as the other end takes each that completes. */
  bool requested; /* A link was requested. Under the connector's lock. */
  bool again;     /* A process answered slowly, so all addresses are tried again. */
  struct by_timer stagger, timeout, verdict;
  LIST_HEAD(, attempt) attempts;
  struct by_address winner; /* The address of the first connection. */
  /* Sockets of the link's connections, -1 for missing ones; the link begins when all `lanes` are there. */
  int fds[BY_LANES];
  struct by_tls *tls[BY_LANES]; /* TLS of these connections; NULL: in plain text. */
  uint32_t lanes, have;
  enum banyan_status last_status; /* Status of the last attempt; BANYAN_ERR_SYSTEM: this process lacks a resource. */
  struct by_timer lacking;        /* Expires when the resource has been lacking for long. */
  struct by_kept *kept;           /* Lanes of the membership before that are to be used here; NULL: none. */
  /* Called when the kept lanes were attached to the link, or are of no use and calls wait for the link. */
  void (*kept_ended)(struct by_connect_target *target, bool attached);
  char last_error[400];
};

struct by_connector {
  struct by_job *job;
  struct by_connector_events events;
  struct by_key links;            /* The key of links, see by_connector_take_keys. */
  uint8_t ticket[BY_TICKET_HEAD]; /* A helper's or server's ticket for links. */
  struct by_key *helper_keys;
  uint32_t n_helper_keys;
  int tcp_listener, local_listener; /* Listeners until the acceptors have them; -1: none. */
  struct by_acceptor *tcp, *local;
  struct by_connect_target **targets; /* By process; the array grows under the lock. */
  uint32_t n_targets, targets_room;
  LIST_HEAD(, incoming) incoming; /* Accepted connections in their handshake, newest first. */
  /* Connections whose peers have not authenticated, over TCP and local ones, and the log of those that never did. */
  struct by_admission tcp_admission, local_admission;
  struct by_repeats rejected;
  pthread_mutex_t lock; /* Guards the fields below. */
  uint32_t *requests, n_requests, requests_room, taken;
  bool posted; /* A task that takes the requests is posted. */
};

/* The hello of a data connection: the processes at its ends, and its lane among the link's lanes. */
struct by_link_hello {
  uint32_t from, to;
  uint8_t lane, lanes;
  uint64_t membership; /* Membership of both ends, see by_job. */
};

/* The result of a handshake (greet.c): the socket, its TLS, the peer's purpose and its hello. The callee owns socket
 * and TLS. */
struct by_greeted {
  int fd;
  bool unused; /* The connection was closed before the peer sent anything: the peer has kept another connection. */
  struct by_tls *tls; /* NULL: in plain text. */
  uint8_t purpose;
  const uint8_t *ticket; /* The head of a helper's or server's ticket. */
  const uint8_t *hello;
  size_t length;
};

/* link_lanes.c. `out` holds HELLO bytes. */
void by_hello_write(const struct by_link_hello *hello, uint8_t *out);
enum banyan_status by_hello_read(const struct by_job *job, const uint8_t *bytes, size_t length,
                                 struct by_link_hello *out);
/* Returns the number of connections of a link to this address. */
uint8_t by_connector_lanes_to(const struct by_job *job, const struct by_address *peer);
/* Adds a connection to a link. True: it was the last one, and the link has begun. Takes socket and TLS over. */
bool by_target_add_connection(struct by_connect_target *target, const struct by_link_hello *hello,
                              const struct by_greeted *greeted);
void by_target_forget_connections(struct by_connect_target *target);
/* Makes a link over shared memory: takes over segment, wake and socket. */
void by_target_make_shm_link(struct by_connect_target *target, struct by_shm_ends *ends);

/* ---- incoming.c */
/* Handles an accepted connection. */
void by_incoming_accept(struct by_connector *connector, int fd, bool local);
/* Exchanges descriptors over a local connection that this side made, after its handshake. */
void by_incoming_exchange(struct by_connect_target *target, int fd);
void by_incoming_free(struct by_connector *connector);

/* ---- outgoing.c */
void by_target_init(struct by_connect_target *target, struct by_connector *connector, uint32_t process);
/* Begins to make a link. */
void by_target_begin(struct by_connect_target *target);
/* Ends all attempts to connect to the process. */
void by_target_finish(struct by_connect_target *target);
/* Gives a process up that cannot be reached; `why`: the reason if no attempt has left one. Unless the process turns out
 * to have died, the job fails with this reason. */
void by_target_fail(struct by_connect_target *target, const char *why);
/* Gives a process up whose connection could not become a link; the thread's error text has the reason. The job fails at
 * once unless `status` says that the peer is gone. */
void by_target_broken(struct by_connect_target *target, enum banyan_status status, const char *what);
void by_target_fini(struct by_connect_target *target);

/* kept_lanes.c */
/* Returns whether the target has kept lanes: the link begins with them, or is made when they turn out to be of no
 * use. */
bool by_target_awaits_kept(struct by_connect_target *target);
/* Closes kept lanes, as the link has another connection, or is not needed. */
void by_target_forget_kept(struct by_connect_target *target);

/* The handshake on a data connection (greet.c). It reads no byte beyond the handshake, so that the socket can become a
 * lane. Each connection has one, which frees itself after it has reported the outcome. */
struct by_greet;

struct by_greet_options {
  struct by_loop *loop;
  int fd;                                /* A connected non-blocking socket; taken over until `done` hands it back. */
  bool packets;                          /* It is a local socket that keeps message boundaries. */
  uint64_t timeout;                      /* Nanoseconds for the whole handshake. */
  struct by_handshake_options handshake; /* The hello is copied. */
  struct by_admission *admission;        /* Holds an accepted connection until its peer's proof; NULL: not bounded. */
  /* Called once. Unless BANYAN_OK the socket is closed and its number -1, and the error text is set. */
  void (*done)(void *context, enum banyan_status status, const struct by_greeted *greeted);
  void *context;
};

/* Returns the keys of a connection to this process, or of an accepted one (UINT32_MAX). The caller wipes *out. */
void by_greet_get_keys(const struct by_connector *connector, uint32_t process, struct by_job_keys *out);
/* On failure the descriptor is closed and `done` is not called. */
BANYAN_CHECK enum banyan_status by_greet_start(const struct by_greet_options *options, struct by_greet **out);
/* Gives up a handshake without calling `done`. NULL is allowed. */
void by_greet_cancel(struct by_greet *greet);

#endif
