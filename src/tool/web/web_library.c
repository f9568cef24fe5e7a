#include "web_library.h"

enum banyan_status by_microhttpd_load(struct by_microhttpd *out) {
  static const char *const names[] = {BY_MICROHTTPD(BY_LIBRARY_NAME)};
  return by_library_load("the page", "libmicrohttpd.so.12", "libmicrohttpd12", names, sizeof names / sizeof *names,
                         out);
}
