/* The workers of an in-network tree, numbered from 0. A tree of at most 64 has one group, number 0, and worker w has
 * bit w. A larger one has groups of up to 64 with consecutive numbers, and a switch that has added all terms of a
 * group sends the sum as that of a group, with its bit and group number BY_FRAGMENT_UNITED. A worker that is alone in
 * its group does so itself. Values without memory of their own. */
#ifndef BY_NET_WIRE_WORKER_GROUPS_H
#define BY_NET_WIRE_WORKER_GROUPS_H

#include <stdbool.h>
#include <stdint.h>

enum {
  BY_FRAGMENT_WORKERS = 64, /* The maximum of a group. */
  BY_FRAGMENT_GROUPS = 64,  /* The maximum of a tree. */
  BY_FRAGMENT_UNITED = 255, /* Replaces a group's number: bits stand for whole groups. */
  BY_TREE_WORKERS = 1024,   /* The maximum of a tree: a request for cells names them all. */
};

/* The workers of group g are first[g] to first[g + 1] - 1, at most 64. */
struct by_worker_groups {
  uint32_t n;
  uint16_t first[BY_FRAGMENT_GROUPS + 1];
};

/* A bit for each worker of one group, or for each group if `group` is BY_FRAGMENT_UNITED. */
struct by_worker_set {
  uint64_t workers;
  uint8_t group;
};

static inline uint32_t by_worker_count(uint64_t workers) {
  return (uint32_t)__builtin_popcountll(workers);
}

static inline uint64_t by_low_bits(uint32_t n) {
  return n ? ~0ull >> (64 - n) : 0;
}

/* One group of 1 to 64 workers. */
static inline struct by_worker_groups by_one_group(uint32_t workers) {
  return (struct by_worker_groups){.n = 1, .first = {0, (uint16_t)workers}};
}

static inline uint32_t by_group_size(const struct by_worker_groups *groups, uint32_t group) {
  return (uint32_t)groups->first[group + 1] - groups->first[group];
}

static inline uint32_t by_workers_of(const struct by_worker_groups *groups) {
  return groups->first[groups->n];
}

static inline uint32_t by_group_of(const struct by_worker_groups *groups, uint32_t worker) {
  uint32_t group = 0;
  while (groups->first[group + 1] <= worker) group++;
  return group;
}

/* Whether there is one group, or several of more than 64 workers in all. */
static inline bool by_groups_are_valid(const struct by_worker_groups *groups) {
  if (groups->n < 1 || groups->n > BY_FRAGMENT_GROUPS || groups->first[0]) return false;
  for (uint32_t g = 0; g < groups->n; g++)
    if (groups->first[g + 1] <= groups->first[g] || by_group_size(groups, g) > BY_FRAGMENT_WORKERS) return false;
  return by_workers_of(groups) <= BY_TREE_WORKERS && (groups->n == 1) == (by_workers_of(groups) <= BY_FRAGMENT_WORKERS);
}

/* The set of a worker's own terms. */
static inline struct by_worker_set by_set_of_worker(const struct by_worker_groups *groups, uint32_t worker) {
  uint32_t group = by_group_of(groups, worker);
  if (groups->n > 1 && by_group_size(groups, group) == 1)
    return (struct by_worker_set){.workers = 1ull << group, .group = BY_FRAGMENT_UNITED};
  return (struct by_worker_set){.workers = 1ull << (worker - groups->first[group]), .group = (uint8_t)group};
}

static inline struct by_worker_set by_set_of_all(const struct by_worker_groups *groups) {
  if (groups->n == 1) return (struct by_worker_set){.workers = by_low_bits(by_group_size(groups, 0))};
  return (struct by_worker_set){.workers = by_low_bits(groups->n), .group = BY_FRAGMENT_UNITED};
}

/* Whether the set names only existing workers. */
static inline bool by_set_is_within(const struct by_worker_groups *groups, struct by_worker_set set) {
  if (set.group == BY_FRAGMENT_UNITED) return groups->n > 1 && !(set.workers & ~by_low_bits(groups->n));
  return set.group < groups->n && !(set.workers & ~by_low_bits(by_group_size(groups, set.group)));
}

/* The members of the set that belong to a group, by their bits in it. */
static inline uint64_t by_set_part(const struct by_worker_groups *groups, struct by_worker_set set, uint32_t group) {
  if (set.group == group) return set.workers;
  bool whole = set.group == BY_FRAGMENT_UNITED && (set.workers >> group & 1);
  return whole ? by_low_bits(by_group_size(groups, group)) : 0;
}

static inline uint32_t by_set_count(const struct by_worker_groups *groups, struct by_worker_set set) {
  if (set.group != BY_FRAGMENT_UNITED) return by_worker_count(set.workers);
  uint32_t count = 0;
  for (uint64_t left = set.workers; left; left &= left - 1)
    count += by_group_size(groups, (uint32_t)__builtin_ctzll(left));
  return count;
}

/* The number of the worker that this rank of a set identifies. */
static inline uint32_t by_worker_number(const struct by_worker_groups *groups, struct by_worker_set set,
                                        uint32_t rank) {
  return set.group == BY_FRAGMENT_UNITED ? groups->first[rank] : groups->first[set.group] + rank;
}

#endif
