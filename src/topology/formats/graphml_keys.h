/* What the attributes of a GraphML file mean: quantities with units. */
#ifndef BY_TOPOLOGY_FORMATS_GRAPHML_KEYS_H
#define BY_TOPOLOGY_FORMATS_GRAPHML_KEYS_H

#include <stdbool.h>

#include "fail.h"
#include "topology_reader.h"

/* Parses units as other programs' files write them: "Mbps", "Gbit/s", "MB/s", "G"; "ms", "usec"; "%". Pure,
 * thread-safe. */

enum by_quantity { BY_QUANTITY_NONE, BY_QUANTITY_RATE, BY_QUANTITY_TIME, BY_QUANTITY_SHARE, BY_QUANTITIES };

/* Maps GraphML's keys: the meaning and unit of each <data> of a graph, node or edge. An object must not outlive the
 * document and the arena that it borrows. */

enum by_graphml_meaning {
  BY_GRAPHML_LABEL,
  BY_GRAPHML_LATITUDE,
  BY_GRAPHML_LONGITUDE,
  BY_GRAPHML_X,
  BY_GRAPHML_Y,
  BY_GRAPHML_KIND,
  BY_GRAPHML_GROUP,
  BY_GRAPHML_SPEED,
  BY_GRAPHML_CAPACITY,
  BY_GRAPHML_BANDWIDTH,
  BY_GRAPHML_SENDS,
  BY_GRAPHML_RECEIVES,
  BY_GRAPHML_DELAY,
  BY_GRAPHML_LOSS,
  BY_GRAPHML_UNIT,
  BY_GRAPHML_MEANINGS
};
enum by_graphml_owner { BY_GRAPHML_GRAPH = 1, BY_GRAPHML_NODE = 2, BY_GRAPHML_EDGE = 4 };

enum { BY_GRAPHML_MAX_KEYS = 64 };

struct by_graphml_key {
  const struct by_graphml_known *known;
  const char *id, *name;
  int owners;
  double unit;          /* 0: not declared */
  const char *fallback; /* the default value; NULL: none */
};

struct by_graphml_keys {
  const struct by_xml *xml;
  struct by_arena *arena;
  double units[BY_QUANTITIES]; /* units declared for the whole graph; 0: none */
  struct by_graphml_key all[BY_GRAPHML_MAX_KEYS];
  size_t n;
};

struct by_graphml_datum {
  const char *text; /* NULL: there is no such value */
  const struct by_graphml_key *key;
  double unit; /* the unit declared beside the value; 0: none */
};

/* The values of one element. */
struct by_graphml_data {
  struct by_graphml_datum values[BY_GRAPHML_MEANINGS];
  double units[BY_QUANTITIES]; /* units declared for the element; 0: none; < 0: an unknown unit */
};

/* Reads a <key>, and ignores keys of unknown meaning. Errors of all functions here are BANYAN_ERR_PARSE and NO_MEMORY.
 */
BANYAN_CHECK enum banyan_status by_graphml_take_key(struct by_graphml_keys *keys, const xmlNode *element);
/* Reads an element's <data>, with the keys' defaults for missing ones. */
BANYAN_CHECK enum banyan_status by_graphml_take_data(struct by_graphml_keys *keys, const xmlNode *element,
                                                     enum by_graphml_owner owner, struct by_graphml_data *data);
/* Returns a quantity of an element in bit/s, seconds or parts of one; NAN: not given. The unit is the value's own, else
 * that declared beside the value, for the element, the key or the graph, in this order. If none is declared, *out is
 * the bare number and *name the key's name; else *name is NULL. `what` names the quantity in errors. */
BANYAN_CHECK enum banyan_status by_graphml_quantity(struct by_graphml_keys *keys, const xmlNode *element,
                                                    const struct by_graphml_data *data, enum by_graphml_meaning meaning,
                                                    const char *what, double *out, const char **name);

#endif
