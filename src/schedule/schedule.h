/* A schedule: what one rank does for one kind of call under one plan.
 * Immutable, in one arena, a pure function of (plan class, collective, root,
 * rank); sizes enter only through the bounds of the pieces, so it serves every
 * count. Run by the executor, proved by the checker.
 *
 * The buffer is cut into pieces; bounds[i] is the byte where piece i starts in
 * the call's layout. A step works on the bytes of pieces [first, last) from
 * low to high and may be anywhere in between: its position. Steps depend on
 * steps: a step's position never overtakes that of an unfinished step it
 * depends on. So chunks flow without standing in the schedule. */
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

/* Most messages that one REDUCE folds; more children take several steps. */
enum { BY_SCHEDULE_MOST_IN = 64 };

/* Place of the own operand where there is none: a helper's first sum. */
#define BY_NO_OWN UINT16_MAX

/* Which groups of a class a schedule is for: all, those of ranks alone, or the one of this number. Or all, with a
 * message for each block that goes over an edge of a tree, where otherwise all blocks that do are one message, each of
 * which waits for those before it. */
#define BY_PART_ALL UINT32_MAX
#define BY_PART_PLAIN (UINT32_MAX - 1)
#define BY_PART_APART (UINT32_MAX - 2)

/* Where bytes live. Byte x of the layout is at buffer + x - bounds[origin[b]]. */
enum by_buffer { BY_BUFFER_SEND, BY_BUFFER_RECV, BY_BUFFER_TMP, BY_BUFFERS };

enum by_step_kind {
  BY_STEP_SEND,    /* the message `tag` to `peer` from buffer `from` */
  BY_STEP_RECEIVE, /* the message incoming[in] into buffer `to` */
  BY_STEP_REDUCE,  /* to = fold of `from` and the messages incoming[in .. in + n_in) */
  BY_STEP_COPY,    /* to = from */
};

struct by_step {
  uint8_t kind, from, to; /* enum by_step_kind, enum by_buffer */
  uint8_t divide;         /* REDUCE, COPY: then divide by the number of ranks if the op is average */
  uint8_t copied;         /* SEND: must end without waiting for the receiver to consume (exchange) */
  uint16_t own;           /* REDUCE: place of the own operand in the fold, 0 .. n_in, or BY_NO_OWN */
  uint16_t level;         /* for people and for the order: how many messages can stand before this one */
  uint32_t first, last;   /* pieces of the layout */
  uint32_t from_first;    /* SEND and COPY: first piece in `from`; differs from `first` in alltoall only */
  uint32_t peer, tag;     /* SEND: index into peers, number of the message to that peer */
  uint32_t in, n_in;      /* RECEIVE (n_in = 1), REDUCE (at most BY_SCHEDULE_MOST_IN) */
  uint32_t dep, n_dep;    /* deps[dep ..]: indices of earlier steps */
  uint32_t next, n_next;  /* nexts[next ..]: steps that depend on this one */
};

struct by_incoming {
  uint32_t peer, tag; /* index into peers; number of the message from that peer */
  uint32_t step;      /* that takes it */
  uint32_t first, last;
};

struct by_peer {
  uint32_t rank;           /* or, from n_ranks on, a helper: the number of its vertex */
  uint32_t n_out;          /* messages to it: tags 0 .. n_out - 1 */
  uint32_t first_in, n_in; /* messages from it: lookup[first_in + tag] is the index into incoming */
};

struct by_schedule {
  enum banyan_collective collective;
  uint32_t n_ranks, rank, root; /* rank: of a helper, the number of its vertex */
  uint32_t n_pieces;
  double *cut;       /* n_pieces + 1 fractions 0 .. 1 of the whole (share layout), or NULL: blocks */
  uint32_t *block;   /* block layout: n_ranks + 1: rank r's block is pieces block[r] .. block[r + 1] - 1 */
  double *block_cut; /* of each piece: the fraction of its block at which it starts; the first one's is 0 */
  uint32_t origin[BY_BUFFERS];
  bool needs_tmp; /* scratch for the pieces from origin[BY_BUFFER_TMP] to tmp_last */
  uint32_t tmp_last;
  uint32_t n_steps, n_incoming, n_peers, n_deps, n_nexts;
  struct by_step *steps; /* every step after the steps it depends on */
  struct by_incoming *incoming;
  struct by_peer *peers; /* ascending by rank */
  uint32_t *lookup;      /* n_incoming */
  uint32_t *deps, *nexts;
  uint32_t plan_version;
  struct by_arena arena;
};

/* Compiles. `root` matters for reduce, broadcast, gather, scatter. `rank` may be the vertex of a helper or a server.
 * Memory grows with this rank's own messages, time with the pieces in them, not with n squared.
 * BANYAN_ERR_UNSUPPORTED: a tree goes through a switch (see by_plan_without_switches), or has a helper or a server
 * where the collective has no use for one: servers are for allreduce, for helpers see base/collective.h.
 * by_plan_among_ranks makes a plan that always runs. */
BANYAN_CHECK enum banyan_status by_schedule_compile(const struct by_plan *plan, const struct by_class *class_,
                                                    enum banyan_collective collective, uint32_t root, uint32_t rank,
                                                    struct by_schedule **out);
/* The same for a part of the class (BY_PART_ALL, ...), whose messages travel under a version of their own; all ranks
 * compile the same part. The layout is that of the whole. */
BANYAN_CHECK enum banyan_status by_schedule_compile_part(const struct by_plan *plan, const struct by_class *class_,
                                                         uint32_t part, uint32_t version,
                                                         enum banyan_collective collective, uint32_t root,
                                                         uint32_t rank, struct by_schedule **out);
/* For a buffer of so many bytes: BY_PART_APART where sums have blocks so large that a message for each costs little;
 * else BY_PART_ALL. */
uint32_t by_schedule_part(const struct by_plan *plan, const struct by_class *class_, enum banyan_collective collective,
                          uint64_t bytes);
void by_schedule_destroy(struct by_schedule *schedule);

/* Fills bounds[0 .. n_pieces] in bytes. `count` is the call's (see
 * banyan/collectives.h: of the whole, or of one block), `counts` the blocks'
 * where they differ, else NULL. Cuts fall on 64-byte multiples where pieces
 * are that large, always on whole elements. */
void by_schedule_bounds(const struct by_schedule *schedule, size_t count, const size_t *counts, size_t element,
                        uint64_t *bounds);

/* For people: one line a step. */
void by_schedule_print(const struct by_schedule *schedule, struct by_text *text);
/* The same as one line of JSON, without a newline. */
void by_schedule_print_json(const struct by_schedule *schedule, struct by_text *text);

#endif
