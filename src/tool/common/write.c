#include "write.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "topology_draw.h"

enum banyan_status by_write_text(const char *path, const struct by_text *text) {
  if (text->failed) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %s", path);
  FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
  if (!file) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot open %s for writing", path);
  bool wrote = fwrite(by_text_get(text), 1, text->length, file) == text->length;
  int why = errno;
  if (file != stdout && fclose(file) != 0) {
    wrote = false;
    why = errno;
  }
  return wrote ? BANYAN_OK : by_fail_errno(BANYAN_ERR_SYSTEM, why, "cannot write %s", path);
}

enum banyan_status by_write_svg(const char *path, const struct by_topology *topology,
                                const struct by_draw_options *options) {
  struct by_text text;
  by_text_init(&text);
  enum banyan_status status = by_topology_svg(topology, options, &text);
  if (status == BANYAN_OK) status = by_write_text(path, &text);
  by_text_fini(&text);
  return status;
}
