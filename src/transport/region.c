#include "region.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fail.h"

enum { PAGE = 4096 };

struct region {
  struct region *next;
  char *base;
  size_t bytes;
  uint32_t id;
  int fd;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct region *regions;
static uint32_t next_id = 1;

static enum banyan_status map_region(struct region *region) {
  region->fd = memfd_create("banyan", MFD_CLOEXEC);
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

enum banyan_status by_region_alloc(size_t bytes, void **out) {
  if (!bytes) bytes = 1;
  if (bytes > SIZE_MAX / 2) return by_fail(BANYAN_ERR_ARGUMENT, "%zu bytes of shared memory are too many", bytes);
  struct region *region = calloc(1, sizeof *region);
  if (!region) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory");
  region->bytes = (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
  enum banyan_status status = map_region(region);
  if (status != BANYAN_OK) {
    if (region->fd >= 0) close(region->fd);
    free(region);
    return status;
  }
  pthread_mutex_lock(&lock);
  region->id = next_id++;
  region->next = regions;
  regions = region;
  pthread_mutex_unlock(&lock);
  *out = region->base;
  return BANYAN_OK;
}

bool by_region_free(void *memory) {
  pthread_mutex_lock(&lock);
  struct region **place = &regions, *found = NULL;
  while (*place && (*place)->base != memory) place = &(*place)->next;
  if (*place) {
    found = *place;
    *place = found->next;
  }
  pthread_mutex_unlock(&lock);
  if (!found) return false;
  munmap(found->base, found->bytes);
  close(found->fd);
  free(found);
  return true;
}

void by_region_locate(const void *memory, size_t bytes, struct by_offer *offer) {
  const char *at = memory;
  pthread_mutex_lock(&lock);
  for (const struct region *r = regions; r; r = r->next) {
    if (at < r->base || at + bytes > r->base + r->bytes) continue;
    offer->region = r->id;
    offer->region_fd = (uint32_t)r->fd;
    offer->region_offset = (uint64_t)(at - r->base);
    offer->region_size = r->bytes;
    break;
  }
  pthread_mutex_unlock(&lock);
}
