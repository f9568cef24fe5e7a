/* Successors of memberships as differences to them: checking, applying, encoding and decoding them. */
#include "paxos_message.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

enum banyan_status by_successor_init(struct by_successor *successor, const struct by_membership *before) {
  *successor = (struct by_successor){0};
  BY_TRY(by_rank_set_init(&successor->kept, before->n));
  enum banyan_status status = by_rank_set_init(&successor->excluded, before->n + before->n_excluded);
  if (status != BANYAN_OK) by_successor_fini(successor);
  return status;
}

void by_successor_fini(struct by_successor *successor) {
  by_rank_set_fini(&successor->kept);
  by_rank_set_fini(&successor->excluded);
  free(successor->added);
  OPENSSL_cleanse(successor, sizeof *successor);
}

enum banyan_status by_successor_add(struct by_successor *successor, const struct by_fingerprint *fingerprint) {
  uint32_t n = successor->n_added;
  if ((n & (n - 1)) == 0) {
    struct by_fingerprint *room = realloc(successor->added, (n ? 2 * (size_t)n : 1) * sizeof *room);
    if (!room) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u members", n + 1);
    successor->added = room;
  }
  successor->added[successor->n_added++] = *fingerprint;
  return BANYAN_OK;
}

bool by_successor_has(const struct by_successor *successor, const struct by_membership *before, uint32_t rank) {
  if (by_rank_set_has(&successor->kept, rank)) return true;
  for (uint32_t i = 0; i < successor->n_added; i++)
    if (memcmp(&successor->added[i], &before->members[rank].fingerprint, sizeof *successor->added) == 0) return true;
  return false;
}

/* ---- checks */

static bool is_founder(const struct by_successor *successor, const struct by_membership *before, uint32_t rank) {
  return rank < before->n && (successor->settled || before->members[rank].flags & BY_MEMBER_FOUNDER);
}

static bool has_founder(const struct by_successor *successor, const struct by_membership *before) {
  const struct by_rank_set *kept = &successor->kept;
  for (uint32_t i = by_rank_set_next(kept, 0); i < kept->n; i = by_rank_set_next(kept, i + 1))
    if (is_founder(successor, before, i)) return true;
  for (uint32_t i = 0; i < successor->n_added; i++)
    if (is_founder(successor, before, by_membership_find(before, &successor->added[i]))) return true;
  return false;
}

static int compare_fingerprints(const void *a, const void *b) {
  return memcmp(a, b, sizeof(struct by_fingerprint));
}

static enum banyan_status check_added(const struct by_successor *successor, const struct by_membership *before) {
  uint32_t n = successor->n_added;
  struct by_fingerprint *sorted = malloc((n + 1) * sizeof *sorted);
  if (!sorted) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u members", n);
  if (n) memcpy(sorted, successor->added, n * sizeof *sorted);
  qsort(sorted, n, sizeof *sorted, compare_fingerprints);
  enum banyan_status status = BANYAN_OK;
  for (uint32_t i = 0; i < n && status == BANYAN_OK; i++) {
    uint32_t rank = by_membership_find(before, &sorted[i]);
    if ((i && compare_fingerprints(&sorted[i - 1], &sorted[i]) == 0) || by_rank_set_has(&successor->kept, rank))
      status = by_fail(BANYAN_ERR_ARGUMENT, "membership \"%s\" names one process twice", successor->name);
    else if (rank != BY_NO_MEMBER && (rank >= before->n || by_rank_set_has(&successor->excluded, rank)))
      status = by_fail(BANYAN_ERR_ARGUMENT, "membership \"%s\" names a process that was excluded: it must restart",
                       successor->name);
  }
  free(sorted);
  return status;
}

enum banyan_status by_successor_check(const struct by_successor *successor, const struct by_membership *before) {
  uint64_t n = (uint64_t)by_rank_set_count(&successor->kept) + successor->n_added;
  if (!successor->name[0] || !by_is_printable(successor->name, BY_MEMBERSHIP_NAME))
    return by_fail(BANYAN_ERR_ARGUMENT, "the successor of membership \"%s\" has no name that can be shown",
                   before->name);
  if (!n)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "the successor of membership \"%s\" would have no members: all that answer leave", before->name);
  if (n > BY_MEMBERSHIP_MOST || by_rank_set_count(&successor->excluded) > BY_MEMBERSHIP_MOST)
    return by_fail(BANYAN_ERR_ARGUMENT, "membership \"%s\" has %llu members, must be 1 to %d", successor->name,
                   (unsigned long long)n, BY_MEMBERSHIP_MOST);
  for (uint32_t i = 0; i < (before->n + 63) / 64; i++)
    if (successor->kept.words[i] & successor->excluded.words[i])
      return by_fail(BANYAN_ERR_ARGUMENT, "membership \"%s\" keeps a member that it excludes", successor->name);
  BY_TRY(check_added(successor, before));
  if (before->rule == BY_QUORUM_SURVIVORS && !has_founder(successor, before))
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "membership \"%s\" has no founder: all members of the last settled membership "
                   "are gone, and processes that were cut off may go on without them",
                   successor->name);
  return BANYAN_OK;
}

static void fill_members(const struct by_successor *successor, const struct by_membership *before,
                         struct by_membership *made) {
  struct by_membership_member *at = made->members;
  for (uint32_t i = by_rank_set_next(&successor->kept, 0); i < before->n;
       i = by_rank_set_next(&successor->kept, i + 1)) {
    *at = before->members[i];
    (at++)->flags = is_founder(successor, before, i) ? BY_MEMBER_FOUNDER : 0;
  }
  for (uint32_t i = 0; i < successor->n_added; i++) {
    uint32_t rank = by_membership_find(before, &successor->added[i]);
    *at++ =
        (struct by_membership_member){successor->added[i], is_founder(successor, before, rank) ? BY_MEMBER_FOUNDER : 0};
  }
  made->n = (uint32_t)(at - made->members);
  for (uint32_t i = by_rank_set_next(&successor->excluded, 0); i < successor->excluded.n;
       i = by_rank_set_next(&successor->excluded, i + 1))
    *at++ = (struct by_membership_member){before->members[i].fingerprint, 0};
  made->n_excluded = (uint32_t)(at - made->members) - made->n;
}

enum banyan_status by_successor_apply(const struct by_successor *successor, const struct by_membership *before,
                                      struct by_membership **out) {
  BY_TRY(by_successor_check(successor, before));
  struct by_membership made = {.tag = before->tag, .generation = before->generation + 1, .rule = before->rule};
  memcpy(made.name, successor->name, sizeof made.name);
  size_t n = by_rank_set_count(&successor->kept) + successor->n_added + by_rank_set_count(&successor->excluded);
  made.members = malloc(n * sizeof *made.members);
  if (!made.members) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a membership of %zu", n);
  fill_members(successor, before, &made);
  enum banyan_status status = by_membership_create(&made, out);
  free(made.members);
  return status;
}

/* ---- bytes */

void by_successor_write(struct by_writer *writer, const struct by_successor *successor) {
  by_write_string(writer, successor->name);
  by_write_bytes(writer, successor->secret, sizeof successor->secret);
  by_write_u8(writer, successor->settled);
  by_rank_set_write(writer, &successor->kept);
  by_rank_set_write(writer, &successor->excluded);
  by_write_u32(writer, successor->n_added);
  by_write_bytes(writer, successor->added, successor->n_added * sizeof *successor->added);
}

static enum banyan_status read_fields(struct by_reader *reader, struct by_successor *out) {
  by_read_string(reader, out->name, sizeof out->name);
  const uint8_t *secret = by_read_bytes(reader, sizeof out->secret);
  if (secret) memcpy(out->secret, secret, sizeof out->secret);
  uint8_t settled = by_read_u8(reader);
  reader->failed |= settled > 1;
  out->settled = settled;
  by_rank_set_read(reader, &out->kept);
  by_rank_set_read(reader, &out->excluded);
  uint32_t n = by_read_count(reader, BY_FINGERPRINT_BYTES);
  const uint8_t *added = by_read_bytes(reader, n * sizeof *out->added);
  BY_TRY(by_reader_check(reader, "the successor of a membership"));
  if (!n) return BANYAN_OK;
  out->added = malloc(n * sizeof *out->added);
  if (!out->added) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u members", n);
  memcpy(out->added, added, n * sizeof *out->added);
  out->n_added = n;
  return BANYAN_OK;
}

enum banyan_status by_successor_read(const void *bytes, size_t length, const struct by_membership *before,
                                     struct by_successor *out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  BY_TRY(by_successor_init(out, before));
  enum banyan_status status = read_fields(&reader, out);
  if (status == BANYAN_OK) status = by_successor_check(out, before);
  if (status == BANYAN_OK) return BANYAN_OK;
  by_successor_fini(out);
  return status == BANYAN_ERR_ARGUMENT ? by_fail_within(BANYAN_ERR_PROTOCOL, "a received successor") : status;
}
