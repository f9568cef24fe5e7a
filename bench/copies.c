/* Preloaded by encrypted.py: has no pages mapped into sockets, by refusing pipes the size that Banyan asks for. What is
 * sent in plain text is copied then, as it is where it is encrypted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

typedef int control(int fd, int command, ...);

#define REFUSE(name)                                                                                                   \
  int name(int fd, int command, ...) {                                                                                 \
    va_list values;                                                                                                    \
    va_start(values, command);                                                                                         \
    void *value = va_arg(values, void *);                                                                              \
    va_end(values);                                                                                                    \
    if (command != F_SETPIPE_SZ) return ((control *)dlsym(RTLD_NEXT, #name))(fd, command, value);                      \
    errno = EPERM;                                                                                                     \
    return -1;                                                                                                         \
  }

REFUSE(fcntl)
REFUSE(fcntl64)
