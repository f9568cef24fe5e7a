/* What the connections between this job's processes show of the network, at the control connections: rank 0 asks all to
 * watch theirs, and gets their reports; and asks one to send probes where nobody sends. Nothing is sent while nothing
 * else is. On the loop's thread. */
#ifndef BY_ADAPTATION_CONTROL_PATHS_H
#define BY_ADAPTATION_CONTROL_PATHS_H

#include "context.h"
#include "control_peers.h"
#include "path_message.h"
#include "path_watch.h"

/* What gets the reports of paths and of probes, each of one process; path_message.h. On the loop's thread. */
struct by_path_sink {
  void (*report)(void *context, uint32_t process, const struct by_path_message *message);
  void *context;
};

struct by_control_paths {
  struct by_control_peers *peers; /* NULL: nothing is watched yet. */
  struct by_context *context;
  struct by_path_watch watch;
  struct by_path_sink sink; /* rank 0 */
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
/* Rank 0: has all ranks and helpers that are here now watch their connections to other hosts, and report what these
 * show, about once in so many milliseconds while they send; 0: no longer. */
void by_control_paths_watch(struct by_context *context, uint32_t interval, const struct by_path_sink *sink);
/* Rank 0: has process `from` send what message->test says to message->process, and report what became of it. */
void by_control_paths_probe(struct by_context *context, uint32_t from, const struct by_path_message *message);
/* Handles PATHS. `context`: a struct by_context. */
void by_control_paths_handle(void *context, const struct by_received *received);

#endif
