/* Negotiation: ranks submit operations by name, each in an order of its own, and every rank starts each operation once
 * all ranks have submitted it, in one order that is the same everywhere. Each rank of a communicator has a controller;
 * the controllers form a tree. A controller reports to its parent what its own rank and all ranks below it have
 * submitted, and the root notifies all controllers of what starts.
 *
 *   upward    an operation by its name; or, once the root has put it into the
 *             table of operations, as a bit: bits of children and of the own rank
 *             are combined by AND, and go up when the AND grows
 *   downward  a log, the same for all: what starts, what enters the table, what
 *             was refused
 *
 * The way down may be another one than the way up. Round a ring, both are the
 * order of the ring, and the last one is the root: up goes from each to the
 * next, and down from the root to the first, and on from each to the next.
 * Messages between two of them arrive in the order in which they were sent.
 *
 * All go over to another tree at one place in the log, where it may have another root. Each then announces anew what is
 * submitted and has not started; what had been announced along the tree before counts no longer.
 *
 * No I/O and no clock: messages leave through a callback, and the caller passes the time. A controller that receives
 * nothing sends nothing. One thread at a time. docs/negotiation.md describes the protocol. */
#ifndef BY_NAMED_NEGOTIATE_CONTROLLER_H
#define BY_NAMED_NEGOTIATE_CONTROLLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <banyan/types.h>

#include "fail.h"

enum {
  BY_OPERATION_NAME = 255,     /* most bytes of a name, UTF-8 without control characters */
  BY_OPERATIONS_MOST = 131072, /* that a controller keeps */
  BY_TABLE_MOST = 65536,       /* operations with a bit */
  BY_LACK_RANGES = 16,         /* ranges of ranks that lack an operation */
};

/* Values of `collective` beside those of enum banyan_collective. */
enum {
  BY_OPERATION_SPARSE = 64, /* added to it: of sparse rows; count and root are height and width of the table */
  BY_OPERATION_GROUP = 128, /* several calls; root is their number, count their bytes */
};

/* What all ranks must agree on. AllReduces of one type and operation that start together are a single one. */
struct by_operation {
  uint8_t collective, dtype, op;
  uint32_t root;
  uint64_t count; /* elements */
  uint64_t rest;  /* whatever else must be equal, hashed */
};

/* Two ranks that have submitted different operations under one name. */
struct by_refused_operation {
  const char *name;
  uint32_t ranks[2];
  struct by_operation operations[2];
};

struct by_rank_range {
  uint32_t first, last;
};

/* An operation that has waited for too long. */
struct by_stall {
  const char *name;
  struct by_operation operation;
  uint32_t top; /* root of the smallest subtree that holds all ranks that lack it */
  uint32_t n_ranges;
  struct by_rank_range ranges[BY_LACK_RANGES]; /* ascending where the tree is in order */
  uint32_t more;                               /* further ranks that lack it */
  bool late;                                   /* some rank has reported that it no longer waits; only at the root */
  uint32_t silent; /* of the ranks above: have not answered, so that nothing is known of those below them */
};

struct by_controller;

struct by_controller_config {
  uint32_t rank, ranks;
  uint32_t up_parent, down_parent; /* of the root: itself */
  uint32_t n_up_children, n_down_children;
  const uint32_t *up_children, *down_children; /* copied */
  /* Of the root: AllReduces of up to so many bytes together start as one (0: each by itself), of up to so many each (0:
   * any), and nothing more starts while so many bytes are under way (0: no limit), where a group counts as a quarter
   * of that at least. */
  uint64_t fuse, fuse_each, window;
  uint64_t timeout; /* ns that an operation waits before it is asked which ranks lack it; 0: for ever */
  void (*send)(void *context, uint32_t to, const void *message, size_t bytes);
  /* These start now, as one: all of them were submitted here. The same groups in the same order on all ranks. */
  void (*start)(void *context, void *const *cookies, uint32_t n);
  /* At the root: whether a comes before b among what starts as one. NULL: as they would start one by one. */
  bool (*before)(const void *a_cookie, const void *b_cookie);
  /* This one ends without having started. */
  void (*refused)(void *context, void *cookie, const struct by_refused_operation *refusal);
  /* A note of the root's: with regard to starts, in the same place on all ranks. May be NULL. */
  void (*noted)(void *context, uint32_t note);
  /* This controller is in another place now, see by_controller_place. May be NULL. */
  void (*moved)(void *context);
  /* At the root. */
  void (*stalled)(void *context, const struct by_stall *stall);
  void *context;
};

struct by_controller_counters {
  uint64_t messages_up, messages_down; /* sent */
  uint64_t taken;                      /* messages received */
  uint64_t bytes;                      /* sent */
  uint64_t by_name, by_bit;            /* operations of the own rank, as they were submitted */
  uint64_t started, groups, refused;
  uint64_t malformed; /* messages that were refused */
  uint64_t trees;     /* that it has gone over to */
};

/* The parents of all ranks, on the way up and on the way down; the root is its own in both. */
struct by_controller_tree {
  uint32_t number; /* of the tree; a later one has a higher one */
  uint32_t ranks;
  uint32_t *up, *down;
};

/* Callbacks come from take, flush and check only, and may submit. */
BANYAN_CHECK enum banyan_status by_controller_create(const struct by_controller_config *config,
                                                     struct by_controller **out);
/* The same for a place in a tree of all ranks; those of the configuration do not count, except its own rank. */
BANYAN_CHECK enum banyan_status by_controller_create_in(const struct by_controller_config *config,
                                                        const struct by_controller_tree *tree,
                                                        struct by_controller **out);
/* What waits is forgotten. NULL is allowed. */
void by_controller_destroy(struct by_controller *controller);

/* This rank is ready for an operation; `cookie` comes back in start or refused. Of those that wait for the network, the
 * ones of the highest priority start first, by the values on the root's rank; among equals those with a bit, the one
 * that was first to start in the first iteration last, since gradients come in the reverse order of the layers that
 * need them. BANYAN_ERR_ARGUMENT: the name is none, or waits here already; BANYAN_ERR_MISMATCH: another rank has
 * submitted something else under this name, so that no rank starts it. */
BANYAN_CHECK enum banyan_status by_controller_submit(struct by_controller *controller, const char *name,
                                                     const struct by_operation *operation, int32_t priority,
                                                     void *cookie, uint64_t now);
/* Iteration `i` of the training begins. At the root, from the second one seen on: what has started enters the table.
 * Without it operations do so that have started three times. */
void by_controller_step(struct by_controller *controller, uint64_t i);
/* A group that start has begun is through, of so many bytes together. At the root more may start then. */
void by_controller_ended(struct by_controller *controller, uint64_t bytes);

/* At the root: puts a note into the log. */
void by_controller_announce(struct by_controller *controller, uint32_t note);
/* At the root: all are to go over to this tree, which is copied, with the next message. Nothing is done if the number
 * is not above that of the tree in use, or to come; and if the tree is the same, only its number counts from now on. */
BANYAN_CHECK enum banyan_status by_controller_move(struct by_controller *controller,
                                                   const struct by_controller_tree *tree);
/* The configuration with this rank's parents and children in the tree in use. Borrowed, until the next one. */
const struct by_controller_config *by_controller_place(const struct by_controller *controller);
/* The number of the tree in use; 0: the one that it was created with. */
uint32_t by_controller_tree_number(const struct by_controller *controller);
/* What is submitted here waits no longer: the root is to find out at once which ranks lack it, and report it. */
void by_controller_late(struct by_controller *controller, const char *name, const struct by_operation *operation,
                        uint64_t now);

/* Handles a message; one of a tree that this controller has not come to yet is kept until then. BANYAN_ERR_PROTOCOL: it
 * is malformed, or from a rank that may not send it; nothing has changed. */
BANYAN_CHECK enum banyan_status by_controller_take(struct by_controller *controller, uint32_t from, const void *message,
                                                   size_t bytes, uint64_t now);
/* Sends what is to be sent, at most one message to each neighbour. To be called after any of the above; one call for
 * several of them makes fewer messages. BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_controller_flush(struct by_controller *controller);

/* Sees what has waited too long; flush is to follow. */
void by_controller_check(struct by_controller *controller, uint64_t now);
/* When check has to be called at the latest; UINT64_MAX: not before something else happens. */
uint64_t by_controller_deadline(const struct by_controller *controller);

const struct by_controller_counters *by_controller_counters(const struct by_controller *controller);

/* Bytes that an operation transfers, as far as they are known. */
uint64_t by_operation_bytes(const struct by_operation *operation);
/* For people: "allreduce of 1000 f32, sum". Returns `text`. */
enum { BY_OPERATION_TEXT = 96 };
const char *by_operation_describe(const struct by_operation *operation, char text[BY_OPERATION_TEXT]);

#endif
