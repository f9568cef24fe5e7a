/* Prints plans as JSON, the reverse of plan_json.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_doc.h"
#include "plan.h"
#include "plan_make.h"
#include "text.h"

static void add_name(struct by_text *text, const struct by_plan *plan, uint32_t vertex) {
  by_json_add_string(text, plan->vertices[vertex].name);
}

static void add_names(struct by_text *text, const struct by_plan *plan, const char *field, const uint32_t *vertices,
                      uint32_t n) {
  by_text_add(text, ", \"%s\": [", field);
  for (uint32_t i = 0; i < n; i++) {
    by_text_add(text, i ? ", " : "");
    add_name(text, plan, vertices[i]);
  }
  by_text_add(text, "]");
}

/* Adds {"child": "parent", ...} without the root. */
static void add_parents(struct by_text *text, const struct by_plan *plan, const struct by_group *group,
                        const uint32_t *parent) {
  const char *between = "";
  by_text_add(text, "{");
  for (uint32_t i = 0; i < group->n; i++) {
    if (i == group->root) continue;
    by_text_add(text, "%s", between);
    add_name(text, plan, group->order[i]);
    by_text_add(text, ": ");
    add_name(text, plan, group->order[parent[i]]);
    between = ", ";
  }
  by_text_add(text, "}");
}

/* Adds [parent, ...] of all ranks by number, which takes a fifth of the bytes of names. */
static void add_numbered_parents(struct by_text *text, const struct by_group *group) {
  for (uint32_t i = 0; i < group->n; i++) by_text_add(text, "%s%u", i ? "," : "[", group->up[i]);
  by_text_add(text, "]");
}

static bool is_of_all_ranks(const struct by_plan *plan, const struct by_group *group) {
  bool all = group->kind == BY_GROUP_TREE && group->n == plan->n_ranks && group->up == group->down;
  for (uint32_t i = 0; all && i < group->n; i++) all = group->order[i] == i;
  return all;
}

/* Whether the order is the one that the reader assumes by default: all ranks, or a tree's vertices, ascending. */
static bool has_usual_order(const struct by_plan *plan, const struct by_group *group) {
  if (group->kind != BY_GROUP_TREE && group->n != plan->n_ranks) return false;
  for (uint32_t i = 0; i < group->n; i++) {
    if (group->kind != BY_GROUP_TREE && group->order[i] != i) return false;
    if (i > 0 && group->order[i] <= group->order[i - 1]) return false;
  }
  return true;
}

/* Whether the planner made the tree. Such trees have all fields, for readers that know no defaults. */
static bool is_planned(const struct by_group *group) {
  return group->kind == BY_GROUP_TREE && group->rate > 0;
}

/* Returns the largest number of hops from a leaf to the root. O(n * height) */
static uint32_t get_height(const struct by_group *group) {
  uint32_t height = 0;
  for (uint32_t u = 0; u < group->n; u++) {
    uint32_t hops = 0;
    for (uint32_t v = u; v != group->root; v = group->up[v]) hops++;
    if (hops > height) height = hops;
  }
  return height;
}

static void add_shape(struct by_text *text, const struct by_plan *plan, const struct by_group *group, bool numbered) {
  if (group->kind == BY_GROUP_EXCHANGE) return;
  by_text_add(text, ", \"root\": ");
  add_name(text, plan, group->order[group->root]);
  if (is_planned(group)) by_text_add(text, ", \"height\": %u", get_height(group));
  by_text_add(text, ", \"up\": ");
  if (numbered && is_of_all_ranks(plan, group)) {
    add_numbered_parents(text, group);
    return;
  }
  add_parents(text, plan, group, group->up);
  if (!is_planned(group) && memcmp(group->up, group->down, group->n * sizeof *group->up) == 0) return;
  by_text_add(text, ", \"down\": ");
  add_parents(text, plan, group, group->down);
}

/* Adds {"switch": {"neighbour": "interface", ...}, ...}. */
static void add_ports(struct by_text *text, const struct by_plan *plan, const struct by_group *group) {
  if (!group->n_ports) return;
  by_text_add(text, ", \"ports\": {");
  for (uint32_t i = 0; i < group->n_ports; i++) {
    const struct by_group_port *port = &group->ports[i];
    bool same = i > 0 && port->at == port[-1].at;
    by_text_add(text, same ? ", " : i ? "}, " : "");
    if (!same) {
      add_name(text, plan, port->at);
      by_text_add(text, ": {");
    }
    add_name(text, plan, port->towards);
    by_text_add(text, ": ");
    by_json_add_string(text, port->interface);
  }
  by_text_add(text, "}}");
}

static void add_fact(struct by_text *text, const char *field, double value) {
  if (!(value > 0)) return;
  by_text_add(text, ", \"%s\": ", field);
  by_json_add_real(text, value);
}

static void add_group(struct by_text *text, const struct by_plan *plan, const struct by_group *group, bool numbered) {
  by_text_add(text, "{\"kind\": \"%s\", \"share\": ", by_group_kind_name(group->kind));
  by_json_add_real(text, group->share);
  add_fact(text, "rate", group->rate);
  if (!has_usual_order(plan, group)) add_names(text, plan, "order", group->order, group->n);
  if (group->kind != BY_GROUP_TREE) {
    by_text_add(text, ", \"radix\": [");
    for (uint32_t i = 0; i < group->n_radix; i++) by_text_add(text, "%s%u", i ? ", " : "", group->radix[i]);
    by_text_add(text, "]");
  }
  add_shape(text, plan, group, numbered);
  for (uint32_t i = 0; i < group->n_twigs; i++) {
    by_text_add(text, i ? ", " : ", \"twigs\": {");
    add_name(text, plan, group->twigs[i].child);
    by_text_add(text, ": ");
    add_name(text, plan, group->twigs[i].parent);
    if (i + 1 == group->n_twigs) by_text_add(text, "}");
  }
  if (group->n_forwards) add_names(text, plan, "forwards", group->forwards, group->n_forwards);
  add_ports(text, plan, group);
  by_text_add(text, "}");
}

static void add_trees(struct by_text *text, const struct by_plan *plan, const struct by_class *class_) {
  by_text_add(text, "\"trees\": [");
  for (uint32_t i = 0; i < class_->n_groups; i++) {
    by_text_add(text, i ? ", " : "");
    add_group(text, plan, &class_->groups[i], class_->per_root);
  }
  by_text_add(text, "]");
}

static void add_own_class(struct by_text *text, const struct by_plan *plan, const struct by_class *class_) {
  const char *between = "";
  by_text_add(text, "{\"for\": [");
  for (enum banyan_collective c = 0; c < BANYAN_COLLECTIVES; c++) {
    if (!(class_->collectives >> c & 1)) continue;
    by_text_add(text, "%s\"%s\"", between, banyan_collective_name(c));
    between = ", ";
  }
  by_text_add(text, "]");
  if (class_->above) by_text_add(text, ", \"above\": %" PRIu64, class_->above);
  if (class_->per_root) by_text_add(text, ", \"per_root\": true");
  add_fact(text, "throughput", class_->throughput);
  add_fact(text, "bound", class_->bound);
  by_text_add(text, ", ");
  add_trees(text, plan, class_);
  by_text_add(text, "}");
}

static void add_rates(struct by_text *text, const struct by_plan_rates *rates) {
  const char *between = ", \"rates\": {";
  for (enum banyan_collective c = 0; c < BANYAN_COLLECTIVES; c++) {
    if (!(rates[c].bound > 0)) continue;
    by_text_add(text, "%s\"%s\": {\"bound\": ", between, banyan_collective_name(c));
    by_json_add_real(text, rates[c].bound);
    add_fact(text, "throughput", rates[c].throughput);
    by_text_add(text, "}");
    between = ", ";
  }
  if (between[2] != '"') by_text_add(text, "}");
}

static void add_vertices(struct by_text *text, const struct by_plan *plan) {
  const char *between = ", \"vertices\": {";
  for (uint32_t i = 0; i < plan->n_vertices; i++) {
    const struct by_vertex *vertex = &plan->vertices[i];
    char number[16];
    snprintf(number, sizeof number, "%u", vertex->rank);
    if (vertex->kind == BY_VERTEX_RANK && strcmp(vertex->name, number) == 0) continue; /* Such a rank needs no entry. */
    by_text_add(text, "%s", between);
    by_json_add_string(text, vertex->name);
    by_text_add(text, ": {\"kind\": \"%s\"", by_vertex_kind_name(vertex->kind));
    if (vertex->kind == BY_VERTEX_RANK) by_text_add(text, ", \"rank\": %u", vertex->rank);
    by_text_add(text, "}");
    between = ", ";
  }
  if (between[2] != '"') by_text_add(text, "}");
}

void by_plan_print(const struct by_plan *plan, struct by_text *text) {
  by_text_add(text, "{\"format\": \"banyan-plan 1\", \"name\": ");
  by_json_add_string(text, plan->name);
  by_text_add(text, ", \"ranks\": %u", plan->n_ranks);
  add_vertices(text, plan);
  if (plan->chunk) by_text_add(text, ", \"chunk\": %zu", plan->chunk);
  add_fact(text, "throughput", plan->facts.throughput);
  add_fact(text, "bound", plan->facts.bound);
  add_fact(text, "ratio", plan->facts.ratio);
  add_fact(text, "seconds", plan->facts.seconds);
  add_rates(text, plan->facts.others);
  by_plan_control_print(plan, text);
  /* The trees of the last class are members of the plan itself, like those of a plan with one class. */
  for (uint32_t i = 0; i + 1 < plan->n_classes; i++) {
    by_text_add(text, "%s{\"up_to\": %" PRIu64 ", ", i ? ", " : ", \"classes\": [", plan->classes[i].up_to);
    add_trees(text, plan, &plan->classes[i]);
    by_text_add(text, i + 2 < plan->n_classes ? "}" : "}]");
  }
  by_text_add(text, ", ");
  add_trees(text, plan, &plan->classes[plan->n_classes - 1]);
  for (uint32_t i = 0; i < plan->n_own; i++) {
    by_text_add(text, i ? ", " : ", \"collectives\": [");
    add_own_class(text, plan, &plan->classes[plan->n_classes + i]);
    by_text_add(text, i + 1 < plan->n_own ? "" : "]");
  }
  by_text_add(text, "}");
}
