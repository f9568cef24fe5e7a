/* State of a server, shared by server.c and server_send.c: sums, sets of workers, and functions that send. */
#ifndef BY_IN_NETWORK_ENDPOINTS_SERVER_STATE_H
#define BY_IN_NETWORK_ENDPOINTS_SERVER_STATE_H

#include "fragment.h"
#include "server.h"
#include "server_parts.h"
#include "sum_key.h"

/* The sum of one epoch of a slot. */
struct sum {
  /* The sets have one 64-bit word for each group, with a bit for each worker. */
  uint64_t *workers; /* Workers whose terms are in the sum. */
  uint64_t *asked;   /* Workers that have asked for the result. */
  uint64_t *replied; /* Workers whose terms are in sums that one of them knows to be lost. */
  uint64_t *callers; /* Workers that have made its call, as authenticated packets show. */
  uint64_t *others;  /* Workers that have made another call, `call`. */
  uint32_t call;
  uint32_t parts; /* List of its parts, until it is complete. */
  uint8_t flags;  /* Sticky flags. */
  uint64_t order; /* Number among all multicasts, once it is complete. */
  bool begun;     /* Its packet has its call and, after the first term, the properties that all terms share. */
  bool unmerged;  /* Some terms bypassed switches, so their cells may never fill. */
  uint8_t again;  /* Number of repeated multicasts. */
  bool trial;
  bool troubled; /* A worker sent a term past switches that could have added it, without the server's request. */
  bool past;     /* The server requested that its terms bypass switches. */
  bool resends_past;
};

/* The sums of `epoch` and of the previous one. */
struct by_server_slot {
  uint32_t epoch;
  bool done;              /* The sum of `epoch` is complete. */
  uint8_t nacks;          /* How often terms of `invalid_epoch` were requested unmerged; 0: never. */
  uint32_t invalid_epoch; /* Epoch of a sum of several terms with a wrong check. */
  struct sum sum[2];
};

/* A worker whose probes show that it does not receive multicasts gets its own results, for UNICAST_TRIALS times JUDGED
 * results. One of JUDGED results is a trial, which is multicast only and shows whether multicasts reach it again. */
enum { JUDGED = 32, UNICAST_TRIALS = 8 };

struct by_server_worker {
  struct by_server_path path;
  uint32_t sequence;              /* Sequence number of the last answer to it. */
  struct by_replay_window probes; /* Window of sequence numbers of its probes. */
  unsigned asked; /* Repeated multicasts that it needed since the last trial, and since the last one in time. */
  unsigned unicast_trials; /* Remaining trials without multicasts; 0: it receives multicasts. */
  unsigned missed;         /* Missed trials in this state. */
  bool straight;           /* Its terms come without a stack, so results are sent to it without one. */
};

struct by_server {
  struct by_server_config config;
  struct by_sum_key key, open; /* Keys of results and terms, and of terms in exact mode. */
  struct by_hop_key hop_key;
  const struct by_hop_key *hop; /* &hop_key; NULL: fragments have seals. */
  struct by_server_counters counters;
  struct by_worker_set all;
  struct by_server_worker *workers;
  struct by_worker_set *sets; /* A copy of the configuration's. */
  uint64_t *bits;             /* Memory of the sets of all sums. */
  unsigned trouble;           /* Counts terms that bypassed switches. */
  unsigned past;              /* Remaining results that request terms past switches. */
  unsigned past_next;         /* Number of such results the next time. */
  uint64_t past_ended;        /* Number of the last such result. */
  uint64_t order;             /* Number of the last multicast. */
  struct by_server_slot *slots;
  unsigned char *single;  /* Memory for one packet. */
  unsigned char *packets; /* Packets of results: one for each slot for even epochs, then for odd ones. */
  size_t stride;
  struct by_parts parts;
};

static inline struct sum *sum_of(struct by_server_slot *slot, uint32_t epoch) {
  return &slot->sum[epoch & 1];
}

/* --- sets of workers, one word for each group --- */

enum { SETS = 5 }; /* Sets of each sum. */

static inline bool is_empty(const struct by_server *s, const uint64_t *set) {
  for (uint32_t g = 0; g < s->config.groups.n; g++)
    if (set[g]) return false;
  return true;
}

static inline bool has_all(const struct by_server *s, const uint64_t *set) {
  for (uint32_t g = 0; g < s->config.groups.n; g++)
    if (set[g] != by_set_part(&s->config.groups, s->all, g)) return false;
  return true;
}

static inline void add_set(const struct by_server *s, uint64_t *set, struct by_worker_set with) {
  for (uint32_t g = 0; g < s->config.groups.n; g++) set[g] |= by_set_part(&s->config.groups, with, g);
}

static inline bool has_worker(const struct by_server *s, const uint64_t *set, uint32_t worker) {
  uint32_t g = by_group_of(&s->config.groups, worker);
  return set[g] >> (worker - s->config.groups.first[g]) & 1;
}

/* Returns the groups of which the set has any worker, in trees of several groups. */
static inline uint64_t groups_of(const struct by_server *s, const uint64_t *set) {
  uint64_t groups = 0;
  for (uint32_t g = 0; g < s->config.groups.n && s->config.groups.n > 1; g++) groups |= (uint64_t)(set[g] != 0) << g;
  return groups;
}

static inline uint32_t worker_of(const struct by_server *s, const struct by_fragment *packet) {
  return by_worker_number(&s->config.groups, by_set_of_packet(packet), packet->rank);
}

static inline struct by_fragment *packet_of(const struct by_server *s, uint32_t slot, uint32_t epoch) {
  return (struct by_fragment *)(void *)(s->packets + ((epoch & 1) * (size_t)s->config.slots + slot) * s->stride);
}

static inline bool is_of_all(const struct by_server *s, const struct by_fragment *packet) {
  return packet->workers == s->all.workers && packet->group == s->all.group;
}

/* --- what is sent --- */

/* Sends a result to each worker that does not receive multicasts, and to all others at once. A trial is sent to the
 * former by multicast only. */
void by_server_send_to_all(struct by_server *s, struct by_fragment *result, bool trial);
/* Returns an empty packet about the fragment in `packet`, for worker `to`. */
struct by_fragment by_server_answer(const struct by_server *s, const struct by_fragment *packet,
                                    enum by_fragment_type type, unsigned to);
/* Notifies workers that `others` have made call `call`, and names those of one group; without others, requests their
 * terms unmerged. */
void by_server_send_nacks(struct by_server *s, const struct by_fragment *about, const uint64_t *to, uint32_t call,
                          const uint64_t *others);

/* --- probes and repetitions --- */

/* Answers a probe. `workers`: workers whose terms the server has; NULL: none. The answer names those of the worker's
 * group; if all terms are there, it says that. */
void by_server_reply(struct by_server *s, const struct by_fragment *packet, const uint64_t *workers, uint8_t flags);
/* Tells whether an answer about this incomplete sum is superfluous: the worker's term is here, or another worker was
 * answered for both. */
bool by_server_knows(const struct by_server *s, struct sum *sum, const struct by_fragment *probe);
/* Handles a request for a complete sum, or a late packet. */
void by_server_repeat(struct by_server *s, const struct by_fragment *packet, struct by_fragment *result);
/* Records that its probes report missing multicasts. */
void by_server_note_no_multicasts(struct by_server *s, unsigned rank);

#endif
