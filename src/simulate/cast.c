#include "cast.h"

#include <math.h>
#include <stdlib.h>

/* As over TCP (src/transport/pace.c), where the links on the way are the stream's alone. */
enum { MOST_FRAME = 1 << 20, LEAST_FRAME = 64 << 10 };
static const double slow = 1e9 / 8, frame_time = 5e-3; /* bytes a second; seconds */

#define NO_MEMORY by_fail(BANYAN_ERR_NO_MEMORY, "no memory for who is simulated")

/* --- actors and their streams --- */

static enum banyan_status list_actors(struct by_cast *cast) {
  const struct by_roles *roles = cast->roles;
  uint32_t n = cast->n_actors = cast->symmetry.n_rank_classes;
  cast->rank = calloc(n, sizeof *cast->rank);
  cast->members = calloc(n, sizeof *cast->members);
  cast->first_stream = calloc((size_t)n + 1, sizeof *cast->first_stream);
  if (!cast->rank || !cast->members || !cast->first_stream) return NO_MEMORY;
  for (uint32_t r = 0; r < roles->n; r++) {
    uint32_t actor = cast->symmetry.rank_class[r];
    if (!cast->members[actor]++) cast->rank[actor] = r;
  }
  for (uint32_t a = 0; a < n; a++)
    cast->first_stream[a + 1] = cast->first_stream[a] + by_roles_schedule(roles, cast->rank[a])->n_peers;
  cast->n_streams = cast->first_stream[n];
  return BANYAN_OK;
}

static enum banyan_status list_streams(struct by_cast *cast, const struct by_ways *ways) {
  const struct by_roles *roles = cast->roles;
  cast->streams = calloc((size_t)cast->n_streams + 1, sizeof *cast->streams);
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
                                  .delay = ways->delay[ways->first_stream[cast->rank[a]] + j]};
    }
  }
  return BANYAN_OK;
}

/* --- the network --- */

/* A class of resources is stood for by its first. */
static uint32_t *find_first(const struct by_cast *cast, const struct by_ways *ways) {
  uint32_t n = cast->symmetry.n_resource_classes;
  uint32_t *first = calloc((size_t)n + 1, sizeof *first);
  for (uint32_t i = ways->n_resources; first && i-- > 0;)
    if (cast->symmetry.resource_class[i] != UINT32_MAX) first[cast->symmetry.resource_class[i]] = i;
  return first;
}

static int by_flow(const void *left, const void *right) {
  const uint64_t *a = left, *b = right;
  return (*a > *b) - (*a < *b);
}

/* Every stream that passes the first resource of a class, as (flow, class). Leaves their number. */
static uint32_t list_uses(const struct by_cast *cast, const struct by_ways *ways, const uint32_t *first,
                          uint64_t *uses) {
  uint32_t n = 0;
  for (uint32_t r = 0; r < ways->roles->n; r++)
    for (uint32_t s = ways->first_stream[r]; s < ways->first_stream[r + 1]; s++) {
      uint64_t flow = cast->first_stream[cast->symmetry.rank_class[r]] + s - ways->first_stream[r];
      for (uint32_t i = ways->first[s]; i < ways->first[s + 1]; i++) {
        uint32_t class_ = cast->symmetry.resource_class[ways->resources[i]];
        if (first[class_] == ways->resources[i]) uses[n++] = flow << 32 | class_;
      }
    }
  if (n) qsort(uses, n, sizeof *uses, by_flow);
  return n;
}

/* Equal uses become one with a weight. */
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

static enum banyan_status make_net(struct by_cast *cast, const struct by_ways *ways) {
  struct by_fair_net *net = &cast->net;
  uint32_t *first = find_first(cast, ways);
  uint64_t *uses = malloc(((size_t)ways->first[ways->n_streams] + 1) * sizeof *uses);
  net->n_flows = cast->n_streams;
  net->n_resources = cast->symmetry.n_resource_classes;
  net->first = calloc((size_t)net->n_flows + 1, sizeof *net->first);
  net->capacity = calloc((size_t)net->n_resources + 1, sizeof *net->capacity);
  bool memory = first && uses && net->first && net->capacity;
  if (memory) {
    uint32_t n = list_uses(cast, ways, first, uses);
    net->uses = malloc(((size_t)n + 1) * sizeof *net->uses);
    memory = net->uses != NULL;
    if (memory) fill_net(net, uses, n);
    for (uint32_t i = 0; i < net->n_resources; i++) net->capacity[i] = ways->capacity[first[i]] / 8;
  }
  free(first);
  free(uses);
  return memory ? BANYAN_OK : NO_MEMORY;
}

static void set_frames(struct by_cast *cast) {
  const struct by_fair_net *net = &cast->net;
  for (uint32_t s = 0; s < cast->n_streams; s++) {
    double rate = slow;
    for (uint32_t u = net->first[s]; u < net->first[s + 1]; u++)
      rate = fmin(rate, net->capacity[net->uses[u].resource]);
    cast->streams[s].frame = rate < slow ? (uint64_t)fmax(frame_time * rate, LEAST_FRAME) : MOST_FRAME;
  }
}

/* --- all of it --- */

static enum banyan_status fill(struct by_cast *cast, const struct by_ways *ways) {
  BY_TRY(by_symmetry_find(&cast->symmetry, ways));
  BY_TRY(list_actors(cast));
  BY_TRY(list_streams(cast, ways));
  BY_TRY(make_net(cast, ways));
  set_frames(cast);
  return BANYAN_OK;
}

enum banyan_status by_cast_init(struct by_cast *cast, const struct by_ways *ways) {
  *cast = (struct by_cast){.roles = ways->roles};
  enum banyan_status status = fill(cast, ways);
  if (status != BANYAN_OK) by_cast_fini(cast);
  return status;
}

void by_cast_fini(struct by_cast *cast) {
  by_symmetry_fini(&cast->symmetry);
  free(cast->rank);
  free(cast->members);
  free(cast->first_stream);
  free(cast->streams);
  free(cast->net.first);
  free(cast->net.uses);
  free(cast->net.capacity);
  *cast = (struct by_cast){0};
}
