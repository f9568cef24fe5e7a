/* Members: what every rank knows of every other one. Made when joining,
 * immutable after that; strings lie in the context's arena. */
#ifndef BY_JOB_SETTINGS_MEMBER_H
#define BY_JOB_SETTINGS_MEMBER_H

#include "address.h"
#include "arena.h"
#include "bytes.h"
#include "process_identity.h"

struct by_settings;

enum { BY_MEMBER_ADDRESSES = 16, BY_MEMBER_STRING = 255, BY_MEMBER_HANDLE = 2047 };

enum by_member_kind { BY_MEMBER_RANK, BY_MEMBER_HELPER, BY_MEMBER_SERVER, BY_MEMBER_KINDS };

struct by_member {
  enum by_member_kind kind;
  const char *host;             /* name for people and plans */
  const char *machine;          /* identity: equal if memory can be shared */
  const char *local;            /* name of its local socket; "" if it takes no shared-memory links */
  uint32_t pid, cores;          /* cores: of its machine */
  uint64_t eager_limit, credit; /* of its settings: the same on all ranks, or they do not work together */
  uint32_t udp_port;            /* where it takes part in trees through switches; 0: it does not */
  uint32_t mtu; /* of the interface of its first address beyond loopback, of IPv4 if it has one; 0: unknown */
  struct by_fingerprint fingerprint; /* of the key with which it encrypts; zeros where it does not */
  const char *handle;                /* by which it is a member of groups that change; "" if it is of none */
  uint32_t n_addresses;
  struct by_address *addresses; /* where it takes links, the best first */
};

/* A member as bytes of a control message, and back into `arena`, without those of its addresses that mean nothing on
 * this host. */
void by_member_write(struct by_writer *writer, const struct by_member *member);
BANYAN_CHECK enum banyan_status by_member_read(struct by_reader *reader, struct by_arena *arena, struct by_member *out);
/* The same without the fingerprint, for handles, which have it elsewhere. */
void by_member_write_described(struct by_writer *writer, const struct by_member *member);
BANYAN_CHECK enum banyan_status by_member_read_described(struct by_reader *reader, struct by_arena *arena,
                                                         struct by_member *out);

/* "rank", "helper", "server". */
const char *by_member_kind_name(enum by_member_kind kind);

/* Its first address of this family that other machines may reach; NULL: it has none. */
const struct by_address *by_member_address(const struct by_member *member, int family);
/* What it sends to such an address in trees through switches comes from the one where rank 0 has it, which switches are
 * told. Length 0: any will do, as on one machine. */
struct by_address by_member_source(const struct by_member *member, const struct by_address *to);

/* What this process says of itself, but for its kind, addresses and ports; strings in the arena. */
BANYAN_CHECK enum banyan_status by_member_describe(const struct by_settings *settings, struct by_arena *arena,
                                                   struct by_member *out);
/* This machine's identity: boot id and the namespaces of network and processes, which must be the same to share memory
 * and sockets. Where the system does not show these, as without /proc, it is like no other. NULL: out of memory. */
const char *by_member_machine(struct by_arena *arena);
/* Whether both have the same network namespace, and so the same loopback, also where they cannot share memory. */
bool by_member_same_network(const struct by_member *a, const struct by_member *b);
bool by_member_same_host(const struct by_member *a, const struct by_member *b);

#endif
