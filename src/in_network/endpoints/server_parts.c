/* Lists of parts of sums, sorted by their lowest workers. */
#include "server_parts.h"

#include <stdlib.h>
#include <string.h>

#include "reduce.h"

bool by_parts_init(struct by_parts *p, const struct by_worker_groups *groups, uint32_t count, size_t stride) {
  *p = (struct by_parts){.stride = stride, .free = BY_NO_PART, .groups = groups};
  p->parts = malloc(count * sizeof *p->parts);
  p->payloads = malloc(count * stride);
  if (!p->parts || !p->payloads) return false;
  for (uint32_t i = count; i-- > 0; p->free = i) p->parts[i].next = p->free;
  return true;
}

void by_parts_fini(struct by_parts *p) {
  free(p->parts);
  free(p->payloads);
}

const void *by_parts_payload(const struct by_parts *p, uint32_t part) {
  return p->payloads + part * p->stride;
}

static void release_part(struct by_parts *p, uint32_t *link) {
  uint32_t part = *link;
  *link = p->parts[part].next;
  p->parts[part].next = p->free;
  p->free = part;
}

void by_parts_clear(struct by_parts *p, uint32_t *first) {
  while (*first != BY_NO_PART) release_part(p, first);
}

/* --- sets of workers --- */

/* Returns the workers in both sets: of one group or, if one set is of groups, the groups' workers. */
static uint64_t intersect(struct by_worker_set a, struct by_worker_set b) {
  if (a.group == b.group) return a.workers & b.workers;
  if (a.group == BY_FRAGMENT_UNITED) return a.workers >> b.group & 1 ? b.workers : 0;
  if (b.group == BY_FRAGMENT_UNITED) return b.workers >> a.group & 1 ? a.workers : 0;
  return 0;
}

/* Returns the number of terms in both sets. */
static uint32_t count_common(const struct by_parts *p, struct by_worker_set a, struct by_worker_set b) {
  struct by_worker_set both = {intersect(a, b), a.group == BY_FRAGMENT_UNITED ? b.group : a.group};
  return p->groups ? by_set_count(p->groups, both) : by_worker_count(both.workers);
}

static bool is_inside(struct by_worker_set a, struct by_worker_set b) {
  if (a.group == BY_FRAGMENT_UNITED && b.group != BY_FRAGMENT_UNITED) return false;
  return intersect(a, b) == a.workers;
}

/* Returns the key by which lists are sorted. */
static uint32_t lowest_worker(struct by_worker_set set) {
  uint32_t bit = (uint32_t)__builtin_ctzll(set.workers);
  return set.group == BY_FRAGMENT_UNITED ? bit * BY_FRAGMENT_WORKERS : set.group * (uint32_t)BY_FRAGMENT_WORKERS + bit;
}

/* --- lists --- */

enum by_parts_added by_parts_add(struct by_parts *p, uint32_t *first, struct by_worker_set set,
                                 const struct by_fragment *packet) {
  uint32_t known = 0; /* Number of the set's terms in the list. */
  bool whole = true;  /* Each part is completely inside or outside of the set. */
  for (uint32_t i = *first; i != BY_NO_PART; i = p->parts[i].next) {
    known += count_common(p, p->parts[i].set, set);
    if (intersect(p->parts[i].set, set) && !is_inside(p->parts[i].set, set)) whole = false;
  }
  if (known == count_common(p, set, set)) return BY_PARTS_DUPLICATE;
  if (!whole) return BY_PARTS_OVERLAPPING;
  uint32_t *link = first;
  while (*link != BY_NO_PART) {
    if (intersect(p->parts[*link].set, set))
      release_part(p, link);
    else
      link = &p->parts[*link].next;
  }
  uint32_t part = p->free;
  if (part == BY_NO_PART) return BY_PARTS_FULL;
  p->free = p->parts[part].next;
  for (link = first; *link != BY_NO_PART; link = &p->parts[*link].next)
    if (lowest_worker(p->parts[*link].set) > lowest_worker(set)) break;
  p->parts[part] = (struct by_server_part){.set = set, .check = packet->check, .next = *link};
  *link = part;
  memcpy(p->payloads + part * p->stride, packet + 1, (size_t)packet->lines * BY_FRAGMENT_LINE);
  return BY_PARTS_NEW;
}

void by_parts_fold(struct by_parts *p, uint32_t *first, struct by_worker_set set, enum banyan_dtype dtype,
                   size_t count) {
  const void *sources[BY_TREE_WORKERS];
  uint32_t sum = BY_NO_PART;
  size_t n = 0;
  for (uint32_t *link = first; *link != BY_NO_PART;) {
    struct by_server_part *part = &p->parts[*link];
    if (!is_inside(part->set, set)) {
      link = &part->next;
      continue;
    }
    sources[n++] = by_parts_payload(p, *link);
    if (sum == BY_NO_PART) {
      sum = *link;
      link = &part->next;
      continue;
    }
    release_part(p, link); /* The memory is not reused before it is read. */
  }
  if (n < 2) return;
  by_kernel_reduce(dtype, BANYAN_SUM)(p->payloads + sum * p->stride, sources, n, count);
  p->parts[sum].set = set;
}
