#include "json_print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 32 };
static const double most_whole = 1e15; /* below, %.15g prints whole numbers digit for digit */

void by_json_add_string(struct by_text *text, const char *string) {
  by_text_add_bytes(text, "\"", 1);
  for (const char *at = string; *at;) {
    size_t plain = strcspn(at, "\"\\");
    by_text_add_bytes(text, at, plain);
    at += plain;
    if (!*at) break;
    by_text_add_bytes(text, "\\", 1);
    by_text_add_bytes(text, at++, 1);
  }
  by_text_add_bytes(text, "\"", 1);
}

/* Most numbers are whole, and a manager's state has ten thousands. */
static void add_whole(struct by_text *text, double value) {
  char digits[ROOM], *at = digits + ROOM;
  uint64_t left = (uint64_t)fabs(value);
  do *--at = (char)('0' + left % 10);
  while (left /= 10);
  if (value < 0) *--at = '-';
  by_text_add_bytes(text, at, (size_t)(digits + ROOM - at));
}

void by_json_add_real(struct by_text *text, double value) {
  char shorter[ROOM];
  value += 0.0; /* -0 would be read as the integer 0 */
  if (fabs(value) < most_whole && value == trunc(value)) {
    add_whole(text, value);
    return;
  }
  snprintf(shorter, sizeof shorter, "%.15g", value);
  by_text_add(text, strtod(shorter, NULL) == value ? "%.15g" : "%.17g", value);
}
