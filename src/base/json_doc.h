/* Reads values of a JSON document, with errors that tell the path of a value:
 *
 *   p.json: trees[2].up["3"]: must be a vertex's name, is a number
 *
 * A path is on the caller's stack and points to the one around it; the outermost one is the file. All errors are
 * BANYAN_ERR_PARSE. Also writes JSON into a text, so that it is read back as the same values. */
#ifndef BY_BASE_JSON_DOC_H
#define BY_BASE_JSON_DOC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fail.h"
#include "text.h"

struct by_doc_path {
  const struct by_doc_path *above; /* NULL: this is the document, and `field` is its file. */
  const char *field;               /* A name that the format defines; or NULL. */
  const char *key;                 /* A name that the document defines; or NULL: `index` is used. */
  size_t index;
};

/* Limits of a text, which bound the memory that Jansson needs: up to 300 bytes for a container and about a hundred
 * for an element. The contents of strings count too. */
struct by_doc_limits {
  size_t bytes, containers, elements;
};

/* Parses a text. Keys that are given twice are refused. `source` is the file's name in errors. The caller drops *out
 * (json_decref). */
BANYAN_CHECK enum banyan_status by_doc_load(const char *source, const char *text, size_t length,
                                            const struct by_doc_limits *limits, json_t **out);

/* Parses one of several documents behind each other, from *at on, which is then the start of the next one, behind the
 * white space. The limits hold for all of them together. Start with 0; there are no more if *at is `length`. */
BANYAN_CHECK enum banyan_status by_doc_load_next(const char *source, const char *text, size_t length,
                                                 const struct by_doc_limits *limits, size_t *at, json_t **out);

enum banyan_status by_doc_fail(const struct by_doc_path *path, const char *format, ...) BY_PRINTF(2, 3);
/* Checks that a value is an object without fields other than `fields`, which are separated by ", ". */
BANYAN_CHECK enum banyan_status by_doc_fields(const struct by_doc_path *path, const json_t *value, const char *fields);
/* A required member; borrowed. */
BANYAN_CHECK enum banyan_status by_doc_need(const struct by_doc_path *path, const json_t *object, const char *field,
                                            json_t **out);
/* A required member of a document that people write: the error shows an example. */
BANYAN_CHECK enum banyan_status by_doc_need_like(const struct by_doc_path *path, const json_t *object,
                                                 const char *field, const char *example, json_t **out);
BANYAN_CHECK enum banyan_status by_doc_array(const struct by_doc_path *path, const json_t *value, size_t min,
                                             size_t max);
/* The string is borrowed. */
BANYAN_CHECK enum banyan_status by_doc_string(const struct by_doc_path *path, const json_t *value, const char **out);
BANYAN_CHECK enum banyan_status by_doc_int(const struct by_doc_path *path, const json_t *value, uint64_t min,
                                           uint64_t max, uint64_t *out);
/* A required member that is an integer from 0 to `max`. */
BANYAN_CHECK enum banyan_status by_doc_need_int(const struct by_doc_path *path, const json_t *object, const char *field,
                                                uint64_t max, uint64_t *out);
BANYAN_CHECK enum banyan_status by_doc_bool(const struct by_doc_path *path, const json_t *value, bool *out);
/* Any finite number. */
BANYAN_CHECK enum banyan_status by_doc_number(const struct by_doc_path *path, const json_t *value, double *out);
/* A number >= 0. */
BANYAN_CHECK enum banyan_status by_doc_real(const struct by_doc_path *path, const json_t *value, double *out);
/* Bytes: an integer, or a text such as "64K". */
BANYAN_CHECK enum banyan_status by_doc_bytes(const struct by_doc_path *path, const json_t *value, uint64_t max,
                                             uint64_t *out);
/* A rate in bit/s: a number, or a text such as "10g". */
BANYAN_CHECK enum banyan_status by_doc_rate(const struct by_doc_path *path, const json_t *value, double *out);

/* Seconds: a number, or a text such as "20ms". */
BANYAN_CHECK enum banyan_status by_doc_seconds(const struct by_doc_path *path, const json_t *value, double *out);

/* Members that are only shown: 0 or "" if one is missing, of another type or not finite. */
double by_json_number(const json_t *object, const char *field);
const char *by_json_text(const json_t *object, const char *field);
/* The sum of the field over all members of an array. */
double by_json_sum(const json_t *array, const char *field);

/* Adds a string with its quotes. */
void by_json_add_string(struct by_text *text, const char *string);
/* Adds a finite number, in the shortest of the usual forms that is read back as the same. */
void by_json_add_real(struct by_text *text, double value);

/* Adds a comma, unless the next value is the first in its object or array. */
void by_json_separate(struct by_text *text);
/* Begins a member of an object, with a comma if needed; its value must follow. The name is added as it is. */
void by_json_begin_member(struct by_text *text, const char *name);
/* Add members with their values. NULL is null, and a number that is not finite is 0. */
void by_json_put_string(struct by_text *text, const char *name, const char *string);
void by_json_put_real(struct by_text *text, const char *name, double value);
void by_json_put_count(struct by_text *text, const char *name, uint64_t count);
void by_json_put_bool(struct by_text *text, const char *name, bool value);

#endif
