/* Derives plans: over ranks from one over hosts, over ranks only from one with helpers; and makes the default plan. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"
#include "plan_make.h"

/* The ranks on each host: rank[start[h]] .. rank[start[h + 1] - 1], ascending. */
struct hosts {
  uint32_t n_hosts, n_ranks;
  uint32_t fewest; /* the smallest number of ranks on a host */
  uint32_t *start, *rank, *host_of;
  uint32_t *anchor; /* scratch: the vertex to which each host's ranks are attached; the host itself if it is in the
                       group's order */
  struct by_twig **twigs; /* the twigs of groups in which the i-th ranks lead and no host is a twig; shared by all of
                             them, in the plan's arena */
};

/* `host_of_rank` has numbers below n_hosts. One allocation holds all arrays. */
static enum banyan_status init_hosts(struct hosts *hosts, const uint32_t *host_of_rank, uint32_t n_ranks,
                                     uint32_t n_hosts) {
  *hosts = (struct hosts){.n_hosts = n_hosts, .n_ranks = n_ranks, .fewest = n_ranks};
  hosts->start = calloc(2 * ((size_t)n_hosts + 1 + n_ranks), sizeof *hosts->start);
  if (!hosts->start) return by_plan_no_memory();
  hosts->rank = hosts->start + n_hosts + 2;
  hosts->host_of = hosts->rank + n_ranks;
  hosts->anchor = hosts->host_of + n_ranks;
  for (uint32_t r = 0; r < n_ranks; r++) hosts->start[host_of_rank[r] + 2]++;
  for (uint32_t h = 0; h < n_hosts; h++) {
    uint32_t ranks = hosts->start[h + 2];
    if (ranks < hosts->fewest) hosts->fewest = ranks;
    hosts->start[h + 2] += hosts->start[h + 1];
  }
  for (uint32_t r = 0; r < n_ranks; r++) hosts->rank[hosts->start[host_of_rank[r] + 1]++] = r;
  memcpy(hosts->host_of, host_of_rank, n_ranks * sizeof *host_of_rank);
  return BANYAN_OK;
}

/* What all copies of one group share. */
struct expansion {
  struct by_plan *plan;
  const struct hosts *hosts;
  const struct by_plan *over_hosts;
  const struct by_group *from;
  uint32_t leaders; /* how many ranks of each host lead a group */
  uint32_t leader;  /* which rank of each host leads the present group */
};

/* Returns the vertex for one of the plan over hosts. */
static uint32_t map_vertex(const void *expansion, uint32_t vertex) {
  const struct expansion *e = expansion;
  uint32_t n_hosts = e->over_hosts->n_ranks;
  if (vertex >= n_hosts) return e->hosts->n_ranks + vertex - n_hosts;
  return e->hosts->rank[e->hosts->start[vertex] + e->leader];
}

/* Returns the number of groups that one becomes. A server has one tree, to which one rank of each host sends. */
static uint32_t count_leaders(const struct expansion *e, const struct by_group *from) {
  return by_group_has_server(e->over_hosts, from) ? 1 : e->leaders;
}

/* Makes all ranks that do not lead twigs of the leader of their host. */
static enum banyan_status add_twigs(const struct expansion *e, struct by_group *to) {
  const struct by_group *from = e->from;
  struct by_twig **shared = from->n_twigs ? NULL : &e->hosts->twigs[e->leader];
  uint32_t max = e->hosts->n_ranks - e->hosts->n_hosts;
  if (shared && *shared) {
    to->twigs = *shared;
    to->n_twigs = max;
    return BANYAN_OK;
  }
  to->twigs = BY_ARENA_ARRAY(&e->plan->arena, struct by_twig, from->n_twigs ? e->hosts->n_ranks : max);
  to->n_twigs = 0;
  if (!to->twigs) return by_plan_no_memory();
  for (uint32_t i = 0; i < from->n; i++)
    if (from->order[i] < e->hosts->n_hosts) e->hosts->anchor[from->order[i]] = from->order[i];
  for (uint32_t i = 0; i < from->n_twigs; i++) e->hosts->anchor[from->twigs[i].child] = from->twigs[i].parent;
  for (uint32_t r = 0; r < e->hosts->n_ranks; r++) {
    uint32_t parent = map_vertex(e, e->hosts->anchor[e->hosts->host_of[r]]);
    if (parent != r) to->twigs[to->n_twigs++] = (struct by_twig){.child = r, .parent = parent};
  }
  if (shared) *shared = to->twigs;
  return BANYAN_OK;
}

/* Adds the group over leaders. */
static enum banyan_status add_group(const struct expansion *e, struct by_group *to) {
  const struct by_group *from = e->from;
  BY_TRY(by_group_copy(e->plan, to, from, map_vertex, e));
  uint32_t leaders = count_leaders(e, from);
  to->share = from->share / leaders;
  to->rate = from->rate / leaders;
  return add_twigs(e, to);
}

/* Returns how many groups a class becomes. */
static uint64_t count_groups(const struct expansion *e, const struct by_class *from) {
  uint64_t n = 0;
  for (uint32_t g = 0; g < from->n_groups; g++) n += count_leaders(e, &from->groups[g]);
  return n;
}

/* Fills a class of the plan from the class `from`. */
static enum banyan_status expand_class(struct expansion *e, const struct by_class *from, struct by_class *to) {
  uint64_t n = count_groups(e, from);
  if (n > BY_PLAN_MAX_GROUPS)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%u trees for each of %u ranks of a host: at most %d are possible",
                   from->n_groups, e->leaders, BY_PLAN_MAX_GROUPS);
  BY_TRY(by_plan_add_groups(e->plan, to, (uint32_t)n));
  for (uint32_t g = 0, at = 0; g < from->n_groups; g++) {
    e->from = &from->groups[g];
    uint32_t leaders = count_leaders(e, e->from), first = leaders < e->leaders ? g % e->leaders : 0;
    for (e->leader = first; e->leader < first + leaders; e->leader++) BY_TRY(add_group(e, &to->groups[at++]));
  }
  return BANYAN_OK;
}

/* Returns the next class from `*at` on that the plan keeps, where `*groups` counts the groups of the classes before it:
 * all size classes, and own classes as long as their groups fit, since without one the collectives use the size
 * classes. NULL: none. */
static const struct by_class *next_class(const struct expansion *e, uint32_t *at, uint64_t *groups) {
  const struct by_plan *from = e->over_hosts;
  while (*at < from->n_classes + from->n_own) {
    uint32_t i = (*at)++;
    uint64_t n = count_groups(e, &from->classes[i]);
    if (i >= from->n_classes && *groups + n > BY_PLAN_MAX_GROUPS) continue;
    *groups += n;
    return &from->classes[i];
  }
  return NULL;
}

static enum banyan_status expand_classes(struct expansion *e) {
  const struct by_class *from;
  uint64_t groups = 0;
  uint32_t n = 0, at = 0;
  while (next_class(e, &at, &groups)) n++;
  BY_TRY(by_plan_add_classes(e->plan, e->over_hosts->n_classes, n - e->over_hosts->n_classes));
  struct by_class *to = e->plan->classes;
  for (groups = at = 0; (from = next_class(e, &at, &groups)) != NULL; to++) {
    *to = *from;
    to->part = NULL;
    BY_TRY(expand_class(e, from, to));
  }
  return BANYAN_OK;
}

/* Adds the ranks, and behind them the vertices that are no hosts. */
static enum banyan_status add_vertices(struct by_plan *plan, const struct by_plan *over_hosts, uint32_t n_ranks) {
  BY_TRY(by_plan_add_vertices(plan, n_ranks, over_hosts->n_vertices - over_hosts->n_ranks));
  for (uint32_t v = n_ranks; v < plan->n_vertices; v++) {
    const struct by_vertex *from = &over_hosts->vertices[v - n_ranks + over_hosts->n_ranks];
    plan->vertices[v].kind = from->kind;
    plan->vertices[v].name = by_arena_string(&plan->arena, from->name);
    if (!plan->vertices[v].name) return by_plan_no_memory();
  }
  return BANYAN_OK;
}

static enum banyan_status add_twig_arrays(struct hosts *hosts, struct by_plan *plan) {
  hosts->twigs = BY_ARENA_ARRAY(&plan->arena, struct by_twig *, hosts->fewest);
  return hosts->twigs ? BANYAN_OK : by_plan_no_memory();
}

static enum banyan_status expand_plan(struct by_plan *plan, struct hosts *hosts, const struct by_plan *over_hosts) {
  struct expansion e = {.plan = plan, .hosts = hosts, .over_hosts = over_hosts, .leaders = hosts->fewest};
  plan->chunk = over_hosts->chunk;
  plan->facts = over_hosts->facts;
  plan->origin = over_hosts->origin;
  BY_TRY(add_vertices(plan, over_hosts, hosts->n_ranks));
  BY_TRY(add_twig_arrays(hosts, plan));
  const struct by_plan_host_ranks ranks = {hosts->n_hosts, hosts->n_ranks, hosts->start, hosts->rank};
  BY_TRY(by_plan_control_expand(plan, &over_hosts->control, &ranks));
  return expand_classes(&e);
}

enum banyan_status by_plan_expand(const struct by_plan *over_hosts, const uint32_t *host_of_rank, uint32_t n_ranks,
                                  struct by_plan **out) {
  struct hosts hosts = {0};
  struct by_plan *plan = NULL;
  if (n_ranks < 1 || n_ranks > BY_PLAN_MAX_VERTICES)
    return by_fail(BANYAN_ERR_ARGUMENT, "%u ranks, must be 1 to %d", n_ranks, BY_PLAN_MAX_VERTICES);
  for (uint32_t r = 0; r < n_ranks; r++)
    if (host_of_rank[r] >= over_hosts->n_ranks)
      return by_fail(BANYAN_ERR_ARGUMENT, "rank %u is on host %u, but the plan has %u hosts", r, host_of_rank[r],
                     over_hosts->n_ranks);
  BY_TRY(init_hosts(&hosts, host_of_rank, n_ranks, over_hosts->n_ranks));
  enum banyan_status status = by_plan_create(over_hosts->name, &plan);
  if (status == BANYAN_OK && !hosts.fewest)
    status = by_fail(BANYAN_ERR_ARGUMENT, "the plan is for %u hosts, but one of them has no rank", hosts.n_hosts);
  if (status == BANYAN_OK) status = expand_plan(plan, &hosts, over_hosts);
  free(hosts.start);
  return by_plan_end(plan, status, out);
}

void by_plan_limit_own(struct by_plan *plan, uint64_t max) {
  uint64_t positions = 0;
  for (uint32_t c = plan->n_classes; c < plan->n_classes + plan->n_own; c++)
    for (uint32_t g = 0; g < plan->classes[c].n_groups; g++)
      positions += plan->classes[c].groups[g].n + plan->classes[c].groups[g].n_twigs;
  if (positions <= max) return;
  plan->n_own = 0;
  plan->version = by_plan_hash(plan);
}

/* --- Plans of ranks only. --- */

/* A plan without its helpers, for what has to go among ranks alone:
 *
 *        h                   a                 a, b, c: children of helper h; the first takes its
 *      / | \\      -->      /                  place where h was the root, else they hang below
 *     a  b  c             b                    h's parent, one below the other
 *                        /
 *                       c                                                              */

#define NONE UINT32_MAX

bool by_group_has_helpers(const struct by_plan *plan, const struct by_group *group) {
  for (uint32_t i = 0; i < group->n; i++)
    if (group->order[i] >= plan->n_ranks) return true;
  return false;
}

/* A tree from which vertices are removed; positions are those of the original group. */
struct reduced_tree {
  struct by_group *group; /* a group of the new plan, still with all positions */
  bool *removed;          /* for each position: it was removed */
};

static void reverse_path(uint32_t *parent, uint32_t root, uint32_t to) {
  uint32_t before = to, u = parent[to];
  parent[to] = to;
  while (before != root) {
    uint32_t next = parent[u];
    parent[u] = before;
    before = u;
    u = next;
  }
}

static void chain_children(const struct reduced_tree *reduced_tree, uint32_t *parent, uint32_t u) {
  uint32_t last = parent[u];
  for (uint32_t c = 0; c < reduced_tree->group->n; c++)
    if (c != u && parent[c] == u && !reduced_tree->removed[c]) {
      parent[c] = last;
      last = c;
    }
}

/* Removes a helper from a tree of ranks and helpers. A helper that is the root has a child. */
static void remove_helper(struct reduced_tree *reduced_tree, uint32_t u) {
  struct by_group *group = reduced_tree->group;
  if (group->root == u) {
    uint32_t root = 0;
    while (root == u || group->up[root] != u || reduced_tree->removed[root]) root++;
    reverse_path(group->up, u, root);
    if (group->down != group->up) reverse_path(group->down, u, root);
    group->root = root;
  }
  chain_children(reduced_tree, group->up, u);
  if (group->down != group->up) chain_children(reduced_tree, group->down, u);
  reduced_tree->removed[u] = true;
}

/* Replaces a helper by a rank that is its twig, if there is one. */
static bool replace_by_twig(struct by_group *group, uint32_t u) {
  uint32_t helper = group->order[u], n = 0, rank = NONE;
  for (uint32_t i = 0; i < group->n_twigs; i++) {
    struct by_twig twig = group->twigs[i];
    if (twig.parent == helper && rank == NONE) {
      rank = twig.child;
      continue;
    }
    if (twig.parent == helper) twig.parent = rank;
    group->twigs[n++] = twig;
  }
  group->n_twigs = n;
  if (rank != NONE) group->order[u] = rank;
  return rank != NONE;
}

/* Closes the gaps of removed positions; `index` is scratch memory. */
static void close_gaps(const struct reduced_tree *reduced_tree, uint32_t *index) {
  struct by_group *group = reduced_tree->group;
  bool both = group->down != group->up;
  uint32_t n = 0;
  for (uint32_t u = 0; u < group->n; u++) index[u] = reduced_tree->removed[u] ? NONE : n++;
  for (uint32_t u = 0; u < group->n; u++) {
    if (reduced_tree->removed[u]) continue;
    group->order[index[u]] = group->order[u];
    group->up[index[u]] = index[group->up[u]];
    if (both) group->down[index[u]] = index[group->down[u]];
  }
  group->root = index[group->root];
  group->n = n;
  group->n_forwards = group->n_ports = 0;
}

static enum banyan_status remove_others(const struct by_plan *from, struct by_plan *plan, struct by_group *group) {
  if (!by_group_has_helpers(from, group)) return BANYAN_OK;
  if (group->kind != BY_GROUP_TREE || !group->up || !group->down)
    return by_fail(
        BANYAN_ERR_UNSUPPORTED,
        "plan '%s' has a helper in a group of kind \"rotated\" or \"exchange\", where nobody can be left out if it "
        "is lost: give it trees of kind \"tree\"",
        from->name);
  struct reduced_tree reduced_tree = {.group = group, .removed = BY_ARENA_ARRAY(&plan->arena, bool, group->n)};
  uint32_t *index = BY_ARENA_ARRAY(&plan->arena, uint32_t, group->n);
  if (!reduced_tree.removed || !index) return by_plan_no_memory();
  for (uint32_t u = 0; u < group->n; u++)
    if (group->order[u] >= plan->n_ranks && !replace_by_twig(group, u)) remove_helper(&reduced_tree, u);
  close_gaps(&reduced_tree, index);
  return BANYAN_OK;
}

enum banyan_status by_plan_among_ranks(const struct by_plan *plan, struct by_plan **out) {
  return by_plan_rework(plan, plan->n_ranks, remove_others, out);
}

/* Turns the rest of a star around a server into a ring, in the order of its ranks. */
static enum banyan_status make_ring(const struct by_plan *from, struct by_plan *plan, struct by_group *group) {
  bool star = by_group_has_server(from, group);
  BY_TRY(remove_others(from, plan, group));
  if (!star || group->n < 2) return BANYAN_OK;
  uint32_t n = group->n;
  group->kind = BY_GROUP_ROTATED;
  group->root = 0;
  group->up = BY_ARENA_ARRAY(&plan->arena, uint32_t, n);
  group->down = BY_ARENA_ARRAY(&plan->arena, uint32_t, n);
  group->radix = BY_ARENA_NEW(&plan->arena, uint32_t);
  if (!group->up || !group->down || !group->radix) return by_plan_no_memory();
  group->n_radix = 1;
  group->radix[0] = n;
  for (uint32_t u = 1; u < n; u++) {
    group->up[u] = (u + 1) % n;
    group->down[u] = u - 1;
  }
  return BANYAN_OK;
}

enum banyan_status by_plan_in_rings(const struct by_plan *plan, struct by_plan **out) {
  return by_plan_rework(plan, plan->n_ranks, make_ring, out);
}

/* --- The default. --- */

/* A built-in for buffers up to a size, over ranks or hosts: one for up to `few` of them and one for more. `split`: each
 * rank of a host leads a slice; otherwise one rank leads, with fewer messages. */
struct choice {
  uint64_t up_to;
  uint32_t few;
  const char *for_few, *for_more;
  bool split;
};

/* Within a host a step costs microseconds and memory is the wire:
 * - small: fewest steps. Everyone reads everyone's buffer; beyond eight ranks n * n reads cost more than a second step.
 * - large: a star per rank reads each buffer once and needs two steps; with many ranks its n * n messages
 *   outweigh the steps of the ring. */
static const struct choice one_host[] = {
    {16 << 10, 8, "exchange", "exchange:4", false},
    {UINT64_MAX, 8, "sharded", "ring", false},
};

/* Where ranks share cores, every message costs a turn on one of them, so the fewest messages win, not the fewest steps.
 * One rank adds in one turn what all others sent in theirs; large messages share the adding. Measured, 4 ranks on 2
 * cores: 8 B 4.1 us against 7.7 (doubling), 5.1 (exchange); 256 KiB 56 us against 83 (star), 64 (halving), 72
 * (sharded). */
static const struct choice one_crowded_host[] = {
    {16 << 10, 8, "star", "tree:4", false},
    {8 << 20, 8, "tree:2", "tree:4", false},
    {UINT64_MAX, 8, "sharded", "ring", false},
};

/* Between hosts a step costs tens of microseconds and the wire is the bottleneck:
 * - small: fewest steps, one rank per host, because slices of a few KiB would only be more messages;
 * - two hosts send as much in one step as in two: measured up to 512 KiB, 131 to 210 us against 132 to 325 there;
 * - middle: halving sends as few bytes as the ring in log2 instead of n - 1 steps;
 * - large: steps no longer matter, and the ring meets each link once, in one direction. */
static const struct choice several_hosts[] = {
    {8 << 10, 8, "exchange", "exchange:4", false},
    {512 << 10, 2, "exchange", "halving", true},
    {UINT64_MAX, 4, "halving", "ring", true},
};

/* Several hosts by name whose ranks share cores, as with loopback. Measured, 4 ranks on 2 cores: 1 KiB, 27 us against
 * 48 (doubling), 31 (star); 256 KiB, 200 us against 297 (halving); 16 MiB, 19 ms against 25 (tree:2), 24 (ring). */
static const struct choice crowded_hosts[] = {
    {256 << 10, 8, "tree:2", "tree:4", false},
    {UINT64_MAX, 16, "halving", "ring", true},
};

static const struct choice *const tables[2][2] = {{several_hosts, crowded_hosts}, {one_host, one_crowded_host}};
static const uint32_t table_lengths[2][2] = {
    {sizeof several_hosts / sizeof *several_hosts, sizeof crowded_hosts / sizeof *crowded_hosts},
    {sizeof one_host / sizeof *one_host, sizeof one_crowded_host / sizeof *one_crowded_host},
};

static enum banyan_status add_choice(struct by_plan *plan, const struct hosts *hosts, const struct choice *choice,
                                     struct by_class *class_) {
  struct by_plan *over_hosts = NULL;
  const char *name = hosts->n_hosts <= choice->few ? choice->for_few : choice->for_more;
  BY_TRY(by_plan_builtin(name, hosts->n_hosts, &over_hosts));
  struct expansion e = {
      .plan = plan, .hosts = hosts, .over_hosts = over_hosts, .leaders = choice->split ? hosts->fewest : 1};
  class_->up_to = choice->up_to;
  class_->part = name;
  enum banyan_status status = expand_class(&e, over_hosts->classes, class_);
  by_plan_destroy(over_hosts);
  return status;
}

/* Numbers the hosts 0, 1, ... ascending; returns their number. `known` is scratch memory for n numbers. O(n log n) */
static uint32_t number_hosts(const uint32_t *host_of_rank, uint32_t n, uint32_t *known, uint32_t *out) {
  uint32_t n_hosts = 0;
  memcpy(known, host_of_rank, n * sizeof *known);
  qsort(known, n, sizeof *known, by_compare_numbers);
  for (uint32_t i = 0; i < n; i++)
    if (i == 0 || known[i] != known[n_hosts - 1]) known[n_hosts++] = known[i];
  for (uint32_t r = 0; r < n; r++) {
    const uint32_t *found = bsearch(&host_of_rank[r], known, n_hosts, sizeof *known, by_compare_numbers);
    out[r] = (uint32_t)(found - known);
  }
  return n_hosts;
}

/* Assigns the ranks to hosts. If there is a single host, every rank is treated as a host, so that the plan is over
 * ranks directly. */
static enum banyan_status assign_hosts(struct hosts *hosts, const uint32_t *host_of_rank, uint32_t n, bool *alone) {
  uint32_t *number = calloc(2 * (size_t)n, sizeof *number);
  if (!number) return by_plan_no_memory();
  uint32_t n_hosts = host_of_rank ? number_hosts(host_of_rank, n, number + n, number) : 1;
  *alone = n_hosts == 1;
  for (uint32_t r = 0; r < n && *alone; r++) number[r] = r;
  enum banyan_status status = init_hosts(hosts, number, n, *alone ? n : n_hosts);
  free(number);
  return status;
}

enum banyan_status by_plan_default(uint32_t n_ranks, const uint32_t *host_of_rank, bool crowded, struct by_plan **out) {
  struct hosts hosts = {0};
  struct by_plan *plan = NULL;
  bool alone = true;
  if (n_ranks < 1 || n_ranks > BY_PLAN_MAX_VERTICES)
    return by_fail(BANYAN_ERR_ARGUMENT, "%u ranks, must be 1 to %d", n_ranks, BY_PLAN_MAX_VERTICES);
  BY_TRY(assign_hosts(&hosts, host_of_rank, n_ranks, &alone));
  const struct choice *choices = tables[alone][crowded];
  uint32_t n_choices = table_lengths[alone][crowded];
  enum banyan_status status = by_plan_create("default", &plan);
  if (status == BANYAN_OK) status = by_plan_add_vertices(plan, n_ranks, 0);
  if (status == BANYAN_OK) status = add_twig_arrays(&hosts, plan);
  if (status == BANYAN_OK) status = by_plan_add_classes(plan, n_choices, 0);
  for (uint32_t i = 0; status == BANYAN_OK && i < n_choices; i++)
    status = add_choice(plan, &hosts, &choices[i], &plan->classes[i]);
  free(hosts.start);
  return by_plan_end(plan, status, out);
}
