/* Files that commands write. "-" is the standard output. */
#ifndef BY_CLI_WRITE_H
#define BY_CLI_WRITE_H

#include "fail.h"
#include "text.h"

struct by_draw_options;
struct by_topology;

/* BANYAN_ERR_NO_MEMORY if the text has failed, BANYAN_ERR_SYSTEM if it cannot be written. */
BANYAN_CHECK enum banyan_status by_write_text(const char *path, const struct by_text *text);
BANYAN_CHECK enum banyan_status by_write_svg(const char *path, const struct by_topology *topology,
                                             const struct by_draw_options *options);

#endif
