/* A whole switch in memory: the tables that cell.h needs, for user space and for tests; and the check of grants for any
 * switch. One thread at a time; the caller owns the tables. */
#ifndef BY_IN_NETWORK_ENDPOINTS_STEP_H
#define BY_IN_NETWORK_ENDPOINTS_STEP_H

#include "cell.h"
#include "fragment.h"
#include "fragment_mac.h"
#include "server_parts.h"
#include "sum_key.h"

/* Sums of float32. Terms are kept separately until all are there and then added in the order of workers, so that the
 * result does not depend on the order in which they came. Terms that a switch further down should have merged are
 * forwarded unmerged: the server adds them as that switch would have. The check is computed again at each hop. */
struct by_float_sums {
  struct by_sum_key key;
  struct by_parts parts;
  uint32_t *first; /* For each cell, the list of its terms. */
};

/* Allocates for so many cells; terms that find no memory are forwarded unmerged. BANYAN_ERR_NO_MEMORY,
 * BANYAN_ERR_SYSTEM. */
BANYAN_CHECK enum banyan_status by_float_sums_init(struct by_float_sums *sums, uint32_t cells);
/* A zeroed struct is allowed. */
void by_float_sums_fini(struct by_float_sums *sums);
/* Frees the terms of these cells. */
void by_float_sums_clear(struct by_float_sums *sums, uint32_t base, uint32_t count);

struct by_cells {
  struct by_cell *cells;
  uint64_t (*sums)[BY_CELL_PAIRS];
  uint32_t count;
  struct by_float_sums *floats; /* NULL: no grant is for float32. */
};

/* Handles a UDP payload of `bytes` that came in by port `from`; `grant` is the one of its job, or NULL, and `key` its
 * hop key if it is keyed, otherwise NULL, with `windows` of its BY_REPLAY_SENDERS; `now` is in ms, and may wrap. It
 * changes a packet with a grant, which must be writable and aligned to 8. The verdict is never BY_VERDICT_CELL. */
struct by_verdict by_switch_step(const struct by_grant *grant, const struct by_hop_key *key,
                                 struct by_replay_window *windows, const struct by_cells *cells,
                                 struct by_fragment *packet, uint32_t bytes, uint32_t from, uint32_t now);

/* Does the same for a packet of this grant that by_fragment_verify has found valid with this key. */
struct by_verdict by_switch_pass(const struct by_grant *grant, const struct by_hop_key *key,
                                 struct by_replay_window *windows, const struct by_cells *cells,
                                 struct by_fragment *packet, uint32_t from, uint32_t now);

/* Tells whether a switch with so many cells and groups can hold it. BANYAN_ERR_ARGUMENT and BANYAN_ERR_UNSUPPORTED name
 * the job. */
BANYAN_CHECK enum banyan_status by_grant_check(const struct by_grant *grant, uint32_t cells, uint32_t groups);

#endif
