/* Ranks that add numbers, but for the last one, which ends well before: `leave` after it has left the job, `stay`
 * without. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <banyan/banyan.h>

static int fail(void) {
  fprintf(stderr, "leave: %s\n", banyan_error_text());
  return 1;
}

static struct banyan_comm *comm; /* is no leak if it stays */

int main(int argc, char **argv) {
  float one = 1, sum;
  if (argc != 2 || banyan_comm_create(NULL, &comm)) return fail();
  bool is_last = banyan_comm_rank(comm) == banyan_comm_size(comm) - 1, stays = strcmp(argv[1], "stay") == 0;
  if (!is_last && banyan_allreduce(comm, &one, &sum, 1, BANYAN_FLOAT32, BANYAN_SUM)) return fail();
  if (!stays) banyan_comm_destroy(comm);
  return 0;
}
