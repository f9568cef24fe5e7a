/* Parses and prints sets of the methods that a planner may use. */
#include "plan_methods.h"

#include <string.h>

static const char *const names[] = {"ring", "tree", "helpers", "switches"};
enum { N_METHODS = sizeof names / sizeof *names };

enum banyan_status by_plan_methods_parse(const char *text, uint32_t *methods) {
  uint32_t found = 0;
  for (const char *at = text;; at++) {
    size_t bytes = strcspn(at, ",");
    uint32_t i = 0;
    while (i < N_METHODS && (strlen(names[i]) != bytes || memcmp(names[i], at, bytes) != 0)) i++;
    if (i == N_METHODS)
      return by_fail(BANYAN_ERR_ARGUMENT, "\"%.*s\" is not one of the ways " BY_PLAN_METHODS,
                     bytes < 32 ? (int)bytes : 32, at);
    found |= 1u << i;
    at += bytes;
    if (!*at) break;
  }
  *methods = found;
  return BANYAN_OK;
}

const char *by_plan_methods_print(uint32_t methods, char *out) {
  char *at = out;
  for (uint32_t i = 0; i < N_METHODS; i++) {
    if (!(methods >> i & 1)) continue;
    if (at > out) *at++ = ',';
    at = stpcpy(at, names[i]);
  }
  *at = '\0';
  return out;
}
