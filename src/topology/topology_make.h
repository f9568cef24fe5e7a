/* Makes a topology, for readers, synthesisers and measurements: init, add nodes and links in the order of the source,
 * end. Added elements have default values, and are completed through the returned pointer. Names are copied. An
 * exceeded limit and a repeated name are refused at once, so that a reader can report the line. Errors are
 * BANYAN_ERR_TOPOLOGY or NO_MEMORY. */
#ifndef BY_TOPOLOGY_TOPOLOGY_MAKE_H
#define BY_TOPOLOGY_TOPOLOGY_MAKE_H

#include "topology.h"

struct by_topology_builder {
  struct by_topology *topology; /* Its nodes and links are in the heap until end moves them into the arena. */
  uint32_t allocated_nodes, allocated_links;
  struct by_topology_name *names; /* A hash table of the nodes' names. */
  struct by_arena arena;          /* Memory of the table of names. */
};

/* The name may be "" or NULL. */
BANYAN_CHECK enum banyan_status by_topology_builder_init(struct by_topology_builder *builder, const char *name);
/* Frees everything that was not ended. After end it does nothing. */
void by_topology_builder_fini(struct by_topology_builder *builder);

/* Adds a host that takes part and does not help, or a switch that only forwards; without limits and group, and with
 * unknown location. *out (may be NULL) is its number. */
BANYAN_CHECK enum banyan_status by_topology_builder_add(struct by_topology_builder *builder, enum by_node_kind kind,
                                                        const char *name, uint32_t *out);
/* Adds a link with that capacity in bit/s in each direction, unused by others and without loss. `delay` in seconds.
 * *out (may be NULL) is valid until the next link is added. */
BANYAN_CHECK enum banyan_status by_topology_builder_add_link(struct by_topology_builder *builder, uint32_t a,
                                                             uint32_t b, double capacity, double delay,
                                                             struct by_link **out);
/* Returns an added node to be completed; valid until the next one is added. */
static inline struct by_node *by_topology_builder_node(struct by_topology_builder *builder, uint32_t node) {
  return &builder->topology->nodes[node];
}
/* Returns the node of that name; UINT32_MAX: none. Cost: the name's length. */
uint32_t by_topology_builder_find(const struct by_topology_builder *builder, const char *name);
/* Copies a text, such as a group or a port, that lives as long as the topology. */
BANYAN_CHECK enum banyan_status by_topology_builder_keep(struct by_topology_builder *builder, const char *text,
                                                         const char **out);
/* If `status` is BANYAN_OK, validates the topology and moves it to *out, which the caller owns; an error begins with
 * `source`, unless that is NULL. Otherwise returns `status`. On failure everything is freed. */
BANYAN_CHECK enum banyan_status by_topology_builder_end(struct by_topology_builder *builder, enum banyan_status status,
                                                        const char *source, struct by_topology **out);

/* Reports that memory is exhausted. It is inline so that analysers see that it never returns BANYAN_OK. */
static inline enum banyan_status by_topology_no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the topology");
  return BANYAN_ERR_NO_MEMORY;
}

#endif
