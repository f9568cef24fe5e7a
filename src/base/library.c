/* Loads shared libraries, and finds functions in them. */
#include "library.h"

#include <dlfcn.h>
#include <string.h>

enum banyan_status by_library_load(const char *what, const char *file, const char *package, const char *const *names,
                                   size_t n, void *functions) {
  char *slot = functions;
  void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%s needs %s (Debian package %s), which cannot be loaded: %s", what, file,
                   package, dlerror());
  for (size_t i = 0; i < n; i++) {
    void *found = dlsym(handle, names[i]);
    if (!found)
      return by_fail(BANYAN_ERR_UNSUPPORTED, "%s needs another version of %s (Debian package %s): it has no %s", what,
                     file, package, names[i]);
    memcpy(slot + i * sizeof found, &found, sizeof found);
  }
  return BANYAN_OK;
}
