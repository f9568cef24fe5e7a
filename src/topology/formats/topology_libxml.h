/* libxml2, loaded by the first document of a process: it brings ICU and C++
 * along, some megabytes and milliseconds which ranks that read no XML should
 * not pay. Any thread. */
#ifndef BY_TOPOLOGY_TOPOLOGY_LIBXML_H
#define BY_TOPOLOGY_TOPOLOGY_LIBXML_H

#include <libxml/SAX2.h>
#include <libxml/parser.h>
#include <libxml/tree.h>

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

#endif
