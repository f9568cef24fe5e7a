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
  BY_OPERATION_NAME = 255,     /* Maximum bytes of a name, which is UTF-8 without control characters. */
  BY_OPERATIONS_MOST = 131072, /* Maximum operations that a controller keeps. */
  BY_TABLE_MOST = 65536,       /* Maximum operations in the table, which have a bit. */
  BY_LACK_RANGES = 16,         /* Maximum ranges of ranks that lack an operation. */
};

/* Values of `collective` beside those of enum banyan_collective. */
enum {
  BY_OPERATION_SPARSE = 64, /* Flag: sparse rows; count and root are height and width of the table. */
  BY_OPERATION_GROUP = 128, /* Several calls; root is their number, count their bytes. */
};

/* What all ranks must agree on. AllReduces of one type and operation that start together are a single one. */
struct by_operation {
  uint8_t collective, dtype, op;
  uint32_t root;
  uint64_t count; /* Number of elements. */
  uint64_t rest;  /* Hash of everything else that must be equal. */
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
  uint32_t top; /* Root of the smallest subtree that holds all ranks that lack the operation. */
  uint32_t n_ranges;
  /* Ranges of ranks that lack it, ascending if the tree is ordered by rank. */
  struct by_rank_range ranges[BY_LACK_RANGES];
  uint32_t more;   /* Number of further ranks that lack it. */
  bool late;       /* A rank has reported that it no longer waits; set at the root only. */
  uint32_t silent; /* Number of the listed ranks that have not answered; nothing is known of the ranks below them. */
};

struct by_controller;

struct by_controller_config {
  uint32_t rank, ranks;
  uint32_t up_parent, down_parent; /* Parents of this rank; the root is its own parent. */
  uint32_t n_up_children, n_down_children;
  const uint32_t *up_children, *down_children; /* Children of this rank; the arrays are copied. */
  /* Bytes, used by the root. AllReduces of up to `fuse` bytes together start as one, if each has at most `fuse_each`. 0
   * means that each starts separately, and that each may have any size. Nothing more starts while `window` bytes are in
   * progress (0: no limit), where a group counts as at least a quarter of the window. */
  uint64_t fuse, fuse_each, window;
  /* Nanoseconds that an operation waits before controllers find out which ranks lack it; 0 means forever. */
  uint64_t timeout;
  void (*send)(void *context, uint32_t to, const void *message, size_t bytes);
  /* Starts n operations of this rank as one group. All ranks start the same groups in the same order. */
  void (*start)(void *context, void *const *cookies, uint32_t n);
  /* At the root: whether a precedes b in a group. NULL keeps the order in which they would start separately. */
  bool (*before)(const void *a_cookie, const void *b_cookie);
  /* Ends an operation that was refused and has not started. */
  void (*refused)(void *context, void *cookie, const struct by_refused_operation *refusal);
  /* Delivers a note of the root, at the same place in the sequence of starts on all ranks. May be NULL. */
  void (*noted)(void *context, uint32_t note);
  /* This controller has another place in the tree, which by_controller_place returns. May be NULL. */
  void (*moved)(void *context);
  /* At the root: reports an operation that has waited too long, and the ranks that lack it. */
  void (*stalled)(void *context, const struct by_stall *stall);
  void *context;
};

struct by_controller_counters {
  uint64_t messages_up, messages_down; /* Messages sent. */
  uint64_t taken;                      /* Messages received. */
  uint64_t bytes;                      /* Bytes sent. */
  uint64_t by_name, by_bit;            /* Operations that this rank has submitted by name and by bit. */
  uint64_t started, groups, refused;
  uint64_t malformed; /* Messages refused. */
  uint64_t trees;     /* Number of changes to another tree. */
};

/* The parents of all ranks, on the way up and on the way down; the root is its own in both. */
struct by_controller_tree {
  uint32_t number; /* Number of the tree; later trees have higher numbers. */
  uint32_t ranks;
  uint32_t *up, *down;
};

/* Callbacks are called by take, flush and check only, and may submit operations. */
BANYAN_CHECK enum banyan_status by_controller_create(const struct by_controller_config *config,
                                                     struct by_controller **out);
/* Creates a controller with its place in a tree of all ranks. Of the configuration's places, only the own rank is used.
 */
BANYAN_CHECK enum banyan_status by_controller_create_in(const struct by_controller_config *config,
                                                        const struct by_controller_tree *tree,
                                                        struct by_controller **out);
/* Destroys a controller with what waits in it. NULL is allowed. */
void by_controller_destroy(struct by_controller *controller);

/* Submits an operation of this rank; `cookie` is passed to start or refused. Operations with the highest priority on
 * the root's rank start first. Among equals, those with a bit start first, in the reverse order of the first iteration,
 * since gradients become ready in the reverse order of the layers that need them. Returns BANYAN_ERR_ARGUMENT if the
 * name is invalid or waits already, and BANYAN_ERR_MISMATCH if another rank has submitted a different operation under
 * this name; then no rank starts it. */
BANYAN_CHECK enum banyan_status by_controller_submit(struct by_controller *controller, const char *name,
                                                     const struct by_operation *operation, int32_t priority,
                                                     void *cookie, uint64_t now);
/* Notes that iteration `i` of the training begins. At the root, operations that have started enter the table from the
 * second iteration on. If no iterations are noted, operations enter it after three starts. */
void by_controller_step(struct by_controller *controller, uint64_t i);
/* Notes that a started group of so many bytes has ended. At the root, more may start then. */
void by_controller_ended(struct by_controller *controller, uint64_t bytes);

/* At the root: writes a note to the log. */
void by_controller_announce(struct by_controller *controller, uint32_t note);
/* At the root: moves all ranks to this tree, which is copied, with the next message. Ignored if its number is not above
 * those of the current and the pending tree. If the tree is the same, only the number changes. */
BANYAN_CHECK enum banyan_status by_controller_move(struct by_controller *controller,
                                                   const struct by_controller_tree *tree);
/* Returns the configuration with this rank's parents and children in the current tree, borrowed until the next tree. */
const struct by_controller_config *by_controller_place(const struct by_controller *controller);
/* Returns the number of the current tree; 0 for the one at creation. */
uint32_t by_controller_tree_number(const struct by_controller *controller);
/* Notes that this rank no longer waits for an operation: the root finds out at once which ranks lack it, and reports
 * it. */
void by_controller_late(struct by_controller *controller, const char *name, const struct by_operation *operation,
                        uint64_t now);

/* Handles a message. A message of a later tree is kept until this controller uses that tree. Returns
 * BANYAN_ERR_PROTOCOL if it is malformed or its sender may not send it; then nothing has changed. */
BANYAN_CHECK enum banyan_status by_controller_take(struct by_controller *controller, uint32_t from, const void *message,
                                                   size_t bytes, uint64_t now);
/* Sends pending messages. Must be called after the functions above; one call after several of them sends fewer
 * messages. May return BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_controller_flush(struct by_controller *controller);

/* Finds what has waited too long. by_controller_flush must follow. */
void by_controller_check(struct by_controller *controller, uint64_t now);
/* Returns when by_controller_check must be called at the latest (ns); UINT64_MAX if not before something else happens.
 */
uint64_t by_controller_deadline(const struct by_controller *controller);

const struct by_controller_counters *by_controller_counters(const struct by_controller *controller);

/* Returns the bytes that an operation transfers, as far as known. */
uint64_t by_operation_bytes(const struct by_operation *operation);
/* For people: "allreduce of 1000 f32, sum". Returns `text`. */
enum { BY_OPERATION_TEXT = 96 };
const char *by_operation_describe(const struct by_operation *operation, char text[BY_OPERATION_TEXT]);

#endif
