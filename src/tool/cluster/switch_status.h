/* What a switch says of itself, for people and for programs. */
#ifndef BY_CLI_SWITCH_STATUS_H
#define BY_CLI_SWITCH_STATUS_H

#include <jansson.h>
#include <stddef.h>

#include "fail.h"

/* The reply to "status"; *out is the caller's. */
BANYAN_CHECK enum banyan_status by_switch_status_read(const char *line, size_t length, json_t **out);
void by_switch_status_print_json(const json_t *status);
/* `before` (or NULL) is what it said then: events are shown with what came since. */
void by_switch_status_print(const json_t *status, const json_t *before);

#endif
