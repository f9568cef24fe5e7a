/* Tells `banyan run` whether this process takes part in a job. */
#include "settings.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "descriptor.h"

static atomic_int jobs; /* The number of jobs that this process takes part in. */

/* In a container with processes of its own, the path may lead to another file. */
static bool is_presence(const char *path) {
  static const char wanted[] = "/memfd:" BY_PRESENCE_NAME;
  char target[sizeof wanted];
  return readlink(path, target, sizeof target) == sizeof target && !memcmp(target, wanted, sizeof wanted - 1);
}

static void write_presence(char value) {
  const char *path = getenv(BY_PRESENCE_VARIABLE), *rank = getenv("BANYAN_RANK");
  if (!path || !rank || !is_presence(path)) return;
  int fd = BY_DESCRIPTOR(open(path, O_WRONLY | O_CLOEXEC));
  ssize_t written = fd < 0 ? 0 : pwrite(fd, &value, 1, atoi(rank));
  (void)written;
  if (fd >= 0) by_close(fd);
}

void by_presence_join(void) {
  if (atomic_fetch_add(&jobs, 1) == 0) write_presence(1);
}

void by_presence_leave(void) {
  if (atomic_fetch_sub(&jobs, 1) == 1) write_presence(0);
}
