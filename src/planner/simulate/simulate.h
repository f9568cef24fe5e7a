/* Simulation of an AllReduce: the schedules that the plan compiles to, run on the topology with max-min fair shares of
 * shared links. Pure: no I/O, no clock, and the same input gives the same numbers.
 *
 *   by_simulator_init: schedules, paths, which ranks are alike -- once for a plan's class
 *   by_simulator_run:  one buffer                    -- for each size
 *
 * docs/decisions/0013-simulate-chunks-of-streams.md describes what is exact and what is left out. */
#ifndef BY_PLANNER_SIMULATE_SIMULATE_H
#define BY_PLANNER_SIMULATE_SIMULATE_H

#include "stream_paths.h"
#include "traffic.h"

struct by_simulator {
  struct by_roles roles;
  struct by_stream_paths paths;
  struct by_cast cast;
};

/* A chunk that was carried, reported when it has left the sender. */
struct by_simulated_chunk {
  uint32_t from, to; /* vertices of the plan; of several that are alike the first */
  uint32_t stream;   /* as by_stream_paths numbers them */
  double begin, end; /* seconds; it arrives a delay later */
  uint64_t bytes;
  const uint32_t *resources; /* the n_resources that it passed, as by_stream_paths numbers them */
  uint32_t n_resources;
};

struct by_simulate_options {
  uint64_t chunk;    /* the largest number of bytes that are sent, and passed on, at a time; 0: 64 KiB */
  double chunk_cost; /* seconds that a rank spends on every chunk that it receives, one after the other */
  uint64_t max_work; /* the largest number of chunks to simulate, nearly; 0: 1 million. Beyond it the result is
                        approximate. */
  void (*transfer)(void *context, const struct by_simulated_chunk *transfer); /* called for each chunk, or NULL */
  void *context;
};

/* The result; freed by by_simulation_fini. */
struct by_simulation {
  uint64_t bytes;           /* size of the buffer */
  double seconds;           /* until the last rank has the result */
  uint64_t chunk;           /* the largest number of bytes that are sent at a time */
  uint64_t simulated_chunk; /* larger than `chunk`: two larger sizes were simulated, and `seconds` is extrapolated from
                               them */
  uint64_t work;            /* number of simulated chunks */
  uint32_t n_actors;        /* number of simulated ranks and helpers; fewer than there are if some are alike */
  uint32_t levels, run;     /* rounds of messages; how many of them were simulated: the rest is extrapolated */
  double use_seconds;       /* how long the simulated rounds took: the time that `use` covers */
  uint32_t n_resources;     /* of the cast's network */
  double *carried;          /* bytes that each resource carried, in `run` rounds extended to all */
  struct by_use_log use;    /* of each resource, bytes over time */
  const struct by_cast *cast; /* the simulator's */
};

/* Compiles the schedules and finds the paths. Borrows the plan. BANYAN_ERR_PLAN: it does not fit the topology;
 * BANYAN_ERR_UNSUPPORTED: it names switches that do not add, or is too large. */
BANYAN_CHECK enum banyan_status by_simulator_init(struct by_simulator *simulator, const struct by_plan *plan,
                                                  const struct by_class *class_, const struct by_topology *topology,
                                                  uint32_t turn_from);
void by_simulator_fini(struct by_simulator *simulator);
/* Runs one buffer of `bytes` bytes. The simulator must outlive the simulation. Cost: the chunks, and for each that
 * begins or ends a burst of its stream the shares of the streams on the same links. */
BANYAN_CHECK enum banyan_status by_simulator_run(struct by_simulator *simulator, uint64_t bytes,
                                                 const struct by_simulate_options *options, struct by_simulation *out);
void by_simulation_fini(struct by_simulation *simulation);
/* Returns the class of a resource (as by_stream_paths numbers them), which indexes `carried`; UINT32_MAX: none. */
static inline uint32_t by_simulation_class(const struct by_simulation *simulation, uint32_t resource) {
  return simulation->cast->symmetry.resource_class[resource];
}

#endif
