/* Treats plans as values: their hash, the choice of a class, rotation, validation, and the names of methods. */
#include "plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_make.h"
#include "text.h"

void by_plan_destroy(struct by_plan *plan) {
  if (!plan || __atomic_fetch_sub(&plan->holders, 1, __ATOMIC_ACQ_REL) > 0) return;
  by_arena_fini(&plan->arena);
  free(plan);
}

struct by_plan *by_plan_hold(const struct by_plan *plan) {
  struct by_plan *held = (struct by_plan *)(uintptr_t)plan; /* Only the count of holders changes. */
  __atomic_fetch_add(&held->holders, 1, __ATOMIC_RELAXED);
  return held;
}

const char *by_vertex_kind_name(enum by_vertex_kind kind) {
  static const char *const names[] = {"rank", "helper", "switch", "server"};
  return (size_t)kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

const char *by_group_kind_name(enum by_group_kind kind) {
  static const char *const names[] = {"tree", "rotated", "exchange"};
  return (size_t)kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

/* FNV-1a over 64-bit values with the high bits folded back, so that every bit matters. Values, not their bytes in
 * memory, are hashed: the hash is the same on every machine. */
static void mix_value(uint64_t *hash, uint64_t word) {
  *hash = (*hash ^ word) * 0x100000001b3ull;
  *hash ^= *hash >> 29;
}

static void mix_string(uint64_t *hash, const char *text) {
  size_t length = strlen(text);
  mix_value(hash, length);
  for (size_t i = 0; i < length; i++) mix_value(hash, (unsigned char)text[i]);
}

static void mix_array(uint64_t *hash, const uint32_t *items, uint32_t n) {
  mix_value(hash, items ? n : UINT32_MAX);
  for (uint32_t i = 0; items && i < n; i++) mix_value(hash, items[i]);
}

static void mix_group(uint64_t *hash, const struct by_group *group) {
  mix_value(hash, group->kind);
  uint64_t bits;
  memcpy(&bits, &group->share, sizeof bits);
  mix_value(hash, bits);
  mix_array(hash, group->order, group->n);
  mix_value(hash, group->root);
  mix_array(hash, group->up, group->n);
  mix_array(hash, group->down, group->n);
  mix_value(hash, group->n_radix);
  for (uint32_t i = 0; i < group->n_radix; i++) mix_value(hash, group->radix[i]);
  mix_value(hash, group->n_twigs);
  for (uint32_t i = 0; i < group->n_twigs; i++)
    mix_value(hash, (uint64_t)group->twigs[i].child << 32 | group->twigs[i].parent);
  if (group->n_forwards)
    mix_array(hash, group->forwards,
              group->n_forwards); /* Most trees have none; the hash of these must not depend on this field. */
  if (group->n_ports) mix_value(hash, group->n_ports);
  for (uint32_t i = 0; i < group->n_ports; i++) {
    mix_value(hash, (uint64_t)group->ports[i].at << 32 | group->ports[i].towards);
    mix_string(hash, group->ports[i].interface);
  }
}

uint32_t by_plan_hash(const struct by_plan *plan) {
  uint64_t hash = 0xcbf29ce484222325ull;
  mix_value(&hash, plan->n_ranks);
  mix_value(&hash, plan->chunk);
  mix_value(&hash, plan->n_vertices);
  for (uint32_t i = 0; i < plan->n_vertices; i++) {
    mix_string(&hash, plan->vertices[i].name);
    mix_value(&hash, plan->vertices[i].kind);
    mix_value(&hash, plan->vertices[i].rank);
  }
  mix_value(&hash, plan->n_classes);
  for (uint32_t i = 0; i < plan->n_classes + plan->n_own; i++) {
    const struct by_class *class_ = &plan->classes[i];
    mix_value(&hash, class_->up_to);
    if (class_->collectives) mix_value(&hash, (uint64_t)class_->per_root << 32 | class_->collectives);
    if (class_->collectives) mix_value(&hash, class_->above);
    mix_value(&hash, class_->n_groups);
    for (uint32_t g = 0; g < class_->n_groups; g++) mix_group(&hash, &class_->groups[g]);
  }
  const struct by_plan_control *control = &plan->control;
  if (control->parent) { /* Most plans have none; the hash of these must not depend on this field. */
    mix_value(&hash, (uint64_t)control->fan_out << 1 | control->use_ring);
    mix_array(&hash, control->parent, plan->n_ranks);
    mix_array(&hash, control->ring, plan->n_ranks);
  }
  uint32_t folded = (uint32_t)(hash ^ hash >> 32);
  return folded ? folded : 1;
}

const struct by_class *by_plan_class(const struct by_plan *plan, uint64_t bytes) {
  uint32_t i = 0;
  while (i + 1 < plan->n_classes && bytes > plan->classes[i].up_to) i++;
  return &plan->classes[i];
}

const struct by_class *by_plan_class_of(const struct by_plan *plan, enum banyan_collective collective, uint64_t bytes) {
  for (uint32_t i = plan->n_classes + plan->n_own; i-- > plan->n_classes;)
    if (plan->classes[i].collectives >> collective & 1 && bytes > plan->classes[i].above) return &plan->classes[i];
  return by_plan_class(plan, bytes);
}

uint64_t by_plan_class_end(const struct by_plan *plan, enum banyan_collective collective, uint64_t bytes) {
  uint64_t end = by_plan_class_of(plan, collective, bytes)->up_to;
  for (uint32_t i = plan->n_classes; i < plan->n_classes + plan->n_own; i++) {
    const struct by_class *own = &plan->classes[i];
    if (own->collectives >> collective & 1 && own->above >= bytes && own->above < end) end = own->above;
  }
  return end;
}

struct by_plan_rates by_plan_rates_of(const struct by_plan *plan, enum banyan_collective collective) {
  const struct by_class *class_ = by_plan_class_of(plan, collective, UINT64_MAX);
  if (collective == BANYAN_ALLREDUCE) return (struct by_plan_rates){plan->facts.throughput, plan->facts.bound};
  if (class_->collectives) return (struct by_plan_rates){class_->throughput, class_->bound};
  return plan->facts.others[collective];
}

bool by_group_is_of(const struct by_group *group, uint32_t rank) {
  uint32_t root = group->order[group->root];
  const struct by_twig *twig = NULL;
  if (rank == root) return true;
  if (group->n_twigs) twig = bsearch(&rank, group->twigs, group->n_twigs, sizeof *group->twigs, by_compare_numbers);
  return twig && twig->parent == root;
}

/* Returns u + t or u - t, digit by digit. */
static uint32_t shift_position(const struct by_group *group, uint32_t u, uint32_t t, bool back) {
  if (group->n == (uint32_t)1 << group->n_radix) return u ^ t; /* All digits are 2, since none is smaller. */
  if (group->n_radix == 1 && back) return u >= t ? u - t : u + (group->n - t);
  if (group->n_radix == 1) return u < group->n - t ? u + t : u - (group->n - t);
  uint32_t position = 0, weight = 1;
  for (uint32_t i = 0; i < group->n_radix; i++) {
    uint32_t radix = group->radix[i], digit = u % radix + (back ? radix - t % radix : t % radix);
    position += (digit < radix ? digit : digit - radix) * weight;
    weight *= radix;
    u /= radix;
    t /= radix;
  }
  return position;
}

uint32_t by_group_translate(const struct by_group *group, uint32_t u, uint32_t t) {
  return shift_position(group, u, t, false);
}

uint32_t by_group_untranslate(const struct by_group *group, uint32_t position, uint32_t t) {
  return shift_position(group, position, t, true);
}

/* --- Validation: a plan that passes it cannot make the compiler or the executor fail because of its shape. --- */

/* --- Switches of a tree. --- */

/* A tree also states which switches only forward, and by which interfaces they reach neighbours. */

#define bad(...) by_fail(BANYAN_ERR_PLAN, __VA_ARGS__)

static int compare_ports(const void *a, const void *b) {
  const struct by_group_port *x = a, *y = b;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  return (x->towards > y->towards) - (x->towards < y->towards);
}

bool by_group_adds(const struct by_group *group, uint32_t vertex) {
  return !group->n_forwards ||
         !bsearch(&vertex, group->forwards, group->n_forwards, sizeof *group->forwards, by_compare_numbers);
}

const char *by_group_interface(const struct by_group *group, uint32_t at, uint32_t towards) {
  struct by_group_port key = {.at = at, .towards = towards}, *port = NULL;
  if (group->n_ports) port = bsearch(&key, group->ports, group->n_ports, sizeof *group->ports, compare_ports);
  return port ? port->interface : NULL;
}

void by_group_sort_ports(struct by_group *group) {
  if (group->n_forwards) qsort(group->forwards, group->n_forwards, sizeof *group->forwards, by_compare_numbers);
  if (group->n_ports) qsort(group->ports, group->n_ports, sizeof *group->ports, compare_ports);
}

static enum banyan_status check_switch(const struct by_plan *plan, const uint32_t *position, uint32_t vertex,
                                       const char *field) {
  if (vertex >= plan->n_vertices) return bad("%s: vertex number %u is not in the plan", field, vertex);
  const char *name = plan->vertices[vertex].name;
  if (plan->vertices[vertex].kind != BY_VERTEX_SWITCH) return bad("%s: vertex \"%.64s\" is no switch", field, name);
  return position[vertex] != UINT32_MAX ? BANYAN_OK : bad("%s: vertex \"%.64s\" is not in the tree", field, name);
}

static enum banyan_status check_port(const struct by_plan *plan, const struct by_group *group, const uint32_t *position,
                                     const struct by_group_port *port) {
  BY_TRY(check_switch(plan, position, port->at, "ports"));
  if (port->towards >= plan->n_vertices) return bad("ports: vertex number %u is not in the plan", port->towards);
  const char *at = plan->vertices[port->at].name, *towards = plan->vertices[port->towards].name;
  uint32_t u = position[port->at], v = position[port->towards];
  if (v == UINT32_MAX || u == v || (group->up[u] != v && group->up[v] != u))
    return bad("ports: vertex \"%.64s\" is neither parent nor child of \"%.64s\"", towards, at);
  if (!port->interface || !*port->interface || !by_is_printable(port->interface, BY_PLAN_MAX_NAME))
    return bad("ports: the interface of \"%.64s\" towards \"%.64s\" must be 1 to %d bytes of UTF-8 without control "
               "characters",
               at, towards, BY_PLAN_MAX_NAME);
  return BANYAN_OK;
}

/* Checks forwards and ports: they name switches of the group, in order, and neighbours of these in `up`. `position` is
 * scratch memory for all of the plan's vertices; the rest of the group must be valid. */
static enum banyan_status check_ports(const struct by_plan *plan, const struct by_group *group, uint32_t *position) {
  if (!group->n_forwards && !group->n_ports) return BANYAN_OK;
  if (group->kind != BY_GROUP_TREE) return bad("only single trees have \"forwards\" and \"ports\"");
  for (uint32_t v = 0; v < plan->n_vertices; v++) position[v] = UINT32_MAX;
  for (uint32_t u = 0; u < group->n; u++) position[group->order[u]] = u;
  for (uint32_t i = 0; i < group->n_forwards; i++) {
    BY_TRY(check_switch(plan, position, group->forwards[i], "forwards"));
    if (i > 0 && group->forwards[i] <= group->forwards[i - 1])
      return bad("forwards: \"%.64s\" is out of order or listed twice", plan->vertices[group->forwards[i]].name);
  }
  for (uint32_t i = 0; i < group->n_ports; i++) {
    BY_TRY(check_port(plan, group, position, &group->ports[i]));
    if (i > 0 && compare_ports(&group->ports[i - 1], &group->ports[i]) >= 0)
      return bad("ports: those of \"%.64s\" are out of order", plan->vertices[group->ports[i].at].name);
  }
  return BANYAN_OK;
}

/* Permits three times 0.333333. */
static const double share_slack = 1.001e-6;

/* The state of a validation. Marks are numbers that grow from tree to tree, so that nothing has to be cleared. */
struct check {
  const struct by_plan *plan;
  uint32_t class_, tree; /* the class and tree that are being checked */
  uint32_t mark;
  uint32_t *seen;     /* for each vertex: the mark of the last group that has it */
  uint32_t *state;    /* for each position: a mark */
  uint32_t *position; /* scratch memory for each vertex */
  double *owned;      /* scratch memory for each rank */
};

static const char *get_vertex_name(const struct check *check, uint32_t vertex) {
  return check->plan->vertices[vertex].name;
}

static const char *get_name_at(const struct check *check, const struct by_group *group, uint32_t position) {
  return get_vertex_name(check, group->order[position]);
}

/* `whose` names the owner for errors. */
static enum banyan_status check_name(const char *name, const char *whose) {
  if (name && *name && by_is_printable(name, BY_PLAN_MAX_NAME)) return BANYAN_OK;
  return bad("%s must be 1 to %d bytes of UTF-8 without control characters", whose, BY_PLAN_MAX_NAME);
}

static enum banyan_status check_vertices(const struct by_plan *plan, const char **names) {
  for (uint32_t i = 0; i < plan->n_vertices; i++) {
    const struct by_vertex *vertex = &plan->vertices[i];
    if (check_name(vertex->name, "its name") != BANYAN_OK)
      return by_fail_within(BANYAN_ERR_PLAN, "vertex number %u", i);
    if (i < plan->n_ranks && (vertex->kind != BY_VERTEX_RANK || vertex->rank != i))
      return bad("vertex number %u (\"%.64s\") must be rank %u", i, vertex->name, i);
    if (i >= plan->n_ranks && (vertex->kind == BY_VERTEX_RANK || vertex->rank != UINT32_MAX))
      return bad("vertex number %u (\"%.64s\") must not be a rank: there are %u", i, vertex->name, plan->n_ranks);
    if (i > plan->n_ranks && strcmp(plan->vertices[i - 1].name, vertex->name) >= 0)
      return bad("vertices \"%.64s\" and \"%.64s\" are not in ascending order", plan->vertices[i - 1].name,
                 vertex->name);
  }
  const char *twice = by_find_twice(plan->vertices, plan->n_vertices, sizeof *plan->vertices, names);
  return twice ? bad("two vertices are named \"%.64s\"", twice) : BANYAN_OK;
}

_Static_assert(offsetof(struct by_vertex, name) == 0, "names are compared by by_find_twice");

static enum banyan_status mark_vertex(struct check *check, uint32_t vertex, uint32_t *ranks) {
  if (vertex >= check->plan->n_vertices) return bad("vertex number %u is not in the plan", vertex);
  if (check->seen[vertex] == check->mark)
    return bad("vertex \"%.64s\" is listed twice", get_vertex_name(check, vertex));
  check->seen[vertex] = check->mark;
  *ranks += check->plan->vertices[vertex].kind == BY_VERTEX_RANK;
  return BANYAN_OK;
}

/* Checks twigs. Their parents are looked up while only the order is marked, since a twig must not be attached to a
 * twig. */
static enum banyan_status check_twigs(struct check *check, const struct by_group *group, uint32_t *ranks) {
  uint32_t n = check->plan->n_vertices;
  for (uint32_t i = 0; i < group->n_twigs; i++) {
    const struct by_twig *twig = &group->twigs[i];
    if (twig->child >= n || twig->parent >= n) return bad("twig %u: vertex number not in the plan", i);
    if (check->seen[twig->parent] != check->mark)
      return bad("twig \"%.64s\" hangs on vertex \"%.64s\", which is not in the tree itself",
                 get_vertex_name(check, twig->child), get_vertex_name(check, twig->parent));
    if (check->plan->vertices[twig->child].kind != BY_VERTEX_RANK)
      return bad("twig \"%.64s\" is no rank", get_vertex_name(check, twig->child));
    if (i > 0 && twig->child <= group->twigs[i - 1].child)
      return bad("twig \"%.64s\" is out of order", get_vertex_name(check, twig->child));
  }
  for (uint32_t i = 0; i < group->n_twigs; i++) BY_TRY(mark_vertex(check, group->twigs[i].child, ranks));
  return BANYAN_OK;
}

/* Checks that every path along parents ends at the root. `direction` is "up" or "down". O(n). */
static enum banyan_status check_parents(struct check *check, const struct by_group *group, const uint32_t *parent,
                                        const char *direction) {
  uint32_t root = group->root, on_path = ++check->mark, good = ++check->mark;
  if (!parent) return bad("has no edges %s", direction);
  if (parent[root] != root)
    return bad("edges %s: the root \"%.64s\" has a parent", direction, get_name_at(check, group, root));
  check->state[root] = good;
  for (uint32_t i = 0; i < group->n; i++) {
    uint32_t u = i;
    for (; check->state[u] != good; u = parent[u]) {
      const char *name = get_name_at(check, group, u);
      if (parent[u] >= group->n)
        return bad("edges %s: the parent of vertex \"%.64s\" is not in the tree", direction, name);
      if (parent[u] == u) return bad("edges %s: vertex \"%.64s\" is its own parent, but not the root", direction, name);
      if (check->state[u] == on_path) return bad("edges %s: vertex \"%.64s\" lies on a cycle", direction, name);
      check->state[u] = on_path;
    }
    for (u = i; check->state[u] != good; u = parent[u]) check->state[u] = good;
  }
  return BANYAN_OK;
}

static enum banyan_status check_radix(const struct by_group *group) {
  uint64_t product = 1;
  if (group->n_radix > BY_PLAN_MAX_DIGITS)
    return bad("%u digits in radix, at most %d are possible", group->n_radix, BY_PLAN_MAX_DIGITS);
  for (uint32_t i = 0; i < group->n_radix; i++) {
    if (group->radix[i] < 2) return bad("radix[%u] is %u, must be 2 or more", i, group->radix[i]);
    product *= group->radix[i];
    if (product > group->n) break;
  }
  if (product != group->n) return bad("the radix must multiply to %u, the number of vertices in order", group->n);
  return BANYAN_OK;
}

static enum banyan_status check_shape(struct check *check, const struct by_group *group) {
  if (group->kind != BY_GROUP_TREE) BY_TRY(check_radix(group));
  if (group->kind == BY_GROUP_EXCHANGE) return BANYAN_OK;
  if (group->root >= group->n) return bad("the root is position %u of %u", group->root, group->n);
  BY_TRY(check_parents(check, group, group->up, "up"));
  return group->down == group->up ? BANYAN_OK : check_parents(check, group, group->down, "down");
}

static enum banyan_status check_group(struct check *check, const struct by_group *group) {
  uint32_t ranks = 0;
  if (!by_group_kind_name(group->kind)) return bad("its kind is %d", (int)group->kind);
  if (!(group->share > 0) || !isfinite(group->share)) return bad("share is %g, must be > 0", group->share);
  if (group->n < 1 || group->n > check->plan->n_vertices) return bad("has %u vertices", group->n);
  check->mark++;
  for (uint32_t i = 0; i < group->n; i++) {
    BY_TRY(mark_vertex(check, group->order[i], &ranks));
    if (group->kind == BY_GROUP_EXCHANGE && check->plan->vertices[group->order[i]].kind != BY_VERTEX_RANK)
      return bad("vertex \"%.64s\" is no rank and cannot exchange", get_name_at(check, group, i));
  }
  BY_TRY(check_twigs(check, group, &ranks));
  for (uint32_t r = 0; r < check->plan->n_ranks && ranks != check->plan->n_ranks; r++)
    if (check->seen[r] != check->mark)
      return bad("vertex \"%.64s\" (rank %u) is missing", get_vertex_name(check, r), r);
  BY_TRY(check_shape(check, group));
  return check_ports(check->plan, group, check->position);
}

/* Checks the shares of what each rank owns in a per-root class. */
static enum banyan_status check_roots(const struct check *check, const struct by_class *class_) {
  uint32_t n = check->plan->n_ranks;
  for (uint32_t r = 0; r < n; r++) check->owned[r] = 0;
  for (uint32_t g = 0; g < class_->n_groups; g++) {
    const struct by_group *group = &class_->groups[g];
    uint32_t root = group->order[group->root];
    if (root < n) check->owned[root] += group->share;
    for (uint32_t i = 0; i < group->n_twigs; i++)
      if (group->twigs[i].parent == root) check->owned[group->twigs[i].child] += group->share;
  }
  for (uint32_t r = 0; r < n; r++)
    if (fabs(check->owned[r] - 1) > share_slack)
      return bad("class %u: the shares of the trees of \"%.64s\" sum to %.9g, must be 1", check->class_,
                 get_vertex_name(check, r), check->owned[r]);
  return BANYAN_OK;
}

static enum banyan_status check_own_class(const struct check *check, const struct by_class *class_) {
  if (!class_->collectives || class_->collectives & ~(uint32_t)BY_PLAN_OWN_COLLECTIVES)
    return bad("class %u: trees of their own are for reduce, broadcast, reduce_scatter and allgather", check->class_);
  if (class_->above > INT64_MAX) return bad("class %u: its limit is too large", check->class_);
  for (uint32_t g = 0; g < class_->n_groups; g++) {
    const struct by_group *group = &class_->groups[g];
    if (class_->per_root && group->kind != BY_GROUP_TREE)
      return bad("class %u, tree %u: trees for each root must be of kind \"tree\"", check->class_, g);
    for (uint32_t u = 0; u < group->n; u++)
      if (group->order[u] >= check->plan->n_ranks)
        return bad("class %u, tree %u: vertex \"%.64s\" is no rank; trees of some collectives' own have ranks alone",
                   check->class_, g, get_name_at(check, group, u));
  }
  return BANYAN_OK;
}

static enum banyan_status check_class(struct check *check, const struct by_class *class_) {
  double sum = 0;
  for (check->tree = 0; check->tree < class_->n_groups; check->tree++) {
    if (check_group(check, &class_->groups[check->tree]) != BANYAN_OK)
      return check->plan->n_classes + check->plan->n_own == 1
                 ? by_fail_within(BANYAN_ERR_PLAN, "tree %u", check->tree)
                 : by_fail_within(BANYAN_ERR_PLAN, "class %u, tree %u", check->class_, check->tree);
    sum += class_->groups[check->tree].share;
  }
  if (class_->per_root) return check_roots(check, class_);
  if (fabs(sum - 1) <= share_slack) return BANYAN_OK;
  return bad("class %u: the shares of its %u trees sum to %.9g, must be 1", check->class_, class_->n_groups, sum);
}

static enum banyan_status check_classes(struct check *check) {
  const struct by_plan *plan = check->plan;
  uint64_t groups = 0;
  for (uint32_t i = 0; i < plan->n_classes + plan->n_own; i++) {
    uint64_t up_to = plan->classes[i].up_to;
    check->class_ = i;
    groups += plan->classes[i].n_groups;
    if (groups > BY_PLAN_MAX_GROUPS) return bad("more than %d trees", BY_PLAN_MAX_GROUPS);
    if (i >= plan->n_classes) {
      BY_TRY(check_class(check, &plan->classes[i]));
      BY_TRY(check_own_class(check, &plan->classes[i]));
      continue;
    }
    if (i + 1 == plan->n_classes && up_to != UINT64_MAX) return bad("class %u: the last class must have no limit", i);
    if (i + 1 < plan->n_classes && up_to > INT64_MAX) return bad("class %u: its limit is too large", i);
    if (i > 0 && up_to <= plan->classes[i - 1].up_to)
      return bad("class %u: its limit must be above that of the class before", i);
    BY_TRY(check_class(check, &plan->classes[i]));
  }
  return BANYAN_OK;
}

enum banyan_status by_plan_validate(const struct by_plan *plan) {
  if (plan->n_vertices < 1 || plan->n_vertices > BY_PLAN_MAX_VERTICES)
    return bad("%u vertices, must be 1 to %d", plan->n_vertices, BY_PLAN_MAX_VERTICES);
  if (plan->n_ranks < 1 || plan->n_ranks > plan->n_vertices)
    return bad("%u ranks among %u vertices", plan->n_ranks, plan->n_vertices);
  if (plan->n_classes < 1 || plan->n_classes > BY_PLAN_MAX_CLASSES)
    return bad("%u size classes, must be 1 to %d", plan->n_classes, BY_PLAN_MAX_CLASSES);
  if (plan->n_own > BY_PLAN_MAX_CLASSES)
    return bad("%u classes of collectives' own, at most %d are possible", plan->n_own, BY_PLAN_MAX_CLASSES);
  if (plan->chunk > BY_PLAN_MAX_CHUNK)
    return bad("the chunk is %zu bytes, must be at most %d", plan->chunk, BY_PLAN_MAX_CHUNK);
  BY_TRY(check_name(plan->name, "the plan's name"));
  struct by_arena arena = {0};
  const char **names = BY_ARENA_ARRAY(&arena, const char *, plan->n_vertices);
  struct check check = {.plan = plan,
                        .seen = BY_ARENA_ARRAY(&arena, uint32_t, plan->n_vertices),
                        .state = BY_ARENA_ARRAY(&arena, uint32_t, plan->n_vertices),
                        .position = BY_ARENA_ARRAY(&arena, uint32_t, plan->n_vertices),
                        .owned = BY_ARENA_ARRAY(&arena, double, plan->n_own ? plan->n_ranks : 0)};
  enum banyan_status status = arena.failed ? by_plan_no_memory() : check_vertices(plan, names);
  if (status == BANYAN_OK) status = check_classes(&check);
  if (status == BANYAN_OK) status = by_plan_control_check(plan);
  by_arena_fini(&arena);
  return status;
}

/* --- Methods. --- */

static const char *const names[] = {"ring", "tree", "helpers", "switches"};
enum { N_METHODS = sizeof names / sizeof *names };

enum banyan_status by_plan_methods_parse(const char *text, uint32_t *methods) {
  uint32_t found = 0;
  for (const char *at = text;; at++) {
    size_t bytes = strcspn(at, ",");
    uint32_t i = 0;
    while (i < N_METHODS && (strlen(names[i]) != bytes || memcmp(names[i], at, bytes) != 0)) i++;
    if (i == N_METHODS)
      return by_fail(BANYAN_ERR_ARGUMENT, "\"%.*s\" is not one of the ways " BY_PLAN_METHODS,
                     bytes < 32 ? (int)bytes : 32, at);
    found |= 1u << i;
    at += bytes;
    if (!*at) break;
  }
  *methods = found;
  return BANYAN_OK;
}

const char *by_plan_methods_print(uint32_t methods, char *out) {
  char *at = out;
  for (uint32_t i = 0; i < N_METHODS; i++) {
    if (!(methods >> i & 1)) continue;
    if (at > out) *at++ = ',';
    at = stpcpy(at, names[i]);
  }
  *at = '\0';
  return out;
}
