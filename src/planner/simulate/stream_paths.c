/* Compiles the schedules of a simulation and finds the paths of its streams. */
#include "simulate.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "plan_load.h"
#include "topology_paths.h"

enum { ELEMENT = 4, MAX_STEPS = 3 << 20, MAX_PROBES = 5, ROTATE_FROM = 64 };

#define NO_MEMORY by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the schedules of a plan")

static enum banyan_status compile_rank(const struct by_roles *roles, const struct by_plan *plan, uint32_t rank,
                                       struct by_schedule **out) {
  return by_schedule_compile(plan, roles->class_, BANYAN_ALLREDUCE, 0, rank, out);
}

/* --- One schedule for each rank. --- */

static enum banyan_status compile_all(struct by_roles *roles, const struct by_plan *plan) {
  uint64_t steps = 0;
  for (uint32_t r = 0; r < roles->n; r++) {
    BY_TRY(compile_rank(roles, plan, r, &roles->schedules[r]));
    steps += roles->schedules[r]->n_steps;
    if (steps > MAX_STEPS)
      return by_fail(BANYAN_ERR_UNSUPPORTED,
                     "plan %s: its schedules have more than %d steps, which would take too much memory; simulate it "
                     "over fewer ranks",
                     plan->name, MAX_STEPS);
  }
  return BANYAN_OK;
}

/* --- One schedule for all ranks, rotated. --- */

/* Returns whether all groups are cycles of one order. */
static bool can_be_rotated(const struct by_class *class_, uint32_t n) {
  const struct by_group *one = &class_->groups[0];
  for (uint32_t i = 0; i < class_->n_groups; i++) {
    const struct by_group *group = &class_->groups[i];
    if (group->kind != BY_GROUP_ROTATED || group->n_radix != 1 || group->n_twigs || group->n != n) return false;
    if (memcmp(group->order, one->order, n * sizeof *one->order) != 0) return false;
  }
  return true;
}

/* Returns whether rank `peer` is to the rank at position `rotation` what peer j of the template is to the rank at
 * position 0. */
static bool is_same_peer(const struct by_roles *roles, uint32_t j, uint32_t peer, uint32_t rotation) {
  uint32_t wanted = roles->position[roles->schedules[0]->peers[j].rank] + rotation;
  return peer == roles->order[wanted % roles->n];
}

static bool is_same_step(const struct by_roles *roles, const struct by_schedule *other, uint32_t index,
                         uint32_t rotation) {
  const struct by_schedule *template = roles->schedules[0];
  const struct by_step *a = &template->steps[index], *b = &other->steps[index];
  if (a->kind != b->kind || a->level != b->level || a->last - a->first != b->last - b->first || a->n_dep != b->n_dep ||
      a->n_in != b->n_in)
    return false;
  if (a->kind == BY_STEP_SEND &&
      (a->tag != b->tag || !is_same_peer(roles, a->peer, other->peers[b->peer].rank, rotation)))
    return false;
  for (uint32_t i = 0; i < a->n_dep; i++) {
    uint32_t on = template->deps[a->dep + i];
    if (on != other->deps[b->dep + i]) return false;
    if (template->steps[on].first - a->first != other->steps[on].first - b->first) return false;
  }
  for (uint32_t i = 0; i < a->n_in; i++) {
    const struct by_incoming *c = &template->incoming[a->in + i], *d = &other->incoming[b->in + i];
    if (c->tag != d->tag || !is_same_peer(roles, c->peer, other->peers[d->peer].rank, rotation)) return false;
  }
  return true;
}

static bool is_same_schedule(const struct by_roles *roles, const struct by_schedule *other, uint32_t rotation) {
  if (other->n_steps != roles->schedules[0]->n_steps || other->n_peers != roles->schedules[0]->n_peers) return false;
  for (uint32_t i = 0; i < other->n_steps; i++)
    if (!is_same_step(roles, other, i, rotation)) return false;
  return true;
}

/* Compiles one schedule and checks that the others are equal to it, rotated. One rule makes the schedules of all ranks;
 * only the order of ranks' numbers and of pieces can differ, at the ends of the order. So it compares a few ranks,
 * among them those next to the ends. */
static enum banyan_status try_rotated(struct by_roles *roles, const struct by_plan *plan) {
  uint32_t n = roles->n, rotations[MAX_PROBES] = {1, 2, n / 3, n / 2, n - 1};
  roles->order = BY_ARENA_ARRAY(&roles->arena, uint32_t, n);
  roles->position = BY_ARENA_ARRAY(&roles->arena, uint32_t, n);
  if (roles->arena.failed) return NO_MEMORY;
  memcpy(roles->order, roles->class_->groups[0].order, n * sizeof *roles->order);
  for (uint32_t i = 0; i < n; i++) roles->position[roles->order[i]] = i;
  BY_TRY(compile_rank(roles, plan, roles->order[0], &roles->schedules[0]));
  roles->rotated = true;
  for (uint32_t i = 0; roles->rotated && i < MAX_PROBES; i++) {
    struct by_schedule *other;
    BY_TRY(compile_rank(roles, plan, roles->order[rotations[i]], &other));
    roles->rotated = is_same_schedule(roles, other, rotations[i]);
    by_schedule_destroy(other);
  }
  if (roles->rotated) return BANYAN_OK;
  by_schedule_destroy(roles->schedules[0]);
  roles->schedules[0] = NULL;
  return BANYAN_OK;
}

/* --- Pieces. --- */

void by_roles_cut(struct by_roles *roles, uint64_t bytes) {
  const struct by_schedule *schedule = roles->schedules[0];
  if (!roles->rotated) {
    by_schedule_bounds(schedule, bytes / ELEMENT + (bytes % ELEMENT != 0), NULL, ELEMENT, roles->bounds);
    return;
  }
  /* Pieces of a rotated group have one size, so that all ranks stay equivalent: they are rounded up to whole bytes. */
  roles->bounds[0] = 0;
  for (uint32_t i = 0; i < schedule->n_pieces; i++) {
    double exact = roles->class_->groups[i / roles->n].share * (double)bytes / roles->n;
    uint64_t piece = (uint64_t)exact;
    roles->bounds[i + 1] = roles->bounds[i] + piece + ((double)piece < exact);
  }
}

/* --- The result. --- */

/* Makes the schedules. `plan` is the plan with helpers instead of switches. */
static enum banyan_status make_schedules(struct by_roles *roles, const struct by_plan *plan, uint32_t rotate_from) {
  for (uint32_t i = 0; i < roles->class_->n_groups; i++)
    /* Such switches would pass on each child's bytes separately. */
    if (roles->class_->groups[i].n_forwards)
      return by_fail(BANYAN_ERR_UNSUPPORTED,
                     "plan %s: tree %u passes switches that do not add, which is not simulated; leave them out of its "
                     "tree, then its edges go through them",
                     plan->name, i);
  roles->schedules = BY_ARENA_ARRAY(&roles->arena, struct by_schedule *, roles->n);
  if (!roles->schedules) return NO_MEMORY;
  if (roles->n == plan->n_ranks && roles->n >= rotate_from && roles->n > 2 && can_be_rotated(roles->class_, roles->n))
    BY_TRY(try_rotated(roles, plan));
  if (!roles->rotated) BY_TRY(compile_all(roles, plan));
  assert(roles->schedules[0]); /* A plan has a rank. */
  roles->bounds = BY_ARENA_ARRAY(&roles->arena, uint64_t, (size_t)roles->schedules[0]->n_pieces + 1);
  return roles->bounds ? BANYAN_OK : NO_MEMORY;
}

enum banyan_status by_roles_init(struct by_roles *roles, const struct by_plan *plan, const struct by_class *class_,
                                 uint32_t rotate_from) {
  *roles = (struct by_roles){.n = plan->n_vertices, .class_ = class_};
  struct by_plan played = *plan;
  played.vertices = BY_ARENA_ARRAY(&roles->arena, struct by_vertex, plan->n_vertices);
  if (!played.vertices) return NO_MEMORY;
  memcpy(played.vertices, plan->vertices, plan->n_vertices * sizeof *plan->vertices);
  /* A switch that adds and passes on does what a helper in its place does, but has no schedule. */
  for (uint32_t v = 0; v < plan->n_vertices; v++)
    if (plan->vertices[v].kind == BY_VERTEX_SWITCH) played.vertices[v].kind = BY_VERTEX_HELPER;
  enum banyan_status status = make_schedules(roles, &played, rotate_from ? rotate_from : ROTATE_FROM);
  if (status != BANYAN_OK) by_roles_fini(roles);
  return status;
}

void by_roles_fini(struct by_roles *roles) {
  for (uint32_t i = 0; roles->schedules && i < (roles->rotated ? 1 : roles->n); i++)
    by_schedule_destroy(roles->schedules[i]);
  by_arena_fini(&roles->arena);
  *roles = (struct by_roles){0};
}

uint32_t by_roles_peer(const struct by_roles *roles, uint32_t rank, uint32_t peer) {
  const struct by_schedule *schedule = by_roles_schedule(roles, rank);
  if (!roles->rotated) return schedule->peers[peer].rank;
  return roles->order[(roles->position[schedule->peers[peer].rank] + roles->position[rank]) % roles->n];
}

uint32_t by_roles_find_peer(const struct by_roles *roles, uint32_t rank, uint32_t other) {
  const struct by_schedule *schedule = by_roles_schedule(roles, rank);
  uint32_t wanted = other, low = 0, high = schedule->n_peers;
  if (roles->rotated) wanted = roles->order[(roles->position[other] + roles->n - roles->position[rank]) % roles->n];
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (schedule->peers[middle].rank < wanted)
      low = middle + 1;
    else
      high = middle;
  }
  return low < schedule->n_peers && schedule->peers[low].rank == wanted ? low : UINT32_MAX;
}

enum { MAX_STREAMS = 4 << 20, MAX_HOPS = 32 << 20 };

/* A stream with its ends. */
struct leg {
  uint32_t stream, from, to; /* The number of the stream, and the nodes at its ends. */
};

struct path_search {
  struct by_stream_paths *out;
  const struct by_topology *topology;
  const struct by_plan *plan;
  uint32_t *node_of; /* The node of each vertex. */
  struct leg *legs;
  uint32_t n_legs;
  struct by_next_hop *hops;
  uint32_t *sources;              /* The sources of the legs to one node. */
  uint32_t *resources, allocated; /* The resources in the order in which they were found. */
  uint32_t *length;               /* The number of resources of each stream. */
  uint32_t *start;                /* The index into `resources` at which each stream begins. */
  struct by_arena arena;
};

/* --- Streams. --- */

static enum banyan_status count_streams(struct by_stream_paths *paths) {
  const struct by_roles *roles = paths->roles;
  uint64_t n = 0;
  paths->first_stream = BY_ARENA_ARRAY(&paths->arena, uint32_t, (size_t)roles->n + 1);
  if (!paths->first_stream) return NO_MEMORY;
  for (uint32_t r = 0; r < roles->n; r++) {
    paths->first_stream[r] = (uint32_t)n;
    n += by_roles_schedule(roles, r)->n_peers;
    if (n > MAX_STREAMS)
      return by_fail(BANYAN_ERR_UNSUPPORTED,
                     "the plan has more than %d pairs of ranks that send to each other, which would take too much "
                     "memory; simulate it over fewer ranks",
                     MAX_STREAMS);
  }
  paths->first_stream[roles->n] = paths->n_streams = (uint32_t)n;
  return BANYAN_OK;
}

static int compare_destinations(const void *left, const void *right) {
  const struct leg *a = left, *b = right;
  if (a->to != b->to) return a->to < b->to ? -1 : 1;
  return (a->stream > b->stream) - (a->stream < b->stream);
}

static void list_legs(struct path_search *w) {
  const struct by_roles *roles = w->out->roles;
  for (uint32_t r = 0; r < roles->n; r++) {
    const struct by_schedule *schedule = by_roles_schedule(roles, r);
    for (uint32_t j = 0; j < schedule->n_peers; j++) {
      uint32_t from = w->node_of[r], to = w->node_of[by_roles_peer(roles, r, j)];
      if (schedule->peers[j].n_out && from != to)
        w->legs[w->n_legs++] = (struct leg){w->out->first_stream[r] + j, from, to};
    }
  }
  if (w->n_legs) qsort(w->legs, w->n_legs, sizeof *w->legs, compare_destinations);
}

/* --- Following the paths. --- */

static void add_resource(const struct path_search *w, uint32_t resource, uint32_t *used) {
  if (w->out->capacity[resource] > 0) w->resources[(*used)++] = resource;
}

/* Adds the resources of a leg: every node on the path sends what it passes on, and every next one receives it, as in
 * plan_load.h. */
static void follow_leg(const struct path_search *w, const struct leg *leg, uint32_t *used) {
  const struct by_topology *t = w->topology;
  struct by_stream_paths *paths = w->out;
  uint32_t start = *used;
  for (uint32_t at = leg->from; at != leg->to; at = w->hops[at].next) {
    uint32_t link = w->hops[at].link;
    add_resource(w, 2 * t->n_links + 2 * at, used);
    add_resource(w, 2 * link + by_link_direction(&t->links[link], at), used);
    add_resource(w, 2 * t->n_links + 2 * w->hops[at].next + 1, used);
  }
  paths->delay[leg->stream] = w->hops[leg->from].delay;
  w->start[leg->stream] = start;
  w->length[leg->stream] = *used - start;
}

/* Follows the n legs to one node, which one search serves. */
static enum banyan_status follow_legs(struct path_search *w, const struct by_paths *search, const struct leg *legs,
                                      uint32_t n, uint32_t *used) {
  const struct by_node *nodes = w->topology->nodes;
  for (uint32_t i = 0; i < n; i++) w->sources[i] = legs[i].from;
  BY_TRY(by_paths_between(search, legs->to, w->sources, n, w->hops));
  for (uint32_t i = 0; i < n; i++) {
    uint32_t hops = w->hops[legs[i].from].hops;
    if (hops == UINT32_MAX)
      return by_fail(BANYAN_ERR_PLAN, "plan %s sends from \"%.64s\" to \"%.64s\", between which there is no path",
                     w->plan->name, nodes[legs[i].from].name, nodes[legs[i].to].name);
    uint64_t need = (uint64_t)*used + 3 * (uint64_t)hops;
    if (need > MAX_HOPS)
      return by_fail(
          BANYAN_ERR_UNSUPPORTED,
          "the plan's messages pass more than %d links in all, which would take too much memory; simulate it "
          "over fewer ranks",
          MAX_HOPS);
    if (!BY_ARRAY_GROW(&w->resources, &w->allocated, need)) return NO_MEMORY;
    follow_leg(w, &legs[i], used);
  }
  return BANYAN_OK;
}

/* Copies the paths in the order of streams. */
static enum banyan_status sort_paths(const struct path_search *w) {
  struct by_stream_paths *paths = w->out;
  for (uint32_t s = 0; s < paths->n_streams; s++) paths->first[s + 1] = paths->first[s] + w->length[s];
  paths->resources = BY_ARENA_ARRAY(&paths->arena, uint32_t, paths->first[paths->n_streams]);
  if (!paths->resources) return NO_MEMORY;
  for (uint32_t s = 0; s < paths->n_streams; s++)
    if (w->length[s])
      memcpy(paths->resources + paths->first[s], w->resources + w->start[s], w->length[s] * sizeof *paths->resources);
  return BANYAN_OK;
}

/* --- The result. --- */

static enum banyan_status fill_paths(struct path_search *w) {
  struct by_stream_paths *paths = w->out;
  const struct by_topology *t = w->topology;
  struct by_paths search;
  w->node_of = BY_ARENA_ARRAY(&w->arena, uint32_t, w->plan->n_vertices);
  if (!w->node_of) return NO_MEMORY;
  BY_TRY(by_plan_locate(w->plan, t, w->node_of));
  BY_TRY(count_streams(paths));
  uint32_t n = paths->n_streams;
  paths->n_resources = 2 * (t->n_links + t->n_nodes);
  paths->first = BY_ARENA_ARRAY(&paths->arena, uint32_t, (size_t)n + 1);
  paths->delay = BY_ARENA_ARRAY(&paths->arena, double, n);
  paths->capacity = BY_ARENA_ARRAY(&paths->arena, double, paths->n_resources);
  w->legs = BY_ARENA_ARRAY(&w->arena, struct leg, n);
  w->length = BY_ARENA_ARRAY(&w->arena, uint32_t, n);
  w->start = BY_ARENA_ARRAY(&w->arena, uint32_t, n);
  w->hops = BY_ARENA_ARRAY(&w->arena, struct by_next_hop, t->n_nodes);
  w->sources = BY_ARENA_ARRAY(&w->arena, uint32_t, n);
  if (paths->arena.failed || w->arena.failed) return NO_MEMORY;
  for (uint32_t i = 0; i < 2 * t->n_links; i++) paths->capacity[i] = by_residual(t->links[i / 2].capacity[i % 2]);
  for (uint32_t i = 0; i < 2 * t->n_nodes; i++) {
    double left = by_residual(i % 2 ? t->nodes[i / 2].in : t->nodes[i / 2].out);
    paths->capacity[2 * t->n_links + i] = isfinite(left) ? left : 0;
  }
  list_legs(w);
  BY_TRY(by_paths_init(&search, t));
  enum banyan_status status = BANYAN_OK;
  for (uint32_t i = 0, end, used = 0; i < w->n_legs && status == BANYAN_OK; i = end) {
    for (end = i + 1; end < w->n_legs && w->legs[end].to == w->legs[i].to;) end++;
    status = follow_legs(w, &search, &w->legs[i], end - i, &used);
  }
  by_paths_fini(&search);
  return status == BANYAN_OK ? sort_paths(w) : status;
}

enum banyan_status by_stream_paths_init(struct by_stream_paths *paths, const struct by_roles *roles,
                                        const struct by_plan *plan, const struct by_topology *topology) {
  *paths = (struct by_stream_paths){.roles = roles};
  struct path_search w = {.out = paths, .plan = plan, .topology = topology};
  enum banyan_status status = fill_paths(&w);
  by_arena_fini(&w.arena);
  free(w.resources);
  if (status != BANYAN_OK) by_stream_paths_fini(paths);
  return status;
}
