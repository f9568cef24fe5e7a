/* Trees through switches as their ends see them. A switch adds on the way, but nobody sends to it: workers send to the
 * server, which answers. So for the ends such a tree is a star:
 *
 *          s                   s
 *        /   \              / / \ \            x, y: switches
 *       x     y     -->    a b   c d
 *      / \   / \
 *     a   b c   d */
#include <stdlib.h>

#include "plan_make.h"

_Static_assert(BY_PLAN_MOST_HOPS == 8, "an error below says it");

/* A group that has switches or a server, and where it stands, for errors. */
struct through {
  const struct by_plan *plan;
  const struct by_group *group;
  uint32_t class_, number;
};

static enum by_vertex_kind kind_at(const struct through *t, uint32_t u) {
  return t->plan->vertices[t->group->order[u]].kind;
}

static const char *name_at(const struct through *t, uint32_t u) {
  return t->plan->vertices[t->group->order[u]].name;
}

static enum banyan_status refuse(const struct through *t, uint32_t u, const char *why) {
  return by_fail(BANYAN_ERR_UNSUPPORTED, "plan '%s', class %u, group %u: vertex \"%s\" is a %s%s", t->plan->name,
                 t->class_, t->number, name_at(t, u), by_vertex_kind_name(kind_at(t, u)), why);
}

/* Switches on the way from a leaf; no more are counted than there may be. */
static uint32_t switches_above(const struct through *t, uint32_t u) {
  uint32_t n = 0;
  for (uint32_t v = t->group->up[u]; v != t->group->root && n <= BY_PLAN_MOST_HOPS; v = t->group->up[v]) n++;
  return n;
}

static bool has_child(const struct through *t, uint32_t u) {
  for (uint32_t c = 0; c < t->group->n; c++)
    if (c != u && t->group->up[c] == u) return true;
  return false;
}

static enum banyan_status check_position(const struct through *t, uint32_t u) {
  bool root = u == t->group->root, inner = root || has_child(t, u);
  switch (kind_at(t, u)) {
  case BY_VERTEX_RANK:
    if (inner) return refuse(t, u, " with others below it, in a tree through switches, where ranks are leaves");
    if (switches_above(t, u) > BY_PLAN_MOST_HOPS)
      return refuse(t, u, " with more switches on its way than fit into a fragment's stack: most are 8");
    return BANYAN_OK;
  case BY_VERTEX_SERVER:
    if (!root) return refuse(t, u, " below another vertex: a server is the root of its tree");
    return BANYAN_OK;
  case BY_VERTEX_SWITCH:
    if (root)
      return refuse(t, u, " at the root of its tree: sums are finished by a server, which may be a rank's host");
    if (!inner) return refuse(t, u, " with nothing below it");
    return BANYAN_OK;
  default: return refuse(t, u, " in a tree through switches, where only switches add");
  }
}

static enum banyan_status check_group(const struct through *t) {
  uint32_t workers = 0, first = UINT32_MAX;
  for (uint32_t u = 0; u < t->group->n; u++) {
    enum by_vertex_kind kind = kind_at(t, u);
    workers += kind == BY_VERTEX_RANK;
    if ((kind == BY_VERTEX_SWITCH || kind == BY_VERTEX_SERVER) && first == UINT32_MAX) first = u;
  }
  if (first == UINT32_MAX) return BANYAN_OK;
  if (t->group->kind != BY_GROUP_TREE) return refuse(t, first, " in a group that is no single tree");
  if (t->group->down != t->group->up) return refuse(t, first, " in a tree whose way down is another than its way up");
  if (workers > BY_PLAN_MOST_WORKERS)
    return by_fail(
        BANYAN_ERR_UNSUPPORTED,
        "plan '%s', class %u, group %u: %u ranks hang on a tree through switches, which has at most %d: make "
        "some of them twigs, or several groups",
        t->plan->name, t->class_, t->number, workers, BY_PLAN_MOST_WORKERS);
  for (uint32_t u = 0; u < t->group->n; u++) BY_TRY(check_position(t, u));
  for (uint32_t i = 0; i < t->group->n_twigs; i++)
    if (t->group->twigs[i].parent >= t->plan->n_ranks)
      return by_fail(BANYAN_ERR_UNSUPPORTED,
                     "plan '%s', class %u, group %u: rank %u is a twig of \"%s\", which is no rank", t->plan->name,
                     t->class_, t->number, t->group->twigs[i].child, t->plan->vertices[t->group->twigs[i].parent].name);
  return BANYAN_OK;
}

bool by_group_has_server(const struct by_plan *plan, const struct by_group *group) {
  return group->kind == BY_GROUP_TREE && plan->vertices[group->order[group->root]].kind == BY_VERTEX_SERVER;
}

/* A server ends one tree: it is a party to the job of that tree alone. `taken`: servers of trees before. */
static enum banyan_status check_root(const struct through *t, bool *taken) {
  uint32_t root = t->group->root;
  if (!by_group_has_server(t->plan, t->group)) return BANYAN_OK;
  if (taken[t->group->order[root]])
    return refuse(t, root,
                  " that is the root of another tree too: give each tree a server of its own, \"HOST/0\", \"HOST/1\"");
  taken[t->group->order[root]] = true;
  return BANYAN_OK;
}

static enum banyan_status check_all(const struct by_plan *plan, bool *taken) {
  for (uint32_t c = 0; c < plan->n_classes; c++)
    for (uint32_t g = 0; g < plan->classes[c].n_groups; g++) {
      struct through t = {plan, &plan->classes[c].groups[g], c, g};
      BY_TRY(check_group(&t));
      BY_TRY(check_root(&t, taken));
    }
  return BANYAN_OK;
}

enum banyan_status by_plan_check_switches(const struct by_plan *plan) {
  bool *taken = calloc(plan->n_vertices, sizeof *taken);
  if (!taken) return by_plan_no_memory();
  enum banyan_status status = check_all(plan, taken);
  free(taken);
  return status;
}

/* Its leaves, and its root. */
static enum banyan_status to_star(const struct by_plan *from, struct by_plan *plan, struct by_group *group) {
  uint32_t n = 0, root = 0;
  (void)plan;
  if (!by_group_has_server(from, group)) return BANYAN_OK;
  for (uint32_t u = 0; u < group->n; u++) {
    if (from->vertices[group->order[u]].kind == BY_VERTEX_SWITCH) continue;
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
  BY_TRY(by_plan_rework(plan, plan->n_vertices, to_star, out));
  (*out)->version = plan->version;
  return BANYAN_OK;
}
