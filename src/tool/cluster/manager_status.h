/* A manager's state for people: what the page shows, as tables. */
#ifndef BY_CLI_MANAGER_STATUS_H
#define BY_CLI_MANAGER_STATUS_H

#include <jansson.h>

#include "text.h"

/* Of a terminal; 0: as much as there is. */
struct by_screen {
  unsigned width, height;
};

/* Whatever the state holds; what is missing or of another type counts as nothing. */
void by_manager_status_print(const json_t *state, struct by_screen screen, struct by_text *out);

#endif
