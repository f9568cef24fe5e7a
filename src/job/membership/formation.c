#include "formation.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

/* The first 64 bits of SHA-256 over a name with its NUL and n identities; not 0. */
static enum banyan_status hash(const char *name, const struct by_handle *handles, uint32_t n, uint64_t *out) {
  uint8_t digest[EVP_MAX_MD_SIZE];
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  int made = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1 &&
             EVP_DigestUpdate(context, name, strlen(name) + 1) == 1;
  for (uint32_t i = 0; i < n && made; i++) made = EVP_DigestUpdate(context, handles[i].identity, BY_IDENTITY) == 1;
  made = made && EVP_DigestFinal_ex(context, digest, NULL) == 1;
  EVP_MD_CTX_free(context);
  if (!made) return by_fail(BANYAN_ERR_SYSTEM, "SHA-256 does not work");
  *out = by_get_u64(digest);
  *out += !*out;
  return BANYAN_OK;
}

enum banyan_status by_membership_hash(const char *name, uint64_t *out) {
  return hash(name, NULL, 0, out);
}

static bool is_same(const struct by_handle *a, const struct by_handle *b) {
  return !memcmp(a->identity, b->identity, BY_IDENTITY);
}

static enum banyan_status check_list(const struct by_handle *handles, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < i; j++)
      if (is_same(&handles[i], &handles[j]))
        return by_fail(BANYAN_ERR_ARGUMENT, "handles %u and %u of the membership are the same process, on host %s", j,
                       i, handles[i].member.host);
  return BANYAN_OK;
}

static enum banyan_status find_self(const struct by_handle *handles, uint32_t n, const struct by_handle *self,
                                    uint32_t *rank) {
  for (*rank = 0; *rank < n; (*rank)++)
    if (is_same(&handles[*rank], self)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "this process is not among the %u that form the membership: only those call this",
                 n);
}

static enum banyan_status print_root(const struct by_member *root, const struct by_member *self, struct by_arena *arena,
                                     const char **out) {
  struct by_text text;
  char address[BY_ADDRESS_TEXT];
  by_text_init(&text);
  for (uint32_t i = 0; i < root->n_addresses; i++) {
    const struct by_address *a = &root->addresses[i];
    if (by_address_is_loopback(a) && !by_member_same_network(root, self)) continue;
    by_text_add(&text, "%s%s", text.length ? "," : "", by_address_print(a, address));
  }
  *out = text.failed ? NULL : by_arena_string(arena, by_text_get(&text));
  size_t length = text.length;
  by_text_fini(&text);
  if (!*out) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for addresses");
  if (length) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT,
                 "the handle of the first member, on host %s, has no address that can be used from "
                 "here",
                 root->host);
}

enum banyan_status by_formation_init(const char *name, const struct by_handle *handles, uint32_t n,
                                     const struct by_handle *self, struct by_arena *arena, struct by_formation *out) {
  *out = (struct by_formation){.size = n, .handles = handles, .listener = -1};
  if (!name || !*name || strnlen(name, BY_MEMBERSHIP_NAME + 1) > BY_MEMBERSHIP_NAME)
    return by_fail(BANYAN_ERR_ARGUMENT, "the name of a membership has 1 to %d bytes", BY_MEMBERSHIP_NAME);
  BY_TRY(check_list(handles, n));
  BY_TRY(find_self(handles, n, self, &out->rank));
  BY_TRY(by_membership_hash(name, &out->name));
  BY_TRY(hash(name, handles, n, &out->number));
  return print_root(&handles[0].member, &self->member, arena, &out->root);
}
