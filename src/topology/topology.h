/* A topology: the network that is really there. Hosts and switches, links with capacity and use by others in each
 * direction, and delay; which hosts take part, which may help, which switches add. An immutable value in one arena;
 * made by a reader, a synthesiser or a measurement, checked by by_topology_validate, read by the planner, the simulator
 * and the lab. Not for several threads while it is made. */
#ifndef BY_TOPOLOGY_TOPOLOGY_H
#define BY_TOPOLOGY_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "fail.h"
#include "text.h"

enum by_node_kind { BY_NODE_HOST, BY_NODE_SWITCH };

/* What can be carried, in bit/s: all of it, and how much of it others use. */
struct by_capacity {
  double all;  /* BY_LEAST_RATE .. BY_MOST_RATE; INFINITY: no limit, of a node only */
  double used; /* 0 .. all */
};

struct by_node {
  const char *name; /* unique */
  enum by_node_kind kind;
  bool takes_part;            /* a host on which ranks run */
  bool may_help;              /* a host that may add and forward for others */
  bool aggregates;            /* a switch that can add */
  uint64_t memory;            /* bytes of cells a switch that adds can grant; 0: not known */
  const char *group;          /* the rack, site or zone it is in; "" not known */
  struct by_capacity out, in; /* what all its links together may send and receive: a NIC's or a machine's limit */
  double x, y;                /* where it is: degrees east and north, or any plane; NAN: not known */
};

enum { BY_AB, BY_BA }; /* a link's directions */

struct by_link {
  uint32_t a, b;                  /* nodes, different */
  struct by_capacity capacity[2]; /* a to b, b to a */
  double delay;                   /* seconds one way, 0 .. BY_MOST_DELAY */
  double loss;                    /* of packets, 0 .. 1; for the lab and the simulator */
  bool rough;                     /* the capacity was assumed, or measured in a hurry: it may carry more */
  const char *port[2];            /* interface or port names at a and b; "" not known */
};

struct by_topology {
  const char *name; /* "" none */
  uint32_t n_nodes, n_links;
  struct by_node *nodes; /* in the order of their source, which numbers the ranks */
  struct by_link *links; /* several between the same nodes are allowed */
  struct by_arena arena;
};

/* Most of what one topology may hold; more is refused before memory is taken. */
enum {
  BY_TOPOLOGY_MOST_NODES = 65536,
  BY_TOPOLOGY_MOST_LINKS = 4 << 20,
  BY_TOPOLOGY_MOST_NAME = 255, /* bytes, UTF-8 without control characters */
  BY_TOPOLOGY_MOST_FILE = 256 << 20,
};

/* What is left of a capacity; less than BY_LEAST_RATE is nothing. */
static inline double by_residual(struct by_capacity capacity) {
  double left = capacity.all - capacity.used;
  return left >= BY_LEAST_RATE ? left : 0;
}
/* Whether packets can leave `from` over the link. */
static inline bool by_link_carries(const struct by_link *link, uint32_t from) {
  return by_residual(link->capacity[from == link->a ? BY_AB : BY_BA]) > 0;
}
/* The end of a link that is not `node`. */
static inline uint32_t by_link_other(const struct by_link *link, uint32_t node) {
  return link->a ^ link->b ^ node;
}

/* NULL is allowed. */
void by_topology_destroy(struct by_topology *topology);
/* Whether it makes sense: names unique and printable, ends exist and differ, capacities and delays within their ranges,
 * use within capacities, at least one host takes part, and all that take part can reach each other over links with
 * something left. The error names the node or link. All ways to make one call it. Cost: nodes + links. */
BANYAN_CHECK enum banyan_status by_topology_validate(const struct by_topology *topology);
/* The node of that name; UINT32_MAX: none. Cost: nodes. */
uint32_t by_topology_find(const struct by_topology *topology, const char *name);
/* The same, looked for from node `start` on and round: for names that come in the order of nodes. */
uint32_t by_topology_find_from(const struct by_topology *topology, const char *name, uint32_t start);
/* The node that a host of this name is: that of its name, else that of its name without case, else the host whose name
 * agrees by the first label. UINT32_MAX: none; BY_TOPOLOGY_SEVERAL: it may be several. Cost: nodes. */
uint32_t by_topology_find_host(const struct by_topology *topology, const char *name);
#define BY_TOPOLOGY_SEVERAL (UINT32_MAX - 1)
/* The name of a node's interface to a link: the port's where it is known, else "ethK" for the K-th of the node's links,
 * from 0, as the lab names them. Cost: links. */
void by_topology_interface(const struct by_topology *topology, uint32_t link, uint32_t node, char *out, size_t room);
/* "host", "switch"; NULL beyond. Static storage. */
const char *by_node_kind_name(enum by_node_kind kind);

struct by_text;
/* Reads JSON as docs/topology-format.md describes it. `source` is the file's name in errors, which say where:
 * "t.json:3:14: ..." or "t.json: links[2].capacity: ...". The caller owns *out. BANYAN_ERR_PARSE: not in this format;
 * BANYAN_ERR_TOPOLOGY: it is, but makes no sense as a whole. */
BANYAN_CHECK enum banyan_status by_topology_parse(const char *source, const char *text, size_t length,
                                                  struct by_topology **out);
/* Adds the topology as one line of JSON, without a newline; read again it is the same to the bit. */
void by_topology_print(const struct by_topology *topology, struct by_text *text);
/* A topology of its own, in an arena of its own, that is the same to the bit. Prints and reads, so what does not fit
 * into a text fails. */
BANYAN_CHECK enum banyan_status by_topology_copy(const struct by_topology *topology, struct by_topology **out);

#endif
