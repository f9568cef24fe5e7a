/* Communicators of some ranks, made by these alone. */
#include <stdlib.h>

#include "context.h"

/* Splits are counted from 1, and what else a communicator has within it has lower numbers than this. */
enum { OF_NO_SPLIT = 0, OF_SUBSETS = 3 };

static enum banyan_status check(const struct banyan_comm *comm, const int *ranks, int n, uint32_t *place) {
  *place = UINT32_MAX;
  for (int i = 0; i < n; i++) {
    if (ranks[i] < 0 || (uint32_t)ranks[i] >= comm->size)
      return by_fail(BANYAN_ERR_ARGUMENT, "a subset cannot have rank %d: there are %u ranks", ranks[i], comm->size);
    for (int k = 0; k < i; k++)
      if (ranks[k] == ranks[i]) return by_fail(BANYAN_ERR_ARGUMENT, "a subset has rank %d twice", ranks[i]);
    if ((uint32_t)ranks[i] == comm->rank) *place = (uint32_t)i;
  }
  if (*place == UINT32_MAX)
    return by_fail(BANYAN_ERR_ARGUMENT, "this rank, %u, is not in the subset: only its members make it", comm->rank);
  return BANYAN_OK;
}

enum banyan_status banyan_comm_subset(struct banyan_comm *comm, const int *ranks, int n, uint32_t number,
                                      struct banyan_comm **out) {
  BY_TRY(by_comm_check(comm));
  if (!ranks || !out) return by_fail(BANYAN_ERR_ARGUMENT, "the ranks or the place is NULL");
  uint32_t place;
  BY_TRY(check(comm, ranks, n, &place));
  uint32_t *processes = calloc((size_t)n, sizeof *processes);
  if (!processes) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a communicator of %d ranks", n);
  for (int i = 0; i < n; i++) processes[i] = comm->processes[ranks[i]];
  by_context_lock(comm->context);
  uint32_t subsets = by_comm_number(by_domain_id(comm->domain), OF_NO_SPLIT, OF_SUBSETS);
  uint32_t id = by_comm_number(subsets, number, (uint32_t)ranks[0]);
  enum banyan_status status = BANYAN_OK;
  if (by_engine_domain(comm->context->job.engine, id))
    status = by_fail(BANYAN_ERR_ARGUMENT, "a subset with number %u that begins with rank %d is there already", number,
                     ranks[0]);
  if (status == BANYAN_OK) status = by_comm_make(comm->context, id, place, (uint32_t)n, processes, out);
  if (status == BANYAN_OK) (*out)->deadline = comm->deadline;
  by_context_unlock(comm->context);
  free(processes);
  return status;
}
