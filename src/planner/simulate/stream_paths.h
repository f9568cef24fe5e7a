/* What every rank, helper, server and switch that adds does in one AllReduce: the schedules that src/schedule compiles.
 * Where all ranks do the same but turned round an order, as in a ring, one schedule is kept for all: a ring over 4096
 * ranks is 2 MB instead of 9 GB.
 *
 * The streams of a plan on a topology: which ranks send to which, and over which links. A stream is everything that one
 * rank sends to another; a resource is one direction of a link, or what a node's links together may send or receive.
 *
 * The cast, which is simulated: one actor for each class of ranks that are alike (often every rank is a class), their
 * streams, and the network that these share. */
#ifndef BY_PLANNER_SIMULATE_STREAM_PATHS_H
#define BY_PLANNER_SIMULATE_STREAM_PATHS_H

#include "fair.h"
#include "plan.h"
#include "schedule.h"
#include "topology.h"

struct by_roles {
  uint32_t n;                     /* ranks, and behind them helpers and the like: vertices of the plan */
  bool turned;                    /* whether all ranks run schedules[0] */
  struct by_schedule **schedules; /* n, or one */
  uint32_t *order, *position;     /* of turned roles: the rank at each position and the reverse */
  uint64_t *bounds;               /* bytes at which the pieces start, for all ranks; one more than there are pieces */
  const struct by_class *class_;
  struct by_arena arena;
};

/* Compiles the schedules. Switches and servers add and pass on as helpers do. `turn_from`: the smallest number of ranks
 * for which turning is tried; 0: the default. BANYAN_ERR_UNSUPPORTED: a group cannot be compiled, a switch does not
 * add, or it takes too much memory. The plan must outlive it. Cost: that of compiling; for a turned plan of compiling a
 * few ranks. */
BANYAN_CHECK enum banyan_status by_roles_init(struct by_roles *roles, const struct by_plan *plan,
                                              const struct by_class *class_, uint32_t turn_from);
void by_roles_fini(struct by_roles *roles);
/* Sets the bounds for a buffer of `bytes` bytes, in elements of 4. */
void by_roles_cut(struct by_roles *roles, uint64_t bytes);
static inline const struct by_schedule *by_roles_schedule(const struct by_roles *roles, uint32_t rank) {
  return roles->schedules[roles->turned ? 0 : rank];
}
/* Returns the rank of a peer, given by its index in a rank's schedule. */
uint32_t by_roles_peer(const struct by_roles *roles, uint32_t rank, uint32_t peer);
/* Returns the index of the peer `other` in a rank's schedule; UINT32_MAX: it is none. Cost: log of the peers. */
uint32_t by_roles_find_peer(const struct by_roles *roles, uint32_t rank, uint32_t other);

struct by_stream_paths {
  const struct by_roles *roles;
  uint32_t n_streams;
  uint32_t
      *first_stream; /* of each rank r: its j-th peer's stream is first_stream[r] + j, whether it sends to it or not */
  uint32_t *first;   /* n_streams + 1 indices: resources[first[s] ..] in the order of the path */
  uint32_t *resources;
  double *delay;        /* of each stream: seconds */
  uint32_t n_resources; /* 2 * links, then 2 * nodes (out, in); no path has a resource without a limit */
  double *capacity;     /* of each resource: bit/s left; 0: no limit */
  struct by_arena arena;
};

/* Finds the paths of all streams. BANYAN_ERR_PLAN: the plan does not fit the topology (plan_load.h).
 * BANYAN_ERR_UNSUPPORTED: there are too many paths. `roles` must outlive it. Cost: a search of the topology for each
 * rank that is sent to, and the paths' length. */
BANYAN_CHECK enum banyan_status by_stream_paths_init(struct by_stream_paths *paths, const struct by_roles *roles,
                                                     const struct by_plan *plan, const struct by_topology *topology);
void by_stream_paths_fini(struct by_stream_paths *paths);

/* Which ranks are alike: where all run one schedule, turned, and the network is symmetric for several of them, they do
 * everything at the same time, and one of them stands for all. */
struct by_symmetry {
  uint32_t n_rank_classes, n_resource_classes;
  uint32_t *rank_class;     /* of each rank, numbered by their first members */
  uint32_t *resource_class; /* of each resource that a stream uses; UINT32_MAX: of others */
};

struct by_cast_stream {
  uint32_t actor, peer; /* the sender, and the index of the receiver in its schedule */
  uint32_t to_actor,
      to_peer;    /* the receiver, and the index of the sender in its schedule; BY_CAST_NONE: it sends nothing */
  double delay;   /* seconds */
  uint64_t frame; /* bytes that it sends of a message before it chooses the next one */
};

struct by_cast {
  const struct by_roles *roles;
  uint32_t n_actors, n_streams;
  uint32_t *rank, *members; /* of each actor: the first rank of its class, and the number of ranks */
  uint32_t *first_stream;   /* of each actor: its j-th peer's is first_stream[a] + j */
  struct by_cast_stream *streams;
  struct by_fair_net net; /* flows are the streams; resources the classes of resources, in bytes a second */
  struct by_symmetry symmetry;
  struct by_arena arena;
};

#define BY_CAST_NONE UINT32_MAX

/* Makes the cast. The roles of `paths` must outlive it. */
BANYAN_CHECK enum banyan_status by_cast_init(struct by_cast *cast, const struct by_stream_paths *paths);
void by_cast_fini(struct by_cast *cast);

#endif
