/* The terms of unfinished sums, each as it arrived, so that a sum which contains some of them can replace them. */
#ifndef BY_IN_NETWORK_ENDPOINTS_SERVER_PARTS_H
#define BY_IN_NETWORK_ENDPOINTS_SERVER_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <banyan/types.h>

#include "fragment.h"

#define BY_NO_PART UINT32_MAX

/* Memory for packets of one size. The last freed one is used first, so that memory which is seldom needed stays
 * untouched. */
struct by_parts {
  struct by_server_part *parts;
  unsigned char *payloads;
  size_t stride;
  uint32_t free;
  const struct by_worker_groups *groups; /* Borrowed; NULL: all parts of a list are of one group, or of groups. */
};

struct by_server_part {
  struct by_worker_set set;
  uint64_t check;
  uint32_t next;
};

/* Returns false if memory is exhausted. */
bool by_parts_init(struct by_parts *parts, const struct by_worker_groups *groups, uint32_t count, size_t stride);
void by_parts_fini(struct by_parts *parts);
const void *by_parts_payload(const struct by_parts *parts, uint32_t part);

enum by_parts_added {
  BY_PARTS_NEW,
  BY_PARTS_DUPLICATE,   /* It contains nothing new. */
  BY_PARTS_OVERLAPPING, /* It contains new terms and terms that are parts of larger sums. */
  BY_PARTS_FULL
};

/* Adds a copy of the packet's payload, the terms of `set`, to the list at *first, and removes the parts that it
 * contains. Lists are sorted by their lowest workers. */
enum by_parts_added by_parts_add(struct by_parts *parts, uint32_t *first, struct by_worker_set set,
                                 const struct by_fragment *packet);
/* Adds up the list's parts of workers of `set` only, `count` numbers each, in the order of workers, into one part. If
 * larger sets follow, this one must be complete. */
void by_parts_fold(struct by_parts *parts, uint32_t *first, struct by_worker_set set, enum banyan_dtype dtype,
                   size_t count);
/* Frees a list. */
void by_parts_clear(struct by_parts *parts, uint32_t *first);

#endif
