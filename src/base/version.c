#include <stddef.h>
#include <stdio.h>

#include <banyan/status.h>

const char *banyan_version(void) {
  return BANYAN_VERSION;
}

void banyan_version_numbers(int *major, int *minor, int *patch) {
  int numbers[3] = {0};
  (void)sscanf(BANYAN_VERSION, "%d.%d.%d", &numbers[0], &numbers[1], &numbers[2]);
  if (major) *major = numbers[0];
  if (minor) *minor = numbers[1];
  if (patch) *patch = numbers[2];
}
/* */
