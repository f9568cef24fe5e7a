/* failures wrong|wrong-data|overlap|sizes|mismatch|fatal: makes calls with wrong arguments, or such that differ between
 * ranks, and checks what the error handler of the communicator gets. "fatal" leaves the handler as it is, which ends
 * the program. */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1000 }; /* enough for Banyan */

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: wrong: %s\n", __FILE__, __LINE__, #condition);                                           \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                                                    \
    }                                                                                                                  \
  } while (0)

static int class_of(int code) {
  int class = MPI_SUCCESS;
  MPI_Error_class(code, &class);
  return class;
}

static int handled; /* errors that the handler got */

static void handle(MPI_Comm *comm, int *code, ...) {
  handled++;
}

/* What MPI checks stays with it. */
static void check_wrong(void) {
  double value[4] = {1}, sum[4];
  CHECK(class_of(MPI_Allreduce(value, sum, -1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD)) == MPI_ERR_COUNT);
  CHECK(class_of(MPI_Allreduce(value, sum, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD)) == MPI_ERR_OP);
  CHECK(class_of(MPI_Bcast(value, 1, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD)) == MPI_ERR_TYPE);
  CHECK(class_of(MPI_Bcast(value, 1, MPI_DOUBLE, 99, MPI_COMM_WORLD)) == MPI_ERR_ROOT);
  CHECK(class_of(MPI_Reduce(value, sum, 1, MPI_DOUBLE, MPI_SUM, -7, MPI_COMM_WORLD)) == MPI_ERR_ROOT);
  CHECK(class_of(MPI_Allgather(value, 1, MPI_DOUBLE, sum, -1, MPI_DOUBLE, MPI_COMM_WORLD)) == MPI_ERR_COUNT);
  CHECK(handled == 6);
}

/* Calls that Banyan would make, but for arguments that it does not need. */
static void check_wrong_data(void) {
  static double sent[COUNT], received[4 * COUNT];
  MPI_Datatype raw; /* not committed */
  MPI_Type_contiguous(COUNT, MPI_DOUBLE, &raw);
  CHECK(class_of(MPI_Bcast(sent, 1, raw, 0, MPI_COMM_WORLD)) == MPI_ERR_TYPE);
  CHECK(class_of(MPI_Allgather(sent, 1, raw, received, COUNT, MPI_DOUBLE, MPI_COMM_WORLD)) == MPI_ERR_TYPE);
  CHECK(class_of(MPI_Allgather(sent, COUNT, MPI_DATATYPE_NULL, received, COUNT, MPI_DOUBLE, MPI_COMM_WORLD)) ==
        MPI_ERR_TYPE);
  CHECK(class_of(MPI_Allgather(sent, -1, MPI_DOUBLE, received, COUNT, MPI_DOUBLE, MPI_COMM_WORLD)) == MPI_ERR_COUNT);
  CHECK(class_of(MPI_Alltoall(sent, -1, MPI_DOUBLE, received, COUNT, MPI_DOUBLE, MPI_COMM_WORLD)) == MPI_ERR_COUNT);
  CHECK(handled == 5);
  MPI_Type_free(&raw);
}

/* A rank that would send other bytes than MPI requires ends the job with the reason. */
static void check_sizes(int rank) {
  static double sent[COUNT], received[4 * COUNT];
  char text[MPI_MAX_ERROR_STRING];
  int length,
      code = MPI_Allgather(sent, rank ? COUNT : COUNT - 1, MPI_DOUBLE, received, COUNT, MPI_DOUBLE, MPI_COMM_WORLD);
  CHECK(code != MPI_SUCCESS && handled == 1);
  MPI_Error_string(code, text, &length);
  CHECK(strstr(text, "banyan: ") && strstr(text, "another number of bytes"));
}

/* Banyan reports what it finds itself before it begins, and goes on. */
static void check_overlap(void) {
  char text[MPI_MAX_ERROR_STRING];
  static double value[COUNT + 1], sum[COUNT];
  int length, code = MPI_Allreduce(value, value + 1, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  CHECK(code != MPI_SUCCESS && handled == 1);
  MPI_Error_string(code, text, &length);
  CHECK(strstr(text, "banyan: ") && strstr(text, "overlap"));
  CHECK(MPI_Allreduce(value, sum, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
  CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS && handled == 1);
}

static void check_mismatch(int rank) {
  char text[MPI_MAX_ERROR_STRING];
  static float values[COUNT + 1];
  int length, code = MPI_Allreduce(MPI_IN_PLACE, values, COUNT + (rank == 1), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(code != MPI_SUCCESS && handled == 1 && class_of(code) > MPI_ERR_LASTCODE);
  MPI_Error_string(code, text, &length);
  CHECK(strstr(text, "banyan: ") && strstr(text, "allreduce"));
  CHECK(MPI_Barrier(MPI_COMM_WORLD) == code && handled == 2);
}

int main(int argc, char **argv) {
  MPI_Errhandler handler;
  int rank;
  if (argc != 2) return 2;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_create_errhandler(handle, &handler);
  if (strcmp(argv[1], "fatal") != 0) MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  if (!strcmp(argv[1], "wrong"))
    check_wrong();
  else if (!strcmp(argv[1], "wrong-data"))
    check_wrong_data();
  else if (!strcmp(argv[1], "sizes"))
    check_sizes(rank);
  else if (!strcmp(argv[1], "overlap"))
    check_overlap();
  else
    check_mismatch(rank);
  MPI_Errhandler_free(&handler);
  MPI_Finalize();
  if (rank == 0) puts("as expected");
  return 0;
}
