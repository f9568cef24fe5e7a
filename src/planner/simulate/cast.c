/* Finds which ranks of a simulation are equivalent, and makes the streams and the network of those that are
 * simulated. */
#include "simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROUNDS = 64 };

#define NONE UINT32_MAX
#define NO_MEMORY by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the symmetry of a plan")

struct colouring {
  const struct by_stream_paths *paths;
  uint64_t *rank, *stream, *resource;
  uint64_t *sums;    /* The sum of the colours of the streams of each resource. */
  uint64_t *sorted;  /* Scratch memory to count colours. */
  uint32_t *reverse; /* The stream in the opposite direction of each stream. */
  struct by_arena *arena;
};

/* Returns a step of splitmix64 (Steele, Lea and Flood 2014) over both numbers. */
static uint64_t mix_hash(uint64_t a, uint64_t b) {
  uint64_t z = a * 0x9e3779b97f4a7c15ull + b + 0x632be59bd9b4e019ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

static uint64_t get_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* --- A round. --- */

static void colour_streams(const struct colouring *c) {
  const struct by_stream_paths *w = c->paths;
  for (uint32_t r = 0; r < w->roles->n; r++)
    for (uint32_t s = w->first_stream[r]; s < w->first_stream[r + 1]; s++) {
      uint64_t colour = mix_hash(mix_hash(c->rank[r], s - w->first_stream[r]), get_bits(w->delay[s]));
      for (uint32_t i = w->first[s]; i < w->first[s + 1]; i++) colour = mix_hash(colour, c->resource[w->resources[i]]);
      c->stream[s] = colour;
    }
}

static void colour_resources(const struct colouring *c) {
  const struct by_stream_paths *w = c->paths;
  memset(c->sums, 0, w->n_resources * sizeof *c->sums);
  for (uint32_t s = 0; s < w->n_streams; s++)
    for (uint32_t i = w->first[s]; i < w->first[s + 1]; i++) c->sums[w->resources[i]] += mix_hash(c->stream[s], 1);
  for (uint32_t i = 0; i < w->n_resources; i++) c->resource[i] = mix_hash(c->resource[i], c->sums[i]);
}

/* --- Classes. --- */

static int compare_hashes(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}

static uint32_t count_colours(const struct colouring *c, const uint64_t *colours, uint32_t n) {
  uint32_t different = 0;
  memcpy(c->sorted, colours, n * sizeof *colours);
  if (n) qsort(c->sorted, n, sizeof *colours, compare_hashes);
  for (uint32_t i = 0; i < n; i++)
    if (i == 0 || c->sorted[i] != c->sorted[i - 1]) c->sorted[different++] = c->sorted[i];
  return different;
}

/* Refines colours until there are no more differences. Returns false if that takes long, or if little is gained. */
static bool refine_colours(const struct colouring *c) {
  const struct by_stream_paths *w = c->paths;
  uint32_t n = w->roles->n, before = 0;
  for (uint32_t i = 0; i < w->n_resources; i++) c->resource[i] = get_bits(w->capacity[i]);
  for (int round = 0; round < MAX_ROUNDS; round++) {
    colour_streams(c);
    colour_resources(c);
    for (uint32_t r = 0; r < n; r++)
      for (uint32_t s = w->first_stream[r]; s < w->first_stream[r + 1]; s++)
        c->rank[r] = mix_hash(c->rank[r], mix_hash(c->stream[s], c->stream[c->reverse[s]]));
    uint32_t ranks = count_colours(c, c->rank, n);
    if (ranks > n / 2) return false;
    uint32_t now = ranks + count_colours(c, c->resource, w->n_resources);
    if (now == before) return true;
    before = now;
  }
  return false;
}

/* Numbers colours in the order of their first use. Colours with used[i] == 0 get no number; if `used` is NULL, all get
 * one. Returns how many numbers there are. */
static uint32_t number_colours(const struct colouring *c, const uint64_t *colours, uint32_t n, const uint64_t *used,
                               uint32_t *out) {
  uint32_t different = count_colours(c, colours, n), next = 0;
  uint32_t *numbers = BY_ARENA_ARRAY(c->arena, uint32_t, different);
  if (!numbers) return NONE;
  memset(numbers, 0xff, different * sizeof *numbers);
  for (uint32_t i = 0; i < n; i++) {
    const uint64_t *found = bsearch(&colours[i], c->sorted, different, sizeof *colours, compare_hashes);
    uint32_t *mine = &numbers[found - c->sorted];
    out[i] = NONE;
    if (used && !used[i]) continue;
    if (*mine == NONE) *mine = next++;
    out[i] = *mine;
  }
  return next;
}

/* --- The result. --- */

static enum banyan_status find_symmetry(struct by_symmetry *symmetry, const struct colouring *c) {
  const struct by_stream_paths *w = c->paths;
  for (uint32_t r = 0; r < w->roles->n && w->roles->rotated; r++)
    for (uint32_t s = w->first_stream[r]; s < w->first_stream[r + 1]; s++) {
      uint32_t peer = by_roles_peer(w->roles, r, s - w->first_stream[r]);
      c->reverse[s] = w->first_stream[peer] + by_roles_find_peer(w->roles, peer, r);
    }
  if (!w->roles->rotated || !refine_colours(c)) {
    for (uint32_t r = 0; r < w->roles->n; r++) c->rank[r] = r;
    for (uint32_t i = 0; i < w->n_resources; i++) c->resource[i] = i;
    memset(c->sums, 0, w->n_resources * sizeof *c->sums);
    for (uint32_t i = 0; i < w->first[w->n_streams]; i++) c->sums[w->resources[i]] = 1;
  }
  symmetry->n_rank_classes = number_colours(c, c->rank, w->roles->n, NULL, symmetry->rank_class);
  symmetry->n_resource_classes = number_colours(c, c->resource, w->n_resources, c->sums, symmetry->resource_class);
  return symmetry->n_rank_classes != NONE && symmetry->n_resource_classes != NONE ? BANYAN_OK : NO_MEMORY;
}

/* Finds the classes of ranks and resources. Every rank is a class of its own if roles are not rotated, or if few are
 * equivalent.
 *
 * Colour refinement: ranks, streams and resources begin with one colour each (resources by capacity) and are
 * distinguished by the colours of their neighbours, until no more are. The classes are an equitable partition: each
 * resource of a class carries as many streams of each class as any other, so max-min shares and with them all times are
 * equal within a class (Grohe et al., Dimension Reduction via Colour Refinement, ESA 2014, show it for linear
 * programs). Colours are 64-bit hashes. Cost: rounds * length of all paths. */
static enum banyan_status make_symmetry(struct by_cast *cast, const struct by_stream_paths *paths,
                                        struct by_arena *scratch) {
  uint32_t ranks = paths->roles->n, streams = paths->n_streams, resources = paths->n_resources;
  struct colouring c = {.paths = paths,
                        .arena = scratch,
                        .rank = BY_ARENA_ARRAY(scratch, uint64_t, ranks),
                        .stream = BY_ARENA_ARRAY(scratch, uint64_t, streams),
                        .resource = BY_ARENA_ARRAY(scratch, uint64_t, resources),
                        .sums = BY_ARENA_ARRAY(scratch, uint64_t, resources),
                        .sorted = BY_ARENA_ARRAY(scratch, uint64_t, (size_t)ranks + resources),
                        .reverse = BY_ARENA_ARRAY(scratch, uint32_t, streams)};
  cast->symmetry.rank_class = BY_ARENA_ARRAY(&cast->arena, uint32_t, ranks);
  cast->symmetry.resource_class = BY_ARENA_ARRAY(&cast->arena, uint32_t, resources);
  return scratch->failed || cast->arena.failed ? NO_MEMORY : find_symmetry(&cast->symmetry, &c);
}

/* The sizes of frames in bytes as over TCP (src/transport/lane.c), if no other stream shares the path's links. */
enum { MAX_FRAME = 1 << 20, MIN_FRAME = 64 << 10 };
static const double slow = 1e9 / 8, frame_time = 5e-3; /* The rate in bytes/s, and the seconds of a frame. */

/* --- Actors and their streams. --- */

static enum banyan_status list_actors(struct by_cast *cast) {
  const struct by_roles *roles = cast->roles;
  uint32_t n = cast->n_actors = cast->symmetry.n_rank_classes;
  cast->rank = BY_ARENA_ARRAY(&cast->arena, uint32_t, n);
  cast->members = BY_ARENA_ARRAY(&cast->arena, uint32_t, n);
  cast->first_stream = BY_ARENA_ARRAY(&cast->arena, uint32_t, (size_t)n + 1);
  if (cast->arena.failed) return NO_MEMORY;
  for (uint32_t r = 0; r < roles->n; r++) {
    uint32_t actor = cast->symmetry.rank_class[r];
    if (!cast->members[actor]++) cast->rank[actor] = r;
  }
  for (uint32_t a = 0; a < n; a++)
    cast->first_stream[a + 1] = cast->first_stream[a] + by_roles_schedule(roles, cast->rank[a])->n_peers;
  cast->n_streams = cast->first_stream[n];
  return BANYAN_OK;
}

static enum banyan_status list_streams(struct by_cast *cast, const struct by_stream_paths *paths) {
  const struct by_roles *roles = cast->roles;
  cast->streams = BY_ARENA_ARRAY(&cast->arena, struct by_cast_stream, cast->n_streams);
  if (!cast->streams) return NO_MEMORY;
  for (uint32_t a = 0; a < cast->n_actors; a++) {
    const struct by_schedule *schedule = by_roles_schedule(roles, cast->rank[a]);
    for (uint32_t j = 0; j < schedule->n_peers; j++) {
      uint32_t peer = by_roles_peer(roles, cast->rank[a], j);
      bool sends = schedule->peers[j].n_out > 0;
      cast->streams[cast->first_stream[a] + j] =
          (struct by_cast_stream){.actor = a,
                                  .peer = j,
                                  .to_actor = sends ? cast->symmetry.rank_class[peer] : BY_CAST_NONE,
                                  .to_peer = sends ? by_roles_find_peer(roles, peer, cast->rank[a]) : BY_CAST_NONE,
                                  .delay = paths->delay[paths->first_stream[cast->rank[a]] + j]};
    }
  }
  return BANYAN_OK;
}

/* --- The network. --- */

/* Lists every stream that passes the first resource of a class, as (flow, class). Returns their number. */
static uint32_t list_uses(const struct by_cast *cast, const struct by_stream_paths *paths, const uint32_t *first,
                          uint64_t *uses) {
  uint32_t n = 0;
  for (uint32_t r = 0; r < paths->roles->n; r++)
    for (uint32_t s = paths->first_stream[r]; s < paths->first_stream[r + 1]; s++) {
      uint64_t flow = cast->first_stream[cast->symmetry.rank_class[r]] + s - paths->first_stream[r];
      for (uint32_t i = paths->first[s]; i < paths->first[s + 1]; i++) {
        uint32_t class_ = cast->symmetry.resource_class[paths->resources[i]];
        if (first[class_] == paths->resources[i]) uses[n++] = flow << 32 | class_;
      }
    }
  if (n) qsort(uses, n, sizeof *uses, compare_hashes);
  return n;
}

/* Fills the network. Equal uses become one with a weight. */
static void fill_net(struct by_fair_net *net, const uint64_t *uses, uint32_t n) {
  uint32_t at = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t flow = (uint32_t)(uses[i] >> 32);
    if (i && uses[i] == uses[i - 1]) {
      net->uses[at - 1].weight++;
      continue;
    }
    net->uses[at++] = (struct by_fair_use){.resource = (uint32_t)uses[i], .weight = 1};
    net->first[flow + 1] = at;
  }
  for (uint32_t f = 0; f < net->n_flows; f++)
    if (net->first[f + 1] < net->first[f]) net->first[f + 1] = net->first[f];
}

static enum banyan_status make_net(struct by_cast *cast, const struct by_stream_paths *paths,
                                   struct by_arena *scratch) {
  struct by_fair_net *net = &cast->net;
  net->n_flows = cast->n_streams;
  net->n_resources = cast->symmetry.n_resource_classes;
  /* The first resource of each class represents it. */
  uint32_t *first = BY_ARENA_ARRAY(scratch, uint32_t, net->n_resources);
  uint64_t *uses = BY_ARENA_ARRAY(scratch, uint64_t, paths->first[paths->n_streams]);
  net->first = BY_ARENA_ARRAY(&cast->arena, uint32_t, (size_t)net->n_flows + 1);
  net->capacity = BY_ARENA_ARRAY(&cast->arena, double, net->n_resources);
  if (scratch->failed || cast->arena.failed) return NO_MEMORY;
  for (uint32_t i = paths->n_resources; i-- > 0;)
    if (cast->symmetry.resource_class[i] != UINT32_MAX) first[cast->symmetry.resource_class[i]] = i;
  uint32_t n = list_uses(cast, paths, first, uses);
  net->uses = BY_ARENA_ARRAY(&cast->arena, struct by_fair_use, n);
  if (!net->uses) return NO_MEMORY;
  fill_net(net, uses, n);
  for (uint32_t i = 0; i < net->n_resources; i++) net->capacity[i] = paths->capacity[first[i]] / 8;
  return BANYAN_OK;
}

/* --- The result. --- */

static enum banyan_status fill_cast(struct by_cast *cast, const struct by_stream_paths *paths,
                                    struct by_arena *scratch) {
  BY_TRY(make_symmetry(cast, paths, scratch));
  BY_TRY(list_actors(cast));
  BY_TRY(list_streams(cast, paths));
  BY_TRY(make_net(cast, paths, scratch));
  for (uint32_t s = 0; s < cast->n_streams; s++) {
    double rate = slow;
    for (uint32_t u = cast->net.first[s]; u < cast->net.first[s + 1]; u++)
      rate = fmin(rate, cast->net.capacity[cast->net.uses[u].resource]);
    cast->streams[s].frame = rate < slow ? (uint64_t)fmax(frame_time * rate, MIN_FRAME) : MAX_FRAME;
  }
  return BANYAN_OK;
}

enum banyan_status by_cast_init(struct by_cast *cast, const struct by_stream_paths *paths) {
  struct by_arena scratch = {0};
  *cast = (struct by_cast){.roles = paths->roles};
  enum banyan_status status = fill_cast(cast, paths, &scratch);
  by_arena_fini(&scratch);
  if (status != BANYAN_OK) by_cast_fini(cast);
  return status;
}
