/* What processes of a job whose membership changes and `banyan run`, which started them, send to each other: who they
 * are, with whom they form the first membership or whom they ask to join, and who has died. One message is one packet
 * of the local socket of their host, or the payload of one frame between hosts. No I/O.
 *
 *   u8 type, u32 number, u32 count, string text */
#ifndef BY_ELASTIC_DIRECTORY_MESSAGE_H
#define BY_ELASTIC_DIRECTORY_MESSAGE_H

#include "bytes.h"

enum by_directory_type {
  /* Sent by a process. */
  /* Registers the process `number`, which was started `count` times before; text is its handle. */
  BY_DIRECTORY_REGISTER = 1,
  BY_DIRECTORY_MEMBER, /* The process is rank `number` of `count` in the membership named text. */
  /* Attempt `number` to form the first membership failed, or 0: joining failed; text says why. */
  BY_DIRECTORY_FAILED,
  /* Sent to a process. */
  BY_DIRECTORY_PEER,    /* An entry of a list: number is its position, and 0 begins a new list; text is the handle. */
  BY_DIRECTORY_FIRST,   /* Asks to form a membership of the `count` processes listed; number is the attempt. */
  BY_DIRECTORY_JOIN,    /* Asks to join through the `count` members listed. */
  BY_DIRECTORY_DEAD,    /* The kernel has reported the end of the process whose handle is text. */
  BY_DIRECTORY_LEAVE,   /* Asks the process to leave; text says why. */
  BY_DIRECTORY_REFUSED, /* The registration is refused; text says why. */
  /* Sent by a process. */
  BY_DIRECTORY_LEAVING, /* The process leaves voluntarily, so its exit does not mean that the job has finished. */
  BY_DIRECTORY_TYPES
};

enum {
  BY_DIRECTORY_TEXT = 2048,                   /* Maximum bytes of a text with the NUL; enough for a handle. */
  BY_DIRECTORY_MOST = 13 + BY_DIRECTORY_TEXT, /* Maximum bytes of a message. */
  BY_DIRECTORY_PROCESSES = 1 << 20,           /* Upper limit, exclusive, of `number` and `count`. */
};

struct by_directory_message {
  enum by_directory_type type;
  uint32_t number, count;
  char text[BY_DIRECTORY_TEXT]; /* Printable UTF-8. */
};

/* Encodes a message and returns its length. A text that is too long is truncated. `out` holds BY_DIRECTORY_MOST bytes.
 */
size_t by_directory_write(const struct by_directory_message *message, void *out);
/* Returns BANYAN_ERR_PROTOCOL if the message is malformed, or of a type that this side may not send. */
BANYAN_CHECK enum banyan_status by_directory_read(const void *data, size_t length, bool from_process,
                                                  struct by_directory_message *out);

#endif
