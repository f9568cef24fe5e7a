#include "cost_tree.h"

#include <math.h>
#include <stdlib.h>

#include "plan_make.h"

/* So many trees of a rotated group are looked at, evenly spaced. */
enum { SAMPLES = 8 };
#define NONE UINT32_MAX

struct place {
  uint32_t depth, height; /* hops to the root, and to the furthest leaf below */
  uint32_t u, parent;
  double share; /* of the buffer, in the message over the edge above it */
};

struct adding {
  struct by_cost *cost;
  const struct by_plan *plan;
  const struct by_group *group;
  double *handled;         /* messages that each vertex sends and takes */
  struct place *up, *down; /* the group's positions but the root, in the order of bytes */
  struct by_cost_tree *next;
};

/* --- the shape of a group --- */

static int from_leaves(const void *a, const void *b) {
  const struct place *p = a, *q = b;
  if (p->height != q->height) return p->height < q->height ? -1 : 1;
  return (p->u > q->u) - (p->u < q->u);
}

/* Towards the deepest subtree first. */
static int from_root(const void *a, const void *b) {
  const struct place *p = a, *q = b;
  if (p->depth != q->depth) return p->depth < q->depth ? -1 : 1;
  return -from_leaves(a, b);
}

static void find_depths(const struct by_group *group, const uint32_t *parent, struct place *places) {
  for (uint32_t u = 0; u < group->n; u++) places[u] = (struct place){NONE, 0, u, parent[u], group->share};
  places[group->root].depth = 0;
  for (uint32_t u = 0; u < group->n; u++) {
    uint32_t hops = 0, v = u, depth;
    for (; places[v].depth == NONE; v = parent[v]) hops++;
    depth = places[v].depth + hops;
    for (v = u; places[v].depth == NONE; v = parent[v]) places[v].depth = depth--;
  }
}

/* Places in the order of bytes, without the root, which stands at the end of one and at the start of the other order.
 */
static void put_in_order(const struct by_group *group, const uint32_t *parent, bool up, struct place *places) {
  find_depths(group, parent, places);
  struct place *sorted = places + group->n; /* scratch */
  for (uint32_t u = 0; u < group->n; u++) sorted[u] = places[u];
  qsort(sorted, group->n, sizeof *sorted, from_root);
  for (uint32_t i = group->n; i-- > 1;) {
    uint32_t u = sorted[i].u, above = parent[u];
    if (places[above].height <= places[u].height) places[above].height = places[u].height + 1;
  }
  qsort(places, group->n, sizeof *places, up ? from_leaves : from_root);
  for (uint32_t i = 0; !up && i + 1 < group->n; i++) places[i] = places[i + 1];
}

/* --- messages of a rotated group --- */

struct message {
  uint32_t far, level; /* how far its edges go, and how many of the same length are above them */
  uint32_t place;      /* of one of its edges */
};

static int compare_messages(const void *a, const void *b) {
  const struct message *p = a, *q = b;
  if (p->far != q->far) return p->far < q->far ? -1 : 1;
  return (p->level > q->level) - (p->level < q->level);
}

/* Edges of all trees that go equally far are one message, unless one is above the other. Sets the shares; how many
 * messages a position sends. */
static uint32_t merge(const struct by_group *group, bool up, struct place *places, struct message *messages,
                      struct message *at) {
  uint32_t n = group->n - 1, sent = 0;
  at[group->root] = (struct message){.far = NONE};
  for (uint32_t i = 0; i < n; i++) at[places[i].u].place = NONE;
  for (uint32_t k = 0; k < n; k++) {
    uint32_t i = up ? n - 1 - k : k; /* parents first */
    const struct place *place = &places[i];
    uint32_t far = by_group_untranslate(group, place->parent, place->u), above = at[place->parent].far;
    at[place->u] = (struct message){far, above == far ? at[place->parent].level + 1 : 0, i};
    messages[k] = at[place->u];
  }
  qsort(messages, n, sizeof *messages, compare_messages);
  for (uint32_t i = 0, end; i < n; i = end, sent++) {
    for (end = i + 1; end < n && compare_messages(&messages[i], &messages[end]) == 0;) end++;
    for (uint32_t k = i; k < end; k++) places[messages[k].place].share = group->share * (end - i) / group->n;
  }
  return sent;
}

static enum banyan_status merge_messages(struct adding *a) {
  const struct by_group *group = a->group;
  struct message *scratch = calloc(2 * (size_t)group->n, sizeof *scratch);
  if (!scratch) return by_plan_no_memory();
  uint32_t sent = merge(group, true, a->up, scratch, scratch + group->n);
  sent += merge(group, false, a->down, scratch, scratch + group->n);
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

/* --- trees --- */

static struct by_cost_edge edge(const struct adding *a, uint32_t from, uint32_t to, double share) {
  return (struct by_cost_edge){from, to, share, by_plan_load_pair(&a->cost->load, from, to)};
}

static enum banyan_status take_tree(struct adding *a, uint32_t n_up, uint32_t n_down) {
  struct by_arena *arena = &a->cost->arena;
  *a->next = (struct by_cost_tree){.up = BY_ARENA_ARRAY(arena, struct by_cost_edge, n_up + 1),
                                   .down = BY_ARENA_ARRAY(arena, struct by_cost_edge, n_down + 1)};
  return a->next->up && a->next->down ? BANYAN_OK : by_plan_no_memory();
}

static void add_twigs(const struct adding *a, bool up) {
  struct by_cost_tree *tree = a->next;
  for (uint32_t i = 0; i < a->group->n_twigs; i++) {
    const struct by_twig *twig = &a->group->twigs[i];
    if (up) tree->up[tree->n_up++] = edge(a, twig->child, twig->parent, a->group->share);
    if (!up) tree->down[tree->n_down++] = edge(a, twig->parent, twig->child, a->group->share);
    a->handled[twig->child]++;
    a->handled[twig->parent]++;
  }
}

static uint32_t at(const struct adding *a, uint32_t u, uint32_t t) {
  return a->group->order[t ? by_group_translate(a->group, u, t) : u];
}

static enum banyan_status add_tree(struct adding *a, uint32_t t) {
  uint32_t n = a->group->n, twigs = a->group->n_twigs;
  BY_TRY(take_tree(a, n + twigs, n + twigs));
  struct by_cost_tree *tree = a->next;
  add_twigs(a, true);
  for (uint32_t i = 0; i + 1 < n; i++) {
    const struct place *up = &a->up[i], *down = &a->down[i];
    tree->up[tree->n_up++] = edge(a, at(a, up->u, t), at(a, up->parent, t), up->share);
    tree->down[tree->n_down++] = edge(a, at(a, down->parent, t), at(a, down->u, t), down->share);
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
  put_in_order(group, group->up, true, a->up);
  put_in_order(group, group->down, false, a->down);
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

/* --- exchanges --- */

static double slowness(const struct by_plan_pair *way, double share) {
  return way ? way->delay + share * 1e6 / way->capacity : 0;
}

/* The slowest edge of a step. */
static struct by_cost_edge slowest(const struct adding *a, uint32_t weight, uint32_t radix) {
  const struct by_group *group = a->group;
  struct by_cost_edge found = {.from = group->order[0], .to = group->order[0]};
  double share = group->share * (radix - 1);
  for (uint32_t u = 0; u < group->n; u++) {
    uint32_t digit = u / weight % radix, next = (digit + 1) % radix, last = (digit + radix - 1) % radix;
    for (int k = 0; k < 2; k++) {
      uint32_t other = u - digit * weight + (k ? next : last) * weight;
      struct by_cost_edge one = edge(a, group->order[u], group->order[other], share);
      if (slowness(one.way, share) > slowness(found.way, share)) found = one;
    }
  }
  found.share = share;
  return found;
}

static enum banyan_status add_exchange(struct adding *a) {
  const struct by_group *group = a->group;
  uint32_t twigs = group->n_twigs, messages = 0;
  BY_TRY(take_tree(a, group->n_radix + twigs, twigs));
  struct by_cost_tree *tree = a->next;
  tree->exchange = true;
  add_twigs(a, true);
  for (uint32_t i = 0, weight = 1; i < group->n_radix; weight *= group->radix[i++]) {
    tree->up[tree->n_up++] = slowest(a, weight, group->radix[i]);
    messages += group->radix[i] - 1;
  }
  add_twigs(a, false);
  for (uint32_t u = 0; u < group->n; u++) a->handled[group->order[u]] += 2.0 * messages;
  a->next++;
  return BANYAN_OK;
}

/* Ranks send and take fragments; so does the server, which takes one for all if switches add. */
static void add_network(struct adding *a) {
  const struct by_group *group = a->group;
  for (uint32_t u = 0; u < group->n; u++)
    if (a->plan->vertices[group->order[u]].kind != BY_VERTEX_SWITCH) a->handled[group->order[u]] += 2;
  a->cost->networks[a->cost->n_networks++] = by_cost_network_of(a->cost, group, a->plan->n_ranks);
}

static enum banyan_status add_all(struct adding *a, const struct by_class *class_) {
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
  enum banyan_status status = a.handled && cost->trees && cost->networks ? add_all(&a, class_) : by_plan_no_memory();
  free(a.handled);
  return status;
}
