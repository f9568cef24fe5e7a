/* Negotiations for negotiate_bench: the controllers form a tree by rank number, and each rank submits operations.
 * The tree is that of jobs without a plan (by_control_numbered_make); with a fan-out of all other ranks it is a star.
 */
#ifndef BY_BENCH_NEGOTIATE_RANKS_H
#define BY_BENCH_NEGOTIATE_RANKS_H

#include "control_tree.h"
#include "controller.h"
#include "rng.h"

struct by_negotiate_case {
  uint32_t ranks, operations, rounds;
  struct by_control_numbered shape;
  double idle;  /* seconds after the last round */
  double delay; /* delay of a simulated network */
  bool apart;   /* in a job: each operation is submitted by itself */
};

/* Rounds after the first ones use bits, from the third on. */
enum { BY_NEGOTIATE_COLD = 2, BY_NEGOTIATE_OPERATIONS = 4096 /* maximum */ };

struct by_negotiate_result {
  uint32_t children; /* number of the root's children */
  double cold;       /* the root's CPU seconds for the first round */
  double by_bits;    /* the root's mean CPU seconds for a later round, without its own submissions */
  double submitting; /* the root's CPU seconds for its own submissions in a later round; 0 if simulated */
  double process;    /* CPU seconds of its whole process for a later round, with calls and waiting; only in a job */
  double round;      /* seconds of a later round */
  double up, down;   /* messages that the root receives and sends in a later round */
  double messages;   /* messages that all ranks send in a later round */
  uint64_t idle;     /* messages while no rank submits anything */
  double message;    /* seconds that a message costs its sender and its receiver together; only if simulated */
};

uint32_t by_negotiate_children(const struct by_negotiate_case *c, uint32_t rank, uint32_t *first);
/* The numbers of all operations, in a random order. */
void by_negotiate_shuffle(const struct by_negotiate_case *c, uint32_t *order, struct by_rng *rng);
/* The names are made once, so that the time for it does not count. */
const char *by_negotiate_name(uint32_t operation);
/* Makes a controller of this rank. The callbacks and their context are in `config`. */
BANYAN_CHECK enum banyan_status by_negotiate_join(const struct by_negotiate_case *c, uint32_t rank,
                                                  struct by_controller_config *config, struct by_controller **out);
/* Submits all operations, in an order of this rank's own. */
BANYAN_CHECK enum banyan_status by_negotiate_submit(const struct by_negotiate_case *c, struct by_controller *controller,
                                                    struct by_rng *rng);

/* Runs a process for each rank, which communicate over local sockets. */
BANYAN_CHECK enum banyan_status by_negotiate_processes(const struct by_negotiate_case *c,
                                                       struct by_negotiate_result *out);
/* Runs all ranks in this process, in a model of time: the work of a controller takes as long as it takes here, plus
 * the time of sending and receiving a message over a local socket here. A message travels for `delay`. */
BANYAN_CHECK enum banyan_status by_negotiate_simulated(const struct by_negotiate_case *c,
                                                       struct by_negotiate_result *out);
/* Runs in a job of which this process is a rank: the library's own controllers start the submitted operations as
 * calls, with everything that belongs to it. Fills in the number of ranks. *reports becomes true on rank 0, whose
 * figures these are. `idle` counts all messages that ranks send each other meanwhile. */
BANYAN_CHECK enum banyan_status by_negotiate_in_job(struct by_negotiate_case *c, struct by_negotiate_result *out,
                                                    bool *reports);

#endif
