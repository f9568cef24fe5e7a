/* A placement for people and as JSON. */
#include <stdio.h>
#include <stdlib.h>

#include "json_doc.h"
#include "placement_parts.h"
#include "text.h"
#include "tree_draw.h"

struct subject {
  const struct by_topology *topology;
  const struct by_placement_job *job;
  const struct by_placed_tree *tree;
};

static const struct by_node *node_at(const struct subject *s, uint32_t v) {
  return &s->topology->nodes[s->tree->node[v]];
}

/* Bytes of cells that a switch that adds needs. */
static double cells_of(const struct by_placed_tree *tree) {
  return tree->rate * tree->round_trip / 8;
}

/* --- for people --- */

/* "leaf1 adds 4", "spine0 forwards 2", "h3". */
static void label_vertex(const void *owner, uint32_t v, char *out, size_t room) {
  const struct subject *s = owner;
  const struct by_placed_tree *tree = s->tree;
  if (!v)
    snprintf(out, room, "%s (server)", node_at(s, v)->name);
  else if (tree->adds[v])
    snprintf(out, room, "%s adds %u", node_at(s, v)->name, tree->workers[v]);
  else if (tree->out[v] > 1)
    snprintf(out, room, "%s forwards %u", node_at(s, v)->name, tree->out[v]);
  else
    snprintf(out, room, "%s", node_at(s, v)->name);
  by_trim_label(out, room);
}

static void draw_tree(const struct subject *s, uint32_t *scratch, struct by_text *text) {
  const struct by_placed_tree *tree = s->tree;
  struct by_tree_drawing drawing = {.n = tree->n, .parent = tree->parent, .label = label_vertex, .owner = s};
  char shown[32];
  uint32_t adding = 0;
  for (uint32_t v = 0; v < tree->n; v++) adding += tree->adds[v];
  by_text_add(text, "  tree to %s: %.3g %%, %s", node_at(s, 0)->name, 100 * tree->share,
              by_print_rate(tree->rate, shown));
  if (adding)
    by_text_add(text, ", %u switch%s with cells of %s", adding, adding == 1 ? " adds" : "es add",
                by_print_bytes((uint64_t)cells_of(tree), shown));
  by_text_add(text, "\n");
  drawing.child = scratch;
  drawing.sibling = scratch + tree->n;
  by_tree_draw(&drawing, "", text);
}

enum banyan_status by_placement_draw(const struct by_placement *placement, const struct by_topology *topology,
                                     const struct by_placement_job *job, struct by_text *text) {
  struct subject subject = {.topology = topology, .job = job};
  char shown[3][32];
  by_text_add(text, "in-network aggregation: %u workers, %s each; %s with no switch adding, %s at most\n",
              job->n_workers, by_print_rate(placement->rate * job->weight, shown[0]),
              by_print_rate(placement->without * job->weight, shown[1]),
              by_print_rate(placement->bound * job->weight, shown[2]));
  for (uint32_t t = 0; t < placement->n_trees; t++) {
    if (placement->trees[t].job) continue;
    uint32_t *scratch = calloc(2 * (size_t)placement->trees[t].n, sizeof *scratch);
    if (!scratch) return by_placement_no_memory();
    subject.tree = &placement->trees[t];
    draw_tree(&subject, scratch, text);
    free(scratch);
  }
  return BANYAN_OK;
}

/* --- JSON --- */

static void add_real(struct by_text *text, const char *key, double value) {
  by_text_add(text, ", \"%s\": ", key);
  by_json_add_real(text, value);
}

/* The port by which a node is left over a link: its name where it has one, and who is at the other end. */
static void add_port(const struct subject *s, const char *key, uint32_t node, uint32_t number, struct by_text *text) {
  const struct by_link *link = &s->topology->links[number];
  const char *port = link->port[link->a == node ? 0 : 1];
  by_text_add(text, ", \"%s\": {\"to\": ", key);
  by_json_add_string(text, s->topology->nodes[by_link_other(link, node)].name);
  if (*port) {
    by_text_add(text, ", \"name\": ");
    by_json_add_string(text, port);
  }
  by_text_add(text, "}");
}

static void add_hop(const struct subject *s, const struct by_placed_hop *hop, bool up, struct by_text *text) {
  by_text_add(text, "{\"switch\": ");
  by_json_add_string(text, s->topology->nodes[hop->node].name);
  by_text_add(text, ", \"adds\": %s", hop->adds ? "true" : "false");
  if (up) by_text_add(text, ", \"expected\": %u", hop->expected);
  add_port(s, "port", hop->node, up ? hop->up : hop->down, text);
  by_text_add(text, "}");
}

static void add_worker(const struct subject *s, uint32_t worker, struct by_placed_hop *hops, struct by_text *text) {
  uint32_t n = by_placed_stack(s->tree, s->topology, worker, hops);
  by_json_add_string(text, s->topology->nodes[s->job->workers[worker]].name);
  by_text_add(text, ": {\"up\": [");
  for (uint32_t i = 0; i < n; i++) {
    by_text_add(text, "%s", i ? ", " : "");
    add_hop(s, &hops[i], true, text);
  }
  by_text_add(text, "], \"down\": [");
  for (uint32_t i = n; i-- > 0;) {
    by_text_add(text, "%s", i + 1 < n ? ", " : "");
    add_hop(s, &hops[i], false, text);
  }
  by_text_add(text, "]}");
}

/* The links towards the workers: where a result is multicast. */
static void add_branches(const struct subject *s, uint32_t v, struct by_text *text) {
  const char *comma = "";
  by_text_add(text, ", \"branches\": [");
  for (uint32_t child = v + 1; child < s->tree->n; child++) {
    if (s->tree->parent[child] != v) continue;
    by_text_add(text, "%s{\"workers\": %u", comma, s->tree->workers[child]);
    add_port(s, "port", s->tree->node[v], s->tree->link[child], text);
    by_text_add(text, "}");
    comma = ", ";
  }
  by_text_add(text, "]");
}

static void add_switches(const struct subject *s, struct by_text *text) {
  const char *comma = "";
  by_text_add(text, ", \"switches\": {");
  for (uint32_t v = 1; v < s->tree->n; v++) {
    if (!node_at(s, v)->aggregates) continue;
    by_text_add(text, "%s", comma);
    by_json_add_string(text, node_at(s, v)->name);
    by_text_add(text, ": {\"adds\": %s, \"expected\": %u", s->tree->adds[v] ? "true" : "false", s->tree->workers[v]);
    add_real(text, "cells", s->tree->adds[v] ? cells_of(s->tree) : 0);
    add_port(s, "port", s->tree->node[v], s->tree->link[v], text);
    add_branches(s, v, text);
    by_text_add(text, "}");
    comma = ", ";
  }
  by_text_add(text, "}");
}

static void add_tree(const struct subject *s, struct by_placed_hop *hops, struct by_text *text) {
  by_text_add(text, "{\"server\": ");
  by_json_add_string(text, node_at(s, 0)->name);
  add_real(text, "share", s->tree->share);
  add_real(text, "rate", s->tree->rate);
  add_real(text, "round_trip", s->tree->round_trip);
  add_switches(s, text);
  by_text_add(text, ", \"workers\": {");
  for (uint32_t i = 0; i < s->job->n_workers; i++) {
    by_text_add(text, "%s", i ? ", " : "");
    add_worker(s, i, hops, text);
  }
  by_text_add(text, "}}");
}

static enum banyan_status add_trees(const struct by_placement *placement, struct subject *s, struct by_text *text) {
  const char *comma = "";
  for (uint32_t t = 0; t < placement->n_trees; t++) {
    if (placement->trees[t].job) continue;
    s->tree = &placement->trees[t];
    struct by_placed_hop *hops = calloc(s->tree->n, sizeof *hops);
    if (!hops) return by_placement_no_memory();
    by_text_add(text, "%s", comma);
    add_tree(s, hops, text);
    free(hops);
    comma = ", ";
  }
  return BANYAN_OK;
}

enum banyan_status by_placement_print(const struct by_placement *placement, const struct by_topology *topology,
                                      const struct by_placement_job *job, struct by_text *text) {
  struct subject subject = {.topology = topology, .job = job};
  struct by_plan *plan;
  BY_TRY(by_plan_of_placement("in-network", topology, placement, 0, job, &plan));
  by_text_add(text, "{\"format\": \"banyan-placement 1\"");
  add_real(text, "rate", placement->rate * job->weight);
  add_real(text, "bound", placement->bound * job->weight);
  add_real(text, "without", placement->without * job->weight);
  add_real(text, "theta", 1 / (placement->rate * job->weight));
  add_real(text, "theta_without", 1 / (placement->without * job->weight));
  by_text_add(text, ", \"plan\": ");
  by_plan_print(plan, text);
  by_plan_destroy(plan);
  by_text_add(text, ", \"trees\": [");
  BY_TRY(add_trees(placement, &subject, text));
  by_text_add(text, "]}");
  return BANYAN_OK;
}
