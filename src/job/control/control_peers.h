/* The control connections of this process: at rank 0 one for each connection that was made to it, at others the one to
 * rank 0. And what this process knows of the job's members. On the loop's thread unless said otherwise. */
#ifndef BY_JOB_CONTROL_CONTROL_PEERS_H
#define BY_JOB_CONTROL_CONTROL_PEERS_H

#include "control_messages.h"
#include "host_trust.h"
#include "job_access.h"
#include "log.h"
#include "stream.h"

enum {
  PURPOSE_CONTROL = 'C',
  MOST_FRAME = 16 << 20,
  MOST_QUEUED = 32 << 20,
  HELLO_MOST = 8192,
  TEXT_MOST = BY_MESSAGE_TEXT,
  SILENCE_MS = 5000 /* Time for a sign of life of helpers. */
};

enum message {
  WELCOME = 1,
  REFUSED = 2,
  FAILED = 3,
  SUSPECT = 4,
  LEAVING = 5,
  ASK = 6,
  DESCRIBE = 7,
  DESCRIPTION = 8,
  LEFT = 9,         /* Rank 0's: these ranks have left. */
  PLAN = 10,        /* Rank 0's to helpers: a communicator's plan. */
  LOST = 11,        /* Rank 0's: a helper or server is gone. */
  TREE = 12,        /* Rank 0's to one worker or server of an in-network tree: what it must know. */
  PLAN_SWITCH = 13, /* To another plan: see plan_switch_message.h. */
  LISTEN = 14,      /* Others have submitted what this rank has not. */
  CLASS = 15,       /* Rank 0's: the class in which this process is to send. */
  JOINED = 16,      /* Rank 0's: a helper comes. */
  KNOWN = 17,       /* The answer: this process knows it. */
  TREE_ASK = 18,    /* Rank 0's to an end of in-network trees: what it is to do. */
  TREE_REPORT = 19, /* An end's, to rank 0: how far it is. */
  TIMELINE = 20,    /* See timeline_records.h. */
  PATHS = 21,       /* What connections show of the network: see control_paths.h. */
  NETWORK = 22,     /* Rank 0's to its successors: what it knows of the network. */
  FOLLOW = 23,      /* Rank 0's to helpers: where the next membership meets. */
  STATEMENT = 24,   /* What its host's agent states about the sender, once more: see statement.h. */
  REFUSALS = 25     /* A helper's or server's, to rank 0: how many connections it has refused. */
};

/* What goes on at a connection. control_peers.c alone changes it, from one to the next:
 *
 *   GREETING  -> WAITING   the handshake is over
 *   WAITING   -> JOINED    rank 0: it has a number among the processes; others: rank 0's welcome has come
 *   JOINED    -> LEAVING   the peer has sent LEAVING
 *
 * The connection's end frees it. */
enum by_control_peer_state { BY_PEER_GREETING, BY_PEER_WAITING, BY_PEER_JOINED, BY_PEER_LEAVING };

/* What this process knows of a member. control_peers.c alone changes it, from one to the next:
 *
 *   JOINING  -> JOINED    rank 0: it has a connection; others: all have joined
 *   JOINED   -> JOINING   it left while the job was starting
 *   JOINED   -> LEAVING   it has sent LEAVING to rank 0
 *   LEAVING  -> LEFT      which this process has taken into account, and rank 0 has sent to all others
 *   JOINING  -> LOST      a helper is gone, before it had joined
 *   JOINED   -> LOST      or after */
enum by_member_state {
  BY_MEMBER_JOINING,
  BY_MEMBER_JOINED,
  BY_MEMBER_LEAVING,
  BY_MEMBER_LEFT,
  BY_MEMBER_LOST,
  BY_MEMBER_STATES
};

struct by_control_peer {
  struct by_control_peer *next;
  struct by_control_peers *peers;
  struct by_stream *stream;
  int64_t rank; /* Its number among the processes; -1: not known yet. */
  enum by_control_peer_state state;
  uint64_t claimed_at; /* For control_meeting.c: when another process first claimed to be this rank; 0: none did. */
  bool silent;         /* For control_deadlock.c: a helper that has not answered yet. */
  uint64_t asked_at;   /* For control_deadlock.c: when it was asked. */
  bool vanished;       /* The connection has ended because its host does not answer. */
  bool asked;          /* For control_helpers.c: it was asked whether it knows the newcomer. */
  uint8_t ticket[BY_TICKET_HEAD]; /* The head of a helper's or server's ticket. */
  struct by_key secret;           /* The connection's secret, see by_stream_get_secret. */
  uint8_t *hello;                 /* The hello to send, until the connection has opened. */
  uint32_t shown;                 /* The version of this process's statement that the peer has been sent. */
  struct by_stated stated;        /* For control_trust.c: the peer's statement that was believed. */
};

/* A message as it was received. The functions that handle it take their part of the control object as void pointer. */
struct by_received {
  struct by_control_peer *peer; /* The sender. */
  uint16_t type;
  const void *payload;
  size_t length;
};

/* Events of a connection. */
struct by_control_peer_events {
  void (*opened)(void *context, struct by_control_peer *peer, uint8_t purpose, const void *hello, size_t length);
  void (*frame)(void *context, const struct by_received *message);
  /* The connection has ended: the peer is to be detached and destroyed. */
  void (*ended)(void *context, struct by_control_peer *peer, enum banyan_status status, const char *reason);
  void *context;
};

struct by_control_peers {
  struct by_job *job;
  struct by_control_peer_events events;
  uint8_t hello[HELLO_MOST];
  size_t hello_length;
  struct by_admission admission;       /* Rank 0: admission of connections whose peers have not authenticated. */
  struct by_repeats rejected;          /* Rank 0: the log of connections whose peers never authenticated. */
  struct by_repeats refused;           /* Rank 0: the log of authenticated peers that have no place in the job. */
  struct by_control_peer *all;         /* All connections, newest first. */
  struct by_control_peer **of_process; /* By process, at rank 0 only. */
  enum by_member_state *states;        /* The state of each process. */
  uint32_t of_process_room, states_room;
  struct by_timer silence; /* Set while there is no sign of life of a host to which data was sent. */
  /* leaving: this process has sent that it leaves. deaf: it knows that rank 0 leaves. */
  _Atomic bool leaving, deaf;
  _Atomic bool cut; /* The connection to rank 0 has ended. */
};

/* Initialises the connections of `processes` processes. Whatever the status, by_control_peers_fini is to be called. */
BANYAN_CHECK enum banyan_status by_control_peers_init(struct by_control_peers *peers, struct by_job *job,
                                                      const struct by_control_peer_events *events, uint32_t processes);
void by_control_peers_fini(struct by_control_peers *peers);
/* Closes all connections. */
void by_control_peers_close(struct by_control_peers *peers);
/* Grows the lists from `before` to `processes` processes; the new ones are JOINING. */
BANYAN_CHECK enum banyan_status by_control_peers_make_room(struct by_control_peers *peers, uint32_t before,
                                                           uint32_t processes);

/* Makes a connection with a handshake, as its accepting or (`connecting` not NULL) connecting end. NULL: that failed;
 * the socket is closed. */
struct by_control_peer *by_control_peer_create(struct by_control_peers *peers, int fd,
                                               const struct by_address *connecting, enum by_role role);
/* Removes the peer from the list. */
void by_control_peer_detach(struct by_control_peer *peer);
/* Destroys a detached peer. */
void by_control_peer_destroy(struct by_control_peer *peer);
/* Changes that are not listed above are ignored. */
void by_control_peer_set_state(struct by_control_peer *peer, enum by_control_peer_state state);
/* Rank 0: gives the peer this process's number; it has joined. */
void by_control_peer_join(struct by_control_peer *peer, uint32_t process);
/* Rank 0, while the job starts: gives the peer of process `from` the number `to`, whose own peer is gone. `from` equal
 * to `to`: that peer itself is gone. */
void by_control_peers_move(struct by_control_peers *peers, uint32_t from, uint32_t to);
/* Sets a member's state. False: the change is not listed above, and is ignored. */
bool by_control_peers_set_member(struct by_control_peers *peers, uint32_t process, enum by_member_state state);
/* Not at rank 0: returns the connection to rank 0; NULL: there is none. */
struct by_control_peer *by_control_peers_root(const struct by_control_peers *peers);

static inline bool by_control_peers_is_root(const struct by_control_peers *peers) {
  return by_job_rank(peers->job) == 0;
}
/* Returns whether the process is a helper or server; `process` may be any number. */
static inline bool by_control_peers_is_helper(const struct by_control_peers *peers, int64_t process) {
  return process >= (int64_t)by_job_size(peers->job);
}
static inline bool by_control_peers_has_left(const struct by_control_peers *peers, uint32_t process) {
  return peers->states[process] == BY_MEMBER_LEAVING || peers->states[process] == BY_MEMBER_LEFT;
}
static inline bool by_control_peers_has_lost(const struct by_control_peers *peers, uint32_t process) {
  return peers->states[process] == BY_MEMBER_LOST;
}
/* Returns whether the peer is a member that has not sent LEAVING. */
static inline bool by_control_peer_stays(const struct by_control_peer *peer) {
  return peer->rank >= 0 && peer->state != BY_PEER_LEAVING;
}

/* Sends a message that may be dropped; see by_stream_send. */
BANYAN_CHECK enum banyan_status by_control_peer_try_send(const struct by_control_peer *peer, enum message type,
                                                         const void *bytes, size_t length);
/* Returns whether the kernel of the peer's host has received everything that was sent to the peer. */
bool by_control_peer_has_all(const struct by_control_peer *peer);
/* Sends a message that must not be dropped: if the queue is full, the peer is given up. False: it is. */
bool by_control_peer_send(const struct by_control_peer *peer, enum message type, const void *bytes, size_t length);
void by_control_peer_cut(const struct by_control_peer *peer, const char *why);
/* Sends a message with a text, which must not be dropped. */
void by_control_peer_send_text(struct by_control_peer *peer, enum message type, enum banyan_status status,
                               uint32_t process, const char *text);
/* Sends a message with a text to all members that stay. */
void by_control_peers_send_text(struct by_control_peers *peers, enum message type, enum banyan_status status,
                                uint32_t process, const char *text);
/* Closes the connection once the peer has been sent the reason. */
void by_control_peer_refuse(struct by_control_peer *peer, enum banyan_status status, const char *text);

/* A report from any thread to the loop's, where `handle` is called with a copy. */
struct by_control_report {
  void (*handle)(const struct by_control_report *report);
  void *context;
  enum banyan_status status;
  uint32_t process, number;
  char text[TEXT_MOST], awaited[TEXT_MOST];
  size_t length;
  uint8_t bytes[];
};
/* Posts a report, from any thread. False: out of memory, which is logged. */
bool by_control_peers_post(const struct by_control_peers *peers, const struct by_control_report *report,
                           const void *bytes, const char *text);

#endif
