#include "libbpf.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The one whose functions the header declares. */
#define LIBRARY "libbpf.so.1"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct by_libbpf library;
static char missing[256]; /* why it cannot be used; "" it can */

static void find(void *handle, const char *name, void *out, size_t size) {
  void *found = dlsym(handle, name);
  if (!found) snprintf(missing, sizeof missing, "it has no %s", name);
  memcpy(out, &found, size);
}

#define FIND(function) find(handle, #function, &library.function, sizeof library.function)

static void load(void) {
  void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    snprintf(missing, sizeof missing, "%s", dlerror());
    return;
  }
  BY_LIBBPF(FIND)
}

enum banyan_status by_libbpf_load(const struct by_libbpf **out) {
  pthread_once(&once, load);
  *out = &library;
  if (!*missing) return BANYAN_OK;
  return by_fail(BANYAN_ERR_UNSUPPORTED,
                 "switch: XDP needs libbpf (%s, Debian package libbpf1), which cannot be loaded: %s", LIBRARY, missing);
}
