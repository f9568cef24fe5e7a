/* Memberships as values: making, numbering, encoding and comparing them, and the names that a process has used. */
#include "membership.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

/* ---- numbers */

enum banyan_status by_membership_digest(const struct by_hashed *parts, size_t n, struct by_fingerprint *out) {
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  bool well = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
  for (size_t i = 0; i < n && well; i++) {
    uint8_t length[8];
    by_put_u64(length, parts[i].length);
    well = EVP_DigestUpdate(context, length, sizeof length) == 1 &&
           EVP_DigestUpdate(context, parts[i].bytes, parts[i].length) == 1;
  }
  well = well && EVP_DigestFinal_ex(context, out->bytes, NULL) == 1;
  EVP_MD_CTX_free(context);
  return well ? BANYAN_OK : by_fail(BANYAN_ERR_SYSTEM, "OpenSSL failed; is its installation complete?");
}

static enum banyan_status compute_number(struct by_membership *membership) {
  struct by_fingerprint hash, *list = malloc(membership->n * sizeof *list);
  uint8_t head[9];
  if (!list) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a membership of %u", membership->n);
  by_put_u64(head, membership->tag);
  head[8] = (uint8_t)membership->rule;
  for (uint32_t i = 0; i < membership->n; i++) list[i] = membership->members[i].fingerprint;
  const struct by_hashed parts[] = {
      {head, sizeof head}, {membership->name, strlen(membership->name)}, {list, membership->n * sizeof *list}};
  enum banyan_status status = by_membership_digest(parts, 3, &hash);
  free(list);
  if (status == BANYAN_OK) membership->number = by_get_u64(hash.bytes);
  return status;
}

/* ---- lists */

struct place {
  const struct by_fingerprint *fingerprint;
  uint32_t rank;
};

static int compare_places(const void *a, const void *b) {
  const struct place *x = a, *y = b;
  return memcmp(x->fingerprint, y->fingerprint, sizeof *x->fingerprint);
}

static enum banyan_status sort_members(struct by_membership *membership) {
  uint32_t n = membership->n + membership->n_excluded;
  struct place *places = malloc(n * sizeof *places);
  if (!places) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a membership of %u", n);
  for (uint32_t i = 0; i < n; i++) places[i] = (struct place){&membership->members[i].fingerprint, i};
  qsort(places, n, sizeof *places, compare_places);
  enum banyan_status status = BANYAN_OK;
  for (uint32_t i = 0; i < n; i++) {
    membership->order[i] = places[i].rank;
    if (i && compare_places(&places[i - 1], &places[i]) == 0)
      status = by_fail(BANYAN_ERR_ARGUMENT, "membership \"%s\" names one process twice, as %u and %u", membership->name,
                       places[i - 1].rank, places[i].rank);
  }
  free(places);
  return status;
}

static enum banyan_status check(const struct by_membership *from) {
  if (!from->name[0] || !memchr(from->name, 0, sizeof from->name) || !by_is_printable(from->name, BY_MEMBERSHIP_NAME))
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "the name of a membership must have 1 to %d bytes of UTF-8 without control "
                   "characters",
                   BY_MEMBERSHIP_NAME);
  if (!from->n || from->n > BY_MEMBERSHIP_MOST || from->n_excluded > BY_MEMBERSHIP_MOST)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "membership \"%s\" has %u members and %u excluded, must be 1 to %d and up to %d", from->name,
                   from->n, from->n_excluded, BY_MEMBERSHIP_MOST, BY_MEMBERSHIP_MOST);
  return BANYAN_OK;
}

enum banyan_status by_membership_create(const struct by_membership *from, struct by_membership **out) {
  BY_TRY(check(from));
  uint32_t n = from->n + from->n_excluded;
  struct by_membership *made = malloc(sizeof *made);
  if (!made) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a membership of %u", n);
  *made = *from;
  made->members = malloc(n * sizeof *made->members);
  made->order = malloc(n * sizeof *made->order);
  enum banyan_status status = BANYAN_OK;
  if (!made->members || !made->order)
    status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a membership of %u", n);
  else
    memcpy(made->members, from->members, n * sizeof *made->members);
  if (status == BANYAN_OK) status = sort_members(made);
  if (status == BANYAN_OK) status = compute_number(made);
  if (status == BANYAN_OK)
    *out = made;
  else
    by_membership_destroy(made);
  return status;
}

void by_membership_destroy(struct by_membership *membership) {
  if (!membership) return;
  free(membership->members);
  free(membership->order);
  free(membership);
}

uint32_t by_membership_find(const struct by_membership *membership, const struct by_fingerprint *fingerprint) {
  uint32_t low = 0, high = membership->n + membership->n_excluded;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2, rank = membership->order[middle];
    int order = memcmp(fingerprint, &membership->members[rank].fingerprint, sizeof *fingerprint);
    if (order == 0) return rank;
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return BY_NO_MEMBER;
}

void by_membership_print(const struct by_membership *membership, char out[BY_MEMBERSHIP_TITLE]) {
  char number[16];
  snprintf(number, sizeof number, "%u", membership->generation + 1);
  snprintf(out, BY_MEMBERSHIP_TITLE, "membership %s", membership->generation ? number : membership->name);
}

bool by_membership_equal(const struct by_membership *a, const struct by_membership *b) {
  if (a->tag != b->tag || a->generation != b->generation || a->rule != b->rule || strcmp(a->name, b->name) != 0 ||
      a->n != b->n || a->n_excluded != b->n_excluded)
    return false;
  for (uint32_t i = 0; i < a->n; i++)
    if (memcmp(&a->members[i].fingerprint, &b->members[i].fingerprint, sizeof a->members[i].fingerprint) != 0 ||
        a->members[i].flags != b->members[i].flags)
      return false;
  for (uint32_t i = a->n; i < a->n + a->n_excluded; i++) {
    uint32_t rank = by_membership_find(b, &a->members[i].fingerprint);
    if (rank == BY_NO_MEMBER || rank < b->n) return false;
  }
  return true;
}

/* ---- bytes */

void by_membership_write(struct by_writer *writer, const struct by_membership *membership) {
  by_write_u64(writer, membership->tag);
  by_write_u32(writer, membership->generation);
  by_write_u8(writer, (uint8_t)membership->rule);
  by_write_string(writer, membership->name);
  by_write_u32(writer, membership->n_excluded);
  by_write_u32(writer, membership->n + membership->n_excluded);
  for (uint32_t i = 0; i < membership->n + membership->n_excluded; i++) {
    by_write_bytes(writer, membership->members[i].fingerprint.bytes, BY_FINGERPRINT_BYTES);
    by_write_u8(writer, membership->members[i].flags);
  }
}

static void read_members(struct by_reader *reader, struct by_membership_member *members, uint32_t n) {
  for (uint32_t i = 0; i < n && !reader->failed; i++) {
    const uint8_t *bytes = by_read_bytes(reader, BY_FINGERPRINT_BYTES);
    if (bytes) memcpy(members[i].fingerprint.bytes, bytes, BY_FINGERPRINT_BYTES);
    members[i].flags = by_read_u8(reader);
    if (members[i].flags & ~BY_MEMBER_FOUNDER) reader->failed = true;
  }
}

enum banyan_status by_membership_read(struct by_reader *reader, struct by_membership **out) {
  struct by_membership read = {.tag = by_read_u64(reader), .generation = by_read_u32(reader)};
  uint8_t rule = by_read_u8(reader);
  by_read_string(reader, read.name, sizeof read.name);
  read.n_excluded = by_read_u32(reader);
  uint32_t n = by_read_count(reader, BY_FINGERPRINT_BYTES + 1);
  if (reader->failed || rule >= BY_QUORUM_RULES || read.n_excluded >= n || n > 2 * BY_MEMBERSHIP_MOST)
    return by_fail(BANYAN_ERR_PROTOCOL, "a membership is malformed");
  read.rule = (enum by_quorum_rule)rule;
  read.n = n - read.n_excluded;
  read.members = malloc(n * sizeof *read.members);
  if (!read.members) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a membership of %u", n);
  read_members(reader, read.members, n);
  enum banyan_status status = reader->failed ? by_fail(BANYAN_ERR_PROTOCOL, "a membership has malformed members")
                                             : by_membership_create(&read, out);
  free(read.members);
  return status == BANYAN_ERR_ARGUMENT ? by_fail_within(BANYAN_ERR_PROTOCOL, "a received membership") : status;
}

/* ---- used names */

enum banyan_status by_used_names_add(struct by_used_names *names, const char *name) {
  struct by_fingerprint hash;
  BY_TRY(by_membership_digest(&(struct by_hashed){name, strlen(name)}, 1, &hash));
  uint64_t value = by_get_u64(hash.bytes);
  uint32_t low = 0, high = names->n;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (names->hashes[middle] < value)
      low = middle + 1;
    else
      high = middle;
  }
  if (low < names->n && names->hashes[low] == value)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "the name \"%s\" was already used by a membership of this process: "
                   "give each membership a new name",
                   name);
  if (names->n == BY_USED_NAMES_MOST)
    return by_fail(BANYAN_ERR_ARGUMENT, "this process has been in %d memberships: restart it", BY_USED_NAMES_MOST);
  if ((names->n & (names->n - 1)) == 0) {
    uint64_t *room = realloc(names->hashes, (names->n ? 2 * (size_t)names->n : 1) * sizeof *room);
    if (!room) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the names of memberships");
    names->hashes = room;
  }
  memmove(names->hashes + low + 1, names->hashes + low, (names->n - low) * sizeof *names->hashes);
  names->hashes[low] = value;
  names->n++;
  return BANYAN_OK;
}

void by_used_names_fini(struct by_used_names *names) {
  free(names->hashes);
  *names = (struct by_used_names){0};
}
