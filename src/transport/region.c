/* Shared memory regions: creates them in memfds, and keeps the list of a job. */
#include "region.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "descriptor.h"
#include "fail.h"

enum { PAGE = 4096 };

static enum banyan_status map(struct by_region *region) {
  region->fd = BY_DESCRIPTOR(memfd_create("banyan", MFD_CLOEXEC));
  if (region->fd < 0)
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "memfd_create for %zu bytes of shared memory", region->bytes);
  if (ftruncate(region->fd, (off_t)region->bytes) != 0)
    return by_fail_errno(BANYAN_ERR_NO_MEMORY, errno, "sizing %zu bytes of shared memory", region->bytes);
  void *base = mmap(NULL, region->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, region->fd, 0);
  if (base == MAP_FAILED)
    return by_fail_errno(BANYAN_ERR_NO_MEMORY, errno, "mapping %zu bytes of shared memory", region->bytes);
  region->base = base;
  return BANYAN_OK;
}

enum banyan_status by_region_create(size_t bytes, struct by_region **out) {
  if (!bytes) bytes = 1;
  if (bytes > SIZE_MAX / 2) return by_fail(BANYAN_ERR_ARGUMENT, "%zu bytes of shared memory are too many", bytes);
  struct by_region *region = calloc(1, sizeof *region);
  if (!region) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for shared memory");
  region->bytes = (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
  enum banyan_status status = map(region);
  if (status != BANYAN_OK) {
    by_region_destroy(region);
    return status;
  }
  *out = region;
  return BANYAN_OK;
}

void by_region_destroy(struct by_region *region) {
  if (region->base) munmap(region->base, region->bytes);
  if (region->fd >= 0) by_close(region->fd);
  free(region);
}

void by_regions_add(struct by_regions *regions, struct by_region *region) {
  region->id = ++regions->made;
  region->next = regions->first;
  regions->first = region;
}

struct by_region *by_regions_find(const struct by_regions *regions, const void *memory) {
  struct by_region *region = regions->first;
  while (region && (region->base != memory || region->retired)) region = region->next;
  return region;
}

void by_regions_locate(const struct by_regions *regions, const void *memory, size_t bytes, struct by_offer *offer) {
  const char *at = memory;
  for (const struct by_region *r = regions->first; r; r = r->next) {
    if (r->retired || at < r->base || at + bytes > r->base + r->bytes) continue;
    offer->region = r->id;
    offer->region_fd = (uint32_t)r->fd;
    offer->region_offset = (uint64_t)(at - r->base);
    offer->region_size = r->bytes;
    return;
  }
}

void by_regions_fini(struct by_regions *regions) {
  while (regions->first) {
    struct by_region *region = regions->first;
    regions->first = region->next;
    by_region_destroy(region);
  }
}
