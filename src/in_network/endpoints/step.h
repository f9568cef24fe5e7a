/* A whole switch in memory: what cell.h needs, for user space and for tests; and
 * what a grant may say, on any switch. One thread at a time; the tables belong
 * to the caller. */
#ifndef BY_IN_NETWORK_ENDPOINTS_STEP_H
#define BY_IN_NETWORK_ENDPOINTS_STEP_H

#include "cell.h"
#include "fragment_mac.h"
#include "replay.h"
#include "server_parts.h"
#include "sum_key.h"

/* Sums of float32. Terms are kept apart until all are there and then added in the order of workers, so that the same
 * bits come out in whatever order they came. What a switch further down should have merged and has not goes on
 * unmerged: the server adds those terms as that switch would have. The check is made anew at each hop. */
struct by_float_sums {
  struct by_sum_key key;
  struct by_parts parts;
  uint32_t *first; /* of each cell: the list of its terms */
};

/* For so many cells; where terms find no room, they go on unmerged. BANYAN_ERR_NO_MEMORY, BANYAN_ERR_SYSTEM. */
BANYAN_CHECK enum banyan_status by_float_sums_init(struct by_float_sums *sums, uint32_t cells);
/* One that is all zeros is allowed. */
void by_float_sums_fini(struct by_float_sums *sums);
/* These cells are free. */
void by_float_sums_clear(struct by_float_sums *sums, uint32_t base, uint32_t count);

struct by_cells {
  struct by_cell *cells;
  uint64_t (*sums)[BY_CELL_PAIRS];
  uint32_t count;
  struct by_float_sums *floats; /* NULL: no grant is for float32 */
};

/* A UDP payload of `bytes` has come in by port `from`; `grant` is the one of its job, or NULL, and `key` its hop key if
 * it is keyed, else NULL, with `windows` of its BY_REPLAY_SENDERS; `now` is in ms, and may wrap. Changes the packet if
 * that is of a grant, all of which must be writable and its first byte aligned to 8. The verdict is never
 * BY_VERDICT_CELL. */
struct by_verdict by_switch_step(const struct by_grant *grant, const struct by_hop_key *key,
                                 struct by_replay_window *windows, const struct by_cells *cells,
                                 struct by_fragment *packet, uint32_t bytes, uint32_t from, uint32_t now);

/* The same for a packet of this grant that by_fragment_verify has found sound with this key. */
struct by_verdict by_switch_pass(const struct by_grant *grant, const struct by_hop_key *key,
                                 struct by_replay_window *windows, const struct by_cells *cells,
                                 struct by_fragment *packet, uint32_t from, uint32_t now);

/* Whether a switch with so many cells and groups can keep it. BANYAN_ERR_ARGUMENT, BANYAN_ERR_UNSUPPORTED name the job.
 */
BANYAN_CHECK enum banyan_status by_grant_check(const struct by_grant *grant, uint32_t cells, uint32_t groups);

#endif
