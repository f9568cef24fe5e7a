/* Reads and writes JSON documents. */
#include "json_doc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PART_BYTES = 512, MAX_FIELDS = 16, NUMBER_BYTES = 32 };

static size_t print_path(const struct by_doc_path *path, char *out, size_t capacity) {
  if (!path->above) return 0;
  size_t used = print_path(path->above, out, capacity);
  int n = path->field ? snprintf(out + used, capacity - used, "%s%s", used ? "." : "", path->field)
          : path->key ? snprintf(out + used, capacity - used, "[\"%.64s\"]", path->key)
                      : snprintf(out + used, capacity - used, "[%zu]", path->index);
  return used + (size_t)n < capacity ? used + (size_t)n : capacity - 1;
}

/* Names in a document may contain newlines, error texts must not. */
static void keep_printable(char *text) {
  for (char *c = text; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
}

enum banyan_status by_doc_fail(const struct by_doc_path *path, const char *format, ...) {
  char where[PART_BYTES] = "", what[PART_BYTES];
  print_path(path, where, sizeof where);
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  keep_printable(where);
  keep_printable(what);
  while (path->above) path = path->above;
  return by_fail(BANYAN_ERR_PARSE, "%s: %s%s%s", path->field, where, *where ? ": " : "", what);
}

static const char *type_name(const json_t *value) {
  static const char *const names[] = {"an object", "an array", "a string", "a whole number",
                                      "a number",  "true",     "false",    "null"};
  return names[json_typeof(value)];
}

enum banyan_status by_doc_fields(const struct by_doc_path *path, const json_t *value, const char *fields) {
  if (!json_is_object(value)) return by_doc_fail(path, "must be an object, is %s", type_name(value));
  char copy[256];
  char *kept = NULL;
  const char *known[MAX_FIELDS], *key;
  size_t n = 0;
  snprintf(copy, sizeof copy, "%s", fields);
  for (char *word = strtok_r(copy, ", ", &kept); word && n < MAX_FIELDS; word = strtok_r(NULL, ", ", &kept))
    known[n++] = word;
  json_t *member;
  json_object_foreach((json_t *)value, key, member) {
    size_t i = 0;
    while (i < n && strcmp(known[i], key) != 0) i++;
    if (i < n) continue;
    const char *near = by_suggest(key, known, n);
    if (near) return by_doc_fail(path, "unknown field \"%.64s\"; did you mean \"%s\"?", key, near);
    return by_doc_fail(path, "unknown field \"%.64s\"; there are %s", key, fields);
  }
  return BANYAN_OK;
}

enum banyan_status by_doc_need(const struct by_doc_path *path, const json_t *object, const char *field, json_t **out) {
  *out = json_object_get(object, field);
  return *out ? BANYAN_OK : by_doc_fail(path, "the field \"%s\" is missing", field);
}

enum banyan_status by_doc_need_like(const struct by_doc_path *path, const json_t *object, const char *field,
                                    const char *example, json_t **out) {
  *out = json_object_get(object, field);
  return *out ? BANYAN_OK : by_doc_fail(path, "the field \"%s\" is missing: write \"%s\": %s", field, field, example);
}

enum banyan_status by_doc_array(const struct by_doc_path *path, const json_t *value, size_t min, size_t max) {
  if (!json_is_array(value)) return by_doc_fail(path, "must be an array, is %s", type_name(value));
  size_t n = json_array_size(value);
  if (n >= min && n <= max) return BANYAN_OK;
  return by_doc_fail(path, "has %zu elements, must have %zu to %zu", n, min, max);
}

enum banyan_status by_doc_string(const struct by_doc_path *path, const json_t *value, const char **out) {
  if (json_is_integer(value))
    return by_doc_fail(path, "must be a string: write \"%lld\"", (long long)json_integer_value(value));
  if (!json_is_string(value)) return by_doc_fail(path, "must be a string, is %s", type_name(value));
  *out = json_string_value(value);
  return BANYAN_OK;
}

enum banyan_status by_doc_int(const struct by_doc_path *path, const json_t *value, uint64_t min, uint64_t max,
                              uint64_t *out) {
  if (!json_is_integer(value)) return by_doc_fail(path, "must be a whole number, is %s", type_name(value));
  json_int_t number = json_integer_value(value);
  if (number < 0 || (uint64_t)number < min || (uint64_t)number > max)
    return by_doc_fail(path, "is %lld, must be %llu to %llu", (long long)number, (unsigned long long)min,
                       (unsigned long long)max);
  *out = (uint64_t)number;
  return BANYAN_OK;
}

enum banyan_status by_doc_need_int(const struct by_doc_path *path, const json_t *object, const char *field,
                                   uint64_t max, uint64_t *out) {
  struct by_doc_path of_field = {.above = path, .field = field};
  json_t *value;
  BY_TRY(by_doc_need(path, object, field, &value));
  return by_doc_int(&of_field, value, 0, max, out);
}

enum banyan_status by_doc_bool(const struct by_doc_path *path, const json_t *value, bool *out) {
  if (!json_is_boolean(value)) return by_doc_fail(path, "must be true or false, is %s", type_name(value));
  *out = json_boolean_value(value);
  return BANYAN_OK;
}

enum banyan_status by_doc_number(const struct by_doc_path *path, const json_t *value, double *out) {
  if (!json_is_number(value)) return by_doc_fail(path, "must be a number, is %s", type_name(value));
  *out = json_number_value(value);
  return isfinite(*out) ? BANYAN_OK : by_doc_fail(path, "is %g, must be finite", *out);
}

enum banyan_status by_doc_real(const struct by_doc_path *path, const json_t *value, double *out) {
  BY_TRY(by_doc_number(path, value, out));
  return *out >= 0 ? BANYAN_OK : by_doc_fail(path, "is %g, must be 0 or more", *out);
}

enum banyan_status by_doc_bytes(const struct by_doc_path *path, const json_t *value, uint64_t max, uint64_t *out) {
  if (!json_is_string(value)) return by_doc_int(path, value, 0, max, out);
  if (by_parse_bytes(json_string_value(value), out) != BANYAN_OK) return by_doc_fail(path, "%s", banyan_error_text());
  if (*out <= max) return BANYAN_OK;
  return by_doc_fail(path, "is %s, must be at most %llu", json_string_value(value), (unsigned long long)max);
}

/* A number, or a text with a unit. */
static enum banyan_status read_quantity(const struct by_doc_path *path, const json_t *value,
                                        enum banyan_status (*parse)(const char *text, double *out), double *out) {
  if (!json_is_string(value)) return by_doc_real(path, value, out);
  if (parse(json_string_value(value), out) == BANYAN_OK) return BANYAN_OK;
  return by_doc_fail(path, "%s", banyan_error_text());
}

enum banyan_status by_doc_rate(const struct by_doc_path *path, const json_t *value, double *out) {
  return read_quantity(path, value, by_parse_rate, out);
}

enum banyan_status by_doc_seconds(const struct by_doc_path *path, const json_t *value, double *out) {
  return read_quantity(path, value, by_parse_seconds, out);
}

/* --- parsing --- */

/* Counts in strings too; no real document has nearly so many. */
static enum banyan_status check_size(const char *source, const char *text, size_t length,
                                     const struct by_doc_limits *max) {
  size_t containers = 0, elements = 0;
  for (size_t i = 0; i < length && length <= max->bytes; i++) {
    containers += text[i] == '{' || text[i] == '[';
    elements += text[i] == ',';
  }
  if (length > max->bytes || containers > max->containers || elements > max->elements)
    return by_fail(BANYAN_ERR_PARSE, "%s: too large: at most %zu bytes, %zu objects and arrays, %zu elements", source,
                   max->bytes, max->containers, max->elements);
  return BANYAN_OK;
}

static enum banyan_status syntax_error(const char *source, json_error_t *error) {
  keep_printable(error->text);
  return by_fail(BANYAN_ERR_PARSE, "%s:%d:%d: %s", source, error->line, error->column, error->text);
}

enum banyan_status by_doc_load(const char *source, const char *text, size_t length, const struct by_doc_limits *limits,
                               json_t **out) {
  json_error_t error;
  BY_TRY(check_size(source, text, length, limits));
  *out = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
  return *out ? BANYAN_OK : syntax_error(source, &error);
}

enum banyan_status by_doc_load_next(const char *source, const char *text, size_t length,
                                    const struct by_doc_limits *limits, size_t *at, json_t **out) {
  json_error_t error;
  if (*at == 0) BY_TRY(check_size(source, text, length, limits));
  *out = json_loadb(text + *at, length - *at, JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, &error);
  if (!*out) {
    for (size_t i = 0; i < *at; i++) error.line += text[i] == '\n';
    return syntax_error(source, &error);
  }
  *at += (size_t)error.position; /* This many were read. */
  while (*at < length && strchr(" \t\r\n", text[*at]) && text[*at]) ++*at;
  return BANYAN_OK;
}

/* --- writing --- */

static const double max_whole = 1e15; /* Below, %.15g prints integers digit for digit. */

double by_json_number(const json_t *object, const char *field) {
  double value = json_number_value(json_object_get(object, field));
  return isfinite(value) ? value : 0;
}

double by_json_sum(const json_t *array, const char *field) {
  const json_t *member;
  double sum = 0;
  size_t i;
  json_array_foreach(array, i, member) {
    sum += by_json_number(member, field);
  }
  return sum;
}

const char *by_json_text(const json_t *object, const char *field) {
  const char *value = json_string_value(json_object_get(object, field));
  return value ? value : "";
}

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

/* Most numbers are integers, and a manager's state has ten thousands. */
static void add_whole(struct by_text *text, bool negative, uint64_t value) {
  char digits[NUMBER_BYTES], *at = digits + NUMBER_BYTES;
  do *--at = (char)('0' + value % 10);
  while (value /= 10);
  if (negative) *--at = '-';
  by_text_add_bytes(text, at, (size_t)(digits + NUMBER_BYTES - at));
}

void by_json_add_real(struct by_text *text, double value) {
  char shorter[NUMBER_BYTES];
  value += 0.0; /* -0 would be read as the integer 0. */
  if (fabs(value) < max_whole && value == trunc(value)) {
    add_whole(text, value < 0, (uint64_t)fabs(value));
    return;
  }
  snprintf(shorter, sizeof shorter, "%.15g", value);
  by_text_add(text, strtod(shorter, NULL) == value ? "%.15g" : "%.17g", value);
}

void by_json_separate(struct by_text *text) {
  char last = text->length ? text->data[text->length - 1] : '{';
  if (last != '{' && last != '[') by_text_add_bytes(text, ",", 1);
}

void by_json_begin_member(struct by_text *text, const char *name) {
  by_json_separate(text);
  by_text_add_bytes(text, "\"", 1);
  by_text_add_bytes(text, name, strlen(name));
  by_text_add_bytes(text, "\":", 2);
}

void by_json_put_string(struct by_text *text, const char *name, const char *string) {
  by_json_begin_member(text, name);
  if (string)
    by_json_add_string(text, string);
  else
    by_text_add_bytes(text, "null", 4);
}

void by_json_put_real(struct by_text *text, const char *name, double value) {
  by_json_begin_member(text, name);
  by_json_add_real(text, isfinite(value) ? value : 0);
}

void by_json_put_count(struct by_text *text, const char *name, uint64_t count) {
  by_json_begin_member(text, name);
  add_whole(text, false, count);
}

void by_json_put_bool(struct by_text *text, const char *name, bool value) {
  by_json_begin_member(text, name);
  by_text_add(text, value ? "true" : "false");
}
