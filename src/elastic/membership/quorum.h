/* Sets of ranks below a fixed number, as bitmaps, and which of them are quorums: members that may decide a
 * membership's successor. Values, without I/O; not for several threads.
 *
 * By majority: more than half of the members, or exactly half with the first member among them. Any two such quorums
 * share a member: together they count at least n, so two without a common member would be two halves, and only one half
 * holds the first member. By proof: all members except those whose death is proven. Such a quorum holds every live
 * member, so any two of them share whichever of their proposers lived longer. A quorum by majority and one by proof
 * need not share a member; paxos.h says what else is needed then. */
#ifndef BY_ELASTIC_MEMBERSHIP_QUORUM_H
#define BY_ELASTIC_MEMBERSHIP_QUORUM_H

#include "bytes.h"

/* ---- sets */

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

/* ---- quorums */

enum by_quorum_rule {
  BY_QUORUM_MAJORITY,  /* By majority only. */
  BY_QUORUM_SURVIVORS, /* By majority or by proof. */
  BY_QUORUM_NONE,      /* Any member, so that all parts of a divided network continue as separate jobs. */
  BY_QUORUM_RULES
};

/* Whether members that voted are a quorum. Votes of members whose death was proven afterwards count. */
bool by_quorum_holds(enum by_quorum_rule rule, const struct by_rank_set *votes, const struct by_rank_set *dead);

/* Says, for people, which members lack for a quorum. `text` holds BY_QUORUM_TEXT bytes. Returns `text`. */
enum { BY_QUORUM_TEXT = 384 };
const char *by_quorum_explain(enum by_quorum_rule rule, const struct by_rank_set *votes, const struct by_rank_set *dead,
                              char *text);

/* "majority", "survivors" or "none". BANYAN_ERR_ARGUMENT lists them. */
BANYAN_CHECK enum banyan_status by_quorum_rule_parse(const char *text, enum by_quorum_rule *out);
const char *by_quorum_rule_name(enum by_quorum_rule rule);

#endif
