/* Lanes in memory, for whole runs of many ranks in one thread. A seed determines the virtual clock, bandwidth, delay,
 * loss (a lost frame arrives after a retransmission time, as over TCP), small buffers, and death.
 *
 * The network owns the time. by_sim_step() advances it to the next arrival. */
#ifndef BY_TESTS_SIMULATED_LANES_H
#define BY_TESTS_SIMULATED_LANES_H

#include "clock.h"
#include "lane.h"

struct by_sim;

struct by_sim_options {
  uint64_t seed;
  uint64_t delay, jitter; /* nanoseconds one way; jitter is added at random, and the order is kept */
  double loss;            /* probability that a frame needs the retransmission time */
  uint64_t retransmit;    /* nanoseconds; 0: 200 ms */
  double bandwidth;       /* bit/s of every direction of every link; 0: unlimited */
  size_t buffer;          /* bytes under way on a direction before send() returns BY_LANE_FULL; 0: 64 KiB */
  size_t frame_bytes;     /* 0: 16 KiB */
  bool split;             /* payloads become visible in random parts */
  double keeps;           /* probability that a payload is kept until flush() */
  bool holds;             /* frames without payload, and some small frames, wait for others or for flush() */
  size_t offer_from;      /* messages from this size on are offered; 0: memory is not read */
  double map_fails;       /* probability that this mapping, and all later ones at this end, are not permitted */
  size_t in_place_from;   /* messages from this size on are read in the sender's memory on arrival; 0: never */
};

BANYAN_CHECK enum banyan_status by_sim_create(const struct by_sim_options *options, struct by_sim **out);
/* Destroys the network after all its lanes have been destroyed. */
void by_sim_destroy(struct by_sim *sim);
/* For the engines' option `locate`, where messages are to be offered: all memory counts as shared. */
void by_sim_locate(void *context, const void *memory, size_t bytes, struct by_offer *offer);
/* Returns the virtual time, for the engines. It lives as long as the network. */
struct by_clock by_sim_clock(struct by_sim *sim);
/* Makes a link between two ranks: both ends' lanes, which the caller's engines own. */
BANYAN_CHECK enum banyan_status by_sim_link(struct by_sim *sim, struct by_lane **a, struct by_lane **b);
/* Gives a link its own delay and bandwidth in both directions. Either of its ends may be passed. */
void by_sim_shape(struct by_lane *lane, uint64_t delay, double bandwidth);
/* Advances the time to the next arrival. Returns false when nothing is under way. */
bool by_sim_step(struct by_sim *sim);
/* The same, but advances the time at most to `most`, when something else happens. UINT64_MAX: nothing else happens. */
bool by_sim_step_to(struct by_sim *sim, uint64_t most);
/* Kills the rank at this end. What it sent still arrives, and then the other end fails. */
void by_sim_kill(struct by_lane *lane);

#endif
