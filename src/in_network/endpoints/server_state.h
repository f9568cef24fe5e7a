/* What the files of the server share: a server's state, the sets of workers in it, and what it sends. Part of server.c.
 */
#ifndef BY_IN_NETWORK_ENDPOINTS_SERVER_STATE_H
#define BY_IN_NETWORK_ENDPOINTS_SERVER_STATE_H

#include "hop_key.h"
#include "replay.h"
#include "server.h"
#include "server_parts.h"
#include "sum_key.h"

/* The sum of one epoch of a slot. */
struct sum {
  /* One word for each group, with a bit for each worker: */
  uint64_t *workers; /* whose terms are in */
  uint64_t *asked;   /* workers that have asked for the result */
  uint64_t *replied; /* workers whose terms are in sums that one of them knows to be lost */
  uint64_t *callers; /* workers that have made its call, as is known by the job's secret */
  uint64_t *others;  /* workers that have made another one, `call` */
  uint32_t call;
  uint32_t parts; /* the list of them, until it is complete */
  uint8_t flags;  /* the sticky ones */
  uint64_t order; /* among all that was sent to all, once it is complete */
  bool begun;     /* its call is in its packet, and as soon as a term is in, what else all must have in common */
  bool unmerged;  /* some terms have come past switches, whose cells may then never fill */
  uint8_t again;  /* times that it was multicast once more */
  bool trial;
  bool troubled; /* a term that switches can add was sent past them, and not because the server requested it */
  bool past;     /* they were */
  bool resends_past;
};

/* Two sums: of `epoch`, and of the one before. */
struct by_server_slot {
  uint32_t epoch;
  bool done;              /* the one of `epoch` */
  uint8_t nacks;          /* how often terms of `invalid_epoch` were asked for unmerged; 0: never */
  uint32_t invalid_epoch; /* the epoch of which a sum of several terms came with a wrong check */
  struct sum sum[2];
};

/* A worker whose probes tell that multicasts do not arrive gets its own results, DEAF times JUDGED. One of JUDGED is a
 * trial, which is multicast only: so it shows whether multicasts arrive again. */
enum { JUDGED = 32, DEAF = 8 };

struct by_server_worker {
  struct by_server_way way;
  uint32_t sequence;              /* of the last answer to it */
  struct by_replay_window probes; /* of it */
  unsigned asked; /* for how many results after a second multicast, since the last judgement and the last one in time */
  unsigned deaf;  /* for so many judgements more; 0: it is not */
  unsigned missed; /* trials, since it is deaf */
  bool straight;   /* its terms come without a stack, so that is how results reach it */
};

struct by_server {
  struct by_server_config config;
  struct by_sum_key key, open; /* of results and terms; of terms in exact mode */
  struct by_hop_key hop_key;
  const struct by_hop_key *hop; /* &hop_key; NULL: fragments have seals */
  struct by_server_counters counters;
  struct by_worker_set all;
  struct by_server_worker *workers;
  struct by_worker_set *sets; /* the configuration's */
  uint64_t *bits;             /* of all sums */
  unsigned trouble;           /* with switches */
  unsigned past;              /* results more that request workers to send past them */
  unsigned past_next;         /* so many the next time */
  uint64_t past_ended;        /* with that result */
  uint64_t order;             /* of what was sent to all last */
  struct by_server_slot *slots;
  unsigned char *single;  /* room for a packet */
  unsigned char *packets; /* of results: one a slot for even epochs, then as many for odd ones */
  size_t stride;
  struct by_parts parts;
};

static inline struct sum *sum_of(struct by_server_slot *slot, uint32_t epoch) {
  return &slot->sum[epoch & 1];
}

/* --- sets of workers, one word for each group --- */

enum { SETS = 5 }; /* of a sum */

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

static inline void unite(const struct by_server *s, uint64_t *set, struct by_worker_set with) {
  for (uint32_t g = 0; g < s->config.groups.n; g++) set[g] |= by_set_part(&s->config.groups, with, g);
}

static inline bool has(const struct by_server *s, const uint64_t *set, uint32_t worker) {
  uint32_t g = by_group_of(&s->config.groups, worker);
  return set[g] >> (worker - s->config.groups.first[g]) & 1;
}

/* Groups of which the set has any worker, in trees of several. */
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

/* To one worker. A copy: the result itself may still be on its way to all. */
void by_server_send_result(struct by_server *s, const struct by_fragment *result, unsigned to);
/* To all that multicasts reach. */
void by_server_send_multicast(struct by_server *s, struct by_fragment *result);
/* To each worker that multicasts do not reach, and to all others at once. A trial goes to the deaf as well, but not to
 * them alone. */
void by_server_send_to_all(struct by_server *s, struct by_fragment *result, bool trial);
/* Of the network: whether multicasts may reach the worker; and whether they are known not to. */
bool by_server_may_receive(const struct by_server *s, unsigned worker);
bool by_server_receives_multicasts(const struct by_server *s, unsigned worker);
/* An empty packet about the fragment in `packet`, to worker `to`. */
struct by_fragment by_server_answer(const struct by_server *s, const struct by_fragment *packet,
                                    enum by_fragment_type type, unsigned to);
/* Notifies workers that `others` have made call `call`, of which those of one group are named; without others, requests
 * their terms, past switches. */
void by_server_send_nacks(struct by_server *s, const struct by_fragment *about, const uint64_t *to, uint32_t call,
                          const uint64_t *others);

/* --- probes, and what is asked for again --- */

/* Answers a probe. `workers`: whose terms the server has, NULL: nobody's. The worker is notified of those of its group;
 * if they are all, of that. */
void by_server_reply(struct by_server *s, const struct by_fragment *packet, const uint64_t *workers, uint8_t flags);
/* Whether an answer about this sum, which is not complete, is superfluous: the worker's term is here, or another worker
 * has been answered on behalf of both. */
bool by_server_knows(const struct by_server *s, struct sum *sum, const struct by_fragment *probe);
/* A finished sum was asked for again, or a packet is late. */
void by_server_repeat(struct by_server *s, const struct by_fragment *packet, struct by_fragment *result);
/* Its probes say that multicasts do not arrive. */
void by_server_note_deaf(struct by_server *s, unsigned rank);

#endif
