#include "symmetry.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 64 };

#define NONE UINT32_MAX
#define NO_MEMORY by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the symmetry of a plan")

struct colouring {
  const struct by_ways *ways;
  uint64_t *rank, *stream, *resource;
  uint64_t *sums;    /* by resource: of the colours of its streams */
  uint64_t *sorted;  /* to count colours */
  uint32_t *reverse; /* by stream: the one the other way */
};

/* A step of splitmix64 (Steele, Lea and Flood 2014) over both. */
static uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t z = a * 0x9e3779b97f4a7c15ull + b + 0x632be59bd9b4e019ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

static uint64_t bits_of(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* --- a round --- */

static void colour_streams(const struct colouring *c) {
  const struct by_ways *w = c->ways;
  for (uint32_t r = 0; r < w->roles->n; r++)
    for (uint32_t s = w->first_stream[r]; s < w->first_stream[r + 1]; s++) {
      uint64_t colour = mix(mix(c->rank[r], s - w->first_stream[r]), bits_of(w->delay[s]));
      for (uint32_t i = w->first[s]; i < w->first[s + 1]; i++) colour = mix(colour, c->resource[w->resources[i]]);
      c->stream[s] = colour;
    }
}

static void colour_resources(const struct colouring *c) {
  const struct by_ways *w = c->ways;
  memset(c->sums, 0, w->n_resources * sizeof *c->sums);
  for (uint32_t s = 0; s < w->n_streams; s++)
    for (uint32_t i = w->first[s]; i < w->first[s + 1]; i++) c->sums[w->resources[i]] += mix(c->stream[s], 1);
  for (uint32_t i = 0; i < w->n_resources; i++) c->resource[i] = mix(c->resource[i], c->sums[i]);
}

static void colour_ranks(const struct colouring *c) {
  const struct by_ways *w = c->ways;
  for (uint32_t r = 0; r < w->roles->n; r++)
    for (uint32_t s = w->first_stream[r]; s < w->first_stream[r + 1]; s++)
      c->rank[r] = mix(c->rank[r], mix(c->stream[s], c->stream[c->reverse[s]]));
}

/* --- classes --- */

static int compare(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}

static uint32_t count_colours(const struct colouring *c, const uint64_t *colours, uint32_t n) {
  uint32_t different = 0;
  memcpy(c->sorted, colours, n * sizeof *colours);
  if (n) qsort(c->sorted, n, sizeof *colours, compare);
  for (uint32_t i = 0; i < n; i++)
    if (i == 0 || c->sorted[i] != c->sorted[i - 1]) c->sorted[different++] = c->sorted[i];
  return different;
}

/* Until nothing more is told apart. False: that takes long, or there is little to gain. */
static bool refine(const struct colouring *c) {
  const struct by_ways *w = c->ways;
  uint32_t n = w->roles->n, before = 0;
  for (uint32_t i = 0; i < w->n_resources; i++) c->resource[i] = bits_of(w->capacity[i]);
  for (int round = 0; round < MOST_ROUNDS; round++) {
    colour_streams(c);
    colour_resources(c);
    colour_ranks(c);
    uint32_t ranks = count_colours(c, c->rank, n);
    if (ranks > n / 2) return false;
    uint32_t now = ranks + count_colours(c, c->resource, w->n_resources);
    if (now == before) return true;
    before = now;
  }
  return false;
}

/* Numbers colours in the order in which they come; `used` NULL: all. Leaves their number. */
static uint32_t number(const struct colouring *c, const uint64_t *colours, uint32_t n, const uint64_t *used,
                       uint32_t *out) {
  uint32_t different = count_colours(c, colours, n), next = 0;
  uint32_t *numbers = malloc(((size_t)different + 1) * sizeof *numbers);
  if (!numbers) return NONE;
  memset(numbers, 0xff, different * sizeof *numbers);
  for (uint32_t i = 0; i < n; i++) {
    const uint64_t *found = bsearch(&colours[i], c->sorted, different, sizeof *colours, compare);
    uint32_t *mine = &numbers[found - c->sorted];
    out[i] = NONE;
    if (used && !used[i]) continue;
    if (*mine == NONE) *mine = next++;
    out[i] = *mine;
  }
  free(numbers);
  return next;
}

/* --- all of it --- */

static void reverse_streams(const struct colouring *c) {
  const struct by_ways *w = c->ways;
  for (uint32_t r = 0; r < w->roles->n; r++)
    for (uint32_t s = w->first_stream[r]; s < w->first_stream[r + 1]; s++) {
      uint32_t peer = by_roles_peer(w->roles, r, s - w->first_stream[r]);
      c->reverse[s] = w->first_stream[peer] + by_roles_find_peer(w->roles, peer, r);
    }
}

static void nobody_is_alike(const struct colouring *c) {
  const struct by_ways *w = c->ways;
  for (uint32_t r = 0; r < w->roles->n; r++) c->rank[r] = r;
  for (uint32_t i = 0; i < w->n_resources; i++) c->resource[i] = i;
  memset(c->sums, 0, w->n_resources * sizeof *c->sums);
  for (uint32_t i = 0; i < w->first[w->n_streams]; i++) c->sums[w->resources[i]] = 1;
}

static enum banyan_status find(struct by_symmetry *symmetry, const struct colouring *c) {
  const struct by_ways *w = c->ways;
  if (w->roles->turned) reverse_streams(c);
  if (!w->roles->turned || !refine(c)) nobody_is_alike(c);
  symmetry->n_rank_classes = number(c, c->rank, w->roles->n, NULL, symmetry->rank_class);
  symmetry->n_resource_classes = number(c, c->resource, w->n_resources, c->sums, symmetry->resource_class);
  return symmetry->n_rank_classes != NONE && symmetry->n_resource_classes != NONE ? BANYAN_OK : NO_MEMORY;
}

enum banyan_status by_symmetry_find(struct by_symmetry *symmetry, const struct by_ways *ways) {
  size_t ranks = ways->roles->n, streams = (size_t)ways->n_streams + 1, resources = (size_t)ways->n_resources + 1;
  struct colouring c = {.ways = ways,
                        .rank = calloc(ranks, sizeof *c.rank),
                        .stream = calloc(streams, sizeof *c.stream),
                        .resource = calloc(resources, sizeof *c.resource),
                        .sums = calloc(resources, sizeof *c.sums),
                        .sorted = calloc(ranks + resources, sizeof *c.sorted),
                        .reverse = calloc(streams, sizeof *c.reverse)};
  *symmetry = (struct by_symmetry){.rank_class = calloc(ranks, sizeof *symmetry->rank_class),
                                   .resource_class = calloc(resources, sizeof *symmetry->resource_class)};
  bool memory = c.rank && c.stream && c.resource && c.sums && c.sorted && c.reverse && symmetry->rank_class &&
                symmetry->resource_class;
  enum banyan_status status = memory ? find(symmetry, &c) : NO_MEMORY;
  free(c.rank);
  free(c.stream);
  free(c.resource);
  free(c.sums);
  free(c.sorted);
  free(c.reverse);
  if (status != BANYAN_OK) by_symmetry_fini(symmetry);
  return status;
}

void by_symmetry_fini(struct by_symmetry *symmetry) {
  free(symmetry->rank_class);
  free(symmetry->resource_class);
  *symmetry = (struct by_symmetry){0};
}
