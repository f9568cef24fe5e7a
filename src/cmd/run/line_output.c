/* Sets variables that make ranks print line by line. */
#include "line_output.h"

#include <stdlib.h>
#include <unistd.h>

#include "log.h"
#include "process.h"

/* Finds the library of coreutils that stdbuf preloads: its constructor sets the buffering of the standard streams. */
static const char *find_stdbuf(void) {
  static const char *const paths[] = {"/usr/libexec/coreutils/libstdbuf.so", "/usr/lib/coreutils/libstdbuf.so"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
    if (!access(paths[i], R_OK)) return paths[i];
  return NULL;
}

/* Sets a variable to `value`, joined with its previous value. */
static void join_variable(const char *name, const char *first, const char *second) {
  if (*first && *second)
    setenv(name, by_cli_print("%s:%s", first, second), true);
  else
    setenv(name, *first ? first : second, true);
}

static const char *value_of(const char *name) {
  const char *value = getenv(name);
  return value ? value : "";
}

void by_line_output_set(void) {
  setenv("PYTHONUNBUFFERED", "1", false);
  if (getenv("_STDBUF_O")) return;
  const char *library = find_stdbuf();
  if (!library) {
    by_info("launch", "the output of C programs may come late: there is no libstdbuf.so of coreutils here");
    return;
  }
  setenv("_STDBUF_O", "L", true);
  join_variable("LD_PRELOAD", value_of("LD_PRELOAD"), library);
  /* AddressSanitizer must otherwise be the first library, though this one replaces none of its functions. */
  join_variable("ASAN_OPTIONS", "verify_asan_link_order=0", value_of("ASAN_OPTIONS"));
}
