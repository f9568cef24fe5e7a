/* Growing strings, numbers with units, and similar names. */
#include "text.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/param.h>

#include "arena.h"

enum { PRINT_BYTES = 32, LONGEST = 32 };

/* A program that calls setlocale() must not turn "1.5" into "1,5". */
static locale_t c_locale;
static pthread_once_t locale_made = PTHREAD_ONCE_INIT;

static void make_locale(void) {
  c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static locale_t plain_locale(void) {
  pthread_once(&locale_made, make_locale);
  return c_locale ? c_locale : LC_GLOBAL_LOCALE;
}

void by_text_fini(struct by_text *text) {
  free(text->data);
  by_text_init(text);
}

static void give_up(struct by_text *text) {
  by_text_fini(text);
  text->failed = true;
}

static int print_into(char *out, size_t capacity, const char *format, va_list args) {
  locale_t kept = uselocale(plain_locale());
  int n = vsnprintf(out, capacity, format, args);
  uselocale(kept);
  return n;
}

void by_text_add(struct by_text *text, const char *format, ...) {
  if (text->failed) return;
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  size_t left = text->capacity - text->length;
  int n = print_into(text->data ? text->data + text->length : NULL, left, format, args);
  bool grown = n >= 0 && by_array_grow((void **)&text->data, &text->capacity, text->length + (size_t)n + 1, 1);
  if (!grown) {
    give_up(text);
  } else {
    if ((size_t)n >= left) print_into(text->data + text->length, (size_t)n + 1, format, again);
    text->length += (size_t)n;
  }
  va_end(again);
  va_end(args);
}

void by_text_add_bytes(struct by_text *text, const char *bytes, size_t n) {
  if (text->failed) return;
  if (!by_array_grow((void **)&text->data, &text->capacity, text->length + n + 1, 1)) {
    give_up(text);
    return;
  }
  memcpy(text->data + text->length, bytes, n);
  text->length += n;
  text->data[text->length] = '\0';
}

/* The length of the UTF-8 character at `at`; 0 if it is none or a control character (C0, DEL, C1). */
static size_t character_length(const unsigned char *at) {
  static const uint32_t min[] = {0, 0x20, 0xa0, 0x800, 0x10000};
  size_t length = at[0] < 0x80 ? 1 : at[0] >> 5 == 6 ? 2 : at[0] >> 4 == 14 ? 3 : at[0] >> 3 == 30 ? 4 : 0;
  uint32_t code = length == 1 ? at[0] : at[0] & (0x7fu >> length);
  if (!length || at[0] == 0x7f) return 0;
  for (size_t i = 1; i < length; i++) {
    if (at[i] >> 6 != 2) return 0;
    code = code << 6 | (at[i] & 0x3fu);
  }
  return code < min[length] || code > 0x10ffff || code >> 11 == 0x1b ? 0 : length;
}

size_t by_printable_length(const char *text) {
  const char *at = text;
  for (size_t length = 1; *at && length; at += length) length = character_length((const unsigned char *)at);
  return (size_t)(at - text);
}

bool by_is_printable(const char *text, size_t max) {
  size_t length = by_printable_length(text);
  return !text[length] && length <= max;
}

void by_keep_printable(const char *text, char *out, size_t capacity) {
  size_t used = 0;
  while (*text) {
    size_t length = character_length((const unsigned char *)text), taken = length ? length : 1;
    if (taken >= capacity - used) break;
    memcpy(out + used, length ? text : "?", taken);
    used += taken;
    text += taken;
  }
  out[used] = '\0';
}

size_t by_columns_of(const char *text) {
  size_t n = 0;
  for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
  return n;
}

/* Parses a number that is not negative, without the hex, "nan" and spaces that strtod also accepts; *end is behind
 * it. */
static bool parse_number(const char *text, double *out, const char **end) {
  if (!(*text >= '0' && *text <= '9') && *text != '.') return false;
  char *stop;
  double value = strtod_l(text, &stop, plain_locale());
  if (stop == text || !isfinite(value)) return false;
  if (strspn(text, "0123456789.eE+-") < (size_t)(stop - text)) return false;
  *out = value;
  *end = stop;
  return true;
}

struct unit {
  const char *name;
  double factor;
};

static bool find_unit(const struct unit *units, const char *name, double *factor) {
  if (name[0] == ' ' && name[1]) name++;
  for (; units->name; units++) {
    if (strcasecmp(units->name, name) == 0) {
      *factor = units->factor;
      return true;
    }
  }
  return false;
}

static const struct unit byte_units[] = {
    {"", 1},         {"B", 1},       {"K", 0x1p10},   {"KB", 0x1p10},  {"KiB", 0x1p10},
    {"M", 0x1p20},   {"MB", 0x1p20}, {"MiB", 0x1p20}, {"G", 0x1p30},   {"GB", 0x1p30},
    {"GiB", 0x1p30}, {"T", 0x1p40},  {"TB", 0x1p40},  {"TiB", 0x1p40}, {NULL, 0},
};
static const struct unit rate_units[] = {
    {"", 1},     {"bit", 1},     {"bit/s", 1},     {"k", 1e3}, {"kbit", 1e3}, {"kbit/s", 1e3},
    {"m", 1e6},  {"mbit", 1e6},  {"mbit/s", 1e6},  {"g", 1e9}, {"gbit", 1e9}, {"gbit/s", 1e9},
    {"t", 1e12}, {"tbit", 1e12}, {"tbit/s", 1e12}, {NULL, 0},
};
static const struct unit second_units[] = {
    {"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"min", 60}, {"h", 3600}, {NULL, 0},
};

bool by_pattern_uses(const char *pattern, char letter) {
  for (const char *c = strchr(pattern, '%'); c && c[1]; c = strchr(c + 2, '%'))
    if (c[1] == letter) return true;
  return false;
}

/* The length of the first label; an address has only one. */
static size_t label_length(const char *name) {
  size_t digits = strspn(name, "0123456789.");
  return name[digits] ? strcspn(name, ".") : digits;
}

bool by_host_names_agree(const char *a, const char *b) {
  size_t n = label_length(a), m = label_length(b);
  return n == m && strncasecmp(a, b, n) == 0 && (!a[n] || !b[m] || strcasecmp(a, b) == 0);
}

static const char hex_digits[] = "0123456789abcdef";

void by_print_hex(const void *bytes, size_t n, char *out) {
  const uint8_t *from = bytes;
  for (size_t i = 0; i < n; i++) {
    *out++ = hex_digits[from[i] >> 4];
    *out++ = hex_digits[from[i] & 15];
  }
  *out = '\0';
}

bool by_parse_hex(const char *text, size_t n, uint8_t *out) {
  for (size_t i = 0; i < n; i++) {
    const char *high = memchr(hex_digits, text[2 * i], 16);
    const char *low = high ? memchr(hex_digits, text[2 * i + 1], 16) : NULL;
    if (!low) return false;
    out[i] = (uint8_t)((high - hex_digits) << 4 | (low - hex_digits));
  }
  return true;
}

enum banyan_status by_parse_bytes(const char *text, uint64_t *out) {
  double value, factor;
  const char *unit;
  if (!parse_number(text, &value, &unit) || !find_unit(byte_units, unit, &factor))
    return by_fail(BANYAN_ERR_PARSE, "\"%.64s\" is not a number of bytes such as 4096, 64K or 1.5G", text);
  if (text + strspn(text, "0123456789") == unit) { /* Integers stay exact above 2^53. */
    errno = 0;
    uint64_t whole = strtoull(text, NULL, 10);
    if (errno != ERANGE && !__builtin_mul_overflow(whole, (uint64_t)factor, out)) return BANYAN_OK;
  } else if (value * factor < 0x1p63) {
    *out = (uint64_t)(value * factor + 0.5);
    return BANYAN_OK;
  }
  return by_fail(BANYAN_ERR_PARSE, "\"%.64s\" is too many bytes", text);
}

enum banyan_status by_check_rate(double rate) {
  if (rate >= BY_MIN_RATE && rate <= BY_MAX_RATE) return BANYAN_OK;
  return by_fail(BANYAN_ERR_PARSE, "is %g bit/s, must be %g to %g bit/s", rate, BY_MIN_RATE, BY_MAX_RATE);
}

enum banyan_status by_parse_rate(const char *text, double *out) {
  double value, factor;
  const char *unit;
  if (!parse_number(text, &value, &unit) || !find_unit(rate_units, unit, &factor))
    return by_fail(BANYAN_ERR_PARSE, "\"%.64s\" is not a rate in bit/s such as 10g, 200m or 9600", text);
  if (value > 0 && by_check_rate(value * factor) != BANYAN_OK)
    return by_fail(BANYAN_ERR_PARSE, "\"%.64s\" %s", text, banyan_error_text());
  *out = value * factor;
  return BANYAN_OK;
}

enum banyan_status by_parse_seconds(const char *text, double *out) {
  double value, factor;
  const char *unit;
  if (!parse_number(text, &value, &unit) || !find_unit(second_units, unit, &factor))
    return by_fail(BANYAN_ERR_PARSE, "\"%.64s\" is not a time such as 20ms, 3us, 1.5s or 2min", text);
  if (value * factor > BY_MAX_SECONDS)
    return by_fail(BANYAN_ERR_PARSE, "\"%.64s\" is too long a time, must be at most %g s", text, BY_MAX_SECONDS);
  *out = value * factor;
  return BANYAN_OK;
}

enum banyan_status by_parse_number(const char *text, double *out) {
  const char *end;
  bool negative = *text == '-';
  if (!parse_number(text + negative, out, &end) || *end)
    return by_fail(BANYAN_ERR_PARSE, "\"%.64s\" is not a number", text);
  if (negative) *out = -*out;
  return BANYAN_OK;
}

enum banyan_status by_parse_int(const char *what, const char *text, long min, long max, long *out) {
  const char *digits = *text == '-' ? text + 1 : text;
  size_t length = strspn(digits, "0123456789");
  if (length == 0 || digits[length])
    return by_fail(BANYAN_ERR_PARSE, "%s: \"%.64s\" is not a whole number", what, text);
  errno = 0;
  long value = strtol(text, NULL, 10);
  if (value < min || value > max || errno == ERANGE)
    return by_fail(BANYAN_ERR_PARSE, "%s is %.64s, must be %ld to %ld", what, text, min, max);
  *out = value;
  return BANYAN_OK;
}

static void put_number(char *out, const char *format, ...) {
  va_list args;
  va_start(args, format);
  print_into(out, PRINT_BYTES, format, args);
  va_end(args);
}

/* Prints three significant digits, without trailing zeros, in the largest unit that leaves at least 1. `units` is in
 * ascending order. */
static const char *print_with_unit(double value, const struct unit *units, double step, char *out) {
  double size = fabs(value);
  while (units[1].name && size / units->factor >= step - 0.5) units++;
  double shown = value / units->factor, magnitude = fabs(shown);
  int decimals = magnitude >= 99.95 ? 0 : magnitude >= 9.995 ? 1 : 2;
  if (magnitude < 1e6)
    put_number(out, "%.*f", decimals, shown);
  else
    put_number(out, "%.3g", shown);
  if (decimals && magnitude < 1e6) {
    size_t end = strlen(out);
    while (out[end - 1] == '0') end--;
    if (out[end - 1] == '.') end--;
    out[end] = '\0';
  }
  size_t length = strlen(out);
  snprintf(out + length, PRINT_BYTES - length, " %s", units->name);
  return out;
}

const char *by_print_bytes(uint64_t bytes, char *out) {
  static const struct unit units[] = {{"B", 1},        {"KiB", 0x1p10}, {"MiB", 0x1p20},
                                      {"GiB", 0x1p30}, {"TiB", 0x1p40}, {NULL, 0}};
  return print_with_unit((double)bytes, units, 1024, out);
}

const char *by_print_rate(double bits_per_second, char *out) {
  static const struct unit units[] = {{"bit/s", 1},    {"kbit/s", 1e3},  {"Mbit/s", 1e6},
                                      {"Gbit/s", 1e9}, {"Tbit/s", 1e12}, {NULL, 0}};
  return print_with_unit(bits_per_second, units, 1000, out);
}

const char *by_print_seconds(double seconds, char *out) {
  static const struct unit units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {NULL, 0}};
  if (seconds == 0) return strcpy(out, "0 s");
  return print_with_unit(seconds, units, 1000, out);
}

/* --- names --- */

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *by_find_twice(const void *structs, size_t n, size_t size, const char **scratch) {
  for (size_t i = 0; i < n; i++) memcpy(&scratch[i], (const char *)structs + i * size, sizeof *scratch);
  qsort(scratch, n, sizeof *scratch, compare_names);
  for (size_t i = 1; i < n; i++)
    if (strcmp(scratch[i - 1], scratch[i]) == 0) return scratch[i];
  return NULL;
}

/* --- similar names --- */

/* The number of edits that turn a into b: insert, delete, replace, or swap two neighbours (optimal string alignment).
 * O(|a| |b|). */
static size_t edit_distance(const char *a, const char *b) {
  size_t n = strlen(a), m = strlen(b), d[LONGEST + 1][LONGEST + 1];
  if (n > LONGEST || m > LONGEST) return LONGEST;
  for (size_t i = 0; i <= n; i++) d[i][0] = i;
  for (size_t j = 0; j <= m; j++) d[0][j] = j;
  for (size_t i = 1; i <= n; i++)
    for (size_t j = 1; j <= m; j++) {
      size_t replaced = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      d[i][j] = MIN(replaced, MIN(d[i - 1][j], d[i][j - 1]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d[i][j] = MIN(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[n][m];
}

const char *by_suggest(const char *word, const char *const *names, size_t n) {
  size_t best = 1 + MAX(strlen(word) / 3, (size_t)1); /* Up to a third may be wrong. */
  const char *found = NULL;
  for (size_t i = 0; i < n; i++) {
    size_t far = strlen(word) > 2 && !strncmp(word, names[i], strlen(word)) ? 0 : edit_distance(word, names[i]);
    if (far >= best) continue;
    best = far;
    found = names[i];
  }
  return found;
}

int by_find_choice(const char *choices, const char *word) {
  size_t length = strlen(word);
  for (int i = 0;; i++) {
    size_t n = strcspn(choices, "|");
    if (n == length && !memcmp(choices, word, length)) return i;
    if (!choices[n]) return -1;
    choices += n + 1;
  }
}

/* --- lists of keys and values --- */

static const char *shorten_name(const char *name) {
  bool limit = strncmp(name, "max-", 4) == 0 || strncmp(name, "min-", 4) == 0;
  return limit ? name + 4 : name;
}

static enum banyan_status fail_unknown(const char *name, const char *const *names, size_t n) {
  struct by_text list = {0};
  const char *near = by_suggest(name, names, n);
  for (size_t i = 0; i < n; i++) by_text_add(&list, "%s%s", i ? ", " : "", names[i]);
  enum banyan_status status =
      by_fail(BANYAN_ERR_ARGUMENT, "there is no \"%.32s\"%s%s%s; there are %s", name, near ? " (did you mean " : "",
              near ? near : "", near ? "?)" : "", by_text_get(&list));
  by_text_fini(&list);
  return status;
}

enum banyan_status by_take_pair(char **rest, const char *const *names, size_t n, const char *example, size_t *key,
                                char **value) {
  char *name = strsep(rest, ",");
  *value = strchr(name, '=');
  if (!*value) return by_fail(BANYAN_ERR_ARGUMENT, "\"%.32s\" is not like %s", name, example);
  *(*value)++ = '\0';
  for (*key = 0; *key < n; ++*key)
    if (!strcmp(name, names[*key]) || !strcmp(name, shorten_name(names[*key]))) return BANYAN_OK;
  return fail_unknown(name, names, n);
}
