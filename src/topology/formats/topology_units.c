/* Parses units, which consist of a prefix, what is counted, and "per second" in one of its spellings. */
#include "topology_units.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

enum { MAX_UNIT = 32 };

/* Skips a word with which the text begins. */
static bool skip_word(const char **at, const char *word) {
  size_t n = strlen(word);
  if (strncasecmp(*at, word, n) != 0) return false;
  *at += n;
  return true;
}

static double skip_prefix(const char **at) {
  static const struct {
    const char *word, *letter;
    double factor;
  } prefixes[] = {{"kilo", "k", 1e3}, {"mega", "m", 1e6}, {"giga", "g", 1e9}, {"tera", "t", 1e12}};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
    if (!skip_word(at, prefixes[i].word) && !skip_word(at, prefixes[i].letter)) continue;
    if (**at != 'i' || (at[0][1] != 'b' && at[0][1] != 'B')) return prefixes[i].factor;
    ++*at;
    double binary = 1024;
    for (size_t k = 0; k < i; k++) binary *= 1024;
    return binary;
  }
  return 1;
}

static double parse_rate_unit(const char *text) {
  static const char *const ends[] = {"", "ps", "/s", "/sec", "/second", " per second", "persecond"};
  const char *at = text;
  double factor = skip_prefix(&at);
  if (skip_word(&at, "bytes") || skip_word(&at, "byte"))
    factor *= 8;
  else if (!skip_word(&at, "bits") && !skip_word(&at, "bit") && tolower((unsigned char)*at) == 'b')
    factor *= *at++ == 'B' && *at != 'P' ? 8 : 1;
  for (size_t i = 0; at > text && i < sizeof ends / sizeof *ends; i++)
    if (strcasecmp(at, ends[i]) == 0) return factor;
  return 0;
}

static double find_unit(enum by_quantity quantity, const char *text) {
  static const struct {
    enum by_quantity quantity;
    double factor;
    const char *names[6];
  } units[] = {
      {BY_QUANTITY_TIME, 1, {"s", "sec", "secs", "second", "seconds"}},
      {BY_QUANTITY_TIME, 1e-3, {"ms", "msec", "millis", "millisecond", "milliseconds"}},
      {BY_QUANTITY_TIME, 1e-6, {"us", "usec", "\xc2\xb5s", "\xce\xbcs", "microsecond", "microseconds"}},
      {BY_QUANTITY_TIME, 1e-9, {"ns", "nsec", "nanosecond", "nanoseconds"}},
      {BY_QUANTITY_SHARE, 1e-2, {"%", "percent", "pct"}},
  };
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    for (size_t k = 0; units[i].quantity == quantity && k < 6 && units[i].names[k]; k++)
      if (strcasecmp(text, units[i].names[k]) == 0) return units[i].factor;
  return 0;
}

double by_unit_factor(enum by_quantity quantity, const char *text) {
  char unit[MAX_UNIT];
  size_t skip = strspn(text, " \t\r\n([_-"), n = strlen(text + skip);
  while (n > 0 && strchr(" \t\r\n)]", text[skip + n - 1])) n--;
  if (n == 0 || n >= sizeof unit) return 0;
  snprintf(unit, sizeof unit, "%.*s", (int)n, text + skip);
  return quantity == BY_QUANTITY_RATE ? parse_rate_unit(unit) : find_unit(quantity, unit);
}

double by_unit_factor_within(enum by_quantity quantity, const char *sentence) {
  static const char gaps[] = " \t\r\n,;:.()[]";
  double factor = by_unit_factor(quantity, sentence);
  while (*sentence && factor == 0) {
    char word[MAX_UNIT];
    sentence += strspn(sentence, gaps);
    size_t n = strcspn(sentence, gaps);
    if (n > 0 && n < sizeof word) {
      snprintf(word, sizeof word, "%.*s", (int)n, sentence);
      factor = by_unit_factor(quantity, word);
    }
    sentence += n;
  }
  return factor;
}

enum banyan_status by_unit_parse(enum by_quantity quantity, const char *text, double *value, double *factor) {
  static const char *const examples[BY_QUANTITIES] = {"a number", "a rate such as 9920, 10g or 2.5 Gbit/s",
                                                      "a time such as 20, 20ms or 0.3 us",
                                                      "a share such as 0.01 or 1%"};
  char number[64];
  size_t n = strspn(text, "0123456789."), exponent = 0;
  if (text[n] == 'e' || text[n] == 'E') exponent = strspn(text + n + 1, "+-0123456789");
  if (exponent) n += 1 + exponent;
  *factor = 0;
  if (n == 0 || n >= sizeof number) return by_fail(BANYAN_ERR_PARSE, "\"%.64s\" is not %s", text, examples[quantity]);
  snprintf(number, sizeof number, "%.*s", (int)n, text);
  if (by_parse_number(number, value) != BANYAN_OK || *value < 0)
    return by_fail(BANYAN_ERR_PARSE, "\"%.64s\" is not %s", text, examples[quantity]);
  if (!text[n]) return BANYAN_OK;
  *factor = by_unit_factor(quantity, text + n);
  return *factor > 0 ? BANYAN_OK : by_fail(BANYAN_ERR_PARSE, "\"%.64s\" is not %s", text, examples[quantity]);
}
