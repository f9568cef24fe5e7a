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
  uint32_t process;         /* one that is on that host */
  uint64_t sent, bandwidth; /* bit/s; bandwidth 0: not known */
  uint32_t busy;            /* millionths of the time */
};

/* What a process is to send to another one. A link that is as slow as it is believed to be is to carry little of it. */
struct by_path_test {
  uint64_t first;  /* bytes; if the other end has taken as many */
  uint32_t within; /* in so many ms, */
  uint64_t bytes;  /* then so many more, */
  uint32_t lasts;  /* or what goes in so many ms. No bytes: nothing is sent, but the connection is made, and for
                      within + lasts this process receives what comes, though no call is under way */
};

enum { BY_PATH_REPORT_MOST = 64 /* rates of one */, BY_PATH_MESSAGE_MOST = 16 + 24 * BY_PATH_REPORT_MOST };

struct by_path_message {
  enum by_path_message_kind kind;
  uint32_t interval; /* ms from one report to the next; 0: no more are wanted */
  uint32_t process;  /* to be sent to */
  struct by_path_test test;
  uint64_t bandwidth; /* bit/s that it took of the second part; 0: the first took too long */
  uint32_t n;
  struct by_path_rate rates[BY_PATH_REPORT_MOST];
};

/* At most BY_PATH_MESSAGE_MOST bytes. */
void by_path_message_write(struct by_writer *writer, const struct by_path_message *message);
/* Every process is below `processes`. */
BANYAN_CHECK enum banyan_status by_path_message_read(const void *bytes, size_t length, uint32_t processes,
                                                     struct by_path_message *out);

#endif
