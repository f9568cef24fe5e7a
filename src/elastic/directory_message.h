/* What processes of a job whose membership changes and `banyan run`, which started them, send to each other: who they
 * are, with whom they form the first membership or whom they ask to join, and who has died. One message is one packet
 * of the local socket of their host, or the payload of one frame between hosts. No I/O.
 *
 *   u8 type, u32 number, u32 count, string text */
#ifndef BY_ELASTIC_DIRECTORY_MESSAGE_H
#define BY_ELASTIC_DIRECTORY_MESSAGE_H

#include "bytes.h"

enum by_directory_type {
  /* from a process */
  BY_DIRECTORY_REGISTER = 1, /* number: of the process; count: how often it was started before; text: its handle */
  BY_DIRECTORY_MEMBER,       /* it is in a membership. number: its rank; count: of the members; text: the name */
  BY_DIRECTORY_FAILED, /* it could not form the first membership, or join (0). number: of the attempt; text: why */
  /* to a process */
  BY_DIRECTORY_PEER,    /* number: its place in a list, which begins anew with 0; text: its handle */
  BY_DIRECTORY_FIRST,   /* form a membership of that list. number: of the attempt; count: of the list */
  BY_DIRECTORY_JOIN,    /* ask these to join. count: of the list */
  BY_DIRECTORY_DEAD,    /* text: the handle of a process of which the kernel has said that it has ended */
  BY_DIRECTORY_LEAVE,   /* this process is to leave. text: why */
  BY_DIRECTORY_REFUSED, /* it is not taken. text: why */
  /* from a process */
  BY_DIRECTORY_LEAVING, /* it leaves by its own wish, so that its end will not be that of the work */
  BY_DIRECTORY_TYPES
};

enum {
  BY_DIRECTORY_TEXT = 2048,                   /* most bytes of a text, with the NUL: those of a handle */
  BY_DIRECTORY_MOST = 13 + BY_DIRECTORY_TEXT, /* bytes of a message */
  BY_DIRECTORY_PROCESSES = 1 << 20,           /* numbers of processes, and counts of them, are below */
};

struct by_directory_message {
  enum by_directory_type type;
  uint32_t number, count;
  char text[BY_DIRECTORY_TEXT]; /* printable */
};

/* Its length. The text is cut where it is too long. `out` holds BY_DIRECTORY_MOST. */
size_t by_directory_write(const struct by_directory_message *message, void *out);
/* BANYAN_ERR_PROTOCOL: malformed, or not of those that such a sender may send. */
BANYAN_CHECK enum banyan_status by_directory_read(const void *data, size_t length, bool from_process,
                                                  struct by_directory_message *out);

#endif
