/* What processes of groups that change send each other beside Paxos messages, as values, without I/O. Each is a frame
 * of a connection whose ends have proved the job's key, and begins with a hello in both directions. docs/wire.md lists
 * them. */
#ifndef BY_ELASTIC_MEMBERSHIP_MEMBER_MESSAGE_H
#define BY_ELASTIC_MEMBERSHIP_MEMBER_MESSAGE_H

#include "handle.h"

enum by_member_frame {
  BY_MEMBER_PAXOS = 1, /* see paxos_message.h, but for a WELCOME */
  BY_MEMBER_JOIN,      /* empty: the sender wants to join the receiver's group, and asks again until it has an answer */
  BY_MEMBER_WELCOME,   /* by_member_welcome: the sender of a JOIN is in the next membership */
  BY_MEMBER_AWAY,      /* a text: the receiver of a JOIN is in no group */
  BY_MEMBER_LATE,      /* the number of a membership: others wait for the receiver's program */
  BY_MEMBER_ASK,       /* empty: does the receiver's process run? */
  BY_MEMBER_HERE,      /* empty: it does */
  BY_MEMBER_SUSPICION, /* by_member_suspicion: a member does not answer the sender. Does it answer the receiver? */
  BY_MEMBER_SUSPICION_SHARED, /* by_member_suspicion: it does not */
  BY_MEMBER_FORMS,   /* by_member_list: the sender forms a membership from it. Does the receiver's list differ? */
  BY_MEMBER_DIFFERS, /* by_member_list: lists under its name differ, as the text says, so none is formed */
};

enum { BY_WELCOME_HANDLES = 64, BY_AWAY_MOST = 1024 };

/* Who connects. */
struct by_member_hello {
  struct by_fingerprint to; /* of the process that the sender wants to reach; zeros of one that was connected to */
  const char *handle;       /* of the sender */
  const uint8_t *statement; /* of its host's agent, see statement.h; borrowed from the bytes when read */
  size_t statement_length;  /* 0: there is none */
};
void by_member_hello_write(struct by_writer *writer, const struct by_member_hello *hello);
/* The handle's text goes to the arena, and is not parsed. BANYAN_ERR_PROTOCOL. */
BANYAN_CHECK enum banyan_status by_member_hello_read(const void *bytes, size_t length, struct by_arena *arena,
                                                     struct by_member_hello *out);

/* A member that does not answer, of the membership with this number. */
struct by_member_suspicion {
  uint64_t number;
  uint32_t rank;
};
enum { BY_SUSPICION_BYTES = 12 };
void by_member_suspicion_write(struct by_writer *writer, const struct by_member_suspicion *suspicion);
/* BANYAN_ERR_PROTOCOL. */
BANYAN_CHECK enum banyan_status by_member_suspicion_read(const void *bytes, size_t length,
                                                         struct by_member_suspicion *out);

/* From which list a process forms a membership. */
struct by_member_list {
  uint64_t name;   /* the hash of the membership's name */
  uint64_t number; /* of the membership */
  const char *text;
};
enum { BY_MEMBER_LIST_TEXT = 640 /* bytes, with the NUL */ };
void by_member_list_write(struct by_writer *writer, const struct by_member_list *list);
/* The text goes to the arena. BANYAN_ERR_PROTOCOL. */
BANYAN_CHECK enum banyan_status by_member_list_read(const void *bytes, size_t length, struct by_arena *arena,
                                                    struct by_member_list *out);

/* A paxos WELCOME, and how members of the new membership are reached. Its first one is among them. */
struct by_member_welcome {
  uint32_t n; /* up to BY_WELCOME_HANDLES */
  const char *handles[BY_WELCOME_HANDLES];
  const void *paxos; /* see by_paxos_welcome_read; borrowed */
  size_t length;
};
void by_member_welcome_write(struct by_writer *writer, const struct by_member_welcome *welcome);
/* The same. */
BANYAN_CHECK enum banyan_status by_member_welcome_read(const void *bytes, size_t length, struct by_arena *arena,
                                                       struct by_member_welcome *out);

#endif
