/* Random fragments for one switch: of two known jobs and an unknown one, mostly as workers and servers send them, some
 * absurd, some damaged; and the jobs' grants, which are added, removed and changed. */
#ifndef BY_TESTS_RANDOM_FRAGMENTS_H
#define BY_TESTS_RANDOM_FRAGMENTS_H

#include "cell.h"
#include "fragment_terms.h"
#include "rng.h"

enum { JOBS = 2, SLOTS = 4, CELLS = 6, WORKERS = 5 };

struct source {
  struct by_rng rng;
  struct by_grant grants[JOBS];
  bool granted[JOBS];
  uint64_t epochs[JOBS][SLOTS]; /* Epochs that do not wrap. */
  uint32_t now;                 /* The time in ms. */
  uint64_t sequence, numbered;  /* The highest sequence number, and the last packet's; they do not wrap. */
};

static inline uint32_t pick(struct source *source, uint32_t n) {
  return (uint32_t)by_rng_below(&source->rng, n);
}

static inline bool rarely(struct source *source) {
  return pick(source, 24) == 0;
}

/* Renews a job's grant. Job 0's workers are at ports 0 and 1, job 1's at 2; both servers are at 3. */
static inline void renew_grant(struct source *source, uint32_t job) {
  struct by_grant *grant = &source->grants[job];
  source->granted[job] = pick(source, 6) > 0;
  *grant = (struct by_grant){.below = job ? 4 : 3,
                             .above = 8,
                             .base = job * 3,
                             .count = pick(source, 4),
                             .job = (uint16_t)job,
                             .key = (uint16_t)(grant->key + 1),
                             .dtype = BY_FRAGMENT_PAIRS,
                             .place = (uint8_t)pick(source, BY_FRAGMENT_HOPS)};
}

static inline uint64_t some_workers(struct source *source) {
  uint64_t workers = 1ull << pick(source, WORKERS);
  while (pick(source, 3) == 0) workers |= 1ull << pick(source, WORKERS);
  return rarely(source) ? workers | 1ull << pick(source, 64) : workers;
}

static inline uint8_t some_flags(struct source *source) {
  static const uint8_t unmerged[] = {BY_FRAGMENT_ESCALATE, BY_FRAGMENT_STALE, BY_FRAGMENT_BUSY};
  uint8_t flags = 0;
  if (pick(source, 8) == 0) flags |= BY_FRAGMENT_RETX;
  if (pick(source, 8) == 0) flags |= BY_FRAGMENT_CE;
  if (rarely(source)) flags |= unmerged[pick(source, 3)];
  return flags;
}

static inline uint8_t some_type(struct source *source) {
  static const uint8_t types[] = {BY_FRAGMENT_RESULT, BY_FRAGMENT_RESULT_MC, BY_FRAGMENT_PROBE, BY_FRAGMENT_PROBE_REPLY,
                                  BY_FRAGMENT_NACK};
  return pick(source, 4) ? BY_FRAGMENT_UP : types[pick(source, 5)];
}

/* What is added in a slot. */
static inline enum by_hop_kind kind_of(uint32_t slot) {
  return (enum by_hop_kind)(slot % 3);
}

static inline uint8_t some_group(struct source *source, uint32_t slot) {
  if (rarely(source)) return pick(source, 2) ? (uint8_t)pick(source, BY_FRAGMENT_GROUPS) : BY_FRAGMENT_UNITED;
  return kind_of(slot) == BY_HOP_GROUPS ? BY_FRAGMENT_UNITED : (uint8_t)(3 * slot);
}

/* Chooses the ports and the stack: the switch stands at a random place among others. */
static inline uint32_t some_way(struct source *source, struct by_fragment *head, uint32_t job) {
  uint32_t below = job ? 2 : pick(source, 2), above = 3, from = below, to = above;
  bool down = head->type == BY_FRAGMENT_RESULT || head->type == BY_FRAGMENT_RESULT_MC ||
              head->type == BY_FRAGMENT_PROBE_REPLY || (head->type == BY_FRAGMENT_NACK && pick(source, 2));
  if (down) from = above, to = below;
  if (rarely(source)) from = pick(source, 70);
  if (rarely(source)) to = pick(source, 256);
  if (head->type == BY_FRAGMENT_RESULT_MC) {
    head->hop = pick(source, BY_FRAGMENT_HOPS + 1) & 15;
    return from;
  }
  uint8_t workers = pick(source, 8) ? by_hop_add(kind_of(head->slot), WORKERS - job) : (uint8_t)pick(source, 200);
  uint32_t place = source->grants[job].place;
  for (int i = 0; i < BY_FRAGMENT_HOPS; i++)
    head->stack[i] = (struct by_hop){.port = (uint8_t)pick(source, 4), .workers = (uint8_t)pick(source, 6)};
  head->stack[place] = (struct by_hop){.port = (uint8_t)to, .workers = workers};
  head->hops = (place + 1 + pick(source, BY_FRAGMENT_HOPS - place)) & 15;
  if (rarely(source)) head->hops = pick(source, place + 1) & 15;
  head->hop = (rarely(source) ? BY_FRAGMENT_HOPS : pick(source, BY_FRAGMENT_HOPS)) & 15;
  return from;
}

/* Returns the port at which the packet arrives; *epoch is the packet's epoch, not wrapped. */
static inline uint32_t random_packet(struct source *source, struct packet *packet, uint64_t *epoch) {
  struct by_fragment *head = &packet->head;
  uint32_t job = pick(source, JOBS), slot = pick(source, SLOTS);
  uint64_t *now = &source->epochs[job][slot];
  memset(packet, 0, sizeof *packet);
  by_fragment_begin(head, some_type(source), 0);
  source->now += pick(source, 2);
  if (pick(source, 30) == 0) *now += pick(source, 3);
  if (pick(source, 1000) == 0) *now += pick(source, 100); /* Many epochs did not pass this switch. */
  *epoch = *now + pick(source, 2) - (pick(source, 12) == 0);
  if (pick(source, 100) == 0) *epoch += (uint64_t)pick(source, 1000) - 500;
  head->flags = some_flags(source);
  head->job = (uint16_t)(rarely(source) ? JOBS : job);
  head->key = (uint16_t)(source->grants[job].key - rarely(source));
  head->slot = (uint16_t)slot;
  head->group = some_group(source, slot);
  head->epoch = (uint32_t)*epoch;
  head->call = rarely(source);
  head->dtype = rarely(source) ? BY_FRAGMENT_FLOAT32 : BY_FRAGMENT_PAIRS;
  head->exponent = rarely(source);
  if (by_fragment_has_terms(head)) head->lines = (uint8_t)(1 + rarely(source));
  head->workers = some_workers(source);
  while (!(head->workers >> head->rank & 1)) head->rank++;
  uint32_t from = some_way(source, head, job);
  source->numbered = pick(source, 3) ? ++source->sequence : source->sequence - pick(source, 200);
  head->check = by_rng_next(&source->rng) << 32 | (uint32_t)source->numbered;
  if (by_fragment_has_terms(head)) fill_terms(packet, head->workers);
  by_fragment_seal(head);
  return from;
}

/* Damages the packet. Returns its new length. */
static inline uint32_t spoil(struct source *source, struct packet *packet, uint32_t bytes) {
  if (pick(source, 2)) {
    ((uint8_t *)packet)[pick(source, sizeof packet->head)] ^= (uint8_t)(1 << pick(source, 8));
    return bytes;
  }
  return pick(source, 2) ? pick(source, bytes) : bytes + 1 + pick(source, 100);
}

static inline const struct by_grant *grant_of(const struct source *source, uint32_t job) {
  return job < JOBS && source->granted[job] ? &source->grants[job] : NULL;
}

/* Initialises the source. Keys, epochs and sequence numbers wrap during a test. */
static inline void init_source(struct source *source, uint64_t seed) {
  by_rng_init(&source->rng, seed);
  source->sequence = (1ull << 32) - 3000;
  for (uint32_t job = 0; job < JOBS; job++) {
    source->grants[job].key = UINT16_MAX - 3;
    renew_grant(source, job);
    for (uint32_t slot = 0; slot < SLOTS; slot++) source->epochs[job][slot] = (1ull << 32) - 3000;
  }
}

#endif
