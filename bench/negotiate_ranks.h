/* Negotiations for negotiate_bench: controllers in a tree by numbers, and what each
 * rank submits. Rank r hangs on rank (r - 1) / fan-out; with as many children
 * as there are other ranks, that is a star. */
#ifndef BY_BENCH_NEGOTIATE_RANKS_H
#define BY_BENCH_NEGOTIATE_RANKS_H

#include "controller.h"
#include "rng.h"

struct by_negotiate_case {
  uint32_t ranks, operations, rounds, fan_out;
  double idle;  /* seconds after the last round */
  double delay; /* of a simulated network */
};

/* Rounds after the first are by bits from the third on. */
enum { BY_NEGOTIATE_COLD = 2, BY_NEGOTIATE_OPERATIONS = 4096 /* most */ };

struct by_negotiate_result {
  uint32_t children; /* of the root */
  double cold;       /* seconds of the root's CPU for the first round, */
  double by_bits;    /* and for a later one, the mean, */
  double submitting; /* without what its own submissions take, which is this much in a later one; 0 where simulated */
  double round;      /* seconds that a later round takes */
  double handled;    /* letters that the root sends and takes in a later one, */
  double messages;   /* and that all send */
  uint64_t idle;     /* letters while nobody submits anything */
  double message;    /* seconds that a letter costs its sender and its receiver together; simulated only */
};

uint32_t by_negotiate_children(const struct by_negotiate_case *c, uint32_t rank, uint32_t *first);
/* A controller of this rank; the callbacks and their context stand in `config`. */
BANYAN_CHECK enum banyan_status by_negotiate_join(const struct by_negotiate_case *c, uint32_t rank,
                                                  struct by_controller_config *config, struct by_controller **out);
/* Submits all operations, in an order of this rank's own. */
BANYAN_CHECK enum banyan_status by_negotiate_submit(const struct by_negotiate_case *c, struct by_controller *controller,
                                                    struct by_rng *rng);

/* A process for each rank, which tell each other over local sockets. */
BANYAN_CHECK enum banyan_status by_negotiate_processes(const struct by_negotiate_case *c,
                                                       struct by_negotiate_result *out);
/* All in this process, in a model of time: what a controller does takes as long as it takes here, and a letter besides
 * as long as sending and taking one over a local socket does here; it travels for `delay`. */
BANYAN_CHECK enum banyan_status by_negotiate_simulated(const struct by_negotiate_case *c,
                                                       struct by_negotiate_result *out);
/* This process is a rank of a job, and so are the others: the library's own, with all that it does for them, which make
 * a call of what they submit. Fills in how many ranks there are. *says: this is rank 0, whose figures these are. `idle`
 * counts whatever ranks send each other meanwhile. */
BANYAN_CHECK enum banyan_status by_negotiate_in_job(struct by_negotiate_case *c, struct by_negotiate_result *out,
                                                    bool *says);

#endif
