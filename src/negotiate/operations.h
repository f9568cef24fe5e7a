/* The operations that a controller knows, by name, by description, and by the number that the root gave them. */
#ifndef BY_NEGOTIATE_OPERATIONS_H
#define BY_NEGOTIATE_OPERATIONS_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "controller.h"

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
  bool picked;    /* by the function that searches a list */
  uint32_t n_have;
  uint64_t *have; /* children that have reported it by name, a bit each */
  uint64_t since, asked;
  void *cookie;
  UT_hash_handle hh; /* by id */
};

struct by_named {
  struct by_variant *variants;
  uint64_t refused_at; /* place in the log; 0: never */
  bool conflicts;      /* the conflict has been reported upward, or is about to be refused */
  uint32_t owed;       /* refusals that came before this rank submitted */
  struct by_refusal refusal;
  UT_hash_handle hh;
  char name[];
};

struct by_operations {
  struct by_named *names;
  struct by_variant *ids;
  uint32_t n, have_words; /* variants; words of `have` */
};

void by_operations_init(struct by_operations *operations, uint32_t children);
void by_operations_fini(struct by_operations *operations);
/* NULL: unknown. */
struct by_named *by_operations_name(const struct by_operations *operations, const char *name);
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
/* Drops what has no bit, waits for nothing, and has not started since this generation. */
void by_operations_forget(struct by_operations *operations, uint32_t age);

bool by_operation_equal(const struct by_operation *a, const struct by_operation *b);

#endif
