/* Fragments: what crosses the network where switches add on the way. A UDP
 * payload is one header of 64 bytes, a cache line, and up to 53 lines of 64
 * bytes that may be added. Little endian, used as it lies in memory. This file
 * is compiled three times: for the ends, for the user-space switch and, with
 * clang -target bpf, for XDP; so it has no libc, no calls, no unbounded loop.
 * docs/wire.md is the same for people: keep the two together. */
#ifndef BY_NET_WIRE_FRAGMENT_H
#define BY_NET_WIRE_FRAGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker_groups.h"

enum {
  BY_FRAGMENT_MAGIC = 0x59,
  BY_FRAGMENT_VERSION = 4,
  BY_FRAGMENT_PORT = 7612, /* where servers listen by default */
  BY_FRAGMENT_LINE = 64,
  BY_FRAGMENT_LINES =
      53, /* most of a fragment: an Ethernet MTU of 3506, veth's with native XDP, has room for no more */
  BY_FRAGMENT_HOPS = 8,
  BY_FRAGMENT_PORTS = 64, /* of a switch */
};

enum by_fragment_type {
  BY_FRAGMENT_UP = 1,          /* a term, or a sum of some workers' terms, on its way to the server */
  BY_FRAGMENT_RESULT = 2,      /* the sum, for one worker, along the stack */
  BY_FRAGMENT_RESULT_MC = 3,   /* the sum for all workers: each switch sends it to the members of the job's group */
  BY_FRAGMENT_PROBE = 4,       /* along the stack to the server; each switch writes down what its cell holds */
  BY_FRAGMENT_PROBE_REPLY = 5, /* the server sends a probe back */
  BY_FRAGMENT_NACK = 6,        /* ESCALATE: send this term again, unmerged. Else `workers` have made the call `call` */
};

enum by_fragment_flags {
  BY_FRAGMENT_AGGREGATED = 1, /* a switch has added something to it */
  BY_FRAGMENT_RETX = 2,       /* sent before: what answers it goes to its sender alone */
  BY_FRAGMENT_ESCALATE = 4,   /* for the server as it is: no switch may merge it */
  BY_FRAGMENT_STALE = 8,      /* a switch knows that this epoch's sum is finished: the server answers from its store */
  BY_FRAGMENT_BUSY = 16,      /* a switch could not merge it: no cell, or a cell that holds something else */
  BY_FRAGMENT_CE = 32,        /* a queue on the way is filling */
  BY_FRAGMENT_FLAGS = 63,
  /* No switch after the one that set it may merge either: the sum is being made elsewhere. */
  BY_FRAGMENT_UNMERGED = BY_FRAGMENT_ESCALATE | BY_FRAGMENT_STALE | BY_FRAGMENT_BUSY,
  /* What holds for a term holds for the sum that it is in. */
  BY_FRAGMENT_STICKY = BY_FRAGMENT_CE,
};

/* What the lines hold. Pairs: two int32 as hi * 2^32 + lo, one signed 64-bit number, so that one addition adds both;
 * lo = (int32) pair, hi = (pair - lo) >> 32; what they count is for the ends to know, see src/kernel/fixed.h. The last
 * three are terms that have no fixed point, as they are: only servers add those. */
enum by_fragment_dtype {
  BY_FRAGMENT_PAIRS = 1,
  BY_FRAGMENT_FLOAT32 = 2,
  BY_FRAGMENT_INT32 = 3,
  BY_FRAGMENT_FLOAT16 = 4,
  BY_FRAGMENT_BFLOAT16 = 5,
  BY_FRAGMENT_DTYPES = 6
};

/* One switch on the way. A stack begins with the switch next to the server, on the way up as on the way down: each
 * switch knows its place, so one that is missing disturbs no other. */
struct by_hop {
  uint8_t port;    /* to leave by */
  uint8_t workers; /* up: 0: forward; else add, see by_hop_add. Down: whether the switch has added */
};

/* What a switch adds, and how the sum goes on. */
enum by_hop_kind {
  BY_HOP_WORKERS = 0, /* terms of one group's workers */
  BY_HOP_WHOLE = 1,   /* the same, and these are the whole group: the sum is one of a group */
  BY_HOP_GROUPS = 2,  /* sums of whole groups */
};

/* What `workers` of an entry is for a switch that adds until 1 to 64 workers, or groups, are in. */
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
  uint8_t hops : 4; /* entries of the stack; the low half of the byte */
  uint8_t hop : 4;  /* switches passed that know the job */
  uint8_t rank;     /* the worker that sent it, or whose fragment made the switch send the sum: one of `workers` */
  uint8_t group;    /* of the workers, see worker_groups.h; BY_FRAGMENT_UNITED: `rank` and `workers` are groups */
  uint8_t exponent; /* of pairs: what all terms of this fragment have been scaled by */
  uint16_t job;     /* a tree of a communicator of a job: what switches grant cells to */
  uint16_t key;     /* key epoch: changes with every new grant */
  uint16_t slot;
  uint8_t dtype;
  uint8_t lines;    /* of the payload */
  uint64_t workers; /* whose terms it holds: a bit for each; in a reply, those of the group that the server has */
  uint64_t check;   /* of the terms, keyed: adds up modulo 2^64 as they do. Without terms, a MAC of the header */
  uint32_t epoch;   /* of the slot; serial numbers. Fragment number = epoch * slots of the job + slot */
  uint32_t call;    /* what all workers must agree on, hashed: terms of calls that differ are never merged */
  uint64_t mac;     /* a seal of the header as it is now, without a key, in 32 bits; made anew with every change */
  struct by_hop stack[BY_FRAGMENT_HOPS];
};

_Static_assert(sizeof(struct by_fragment) == BY_FRAGMENT_LINE, "the header is one line without holes");

/* What each switch of the stack writes into a probe; zeros from the sender. */
struct by_probe {
  uint8_t seen;  /* a switch has written here */
  uint8_t state; /* of the cell, enum by_cell_state; meaningless without `granted` */
  uint8_t granted;
  uint8_t group; /* of the cell */
  uint32_t epoch;
  uint64_t workers;
};

/* The payload of a probe and of its reply. */
struct by_probe_payload {
  union {
    uint64_t newest; /* of a probe: 1 and the number of the fragment whose result its sender has got last; 0: of none */
    uint64_t groups; /* of a reply: those of which the server has terms, where the tree has several; else 0 */
  };
  uint64_t asked;                            /* of a probe: for its sender alone; a reply repeats it */
  struct by_probe records[BY_FRAGMENT_HOPS]; /* as many as the packet's lines have room for */
  uint64_t reserved[6];
};

/* In `newest`: nothing has come since for so long that what was sent after that result must be lost. */
#define BY_PROBE_QUIET (1ull << 63)
/* In `newest`: results for all do not come, only the sender's own. */
#define BY_PROBE_UNREACHED (1ull << 62)

enum { BY_PROBE_LINES = 3 }; /* at most */
_Static_assert(sizeof(struct by_probe_payload) == BY_PROBE_LINES * BY_FRAGMENT_LINE, "lines without holes");

/* Of a probe that passes so many switches. */
static inline uint8_t by_probe_lines(uint32_t hops) {
  size_t bytes = offsetof(struct by_probe_payload, records) + hops * sizeof(struct by_probe);
  return (uint8_t)((bytes + BY_FRAGMENT_LINE - 1) / BY_FRAGMENT_LINE);
}

/* Records in so many lines. */
static inline uint32_t by_probe_records(uint32_t lines) {
  size_t n = (lines * BY_FRAGMENT_LINE - offsetof(struct by_probe_payload, records)) / sizeof(struct by_probe);
  return n < BY_FRAGMENT_HOPS ? (uint32_t)n : BY_FRAGMENT_HOPS;
}

/* Why a packet is no fragment. */
enum by_fragment_fault {
  BY_FRAGMENT_SOUND = 0,
  BY_FRAGMENT_SHORT,   /* shorter than its header or than the length in it */
  BY_FRAGMENT_LONG,    /* longer than the length in it */
  BY_FRAGMENT_FOREIGN, /* another protocol or version */
  BY_FRAGMENT_BROKEN,  /* the seal is wrong: changed on the way */
  BY_FRAGMENT_ABSURD,  /* sealed, but no sender that follows docs/wire.md makes such fields */
  BY_FRAGMENT_FORGED,  /* its MAC is not made with the key of its grant */
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

/* a - b of epochs, which wrap. */
static inline int32_t by_epoch_distance(uint32_t a, uint32_t b) {
  return (int32_t)(a - b);
}

/* Each 32-bit word but the MAC's times a constant of its own: multilinear hashing, whose high half is as good as random
 * for any change. Against faults of memory and wires, not against forgers. */
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

/* Of a kind that carries terms. */
static inline bool by_fragment_has_terms(const struct by_fragment *fragment) {
  return fragment->type >= BY_FRAGMENT_UP && fragment->type <= BY_FRAGMENT_RESULT_MC;
}

static inline bool by_fragment_lines_fit(const struct by_fragment *fragment) {
  if (by_fragment_is_probe(fragment)) return fragment->lines >= 1 && fragment->lines <= BY_PROBE_LINES;
  if (!by_fragment_has_terms(fragment)) return fragment->lines == 0;
  return fragment->lines <= BY_FRAGMENT_LINES && fragment->dtype >= BY_FRAGMENT_PAIRS &&
         fragment->dtype < BY_FRAGMENT_DTYPES;
}

/* The last words of a term that takes part in agreeing on exponents: of trees with one group one byte for each worker,
 * all 0 but the sender's own; of larger ones a line of 32 counters. So switches add them as they add everything, and no
 * sum of different workers' terms carries. */
static inline uint32_t by_fragment_exponent_words(uint32_t workers) {
  return workers > BY_FRAGMENT_WORKERS ? BY_FRAGMENT_LINE / 8 : (workers + 7) / 8;
}

/* What a fragment is about includes its own worker; a reply contains what the server holds, which may be nothing.
 * Entries of the stack are checked where they are used. */
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

/* Whether a UDP payload of `bytes` is a fragment but for its seal. Where it has 64 bytes or more, those must be
 * readable; the rest is not looked at. */
static inline enum by_fragment_fault by_fragment_check_fields(const struct by_fragment *fragment, uint32_t bytes) {
  if (bytes < sizeof *fragment) return BY_FRAGMENT_SHORT;
  if (by_fragment_is_foreign(fragment)) return BY_FRAGMENT_FOREIGN;
  if (!by_fragment_is_sensible(fragment)) return BY_FRAGMENT_ABSURD;
  if (bytes < by_fragment_bytes(fragment)) return BY_FRAGMENT_SHORT;
  if (bytes > by_fragment_bytes(fragment)) return BY_FRAGMENT_LONG;
  return BY_FRAGMENT_SOUND;
}

/* The same, and the seal is right. */
static inline enum by_fragment_fault by_fragment_check(const struct by_fragment *fragment, uint32_t bytes) {
  if (bytes < sizeof *fragment) return BY_FRAGMENT_SHORT;
  if (by_fragment_is_foreign(fragment)) return BY_FRAGMENT_FOREIGN;
  if (fragment->mac != by_fragment_seal_of(fragment)) return BY_FRAGMENT_BROKEN;
  return by_fragment_check_fields(fragment, bytes);
}

/* An empty header of this type for one worker; the caller fills in the rest and seals it last. */
static inline void by_fragment_begin(struct by_fragment *fragment, enum by_fragment_type type, uint8_t rank) {
  *fragment =
      (struct by_fragment){.magic = BY_FRAGMENT_MAGIC,
                           .version = BY_FRAGMENT_VERSION,
                           .type = (uint8_t)type,
                           .rank = rank,
                           .workers = 1ull << (rank & (BY_FRAGMENT_WORKERS - 1)),
                           .lines = type == BY_FRAGMENT_PROBE || type == BY_FRAGMENT_PROBE_REPLY ? BY_PROBE_LINES : 0};
}

/* Adds the next switch, from the server on; false: the stack is full or the numbers are none. */
static inline bool by_fragment_push(struct by_fragment *fragment, uint32_t port, uint32_t workers) {
  if (fragment->hops >= BY_FRAGMENT_HOPS || port >= BY_FRAGMENT_PORTS || workers > BY_HOP_MAX) return false;
  fragment->stack[fragment->hops++] = (struct by_hop){.port = (uint8_t)port, .workers = (uint8_t)workers};
  return true;
}

#endif
