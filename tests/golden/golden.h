/* Golden files hold sent messages byte by byte. They are committed as tests/golden/NAME.txt and compared with what the
 * library's writers make of the same values now. A file is a list of messages: for each message a line with its name
 * and number of bytes, and lines of a hexadecimal dump. A text message is a line of its own.
 *
 * Each golden_NAME.c has one file, begins it with golden_begin and lets golden_end be its last test. With
 * BANYAN_WRITE_GOLDEN=1, files are written again and the last test fails, so that this setting cannot stay on
 * unnoticed: run the test again without it, and review the changes in version control. The functions are static. */
#ifndef BY_TESTS_GOLDEN_H
#define BY_TESTS_GOLDEN_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

#include "text.h"

static struct {
  char path[4096];
  char *committed;     /* What the file holds, or "" if there is none. */
  struct by_text made; /* What the file would hold now. */
  bool writes;
} golden;

static inline char *golden_load(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return strdup("");
  struct by_text text;
  char part[4096];
  by_text_init(&text);
  for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) by_text_add(&text, "%.*s", (int)n, part);
  fclose(file);
  char *out = strdup(by_text_get(&text));
  by_text_fini(&text);
  return out;
}

/* `about` describes in one line what the file holds. */
static inline void golden_begin(const char *name, const char *about) {
  const char *source = getenv("BANYAN_SOURCE");
  snprintf(golden.path, sizeof golden.path, "%s/tests/golden/%s.txt", source ? source : ".", name);
  golden.writes = getenv("BANYAN_WRITE_GOLDEN") != NULL;
  golden.committed = golden_load(golden.path);
  by_text_init(&golden.made);
  by_text_add(&golden.made, "# %s\n# Made by tests/golden/golden_%s.c; CONTRIBUTING.md says how it is made anew.\n",
              about, name);
}

/* Returns the message in the committed file, which the caller frees, or NULL if there is none of this name. */
static inline char *golden_find(const char *name) {
  char start[256];
  snprintf(start, sizeof start, "\n\n%s:", name);
  const char *from = strstr(golden.committed, start);
  if (!from) return NULL;
  const char *end = strstr(from + 2, "\n\n");
  size_t n = end ? (size_t)(end - from - 2) + 1 : strlen(from + 2);
  char *out = malloc(n + 1);
  assert_non_null(out);
  memcpy(out, from + 2, n);
  out[n] = 0;
  return out;
}

static inline void golden_check(const char *name, const char *message) {
  char start[256];
  snprintf(start, sizeof start, "\n\n%s:", name);
  if (strstr(by_text_get(&golden.made), start)) fail_msg("the message \"%s\" is made twice", name);
  by_text_add(&golden.made, "\n%s", message);
  if (golden.writes) return;
  char *committed = golden_find(name);
  bool same = committed && strcmp(committed, message) == 0;
  if (!same)
    fprintf(stderr, "%s:\n%s\nit is now\n%s", golden.path, committed ? committed : "has no such message", message);
  free(committed);
  if (!same) fail_msg("\"%s\" is not what it was", name);
}

static inline bool golden_is_zero(const uint8_t *bytes, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (bytes[i]) return false;
  return true;
}

/* A line "*" stands for lines of zeros after a line of zeros. */
static inline void golden_dump(struct by_text *text, const uint8_t *bytes, size_t n) {
  bool skips = false;
  for (size_t at = 0; at < n; at += 16) {
    bool skip = at >= 16 && at + 16 <= n && golden_is_zero(bytes + at - 16, 32);
    if (skip && !skips) by_text_add(text, "  *\n");
    skips = skip;
    if (skip) continue;
    by_text_add(text, "  %04zx ", at);
    for (size_t i = at; i < at + 16; i++) {
      if (i < n)
        by_text_add(text, "%s%02x", i % 8 ? " " : "  ", bytes[i]);
      else
        by_text_add(text, i % 8 ? "   " : "    ");
    }
    by_text_add(text, "  |");
    for (size_t i = at; i < at + 16 && i < n; i++)
      by_text_add(text, "%c", bytes[i] >= ' ' && bytes[i] < 127 ? bytes[i] : '.');
    by_text_add(text, "|\n");
  }
}

/* Adds a message of bytes. A file uses each name once. */
static inline void golden_bytes(const char *name, const void *bytes, size_t n) {
  struct by_text message;
  by_text_init(&message);
  by_text_add(&message, "%s: %zu bytes\n", name, n);
  golden_dump(&message, bytes, n);
  golden_check(name, by_text_get(&message));
  by_text_fini(&message);
}

/* Adds a message that is a line of text. */
static inline void golden_line(const char *name, const char *line) {
  struct by_text message;
  by_text_init(&message);
  by_text_add(&message, "%s: %zu bytes\n  %s\n", name, strlen(line), line);
  golden_check(name, by_text_get(&message));
  by_text_fini(&message);
}

/* The last test checks that the file has no other messages, and that the order is the same. */
static inline void golden_end(void **state) {
  (void)state;
  bool same = strcmp(golden.committed, by_text_get(&golden.made)) == 0;
  bool writes = golden.writes;
  FILE *file = writes ? fopen(golden.path, "wb") : NULL;
  bool written = file && fputs(by_text_get(&golden.made), file) >= 0;
  if (file && fclose(file)) written = false;
  by_text_fini(&golden.made);
  free(golden.committed);
  if (writes && !written) fail_msg("%s could not be written", golden.path);
  if (writes) fail_msg("%s has been written anew; run this again without BANYAN_WRITE_GOLDEN", golden.path);
  if (!same) fail_msg("%s holds messages that are not made any more, or in another order", golden.path);
}

/* Each function runs the group of tests of one file and returns how many of its tests failed. */
int golden_control(void);
int golden_fragments(void);
int golden_frames(void);
int golden_handshake(void);
int golden_launch(void);
int golden_lines(void);
int golden_membership(void);
int golden_negotiation(void);
int golden_payloads(void);
int golden_state(void);
int golden_switch(void);

#endif
