/* Extracts the part of a topology that concerns some of its hosts. */
#include "topology_part.h"

#include <stdlib.h>

#include "topology_make.h"

/* The state of an extraction; arrays are indexed by node. */
struct extraction {
  const struct by_topology *topology;
  bool *chosen;      /* for each node: it is one of the hosts */
  uint32_t *links;   /* how many links of each node lead to remaining nodes */
  uint32_t *through; /* the XOR of these links' numbers: if there is one, its number */
  uint32_t *number;  /* the number of each node in the part; UINT32_MAX: removed */
  uint32_t *ends;    /* nodes with one link that are to be removed */
};

static bool is_end(const struct extraction *p, uint32_t node) {
  return !p->chosen[node] && p->links[node] <= 1 && p->number[node] != UINT32_MAX;
}

static void remove_ends(struct extraction *p) {
  const struct by_topology *t = p->topology;
  uint32_t n = 0;
  for (uint32_t l = 0; l < t->n_links; l++)
    for (uint32_t end = 0; end < 2; end++) {
      uint32_t node = end ? t->links[l].b : t->links[l].a;
      p->links[node]++;
      p->through[node] ^= l;
    }
  for (uint32_t v = 0; v < t->n_nodes; v++)
    if (is_end(p, v)) p->ends[n++] = v;
  while (n > 0) {
    uint32_t node = p->ends[--n];
    p->number[node] = UINT32_MAX;
    if (!p->links[node]) continue;
    uint32_t link = p->through[node], next = by_link_other(&t->links[link], node);
    p->links[next]--;
    p->through[next] ^= link;
    if (p->links[next] == 1 && is_end(p, next)) p->ends[n++] = next;
  }
}

static enum banyan_status add_nodes(struct extraction *p, struct by_topology_builder *builder) {
  const struct by_topology *t = p->topology;
  for (uint32_t v = 0; v < t->n_nodes; v++) {
    const struct by_node *from = &t->nodes[v];
    if (p->number[v] == UINT32_MAX) continue;
    BY_TRY(by_topology_builder_add(builder, from->kind, from->name, &p->number[v]));
    struct by_node *to = by_topology_builder_node(builder, p->number[v]);
    to->takes_part = p->chosen[v];
    to->out = from->out;
    to->in = from->in;
    BY_TRY(by_topology_builder_keep(builder, from->group, &to->group));
  }
  return BANYAN_OK;
}

static enum banyan_status add_links(const struct extraction *p, struct by_topology_builder *builder) {
  const struct by_topology *t = p->topology;
  for (uint32_t l = 0; l < t->n_links; l++) {
    const struct by_link *from = &t->links[l];
    uint32_t a = p->number[from->a], b = p->number[from->b];
    struct by_link *to;
    if (a == UINT32_MAX || b == UINT32_MAX) continue;
    BY_TRY(by_topology_builder_add_link(builder, a, b, from->capacity[BY_AB].all, from->delay, &to));
    to->capacity[BY_AB] = from->capacity[BY_AB];
    to->capacity[BY_BA] = from->capacity[BY_BA];
    to->loss = from->loss;
  }
  return BANYAN_OK;
}

static enum banyan_status make_part(struct extraction *p, const uint32_t *hosts, uint32_t n, struct by_topology **out) {
  struct by_topology_builder builder;
  for (uint32_t h = 0; h < n; h++) p->chosen[hosts[h]] = true;
  remove_ends(p);
  BY_TRY(by_topology_builder_init(&builder, p->topology->name));
  enum banyan_status status = add_nodes(p, &builder);
  if (status == BANYAN_OK) status = add_links(p, &builder);
  return by_topology_builder_end(&builder, status, NULL, out);
}

enum banyan_status by_topology_part(const struct by_topology *topology, const uint32_t *hosts, uint32_t n,
                                    struct by_topology **out) {
  struct by_arena arena;
  by_arena_init(&arena);
  struct extraction p = {.topology = topology,
                         .chosen = BY_ARENA_ARRAY(&arena, bool, topology->n_nodes),
                         .links = BY_ARENA_ARRAY(&arena, uint32_t, topology->n_nodes),
                         .through = BY_ARENA_ARRAY(&arena, uint32_t, topology->n_nodes),
                         .number = BY_ARENA_ARRAY(&arena, uint32_t, topology->n_nodes),
                         .ends = BY_ARENA_ARRAY(&arena, uint32_t, topology->n_nodes)};
  enum banyan_status status = arena.failed ? by_topology_no_memory() : make_part(&p, hosts, n, out);
  by_arena_fini(&arena);
  return status;
}
