/* Values that every rank sends and must receive, computed without the library. Elements are small whole numbers that
 * repeat with period 1021 (a prime, so that a misplaced chunk is noticed), such that every sum is exact in the type, in
 * any order; integers may wrap.
 *
 * A case is a collective, its type, its size and the resulting sizes of this rank's buffers. `bytes` counts the largest
 * buffer of the call, so that algorithm bandwidth means the same for all of them:
 *
 *   allreduce reduce broadcast sendrecv   every rank's buffer
 *   reduce_scatter allgather alltoall     all blocks together
 *   gather scatter                        all blocks at the root */
#ifndef BY_CMD_RUN_BENCH_VALUES_H
#define BY_CMD_RUN_BENCH_VALUES_H

#include <jansson.h>

#include <banyan/banyan.h>

#include "commands.h"
#include "launch.h"
#include "settings.h"

struct by_bench_case {
  enum banyan_collective collective; /* BANYAN_SEND: ping-pong between ranks 0 and 1, 2 and 3, ... */
  enum banyan_dtype dtype;
  enum banyan_op op;
  int root, rank, ranks;
  bool in_place;
  size_t bytes;                  /* As above; whole blocks of whole elements. */
  size_t count;                  /* Of struct banyan_call. */
  size_t send_count, recv_count; /* Elements of this rank's buffers; 0: unused. */
};

/* Parses "allreduce", ..., "sendrecv". */
enum banyan_status by_bench_parse_collective(const char *name, struct by_bench_case *out) BANYAN_CHECK;
const char *by_bench_collective_name(const struct by_bench_case *c);
/* Checks whether dtype, op, root and in_place are valid for the collective. */
enum banyan_status by_bench_check(const struct by_bench_case *c) BANYAN_CHECK;
bool by_bench_reduces(const struct by_bench_case *c);
/* Sets the counts for at most so many bytes: as many whole blocks as fit, with at least one element each. */
void by_bench_resize(struct by_bench_case *c, size_t bytes);
/* Returns the ratio of bus bandwidth to algorithm bandwidth, as nccl-tests define it. */
double by_bench_bus_factor(const struct by_bench_case *c);
/* Makes the call; ping-pong: there and back. */
enum banyan_status by_bench_call(const struct by_bench_case *c, struct banyan_comm *comm, const void *send,
                                 void *recv) BANYAN_CHECK;

enum { BY_PERIOD = 1021, BY_WIDEST = 8 };

struct by_pattern {
  size_t size; /* Bytes of an element. */
  unsigned char bytes[BY_PERIOD * BY_WIDEST];
};

/* Returns the values that `rank` sends, from element 0 of its send buffer on. */
void by_pattern_of_rank(const struct by_bench_case *c, int rank, struct by_pattern *out);
/* Returns the reduction of all ranks' values. */
void by_pattern_reduced(const struct by_bench_case *c, struct by_pattern *out);

/* Writes `count` elements of the pattern. */
void by_pattern_fill(const struct by_pattern *pattern, void *buffer, size_t count);
/* Returns how many of `count` elements differ from the pattern from its element `start` on; *first is the first of
 * them. */
size_t by_pattern_compare(const struct by_pattern *pattern, size_t start, const void *buffer, size_t count,
                          size_t *first);

/* Returns the number of wrong elements in this rank's buffers after a call. `send` NULL: in place, or none. */
size_t by_bench_wrong(const struct by_bench_case *c, const void *send, const void *recv);

/* ---- nccl_format.c
 *
 * Rows in the format of nccl-tests: the case, then two results, out of place and in place. */

void by_nccl_print_head(const struct by_bench_case *c, int hosts);
void by_nccl_print_case(const struct by_bench_case *c);
/* Returns the bus bandwidth in GB/s. */
double by_nccl_print_result(const struct by_bench_case *c, double seconds, bool checked, uint64_t wrong);
/* Prints that the collective has no call in place. */
void by_nccl_print_absent(void);
void by_nccl_print_end(uint64_t wrong, double mean_busbw);

/* ---- bench_command.c
 *
 * Benchmarks begin alike: each is a rank of the job that its environment describes, or starts its own ranks. */

struct by_bench_run {
  const struct by_command *command;
  long ranks;       /* Own ranks to start; 0: one for each core, 2 to 8, unless there is a job. */
  int transport;    /* See by_transport_at. */
  const char *plan; /* NULL: none was given. */
  bool as_rank;     /* It is a rank of its own job. */
  bool pin;         /* Rank r is bound to core r, cyclically. */
  bool realtime;    /* The scheduler's real-time class is tried. */
  /* Measures as a rank. *wrong: number of wrong elements. */
  enum banyan_status (*measure)(struct by_bench_run *run, const struct by_settings *settings, struct banyan_comm *comm,
                                uint64_t *wrong);
};

/* Returns the command's own arguments, preceded by "banyan", the words `first` (up to NULL) and "--as-rank". words[0],
 * the path of this program, is NULL until by_bench_run. The caller frees the array, not the words. Call it before
 * parsing, which moves arguments. */
char **by_bench_words(char *const *first, int argc, char **argv);
/* Runs a benchmark; its own ranks run these words. Returns the exit code. */
int by_bench_run(struct by_bench_run *run, char **words);
/* Prints a result as one line, and releases it. */
void by_bench_print_json(json_t *object);

#endif
