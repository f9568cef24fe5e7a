/* Row-sparse tensors: a table of `height` rows of which only some are there.
 * The gradient of an embedding is one. A tensor that goes into a call is the
 * caller's memory; one that comes out has memory of the library's, which the
 * next call with the same `out` uses again and banyan_sparse_free() gives back.
 * Zero-initialise a struct before its first use.
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
  size_t height;               /* of the whole table: rows are numbers from 0 to height - 1 */
  size_t width;                /* elements of a row */
  size_t count;                /* rows that are there; 0 is ordinary */
  void *rows;                  /* count numbers, in any order */
  void *values;                /* count * width elements, row after row */
  bool unique;                 /* no row stands twice, so that nothing is to be merged here */
  void *memory;                /* the library's: what holds rows and values of a result, */
  size_t room;                 /* and its bytes */
};

/* Frees what the library allocated; NULL is allowed. */
BANYAN_API void banyan_sparse_free(struct banyan_sparse *tensor);

/* Adds up rows that stand several times, in the order in which they stand; *out is ascending by row and unique. `out`
 * must not be `in`. Cost: a radix sort of the rows, and each value is read once; the same for any rows.
 * BANYAN_ERR_ARGUMENT names the row that is out of range. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_sparse_merge(const struct banyan_sparse *in,
                                                               struct banyan_sparse *out);

/* Gradient steps on a dense table of height * width elements of the tensor's dtype, which is BANYAN_FLOAT32 or
 * BANYAN_FLOAT64. They touch only the rows that are there, each as often as it stands.
 *   table[row] -= rate * value */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_sparse_apply_sgd(const struct banyan_sparse *gradient, void *table,
                                                                   double rate);
/*   sums[row] += value * value; table[row] -= rate * value / (sqrt(sums[row]) + epsilon)
 * `sums` is of the table's shape and type; it begins with zeros, or some small number. */
BANYAN_API BANYAN_CHECK enum banyan_status
banyan_sparse_apply_adagrad(const struct banyan_sparse *gradient, void *table, void *sums, double rate, double epsilon);

/* ---- between ranks */

/* How rows travel. All ranks get the same bits, and whole numbers the same by every way. */
enum banyan_sparse_way {
  BANYAN_SPARSE_CHOSEN = 0,    /* the one predicted to be fastest, from counts, width, ranks and plan */
  BANYAN_SPARSE_PADDED = 1,    /* one AllGather, with all blocks as long as the largest */
  BANYAN_SPARSE_GATHER = 2,    /* AllGather of blocks as long as they are */
  BANYAN_SPARSE_BROADCAST = 3, /* one broadcast from each rank: the reference */
  BANYAN_SPARSE_MERGE = 4,     /* merged on the way up the plan's trees, each of which has a range of rows; then the
                                  merged rows go to all. Allreduce only, like the next */
  BANYAN_SPARSE_DENSE = 5,     /* AllReduce of the whole table */
  BANYAN_SPARSE_WAYS = 6
};

/* "chosen", "padded", "gather", "broadcast", "merge", "dense"; "?" for no way. */
BANYAN_API const char *banyan_sparse_way_name(enum banyan_sparse_way way);
BANYAN_API BANYAN_CHECK enum banyan_status banyan_sparse_way_parse(const char *text, enum banyan_sparse_way *out);

struct banyan_sparse_call {
  enum banyan_collective collective; /* BANYAN_ALLREDUCE: the ranks' rows, merged, ascending;
                                        BANYAN_ALLGATHER: all that they have, one rank's behind another's */
  enum banyan_op op;                 /* of allreduce: BANYAN_SUM, or BANYAN_AVERAGE over all ranks, whether or not they
                                        have the row */
  enum banyan_sparse_way way;        /* the same on all ranks */
  const struct banyan_sparse *in;    /* rows and values are left alone until the call has ended. Allreduce merges them
                                        first, unless `unique` or ascending; allgather sends them as they are */
  struct banyan_sparse *out;         /* another one than `in` */
  size_t *counts;                    /* of allgather: gets each rank's count; NULL: not wanted */
  enum banyan_sparse_way *taken;     /* gets the way; NULL: not wanted */
  size_t memory;   /* bytes that the call may take on this rank; 0: half of the machine's, divided by its ranks */
  double deadline; /* seconds; 0: the communicator's */
};

/* Like banyan_run and banyan_start: collective, matched by order with the other calls of the communicator. Ranks first
 * tell each other what they have. Where that does not fit together (types, shapes, ways, rows out of range, or more
 * than some rank has memory for), all ranks get the same error, before memory is taken, and the job goes on. Calls on
 * one communicator move their rows one after the other. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_sparse_run(struct banyan_comm *comm,
                                                             const struct banyan_sparse_call *call);
/* `in`, `out`, `counts` and `taken` are used until the request has been waited for; the struct itself is not. */
BANYAN_API BANYAN_CHECK enum banyan_status
banyan_sparse_start(struct banyan_comm *comm, const struct banyan_sparse_call *call, struct banyan_request **out);

static inline enum banyan_status banyan_sparse_allreduce(struct banyan_comm *comm, const struct banyan_sparse *in,
                                                         struct banyan_sparse *out, enum banyan_op op) {
  struct banyan_sparse_call call = {.collective = BANYAN_ALLREDUCE, .op = op, .in = in, .out = out};
  return banyan_sparse_run(comm, &call);
}
static inline enum banyan_status banyan_sparse_allgather(struct banyan_comm *comm, const struct banyan_sparse *in,
                                                         struct banyan_sparse *out, size_t *counts) {
  struct banyan_sparse_call call = {.collective = BANYAN_ALLGATHER, .in = in, .out = out, .counts = counts};
  return banyan_sparse_run(comm, &call);
}

#ifdef __cplusplus
}
#endif
#endif
