/* How a membership is formed: its list of processes, and the addresses at which its first process accepts the
 * others. */
#include "formation.h"

#include <stdlib.h>
#include <string.h>

static enum banyan_status hash(const char *label, const void *bytes, size_t n, uint64_t *out) {
  const struct by_hashed parts[] = {{label, strlen(label)}, {bytes, n}};
  struct by_fingerprint digest;
  BY_TRY(by_membership_digest(parts, 2, &digest));
  *out = by_get_u64(digest.bytes);
  return BANYAN_OK;
}

enum banyan_status by_formation_found(const struct by_key *key, enum by_quorum_rule rule, const char *name,
                                      const struct by_handle *handles, uint32_t n, struct by_membership **out) {
  if (!name || !*name || strnlen(name, BY_MEMBERSHIP_NAME + 1) > BY_MEMBERSHIP_NAME)
    return by_fail(BANYAN_ERR_ARGUMENT, "the name of a membership has 1 to %d bytes", BY_MEMBERSHIP_NAME);
  struct by_membership from = {.n = n, .rule = rule, .members = calloc(n, sizeof *from.members)};
  if (!from.members) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a membership of %u", n);
  for (uint32_t i = 0; i < n; i++)
    from.members[i] = (struct by_membership_member){handles[i].fingerprint, BY_MEMBER_FOUNDER};
  memcpy(from.name, name, strlen(name) + 1);
  enum banyan_status status = hash("job", key->bytes, sizeof key->bytes, &from.tag);
  if (status == BANYAN_OK) status = by_membership_create(&from, out);
  free(from.members);
  return status;
}

void by_formation_print_places(const struct by_member *member, const struct by_member *self, struct by_text *out) {
  char address[BY_ADDRESS_TEXT];
  for (uint32_t i = 0; i < member->n_addresses; i++) {
    const struct by_address *a = &member->addresses[i];
    if (by_address_is_loopback(a) && !by_member_same_network(member, self)) continue;
    by_text_add(out, "%s%s", out->length ? "," : "", by_address_print(a, address));
  }
}

static enum banyan_status print_root(const struct by_handle *handle, const struct by_member *self,
                                     struct by_arena *arena, const char **out) {
  const struct by_member *root = &handle->member;
  char fingerprint[BY_FINGERPRINT_TEXT];
  struct by_text text;
  by_text_init(&text);
  by_formation_print_places(root, self, &text);
  by_fingerprint_print(&handle->fingerprint, fingerprint);
  if (text.length) by_text_add(&text, "#%s", fingerprint);
  *out = text.failed ? NULL : by_arena_string(arena, by_text_get(&text));
  size_t length = text.length;
  by_text_fini(&text);
  if (!*out) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for addresses");
  if (length) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT,
                 "the handle of the first member, on host %s, has no address that can be used from here", root->host);
}

enum banyan_status by_formation_init(struct by_membership *membership, const struct by_handle *handles,
                                     const struct by_handle *self, const char *handle, struct by_arena *arena,
                                     struct by_formation *out) {
  *out = (struct by_formation){.membership = membership, .handles = handles, .handle = handle, .listener = -1};
  out->rank = by_membership_find(membership, &self->fingerprint);
  if (out->rank >= membership->n)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "this process is not among the %u that form the membership: only those call this", membership->n);
  BY_TRY(hash("name", membership->name, strlen(membership->name), &out->name));
  return print_root(&handles[0], &self->member, arena, &out->root);
}

void by_formation_fini(struct by_formation *formation) {
  by_membership_destroy(formation->membership);
  formation->membership = NULL;
}
