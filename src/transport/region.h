/* Shared memory regions, which banyan_alloc returns. A process has one list of them for each job, which the owner of
 * the list locks. */
#ifndef BY_TRANSPORT_REGION_H
#define BY_TRANSPORT_REGION_H

#include <stdbool.h>
#include <stddef.h>

#include <banyan/status.h>

#include "frame.h"

struct by_region {
  struct by_region *next;
  char *base;
  size_t bytes; /* Whole pages. */
  uint32_t id;  /* Unique in its list, also over time. */
  int fd;
  bool retired; /* It is destroyed once nothing uses it. by_regions_locate ignores it. */
};

struct by_regions {
  struct by_region *first;
  uint32_t made;
};

/* `bytes` (rounded up to pages) of zeroed memory that other processes of the host can map. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_region_create(size_t bytes, struct by_region **out);
/* Destroys a region. Peers that have mapped it keep the pages until they unmap them. */
void by_region_destroy(struct by_region *region);

/* Adds a region, which the list then owns, and numbers it. */
void by_regions_add(struct by_regions *regions, struct by_region *region);
/* The region that begins at `memory` and is not retired; NULL: none. */
struct by_region *by_regions_find(const struct by_regions *regions, const void *memory);
/* Fills the region members of `offer` if memory .. memory + bytes lies in a region. Otherwise they stay. */
void by_regions_locate(const struct by_regions *regions, const void *memory, size_t bytes, struct by_offer *offer);
/* Destroys all regions. */
void by_regions_fini(struct by_regions *regions);

#endif
