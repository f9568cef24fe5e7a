/* Files with keys that tests replace, as `banyan keys rotate` does. */
#ifndef BY_TESTS_KEY_FILES_H
#define BY_TESTS_KEY_FILES_H

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

/* With this text, which takes the place of an earlier one at once. */
static inline void write_key_file(const char *path, const char *text) {
  char made[256];
  snprintf(made, sizeof made, "%s.new", path);
  int fd = open(made, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), strlen(text));
  close(fd);
  assert_int_equal(rename(made, path), 0);
}

#endif
