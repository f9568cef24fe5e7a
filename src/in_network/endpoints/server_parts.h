/* What the files of the server share: the terms of unfinished sums, each as it
 * came, so that a sum that holds some of them can take their place. */
#ifndef BY_IN_NETWORK_ENDPOINTS_SERVER_PARTS_H
#define BY_IN_NETWORK_ENDPOINTS_SERVER_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <banyan/types.h>

#include "fragment.h"

#define BY_NO_PART UINT32_MAX

/* Packets of one size. Those freed last are taken first, so that memory which is seldom needed is seldom touched. */
struct by_parts {
  struct by_server_part *parts;
  unsigned char *payloads;
  size_t stride;
  uint32_t free;
  const struct by_worker_groups *groups; /* borrowed; NULL: parts of a list are all of one group, or of groups */
};

struct by_server_part {
  struct by_worker_set set;
  uint64_t check;
  uint32_t next;
};

/* False: no memory. */
bool by_parts_init(struct by_parts *parts, const struct by_worker_groups *groups, uint32_t count, size_t stride);
void by_parts_fini(struct by_parts *parts);
const void *by_parts_payload(const struct by_parts *parts, uint32_t part);

enum by_parts_added {
  BY_PARTS_NEW,
  BY_PARTS_DUPLICATE,   /* nothing in it is new */
  BY_PARTS_OVERLAPPING, /* some of it is new, some in parts that hold others too */
  BY_PARTS_FULL
};

/* Adds a copy of the packet's payload, the terms of `set`, to the list at *first, in the place of those that it covers.
 * Lists are in the order of their lowest workers. */
enum by_parts_added by_parts_add(struct by_parts *parts, uint32_t *first, struct by_worker_set set,
                                 const struct by_fragment *packet);
/* Adds up what the list has of workers of `set` alone, `count` numbers each, in the order of workers: one part remains.
 * Where larger sets follow, this one must be there whole. */
void by_parts_fold(struct by_parts *parts, uint32_t *first, struct by_worker_set set, enum banyan_dtype dtype,
                   size_t count);
/* Frees a list. */
void by_parts_clear(struct by_parts *parts, uint32_t *first);

#endif
