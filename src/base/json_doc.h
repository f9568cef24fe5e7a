/* Reading values out of a JSON document, with errors that say where:
 *   p.json: trees[2].up["3"]: must be a vertex's name, is a number
 * A place is on the caller's stack and points to the one around it; the
 * outermost one is the file. All errors are BANYAN_ERR_PARSE.
 * And writing JSON into a text, so that it is read back as the same values. */
#ifndef BY_BASE_JSON_DOC_H
#define BY_BASE_JSON_DOC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fail.h"
#include "text.h"

struct by_doc_path {
  const struct by_doc_path *above; /* NULL: the document, and `field` is its file */
  const char *field;               /* a name that the format knows; or NULL: */
  const char *key;                 /* one that the document made up; or NULL: */
  size_t index;
};

/* Most that a text may hold, so that what Jansson makes of it stays bounded: it takes up to 300 bytes for a container
 * and about a hundred for an element. What is in strings is counted too. */
struct by_doc_limits {
  size_t bytes, containers, elements;
};

/* Refuses keys that are given twice. `source` is the file's name in errors. The caller drops *out (json_decref). */
BANYAN_CHECK enum banyan_status by_doc_load(const char *source, const char *text, size_t length,
                                            const struct by_doc_limits *limits, json_t **out);

/* The same for one of several documents behind each other: from *at on, which is then where the next begins, behind the
 * white space. The limits hold for all of them together. Start with 0; there is no more where *at is `length`. */
BANYAN_CHECK enum banyan_status by_doc_load_next(const char *source, const char *text, size_t length,
                                                 const struct by_doc_limits *limits, size_t *at, json_t **out);

enum banyan_status by_doc_fail(const struct by_doc_path *path, const char *format, ...) BY_PRINTF(2, 3);
/* Must be an object without fields other than `fields`, which are separated by ", ". */
BANYAN_CHECK enum banyan_status by_doc_fields(const struct by_doc_path *path, const json_t *value, const char *fields);
/* A member that must be there; borrowed. */
BANYAN_CHECK enum banyan_status by_doc_need(const struct by_doc_path *path, const json_t *object, const char *field,
                                            json_t **out);
/* The same of a document that people write: the error shows a value that they may write. */
BANYAN_CHECK enum banyan_status by_doc_need_like(const struct by_doc_path *path, const json_t *object,
                                                 const char *field, const char *example, json_t **out);
BANYAN_CHECK enum banyan_status by_doc_array(const struct by_doc_path *path, const json_t *value, size_t min,
                                             size_t max);
/* Borrowed. */
BANYAN_CHECK enum banyan_status by_doc_string(const struct by_doc_path *path, const json_t *value, const char **out);
BANYAN_CHECK enum banyan_status by_doc_int(const struct by_doc_path *path, const json_t *value, uint64_t min,
                                           uint64_t max, uint64_t *out);
/* The same of a member of an object that must be there, from 0 on. */
BANYAN_CHECK enum banyan_status by_doc_need_int(const struct by_doc_path *path, const json_t *object, const char *field,
                                                uint64_t max, uint64_t *out);
BANYAN_CHECK enum banyan_status by_doc_bool(const struct by_doc_path *path, const json_t *value, bool *out);
/* Any finite number. */
BANYAN_CHECK enum banyan_status by_doc_number(const struct by_doc_path *path, const json_t *value, double *out);
/* A number >= 0. */
BANYAN_CHECK enum banyan_status by_doc_real(const struct by_doc_path *path, const json_t *value, double *out);
/* Bytes: a whole number, or a text such as "64K". */
BANYAN_CHECK enum banyan_status by_doc_bytes(const struct by_doc_path *path, const json_t *value, uint64_t max,
                                             uint64_t *out);
/* bit/s: a number, or a text such as "10g". */
BANYAN_CHECK enum banyan_status by_doc_rate(const struct by_doc_path *path, const json_t *value, double *out);

/* Seconds: a number, or a text such as "20ms". */
BANYAN_CHECK enum banyan_status by_doc_seconds(const struct by_doc_path *path, const json_t *value, double *out);

/* Members of what is only shown: one that is missing, of another type or not finite is 0, or "". */
double by_json_number(const json_t *object, const char *field);
const char *by_json_text(const json_t *object, const char *field);
/* Of the field in all members of an array. */
double by_json_sum(const json_t *array, const char *field);

/* With its quotes. */
void by_json_add_string(struct by_text *text, const char *string);
/* A finite number, in the shortest of the usual forms that is read back as the same. */
void by_json_add_real(struct by_text *text, double value);

/* A comma, unless what comes next is the first thing in its object or array. */
void by_json_separate(struct by_text *text);
/* Begins a member of an object, with the comma that it needs; its value is to follow. The name is added as it is. */
void by_json_begin_member(struct by_text *text, const char *name);
/* Members with their values. NULL is null, and a number that is not finite is 0. */
void by_json_put_string(struct by_text *text, const char *name, const char *string);
void by_json_put_real(struct by_text *text, const char *name, double value);
void by_json_put_count(struct by_text *text, const char *name, uint64_t count);
void by_json_put_bool(struct by_text *text, const char *name, bool value);

#endif
