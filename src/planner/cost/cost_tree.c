/* Lists the edges and messages of a class's trees for the cost model, and predicts the time of its in-network trees. */
#include "cost_tree.h"

#include <math.h>
#include <stdlib.h>

#include "plan_make.h"

/* --- In-network trees. --- */

/* Terms go to the server and results return in fragments, each independently, so that no fragment waits for others on
 * inner vertices. Openings agree on the exponents of fragments (docs/in-network.md), which follow when the results of
 * their openings have arrived:
 *
 *   openings   |--------> results
 *   fragments           |------------------->|--------> results
 *
 * A round trip passes each link of a path twice, and wakes up the server and the worker. */

/* The bytes of data in a fragment and in a TCP segment; the difference between the headers of a fragment, up to UDP's,
 * and TCP's in bytes; the slots that a job requests, for which openings have exponents; and the sizes of lanes and
 * lines: a lane of four bytes for three workers. */
static const double payload = 1408, tcp_payload = 1448, longer_headers = 64 + 8 - 32, slots = 512, lane = 4,
                    workers_in_lane = 3, line = 64;

/* Adds a path to the trip of a worker. */
static void add_path(const struct by_cost *cost, const struct by_plan_pair *path, struct by_cost_trip *trip) {
  if (!path) return;
  trip->delay += path->delay;
  trip->links += path->n_steps;
  for (uint32_t i = 0; i < path->n_steps; i++) {
    uint32_t step = cost->load.steps[path->step + i];
    trip->byte += 8 / by_residual(cost->topology->links[step / 2].capacity[step % 2]);
  }
}

static struct by_cost_trip get_trip(const struct by_cost *cost, const struct by_group *group, uint32_t u) {
  struct by_cost_trip trip = {0};
  for (; u != group->root; u = group->up[u]) {
    uint32_t below = group->order[u], above = group->order[group->up[u]];
    add_path(cost, by_plan_load_pair(&cost->load, below, above), &trip);
    add_path(cost, by_plan_load_pair(&cost->load, above, below), &trip);
  }
  return trip;
}

/* Returns the seconds for a byte of input on the fullest resource of a path, including everything that the class sends
 * there. */
static double get_slowest(const struct by_cost *cost, const struct by_plan_pair *path) {
  const struct by_topology *t = cost->topology;
  const struct by_plan_load *load = &cost->load;
  double max = 0;
  for (uint32_t i = 0; path && i < path->n_steps; i++) {
    uint32_t step = load->steps[path->step + i];
    const struct by_link *link = &t->links[step / 2];
    uint32_t from = step % 2 ? link->b : link->a, to = step % 2 ? link->a : link->b;
    max = fmax(max, load->link[step / 2][step % 2] / by_residual(link->capacity[step % 2]));
    max = fmax(max, load->node[from][0] / by_residual(t->nodes[from].out));
    max = fmax(max, load->node[to][1] / by_residual(t->nodes[to].in));
  }
  return 8 * max;
}

/* Computes the cost of a group whose root is a server, in a plan of n_ranks ranks. The cost has its load. */
static struct by_cost_network measure_network(const struct by_cost *cost, const struct by_group *group,
                                              uint32_t n_ranks) {
  struct by_cost_network network = {.share = group->share, .twigs = group->n_twigs > 0};
  for (uint32_t u = 0; u < group->n; u++) {
    if (u == group->root) continue;
    network.workers += group->order[u] < n_ranks;
    uint32_t below = group->order[u], above = group->order[group->up[u]];
    struct by_cost_trip trip = get_trip(cost, group, u);
    if (trip.delay > network.trip.delay || (trip.delay == network.trip.delay && trip.byte > network.trip.byte))
      network.trip = trip;
    network.slowest = fmax(network.slowest, get_slowest(cost, by_plan_load_pair(&cost->load, below, above)));
    network.slowest = fmax(network.slowest, get_slowest(cost, by_plan_load_pair(&cost->load, above, below)));
  }
  return network;
}

/* Rounds a payload up to whole lines. */
static double round_to_lines(double bytes) {
  return ceil(bytes / line) * line;
}

double by_cost_network_time(const struct by_cost_network *network, const struct by_cost_rates *rates, double bytes) {
  double share = round_to_lines(fmax(network->share * bytes, 1)), fragments = ceil(share / payload);
  double headers = (rates->wire - 1) * tcp_payload + longer_headers, first = fmin(share, payload) + headers;
  double byte = network->slowest / network->share; /* The seconds for a byte of the tree on the fullest link. */
  double trip = network->trip.delay + network->trip.links * rates->link + 2 * (rates->hop + rates->message);
  double exponents = round_to_lines(fmin(fragments, slots) * lane * ceil(network->workers / workers_in_lane));
  double openings = exponents + ceil(exponents / payload) * headers;
  double begin = fmax(trip + (fmin(exponents, payload) + headers) * network->trip.byte, openings * byte);
  double rest = (share + fragments * headers - first) * byte;
  double twigs = network->twigs ? 2 * (rates->hop + rates->message) : 0;
  return rates->call + twigs + begin + rest + trip + first * network->trip.byte;
}

/* --- Trees of plain and rotated groups, and exchanges. --- */

/* The largest number of trees of a rotated group that are examined, evenly distributed. */
enum { SAMPLES = 8 };
#define NONE UINT32_MAX

struct position {
  uint32_t depth, height; /* The hops to the root, and to the farthest leaf below. */
  uint32_t u, parent;
  double share; /* The part of the buffer in the message over the edge above it. */
};

struct adding {
  struct by_cost *cost;
  const struct by_plan *plan;
  const struct by_group *group;
  double *handled;            /* The number of messages that each vertex sends and receives. */
  struct position *up, *down; /* The group's positions without the root, in the order of data flow. */
  struct by_cost_tree *next;
};

/* --- The shape of a group. --- */

static int compare_from_leaves(const void *a, const void *b) {
  const struct position *p = a, *q = b;
  if (p->height != q->height) return p->height < q->height ? -1 : 1;
  return (p->u > q->u) - (p->u < q->u);
}

/* Orders positions from the root, towards the deepest subtree first. */
static int compare_from_root(const void *a, const void *b) {
  const struct position *p = a, *q = b;
  if (p->depth != q->depth) return p->depth < q->depth ? -1 : 1;
  return -compare_from_leaves(a, b);
}

static void find_depths(const struct by_group *group, const uint32_t *parent, struct position *positions) {
  for (uint32_t u = 0; u < group->n; u++) positions[u] = (struct position){NONE, 0, u, parent[u], group->share};
  positions[group->root].depth = 0;
  for (uint32_t u = 0; u < group->n; u++) {
    uint32_t hops = 0, v = u, depth;
    for (; positions[v].depth == NONE; v = parent[v]) hops++;
    depth = positions[v].depth + hops;
    for (v = u; positions[v].depth == NONE; v = parent[v]) positions[v].depth = depth--;
  }
}

/* Sorts positions in the order of data flow, without the root, which is at the end of one order and at the start of the
 * other. */
static void sort_positions(const struct by_group *group, const uint32_t *parent, bool up, struct position *positions) {
  find_depths(group, parent, positions);
  struct position *sorted = positions + group->n; /* This is scratch memory. */
  for (uint32_t u = 0; u < group->n; u++) sorted[u] = positions[u];
  qsort(sorted, group->n, sizeof *sorted, compare_from_root);
  for (uint32_t i = group->n; i-- > 1;) {
    uint32_t u = sorted[i].u, above = parent[u];
    if (positions[above].height <= positions[u].height) positions[above].height = positions[u].height + 1;
  }
  qsort(positions, group->n, sizeof *positions, up ? compare_from_leaves : compare_from_root);
  for (uint32_t i = 0; !up && i + 1 < group->n; i++) positions[i] = positions[i + 1];
}

/* --- Messages of a rotated group. --- */

struct message {
  uint32_t far, level; /* The offset of its edges, and the number of edges of this offset above them. */
  uint32_t position;   /* The index of one of its edges. */
};

static int compare_messages(const void *a, const void *b) {
  const struct message *p = a, *q = b;
  if (p->far != q->far) return p->far < q->far ? -1 : 1;
  return (p->level > q->level) - (p->level < q->level);
}

/* Merges messages: edges of all trees with equal offset are one message, unless one is above the other. Sets the
 * shares. Returns how many messages a position sends. */
static uint32_t merge_edges(const struct by_group *group, bool up, struct position *positions, struct message *messages,
                            struct message *at) {
  uint32_t n = group->n - 1, sent = 0;
  at[group->root] = (struct message){.far = NONE};
  for (uint32_t i = 0; i < n; i++) at[positions[i].u].position = NONE;
  for (uint32_t k = 0; k < n; k++) {
    uint32_t i = up ? n - 1 - k : k; /* Parents come first. */
    const struct position *position = &positions[i];
    uint32_t far = by_group_untranslate(group, position->parent, position->u), above = at[position->parent].far;
    at[position->u] = (struct message){far, above == far ? at[position->parent].level + 1 : 0, i};
    messages[k] = at[position->u];
  }
  qsort(messages, n, sizeof *messages, compare_messages);
  for (uint32_t i = 0, end; i < n; i = end, sent++) {
    for (end = i + 1; end < n && compare_messages(&messages[i], &messages[end]) == 0;) end++;
    for (uint32_t k = i; k < end; k++) positions[messages[k].position].share = group->share * (end - i) / group->n;
  }
  return sent;
}

static enum banyan_status merge_messages(struct adding *a) {
  const struct by_group *group = a->group;
  struct message *scratch = calloc(2 * (size_t)group->n, sizeof *scratch);
  if (!scratch) return by_plan_no_memory();
  uint32_t sent = merge_edges(group, true, a->up, scratch, scratch + group->n);
  sent += merge_edges(group, false, a->down, scratch, scratch + group->n);
  free(scratch);
  for (uint32_t u = 0; u < group->n; u++) a->handled[group->order[u]] += 2.0 * sent;
  return BANYAN_OK;
}

static void count_tree(const struct adding *a) {
  const struct by_group *group = a->group;
  for (uint32_t u = 0; u < group->n; u++) {
    if (u == group->root) continue;
    a->handled[group->order[u]] += 2;
    a->handled[group->order[group->up[u]]]++;
    a->handled[group->order[group->down[u]]]++;
  }
}

/* --- Trees. --- */

static struct by_cost_edge make_edge(const struct adding *a, uint32_t from, uint32_t to, double share) {
  return (struct by_cost_edge){from, to, share, by_plan_load_pair(&a->cost->load, from, to)};
}

static enum banyan_status begin_tree(struct adding *a, uint32_t n_up, uint32_t n_down) {
  struct by_arena *arena = &a->cost->arena;
  *a->next = (struct by_cost_tree){.up = BY_ARENA_ARRAY(arena, struct by_cost_edge, n_up + 1),
                                   .down = BY_ARENA_ARRAY(arena, struct by_cost_edge, n_down + 1)};
  return a->next->up && a->next->down ? BANYAN_OK : by_plan_no_memory();
}

static void add_twigs(const struct adding *a, bool up) {
  struct by_cost_tree *tree = a->next;
  for (uint32_t i = 0; i < a->group->n_twigs; i++) {
    const struct by_twig *twig = &a->group->twigs[i];
    if (up) tree->up[tree->n_up++] = make_edge(a, twig->child, twig->parent, a->group->share);
    if (!up) tree->down[tree->n_down++] = make_edge(a, twig->parent, twig->child, a->group->share);
    a->handled[twig->child]++;
    a->handled[twig->parent]++;
  }
}

static uint32_t get_vertex_at(const struct adding *a, uint32_t u, uint32_t t) {
  return a->group->order[t ? by_group_translate(a->group, u, t) : u];
}

static enum banyan_status add_tree(struct adding *a, uint32_t t) {
  uint32_t n = a->group->n, twigs = a->group->n_twigs;
  BY_TRY(begin_tree(a, n + twigs, n + twigs));
  struct by_cost_tree *tree = a->next;
  add_twigs(a, true);
  for (uint32_t i = 0; i + 1 < n; i++) {
    const struct position *up = &a->up[i], *down = &a->down[i];
    tree->up[tree->n_up++] = make_edge(a, get_vertex_at(a, up->u, t), get_vertex_at(a, up->parent, t), up->share);
    tree->down[tree->n_down++] =
        make_edge(a, get_vertex_at(a, down->parent, t), get_vertex_at(a, down->u, t), down->share);
  }
  add_twigs(a, false);
  a->next++;
  return BANYAN_OK;
}

static enum banyan_status add_trees(struct adding *a) {
  const struct by_group *group = a->group;
  bool rotated = group->kind == BY_GROUP_ROTATED;
  uint32_t trees = !rotated ? 1 : group->n < SAMPLES ? group->n : SAMPLES;
  a->up = calloc(4 * (size_t)group->n, sizeof *a->up);
  a->down = a->up ? a->up + 2 * (size_t)group->n : NULL;
  if (!a->up) return by_plan_no_memory();
  sort_positions(group, group->up, true, a->up);
  sort_positions(group, group->down, false, a->down);
  enum banyan_status status = BANYAN_OK;
  if (rotated)
    status = merge_messages(a);
  else
    count_tree(a);
  for (uint32_t i = 0; i < trees && status == BANYAN_OK; i++)
    status = add_tree(a, (uint32_t)((uint64_t)i * group->n / trees));
  free(a->up);
  return status;
}

/* --- Exchanges. --- */

static double get_slowness(const struct by_plan_pair *path, double share) {
  return path ? path->delay + share * 1e6 / path->capacity : 0;
}

/* Returns the slowest edge of a step. */
static struct by_cost_edge find_slowest(const struct adding *a, uint32_t weight, uint32_t radix) {
  const struct by_group *group = a->group;
  struct by_cost_edge found = {.from = group->order[0], .to = group->order[0]};
  double share = group->share * (radix - 1);
  for (uint32_t u = 0; u < group->n; u++) {
    uint32_t digit = u / weight % radix, next = (digit + 1) % radix, last = (digit + radix - 1) % radix;
    for (int k = 0; k < 2; k++) {
      uint32_t other = u - digit * weight + (k ? next : last) * weight;
      struct by_cost_edge one = make_edge(a, group->order[u], group->order[other], share);
      if (get_slowness(one.path, share) > get_slowness(found.path, share)) found = one;
    }
  }
  found.share = share;
  return found;
}

static enum banyan_status add_exchange(struct adding *a) {
  const struct by_group *group = a->group;
  uint32_t twigs = group->n_twigs, messages = 0;
  BY_TRY(begin_tree(a, group->n_radix + twigs, twigs));
  struct by_cost_tree *tree = a->next;
  tree->exchange = true;
  add_twigs(a, true);
  for (uint32_t i = 0, weight = 1; i < group->n_radix; weight *= group->radix[i++]) {
    tree->up[tree->n_up++] = find_slowest(a, weight, group->radix[i]);
    messages += group->radix[i] - 1;
  }
  add_twigs(a, false);
  for (uint32_t u = 0; u < group->n; u++) a->handled[group->order[u]] += 2.0 * messages;
  a->next++;
  return BANYAN_OK;
}

/* Adds an in-network tree. Ranks send and receive fragments. So does the server, which receives one for all if switches
 * add. */
static void add_network(struct adding *a) {
  const struct by_group *group = a->group;
  for (uint32_t u = 0; u < group->n; u++)
    if (a->plan->vertices[group->order[u]].kind != BY_VERTEX_SWITCH) a->handled[group->order[u]] += 2;
  a->cost->networks[a->cost->n_networks++] = measure_network(a->cost, group, a->plan->n_ranks);
}

static enum banyan_status add_groups(struct adding *a, const struct by_class *class_) {
  for (uint32_t i = 0; i < class_->n_groups; i++) {
    a->group = &class_->groups[i];
    if (by_group_has_server(a->plan, a->group))
      add_network(a);
    else
      BY_TRY(a->group->kind == BY_GROUP_EXCHANGE ? add_exchange(a) : add_trees(a));
  }
  a->cost->n_trees = (uint32_t)(a->next - a->cost->trees);
  for (uint32_t v = 0; v < a->plan->n_vertices; v++) {
    a->cost->messages = fmax(a->cost->messages, a->handled[v]);
    a->cost->all_messages += a->handled[v];
  }
  return BANYAN_OK;
}

enum banyan_status by_cost_add_trees(struct by_cost *cost, const struct by_plan *plan, const struct by_class *class_) {
  struct adding a = {.cost = cost, .plan = plan, .handled = calloc((size_t)plan->n_vertices + 1, sizeof *a.handled)};
  cost->trees = BY_ARENA_ARRAY(&cost->arena, struct by_cost_tree, (size_t)class_->n_groups * SAMPLES);
  cost->networks = BY_ARENA_ARRAY(&cost->arena, struct by_cost_network, class_->n_groups);
  a.next = cost->trees;
  enum banyan_status status = a.handled && cost->trees && cost->networks ? add_groups(&a, class_) : by_plan_no_memory();
  free(a.handled);
  return status;
}
