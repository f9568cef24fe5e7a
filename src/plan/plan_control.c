/* Checks, copies, expands, reads and prints the control tree of a plan. */
#include "plan_make.h"

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "json_doc.h"

#define bad(...) by_fail(BANYAN_ERR_PLAN, __VA_ARGS__)

/* --- Parents. --- */

void by_plan_control_parents(const struct by_plan_control *control, uint32_t n, bool ring, uint32_t *up,
                             uint32_t *down) {
  const uint32_t *order = control->ring;
  for (uint32_t i = 0; i < n && ring; i++) { /* The last rank of the ring is the root. */
    up[order[i]] = order[i + 1 < n ? i + 1 : i];
    down[order[i]] = order[i + 1 == n ? i : (i + n - 1) % n];
  }
  if (ring) return;
  memcpy(up, control->parent, n * sizeof *up);
  memcpy(down, control->parent, n * sizeof *down);
}

/* --- Validation. --- */

/* Checks that every path along parents ends at the same rank, which is its own parent. `state`: 0 not seen, 1 on the
 * path, 2 good. */
static enum banyan_status check_tree(const struct by_plan *plan, uint8_t *state) {
  const uint32_t *parent = plan->control.parent;
  uint32_t roots = 0;
  for (uint32_t r = 0; r < plan->n_ranks; r++) {
    if (parent[r] >= plan->n_ranks) return bad("the parent of \"%.64s\" is no rank", plan->vertices[r].name);
    roots += parent[r] == r;
    if (parent[r] == r) state[r] = 2;
  }
  if (roots != 1) return bad("the tree has %u roots, must be one", roots);
  for (uint32_t r = 0; r < plan->n_ranks; r++) {
    uint32_t u = r;
    for (; state[u] != 2; u = parent[u]) {
      if (state[u] == 1) return bad("rank \"%.64s\" lies on a cycle", plan->vertices[u].name);
      state[u] = 1;
    }
    for (u = r; state[u] != 2; u = parent[u]) state[u] = 2;
  }
  return BANYAN_OK;
}

static enum banyan_status check_ring(const struct by_plan *plan, uint8_t *seen) {
  const uint32_t *ring = plan->control.ring;
  memset(seen, 0, plan->n_ranks);
  for (uint32_t i = 0; i < plan->n_ranks; i++) {
    if (ring[i] >= plan->n_ranks) return bad("the ring's vertex number %u is no rank", i);
    if (seen[ring[i]]) return bad("rank \"%.64s\" is twice on the ring", plan->vertices[ring[i]].name);
    seen[ring[i]] = 1;
  }
  return BANYAN_OK;
}

enum banyan_status by_plan_control_check(const struct by_plan *plan) {
  const struct by_plan_control *control = &plan->control;
  if (!control->parent)
    return control->ring || control->use_ring ? bad("control: a ring is given, but no tree") : BANYAN_OK;
  if (control->use_ring && !control->ring) return bad("control: the ring is to be used, but none is given");
  if (control->fan_out < 1) return bad("control: the fan-out must be 1 or more");
  uint8_t *state = calloc(plan->n_ranks, 1);
  if (!state) return by_plan_no_memory();
  enum banyan_status status = check_tree(plan, state);
  if (status == BANYAN_OK && control->ring) status = check_ring(plan, state);
  free(state);
  return status == BANYAN_OK ? BANYAN_OK : by_fail_within(status, "control");
}

/* --- Copies. --- */

/* Allocates the tree, and a ring if `from` has one; the rest is copied from `from`. */
static enum banyan_status init_like(struct by_plan *plan, const struct by_plan_control *from) {
  plan->control = *from;
  plan->control.parent = BY_ARENA_ARRAY(&plan->arena, uint32_t, plan->n_ranks);
  if (from->ring) plan->control.ring = BY_ARENA_ARRAY(&plan->arena, uint32_t, plan->n_ranks);
  return plan->control.parent && (!from->ring || plan->control.ring) ? BANYAN_OK : by_plan_no_memory();
}

static uint32_t get_new_rank(const uint32_t *order, uint32_t rank) {
  return order ? order[rank] : rank;
}

enum banyan_status by_plan_control_copy(struct by_plan *plan, const struct by_plan_control *from,
                                        const uint32_t *order) {
  if (!from->parent) return BANYAN_OK;
  BY_TRY(init_like(plan, from));
  for (uint32_t r = 0; r < plan->n_ranks; r++)
    plan->control.parent[get_new_rank(order, r)] = get_new_rank(order, from->parent[r]);
  for (uint32_t i = 0; i < plan->n_ranks && from->ring; i++) plan->control.ring[i] = get_new_rank(order, from->ring[i]);
  return BANYAN_OK;
}

enum banyan_status by_plan_set_control(struct by_plan *plan, const struct by_plan_control *control) {
  BY_TRY(by_plan_control_copy(plan, control, NULL));
  BY_TRY(by_plan_control_check(plan));
  plan->version = by_plan_hash(plan);
  return BANYAN_OK;
}

/* --- From hosts to ranks. --- */

/* The state of an expansion of a tree over hosts. */
struct expansion {
  const struct by_plan_host_ranks *hosts;
  uint32_t fan_out;
  uint32_t *children; /* for each rank: its children so far */
  uint32_t *expected; /* for each host: its children in the tree over hosts */
  uint32_t *parent;
};

static uint32_t get_rank(const struct expansion *e, uint32_t host, uint32_t i) {
  return e->hosts->rank[e->hosts->start[host] + i];
}

static uint32_t count_ranks(const struct expansion *e, uint32_t host) {
  return e->hosts->start[host + 1] - e->hosts->start[host];
}

static void attach_rank(const struct expansion *e, uint32_t rank, uint32_t parent) {
  e->parent[rank] = parent;
  e->children[parent]++;
}

/* Returns how many children on other hosts the first rank has: it keeps one slot free if its host has other ranks. */
static uint32_t count_first_children(const struct expansion *e, uint32_t host) {
  uint32_t max = count_ranks(e, host) > 1 ? e->fan_out - 1 : e->fan_out;
  return MIN(e->expected[host], max);
}

/* Attaches the other ranks of a host, level by level. */
static void attach_others(const struct expansion *e, uint32_t host) {
  uint32_t at = 0, free_slots = e->fan_out - count_first_children(e, host);
  for (uint32_t i = 1; i < count_ranks(e, host); i++) {
    while (e->children[get_rank(e, host, at)] >= free_slots) {
      at++;
      free_slots = e->fan_out;
    }
    attach_rank(e, get_rank(e, host, i), get_rank(e, host, at));
  }
}

/* Finds the rank of a host to which a child on another host is attached: the first with a free slot; if there is none,
 * the last. The first rank's slots for other hosts are separate. */
static uint32_t find_free_parent(const struct expansion *e, uint32_t host) {
  uint32_t i = 0, n = count_ranks(e, host);
  while (i + 1 < n && e->children[get_rank(e, host, i)] >= e->fan_out) i++;
  return get_rank(e, host, i);
}

static void expand_tree(const struct expansion *e, const uint32_t *parent_of_host) {
  uint32_t hosts = e->hosts->n_hosts;
  for (uint32_t h = 0; h < hosts; h++)
    if (parent_of_host[h] != h) e->expected[parent_of_host[h]]++;
  for (uint32_t h = 0; h < hosts; h++) attach_others(e, h);
  for (uint32_t h = 0; h < hosts; h++) {
    uint32_t first = get_rank(e, h, 0), above = parent_of_host[h];
    if (above == h)
      e->parent[first] = first;
    else
      attach_rank(e, first, find_free_parent(e, above));
  }
}

enum banyan_status by_plan_control_hang(const struct by_plan_host_ranks *hosts, uint32_t fan_out,
                                        const uint32_t *parent_of_host, uint32_t *parent) {
  uint32_t *scratch = calloc((size_t)hosts->n_ranks + hosts->n_hosts, sizeof *scratch);
  if (!scratch) return by_plan_no_memory();
  const struct expansion e = {
      .hosts = hosts, .fan_out = fan_out, .children = scratch, .expected = scratch + hosts->n_ranks, .parent = parent};
  expand_tree(&e, parent_of_host);
  free(scratch);
  return BANYAN_OK;
}

enum banyan_status by_plan_control_expand(struct by_plan *plan, const struct by_plan_control *over_hosts,
                                          const struct by_plan_host_ranks *hosts) {
  if (!over_hosts->parent) return BANYAN_OK;
  BY_TRY(init_like(plan, over_hosts));
  BY_TRY(by_plan_control_hang(hosts, over_hosts->fan_out, over_hosts->parent, plan->control.parent));
  if (hosts->n_ranks > hosts->n_hosts) plan->control.use_ring = false;
  uint32_t n = 0;
  for (uint32_t i = 0; i < hosts->n_hosts && over_hosts->ring; i++)
    for (uint32_t k = hosts->start[over_hosts->ring[i]]; k < hosts->start[over_hosts->ring[i] + 1]; k++)
      plan->control.ring[n++] = hosts->rank[k];
  return BANYAN_OK;
}

/* --- JSON. --- */

static enum banyan_status find_rank(const struct by_plan *plan, const struct by_doc_path *place, const char *name,
                                    const json_t *vertex_of, uint32_t *out) {
  const json_t *vertex = json_object_get(vertex_of, name);
  uint32_t rank = vertex ? (uint32_t)json_integer_value(vertex) : plan->n_ranks;
  if (rank >= plan->n_ranks) return by_doc_fail(place, "there is no rank \"%.64s\"", name);
  *out = rank;
  return BANYAN_OK;
}

static enum banyan_status read_rank(const struct by_plan *plan, const struct by_doc_path *place, const json_t *value,
                                    const json_t *vertex_of, uint32_t *out) {
  const char *name;
  BY_TRY(by_doc_string(place, value, &name));
  return find_rank(plan, place, name, vertex_of, out);
}

static enum banyan_status read_tree(struct by_plan *plan, const struct by_doc_path *around, const json_t *control,
                                    const json_t *vertex_of) {
  struct by_doc_path place = {.above = around, .field = "root"};
  uint32_t root = 0, child = 0, *parent = BY_ARENA_ARRAY(&plan->arena, uint32_t, plan->n_ranks);
  json_t *map, *value;
  const char *key;
  if (!parent) return by_plan_no_memory();
  BY_TRY(by_doc_need_like(around, control, "root", "\"0\"", &value));
  BY_TRY(read_rank(plan, &place, value, vertex_of, &root));
  BY_TRY(by_doc_need_like(around, control, "parent", "{\"1\": \"0\", ...}", &map));
  place.field = "parent";
  if (!json_is_object(map)) return by_doc_fields(&place, map, "");
  if (json_object_size(map) != plan->n_ranks - 1)
    return by_doc_fail(&place, "has %zu ranks, must have all %u but the root", json_object_size(map), plan->n_ranks);
  parent[root] = root;
  json_object_foreach(map, key, value) {
    struct by_doc_path here = {.above = &place, .key = key};
    BY_TRY(find_rank(plan, &here, key, vertex_of, &child));
    if (child == root) return by_doc_fail(&here, "the root has no parent");
    BY_TRY(read_rank(plan, &here, value, vertex_of, &parent[child]));
  }
  plan->control.parent = parent;
  return BANYAN_OK;
}

static enum banyan_status read_ring(struct by_plan *plan, const struct by_doc_path *around, const json_t *control,
                                    const json_t *vertex_of) {
  struct by_doc_path place = {.above = around, .field = "ring"};
  const json_t *array = json_object_get(control, "ring");
  if (!array) return BANYAN_OK;
  BY_TRY(by_doc_array(&place, array, plan->n_ranks, plan->n_ranks));
  plan->control.ring = BY_ARENA_ARRAY(&plan->arena, uint32_t, plan->n_ranks);
  if (!plan->control.ring) return by_plan_no_memory();
  for (uint32_t i = 0; i < plan->n_ranks; i++) {
    struct by_doc_path here = {.above = &place, .index = i};
    BY_TRY(read_rank(plan, &here, json_array_get(array, i), vertex_of, &plan->control.ring[i]));
  }
  return BANYAN_OK;
}

enum banyan_status by_plan_control_read(struct by_plan *plan, const struct by_doc_path *around, json_t *control,
                                        const json_t *vertex_of) {
  struct by_doc_path place = {.above = around, .field = "control"}, use = {.above = &place, .field = "use"};
  json_t *value;
  const char *name;
  uint64_t fan_out;
  BY_TRY(by_doc_fields(&place, control, "use, fan_out, root, parent, ring"));
  BY_TRY(by_doc_need_like(&place, control, "use", "\"tree\"", &value));
  BY_TRY(by_doc_string(&use, value, &name));
  if (strcmp(name, "tree") != 0 && strcmp(name, "ring") != 0)
    return by_doc_fail(&use, "is \"%.64s\", must be tree or ring", name);
  plan->control.use_ring = strcmp(name, "ring") == 0;
  BY_TRY(by_doc_need_like(&place, control, "fan_out", "2", &value));
  BY_TRY(
      by_doc_int(&(struct by_doc_path){.above = &place, .field = "fan_out"}, value, 1, BY_PLAN_MAX_VERTICES, &fan_out));
  plan->control.fan_out = (uint32_t)fan_out;
  BY_TRY(read_tree(plan, &place, control, vertex_of));
  return read_ring(plan, &place, control, vertex_of);
}

void by_plan_control_print(const struct by_plan *plan, struct by_text *text) {
  const struct by_plan_control *control = &plan->control;
  const char *between = "";
  uint32_t root = 0;
  if (!control->parent) return;
  while (control->parent[root] != root) root++;
  by_text_add(text, ", \"control\": {\"use\": \"%s\", \"fan_out\": %u, \"root\": ", control->use_ring ? "ring" : "tree",
              control->fan_out);
  by_json_add_string(text, plan->vertices[root].name);
  by_text_add(text, ", \"parent\": {");
  for (uint32_t r = 0; r < plan->n_ranks; r++) {
    if (r == root) continue;
    by_text_add(text, "%s", between);
    by_json_add_string(text, plan->vertices[r].name);
    by_text_add(text, ": ");
    by_json_add_string(text, plan->vertices[control->parent[r]].name);
    between = ", ";
  }
  by_text_add(text, "}");
  for (uint32_t i = 0; i < plan->n_ranks && control->ring; i++) {
    by_text_add(text, i ? ", " : ", \"ring\": [");
    by_json_add_string(text, plan->vertices[control->ring[i]].name);
  }
  by_text_add(text, control->ring ? "]}" : "}");
}
