/* Plans the groups of one job together: packs trees for all of them, and divides links in proportion to their loads. */
#include "planner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "plan_load.h"
#include "plan_make.h"
#include "topology_paths.h"

#define NONE UINT32_MAX

/* Present plans stay unless others have a loss that is smaller by the factor `worth`. The groups' own plans suffice if
 * together they reach the part `enough` of the packing's throughput. */
static const double worth = 1.05, enough = 0.98;
static const double goal = 0.98; /* The part of the bound that the packing must reach. */
/* The part of a link's capacity that is left for all groups that do not need it. */
static const double min_part = 0.05;

/* The state of joint planning. A limit is the capacity of one direction of a link, or of a node. Limits are numbered
 * over all graphs: 2 * link + direction for the first of parallel links, followed by the nodes. */
struct sharing {
  const struct by_topology *topology;
  struct by_share_set *sets;
  uint32_t n, n_limits, n_shared;
  struct by_graph **graphs; /* The graph of each set. */
  struct by_graph *all;
  struct by_paths paths;
  uint32_t
      /* The resource of each limit in `all`, whose first n_shared resources these are; NONE: no edge uses the limit. */
      *resource;
  uint32_t *own;    /* The resource of each limit for the present set alone. */
  uint32_t *set_of; /* The set of each edge of `all`; NONE: the edge joins sets. */
  double *capacity; /* The capacity of each limit in bit/s, 0 if no graph has it. */
  double *max;      /* The part of each limit that one group of each set may use; 1: all of it. */
  double *load;     /* The load by the packing on each limit in bit/s, one set after the other. */
  double *total;    /* The sum of the loads of each limit in bit/s. */
  struct by_arena arena;
};

/* --- Limits. --- */

/* Returns the limit of a direction of a link. */
static uint32_t get_limit(const struct sharing *s, uint32_t link, uint32_t direction) {
  uint32_t first = s->paths.bundle[link];
  bool turned = s->topology->links[link].a != s->topology->links[first].a;
  return 2 * first + (direction ^ turned);
}

/* Returns the number of limits that a resource stands for, and fills `limits`. */
static uint32_t get_limits(const struct sharing *s, const struct by_graph *graph, uint32_t resource,
                           uint32_t limits[2]) {
  const struct by_origin *origin = &graph->origin[resource];
  uint32_t n = 0;
  if (origin->kind == BY_ORIGIN_NODE) limits[n++] = 2 * s->topology->n_links + origin->index;
  for (uint32_t direction = 0; direction < 2 && origin->kind == BY_ORIGIN_LINK; direction++)
    if (origin->direction[direction]) limits[n++] = get_limit(s, origin->index, direction);
  return n;
}

/* --- One graph for all sets. --- */

static enum banyan_status make_graphs(struct sharing *s) {
  for (uint32_t k = 0; k < s->n; k++) {
    struct by_share_set *set = &s->sets[k];
    struct by_graph_choice choice = {.participants = set->nodes, .n_participants = set->n_nodes};
    uint32_t limits[2];
    BY_TRY(by_graph_of_topology(s->topology, &choice, &s->graphs[k]));
    for (uint32_t r = 0; r < s->graphs[k]->n_resources; r++)
      for (uint32_t i = get_limits(s, s->graphs[k], r, limits); i-- > 0;)
        s->capacity[limits[i]] = fmax(s->capacity[limits[i]], s->graphs[k]->capacity[r]);
  }
  return BANYAN_OK;
}

static uint32_t count_groups(const struct by_share_set *set) {
  return set->groups < BY_SHARE_MAX_GROUPS ? set->groups : BY_SHARE_MAX_GROUPS;
}

/* Adds the resources that limit one group of a set, if it may not use the whole capacities. */
static void add_own(struct sharing *s, struct by_graph_builder *builder, uint32_t k) {
  const struct by_graph *graph = s->graphs[k];
  uint32_t limits[2];
  for (uint32_t i = 0; i < s->n_limits; i++) s->own[i] = NONE;
  for (uint32_t r = 0; r < graph->n_resources && s->max[k] < 1; r++)
    for (uint32_t i = get_limits(s, graph, r, limits); i-- > 0;)
      if (s->own[limits[i]] == NONE && s->capacity[limits[i]] > 0)
        s->own[limits[i]] = by_graph_add_resource(builder, s->max[k] * s->capacity[limits[i]]);
}

/* Adds the edges of a set. An edge loads each limit once for each group of the set. */
static enum banyan_status add_edges(struct sharing *s, struct by_graph_builder *builder, uint32_t k, uint32_t before) {
  const struct by_graph *graph = s->graphs[k];
  uint32_t groups = count_groups(&s->sets[k]), max_uses = 0;
  for (uint32_t e = 0; e < graph->n_edges; e++) max_uses = graph->edges[e].n > max_uses ? graph->edges[e].n : max_uses;
  uint32_t *uses = calloc(2 * (size_t)max_uses * (groups + 1) + 1, sizeof *uses);
  if (!uses) return by_plan_no_memory();
  add_own(s, builder, k);
  for (uint32_t e = 0; e < graph->n_edges; e++) {
    const struct by_graph_edge *edge = &graph->edges[e];
    uint32_t n = 0, limits[2];
    for (uint32_t i = 0; i < edge->n; i++)
      for (uint32_t j = get_limits(s, graph, graph->uses[edge->first + i], limits); j-- > 0;) {
        for (uint32_t g = 0; g < groups; g++) uses[n++] = s->resource[limits[j]];
        if (s->own[limits[j]] != NONE) uses[n++] = s->own[limits[j]];
      }
    s->set_of[by_graph_add_edge(builder, before + edge->a, before + edge->b, edge->delay, uses, n)] = k;
  }
  free(uses);
  return BANYAN_OK;
}

/* Makes one graph of all sets. Edges of very large capacity join the sets, so that a spanning tree consists of one tree
 * of each set and these edges. */
static enum banyan_status join_sets(struct sharing *s) {
  struct by_graph_builder builder;
  uint32_t vertices = 0;
  size_t edges = s->n;
  double max = 0;
  for (uint32_t k = 0; k < s->n; k++) {
    vertices += s->graphs[k]->n_vertices;
    edges += s->graphs[k]->n_edges;
  }
  if (!s->set_of) s->set_of = BY_ARENA_ARRAY(&s->arena, uint32_t, edges);
  if (!s->set_of) return by_plan_no_memory();
  by_graph_builder_init(&builder, vertices, vertices);
  s->n_shared = 0;
  for (uint32_t i = 0; i < s->n_limits; i++) {
    s->resource[i] = s->capacity[i] > 0 ? by_graph_add_resource(&builder, s->capacity[i]) : NONE;
    s->n_shared += s->resource[i] != NONE;
    max = fmax(max, s->capacity[i]);
  }
  uint32_t before = 0;
  enum banyan_status status = BANYAN_OK;
  for (uint32_t k = 0; k < s->n && status == BANYAN_OK; k++) {
    if (k > 0) s->set_of[by_graph_add_link(&builder, 0, before, max * vertices, 0)] = NONE;
    status = add_edges(s, &builder, k, before);
    before += s->graphs[k]->n_vertices;
  }
  if (status != BANYAN_OK) {
    by_graph_builder_fini(&builder);
    return status;
  }
  by_graph_destroy(s->all);
  s->all = NULL;
  return by_graph_finish(&builder, &s->all);
}

/* --- The load of each set. --- */

static void add_tree(struct sharing *s, const struct by_packed *tree, double *load_of) {
  for (uint32_t i = 0; i < tree->n; i++) {
    const struct by_graph_edge *edge = &s->all->edges[tree->edges[i]];
    uint32_t k = s->set_of[tree->edges[i]];
    for (uint32_t j = 0; j < edge->n && k != NONE; j++)
      if (s->all->uses[edge->first + j] < s->n_shared)
        load_of[(size_t)k * s->n_shared + s->all->uses[edge->first + j]] += tree->rate;
  }
}

static enum banyan_status pack_sets(struct sharing *s, const struct by_planner_options *options,
                                    struct by_packing **out) {
  static const struct by_weights_options weights = {.goal = goal};
  BY_TRY(join_sets(s));
  s->all->cancelled = options->cancelled;
  return by_pack_weights(s->all, &weights, out);
}

/* Packs so that no group alone loses more than all groups together. With loss L all together have the rate bound / L,
 * and a group alone has own / L, where `own` is its bound. At that rate it loads a limit of capacity c by at most c, so
 * at the rate of all together by at most c * bound / own. These are additional limits for the packing, whose bound
 * yields the smallest possible L. */
static enum banyan_status pack_fairly(struct sharing *s, const struct by_planner_options *options, double bound,
                                      double *min_loss) {
  struct by_packing *packing = NULL;
  for (uint32_t k = 0; k < s->n; k++)
    s->max[k] = s->sets[k].alone->facts.bound > bound ? bound / s->sets[k].alone->facts.bound : 1;
  BY_TRY(pack_sets(s, options, &packing));
  s->load = calloc((size_t)s->n * s->n_shared, sizeof *s->load);
  s->total = calloc((size_t)s->n_shared + 1, sizeof *s->total);
  enum banyan_status status = s->load && s->total ? BANYAN_OK : by_plan_no_memory();
  for (uint32_t t = 0; t < packing->n_trees && status == BANYAN_OK; t++) add_tree(s, &packing->trees[t], s->load);
  for (uint32_t k = 0; k < s->n && status == BANYAN_OK; k++)
    for (uint32_t r = 0; r < s->n_shared; r++) s->total[r] += s->load[(size_t)k * s->n_shared + r];
  *min_loss = fmax(1, bound / packing->bound);
  by_packing_destroy(packing);
  return status;
}

/* Returns the part of a limit's capacity with which one of the groups on these hosts is planned. */
static double get_part(const struct sharing *s, uint32_t k, uint32_t limit) {
  uint32_t r = s->resource[limit];
  double part = 1;
  if (r != NONE && s->total[r] > 0) part = s->load[(size_t)k * s->n_shared + r] / s->total[r];
  return fmin(fmax(part, min_part / s->n) / count_groups(&s->sets[k]), s->max[k]);
}

static void reduce_capacity(struct by_capacity *capacity, double part) {
  double left = by_residual(*capacity);
  if (left > 0 && !isinf(left)) capacity->used = capacity->all - fmax(part * left, BY_MIN_RATE);
}

/* Makes the topology that a group of a set may use. It borrows everything from the original but links and nodes, which
 * the caller frees. */
static enum banyan_status make_partial_topology(const struct sharing *s, uint32_t k, struct by_topology *out) {
  const struct by_topology *t = s->topology;
  *out = *t;
  out->links = calloc((size_t)t->n_links + 1, sizeof *out->links);
  out->nodes = calloc((size_t)t->n_nodes + 1, sizeof *out->nodes);
  if (!out->links || !out->nodes) return by_plan_no_memory();
  memcpy(out->links, t->links, t->n_links * sizeof *out->links);
  memcpy(out->nodes, t->nodes, t->n_nodes * sizeof *out->nodes);
  for (uint32_t l = 0; l < t->n_links; l++)
    for (uint32_t direction = 0; direction < 2; direction++)
      reduce_capacity(&out->links[l].capacity[direction], get_part(s, k, get_limit(s, l, direction)));
  for (uint32_t v = 0; v < t->n_nodes; v++) {
    double part = get_part(s, k, 2 * t->n_links + v);
    reduce_capacity(&out->nodes[v].out, part);
    reduce_capacity(&out->nodes[v].in, part);
  }
  return BANYAN_OK;
}

static enum banyan_status plan_joint(const struct sharing *s, const char *name,
                                     const struct by_planner_options *options, uint32_t k) {
  struct by_planner_options own = *options;
  struct by_planned planned;
  struct by_topology part;
  enum banyan_status status = make_partial_topology(s, k, &part);
  own.choice = (struct by_graph_choice){.participants = s->sets[k].nodes, .n_participants = s->sets[k].n_nodes};
  if (status == BANYAN_OK) status = by_planner_run(name, &part, &own, &planned);
  if (status == BANYAN_OK) {
    s->sets[k].plan = planned.plan;
    planned.plan = NULL;
    by_planned_fini(&planned);
  }
  free(part.links);
  free(part.nodes);
  return status;
}

/* --- Losses. --- */

static void add_load(const struct sharing *s, const struct by_plan_load *load, uint32_t groups, double *total) {
  const struct by_topology *t = s->topology;
  for (uint32_t l = 0; l < t->n_links; l++)
    for (uint32_t direction = 0; direction < 2; direction++)
      total[2 * l + direction] += groups * load->link[l][direction];
  for (uint32_t v = 0; v < t->n_nodes; v++)
    for (uint32_t direction = 0; direction < 2; direction++)
      total[2 * (t->n_links + v) + direction] += groups * load->node[v][direction];
}

static double compute_rate(const struct sharing *s, const double *total) {
  const struct by_topology *t = s->topology;
  double rate = INFINITY;
  for (uint32_t l = 0; l < t->n_links; l++)
    for (uint32_t direction = 0; direction < 2; direction++)
      if (total[2 * l + direction] > 0)
        rate = fmin(rate, by_residual(t->links[l].capacity[direction]) / total[2 * l + direction]);
  for (uint32_t v = 0; v < t->n_nodes; v++) {
    const double *of = &total[2 * (t->n_links + v)];
    if (of[0] > 0) rate = fmin(rate, by_residual(t->nodes[v].out) / of[0]);
    if (of[1] > 0) rate = fmin(rate, by_residual(t->nodes[v].in) / of[1]);
  }
  return rate;
}

/* Returns the plan of a set for a choice. A set without a present plan uses that of its own. */
static const struct by_plan *get_chosen(const struct by_share_set *set, enum by_share_choice choice) {
  if (choice == BY_SHARE_JOINT) return set->plan;
  return choice == BY_SHARE_CURRENT && set->current ? set->current : set->alone;
}

/* Computes the rate and the loss of a choice for large buffers. */
static enum banyan_status weigh_choice(const struct sharing *s, enum by_share_choice choice, double bound,
                                       struct by_shared *out) {
  double *total = calloc(2 * ((size_t)s->topology->n_links + s->topology->n_nodes), sizeof *total);
  enum banyan_status status = total ? BANYAN_OK : by_plan_no_memory();
  *out = (struct by_shared){.bound = bound, .loss = 1, .min_loss = 1};
  for (uint32_t k = 0; k < s->n && status == BANYAN_OK; k++) {
    const struct by_share_set *set = &s->sets[k];
    const struct by_plan *plan = get_chosen(set, choice);
    struct by_plan_load load;
    status = by_plan_load_init(&load, plan, &plan->classes[plan->n_classes - 1], s->topology);
    if (status != BANYAN_OK) break;
    add_load(s, &load, count_groups(set), total);
    if (set->alone->facts.bound > 0) out->loss = fmax(out->loss, set->alone->facts.bound / load.rate);
    by_plan_load_fini(&load);
  }
  if (status == BANYAN_OK) {
    out->rate = compute_rate(s, total);
    out->loss = fmax(out->loss, bound / out->rate);
  }
  free(total);
  return status;
}

/* --- The choice. --- */

static enum banyan_status consider_joint(struct sharing *s, const char *name, const struct by_planner_options *options,
                                         const struct by_packing *packing, const struct by_shared *alone,
                                         struct by_shared *joint) {
  double min_loss;
  *joint = (struct by_shared){.loss = INFINITY, .min_loss = 1};
  if (alone->rate >= enough * packing->throughput) return BANYAN_OK;
  BY_TRY(pack_fairly(s, options, packing->bound, &min_loss));
  for (uint32_t k = 0; k < s->n; k++) BY_TRY(plan_joint(s, name, options, k));
  BY_TRY(weigh_choice(s, BY_SHARE_JOINT, packing->bound, joint));
  joint->min_loss = min_loss;
  return BANYAN_OK;
}

static enum banyan_status choose_plans(struct sharing *s, const char *name, const struct by_planner_options *options,
                                       const struct by_packing *packing, struct by_shared *out) {
  struct by_shared current, alone, joint;
  BY_TRY(weigh_choice(s, BY_SHARE_CURRENT, packing->bound, &current));
  BY_TRY(weigh_choice(s, BY_SHARE_ALONE, packing->bound, &alone));
  BY_TRY(consider_joint(s, name, options, packing, &alone, &joint));
  enum by_share_choice choice = joint.loss < alone.loss ? BY_SHARE_JOINT : BY_SHARE_ALONE;
  *out = choice == BY_SHARE_JOINT ? joint : alone;
  if (current.loss <= worth * out->loss) {
    choice = BY_SHARE_CURRENT;
    *out = current;
  }
  out->min_loss = joint.min_loss;
  for (uint32_t k = 0; k < s->n; k++) {
    struct by_share_set *set = &s->sets[k];
    set->choice = choice == BY_SHARE_CURRENT && !set->current ? BY_SHARE_ALONE : choice;
    if (choice == BY_SHARE_JOINT) continue;
    by_plan_destroy(set->plan);
    set->plan = NULL;
  }
  return BANYAN_OK;
}

static enum banyan_status init_sharing(struct sharing *s) {
  s->n_limits = 2 * s->topology->n_links + s->topology->n_nodes;
  s->graphs = BY_ARENA_ARRAY(&s->arena, struct by_graph *, s->n);
  s->resource = BY_ARENA_ARRAY(&s->arena, uint32_t, s->n_limits);
  s->own = BY_ARENA_ARRAY(&s->arena, uint32_t, s->n_limits);
  s->capacity = BY_ARENA_ARRAY(&s->arena, double, s->n_limits);
  s->max = BY_ARENA_ARRAY(&s->arena, double, s->n);
  for (uint32_t k = 0; k < s->n && s->max; k++) s->max[k] = 1;
  return s->arena.failed ? by_plan_no_memory() : by_paths_init(&s->paths, s->topology);
}

static void free_sharing(struct sharing *s) {
  for (uint32_t k = 0; k < s->n && s->graphs; k++) by_graph_destroy(s->graphs[k]);
  by_graph_destroy(s->all);
  by_paths_fini(&s->paths);
  free(s->load);
  free(s->total);
  by_arena_fini(&s->arena);
}

enum banyan_status by_planner_share(const char *name, const struct by_topology *topology,
                                    const struct by_planner_options *options, struct by_share_set *sets, uint32_t n,
                                    struct by_shared *out) {
  struct sharing s = {.topology = topology, .sets = sets, .n = n};
  struct by_packing *packing = NULL;
  if (n < 1 || n > BY_SHARE_MAX)
    return by_fail(BANYAN_ERR_ARGUMENT, "%u sets of hosts are planned together, must be 1 to %d", n, BY_SHARE_MAX);
  for (uint32_t k = 0; k < n; k++) sets[k].plan = NULL;
  enum banyan_status status = init_sharing(&s);
  if (status == BANYAN_OK) status = make_graphs(&s);
  if (status == BANYAN_OK) status = pack_sets(&s, options, &packing);
  if (status == BANYAN_OK) status = choose_plans(&s, name, options, packing, out);
  for (uint32_t k = 0; k < n && status != BANYAN_OK; k++) {
    by_plan_destroy(sets[k].plan);
    sets[k].plan = NULL;
  }
  by_packing_destroy(packing);
  free_sharing(&s);
  return status;
}
