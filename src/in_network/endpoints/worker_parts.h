/* What a worker knows of its slots and calls, and how it recovers what is lost (worker_recover.c). Part of worker.c. */
#ifndef BY_IN_NETWORK_ENDPOINTS_WORKER_PARTS_H
#define BY_IN_NETWORK_ENDPOINTS_WORKER_PARTS_H

#include <sys/queue.h>

#include "hop_key.h"
#include "replay.h"
#include "sum_key.h"
#include "worker.h"

/* A slot that is lucky may be this many epochs ahead of the head. */
enum { AHEAD = 4 };

/* As many slots at least may be asked about in a round trip. */
enum { QUESTIONS = 8 };

enum slot_state { SLOT_DONE = 0, SLOT_READY, SLOT_SENT };

/* One fragment on its way. Its packet is kept, so that dst may be src. */
struct by_worker_slot {
  uint64_t number; /* of the fragment; for SLOT_DONE of the last one */
  uint64_t sent, probed;
  uint64_t touched;                 /* when something was last sent about it */
  uint64_t due;                     /* what was sent later and has been answered overtakes that */
  TAILQ_ENTRY(by_worker_slot) link; /* by `due` */
  uint8_t state;
  uint8_t resent; /* times */
  uint8_t asked;  /* times, for the result */
  bool finished;  /* the server has the sum */
  bool late;      /* its result is; it has no place in the window any more */
  bool straight;  /* was sent without a stack */
  bool passed;    /* was asked about without one */
  bool deferred;  /* others were let ask first */
  bool nacked;    /* was asked for unmerged: once is enough */
  bool linked;    /* in the list */
  bool past;      /* to be sent past switches, as the last result in this slot has requested */
};

/* A call has `openings` fragments that only agree on the exponents of the first `ahead`, then `fragments` with
 * elements, which agree on those of later ones. In exact mode both are 0. */
struct by_worker_call {
  const unsigned char *src;
  unsigned char *dst;
  size_t count, available;
  uint64_t base; /* its first fragment */
  uint64_t openings, ahead, fragments;
  uint32_t hash;
  enum banyan_dtype dtype;
  enum banyan_op op;
};

/* What the way along the switches shows of itself. */
struct by_worker_path {
  bool dead;           /* nothing has a stack, until it answers */
  uint64_t sign;       /* when something last came that went along the way */
  uint32_t unanswered; /* questions since, which the server always answers */
  uint64_t asked;      /* when the first of them was sent */
  uint64_t slowest;    /* ns until something came after such a question, of late */
  uint64_t tried;      /* when a question was last sent past switches, or, if the way is dead, along them */
  uint64_t passed;     /* when the latest one was sent past switches that has an answer */
};

struct by_worker {
  struct by_worker_config config;
  struct by_sum_key key, open; /* of results and terms; of terms in exact mode */
  struct by_hop_key hop_key;
  const struct by_hop_key *hop; /* &hop_key; NULL: fragments have seals */
  struct by_worker_counters counters;
  uint32_t sequence;               /* of the last probe */
  struct by_replay_window answers; /* of the server */
  struct by_worker_set own, all;
  uint32_t group; /* its own */
  unsigned bits;
  size_t elements;       /* of a full fragment */
  uint32_t opening_room; /* fragments that an opening is about */

  struct by_worker_slot *slots;
  unsigned char *packets; /* one for each slot */
  size_t stride;
  uint64_t *ready;    /* bits: of fragment numbers modulo AHEAD * slots */
  uint8_t *exponents; /* of fragment numbers modulo 2 * AHEAD * slots */

  struct by_worker_call calls[BY_WORKER_CALLS];
  uint32_t first, next; /* calls under way */
  uint64_t head;        /* all fragments before it are done */
  uint64_t end;         /* of the last call */

  uint32_t flying;     /* slots sent, and not yet late */
  double window;       /* how many may be */
  uint32_t came, lost; /* results since losses were last judged, and what was lost, of what was sent after `halved` */
  uint64_t halved;     /* when the window was */
  bool congested;      /* once: no doubling any more */
  uint64_t round;      /* when the last round of questions began */
  uint32_t asked;      /* in it */
  uint32_t silent;     /* rounds in a row without a result */
  double questions;    /* how many may be asked in a round */
  double srtt, rttvar;
  double least;     /* round trip, ns; 0: none has been seen */
  double queued;    /* how long what is under way may wait in queues that do not mark, ns */
  double repair;    /* from a question to its answer, of late, ns */
  double pace;      /* most results a nanosecond that have come lately; 0: not known */
  uint64_t counted; /* results since `since` */
  uint64_t since;
  TAILQ_HEAD(order, by_worker_slot) order; /* slots sent, sorted */
  uint64_t timer;                          /* when to look for those that are late; UINT64_MAX: never */
  uint64_t received;                       /* of the server */
  uint64_t flowing;                        /* when the last result came */
  struct by_worker_path way;
  uint32_t alone;    /* own results since the last one for all */
  uint64_t answered; /* when the latest term was sent that has a result */
  uint64_t newest;   /* the fragment whose result came last in time, plus 1 */
  enum banyan_status status;
  char text[200];
};

static inline struct by_worker_slot *slot_of(const struct by_worker *w, uint64_t number) {
  return &w->slots[number % w->config.slots];
}

static inline struct by_fragment *packet_of(const struct by_worker *w, uint64_t number) {
  return (struct by_fragment *)(void *)(w->packets + number % w->config.slots * w->stride);
}

/* The call that a fragment below `end` belongs to. */
struct by_worker_call *by_worker_call_of(struct by_worker *w, uint64_t number);
/* The first that is ready, or `end`. */
uint64_t by_worker_first_ready(const struct by_worker *w);
/* --- recovery --- */

/* Sends what is in the slot, with these flags beside. */
void by_worker_send(struct by_worker *w, struct by_worker_slot *slot, uint8_t flags, uint64_t now);
void by_worker_unlink(struct by_worker *w, struct by_worker_slot *slot);
/* Asks for the result, which the server is known to have. */
void by_worker_ask_again(struct by_worker *w, struct by_worker_slot *slot, uint64_t now);
/* Something has come that went along the switches, or is about something that did and was sent then. */
void by_worker_take_sign(struct by_worker *w, uint64_t sent, uint64_t now);
/* A result or a reply has come after `rtt`. */
void by_worker_sample(struct by_worker *w, uint64_t rtt);
/* What was asked about the slot is answered. */
void by_worker_repaired(struct by_worker *w, const struct by_worker_slot *slot, uint64_t now);
void by_worker_expire(struct by_worker *w, uint64_t now);
/* What a reply shows of the way that its question took. */
void by_worker_note_way(struct by_worker *w, const struct by_fragment *reply, uint64_t now);
/* And of the slot, which waits. */
void by_worker_take_reply(struct by_worker *w, const struct by_fragment *reply, uint64_t now);
void by_worker_take_nack(struct by_worker *w, const struct by_fragment *nack, uint64_t now);

#endif
