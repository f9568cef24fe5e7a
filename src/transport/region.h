/* Shared memory regions: what banyan_alloc gives out. A process has one list
 * of them for each job it takes part in; the owner of the list locks it. */
#ifndef BY_TRANSPORT_REGION_H
#define BY_TRANSPORT_REGION_H

#include <stdbool.h>
#include <stddef.h>

#include <banyan/status.h>

#include "frame.h"

struct by_region {
  struct by_region *next;
  char *base;
  size_t bytes; /* whole pages */
  uint32_t id;  /* never used again in its list */
  int fd;
  bool retired; /* to be destroyed once nothing uses it; by_regions_locate does not see it any more */
};

struct by_regions {
  struct by_region *first;
  uint32_t made;
};

/* `bytes` (rounded up to pages) of zeroed memory that other processes of the host can map. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_region_create(size_t bytes, struct by_region **out);
/* Peers that have mapped it keep the pages until they unmap. */
void by_region_destroy(struct by_region *region);

/* Takes the region over and numbers it. */
void by_regions_add(struct by_regions *regions, struct by_region *region);
/* The region that begins there and is not retired, or NULL. */
struct by_region *by_regions_find(const struct by_regions *regions, const void *memory);
/* Fills the region members of `offer` if memory .. memory + bytes lies in a region; else leaves them. */
void by_regions_locate(const struct by_regions *regions, const void *memory, size_t bytes, struct by_offer *offer);
/* Destroys all of them. */
void by_regions_fini(struct by_regions *regions);

#endif
