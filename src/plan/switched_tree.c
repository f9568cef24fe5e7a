/* Checks whether trees through switches can run, groups their workers, and makes in-network trees from groups of a
 * plan.
 */
#include "switched_tree.h"

#include <stdlib.h>
#include <string.h>

#include "fragment.h"
#include "plan_make.h"

/* --- Groups of workers. --- */

#define NONE BY_SWITCHED_NONE

struct grouping {
  struct by_switched_node *switches;
  const uint32_t *first;
  uint32_t n;
  struct {
    uint32_t root; /* the switch that adds the whole group; NONE: none does, or it is a single worker */
    uint32_t workers;
    bool pooled; /* The group is summed by the server: it consists of any workers and switches that fit. */
  } groups[BY_FRAGMENT_GROUPS];
};

static bool adds_groups(const struct by_switched_node *at) {
  return at->adds && at->workers > BY_FRAGMENT_WORKERS;
}

/* Whether a switch adds several workers. In a tree of several groups a single worker needs no switch to form a sum. */
static bool adds_several(const struct by_switched_node *at) {
  return at->adds && at->workers > 1;
}

/* Returns the switch nearest to the server that adds the terms of this worker and of at most 63 others; NONE: there is
 * none. *united: a switch above it adds sums of groups. */
static uint32_t find_unit(const struct grouping *g, uint32_t worker, bool *united) {
  uint32_t unit = NONE;
  *united = false;
  for (uint32_t s = g->first[worker]; s != NONE; s = g->switches[s].parent) {
    if (adds_groups(&g->switches[s]))
      *united = true;
    else if (adds_several(&g->switches[s]))
      unit = s;
  }
  return unit;
}

/* Finds or makes a group with capacity for this many more workers. NONE: too many groups. */
static uint32_t find_group(struct grouping *g, uint32_t root, uint32_t workers, bool pooled) {
  uint32_t at = pooled ? 0 : g->n;
  while (at < g->n && (!g->groups[at].pooled || g->groups[at].workers + workers > BY_FRAGMENT_WORKERS)) at++;
  if (at == BY_FRAGMENT_GROUPS) return NONE;
  if (at == g->n) {
    g->groups[at].root = pooled ? NONE : root;
    g->groups[at].pooled = pooled;
    g->n++;
  }
  g->groups[at].workers += workers;
  return at;
}

static uint32_t choose_group(struct grouping *g, uint32_t worker) {
  bool united;
  uint32_t unit = find_unit(g, worker, &united);
  if (unit == NONE) return find_group(g, NONE, 1, !united);
  struct by_switched_node *at = &g->switches[unit];
  if (at->group == NONE) at->group = find_group(g, unit, at->workers, !united);
  return at->group;
}

/* Sets on all switches above a worker that they add it or its group. */
static void add_to_switches(const struct grouping *g, uint32_t worker, uint32_t group, uint32_t bit) {
  for (uint32_t s = g->first[worker]; s != NONE; s = g->switches[s].parent) {
    struct by_switched_node *at = &g->switches[s];
    if (g->n > 1 ? !adds_several(at) : !at->adds) continue;
    bool groups = adds_groups(at);
    at->set.group = (uint8_t)(groups ? BY_FRAGMENT_UNITED : group);
    at->set.workers |= 1ull << (groups ? group : bit);
    at->group = groups ? NONE : group;
    at->whole = g->groups[group].root == s;
  }
}

bool by_switched_groups(struct by_switched_node *switches, uint32_t n_switches, const uint32_t *first,
                        uint32_t n_workers, uint32_t *number_of, struct by_worker_groups *groups) {
  struct grouping g = {.switches = switches, .first = first};
  uint32_t group_of[BY_TREE_WORKERS], joined[BY_FRAGMENT_GROUPS] = {0};
  for (uint32_t s = 0; s < n_switches; s++) {
    switches[s].workers = 0;
    switches[s].group = NONE;
    switches[s].set = (struct by_worker_set){0};
    switches[s].whole = false;
  }
  for (uint32_t w = 0; w < n_workers; w++)
    for (uint32_t s = first[w]; s != NONE; s = switches[s].parent) switches[s].workers++;
  for (uint32_t w = 0; w < n_workers; w++) {
    group_of[w] = n_workers > BY_FRAGMENT_WORKERS ? choose_group(&g, w) : find_group(&g, NONE, 1, true);
    if (group_of[w] == NONE) return false;
  }
  *groups = (struct by_worker_groups){.n = g.n};
  for (uint32_t i = 0; i < g.n; i++) groups->first[i + 1] = (uint16_t)(groups->first[i] + g.groups[i].workers);
  for (uint32_t w = 0; w < n_workers; w++) {
    uint32_t bit = joined[group_of[w]]++;
    number_of[w] = groups->first[group_of[w]] + bit;
    add_to_switches(&g, w, group_of[w], bit);
  }
  return true;
}

/* --- Whether trees can run. --- */

_Static_assert(BY_PLAN_MAX_HOPS == 8, "an error below states it");
_Static_assert((int)BY_PLAN_MAX_WORKERS == (int)BY_TREE_WORKERS, "two names of one limit");

/* A group with switches or a server, and its position for errors. */
struct switched {
  const struct by_plan *plan;
  const struct by_group *group;
  uint32_t class_, number;
};

static enum by_vertex_kind get_kind(const struct switched *t, uint32_t u) {
  return t->plan->vertices[t->group->order[u]].kind;
}

/* Whether a position is between ranks and the server, and may add: a switch or an aggregator. */
static bool is_between(const struct switched *t, uint32_t u) {
  return get_kind(t, u) == BY_VERTEX_SWITCH || (get_kind(t, u) == BY_VERTEX_SERVER && u != t->group->root);
}

static enum banyan_status fail_vertex(const struct switched *t, uint32_t u, const char *why) {
  return by_fail(BANYAN_ERR_UNSUPPORTED, "plan '%s', class %u, group %u: vertex \"%s\" is a %s%s", t->plan->name,
                 t->class_, t->number, t->plan->vertices[t->group->order[u]].name, by_vertex_kind_name(get_kind(t, u)),
                 why);
}

/* Counts the switches between a position and the root; it stops soon after the permitted number. */
static uint32_t count_switches_above(const struct switched *t, uint32_t u) {
  uint32_t n = 0;
  for (uint32_t v = t->group->up[u]; v != t->group->root && n <= BY_PLAN_MAX_HOPS; v = t->group->up[v]) n++;
  return n;
}

/* Checks an aggregator. Ranks address it, and it addresses the server that finishes the tree: neither knows of switches
 * in between. */
static enum banyan_status check_aggregator(const struct switched *t, uint32_t u, uint32_t below) {
  const struct by_group *group = t->group;
  if (group->up[u] != group->root || get_kind(t, group->root) != BY_VERTEX_SERVER)
    return fail_vertex(t, u, " below another vertex: it is the root of its tree, or an aggregator right below that");
  if (!below) return fail_vertex(t, u, " with nothing below it");
  if (below > BY_FRAGMENT_PORTS)
    return fail_vertex(t, u, " with more ranks right below it than an aggregator copies results to, at most 64");
  for (uint32_t c = 0; c < group->n; c++)
    if (group->up[c] == u && get_kind(t, c) != BY_VERTEX_RANK)
      return fail_vertex(t, c, " below an aggregator, to which ranks alone send");
  return BANYAN_OK;
}

static enum banyan_status check_position(const struct switched *t, uint32_t u) {
  uint32_t below = 0;
  for (uint32_t c = 0; c < t->group->n; c++) below += c != u && t->group->up[c] == u;
  bool root = u == t->group->root, inner = root || below > 0;
  switch (get_kind(t, u)) {
  case BY_VERTEX_RANK:
    if (inner) return fail_vertex(t, u, " with others below it, in a tree through switches, where ranks are leaves");
    if (count_switches_above(t, u) > BY_PLAN_MAX_HOPS)
      return fail_vertex(t, u, " with more switches on its way than fit into a fragment's stack, at most 8");
    return BANYAN_OK;
  case BY_VERTEX_SERVER: return root ? BANYAN_OK : check_aggregator(t, u, below);
  case BY_VERTEX_SWITCH:
    if (root)
      return fail_vertex(t, u, " at the root of its tree: sums are finished by a server, which may be a rank's host");
    if (!inner) return fail_vertex(t, u, " with nothing below it");
    if (below > BY_FRAGMENT_PORTS)
      return fail_vertex(t, u, " with more vertices right below it than a switch copies results to, at most 64");
    return BANYAN_OK;
  default: return fail_vertex(t, u, " in a tree through switches, where only switches add");
  }
}

static enum banyan_status check_group(const struct switched *t) {
  uint32_t workers = 0, first = UINT32_MAX;
  for (uint32_t u = 0; u < t->group->n; u++) {
    enum by_vertex_kind kind = get_kind(t, u);
    workers += kind == BY_VERTEX_RANK;
    if ((kind == BY_VERTEX_SWITCH || kind == BY_VERTEX_SERVER) && first == UINT32_MAX) first = u;
  }
  if (first == UINT32_MAX) return BANYAN_OK;
  if (t->group->kind != BY_GROUP_TREE) return fail_vertex(t, first, " in a group that is no single tree");
  if (t->group->down != t->group->up)
    return fail_vertex(t, first, " in a tree whose edges down differ from its edges up");
  if (workers > BY_PLAN_MAX_WORKERS)
    return by_fail(
        BANYAN_ERR_UNSUPPORTED,
        "plan '%s', class %u, group %u: %u ranks hang on a tree through switches, which has at most %d: make "
        "some of them twigs, or several groups",
        t->plan->name, t->class_, t->number, workers, BY_PLAN_MAX_WORKERS);
  for (uint32_t u = 0; u < t->group->n; u++) BY_TRY(check_position(t, u));
  for (uint32_t i = 0; i < t->group->n_twigs; i++)
    if (t->group->twigs[i].parent >= t->plan->n_ranks)
      return by_fail(BANYAN_ERR_UNSUPPORTED,
                     "plan '%s', class %u, group %u: rank %u is a twig of \"%s\", which is no rank", t->plan->name,
                     t->class_, t->number, t->group->twigs[i].child, t->plan->vertices[t->group->twigs[i].parent].name);
  return BANYAN_OK;
}

static uint32_t find_parent(const struct by_group *group, uint32_t vertex) {
  uint32_t u = 0;
  while (u < group->n && group->order[u] != vertex) u++;
  return u < group->n ? group->order[group->up[u]] : UINT32_MAX;
}

/* Whether two trees are set up equally: the same edges and interfaces. Cost: the square of their size. */
static bool is_same_tree(const struct by_group *a, const struct by_group *b) {
  bool same = a->n == b->n && a->n_forwards == b->n_forwards && a->n_ports == b->n_ports;
  for (uint32_t u = 0; same && u < a->n; u++) same = find_parent(b, a->order[u]) == a->order[a->up[u]];
  for (uint32_t i = 0; same && i < a->n_forwards; i++) same = a->forwards[i] == b->forwards[i];
  for (uint32_t i = 0; same && i < a->n_ports; i++)
    same = a->ports[i].at == b->ports[i].at && a->ports[i].towards == b->ports[i].towards &&
           !strcmp(a->ports[i].interface, b->ports[i].interface);
  return same;
}

/* The tree that a server ends or adds for. */
struct ended_tree {
  uint32_t class_;
  const struct by_group *group; /* NULL: none yet */
};

/* Checks that a server takes part in a single tree, which several classes may contain. */
static enum banyan_status check_servers(const struct switched *t, struct ended_tree *ended_tree) {
  for (uint32_t u = 0; u < t->group->n; u++) {
    if (get_kind(t, u) != BY_VERTEX_SERVER) continue;
    struct ended_tree *before = &ended_tree[t->group->order[u]];
    if (before->group && (before->class_ == t->class_ || !is_same_tree(before->group, t->group)))
      return fail_vertex(t, u,
                         " that another tree has, too: give each tree servers of its own, \"HOST/0\", \"HOST/1\"");
    *before = (struct ended_tree){t->class_, t->group};
  }
  return BANYAN_OK;
}

static enum banyan_status check_groups(const struct by_plan *plan, struct ended_tree *ended_tree) {
  for (uint32_t c = 0; c < plan->n_classes; c++)
    for (uint32_t g = 0; g < plan->classes[c].n_groups; g++) {
      const struct by_group *group = &plan->classes[c].groups[g];
      struct switched t = {plan, group, c, g};
      BY_TRY(check_group(&t));
      if (by_group_has_server(plan, group)) BY_TRY(check_servers(&t, ended_tree));
    }
  return BANYAN_OK;
}

enum banyan_status by_plan_check_switches(const struct by_plan *plan) {
  struct ended_tree *ended_tree = calloc(plan->n_vertices, sizeof *ended_tree);
  enum banyan_status status = ended_tree ? check_groups(plan, ended_tree) : by_plan_no_memory();
  free(ended_tree);
  return status;
}

/* --- The ranks' view. --- */

/* What adds on the way is nobody's peer: workers send to the server, which answers. So for the ends such a tree is a
 * star:
 *
 *          s                   s
 *        /   \              / / \ \            x, y: switches or aggregators
 *       x     y     -->    a b   c d
 *      / \   / \
 *     a   b c   d */

/* Reduces a tree to its leaves and its root. */
static enum banyan_status make_star(const struct by_plan *from, struct by_plan *plan, struct by_group *group) {
  struct switched t = {.plan = from, .group = group};
  uint32_t n = 0, root = 0;
  (void)plan;
  if (!by_group_has_server(from, group)) return BANYAN_OK;
  for (uint32_t u = 0; u < group->n; u++) {
    if (is_between(&t, u)) continue;
    if (u == group->root) root = n;
    group->order[n++] = group->order[u];
  }
  for (uint32_t u = 0; u < n; u++) group->up[u] = root;
  group->root = root;
  group->n = n;
  group->n_forwards = group->n_ports = 0;
  return BANYAN_OK;
}

enum banyan_status by_plan_without_switches(const struct by_plan *plan, struct by_plan **out) {
  BY_TRY(by_plan_check_switches(plan));
  BY_TRY(by_plan_rework(plan, plan->n_vertices, make_star, out));
  (*out)->version = plan->version;
  return BANYAN_OK;
}

/* --- The switches' view. --- */

/* A tree that is being made. Positions are those of the group. */
struct build {
  struct switched of;
  struct by_switched_tree *tree;
  uint32_t *switch_at;            /* for each position: the index into `switches`; NONE: no switch */
  uint32_t *worker_at;            /* for each position: the worker's number; NONE: no worker */
  struct by_switched_node *nodes; /* one for each of `switches` */
};

/* Numbers the switches nearest to the root first, and among these in the group's order. */
static void number_switches(struct build *b) {
  uint32_t n = b->of.group->n;
  for (uint32_t u = 0; u < n; u++) b->switch_at[u] = b->worker_at[u] = NONE;
  for (uint32_t depth = 0; depth < BY_PLAN_MAX_HOPS; depth++)
    for (uint32_t u = 0; u < n; u++)
      if (is_between(&b->of, u) && count_switches_above(&b->of, u) == depth) b->switch_at[u] = b->tree->n_switches++;
  for (uint32_t u = 0; u < n; u++) {
    if (b->switch_at[u] == NONE) continue;
    b->nodes[b->switch_at[u]] = (struct by_switched_node){.parent = b->switch_at[b->of.group->up[u]],
                                                          .adds = by_group_adds(b->of.group, b->of.group->order[u])};
  }
}

/* Numbers the workers by rank, in larger trees by group first. */
static enum banyan_status number_workers(struct build *b) {
  const struct by_group *group = b->of.group;
  struct by_switched_tree *tree = b->tree;
  uint32_t n = 0, ranks[BY_TREE_WORKERS] = {0}, first[BY_TREE_WORKERS] = {0}, number[BY_TREE_WORKERS] = {0};
  for (uint32_t u = 0; u < group->n; u++)
    if (get_kind(&b->of, u) == BY_VERTEX_RANK) ranks[n++] = group->order[u];
  qsort(ranks, n, sizeof *ranks, by_compare_numbers);
  tree->n_workers = n;
  tree->workers = BY_ARENA_ARRAY(&tree->arena, uint32_t, n);
  tree->first = BY_ARENA_ARRAY(&tree->arena, uint32_t, n);
  if (tree->arena.failed) return by_plan_no_memory();
  for (uint32_t u = 0; u < group->n; u++) {
    if (get_kind(&b->of, u) != BY_VERTEX_RANK) continue;
    uint32_t worker = 0; /* Rank r is vertex r. */
    while (ranks[worker] != group->order[u]) worker++;
    first[worker] = b->switch_at[group->up[u]];
    b->worker_at[u] = worker;
  }
  if (!by_switched_groups(b->nodes, tree->n_switches, first, n, number, &tree->groups))
    return by_fail(
        BANYAN_ERR_UNSUPPORTED,
        "plan '%s', class %u, group %u: %u ranks hang on a tree through switches below which they would form "
        "more than %d groups: make it several trees, or let fewer switches add",
        b->of.plan->name, b->of.class_, b->of.number, n, BY_FRAGMENT_GROUPS);
  for (uint32_t w = 0; w < n; w++) {
    tree->workers[number[w]] = ranks[w];
    tree->first[number[w]] = first[w];
  }
  for (uint32_t u = 0; u < group->n; u++)
    if (b->worker_at[u] != NONE) b->worker_at[u] = number[b->worker_at[u]];
  return BANYAN_OK;
}

static enum banyan_status find_interface(const struct build *b, uint32_t at, uint32_t towards, const char **out) {
  const struct by_vertex *here = &b->of.plan->vertices[b->of.group->order[at]];
  const struct by_vertex *there = &b->of.plan->vertices[b->of.group->order[towards]];
  const char *name = by_group_interface(b->of.group, b->of.group->order[at], b->of.group->order[towards]);
  if (!name)
    return by_fail(
        BANYAN_ERR_UNSUPPORTED,
        "plan '%s' does not name the interface by which switch \"%s\" reaches \"%s\": add it to the tree's \"ports\"",
        b->of.plan->name, here->name, there->name);
  *out = by_arena_string(&b->tree->arena, name);
  return *out ? BANYAN_OK : by_plan_no_memory();
}

/* Lists the workers behind a position, by number. */
static enum banyan_status list_workers(struct build *b, uint32_t at, struct by_switched_below *to) {
  const struct by_group *group = b->of.group;
  to->workers = BY_ARENA_ARRAY(&b->tree->arena, uint32_t, b->tree->n_workers);
  if (!to->workers) return by_plan_no_memory();
  for (uint32_t u = 0; u < group->n; u++) {
    if (b->worker_at[u] == NONE) continue;
    uint32_t v = u;
    while (v != at && v != group->root) v = group->up[v];
    if (v == at) to->workers[to->n_workers++] = b->worker_at[u];
  }
  qsort(to->workers, to->n_workers, sizeof *to->workers, by_compare_numbers);
  return BANYAN_OK;
}

static enum banyan_status fill_below(struct build *b, uint32_t u, struct by_switched_switch *to) {
  const struct by_group *group = b->of.group;
  uint32_t n = 0;
  for (uint32_t c = 0; c < group->n; c++) n += c != u && group->up[c] == u;
  to->below = BY_ARENA_ARRAY(&b->tree->arena, struct by_switched_below, n);
  if (!to->below) return by_plan_no_memory();
  for (uint32_t c = 0; c < group->n; c++) {
    if (c == u || group->up[c] != u) continue;
    struct by_switched_below *below = &to->below[to->n_below++];
    below->is_switch = get_kind(&b->of, c) == BY_VERTEX_SWITCH;
    BY_TRY(list_workers(b, c, below));
    if (get_kind(&b->of, u) == BY_VERTEX_SWITCH) BY_TRY(find_interface(b, u, c, &below->interface));
  }
  return BANYAN_OK;
}

static enum banyan_status fill_switch(struct build *b, uint32_t u) {
  uint32_t vertex = b->of.group->order[u], above = b->of.group->up[u];
  const struct by_switched_node *depth = &b->nodes[b->switch_at[u]];
  struct by_switched_switch *to = &b->tree->switches[b->switch_at[u]];
  *to = (struct by_switched_switch){.vertex = vertex,
                                    .name = by_arena_string(&b->tree->arena, b->of.plan->vertices[vertex].name),
                                    .aggregator = get_kind(&b->of, u) == BY_VERTEX_SERVER,
                                    .adds = depth->adds,
                                    .place = count_switches_above(&b->of, u),
                                    .parent = depth->parent,
                                    .set = depth->set,
                                    .whole = depth->whole};
  if (!to->name) return by_plan_no_memory();
  if (!to->aggregator) BY_TRY(find_interface(b, u, above, &to->up));
  return fill_below(b, u, to);
}

static enum banyan_status make_tree(struct build *b) {
  struct by_switched_tree *tree = b->tree;
  uint32_t n = b->of.group->n;
  b->switch_at = BY_ARENA_ARRAY(&tree->arena, uint32_t, n);
  b->worker_at = BY_ARENA_ARRAY(&tree->arena, uint32_t, n);
  b->nodes = BY_ARENA_ARRAY(&tree->arena, struct by_switched_node, n);
  tree->switches = BY_ARENA_ARRAY(&tree->arena, struct by_switched_switch, n);
  tree->server = b->of.group->order[b->of.group->root];
  tree->server_name = by_arena_string(&tree->arena, b->of.plan->vertices[tree->server].name);
  if (tree->arena.failed) return by_plan_no_memory();
  number_switches(b);
  BY_TRY(number_workers(b));
  for (uint32_t u = 0; u < n; u++)
    if (b->switch_at[u] != NONE) BY_TRY(fill_switch(b, u));
  return BANYAN_OK;
}

enum banyan_status by_switched_tree_make(const struct by_plan *plan, uint32_t class_, uint32_t group,
                                         struct by_switched_tree **out) {
  struct build b = {.of = {plan, &plan->classes[class_].groups[group], class_, group}};
  BY_TRY(by_plan_check_switches(plan));
  if (!by_group_has_server(plan, b.of.group))
    return by_fail(BANYAN_ERR_UNSUPPORTED, "plan '%s', class %u, group %u: has no server at its root", plan->name,
                   class_, group);
  b.tree = calloc(1, sizeof *b.tree);
  if (!b.tree) return by_plan_no_memory();
  enum banyan_status status = make_tree(&b);
  if (status != BANYAN_OK) {
    by_switched_tree_destroy(b.tree);
    return status;
  }
  *out = b.tree;
  return BANYAN_OK;
}

void by_switched_tree_destroy(struct by_switched_tree *tree) {
  if (!tree) return;
  by_arena_fini(&tree->arena);
  free(tree);
}

size_t by_server_host_bytes(const char *server_name) {
  const char *slash = strrchr(server_name, '/');
  return slash ? (size_t)(slash - server_name) : strlen(server_name);
}
