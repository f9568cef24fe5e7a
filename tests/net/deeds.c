#include "deeds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, GUARD_BYTE = 0xa5, POISON = 0x5c };

/* ---- elements */

static bool is_floating(enum banyan_dtype dtype) {
  return dtype <= BANYAN_BFLOAT16;
}

/* The nearest number with so many bits of mantissa, ties to even; small numbers only. */
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

/* What a rank puts in at a place. Products take 1, 2 and -1 only, so that they stay exact. */
static int value(const struct deed *deed, int rank, size_t element) {
  uint64_t x = deed->salt * 1000003ull + (uint64_t)rank * 7919u + element * 31u;
  x ^= x >> 7;
  if (deed->call.op == BANYAN_PRODUCT) return (int)(x % 3) - (x % 3 == 0);
  return deed->call.dtype == BANYAN_UINT8 ? (int)(x % 11) : (int)(x % 11) - 3;
}

/* ---- sizes */

static size_t block_of(const struct deed *deed, int rank) {
  return deed->call.counts ? deed->counts[rank] : deed->call.count;
}

static size_t before(const struct deed *deed, int rank) {
  size_t sum = 0;
  for (int r = 0; r < rank; r++) sum += block_of(deed, r);
  return sum;
}

static size_t send_count(const struct deed *deed, int rank, int n) {
  bool root = deed->call.root == rank;
  switch (deed->call.collective) {
  case BANYAN_REDUCE_SCATTER:
  case BANYAN_ALLTOALL: return before(deed, n);
  case BANYAN_SCATTER: return root ? before(deed, n) : 0;
  case BANYAN_ALLGATHER:
  case BANYAN_GATHER: return block_of(deed, rank);
  case BANYAN_BROADCAST:
  case BANYAN_BARRIER:
  case BANYAN_RECV: return 0;
  default: return deed->call.count;
  }
}

static size_t recv_count(const struct deed *deed, int rank, int n) {
  bool root = deed->call.root == rank;
  switch (deed->call.collective) {
  case BANYAN_REDUCE_SCATTER:
  case BANYAN_SCATTER: return block_of(deed, rank);
  case BANYAN_ALLTOALL:
  case BANYAN_ALLGATHER: return before(deed, n);
  case BANYAN_GATHER: return root ? before(deed, n) : 0;
  case BANYAN_REDUCE: return root ? deed->call.count : 0;
  case BANYAN_SEND:
  case BANYAN_BARRIER: return 0;
  default: return deed->call.count;
  }
}

/* ---- results */

static double fold_floating(const struct deed *deed, int n, size_t i) {
  double scale = deed->call.scale == 0 ? 1 : deed->call.scale, all = scale * value(deed, 0, i);
  for (int r = 1; r < n; r++) {
    double v = scale * value(deed, r, i);
    switch (deed->call.op) {
    case BANYAN_MIN: all = v < all ? v : all; break;
    case BANYAN_MAX: all = v > all ? v : all; break;
    case BANYAN_PRODUCT: all *= v; break;
    default: all += v;
    }
  }
  if (deed->call.op != BANYAN_AVERAGE) return all;
  switch (deed->call.dtype) {
  case BANYAN_FLOAT64: return all / n;
  case BANYAN_FLOAT16: return rounded((double)((float)all / (float)n), 11);
  case BANYAN_BFLOAT16: return rounded((double)((float)all / (float)n), 8);
  default: return (double)((float)all / (float)n);
  }
}

static double fold_integers(const struct deed *deed, int n, size_t i) {
  int64_t all = value(deed, 0, i);
  for (int r = 1; r < n; r++) {
    int64_t v = value(deed, r, i);
    switch (deed->call.op) {
    case BANYAN_MIN: all = v < all ? v : all; break;
    case BANYAN_MAX: all = v > all ? v : all; break;
    case BANYAN_PRODUCT: all *= v; break;
    case BANYAN_AND: all &= v; break;
    case BANYAN_OR: all |= v; break;
    case BANYAN_XOR: all ^= v; break;
    default: all += v;
    }
  }
  if (deed->call.op == BANYAN_AVERAGE) all /= n;
  if (deed->call.dtype == BANYAN_INT8) return (int8_t)all;
  return deed->call.dtype == BANYAN_UINT8 ? (uint8_t)all : (double)all;
}

static double fold(const struct deed *deed, int n, size_t i) {
  return is_floating(deed->call.dtype) ? fold_floating(deed, n, i) : fold_integers(deed, n, i);
}

/* Of blocks one after the other: whose block element i lies in, and where. */
static int owner(const struct deed *deed, size_t i, size_t *within) {
  int r = 0;
  while (i >= block_of(deed, r)) i -= block_of(deed, r++);
  *within = i;
  return r;
}

static double expected(const struct deed *deed, int rank, int n, size_t i) {
  size_t within;
  int from;
  switch (deed->call.collective) {
  case BANYAN_ALLREDUCE:
  case BANYAN_REDUCE: return fold(deed, n, i);
  case BANYAN_REDUCE_SCATTER: return fold(deed, n, before(deed, rank) + i);
  case BANYAN_SCATTER: return value(deed, deed->call.root, before(deed, rank) + i);
  case BANYAN_ALLGATHER:
  case BANYAN_GATHER: from = owner(deed, i, &within); return value(deed, from, within);
  case BANYAN_ALLTOALL:
    from = owner(deed, i, &within);
    return value(deed, from, (size_t)rank * deed->call.count + within);
  default: return value(deed, deed->call.root, i); /* broadcast, recv */
  }
}

/* ---- choosing */

void deed_vary(struct by_rng *rng, int ranks, struct deed *deed) {
  struct banyan_call *call = &deed->call;
  enum banyan_collective c = call->collective;
  bool adds = c == BANYAN_ALLREDUCE || c == BANYAN_REDUCE || c == BANYAN_REDUCE_SCATTER;
  bool blocks = adds ? c == BANYAN_REDUCE_SCATTER : c == BANYAN_ALLGATHER || c == BANYAN_GATHER || c == BANYAN_SCATTER;
  deed->salt = (uint32_t)by_rng_next(rng);
  call->root = (int)by_rng_below(rng, (uint64_t)ranks);
  if (adds) call->op = (enum banyan_op)by_rng_below(rng, is_floating(call->dtype) ? BANYAN_AND : BANYAN_OPS);
  bool scalable = adds && is_floating(call->dtype) && call->op != BANYAN_PRODUCT;
  call->scale = scalable && by_rng_below(rng, 3) == 0 ? 0.5 : by_rng_below(rng, 2) ? 1 : 0;
  deed->in_place = (adds || c == BANYAN_ALLGATHER || c == BANYAN_GATHER) && by_rng_below(rng, 2);
  bool variable = blocks && by_rng_below(rng, 3) == 0;
  for (int r = 0; r < ranks; r++) deed->counts[r] = by_rng_below(rng, 2 * call->count + 2);
  call->counts = variable ? deed->counts : NULL;
}

void deed_choose(struct by_rng *rng, int ranks, int collective, size_t most, struct deed *deed) {
  *deed = (struct deed){.call = {.dtype = (enum banyan_dtype)by_rng_below(rng, BANYAN_DTYPES)}};
  uint64_t any = by_rng_below(rng, BANYAN_BARRIER + 1);
  deed->call.collective = (enum banyan_collective)(collective < 0 ? any : (uint64_t)collective);
  size_t count = by_rng_below(rng, 4) ? by_rng_below(rng, most + 1) : by_rng_below(rng, 6);
  bool blocks = deed->call.collective >= BANYAN_REDUCE_SCATTER && deed->call.collective <= BANYAN_ALLTOALL;
  deed->call.count = blocks ? (count + 1) / (size_t)ranks : count;
  deed_vary(rng, ranks, deed);
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

static void fill(const struct deed *deed, int rank, unsigned char *at, size_t count) {
  size_t size = banyan_dtype_size(deed->call.dtype);
  for (size_t i = 0; i < count; i++) put(deed->call.dtype, at + i * size, value(deed, rank, i));
}

/* Where the own part lies if there is but one buffer. */
static size_t own_offset(const struct deed *deed, int rank) {
  bool gathers = deed->call.collective == BANYAN_ALLGATHER || deed->call.collective == BANYAN_GATHER;
  return gathers ? before(deed, rank) * banyan_dtype_size(deed->call.dtype) : 0;
}

void deed_prepare(struct banyan_comm *comm, struct deed *deed, unsigned shared) {
  int rank = banyan_comm_rank(comm), n = banyan_comm_size(comm);
  size_t size = banyan_dtype_size(deed->call.dtype);
  size_t sends = send_count(deed, rank, n), receives = recv_count(deed, rank, n);
  deed->comm = comm;
  if (deed->call.counts) deed->call.counts = deed->counts; /* the deed may have been copied */
  bool in_place = deed->in_place && receives;
  deed->send_bytes = sends * size;
  deed->recv_bytes = in_place && sends > receives ? sends * size : receives * size;
  deed->recv_shared = shared & 2;
  deed->send_shared = shared & 1;
  deed->recv = get_buffer(comm, deed->recv_bytes, deed->recv_shared);
  deed->send = NULL;
  deed->before = NULL;
  deed->call.recv = deed->recv;
  if (deed->call.collective == BANYAN_BROADCAST) {
    if (rank == deed->call.root) fill(deed, rank, deed->recv, deed->call.count);
    return;
  }
  if (in_place) {
    fill(deed, rank, deed->recv + own_offset(deed, rank), sends);
    deed->call.send = deed->recv + own_offset(deed, rank);
    return;
  }
  deed->send = get_buffer(comm, deed->send_bytes, deed->send_shared);
  fill(deed, rank, deed->send, sends);
  deed->before = malloc(deed->send_bytes + GUARD);
  must_hold(deed->before != NULL);
  memcpy(deed->before, deed->send, deed->send_bytes + GUARD);
  deed->call.send = deed->send;
}

static void check_guard(const struct deed *deed, const unsigned char *buffer, size_t bytes) {
  char text[200];
  for (size_t i = 0; i < GUARD; i++)
    if (buffer[bytes + i] != GUARD_BYTE)
      rank_fail("%s: byte %zu behind a buffer was written", deed_print(deed, text, sizeof text), i);
}

void deed_check(const struct deed *deed) {
  int rank = banyan_comm_rank(deed->comm), n = banyan_comm_size(deed->comm);
  size_t size = banyan_dtype_size(deed->call.dtype), receives = recv_count(deed, rank, n);
  char text[200];
  for (size_t i = 0; i < receives; i++) {
    double is = get(deed->call.dtype, deed->recv + i * size), must = expected(deed, rank, n, i);
    if (is != must) rank_fail("%s: element %zu is %g, not %g", deed_print(deed, text, sizeof text), i, is, must);
  }
  check_guard(deed, deed->recv, deed->recv_bytes);
  if (deed->before && memcmp(deed->before, deed->send, deed->send_bytes + GUARD) != 0)
    rank_fail("%s: the send buffer has changed", deed_print(deed, text, sizeof text));
}

void deed_free(struct deed *deed) {
  give_buffer(deed->comm, deed->recv, deed->recv_shared);
  if (deed->send) give_buffer(deed->comm, deed->send, deed->send_shared);
  free(deed->before);
  deed->send = deed->recv = deed->before = NULL;
}

void deed_do(struct banyan_comm *comm, struct deed *deed, unsigned shared) {
  char text[200];
  deed_prepare(comm, deed, shared);
  enum banyan_status status = banyan_run(comm, &deed->call);
  if (status != BANYAN_OK) rank_fail("%s: %s", deed_print(deed, text, sizeof text), banyan_error_text());
  deed_check(deed);
  deed_free(deed);
}

const char *deed_print(const struct deed *deed, char *text, size_t room) {
  const struct banyan_call *c = &deed->call;
  snprintf(text, room, "%s of %zu x %s, %s, root %d, scale %g%s%s%s", banyan_collective_name(c->collective), c->count,
           banyan_dtype_name(c->dtype), banyan_op_name(c->op), c->root, c->scale, deed->in_place ? ", in place" : "",
           c->counts ? ", variable counts" : "", deed->recv_shared ? ", from banyan_alloc" : "");
  return text;
}
