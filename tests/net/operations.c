#include "net_operations.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, GUARD_BYTE = 0xa5, POISON = 0x5c };

/* ---- values of elements */

static bool is_floating(enum banyan_dtype dtype) {
  return dtype <= BANYAN_BFLOAT16;
}

/* Rounds to the nearest number with this many mantissa bits, ties to even. Small numbers only. */
static double rounded(double v, int bits) {
  int exponent;
  double mantissa = frexp(v, &exponent);
  return ldexp(nearbyint(ldexp(mantissa, bits)), exponent - bits);
}

static double half_value(uint16_t h, int mantissa_bits, int bias) {
  int exponent_bits = 15 - mantissa_bits;
  int exponent = h >> mantissa_bits & ((1 << exponent_bits) - 1), mantissa = h & ((1 << mantissa_bits) - 1);
  double v = exponent ? ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits)
                      : ldexp(mantissa, 1 - bias - mantissa_bits);
  return h >> 15 ? -v : v;
}

static uint16_t half_of(double v, int mantissa_bits, int bias) {
  int exponent;
  if (v == 0) return 0;
  double mantissa = frexp(fabs(v), &exponent); /* 0.5 <= mantissa < 1 */
  unsigned bits = (unsigned)ldexp(mantissa, mantissa_bits + 1) & ((1u << mantissa_bits) - 1);
  return (uint16_t)((v < 0 ? 0x8000u : 0u) | (unsigned)(exponent - 1 + bias) << mantissa_bits | bits);
}

static void put(enum banyan_dtype dtype, unsigned char *at, double v) {
  float f = (float)v;
  uint16_t h = dtype == BANYAN_FLOAT16 ? half_of(v, 10, 15) : half_of(v, 7, 127);
  int8_t i8 = (int8_t)v;
  uint8_t u8 = (uint8_t)(int)v;
  int32_t i32 = (int32_t)v;
  int64_t i64 = (int64_t)v;
  switch (dtype) {
  case BANYAN_FLOAT32: memcpy(at, &f, sizeof f); break;
  case BANYAN_FLOAT64: memcpy(at, &v, sizeof v); break;
  case BANYAN_FLOAT16:
  case BANYAN_BFLOAT16: memcpy(at, &h, sizeof h); break;
  case BANYAN_INT8: memcpy(at, &i8, sizeof i8); break;
  case BANYAN_UINT8: memcpy(at, &u8, sizeof u8); break;
  case BANYAN_INT32: memcpy(at, &i32, sizeof i32); break;
  default: memcpy(at, &i64, sizeof i64);
  }
}

static double get(enum banyan_dtype dtype, const unsigned char *at) {
  float f;
  double d;
  uint16_t h;
  int32_t i32;
  int64_t i64;
  switch (dtype) {
  case BANYAN_FLOAT32: memcpy(&f, at, sizeof f); return (double)f;
  case BANYAN_FLOAT64: memcpy(&d, at, sizeof d); return d;
  case BANYAN_FLOAT16: memcpy(&h, at, sizeof h); return half_value(h, 10, 15);
  case BANYAN_BFLOAT16: memcpy(&h, at, sizeof h); return half_value(h, 7, 127);
  case BANYAN_INT8: return (int8_t)*at;
  case BANYAN_UINT8: return *at;
  case BANYAN_INT32: memcpy(&i32, at, sizeof i32); return i32;
  default: memcpy(&i64, at, sizeof i64); return (double)i64;
  }
}

/* The value that a rank contributes at a position. Products use only 1, 2 and -1, so that they stay exact. */
static int value(const struct operation *operation, int rank, size_t element) {
  uint64_t x = operation->salt * 1000003ull + (uint64_t)rank * 7919u + element * 31u;
  x ^= x >> 7;
  if (operation->call.op == BANYAN_PRODUCT) return (int)(x % 3) - (x % 3 == 0);
  return operation->call.dtype == BANYAN_UINT8 ? (int)(x % 11) : (int)(x % 11) - 3;
}

/* ---- sizes of buffers */

static size_t block_of(const struct operation *operation, int rank) {
  return operation->call.counts ? operation->counts[rank] : operation->call.count;
}

static size_t before(const struct operation *operation, int rank) {
  size_t sum = 0;
  for (int r = 0; r < rank; r++) sum += block_of(operation, r);
  return sum;
}

static size_t send_count(const struct operation *operation, int rank, int n) {
  bool root = operation->call.root == rank;
  switch (operation->call.collective) {
  case BANYAN_REDUCE_SCATTER:
  case BANYAN_ALLTOALL: return before(operation, n);
  case BANYAN_SCATTER: return root ? before(operation, n) : 0;
  case BANYAN_ALLGATHER:
  case BANYAN_GATHER: return block_of(operation, rank);
  case BANYAN_BROADCAST:
  case BANYAN_BARRIER:
  case BANYAN_RECV: return 0;
  default: return operation->call.count;
  }
}

static size_t recv_count(const struct operation *operation, int rank, int n) {
  bool root = operation->call.root == rank;
  switch (operation->call.collective) {
  case BANYAN_REDUCE_SCATTER:
  case BANYAN_SCATTER: return block_of(operation, rank);
  case BANYAN_ALLTOALL:
  case BANYAN_ALLGATHER: return before(operation, n);
  case BANYAN_GATHER: return root ? before(operation, n) : 0;
  case BANYAN_REDUCE: return root ? operation->call.count : 0;
  case BANYAN_SEND:
  case BANYAN_BARRIER: return 0;
  default: return operation->call.count;
  }
}

/* ---- expected results */

static double fold_floating(const struct operation *operation, int n, size_t i) {
  double scale = operation->call.scale == 0 ? 1 : operation->call.scale, all = scale * value(operation, 0, i);
  for (int r = 1; r < n; r++) {
    double v = scale * value(operation, r, i);
    switch (operation->call.op) {
    case BANYAN_MIN: all = v < all ? v : all; break;
    case BANYAN_MAX: all = v > all ? v : all; break;
    case BANYAN_PRODUCT: all *= v; break;
    default: all += v;
    }
  }
  if (operation->call.op != BANYAN_AVERAGE) return all;
  switch (operation->call.dtype) {
  case BANYAN_FLOAT64: return all / n;
  case BANYAN_FLOAT16: return rounded((double)((float)all / (float)n), 11);
  case BANYAN_BFLOAT16: return rounded((double)((float)all / (float)n), 8);
  default: return (double)((float)all / (float)n);
  }
}

static double fold_integers(const struct operation *operation, int n, size_t i) {
  int64_t all = value(operation, 0, i);
  for (int r = 1; r < n; r++) {
    int64_t v = value(operation, r, i);
    switch (operation->call.op) {
    case BANYAN_MIN: all = v < all ? v : all; break;
    case BANYAN_MAX: all = v > all ? v : all; break;
    case BANYAN_PRODUCT: all *= v; break;
    case BANYAN_AND: all &= v; break;
    case BANYAN_OR: all |= v; break;
    case BANYAN_XOR: all ^= v; break;
    default: all += v;
    }
  }
  if (operation->call.op == BANYAN_AVERAGE) all /= n;
  if (operation->call.dtype == BANYAN_INT8) return (int8_t)all;
  return operation->call.dtype == BANYAN_UINT8 ? (uint8_t)all : (double)all;
}

static double fold(const struct operation *operation, int n, size_t i) {
  return is_floating(operation->call.dtype) ? fold_floating(operation, n, i) : fold_integers(operation, n, i);
}

/* Returns the rank whose block element i belongs to, and the position in this block. Blocks are contiguous. */
static int owner(const struct operation *operation, size_t i, size_t *within) {
  int r = 0;
  while (i >= block_of(operation, r)) i -= block_of(operation, r++);
  *within = i;
  return r;
}

static double expected(const struct operation *operation, int rank, int n, size_t i) {
  size_t within;
  int from;
  switch (operation->call.collective) {
  case BANYAN_ALLREDUCE:
  case BANYAN_REDUCE: return fold(operation, n, i);
  case BANYAN_REDUCE_SCATTER: return fold(operation, n, before(operation, rank) + i);
  case BANYAN_SCATTER: return value(operation, operation->call.root, before(operation, rank) + i);
  case BANYAN_ALLGATHER:
  case BANYAN_GATHER: from = owner(operation, i, &within); return value(operation, from, within);
  case BANYAN_ALLTOALL:
    from = owner(operation, i, &within);
    return value(operation, from, (size_t)rank * operation->call.count + within);
  default: return value(operation, operation->call.root, i); /* broadcast, recv */
  }
}

/* ---- choosing operations */

void operation_vary(struct by_rng *rng, int ranks, struct operation *operation) {
  struct banyan_call *call = &operation->call;
  enum banyan_collective c = call->collective;
  bool adds = c == BANYAN_ALLREDUCE || c == BANYAN_REDUCE || c == BANYAN_REDUCE_SCATTER;
  bool blocks = adds ? c == BANYAN_REDUCE_SCATTER : c == BANYAN_ALLGATHER || c == BANYAN_GATHER || c == BANYAN_SCATTER;
  operation->salt = (uint32_t)by_rng_next(rng);
  call->root = (int)by_rng_below(rng, (uint64_t)ranks);
  if (adds) call->op = (enum banyan_op)by_rng_below(rng, is_floating(call->dtype) ? BANYAN_AND : BANYAN_OPS);
  bool scalable = adds && is_floating(call->dtype) && call->op != BANYAN_PRODUCT;
  call->scale = scalable && by_rng_below(rng, 3) == 0 ? 0.5 : by_rng_below(rng, 2) ? 1 : 0;
  operation->in_place = (adds || c == BANYAN_ALLGATHER || c == BANYAN_GATHER) && by_rng_below(rng, 2);
  bool variable = blocks && by_rng_below(rng, 3) == 0;
  for (int r = 0; r < ranks; r++) operation->counts[r] = by_rng_below(rng, 2 * call->count + 2);
  call->counts = variable ? operation->counts : NULL;
}

void operation_choose(struct by_rng *rng, int ranks, int collective, size_t most, struct operation *operation) {
  *operation = (struct operation){.call = {.dtype = (enum banyan_dtype)by_rng_below(rng, BANYAN_DTYPES)}};
  uint64_t any = by_rng_below(rng, BANYAN_BARRIER + 1);
  operation->call.collective = (enum banyan_collective)(collective < 0 ? any : (uint64_t)collective);
  size_t count = by_rng_below(rng, 4) ? by_rng_below(rng, most + 1) : by_rng_below(rng, 6);
  bool blocks = operation->call.collective >= BANYAN_REDUCE_SCATTER && operation->call.collective <= BANYAN_ALLTOALL;
  operation->call.count = blocks ? (count + 1) / (size_t)ranks : count;
  operation_vary(rng, ranks, operation);
}

/* ---- buffers */

static unsigned char *get_buffer(struct banyan_comm *comm, size_t bytes, bool shared) {
  void *memory = NULL;
  if (shared)
    must(banyan_alloc(comm, bytes + GUARD, &memory));
  else
    memory = malloc(bytes + GUARD);
  must_hold(memory != NULL);
  memset(memory, POISON, bytes);
  memset((char *)memory + bytes, GUARD_BYTE, GUARD);
  return memory;
}

static void give_buffer(struct banyan_comm *comm, unsigned char *memory, bool shared) {
  if (shared)
    banyan_free(comm, memory);
  else
    free(memory);
}

static void fill(const struct operation *operation, int rank, unsigned char *at, size_t count) {
  size_t size = banyan_dtype_size(operation->call.dtype);
  for (size_t i = 0; i < count; i++) put(operation->call.dtype, at + i * size, value(operation, rank, i));
}

/* Returns where this rank's part begins if there is only one buffer. */
static size_t own_offset(const struct operation *operation, int rank) {
  bool gathers = operation->call.collective == BANYAN_ALLGATHER || operation->call.collective == BANYAN_GATHER;
  return gathers ? before(operation, rank) * banyan_dtype_size(operation->call.dtype) : 0;
}

void operation_prepare(struct banyan_comm *comm, struct operation *operation, unsigned shared) {
  int rank = banyan_comm_rank(comm), n = banyan_comm_size(comm);
  size_t size = banyan_dtype_size(operation->call.dtype);
  size_t sends = send_count(operation, rank, n), receives = recv_count(operation, rank, n);
  operation->comm = comm;
  if (operation->call.counts) operation->call.counts = operation->counts; /* `operation` may be a copy */
  bool in_place = operation->in_place && receives;
  operation->send_bytes = sends * size;
  operation->recv_bytes = in_place && sends > receives ? sends * size : receives * size;
  operation->recv_shared = shared & 2;
  operation->send_shared = shared & 1;
  operation->recv = get_buffer(comm, operation->recv_bytes, operation->recv_shared);
  operation->send = NULL;
  operation->before = NULL;
  operation->call.recv = operation->recv;
  if (operation->call.collective == BANYAN_BROADCAST) {
    if (rank == operation->call.root) fill(operation, rank, operation->recv, operation->call.count);
    return;
  }
  if (in_place) {
    fill(operation, rank, operation->recv + own_offset(operation, rank), sends);
    operation->call.send = operation->recv + own_offset(operation, rank);
    return;
  }
  operation->send = get_buffer(comm, operation->send_bytes, operation->send_shared);
  fill(operation, rank, operation->send, sends);
  operation->before = malloc(operation->send_bytes + GUARD);
  must_hold(operation->before != NULL);
  memcpy(operation->before, operation->send, operation->send_bytes + GUARD);
  operation->call.send = operation->send;
}

static void check_guard(const struct operation *operation, const unsigned char *buffer, size_t bytes) {
  char text[200];
  for (size_t i = 0; i < GUARD; i++)
    if (buffer[bytes + i] != GUARD_BYTE)
      rank_fail("%s: byte %zu behind a buffer was written", operation_print(operation, text, sizeof text), i);
}

void operation_check_input(const struct operation *operation) {
  char text[200];
  if (operation->before && memcmp(operation->before, operation->send, operation->send_bytes + GUARD) != 0)
    rank_fail("%s: the send buffer has changed", operation_print(operation, text, sizeof text));
}

void operation_check(const struct operation *operation) {
  int rank = banyan_comm_rank(operation->comm), n = banyan_comm_size(operation->comm);
  size_t size = banyan_dtype_size(operation->call.dtype), receives = recv_count(operation, rank, n);
  char text[200];
  for (size_t i = 0; i < receives; i++) {
    double is = get(operation->call.dtype, operation->recv + i * size), must = expected(operation, rank, n, i);
    if (is != must)
      rank_fail("%s: element %zu is %g, not %g", operation_print(operation, text, sizeof text), i, is, must);
  }
  check_guard(operation, operation->recv, operation->recv_bytes);
  operation_check_input(operation);
}

void operation_free(struct operation *operation) {
  give_buffer(operation->comm, operation->recv, operation->recv_shared);
  if (operation->send) give_buffer(operation->comm, operation->send, operation->send_shared);
  free(operation->before);
  operation->send = operation->recv = operation->before = NULL;
}

void operation_do(struct banyan_comm *comm, struct operation *operation, unsigned shared) {
  char text[200];
  operation_prepare(comm, operation, shared);
  enum banyan_status status = banyan_run(comm, &operation->call);
  if (status != BANYAN_OK) rank_fail("%s: %s", operation_print(operation, text, sizeof text), banyan_error_text());
  operation_check(operation);
  operation_free(operation);
}

const char *operation_print(const struct operation *operation, char *text, size_t room) {
  const struct banyan_call *c = &operation->call;
  snprintf(text, room, "%s of %zu x %s, %s, root %d, scale %g%s%s%s", banyan_collective_name(c->collective), c->count,
           banyan_dtype_name(c->dtype), banyan_op_name(c->op), c->root, c->scale,
           operation->in_place ? ", in place" : "", c->counts ? ", variable counts" : "",
           operation->recv_shared ? ", from banyan_alloc" : "");
  return text;
}
