/* Row-sparse tensors: a table of `height` rows of which only some are present, such as the gradient of an embedding.
 * An input tensor refers to memory of the caller. An output tensor holds memory of the library, which the next call
 * with the same `out` reuses and banyan_sparse_free() releases. Zero-initialise the struct before its first use.
 *
 *   struct banyan_sparse mine = {.dtype = BANYAN_FLOAT32, .row_dtype = BANYAN_INT32, .height = words, .width = 64,
 *                                .count = n, .rows = numbers, .values = gradients}, sum = {0};
 */
#ifndef BANYAN_SPARSE_H
#define BANYAN_SPARSE_H

#include <stdbool.h>

#include <banyan/collectives.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A row-sparse tensor of `height` rows, of which `count` are present. */
struct banyan_sparse {
  enum banyan_dtype dtype;     /* The type of the values. */
  enum banyan_dtype row_dtype; /* BANYAN_INT32 or BANYAN_INT64 */
  size_t height;               /* Rows of the whole table, numbered from 0 to height - 1. */
  size_t width;                /* Elements per row. */
  size_t count;                /* The number of rows that are present, which may be 0. */
  void *rows;                  /* The `count` row numbers, in any order. */
  void *values;                /* The count * width elements, row by row. */
  bool unique;                 /* No row occurs twice, so this tensor needs no merging. */
  void *memory;                /* Memory of the library that holds rows and values of a result. */
  size_t room;                 /* Size of `memory` in bytes. */
};

/* Frees what the library allocated for an output tensor, and zeroes the struct; NULL is allowed. */
BANYAN_API void banyan_sparse_free(struct banyan_sparse *tensor);

/* Merges rows that occur several times by adding them in the order in which they occur; *out is ascending by row and
 * unique. `out` must not be `in`. Does not block. Cost: one radix sort of the row numbers, and each value is read once,
 * independent of the row numbers. BANYAN_ERR_ARGUMENT: a row is out of range; the text names it. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_sparse_merge(const struct banyan_sparse *in,
                                                               struct banyan_sparse *out);

/* Gradient steps on a dense table of height * width elements of the tensor's dtype, which is BANYAN_FLOAT32 or
 * BANYAN_FLOAT64. They update only the rows present, each as often as it occurs.
 *   table[row] -= rate * value */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_sparse_apply_sgd(const struct banyan_sparse *gradient, void *table,
                                                                   double rate);
/*   sums[row] += value * value; table[row] -= rate * value / (sqrt(sums[row]) + epsilon)
 * `sums` has the shape and type of the table; initialise it with zeros or a small number. */
BANYAN_API BANYAN_CHECK enum banyan_status
banyan_sparse_apply_adagrad(const struct banyan_sparse *gradient, void *table, void *sums, double rate, double epsilon);

/* ---- exchange between ranks */

/* Algorithms for the exchange. All ranks get identical bits; integers are identical for every algorithm. */
enum banyan_sparse_way {
  /* The fastest algorithm, judged by counts, width, the plan's links and the time of earlier calls. */
  BANYAN_SPARSE_CHOSEN = 0,
  BANYAN_SPARSE_PADDED = 1,    /* One AllGather whose blocks are all as long as the largest one. */
  BANYAN_SPARSE_GATHER = 2,    /* One AllGather of blocks of different lengths. */
  BANYAN_SPARSE_BROADCAST = 3, /* One broadcast from each rank. The other algorithms are tested against it. */
  /* Each tree of the plan merges a range of rows on the way up and broadcasts the result. Only for AllReduce. */
  BANYAN_SPARSE_MERGE = 4,
  BANYAN_SPARSE_DENSE = 5, /* An AllReduce of the whole table. Only for AllReduce. */
  BANYAN_SPARSE_WAYS = 6
};

/* Returns "chosen", "padded", "gather", "broadcast", "merge" or "dense"; "?" for other numbers. Static storage. */
BANYAN_API const char *banyan_sparse_way_name(enum banyan_sparse_way way);
/* Parses such a name. BANYAN_ERR_ARGUMENT: there is no such name. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_sparse_way_parse(const char *text, enum banyan_sparse_way *out);

/* One AllReduce or AllGather of row-sparse tensors. */
struct banyan_sparse_call {
  /* BANYAN_ALLREDUCE merges the rows of all ranks, ascending; BANYAN_ALLGATHER concatenates them by rank. */
  enum banyan_collective collective;
  /* The reduction of AllReduce: BANYAN_SUM, or BANYAN_AVERAGE, which divides by the number of all ranks, whether or not
   * they have the row. */
  enum banyan_op op;
  enum banyan_sparse_way way; /* The algorithm, equal on all ranks. */
  /* The input, whose rows and values must not change until the call has ended. AllReduce first merges them unless they
   * are ascending or `unique` is set; AllGather sends them as they are. */
  const struct banyan_sparse *in;
  struct banyan_sparse *out;     /* The result, which must not be `in`. */
  size_t *counts;                /* Receives the count of each rank in an AllGather; may be NULL. */
  enum banyan_sparse_way *taken; /* Receives the algorithm that was used; may be NULL. */
  /* Bytes that the call may allocate on this rank; 0 means half of the machine's memory divided by its ranks. */
  size_t memory;
  double deadline; /* Seconds that the call may take; 0 means the communicator's deadline. */
  /* The number of tables of an AllReduce, at most 65536, whose rows are exchanged together: `in` and `out` are arrays
   * of this length; 0 and 1 mean one table. All tables have the types of the first, and any heights and widths, the
   * same on all ranks. Rows are sent in parts as wide as the widths' greatest common divisor, each with a row number:
   * widths without a common divisor cost as many numbers as elements. out[0] holds the memory of all results: free it,
   * or use it in another call, when no result is needed any more. */
  size_t tables;
};

/* Like banyan_run: blocks, collective, matched by order with the other calls of the communicator. Ranks first exchange
 * what they have. If this is inconsistent (types, shapes, algorithms, rows out of range, or more than some
 * rank has memory for), all ranks get the same error before memory is allocated, and the job continues. Sparse calls on
 * one communicator are executed one after the other. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_sparse_run(struct banyan_comm *comm,
                                                             const struct banyan_sparse_call *call);
/* Like banyan_start: does not block, and the caller owns *out. `in`, `out`, `counts` and `taken` of the call are used
 * until the request has been waited for; the struct itself is copied. */
BANYAN_API BANYAN_CHECK enum banyan_status
banyan_sparse_start(struct banyan_comm *comm, const struct banyan_sparse_call *call, struct banyan_request **out);

static inline enum banyan_status banyan_sparse_allreduce(struct banyan_comm *comm, const struct banyan_sparse *in,
                                                         struct banyan_sparse *out, enum banyan_op op) {
  struct banyan_sparse_call call = BANYAN_ZERO;
  call.collective = BANYAN_ALLREDUCE;
  call.op = op;
  call.in = in;
  call.out = out;
  return banyan_sparse_run(comm, &call);
}
static inline enum banyan_status banyan_sparse_allgather(struct banyan_comm *comm, const struct banyan_sparse *in,
                                                         struct banyan_sparse *out, size_t *counts) {
  struct banyan_sparse_call call = BANYAN_ZERO;
  call.collective = BANYAN_ALLGATHER;
  call.in = in;
  call.out = out;
  call.counts = counts;
  return banyan_sparse_run(comm, &call);
}

#ifdef __cplusplus
}
#endif
#endif
