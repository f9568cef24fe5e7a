/* What links are seen to carry. Links between switches have no counters, and no host knows that a link it is not at
 * has become slow. But connections over it were then busy and got little. So:
 *
 *   A path (a job's connections from one host to another) that had something to send for a part of the time has, on
 *   each link of its way, at least as much to itself and all others together as was seen to pass there, in that part.
 *   Where that is much less than the link carries, on all of its way, some link of it carries less.
 *   Not one over which another path was faster, nor one whose rate an agent reports, if not several paths over it are
 *   slow. Of the rest, those with most slow paths over them; of those with as many, the ones of which no agent reports.
 *   A job that gives way to a higher class on its way shows nothing: it may wait for that, or for TCP to try again.
 *
 * It is believed once one path has seen it three times, or two over the same link, of which no host has both, twice;
 * of the link's other direction once is enough then. A link carries more again when more is seen to pass, or, as it may
 * be that nobody tries, after a while, which is longer each time. */
#ifndef BY_TOPOLOGY_LINK_SEEN_H
#define BY_TOPOLOGY_LINK_SEEN_H

#include <sys/queue.h>

#include "topology_paths.h"

/* The ways of packets, kept by destination: each is searched for once, the first time that it is asked for, and not
 * many at a time. Bounded in memory. */
struct by_link_ways {
  struct by_paths paths;
  struct by_next_hop *hops; /* of the search under way */
  uint32_t **steps;         /* of each destination: by which step packets leave each node; NULL: not kept */
  uint32_t *kept;           /* destinations, a ring: the oldest at `oldest` once there are `most` */
  uint32_t n, most, oldest;
  uint32_t searches, searched; /* that may be made until the next by_link_ways_allow; that ever were */
};

/* The topology must outlive it. by_link_ways_fini is right after an error too. */
BANYAN_CHECK enum banyan_status by_link_ways_init(struct by_link_ways *ways, const struct by_topology *topology);
void by_link_ways_fini(struct by_link_ways *ways);
/* Lets it search again, for as many destinations as take some milliseconds. */
void by_link_ways_allow(struct by_link_ways *ways);
/* The steps (2 * link + direction) from one node to another; none: there is no way. The caller frees *steps. False: it
 * is to be asked again after by_link_ways_allow. */
bool by_link_ways_find(struct by_link_ways *ways, uint32_t from, uint32_t to, uint32_t **steps, uint32_t *n);

/* ---- paths */

/* What the connections from one host to another were seen to do since the report before. */
struct by_seen_rate {
  double sent;      /* bit/s */
  double busy;      /* for this part of the time there was something to be sent that the network had not taken yet */
  double bandwidth; /* bit/s while that was so; 0: not known, or as much went as there was to go */
};

/* Reports in a row of which the same is so. */
struct by_seen_row {
  uint32_t n;
  double last; /* when */
};

/* A job's connections from one host to another, as last reported. */
struct by_seen_path {
  LIST_ENTRY(by_seen_path) entry;
  const void *owner;
  uint32_t from, to; /* nodes */
  bool routed;       /* its way is known: */
  uint32_t n_steps, *steps;
  double trip;                  /* s, there and back over that way */
  double sent, busy, bandwidth; /* on links, with headers; see struct by_seen_rate */
  double named, notified;       /* when; notified: with values that were new */
  bool news;                    /* they were not looked at yet */
  struct by_seen_row slow;      /* reports in which all of its way was slower than it is taken to be, */
  struct by_seen_row more;      /* and in which a lowered link of it carried more */
  bool believed;                /* while all are looked at: it is slow */
};

/* Those that one reporter has named; link_seen.c alone changes it. All zero: none. */
LIST_HEAD(by_seen_paths, by_seen_path);
void by_seen_paths_free(struct by_seen_paths *paths);

/* ---- links */

/* What the owner takes one direction of a link to carry, in bit/s. */
struct by_seen_step {
  double stated;    /* by the topology, or whoever knows the cable's rate */
  double seen;      /* what it is seen to carry, as set_rate gave it; INFINITY: no less */
  double carries;   /* of both the less */
  double of_others; /* that others send there, of whom there are no paths */
  bool notified;    /* somebody at its end states what it carries */
};

struct by_seen_events {
  /* Fills in all steps, 2 * link + direction. The ways of all paths are known by then. */
  void (*view)(void *context, struct by_seen_step *steps);
  /* Calls `visit` with the paths of each reporter that counts. */
  void (*for_paths)(void *context, void (*visit)(void *seen, struct by_seen_paths *paths), void *seen);
  /* Whether the path may wait for others that go first. */
  bool (*gives_way)(void *context, const struct by_seen_path *path);
  /* The step is seen to carry this from now on; INFINITY: what is stated. */
  void (*set_rate)(void *context, uint32_t step, double rate);
  void *context;
};

struct by_link_seen;

/* The topology must outlive it. `interval`: seconds from one report to the next. */
BANYAN_CHECK enum banyan_status by_link_seen_create(const struct by_topology *topology, double interval,
                                                    const struct by_seen_events *events, struct by_link_seen **out);
/* NULL is allowed. The paths stay their owner's. */
void by_link_seen_destroy(struct by_link_seen *seen);
/* The topology with the links of each node. */
const struct by_paths *by_link_seen_paths(const struct by_link_seen *seen);
/* The ways of packets through it. */
struct by_link_ways *by_link_seen_ways(struct by_link_seen *seen);
/* Seconds, from any beginning; they never go back. Before reports, and by by_link_seen_tick. */
void by_link_seen_set_time(struct by_link_seen *seen, double now);
/* One path of a report; the same `from` in all of a list's. */
void by_link_seen_report(struct by_link_seen *seen, struct by_seen_paths *paths, const void *owner, uint32_t from,
                         uint32_t to, const struct by_seen_rate *rate);
/* After the last one: paths that were not named carry nothing now, and what was seen before still counts for a while.
 */
void by_link_seen_end_report(struct by_link_seen *seen, struct by_seen_paths *paths);
/* Whether it was reported of late. */
bool by_link_seen_is_fresh(const struct by_link_seen *seen, const struct by_seen_path *path);
/* Looks at what was reported, and lowers or raises links. */
void by_link_seen_tick(struct by_link_seen *seen, double now);
/* What a step carries by paths that filled it for most of the time, as it took their bytes on average, bit/s; 0: none
 * did. */
double by_link_seen_shown(const struct by_link_seen *seen, uint32_t step);

#endif
