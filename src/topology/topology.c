/* Looks up nodes, validates a topology, makes one from added nodes and links, and extracts the part for some hosts. */
#define HASH_NONFATAL_OOM 1
#include "topology.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/param.h>
#include <uthash.h>

#include "text.h"
#include "topology_make.h"

void by_topology_destroy(struct by_topology *topology) {
  if (!topology) return;
  struct by_arena arena = topology->arena;
  free(topology);
  by_arena_fini(&arena);
}

uint32_t by_topology_find_from(const struct by_topology *topology, const char *name, uint32_t start) {
  uint32_t n = topology->n_nodes;
  for (uint32_t i = 0, node = start; i < n; i++, node++) {
    if (node >= n) node = 0;
    if (strcmp(topology->nodes[node].name, name) == 0) return node;
  }
  return UINT32_MAX;
}

uint32_t by_topology_find_host(const struct by_topology *topology, const char *name) {
  uint32_t same = UINT32_MAX, alike = UINT32_MAX;
  for (uint32_t v = 0; v < topology->n_nodes; v++) {
    const struct by_node *node = &topology->nodes[v];
    if (strcmp(node->name, name) == 0) return v;
    if (node->kind != BY_NODE_HOST || !by_host_names_agree(node->name, name)) continue;
    uint32_t *found = strcasecmp(node->name, name) == 0 ? &same : &alike;
    *found = *found == UINT32_MAX ? v : BY_TOPOLOGY_SEVERAL;
  }
  return same != UINT32_MAX ? same : alike;
}

void by_topology_interface(const struct by_topology *topology, uint32_t link, uint32_t node, char *out, size_t size) {
  const struct by_link *links = topology->links;
  const char *name = links[link].port[links[link].a == node ? 0 : 1];
  uint32_t before = 0;
  for (uint32_t i = 0; i < link; i++) before += links[i].a == node || links[i].b == node;
  if (*name)
    snprintf(out, size, "%s", name);
  else
    snprintf(out, size, "eth%u", before);
}

const char *by_node_kind_name(enum by_node_kind kind) {
  static const char *const names[] = {"host", "switch"};
  return (size_t)kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

/* --- Validation: planner, simulator and lab can work with any topology that passes it. --- */

#define bad(...) by_fail(BANYAN_ERR_TOPOLOGY, __VA_ARGS__)
#define NO_MEMORY by_fail(BANYAN_ERR_NO_MEMORY, "no memory to check the topology")

/* `whose` names the text, such as "its group". */
static enum banyan_status check_text(const char *text, const char *whose, size_t min) {
  if (text && strlen(text) >= min && by_is_printable(text, BY_TOPOLOGY_MAX_NAME)) return BANYAN_OK;
  return bad("%s must be %zu to %d bytes of UTF-8 without control characters", whose, min, BY_TOPOLOGY_MAX_NAME);
}

/* `what` names the capacity, such as "what it can send". */
static enum banyan_status check_capacity(const struct by_capacity *capacity, const char *what, bool may_be_unlimited) {
  if (!(capacity->all > 0)) return bad("%s is %g bit/s, must be more than 0", what, capacity->all);
  if (isinf(capacity->all) && !may_be_unlimited) return bad("%s has no limit, must have one", what);
  if (!isinf(capacity->all) && by_check_rate(capacity->all) != BANYAN_OK)
    return bad("%s %s", what, banyan_error_text());
  if (capacity->used >= 0 && capacity->used <= BY_MAX_RATE && capacity->used <= capacity->all) return BANYAN_OK;
  return bad("%s is %g bit/s, of which others use %g: must be 0 to all of it", what, capacity->all, capacity->used);
}

static enum banyan_status check_node(const struct by_node *node) {
  if (node->kind != BY_NODE_HOST && node->kind != BY_NODE_SWITCH) return bad("is neither a host nor a switch");
  BY_TRY(check_text(node->group, "its group", 0));
  if (node->kind == BY_NODE_SWITCH && (node->takes_part || node->may_help))
    return bad("is a switch: it cannot take part or help as a host does; \"aggregates\" means that it adds");
  if (node->kind == BY_NODE_HOST && (node->aggregates || node->memory))
    return bad("is a host: only a switch aggregates and has cells; \"helps\" means that a host adds for others");
  BY_TRY(check_capacity(&node->out, "what it can send", true));
  BY_TRY(check_capacity(&node->in, "what it can receive", true));
  if (isinf(node->x) || isinf(node->y) || isnan(node->x) != isnan(node->y))
    return bad("its place is (%g, %g): must be two numbers, or not known", node->x, node->y);
  return BANYAN_OK;
}

static enum banyan_status check_nodes(const struct by_topology *topology, struct by_arena *arena) {
  for (uint32_t i = 0; i < topology->n_nodes; i++) {
    const struct by_node *node = &topology->nodes[i];
    if (check_text(node->name, "its name", 1) != BANYAN_OK)
      return by_fail_within(BANYAN_ERR_TOPOLOGY, "node number %u", i);
    if (check_node(node) != BANYAN_OK) return by_fail_within(BANYAN_ERR_TOPOLOGY, "node \"%.64s\"", node->name);
  }
  const char **names = BY_ARENA_ARRAY(arena, const char *, topology->n_nodes);
  if (!names) return NO_MEMORY;
  const char *twice = by_find_twice(topology->nodes, topology->n_nodes, sizeof *topology->nodes, names);
  return twice ? bad("two nodes are named \"%.64s\"", twice) : BANYAN_OK;
}

_Static_assert(offsetof(struct by_node, name) == 0, "names are compared by by_find_twice");

static enum banyan_status check_link(const struct by_link *link) {
  BY_TRY(check_capacity(&link->capacity[BY_AB], "its capacity from the first to the second", false));
  BY_TRY(check_capacity(&link->capacity[BY_BA], "its capacity from the second to the first", false));
  if (!(link->delay >= 0 && link->delay <= BY_MAX_DELAY))
    return bad("its delay is %g s, must be 0 to %d s", link->delay, BY_MAX_DELAY);
  if (!(link->loss >= 0 && link->loss <= 1)) return bad("its loss is %g, must be 0 to 1", link->loss);
  BY_TRY(check_text(link->port[BY_AB], "the port at its first end", 0));
  return check_text(link->port[BY_BA], "the port at its second end", 0);
}

static enum banyan_status check_links(const struct by_topology *topology) {
  for (uint32_t i = 0; i < topology->n_links; i++) {
    const struct by_link *link = &topology->links[i];
    if (link->a >= topology->n_nodes || link->b >= topology->n_nodes)
      return bad("link %u: leads to a node that is not there: %u or %u of %u", i, link->a, link->b, topology->n_nodes);
    const char *a = topology->nodes[link->a].name, *b = topology->nodes[link->b].name;
    if (link->a == link->b) return bad("link %u: leads from \"%.64s\" to itself", i, a);
    if (check_link(link) != BANYAN_OK)
      return by_fail_within(BANYAN_ERR_TOPOLOGY, "link %u (\"%.64s\" - \"%.64s\")", i, a, b);
  }
  return BANYAN_OK;
}

/* --- Connectivity. --- */

/* Joins nodes with residual capacity. A tree carries the sum over a link in one direction and the result in the other,
 * so both directions need it. */
static void join_parts(const struct by_topology *t, uint32_t *above) {
  for (uint32_t i = 0; i < t->n_nodes; i++) above[i] = i;
  for (uint32_t i = 0; i < t->n_links; i++) {
    const struct by_link *link = &t->links[i];
    const struct by_capacity needed[] = {link->capacity[BY_AB], link->capacity[BY_BA], t->nodes[link->a].out,
                                         t->nodes[link->a].in,  t->nodes[link->b].out, t->nodes[link->b].in};
    size_t n = 0;
    while (n < sizeof needed / sizeof *needed && by_residual(needed[n]) > 0) n++;
    if (n < sizeof needed / sizeof *needed) continue;
    uint32_t a = by_find_leader(above, link->a), b = by_find_leader(above, link->b);
    above[MAX(a, b)] = MIN(a, b);
  }
}

static enum banyan_status check_reach(const struct by_topology *topology, struct by_arena *arena) {
  uint32_t *above = BY_ARENA_ARRAY(arena, uint32_t, topology->n_nodes), first = UINT32_MAX;
  if (!above) return NO_MEMORY;
  join_parts(topology, above);
  for (uint32_t i = 0; i < topology->n_nodes; i++) {
    if (!topology->nodes[i].takes_part) continue;
    if (first == UINT32_MAX) first = i;
    if (by_find_leader(above, i) != by_find_leader(above, first))
      return bad("\"%.64s\" and \"%.64s\" take part but cannot reach each other over links and nodes with capacity "
                 "left in both directions",
                 topology->nodes[first].name, topology->nodes[i].name);
  }
  return first == UINT32_MAX ? bad("no host takes part") : BANYAN_OK;
}

enum banyan_status by_topology_validate(const struct by_topology *topology) {
  if (topology->n_nodes < 1) return bad("there are no nodes");
  if (topology->n_nodes > BY_TOPOLOGY_MAX_NODES || topology->n_links > BY_TOPOLOGY_MAX_LINKS)
    return bad("%u nodes and %u links are too many: at most %d and %d are possible", topology->n_nodes,
               topology->n_links, BY_TOPOLOGY_MAX_NODES, BY_TOPOLOGY_MAX_LINKS);
  BY_TRY(check_text(topology->name, "the topology's name", 0));
  struct by_arena arena = {0};
  enum banyan_status status = check_nodes(topology, &arena);
  if (status == BANYAN_OK) status = check_links(topology);
  if (status == BANYAN_OK) status = check_reach(topology, &arena);
  by_arena_fini(&arena);
  return status;
}

/* --- The builder. --- */

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

enum banyan_status by_topology_builder_add(struct by_topology_builder *builder, enum by_node_kind kind,
                                           const char *name, uint32_t *out) {
  struct by_topology *topology = builder->topology;
  if (topology->n_nodes >= BY_TOPOLOGY_MAX_NODES)
    return by_fail(BANYAN_ERR_TOPOLOGY, "more than %d nodes", BY_TOPOLOGY_MAX_NODES);
  if (!BY_ARRAY_GROW(&topology->nodes, &builder->allocated_nodes, topology->n_nodes + 1))
    return by_topology_no_memory();
  if (by_topology_builder_find(builder, name) != UINT32_MAX)
    return by_fail(BANYAN_ERR_TOPOLOGY, "two nodes are named \"%.64s\"", name);
  struct by_capacity unlimited = {.all = INFINITY};
  struct by_node node = {.kind = kind,
                         .takes_part = kind == BY_NODE_HOST,
                         .group = "",
                         .out = unlimited,
                         .in = unlimited,
                         .x = NAN,
                         .y = NAN};
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

enum banyan_status by_topology_builder_add_link(struct by_topology_builder *builder, uint32_t a, uint32_t b,
                                                double capacity, double delay, struct by_link **out) {
  struct by_topology *topology = builder->topology;
  if (topology->n_links >= BY_TOPOLOGY_MAX_LINKS)
    return by_fail(BANYAN_ERR_TOPOLOGY, "more than %d links", BY_TOPOLOGY_MAX_LINKS);
  if (!BY_ARRAY_GROW(&topology->links, &builder->allocated_links, topology->n_links + 1))
    return by_topology_no_memory();
  struct by_link *link = &topology->links[topology->n_links++];
  *link = (struct by_link){
      .a = a, .b = b, .capacity = {{.all = capacity}, {.all = capacity}}, .delay = delay, .port = {"", ""}};
  if (out) *out = link;
  return BANYAN_OK;
}

/* Moves nodes and links into the arena. */
static enum banyan_status move_into_arena(struct by_topology_builder *builder, struct by_topology **out) {
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

enum banyan_status by_topology_builder_end(struct by_topology_builder *builder, enum banyan_status status,
                                           const char *source, struct by_topology **out) {
  bool complete = status == BANYAN_OK;
  if (complete) status = by_topology_validate(builder->topology);
  if (status == BANYAN_OK) status = move_into_arena(builder, out);
  by_topology_builder_fini(builder);
  return status == BANYAN_OK || !complete || !source ? status : by_fail_within(status, "%s", source);
}

/* --- A part of a topology. --- */

/* The state of an extraction; arrays are indexed by node. */
struct extraction {
  const struct by_topology *topology;
  bool *chosen;    /* For each node, whether it is one of the hosts. */
  uint32_t *links; /* For each node, the number of its links to remaining nodes. */
  /* For each node, the XOR of the numbers of these links. If there is only one, this is its number. */
  uint32_t *through;
  uint32_t *number; /* The number of each node in the part; UINT32_MAX if it is removed. */
  uint32_t *ends;   /* Nodes with one link, which are to be removed. */
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
  struct by_arena arena = {0};
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
