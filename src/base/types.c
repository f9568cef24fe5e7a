/* Names and sizes of types, operations, collectives and statuses. */
#include <banyan/types.h>

#include <string.h>

#include "collective.h"
#include "fail.h"

/* `name` is what is printed; `other` is what people also write, or NULL. */
struct word {
  const char *name, *other;
  size_t bytes; /* Of an element type. */
};

static const struct word dtypes[BANYAN_DTYPES] = {
    [BANYAN_FLOAT32] = {"f32", "float32", 4}, [BANYAN_FLOAT64] = {"f64", "float64", 8},
    [BANYAN_FLOAT16] = {"f16", "float16", 2}, [BANYAN_BFLOAT16] = {"bf16", "bfloat16", 2},
    [BANYAN_INT8] = {"i8", "int8", 1},        [BANYAN_UINT8] = {"u8", "uint8", 1},
    [BANYAN_INT32] = {"i32", "int32", 4},     [BANYAN_INT64] = {"i64", "int64", 8},
};

static const struct word ops[BANYAN_OPS] = {
    [BANYAN_SUM] = {"sum", NULL, 0},
    [BANYAN_AVERAGE] = {"avg", "average", 0},
    [BANYAN_MIN] = {"min", "minimum", 0},
    [BANYAN_MAX] = {"max", "maximum", 0},
    [BANYAN_PRODUCT] = {"prod", "product", 0},
    [BANYAN_AND] = {"and", NULL, 0},
    [BANYAN_OR] = {"or", NULL, 0},
    [BANYAN_XOR] = {"xor", NULL, 0},
};

static const struct word plan_sources[BANYAN_PLAN_SOURCES] = {
    [BANYAN_PLAN_BUILTIN] = {"built-in", NULL, 0},  [BANYAN_PLAN_FILE] = {"file", NULL, 0},
    [BANYAN_PLAN_JSON] = {"json", NULL, 0},         [BANYAN_PLAN_TOPOLOGY] = {"topology", NULL, 0},
    [BANYAN_PLAN_MEASURED] = {"measured", NULL, 0}, [BANYAN_PLAN_MANAGER] = {"manager", NULL, 0},
};

/* clang-format off */
const struct by_collective by_collectives[BANYAN_COLLECTIVES + 1] = {
    [BANYAN_ALLREDUCE] = {"allreduce", "all_reduce", BY_EXTENT_ALL, BY_EXTENT_ALL,
                          .adds = true, .up = true, .down = true, .helpers = true},
    [BANYAN_REDUCE] = {"reduce", NULL, BY_EXTENT_ALL, BY_EXTENT_ALL_AT_ROOT,
                       .adds = true, .rooted = true, .up = true, .helpers = true},
    [BANYAN_BROADCAST] = {"broadcast", "bcast", BY_EXTENT_NOTHING, BY_EXTENT_ALL,
                          .rooted = true, .down = true, .helpers = true},
    [BANYAN_REDUCE_SCATTER] = {"reduce_scatter", "reducescatter", BY_EXTENT_ALL, BY_EXTENT_BLOCK,
                               .adds = true, .blocks = true, .up = true},
    [BANYAN_ALLGATHER] = {"allgather", "all_gather", BY_EXTENT_BLOCK, BY_EXTENT_ALL, .blocks = true, .down = true},
    [BANYAN_GATHER] = {"gather", NULL, BY_EXTENT_BLOCK, BY_EXTENT_ALL_AT_ROOT,
                       .rooted = true, .blocks = true, .direct = true},
    [BANYAN_SCATTER] = {"scatter", NULL, BY_EXTENT_ALL_AT_ROOT, BY_EXTENT_BLOCK,
                        .rooted = true, .blocks = true, .direct = true},
    [BANYAN_ALLTOALL] = {"alltoall", "all_to_all", BY_EXTENT_ALL, BY_EXTENT_ALL, .blocks = true, .direct = true},
    [BANYAN_BARRIER] = {"barrier", NULL, BY_EXTENT_ALL, BY_EXTENT_ALL, .up = true, .down = true, .helpers = true},
    [BANYAN_SEND] = {"send", NULL, BY_EXTENT_ALL, BY_EXTENT_NOTHING, .pair = true},
    [BANYAN_RECV] = {"recv", NULL, BY_EXTENT_NOTHING, BY_EXTENT_ALL, .pair = true},
    [BANYAN_COLLECTIVES] = {.name = "?"},
};
/* clang-format on */

static const char *name_of(const struct word *words, size_t n, size_t i) {
  return i < n ? words[i].name : "?";
}

static enum banyan_status find_word(const char *what, const char *text, const struct word *words, size_t n,
                                    size_t *out) {
  for (size_t i = 0; text && i < n; i++) {
    if (!strcmp(text, words[i].name) || (words[i].other && !strcmp(text, words[i].other))) {
      *out = i;
      return BANYAN_OK;
    }
  }
  char known[256] = "";
  for (size_t i = 0; i < n; i++) {
    if (i) strcat(known, ", ");
    strcat(known, words[i].name);
  }
  return by_fail(BANYAN_ERR_ARGUMENT, "no %s is called \"%.40s\"; there are %s", what, text ? text : "", known);
}

size_t banyan_dtype_size(enum banyan_dtype dtype) {
  return (size_t)dtype < BANYAN_DTYPES ? dtypes[dtype].bytes : 0;
}

const char *banyan_dtype_name(enum banyan_dtype dtype) {
  return name_of(dtypes, BANYAN_DTYPES, (size_t)dtype);
}

const char *banyan_op_name(enum banyan_op op) {
  return name_of(ops, BANYAN_OPS, (size_t)op);
}

const char *banyan_plan_source_name(enum banyan_plan_source source) {
  return name_of(plan_sources, BANYAN_PLAN_SOURCES, (size_t)source);
}

const char *banyan_collective_name(enum banyan_collective collective) {
  return by_collective(collective)->name;
}

enum banyan_status banyan_dtype_parse(const char *text, enum banyan_dtype *out) {
  size_t i = 0;
  if (!out) return by_fail(BANYAN_ERR_ARGUMENT, "the place for the element type is NULL");
  BY_TRY(find_word("element type", text, dtypes, BANYAN_DTYPES, &i));
  *out = (enum banyan_dtype)i;
  return BANYAN_OK;
}

enum banyan_status banyan_op_parse(const char *text, enum banyan_op *out) {
  size_t i = 0;
  if (!out) return by_fail(BANYAN_ERR_ARGUMENT, "the place for the operation is NULL");
  BY_TRY(find_word("operation", text, ops, BANYAN_OPS, &i));
  *out = (enum banyan_op)i;
  return BANYAN_OK;
}

enum banyan_status banyan_collective_parse(const char *text, enum banyan_collective *out) {
  struct word collectives[BANYAN_COLLECTIVES];
  for (size_t c = 0; c < BANYAN_COLLECTIVES; c++)
    collectives[c] = (struct word){.name = by_collectives[c].name, .other = by_collectives[c].alias};
  size_t i = 0;
  if (!out) return by_fail(BANYAN_ERR_ARGUMENT, "the place for the collective is NULL");
  BY_TRY(find_word("collective", text, collectives, BANYAN_COLLECTIVES, &i));
  *out = (enum banyan_collective)i;
  return BANYAN_OK;
}
