/* What the readers of other programs' formats share: options, lines, XML, the order of links. Errors are
 * BANYAN_ERR_PARSE and begin with file and line, but for options, BANYAN_ERR_ARGUMENT.
 *
 * XML is parsed whole, without the network, without a document type's own declarations (which hold entities and
 * defaults that multiply), within bounds of size and depth. What is borrowed lives as long as the document. libxml2 is
 * loaded by the first document of a process: it brings ICU and C++ along, some megabytes and milliseconds which ranks
 * that read no XML should not pay. Any thread. */
#ifndef BY_TOPOLOGY_FORMATS_TOPOLOGY_READER_H
#define BY_TOPOLOGY_FORMATS_TOPOLOGY_READER_H

#include <libxml/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/param.h>

#include "order.h"
#include "topology_make.h"

/* --- options --- */

/* "name=value,name=value", as it stands behind a file's name. */
struct by_options {
  char copy[2048];
  const char *values[2]; /* NULL: not given */
};

/* `names`: the two that there are. */
BANYAN_CHECK enum banyan_status by_options_take(struct by_options *options, const char *text, const char *const *names);
/* The error of a format without options. */
enum banyan_status by_options_none(const char *text);
/* The value of an option as a rate above 0; where it is not given, *out stays. */
BANYAN_CHECK enum banyan_status by_options_rate(const char *value, double *out);

/* --- lines --- */

/* Start with the text's beginning and end; source and text are borrowed. */
struct by_lines {
  const char *source, *at, *end;
  size_t number; /* of the line, from 1 */
  bool open_end; /* the text ends in this line, without a newline */
};

/* The next line without its newline, not NUL-terminated; NULL behind the last. */
const char *by_lines_next(struct by_lines *lines, size_t *length);
/* "FILE:LINE: text" with what can be shown of the text. */
enum banyan_status by_lines_fail(const struct by_lines *lines, const char *format, ...) BY_PRINTF(2, 3);

/* --- XML --- */

struct by_xml {
  const char *source; /* for errors; borrowed */
  xmlDoc *doc;
  xmlNode *root;
};

enum {
  BY_XML_MOST_BYTES = 32 << 20,
  BY_XML_MOST_PARTS = 1 << 20, /* elements and attributes */
};

/* The outermost element must be `root`; `format` names it to people, such as "GraphML". BANYAN_ERR_UNSUPPORTED: libxml2
 * cannot be loaded. */
BANYAN_CHECK enum banyan_status by_xml_parse(struct by_xml *xml, const char *source, const char *text, size_t length,
                                             const char *root, const char *format);
void by_xml_fini(struct by_xml *xml);

/* "FILE:LINE: <element its="attributes">: text" */
enum banyan_status by_xml_fail(const struct by_xml *xml, const xmlNode *element, const char *format, ...)
    BY_PRINTF(3, 4);
/* Puts the same place before the error text there is. */
enum banyan_status by_xml_fail_within(const struct by_xml *xml, const xmlNode *element, enum banyan_status status);

/* Where it begins, from 1. */
long by_xml_line(const xmlNode *element);
bool by_xml_is(const xmlNode *element, const char *name);
/* The first element from `node` on among its siblings that has this name (NULL: any); NULL: none. */
const xmlNode *by_xml_find(const xmlNode *node, const char *name);
/* How many of that name are directly inside an element. */
uint32_t by_xml_count(const xmlNode *parent, const char *name);
/* Borrowed; NULL: the element has none of that name. */
const char *by_xml_attribute(const xmlNode *element, const char *name);
/* One that must be there. */
BANYAN_CHECK enum banyan_status by_xml_need(const struct by_xml *xml, const xmlNode *element, const char *name,
                                            const char **out);
/* The text directly inside an element, without the space around it; NULL: no memory. */
const char *by_xml_text(struct by_arena *arena, const xmlNode *element);

/* --- order --- */

#define BY_ORDER(x, y) (((x) > (y)) - ((x) < (y)))

/* Orders links from a to b and from c to d by their lower ends, then by the others; whichever way each of them leads.
 */
static inline int by_order_ends(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  int order = BY_ORDER(MIN(a, b), MIN(c, d));
  return order ? order : BY_ORDER(MAX(a, b), MAX(c, d));
}

#endif
