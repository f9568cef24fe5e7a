/* Making a topology, by readers, synthesisers and measurements: init, add nodes and links in the order of the source,
 * finish. What is added starts plain (see below) and is then filled in through the pointer. Names are copied. A limit
 * that is passed and a name that is there twice are refused at once, so that a reader can report the line. Errors are
 * BANYAN_ERR_TOPOLOGY or NO_MEMORY. */
#ifndef BY_TOPOLOGY_TOPOLOGY_MAKE_H
#define BY_TOPOLOGY_TOPOLOGY_MAKE_H

#include "topology.h"

struct by_topology_builder {
  struct by_topology *topology; /* its nodes and links are not in the arena yet */
  uint32_t node_room, link_room;
  struct by_topology_name *names; /* hashed */
  struct by_arena arena;          /* of the names */
};

/* "" or NULL: no name. */
BANYAN_CHECK enum banyan_status by_topology_builder_init(struct by_topology_builder *builder, const char *name);
/* Frees all that was not finished; after _finish it does nothing. */
void by_topology_builder_fini(struct by_topology_builder *builder);

/* A host that takes part and does not help, or a switch that only forwards; no limits, no group, place not known.
 * *out (or NULL) is its number. */
BANYAN_CHECK enum banyan_status by_topology_builder_add(struct by_topology_builder *builder, enum by_node_kind kind,
                                                        const char *name, uint32_t *out);
/* A link with that capacity in bit/s each way, of which others use nothing, without loss. `delay` in seconds.
 * *out (or NULL) is valid until the next link is added. */
BANYAN_CHECK enum banyan_status by_topology_builder_add_link(struct by_topology_builder *builder, uint32_t a,
                                                             uint32_t b, double capacity, double delay,
                                                             struct by_link **out);
/* A node that was added, to be filled in; valid until the next one is added. */
struct by_node *by_topology_builder_node(struct by_topology_builder *builder, uint32_t node);
/* UINT32_MAX: no node has that name. Cost: its length. */
uint32_t by_topology_builder_find(const struct by_topology_builder *builder, const char *name);
/* A copy of a text that lives as long as the topology; for groups and ports. */
BANYAN_CHECK enum banyan_status by_topology_builder_keep(struct by_topology_builder *builder, const char *text,
                                                         const char **out);
/* Validates. The caller owns *out; on failure all is freed, and the error begins with `source`, unless that is NULL. */
BANYAN_CHECK enum banyan_status by_topology_builder_finish(struct by_topology_builder *builder, const char *source,
                                                           struct by_topology **out);
/* The same if `status`, what filling the builder came to, is BANYAN_OK; else frees all and returns it. */
BANYAN_CHECK enum banyan_status by_topology_builder_end(struct by_topology_builder *builder, enum banyan_status status,
                                                        const char *source, struct by_topology **out);

/* The error for memory that is out. Inline, so that analysers see that it is never BANYAN_OK. */
static inline enum banyan_status by_topology_no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the topology");
  return BANYAN_ERR_NO_MEMORY;
}

#endif
