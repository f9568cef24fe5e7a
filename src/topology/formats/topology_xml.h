/* XML for the readers that need it: parsed whole, without the network, without a document type's own declarations
 * (which hold entities and defaults that multiply), within bounds of size and depth. Errors name file, line and
 * element. What is borrowed lives as long as the document.
 *
 * libxml2 is loaded by the first document of a process: it brings ICU and C++ along, some megabytes and milliseconds
 * which ranks that read no XML should not pay. Any thread. */
#ifndef BY_TOPOLOGY_TOPOLOGY_XML_H
#define BY_TOPOLOGY_TOPOLOGY_XML_H

#include <libxml/SAX2.h>
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <stdbool.h>
#include <stddef.h>

#include "arena.h"
#include "fail.h"

struct by_libxml {
  __typeof__(&xmlInitParser) init;
  __typeof__(&xmlNewParserCtxt) new_parser;
  __typeof__(&xmlFreeParserCtxt) free_parser;
  __typeof__(&xmlCtxtReadMemory) read_memory;
  __typeof__(&xmlStopParser) stop_parser;
  __typeof__(&xmlSAX2StartElementNs) start_element;
  __typeof__(&xmlDocGetRootElement) root;
  __typeof__(&xmlGetLineNo) line;
  __typeof__(&xmlFreeDoc) free_doc;
};

/* Static storage. BANYAN_ERR_UNSUPPORTED: it cannot be loaded. */
BANYAN_CHECK enum banyan_status by_libxml_load(const struct by_libxml **out);

struct by_xml {
  const char *source; /* for errors; borrowed */
  const struct by_libxml *library;
  xmlDoc *doc;
  xmlNode *root;
};

enum {
  BY_XML_MOST_BYTES = 32 << 20,
  BY_XML_MOST_PARTS = 1 << 20, /* elements and attributes */
};

/* The outermost element must be `root`; `format` names it to people, such as "GraphML". */
BANYAN_CHECK enum banyan_status by_xml_parse(struct by_xml *xml, const char *source, const char *text, size_t length,
                                             const char *root, const char *format);
void by_xml_fini(struct by_xml *xml);

/* "FILE:LINE: <element its="attributes">: text", as BANYAN_ERR_PARSE. */
enum banyan_status by_xml_fail(const struct by_xml *xml, const xmlNode *element, const char *format, ...)
    BY_PRINTF(3, 4);
/* Puts the same place before the error text there is. */
enum banyan_status by_xml_fail_within(const struct by_xml *xml, const xmlNode *element, enum banyan_status status);

/* Where it begins, from 1. */
long by_xml_line(const struct by_xml *xml, const xmlNode *element);
bool by_xml_is(const xmlNode *element, const char *name);
/* The first element from `node` on among its siblings, and the first inside an element; NULL: none. */
const xmlNode *by_xml_next(const xmlNode *node);
const xmlNode *by_xml_first(const xmlNode *element);
/* Borrowed; NULL: the element has none of that name. */
const char *by_xml_attribute(const xmlNode *element, const char *name);
/* One that must be there. */
BANYAN_CHECK enum banyan_status by_xml_need(const struct by_xml *xml, const xmlNode *element, const char *name,
                                            const char **out);
/* The text directly inside an element, without the space around it; NULL: no memory. */
const char *by_xml_text(struct by_arena *arena, const xmlNode *element);

#endif
