/* random_calls SEED STEPS: a random sequence of collective calls, with messages and calls of MPI alone under way, on
 * communicators that come and go. All ranks draw what must be equal from one generator, and types and forms of the same
 * data each from its own. Rank 0 prints a hash of all results, which is the same with and without Banyan: values are
 * such that sums are exact. RANDOM_CALLS_TRACE is a folder for a file of each rank's steps. */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 6, PENDING = 4, MOST_ITEM = 4, GUARD = 64 };

static int world_rank, world_size;
static uint64_t shared, own, hash = 1;
static FILE *trace;

static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static unsigned draw(uint64_t *state, unsigned below) {
  *state = mix(*state);
  return (unsigned)(*state >> 33) % below;
}

static void add_to_hash(const void *data, size_t bytes) {
  const unsigned char *from = data;
  for (size_t i = 0; i < bytes; i++) hash = (hash ^ from[i]) * 0x100000001b3u;
}

/* ---- types: items of `each` elements, placed in memory in one of several ways */

struct form {
  MPI_Datatype type;
  int each;
  MPI_Aint size, extent, low, at[MOST_ITEM]; /* of an element, of an item, its lower bound, of each element in it */
};

static void make_form(struct form *f, MPI_Datatype base, int each, int kind) {
  int size, ones[MOST_ITEM] = {1, 1, 1, 1};
  MPI_Datatype inner, types[MOST_ITEM] = {base, base, base, base};
  MPI_Type_size(base, &size);
  *f = (struct form){.type = base, .each = each, .size = size, .extent = (MPI_Aint)each * size};
  for (int i = 0; i < each; i++) f->at[i] = (MPI_Aint)i * size;
  switch (kind) {
  case 0:
    f->each = 1;
    f->extent = size;
    return;
  case 1: MPI_Type_contiguous(each, base, &f->type); break;
  case 2: /* gaps */
    for (int i = 0; i < each; i++) f->at[i] = 2 * (MPI_Aint)i * size;
    f->extent = (2 * (MPI_Aint)each + 1) * size;
    MPI_Type_vector(each, 1, 2, base, &inner);
    MPI_Type_create_resized(inner, 0, f->extent, &f->type);
    MPI_Type_free(&inner);
    break;
  case 3: /* reversed, without gaps */
    for (int i = 0; i < each; i++) f->at[i] = (MPI_Aint)(each - 1 - i) * size;
    MPI_Type_create_struct(each, ones, f->at, types, &f->type);
    break;
  case 4: /* begins before the buffer's address */
    for (int i = 0; i < each; i++) f->at[i] = (MPI_Aint)(i - 1) * size;
    f->low = -2 * (MPI_Aint)size;
    f->extent = ((MPI_Aint)each + 3) * size;
    MPI_Type_create_hindexed(each, ones, f->at, base, &inner);
    MPI_Type_create_resized(inner, f->low, f->extent, &f->type);
    MPI_Type_free(&inner);
    break;
  default: /* of padded elements */
    for (int i = 0; i < each; i++) f->at[i] = 3 * (MPI_Aint)i * size;
    f->extent = 3 * (MPI_Aint)each * size;
    MPI_Type_create_resized(base, 0, 3 * (MPI_Aint)size, &inner);
    MPI_Type_contiguous(each, inner, &f->type);
    MPI_Type_free(&inner);
  }
  MPI_Type_commit(&f->type);
}

static void free_form(struct form *f, MPI_Datatype base) {
  if (f->type != base) MPI_Type_free(&f->type);
}

static const MPI_Datatype bases[] = {MPI_INT,       MPI_DOUBLE, MPI_CHAR, MPI_SHORT,           MPI_BYTE,
                                     MPI_LONG_LONG, MPI_FLOAT,  MPI_2INT, MPI_C_DOUBLE_COMPLEX};
enum { BASES = sizeof bases / sizeof *bases };

/* The form of this rank's side: `each` is shared, the kind its own. */
static struct form draw_form(MPI_Datatype base, int each) {
  struct form f;
  make_form(&f, base, each, (int)draw(&own, 6));
  return f;
}

/* ---- buffers of `elements` elements: filled around with a pattern that must stay */

struct buffer {
  char *memory, *data;
  size_t bytes;
};

static struct buffer make_buffer(const struct form *f, size_t elements) {
  struct buffer b = {.bytes = elements / (size_t)f->each * (size_t)f->extent + 2 * GUARD};
  b.memory = malloc(b.bytes);
  memset(b.memory, 0x5a, b.bytes);
  b.data = b.memory + GUARD - f->low;
  return b;
}

static char *element(const struct form *f, const struct buffer *b, size_t i) {
  return b->data + (MPI_Aint)(i / (size_t)f->each) * f->extent + f->at[i % (size_t)f->each];
}

/* Elements `first` on get the values of `source`, and its elements 0 on. */
static void fill(const struct form *f, struct buffer *b, size_t first, size_t n, uint64_t source) {
  for (size_t i = 0; i < n; i++) {
    uint64_t value[2] = {mix(source + i)};
    value[1] = mix(value[0]);
    memcpy(element(f, b, first + i), value, (size_t)f->size);
  }
}

/* The elements in the order of their numbers, and that nothing else was written. */
static void end_buffer(const struct form *f, struct buffer *b, size_t first, size_t n, size_t elements) {
  for (size_t i = first; i < first + n; i++) add_to_hash(element(f, b, i), (size_t)f->size);
  for (size_t i = 0; i < elements; i++) memset(element(f, b, i), 0x5a, (size_t)f->size);
  for (size_t i = 0; i < b->bytes; i++)
    if (b->memory[i] != 0x5a) {
      fprintf(stderr, "rank %d: byte %zu outside of the data was written\n", world_rank, i);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  free(b->memory);
}

/* ---- communicators */

static MPI_Comm slots[SLOTS];

static MPI_Comm make_subgroup(unsigned mask) {
  MPI_Group all, some;
  MPI_Comm out;
  int ranks[64], n = 0;
  for (int r = world_size - 1; r >= 0; r--)
    if (mask >> r & 1) ranks[n++] = r;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, n, ranks, &some);
  MPI_Comm_create(MPI_COMM_WORLD, some, &out);
  MPI_Group_free(&all);
  MPI_Group_free(&some);
  return out;
}

/* Called by all ranks of MPI_COMM_WORLD. */
static void renew(int place) {
  MPI_Comm *comm = &slots[place];
  int dims[1] = {world_size}, periods[1] = {1};
  bool disconnects = draw(&shared, 4) == 0;
  if (*comm != MPI_COMM_NULL && *comm != MPI_COMM_WORLD) {
    if (disconnects)
      MPI_Comm_disconnect(comm);
    else
      MPI_Comm_free(comm);
  }
  *comm = MPI_COMM_NULL;
  unsigned kind = draw(&shared, 8), colors = 1 + draw(&shared, 3), key = draw(&shared, 1000);
  int color = (int)(mix(key + (unsigned)world_rank) % colors);
  switch (kind) {
  case 0: MPI_Comm_dup(MPI_COMM_WORLD, comm); break;
  case 1: /* ranks in another order, and some in none */
    MPI_Comm_split(MPI_COMM_WORLD, color == 2 ? MPI_UNDEFINED : color, (int)(mix(key * 7u + (unsigned)world_rank) % 97),
                   comm);
    break;
  case 2: MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -world_rank, MPI_INFO_NULL, comm); break;
  case 3: MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 1, comm); break;
  case 4: *comm = make_subgroup(key % ((1u << world_size) - 1) + 1); break;
  case 5: { /* of a communicator that is freed at once */
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, color, world_rank, &half);
    MPI_Comm_dup(half, comm);
    MPI_Comm_free(&half);
    break;
  }
  case 6: MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, comm); break;
  default: *comm = MPI_COMM_WORLD;
  }
}

/* ---- what is under way: calls that MPI makes, and messages */

struct pending {
  MPI_Request requests[2];
  int64_t *values, *results;
  int n;
};
static struct pending pending[PENDING];

static void finish(struct pending *p) {
  if (!p->values) return;
  for (int i = 0; i < 2; i++) MPI_Wait(&p->requests[i], MPI_STATUS_IGNORE);
  add_to_hash(p->results, (size_t)p->n * 8);
  free(p->values);
  free(p->results);
  p->values = NULL;
}

static void begin(MPI_Comm comm, int step) {
  struct pending *p = &pending[draw(&shared, PENDING)];
  int rank, size, n = (int)(draw(&shared, 3) ? draw(&shared, 500) : draw(&shared, 40000)), kind = (int)draw(&shared, 4);
  finish(p);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  *p = (struct pending){{MPI_REQUEST_NULL, MPI_REQUEST_NULL}, .n = n};
  p->values = malloc((size_t)n * 8 + 8);
  p->results = calloc((size_t)n + 1, 8);
  for (int i = 0; i < n; i++) p->values[i] = (int64_t)mix((uint64_t)(step * 100 + rank) + (uint64_t)i);
  if (kind == 0)
    MPI_Iallreduce(p->values, p->results, n, MPI_INT64_T, MPI_BXOR, comm, p->requests);
  else if (kind == 1)
    MPI_Ibcast(rank == size - 1 ? p->values : p->results, n, MPI_INT64_T, size - 1, comm, p->requests);
  else {
    if (kind == 2) MPI_Irecv(p->results, n, MPI_INT64_T, (rank + size - 1) % size, 7, comm, &p->requests[1]);
    MPI_Isend(p->values, n, MPI_INT64_T, (rank + 1) % size, 7, comm, p->requests);
    if (kind == 3) MPI_Irecv(p->results, n, MPI_INT64_T, (rank + size - 1) % size, 7, comm, &p->requests[1]);
  }
}

/* ---- calls */

/* Elements of a call: none, few, about the limits of the table in groups.c, and many. */
static int draw_count(int size, int parts) {
  static const int bytes[] = {0, 0, 8, 500, 512, 1024, 2048, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 300000};
  unsigned at = draw(&shared, 60);
  int limit = at < 12 ? bytes[at] : at < 40 ? (int)draw(&shared, 3000) : at < 58 ? (int)draw(&shared, 60000) : 400000;
  int count = limit / size / parts + (int)draw(&shared, 3) - 1;
  return count < 0 ? 0 : count;
}

struct reduction {
  MPI_Datatype type;
  MPI_Op op;
  char kind; /* i: any bits; f, d: small numbers */
};

static MPI_Op user_op;
static MPI_Datatype pair_type;

static void multiply_add(void *in, void *inout, int *n, MPI_Datatype *type) {
  uint64_t *a = in, *b = inout;
  for (int i = 0; i < *n; i++) {
    b[2 * i] = a[2 * i] * b[2 * i];
    b[2 * i + 1] = a[2 * i + 1] + b[2 * i + 1];
  }
}

static struct reduction draw_reduction(void) {
  const MPI_Op bits[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR};
  const MPI_Datatype integers[] = {MPI_INT,     MPI_LONG,     MPI_UNSIGNED,    MPI_INT8_T,        MPI_UINT8_T,
                                   MPI_SHORT,   MPI_UINT64_T, MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_INT64_T,
                                   MPI_INT16_T, MPI_UINT32_T, MPI_LONG_LONG,   MPI_AINT,          MPI_UNSIGNED_SHORT};
  switch (draw(&shared, 8)) {
  case 0: return (struct reduction){MPI_DOUBLE, bits[draw(&shared, 4)], 'd'};
  case 1: return (struct reduction){MPI_FLOAT, bits[draw(&shared, 4)], 'f'};
  case 2: return (struct reduction){MPI_C_DOUBLE_COMPLEX, bits[draw(&shared, 2)], 'd'};
  case 3: return (struct reduction){MPI_C_FLOAT_COMPLEX, bits[draw(&shared, 2)], 'f'};
  case 4: return (struct reduction){pair_type, user_op, 'i'};
  case 5: return (struct reduction){MPI_BYTE, bits[4 + draw(&shared, 3)], 'i'};
  default: return (struct reduction){integers[draw(&shared, 15)], bits[draw(&shared, 10)], 'i'};
  }
}

static MPI_Aint extent_of(MPI_Datatype type) {
  MPI_Aint low, extent;
  MPI_Type_get_extent(type, &low, &extent);
  return extent;
}

static void fill_numbers(const struct reduction *r, char *to, size_t n, uint64_t source) {
  size_t extent = (size_t)extent_of(r->type), bytes = n * extent;
  memset(to, 0, bytes);
  for (size_t i = 0; r->kind == 'd' && i < bytes / 8; i++)
    ((double *)(void *)to)[i] = (double)(mix(source + i) % 4) - 1;
  for (size_t i = 0; r->kind == 'f' && i < bytes / 4; i++) ((float *)(void *)to)[i] = (float)(mix(source + i) % 4) - 1;
  for (size_t i = 0; r->kind == 'i' && i < bytes; i++) to[i] = (char)mix(source + i);
}

static void reduce_step(MPI_Comm comm, int call, uint64_t source) {
  struct reduction r = draw_reduction();
  int rank, n;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &n);
  size_t extent = (size_t)extent_of(r.type);
  int blocks = call == 2 || call == 3 ? n : 1;
  int count = draw_count((int)extent, blocks), counts[64], total = count * blocks;
  int root = (int)draw(&shared, (unsigned)n);
  bool in_place = draw(&shared, 3) == 0;
  if (call == 2) { /* unequal */
    for (int i = 0; i < n; i++) counts[i] = count * blocks / n;
    for (int i = 0; i + 1 < n; i++) {
      int less = (int)draw(&shared, (unsigned)counts[i] + 1);
      if (draw(&shared, 3)) counts[i] -= less, counts[i + 1] += less;
    }
  }
  if (call == 3) count = total / n;
#ifdef MPICH_VERSION
  if (call == 1 && root) in_place = false; /* MPICH 4.0 reads from MPI_IN_PLACE */
#endif
  char *send = malloc((size_t)total * extent + 2 * GUARD), *recv = malloc((size_t)total * extent + 2 * GUARD);
  memset(send, 0x5a, (size_t)total * extent + 2 * GUARD);
  memset(recv, 0x5a, (size_t)total * extent + 2 * GUARD);
  fill_numbers(&r, (in_place ? recv : send) + GUARD, (size_t)total, source + (uint64_t)rank * 1000003u);
  const void *from = in_place ? MPI_IN_PLACE : send + GUARD;
  void *to = recv + GUARD;
  int results = total;
  switch (call) {
  case 0: MPI_Allreduce(from, to, count, r.type, r.op, comm); break;
  case 1:
    MPI_Reduce(in_place && rank != root ? to : from,
               rank == root    ? to
               : draw(&own, 2) ? NULL
                               : send + GUARD,
               count, r.type, r.op, root, comm);
    if (rank != root) results = 0;
    break;
  case 2:
    MPI_Reduce_scatter(from, to, counts, r.type, r.op, comm);
    results = counts[rank];
    break;
  case 3:
    MPI_Reduce_scatter_block(from, to, count, r.type, r.op, comm);
    results = count;
    break;
  case 4: MPI_Scan(from, to, count, r.type, r.op, comm); break;
  default:
    MPI_Exscan(from, to, count, r.type, r.op, comm);
    if (rank == 0) results = 0;
  }
  add_to_hash(recv + GUARD, (size_t)results * extent);
  for (int i = 0; i < GUARD; i++)
    if (recv[i] != 0x5a || recv[(size_t)total * extent + GUARD + (size_t)i] != 0x5a) {
      fprintf(stderr, "rank %d: bytes outside of a reduction's were written\n", world_rank);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  free(send);
  free(recv);
}

static void data_step(MPI_Comm comm, int call, uint64_t source) {
  MPI_Datatype base = bases[draw(&shared, BASES)];
  int each = 1 + (int)draw(&shared, MOST_ITEM), rank, n, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &n);
  MPI_Type_size(base, &size);
  struct form out = draw_form(base, each), in = draw_form(base, each);
  while (call == 2 &&
         out.each != in.each) { /* Open MPI 4.1 chooses its algorithm by counts of one, sizes of the other */
    free_form(&out, base);
    out = draw_form(base, each);
  }
  int items = draw_count(size * each, call ? n : 1), elements = items * each;
  bool in_place = call && draw(&shared, 3) == 0;
  uint64_t mine = source + (uint64_t)rank * 1000003u;
  int sent = call == 0 || call == 1 ? elements : elements * n;
  int counts[64], places[64], firsts[64], total = 0;
  struct buffer send, recv;
  if (call == 2 || call == 4) { /* allgatherv, alltoallv: blocks by the sum of both ranks, which both know */
    for (int i = 0; i < n; i++) {
      uint64_t pair = call == 4 ? source + (uint64_t)(i + rank) : source + (uint64_t)i;
      counts[i] = (int)(mix(pair) % (uint64_t)(items + 1)) * each;
      if (in_place && call == 4) counts[i] = elements;
    }
    bool reversed = draw(&own, 2);
    for (int i = 0; i < n; i++) {
      int p = reversed ? n - 1 - i : i;
      firsts[p] = total;
      total += counts[p] + (reversed ? each : 0);
    }
  } else
    total = call == 0 ? elements : elements * n;
  if (call == 2) sent = (int)(mix(source + (uint64_t)rank) % (uint64_t)(items + 1)) * each;
  if (call == 4) sent = total;
  if (call == 3) sent = elements * n;
  send = make_buffer(&out, (size_t)sent);
  recv = make_buffer(&in, (size_t)total);
  switch (call) {
  case 0: { /* bcast */
    int root = (int)draw(&shared, (unsigned)n);
    if (root == rank) fill(&in, &recv, 0, (size_t)total, source);
    MPI_Bcast(recv.data, total / in.each, in.type, root, comm);
    break;
  }
  case 1: /* allgather */
    if (in_place)
      fill(&in, &recv, (size_t)(elements * rank), (size_t)elements, mine);
    else
      fill(&out, &send, 0, (size_t)elements, mine);
    MPI_Allgather(in_place ? MPI_IN_PLACE : send.data, elements / out.each, out.type, recv.data, elements / in.each,
                  in.type, comm);
    break;
  case 2:
    if (in_place)
      fill(&in, &recv, (size_t)firsts[rank], (size_t)counts[rank], mine);
    else
      fill(&out, &send, 0, (size_t)sent, mine);
    for (int i = 0; i < n; i++) counts[i] /= in.each, places[i] = firsts[i] / in.each;
    MPI_Allgatherv(in_place ? MPI_IN_PLACE : send.data, sent / out.each, out.type, recv.data, counts, places, in.type,
                   comm);
    for (int i = 0; i < n; i++) counts[i] *= in.each;
    break;
  case 3: /* alltoall */
    if (in_place)
      fill(&in, &recv, 0, (size_t)total, mine);
    else
      fill(&out, &send, 0, (size_t)sent, mine);
    MPI_Alltoall(in_place ? MPI_IN_PLACE : send.data, elements / out.each, out.type, recv.data, elements / in.each,
                 in.type, comm);
    break;
  default: { /* alltoallv */
    int send_counts[64], send_places[64], recv_counts[64];
    if (in_place)
      fill(&in, &recv, 0, (size_t)total, mine);
    else
      fill(&out, &send, 0, (size_t)sent, mine);
    for (int i = 0; i < n; i++) {
      send_counts[i] = counts[i] / out.each, send_places[i] = firsts[i] / out.each;
      recv_counts[i] = counts[i] / in.each, places[i] = firsts[i] / in.each;
    }
    MPI_Alltoallv(in_place ? MPI_IN_PLACE : send.data, send_counts, send_places, out.type, recv.data, recv_counts,
                  places, in.type, comm);
  }
  }
  if (call == 2 || call == 4)
    for (int i = 0; i < n; i++)
      for (int j = firsts[i]; j < firsts[i] + counts[i]; j++)
        add_to_hash(element(&in, &recv, (size_t)j), (size_t)in.size);
  bool whole = call == 2 || call == 4;
  end_buffer(&in, &recv, 0, whole ? 0 : (size_t)total, (size_t)total);
  end_buffer(&out, &send, 0, 0, (size_t)sent);
  free_form(&in, base);
  free_form(&out, base);
}

int main(int argc, char **argv) {
  uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1, sum = 0;
  int steps = argc > 2 ? atoi(argv[2]) : 100, provided;
  char name[512];
  const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
  MPI_Init_thread(&argc, &argv, levels[seed % 4], &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  if (getenv("RANDOM_CALLS_TRACE")) {
    snprintf(name, sizeof name, "%s/%d", getenv("RANDOM_CALLS_TRACE"), world_rank);
    trace = fopen(name, "w");
    setvbuf(trace, NULL, _IOLBF, 0);
  }
  MPI_Type_contiguous(2, MPI_INT64_T, &pair_type);
  MPI_Type_commit(&pair_type);
  MPI_Op_create(multiply_add, 1, &user_op);
  for (int i = 0; i < SLOTS; i++) slots[i] = MPI_COMM_NULL;
  for (int step = 0; step < steps; step++) {
    shared = mix(seed * 1000003u + (uint64_t)step);
    own = mix(shared + 17u * (unsigned)world_rank);
    if (step % 8 == 0) {
      for (int i = 0; i < PENDING; i++) finish(&pending[i]);
      renew(step / 8 % SLOTS);
      if (step == 0) slots[0] = MPI_COMM_WORLD;
    }
    MPI_Comm *s = &slots[draw(&shared, SLOTS)];
    uint64_t source = mix(shared ^ 99);
    unsigned what = draw(&shared, 20);
    if (trace) fprintf(trace, "%d slot %d what %u\n", step, (int)(s - slots), what);
    if (*s == MPI_COMM_NULL) continue;
    if (draw(&own, 10) == 0) usleep(draw(&own, 2000));
    if (what < 6)
      reduce_step(*s, (int)what, source);
    else if (what < 8)
      reduce_step(*s, (int)what - 6, source);
    else if (what < 13)
      data_step(*s, (int)what - 8, source);
    else if (what < 16)
      data_step(*s, what == 15 ? 0 : 1, source);
    else if (what < 18)
      begin(*s, step);
    else if (what == 18)
      MPI_Barrier(*s);
    if (trace) fprintf(trace, "  %016llx\n", (unsigned long long)hash);
  }
  for (int i = 0; i < PENDING; i++) finish(&pending[i]);
  for (int i = 0; i < SLOTS; i++) /* others are left to MPI_Finalize */
    if (i % 2 && slots[i] != MPI_COMM_NULL && slots[i] != MPI_COMM_WORLD) MPI_Comm_free(&slots[i]);
  MPI_Op_free(&user_op);
  MPI_Type_free(&pair_type);
  hash = mix(hash + (unsigned)world_rank);
  MPI_Reduce(&hash, &sum, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (world_rank == 0) printf("%d steps: %016llx\n", steps, (unsigned long long)sum);
  MPI_Finalize();
  return 0;
}
