#define HASH_NONFATAL_OOM 1
#include "topology_make.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct by_topology_name {
  const char *name;
  uint32_t node;
  UT_hash_handle hh;
};

enum banyan_status by_topology_builder_init(struct by_topology_builder *builder, const char *name) {
  *builder = (struct by_topology_builder){.topology = calloc(1, sizeof *builder->topology)};
  if (!builder->topology) return by_topology_no_memory();
  enum banyan_status status = by_topology_builder_keep(builder, name ? name : "", &builder->topology->name);
  if (status != BANYAN_OK) by_topology_builder_fini(builder);
  return status;
}

void by_topology_builder_fini(struct by_topology_builder *builder) {
  if (builder->topology) {
    free(builder->topology->nodes);
    free(builder->topology->links);
  }
  HASH_CLEAR(hh, builder->names);
  by_arena_fini(&builder->arena);
  by_topology_destroy(builder->topology);
  *builder = (struct by_topology_builder){0};
}

enum banyan_status by_topology_builder_keep(struct by_topology_builder *builder, const char *text, const char **out) {
  *out = by_arena_string(&builder->topology->arena, text);
  return *out ? BANYAN_OK : by_topology_no_memory();
}

uint32_t by_topology_builder_find(const struct by_topology_builder *builder, const char *name) {
  const struct by_topology_name *found;
  HASH_FIND(hh, builder->names, name, strlen(name), found);
  return found ? found->node : UINT32_MAX;
}

/* --- nodes --- */

enum banyan_status by_topology_builder_add(struct by_topology_builder *builder, enum by_node_kind kind,
                                           const char *name, uint32_t *out) {
  struct by_topology *topology = builder->topology;
  if (topology->n_nodes >= BY_TOPOLOGY_MOST_NODES)
    return by_fail(BANYAN_ERR_TOPOLOGY, "more than %d nodes", BY_TOPOLOGY_MOST_NODES);
  if (!BY_ARRAY_GROW(&topology->nodes, &builder->node_room, topology->n_nodes + 1)) return by_topology_no_memory();
  if (by_topology_builder_find(builder, name) != UINT32_MAX)
    return by_fail(BANYAN_ERR_TOPOLOGY, "two nodes are named \"%.64s\"", name);
  struct by_capacity endless = {.all = INFINITY};
  struct by_node node = {
      .kind = kind, .takes_part = kind == BY_NODE_HOST, .group = "", .out = endless, .in = endless, .x = NAN, .y = NAN};
  struct by_topology_name *entry = BY_ARENA_NEW(&builder->arena, struct by_topology_name);
  BY_TRY(by_topology_builder_keep(builder, name, &node.name));
  if (!entry) return by_topology_no_memory();
  *entry = (struct by_topology_name){.name = node.name, .node = topology->n_nodes};
  HASH_ADD_KEYPTR(hh, builder->names, entry->name, strlen(entry->name), entry);
  if (!entry->hh.tbl) return by_topology_no_memory();
  if (out) *out = topology->n_nodes;
  topology->nodes[topology->n_nodes++] = node;
  return BANYAN_OK;
}

struct by_node *by_topology_builder_node(struct by_topology_builder *builder, uint32_t node) {
  return &builder->topology->nodes[node];
}

/* --- links --- */

enum banyan_status by_topology_builder_add_link(struct by_topology_builder *builder, uint32_t a, uint32_t b,
                                                double capacity, double delay, struct by_link **out) {
  struct by_topology *topology = builder->topology;
  if (topology->n_links >= BY_TOPOLOGY_MOST_LINKS)
    return by_fail(BANYAN_ERR_TOPOLOGY, "more than %d links", BY_TOPOLOGY_MOST_LINKS);
  if (!BY_ARRAY_GROW(&topology->links, &builder->link_room, topology->n_links + 1)) return by_topology_no_memory();
  struct by_link *link = &topology->links[topology->n_links++];
  *link = (struct by_link){
      .a = a, .b = b, .capacity = {{.all = capacity}, {.all = capacity}}, .delay = delay, .port = {"", ""}};
  if (out) *out = link;
  return BANYAN_OK;
}

/* --- the end --- */

/* What grew moves into the arena. */
static enum banyan_status settle(struct by_topology_builder *builder, struct by_topology **out) {
  struct by_topology *topology = builder->topology;
  struct by_node *nodes = BY_ARENA_ARRAY(&topology->arena, struct by_node, topology->n_nodes);
  struct by_link *links = BY_ARENA_ARRAY(&topology->arena, struct by_link, topology->n_links);
  if (!nodes || !links) return by_topology_no_memory();
  memcpy(nodes, topology->nodes, topology->n_nodes * sizeof *nodes);
  if (topology->n_links) memcpy(links, topology->links, topology->n_links * sizeof *links);
  free(topology->nodes);
  free(topology->links);
  topology->nodes = nodes;
  topology->links = links;
  builder->topology = NULL;
  *out = topology;
  return BANYAN_OK;
}

enum banyan_status by_topology_builder_finish(struct by_topology_builder *builder, const char *source,
                                              struct by_topology **out) {
  enum banyan_status status = by_topology_validate(builder->topology);
  if (status == BANYAN_OK) status = settle(builder, out);
  by_topology_builder_fini(builder);
  return status == BANYAN_OK || !source ? status : by_fail_within(status, "%s", source);
}

enum banyan_status by_topology_builder_end(struct by_topology_builder *builder, enum banyan_status status,
                                           const char *source, struct by_topology **out) {
  if (status == BANYAN_OK) return by_topology_builder_finish(builder, source, out);
  by_topology_builder_fini(builder);
  return status;
}
