/* A world of ranks in one thread, with an engine each, simulated links and virtual time. Calls are described by struct
 * operation. Every rank makes the same operations in the same order, each starting them at its own times. */
#ifndef BY_TESTS_SIM_WORLD_H
#define BY_TESTS_SIM_WORLD_H

#include "engine.h"
#include "rng.h"
#include "simulated_lanes.h"

enum { WORLD_MOST = 40, OPERATIONS_MOST = 16 };

struct by_plan;

struct operation {
  struct banyan_call call; /* buffers are filled in */
  size_t counts[WORLD_MOST];
  bool in_place;
};

struct node {
  struct world *world;
  uint32_t rank;
  struct by_engine *engine;
  struct by_team *team;
  uint32_t started; /* number of started operations */
  struct by_call *calls[OPERATIONS_MOST];
  char *send[OPERATIONS_MOST], *recv[OPERATIONS_MOST];
  bool dead;
  bool learns[WORLD_MOST]; /* the node will learn some time soon that this helper is gone */
};

struct world {
  struct by_sim *sim;
  struct by_rng rng;
  uint64_t seed;
  uint32_t n, n_operations;
  uint32_t n_helpers; /* nodes with numbers after the ranks */
  bool rough;         /* values of floating types are not exact, and all ranks must have the same bits */
  struct operation operations[OPERATIONS_MOST];
  struct node nodes[WORLD_MOST];
  uint64_t turns;
  /* A link has a random number of lanes up to this one, each with its own speed. 1 after init. */
  uint32_t most_lanes;
  uint32_t kill_rank; /* UINT32_MAX: none */
  uint64_t kill_turn;
  uint32_t deaths; /* number of further helpers to be killed, each some time after the one before */
  /* Makes the fabric to a process after the ranks. NULL: these processes have lanes. */
  struct by_fabric *(*fabric)(void *context, uint32_t rank);
  /* Returns when something happens in the fabric. NULL: never. */
  uint64_t (*next)(void *context);
  void *fabric_context;
  /* Does more at each node's turn and returns true if it did. May be NULL. */
  bool (*take_turn)(void *context, struct node *node);
  void *turn_context;
};

/* Chooses options of links and engines, from ideal to difficult. */
void world_options(uint64_t seed, struct by_sim_options *net, struct by_engine_options *engine);
/* Initialises a world. `plan` is the name of a built-in plan. Fails the test on any error. */
void world_init(struct world *world, uint32_t n, const char *plan, const struct by_sim_options *net,
                const struct by_engine_options *engine, uint64_t seed);
/* Initialises a world with helpers. `plan` makes every node's plan. */
void world_init_helped(struct world *world, uint32_t n, uint32_t n_helpers, struct by_plan *(*plan)(void *context),
                       void *context, const struct by_sim_options *net, const struct by_engine_options *engine,
                       uint64_t seed);
/* Adds a helper after all nodes that exist, including dead ones. Returns its node. It knows no plan yet. */
uint32_t world_add_helper(struct world *world, const struct by_engine_options *engine);
void world_fini(struct world *world);
/* Starts and finishes all operations on all ranks. Returns false if there is no more progress although calls are
 * pending. */
bool world_run(struct world *world);
/* Compares every element of every rank's result with the expected value. */
void world_check(struct world *world);
/* Frees calls and buffers, so that other operations can follow. */
void world_clear(struct world *world);

#endif
