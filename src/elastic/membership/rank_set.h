/* A set of ranks below a fixed number, as a bitmap. Not for several threads. */
#ifndef BY_ELASTIC_MEMBERSHIP_RANK_SET_H
#define BY_ELASTIC_MEMBERSHIP_RANK_SET_H

#include "bytes.h"

/* Zero-initialised, it has no ranks. */
struct by_rank_set {
  uint32_t n; /* Upper limit, exclusive, of ranks in the set. */
  uint64_t *words;
};

/* An empty set of ranks below n. BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_rank_set_init(struct by_rank_set *set, uint32_t n);
void by_rank_set_fini(struct by_rank_set *set);
void by_rank_set_clear(struct by_rank_set *set);

static inline bool by_rank_set_has(const struct by_rank_set *set, uint32_t rank) {
  return rank < set->n && set->words[rank / 64] >> rank % 64 & 1;
}
/* Adds a rank, which must be below n. Returns whether it was not in the set. */
static inline bool by_rank_set_add(struct by_rank_set *set, uint32_t rank) {
  uint64_t *word = &set->words[rank / 64], bit = 1ull << rank % 64;
  bool fresh = !(*word & bit);
  *word |= bit;
  return fresh;
}
static inline void by_rank_set_remove(struct by_rank_set *set, uint32_t rank) {
  set->words[rank / 64] &= ~(1ull << rank % 64);
}
uint32_t by_rank_set_count(const struct by_rank_set *set);
/* Adds all of `from`, a set of the same n. Returns whether any of them was new. */
bool by_rank_set_merge(struct by_rank_set *set, const struct by_rank_set *from);
/* The first rank in the set that is not below `from`; n if there is none. */
uint32_t by_rank_set_next(const struct by_rank_set *set, uint32_t from);

/* On the wire: a bit for each rank, the lowest first, in as many bytes as that needs. Reading fails if a bit beyond
 * the last rank is set; `set` must have been initialised. */
void by_rank_set_write(struct by_writer *writer, const struct by_rank_set *set);
void by_rank_set_read(struct by_reader *reader, struct by_rank_set *set);

#endif
