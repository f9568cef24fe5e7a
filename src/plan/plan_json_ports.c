#include "plan_json.h"
#include "plan_make.h"

static enum banyan_status take_forwards(const struct by_plan_reader *reader, const struct by_place *around,
                                        const json_t *array, struct by_group *group) {
  struct by_place place = {.above = around, .field = "forwards"};
  BY_TRY(by_doc_array(&place, array, 0, BY_PLAN_MOST_VERTICES));
  size_t n = json_array_size(array);
  group->forwards = BY_ARENA_ARRAY(&reader->plan->arena, uint32_t, n);
  if (!group->forwards) return by_plan_no_memory();
  for (size_t i = 0; i < n; i++) {
    struct by_place here = {.above = &place, .index = i};
    const char *name;
    BY_TRY(by_doc_string(&here, json_array_get(array, i), &name));
    BY_TRY(by_plan_find_vertex(reader, &here, name, &group->forwards[group->n_forwards++]));
  }
  return BANYAN_OK;
}

static enum banyan_status count_ports(const struct by_place *place, json_t *switches, size_t *n) {
  const char *key;
  json_t *map;
  if (!json_is_object(switches)) return by_doc_fields(place, switches, "");
  json_object_foreach(switches, key, map) {
    struct by_place here = {.above = place, .key = key};
    if (!json_is_object(map)) return by_doc_fields(&here, map, "");
    *n += json_object_size(map);
  }
  return BANYAN_OK;
}

/* {"neighbour": "interface", ...} of one switch. */
static enum banyan_status take_switch(const struct by_plan_reader *reader, const struct by_place *place, uint32_t at,
                                      json_t *map, struct by_group *group) {
  const char *key, *name;
  json_t *value;
  json_object_foreach(map, key, value) {
    struct by_place here = {.above = place, .key = key};
    struct by_group_port *port = &group->ports[group->n_ports++];
    port->at = at;
    BY_TRY(by_plan_find_vertex(reader, &here, key, &port->towards));
    BY_TRY(by_doc_string(&here, value, &name));
    port->interface = by_arena_string(&reader->plan->arena, name);
    if (!port->interface) return by_plan_no_memory();
  }
  return BANYAN_OK;
}

static enum banyan_status take_ports(const struct by_plan_reader *reader, const struct by_place *around,
                                     json_t *switches, struct by_group *group) {
  struct by_place place = {.above = around, .field = "ports"};
  const char *key;
  json_t *map;
  size_t n = 0;
  BY_TRY(count_ports(&place, switches, &n));
  group->ports = BY_ARENA_ARRAY(&reader->plan->arena, struct by_group_port, n);
  if (!group->ports) return by_plan_no_memory();
  json_object_foreach(switches, key, map) {
    struct by_place here = {.above = &place, .key = key};
    uint32_t at = 0;
    BY_TRY(by_plan_find_vertex(reader, &here, key, &at));
    BY_TRY(take_switch(reader, &here, at, map, group));
  }
  return BANYAN_OK;
}

enum banyan_status by_plan_read_ports(const struct by_plan_reader *reader, const struct by_place *place,
                                      const json_t *value, struct by_group *group) {
  const json_t *forwards = json_object_get(value, "forwards");
  json_t *ports = json_object_get(value, "ports");
  if (forwards) BY_TRY(take_forwards(reader, place, forwards, group));
  if (ports) BY_TRY(take_ports(reader, place, ports, group));
  by_group_sort_ports(group);
  return BANYAN_OK;
}
