/* The first program: every rank contributes a number, every rank gets the sum.
 *
 *   cc hello.c -o hello $(pkg-config --cflags --libs banyan)
 *   banyan run -n 4 -- ./hello
 *
 * prints "1 + ... + 4 = 10". Started without `banyan run` it is a job
 * of one rank. */
#include <banyan/banyan.h>

#include <stdio.h>
#include <stdlib.h>

/* The text says what happened, on which rank and host, and what to do. */
static void check(enum banyan_status status) {
  if (status == BANYAN_OK) return;
  fprintf(stderr, "hello: %s\n", banyan_error_text());
  exit(1);
}

int main(void) {
  struct banyan_comm *comm;
  check(banyan_comm_create(NULL, &comm)); /* returns when all ranks are there */
  int rank = banyan_comm_rank(comm), ranks = banyan_comm_size(comm);

  float sum = (float)(rank + 1); /* in place: what goes in is replaced by the result */
  check(banyan_allreduce(comm, &sum, &sum, 1, BANYAN_FLOAT32, BANYAN_SUM));
  if (rank == 0) printf("1 + ... + %d = %g\n", ranks, sum);

  banyan_comm_destroy(comm);
  return 0;
}
