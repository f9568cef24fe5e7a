/* A membership: an ordered list of processes under a name. A process is identified by the fingerprint of its key, and a
 * member's place in the list is its rank. The number of a membership is made of the job's tag, the rule, the name and
 * the fingerprints in order, so that two groups with different members, names or rules have different numbers.
 *
 * A value: it does not change once it is made, and its holder may share it. No I/O. */
#ifndef BY_ELASTIC_MEMBERSHIP_MEMBERSHIP_H
#define BY_ELASTIC_MEMBERSHIP_MEMBERSHIP_H

#include "process_identity.h"
#include "quorum.h"

enum {
  BY_MEMBERSHIP_NAME = 255, /* Maximum bytes of a name, which is UTF-8 without control characters. */
  BY_MEMBERSHIP_TITLE = BY_MEMBERSHIP_NAME + 16,
  BY_MEMBERSHIP_MOST = 65536, /* Maximum members, and maximum processes excluded without proof of their death. */
  BY_USED_NAMES_MOST = 65536
};
#define BY_NO_MEMBER UINT32_MAX

/* Flags of a member. A founder was in the last settled membership; see paxos.h. */
enum { BY_MEMBER_FOUNDER = 1 };

struct by_membership_member {
  struct by_fingerprint fingerprint;
  uint8_t flags;
};

struct by_membership {
  uint64_t tag; /* Hash of the job's key. */
  uint64_t number;
  uint32_t generation; /* Number of memberships that precede it. */
  enum by_quorum_rule rule;
  char name[BY_MEMBERSHIP_NAME + 1];
  uint32_t n;
  /* Processes that were excluded since the last settled membership and were not known to be dead. They follow the
   * members in `members`, at the indices n to n + n_excluded - 1. */
  uint32_t n_excluded;
  struct by_membership_member *members;
  uint32_t *order; /* Indices in `members` in ascending order of fingerprints. */
};

/* Copies a membership with its n members and n_excluded excluded processes, and computes its number. Returns
 * BANYAN_ERR_ARGUMENT if the name is invalid, a list is too long or empty, or a fingerprint occurs twice; or
 * BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_membership_create(const struct by_membership *from, struct by_membership **out);
/* NULL is allowed. */
void by_membership_destroy(struct by_membership *membership);
/* A title for people: "membership 3" where Banyan has chosen the name, which is long; else "membership NAME". */
void by_membership_print(const struct by_membership *membership, char out[BY_MEMBERSHIP_TITLE]);
/* Returns the index of a member or excluded process; BY_NO_MEMBER if it is neither. Cost: log(n). */
uint32_t by_membership_find(const struct by_membership *membership, const struct by_fingerprint *fingerprint);
/* Whether memberships are equal, except for the order of excluded processes. */
bool by_membership_equal(const struct by_membership *a, const struct by_membership *b);

/* Encode and decode a membership. Reading makes the checks of by_membership_create, and returns BANYAN_ERR_PROTOCOL. */
void by_membership_write(struct by_writer *writer, const struct by_membership *membership);
BANYAN_CHECK enum banyan_status by_membership_read(struct by_reader *reader, struct by_membership **out);

/* The names that a process has used, in at most 512 KiB. A name cannot be used twice, and a process that has used
 * BY_USED_NAMES_MOST names must be restarted. Zero-initialised, it is empty. */
struct by_used_names {
  uint64_t *hashes; /* Hashes of the names in ascending order. */
  uint32_t n;
};

/* Returns BANYAN_ERR_ARGUMENT if the name was used before or the maximum is reached, or BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_used_names_add(struct by_used_names *names, const char *name);
void by_used_names_fini(struct by_used_names *names);

/* Computes the SHA-256 of n parts, each preceded by its length. Returns BANYAN_ERR_SYSTEM if OpenSSL fails. */
struct by_hashed {
  const void *bytes;
  size_t length;
};
BANYAN_CHECK enum banyan_status by_membership_digest(const struct by_hashed *parts, size_t n,
                                                     struct by_fingerprint *out);

#endif
