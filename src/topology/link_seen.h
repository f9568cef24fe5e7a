/* Estimates the rates of links from what connections achieve. Links between switches have no counters, and a host
 * notices a slow link only if it is at its end. But connections over a slow link were busy and got little:
 *
 *   While a path (a job's connections from one host to another) has data to send, each link on it carries at least what
 *   was observed there for this path and all others together. If that is far below the known rate of every link of the
 *   path, some link of it is slow. Links over which another path was faster are excluded, and links whose rate an agent
 *   reports, unless several paths over them are slow. Of the others, those with most slow paths are blamed, and among
 *   these those without an agent's report. A path whose job yields to a higher class shows nothing, since it may wait.
 *
 * A link is lowered once one path has been slow in three reports, or two paths with no common host in two; then one
 * report suffices for the other direction of the link. A link is raised when more is observed, or after an interval
 * without evidence, which doubles each time. */
#ifndef BY_TOPOLOGY_LINK_SEEN_H
#define BY_TOPOLOGY_LINK_SEEN_H

#include <sys/queue.h>

#include "topology_paths.h"

/* Caches the paths of packets by destination. Each destination is searched for when it is first needed, and few at a
 * time. Memory is bounded. */
struct by_path_cache {
  struct by_paths paths;
  struct by_next_hop *hops; /* Scratch memory of a search. */
  uint32_t **steps;         /* for each destination: the step by which packets leave each node; NULL: not cached */
  uint32_t *kept;           /* the cached destinations, a ring whose oldest is at `oldest` once it holds `max` */
  uint32_t n, max, oldest;
  uint32_t searches,
      searched; /* how many searches are permitted until the next by_path_cache_allow, and how many were ever made */
};

/* The topology must outlive the cache. by_path_cache_fini is permitted after an error, too. */
BANYAN_CHECK enum banyan_status by_path_cache_init(struct by_path_cache *cache, const struct by_topology *topology);
void by_path_cache_fini(struct by_path_cache *cache);
/* Permits more searches: as many destinations as take some milliseconds. */
void by_path_cache_allow(struct by_path_cache *cache);
/* Returns the steps (2 * link + direction) from one node to another; *n == 0: there is no path. The caller frees
 * *steps. False: not known yet; ask again after by_path_cache_allow. */
bool by_path_cache_find(struct by_path_cache *cache, uint32_t from, uint32_t to, uint32_t **steps, uint32_t *n);

/* ---- Paths. */

/* What one report states of the connections from one host to another, since the report before. */
struct by_seen_rate {
  double sent;      /* bit/s */
  double busy;      /* The part of the time, from 0 to 1, in which the network had not taken all bytes offered to it. */
  double bandwidth; /* Bit/s while busy; 0 if they are unknown, or the network took all that was offered. */
};

/* How many reports in a row had some property. */
struct by_seen_row {
  uint32_t n;
  double last; /* The time of the last such report. */
};

/* A job's connections from one host to another, as last reported. */
struct by_seen_path {
  LIST_ENTRY(by_seen_path) entry;
  const void *owner;
  uint32_t from, to; /* Numbers of the nodes at the ends. */
  bool routed;       /* whether the path of packets is known: `steps`, `n_steps` and `trip` are set */
  uint32_t n_steps, *steps;
  double trip;                  /* The round-trip time over the path in seconds. */
  double sent, busy, bandwidth; /* Rates including headers, as in struct by_seen_rate. */
  double named, notified;       /* the times of the last report, and of the last one with new values */
  bool news;                    /* The last report has not been evaluated yet. */
  struct by_seen_row slow;      /* Reports in a row in which the whole path was slower than the known rate. */
  struct by_seen_row more; /* Reports in a row in which the path showed more than the estimate of one of its links. */
  bool is_slow;            /* scratch of by_link_seen_tick: the path is considered slow */
};

/* The paths that one reporter has named. All zero: none. Only link_seen.c changes them. */
LIST_HEAD(by_seen_paths, by_seen_path);
void by_seen_paths_free(struct by_seen_paths *paths);

/* ---- Links. */

/* The owner's knowledge of one direction of a link, in bit/s. */
struct by_seen_step {
  double stated;    /* the rate that the topology, or whoever knows the cable, states */
  double seen;      /* the estimate that set_rate gave; INFINITY: the stated rate */
  double carries;   /* The smaller of `stated` and `seen`, in bit/s. */
  double of_others; /* what others send there whose paths are not reported */
  bool notified;    /* An agent at one of its ends states the rate. */
};

struct by_seen_events {
  /* Fills in all steps (2 * link + direction). It is called when the packets' paths are known. */
  void (*view)(void *context, struct by_seen_step *steps);
  /* Calls `visit` with the paths of each reporter that counts. */
  void (*for_paths)(void *context, void (*visit)(void *seen, struct by_seen_paths *paths), void *seen);
  /* Whether the path may be waiting because others have priority; NULL: none does. */
  bool (*gives_way)(void *context, const struct by_seen_path *path);
  /* Sets the estimate of a step; INFINITY: the stated rate. */
  void (*set_rate)(void *context, uint32_t step, double rate);
  void *context;
};

struct by_link_seen;

/* The topology must outlive it. `interval`: seconds between two reports. */
BANYAN_CHECK enum banyan_status by_link_seen_create(const struct by_topology *topology, double interval,
                                                    const struct by_seen_events *events, struct by_link_seen **out);
/* NULL is allowed. The owner still owns the paths. */
void by_link_seen_destroy(struct by_link_seen *seen);
/* Returns the index of the topology's links. */
const struct by_paths *by_link_seen_paths(const struct by_link_seen *seen);
/* Returns the cache of the packets' paths. */
struct by_path_cache *by_link_seen_path_cache(struct by_link_seen *seen);
/* Sets the time in seconds from any origin; it never goes back. Call it before reports; by_link_seen_tick sets it, too.
 */
void by_link_seen_set_time(struct by_link_seen *seen, double now);
/* Handles one path of a report. All paths of a list have the same `from`. */
void by_link_seen_report(struct by_link_seen *seen, struct by_seen_paths *paths, const void *owner, uint32_t from,
                         uint32_t to, const struct by_seen_rate *rate);
/* Ends a report: paths that it did not name send nothing now; what they showed before counts for a while. */
void by_link_seen_end_report(struct by_link_seen *seen, struct by_seen_paths *paths);
/* Whether the path was reported within the last two intervals. */
bool by_link_seen_is_fresh(const struct by_link_seen *seen, const struct by_seen_path *path);
/* Evaluates the reports, and lowers or raises the estimates of links. */
void by_link_seen_tick(struct by_link_seen *seen, double now);
/* Returns the mean rate in bit/s at which a step carried the data of paths that were busy most of the time; 0: none
 * were. */
double by_link_seen_shown(const struct by_link_seen *seen, uint32_t step);

#endif
