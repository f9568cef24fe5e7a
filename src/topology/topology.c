#include "topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void by_topology_destroy(struct by_topology *topology) {
  if (!topology) return;
  struct by_arena arena = topology->arena;
  free(topology);
  by_arena_fini(&arena);
}

uint32_t by_topology_find(const struct by_topology *topology, const char *name) {
  return by_topology_find_from(topology, name, 0);
}

uint32_t by_topology_find_from(const struct by_topology *topology, const char *name, uint32_t start) {
  uint32_t n = topology->n_nodes;
  for (uint32_t i = 0, node = start; i < n; i++, node++) {
    if (node >= n) node = 0;
    if (strcmp(topology->nodes[node].name, name) == 0) return node;
  }
  return UINT32_MAX;
}

void by_topology_interface(const struct by_topology *topology, uint32_t link, uint32_t node, char *out, size_t room) {
  const struct by_link *links = topology->links;
  const char *name = links[link].port[links[link].a == node ? 0 : 1];
  uint32_t before = 0;
  for (uint32_t i = 0; i < link; i++) before += links[i].a == node || links[i].b == node;
  if (*name)
    snprintf(out, room, "%s", name);
  else
    snprintf(out, room, "eth%u", before);
}

const char *by_node_kind_name(enum by_node_kind kind) {
  static const char *const names[] = {"host", "switch"};
  return (size_t)kind < sizeof names / sizeof *names ? names[kind] : NULL;
}
