/* collectives [BYTES]: makes every collective call that Banyan may make in place of MPI, in many forms, on
 * MPI_COMM_WORLD and on other communicators, and compares each result with what it must be. Prints "N checks passed" at
 * rank 0, or what differs, and ends with 1. */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int checks;

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    checks++;                                                                                                          \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: wrong: %s\n", __FILE__, __LINE__, #condition);                                           \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                                                    \
    }                                                                                                                  \
  } while (0)

struct world {
  MPI_Comm comm;
  int rank, n, count; /* count: elements of 8 bytes */
};

/* What rank `rank` contributes as element `i`; small, so that sums and products are exact. */
static double value(int rank, long i) {
  return (double)((rank * 7 + i * 3) % 5 + 1);
}

static double *buffer(const struct world *world, int blocks) {
  return calloc((size_t)world->count * (size_t)blocks + 1, sizeof(double));
}

static double reduced(const struct world *world, MPI_Op op, long i) {
  double out = value(0, i);
  for (int r = 1; r < world->n; r++) {
    double v = value(r, i);
    out = op == MPI_SUM ? out + v : op == MPI_PROD ? out * v : op == MPI_MAX ? (v > out ? v : out) : v < out ? v : out;
  }
  return out;
}

static void check_reductions(const struct world *world) {
  const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN};
  double *send = buffer(world, world->n), *recv = buffer(world, world->n);
  int *counts = calloc((size_t)world->n, sizeof *counts);
  long all = (long)world->count * world->n;
  for (int o = 0; o < 4; o++) {
    MPI_Op op = ops[o];
    for (long i = 0; i < all; i++) send[i] = value(world->rank, i);
    MPI_Allreduce(send, recv, world->count, MPI_DOUBLE, op, world->comm);
    for (long i = 0; i < world->count; i++) CHECK(recv[i] == reduced(world, op, i));

    memcpy(recv, send, (size_t)all * sizeof *recv);
    MPI_Allreduce(MPI_IN_PLACE, recv, world->count, MPI_DOUBLE, op, world->comm);
    for (long i = 0; i < world->count; i++) CHECK(recv[i] == reduced(world, op, i));

    for (int root = 0; root < world->n; root++) {
      bool is_root = root == world->rank;
      memcpy(recv, send, (size_t)all * sizeof *recv);
      MPI_Reduce(is_root ? MPI_IN_PLACE : send, is_root ? recv : NULL, world->count, MPI_DOUBLE, op, root, world->comm);
      for (long i = 0; is_root && i < world->count; i++) CHECK(recv[i] == reduced(world, op, i));
    }

    MPI_Reduce_scatter_block(send, recv, world->count, MPI_DOUBLE, op, world->comm);
    for (long i = 0; i < world->count; i++) CHECK(recv[i] == reduced(world, op, i + (long)world->rank * world->count));

    /* Unequal blocks, that of rank 0 empty. */
    long offset = 0;
    for (int r = 0; r < world->n; r++) counts[r] = r ? world->count / r : 0;
    for (int r = 0; r < world->rank; r++) offset += counts[r];
    MPI_Reduce_scatter(send, recv, counts, MPI_DOUBLE, op, world->comm);
    for (long i = 0; i < counts[world->rank]; i++) CHECK(recv[i] == reduced(world, op, i + offset));
    memcpy(recv, send, (size_t)all * sizeof *recv);
    MPI_Reduce_scatter(MPI_IN_PLACE, recv, counts, MPI_DOUBLE, op, world->comm);
    for (long i = 0; i < counts[world->rank]; i++) CHECK(recv[i] == reduced(world, op, i + offset));
    memcpy(recv, send, (size_t)all * sizeof *recv);
    MPI_Reduce_scatter_block(MPI_IN_PLACE, recv, world->count, MPI_DOUBLE, op, world->comm);
    for (long i = 0; i < world->count; i++) CHECK(recv[i] == reduced(world, op, i + (long)world->rank * world->count));
  }
  free(send);
  free(recv);
  free(counts);
}

/* A user's operation, and one that Banyan does not have, are left to MPI. */
static void take_first(void *in, void *inout, int *length, MPI_Datatype *type) {
  memcpy(inout, in, (size_t)*length * sizeof(double));
}

static void check_types(const struct world *world) {
  int n = world->count, most = 0;
  unsigned *u = calloc((size_t)n, sizeof *u);
  float *complex = calloc(2 * (size_t)n, sizeof *complex);
  signed char *small = calloc((size_t)n, 1);
  struct {
    double value;
    int index;
  } place = {value(world->rank, 0), world->rank}, best;
  MPI_Op op;
  for (int i = 0; i < n; i++) u[i] = 0x80000000u + (unsigned)world->rank;
  MPI_Allreduce(MPI_IN_PLACE, u, n, MPI_UNSIGNED, MPI_MAX, world->comm);
  for (int i = 0; i < n; i++) CHECK(u[i] == 0x80000000u + (unsigned)world->n - 1);
  for (int i = 0; i < n; i++) u[i] = 0xffffffffu;
  MPI_Allreduce(MPI_IN_PLACE, u, n, MPI_UNSIGNED, MPI_SUM, world->comm);
  for (int i = 0; i < n; i++) CHECK(u[i] == 0u - (unsigned)world->n);
  for (int i = 0; i < n; i++) u[i] = 1u << world->rank;
  MPI_Allreduce(MPI_IN_PLACE, u, n, MPI_UNSIGNED, MPI_BOR, world->comm);
  for (int i = 0; i < n; i++) CHECK(u[i] == (1u << world->n) - 1);
  for (int i = 0; i < 2 * n; i++) complex[i] = (float)value(world->rank, i);
  MPI_Allreduce(MPI_IN_PLACE, complex, n, MPI_C_FLOAT_COMPLEX, MPI_SUM, world->comm);
  for (int i = 0; i < 2 * n; i++) CHECK((double)complex[i] == reduced(world, MPI_SUM, i));
  for (int i = 0; i < n; i++) small[i] = (signed char)(i % 3 - world->rank);
  MPI_Allreduce(MPI_IN_PLACE, small, n, MPI_SIGNED_CHAR, MPI_MIN, world->comm);
  for (int i = 0; i < n; i++) CHECK(small[i] == i % 3 - world->n + 1);
  for (int i = 0; i < n; i++) u[i] = world->rank == 0;
  MPI_Allreduce(MPI_IN_PLACE, u, n, MPI_UNSIGNED, MPI_LAND, world->comm);
  CHECK(u[0] == (world->n == 1));
  MPI_Allreduce(&place, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, world->comm);
  for (int r = 1; r < world->n; r++)
    if (value(r, 0) > value(most, 0)) most = r;
  CHECK(best.index == most && best.value == value(most, 0));
  double *own = buffer(world, 1), *first = buffer(world, 1);
  for (int i = 0; i < n; i++) own[i] = value(world->rank, i);
  MPI_Op_create(take_first, 0, &op);
  MPI_Allreduce(own, first, n, MPI_DOUBLE, op, world->comm);
  for (int i = 0; i < n; i++) CHECK(first[i] == value(0, i));
  MPI_Op_free(&op);
  free(own);
  free(first);
  free(u);
  free(complex);
  free(small);
}

/* Every second element of a buffer of twice the size, and, of a vector, `stride` elements. */
static MPI_Datatype every_second(int count) {
  MPI_Datatype type, padded;
  MPI_Type_vector(count, 1, 2, MPI_DOUBLE, &type);
  MPI_Type_create_resized(type, 0, 2 * (MPI_Aint)sizeof(double) * count, &padded);
  MPI_Type_commit(&padded);
  MPI_Type_free(&type);
  return padded;
}

/* Ranks use different types for the same data. */
static void check_data(const struct world *world) {
  int n = world->n, count = world->count;
  bool derived = world->rank % 2 == 1;
  MPI_Datatype second = every_second(count);
  double *send = buffer(world, 2 * n), *recv = buffer(world, 2 * n);
  for (int root = 0; root < n; root++) {
    int step = derived ? 2 : 1;
    for (long i = 0; i < count; i++) recv[i * step] = root == world->rank ? value(root, i) : 0;
    if (derived) recv[1] = -1;
    MPI_Bcast(recv, derived ? 1 : count, derived ? second : MPI_DOUBLE, root, world->comm);
    for (long i = 0; i < count; i++) CHECK(recv[i * step] == value(root, i));
    CHECK(!derived || recv[1] == -1);
  }

  for (int sends = 0; sends < 2; sends++)
    for (int receives = 0; receives < 2; receives++) {
      bool from = derived && sends, to = derived && receives;
      int out = from ? 2 : 1, in = to ? 2 : 1;
      memset(recv, 0, 2 * (size_t)n * (size_t)count * sizeof *recv);
      for (long i = 0; i < count; i++) send[i * out] = value(world->rank, i);
      MPI_Allgather(send, from ? 1 : count, from ? second : MPI_DOUBLE, recv, to ? 1 : count, to ? second : MPI_DOUBLE,
                    world->comm);
      for (int r = 0; r < n; r++)
        for (long i = 0; i < count; i++) CHECK(recv[(r * (long)count + i) * in] == value(r, i));
      for (long i = 0; i < (long)count * n; i++) send[i * out] = value(world->rank, i);
      MPI_Alltoall(send, from ? 1 : count, from ? second : MPI_DOUBLE, recv, to ? 1 : count, to ? second : MPI_DOUBLE,
                   world->comm);
      for (int r = 0; r < n; r++)
        for (long i = 0; i < count; i++)
          CHECK(recv[(r * (long)count + i) * in] == value(r, i + (long)count * world->rank));
      for (long i = 0; i < (long)count * n; i++) recv[i * in] = value(world->rank, i);
      MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, to ? 1 : count, to ? second : MPI_DOUBLE, world->comm);
      for (int r = 0; r < n; r++)
        for (long i = 0; i < count; i++)
          CHECK(recv[(r * (long)count + i) * in] == value(r, i + (long)count * world->rank));
      memset(recv, 0, 2 * (size_t)n * (size_t)count * sizeof *recv);
      for (long i = 0; i < count; i++) recv[((long)world->rank * count + i) * in] = value(world->rank, i);
      MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, to ? 1 : count, to ? second : MPI_DOUBLE, world->comm);
      for (int r = 0; r < n; r++)
        for (long i = 0; i < count; i++) CHECK(recv[(r * (long)count + i) * in] == value(r, i));
    }
  MPI_Type_free(&second);
  free(send);
  free(recv);
}

/* Blocks of unequal length, adjacent, or in reverse order with gaps. */
static void check_gatherv(const struct world *world) {
  int n = world->n, *counts = calloc((size_t)n, sizeof *counts), *places = calloc((size_t)n, sizeof *places);
  double *send = buffer(world, 1), *recv = buffer(world, 2 * n);
  for (long i = 0; i < world->count; i++) send[i] = value(world->rank, i);
  for (int form = 0; form < 4; form++) {
    bool reversed = form % 2, in_place = form / 2;
    int next = 0;
    for (int i = 0; i < n; i++) {
      int r = reversed ? n - 1 - i : i;
      counts[r] = world->count - (r < world->count ? r : 0);
      places[r] = next;
      next += counts[r] + reversed;
    }
    memset(recv, 0, 2 * (size_t)n * (size_t)world->count * sizeof *recv);
    if (in_place) memcpy(recv + places[world->rank], send, (size_t)counts[world->rank] * sizeof *recv);
    MPI_Allgatherv(in_place ? MPI_IN_PLACE : send, counts[world->rank], MPI_DOUBLE, recv, counts, places, MPI_DOUBLE,
                   world->comm);
    for (int r = 0; r < n; r++)
      for (long i = 0; i < counts[r]; i++) CHECK(recv[places[r] + i] == value(r, i));
  }
  free(send);
  free(recv);
  free(counts);
  free(places);
}

/* Messages that were started before a collective call must arrive though their sender is in that call. */
static void check_progress(const struct world *world) {
  enum { LARGE = 1 << 20, SUMMED = 1 << 15 /* more than is left to MPI */ };
  if (world->n < 2 || world->rank > 1) return;
  MPI_Comm pair;
  MPI_Comm_split(world->comm, 0, world->rank, &pair);
  double *large = calloc(LARGE, sizeof *large), *sums = calloc(SUMMED, sizeof *sums);
  for (int i = 0; i < SUMMED; i++) sums[i] = i + world->rank;
  if (world->rank == 0) {
    MPI_Request request;
    for (int i = 0; i < LARGE; i++) large[i] = i;
    MPI_Isend(large, LARGE, MPI_DOUBLE, 1, 3, pair, &request);
    MPI_Allreduce(MPI_IN_PLACE, sums, SUMMED, MPI_DOUBLE, MPI_SUM, pair);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(large, LARGE, MPI_DOUBLE, 0, 3, pair, MPI_STATUS_IGNORE);
    MPI_Allreduce(MPI_IN_PLACE, sums, SUMMED, MPI_DOUBLE, MPI_SUM, pair);
    CHECK(large[LARGE - 1] == LARGE - 1);
  }
  for (int i = 0; i < SUMMED; i++) CHECK(sums[i] == 2 * i + 1);

  /* So must a non-blocking collective call of several rounds, which rank 1 waits for first. */
  MPI_Request request;
  for (int i = 0; i < LARGE; i++) large[i] = world->rank;
  MPI_Iallreduce(MPI_IN_PLACE, large, LARGE, MPI_DOUBLE, MPI_SUM, pair, &request);
  if (world->rank == 1) MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Allreduce(MPI_IN_PLACE, sums, SUMMED, MPI_DOUBLE, MPI_SUM, pair);
  if (world->rank == 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(large[0] == 1 && large[LARGE - 1] == 1);
  MPI_Comm_free(&pair);
  free(large);
  free(sums);
}

static void check_all(MPI_Comm comm, int count) {
  struct world world = {.comm = comm, .count = count};
  MPI_Comm_rank(comm, &world.rank);
  MPI_Comm_size(comm, &world.n);
  check_reductions(&world);
  check_types(&world);
  check_data(&world);
  check_gatherv(&world);
  MPI_Barrier(comm);
}

/* Ranks in reverse order, halves, a copy, and one between two groups, which is left to MPI. */
static void check_communicators(int count) {
  MPI_Comm reversed, half, copy, between;
  int rank, n, sum = 0, one = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  check_all(reversed, count);
  check_all(half, count);
  MPI_Comm_dup(reversed, &copy);
  MPI_Comm_free(&reversed);
  check_all(copy, count);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? 0 : 1, 5, &between);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, between);
  CHECK(sum == (rank % 2 ? (n + 1) / 2 : n / 2));
  MPI_Comm_free(&between);
  MPI_Comm_free(&half); /* the copy is left to MPI_Finalize */
}

int main(int argc, char **argv) {
  int rank, n, provided, count = argc > 1 ? atoi(argv[1]) / 8 : 1000;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  struct world world = {.comm = MPI_COMM_WORLD, .rank = rank, .n = n, .count = count};
  check_all(MPI_COMM_WORLD, count);
  if (n > 1) check_communicators(count);
  MPI_Comm pair;
  MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 0 : 1, rank, &pair);
  world.comm = pair;
  MPI_Comm_size(pair, &world.n);
  if (rank < 2) check_progress(&world);
  MPI_Comm_free(&pair);
  if (rank == 0) printf("%d checks passed\n", checks);
  MPI_Finalize();
  return 0;
}
