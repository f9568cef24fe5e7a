/* Computes where the nodes of a drawing go. */
#include "topology_draw.h"

#include <math.h>
#include <stdlib.h>

#include "topology_make.h"
#include "topology_paths.h"

enum { MAX_STEPS = 400, MAX_SPRUNG = 4096 };
static const double max_work = 3e8; /* the limit of pairs of nodes that are examined for springs */
static const double pi = 3.14159265358979323846;

/* --- Known locations. --- */

static bool has_location(const struct by_node *node) {
  return !isnan(node->x);
}

static bool is_degrees(const struct by_topology *t, double *middle) {
  uint32_t odd = 0;
  *middle = 0;
  for (uint32_t i = 0; i < t->n_nodes; i++) {
    const struct by_node *node = &t->nodes[i];
    if (!has_location(node)) continue;
    if (fabs(node->x) > 180 || fabs(node->y) > 85) return false;
    odd += node->x != floor(node->x);
    *middle += node->y;
  }
  *middle /= t->n_nodes;
  return odd > t->n_nodes / 2; /* Coordinates of a grid are whole numbers. */
}

/* Places a node of unknown location in the middle of its neighbours that have one. */
static void place_unlocated(const struct by_topology *t, struct by_spot *out, uint32_t node) {
  struct by_spot sum = {0, 0};
  uint32_t n = 0;
  for (uint32_t i = 0; i < t->n_links; i++) {
    const struct by_link *link = &t->links[i];
    if (link->a != node && link->b != node) continue;
    uint32_t other = by_link_other(link, node);
    if (!has_location(&t->nodes[other])) continue;
    sum.x += out[other].x;
    sum.y += out[other].y;
    n++;
  }
  out[node] = n ? (struct by_spot){sum.x / n, sum.y / n} : out[0];
}

/* Returns the larger side of the rectangle around all nodes. */
static double find_extent(const struct by_spot *at, uint32_t n) {
  struct by_spot low = at[0], high = at[0];
  for (uint32_t i = 1; i < n; i++) {
    low = (struct by_spot){fmin(low.x, at[i].x), fmin(low.y, at[i].y)};
    high = (struct by_spot){fmax(high.x, at[i].x), fmax(high.y, at[i].y)};
  }
  return fmax(high.x - low.x, high.y - low.y);
}

/* Moves two nodes apart if they are closer than `min`. Those at one place go in a direction that depends on their
 * numbers. Returns whether they were too close. */
static bool separate_pair(struct by_spot *at, uint32_t i, uint32_t k, double min) {
  struct by_spot gap = {at[k].x - at[i].x, at[k].y - at[i].y};
  double far = sqrt(gap.x * gap.x + gap.y * gap.y);
  if (far >= 0.999 * min) return false;
  if (far < 1e-6 * min) {
    gap = (struct by_spot){cos(i + 2.4 * k), sin(i + 2.4 * k)};
    far = 0;
  } else {
    gap = (struct by_spot){gap.x / far, gap.y / far};
  }
  double step = (min - far) / 2;
  at[i] = (struct by_spot){at[i].x - step * gap.x, at[i].y - step * gap.y};
  at[k] = (struct by_spot){at[k].x + step * gap.x, at[k].y + step * gap.y};
  return true;
}

/* Moves nodes apart that would hide each other; others stay where they are. */
static void spread_nodes(struct by_spot *at, uint32_t n) {
  enum { MAX_SPREAD = 1024, ROUNDS = 64 };
  if (n > MAX_SPREAD || n < 2) return;
  double min = find_extent(at, n) * fmin(0.03, 0.4 / sqrt(n));
  bool moved = true;
  for (int round = 0; round < ROUNDS && moved; round++) {
    moved = false;
    for (uint32_t i = 0; i < n; i++)
      for (uint32_t k = i + 1; k < n; k++) moved |= separate_pair(at, i, k, min);
  }
}

static bool lay_by_places(const struct by_topology *t, struct by_spot *out) {
  double middle;
  uint32_t known = 0;
  bool differ = false;
  for (uint32_t i = 0; i < t->n_nodes; i++) {
    known += has_location(&t->nodes[i]);
    differ = differ || (i > 0 && (t->nodes[i].x != t->nodes[0].x || t->nodes[i].y != t->nodes[0].y));
  }
  if (known < t->n_nodes - t->n_nodes / 4 || !differ) return false;
  double stretch = is_degrees(t, &middle) ? cos(middle * pi / 180) : 1;
  for (uint32_t i = 0; i < t->n_nodes; i++)
    if (has_location(&t->nodes[i])) out[i] = (struct by_spot){t->nodes[i].x * stretch, -t->nodes[i].y};
  for (uint32_t i = 0; i < t->n_nodes; i++)
    if (!has_location(&t->nodes[i])) place_unlocated(t, out, i);
  spread_nodes(out, t->n_nodes);
  return true;
}

/* --- Layers. --- */

/* Returns the node at the other end of link k of the index. */
static uint32_t get_far_end(const struct by_paths *g, uint32_t k, uint32_t node) {
  return by_link_other(&g->topology->links[g->links[k]], node);
}

/* Whether there are switches and no two hosts are linked directly. */
static bool has_layers(const struct by_topology *t) {
  bool switches = false;
  for (uint32_t i = 0; i < t->n_nodes; i++) switches = switches || t->nodes[i].kind == BY_NODE_SWITCH;
  for (uint32_t i = 0; i < t->n_links; i++)
    if (t->nodes[t->links[i].a].kind == BY_NODE_HOST && t->nodes[t->links[i].b].kind == BY_NODE_HOST) return false;
  return switches;
}

/* Computes the distance in links from the nearest host, breadth first. Nodes that no host reaches are at the top.
 * `queue` holds n_nodes elements. Returns the top level. */
static uint32_t find_levels(const struct by_paths *g, uint32_t *level, uint32_t *queue) {
  const struct by_topology *t = g->topology;
  uint32_t n = 0, top = 0;
  for (uint32_t i = 0; i < t->n_nodes; i++) {
    level[i] = t->nodes[i].kind == BY_NODE_HOST ? 0 : UINT32_MAX;
    if (level[i] == 0) queue[n++] = i;
  }
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = g->first[queue[i]]; k < g->first[queue[i] + 1]; k++) {
      uint32_t next = get_far_end(g, k, queue[i]);
      if (level[next] != UINT32_MAX) continue;
      top = level[next] = level[queue[i]] + 1;
      queue[n++] = next;
    }
  for (uint32_t i = 0; i < t->n_nodes; i++)
    if (level[i] == UINT32_MAX) level[i] = top;
  return top;
}

/* Lifts switches: if the only host at a switch does not take part, the switch's level is determined by its other
 * neighbours, so that a spare host at the top does not draw the top at the bottom. */
static void lift_switches(const struct by_paths *g, uint32_t *level, uint32_t *top) {
  const struct by_topology *t = g->topology;
  for (uint32_t v = 0; v < t->n_nodes; v++) {
    uint32_t highest = 0, parts = 0;
    if (level[v] != 1) continue;
    for (uint32_t k = g->first[v]; k < g->first[v + 1]; k++) {
      uint32_t other = get_far_end(g, k, v);
      parts += t->nodes[other].takes_part;
      if (level[other] > highest) highest = level[other];
    }
    if (parts || highest != 1) continue;
    level[v] = 2;
    if (*top < 2) *top = 2;
  }
}

struct order {
  double key;
  uint32_t node;
};

static int compare_orders(const void *a, const void *b) {
  const struct order *p = a, *q = b;
  if (p->key != q->key) return p->key < q->key ? -1 : 1;
  return (p->node > q->node) - (p->node < q->node);
}

/* Returns the mean x of a node's neighbours on a level; NAN: there are none. */
static double get_middle(const struct by_paths *g, const uint32_t *level, const struct by_spot *spots, uint32_t node,
                         uint32_t wanted) {
  double sum = 0;
  uint32_t n = 0;
  for (uint32_t k = g->first[node]; k < g->first[node + 1]; k++) {
    uint32_t other = get_far_end(g, k, node);
    if (level[other] != wanted) continue;
    sum += spots[other].x;
    n++;
  }
  return n ? sum / n : NAN;
}

/* Collects the nodes of a level with their sort keys. A host's key is its first neighbour, so that the hosts of a
 * switch are side by side. */
static uint32_t gather_level(const struct by_paths *g, const uint32_t *level, uint32_t wanted,
                             const struct by_spot *spots, struct order *order) {
  uint32_t n = 0;
  for (uint32_t v = 0; v < g->topology->n_nodes; v++) {
    if (level[v] != wanted) continue;
    double key = NAN;
    if (wanted > 0)
      key = get_middle(g, level, spots, v, wanted - 1);
    else if (g->first[v] < g->first[v + 1])
      key = get_far_end(g, g->first[v], v);
    order[n++] = (struct order){isnan(key) ? v : key, v};
  }
  return n;
}

static void lay_level(const struct by_paths *g, const uint32_t *level, uint32_t wanted, double width, uint32_t top,
                      struct order *order, struct by_spot *out) {
  uint32_t n = gather_level(g, level, wanted, out, order);
  double y = -(double)wanted * width / (top + 1) * 0.5;
  qsort(order, n, sizeof *order, compare_orders);
  for (uint32_t i = 0; i < n; i++) out[order[i].node] = (struct by_spot){(i + 0.5) / n * width, y};
  /* Switches are drawn above the middle of their hosts. If they would overlap, like spines, they are distributed
   * evenly. */
  bool apart = wanted > 0;
  for (uint32_t i = 1; i < n && apart; i++) apart = order[i].key - order[i - 1].key >= 0.5 * width / n;
  for (uint32_t i = 0; i < n && apart; i++) out[order[i].node].x = order[i].key;
}

static enum banyan_status lay_in_layers(const struct by_paths *g, struct by_arena *arena, struct by_spot *out) {
  uint32_t n = g->topology->n_nodes, *level = BY_ARENA_ARRAY(arena, uint32_t, n);
  uint32_t *queue = BY_ARENA_ARRAY(arena, uint32_t, n);
  struct order *order = BY_ARENA_ARRAY(arena, struct order, n);
  if (arena->failed) return by_topology_no_memory();
  uint32_t top = find_levels(g, level, queue);
  lift_switches(g, level, &top);
  for (uint32_t l = 0; l <= top; l++) lay_level(g, level, l, 100, top, order, out);
  return BANYAN_OK;
}

/* --- Springs: Fruchterman and Reingold, "Graph drawing by force-directed placement", 1991, starting from a circle. ---
 */

static void add_repulsion(uint32_t n, const struct by_spot *at, struct by_spot *force) {
  for (uint32_t i = 0; i < n; i++) {
    force[i] = (struct by_spot){0, 0};
    for (uint32_t j = 0; j < n; j++) {
      double x = at[i].x - at[j].x, y = at[i].y - at[j].y, far = x * x + y * y + 1e-9;
      force[i].x += x / far;
      force[i].y += y / far;
    }
  }
}

static void add_attraction(const struct by_paths *g, const struct by_spot *at, struct by_spot *force) {
  for (uint32_t i = 0; i < g->topology->n_nodes; i++)
    for (uint32_t k = g->first[i]; k < g->first[i + 1]; k++) {
      struct by_spot other = at[get_far_end(g, k, i)];
      double x = other.x - at[i].x, y = other.y - at[i].y, far = sqrt(x * x + y * y);
      force[i].x += x * far;
      force[i].y += y * far;
    }
}

static enum banyan_status lay_by_springs(const struct by_paths *g, struct by_arena *arena, struct by_spot *out) {
  uint32_t n = g->topology->n_nodes;
  double radius = sqrt(n) / 2, steps = max_work / ((double)n * n);
  for (uint32_t i = 0; i < n; i++) {
    double angle = 2 * pi * i / n;
    out[i].x = radius * sin(angle);
    out[i].y = -radius * cos(angle);
  }
  if (n > MAX_SPRUNG || n < 3) return BANYAN_OK;
  struct by_spot *force = BY_ARENA_ARRAY(arena, struct by_spot, n);
  if (!force) return by_topology_no_memory();
  int count = steps < MAX_STEPS ? (int)steps : MAX_STEPS;
  for (int i = 0; i < count; i++) {
    add_repulsion(n, out, force);
    add_attraction(g, out, force);
    double max = radius * 0.2 * (1 - (double)i / count);
    for (uint32_t v = 0; v < n; v++) {
      double size = sqrt(force[v].x * force[v].x + force[v].y * force[v].y), step = size > max ? max / size : 1;
      out[v].x += force[v].x * step;
      out[v].y += force[v].y * step;
    }
  }
  return BANYAN_OK;
}

enum banyan_status by_topology_layout(const struct by_topology *topology, struct by_spot *out,
                                      enum by_layout_kind *kind) {
  struct by_paths graph;
  *kind = BY_LAYOUT_PLACES;
  if (lay_by_places(topology, out)) return BANYAN_OK;
  BY_TRY(by_paths_init(&graph, topology));
  *kind = has_layers(topology) ? BY_LAYOUT_LAYERS : BY_LAYOUT_SPRINGS;
  struct by_arena arena = {0};
  enum banyan_status status =
      *kind == BY_LAYOUT_LAYERS ? lay_in_layers(&graph, &arena, out) : lay_by_springs(&graph, &arena, out);
  by_arena_fini(&arena);
  by_paths_fini(&graph);
  return status;
}
