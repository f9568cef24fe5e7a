#include "bench_sizes.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

enum { WORD_BYTES = 64 };

static const uint64_t greatest = (uint64_t)1 << 40;

static enum banyan_status parse_one(const char *text, uint64_t *out) {
  BY_TRY(by_parse_bytes(text, out));
  if (!*out || *out > greatest) return by_fail(BANYAN_ERR_ARGUMENT, "a size of %.40s is out of range", text);
  return BANYAN_OK;
}

static enum banyan_status add(struct by_bench_sizes *sizes, uint64_t bytes) {
  if (sizes->count == BY_MOST_SIZES) return by_fail(BANYAN_ERR_ARGUMENT, "more than %d sizes", BY_MOST_SIZES);
  sizes->bytes[sizes->count++] = (size_t)bytes;
  return BANYAN_OK;
}

/* "64K" or "8..64M"; `word` is changed. */
static enum banyan_status parse_word(char *word, struct by_bench_sizes *out) {
  uint64_t first, last;
  char *dots = strstr(word, "..");
  if (dots) *dots = 0;
  BY_TRY(parse_one(word, &first));
  if (!dots) return add(out, first);
  BY_TRY(parse_one(dots + 2, &last));
  if (last < first) return by_fail(BANYAN_ERR_ARGUMENT, "%s..%s is empty", word, dots + 2);
  for (; first <= last; first *= 2) BY_TRY(add(out, first));
  return BANYAN_OK;
}

enum banyan_status by_bench_parse_sizes(const char *text, struct by_bench_sizes *out) {
  char word[WORD_BYTES];
  out->count = 0;
  for (;;) {
    size_t length = strcspn(text, ",");
    if (length >= sizeof word) return by_fail(BANYAN_ERR_PARSE, "\"%.40s...\" is not a size", text);
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    BY_TRY(parse_word(word, out));
    if (!text[length]) return BANYAN_OK;
    text += length + 1;
  }
}
