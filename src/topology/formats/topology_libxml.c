#include "topology_libxml.h"

#include <dlfcn.h>
#include <libxml/xmlversion.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The one whose structures the headers describe. */
#if LIBXML_VERSION < 21400
#define LIBRARY "libxml2.so.2"
#else
#define LIBRARY "libxml2.so.16"
#endif

static const struct {
  const char *name;
  size_t at;
} symbols[] = {
    {"xmlInitParser", offsetof(struct by_libxml, init)},
    {"xmlNewParserCtxt", offsetof(struct by_libxml, new_parser)},
    {"xmlFreeParserCtxt", offsetof(struct by_libxml, free_parser)},
    {"xmlCtxtReadMemory", offsetof(struct by_libxml, read_memory)},
    {"xmlStopParser", offsetof(struct by_libxml, stop_parser)},
    {"xmlSAX2StartElementNs", offsetof(struct by_libxml, start_element)},
    {"xmlDocGetRootElement", offsetof(struct by_libxml, root)},
    {"xmlGetLineNo", offsetof(struct by_libxml, line)},
    {"xmlFreeDoc", offsetof(struct by_libxml, free_doc)},
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct by_libxml library;
static char missing[256]; /* why it cannot be used; "" it can */

static void load(void) {
  void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  const char *why = handle ? NULL : dlerror();
  for (size_t i = 0; handle && i < sizeof symbols / sizeof *symbols; i++) {
    void *found = dlsym(handle, symbols[i].name);
    if (!found) why = symbols[i].name;
    memcpy((char *)&library + symbols[i].at, &found, sizeof found);
  }
  if (why) snprintf(missing, sizeof missing, "%s", why);
  if (!why) library.init();
}

enum banyan_status by_libxml_load(const struct by_libxml **out) {
  pthread_once(&once, load);
  *out = &library;
  if (!*missing) return BANYAN_OK;
  return by_fail(BANYAN_ERR_UNSUPPORTED, "XML needs libxml2 (%s, Debian package libxml2), which cannot be loaded: %s",
                 LIBRARY, missing);
}
