/* Fragments: the packets of trees through switches that add. A UDP payload is one header of 64 bytes, a cache line,
 * and up to 53 lines of 64 bytes that may be added. Little endian, used as it lies in memory. This file is compiled
 * three times: for the ends, for the user-space switch and, with clang -target bpf, for XDP; so it has no libc, no
 * calls, no unbounded loop. docs/wire.md describes the same: keep the two together. */
#ifndef BY_NET_WIRE_FRAGMENT_H
#define BY_NET_WIRE_FRAGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The workers of an in-network tree, numbered from 0. A tree of at most 64 has one group, number 0, and worker w has
 * bit w. A larger one has groups of up to 64 with consecutive numbers, and a switch that has added all terms of a
 * group sends the sum as that of a group, with its bit and group number BY_FRAGMENT_UNITED. A worker that is alone in
 * its group does so itself. Values without memory of their own. */

enum {
  BY_FRAGMENT_WORKERS = 64, /* The maximum of a group. */
  BY_FRAGMENT_GROUPS = 64,  /* The maximum of a tree. */
  BY_FRAGMENT_UNITED = 255, /* Replaces a group's number: bits stand for whole groups. */
  BY_TREE_WORKERS = 1024,   /* The maximum of a tree: a request for cells names them all. */
};

/* The workers of group g are first[g] to first[g + 1] - 1, at most 64. */
struct by_worker_groups {
  uint32_t n;
  uint16_t first[BY_FRAGMENT_GROUPS + 1];
};

/* A bit for each worker of one group, or for each group if `group` is BY_FRAGMENT_UNITED. */
struct by_worker_set {
  uint64_t workers;
  uint8_t group;
};

static inline uint32_t by_worker_count(uint64_t workers) {
  return (uint32_t)__builtin_popcountll(workers);
}

static inline uint64_t by_low_bits(uint32_t n) {
  return n ? ~0ull >> (64 - n) : 0;
}

/* One group of 1 to 64 workers. */
static inline struct by_worker_groups by_one_group(uint32_t workers) {
  return (struct by_worker_groups){.n = 1, .first = {0, (uint16_t)workers}};
}

static inline uint32_t by_group_size(const struct by_worker_groups *groups, uint32_t group) {
  return (uint32_t)groups->first[group + 1] - groups->first[group];
}

static inline uint32_t by_workers_of(const struct by_worker_groups *groups) {
  return groups->first[groups->n];
}

static inline uint32_t by_group_of(const struct by_worker_groups *groups, uint32_t worker) {
  uint32_t group = 0;
  while (groups->first[group + 1] <= worker) group++;
  return group;
}

/* Whether there is one group, or several of more than 64 workers in all. */
static inline bool by_groups_are_valid(const struct by_worker_groups *groups) {
  if (groups->n < 1 || groups->n > BY_FRAGMENT_GROUPS || groups->first[0]) return false;
  for (uint32_t g = 0; g < groups->n; g++)
    if (groups->first[g + 1] <= groups->first[g] || by_group_size(groups, g) > BY_FRAGMENT_WORKERS) return false;
  return by_workers_of(groups) <= BY_TREE_WORKERS && (groups->n == 1) == (by_workers_of(groups) <= BY_FRAGMENT_WORKERS);
}

/* The set of a worker's own terms. */
static inline struct by_worker_set by_set_of_worker(const struct by_worker_groups *groups, uint32_t worker) {
  uint32_t group = by_group_of(groups, worker);
  if (groups->n > 1 && by_group_size(groups, group) == 1)
    return (struct by_worker_set){.workers = 1ull << group, .group = BY_FRAGMENT_UNITED};
  return (struct by_worker_set){.workers = 1ull << (worker - groups->first[group]), .group = (uint8_t)group};
}

static inline struct by_worker_set by_set_of_all(const struct by_worker_groups *groups) {
  if (groups->n == 1) return (struct by_worker_set){.workers = by_low_bits(by_group_size(groups, 0))};
  return (struct by_worker_set){.workers = by_low_bits(groups->n), .group = BY_FRAGMENT_UNITED};
}

/* Whether the set names only existing workers. */
static inline bool by_set_is_within(const struct by_worker_groups *groups, struct by_worker_set set) {
  if (set.group == BY_FRAGMENT_UNITED) return groups->n > 1 && !(set.workers & ~by_low_bits(groups->n));
  return set.group < groups->n && !(set.workers & ~by_low_bits(by_group_size(groups, set.group)));
}

/* The members of the set that belong to a group, by their bits in it. */
static inline uint64_t by_set_part(const struct by_worker_groups *groups, struct by_worker_set set, uint32_t group) {
  if (set.group == group) return set.workers;
  bool whole = set.group == BY_FRAGMENT_UNITED && (set.workers >> group & 1);
  return whole ? by_low_bits(by_group_size(groups, group)) : 0;
}

static inline uint32_t by_set_count(const struct by_worker_groups *groups, struct by_worker_set set) {
  if (set.group != BY_FRAGMENT_UNITED) return by_worker_count(set.workers);
  uint32_t count = 0;
  for (uint64_t left = set.workers; left; left &= left - 1)
    count += by_group_size(groups, (uint32_t)__builtin_ctzll(left));
  return count;
}

/* The number of the worker that this rank of a set identifies. */
static inline uint32_t by_worker_number(const struct by_worker_groups *groups, struct by_worker_set set,
                                        uint32_t rank) {
  return set.group == BY_FRAGMENT_UNITED ? groups->first[rank] : groups->first[set.group] + rank;
}

enum {
  BY_FRAGMENT_MAGIC = 0x59,
  BY_FRAGMENT_VERSION = 4,
  BY_FRAGMENT_PORT = 7612, /* The port on which servers listen by default. */
  BY_FRAGMENT_LINE = 64,
  BY_FRAGMENT_LINES =
      53, /* The maximum of lines: an Ethernet MTU of 3506, veth's with native XDP, has room for no more. */
  BY_FRAGMENT_HOPS = 8,
  BY_FRAGMENT_PORTS = 64, /* The ports of a switch. */
};

enum by_fragment_type {
  BY_FRAGMENT_UP = 1,          /* A term, or a sum of some workers' terms, sent to the server. */
  BY_FRAGMENT_RESULT = 2,      /* The sum for one worker, sent along the stack. */
  BY_FRAGMENT_RESULT_MC = 3,   /* The sum for all workers: each switch sends it to the members of the job's group. */
  BY_FRAGMENT_PROBE = 4,       /* Sent along the stack to the server; each switch writes down what its cell holds. */
  BY_FRAGMENT_PROBE_REPLY = 5, /* A probe that the server sends back. */
  BY_FRAGMENT_NACK = 6, /* ESCALATE: send this term again, unmerged. Otherwise `workers` have made the call `call`. */
};

enum by_fragment_flags {
  BY_FRAGMENT_AGGREGATED = 1, /* A switch has added something to it. */
  BY_FRAGMENT_RETX = 2,       /* Sent before: what answers it goes to its sender alone. */
  BY_FRAGMENT_ESCALATE = 4,   /* For the server as it is: no switch may merge it. */
  BY_FRAGMENT_STALE = 8,      /* A switch knows that this epoch's sum is finished: the server answers from its store. */
  BY_FRAGMENT_BUSY = 16,      /* A switch could not merge it: no cell, or a cell that holds something else. */
  BY_FRAGMENT_CE = 32,        /* A queue on its path is filling. */
  BY_FRAGMENT_FLAGS = 63,
  /* Switches after the one that set one of these must not merge it either: the sum is being made elsewhere. */
  BY_FRAGMENT_UNMERGED = BY_FRAGMENT_ESCALATE | BY_FRAGMENT_STALE | BY_FRAGMENT_BUSY,
  /* A sum has this flag if one of its terms has it. */
  BY_FRAGMENT_STICKY = BY_FRAGMENT_CE,
};

/* The type of the lines. Pairs: two int32 as hi * 2^32 + lo, one signed 64-bit number, so that one addition adds
 * both; lo = (int32) pair, hi = (pair - lo) >> 32; only the ends know their meaning, see src/kernel/reduce.h. The last
 * three are terms without a fixed point, which only servers add. */
enum by_fragment_dtype {
  BY_FRAGMENT_PAIRS = 1,
  BY_FRAGMENT_FLOAT32 = 2,
  BY_FRAGMENT_INT32 = 3,
  BY_FRAGMENT_FLOAT16 = 4,
  BY_FRAGMENT_BFLOAT16 = 5,
  BY_FRAGMENT_DTYPES = 6
};

/* One switch of a stack, which begins with the switch next to the server, in both directions: each switch knows its
 * own entry, so a missing one disturbs no other. */
struct by_hop {
  uint8_t port;    /* The port by which the packet leaves. */
  uint8_t workers; /* Up: 0: forward; otherwise add, see by_hop_add. Down: whether the switch has added. */
};

/* What a switch adds, and how the sum goes on. */
enum by_hop_kind {
  BY_HOP_WORKERS = 0, /* Terms of one group's workers. */
  BY_HOP_WHOLE = 1,   /* Terms of all workers of a group: the sum is one of a group. */
  BY_HOP_GROUPS = 2,  /* Sums of whole groups. */
};

/* The value of by_hop.workers for a switch that adds until 1 to 64 workers, or groups, have arrived. */
static inline uint8_t by_hop_add(enum by_hop_kind kind, uint32_t count) {
  return (uint8_t)((uint32_t)kind * 64 + count);
}

enum { BY_HOP_MAX = 3 * 64 };

static inline uint32_t by_hop_count(uint32_t workers) {
  return ((workers - 1) & 63) + 1;
}

static inline enum by_hop_kind by_hop_kind_of(uint32_t workers) {
  return (enum by_hop_kind)((workers - 1) >> 6);
}

struct by_fragment {
  uint8_t magic;
  uint8_t version;
  uint8_t type;
  uint8_t flags;
  uint8_t hops : 4; /* Entries of the stack; the low half of the byte. */
  uint8_t hop : 4;  /* The number of switches passed that know the job. */
  uint8_t rank;     /* The worker that sent it, or whose fragment made the switch send the sum: one of `workers`. */
  uint8_t
      group; /* The workers' group, see struct by_worker_groups; BY_FRAGMENT_UNITED: `rank` and `workers` are groups. */
  uint8_t exponent; /* Of pairs: the scale of all terms of this fragment. */
  uint16_t job;     /* A tree of a communicator of a job, to which switches grant cells. */
  uint16_t key;     /* The key epoch, which changes with every new grant. */
  uint16_t slot;
  uint8_t dtype;
  uint8_t lines;    /* Lines of the payload. */
  uint64_t workers; /* A bit for each worker whose term it holds; in a reply, whose term the server holds. */
  uint64_t check;   /* Of the terms, keyed: adds up modulo 2^64 as they do. Without terms, a MAC of the header. */
  uint32_t epoch;   /* Of the slot; serial numbers. Fragment number = epoch * slots of the job + slot. */
  uint32_t call;    /* A hash of what all workers must agree on: terms of calls that differ are never merged. */
  uint64_t mac; /* A MAC of the header as it is now, or without a key a seal of 32 bits; made anew with every change. */
  struct by_hop stack[BY_FRAGMENT_HOPS];
};

_Static_assert(sizeof(struct by_fragment) == BY_FRAGMENT_LINE, "the header is one line without holes");

/* Each switch of the stack writes one into a probe. The sender sends zeros. */
struct by_probe {
  uint8_t seen;  /* A switch has written here. */
  uint8_t state; /* The cell's state, enum by_cell_state; undefined without `granted`. */
  uint8_t granted;
  uint8_t group; /* The cell's group. */
  uint32_t epoch;
  uint64_t workers;
};

/* The payload of a probe and of its reply. */
struct by_probe_payload {
  union {
    uint64_t newest; /* Of a probe: 1 and the number of the last fragment whose result its sender has got; 0: none. */
    uint64_t groups; /* Of a reply: the groups of which the server has terms, if the tree has several; otherwise 0. */
  };
  uint64_t asked;                            /* Of a probe: any number of its sender's; a reply repeats it. */
  struct by_probe records[BY_FRAGMENT_HOPS]; /* As many as the packet's lines hold. */
  uint64_t reserved[6];
};

/* In `newest`: nothing has arrived for so long that everything sent after that result must be lost. */
#define BY_PROBE_QUIET (1ull << 63)
/* In `newest`: multicast results do not arrive, only the sender's own. */
#define BY_PROBE_UNREACHED (1ull << 62)

enum { BY_PROBE_LINES = 3 }; /* The maximum of lines. */
_Static_assert(sizeof(struct by_probe_payload) == BY_PROBE_LINES * BY_FRAGMENT_LINE, "lines without holes");

/* The lines of a probe that passes so many switches. */
static inline uint8_t by_probe_lines(uint32_t hops) {
  size_t bytes = offsetof(struct by_probe_payload, records) + hops * sizeof(struct by_probe);
  return (uint8_t)((bytes + BY_FRAGMENT_LINE - 1) / BY_FRAGMENT_LINE);
}

/* The records in so many lines. */
static inline uint32_t by_probe_records(uint32_t lines) {
  size_t n = (lines * BY_FRAGMENT_LINE - offsetof(struct by_probe_payload, records)) / sizeof(struct by_probe);
  return n < BY_FRAGMENT_HOPS ? (uint32_t)n : BY_FRAGMENT_HOPS;
}

/* Why a packet is no fragment. */
enum by_fragment_fault {
  BY_FRAGMENT_SOUND = 0,
  BY_FRAGMENT_SHORT,   /* Shorter than its header or than the length in it. */
  BY_FRAGMENT_LONG,    /* Longer than the length in it. */
  BY_FRAGMENT_FOREIGN, /* Another protocol or version. */
  BY_FRAGMENT_BROKEN,  /* The seal is wrong: it was changed on its path. */
  BY_FRAGMENT_ABSURD,  /* Sealed, but no sender that follows docs/wire.md makes such fields. */
  BY_FRAGMENT_FORGED,  /* Its MAC is not made with the key of its grant. */
};

static inline uint32_t by_fragment_bytes(const struct by_fragment *fragment) {
  return (1u + fragment->lines) * BY_FRAGMENT_LINE;
}

static inline struct by_worker_set by_set_of_packet(const struct by_fragment *packet) {
  return (struct by_worker_set){.workers = packet->workers, .group = packet->group};
}

static inline uint64_t by_fragment_number(const struct by_fragment *fragment, uint32_t slots) {
  return (uint64_t)fragment->epoch * slots + fragment->slot;
}

/* The difference a - b of epochs, which wrap. */
static inline int32_t by_epoch_distance(uint32_t a, uint32_t b) {
  return (int32_t)(a - b);
}

/* The seal: each 32-bit word except the MAC's times a constant of its own. This is multilinear hashing, whose high
 * half is as good as random for any change. It detects faults of memory and wires, not forgers. */
static inline uint64_t by_fragment_seal_of(const struct by_fragment *fragment) {
  const uint32_t *w = (const uint32_t *)(const void *)fragment;
  uint64_t a = w[0] * 0x9ae16a3b2f90404full + w[1] * 0xc949c7defee3a6a1ull + w[2] * 0xd6e8feb86659fd93ull +
               w[3] * 0xe7037ed1a0b428dbull + w[4] * 0x8ebc6af09c88c6e3ull;
  uint64_t b = w[5] * 0x589965cc75374cc3ull + w[6] * 0x1d8e4e27c47d124full + w[7] * 0xa0761d6478bd642full +
               w[8] * 0xeb44accab455d165ull + w[9] * 0x2d358dccaa6c78a5ull;
  uint64_t c = w[12] * 0x4b33a62ed433d4a3ull + w[13] * 0x4d5a2da51de1aa47ull + w[14] * 0xa3b195354a39b70dull +
               w[15] * 0x1b03738712fad5c9ull;
  return (a + b + c + 0xbf58476d1ce4e5b9ull) >> 32;
}

static inline void by_fragment_seal(struct by_fragment *fragment) {
  fragment->mac = by_fragment_seal_of(fragment);
}

static inline bool by_fragment_is_probe(const struct by_fragment *fragment) {
  return fragment->type == BY_FRAGMENT_PROBE || fragment->type == BY_FRAGMENT_PROBE_REPLY;
}

/* Whether fragments of its type carry terms. */
static inline bool by_fragment_has_terms(const struct by_fragment *fragment) {
  return fragment->type >= BY_FRAGMENT_UP && fragment->type <= BY_FRAGMENT_RESULT_MC;
}

static inline bool by_fragment_lines_fit(const struct by_fragment *fragment) {
  if (by_fragment_is_probe(fragment)) return fragment->lines >= 1 && fragment->lines <= BY_PROBE_LINES;
  if (!by_fragment_has_terms(fragment)) return fragment->lines == 0;
  return fragment->lines <= BY_FRAGMENT_LINES && fragment->dtype >= BY_FRAGMENT_PAIRS &&
         fragment->dtype < BY_FRAGMENT_DTYPES;
}

/* The number of last words of a term that agree on exponents: of trees with one group one byte for each worker, all 0
 * but the sender's own; of larger ones a line of 32 counters. Switches add them like all other words, and no sum of
 * different workers' terms carries. */
static inline uint32_t by_fragment_exponent_words(uint32_t workers) {
  return workers > BY_FRAGMENT_WORKERS ? BY_FRAGMENT_LINE / 8 : (workers + 7) / 8;
}

/* Whether the fields are possible. A fragment's set includes its own worker; a reply contains what the server holds,
 * which may be nothing. Entries of the stack are checked where they are used. */
static inline bool by_fragment_is_sensible(const struct by_fragment *fragment) {
  return fragment->type >= BY_FRAGMENT_UP && fragment->type <= BY_FRAGMENT_NACK &&
         !(fragment->flags & ~BY_FRAGMENT_FLAGS) && fragment->hops <= BY_FRAGMENT_HOPS &&
         fragment->rank < BY_FRAGMENT_WORKERS &&
         (fragment->group < BY_FRAGMENT_GROUPS || fragment->group == BY_FRAGMENT_UNITED) &&
         (fragment->workers >> fragment->rank & 1 || fragment->type == BY_FRAGMENT_PROBE_REPLY) &&
         fragment->hop <= BY_FRAGMENT_HOPS && (fragment->type != BY_FRAGMENT_RESULT_MC || fragment->hops == 0) &&
         by_fragment_lines_fit(fragment);
}

static inline bool by_fragment_is_foreign(const struct by_fragment *fragment) {
  return fragment->magic != BY_FRAGMENT_MAGIC || fragment->version != BY_FRAGMENT_VERSION;
}

/* Whether a UDP payload of `bytes` is a fragment, without checking its seal. Its first 64 bytes, if it has so many,
 * must be readable; the rest is not read. */
static inline enum by_fragment_fault by_fragment_check_fields(const struct by_fragment *fragment, uint32_t bytes) {
  if (bytes < sizeof *fragment) return BY_FRAGMENT_SHORT;
  if (by_fragment_is_foreign(fragment)) return BY_FRAGMENT_FOREIGN;
  if (!by_fragment_is_sensible(fragment)) return BY_FRAGMENT_ABSURD;
  if (bytes < by_fragment_bytes(fragment)) return BY_FRAGMENT_SHORT;
  if (bytes > by_fragment_bytes(fragment)) return BY_FRAGMENT_LONG;
  return BY_FRAGMENT_SOUND;
}

/* Whether a UDP payload is a fragment with the right seal. */
static inline enum by_fragment_fault by_fragment_check(const struct by_fragment *fragment, uint32_t bytes) {
  if (bytes < sizeof *fragment) return BY_FRAGMENT_SHORT;
  if (by_fragment_is_foreign(fragment)) return BY_FRAGMENT_FOREIGN;
  if (fragment->mac != by_fragment_seal_of(fragment)) return BY_FRAGMENT_BROKEN;
  return by_fragment_check_fields(fragment, bytes);
}

/* Makes an empty header of this type for one worker; the caller fills in the rest and seals it last. */
static inline void by_fragment_begin(struct by_fragment *fragment, enum by_fragment_type type, uint8_t rank) {
  *fragment =
      (struct by_fragment){.magic = BY_FRAGMENT_MAGIC,
                           .version = BY_FRAGMENT_VERSION,
                           .type = (uint8_t)type,
                           .rank = rank,
                           .workers = 1ull << (rank & (BY_FRAGMENT_WORKERS - 1)),
                           .lines = type == BY_FRAGMENT_PROBE || type == BY_FRAGMENT_PROBE_REPLY ? BY_PROBE_LINES : 0};
}

/* Adds the next switch, from the server on; false: the stack is full or a number is out of range. */
static inline bool by_fragment_push(struct by_fragment *fragment, uint32_t port, uint32_t workers) {
  if (fragment->hops >= BY_FRAGMENT_HOPS || port >= BY_FRAGMENT_PORTS || workers > BY_HOP_MAX) return false;
  fragment->stack[fragment->hops++] = (struct by_hop){.port = (uint8_t)port, .workers = (uint8_t)workers};
  return true;
}

/* Sequence numbers of PROBE, PROBE_REPLY and NACK: their receivers, and the switches on their path, take each number
 * of a sender once. They keep the highest number and which of the 63 before it have arrived; an older number, or one
 * that arrives again, is a repetition. Numbers begin with 1 and wrap. Only authenticated packets may be checked.
 * Compiled for the ends, for the switch in user space and for XDP, as fragment.h. */

enum { BY_REPLAY_WINDOW = 64, BY_REPLAY_SENDERS = 2 * BY_FRAGMENT_GROUPS * BY_FRAGMENT_WORKERS /* Of a grant. */ };

/* All zeros: nothing has arrived yet, and any number is taken. */
struct by_replay_window {
  uint64_t seen; /* Bit i stands for highest - i. */
  uint32_t highest;
};

/* Returns false if the number has arrived before, or may have. */
static inline bool by_replay_take(struct by_replay_window *window, uint32_t number) {
  uint32_t after = number - window->highest, before = window->highest - number;
  if (!window->seen || after - 1 < INT32_MAX) {
    window->seen = window->seen && after < BY_REPLAY_WINDOW ? window->seen << after | 1 : 1;
    window->highest = number;
    return true;
  }
  if (before >= BY_REPLAY_WINDOW || window->seen >> before & 1) return false;
  window->seen |= 1ull << before;
  return true;
}

static inline bool by_fragment_is_numbered(const struct by_fragment *fragment) {
  return fragment->type >= BY_FRAGMENT_PROBE && fragment->type <= BY_FRAGMENT_NACK;
}

/* The sequence number of a numbered fragment. */
static inline uint32_t by_fragment_sequence(const struct by_fragment *fragment) {
  return (uint32_t)fragment->check;
}

/* The index of a fragment's window among those of its grant: one for packets from each worker, and one for packets to
 * it. Answers have their receiver in `dtype` and `exponent`, since `group` and `workers` may name others. A worker
 * that is alone in a group is named by the group. */
static inline uint32_t by_replay_sender(const struct by_fragment *fragment) {
  bool down = fragment->type != BY_FRAGMENT_PROBE;
  uint32_t group = down ? fragment->dtype : fragment->group, worker = down ? fragment->exponent : fragment->rank;
  if (group == BY_FRAGMENT_UNITED) group = worker, worker = 0;
  return (group & (BY_FRAGMENT_GROUPS - 1)) * (2 * BY_FRAGMENT_WORKERS) + (worker & (BY_FRAGMENT_WORKERS - 1)) * 2 +
         down;
}

#endif
