/* What the files of a controller share: the operations that it knows, and its state. */
#ifndef BY_NAMED_NEGOTIATE_CONTROLLER_PARTS_H
#define BY_NAMED_NEGOTIATE_CONTROLLER_PARTS_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "negotiation_message.h"

/* --- operations.c: operations by name, by description, and by the number that the root gave them --- */

#define BY_NO_NUMBER UINT32_MAX

struct by_named;

/* An operation. Another shape or type under the same name is another one. */
struct by_variant {
  struct by_named *named;
  struct by_variant *next; /* of the same name */
  struct by_operation operation;
  uint32_t id;     /* that the root gave it when it first started; BY_NO_NUMBER: not yet */
  uint32_t bit;    /* BY_NO_NUMBER: it goes by name */
  uint32_t starts; /* so far */
  uint32_t age;    /* the generation it last started in */
  uint32_t witness;
  int32_t priority;
  bool submitted; /* here, and not started */
  bool own;       /* submitted here by name, and not yet reported upward */
  bool late;      /* at the root: some rank no longer waits for it */
  bool given_up;  /* submitted here, and this rank no longer waits for it */
  bool picked;    /* by the function that searches a list */
  uint32_t n_have;
  uint64_t since, asked;
  void *cookie;
  UT_hash_handle hh; /* by id */
  uint64_t *have;    /* children that have reported it by name, a bit each: `few`, or memory of its own */
  uint64_t few;
};

struct by_named {
  struct by_variant *variants;
  uint64_t refused_at; /* place in the log; 0: never */
  bool conflicts;      /* the conflict has been reported upward, or is about to be refused */
  uint32_t owed;       /* refusals that came before this rank submitted */
  struct by_refused_operation refusal;
  UT_hash_handle hh;
  char name[];
};

struct by_operations {
  struct by_named *names;
  struct by_variant *ids;
  uint32_t n, have_words; /* variants; words of `have` */
};

void by_operations_fini(struct by_operations *operations);
/* NULL: unknown. */
struct by_variant *by_operations_find(const struct by_operations *operations, const char *name,
                                      const struct by_operation *operation);
struct by_variant *by_operations_id(const struct by_operations *operations, uint32_t id);
/* The operation, made if it is not there. NULL: no memory, or BY_OPERATIONS_MOST are there. */
struct by_variant *by_operations_get(struct by_operations *operations, const char *name,
                                     const struct by_operation *operation);
/* The root has given it this number. False: it has another one, another has this one, or no memory. */
bool by_operations_number(struct by_operations *operations, struct by_variant *variant, uint32_t id);
/* No rank has submitted it by name any more. */
void by_operations_clear(const struct by_operations *operations, struct by_variant *variant);
/* This controller has so many children, of which none has submitted anything; nor has this rank. False: no memory. */
bool by_operations_set_children(struct by_operations *operations, uint32_t n);
/* Drops what has no bit, waits for nothing, and has not started since this generation. */
void by_operations_forget(struct by_operations *operations, uint32_t age);

bool by_operation_equal(const struct by_operation *a, const struct by_operation *b);

/* --- the controller --- */

/* The children are being asked which ranks lack this operation. */
struct by_question {
  struct by_question *next;
  struct by_subject subject;
  struct by_stall stall;
  uint64_t until;
  uint32_t n_left, n_lacking; /* children that have not answered; that have answered and lack it */
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
  uint64_t place;    /* how far the log is read */
  uint64_t refusal;  /* place of the last refusal */
  uint64_t now;      /* the time that was last passed in */
  uint64_t deadline; /* see by_controller_deadline */
  uint32_t waiting;
  bool dirty;         /* bits have been set since they were last combined */
  bool failed, twice; /* twice: what is being read submits something that is submitted */
  uint64_t reading;   /* how far the sender of that has read the log */

  /* The tree. */
  uint32_t tree_number;                /* of the one in use */
  uint64_t tree_hash;                  /* of its parents */
  uint64_t began;                      /* the place in the log from which on it is used */
  struct by_controller_tree next_tree; /* at the root, to come; up NULL: none */
  struct by_early *early;              /* messages whose place this controller has not reached */

  /* The table. Bits: see by_bits_of. */
  struct by_variant **table;
  uint32_t n_table, room_table;
  uint64_t *bits, *complete;
  uint32_t generation, named_starts; /* starts by name in this generation */

  struct by_list_writer lists[BY_LISTS], message;
  struct by_list_writer part; /* bits for the message up; at the root, the group that is being put together */
  struct by_question *questions;
  void **cookies; /* of a group */
  uint32_t room_cookies;

  /* The root's. */
  struct by_variant **ready; /* the most urgent first */
  uint32_t n_ready, room_ready;
  struct by_variant **group; /* that is being put together */
  uint32_t n_group, room_group;
  uint32_t next_id;
  uint64_t under_way, iteration;
  bool stepped, renew;
  struct by_controller_counters counters;
};

static inline bool by_is_root(const struct by_controller *c) {
  return c->config.up_parent == c->config.rank;
}

/* A word of bits, of a child or, behind all children, of the own rank. The words of all rows for the same bits lie
 * together. */
static inline uint64_t *by_bits_of(const struct by_controller *c, uint32_t row, uint32_t word) {
  return c->bits + (size_t)word * (c->config.n_up_children + 1) + row;
}

static inline bool by_bit_is_set(const uint64_t *bits, uint32_t bit) {
  return bits[bit / 64] >> (bit % 64) & 1;
}

/* Which child a rank is; UINT32_MAX: none. */
uint32_t by_controller_child(const struct by_controller *c, uint32_t rank);

/* --- controller.c --- */

/* `row` has submitted it. */
BANYAN_CHECK enum banyan_status by_controller_note(struct by_controller *c, struct by_variant *variant, uint32_t row,
                                                   uint32_t witness);
/* Ranks have submitted different operations under this name: it is reported upward, or refused. */
void by_controller_conflict(struct by_controller *c, struct by_named *named,
                            const struct by_refused_operation *refusal);

/* A group of so many bytes is under way. */
void by_controller_charge(struct by_controller *c, uint64_t bytes);

/* Sends it to all children on the way down. */
void by_controller_send_down(struct by_controller *c, const void *message, size_t bytes);

/* Goes over to the tree, and announces anew what is submitted here. */
BANYAN_CHECK enum banyan_status by_controller_enter(struct by_controller *c, const struct by_controller_tree *tree);

/* --- controller_tree.c --- */

/* The message; `message` is cleared before. */
void by_tree_write(struct by_list_writer *message, uint64_t place, const struct by_controller_tree *tree);
/* Reads it behind its head. False: malformed, no tree of all ranks, or no memory. Empty *out with by_tree_fini. */
bool by_tree_read(const void *message, size_t bytes, uint32_t ranks, struct by_controller_tree *out);
void by_tree_fini(struct by_controller_tree *tree);
/* The same for trees with the same parents, whatever their numbers; practically never for others. */
uint64_t by_tree_hash(const struct by_controller_tree *tree);
/* False: no memory. */
bool by_tree_copy(const struct by_controller_tree *from, struct by_controller_tree *out);

/* Takes this rank's place in another tree, and forgets what any rank has submitted. False: no memory. */
bool by_controller_take_place(struct by_controller *c, const struct by_controller_tree *tree);

/* A message of the tree in use; of a tree to come; or of one before, whose content is announced anew. */
enum by_when { BY_NOW, BY_EARLY, BY_LATE };
enum by_when by_controller_when(const struct by_controller *c, const void *message, size_t bytes);
/* Copies an early message. */
BANYAN_CHECK enum banyan_status by_controller_keep(struct by_controller *c, uint32_t from, const void *message,
                                                   size_t bytes);
/* Takes out the first that is early no longer; the caller frees it. NULL: there is none. */
struct by_early *by_controller_find_kept(struct by_controller *c, uint32_t *from, const void **message, size_t *bytes);
void by_controller_drop_kept(struct by_controller *c);

/* --- controller_log.c --- */

/* Applies a message downward, which has been checked or is this controller's own. */
BANYAN_CHECK enum banyan_status by_controller_apply(struct by_controller *c, const void *message, size_t bytes);

/* Of what is submitted here: whether all below have it too, and that has been reported upward. */
bool by_controller_has_reported(const struct by_controller *c, const struct by_variant *variant);

/* --- controller_stall.c --- */

/* `late`: some rank no longer waits. */
void by_controller_stalled(struct by_controller *c, const char *name, const struct by_operation *operation, bool late);
void by_controller_ask(struct by_controller *c, const struct by_subject *subject);
void by_controller_answer(struct by_controller *c, uint32_t child, const struct by_stall *lacking);
void by_questions_fini(struct by_controller *c);

#endif
