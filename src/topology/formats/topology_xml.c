#include "topology_xml.h"

#include <dlfcn.h>
#include <libxml/xmlversion.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

/* The one whose structures the headers describe. */
#if LIBXML_VERSION < 21400
#define LIBRARY "libxml2.so.2"
#else
#define LIBRARY "libxml2.so.16"
#endif

static const struct {
  const char *name;
  size_t at;
} symbols[] = {
    {"xmlInitParser", offsetof(struct by_libxml, init)},
    {"xmlNewParserCtxt", offsetof(struct by_libxml, new_parser)},
    {"xmlFreeParserCtxt", offsetof(struct by_libxml, free_parser)},
    {"xmlCtxtReadMemory", offsetof(struct by_libxml, read_memory)},
    {"xmlStopParser", offsetof(struct by_libxml, stop_parser)},
    {"xmlSAX2StartElementNs", offsetof(struct by_libxml, start_element)},
    {"xmlDocGetRootElement", offsetof(struct by_libxml, root)},
    {"xmlGetLineNo", offsetof(struct by_libxml, line)},
    {"xmlFreeDoc", offsetof(struct by_libxml, free_doc)},
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct by_libxml loaded;
static char missing[256]; /* why it cannot be used; "" it can */

static void load(void) {
  void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  const char *why = handle ? NULL : dlerror();
  for (size_t i = 0; handle && i < sizeof symbols / sizeof *symbols; i++) {
    void *found = dlsym(handle, symbols[i].name);
    if (!found) why = symbols[i].name;
    memcpy((char *)&loaded + symbols[i].at, &found, sizeof found);
  }
  if (why) snprintf(missing, sizeof missing, "%s", why);
  if (!why) loaded.init();
}

enum banyan_status by_libxml_load(const struct by_libxml **out) {
  pthread_once(&once, load);
  *out = &loaded;
  if (!*missing) return BANYAN_OK;
  return by_fail(BANYAN_ERR_UNSUPPORTED, "XML needs libxml2 (%s, Debian package libxml2), which cannot be loaded: %s",
                 LIBRARY, missing);
}

enum { PLACE_BYTES = 256, REASON_BYTES = 256, MOST_ATTRIBUTES_SHOWN = 2 };

/* --- parsing --- */

struct watch {
  const struct by_libxml *library;
  long parts;
  bool too_many, declares;
};

static void start_element(void *data, const xmlChar *name, const xmlChar *prefix, const xmlChar *uri, int n_spaces,
                          const xmlChar **spaces, int n_attributes, int n_defaulted, const xmlChar **attributes) {
  xmlParserCtxt *parser = data;
  struct watch *watch = parser->_private;
  watch->parts += 1 + n_spaces + n_attributes;
  watch->too_many = watch->parts > BY_XML_MOST_PARTS;
  if (watch->too_many)
    watch->library->stop_parser(parser);
  else
    watch->library->start_element(data, name, prefix, uri, n_spaces, spaces, n_attributes, n_defaulted, attributes);
}

/* A document may name its type; what the type declares inside the document is refused before it is read. */
static void start_type(void *data, const xmlChar *name, const xmlChar *external, const xmlChar *system) {
  xmlParserCtxt *parser = data;
  struct watch *watch = parser->_private;
  watch->declares = parser->input && parser->input->cur && *parser->input->cur == '[';
  if (watch->declares) watch->library->stop_parser(parser);
}

/* Nor is anything that it declares elsewhere. */
static void take_reference(void *data, const xmlChar *name) {
  xmlParserCtxt *parser = data;
  struct watch *watch = parser->_private;
  watch->declares = true;
  watch->library->stop_parser(parser);
}

static enum banyan_status parse_failed(const char *source, xmlParserCtxt *parser) {
  struct watch *watch = parser->_private;
  int line = parser->lastError.line;
  if (watch->declares)
    return by_fail(BANYAN_ERR_PARSE,
                   "%s: has entities of its own, or a <!DOCTYPE> that declares such things; they are not read", source);
  if (watch->too_many)
    return by_fail(BANYAN_ERR_PARSE, "%s: more than %d elements and attributes; convert it to JSON or an edge list",
                   source, BY_XML_MOST_PARTS);
  char reason[REASON_BYTES];
  by_keep_printable(parser->lastError.message ? parser->lastError.message : "not known why?", reason, sizeof reason);
  size_t end = strlen(reason);
  if (end) reason[end - 1] = '\0'; /* the newline that libxml2 puts there */
  return by_fail(BANYAN_ERR_PARSE, "%s:%d: not well-formed XML: %s", source, line, reason);
}

static enum banyan_status parse_document(struct by_xml *xml, const char *text, size_t length) {
  const struct by_libxml *library = xml->library;
  struct watch watch = {.library = library};
  xmlParserCtxt *parser = library->new_parser();
  if (!parser) return by_fail(BANYAN_ERR_NO_MEMORY, "%s: no memory to read XML", xml->source);
  parser->_private = &watch;
  parser->sax->startElementNs = start_element;
  parser->sax->internalSubset = start_type;
  parser->sax->reference = take_reference;
  xml->doc = library->read_memory(parser, text, (int)length, NULL, NULL,
                                  XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING | XML_PARSE_NOCDATA |
                                      XML_PARSE_NOBLANKS | XML_PARSE_COMPACT | XML_PARSE_BIG_LINES);
  enum banyan_status status = BANYAN_OK;
  if (!xml->doc || watch.too_many || watch.declares) {
    by_xml_fini(xml);
    status = parse_failed(xml->source, parser);
  }
  library->free_parser(parser);
  return status;
}

enum banyan_status by_xml_parse(struct by_xml *xml, const char *source, const char *text, size_t length,
                                const char *root, const char *format) {
  *xml = (struct by_xml){.source = source};
  if (length == 0) return by_fail(BANYAN_ERR_PARSE, "%s: is empty, must be %s", source, format);
  if (length > BY_XML_MOST_BYTES)
    return by_fail(BANYAN_ERR_PARSE, "%s: is %zu bytes, most for %s is %d; convert it to JSON or an edge list", source,
                   length, format, BY_XML_MOST_BYTES);
  BY_TRY(by_libxml_load(&xml->library));
  BY_TRY(parse_document(xml, text, length));
  xml->root = xml->library->root(xml->doc);
  if (xml->root && by_xml_is(xml->root, root)) return BANYAN_OK;
  enum banyan_status status = by_xml_fail(xml, xml->root, "not %s, whose outermost element is <%s>", format, root);
  by_xml_fini(xml);
  return status;
}

void by_xml_fini(struct by_xml *xml) {
  if (xml->doc) xml->library->free_doc(xml->doc);
  xml->doc = NULL;
  xml->root = NULL;
}

/* --- errors --- */

static size_t add(char *out, size_t used, const char *format, const char *a, const char *b) {
  int n = snprintf(out + used, PLACE_BYTES - used, format, a, b);
  return used + (size_t)n < PLACE_BYTES ? used + (size_t)n : PLACE_BYTES - 1;
}

/* The element as it stands in the file, with what most likely tells it from others. */
static void print_element(const xmlNode *element, char *out) {
  size_t used = add(out, 0, "<%.32s%s", (const char *)element->name, "");
  int shown = 0;
  for (const xmlAttr *attribute = element->properties; attribute && shown < MOST_ATTRIBUTES_SHOWN;
       attribute = attribute->next) {
    const char *value = by_xml_attribute(element, (const char *)attribute->name);
    if (!value) continue;
    used = add(out, used, " %.24s=\"%.40s\"", (const char *)attribute->name, value);
    shown++;
  }
  add(out, used, ">%s%s", "", "");
}

enum banyan_status by_xml_fail(const struct by_xml *xml, const xmlNode *element, const char *format, ...) {
  char all[REASON_BYTES], what[REASON_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(all, sizeof all, format, args);
  va_end(args);
  by_keep_printable(all, what, sizeof what);
  (void)by_fail(BANYAN_ERR_PARSE, "%s", what);
  return by_xml_fail_within(xml, element, BANYAN_ERR_PARSE);
}

enum banyan_status by_xml_fail_within(const struct by_xml *xml, const xmlNode *element, enum banyan_status status) {
  if (!element) return by_fail_within(status, "%s", xml->source);
  char place[PLACE_BYTES], shown[PLACE_BYTES];
  print_element(element, place);
  by_keep_printable(place, shown, sizeof shown);
  return by_fail_within(status, "%s:%ld: %s", xml->source, by_xml_line(xml, element), shown);
}

/* --- looking at it --- */

long by_xml_line(const struct by_xml *xml, const xmlNode *element) {
  return xml->library->line((xmlNode *)element);
}

bool by_xml_is(const xmlNode *element, const char *name) {
  return strcmp((const char *)element->name, name) == 0;
}

const xmlNode *by_xml_next(const xmlNode *node) {
  while (node && node->type != XML_ELEMENT_NODE) node = node->next;
  return node;
}

const xmlNode *by_xml_first(const xmlNode *element) {
  return by_xml_next(element->children);
}

/* A value is one text, since there are no entities. */
const char *by_xml_attribute(const xmlNode *element, const char *name) {
  for (const xmlAttr *attribute = element->properties; attribute; attribute = attribute->next) {
    if (attribute->ns || strcmp((const char *)attribute->name, name) != 0) continue;
    const xmlNode *value = attribute->children;
    if (!value) return "";
    return value->type == XML_TEXT_NODE && !value->next ? (const char *)value->content : NULL;
  }
  return NULL;
}

enum banyan_status by_xml_need(const struct by_xml *xml, const xmlNode *element, const char *name, const char **out) {
  *out = by_xml_attribute(element, name);
  return *out ? BANYAN_OK : by_xml_fail(xml, element, "the attribute %s is missing", name);
}

/* Comments may stand between. */
static size_t join_texts(const xmlNode *element, char *out) {
  size_t length = 0;
  for (const xmlNode *node = element->children; node; node = node->next) {
    if (node->type != XML_TEXT_NODE || !node->content) continue;
    size_t n = strlen((const char *)node->content);
    if (out) memcpy(out + length, node->content, n);
    length += n;
  }
  return length;
}

const char *by_xml_text(struct by_arena *arena, const xmlNode *element) {
  static const char space[] = " \t\r\n";
  char *text = by_arena_alloc(arena, join_texts(element, NULL) + 1, 1);
  if (!text) return NULL;
  size_t length = join_texts(element, text);
  while (length && strchr(space, text[length - 1])) length--;
  text[length] = '\0';
  return text + strspn(text, space);
}
