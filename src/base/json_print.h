/* Writing JSON into a text, so that it is read back as the same values. */
#ifndef BY_BASE_JSON_PRINT_H
#define BY_BASE_JSON_PRINT_H

#include "text.h"

/* With its quotes. */
void by_json_add_string(struct by_text *text, const char *string);
/* A finite number, in the shortest of the usual forms that is read back as the same. */
void by_json_add_real(struct by_text *text, double value);

#endif
