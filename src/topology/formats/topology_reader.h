/* Shared by the readers of other programs' formats: options, lines, XML, the order of links. Errors are
 * BANYAN_ERR_PARSE and begin with file and line; those of options are BANYAN_ERR_ARGUMENT.
 *
 * XML is parsed as a whole, without network access, without declarations inside the document type (which hold entities
 * and defaults that multiply), within limits of size and depth. Borrowed pointers live as long as the document. The
 * first document of a process loads libxml2, which brings ICU and C++ along: some megabytes and milliseconds that ranks
 * without XML do not pay. Thread-safe. */
#ifndef BY_TOPOLOGY_FORMATS_TOPOLOGY_READER_H
#define BY_TOPOLOGY_FORMATS_TOPOLOGY_READER_H

#include <libxml/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/param.h>

#include "order.h"
#include "topology_make.h"

/* --- Options. --- */

/* Parsed options of the form "name=value,name=value". */
struct by_options {
  char copy[2048];
  const char *values[2]; /* NULL: not given */
};

/* Parses options. `names` are the two known ones. */
BANYAN_CHECK enum banyan_status by_options_take(struct by_options *options, const char *text, const char *const *names);
/* Fails if a format without options is given some. */
enum banyan_status by_options_none(const char *text);
/* Parses the value of an option as a rate above 0. If value is NULL, *out stays unchanged. */
BANYAN_CHECK enum banyan_status by_options_rate(const char *value, double *out);

/* --- Lines. --- */

/* Iterates over lines. Initialise it with the text's beginning and end; source and text are borrowed. */
struct by_lines {
  const char *source, *at, *end;
  size_t number; /* the number of the line, from 1 */
  bool open_end; /* The text ends in this line, without a newline. */
};

/* Returns the next line without its newline, not NUL-terminated; NULL at the end. */
const char *by_lines_next(struct by_lines *lines, size_t *length);
/* Fails with "FILE:LINE: text"; unprintable characters of the text are replaced. */
enum banyan_status by_lines_fail(const struct by_lines *lines, const char *format, ...) BY_PRINTF(2, 3);

/* --- XML. --- */

struct by_xml {
  const char *source; /* the file's name for errors; borrowed */
  xmlDoc *doc;
  xmlNode *root;
};

enum {
  BY_XML_MAX_BYTES = 32 << 20,
  BY_XML_MAX_PARTS = 1 << 20, /* the limit of elements and attributes */
};

/* Parses a document whose outermost element must be `root`; `format` names it in errors, such as "GraphML".
 * BANYAN_ERR_UNSUPPORTED: libxml2 cannot be loaded. */
BANYAN_CHECK enum banyan_status by_xml_parse(struct by_xml *xml, const char *source, const char *text, size_t length,
                                             const char *root, const char *format);
void by_xml_fini(struct by_xml *xml);

/* Fails with "FILE:LINE: <element its="attributes">: text". */
enum banyan_status by_xml_fail(const struct by_xml *xml, const xmlNode *element, const char *format, ...)
    BY_PRINTF(3, 4);
/* Prepends the place of an element to the present error text. */
enum banyan_status by_xml_fail_within(const struct by_xml *xml, const xmlNode *element, enum banyan_status status);

/* Returns the line where the element begins, from 1. */
long by_xml_line(const xmlNode *element);
static inline bool by_xml_is(const xmlNode *element, const char *name) {
  return strcmp((const char *)element->name, name) == 0;
}
/* Returns the first element among `node` and its following siblings that has this name (NULL: any); NULL: none. */
static inline const xmlNode *by_xml_find(const xmlNode *node, const char *name) {
  while (node && (node->type != XML_ELEMENT_NODE || (name && !by_xml_is(node, name)))) node = node->next;
  return node;
}
/* Counts the direct children of an element that have this name. */
uint32_t by_xml_count(const xmlNode *parent, const char *name);
/* Returns an attribute of an element, borrowed; NULL: there is none. */
const char *by_xml_attribute(const xmlNode *element, const char *name);
/* Returns an attribute that must exist. */
BANYAN_CHECK static inline enum banyan_status by_xml_need(const struct by_xml *xml, const xmlNode *element,
                                                          const char *name, const char **out) {
  *out = by_xml_attribute(element, name);
  return *out ? BANYAN_OK : by_xml_fail(xml, element, "the attribute %s is missing: write %s=\"...\"", name, name);
}
/* Returns the text directly inside an element, without surrounding white space; NULL: no memory. */
const char *by_xml_text(struct by_arena *arena, const xmlNode *element);

/* --- Order. --- */

#define BY_ORDER(x, y) (((x) > (y)) - ((x) < (y)))

/* Orders links a-b and c-d by their lower ends, then by their higher ends, regardless of direction. */
static inline int by_order_ends(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  int order = BY_ORDER(MIN(a, b), MIN(c, d));
  return order ? order : BY_ORDER(MAX(a, b), MAX(c, d));
}

#endif
