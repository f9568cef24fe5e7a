#include "json_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void by_json_add_string(struct by_text *text, const char *string) {
  by_text_add(text, "\"");
  for (const char *at = string; *at;) {
    size_t plain = strcspn(at, "\"\\");
    by_text_add(text, "%.*s", (int)plain, at);
    at += plain;
    if (*at) by_text_add(text, "\\%c", *at++);
  }
  by_text_add(text, "\"");
}

void by_json_add_real(struct by_text *text, double value) {
  char shorter[32];
  value += 0.0; /* -0 would be read as the integer 0 */
  snprintf(shorter, sizeof shorter, "%.15g", value);
  by_text_add(text, strtod(shorter, NULL) == value ? "%.15g" : "%.17g", value);
}
