/* Parses options, lines and XML for the readers of other programs' formats. */
#include "topology_reader.h"

#include <libxml/SAX2.h>
#include <libxml/parser.h>
#include <libxml/xmlversion.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "library.h"
#include "text.h"

enum { PLACE_BYTES = 256, REASON_BYTES = 256, MAX_ATTRIBUTES_SHOWN = 2 };

/* --- Options. --- */

enum banyan_status by_options_none(const char *text) {
  return by_fail(BANYAN_ERR_ARGUMENT, "there are no options for this format, such as \"%.*s\"",
                 (int)MIN(strcspn(text, "=,"), 64), text);
}

enum banyan_status by_options_take(struct by_options *options, const char *text, const char *const *names) {
  char *kept = NULL;
  options->values[0] = options->values[1] = NULL;
  if (strlen(text) >= sizeof options->copy)
    return by_fail(BANYAN_ERR_ARGUMENT, "the options are longer than %zu bytes", sizeof options->copy);
  strcpy(options->copy, text);
  for (char *word = strtok_r(options->copy, ",", &kept); word; word = strtok_r(NULL, ",", &kept)) {
    char *equals = strchr(word, '=');
    if (equals) *equals = '\0';
    int i = 0;
    while (i < 2 && strcmp(names[i], word) != 0) i++;
    const char *near = i < 2 ? NULL : by_suggest(word, names, 2);
    if (i == 2)
      return by_fail(BANYAN_ERR_ARGUMENT, "no option \"%.64s\"%s%s%s; there are %s=, %s=", word,
                     near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "", names[0], names[1]);
    if (!equals) return by_fail(BANYAN_ERR_ARGUMENT, "the option \"%s\" must have a value: %s=...", word, word);
    options->values[i] = equals + 1;
  }
  return BANYAN_OK;
}

enum banyan_status by_options_rate(const char *value, double *out) {
  if (!value) return BANYAN_OK;
  BY_TRY(by_parse_rate(value, out));
  return *out > 0 ? BANYAN_OK : by_fail(BANYAN_ERR_ARGUMENT, "the rate is %s, must be more than 0", value);
}

/* --- Lines. --- */

const char *by_lines_next(struct by_lines *lines, size_t *length) {
  if (lines->at >= lines->end) return NULL;
  const char *line = lines->at, *end = memchr(line, '\n', (size_t)(lines->end - line));
  *length = (size_t)((end ? end : lines->end) - line);
  lines->number++;
  lines->at += *length + (end != NULL);
  lines->open_end = !end;
  return line;
}

enum banyan_status by_lines_fail(const struct by_lines *lines, const char *format, ...) {
  char all[REASON_BYTES], shown[REASON_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(all, sizeof all, format, args);
  va_end(args);
  by_keep_printable(all, shown, sizeof shown);
  return by_fail(BANYAN_ERR_PARSE, "%s:%zu: %s", lines->source, lines->number, shown);
}

/* --- XML: the library. --- */

/* The version whose structures the headers describe. */
#if LIBXML_VERSION < 21400
#define LIBRARY "libxml2.so.2"
#else
#define LIBRARY "libxml2.so.16"
#endif

#define FUNCTIONS(X)                                                                                                   \
  X(xmlInitParser)                                                                                                     \
  X(xmlNewParserCtxt)                                                                                                  \
  X(xmlFreeParserCtxt)                                                                                                 \
  X(xmlCtxtReadMemory)                                                                                                 \
  X(xmlStopParser)                                                                                                     \
  X(xmlSAX2StartElementNs)                                                                                             \
  X(xmlDocGetRootElement)                                                                                              \
  X(xmlGetLineNo)                                                                                                      \
  X(xmlFreeDoc)

static struct { FUNCTIONS(BY_LIBRARY_MEMBER) } library;

static enum banyan_status load_library(void) {
  static const char *const names[] = {FUNCTIONS(BY_LIBRARY_NAME)};
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static bool loaded;
  enum banyan_status status = BANYAN_OK;
  pthread_mutex_lock(&lock);
  if (!loaded) status = by_library_load("XML", LIBRARY, "libxml2", names, sizeof names / sizeof *names, &library);
  if (!loaded && status == BANYAN_OK) library.xmlInitParser();
  loaded = status == BANYAN_OK;
  pthread_mutex_unlock(&lock);
  return status;
}

/* --- XML: parsing. --- */

struct watch {
  long parts;
  bool too_many, declares;
};

static void start_element(void *data, const xmlChar *name, const xmlChar *prefix, const xmlChar *uri, int n_spaces,
                          const xmlChar **spaces, int n_attributes, int n_defaulted, const xmlChar **attributes) {
  xmlParserCtxt *parser = data;
  struct watch *watch = parser->_private;
  watch->parts += 1 + n_spaces + n_attributes;
  watch->too_many = watch->parts > BY_XML_MAX_PARTS;
  if (watch->too_many)
    library.xmlStopParser(parser);
  else
    library.xmlSAX2StartElementNs(data, name, prefix, uri, n_spaces, spaces, n_attributes, n_defaulted, attributes);
}

/* A document may name its type. Declarations inside the document are refused before they are read. */
static void start_type(void *data, const xmlChar *name, const xmlChar *external, const xmlChar *system) {
  xmlParserCtxt *parser = data;
  struct watch *watch = parser->_private;
  watch->declares = parser->input && parser->input->cur && *parser->input->cur == '[';
  if (watch->declares) library.xmlStopParser(parser);
}

/* References to entities are refused, too. */
static void take_reference(void *data, const xmlChar *name) {
  xmlParserCtxt *parser = data;
  struct watch *watch = parser->_private;
  watch->declares = true;
  library.xmlStopParser(parser);
}

static enum banyan_status parse_failed(const char *source, xmlParserCtxt *parser) {
  struct watch *watch = parser->_private;
  int line = parser->lastError.line;
  if (watch->declares)
    return by_fail(BANYAN_ERR_PARSE,
                   "%s: has entities of its own, or a <!DOCTYPE> that declares such things; they are not read", source);
  if (watch->too_many)
    return by_fail(BANYAN_ERR_PARSE, "%s: more than %d elements and attributes; convert it to JSON or an edge list",
                   source, BY_XML_MAX_PARTS);
  char reason[REASON_BYTES];
  by_keep_printable(parser->lastError.message ? parser->lastError.message : "not known why?", reason, sizeof reason);
  size_t end = strlen(reason);
  if (end) reason[end - 1] = '\0'; /* libxml2 ends the message with a newline. */
  return by_fail(BANYAN_ERR_PARSE, "%s:%d: not well-formed XML: %s", source, line, reason);
}

static enum banyan_status parse_document(struct by_xml *xml, const char *text, size_t length) {
  struct watch watch = {0};
  xmlParserCtxt *parser = library.xmlNewParserCtxt();
  if (!parser) return by_fail(BANYAN_ERR_NO_MEMORY, "%s: no memory to read XML", xml->source);
  parser->_private = &watch;
  parser->sax->startElementNs = start_element;
  parser->sax->internalSubset = start_type;
  parser->sax->reference = take_reference;
  xml->doc = library.xmlCtxtReadMemory(parser, text, (int)length, NULL, NULL,
                                       XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING | XML_PARSE_NOCDATA |
                                           XML_PARSE_NOBLANKS | XML_PARSE_COMPACT | XML_PARSE_BIG_LINES);
  enum banyan_status status = BANYAN_OK;
  if (!xml->doc || watch.too_many || watch.declares) {
    by_xml_fini(xml);
    status = parse_failed(xml->source, parser);
  }
  library.xmlFreeParserCtxt(parser);
  return status;
}

enum banyan_status by_xml_parse(struct by_xml *xml, const char *source, const char *text, size_t length,
                                const char *root, const char *format) {
  *xml = (struct by_xml){.source = source};
  if (length == 0) return by_fail(BANYAN_ERR_PARSE, "%s: is empty, must be %s", source, format);
  if (length > BY_XML_MAX_BYTES)
    return by_fail(BANYAN_ERR_PARSE,
                   "%s: the file has %zu bytes; %s may have %d at most; convert it to JSON or an edge list", source,
                   length, format, BY_XML_MAX_BYTES);
  BY_TRY(load_library());
  BY_TRY(parse_document(xml, text, length));
  xml->root = library.xmlDocGetRootElement(xml->doc);
  if (xml->root && by_xml_is(xml->root, root)) return BANYAN_OK;
  enum banyan_status status = by_xml_fail(xml, xml->root, "not %s, whose outermost element is <%s>", format, root);
  by_xml_fini(xml);
  return status;
}

void by_xml_fini(struct by_xml *xml) {
  if (xml->doc) library.xmlFreeDoc(xml->doc);
  *xml = (struct by_xml){.source = xml->source};
}

/* --- Errors. --- */

static size_t add_text(char *out, size_t used, const char *format, const char *a, const char *b) {
  int n = snprintf(out + used, PLACE_BYTES - used, format, a, b);
  return used + (size_t)n < PLACE_BYTES ? used + (size_t)n : PLACE_BYTES - 1;
}

/* Prints the element as in the file, with the attributes that most likely identify it. */
static void print_element(const xmlNode *element, char *out) {
  size_t used = add_text(out, 0, "<%.32s%s", (const char *)element->name, "");
  int shown = 0;
  for (const xmlAttr *attribute = element->properties; attribute && shown < MAX_ATTRIBUTES_SHOWN;
       attribute = attribute->next) {
    const char *value = by_xml_attribute(element, (const char *)attribute->name);
    if (!value) continue;
    used = add_text(out, used, " %.24s=\"%.40s\"", (const char *)attribute->name, value);
    shown++;
  }
  add_text(out, used, ">%s%s", "", "");
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
  return by_fail_within(status, "%s:%ld: %s", xml->source, by_xml_line(element), shown);
}

/* --- Access. --- */

long by_xml_line(const xmlNode *element) {
  return library.xmlGetLineNo((xmlNode *)element);
}

uint32_t by_xml_count(const xmlNode *parent, const char *name) {
  uint32_t n = 0;
  for (const xmlNode *child = by_xml_find(parent->children, name); child; child = by_xml_find(child->next, name)) n++;
  return n;
}

/* A value is a single text, since there are no entities. */
const char *by_xml_attribute(const xmlNode *element, const char *name) {
  for (const xmlAttr *attribute = element->properties; attribute; attribute = attribute->next) {
    if (attribute->ns || strcmp((const char *)attribute->name, name) != 0) continue;
    const xmlNode *value = attribute->children;
    if (!value) return "";
    return value->type == XML_TEXT_NODE && !value->next ? (const char *)value->content : NULL;
  }
  return NULL;
}

/* Joins the texts of an element, between which comments may occur. With `out` NULL it only returns the length. */
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
