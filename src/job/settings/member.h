/* Members: what every rank knows of every other one. A member is made when it joins and does not change. Its strings
 * lie in the job's arena. */
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
  const char *host;             /* The host's name in messages and plans. */
  const char *machine;          /* The machine's identity: processes with equal ones can share memory. */
  const char *local;            /* The name of its local socket; "": it accepts no shared-memory links. */
  uint32_t pid, cores;          /* The process identifier, and the number of cores of its machine. */
  uint64_t eager_limit, credit; /* Bytes; settings of the engine that must be equal on all ranks. */
  uint32_t udp_port;            /* Its UDP port for in-network trees; 0: it takes part in none. */
  uint32_t
      mtu; /* Bytes: the MTU of the interface of its first address beyond loopback, preferably of IPv4; 0: unknown. */
  struct by_fingerprint
      fingerprint;    /* The fingerprint of the key with which it encrypts; zeros: it does not encrypt. */
  const char *handle; /* Its handle as a member of elastic groups; "": it has none. */
  uint32_t n_addresses;
  struct by_address *addresses; /* The addresses where it accepts links, the best first. */
};

/* A member as bytes of a control message, and back into `arena`, without those of its addresses that mean nothing on
 * this host. */
void by_member_write(struct by_writer *writer, const struct by_member *member);
BANYAN_CHECK enum banyan_status by_member_read(struct by_reader *reader, struct by_arena *arena, struct by_member *out);
/* Writes and reads a member without its fingerprint, for handles, which have it elsewhere. */
void by_member_write_described(struct by_writer *writer, const struct by_member *member);
BANYAN_CHECK enum banyan_status by_member_read_described(struct by_reader *reader, struct by_arena *arena,
                                                         struct by_member *out);

/* The name of a kind: "rank", "helper" or "server". */
const char *by_member_kind_name(enum by_member_kind kind);

/* The member's first address of this family that other machines may reach; NULL: it has none. */
const struct by_address *by_member_address(const struct by_member *member, int family);
/* The source address of what the member sends to `to` in in-network trees: the one that rank 0 gives to switches.
 * Length 0: any address will do, as on one machine. */
struct by_address by_member_source(const struct by_member *member, const struct by_address *to);

/* Describes this process, except for its kind, addresses and ports. Strings lie in the arena. */
BANYAN_CHECK enum banyan_status by_member_describe(const struct by_settings *settings, struct by_arena *arena,
                                                   struct by_member *out);
/* This machine's identity: boot id and the namespaces of network and processes, which must be the same to share memory
 * and sockets. Where the system does not show these, as without /proc, it is like no other. NULL: out of memory. */
const char *by_member_machine(struct by_arena *arena);
/* Whether both have the same network namespace, and so the same loopback, also where they cannot share memory. */
bool by_member_same_network(const struct by_member *a, const struct by_member *b);
bool by_member_same_host(const struct by_member *a, const struct by_member *b);

#endif
