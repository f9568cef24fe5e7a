/* Shared memory regions of this process: what banyan_alloc gives out. The
 * registry is one per process, any thread. */
#ifndef BY_TRANSPORT_REGION_H
#define BY_TRANSPORT_REGION_H

#include <stdbool.h>
#include <stddef.h>

#include <banyan/status.h>

#include "frame.h"

/* `bytes` (rounded up to pages) of zeroed memory that other processes of the host can map. */
BANYAN_CHECK enum banyan_status by_region_alloc(size_t bytes, void **out);
/* Peers that have mapped it keep the pages until they unmap. Returns false if no region starts there. */
bool by_region_free(void *memory);
/* Fills the region members of `offer` if memory .. memory + bytes lies in a region; else leaves them. */
void by_region_locate(const void *memory, size_t bytes, struct by_offer *offer);

#endif
