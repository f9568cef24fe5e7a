#include "context.h"
#include "region.h"

enum banyan_status banyan_alloc(struct banyan_comm *comm, size_t bytes, void **out) {
  if (!comm || !out) return by_fail(BANYAN_ERR_ARGUMENT, "the communicator or the place for the memory is NULL");
  return by_region_alloc(bytes, out);
}

void banyan_free(struct banyan_comm *comm, void *memory) {
  (void)comm;
  if (memory) (void)by_region_free(memory);
}
