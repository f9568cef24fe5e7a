/* A topology: the network that is really there. It has hosts and switches, links with capacity and use by others in
 * each direction, and delay; it states which hosts take part, which may help, and which switches add. An immutable
 * value in one arena; made by a reader, a synthesiser or a measurement, checked by by_topology_validate, read by the
 * planner, the simulator and the lab. Not thread-safe while it is made. */
#ifndef BY_TOPOLOGY_TOPOLOGY_H
#define BY_TOPOLOGY_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "fail.h"
#include "text.h"

enum by_node_kind { BY_NODE_HOST, BY_NODE_SWITCH };

/* A capacity in bit/s, and how much of it others use. */
struct by_capacity {
  double all;  /* Bit/s from BY_MIN_RATE to BY_MAX_RATE. Nodes may have INFINITY, which means no limit. */
  double used; /* Bit/s from 0 to `all`. */
};

struct by_node {
  const char *name; /* A name that is unique in the topology. */
  enum by_node_kind kind;
  bool takes_part;            /* The node is a host on which ranks run. */
  bool may_help;              /* The node is a host that may add and forward for others. */
  bool aggregates;            /* The node is a switch that can add. */
  uint64_t memory;            /* Bytes of cells that an aggregating switch can grant; 0 if they are unknown. */
  const char *group;          /* The rack, site or zone of the node; "" if it is unknown. */
  struct by_capacity out, in; /* Limits of all its links together, such as those of its network interface. */
  /* The node's location in degrees east and north, or in coordinates of any plane; NAN if it is unknown. */
  double x, y;
};

enum { BY_AB, BY_BA }; /* The directions of a link, as indices. */

struct by_link {
  uint32_t a, b;                  /* The nodes at the ends, which differ. */
  struct by_capacity capacity[2]; /* Capacities from a to b, and from b to a. */
  double delay;                   /* Seconds in one direction, from 0 to BY_MAX_DELAY. */
  double loss;         /* The part of the packets that is lost, from 0 to 1. Only the lab and the simulator use it. */
  bool rough;          /* The capacity was assumed or measured quickly: the link may carry more. */
  const char *port[2]; /* Names of the interfaces or ports at a and b; "" if they are unknown. */
};

struct by_topology {
  const char *name; /* The topology's name; "" if it has none. */
  uint32_t n_nodes, n_links;
  struct by_node *nodes; /* Nodes in the order of their source, which determines the ranks. */
  struct by_link *links; /* Several links between the same nodes are allowed. */
  struct by_arena arena;
};

/* The largest permitted sizes of a topology. Larger ones are refused before memory is allocated. */
enum {
  BY_TOPOLOGY_MAX_NODES = 65536,
  BY_TOPOLOGY_MAX_LINKS = 4 << 20,
  BY_TOPOLOGY_MAX_NAME = 255, /* Bytes of UTF-8 without control characters. */
  BY_TOPOLOGY_MAX_FILE = 256 << 20,
};

/* Returns the residual capacity; less than BY_MIN_RATE counts as 0. */
static inline double by_residual(struct by_capacity capacity) {
  double left = capacity.all - capacity.used;
  return left >= BY_MIN_RATE ? left : 0;
}
/* Returns the direction of packets that leave `from` over the link: BY_AB or BY_BA. */
static inline uint8_t by_link_direction(const struct by_link *link, uint32_t from) {
  return from == link->a ? BY_AB : BY_BA;
}
/* Whether packets can leave `from` over the link. */
static inline bool by_link_carries(const struct by_link *link, uint32_t from) {
  return by_residual(link->capacity[by_link_direction(link, from)]) > 0;
}
/* Whether packets can pass the link in both directions. */
static inline bool by_link_carries_both(const struct by_link *link) {
  return by_link_carries(link, link->a) && by_link_carries(link, link->b);
}
/* Returns the end of a link that is not `node`. */
static inline uint32_t by_link_other(const struct by_link *link, uint32_t node) {
  return link->a ^ link->b ^ node;
}

/* NULL is allowed. */
void by_topology_destroy(struct by_topology *topology);
/* Checks the topology: names are unique and printable, ends exist and differ, capacities and delays are in their
 * ranges, use is within capacities, at least one host takes part, and all that take part can reach each other over
 * residual capacity. The error names the node or link. Every function that makes a topology calls it. Cost: nodes +
 * links. */
BANYAN_CHECK enum banyan_status by_topology_validate(const struct by_topology *topology);
/* Returns the node of that name, which is searched for from node `start` on, cyclically: fast for names in the order of
 * the nodes. UINT32_MAX: none. Cost: nodes. */
uint32_t by_topology_find_from(const struct by_topology *topology, const char *name, uint32_t start);
/* Like by_topology_find_from, from the first node on. */
static inline uint32_t by_topology_find(const struct by_topology *topology, const char *name) {
  return by_topology_find_from(topology, name, 0);
}
/* Returns the node of the host of this name: an equal name first, then a name equal but for case, then the host that
 * agrees in the first label. UINT32_MAX: none; BY_TOPOLOGY_SEVERAL: ambiguous. Cost: nodes. */
uint32_t by_topology_find_host(const struct by_topology *topology, const char *name);
#define BY_TOPOLOGY_SEVERAL (UINT32_MAX - 1)
/* Writes the name of a node's interface to a link: the port's if it is known, else "ethK" for the K-th of the node's
 * links, from 0, as the lab names them. Cost: links. */
void by_topology_interface(const struct by_topology *topology, uint32_t link, uint32_t node, char *out, size_t size);
/* Returns "host" or "switch"; NULL for other values. Static storage. */
const char *by_node_kind_name(enum by_node_kind kind);

struct by_text;
/* Reads JSON as docs/topology-format.md describes it. `source` is the file's name for errors, which name the position:
 * "t.json:3:14: ..." or "t.json: links[2].capacity: ...". The caller owns *out. BANYAN_ERR_PARSE: not in this format;
 * BANYAN_ERR_TOPOLOGY: in this format, but inconsistent. */
BANYAN_CHECK enum banyan_status by_topology_parse(const char *source, const char *text, size_t length,
                                                  struct by_topology **out);
/* Adds the topology as one line of JSON without a newline; reading it yields the same topology to the bit. */
void by_topology_print(const struct by_topology *topology, struct by_text *text);
/* Copies a topology to the bit, with an arena of its own. It prints and parses, so it fails if the text becomes too
 * large. */
BANYAN_CHECK enum banyan_status by_topology_copy(const struct by_topology *topology, struct by_topology **out);

/* Extracts the part of a topology that concerns some of its hosts: they, and everything that packets between them may
 * cross. */

/* Repeatedly removes nodes with one link that are none of the n hosts, since no path between others passes them. Nodes
 * and links keep their order, names, rates, use and delays. The n hosts take part; remaining other hosts and switches
 * only forward. The caller owns *out. BANYAN_ERR_TOPOLOGY: the hosts cannot reach each other over residual capacity.
 * Cost: nodes + links. */
BANYAN_CHECK enum banyan_status by_topology_part(const struct by_topology *topology, const uint32_t *hosts, uint32_t n,
                                                 struct by_topology **out);

/* Disjoint sets of vertices: above[v] is nearer to the leader of v's set, and above[v] == v for the leader itself
 * (Tarjan 1975, with path halving). To join two sets, set the `above` of one leader to the other. */

/* Returns the leader of v's set. Amortised cost: about constant. */
static inline uint32_t by_find_leader(uint32_t *above, uint32_t v) {
  while (above[v] != v) v = above[v] = above[above[v]];
  return v;
}

#endif
