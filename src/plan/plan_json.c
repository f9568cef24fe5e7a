/* Reads plans from JSON; docs/plan-format.md describes the format. Errors in the text are found here and reported with
 * their position in the document; errors of the plan are found by by_plan_validate. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "json_doc.h"
#include "plan.h"
#include "plan_make.h"
#include "text.h"

struct reader {
  struct by_plan *plan; /* the plan, which has its vertices */
  json_t *vertex_of;    /* maps names to vertices */
  uint32_t *position;   /* the position of each vertex in the tree that is being read; UINT32_MAX between trees */
  uint64_t n_positions; /* the number of vertices of all trees so far */
  const struct by_group *twigs[64]; /* the last groups whose twigs differ from those of all groups before */
  uint32_t n_twigs;                 /* the number of such groups so far */
};

static enum banyan_status find_vertex(const struct reader *reader, const struct by_doc_path *place, const char *name,
                                      uint32_t *out) {
  const json_t *vertex = json_object_get(reader->vertex_of, name);
  if (!vertex) return by_doc_fail(place, "there is no vertex \"%.64s\"", name);
  *out = (uint32_t)json_integer_value(vertex);
  return BANYAN_OK;
}

static enum banyan_status take_forwards(const struct reader *reader, const struct by_doc_path *around,
                                        const json_t *array, struct by_group *group) {
  struct by_doc_path place = {.above = around, .field = "forwards"};
  BY_TRY(by_doc_array(&place, array, 0, BY_PLAN_MAX_VERTICES));
  size_t n = json_array_size(array);
  group->forwards = BY_ARENA_ARRAY(&reader->plan->arena, uint32_t, n);
  if (!group->forwards) return by_plan_no_memory();
  for (size_t i = 0; i < n; i++) {
    struct by_doc_path here = {.above = &place, .index = i};
    const char *name;
    BY_TRY(by_doc_string(&here, json_array_get(array, i), &name));
    BY_TRY(find_vertex(reader, &here, name, &group->forwards[group->n_forwards++]));
  }
  return BANYAN_OK;
}

/* Reads {"switch": {"neighbour": "interface", ...}, ...}. */
static enum banyan_status take_ports(const struct reader *reader, const struct by_doc_path *around, json_t *switches,
                                     struct by_group *group) {
  struct by_doc_path place = {.above = around, .field = "ports"};
  const char *key, *neighbour;
  json_t *map, *value;
  size_t n = 0;
  if (!json_is_object(switches)) return by_doc_fields(&place, switches, "");
  json_object_foreach(switches, key, map) n += json_object_size(map);
  group->ports = BY_ARENA_ARRAY(&reader->plan->arena, struct by_group_port, n);
  if (!group->ports) return by_plan_no_memory();
  json_object_foreach(switches, key, map) {
    struct by_doc_path here = {.above = &place, .key = key};
    uint32_t at = 0;
    if (!json_is_object(map)) return by_doc_fields(&here, map, "");
    BY_TRY(find_vertex(reader, &here, key, &at));
    json_object_foreach(map, neighbour, value) {
      struct by_doc_path there = {.above = &here, .key = neighbour};
      struct by_group_port *port = &group->ports[group->n_ports++];
      port->at = at;
      BY_TRY(find_vertex(reader, &there, neighbour, &port->towards));
      BY_TRY(by_doc_string(&there, value, &port->interface));
      port->interface = by_arena_string(&reader->plan->arena, port->interface);
      if (!port->interface) return by_plan_no_memory();
    }
  }
  return BANYAN_OK;
}

/* Reads a field of an object if it is there. */
static enum banyan_status
take_real(const struct by_doc_path *around, const json_t *object, const char *field,
          enum banyan_status (*take)(const struct by_doc_path *place, const json_t *value, double *out), double *out) {
  const json_t *value = json_object_get(object, field);
  return value ? take(&(struct by_doc_path){.above = around, .field = field}, value, out) : BANYAN_OK;
}

static const uint32_t nowhere = UINT32_MAX;

/* the fields of each kind of group */
static const char *const fields[] = {
    "kind, share, order, root, up, down, twigs, forwards, ports, rate, height",
    "kind, share, order, radix, root, up, down, twigs, rate, height",
    "kind, share, order, radix, twigs, rate, height",
};

/* A group that is being read. */
struct part {
  struct reader *reader;
  const struct by_doc_path *place;
  const json_t *object;
  struct by_group *group;
};

static const char *get_name_at(const struct part *part, uint32_t position) {
  return part->reader->plan->vertices[part->group->order[position]].name;
}

static enum banyan_status take_vertex(const struct part *part, const struct by_doc_path *place, const json_t *value,
                                      uint32_t *out) {
  const char *name;
  BY_TRY(by_doc_string(place, value, &name));
  return find_vertex(part->reader, place, name, out);
}

static enum banyan_status find_position(const struct part *part, const struct by_doc_path *place, const char *name,
                                        uint32_t *out) {
  uint32_t vertex = 0;
  BY_TRY(find_vertex(part->reader, place, name, &vertex));
  *out = part->reader->position[vertex];
  return *out != nowhere ? BANYAN_OK : by_doc_fail(place, "vertex \"%.64s\" is not in this tree", name);
}

/* Lists the vertices of a tree without an order: its root and the keys of "up", ascending. */
static enum banyan_status take_members(const struct part *part, const json_t *root, const json_t *up) {
  struct by_doc_path root_place = {.above = part->place, .field = "root"},
                     up_place = {.above = part->place, .field = "up"};
  const char *key;
  json_t *value;
  uint32_t i = 1;
  BY_TRY(take_vertex(part, &root_place, root, &part->group->order[0]));
  json_object_foreach((json_t *)up, key, value) {
    struct by_doc_path here = {.above = &up_place, .key = key};
    if (strcmp(key, json_string_value(root)) == 0) return by_doc_fail(&here, "the root has no parent");
    BY_TRY(find_vertex(part->reader, &here, key, &part->group->order[i++]));
  }
  qsort(part->group->order, part->group->n, sizeof *part->group->order, by_compare_numbers);
  return BANYAN_OK;
}

static enum banyan_status take_vertices(const struct part *part, enum by_group_kind kind) {
  struct by_plan *plan = part->reader->plan;
  struct by_doc_path order_place = {.above = part->place, .field = "order"};
  const json_t *order = json_object_get(part->object, "order");
  json_t *root = NULL, *up = NULL;
  if (kind != BY_GROUP_EXCHANGE) {
    BY_TRY(by_doc_need_like(part->place, part->object, "root", "\"0\"", &root));
    BY_TRY(by_doc_need_like(part->place, part->object, "up", "{\"1\": \"0\", ...}", &up));
  }
  if (order) BY_TRY(by_doc_array(&order_place, order, 1, plan->n_vertices));
  bool named = kind == BY_GROUP_TREE && !json_is_array(up); /* The members of "up" name the vertices. */
  size_t n = order ? json_array_size(order) : named ? 1 + json_object_size(up) : plan->n_ranks;
  /* A tree need not name its vertices, so a short text could describe very many of them. */
  part->reader->n_positions += n;
  if (part->reader->n_positions > BY_PLAN_MAX_POSITIONS)
    return by_doc_fail(part->place, "more than %d vertices in all trees together", BY_PLAN_MAX_POSITIONS);
  BY_TRY(by_group_init(plan, part->group, kind, (uint32_t)n, json_object_get(part->object, "down") != NULL));
  if (order) {
    for (uint32_t i = 0; i < n; i++) {
      struct by_doc_path here = {.above = &order_place, .index = i};
      BY_TRY(take_vertex(part, &here, json_array_get(order, i), &part->group->order[i]));
    }
  } else if (named) {
    BY_TRY(take_members(part, root, up));
  }
  for (uint32_t i = 0; i < part->group->n; i++) {
    uint32_t *position = &part->reader->position[part->group->order[i]];
    if (*position != nowhere)
      return by_doc_fail(&(struct by_doc_path){.above = &order_place, .index = i}, "vertex \"%.64s\" is listed twice",
                         get_name_at(part, i));
    *position = i;
  }
  return BANYAN_OK;
}

/* Reads [parent, ...] of all ranks, by their numbers; the root is its own parent. */
static enum banyan_status take_numbered_parents(const struct part *part, const struct by_doc_path *place,
                                                const json_t *array, uint32_t *parent) {
  const struct by_group *group = part->group;
  if (json_object_get(part->object, "order")) return by_doc_fail(place, "is by rank, and there is an order as well");
  BY_TRY(by_doc_array(place, array, group->n, group->n));
  for (uint32_t i = 0; i < group->n; i++) {
    struct by_doc_path here = {.above = place, .index = i};
    uint64_t rank = 0;
    BY_TRY(by_doc_int(&here, json_array_get(array, i), 0, group->n - 1, &rank));
    parent[i] = (uint32_t)rank;
  }
  if (parent[group->root] == group->root) return BANYAN_OK;
  return by_doc_fail(&(struct by_doc_path){.above = place, .index = group->root}, "the root has no parent but itself");
}

/* Reads {"child": "parent", ...} for every vertex but the root. */
static enum banyan_status take_parents(const struct part *part, const char *field, uint32_t *parent) {
  struct by_doc_path place = {.above = part->place, .field = field};
  const struct by_group *group = part->group;
  json_t *map = json_object_get(part->object, field), *value;
  const char *key, *name;
  if (json_is_array(map)) return take_numbered_parents(part, &place, map, parent);
  if (!json_is_object(map)) return by_doc_fields(&place, map, "");
  for (uint32_t i = 0; i < group->n; i++) parent[i] = nowhere;
  json_object_foreach(map, key, value) {
    struct by_doc_path here = {.above = &place, .key = key};
    uint32_t child = 0;
    BY_TRY(find_position(part, &here, key, &child));
    if (child == group->root) return by_doc_fail(&here, "the root has no parent");
    BY_TRY(by_doc_string(&here, value, &name));
    BY_TRY(find_position(part, &here, name, &parent[child]));
  }
  parent[group->root] = group->root;
  for (uint32_t i = 0; i < group->n; i++)
    if (parent[i] == nowhere) return by_doc_fail(&place, "vertex \"%.64s\" has no parent", get_name_at(part, i));
  return BANYAN_OK;
}

static enum banyan_status take_tree(const struct part *part) {
  struct by_doc_path place = {.above = part->place, .field = "root"};
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

/* Stores twigs. With several ranks on a host many groups have equal twigs, which are most of a large plan, so groups
 * share them. */
static enum banyan_status share_twigs(struct reader *reader, const struct by_twig *twigs, struct by_group *group) {
  size_t bytes = group->n_twigs * sizeof *twigs;
  uint32_t n = sizeof reader->twigs / sizeof *reader->twigs;
  for (uint32_t i = 0; i < n && i < reader->n_twigs; i++)
    if (reader->twigs[i]->n_twigs == group->n_twigs && memcmp(reader->twigs[i]->twigs, twigs, bytes) == 0) {
      group->twigs = reader->twigs[i]->twigs;
      return BANYAN_OK;
    }
  group->twigs = BY_ARENA_ARRAY(&reader->plan->arena, struct by_twig, group->n_twigs);
  if (!group->twigs) return by_plan_no_memory();
  if (bytes) memcpy(group->twigs, twigs, bytes);
  reader->twigs[reader->n_twigs++ % n] = group;
  return BANYAN_OK;
}

static enum banyan_status take_twigs(const struct part *part) {
  struct by_doc_path place = {.above = part->place, .field = "twigs"};
  struct by_group *group = part->group;
  json_t *map = json_object_get(part->object, "twigs"), *value;
  const char *key;
  if (!map) return BANYAN_OK;
  if (!json_is_object(map)) return by_doc_fields(&place, map, "");
  struct by_twig *twigs = calloc(json_object_size(map) + 1, sizeof *twigs);
  enum banyan_status status = twigs ? BANYAN_OK : by_plan_no_memory();
  json_object_foreach(map, key, value) {
    struct by_doc_path here = {.above = &place, .key = key};
    struct by_twig *twig = &twigs[group->n_twigs++];
    if (status == BANYAN_OK) status = find_vertex(part->reader, &here, key, &twig->child);
    if (status == BANYAN_OK) status = take_vertex(part, &here, value, &twig->parent);
    if (status != BANYAN_OK) break;
  }
  if (status == BANYAN_OK) {
    qsort(twigs, group->n_twigs, sizeof *twigs, by_compare_numbers);
    status = share_twigs(part->reader, twigs, group);
  }
  free(twigs);
  return status;
}

/* Reads the radix; the default is one digit. */
static enum banyan_status take_radix(const struct part *part) {
  struct by_doc_path place = {.above = part->place, .field = "radix"};
  const json_t *array = json_object_get(part->object, "radix");
  uint32_t radix[BY_PLAN_MAX_DIGITS];
  if (!array) return by_group_set_radix(part->reader->plan, part->group, &part->group->n, 1);
  BY_TRY(by_doc_array(&place, array, 0, BY_PLAN_MAX_DIGITS));
  size_t n = json_array_size(array);
  for (size_t i = 0; i < n; i++) {
    struct by_doc_path here = {.above = &place, .index = i};
    uint64_t digit = 0;
    BY_TRY(by_doc_int(&here, json_array_get(array, i), 1, BY_PLAN_MAX_VERTICES, &digit));
    radix[i] = (uint32_t)digit;
  }
  return by_group_set_radix(part->reader->plan, part->group, radix, (uint32_t)n);
}

static enum banyan_status take_kind(const struct part *part, enum by_group_kind *out) {
  struct by_doc_path place = {.above = part->place, .field = "kind"};
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
  struct by_doc_path place = {.above = part->place, .field = "share"};
  json_t *share;
  const json_t *height = json_object_get(part->object, "height");
  uint64_t ignored;
  BY_TRY(by_doc_need_like(part->place, part->object, "share", "0.5", &share));
  BY_TRY(by_doc_real(&place, share, &part->group->share));
  BY_TRY(take_real(part->place, part->object, "rate", by_doc_rate, &part->group->rate));
  place.field = "height";
  return height ? by_doc_int(&place, height, 0, BY_PLAN_MAX_VERTICES, &ignored) : BANYAN_OK;
}

/* Reads an element of "trees" into `group`, which must be zeroed. A failure ends the reading. */
static enum banyan_status read_group(struct reader *reader, const struct by_doc_path *place, const json_t *value,
                                     struct by_group *group) {
  const struct part part = {.reader = reader, .place = place, .object = value, .group = group};
  enum by_group_kind kind = BY_GROUP_TREE;
  if (!json_is_object(value)) return by_doc_fields(place, value, "");
  BY_TRY(take_kind(&part, &kind));
  BY_TRY(take_vertices(&part, kind));
  BY_TRY(take_numbers(&part));
  BY_TRY(take_twigs(&part));
  const json_t *forwards = json_object_get(value, "forwards");
  json_t *ports = json_object_get(value, "ports");
  if (forwards) BY_TRY(take_forwards(reader, place, forwards, group));
  if (ports) BY_TRY(take_ports(reader, place, ports, group));
  by_group_sort_ports(group);
  if (kind != BY_GROUP_TREE) BY_TRY(take_radix(&part));
  if (kind != BY_GROUP_EXCHANGE) BY_TRY(take_tree(&part));
  for (uint32_t i = 0; i < group->n; i++) reader->position[group->order[i]] = nowhere;
  return BANYAN_OK;
}

/* This limits memory to less than 1 GiB; real plans need far less. */
static const struct by_doc_limits limits = {.bytes = 16 << 20, .containers = 200000, .elements = 4 << 20};

static const char document_fields[] =
    "format, name, ranks, vertices, chunk, trees, classes, collectives, throughput, bound, ratio, seconds, rates, "
    "control";

/* --- Vertices. --- */

static enum banyan_status take_vertex_kind(const struct by_doc_path *place, const json_t *value,
                                           enum by_vertex_kind *out) {
  const char *name;
  BY_TRY(by_doc_string(place, value, &name));
  for (enum by_vertex_kind kind = BY_VERTEX_RANK; by_vertex_kind_name(kind); kind++) {
    if (strcmp(name, by_vertex_kind_name(kind)) != 0) continue;
    *out = kind;
    return BANYAN_OK;
  }
  return by_doc_fail(place, "is \"%.64s\", must be rank, helper, switch or server", name);
}

/* Reads a member of "vertices": its kind and rank. */
static enum banyan_status take_member(const struct by_doc_path *place, const json_t *value, struct by_vertex *out) {
  struct by_doc_path here = {.above = place, .field = "kind"};
  json_t *field;
  uint64_t rank = UINT32_MAX;
  BY_TRY(by_doc_fields(place, value, "kind, rank"));
  BY_TRY(by_doc_need_like(place, value, "kind", "\"rank\"", &field));
  BY_TRY(take_vertex_kind(&here, field, &out->kind));
  here.field = "rank";
  if (out->kind == BY_VERTEX_RANK) {
    BY_TRY(by_doc_need_like(place, value, "rank", "0", &field));
    BY_TRY(by_doc_int(&here, field, 0, BY_PLAN_MAX_VERTICES - 1, &rank));
  } else if (json_object_get(value, "rank")) {
    return by_doc_fail(&here, "only a vertex of kind rank has one");
  }
  out->rank = (uint32_t)rank;
  return BANYAN_OK;
}

/* Names the ranks that are in "vertices", and adds the other vertices behind the ranks. */
static enum banyan_status name_members(struct by_plan *plan, const struct by_doc_path *place, json_t *members,
                                       bool *named) {
  uint32_t next = plan->n_ranks;
  const char *key;
  json_t *value;
  json_object_foreach(members, key, value) {
    struct by_doc_path here = {.above = place, .key = key};
    struct by_vertex vertex = {.name = by_arena_string(&plan->arena, key)};
    if (!vertex.name) return by_plan_no_memory();
    BY_TRY(take_member(&here, value, &vertex));
    uint32_t at = vertex.kind == BY_VERTEX_RANK ? vertex.rank : next++;
    if (vertex.kind == BY_VERTEX_RANK && at >= plan->n_ranks)
      return by_doc_fail(&here, "is rank %u, but there are %u ranks", at, plan->n_ranks);
    if (vertex.kind == BY_VERTEX_RANK && named[at])
      return by_doc_fail(&here, "is rank %u, and so is \"%.64s\"", at, plan->vertices[at].name);
    if (vertex.kind == BY_VERTEX_RANK) named[at] = true;
    plan->vertices[at] = vertex;
  }
  return BANYAN_OK;
}

static enum banyan_status fill_vertices(struct reader *reader, const struct by_doc_path *place, json_t *members) {
  struct by_plan *plan = reader->plan;
  bool *named = BY_ARENA_ARRAY(&plan->arena, bool, plan->n_ranks);
  reader->position = BY_ARENA_ARRAY(&plan->arena, uint32_t, plan->n_vertices);
  if (!named || !reader->position) return by_plan_no_memory();
  BY_TRY(name_members(plan, place, members, named));
  qsort(plan->vertices + plan->n_ranks, plan->n_vertices - plan->n_ranks, sizeof *plan->vertices, by_compare_vertices);
  for (uint32_t i = 0; i < plan->n_vertices; i++) {
    const char *name = plan->vertices[i].name;
    if (json_object_get(reader->vertex_of, name))
      return by_doc_fail(place, "\"%.64s\" is also the name of the rank of this number, which has no other", name);
    if (json_object_set_new(reader->vertex_of, name, json_integer(i)) != 0) return by_plan_no_memory();
    reader->position[i] = nowhere;
  }
  return BANYAN_OK;
}

/* Reads the vertices. "ranks" is the number of ranks, else "vertices" determines it; a rank that is not in "vertices"
 * is named by its number. */
static enum banyan_status take_plan_vertices(struct reader *reader, const struct by_doc_path *document, json_t *root) {
  struct by_doc_path place = {.above = document, .field = "vertices"};
  json_t *members = json_object_get(root, "vertices"), *ranks = json_object_get(root, "ranks");
  uint32_t named = 0, others = 0;
  const char *key;
  json_t *value;
  struct by_vertex vertex;
  if (members && !json_is_object(members)) return by_doc_fields(&place, members, "");
  json_object_foreach(members, key, value) {
    BY_TRY(take_member(&(struct by_doc_path){.above = &place, .key = key}, value, &vertex));
    ++*(vertex.kind == BY_VERTEX_RANK ? &named : &others);
  }
  uint64_t n = named;
  if (ranks)
    BY_TRY(by_doc_int(&(struct by_doc_path){.above = document, .field = "ranks"}, ranks, 1, BY_PLAN_MAX_VERTICES, &n));
  if (n < 1) return by_doc_fail(document, "the field \"ranks\" is missing: write \"ranks\": 4");
  if (n + others > BY_PLAN_MAX_VERTICES) return by_doc_fail(&place, "more than %d in all", BY_PLAN_MAX_VERTICES);
  BY_TRY(by_plan_add_vertices(reader->plan, (uint32_t)n, others));
  return fill_vertices(reader, &place, members);
}

/* --- Classes, rates and the head. --- */

static enum banyan_status take_trees(struct reader *reader, const struct by_doc_path *around, const json_t *object,
                                     struct by_class *class_) {
  struct by_doc_path place = {.above = around, .field = "trees"};
  json_t *trees;
  BY_TRY(by_doc_need_like(around, object, "trees", "[...]", &trees));
  BY_TRY(by_doc_array(&place, trees, 1, BY_PLAN_MAX_GROUPS));
  BY_TRY(by_plan_add_groups(reader->plan, class_, (uint32_t)json_array_size(trees)));
  for (uint32_t i = 0; i < class_->n_groups; i++) {
    struct by_doc_path here = {.above = &place, .index = i};
    BY_TRY(read_group(reader, &here, json_array_get(trees, i), &class_->groups[i]));
  }
  return BANYAN_OK;
}

static enum banyan_status take_class(struct reader *reader, const struct by_doc_path *place, const json_t *value,
                                     bool last, struct by_class *class_) {
  struct by_doc_path here = {.above = place, .field = "up_to"};
  BY_TRY(by_doc_fields(place, value, "up_to, trees"));
  json_t *up_to = json_object_get(value, "up_to");
  if (last && up_to) return by_doc_fail(&here, "the last class takes all larger buffers and has no limit");
  if (!last) {
    BY_TRY(by_doc_need_like(place, value, "up_to", "\"16K\"", &up_to));
    BY_TRY(by_doc_bytes(&here, up_to, INT64_MAX, &class_->up_to));
  }
  return take_trees(reader, place, value, class_);
}

static enum banyan_status find_collective(const struct by_doc_path *place, const char *name, uint32_t *out) {
  enum banyan_collective collective;
  if (banyan_collective_parse(name, &collective) != BANYAN_OK || !(BY_PLAN_OWN_COLLECTIVES >> collective & 1))
    return by_doc_fail(place, "is \"%.64s\", must be reduce, broadcast, reduce_scatter or allgather", name);
  *out = collective;
  return BANYAN_OK;
}

/* Reads the names in "for". */
static enum banyan_status take_collectives(const struct by_doc_path *place, const json_t *object, uint32_t *out) {
  struct by_doc_path here = {.above = place, .field = "for"};
  json_t *names;
  BY_TRY(by_doc_need_like(place, object, "for", "[\"broadcast\"]", &names));
  BY_TRY(by_doc_array(&here, names, 1, BANYAN_COLLECTIVES));
  for (size_t i = 0; i < json_array_size(names); i++) {
    struct by_doc_path item = {.above = &here, .index = i};
    uint32_t collective = 0;
    const char *name;
    BY_TRY(by_doc_string(&item, json_array_get(names, i), &name));
    BY_TRY(find_collective(&item, name, &collective));
    *out |= 1u << collective;
  }
  return BANYAN_OK;
}

static enum banyan_status take_own_class(struct reader *reader, const struct by_doc_path *place, const json_t *value,
                                         struct by_class *class_) {
  struct by_doc_path here = {.above = place, .field = "above"};
  BY_TRY(by_doc_fields(place, value, "for, above, per_root, throughput, bound, trees"));
  const json_t *above = json_object_get(value, "above"), *per_root = json_object_get(value, "per_root");
  BY_TRY(take_collectives(place, value, &class_->collectives));
  if (above) BY_TRY(by_doc_bytes(&here, above, INT64_MAX, &class_->above));
  here.field = "per_root";
  if (per_root) BY_TRY(by_doc_bool(&here, per_root, &class_->per_root));
  BY_TRY(take_real(place, value, "throughput", by_doc_rate, &class_->throughput));
  BY_TRY(take_real(place, value, "bound", by_doc_rate, &class_->bound));
  return take_trees(reader, place, value, class_);
}

/* Reads the size classes, "trees" (those of the last or only class), and "collectives". */
static enum banyan_status take_classes(struct reader *reader, const struct by_doc_path *document, const json_t *root) {
  struct by_doc_path place = {.above = document, .field = "classes"};
  const json_t *classes = json_object_get(root, "classes");
  bool trees = !classes || json_object_get(root, "trees");
  if (classes) BY_TRY(by_doc_array(&place, classes, 1, BY_PLAN_MAX_CLASSES - trees));
  struct by_doc_path own_place = {.above = document, .field = "collectives"};
  const json_t *own = json_object_get(root, "collectives");
  if (own) BY_TRY(by_doc_array(&own_place, own, 1, BY_PLAN_MAX_CLASSES));
  size_t listed = json_array_size(classes), n = listed + trees;
  BY_TRY(by_plan_add_classes(reader->plan, (uint32_t)n, (uint32_t)json_array_size(own)));
  for (size_t i = 0; i < json_array_size(own); i++) {
    struct by_doc_path here = {.above = &own_place, .index = i};
    BY_TRY(take_own_class(reader, &here, json_array_get(own, i), &reader->plan->classes[n + i]));
  }
  for (size_t i = 0; i < listed; i++) {
    struct by_doc_path here = {.above = &place, .index = i};
    BY_TRY(take_class(reader, &here, json_array_get(classes, i), i + 1 == n, &reader->plan->classes[i]));
  }
  return trees ? take_trees(reader, document, root, &reader->plan->classes[listed]) : BANYAN_OK;
}

/* Reads the rates of collectives without own classes. */
static enum banyan_status take_rates(const struct by_doc_path *document, const json_t *root,
                                     struct by_plan_rates *rates) {
  struct by_doc_path place = {.above = document, .field = "rates"};
  json_t *map = json_object_get(root, "rates"), *value;
  const char *key;
  if (!map) return BANYAN_OK;
  if (!json_is_object(map)) return by_doc_fields(&place, map, "");
  json_object_foreach(map, key, value) {
    struct by_doc_path here = {.above = &place, .key = key}, field = {.above = &here, .field = "bound"};
    uint32_t collective = 0;
    json_t *bound;
    BY_TRY(find_collective(&here, key, &collective));
    BY_TRY(by_doc_fields(&here, value, "throughput, bound"));
    BY_TRY(by_doc_need_like(&here, value, "bound", "\"10g\"", &bound));
    BY_TRY(by_doc_rate(&field, bound, &rates[collective].bound));
    BY_TRY(take_real(&here, value, "throughput", by_doc_rate, &rates[collective].throughput));
  }
  return BANYAN_OK;
}

static enum banyan_status take_head(struct by_plan *plan, const struct by_doc_path *document, const json_t *root) {
  struct by_doc_path place = {.above = document, .field = "format"};
  json_t *format, *name = json_object_get(root, "name"), *chunk = json_object_get(root, "chunk");
  const char *text;
  uint64_t bytes = 0;
  BY_TRY(by_doc_need_like(document, root, "format", "\"banyan-plan 1\"", &format));
  BY_TRY(by_doc_string(&place, format, &text));
  if (strcmp(text, "banyan-plan 1") != 0)
    return by_doc_fail(&place, "is \"%.64s\", this version reads \"banyan-plan 1\"", text);
  place.field = "name";
  if (name) {
    BY_TRY(by_doc_string(&place, name, &text));
    plan->name = by_arena_string(&plan->arena, text);
    if (!plan->name) return by_plan_no_memory();
  }
  place.field = "chunk";
  if (chunk) BY_TRY(by_doc_bytes(&place, chunk, BY_PLAN_MAX_CHUNK, &bytes));
  plan->chunk = (size_t)bytes;
  BY_TRY(take_real(document, root, "throughput", by_doc_rate, &plan->facts.throughput));
  BY_TRY(take_real(document, root, "bound", by_doc_rate, &plan->facts.bound));
  BY_TRY(take_real(document, root, "ratio", by_doc_real, &plan->facts.ratio));
  BY_TRY(take_real(document, root, "seconds", by_doc_real, &plan->facts.seconds));
  return take_rates(document, root, plan->facts.others);
}

static enum banyan_status take_plan(struct by_plan *plan, const struct by_doc_path *document, json_t *root) {
  const struct by_doc_path place = {.above = document, .field = "format"};
  const char *format = json_string_value(json_object_get(root, "format"));
  if (format && !strncmp(format, "banyan-topology ", strlen("banyan-topology ")))
    return by_doc_fail(
        &place, "is \"%.64s\", so this is a topology and no plan: give it to `banyan plan` or `banyan run --topology`",
        format);
  struct reader reader = {.plan = plan, .vertex_of = json_object()};
  enum banyan_status status = reader.vertex_of ? by_doc_fields(document, root, document_fields) : by_plan_no_memory();
  if (status == BANYAN_OK) status = take_head(plan, document, root);
  if (status == BANYAN_OK) status = take_plan_vertices(&reader, document, root);
  json_t *control = json_object_get(root, "control");
  if (status == BANYAN_OK && control) status = by_plan_control_read(plan, document, control, reader.vertex_of);
  if (status == BANYAN_OK) status = take_classes(&reader, document, root);
  json_decref(reader.vertex_of);
  return status;
}

/* --- The text. --- */

enum banyan_status by_plan_parse(const char *source, const char *text, size_t length, struct by_plan **out) {
  json_t *root;
  struct by_plan *plan;
  BY_TRY(by_doc_load(source, text, length, &limits, &root));
  enum banyan_status status = by_plan_create("plan", &plan);
  if (status == BANYAN_OK) {
    status = take_plan(plan, &(struct by_doc_path){.field = source}, root);
    bool read = status == BANYAN_OK;
    status = by_plan_end(plan, status, out);
    if (read && status != BANYAN_OK) (void)by_fail_within(status, "%s", source);
  }
  json_decref(root);
  return status;
}

enum banyan_status by_plan_read(const char *path, struct by_plan **out) {
  char *text;
  size_t length;
  BY_TRY(by_read_file("plan", path, limits.bytes, &text, &length));
  enum banyan_status status = by_plan_parse(path, text, length, out);
  free(text);
  return status;
}
