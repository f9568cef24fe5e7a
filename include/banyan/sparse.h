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

struct banyan_sparse {
  enum banyan_dtype dtype;     /* of the values */
  enum banyan_dtype row_dtype; /* BANYAN_INT32 or BANYAN_INT64 */
  size_t height;               /* rows of the whole table, numbered from 0 to height - 1 */
  size_t width;                /* elements per row */
  size_t count;                /* rows present; 0 is valid */
  void *rows;                  /* row numbers, `count` of them in any order */
  void *values;                /* count * width elements, row by row */
  bool unique;                 /* no row occurs twice, so this tensor needs no merging */
  void *memory;                /* owned by the library: holds rows and values of a result */
  size_t room;                 /* bytes of `memory` */
};

/* Frees what the library allocated; NULL is allowed. */
BANYAN_API void banyan_sparse_free(struct banyan_sparse *tensor);

/* Adds rows that occur several times, in the order in which they occur; *out is ascending by row and unique. `out` must
 * not be `in`. Cost: one radix sort of the row numbers, and each value is read once, independent of the row numbers.
 * BANYAN_ERR_ARGUMENT: a row is out of range; the text names it. */
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
  BANYAN_SPARSE_CHOSEN = 0,    /* the fastest, by counts, width, the plan's links, and what calls took so far */
  BANYAN_SPARSE_PADDED = 1,    /* one AllGather whose blocks are all as long as the largest */
  BANYAN_SPARSE_GATHER = 2,    /* one AllGather of blocks of different lengths */
  BANYAN_SPARSE_BROADCAST = 3, /* one broadcast from each rank; the reference */
  BANYAN_SPARSE_MERGE = 4,     /* each tree of the plan merges a range of rows on the way up and broadcasts the
                                  result. AllReduce only */
  BANYAN_SPARSE_DENSE = 5,     /* AllReduce of the whole table. AllReduce only */
  BANYAN_SPARSE_WAYS = 6
};

/* "chosen", "padded", "gather", "broadcast", "merge", "dense"; "?" for other numbers. */
BANYAN_API const char *banyan_sparse_way_name(enum banyan_sparse_way way);
BANYAN_API BANYAN_CHECK enum banyan_status banyan_sparse_way_parse(const char *text, enum banyan_sparse_way *out);

struct banyan_sparse_call {
  enum banyan_collective collective; /* BANYAN_ALLREDUCE: the merged rows of all ranks, ascending;
                                        BANYAN_ALLGATHER: the rows of all ranks, concatenated by rank */
  enum banyan_op op;          /* of AllReduce: BANYAN_SUM, or BANYAN_AVERAGE, which divides by the number of all ranks,
                                 whether or not they have the row */
  enum banyan_sparse_way way; /* must be equal on all ranks */
  const struct banyan_sparse *in; /* rows and values must not change until the call has ended. AllReduce first merges
                                     them unless `unique` or ascending; AllGather sends them as they are */
  struct banyan_sparse *out;      /* must not be `in` */
  size_t *counts;                 /* of AllGather: receives the count of each rank; may be NULL */
  enum banyan_sparse_way *taken;  /* receives the algorithm used; may be NULL */
  size_t memory;   /* bytes the call may allocate on this rank; 0: half of the machine's memory divided by its ranks */
  double deadline; /* seconds; 0: the communicator's deadline */
  size_t tables;   /* of AllReduce: `in` and `out` are arrays of so many tables, at most 65536, whose rows go in one
                      exchange; 0 and 1: one table. All have the types of the first, and any heights and widths, the
                      same on all ranks. Rows are sent in parts as wide as the widths' greatest common divisor, each
                      with a row number: widths without a common divisor cost as many numbers as elements. out[0]
                      holds the memory of all results: free it, or use it in another call, when none of them is needed
                      any more */
};

/* Like banyan_run and banyan_start: collective, matched by order with the other calls of the communicator. Ranks first
 * exchange what they have. If this is inconsistent (types, shapes, algorithms, rows out of range, or more than some
 * rank has memory for), all ranks get the same error before memory is allocated, and the job continues. Sparse calls on
 * one communicator are executed one after the other. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_sparse_run(struct banyan_comm *comm,
                                                             const struct banyan_sparse_call *call);
/* `in`, `out`, `counts` and `taken` are used until the request has been waited for; the struct itself is copied. */
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
