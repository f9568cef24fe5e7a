/* Sums of float32 in a switch of user space. Terms are kept apart until all are
 * there and then added in the order of workers, so that the same bits come out
 * in whatever order they came. What a switch further down should have merged and
 * has not goes on unmerged: the server adds those terms as that switch would
 * have. The check is made anew at each hop. One thread at a time. */
#ifndef BY_SWITCH_FLOAT_SUMS_H
#define BY_SWITCH_FLOAT_SUMS_H

#include "cell.h"
#include "server_parts.h"
#include "sum_key.h"

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

/* A term of float32 for cell number `at`, whose sum lies in `sum`, as by_cell_decide and by_cell_apply do it for
 * others at `now`, in ms; `verdict` asks for the cell. */
void by_float_sums_take(struct by_float_sums *sums, const struct by_grant *grant, struct by_cell *cell, uint32_t at,
                        uint64_t *sum, struct by_fragment *packet, uint32_t now, struct by_verdict *verdict);

#endif
