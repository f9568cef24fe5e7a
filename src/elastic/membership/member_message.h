/* What processes of groups that change send each other beside Paxos messages, as values, without I/O. Each is a frame
 * of a connection whose ends have proved the job's key, and begins with a hello in both directions. docs/wire.md lists
 * them. */
#ifndef BY_ELASTIC_MEMBERSHIP_MEMBER_MESSAGE_H
#define BY_ELASTIC_MEMBERSHIP_MEMBER_MESSAGE_H

#include "handle.h"

enum by_member_frame {
  BY_MEMBER_PAXOS = 1, /* A message of paxos_message.h other than a WELCOME. */
  BY_MEMBER_JOIN,    /* Empty. The sender wants to join the receiver's group, and repeats this until it is answered. */
  BY_MEMBER_WELCOME, /* A by_member_welcome: the sender of a JOIN is in the next membership. */
  BY_MEMBER_AWAY,    /* A text: the receiver of a JOIN cannot admit its sender. */
  BY_MEMBER_LATE,    /* The number of a membership whose members wait for the receiver's program. */
  BY_MEMBER_ASK,     /* Empty. Asks whether the receiver's process runs. */
  BY_MEMBER_HERE,    /* Empty. The answer to ASK: the process runs. */
  /* A by_member_suspicion: asks whether a member that does not answer the sender answers the receiver. */
  BY_MEMBER_SUSPICION,
  /* A by_member_suspicion, as an answer: the member does not answer the sender of this, either. */
  BY_MEMBER_SUSPICION_SHARED,
  /* A by_member_list from which the sender forms a membership: asks whether the receiver's list differs. */
  BY_MEMBER_FORMS,
  /* A by_member_list whose text says how lists under its name differ, so that no membership is formed. */
  BY_MEMBER_DIFFERS,
};

enum { BY_WELCOME_HANDLES = 64, BY_AWAY_MOST = 1024 };

/* The first message on a connection, in both directions. */
struct by_member_hello {
  struct by_fingerprint to; /* Process that the connecting side wants to reach; zeros from the accepting side. */
  const char *handle;       /* Handle of the sender. */
  /* Statement of the agent of the sender's host (statement.h); when read, borrowed from the message. */
  const uint8_t *statement;
  size_t statement_length; /* Bytes of the statement; 0 if there is none. */
};
void by_member_hello_write(struct by_writer *writer, const struct by_member_hello *hello);
/* Reads a hello; the handle's text is allocated in the arena, and is not parsed. Returns BANYAN_ERR_PROTOCOL if it is
 * malformed. */
BANYAN_CHECK enum banyan_status by_member_hello_read(const void *bytes, size_t length, struct by_arena *arena,
                                                     struct by_member_hello *out);

/* A member that does not answer: `rank` of the membership `number`. */
struct by_member_suspicion {
  uint64_t number;
  uint32_t rank;
};
enum { BY_SUSPICION_BYTES = 12 };
void by_member_suspicion_write(struct by_writer *writer, const struct by_member_suspicion *suspicion);
/* Returns BANYAN_ERR_PROTOCOL if the message is malformed. */
BANYAN_CHECK enum banyan_status by_member_suspicion_read(const void *bytes, size_t length,
                                                         struct by_member_suspicion *out);

/* Identifies the list from which a process forms a membership. */
struct by_member_list {
  uint64_t name;   /* Hash of the membership's name. */
  uint64_t number; /* Number of the membership. */
  const char *text;
};
enum { BY_MEMBER_LIST_TEXT = 640 /* Maximum bytes of the text, with the NUL. */ };
void by_member_list_write(struct by_writer *writer, const struct by_member_list *list);
/* Reads a list; the text is allocated in the arena. Returns BANYAN_ERR_PROTOCOL if it is malformed. */
BANYAN_CHECK enum banyan_status by_member_list_read(const void *bytes, size_t length, struct by_arena *arena,
                                                    struct by_member_list *out);

/* A Paxos WELCOME with handles of members of the new membership, including its first one. */
struct by_member_welcome {
  uint32_t n; /* Number of handles, at most BY_WELCOME_HANDLES. */
  const char *handles[BY_WELCOME_HANDLES];
  const void *paxos; /* Message for by_paxos_welcome_read, borrowed. */
  size_t length;
};
void by_member_welcome_write(struct by_writer *writer, const struct by_member_welcome *welcome);
/* Reads a welcome; handles are allocated in the arena. Returns BANYAN_ERR_PROTOCOL if it is malformed. */
BANYAN_CHECK enum banyan_status by_member_welcome_read(const void *bytes, size_t length, struct by_arena *arena,
                                                       struct by_member_welcome *out);

#endif
