/* A world of ranks in one thread: an engine each, simulated links, virtual
 * time. Calls are described by struct operation; every rank does the same operations in
 * the same order, each starting them at moments of its own. */
#ifndef BY_TESTS_SIM_WORLD_H
#define BY_TESTS_SIM_WORLD_H

#include "engine.h"
#include "rng.h"
#include "simulated_lanes.h"

enum { WORLD_MOST = 40, DEEDS_MOST = 16 };

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
  uint32_t started; /* operations */
  struct by_call *calls[DEEDS_MOST];
  char *send[DEEDS_MOST], *recv[DEEDS_MOST];
  bool dead;
  bool learns[WORLD_MOST]; /* that this helper is gone, some time soon */
};

struct world {
  struct by_sim *sim;
  struct by_rng rng;
  uint64_t seed;
  uint32_t n, n_operations;
  uint32_t n_helpers; /* nodes behind the ranks */
  bool rough;         /* values of floating types are not exact: all ranks must have the same bits */
  struct operation operations[DEEDS_MOST];
  struct node nodes[WORLD_MOST];
  uint64_t turns;
  uint32_t
      most_lanes; /* a link has a random number of them up to this one, each with a speed of its own; 1 after init */
  uint32_t kill_rank; /* UINT32_MAX: nobody */
  uint64_t kill_turn;
  uint32_t deaths; /* more helpers to be killed, each some time after the one before */
  struct by_fabric *(*fabric)(void *through,
                              uint32_t rank); /* to any process behind the ranks; NULL: there are lanes */
  uint64_t (*next)(void *through);            /* when something happens there; NULL: nothing ever does */
  void *through;
  bool (*visit)(void *incoming, struct node *node); /* does more at each node's turn: true if it did; may be NULL */
  void *incoming;
};

/* How many seeds to try: BANYAN_TEST_SEEDS, or as many as usual. */
uint64_t world_seeds(uint64_t usual);
/* Links and engines of any kind, from fine to troublesome. */
void world_options(uint64_t seed, struct by_sim_options *net, struct by_engine_options *engine);
/* `plan` is a built-in's name. Fails the test on any error. */
void world_init(struct world *world, uint32_t n, const char *plan, const struct by_sim_options *net,
                const struct by_engine_options *engine, uint64_t seed);
/* The same with helpers; every node's plan is made by `plan`. */
void world_init_helped(struct world *world, uint32_t n, uint32_t n_helpers, struct by_plan *(*plan)(void *context),
                       void *context, const struct by_sim_options *net, const struct by_engine_options *engine,
                       uint64_t seed);
/* One that comes later, behind those that are there, dead ones too: its node. It knows no plan yet. */
uint32_t world_add_helper(struct world *world, const struct by_engine_options *engine);
void world_fini(struct world *world);
/* Starts and finishes all operations on all ranks. False: nothing moves any more although calls are pending. */
bool world_run(struct world *world);
/* Compares every element of every rank's result with what it must be. */
void world_check(struct world *world);
/* Gives calls and buffers back, so that other operations can follow. */
void world_clear(struct world *world);

#endif
