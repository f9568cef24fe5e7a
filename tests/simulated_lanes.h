/* Lanes in memory, for whole runs of many ranks in one thread: a virtual
 * clock, bandwidth, delay, loss (a lost frame arrives after a retransmission
 * time, as over TCP), small buffers, and death, all from one seed.
 *
 * The network owns the time. by_sim_step() moves it to the next arrival. */
#ifndef BY_TESTS_SIMULATED_LANES_H
#define BY_TESTS_SIMULATED_LANES_H

#include "clock.h"
#include "lane.h"

struct by_sim;

struct by_sim_options {
  uint64_t seed;
  uint64_t delay, jitter; /* nanoseconds one way; jitter is added at random, order is kept */
  double loss;            /* probability that a frame needs the retransmission time */
  uint64_t retransmit;    /* nanoseconds; 0: 200 ms */
  double bandwidth;       /* bit/s of every direction of every link; 0: unlimited */
  size_t buffer;          /* bytes under way on a direction before send() returns BY_LANE_FULL; 0: 64 KiB */
  size_t frame_bytes;     /* 0: 16 KiB */
  bool split;             /* payloads become visible in random parts */
  double keeps;           /* probability that a payload is kept until flush() */
  bool holds;             /* frames without payload, and some small ones, wait for others or for flush() */
  size_t offer_from;      /* 0: memory is not read; else messages from this size on are offered */
  double pull_fails;      /* probability that this pull, and all later ones at this end, are not permitted */
  size_t in_place_from;   /* 0: never; else messages from this size on are read in the sender's memory on arrival */
};

BANYAN_CHECK enum banyan_status by_sim_create(const struct by_sim_options *options, struct by_sim **out);
/* After all lanes have been destroyed. */
void by_sim_destroy(struct by_sim *sim);
/* The virtual time; hand it to the engines. Lives as long as the network. */
struct by_clock by_sim_clock(struct by_sim *sim);
/* A link between two ranks: both ends' lanes, owned by the caller's engines. */
BANYAN_CHECK enum banyan_status by_sim_link(struct by_sim *sim, struct by_lane **a, struct by_lane **b);
/* Gives a link, both ways, a delay and bandwidth of its own; one of its ends will do. */
void by_sim_shape(struct by_lane *lane, uint64_t delay, double bandwidth);
/* Moves time to the next arrival; false when nothing is under way. */
bool by_sim_step(struct by_sim *sim);
/* The same, or to `most`, when something else happens, if that comes first; UINT64_MAX: nothing else does. */
bool by_sim_step_to(struct by_sim *sim, uint64_t most);
/* The rank at this end dies: what it sent still arrives, then the other end fails. */
void by_sim_kill(struct by_lane *lane);

#endif
