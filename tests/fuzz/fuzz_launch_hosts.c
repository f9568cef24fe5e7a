/* Hosts of `banyan run`, given with -H and as a host file. Accepted hosts must be safe to pass to ssh. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "launch.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(struct by_launch_hosts *hosts) {
  int placed = 0;
  for (size_t i = 0; i < hosts->count; i++) {
    const struct by_launch_host *host = &hosts->items[i];
    assert(*host->name && *host->name != '-' && *host->destination != '-');
    assert(!strpbrk(host->destination, " \t\n'\"$`;|&<>()\\*?,"));
    assert(host->slots > 0 && host->slots <= BY_MAX_RANKS);
  }
  if (!hosts->count) return;
  int ranks = by_hosts_slots(hosts);
  if (ranks > BY_MAX_RANKS) ranks = BY_MAX_RANKS;
  assert(by_hosts_place(hosts, ranks) == BANYAN_OK);
  for (size_t i = 0; i < hosts->count; placed += hosts->items[i++].ranks) assert(hosts->items[i].first == placed);
  assert(placed == ranks);
}

static void check_file(const uint8_t *data, size_t size) {
  char path[64];
  struct by_launch_hosts hosts;
  int fd = memfd_create("hosts", MFD_CLOEXEC);
  assert(fd >= 0 && write(fd, data, size) == (ssize_t)size);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  by_hosts_init(&hosts);
  if (by_hosts_read(&hosts, path) == BANYAN_OK) check(&hosts);
  by_hosts_fini(&hosts);
  close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct by_launch_hosts hosts;
  char *text = calloc(1, size + 1);
  assert(text);
  if (size) memcpy(text, data, size);
  by_hosts_init(&hosts);
  if (by_hosts_parse(&hosts, text) == BANYAN_OK) check(&hosts);
  by_hosts_fini(&hosts);
  free(text);
  check_file(data, size);
  return 0;
}
