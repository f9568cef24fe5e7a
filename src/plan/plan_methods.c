#include "plan_ways.h"

#include <string.h>

static const char *const names[] = {"ring", "tree", "helpers", "switches"};
enum { N_WAYS = sizeof names / sizeof *names };

enum banyan_status by_plan_ways_parse(const char *text, uint32_t *ways) {
  uint32_t found = 0;
  for (const char *at = text;; at++) {
    size_t bytes = strcspn(at, ",");
    uint32_t i = 0;
    while (i < N_WAYS && (strlen(names[i]) != bytes || memcmp(names[i], at, bytes) != 0)) i++;
    if (i == N_WAYS)
      return by_fail(BANYAN_ERR_ARGUMENT, "\"%.*s\" is not one of the ways " BY_PLAN_WAYS, bytes < 32 ? (int)bytes : 32,
                     at);
    found |= 1u << i;
    at += bytes;
    if (!*at) break;
  }
  *ways = found;
  return BANYAN_OK;
}

const char *by_plan_ways_print(uint32_t ways, char *out) {
  char *at = out;
  for (uint32_t i = 0; i < N_WAYS; i++) {
    if (!(ways >> i & 1)) continue;
    if (at > out) *at++ = ',';
    at = stpcpy(at, names[i]);
  }
  *at = '\0';
  return out;
}
