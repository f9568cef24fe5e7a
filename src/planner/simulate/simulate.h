/* Simulation of an AllReduce: the schedules that the plan compiles to, run on
 * the topology with max-min fair shares for what shares links. Pure: no I/O, no
 * clock, and the same input gives the same numbers.
 *
 *   by_simulator_init: schedules, ways, which ranks are alike -- once for a plan's class
 *   by_simulator_run:  one buffer                    -- for each size
 *
 * docs/decisions/0013-simulate-chunks-of-streams.md describes what is exact and
 * what is left out. */
#ifndef BY_PLANNER_SIMULATE_SIMULATE_H
#define BY_PLANNER_SIMULATE_SIMULATE_H

#include "traffic.h"
#include "ways.h"

struct by_simulator {
  struct by_roles roles;
  struct by_ways ways;
  struct by_cast cast;
};

/* A chunk that was carried, reported when it has left the sender. */
struct by_simulated_chunk {
  uint32_t from, to; /* vertices of the plan; of several that are alike the first */
  uint32_t stream;   /* as by_ways numbers them */
  double begin, end; /* seconds; it arrives a delay later */
  uint64_t bytes;
  const uint32_t *resources; /* n_resources it passed, as by_ways numbers them */
  uint32_t n_resources;
};

struct by_simulate_options {
  uint64_t chunk;     /* most bytes that are sent, and passed on, at a time; 0: 64 KiB */
  double chunk_cost;  /* seconds a rank takes for every chunk that it receives, one after the other */
  uint64_t most_work; /* chunks to simulate at most, nearly; 0: 1 million. Beyond it the answer is approximate. */
  void (*transfer)(void *context, const struct by_simulated_chunk *transfer); /* NULL: nobody wants to know */
  void *context;
};

/* What came out; emptied by by_simulation_fini. */
struct by_simulation {
  uint64_t bytes;             /* of the buffer */
  double seconds;             /* until the last rank has everything */
  uint64_t chunk;             /* most bytes that are sent at a time */
  uint64_t simulated_chunk;   /* where larger: two of more bytes were simulated, and lead to `seconds` */
  uint64_t work;              /* chunks simulated */
  uint32_t n_actors;          /* ranks and helpers simulated; fewer than there are if some are alike */
  uint32_t levels, run;       /* rounds of messages; how many of them were simulated: the rest is extrapolated */
  double use_seconds;         /* how long that took: the time that `use` covers */
  uint32_t n_resources;       /* of the cast's network */
  double *carried;            /* bytes of each of these, in `run` rounds extended to all */
  struct by_use_log use;      /* of each, bytes over time */
  const struct by_cast *cast; /* the simulator's */
};

/* Compiles and finds the ways. Borrows the plan. BANYAN_ERR_PLAN: it does not fit the topology;
 * BANYAN_ERR_UNSUPPORTED: it names switches that do not add, or is too large. */
BANYAN_CHECK enum banyan_status by_simulator_init(struct by_simulator *simulator, const struct by_plan *plan,
                                                  const struct by_class *class_, const struct by_topology *topology,
                                                  uint32_t turn_from);
void by_simulator_fini(struct by_simulator *simulator);
/* Runs one buffer of so many bytes. The simulator must outlive the simulation. Cost: the chunks, and for each that
 * begins or ends a burst of its stream the shares of those that it shares links with. */
BANYAN_CHECK enum banyan_status by_simulator_run(struct by_simulator *simulator, uint64_t bytes,
                                                 const struct by_simulate_options *options, struct by_simulation *out);
void by_simulation_fini(struct by_simulation *simulation);
/* Bytes that a resource (as by_ways numbers them) carried; UINT32_MAX of by_simulation_class: none. */
static inline uint32_t by_simulation_class(const struct by_simulation *simulation, uint32_t resource) {
  return simulation->cast->symmetry.resource_class[resource];
}

#endif
