/* Shared memory of a job. A region is freed once no call under way uses it,
 * and the peers that may have mapped it are told; it goes with the job at the
 * latest. */
#include "comm.h"

enum banyan_status banyan_alloc(struct banyan_comm *comm, size_t bytes, void **out) {
  BY_TRY(by_comm_check(comm));
  if (!out) return by_fail(BANYAN_ERR_ARGUMENT, "the place for the memory is NULL");
  struct by_region *region = NULL;
  BY_TRY(by_region_create(bytes, &region));
  *out = region->base;
  by_context_lock(comm->context);
  by_regions_add(&comm->context->regions, region);
  by_context_unlock(comm->context);
  return BANYAN_OK;
}

void by_memory_sweep(struct by_context *context) {
  for (struct by_region **place = &context->regions.first; *place && context->doomed;) {
    struct by_region *region = *place;
    if (!region->doomed || by_engine_uses(context->job.engine, region->base, region->bytes)) {
      place = &region->next;
      continue;
    }
    *place = region->next;
    context->doomed--;
    by_engine_forget_region(context->job.engine, region->id);
    by_region_destroy(region);
  }
}

void by_memory_doom(struct by_context *context, struct by_region *region) {
  region->doomed = true;
  context->doomed++;
}

void banyan_free(struct banyan_comm *comm, void *memory) {
  if (!comm || !memory || by_context_is_of_parent(comm->context)) return;
  struct by_context *context = comm->context;
  by_context_lock(context);
  struct by_region *region = by_regions_find(&context->regions, memory);
  if (region) {
    by_memory_doom(context, region);
    by_memory_sweep(context);
  }
  by_context_unlock(context);
}
