#include "plan_json.h"

#include <stdlib.h>
#include <string.h>

#include "plan_make.h"

static const uint32_t nowhere = UINT32_MAX;

/* The fields of each kind. */
static const char *const fields[] = {
    "kind, share, order, root, up, down, twigs, forwards, ports, rate, height",
    "kind, share, order, radix, root, up, down, twigs, rate, height",
    "kind, share, order, radix, twigs, rate, height",
};

/* A group, while it is read. */
struct part {
  const struct by_plan_reader *reader;
  const struct by_place *place;
  const json_t *object;
  struct by_group *group;
};

static const char *name_at(const struct part *part, uint32_t position) {
  return part->reader->plan->vertices[part->group->order[position]].name;
}

enum banyan_status by_plan_find_vertex(const struct by_plan_reader *reader, const struct by_place *place,
                                       const char *name, uint32_t *out) {
  const json_t *vertex = json_object_get(reader->vertex_of, name);
  if (!vertex) return by_doc_fail(place, "there is no vertex \"%.64s\"", name);
  *out = (uint32_t)json_integer_value(vertex);
  return BANYAN_OK;
}

static enum banyan_status take_vertex(const struct part *part, const struct by_place *place, const json_t *value,
                                      uint32_t *out) {
  const char *name;
  BY_TRY(by_doc_string(place, value, &name));
  return by_plan_find_vertex(part->reader, place, name, out);
}

static enum banyan_status find_position(const struct part *part, const struct by_place *place, const char *name,
                                        uint32_t *out) {
  uint32_t vertex = 0;
  BY_TRY(by_plan_find_vertex(part->reader, place, name, &vertex));
  *out = part->reader->position[vertex];
  return *out != nowhere ? BANYAN_OK : by_doc_fail(place, "vertex \"%.64s\" is not in this tree", name);
}

static int compare_numbers(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* The vertices of an order that is written down. */
static enum banyan_status take_order(const struct part *part, const json_t *order) {
  struct by_place place = {.above = part->place, .field = "order"};
  for (uint32_t i = 0; i < part->group->n; i++) {
    struct by_place here = {.above = &place, .index = i};
    BY_TRY(take_vertex(part, &here, json_array_get(order, i), &part->group->order[i]));
  }
  return BANYAN_OK;
}

/* The vertices of a tree without an order: its root and the keys of "up", ascending. */
static enum banyan_status take_members(const struct part *part, const json_t *root, const json_t *up) {
  struct by_place root_place = {.above = part->place, .field = "root"},
                  up_place = {.above = part->place, .field = "up"};
  const char *key;
  json_t *value;
  uint32_t i = 1;
  BY_TRY(take_vertex(part, &root_place, root, &part->group->order[0]));
  json_object_foreach((json_t *)up, key, value) {
    struct by_place here = {.above = &up_place, .key = key};
    if (strcmp(key, json_string_value(root)) == 0) return by_doc_fail(&here, "the root has no parent");
    BY_TRY(by_plan_find_vertex(part->reader, &here, key, &part->group->order[i++]));
  }
  qsort(part->group->order, part->group->n, sizeof *part->group->order, compare_numbers);
  return BANYAN_OK;
}

/* Tells the reader where each vertex of the order stands. */
static enum banyan_status place_vertices(const struct part *part) {
  for (uint32_t i = 0; i < part->group->n; i++) {
    uint32_t *position = &part->reader->position[part->group->order[i]];
    if (*position != nowhere) {
      struct by_place order = {.above = part->place, .field = "order"}, here = {.above = &order, .index = i};
      return by_doc_fail(&here, "vertex \"%.64s\" stands in it twice", name_at(part, i));
    }
    *position = i;
  }
  return BANYAN_OK;
}

static void forget_vertices(const struct part *part) {
  for (uint32_t i = 0; part->group->order && i < part->group->n; i++)
    part->reader->position[part->group->order[i]] = nowhere;
}

static enum banyan_status take_vertices(const struct part *part, enum by_group_kind kind) {
  struct by_plan *plan = part->reader->plan;
  struct by_place order_place = {.above = part->place, .field = "order"};
  const json_t *order = json_object_get(part->object, "order");
  json_t *root = NULL, *up = NULL;
  if (kind != BY_GROUP_EXCHANGE) {
    BY_TRY(by_doc_need(part->place, part->object, "root", &root));
    BY_TRY(by_doc_need(part->place, part->object, "up", &up));
  }
  if (order) BY_TRY(by_doc_array(&order_place, order, 1, plan->n_vertices));
  size_t n = order ? json_array_size(order) : kind == BY_GROUP_TREE ? 1 + json_object_size(up) : plan->n_ranks;
  /* A tree need not name its vertices, so that few bytes of text could stand for very many of them. */
  *part->reader->places += n;
  if (*part->reader->places > BY_PLAN_MOST_PLACES)
    return by_doc_fail(part->place, "more than %d vertices in all trees together", BY_PLAN_MOST_PLACES);
  BY_TRY(by_group_init(plan, part->group, kind, (uint32_t)n, json_object_get(part->object, "down") != NULL));
  if (order)
    BY_TRY(take_order(part, order));
  else if (kind == BY_GROUP_TREE)
    BY_TRY(take_members(part, root, up));
  return place_vertices(part);
}

/* {"child": "parent", ...} for every vertex but the root. */
static enum banyan_status take_parents(const struct part *part, const char *field, uint32_t *parent) {
  struct by_place place = {.above = part->place, .field = field};
  const struct by_group *group = part->group;
  json_t *map = json_object_get(part->object, field), *value;
  const char *key, *name;
  if (!json_is_object(map)) return by_doc_fields(&place, map, "");
  for (uint32_t i = 0; i < group->n; i++) parent[i] = nowhere;
  json_object_foreach(map, key, value) {
    struct by_place here = {.above = &place, .key = key};
    uint32_t child = 0;
    BY_TRY(find_position(part, &here, key, &child));
    if (child == group->root) return by_doc_fail(&here, "the root has no parent");
    BY_TRY(by_doc_string(&here, value, &name));
    BY_TRY(find_position(part, &here, name, &parent[child]));
  }
  parent[group->root] = group->root;
  for (uint32_t i = 0; i < group->n; i++)
    if (parent[i] == nowhere) return by_doc_fail(&place, "vertex \"%.64s\" has no parent", name_at(part, i));
  return BANYAN_OK;
}

static enum banyan_status take_ways(const struct part *part) {
  struct by_place place = {.above = part->place, .field = "root"};
  const char *name;
  BY_TRY(by_doc_string(&place, json_object_get(part->object, "root"), &name));
  BY_TRY(find_position(part, &place, name, &part->group->root));
  BY_TRY(take_parents(part, "up", part->group->up));
  struct by_group *group = part->group;
  if (group->down == group->up) return BANYAN_OK;
  BY_TRY(take_parents(part, "down", group->down));
  if (memcmp(group->up, group->down, group->n * sizeof *group->up) == 0) group->down = group->up;
  return BANYAN_OK;
}

static int compare_twigs(const void *a, const void *b) {
  return compare_numbers(&((const struct by_twig *)a)->child, &((const struct by_twig *)b)->child);
}

static enum banyan_status take_twigs(const struct part *part) {
  struct by_place place = {.above = part->place, .field = "twigs"};
  struct by_group *group = part->group;
  json_t *map = json_object_get(part->object, "twigs"), *value;
  const char *key;
  if (!map) return BANYAN_OK;
  if (!json_is_object(map)) return by_doc_fields(&place, map, "");
  group->twigs = BY_ARENA_ARRAY(&part->reader->plan->arena, struct by_twig, json_object_size(map));
  if (!group->twigs) return by_plan_no_memory();
  json_object_foreach(map, key, value) {
    struct by_place here = {.above = &place, .key = key};
    struct by_twig *twig = &group->twigs[group->n_twigs++];
    BY_TRY(by_plan_find_vertex(part->reader, &here, key, &twig->child));
    BY_TRY(take_vertex(part, &here, value, &twig->parent));
  }
  qsort(group->twigs, group->n_twigs, sizeof *group->twigs, compare_twigs);
  return BANYAN_OK;
}

/* One digit if none are given. */
static enum banyan_status take_radix(const struct part *part) {
  struct by_place place = {.above = part->place, .field = "radix"};
  const json_t *array = json_object_get(part->object, "radix");
  uint32_t radix[BY_PLAN_MOST_DIGITS];
  if (!array) return by_group_set_radix(part->reader->plan, part->group, &part->group->n, 1);
  BY_TRY(by_doc_array(&place, array, 0, BY_PLAN_MOST_DIGITS));
  size_t n = json_array_size(array);
  for (size_t i = 0; i < n; i++) {
    struct by_place here = {.above = &place, .index = i};
    uint64_t digit = 0;
    BY_TRY(by_doc_int(&here, json_array_get(array, i), 1, BY_PLAN_MOST_VERTICES, &digit));
    radix[i] = (uint32_t)digit;
  }
  return by_group_set_radix(part->reader->plan, part->group, radix, (uint32_t)n);
}

static enum banyan_status take_kind(const struct part *part, enum by_group_kind *out) {
  struct by_place place = {.above = part->place, .field = "kind"};
  const json_t *value = json_object_get(part->object, "kind");
  const char *name = by_group_kind_name(BY_GROUP_TREE);
  if (value) BY_TRY(by_doc_string(&place, value, &name));
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    if (strcmp(name, by_group_kind_name((enum by_group_kind)i)) != 0) continue;
    *out = (enum by_group_kind)i;
    return by_doc_fields(part->place, part->object, fields[i]);
  }
  return by_doc_fail(&place, "is \"%.64s\", must be tree, rotated or exchange", name);
}

static enum banyan_status take_numbers(const struct part *part) {
  struct by_place place = {.above = part->place, .field = "share"};
  json_t *share;
  const json_t *rate = json_object_get(part->object, "rate"), *height = json_object_get(part->object, "height");
  uint64_t ignored;
  BY_TRY(by_doc_need(part->place, part->object, "share", &share));
  BY_TRY(by_doc_real(&place, share, &part->group->share));
  place.field = "rate";
  if (rate) BY_TRY(by_doc_rate(&place, rate, &part->group->rate));
  place.field = "height";
  return height ? by_doc_int(&place, height, 0, BY_PLAN_MOST_VERTICES, &ignored) : BANYAN_OK;
}

static enum banyan_status take_all(const struct part *part) {
  enum by_group_kind kind = BY_GROUP_TREE;
  if (!json_is_object(part->object)) return by_doc_fields(part->place, part->object, "");
  BY_TRY(take_kind(part, &kind));
  BY_TRY(take_vertices(part, kind));
  BY_TRY(take_numbers(part));
  BY_TRY(take_twigs(part));
  BY_TRY(by_plan_read_ports(part->reader, part->place, part->object, part->group));
  if (kind != BY_GROUP_TREE) BY_TRY(take_radix(part));
  return kind == BY_GROUP_EXCHANGE ? BANYAN_OK : take_ways(part);
}

enum banyan_status by_plan_read_group(const struct by_plan_reader *reader, const struct by_place *place,
                                      const json_t *value, struct by_group *group) {
  struct part part = {.reader = reader, .place = place, .object = value, .group = group};
  BY_TRY(take_all(&part)); /* a failure ends the reading, and what stands in the order may be no vertex then */
  forget_vertices(&part);
  return BANYAN_OK;
}
