/* What the connections between this job's processes show of the network. Rank 0 asks all processes to watch their
 * connections, and one to send bytes that nobody needs over a path that is not in use; they report what they have seen.
 * Nothing is sent while nothing else is. On the loop's thread. */
#ifndef BY_ADAPTATION_CONTROL_PATHS_H
#define BY_ADAPTATION_CONTROL_PATHS_H

#include "bytes.h"
#include "control_peers.h"
#include "job_life.h"
#include "path_watch.h"

enum by_path_message_kind {
  BY_PATH_WATCH = 1, /* From rank 0, with `interval`. */
  BY_PATH_PROBE,     /* From rank 0, with `process` and `test`. */
  BY_PATH_REPORT,    /* To rank 0, with `rates`. */
  BY_PATH_PROBED     /* To rank 0 when a probe has ended, with `process` and `bandwidth`. */
};

/* What connections to a host showed since the report before; see struct by_cluster_path. */
struct by_path_rate {
  uint32_t process;         /* A process on that host. */
  uint64_t sent, bandwidth; /* Bit/s; bandwidth 0: not known. */
  uint32_t busy;            /* Millionths of the time in which it was busy. */
};

/* What a process is to send to another one. If a link is as slow as estimated, it is to carry little of it. */
struct by_path_test {
  uint64_t first;  /* Bytes of the first part; the second follows if the other end has received them in time. */
  uint32_t within; /* Milliseconds for the first part. */
  uint64_t bytes;  /* Bytes of the second part. */
  uint32_t lasts; /* Maximum milliseconds of the second part. No bytes: nothing is sent, but the connection is made, and
                     for within + lasts this process receives, though no call is in progress. */
};

/* Maximum of rates in a report, and of bytes of a message. */
enum { BY_PATH_REPORT_MAX = 64, BY_PATH_MESSAGE_MAX = 16 + 24 * BY_PATH_REPORT_MAX };

struct by_path_message {
  enum by_path_message_kind kind;
  uint32_t interval; /* Milliseconds from one report to the next; 0: no more are wanted. */
  uint32_t process;  /* The process to send to. */
  struct by_path_test test;
  uint64_t bandwidth; /* Bit/s at which it received the second part; 0: the first part took too long. */
  uint32_t n;
  struct by_path_rate rates[BY_PATH_REPORT_MAX];
};

/* At most BY_PATH_MESSAGE_MOST bytes. */
void by_path_message_write(struct by_writer *writer, const struct by_path_message *message);
/* Every process is below `processes`. */
BANYAN_CHECK enum banyan_status by_path_message_read(const void *bytes, size_t length, uint32_t processes,
                                                     struct by_path_message *out);

/* Receives the reports of paths and of probes, each of one process. On the loop's thread. */
struct by_path_sink {
  void (*report)(void *context, uint32_t process, const struct by_path_message *message);
  void *context;
};

struct by_control_paths {
  struct by_control_peers *peers; /* NULL: nothing is watched yet. */
  struct by_job *job;
  struct by_path_watch watch;
  struct by_path_sink sink; /* Set at rank 0. */
  uint64_t interval;        /* Milliseconds between reports; 0: nothing is watched. */
  uint64_t reported_at;
  uint64_t sent; /* Bytes sent by the time of the last report. */
  struct by_timer due;
  struct by_path_message probe; /* The last requested probe. */
  uint64_t second_at;           /* When its second part began; 0: it has not begun. */
  uint64_t taken;               /* Bytes that the other end had received before the current part. */
  struct by_timer probe_due;
};

/* When the context goes; the loop runs no more. */
void by_control_paths_fini(struct by_control_paths *paths);
/* Rank 0: asks all present ranks and helpers to watch their connections to other hosts, and to report what these show
 * about once per interval, in milliseconds, while they send; 0: no longer. */
void by_control_paths_watch(struct by_job *job, uint32_t interval, const struct by_path_sink *sink);
/* Rank 0: asks process `from` to send what message->test says to message->process, and to report the result. */
void by_control_paths_probe(struct by_job *job, uint32_t from, const struct by_path_message *message);
/* Handles PATHS. `context`: a struct by_job. */
void by_control_paths_handle(void *context, const struct by_received *received);

#endif
