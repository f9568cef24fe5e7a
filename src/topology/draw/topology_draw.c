/* Draws a topology as text: tables of nodes and links, and a tree. */
#include "topology_draw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "text.h"
#include "topology_make.h"
#include "topology_paths.h"

enum { MAX_ROWS = 32, MAX_LINES = 48, MAX_DEPTH = 24, MAX_NAME_COLUMNS = 28, RATE_COLUMNS = 11 };

struct drawing {
  const struct by_topology *topology;
  const struct by_draw_options *options;
  struct by_text *text;
  int name_columns, group_columns;
};

#define add(drawing, ...) by_text_add((drawing)->text, __VA_ARGS__)

/* --- Columns. --- */

static void add_padded(const struct drawing *d, const char *string, int columns) {
  int pad = columns - (int)by_columns_of(string);
  add(d, "%s%*s", string, pad > 0 ? pad : 0, "");
}

static void add_rate(const struct drawing *d, double rate, double default_rate) {
  char out[32] = "-";
  if (rate != default_rate) by_print_rate(rate, out);
  add(d, "  %-*s", RATE_COLUMNS, out);
}

/* Ends a line without the blanks that padding has left. */
static void end_line(const struct drawing *d) {
  struct by_text *text = d->text;
  while (text->length && text->data[text->length - 1] == ' ') text->data[--text->length] = '\0';
  add(d, "\n");
}

static uint32_t count_shown(const struct drawing *d, uint32_t n, uint32_t highest) {
  return d->options->all || n <= highest + 1 ? n : highest;
}

static void add_rest(const struct drawing *d, uint32_t n, uint32_t highest, const char *what) {
  uint32_t rest = n - count_shown(d, n, highest);
  if (rest) add(d, "  ... and %u more %s\n", rest, what);
}

/* --- The summary and the nodes. --- */

static const char *get_plural(uint32_t n) {
  return n == 1 ? "" : "s";
}

static void add_head(const struct drawing *d) {
  const struct by_topology *t = d->topology;
  uint32_t part = 0, helpers = 0, idle = 0, switches = 0, adding = 0;
  for (uint32_t i = 0; i < t->n_nodes; i++) {
    const struct by_node *node = &t->nodes[i];
    part += node->takes_part;
    helpers += node->may_help && !node->takes_part;
    idle += node->kind == BY_NODE_HOST && !node->may_help && !node->takes_part;
    switches += node->kind == BY_NODE_SWITCH;
    adding += node->aggregates;
  }
  const char *title = d->options->title ? d->options->title : t->name;
  add(d, "topology%s%s: %u host%s take%s part", *title ? " " : "", title, part, get_plural(part), part == 1 ? "s" : "");
  if (helpers) add(d, ", %u may help", helpers);
  if (idle) add(d, ", %u do%s neither", idle, idle == 1 ? "es" : "");
  if (switches) add(d, ", %u switch%s", switches, switches == 1 ? "" : "es");
  if (adding) add(d, " (%u add)", adding);
  add(d, ", %u link%s\n", t->n_links, get_plural(t->n_links));
}

struct totals {
  uint32_t links;
  double out, in;
};

/* Returns the sum of the link capacities of each node. The caller frees it. */
static struct totals *sum_capacities(const struct by_topology *t) {
  struct totals *totals = calloc((size_t)t->n_nodes + 1, sizeof *totals);
  for (uint32_t i = 0; totals && i < t->n_links; i++) {
    const struct by_link *link = &t->links[i];
    struct totals *a = &totals[link->a], *b = &totals[link->b];
    a->links++;
    b->links++;
    a->out += link->capacity[BY_AB].all;
    b->in += link->capacity[BY_AB].all;
    b->out += link->capacity[BY_BA].all;
    a->in += link->capacity[BY_BA].all;
  }
  return totals;
}

static void add_node(const struct drawing *d, const struct by_node *node, const struct totals *totals, uint32_t *rank) {
  add(d, "  ");
  add_padded(d, node->name, d->name_columns);
  char role[32];
  if (node->takes_part)
    snprintf(role, sizeof role, "rank %u%s", (*rank)++, node->may_help ? ", helps" : "");
  else if (node->kind == BY_NODE_SWITCH)
    snprintf(role, sizeof role, node->aggregates ? "switch, adds" : "switch");
  else
    snprintf(role, sizeof role, node->may_help ? "helper" : "-");
  add(d, "  %-14s", role);
  if (d->group_columns) {
    add(d, "  ");
    add_padded(d, node->group, d->group_columns);
  }
  add(d, "  %5u", totals->links);
  add_rate(d, fmin(totals->out, node->out.all), 0);
  add_rate(d, fmin(totals->in, node->in.all), 0);
  end_line(d);
}

static enum banyan_status add_nodes(const struct drawing *d) {
  const struct by_topology *t = d->topology;
  struct totals *totals = sum_capacities(t);
  uint32_t rank = 0;
  if (!totals) return by_topology_no_memory();
  add(d, "\n  %-*s  %-14s", d->name_columns, "node", "role");
  if (d->group_columns) add(d, "  %-*s", d->group_columns, "group");
  add(d, "  links  %-*s  receives\n", RATE_COLUMNS, "sends");
  for (uint32_t i = 0; i < count_shown(d, t->n_nodes, MAX_ROWS); i++) add_node(d, &t->nodes[i], &totals[i], &rank);
  add_rest(d, t->n_nodes, MAX_ROWS, "nodes");
  free(totals);
  return BANYAN_OK;
}

/* --- Links. --- */

static double get_use(const struct drawing *d, uint32_t link, int direction) {
  struct by_capacity capacity = d->topology->links[link].capacity[direction];
  return (capacity.used + (d->options->load ? d->options->load[link][direction] : 0)) / capacity.all;
}

/* Adds one direction of a link, or both if they are equal. */
static void add_direction(const struct drawing *d, uint32_t link, int direction, bool both) {
  const struct by_link *l = &d->topology->links[link];
  char delay[32] = "-";
  add(d, "  ");
  add_padded(d, d->topology->nodes[direction == BY_AB ? l->a : l->b].name, d->name_columns);
  add(d, " %s ", both ? "<->" : "-> ");
  add_padded(d, d->topology->nodes[direction == BY_AB ? l->b : l->a].name, d->name_columns);
  add_rate(d, l->capacity[direction].all, 0);
  add_rate(d, l->capacity[direction].used, 0);
  if (d->options->load) {
    add_rate(d, d->options->load[link][direction], 0);
    add(d, "  %4.0f %%", 100 * get_use(d, link, direction));
  }
  if (l->delay > 0) by_print_seconds(l->delay, delay);
  add(d, "  %s", delay);
  end_line(d);
}

static bool has_equal_directions(const struct drawing *d, uint32_t link) {
  const struct by_link *l = &d->topology->links[link];
  const double(*load)[2] = d->options->load;
  return l->capacity[0].all == l->capacity[1].all && l->capacity[0].used == l->capacity[1].used &&
         (!load || fabs(load[link][0] - load[link][1]) <= 1e-9 * l->capacity[0].all);
}

static void add_links(const struct drawing *d) {
  const struct by_topology *t = d->topology;
  add(d, "\n  %-*s     %-*s  %-*s  %-*s", d->name_columns, "link", d->name_columns, "", RATE_COLUMNS, "capacity",
      RATE_COLUMNS, "others use");
  if (d->options->load) add(d, "  %-*s  %6s", RATE_COLUMNS, "plan", "full");
  add(d, "  delay\n");
  for (uint32_t i = 0; i < count_shown(d, t->n_links, MAX_ROWS); i++) {
    add_direction(d, i, BY_AB, has_equal_directions(d, i));
    if (!has_equal_directions(d, i)) add_direction(d, i, BY_BA, false);
  }
  add_rest(d, t->n_links, MAX_ROWS, "links");
}

/* --- The breadth-first tree from the middle. --- */

struct tree {
  const struct drawing *d;
  uint32_t *up;            /* the link to the parent; UINT32_MAX: the root, or not reached */
  uint32_t *first, *after; /* the first child and the next sibling; UINT32_MAX: none */
  uint32_t *queue, n;      /* the nodes in breadth-first order */
  uint32_t lines, left_out;
};

/* Searches breadth first from `root`. Returns the last node reached. */
static uint32_t search_tree(struct tree *tree, const struct by_paths *p, uint32_t root) {
  const struct by_topology *t = tree->d->topology;
  for (uint32_t v = 0; v < t->n_nodes; v++) tree->up[v] = tree->first[v] = tree->after[v] = UINT32_MAX;
  tree->queue[0] = root;
  tree->n = 1;
  for (uint32_t i = 0; i < tree->n; i++) {
    uint32_t v = tree->queue[i], last = UINT32_MAX;
    for (uint32_t k = p->first[v]; k < p->first[v + 1]; k++) {
      uint32_t other = by_link_other(&t->links[p->links[k]], v);
      if (other == root || tree->up[other] != UINT32_MAX) continue;
      tree->up[other] = p->links[k];
      *(last == UINT32_MAX ? &tree->first[v] : &tree->after[last]) = other;
      last = other;
      tree->queue[tree->n++] = other;
    }
  }
  return tree->queue[tree->n - 1];
}

static void add_branch_label(const struct tree *tree, uint32_t node) {
  const struct drawing *d = tree->d;
  uint32_t link = tree->up[node];
  const struct by_link *l = &d->topology->links[link];
  char rate[32];
  add(d, "%s", d->topology->nodes[node].name);
  if (d->topology->nodes[node].kind == BY_NODE_SWITCH)
    add(d, " (switch%s)", d->topology->nodes[node].aggregates ? ", adds" : "");
  add(d, "  %s", by_print_rate(fmin(l->capacity[0].all, l->capacity[1].all), rate));
  if (l->delay > 0) add(d, ", %s", by_print_seconds(l->delay, rate));
  double highest = fmax(get_use(d, link, BY_AB), get_use(d, link, BY_BA));
  if (highest > 0) add(d, ", %.0f %% full", 100 * highest);
  add(d, "\n");
}

/* Adds the branches below a node, to a bounded depth. Bit i of `rails`: the branch of depth i + 1 continues below. */
static void add_branches(struct tree *tree, uint32_t node, uint32_t rails, int depth) {
  const struct drawing *d = tree->d;
  for (uint32_t child = tree->first[node]; child != UINT32_MAX; child = tree->after[child]) {
    bool last = tree->after[child] == UINT32_MAX;
    if (depth >= MAX_DEPTH || (!d->options->all && tree->lines >= MAX_LINES)) {
      tree->left_out++;
      continue;
    }
    tree->lines++;
    add(d, "  ");
    for (int i = 0; i < depth; i++) add(d, rails >> i & 1 ? "│  " : "   ");
    add(d, last ? "└─ " : "├─ ");
    add_branch_label(tree, child);
    add_branches(tree, child, last ? rails : rails | 1u << depth, depth + 1);
  }
}

static enum banyan_status draw_tree(const struct drawing *d) {
  size_t n = d->topology->n_nodes;
  struct by_paths paths;
  BY_TRY(by_paths_init(&paths, d->topology));
  uint32_t *memory = calloc(4 * n + 1, sizeof *memory);
  if (memory) {
    struct tree tree = {.d = d, .up = memory, .first = memory + n, .after = memory + 2 * n, .queue = memory + 3 * n};
    /* The middle of a longest path between a most distant node and the node most distant from that. */
    const struct by_topology *t = d->topology;
    uint32_t length = 0, root = search_tree(&tree, &paths, search_tree(&tree, &paths, 0));
    for (uint32_t v = root; tree.up[v] != UINT32_MAX; v = by_link_other(&t->links[tree.up[v]], v)) length++;
    for (uint32_t i = 0; i < length / 2; i++) root = by_link_other(&t->links[tree.up[root]], root);
    search_tree(&tree, &paths, root);
    add(d, "\n  %s%s\n", t->nodes[root].name, t->nodes[root].kind == BY_NODE_SWITCH ? " (switch)" : "");
    add_branches(&tree, root, 0, 0);
    uint32_t others = t->n_links - (tree.n - 1), unreached = t->n_nodes - tree.n;
    if (tree.left_out) add(d, "  ... and more below, which is left out\n");
    if (others) add(d, "  and %u more link%s between these\n", others, get_plural(others));
    if (unreached) add(d, "  and %u node%s that these do not reach\n", unreached, get_plural(unreached));
  }
  by_paths_fini(&paths);
  free(memory);
  return memory ? BANYAN_OK : by_topology_no_memory();
}

enum banyan_status by_topology_draw(const struct by_topology *topology, const struct by_draw_options *options,
                                    struct by_text *text) {
  struct drawing d = {.topology = topology, .options = options, .text = text, .name_columns = 6};
  for (uint32_t i = 0; i < topology->n_nodes; i++) {
    int name = MIN((int)by_columns_of(topology->nodes[i].name), MAX_NAME_COLUMNS);
    int group = MIN((int)by_columns_of(topology->nodes[i].group), MAX_NAME_COLUMNS);
    if (name > d.name_columns) d.name_columns = name;
    if (group > 0 && group < 5) group = 5;
    if (group > d.group_columns) d.group_columns = group;
  }
  add_head(&d);
  BY_TRY(add_nodes(&d));
  if (topology->n_links) add_links(&d);
  BY_TRY(draw_tree(&d));
  return text->failed ? by_topology_no_memory() : BANYAN_OK;
}
