/* What rank 0 and the others exchange about the network between them: rank 0 asks all to watch their connections, and
 * one to send bytes that nobody needs over a path that is not in use; they report what they have seen. As values,
 * without I/O. */
#ifndef BY_ADAPTATION_PATH_MESSAGE_H
#define BY_ADAPTATION_PATH_MESSAGE_H

#include "bytes.h"

enum by_path_message_kind {
  BY_PATH_WATCH = 1, /* from rank 0: interval */
  BY_PATH_PROBE,     /* from rank 0: process, test */
  BY_PATH_REPORT,    /* to rank 0: rates */
  BY_PATH_PROBED     /* to rank 0, when a probe has ended: process, bandwidth */
};

/* What connections to a host were seen to do, since the report before; see struct by_cluster_path. */
struct by_path_rate {
  uint32_t process;         /* A process on that host. */
  uint64_t sent, bandwidth; /* bit/s; bandwidth 0: not known */
  uint32_t busy;            /* Millionths of the time in which it was busy. */
};

/* What a process is to send to another one. A link that is as slow as it is believed to be is to carry little of it. */
struct by_path_test {
  uint64_t first;  /* Bytes of the first part; the second follows if the other end has received them in time. */
  uint32_t within; /* Milliseconds for the first part. */
  uint64_t bytes;  /* Bytes of the second part. */
  uint32_t lasts; /* Maximum milliseconds of the second part. No bytes: nothing is sent, but the connection is made, and
                     for within + lasts this process receives, though no call is in progress. */
};

enum { BY_PATH_REPORT_MOST = 64 /* rates of one */, BY_PATH_MESSAGE_MOST = 16 + 24 * BY_PATH_REPORT_MOST };

struct by_path_message {
  enum by_path_message_kind kind;
  uint32_t interval; /* ms from one report to the next; 0: no more are wanted */
  uint32_t process;  /* The process to send to. */
  struct by_path_test test;
  uint64_t bandwidth; /* Bit/s at which it received the second part; 0: the first part took too long. */
  uint32_t n;
  struct by_path_rate rates[BY_PATH_REPORT_MOST];
};

/* At most BY_PATH_MESSAGE_MOST bytes. */
void by_path_message_write(struct by_writer *writer, const struct by_path_message *message);
/* Every process is below `processes`. */
BANYAN_CHECK enum banyan_status by_path_message_read(const void *bytes, size_t length, uint32_t processes,
                                                     struct by_path_message *out);

#endif
