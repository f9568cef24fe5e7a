/* Element types, reduction operations and collectives. The numbers are part of the wire format and of the ABI: new ones
 * may be added, existing ones never change. */
#ifndef BANYAN_TYPES_H
#define BANYAN_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include <banyan/status.h>

#ifdef __cplusplus
extern "C" {
#endif

enum banyan_dtype {
  BANYAN_FLOAT32 = 0,
  BANYAN_FLOAT64 = 1,
  BANYAN_FLOAT16 = 2,  /* IEEE binary16, added in float32 */
  BANYAN_BFLOAT16 = 3, /* upper half of a float32, added in float32 */
  BANYAN_INT8 = 4,
  BANYAN_UINT8 = 5,
  BANYAN_INT32 = 6,
  BANYAN_INT64 = 7,
  BANYAN_DTYPES = 8
};

enum banyan_op {
  BANYAN_SUM = 0,
  BANYAN_AVERAGE = 1, /* the sum, divided once by the number of ranks */
  BANYAN_MIN = 2,     /* a NaN on any rank gives NaN */
  BANYAN_MAX = 3,
  BANYAN_PRODUCT = 4,
  BANYAN_AND = 5, /* bitwise; integers only, like the next two */
  BANYAN_OR = 6,
  BANYAN_XOR = 7,
  BANYAN_OPS = 8
};

enum banyan_collective {
  BANYAN_ALLREDUCE = 0,
  BANYAN_REDUCE = 1,
  BANYAN_BROADCAST = 2,
  BANYAN_REDUCE_SCATTER = 3,
  BANYAN_ALLGATHER = 4,
  BANYAN_GATHER = 5,
  BANYAN_SCATTER = 6,
  BANYAN_ALLTOALL = 7,
  BANYAN_BARRIER = 8,
  BANYAN_SEND = 9,
  BANYAN_RECV = 10,
  BANYAN_COLLECTIVES = 11
};

/* Where a plan comes from. */
enum banyan_plan_source {
  BANYAN_PLAN_BUILTIN = 0,  /* a built-in plan, selected by name or by default */
  BANYAN_PLAN_FILE = 1,     /* a plan file */
  BANYAN_PLAN_JSON = 2,     /* JSON passed by the program */
  BANYAN_PLAN_TOPOLOGY = 3, /* planned at start-up from the topology in BANYAN_TOPOLOGY */
  BANYAN_PLAN_MEASURED = 4, /* planned at start-up from measurements */
  BANYAN_PLAN_MANAGER = 5,  /* sent by the cluster's manager */
  BANYAN_PLAN_SOURCES = 6
};

/* Bytes of one element; 0 for an invalid dtype. */
BANYAN_API size_t banyan_dtype_size(enum banyan_dtype dtype);
/* "f32", "f64", "f16", "bf16", "i8", "u8", "i32", "i64"; "?" for an invalid dtype. */
BANYAN_API const char *banyan_dtype_name(enum banyan_dtype dtype);
/* "sum", "avg", "min", "max", "prod", "and", "or", "xor". */
BANYAN_API const char *banyan_op_name(enum banyan_op op);
/* "allreduce", "reduce", ... */
BANYAN_API const char *banyan_collective_name(enum banyan_collective collective);
/* "built-in", "file", "json", "topology", "measured", "manager"; "?" for other numbers. */
BANYAN_API const char *banyan_plan_source_name(enum banyan_plan_source source);
/* Parses the name of a dtype, op or collective; long names ("float32", "average", "product") are accepted too. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_dtype_parse(const char *text, enum banyan_dtype *out);
BANYAN_API BANYAN_CHECK enum banyan_status banyan_op_parse(const char *text, enum banyan_op *out);
BANYAN_API BANYAN_CHECK enum banyan_status banyan_collective_parse(const char *text, enum banyan_collective *out);

#ifdef __cplusplus
}
#endif
#endif
