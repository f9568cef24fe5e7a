/* What the files of a controller share: the operations that it knows, and its state. */
#ifndef BY_NAMED_NEGOTIATE_CONTROLLER_PARTS_H
#define BY_NAMED_NEGOTIATE_CONTROLLER_PARTS_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "negotiation_message.h"

/* --- operations.c: operations by name, by description, and by the number that the root gave them --- */

#define BY_NO_NUMBER UINT32_MAX

struct by_named;

/* An operation under a name; one name may have several of different shapes or types. */
struct by_variant {
  struct by_named *named;
  struct by_variant *next; /* Next operation of the same name. */
  struct by_operation operation;
  uint32_t id;     /* Number that the root gave it when it first started; BY_NO_NUMBER before that. */
  uint32_t bit;    /* Index in the table; BY_NO_NUMBER if it is reported by name. */
  uint32_t starts; /* Number of starts. */
  uint32_t age;    /* Generation in which it last started. */
  uint32_t witness;
  int32_t priority;
  bool submitted; /* Submitted by this rank, and not started. */
  bool own;       /* Submitted by this rank by name, and not yet reported upward. */
  bool late;      /* At the root: a rank no longer waits for it. */
  bool given_up;  /* Submitted by this rank, which no longer waits for it. */
  bool picked;    /* Mark for release(): in the group that starts. */
  uint32_t n_have;
  uint64_t since, asked;
  void *cookie;
  UT_hash_handle hh; /* Entry in the hash table by `id`. */
  uint64_t *have;    /* One bit for each child that has reported it by name; points to `few` or to allocated memory. */
  uint64_t few;
};

struct by_named {
  struct by_variant *variants;
  uint64_t refused_at; /* Place in the log of the last refusal; 0 if never refused. */
  bool conflicts;      /* A conflict has been reported upward or will be refused. */
  uint32_t owed;       /* Refusals that arrived before this rank submitted. */
  struct by_refused_operation refusal;
  UT_hash_handle hh;
  char name[];
};

struct by_operations {
  struct by_named *names;
  struct by_variant *ids;
  uint32_t n, have_words; /* Number of variants, and of words in `have`. */
};

void by_operations_fini(struct by_operations *operations);
/* Returns NULL if the operation is unknown. */
struct by_variant *by_operations_find(const struct by_operations *operations, const char *name,
                                      const struct by_operation *operation);
struct by_variant *by_operations_id(const struct by_operations *operations, uint32_t id);
/* Finds or adds an operation. Returns NULL if memory is exhausted or there are BY_OPERATIONS_MOST. */
struct by_variant *by_operations_get(struct by_operations *operations, const char *name,
                                     const struct by_operation *operation);
/* Sets the number that the root gave an operation. Returns false if it has another one, another operation has this one,
 * or memory is exhausted. */
bool by_operations_number(struct by_operations *operations, struct by_variant *variant, uint32_t id);
/* Clears which ranks have submitted an operation by name. */
void by_operations_clear(const struct by_operations *operations, struct by_variant *variant);
/* Sets the number of children, and clears all submissions by name. Returns false if memory is exhausted. */
bool by_operations_set_children(struct by_operations *operations, uint32_t n);
/* Drops operations without a bit that do not wait and have not started since this generation. */
void by_operations_forget(struct by_operations *operations, uint32_t age);

bool by_operation_equal(const struct by_operation *a, const struct by_operation *b);

/* --- the controller --- */

/* A question to the children: which ranks lack this operation? */
struct by_question {
  struct by_question *next;
  struct by_subject subject;
  struct by_stall stall;
  uint64_t until;
  uint32_t n_left, n_lacking; /* Number of children that have not answered, and of those that answered and lack it. */
  bool *left;
};

enum { BY_QUESTIONS_MOST = 64 };

/* The lists of messages, in the order of the wire: upward those before BY_LISTS_DOWN, downward the others. */
enum by_list {
  BY_LIST_WANTED,
  BY_LIST_CONFLICTS,
  BY_LIST_STALLED,
  BY_LIST_LACKING,
  BY_LISTS_DOWN,
  BY_LIST_GROUPS = BY_LISTS_DOWN,
  BY_LIST_TABLE,
  BY_LIST_REFUSED,
  BY_LIST_ASKED,
  BY_LIST_NOTES,
  BY_LISTS
};

struct by_controller {
  struct by_controller_config config;
  uint32_t *up_children, *down_children;
  struct by_operations operations;
  uint64_t place;    /* Place up to which the log has been read. */
  uint64_t refusal;  /* Place in the log of the last refusal. */
  uint64_t now;      /* Time of the last call (ns). */
  uint64_t deadline; /* Time that by_controller_deadline returns (ns). */
  uint32_t waiting;
  bool dirty;         /* Bits have been set since combine() was called. */
  bool failed, twice; /* twice: the message being read submits something again that is submitted already. */
  uint64_t reading;   /* Place up to which the sender of the message being read has read the log. */

  /* The tree. */
  uint32_t tree_number;                /* Number of the current tree. */
  uint64_t tree_hash;                  /* Hash of the current tree's parents. */
  uint64_t began;                      /* Place in the log from which on the current tree is used. */
  struct by_controller_tree next_tree; /* At the root: the pending tree; `up` is NULL if there is none. */
  struct by_early *early;              /* Messages for a place in the log that this controller has not reached. */

  /* The table of operations with a bit. by_bits_of describes the layout of `bits`. */
  struct by_variant **table;
  uint32_t n_table, room_table;
  uint64_t *bits, *complete;
  uint32_t generation, named_starts; /* Current generation, and starts by name in it. */

  struct by_list_writer lists[BY_LISTS], message;
  struct by_list_writer part; /* Scratch: bits of the message up; at the root, the group being formed. */
  struct by_question *questions;
  void **cookies; /* Cookies of the group that starts. */
  uint32_t room_cookies;

  /* The fields below are used at the root only. */
  struct by_variant **ready; /* Operations that all ranks have, the most urgent first. */
  uint32_t n_ready, room_ready;
  struct by_variant **group; /* The group being formed. */
  uint32_t n_group, room_group;
  uint32_t next_id;
  uint64_t under_way, iteration;
  bool stepped, renew;
  struct by_controller_counters counters;
};

static inline bool by_is_root(const struct by_controller *c) {
  return c->config.up_parent == c->config.rank;
}

/* Returns a word of bits of a row: a child's, or this rank's, whose row follows those of the children. The words of all
 * rows for the same bits are contiguous. */
static inline uint64_t *by_bits_of(const struct by_controller *c, uint32_t row, uint32_t word) {
  return c->bits + (size_t)word * (c->config.n_up_children + 1) + row;
}

static inline bool by_bit_is_set(const uint64_t *bits, uint32_t bit) {
  return bits[bit / 64] >> (bit % 64) & 1;
}

/* Returns the index of a rank among the children; UINT32_MAX if it is no child. */
uint32_t by_controller_child(const struct by_controller *c, uint32_t rank);

/* --- controller.c --- */

/* Notes that `row` has submitted an operation. */
BANYAN_CHECK enum banyan_status by_controller_note(struct by_controller *c, struct by_variant *variant, uint32_t row,
                                                   uint32_t witness);
/* Handles that ranks have submitted different operations under this name: it is reported upward, or refused at the
 * root. */
void by_controller_conflict(struct by_controller *c, struct by_named *named,
                            const struct by_refused_operation *refusal);

/* Counts a group of so many bytes as in progress. */
void by_controller_charge(struct by_controller *c, uint64_t bytes);

/* Sends a message to all children on the way down. */
void by_controller_send_down(struct by_controller *c, const void *message, size_t bytes);

/* Changes to another tree, and reports again what is submitted here. */
BANYAN_CHECK enum banyan_status by_controller_enter(struct by_controller *c, const struct by_controller_tree *tree);

/* --- controller_tree.c --- */

/* Writes a message that changes the tree, after clearing `message`. */
void by_tree_write(struct by_list_writer *message, uint64_t place, const struct by_controller_tree *tree);
/* Reads a message that changes the tree. Returns false if it is malformed, no tree of all ranks, or memory is
 * exhausted. by_tree_fini frees *out. */
bool by_tree_read(const void *message, size_t bytes, uint32_t ranks, struct by_controller_tree *out);
void by_tree_fini(struct by_controller_tree *tree);
/* Returns a hash of the parents, without the number of the tree. */
uint64_t by_tree_hash(const struct by_controller_tree *tree);
/* Returns false if memory is exhausted. */
bool by_tree_copy(const struct by_controller_tree *from, struct by_controller_tree *out);

/* Takes this rank's place in another tree, and clears what ranks have submitted. Returns false if memory is exhausted.
 */
bool by_controller_take_place(struct by_controller *c, const struct by_controller_tree *tree);

/* Whether a message belongs to the current tree, a later one, or an earlier one, whose content is reported again. */
enum by_when { BY_NOW, BY_EARLY, BY_LATE };
enum by_when by_controller_when(const struct by_controller *c, const void *message, size_t bytes);
/* Copies an early message. */
BANYAN_CHECK enum banyan_status by_controller_keep(struct by_controller *c, uint32_t from, const void *message,
                                                   size_t bytes);
/* Removes the first kept message that is no longer early, and returns it; the caller frees it. NULL if there is none.
 */
struct by_early *by_controller_find_kept(struct by_controller *c, uint32_t *from, const void **message, size_t *bytes);
void by_controller_drop_kept(struct by_controller *c);

/* --- controller_log.c --- */

/* Applies a message downward that has been checked or is this controller's own. */
BANYAN_CHECK enum banyan_status by_controller_apply(struct by_controller *c, const void *message, size_t bytes);

/* For an operation submitted by this rank: whether all ranks below have it, and that has been reported upward. */
bool by_controller_has_reported(const struct by_controller *c, const struct by_variant *variant);

/* --- controller_stall.c --- */

/* Reports an operation that has waited too long. `late`: a rank no longer waits. */
void by_controller_stalled(struct by_controller *c, const char *name, const struct by_operation *operation, bool late);
void by_controller_ask(struct by_controller *c, const struct by_subject *subject);
void by_controller_answer(struct by_controller *c, uint32_t child, const struct by_stall *lacking);
void by_questions_fini(struct by_controller *c);

#endif
