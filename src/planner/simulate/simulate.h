/* Simulates a collective over a topology: what each rank sends and when, at rates that links share fairly. It runs in
 * virtual time and is pure. */
#ifndef BY_PLANNER_SIMULATE_SIMULATE_H
#define BY_PLANNER_SIMULATE_SIMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "fail.h"
#include "plan.h"
#include "schedule.h"
#include "topology.h"

/* Max-min fair shares of resources among flows: no rate can grow unless the rate of a flow that has no more shrinks.
 * This is the fluid model of TCP on shared links (Bertsekas and Gallager, Data Networks, 6.5.2).
 *
 * A flow may stand for many equal ones, each of which gets its rate: a use's weight is how many of them one resource
 * carries. Flows start and stop; shares are computed again only for the flows that can be affected. */

struct by_fair_use {
  uint32_t resource;
  double weight; /* The number of flows that the resource carries, > 0. */
};

/* The resources that each flow uses: the uses of flow f are uses[first[f] .. first[f + 1]), each resource at most
 * once. */
struct by_fair_net {
  uint32_t n_flows, n_resources;
  uint32_t *first; /* An array of n_flows + 1 indices. */
  struct by_fair_use *uses;
  double *capacity; /* The capacity of each resource, > 0, in the unit of rates. */
};

struct by_fair {
  const struct by_fair_net *net; /* Borrowed. */
  double *rate;                  /* The share of each flow; INFINITY: it uses no resource; 0: it is stopped. */
  uint32_t n_changed;
  /* The flows whose rates the last by_fair_share changed, without those that were stopped. */
  uint32_t *changed;
  struct by_fair_work *work;
  struct by_arena arena;
};

BANYAN_CHECK enum banyan_status by_fair_init(struct by_fair *fair, const struct by_fair_net *net);
static inline void by_fair_fini(struct by_fair *fair) {
  by_arena_fini(&fair->arena);
}
/* Start and stop a flow; all are stopped at first. The shares do not change until by_fair_share. */
void by_fair_start(struct by_fair *fair, uint32_t flow);
void by_fair_stop(struct by_fair *fair, uint32_t flow);
/* Computes the shares. Cost: the uses of all flows whose shares are examined, times how often that set grows. */
void by_fair_share(struct by_fair *fair);

/* The roles are what every rank, helper, server and switch that adds does in one AllReduce: the schedules that
 * src/schedule compiles. If all ranks do the same but rotated around an order, as in a ring, one schedule is kept for
 * all: a ring over 4096 ranks needs 2 MB instead of 9 GB.
 *
 * The streams of a plan on a topology: which ranks send to which, and over which links. A stream is everything that one
 * rank sends to another. A resource is one direction of a link, or what a node's links together may send or receive.
 *
 * The cast is what is simulated: one actor for each class of equivalent ranks (often every rank is a class), their
 * streams, and the network that these share. */

struct by_roles {
  uint32_t n;   /* The number of vertices of the plan: ranks, followed by helpers, servers and switches. */
  bool rotated; /* All ranks run schedules[0], rotated. */
  struct by_schedule **schedules; /* The schedules of all vertices, or a single one. */
  uint32_t *order, *position;     /* For rotated roles: the rank at each position, and the position of each rank. */
  /* The bytes at which the pieces start, for all ranks; one more than there are pieces. */
  uint64_t *bounds;
  const struct by_class *class_;
  struct by_arena arena;
};

/* Compiles the schedules. Switches and servers add and pass on as helpers do. `rotate_from` is the smallest number of
 * ranks for which rotation is tried; 0: the default. BANYAN_ERR_UNSUPPORTED: a group cannot be compiled, a switch does
 * not add, or it takes too much memory. The plan must outlive it. Cost: that of compiling; for a rotated plan that of
 * compiling a few ranks. */
BANYAN_CHECK enum banyan_status by_roles_init(struct by_roles *roles, const struct by_plan *plan,
                                              const struct by_class *class_, uint32_t rotate_from);
void by_roles_fini(struct by_roles *roles);
/* Sets the bounds for a buffer of `bytes` bytes, in elements of 4 bytes. */
void by_roles_cut(struct by_roles *roles, uint64_t bytes);
static inline const struct by_schedule *by_roles_schedule(const struct by_roles *roles, uint32_t rank) {
  return roles->schedules[roles->rotated ? 0 : rank];
}
/* Returns the rank of a peer, given by its index in a rank's schedule. */
uint32_t by_roles_peer(const struct by_roles *roles, uint32_t rank, uint32_t peer);
/* Returns the index of the peer `other` in a rank's schedule. Returns UINT32_MAX if it is not a peer. Cost: the
 * logarithm of the number of peers. */
uint32_t by_roles_find_peer(const struct by_roles *roles, uint32_t rank, uint32_t other);

struct by_stream_paths {
  const struct by_roles *roles;
  uint32_t n_streams;
  /* The stream of rank r to its j-th peer is first_stream[r] + j, even if it sends nothing to it. */
  uint32_t *first_stream;
  uint32_t *first; /* The resources of stream s are resources[first[s] .. first[s + 1]), in the order of the path. */
  uint32_t *resources;
  double *delay; /* The delay of each stream in seconds. */
  /* The number of resources: 2 * links, followed by 2 * nodes (out, in). Paths contain only resources with a limit. */
  uint32_t n_resources;
  double *capacity; /* The residual capacity of each resource in bit/s; 0: no limit. */
  struct by_arena arena;
};

/* Finds the paths of all streams. BANYAN_ERR_PLAN: the plan does not fit the topology (plan_load.h);
 * BANYAN_ERR_UNSUPPORTED: there are too many paths. `roles` must outlive it. Cost: a search of the topology for each
 * rank that receives, and the paths' length. */
BANYAN_CHECK enum banyan_status by_stream_paths_init(struct by_stream_paths *paths, const struct by_roles *roles,
                                                     const struct by_plan *plan, const struct by_topology *topology);
static inline void by_stream_paths_fini(struct by_stream_paths *paths) {
  by_arena_fini(&paths->arena);
}

/* The classes of equivalent ranks. If all run one schedule, rotated, and the network is symmetric for several of them,
 * they do everything at the same time, and one of them stands for all. */
struct by_symmetry {
  uint32_t n_rank_classes, n_resource_classes;
  uint32_t *rank_class;     /* The class of each rank. Classes are numbered by their first members. */
  uint32_t *resource_class; /* The class of each resource that a stream uses; UINT32_MAX for others. */
};

struct by_cast_stream {
  uint32_t actor, peer; /* The sender, and the index of the receiver in its schedule. */
  /* The receiver, and the index of the sender in its schedule; BY_CAST_NONE: it sends nothing. */
  uint32_t to_actor, to_peer;
  double delay;   /* The delay in seconds. */
  uint64_t frame; /* The number of bytes that it sends of a message before it chooses the next one. */
};

struct by_cast {
  const struct by_roles *roles;
  uint32_t n_actors, n_streams;
  uint32_t *rank, *members; /* For each actor: the first rank of its class, and the number of ranks. */
  uint32_t *first_stream;   /* The stream to the j-th peer of actor a is first_stream[a] + j. */
  struct by_cast_stream *streams;
  /* The network. Its flows are the streams; its resources are the classes of resources, with capacities in bytes/s. */
  struct by_fair_net net;
  struct by_symmetry symmetry;
  struct by_arena arena;
};

#define BY_CAST_NONE UINT32_MAX

/* Makes the cast. The roles of `paths` must outlive it. */
BANYAN_CHECK enum banyan_status by_cast_init(struct by_cast *cast, const struct by_stream_paths *paths);
static inline void by_cast_fini(struct by_cast *cast) {
  by_arena_fini(&cast->arena);
}

/* The messages of one AllReduce in flight: what each stream may send next, as positions move. A state machine that is
 * notified of departures and arrivals, without time and links:
 *
 *   by_traffic_take -> a chunk is being sent -> by_traffic_leave -> it is in flight -> by_traffic_arrive
 *
 * As in the executor, steps are coupled by their positions: a step advances as far as the steps that it depends on. A
 * stream sends one chunk at a time. After each frame's worth of chunks it chooses the message of which the smallest
 * part has been sent. Chunks are sent when they are full or end a message.
 *
 * The log records how much of each resource is in use over time, in BY_USE_SLOTS equal slots. The duration need not be
 * known: when time exceeds the last slot, pairs of slots become one. */

enum { BY_USE_SLOTS = 128 };

struct by_use_log {
  uint32_t n_resources;
  double width; /* The seconds of a slot. */
  float *units; /* BY_USE_SLOTS values for each resource: rate times seconds. */
  double *rate, *since;
  struct by_arena arena;
};

BANYAN_CHECK enum banyan_status by_use_log_init(struct by_use_log *log, uint32_t n_resources);
static inline void by_use_log_fini(struct by_use_log *log) {
  by_arena_fini(&log->arena);
}
/* Changes the rate by `change` from `now` on. Time never decreases. */
void by_use_log_change(struct by_use_log *log, uint32_t resource, double now, double change);
/* Reads the use of a resource in n equal slots that end at `seconds`, into out[]: the units in each. */
void by_use_log_read(const struct by_use_log *log, uint32_t resource, double seconds, uint32_t n, double *out);

/* A chunk in flight: the part of the message that its receiver has once it arrives. */
struct by_parcel {
  uint32_t actor, in; /* The receiver, and an index into its schedule's incoming messages. */
  uint64_t upto;      /* The number of bytes of the message up to the end of this chunk. */
  uint64_t bytes;     /* The size of this chunk. */
};

struct by_traffic_stream {
  uint32_t first, last; /* The list of sends that have a chunk ready; BY_CAST_NONE: none. */
  uint32_t sending;     /* The send of the chunk that is being sent; BY_CAST_NONE: none. */
  uint64_t upto;        /* The position of the end of that chunk in bytes. */
  uint32_t last_sent;   /* The send of the current frame; BY_CAST_NONE: none. */
  uint64_t turn;        /* The number of bytes of that frame that have been sent. */
  bool woken;
};

struct by_traffic {
  const struct by_cast *cast;
  uint64_t chunk;
  uint32_t max_level; /* Steps of higher levels are left out. */
  uint64_t steps_left, n_chunks;
  /* The streams that may send and do not. by_traffic_take removes them. */
  uint32_t n_woken, *woken;
  uint64_t *first_step, *first_in; /* The indices of the first step and the first incoming message of each actor. */
  struct by_traffic_step *steps;
  uint64_t *arrived; /* The number of bytes of each incoming message that have arrived. */
  struct by_traffic_stream *streams;
  uint64_t *work; /* The steps to update: actor << 32 | step. */
  size_t n_work, allocated_work;
  bool failed; /* There was no memory for the work. */
  struct by_arena arena;
};

/* Initialises the traffic. Steps above `max_level` are left out, as if they were done and no step depended on them.
 * Streams that may send at once are woken. `cast` must outlive it. */
BANYAN_CHECK enum banyan_status by_traffic_init(struct by_traffic *traffic, const struct by_cast *cast, uint64_t chunk,
                                                uint32_t max_level);
void by_traffic_fini(struct by_traffic *traffic);
/* Starts the next chunk of an idle stream and returns its size in bytes. Returns 0 if there is none now. The stream is
 * no longer woken. */
uint64_t by_traffic_take(struct by_traffic *traffic, uint32_t stream);
/* Ends the chunk that a stream was sending and returns its parcel. Wakes the stream if there is another chunk. */
struct by_parcel by_traffic_leave(struct by_traffic *traffic, uint32_t stream);
/* Records that a chunk has arrived and was added or stored. Wakes streams. Cost: the steps that move. */
void by_traffic_arrive(struct by_traffic *traffic, const struct by_parcel *parcel);

/* Simulation of an AllReduce: the schedules that the plan compiles to, run on the topology with max-min fair shares of
 * shared links. Pure: no I/O, no clock, and equal input gives equal numbers.
 *
 *   by_simulator_init: schedules, paths, equivalent ranks -- once for a plan's class
 *   by_simulator_run:  one buffer                         -- for each size
 *
 * docs/decisions/0013-simulate-chunks-of-streams.md describes what is exact and what is left out. */

struct by_simulator {
  struct by_roles roles;
  struct by_stream_paths paths;
  struct by_cast cast;
};

/* A chunk that was carried, reported when it has left the sender. */
struct by_simulated_chunk {
  uint32_t from, to; /* The vertices of the plan; of several equivalent ones the first. */
  uint32_t stream;   /* The number of the stream in by_stream_paths. */
  double begin, end; /* The seconds at which it was sent; it arrives a delay later. */
  uint64_t bytes;
  const uint32_t *resources; /* The resources that it passed, as by_stream_paths numbers them. */
  uint32_t n_resources;
};

struct by_simulate_options {
  uint64_t chunk; /* The largest number of bytes that are sent, and passed on, at a time; 0: 64 KiB. */
  /* The seconds that a rank needs for every chunk that it receives, one after the other. */
  double chunk_cost;
  /* The approximate limit of the number of chunks to simulate; 0: 1 million. Beyond it the result is approximate. */
  uint64_t max_work;
  /* Called for each chunk; may be NULL. */
  void (*transfer)(void *context, const struct by_simulated_chunk *transfer);
  void *context;
};

/* The result. Free it with by_simulation_fini. */
struct by_simulation {
  uint64_t bytes; /* The size of the buffer. */
  double seconds; /* The seconds until the last rank has the result. */
  uint64_t chunk; /* The largest number of bytes that are sent at a time. */
  /* If this is larger than `chunk`, two larger sizes were simulated, and `seconds` is extrapolated from them. */
  uint64_t simulated_chunk;
  uint64_t work; /* The number of simulated chunks. */
  /* The number of simulated ranks and helpers. There are fewer than vertices if some are equivalent. */
  uint32_t n_actors;
  /* The number of rounds of messages, and how many of them were simulated; the others are extrapolated. */
  uint32_t levels, run;
  double use_seconds;         /* The seconds that the simulated rounds took, which `use` covers. */
  uint32_t n_resources;       /* The number of resources of the cast's network. */
  double *carried;            /* The bytes that each resource carried, in `run` rounds extended to all. */
  struct by_use_log use;      /* The bytes over time of each resource. */
  const struct by_cast *cast; /* The cast of the simulator. */
};

/* Compiles the schedules and finds the paths. Borrows the plan. BANYAN_ERR_PLAN: it does not fit the topology;
 * BANYAN_ERR_UNSUPPORTED: it names switches that do not add, or is too large. */
BANYAN_CHECK enum banyan_status by_simulator_init(struct by_simulator *simulator, const struct by_plan *plan,
                                                  const struct by_class *class_, const struct by_topology *topology,
                                                  uint32_t rotate_from);
void by_simulator_fini(struct by_simulator *simulator);
/* Runs one buffer of `bytes` bytes. The simulator must outlive the simulation. Cost: the chunks, and for each chunk
 * that begins or ends a burst of its stream the shares of the streams on the same links. */
BANYAN_CHECK enum banyan_status by_simulator_run(struct by_simulator *simulator, uint64_t bytes,
                                                 const struct by_simulate_options *options, struct by_simulation *out);
void by_simulation_fini(struct by_simulation *simulation);
/* Returns the class of a resource (as by_stream_paths numbers them), which indexes `carried`. Returns UINT32_MAX if no
 * stream uses it. */
static inline uint32_t by_simulation_class(const struct by_simulation *simulation, uint32_t resource) {
  return simulation->cast->symmetry.resource_class[resource];
}

#endif
