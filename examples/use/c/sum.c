/* Sums the numbers of all ranks: banyan run -n 2 -- ./sum */
#include <banyan/banyan.h>
#include <stdio.h>

int main(void) {
  struct banyan_comm *comm;
  float x = 3;
  if (banyan_comm_create(NULL, &comm) || banyan_allreduce(comm, &x, &x, 1, BANYAN_FLOAT32, BANYAN_SUM)) {
    fprintf(stderr, "%s\n", banyan_error_text());
    return 1;
  }
  printf("%s: %g of %d\n", banyan_version(), x, banyan_comm_size(comm));
  banyan_comm_destroy(comm);
  return 0;
}
