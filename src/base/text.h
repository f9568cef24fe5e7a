/* Texts: growing strings, numbers with the units people write, misspelt words. */
#ifndef BY_BASE_TEXT_H
#define BY_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "fail.h"

/* A text that ran out of memory stays empty and has `failed` set. */
struct by_text {
  char *data; /* NUL-terminated; NULL while empty. */
  size_t length, capacity;
  bool failed;
};

static inline void by_text_init(struct by_text *text) {
  memset(text, 0, sizeof *text); /* C++ has no compound literals. */
}
void by_text_fini(struct by_text *text);
void by_text_add(struct by_text *text, const char *format, ...) BY_PRINTF(2, 3);
/* Appends bytes, much faster than formatting them. */
void by_text_add_bytes(struct by_text *text, const char *bytes, size_t n);
/* The contents, owned by the text; "" while empty. */
static inline const char *by_text_get(const struct by_text *text) {
  return text->data ? text->data : "";
}

/* Whether a text is UTF-8 without control characters, of at most so many bytes: a name that can be shown anywhere. */
bool by_is_printable(const char *text, size_t max);
/* The number of bytes before the first one that is not printable in that sense. */
size_t by_printable_length(const char *text);
/* Copies a text, with '?' for every byte that cannot be shown, cut between two characters to fit. `out` holds
 * `capacity` > 0 bytes. */
void by_keep_printable(const char *text, char *out, size_t capacity);
/* The number of UTF-8 characters, which for most texts is the width on a terminal. */
size_t by_columns_of(const char *text);

/* Prints `n` bytes as lower-case hexadecimal digits and a NUL: `out` holds 2n + 1. */
void by_print_hex(const void *bytes, size_t n, char *out);
/* Parses 2n such digits and ignores what follows. Returns false if there are fewer. */
bool by_parse_hex(const char *text, size_t n, uint8_t *out);

/* "s" for any number but 1, for the plural of a word. */
static inline const char *by_plural(double n) {
  return n == 1 ? "" : "s";
}

/* Whether a pattern of file names has this letter behind a percent sign. "%%r" has no r. */
bool by_pattern_uses(const char *pattern, char letter);

/* Parses bytes: "64K" = 65536, "16M", "2G", "1.5K", plain numbers; powers of 1024. */
enum banyan_status by_parse_bytes(const char *text, uint64_t *out);
/* The rates and times with which Banyan computes. Beyond them sums lose significant digits, and quotients overflow. */
#define BY_MIN_RATE 1.0   /* bit/s. */
#define BY_MAX_RATE 1e18  /* bit/s. */
#define BY_MAX_DELAY 3600 /* Seconds, of a link. */
#define BY_MAX_SECONDS 1e9
/* BANYAN_ERR_PARSE, "is 1e-300 bit/s, must be 1 to 1e+18 bit/s", unless it is between BY_MIN_RATE and BY_MAX_RATE. */
enum banyan_status by_check_rate(double rate);

/* Whether two names may be of one host: they are the same without case, or one is the other's first label. */
bool by_host_names_agree(const char *a, const char *b);

/* Parses bit/s: "10g" = 1e10, "200m", "9600"; powers of 1000. The result is 0, or accepted by by_check_rate. */
enum banyan_status by_parse_rate(const char *text, double *out);
/* Parses seconds: "20ms", "3us", "1.5s", "2min", plain seconds; at most BY_MAX_SECONDS. */
enum banyan_status by_parse_seconds(const char *text, double *out);
/* Parses a finite decimal number, which may be negative. */
enum banyan_status by_parse_number(const char *text, double *out);
/* Parses a decimal integer within [min, max]. `what` names it in the error. */
enum banyan_status by_parse_int(const char *what, const char *text, long min, long max, long *out);
/* Print for people: "64 KiB", "9.41 Gbit/s", "12.3 us". `out` holds 32. */
const char *by_print_bytes(uint64_t bytes, char *out);
const char *by_print_rate(double bits_per_second, char *out);
const char *by_print_seconds(double seconds, char *out);

/* A name that two of n structs of `size` bytes have, which begin with a pointer to their names; NULL: all differ.
 * `scratch` holds n pointers. Cost: n log(n). */
const char *by_find_twice(const void *structs, size_t n, size_t size, const char **scratch);
/* The most similar of n names, or NULL if none is similar. */
const char *by_suggest(const char *word, const char *const *names, size_t n);
/* The index of a word in a list such as "tcp|shm|auto", or -1. */
int by_find_choice(const char *choices, const char *word);

/* Takes the next item of a list "trees=8,max-height=4": *value is the text after "=", and *key the index of its name
 * among n names. A name may be given without "max-" or "min-" at its front. *rest moves on within the list, which is
 * changed, and becomes NULL after the last item. BANYAN_ERR_ARGUMENT: it has another form, or the name is unknown; the
 * error shows `example`, such as "trees=8", and all names. */
BANYAN_CHECK enum banyan_status by_take_pair(char **rest, const char *const *names, size_t n, const char *example,
                                             size_t *key, char **value);

#endif
