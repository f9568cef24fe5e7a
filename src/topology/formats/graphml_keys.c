/* Knows the names of GraphML keys, and the units that names, attributes and descriptions declare. */
#include "graphml_keys.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

/* --- Units. --- */

/* A unit consists of a prefix, what is counted, and "per second" in one of its spellings. */

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

/* Returns a unit in bit/s, seconds or parts of one; 0: the text is no unit of this quantity. Case is ignored, except
 * that "B" means bytes and "b" bits; "MBPS" means bits, since its case is no indication. */
static double get_unit_factor(enum by_quantity quantity, const char *text) {
  char unit[MAX_UNIT];
  size_t skip = strspn(text, " \t\r\n([_-"), n = strlen(text + skip);
  while (n > 0 && strchr(" \t\r\n)]", text[skip + n - 1])) n--;
  if (n == 0 || n >= sizeof unit) return 0;
  snprintf(unit, sizeof unit, "%.*s", (int)n, text + skip);
  return quantity == BY_QUANTITY_RATE ? parse_rate_unit(unit) : find_unit(quantity, unit);
}

/* Returns the factor of the first unit in a sentence such as "capacity in Mbit/s"; 0: none. */
static double find_unit_factor(enum by_quantity quantity, const char *sentence) {
  static const char gaps[] = " \t\r\n,;:.()[]";
  double factor = get_unit_factor(quantity, sentence);
  while (*sentence && factor == 0) {
    char word[MAX_UNIT];
    sentence += strspn(sentence, gaps);
    size_t n = strcspn(sentence, gaps);
    if (n > 0 && n < sizeof word) {
      snprintf(word, sizeof word, "%.*s", (int)n, sentence);
      factor = get_unit_factor(quantity, word);
    }
    sentence += n;
  }
  return factor;
}

/* Parses a number of 0 or more, and the factor of the unit behind it; 0: there is no unit. BANYAN_ERR_PARSE. */
static enum banyan_status parse_with_unit(enum by_quantity quantity, const char *text, double *value, double *factor) {
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
  *factor = get_unit_factor(quantity, text + n);
  return *factor > 0 ? BANYAN_OK : by_fail(BANYAN_ERR_PARSE, "\"%.64s\" is not %s", text, examples[quantity]);
}

struct by_graphml_known {
  const char *name; /* in lower case, without word separators */
  enum by_graphml_meaning meaning;
  int owners;
  enum by_quantity quantity; /* A unit may follow the name, as in "capacity_mbps" and "delay [ms]". */
  double unit;               /* the unit that the name implies; 0: none */
};

/* Units that an edge or the graph declares beside the value, such as "LinkSpeedUnits", are keys, too. */
#define UNIT_OF(name, quantity)                                                                                        \
  {name "units", BY_GRAPHML_UNIT, BY_GRAPHML_GRAPH | BY_GRAPHML_EDGE, quantity, 1}, {                                  \
    name "unit", BY_GRAPHML_UNIT, BY_GRAPHML_GRAPH | BY_GRAPHML_EDGE, quantity, 1                                      \
  }

static const struct by_graphml_known known_keys[] = {
    {"label", BY_GRAPHML_LABEL, BY_GRAPHML_GRAPH | BY_GRAPHML_NODE, BY_QUANTITY_NONE, 0},
    {"name", BY_GRAPHML_LABEL, BY_GRAPHML_GRAPH | BY_GRAPHML_NODE, BY_QUANTITY_NONE, 0},
    {"latitude", BY_GRAPHML_LATITUDE, BY_GRAPHML_NODE, BY_QUANTITY_NONE, 0},
    {"longitude", BY_GRAPHML_LONGITUDE, BY_GRAPHML_NODE, BY_QUANTITY_NONE, 0},
    {"x", BY_GRAPHML_X, BY_GRAPHML_NODE, BY_QUANTITY_NONE, 0},
    {"y", BY_GRAPHML_Y, BY_GRAPHML_NODE, BY_QUANTITY_NONE, 0},
    {"kind", BY_GRAPHML_KIND, BY_GRAPHML_NODE, BY_QUANTITY_NONE, 0},
    {"group", BY_GRAPHML_GROUP, BY_GRAPHML_NODE, BY_QUANTITY_NONE, 0},
    UNIT_OF("", BY_QUANTITY_NONE),
    UNIT_OF("linkspeed", BY_QUANTITY_RATE),
    UNIT_OF("capacity", BY_QUANTITY_RATE),
    UNIT_OF("bandwidth", BY_QUANTITY_RATE),
    UNIT_OF("delay", BY_QUANTITY_TIME),
    UNIT_OF("latency", BY_QUANTITY_TIME),
    {"linkspeedraw", BY_GRAPHML_SPEED, BY_GRAPHML_EDGE, BY_QUANTITY_RATE, 1},
    {"capacity", BY_GRAPHML_CAPACITY, BY_GRAPHML_EDGE, BY_QUANTITY_RATE, 0},
    {"bandwidth", BY_GRAPHML_BANDWIDTH, BY_GRAPHML_EDGE, BY_QUANTITY_RATE, 0},
    {"linkspeed", BY_GRAPHML_BANDWIDTH, BY_GRAPHML_EDGE, BY_QUANTITY_RATE, 0},
    {"speed", BY_GRAPHML_BANDWIDTH, BY_GRAPHML_EDGE, BY_QUANTITY_RATE, 0},
    {"capacity", BY_GRAPHML_CAPACITY, BY_GRAPHML_NODE, BY_QUANTITY_RATE, 0},
    {"hostbandwidthup", BY_GRAPHML_SENDS, BY_GRAPHML_NODE, BY_QUANTITY_RATE, 0},
    {"hostbandwidthdown", BY_GRAPHML_RECEIVES, BY_GRAPHML_NODE, BY_QUANTITY_RATE, 0},
    /* Shadow 1 has no unit beside these: they are in KiB/s. */
    {"bandwidthup", BY_GRAPHML_SENDS, BY_GRAPHML_NODE, BY_QUANTITY_RATE, 8192},
    {"bandwidthdown", BY_GRAPHML_RECEIVES, BY_GRAPHML_NODE, BY_QUANTITY_RATE, 8192},
    {"delay", BY_GRAPHML_DELAY, BY_GRAPHML_EDGE, BY_QUANTITY_TIME, 0},
    {"latency", BY_GRAPHML_DELAY, BY_GRAPHML_EDGE, BY_QUANTITY_TIME, 0},
    {"loss", BY_GRAPHML_LOSS, BY_GRAPHML_EDGE, BY_QUANTITY_SHARE, 0},
    {"packetloss", BY_GRAPHML_LOSS, BY_GRAPHML_EDGE, BY_QUANTITY_SHARE, 0},
};

static int parse_owners(const char *text) {
  if (!text || strcmp(text, "all") == 0) return BY_GRAPHML_GRAPH | BY_GRAPHML_NODE | BY_GRAPHML_EDGE;
  if (strcmp(text, "graph") == 0) return BY_GRAPHML_GRAPH;
  return strcmp(text, "node") == 0 ? BY_GRAPHML_NODE : strcmp(text, "edge") == 0 ? BY_GRAPHML_EDGE : 0;
}

/* Returns the part of a key's name behind the known name; NULL: it is another name. */
static const char *skip_name(const char *name, const char *known) {
  for (; *known; name++) {
    if (tolower((unsigned char)*name) == *known)
      known++;
    else if (!*name || !strchr("_- ", *name))
      return NULL;
  }
  return name;
}

static const struct by_graphml_known *find_known(const char *name, int owners, double *unit) {
  for (size_t i = 0; i < sizeof known_keys / sizeof *known_keys; i++) {
    const struct by_graphml_known *known = &known_keys[i];
    const char *rest = owners & known->owners ? skip_name(name, known->name) : NULL;
    if (!rest) continue;
    *unit = known->unit;
    if (!*rest) return known;
    if (known->unit || known->quantity == BY_QUANTITY_NONE) continue;
    *unit = strlen(rest) > 1 ? get_unit_factor(known->quantity, rest) : 0; /* "delays" has no unit. */
    if (*unit > 0) return known;
  }
  return NULL;
}

static enum banyan_status fail_unit(struct by_graphml_keys *keys, const xmlNode *element, const char *unit) {
  return by_xml_fail(keys->xml, element, "the unit \"%.40s\" is not known here; there are such as Mbit/s, Gbps, ms",
                     unit);
}

/* A unit may be in the key's name, in one of its attributes and in its description. */
static enum banyan_status take_key_unit(struct by_graphml_keys *keys, const xmlNode *element,
                                        struct by_graphml_key *key) {
  static const char *const names[] = {"unit", "units", "attr.unit", "attr.units"};
  enum by_quantity quantity = key->known->quantity;
  if (quantity == BY_QUANTITY_NONE || key->known->unit > 0) return BANYAN_OK;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *text = by_xml_attribute(element, names[i]);
    double unit = text ? get_unit_factor(quantity, text) : 0;
    if (text && !(unit > 0)) return fail_unit(keys, element, text);
    if (text && key->unit > 0 && key->unit != unit)
      return by_xml_fail(keys->xml, element, "its name and its unit \"%.40s\" contradict each other", text);
    if (text) key->unit = unit;
  }
  const xmlNode *about = by_xml_find(element->children, "desc");
  const char *sentence = about && !(key->unit > 0) ? by_xml_text(keys->arena, about) : "";
  if (!sentence) return by_topology_no_memory();
  if (*sentence) key->unit = find_unit_factor(quantity, sentence);
  return BANYAN_OK;
}

enum banyan_status by_graphml_take_key(struct by_graphml_keys *keys, const xmlNode *element) {
  const char *name = by_xml_attribute(element, "attr.name"), *id;
  double unit;
  if (!name) return BANYAN_OK; /* It belongs to another program, such as a shape to draw. */
  BY_TRY(by_xml_need(keys->xml, element, "id", &id));
  int owners = parse_owners(by_xml_attribute(element, "for"));
  const struct by_graphml_known *known = find_known(name, owners, &unit);
  if (!known) return BANYAN_OK;
  if (keys->n == BY_GRAPHML_MAX_KEYS)
    return by_xml_fail(keys->xml, element, "more than %d such keys", BY_GRAPHML_MAX_KEYS);
  struct by_graphml_key *key = &keys->all[keys->n++];
  *key =
      (struct by_graphml_key){.known = known, .id = id, .name = name, .owners = owners & known->owners, .unit = unit};
  BY_TRY(take_key_unit(keys, element, key));
  const xmlNode *fallback = by_xml_find(element->children, "default");
  for (; fallback; fallback = by_xml_find(fallback->next, "default"))
    if (!(key->fallback = by_xml_text(keys->arena, fallback))) return by_topology_no_memory();
  return BANYAN_OK;
}

/* Declares a unit for a whole element. It applies to this quantity, or to any quantity of which it is a unit
 * (BY_QUANTITY_NONE). */
static void declare_unit(struct by_graphml_data *data, enum by_quantity quantity, const char *text) {
  for (enum by_quantity q = BY_QUANTITY_RATE; q < BY_QUANTITIES; q++) {
    double unit = get_unit_factor(q, text);
    if (unit > 0 && (quantity == q || quantity == BY_QUANTITY_NONE)) data->units[q] = unit;
    if (!(unit > 0) && quantity == q) data->units[q] = -1;
  }
}

static void keep_datum(struct by_graphml_data *data, const struct by_graphml_key *key, const char *text) {
  data->values[key->known->meaning] = (struct by_graphml_datum){.text = text, .key = key};
  if (key->known->meaning == BY_GRAPHML_UNIT) declare_unit(data, key->known->quantity, text);
}

enum banyan_status by_graphml_take_data(struct by_graphml_keys *keys, const xmlNode *element,
                                        enum by_graphml_owner owner, struct by_graphml_data *data) {
  const char *unit = by_xml_attribute(element, "unit"), *units = by_xml_attribute(element, "units");
  *data = (struct by_graphml_data){0};
  if (unit || units) declare_unit(data, BY_QUANTITY_NONE, unit ? unit : units);
  for (size_t i = 0; i < keys->n; i++)
    if (keys->all[i].owners & owner && keys->all[i].fallback) keep_datum(data, &keys->all[i], keys->all[i].fallback);
  for (const xmlNode *child = by_xml_find(element->children, "data"); child; child = by_xml_find(child->next, "data")) {
    const char *id = by_xml_attribute(child, "key");
    size_t i = 0;
    while (id && i < keys->n && (strcmp(keys->all[i].id, id) != 0 || !(keys->all[i].owners & owner))) i++;
    if (!id || i == keys->n) continue;
    const char *text = by_xml_text(keys->arena, child);
    if (!text) return by_topology_no_memory();
    if (!*text) continue;
    const struct by_graphml_known *known = keys->all[i].known;
    keep_datum(data, &keys->all[i], text);
    if (!(unit = by_xml_attribute(child, "unit")) || known->quantity == BY_QUANTITY_NONE) continue;
    data->values[known->meaning].unit = get_unit_factor(known->quantity, unit);
    if (!(data->values[known->meaning].unit > 0)) return fail_unit(keys, child, unit);
  }
  return BANYAN_OK;
}

enum banyan_status by_graphml_quantity(struct by_graphml_keys *keys, const xmlNode *element,
                                       const struct by_graphml_data *data, enum by_graphml_meaning meaning,
                                       const char *what, double *out, const char **name) {
  const struct by_graphml_datum *datum = &data->values[meaning];
  *out = NAN;
  *name = NULL;
  if (!datum->text) return BANYAN_OK;
  enum by_quantity quantity = datum->key->known->quantity;
  double units[5] = {0, datum->unit, data->units[quantity], datum->key->unit, keys->units[quantity]};
  if (datum->key->known->unit > 0) units[1] = datum->key->known->unit;
  if (parse_with_unit(quantity, datum->text, out, &units[0]) != BANYAN_OK)
    return by_xml_fail(keys->xml, element, "its %s: %s", what, banyan_error_text());
  size_t i = 0;
  while (i < 5 && units[i] == 0) i++;
  if (i < 5 && units[i] < 0)
    return by_xml_fail(keys->xml, element,
                       "the unit declared for its %s is not known here; there are such as Mbit/s, "
                       "Gbps, ms",
                       what);
  if (i < 5)
    *out *= units[i];
  else
    *name = datum->key->name;
  return BANYAN_OK;
}
