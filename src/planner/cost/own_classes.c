/* Adds to a plan the classes of the collectives other than allreduce, and computes the rates of collectives. */
#include "own_classes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "collective.h"
#include "collective_bound.h"
#include "directed.h"
#include "plan_make.h"

/* --- The rate of a collective over a class. --- */

struct loads {
  const struct by_group *group;
  uint32_t n;
  bool up;            /* Sums go towards the root of a piece; if false, results go away from it. */
  double *sent;       /* An n x n matrix: how often the buffer is sent from one rank to another. */
  bool *passed;       /* For each position, whether the piece's root is in its subtree. */
  uint32_t *position; /* The position of each rank; for a twig that of its parent. */
};

static double get_sent(const void *context, uint32_t from, uint32_t to) {
  const struct loads *loads = context;
  return loads->sent[(size_t)from * loads->n + to];
}

/* Adds an edge whose end `near` is nearer to the piece's root. */
static void add_edge(const struct loads *loads, uint32_t near, uint32_t far, double weight) {
  uint32_t from = loads->up ? far : near, to = loads->up ? near : far;
  loads->sent[(size_t)from * loads->n + to] += weight;
}

/* Adds a piece of `owner` along the template, translated by t. */
static void add_tree(const struct loads *loads, uint32_t owner, uint32_t t, double weight) {
  const struct by_group *group = loads->group;
  const uint32_t *parent = loads->up ? group->up : group->down;
  uint32_t at = loads->position[owner], top = t ? by_group_untranslate(group, at, t) : at;
  for (uint32_t u = 0; u < group->n; u++) loads->passed[u] = false;
  for (uint32_t u = top; u != group->root; u = parent[u]) loads->passed[u] = true;
  for (uint32_t u = 0; u < group->n; u++) {
    if (u == group->root) continue;
    uint32_t child = group->order[t ? by_group_translate(group, u, t) : u];
    uint32_t above = group->order[t ? by_group_translate(group, parent[u], t) : parent[u]];
    add_edge(loads, loads->passed[u] ? child : above, loads->passed[u] ? above : child, weight);
  }
  for (uint32_t i = 0; i < group->n_twigs; i++) {
    const struct by_twig *twig = &group->twigs[i];
    bool owns = twig->child == owner;
    add_edge(loads, owns ? twig->child : twig->parent, owns ? twig->parent : twig->child, weight);
  }
}

/* Adds all pieces of a group of which `owner` owns a part. */
static void add_owner(const struct loads *loads, bool blocks, uint32_t owner, double part) {
  const struct by_group *group = loads->group;
  bool rotated = group->kind == BY_GROUP_ROTATED;
  if (!rotated || blocks) {
    uint32_t t = rotated ? by_group_untranslate(group, loads->position[owner], group->root) : 0;
    add_tree(loads, owner, t, group->share * part);
    return;
  }
  for (uint32_t t = 0; t < group->n; t++) add_tree(loads, owner, t, group->share / group->n * part);
}

static bool is_known(const struct by_plan *plan, const struct by_class *class_) {
  for (uint32_t g = 0; g < class_->n_groups; g++) {
    const struct by_group *group = &class_->groups[g];
    if (group->kind == BY_GROUP_EXCHANGE) return false;
    for (uint32_t u = 0; u < group->n; u++)
      if (group->order[u] >= plan->n_ranks) return false;
  }
  return true;
}

static void add_group(struct loads *loads, const struct by_class *class_, const struct by_group *group, bool blocks,
                      const double *part, uint32_t root) {
  loads->group = group;
  for (uint32_t u = 0; u < group->n; u++) loads->position[group->order[u]] = u;
  for (uint32_t i = 0; i < group->n_twigs; i++)
    loads->position[group->twigs[i].child] = loads->position[group->twigs[i].parent];
  for (uint32_t r = 0; r < loads->n; r++) {
    if ((!blocks && r != root) || (class_->per_root && !by_group_is_of(group, r))) continue;
    add_owner(loads, blocks, r, blocks ? part[r] : 1);
  }
}

enum banyan_status by_class_rate(const struct by_topology *topology, const uint32_t *hosts, const struct by_plan *plan,
                                 const struct by_class *class_, enum banyan_collective collective, const double *part,
                                 uint32_t root, double *rate) {
  struct by_arena arena = {0};
  uint32_t n = plan->n_ranks;
  struct loads loads = {.n = n,
                        .up = by_collective(collective)->up,
                        .sent = BY_ARENA_ARRAY(&arena, double, (size_t)n *n),
                        .passed = BY_ARENA_ARRAY(&arena, bool, n),
                        .position = BY_ARENA_ARRAY(&arena, uint32_t, n)};
  const struct by_routed routed = {hosts, n, get_sent, &loads};
  struct by_bound_limit limit;
  *rate = 0;
  enum banyan_status status =
      arena.failed ? by_fail(BANYAN_ERR_NO_MEMORY, "no memory for what %u hosts send", n) : BANYAN_OK;
  if (status == BANYAN_OK && is_known(plan, class_)) {
    for (uint32_t g = 0; g < class_->n_groups; g++)
      add_group(&loads, class_, &class_->groups[g], by_collective(collective)->blocks, part, root);
    status = by_routed_rate(topology, &routed, rate, &limit);
  }
  by_arena_fini(&arena);
  return status;
}

enum { MAX_CLASSES = 4 };

/* Another candidate gets a class if it is faster by the factor min_gain. A packing gets one if it has the part
 * min_packed of the rate of a usual class in which single trees carry a part of the buffer, since blocks wait for each
 * other in single trees. */
static const double min_gain = 1.05, min_packed = 0.98;
/* Sending a buffer takes at least this many times as long as the overhead of its messages. */
static const double min_ratio = 4;

static const enum banyan_collective all[] = {BANYAN_ALLGATHER, BANYAN_REDUCE_SCATTER, BANYAN_BROADCAST, BANYAN_REDUCE};
enum { N_ALL = sizeof all / sizeof *all };

/* The trees found for one class. */
struct found {
  struct by_class head;               /* The class without its groups. */
  const struct by_class *candidate;   /* The class that has its groups; NULL: the packings have them. */
  struct by_rooted_packing *packings; /* One packing for all blocks, or one for each root. */
  uint32_t n_packings;
};

struct finding {
  const struct by_own_request *request;
  const struct by_plan *plan;
  double *part;                                   /* The part of all blocks that each rank's host owns. */
  double *at_root;                                /* Scratch memory: the parts if one root owns everything. */
  struct by_directed net[2];                      /* The network, and the reversed network. */
  struct by_plan_rates rates[BANYAN_COLLECTIVES]; /* The rates of the collectives that need no class. */
  struct found found[MAX_CLASSES];
  uint32_t n_found;
  struct by_arena arena;
};

static const struct by_class *get_usual_class(const struct by_plan *plan) {
  return &plan->classes[plan->n_classes - 1];
}

/* Computes the rate of a plan's class. For the usual class with helpers, it is the rate of allreduce, whose results
 * take equal paths. */
static enum banyan_status compute_rate(const struct finding *f, const struct by_plan *plan,
                                       const struct by_class *class_, enum banyan_collective collective, double *rate) {
  const struct by_own_request *r = f->request;
  BY_TRY(by_class_rate(r->topology, r->hosts, plan, class_, collective, f->part, 0, rate));
  if (*rate == 0 && plan == f->plan && by_collective(collective)->helpers) *rate = plan->facts.throughput;
  return BANYAN_OK;
}

static enum banyan_status find_bound(const struct finding *f, enum banyan_collective collective, uint32_t root,
                                     double *out) {
  const struct by_own_request *r = f->request;
  struct by_collective_bound bound;
  const struct by_bound_request request = {
      .collective = collective, .hosts = r->hosts, .n_hosts = f->plan->n_ranks, .blocks = r->ranks_on, .root = root};
  BY_TRY(by_collective_bound_find(r->topology, &request, &bound));
  *out = bound.rate;
  by_collective_bound_fini(&bound);
  return BANYAN_OK;
}

/* --- Packed trees. --- */

/* Fills in the class's facts from its packings: those of the slowest root. */
static enum banyan_status add_facts(const struct finding *f, struct found *found, enum banyan_collective collective) {
  uint32_t slowest = 0;
  found->head.throughput = INFINITY;
  for (uint32_t i = 0; i < found->n_packings; i++) {
    if (found->packings[i].throughput >= found->head.throughput) continue;
    found->head.throughput = found->packings[i].throughput;
    slowest = i;
  }
  return find_bound(f, collective, slowest, &found->head.bound);
}

static enum banyan_status pack_trees(struct finding *f, const struct by_directed *net, bool blocks,
                                     struct found *found) {
  uint32_t n = f->plan->n_ranks;
  found->packings = BY_ARENA_ARRAY(&f->arena, struct by_rooted_packing, n);
  if (!found->packings) return by_plan_no_memory();
  found->n_packings = 0;
  for (uint32_t root = 0; root < (blocks ? 1 : n); root++) {
    for (uint32_t h = 0; h < n; h++) f->at_root[h] = h == root;
    BY_TRY(by_rooted_pack(net, blocks ? f->part : f->at_root, &found->packings[found->n_packings]));
    found->n_packings++;
  }
  return BANYAN_OK;
}

/* Returns the size in bytes from which on sending a buffer takes longer than the overhead of the messages of one
 * rank. */
static uint64_t get_min_bytes(const struct finding *f, const struct found *found) {
  uint32_t trees = 0, n = f->plan->n_ranks;
  for (uint32_t i = 0; i < found->n_packings; i++)
    if (found->packings[i].n_trees > trees) trees = found->packings[i].n_trees;
  double seconds = 2 * trees * f->request->message + n * f->request->hop;
  return (uint64_t)fmin(min_ratio * seconds * found->head.throughput / 8, 0x1p62); /* Rates are not limited. */
}

/* Returns whether single trees carry a part of the buffer. */
static bool has_trees(const struct by_class *class_) {
  for (uint32_t g = 0; g < class_->n_groups; g++)
    if (class_->groups[g].kind == BY_GROUP_TREE) return true;
  return false;
}

/* Finds packed trees for a collective. `also` has the bits of collectives that share these trees. */
static enum banyan_status find_packed(struct finding *f, enum banyan_collective collective, uint32_t also) {
  const struct by_collective *kind = by_collective(collective);
  struct found *found = &f->found[f->n_found];
  double usual;
  *found = (struct found){.head = {.per_root = true}};
  enum banyan_status status = pack_trees(f, &f->net[kind->up], kind->blocks, found);
  if (found->n_packings) f->n_found++; /* This frees the packings, also on failure. */
  BY_TRY(status);
  BY_TRY(add_facts(f, found, collective));
  BY_TRY(compute_rate(f, f->plan, get_usual_class(f->plan), collective, &usual));
  found->head.above = get_min_bytes(f, found);
  double min = has_trees(get_usual_class(f->plan)) ? min_packed : min_gain;
  uint32_t collectives = 1u << collective | also;
  if (found->head.throughput >= min * usual) {
    found->head.collectives = collectives;
    return BANYAN_OK;
  }
  for (uint32_t c = 0; c < BANYAN_COLLECTIVES && isfinite(found->head.bound); c++)
    if (collectives >> c & 1) f->rates[c] = (struct by_plan_rates){fmin(usual, found->head.bound), found->head.bound};
  return BANYAN_OK;
}

/* Finds packed trees for all collectives. In a network that is the same in both directions, trees for one direction
 * serve the other. */
static enum banyan_status find_all_packed(struct finding *f) {
  const struct by_own_request *r = f->request;
  uint32_t n = f->plan->n_ranks;
  for (int reversed = 0; reversed < 2; reversed++)
    BY_TRY(by_directed_init(&f->net[reversed], r->topology, r->hosts, n, reversed));
  bool symmetric = by_directed_equal(&f->net[0], &f->net[1]);
  BY_TRY(find_packed(f, BANYAN_ALLGATHER, symmetric ? 1u << BANYAN_REDUCE_SCATTER : 0));
  if (!symmetric) BY_TRY(find_packed(f, BANYAN_REDUCE_SCATTER, 0));
  BY_TRY(find_packed(f, BANYAN_BROADCAST, symmetric ? 1u << BANYAN_REDUCE : 0));
  return symmetric ? BANYAN_OK : find_packed(f, BANYAN_REDUCE, 0);
}

/* --- Candidates. --- */

static enum banyan_status find_candidate(struct finding *f, enum banyan_collective collective) {
  const struct by_own_request *r = f->request;
  const struct by_plan *plan = f->plan;
  struct found found = {.head = {.collectives = 1u << collective}};
  double usual, best;
  BY_TRY(compute_rate(f, plan, get_usual_class(plan), collective, &usual));
  best = min_gain * usual;
  for (uint32_t i = 0; i < r->n_candidates; i++) {
    double rate;
    BY_TRY(compute_rate(f, r->candidates[i], r->candidates[i]->classes, collective, &rate));
    if (rate <= best) continue;
    best = rate;
    found.candidate = r->candidates[i]->classes;
  }
  if (!found.candidate) return BANYAN_OK;
  found.head.throughput = best;
  if (plan->n_classes > 1) found.head.above = plan->classes[plan->n_classes - 2].up_to;
  for (uint32_t i = 0; i < f->n_found; i++) {
    if (f->found[i].candidate != found.candidate) continue;
    f->found[i].head.collectives |= found.head.collectives;
    f->found[i].head.throughput = fmin(f->found[i].head.throughput, best);
    return BANYAN_OK;
  }
  f->found[f->n_found++] = found;
  return BANYAN_OK;
}

/* --- Extending the plan. --- */

static enum banyan_status fill_packed(struct by_plan *made, const struct found *found, struct by_class *own) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < found->n_packings; i++) n += found->packings[i].n_trees;
  BY_TRY(by_plan_add_groups(made, own, n));
  struct by_group *group = own->groups;
  for (uint32_t i = 0; i < found->n_packings; i++)
    for (uint32_t t = 0; t < found->packings[i].n_trees; t++, group++) {
      const struct by_rooted_tree *tree = &found->packings[i].trees[t];
      BY_TRY(by_group_init(made, group, BY_GROUP_TREE, made->n_ranks, false));
      group->root = tree->root;
      group->share = tree->share;
      for (uint32_t r = 0; r < made->n_ranks; r++) group->up[r] = tree->parent[r];
    }
  return BANYAN_OK;
}

static enum banyan_status fill_own(void *context, struct by_plan *made, struct by_class *own) {
  const struct finding *f = context;
  for (uint32_t i = 0; i < f->n_found; i++) {
    const struct found *found = &f->found[i];
    if (!found->head.collectives) continue;
    *own = found->head;
    own->up_to = UINT64_MAX;
    if (!found->candidate)
      BY_TRY(fill_packed(made, found, own));
    else {
      BY_TRY(by_plan_add_groups(made, own, found->candidate->n_groups));
      for (uint32_t g = 0; g < own->n_groups; g++)
        BY_TRY(by_group_copy(made, &own->groups[g], &found->candidate->groups[g], NULL, NULL));
    }
    own++;
  }
  return BANYAN_OK;
}

static enum banyan_status find_classes(struct finding *f) {
  uint32_t n = f->plan->n_ranks;
  double sum = 0;
  f->part = BY_ARENA_ARRAY(&f->arena, double, n);
  f->at_root = BY_ARENA_ARRAY(&f->arena, double, n);
  if (f->arena.failed) return by_plan_no_memory();
  for (uint32_t r = 0; r < n; r++) sum += f->part[r] = f->request->ranks_on ? f->request->ranks_on[r] : 1;
  for (uint32_t r = 0; r < n; r++) f->part[r] /= sum;
  if (n <= BY_OWN_MAX_PACKED) return find_all_packed(f);
  for (uint32_t i = 0; i < N_ALL && n <= BY_OWN_MAX_WEIGHED; i++) BY_TRY(find_candidate(f, all[i]));
  return BANYAN_OK;
}

enum banyan_status by_own_classes_add(const struct by_own_request *request, struct by_plan *plan,
                                      struct by_plan **out) {
  struct finding f = {.request = request, .plan = plan};
  uint32_t n_own = 0;
  *out = NULL;
  if (plan->n_ranks < 2) return BANYAN_OK;
  enum banyan_status status = find_classes(&f);
  if (status == BANYAN_ERR_TOPOLOGY || status == BANYAN_ERR_UNSUPPORTED || status == BANYAN_ERR_PLAN)
    status = BANYAN_OK;
  for (uint32_t i = 0; i < f.n_found; i++) n_own += f.found[i].head.collectives != 0;
  memcpy(plan->facts.others, f.rates, sizeof f.rates);
  if (status == BANYAN_OK && n_own) status = by_plan_extend(plan, n_own, fill_own, &f, out);
  for (uint32_t i = 0; i < f.n_found; i++)
    for (uint32_t p = 0; p < f.found[i].n_packings; p++) by_rooted_packing_fini(&f.found[i].packings[p]);
  for (int reversed = 0; reversed < 2; reversed++) by_directed_fini(&f.net[reversed]);
  by_arena_fini(&f.arena);
  return status;
}
