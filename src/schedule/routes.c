/* Lists which messages a rank sends and receives: the edges of all trees that touch it, one record for each edge and
 * piece.
 *
 * All tree collectives are one rule. A piece has a tree and in it a root; an
 * edge carries the piece's partial sum toward the root (up) or its result away
 * from it (down). Where the root is not the tree's own, the edges on the path
 * between the two are turned round ("flipped").
 *
 *   collective                 piece              root
 *   allreduce, barrier         part of the whole  the tree's own
 *   reduce, broadcast          part of the whole  the call's
 *   reduce_scatter, allgather  rank r's block     r: a rotated group has a tree with that root, a tree is re-rooted
 *
 * In a class per root, pieces have the trees whose root is theirs, or its host's, and no others.
 *
 * A twig is an edge that is there in every tree, before all others on the way
 * up and after them on the way down; a root that is a twig is reached through
 * its parent, last on the way up and first on the way down. Levels:
 *
 *   up     | twigs | tree edges by level | flipped, high levels first | to a root that is a twig |
 *   down   | from such a root | flipped, low levels first | tree edges, high levels first | twigs |
 *
 * A helper adds and forwards without a term of its own; so does a server, at the root of a star. An edge carries
 * nothing away from a side of it that has no rank: nothing up, for there are no terms, and nothing down, for no rank
 * wants the result. */
#include <string.h>

#include "arena.h"
#include "schedule_compile.h"

/* --- Views of trees. --- */

enum { MAX_ROUNDS = 64 }; /* Halving over 65536 ranks takes two dozen. */

static bool allocate_arrays(struct by_tree_view *view, struct by_arena *arena) {
  uint32_t n = view->n;
  view->first_child = BY_ARENA_ARRAY(arena, uint32_t, n + 2);
  view->child = BY_ARENA_ARRAY(arena, uint32_t, n);
  view->level = BY_ARENA_ARRAY(arena, uint32_t, n);
  view->enter = BY_ARENA_ARRAY(arena, uint32_t, n);
  view->size = BY_ARENA_ARRAY(arena, uint32_t, n);
  return view->first_child && view->child && view->level && view->enter && view->size;
}

/* Sorts the vertices by their parents, by counting. */
static void list_children(struct by_tree_view *view) {
  uint32_t *first = view->first_child;
  for (uint32_t u = 0; u < view->n; u++)
    if (u != view->root) first[view->parent[u] + 2]++;
  for (uint32_t u = 2; u < view->n + 2; u++) first[u] += first[u - 1];
  for (uint32_t u = 0; u < view->n; u++)
    if (u != view->root) view->child[first[view->parent[u] + 1]++] = u;
}

/* Lists the vertices breadth first, parents before children. Returns how many the root reaches. */
static uint32_t list_breadth_first(struct by_tree_view *view, uint32_t *queue) {
  uint32_t n = 1;
  queue[0] = view->root;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t u = queue[i];
    for (uint32_t k = view->first_child[u]; k < view->first_child[u + 1]; k++) queue[n++] = view->child[k];
  }
  return n;
}

static void compute_levels(struct by_tree_view *view, const uint32_t *queue) {
  for (uint32_t i = view->n; i-- > 0;) {
    uint32_t u = queue[i], p = view->parent[u];
    view->size[u]++;
    if (u == view->root) continue;
    view->size[p] += view->size[u];
    if (view->level[p] <= view->level[u]) view->level[p] = view->level[u] + 1;
  }
  for (uint32_t i = 0; i < view->n; i++) {
    uint32_t u = queue[i], next = view->enter[u] + 1;
    for (uint32_t k = view->first_child[u]; k < view->first_child[u + 1]; k++) {
      view->enter[view->child[k]] = next;
      next += view->size[view->child[k]];
    }
  }
  view->height = view->level[view->root];
}

bool by_tree_view_init(struct by_tree_view *view, const uint32_t *parent, uint32_t n, uint32_t root,
                       struct by_arena *arena) {
  *view = (struct by_tree_view){.n = n, .root = root, .parent = parent};
  uint32_t *queue = BY_ARENA_ARRAY(arena, uint32_t, n);
  if (!queue || !allocate_arrays(view, arena)) return false;
  list_children(view);
  if (list_breadth_first(view, queue) != n) return false;
  compute_levels(view, queue);
  return true;
}

/* One round: every edge gets the highest level of its length, then every vertex is raised above its children. Vertices
 * are visited before their parents. False: nothing changed. */
static bool raise_levels(struct by_tree_view *view, const uint32_t *queue, const uint32_t *length, uint32_t *highest) {
  bool changed = false;
  memset(highest, 0, view->n * sizeof *highest);
  for (uint32_t u = 0; u < view->n; u++)
    if (u != view->root && highest[length[u]] < view->level[u]) highest[length[u]] = view->level[u];
  for (uint32_t i = view->n; i-- > 0;) {
    uint32_t u = queue[i];
    if (u == view->root) continue;
    if (view->level[u] < highest[length[u]]) {
      view->level[u] = highest[length[u]];
      changed = true;
    }
    uint32_t p = view->parent[u];
    if (view->level[p] > view->level[u]) continue;
    view->level[p] = view->level[u] + 1;
    changed = true;
  }
  return changed;
}

bool by_tree_view_align(struct by_tree_view *view, const struct by_group *group, struct by_arena *arena) {
  uint32_t n = view->n;
  uint32_t *queue = BY_ARENA_ARRAY(arena, uint32_t, n), *length = BY_ARENA_ARRAY(arena, uint32_t, n);
  uint32_t *highest = BY_ARENA_ARRAY(arena, uint32_t, n), *heights = BY_ARENA_ARRAY(arena, uint32_t, n);
  if (!queue || !length || !highest || !heights) return false;
  list_breadth_first(view, queue);
  memcpy(heights, view->level, n * sizeof *heights);
  for (uint32_t u = 0; u < n; u++) length[u] = by_group_untranslate(group, view->parent[u], u);
  for (uint32_t round = 0; round < MAX_ROUNDS && view->level[view->root] < n; round++) {
    if (raise_levels(view, queue, length, highest)) continue;
    view->height = view->level[view->root];
    return true;
  }
  /* The levels do not converge: some edge is, through others, above one of its own length. */
  memcpy(view->level, heights, n * sizeof *heights);
  return true;
}

enum { MAX_CANDIDATES = 16 };

/* One piece of the group, and the tree that sums it. */
struct instance {
  uint32_t tree;  /* The index of the tree among the rotations of the group's template. */
  uint32_t top;   /* The template position of the piece's root. */
  uint32_t owner; /* The vertex that is the piece's root, which may be a twig's child. */
  uint32_t piece;
};

struct route {
  struct by_compile *compile;
  const struct by_group *group;
  uint32_t index;      /* The index of the group in its class. */
  uint32_t me;         /* This rank's vertex. */
  uint32_t position;   /* This rank's position; BY_NOWHERE if it is a twig's child. */
  uint32_t *positions; /* The position of each vertex. A twig's child has its parent's position, or BY_NOWHERE. */
  struct by_tree_view up, down;
  uint32_t *ranks_up,
      /* For each position, the number of ranks in its subtree, including twigs; NULL if all positions are ranks. */
      *ranks_down;
  uint32_t twig_levels;        /* The value is 1 if there are twigs, otherwise 0. */
  uint32_t flip_up, flip_down; /* The number of levels for reversed edges. */
  uint32_t down_from;          /* The first level of results. */
  uint32_t down_levels;        /* The number of levels of the down tree's edges. */
  uint32_t n_instances;
  struct instance *instances;
};

/* Adds a piece of a message, to one of the last messages if it continues that. The messages of many trees alternate,
 * and compile.c would have to sort all of them. */
static void add_message(struct by_compile *compile, const struct by_message *message) {
  uint32_t n = compile->n_messages, near = n < MAX_CANDIDATES ? n : MAX_CANDIDATES;
  for (uint32_t i = 1; !message->exchange && i <= near; i++)
    if (by_message_continues(compile, &compile->messages[n - i], message)) {
      compile->messages[n - i].last = message->last;
      return;
    }
  if (!BY_ARRAY_GROW(&compile->messages, &compile->allocated_messages, compile->n_messages + 1)) {
    compile->failed = true;
    return;
  }
  compile->messages[compile->n_messages++] = *message;
}

static void add_edge(const struct route *route, const struct instance *x, enum by_phase phase, uint32_t level, bool out,
                     uint32_t other) {
  uint32_t vertex = route->group->order[x->tree ? by_group_translate(route->group, other, x->tree) : other];
  add_message(route->compile, &(struct by_message){.peer = vertex, /* Rank r is vertex r. */
                                                   .first = x->piece,
                                                   .last = x->piece + 1,
                                                   .level = level,
                                                   .group = route->index,
                                                   .phase = (uint8_t)phase,
                                                   .out = out});
}

/* Whether there is a rank on the side of an edge from which a piece's terms come, or to which its result goes. */
static bool has_rank_there(const struct route *route, const uint32_t *ranks, uint32_t c, bool flipped) {
  if (!ranks) return true;
  return flipped ? ranks[c] < route->compile->schedule->n_ranks : ranks[c] > 0;
}

/* Adds the edge between template position c and its parent, one of which is u, this rank's position in the tree. */
static void add_tree_edge(const struct route *route, const struct instance *x, enum by_phase phase, uint32_t c,
                          uint32_t u) {
  const struct by_tree_view *view = phase == BY_PHASE_UP ? &route->up : &route->down;
  uint32_t p = view->parent[c], level;
  bool flipped = by_tree_view_holds(view, c, x->top), from_child = (phase == BY_PHASE_UP) != flipped;
  if (!has_rank_there(route, phase == BY_PHASE_UP ? route->ranks_up : route->ranks_down, c, flipped)) return;
  if (phase == BY_PHASE_UP)
    level = route->twig_levels + (flipped ? 2 * view->height - 1 - view->level[c] : view->level[c]);
  else if (flipped)
    level = route->twig_levels + view->level[c];
  else
    level = route->down_from + route->flip_down + view->height - 1 - view->level[c];
  add_edge(route, x, phase, level, (u == c) == from_child, u == c ? p : c);
}

/* Adds all edges of one phase. Within one tree the pieces of an edge follow each other and are merged immediately. */
static void add_tree_edges(const struct route *route, enum by_phase phase) {
  const struct by_tree_view *view = phase == BY_PHASE_UP ? &route->up : &route->down;
  if (route->group->kind == BY_GROUP_TREE) {
    uint32_t u = route->position;
    for (uint32_t k = view->first_child[u]; k < view->first_child[u + 1]; k++)
      for (uint32_t i = 0; i < route->n_instances; i++)
        add_tree_edge(route, &route->instances[i], phase, view->child[k], u);
    for (uint32_t i = 0; u != view->root && i < route->n_instances; i++)
      add_tree_edge(route, &route->instances[i], phase, u, u);
    return;
  }
  for (uint32_t i = 0; i < route->n_instances; i++) {
    const struct instance *x = &route->instances[i];
    uint32_t u = x->tree ? by_group_untranslate(route->group, route->position, x->tree) : route->position;
    for (uint32_t k = view->first_child[u]; k < view->first_child[u + 1]; k++)
      add_tree_edge(route, x, phase, view->child[k], u);
    if (u != view->root) add_tree_edge(route, x, phase, u, u);
  }
}

static void add_twig_edges(const struct route *route, const struct by_twig *twig, enum by_phase phase) {
  bool mine = twig->child == route->me;
  struct by_message message = {
      .peer = mine ? twig->parent : twig->child, .group = route->index, .phase = (uint8_t)phase};
  for (uint32_t i = 0; i < route->n_instances; i++) {
    const struct instance *x = &route->instances[i];
    bool flipped = x->owner == twig->child, late = flipped == (phase == BY_PHASE_UP);
    message.first = x->piece;
    message.last = x->piece + 1;
    message.out = mine == ((phase == BY_PHASE_UP) != flipped);
    if (phase == BY_PHASE_UP)
      message.level = late ? 1 + route->up.height + route->flip_up : 0;
    else
      message.level = route->down_from + (late ? route->flip_down + route->down_levels : 0);
    add_message(route->compile, &message);
  }
}

/* Adds the messages of an exchange, digit by digit, over the whole piece. */
static void add_exchange(const struct route *route) {
  const struct by_group *group = route->group;
  uint32_t weight = 1, u = route->position;
  for (uint32_t i = 0; i < group->n_radix; weight *= group->radix[i], i++) {
    uint32_t own = u / weight % group->radix[i];
    for (uint32_t digit = 0; digit < group->radix[i]; digit++) {
      if (digit == own) continue;
      struct by_message message = {.peer = group->order[u + (digit - own) * weight],
                                   .first = route->instances->piece,
                                   .last = route->instances->piece + 1,
                                   .level = route->twig_levels + i,
                                   .group = route->index,
                                   .place = digit,
                                   .phase = BY_PHASE_UP,
                                   .exchange = true};
      add_message(route->compile, &message);
      message.out = true;
      add_message(route->compile, &message);
    }
  }
}

/* Returns an exchange as a tree: the parent's highest nonzero digit becomes 0, so that messages hold adjacent pieces.
 */
static uint32_t *get_exchange_parents(const struct by_group *group, struct by_arena *arena) {
  uint32_t *parent = BY_ARENA_ARRAY(arena, uint32_t, group->n);
  for (uint32_t u = 1; parent && u < group->n; u++) {
    uint32_t weight = 1;
    for (uint32_t i = 0; i < group->n_radix && u / weight >= group->radix[i]; i++) weight *= group->radix[i];
    parent[u] = u % weight;
  }
  return parent;
}

static enum banyan_status make_views(struct route *route) {
  const struct by_group *group = route->group;
  struct by_arena *work = &route->compile->work;
  bool exchange = group->kind == BY_GROUP_EXCHANGE;
  const uint32_t *up = exchange ? get_exchange_parents(group, work) : group->up, *down = exchange ? up : group->down;
  uint32_t root = exchange ? 0 : group->root;
  bool aligns = group->kind != BY_GROUP_TREE;
  if (!up || !by_tree_view_init(&route->up, up, group->n, root, work) ||
      (aligns && !by_tree_view_align(&route->up, group, work)))
    return by_schedule_no_memory();
  route->down = route->up;
  if (down != up && (!by_tree_view_init(&route->down, down, group->n, root, work) ||
                     (aligns && !by_tree_view_align(&route->down, group, work))))
    return by_schedule_no_memory();
  return BANYAN_OK;
}

static struct instance make_share_instance(const struct route *route, uint32_t t) {
  const struct by_schedule *schedule = route->compile->schedule;
  uint32_t root = route->up.root;
  struct instance x = {t, root, BY_NOWHERE, route->compile->base[route->index] + t};
  if (by_collective_is_everywhere(schedule->collective)) return x;
  uint32_t at = route->positions[schedule->root];
  x.owner = schedule->root;
  if (route->group->kind == BY_GROUP_EXCHANGE)
    x.tree = at; /* The tree with this root. */
  else
    x.top = t ? by_group_untranslate(route->group, at, t) : at;
  return x;
}

static struct instance make_block_instance(const struct route *route, uint32_t rank) {
  uint32_t at = route->positions[rank], root = route->up.root;
  const struct by_compile *compile = route->compile;
  uint32_t in_block = compile->class_->per_root ? compile->placed[rank]++ : route->index;
  struct instance x = {0, at, rank, compile->schedule->block[rank] + in_block};
  if (route->group->kind == BY_GROUP_TREE) return x;
  x.tree = by_group_untranslate(route->group, at, root);
  x.top = root;
  return x;
}

static enum banyan_status make_instances(struct route *route) {
  struct by_compile *compile = route->compile;
  bool blocks = by_collective(compile->schedule->collective)->blocks, per_root = compile->class_->per_root;
  uint32_t max = blocks ? compile->schedule->n_ranks : compile->trees[route->index];
  route->instances = BY_ARENA_ARRAY(&compile->work, struct instance, max);
  if (!route->instances) return by_schedule_no_memory();
  for (uint32_t i = 0; i < max; i++) {
    if (blocks && per_root && route->positions[i] != route->up.root) continue;
    route->instances[route->n_instances++] = blocks ? make_block_instance(route, i) : make_share_instance(route, i);
  }
  return BANYAN_OK;
}

static enum banyan_status check_vertex(const struct route *route, uint32_t index) {
  const struct by_vertex *vertex = &route->compile->plan->vertices[index];
  enum banyan_collective collective = route->compile->schedule->collective;
  const char *kind = by_vertex_kind_name(vertex->kind);
  if (vertex->kind == BY_VERTEX_RANK) return BANYAN_OK;
  if (vertex->kind == BY_VERTEX_SWITCH)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "vertex \"%s\" is a switch, which has no schedule", vertex->name);
  if (route->group->kind != BY_GROUP_TREE)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "vertex \"%s\" is a %s in a tree that is rotated, which cannot run",
                   vertex->name, kind);
  if (vertex->kind == BY_VERTEX_SERVER ? collective == BANYAN_ALLREDUCE : by_collective(collective)->helpers)
    return BANYAN_OK;
  return by_fail(BANYAN_ERR_UNSUPPORTED, "vertex \"%s\" is a %s, and %ss have no part in %s", vertex->name, kind, kind,
                 banyan_collective_name(collective));
}

/* Counts the ranks in the subtree of every position. Descendants have higher depth-first numbers. */
static uint32_t *count_ranks(const struct route *route, const struct by_tree_view *view) {
  const struct by_group *group = route->group;
  uint32_t n_ranks = route->compile->plan->n_ranks;
  struct by_arena *work = &route->compile->work;
  uint32_t *ranks = BY_ARENA_ARRAY(work, uint32_t, view->n), *entered = BY_ARENA_ARRAY(work, uint32_t, view->n);
  if (!ranks || !entered) return NULL;
  for (uint32_t u = 0; u < view->n; u++) {
    entered[view->enter[u]] = u;
    ranks[u] = group->order[u] < n_ranks;
  }
  for (uint32_t i = 0; i < group->n_twigs; i++) ranks[route->positions[group->twigs[i].child]]++;
  for (uint32_t i = view->n; i-- > 1;) ranks[view->parent[entered[i]]] += ranks[entered[i]];
  return ranks;
}

static enum banyan_status find_ranks(struct route *route) {
  const struct by_group *group = route->group;
  if (!by_group_has_helpers(route->compile->plan, group)) return BANYAN_OK;
  route->ranks_up = count_ranks(route, &route->up);
  route->ranks_down = count_ranks(route, &route->down);
  return route->ranks_up && route->ranks_down ? BANYAN_OK : by_schedule_no_memory();
}

static enum banyan_status find_positions(struct route *route) {
  const struct by_group *group = route->group;
  const struct by_plan *plan = route->compile->plan;
  for (uint32_t v = 0; v < plan->n_vertices; v++) route->positions[v] = BY_NOWHERE;
  for (uint32_t i = 0; i < group->n; i++) {
    BY_TRY(check_vertex(route, group->order[i]));
    route->positions[group->order[i]] = i;
  }
  route->position = route->positions[route->me];
  for (uint32_t i = 0; i < group->n_twigs; i++) {
    route->positions[group->twigs[i].child] = route->positions[group->twigs[i].parent];
  }
  for (uint32_t rank = 0; rank < plan->n_ranks; rank++)
    if (route->positions[rank] == BY_NOWHERE)
      return by_fail(BANYAN_ERR_PLAN, "rank %u is in no place of group %u", rank, route->index);
  return BANYAN_OK;
}

static void set_levels(struct route *route) {
  const struct by_schedule *schedule = route->compile->schedule;
  const struct by_group *group = route->group;
  bool everywhere = by_collective_is_everywhere(schedule->collective);
  bool exchange = by_group_exchanges(group, schedule->collective);
  bool flips = !everywhere && group->kind == BY_GROUP_TREE;
  if (schedule->collective == BANYAN_REDUCE || schedule->collective == BANYAN_BROADCAST)
    flips = group->kind != BY_GROUP_EXCHANGE;
  if (route->compile->class_->per_root) flips = false;
  route->twig_levels = group->n_twigs > 0;
  route->flip_up = flips ? route->up.height : 0;
  route->flip_down = (flips ? route->down.height : 0) + (everywhere ? 0 : route->twig_levels);
  route->down_levels = exchange ? 0 : route->down.height;
  route->down_from = everywhere ? route->twig_levels + (exchange ? group->n_radix : route->up.height) : 0;
}

static enum banyan_status list_group(struct route *route) {
  const struct by_group *group = route->group;
  enum banyan_collective collective = route->compile->schedule->collective;
  bool up = by_collective(collective)->up, down = by_collective(collective)->down;
  BY_TRY(find_positions(route));
  BY_TRY(make_views(route));
  BY_TRY(find_ranks(route));
  BY_TRY(make_instances(route));
  set_levels(route);
  if (route->compile->schedule->n_ranks == 1) return BANYAN_OK; /* Without other ranks there are no peers. */
  for (uint32_t i = 0; i < group->n_twigs; i++) {
    if (group->twigs[i].child != route->me && group->twigs[i].parent != route->me) continue;
    if (up) add_twig_edges(route, &group->twigs[i], BY_PHASE_UP);
    if (down) add_twig_edges(route, &group->twigs[i], BY_PHASE_DOWN);
  }
  if (route->position == BY_NOWHERE) return BANYAN_OK;
  if (by_group_exchanges(group, collective)) {
    add_exchange(route);
    return BANYAN_OK;
  }
  if (up) add_tree_edges(route, BY_PHASE_UP);
  if (down) add_tree_edges(route, BY_PHASE_DOWN);
  return BANYAN_OK;
}

/* Lists the messages of gather, scatter and alltoall: blocks between their owner and their user. */
static void list_direct(struct by_compile *compile) {
  const struct by_schedule *schedule = compile->schedule;
  uint32_t rank = schedule->rank, root = schedule->root;
  enum banyan_collective collective = schedule->collective;
  for (uint32_t peer = 0; peer < schedule->n_ranks; peer++) {
    if (peer == rank) continue;
    bool sends = true, receives = true;
    if (collective == BANYAN_GATHER) sends = peer == root, receives = rank == root;
    if (collective == BANYAN_SCATTER) sends = rank == root, receives = peer == root;
    uint32_t out = collective == BANYAN_GATHER ? rank : peer, in = collective == BANYAN_SCATTER ? rank : peer;
    struct by_message message = {.peer = peer, .phase = BY_PHASE_DOWN, .first = out, .last = out + 1, .out = true};
    if (sends) add_message(compile, &message);
    message.first = in, message.last = in + 1, message.out = false;
    if (receives) add_message(compile, &message);
  }
}

static bool is_part(const struct by_compile *compile, uint32_t group) {
  if (compile->part == BY_PART_ALL || compile->part == BY_PART_APART) return true;
  if (compile->part != BY_PART_PLAIN) return compile->part == group;
  return !by_group_has_helpers(compile->plan, &compile->class_->groups[group]);
}

enum banyan_status by_routes_list(struct by_compile *compile) {
  struct by_schedule *schedule = compile->schedule;
  if (by_collective(schedule->collective)->direct) {
    list_direct(compile);
    return BANYAN_OK;
  }
  uint32_t *positions = BY_ARENA_ARRAY(&compile->work, uint32_t, compile->plan->n_vertices);
  compile->placed = BY_ARENA_ARRAY(&compile->work, uint32_t, schedule->n_ranks);
  if (!positions || !compile->placed) return by_schedule_no_memory();
  for (uint32_t i = 0; i < compile->class_->n_groups; i++) {
    struct route route = {.compile = compile,
                          .group = &compile->class_->groups[i],
                          .index = i,
                          .me = schedule->rank,
                          .positions = positions};
    if (is_part(compile, i) && (schedule->block || compile->trees[i])) BY_TRY(list_group(&route));
  }
  return BANYAN_OK;
}
