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

/* Types of elements. */
enum banyan_dtype {
  BANYAN_FLOAT32 = 0,
  BANYAN_FLOAT64 = 1,
  BANYAN_FLOAT16 = 2,  /* IEEE binary16, added in float32. */
  BANYAN_BFLOAT16 = 3, /* The upper half of a float32, added in float32. */
  BANYAN_INT8 = 4,
  BANYAN_UINT8 = 5,
  BANYAN_INT32 = 6,
  BANYAN_INT64 = 7,
  BANYAN_DTYPES = 8
};

/* Reductions of the elements at the same position on all ranks. */
enum banyan_op {
  BANYAN_SUM = 0,
  BANYAN_AVERAGE = 1, /* The sum, divided once by the number of ranks. */
  BANYAN_MIN = 2,     /* The minimum. A NaN on any rank gives NaN. */
  BANYAN_MAX = 3,     /* The maximum. A NaN on any rank gives NaN. */
  BANYAN_PRODUCT = 4,
  BANYAN_AND = 5, /* The bitwise AND of integers. */
  BANYAN_OR = 6,  /* The bitwise OR of integers. */
  BANYAN_XOR = 7, /* The bitwise XOR of integers. */
  BANYAN_OPS = 8
};

/* Collectives, and messages between two ranks; <banyan/collectives.h> describes them. */
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
  BANYAN_PLAN_BUILTIN = 0,  /* A built-in plan, selected by name or by default. */
  BANYAN_PLAN_FILE = 1,     /* A plan file. */
  BANYAN_PLAN_JSON = 2,     /* JSON passed by the program. */
  BANYAN_PLAN_TOPOLOGY = 3, /* A plan made at start-up from the topology in BANYAN_TOPOLOGY. */
  BANYAN_PLAN_MEASURED = 4, /* A plan made at start-up from measurements. */
  BANYAN_PLAN_MANAGER = 5,  /* A plan sent by the cluster's manager. */
  BANYAN_PLAN_SOURCES = 6
};

/* Returns the bytes of one element; 0 for an invalid type. */
BANYAN_API size_t banyan_dtype_size(enum banyan_dtype dtype);
/* Returns "f32", "f64", "f16", "bf16", "i8", "u8", "i32" or "i64"; "?" for an invalid type. Static storage. */
BANYAN_API const char *banyan_dtype_name(enum banyan_dtype dtype);
/* Returns "sum", "avg", "min", "max", "prod", "and", "or" or "xor"; "?" for an invalid operation. Static storage. */
BANYAN_API const char *banyan_op_name(enum banyan_op op);
/* Returns the name in lower case, such as "allreduce"; "?" for an invalid collective. Static storage. */
BANYAN_API const char *banyan_collective_name(enum banyan_collective collective);
/* Returns "built-in", "file", "json", "topology", "measured" or "manager"; "?" for other numbers. Static storage. */
BANYAN_API const char *banyan_plan_source_name(enum banyan_plan_source source);
/* Parse the name of an element type, operation or collective. Long names ("float32", "average", "product") are accepted
 * too. BANYAN_ERR_ARGUMENT: there is no such name; the text lists the names. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_dtype_parse(const char *text, enum banyan_dtype *out);
BANYAN_API BANYAN_CHECK enum banyan_status banyan_op_parse(const char *text, enum banyan_op *out);
BANYAN_API BANYAN_CHECK enum banyan_status banyan_collective_parse(const char *text, enum banyan_collective *out);

#ifdef __cplusplus
}
#endif
#endif
