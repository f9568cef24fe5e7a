/* What a tree says of its switches beside who hangs where: which only forward, and by which interfaces they reach their
 * neighbours. */
#include <stdlib.h>
#include <string.h>

#include "plan_make.h"
#include "text.h"

#define bad(...) by_fail(BANYAN_ERR_PLAN, __VA_ARGS__)

static int compare_vertices(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static int compare_ports(const void *a, const void *b) {
  const struct by_group_port *x = a, *y = b;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  return (x->towards > y->towards) - (x->towards < y->towards);
}

bool by_group_adds(const struct by_group *group, uint32_t vertex) {
  return !group->n_forwards ||
         !bsearch(&vertex, group->forwards, group->n_forwards, sizeof *group->forwards, compare_vertices);
}

const char *by_group_interface(const struct by_group *group, uint32_t at, uint32_t towards) {
  struct by_group_port key = {.at = at, .towards = towards}, *port = NULL;
  if (group->n_ports) port = bsearch(&key, group->ports, group->n_ports, sizeof *group->ports, compare_ports);
  return port ? port->interface : NULL;
}

void by_group_sort_ports(struct by_group *group) {
  if (group->n_forwards) qsort(group->forwards, group->n_forwards, sizeof *group->forwards, compare_vertices);
  if (group->n_ports) qsort(group->ports, group->n_ports, sizeof *group->ports, compare_ports);
}

enum banyan_status by_group_copy_ports(struct by_plan *plan, struct by_group *group, const struct by_group *from,
                                       uint32_t (*map)(const void *context, uint32_t vertex), const void *context) {
  uint32_t *forwards = BY_ARENA_ARRAY(&plan->arena, uint32_t, from->n_forwards);
  struct by_group_port *ports = BY_ARENA_ARRAY(&plan->arena, struct by_group_port, from->n_ports);
  if (!forwards || !ports) return by_plan_no_memory();
  for (uint32_t i = 0; i < from->n_forwards; i++) forwards[i] = map(context, from->forwards[i]);
  for (uint32_t i = 0; i < from->n_ports; i++) {
    const struct by_group_port *port = &from->ports[i];
    ports[i] = (struct by_group_port){.at = map(context, port->at),
                                      .towards = map(context, port->towards),
                                      .interface = by_arena_string(&plan->arena, port->interface)};
    if (!ports[i].interface) return by_plan_no_memory();
  }
  group->forwards = forwards;
  group->n_forwards = from->n_forwards;
  group->ports = ports;
  group->n_ports = from->n_ports;
  by_group_sort_ports(group);
  return BANYAN_OK;
}

static enum banyan_status check_switch(const struct by_plan *plan, const uint32_t *position, uint32_t vertex,
                                       const char *field) {
  if (vertex >= plan->n_vertices) return bad("%s: vertex number %u is not in the plan", field, vertex);
  const char *name = plan->vertices[vertex].name;
  if (plan->vertices[vertex].kind != BY_VERTEX_SWITCH) return bad("%s: vertex \"%.64s\" is no switch", field, name);
  return position[vertex] != UINT32_MAX ? BANYAN_OK : bad("%s: vertex \"%.64s\" is not in the tree", field, name);
}

static enum banyan_status check_port(const struct by_plan *plan, const struct by_group *group, const uint32_t *position,
                                     const struct by_group_port *port) {
  BY_TRY(check_switch(plan, position, port->at, "ports"));
  if (port->towards >= plan->n_vertices) return bad("ports: vertex number %u is not in the plan", port->towards);
  const char *at = plan->vertices[port->at].name, *towards = plan->vertices[port->towards].name;
  uint32_t u = position[port->at], v = position[port->towards];
  if (v == UINT32_MAX || u == v || (group->up[u] != v && group->up[v] != u))
    return bad("ports: vertex \"%.64s\" is neither parent nor child of \"%.64s\"", towards, at);
  if (!port->interface || !*port->interface || !by_is_printable(port->interface, BY_PLAN_MOST_NAME))
    return bad("ports: the interface of \"%.64s\" towards \"%.64s\" must be 1 to %d bytes of UTF-8 without control "
               "characters",
               at, towards, BY_PLAN_MOST_NAME);
  return BANYAN_OK;
}

enum banyan_status by_group_check_ports(const struct by_plan *plan, const struct by_group *group, uint32_t *position) {
  if (!group->n_forwards && !group->n_ports) return BANYAN_OK;
  if (group->kind != BY_GROUP_TREE) return bad("only single trees have \"forwards\" and \"ports\"");
  for (uint32_t v = 0; v < plan->n_vertices; v++) position[v] = UINT32_MAX;
  for (uint32_t u = 0; u < group->n; u++) position[group->order[u]] = u;
  for (uint32_t i = 0; i < group->n_forwards; i++) {
    BY_TRY(check_switch(plan, position, group->forwards[i], "forwards"));
    if (i > 0 && group->forwards[i] <= group->forwards[i - 1])
      return bad("forwards: \"%.64s\" is out of order or stands there twice", plan->vertices[group->forwards[i]].name);
  }
  for (uint32_t i = 0; i < group->n_ports; i++) {
    BY_TRY(check_port(plan, group, position, &group->ports[i]));
    if (i > 0 && compare_ports(&group->ports[i - 1], &group->ports[i]) >= 0)
      return bad("ports: those of \"%.64s\" are out of order", plan->vertices[group->ports[i].at].name);
  }
  return BANYAN_OK;
}
