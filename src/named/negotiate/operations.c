/* The operations that a controller knows, by name, by description, and by the number that the root gave them. */
#include "controller_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <banyan/collectives.h>

#include "collective.h"

bool by_operation_equal(const struct by_operation *a, const struct by_operation *b) {
  return a->collective == b->collective && a->dtype == b->dtype && a->op == b->op && a->root == b->root &&
         a->count == b->count && a->rest == b->rest;
}

uint64_t by_operation_bytes(const struct by_operation *operation) {
  size_t each = banyan_dtype_size((enum banyan_dtype)operation->dtype);
  return operation->collective & BY_OPERATION_GROUP ? operation->count : operation->count * each;
}

const char *by_operation_describe(const struct by_operation *o, char text[BY_OPERATION_TEXT]) {
  enum banyan_collective c = (enum banyan_collective)(o->collective & ~BY_OPERATION_SPARSE);
  const char *name = banyan_collective_name(c), *dtype = banyan_dtype_name((enum banyan_dtype)o->dtype);
  unsigned long long count = o->count;
  char op[16] = "", root[24] = "";
  if (by_collective(c)->adds) snprintf(op, sizeof op, ", %s", banyan_op_name((enum banyan_op)o->op));
  if (by_collective(c)->rooted) snprintf(root, sizeof root, ", root %u", o->root);
  if (o->collective & BY_OPERATION_GROUP)
    snprintf(text, BY_OPERATION_TEXT, "%u calls of %llu bytes", o->root, count);
  else if (o->collective & BY_OPERATION_SPARSE)
    snprintf(text, BY_OPERATION_TEXT, "sparse %s of a table of %llu x %u %s%s", name, count, o->root, dtype, op);
  else if (c == BANYAN_BARRIER)
    snprintf(text, BY_OPERATION_TEXT, "%s", name);
  else
    snprintf(text, BY_OPERATION_TEXT, "%s of %llu %s%s%s%s", name, count, dtype, op, root, o->rest ? " in parts" : "");
  return text;
}

static void drop_variant(struct by_operations *operations, struct by_variant *variant) {
  if (variant->id != BY_NO_NUMBER && operations->ids) HASH_DELETE(hh, operations->ids, variant);
  operations->n--;
  if (variant->have != &variant->few) free(variant->have);
  free(variant);
}

static void drop_name(struct by_operations *operations, struct by_named *named) {
  HASH_DELETE(hh, operations->names, named); /* NOLINT(clang-analyzer-unix.Malloc): it takes the list for a circle */
  free(named);
}

void by_operations_fini(struct by_operations *operations) {
  while (operations->names) {
    struct by_named *named = operations->names;
    while (named->variants) {
      struct by_variant *variant = named->variants;
      named->variants = variant->next;
      drop_variant(operations, variant);
    }
    drop_name(operations, named);
  }
}

static struct by_named *find_name(const struct by_operations *operations, const char *name) {
  struct by_named *named;
  HASH_FIND_STR(operations->names, name, named);
  return named;
}

static struct by_variant *variant_of(const struct by_named *named, const struct by_operation *operation) {
  struct by_variant *variant = named->variants;
  while (variant && !by_operation_equal(&variant->operation, operation)) variant = variant->next;
  return variant;
}

struct by_variant *by_operations_find(const struct by_operations *operations, const char *name,
                                      const struct by_operation *operation) {
  const struct by_named *named = find_name(operations, name);
  return named ? variant_of(named, operation) : NULL;
}

struct by_variant *by_operations_id(const struct by_operations *operations, uint32_t id) {
  struct by_variant *variant;
  HASH_FIND(hh, operations->ids, &id, sizeof id, variant);
  return variant;
}

static struct by_named *add_name(struct by_operations *operations, const char *name) {
  size_t length = strlen(name);
  struct by_named *named = calloc(1, sizeof *named + length + 1);
  if (!named) return NULL;
  memcpy(named->name, name, length + 1);
  HASH_ADD_STR(operations->names, name, named);
  if (find_name(operations, name) == named) return named;
  free(named);
  return NULL;
}

/* Provides memory for a bit of each child. Returns false if memory is exhausted. */
static bool make_room(const struct by_operations *operations, struct by_variant *variant) {
  uint64_t *have = &variant->few;
  if (operations->have_words > 1) have = malloc(operations->have_words * sizeof *have);
  if (!have) return false;
  if (variant->have != &variant->few) free(variant->have);
  variant->have = have;
  by_operations_clear(operations, variant);
  return true;
}

bool by_operations_set_children(struct by_operations *operations, uint32_t n) {
  bool made = true;
  operations->have_words = (n + 63) / 64;
  for (struct by_named *named = operations->names; named; named = named->hh.next) {
    named->conflicts = false;
    for (struct by_variant *variant = named->variants; variant; variant = variant->next) {
      variant->late = false;
      made &= make_room(operations, variant);
    }
  }
  return made;
}

struct by_variant *by_operations_get(struct by_operations *operations, const char *name,
                                     const struct by_operation *operation) {
  struct by_named *named = find_name(operations, name);
  struct by_variant *variant = named ? variant_of(named, operation) : NULL;
  if (variant) return variant;
  if (operations->n >= BY_OPERATIONS_MOST) return NULL;
  if (!named) named = add_name(operations, name);
  if (!named) return NULL;
  variant = calloc(1, sizeof *variant);
  if (!variant || !make_room(operations, variant)) {
    free(variant);
    if (!named->variants) drop_name(operations, named);
    return NULL;
  }
  variant->named = named;
  variant->next = named->variants;
  variant->operation = *operation;
  variant->id = variant->bit = BY_NO_NUMBER;
  named->variants = variant;
  operations->n++;
  return variant;
}

bool by_operations_number(struct by_operations *operations, struct by_variant *variant, uint32_t id) {
  if (variant->id == id) return true;
  if (variant->id != BY_NO_NUMBER || id == BY_NO_NUMBER || by_operations_id(operations, id)) return false;
  variant->id = id;
  HASH_ADD(hh, operations->ids, id, sizeof variant->id, variant);
  if (by_operations_id(operations, id) == variant) return true;
  variant->id = BY_NO_NUMBER;
  return false;
}

void by_operations_clear(const struct by_operations *operations, struct by_variant *variant) {
  variant->own = false;
  variant->n_have = 0;
  memset(variant->have, 0, operations->have_words * sizeof *variant->have);
}

void by_operations_forget(struct by_operations *operations, uint32_t age) {
  struct by_named *next;
  for (struct by_named *named = operations->names; named; named = next) {
    next = named->hh.next;
    struct by_variant **place = &named->variants;
    while (*place) {
      struct by_variant *variant = *place;
      bool waits = variant->submitted || variant->own || variant->n_have;
      if (variant->bit == BY_NO_NUMBER && !waits && variant->age < age) {
        *place = variant->next;
        drop_variant(operations, variant);
      } else {
        place = &variant->next;
      }
    }
    if (!named->variants && !named->owed) drop_name(operations, named);
  }
}
