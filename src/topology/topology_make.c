#include "topology_make.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 64 };

enum banyan_status by_topology_builder_init(struct by_topology_builder *builder, const char *name) {
  *builder = (struct by_topology_builder){.topology = calloc(1, sizeof *builder->topology)};
  if (!builder->topology) return by_topology_no_memory();
  by_arena_init(&builder->topology->arena);
  enum banyan_status status = by_topology_builder_keep(builder, name ? name : "", &builder->topology->name);
  if (status != BANYAN_OK) by_topology_builder_fini(builder);
  return status;
}

void by_topology_builder_fini(struct by_topology_builder *builder) {
  if (builder->topology) {
    free(builder->topology->nodes);
    free(builder->topology->links);
  }
  free(builder->slots);
  by_topology_destroy(builder->topology);
  *builder = (struct by_topology_builder){0};
}

enum banyan_status by_topology_builder_keep(struct by_topology_builder *builder, const char *text, const char **out) {
  *out = by_arena_string(&builder->topology->arena, text);
  return *out ? BANYAN_OK : by_topology_no_memory();
}

/* --- names --- */

/* FNV-1a */
static uint32_t hash_name(const char *name) {
  uint32_t hash = 0x811c9dc5u;
  for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 0x01000193u;
  return hash ^ hash >> 15;
}

/* Where the name stands or would stand; half of the slots at least are free. */
static uint32_t *slot_of(const struct by_topology_builder *builder, const char *name) {
  uint32_t mask = builder->n_slots - 1, at = hash_name(name) & mask;
  while (builder->slots[at] && strcmp(builder->topology->nodes[builder->slots[at] - 1].name, name) != 0)
    at = (at + 1) & mask;
  return &builder->slots[at];
}

uint32_t by_topology_builder_find(const struct by_topology_builder *builder, const char *name) {
  return builder->n_slots ? *slot_of(builder, name) - 1 : UINT32_MAX;
}

/* As many slots as twice the room for nodes. */
static enum banyan_status index_names(struct by_topology_builder *builder) {
  uint32_t *slots = calloc((size_t)builder->node_room * 2, sizeof *slots);
  if (!slots) return by_topology_no_memory();
  free(builder->slots);
  builder->slots = slots;
  builder->n_slots = builder->node_room * 2;
  for (uint32_t i = 0; i < builder->topology->n_nodes; i++) *slot_of(builder, builder->topology->nodes[i].name) = i + 1;
  return BANYAN_OK;
}

/* --- nodes --- */

enum banyan_status by_topology_make_room(void **array, uint32_t n, uint32_t *room, size_t size) {
  if (n < *room) return BANYAN_OK;
  uint32_t wanted = *room ? *room * 2 : FIRST_ROOM;
  void *grown = realloc(*array, wanted * size);
  if (!grown) return by_topology_no_memory();
  *array = grown;
  *room = wanted;
  return BANYAN_OK;
}

static enum banyan_status make_node_room(struct by_topology_builder *builder) {
  struct by_topology *topology = builder->topology;
  uint32_t before = builder->node_room;
  void *nodes = topology->nodes;
  enum banyan_status status =
      by_topology_make_room(&nodes, topology->n_nodes, &builder->node_room, sizeof *topology->nodes);
  topology->nodes = nodes;
  BY_TRY(status);
  return builder->node_room == before ? BANYAN_OK : index_names(builder);
}

static enum banyan_status add_node(struct by_topology_builder *builder, const char *name, enum by_node_kind kind,
                                   uint32_t *out) {
  struct by_topology *topology = builder->topology;
  if (topology->n_nodes >= BY_TOPOLOGY_MOST_NODES)
    return by_fail(BANYAN_ERR_TOPOLOGY, "more than %d nodes", BY_TOPOLOGY_MOST_NODES);
  BY_TRY(make_node_room(builder));
  uint32_t *slot = slot_of(builder, name);
  if (*slot) return by_fail(BANYAN_ERR_TOPOLOGY, "two nodes are named \"%.64s\"", name);
  struct by_capacity endless = {.all = INFINITY};
  struct by_node node = {
      .kind = kind, .takes_part = kind == BY_NODE_HOST, .group = "", .out = endless, .in = endless, .x = NAN, .y = NAN};
  BY_TRY(by_topology_builder_keep(builder, name, &node.name));
  if (out) *out = topology->n_nodes;
  topology->nodes[topology->n_nodes++] = node;
  *slot = topology->n_nodes;
  return BANYAN_OK;
}

enum banyan_status by_topology_builder_add_host(struct by_topology_builder *builder, const char *name, uint32_t *out) {
  return add_node(builder, name, BY_NODE_HOST, out);
}

enum banyan_status by_topology_builder_add_switch(struct by_topology_builder *builder, const char *name,
                                                  uint32_t *out) {
  return add_node(builder, name, BY_NODE_SWITCH, out);
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
  void *links = topology->links;
  enum banyan_status status =
      by_topology_make_room(&links, topology->n_links, &builder->link_room, sizeof *topology->links);
  topology->links = links;
  BY_TRY(status);
  struct by_link *link = &topology->links[topology->n_links++];
  *link = (struct by_link){
      .a = a, .b = b, .capacity = {{.all = capacity}, {.all = capacity}}, .delay = delay, .port = {"", ""}};
  if (out) *out = link;
  return BANYAN_OK;
}

/* --- the end --- */

/* From an array that grew into the arena, which frees it. */
static enum banyan_status settle(struct by_arena *arena, void **array, uint32_t n, size_t size) {
  void *kept = by_arena_alloc(arena, n, size);
  if (!kept) return by_topology_no_memory();
  if (n) memcpy(kept, *array, n * size);
  free(*array);
  *array = kept;
  return BANYAN_OK;
}

static enum banyan_status settle_all(struct by_topology_builder *builder, struct by_topology **out) {
  struct by_topology *topology = builder->topology;
  void *nodes = topology->nodes, *links = topology->links;
  BY_TRY(settle(&topology->arena, &nodes, topology->n_nodes, sizeof *topology->nodes));
  topology->nodes = NULL;
  enum banyan_status status = settle(&topology->arena, &links, topology->n_links, sizeof *topology->links);
  if (status != BANYAN_OK) return status;
  topology->nodes = nodes;
  topology->links = links;
  builder->topology = NULL;
  *out = topology;
  return BANYAN_OK;
}

enum banyan_status by_topology_builder_finish(struct by_topology_builder *builder, struct by_topology **out) {
  enum banyan_status status = by_topology_validate(builder->topology);
  if (status == BANYAN_OK) status = settle_all(builder, out);
  by_topology_builder_fini(builder);
  return status;
}
