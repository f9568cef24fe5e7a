/* What the connections between this job's processes show of the network, at the control connections: rank 0 asks all to
 * watch theirs, and gets their reports; and asks one to send probes where nobody sends. Nothing is sent while nothing
 * else is. On the loop's thread. */
#ifndef BY_JOB_CONTROL_CONTROL_PATHS_H
#define BY_JOB_CONTROL_CONTROL_PATHS_H

#include "control.h"
#include "control_peers.h"
#include "path_message.h"
#include "path_watch.h"

struct by_control_paths {
  struct by_control_peers *peers;
  const struct by_control_events *events;
  struct by_path_watch watch;
  struct by_path_sink sink; /* rank 0 */
  uint64_t interval;        /* 0: nothing is watched */
  uint64_t reported_at;
  uint64_t sent; /* bytes, by the last report */
  struct by_timer due;
  struct by_path_message probe; /* the last one that was asked for */
  uint64_t second_at;           /* when its second part began; 0: it has not */
  uint64_t taken;               /* what the other end had taken before the part that goes on */
  struct by_timer probe_due;
};

void by_control_paths_init(struct by_control_paths *paths, struct by_control_peers *peers,
                           const struct by_control_events *events);
void by_control_paths_fini(struct by_control_paths *paths);
/* Rank 0: see by_control_watch_paths. */
void by_control_paths_watch(struct by_control_paths *paths, uint32_t interval, const struct by_path_sink *sink);
/* Rank 0: see by_control_probe_path. */
void by_control_paths_probe(struct by_control_paths *paths, uint32_t from, const struct by_path_message *message);
/* PATHS. */
void by_control_paths_handle(void *argument, const struct by_received *received);

#endif
