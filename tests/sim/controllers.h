/* Whole controllers of many ranks in memory. Messages are delayed and arrive in any order, except that messages between
 * the same two ranks keep their order. What starts on each rank is recorded. */
#ifndef BY_TESTS_SIM_CONTROLLERS_H
#define BY_TESTS_SIM_CONTROLLERS_H

#include "controller_parts.h"
#include "rng.h"

enum { MOST_RANKS = 72, MOST_OPERATIONS = 80, MOST_LOG = 4096 };
enum { WAITS = 1, STARTED, REFUSED };

/* A bit for each rank. */
__extension__ typedef unsigned __int128 rank_set;

static inline rank_set first_ranks(uint32_t n) {
  return ((rank_set)1 << n) - 1;
}

struct message {
  struct message *next;
  uint32_t from, to;
  size_t bytes;
  unsigned char data[];
};

/* A rank: what it has submitted, and the results. */
struct member {
  struct job *job;
  uint32_t rank;
  struct by_controller *controller;
  uint8_t state[MOST_OPERATIONS];
  uint64_t ended[MOST_OPERATIONS]; /* bytes of groups that started and that the controller takes for under way */
  uint32_t n_ended;
  uint32_t n_log;
  uint64_t log[MOST_LOG]; /* what started: a step, an operation, or the end of a group; or NOTED and a note */
};

struct job {
  uint32_t n, root;
  struct member members[MOST_RANKS];
  struct message *queues[MOST_RANKS][MOST_RANKS]; /* by sender and receiver; messages are in order */
  uint32_t under_way;
  rank_set submitted[MOST_OPERATIONS]; /* the ranks that have submitted each operation in this step */
  uint64_t handled;                    /* messages that the root has sent or received */
  bool holds;                          /* the root sends nothing, whatever it receives */
  bool ends;                           /* what has started ends before the controller's next flush */
  bool moves;                          /* at times all go over to another tree */
  uint32_t trees;                      /* so many times they were to do so */
  uint64_t now, step;
  uint32_t stalls;
  struct by_stall stall;
  char stalled[BY_OPERATION_NAME + 1];
  struct by_rng rng;
};

#define NOTED (1ull << 63)

enum shape { RANDOM_TREE, RING, STAR, SHAPES };

static const struct by_operation usual_operation = {.dtype = BANYAN_FLOAT32, .count = 1000};

/* Returns a random number less than n. */
uint32_t below(struct job *job, uint64_t n);
/* Makes a job. It fills in the configuration's ranks and callbacks, except `before`. */
struct job *make_job(uint64_t seed, uint32_t n, enum shape shape, const struct by_controller_config *usual);
void free_job(struct job *job);
/* Delivers one message, from a random sender to a random receiver. Mostly the receiver then makes progress. */
void deliver_one(struct job *job);
void flush(struct job *job, uint32_t rank);
/* The root, if there is one now, has all go over to another tree. */
void move(struct job *job, enum shape shape);
/* Delivers messages until no rank has anything to send. */
void settle(struct job *job);
/* Submits an operation under a name such as "gradient 5". */
enum banyan_status submit_as(struct job *job, uint32_t rank, uint32_t operation, const struct by_operation *what,
                             int32_t priority);
/* Submits the usual operation with this many elements. */
enum banyan_status submit(struct job *job, uint32_t rank, uint32_t operation, uint64_t count);
void expect_same_logs(const struct job *job);

#endif
