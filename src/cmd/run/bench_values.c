/* Generates the values of a benchmark's calls, and checks their results. */
#include "bench_values.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/param.h>

#include "collective.h"
#include "fail.h"
#include "text.h"

enum { NO_RANK = -1, ALL_RANKS = -2 };

static const char ping_pong[] = "sendrecv";

const char *by_bench_collective_name(const struct by_bench_case *c) {
  return c->collective == BANYAN_SEND ? ping_pong : banyan_collective_name(c->collective);
}

enum banyan_status by_bench_parse_collective(const char *name, struct by_bench_case *out) {
  if (!strcmp(name, ping_pong)) {
    out->collective = BANYAN_SEND;
    return BANYAN_OK;
  }
  if (banyan_collective_parse(name, &out->collective) == BANYAN_OK && out->collective < BANYAN_SEND) return BANYAN_OK;
  const char *names[BANYAN_COLLECTIVES];
  size_t n = 0;
  for (int i = 0; i < BANYAN_SEND; i++) names[n++] = banyan_collective_name((enum banyan_collective)i);
  names[n++] = ping_pong;
  const char *near = by_suggest(name, names, n);
  return by_fail(BANYAN_ERR_ARGUMENT, "there is no collective \"%.40s\"%s%s%s", name, near ? "; did you mean " : "",
                 near ? near : "", near ? "?" : "");
}

bool by_bench_reduces(const struct by_bench_case *c) {
  return by_collective(c->collective)->adds;
}

enum banyan_status by_bench_check(const struct by_bench_case *c) {
  const struct by_collective *row = by_collective(c->collective);
  /* Each rank's block is in the result, or the result replaces the terms on all ranks. */
  bool in_place = row->send == BY_EXTENT_BLOCK || (row->adds && !row->rooted);
  bool bits = c->op == BANYAN_AND || c->op == BANYAN_OR || c->op == BANYAN_XOR, floating = c->dtype <= BANYAN_BFLOAT16;
  if (by_bench_reduces(c) && bits && floating)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s is for integers, not for %s", banyan_op_name(c->op),
                   banyan_dtype_name(c->dtype));
  if (c->root >= c->ranks) return by_fail(BANYAN_ERR_ARGUMENT, "there is no rank %d to be the root", c->root);
  if (c->in_place && !in_place)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s has no in-place form", by_bench_collective_name(c));
  if (c->collective == BANYAN_SEND && c->ranks < 2)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s takes two ranks", ping_pong);
  return BANYAN_OK;
}

/* Returns the rank with which this one plays ping-pong; NO_RANK: it does not take part. */
static int bench_peer(const struct by_bench_case *c) {
  int peer = c->rank ^ 1;
  return peer < c->ranks ? peer : NO_RANK;
}

/* Returns the elements of a buffer. Every rank of a reduction has a result to check, even if the call gives none. */
static size_t count_of(const struct by_bench_case *c, enum by_extent extent, size_t block, size_t total) {
  bool at_root = c->rank == c->root || by_collective(c->collective)->adds;
  if (extent == BY_EXTENT_NOTHING || (extent == BY_EXTENT_ALL_AT_ROOT && !at_root)) return 0;
  return extent == BY_EXTENT_BLOCK ? block : total;
}

void by_bench_resize(struct by_bench_case *c, size_t bytes) {
  const struct by_collective *row = by_collective(c->collective);
  size_t size = banyan_dtype_size(c->dtype), n = (size_t)c->ranks, total = bytes / size, block = total / n;
  if (!block) block = 1;
  if (!total) total = 1;
  if (row->blocks) total = block * n;
  if (c->collective == BANYAN_BARRIER) total = 0;
  c->count = row->blocks ? block : total;
  c->send_count = count_of(c, row->send, block, total);
  c->recv_count = row->pair ? total : count_of(c, row->recv, block, total); /* There and back. */
  c->bytes = total * size;
}

double by_bench_bus_factor(const struct by_bench_case *c) {
  double n = c->ranks;
  if (c->collective == BANYAN_ALLREDUCE) return 2 * (n - 1) / n;
  return by_collective(c->collective)->blocks ? (n - 1) / n : 1;
}

static enum banyan_status pass_back(const struct by_bench_case *c, struct banyan_comm *comm,
                                    enum banyan_collective direction, const void *send, void *recv) {
  struct banyan_call call = {
      .collective = direction, .dtype = c->dtype, .root = bench_peer(c), .send = send, .recv = recv, .count = c->count};
  return banyan_run(comm, &call);
}

/* Plays ping-pong; the even rank begins. */
static enum banyan_status play_ping_pong(const struct by_bench_case *c, struct banyan_comm *comm, const void *send,
                                         void *recv) {
  if (bench_peer(c) < 0) return BANYAN_OK;
  if (c->rank % 2) BY_TRY(pass_back(c, comm, BANYAN_RECV, NULL, recv));
  BY_TRY(pass_back(c, comm, BANYAN_SEND, send, NULL));
  if (c->rank % 2 == 0) BY_TRY(pass_back(c, comm, BANYAN_RECV, NULL, recv));
  return BANYAN_OK;
}

enum banyan_status by_bench_call(const struct by_bench_case *c, struct banyan_comm *comm, const void *send,
                                 void *recv) {
  if (c->collective == BANYAN_SEND) return play_ping_pong(c, comm, send, recv);
  struct banyan_call call = {.collective = c->collective,
                             .dtype = c->dtype,
                             .op = c->op,
                             .root = c->root,
                             .send = send,
                             .recv = recv,
                             .count = c->count};
  return banyan_run(comm, &call);
}

/* Returns bits that do not correlate with the arguments (the finisher of splitmix64). */
static uint64_t mix_bits(uint64_t j, uint64_t rank) {
  uint64_t z = j * 0x9e3779b97f4a7c15u + rank * 0xd1b54a32d192ed03u + 1;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static bool is_integer(enum banyan_dtype dtype) {
  return dtype >= BANYAN_INT8;
}

/* Returns the largest number up to which the type has all whole numbers. */
static int64_t limit_of(enum banyan_dtype dtype) {
  switch (dtype) {
  case BANYAN_FLOAT16: return 1 << 11;
  case BANYAN_BFLOAT16: return 1 << 8;
  case BANYAN_INT8: return INT8_MAX;
  case BANYAN_UINT8: return UINT8_MAX;
  case BANYAN_INT32: return INT32_MAX;
  case BANYAN_INT64: return INT64_MAX;
  case BANYAN_FLOAT32: return 1 << 24;
  default: return (int64_t)1 << 53;
  }
}

/* Returns j + rank + 1 if the sum over n ranks stays exact (or may wrap), else something smaller. */
static int64_t sum_term(const struct by_bench_case *c, int64_t j, int64_t rank) {
  int64_t n = c->ranks, share = limit_of(c->dtype) / n;
  if (is_integer(c->dtype) || BY_PERIOD + n <= share) return j + rank + 1;
  if (share > 0) return (int64_t)(mix_bits((uint64_t)j, (uint64_t)rank) % (uint64_t)(share + 1));
  int64_t every = n / limit_of(c->dtype) + 1;
  return rank % every == j % every;
}

/* Returns numbers around the average, which is whole: of two neighbours one is above and one below. */
static int64_t average_term(const struct by_bench_case *c, int64_t j, int64_t rank) {
  int64_t n = c->ranks, share = limit_of(c->dtype) / n;
  if (share < 3)
    return (int64_t)(mix_bits((uint64_t)j, 0) % (uint64_t)(share + 1)); /* For very many ranks all numbers are equal. */
  int64_t average = 1 + (int64_t)(mix_bits((uint64_t)j, 0) % (uint64_t)MIN(share - 2, 1000));
  if (rank % 2) return average - 1;
  return rank + 1 < n ? average + 1 : average;
}

/* At most 8 ranks contribute a 2; integers get 3s, which never wrap to 0. */
static int64_t product_term(const struct by_bench_case *c, int64_t j, int64_t rank) {
  uint64_t bits = mix_bits((uint64_t)j, (uint64_t)rank);
  int64_t every = (c->ranks + 7) / 8;
  if (is_integer(c->dtype)) return bits % 2 ? 3 : 1;
  if (rank % every == j % every && bits % 3 == 0) return 2;
  return bits & 4 ? 1 : -1;
}

static int64_t value_of_rank(const struct by_bench_case *c, int64_t j, int64_t rank) {
  uint64_t bits = mix_bits((uint64_t)j, (uint64_t)rank), common = mix_bits((uint64_t)j, UINT32_MAX);
  if (!by_bench_reduces(c)) return (int64_t)(bits % 251);
  switch (c->op) {
  case BANYAN_SUM: return sum_term(c, j, rank);
  case BANYAN_AVERAGE: return average_term(c, j, rank);
  case BANYAN_PRODUCT: return product_term(c, j, rank);
  case BANYAN_AND: return (int64_t)(bits | common);
  case BANYAN_OR: return (int64_t)(bits & common);
  case BANYAN_XOR: return (int64_t)bits;
  default: return (int64_t)(bits % 251) - (c->dtype == BANYAN_UINT8 ? 0 : 125);
  }
}

static int64_t combine_values(enum banyan_op op, int64_t a, int64_t b) {
  switch (op) {
  case BANYAN_MIN: return MIN(a, b);
  case BANYAN_MAX: return MAX(a, b);
  case BANYAN_PRODUCT: return (int64_t)((uint64_t)a * (uint64_t)b);
  case BANYAN_AND: return a & b;
  case BANYAN_OR: return a | b;
  case BANYAN_XOR: return a ^ b;
  default: return (int64_t)((uint64_t)a + (uint64_t)b);
  }
}

/* Converts a whole number of at most 11 bits to IEEE binary16. */
static uint16_t half_of(int64_t value) {
  uint64_t magnitude = (uint64_t)(value < 0 ? -value : value);
  if (!magnitude) return 0;
  int exponent = 63 - __builtin_clzll(magnitude);
  uint64_t mantissa = exponent <= 10 ? magnitude << (10 - exponent) : magnitude >> (exponent - 10);
  return (uint16_t)((value < 0) << 15 | (exponent + 15) << 10 | (int)(mantissa & 0x3ff));
}

static uint16_t bfloat_of(int64_t value) {
  float single = (float)value;
  uint32_t bits;
  memcpy(&bits, &single, sizeof bits);
  return (uint16_t)(bits >> 16);
}

static void encode_value(struct by_pattern *pattern, enum banyan_dtype dtype, int j, int64_t value) {
  float f32 = (float)value;
  double f64 = (double)value;
  uint16_t f16 = half_of(value), bf16 = bfloat_of(value);
  uint8_t i8 = (uint8_t)value;
  uint32_t i32 = (uint32_t)value;
  const void *const from[BANYAN_DTYPES] = {
      [BANYAN_FLOAT32] = &f32, [BANYAN_FLOAT64] = &f64, [BANYAN_FLOAT16] = &f16, [BANYAN_BFLOAT16] = &bf16,
      [BANYAN_INT8] = &i8,     [BANYAN_UINT8] = &i8,    [BANYAN_INT32] = &i32,   [BANYAN_INT64] = &value};
  memcpy(pattern->bytes + (size_t)j * pattern->size, from[dtype], pattern->size);
}

void by_pattern_of_rank(const struct by_bench_case *c, int rank, struct by_pattern *out) {
  out->size = banyan_dtype_size(c->dtype);
  for (int j = 0; j < BY_PERIOD; j++) encode_value(out, c->dtype, j, value_of_rank(c, j, rank));
}

void by_pattern_reduced(const struct by_bench_case *c, struct by_pattern *out) {
  out->size = banyan_dtype_size(c->dtype);
  for (int j = 0; j < BY_PERIOD; j++) {
    int64_t result = value_of_rank(c, j, 0);
    for (int rank = 1; rank < c->ranks; rank++) result = combine_values(c->op, result, value_of_rank(c, j, rank));
    encode_value(out, c->dtype, j, c->op == BANYAN_AVERAGE ? result / c->ranks : result);
  }
}

void by_pattern_fill(const struct by_pattern *pattern, void *buffer, size_t count) {
  for (size_t done = 0; done < count; done += BY_PERIOD)
    memcpy((char *)buffer + done * pattern->size, pattern->bytes, MIN((size_t)BY_PERIOD, count - done) * pattern->size);
}

size_t by_pattern_compare(const struct by_pattern *pattern, size_t start, const void *buffer, size_t count,
                          size_t *first) {
  size_t wrong = 0, size = pattern->size;
  for (size_t i = 0, run; i < count; i += run) {
    size_t j = (start + i) % BY_PERIOD;
    const char *got = (const char *)buffer + i * size;
    const unsigned char *wanted = pattern->bytes + j * size;
    run = MIN(BY_PERIOD - j, count - i);
    if (!memcmp(got, wanted, run * size)) continue;
    for (size_t k = 0; k < run; k++)
      if (memcmp(got + k * size, wanted + k * size, size) && !wrong++) *first = i + k;
  }
  return wrong;
}

/* Compares, and prints the first difference on stderr. */
static size_t check_part(const struct by_bench_case *c, const char *what, const struct by_pattern *pattern,
                         size_t start, const void *buffer, size_t at, size_t count) {
  size_t first = 0;
  const char *part = (const char *)buffer + at * pattern->size;
  size_t wrong = by_pattern_compare(pattern, start, part, count, &first);
  if (wrong)
    fprintf(stderr, "banyan bench: rank %d: %zu of %zu elements of %s are wrong, the first at %zu\n", c->rank, wrong,
            count, what, at + first);
  return wrong;
}

/* Checks blocks of all ranks, each from element `start` of what the rank sent. */
static size_t check_blocks(const struct by_bench_case *c, size_t start, const void *recv) {
  struct by_pattern pattern;
  size_t wrong = 0;
  for (int rank = 0; rank < c->ranks; rank++) {
    by_pattern_of_rank(c, rank, &pattern);
    wrong += check_part(c, "recv", &pattern, start, recv, (size_t)rank * c->count, c->count);
  }
  return wrong;
}

/* Checks one rank's values, from element `start` on, or the reduction of all ranks' contributions. */
static size_t check_one(const struct by_bench_case *c, int rank, size_t start, const void *recv) {
  struct by_pattern pattern;
  if (rank == NO_RANK) return 0;
  if (rank == ALL_RANKS)
    by_pattern_reduced(c, &pattern);
  else
    by_pattern_of_rank(c, rank, &pattern);
  return check_part(c, "recv", &pattern, start, recv, 0, c->recv_count);
}

static size_t check_received(const struct by_bench_case *c, const void *recv) {
  size_t own = (size_t)c->rank * c->count; /* Start of this rank's block. */
  switch (c->collective) {
  case BANYAN_ALLREDUCE: return check_one(c, ALL_RANKS, 0, recv);
  case BANYAN_REDUCE: return c->rank == c->root ? check_one(c, ALL_RANKS, 0, recv) : 0;
  case BANYAN_BROADCAST: return check_one(c, c->root, 0, recv);
  case BANYAN_REDUCE_SCATTER: return check_one(c, ALL_RANKS, own, recv);
  case BANYAN_ALLGATHER: return check_blocks(c, 0, recv);
  case BANYAN_GATHER: return c->rank == c->root ? check_blocks(c, 0, recv) : 0;
  case BANYAN_SCATTER: return check_one(c, c->root, own, recv);
  case BANYAN_ALLTOALL: return check_blocks(c, own, recv);
  case BANYAN_SEND: return check_one(c, bench_peer(c), 0, recv);
  default: return 0;
  }
}

size_t by_bench_wrong(const struct by_bench_case *c, const void *send, const void *recv) {
  size_t wrong = check_received(c, recv);
  if (!send) return wrong;
  struct by_pattern pattern;
  by_pattern_of_rank(c, c->rank, &pattern);
  return wrong + check_part(c, "send", &pattern, 0, send, 0, c->send_count);
}
