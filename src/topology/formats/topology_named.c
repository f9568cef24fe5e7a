#include "topology_named.h"

#include <string.h>
#include <unistd.h>

#include "topology_formats.h"
#include "topology_synth.h"

/* What looks like a file's name, with options or without, is one, whether it is there or not; a kind's options may hold
 * a point too. */
static bool is_file(const char *text) {
  return strcspn(text, "./?") < strcspn(text, ":=");
}

enum banyan_status by_topology_named(const char *text, struct by_topology **out) {
  if (text[strspn(text, " \t\r\n")] == '{') return by_topology_parse("topology", text, strlen(text), out);
  if (by_topology_is_kind(text)) return by_topology_synthesise(text, out);
  if (is_file(text) || access(text, R_OK) == 0) return by_topology_read(text, out);
  enum banyan_status status = by_topology_synthesise(text, out);
  return by_fail(status, "%s, and there is no file of that name", banyan_error_text());
}
