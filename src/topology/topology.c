#include "topology.h"

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

const char *by_node_kind_name(enum by_node_kind kind) {
  static const char *const names[] = {"host", "switch"};
  return (size_t)kind < sizeof names / sizeof *names ? names[kind] : NULL;
}
