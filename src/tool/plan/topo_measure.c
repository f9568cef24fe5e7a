#include "topo_measure.h"

#include <stdio.h>

#include "measure.h"

static void tell(void *context, const char *text) {
  (void)context;
  fprintf(stderr, "banyan topo: %s\n", text);
}

enum banyan_status by_topo_measure(struct by_topology **out) {
  struct by_measure_options options = {.tell = tell};
  struct banyan_comm *comm = NULL;
  BY_TRY(banyan_comm_create(NULL, &comm));
  enum banyan_status status;
  if (banyan_comm_size(comm) < 2)
    status = by_fail(BANYAN_ERR_ARGUMENT,
                     "--measure needs a job around it: banyan run -H alpha,beta -- banyan topo --measure");
  else
    status = by_measure(comm, &options, out);
  banyan_comm_destroy(comm);
  return status;
}
