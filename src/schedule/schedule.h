/* A schedule: what one rank does for one kind of call under one plan. Immutable, in one arena, a pure function of (plan
 * class, collective, root, rank). Sizes affect only the bounds of the pieces, so it serves every count. The executor
 * runs it, the checker proves it.
 *
 * The buffer is cut into pieces; bounds[i] is the byte where piece i starts in the call's layout. A step processes the
 * bytes of pieces [first, last) from low to high; its position is the byte it has reached. A step's position never
 * overtakes that of an unfinished step on which it depends. So data flows in chunks that the schedule does not mention.
 */
#ifndef BY_SCHEDULE_SCHEDULE_H
#define BY_SCHEDULE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <banyan/types.h>

#include "arena.h"
#include "collective.h"
#include "plan.h"
#include "text.h"

/* The largest number of messages that one REDUCE folds; more children need several steps. */
enum { BY_SCHEDULE_MAX_IN = 64 };

/* The value of by_step.own if there is no own operand, as for a helper's first sum. */
#define BY_NO_OWN UINT16_MAX

/* The part of a class that a schedule is for: all groups, those that have only ranks, or the group of this number.
 * APART means all groups with a separate message for each block on an edge of a tree; otherwise all blocks on an edge
 * are one message, in which each block waits for those before it. */
#define BY_PART_ALL UINT32_MAX
#define BY_PART_PLAIN (UINT32_MAX - 1)
#define BY_PART_APART (UINT32_MAX - 2)

/* The buffers of a call. Byte x of the layout is at buffer + x - bounds[origin[b]]. */
enum by_buffer { BY_BUFFER_SEND, BY_BUFFER_RECV, BY_BUFFER_TMP, BY_BUFFERS };

enum by_step_kind {
  BY_STEP_SEND,    /* Sends message `tag` to `peer` from buffer `from`. */
  BY_STEP_RECEIVE, /* Receives message incoming[in] into buffer `to`. */
  BY_STEP_REDUCE,  /* Reduces `from` and the messages incoming[in .. in + n_in) into `to`. */
  BY_STEP_COPY,    /* Copies `from` to `to`. */
};

struct by_step {
  uint8_t kind, from, to; /* Values of enum by_step_kind and enum by_buffer. */
  uint8_t divide;         /* REDUCE and COPY divide the result by the number of ranks if the operation is an average. */
  uint8_t copied;         /* SEND ends without waiting until the receiver consumes the message, as in an exchange. */
  uint16_t own;           /* The index of REDUCE's own operand in the fold, 0 .. n_in, or BY_NO_OWN. */
  /* The largest number of messages in sequence before this one. Determines the order, and is displayed. */
  uint16_t level;
  uint32_t first, last;  /* Pieces of the layout. */
  uint32_t from_first;   /* The first piece in `from` of SEND and COPY. It differs from `first` only in alltoall. */
  uint32_t peer, tag;    /* The index into peers of SEND, and the number of the message to that peer. */
  uint32_t in, n_in;     /* The messages of RECEIVE (n_in = 1) and REDUCE (at most BY_SCHEDULE_MAX_IN). */
  uint32_t dep, n_dep;   /* The earlier steps on which it depends are deps[dep .. dep + n_dep). */
  uint32_t next, n_next; /* The steps that depend on it are nexts[next .. next + n_next). */
};

struct by_incoming {
  uint32_t peer, tag; /* The index into peers, and the number of the message from that peer. */
  uint32_t step;      /* The step that consumes the message. */
  uint32_t first, last;
};

struct by_peer {
  uint32_t rank;  /* The peer's rank. A helper has the number of its vertex, which is n_ranks or more. */
  uint32_t n_out; /* The number of messages to the peer, whose tags are 0 .. n_out - 1. */
  /* Messages from the peer. Message `tag` has the index lookup[first_in + tag] in incoming. */
  uint32_t first_in, n_in;
};

struct by_schedule {
  enum banyan_collective collective;
  uint32_t n_ranks, rank, root; /* `rank` is a helper's vertex if the schedule is a helper's. */
  uint32_t n_pieces;
  double *cut; /* The n_pieces + 1 fractions 0 .. 1 of the whole buffer in a share layout; NULL in a block layout. */
  /* In a block layout, rank r's block is pieces block[r] .. block[r + 1] - 1. There are n_ranks + 1 elements. */
  uint32_t *block;
  double *block_cut; /* The fraction of its block at which each piece starts; 0 for the first piece of a block. */
  uint32_t origin[BY_BUFFERS];
  bool needs_tmp; /* The schedule needs scratch memory for the pieces from origin[BY_BUFFER_TMP] to tmp_last. */
  uint32_t tmp_last;
  uint32_t n_steps, n_incoming, n_peers, n_deps, n_nexts;
  struct by_step *steps; /* Each step follows the steps on which it depends. */
  struct by_incoming *incoming;
  struct by_peer *peers; /* Peers sorted by rank. */
  uint32_t *lookup;      /* n_incoming elements */
  uint32_t *deps, *nexts;
  uint32_t plan_version;
  struct by_arena arena;
};

/* Compiles a schedule. `root` matters for reduce, broadcast, gather, scatter. `rank` may be the vertex of a helper or a
 * server. Memory grows with this rank's own messages, time with the pieces in them, not with n squared.
 * BANYAN_ERR_UNSUPPORTED: a tree contains a switch (see by_plan_without_switches), or a helper or server that the
 * collective cannot use: servers are for allreduce; for helpers see base/collective.h. by_plan_among_ranks makes a plan
 * that always runs. */
BANYAN_CHECK enum banyan_status by_schedule_compile(const struct by_plan *plan, const struct by_class *class_,
                                                    enum banyan_collective collective, uint32_t root, uint32_t rank,
                                                    struct by_schedule **out);
/* Compiles a part of the class (BY_PART_ALL, ...), whose messages have a version of their own; all ranks must compile
 * the same part. The layout is that of the whole. */
BANYAN_CHECK enum banyan_status by_schedule_compile_part(const struct by_plan *plan, const struct by_class *class_,
                                                         uint32_t part, uint32_t version,
                                                         enum banyan_collective collective, uint32_t root,
                                                         uint32_t rank, struct by_schedule **out);
/* Returns the part for a buffer of this many bytes: BY_PART_APART if sums have blocks so large that a message for each
 * costs little; otherwise BY_PART_ALL. */
uint32_t by_schedule_part(const struct by_plan *plan, const struct by_class *class_, enum banyan_collective collective,
                          uint64_t bytes);
void by_schedule_destroy(struct by_schedule *schedule);

/* Fills bounds[0 .. n_pieces] in bytes. `count` is the call's (see banyan/collectives.h: of the whole, or of one
 * block), `counts` are those of the blocks if they differ, else NULL. Cuts are multiples of 64 bytes if pieces are that
 * large, and always of whole elements. */
void by_schedule_bounds(const struct by_schedule *schedule, size_t count, const size_t *counts, size_t element,
                        uint64_t *bounds);

/* Prints the schedule for users, one line for each step. */
void by_schedule_print(const struct by_schedule *schedule, struct by_text *text);
/* Prints the schedule as one line of JSON without a newline. */
void by_schedule_print_json(const struct by_schedule *schedule, struct by_text *text);

#endif
