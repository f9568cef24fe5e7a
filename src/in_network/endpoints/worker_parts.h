/* A worker's slots, calls and path, and its recovery from losses (worker_recover.c). Part of worker.c. */
#ifndef BY_IN_NETWORK_ENDPOINTS_WORKER_PARTS_H
#define BY_IN_NETWORK_ENDPOINTS_WORKER_PARTS_H

#include <sys/queue.h>

#include "fragment.h"
#include "sum_key.h"
#include "worker.h"

/* Maximum of epochs that a slot may be ahead of the head. */
enum { AHEAD = 4 };

/* Minimum of probes in a round trip. */
enum { QUESTIONS = 8 };

enum slot_state { SLOT_DONE = 0, SLOT_READY, SLOT_SENT };

/* A fragment in flight. Its packet is kept, so that dst may be src. */
struct by_worker_slot {
  uint64_t number; /* Number of the fragment; for SLOT_DONE of the last one. */
  uint64_t sent, probed;
  uint64_t touched;                 /* When the last packet about it was sent. */
  uint64_t due;                     /* It is overtaken by answers to packets that were sent later than this. */
  TAILQ_ENTRY(by_worker_slot) link; /* Sorted by `due`. */
  uint8_t state;
  uint8_t resent; /* Number of repetitions. */
  uint8_t asked;  /* Number of probes for the result. */
  bool finished;  /* The server has the sum. */
  bool late;      /* Its result is late, and it no longer counts for the window. */
  bool straight;  /* It was sent without a stack. */
  bool passed;    /* A probe about it was sent without a stack. */
  bool deferred;  /* Other workers may ask first. */
  bool nacked;    /* The server has requested it unmerged; once is enough. */
  bool linked;    /* It is in the list. */
  bool past;      /* To be sent past switches, as the last result in this slot has requested. */
};

/* A call has `openings` fragments that only agree on the exponents of the first `ahead` fragments, then `fragments`
 * with elements, which agree on those of later ones. In exact mode both are 0. */
struct by_worker_call {
  const unsigned char *src;
  unsigned char *dst;
  size_t count, available;
  uint64_t base; /* Its first fragment. */
  uint64_t openings, ahead, fragments;
  uint32_t hash;
  enum banyan_dtype dtype;
  enum banyan_op op;
};

/* Observations of the path along the switches. */
struct by_worker_path {
  bool dead;           /* All packets are sent without a stack, until the path answers again. */
  uint64_t sign;       /* When a packet last arrived that went along the path. */
  uint32_t unanswered; /* Probes since then that the server always answers. */
  uint64_t asked;      /* When the first of them was sent. */
  uint64_t slowest;    /* Recent maximum of ns until a packet arrived after such a probe. */
  uint64_t tried;      /* When a probe was last sent past the switches or, if the path is dead, along it. */
  uint64_t passed;     /* When the latest answered probe past the switches was sent. */
};

struct by_worker {
  struct by_worker_config config;
  struct by_sum_key key, open; /* Keys of results and terms, and of terms in exact mode. */
  struct by_hop_key hop_key;
  const struct by_hop_key *hop; /* &hop_key; NULL: fragments have seals. */
  struct by_worker_counters counters;
  uint32_t sequence;               /* Sequence number of the last probe. */
  struct by_replay_window answers; /* Window of the server's sequence numbers. */
  struct by_worker_set own, all;
  uint32_t group; /* Its own group. */
  unsigned bits;
  size_t elements;      /* Elements of a full fragment. */
  uint32_t per_opening; /* Fragments whose exponents an opening holds. */

  struct by_worker_slot *slots;
  unsigned char *packets; /* One for each slot. */
  size_t stride;
  uint64_t *ready;    /* Bits by fragment number modulo AHEAD * slots. */
  uint8_t *exponents; /* By fragment number modulo 2 * AHEAD * slots. */

  struct by_worker_call calls[BY_WORKER_CALLS];
  uint32_t first, next; /* Range of active calls. */
  uint64_t head;        /* All fragments before it are done. */
  uint64_t end;         /* End of the last call. */

  uint32_t flying;     /* Slots that are sent and not late. */
  double window;       /* Maximum of `flying`. */
  uint32_t came, lost; /* Results and losses since the last evaluation, of packets sent after `halved`. */
  uint64_t halved;     /* When the window was last halved. */
  bool congested;      /* The window is no longer doubled. */
  uint64_t round;      /* When the last round of probes began. */
  uint32_t asked;      /* Probes in this round. */
  uint32_t silent;     /* Consecutive rounds without a result. */
  double questions;    /* Maximum of probes in a round. */
  double srtt, rttvar;
  double min_rtt;   /* Minimum round trip in ns; 0: unknown. */
  double queued;    /* Maximum time in ns that packets may wait in queues that do not mark. */
  double repair;    /* Recent time in ns from a probe to its answer. */
  double pace;      /* Recent maximum of results per ns; 0: unknown. */
  uint64_t counted; /* Results since `since`. */
  uint64_t since;
  TAILQ_HEAD(order, by_worker_slot) order; /* Sent slots, sorted. */
  uint64_t timer;                          /* When to check for late slots; UINT64_MAX: never. */
  uint64_t received;                       /* When the last packet of the server arrived. */
  uint64_t flowing;                        /* When the last result arrived. */
  struct by_worker_path path;
  uint32_t alone;    /* Results for this worker only since the last multicast. */
  uint64_t answered; /* When the latest term with a result was sent. */
  uint64_t newest;   /* The fragment of the last result in time, plus 1. */
  enum banyan_status status;
  char text[200];
};

static inline struct by_worker_slot *slot_of(const struct by_worker *w, uint64_t number) {
  return &w->slots[number % w->config.slots];
}

static inline struct by_fragment *packet_of(const struct by_worker *w, uint64_t number) {
  return (struct by_fragment *)(void *)(w->packets + number % w->config.slots * w->stride);
}

/* Returns the call of a fragment below `end`. */
struct by_worker_call *by_worker_call_of(struct by_worker *w, uint64_t number);
/* Returns the first fragment that is ready, or `end`. */
uint64_t by_worker_first_ready(const struct by_worker *w);
/* --- recovery --- */

/* Sends the packet of a slot with these additional flags. */
void by_worker_send(struct by_worker *w, struct by_worker_slot *slot, uint8_t flags, uint64_t now);
void by_worker_unlink(struct by_worker *w, struct by_worker_slot *slot);
/* Asks for a result that the server is known to have. */
void by_worker_ask_again(struct by_worker *w, struct by_worker_slot *slot, uint64_t now);
/* Records a packet that went along the switches, or an answer to one that did and was sent at `sent`. */
void by_worker_take_sign(struct by_worker *w, uint64_t sent, uint64_t now);
/* Updates the round-trip time by a result or reply. */
void by_worker_sample(struct by_worker *w, uint64_t rtt);
/* Updates the repair time, as a probe about the slot is answered. */
void by_worker_repaired(struct by_worker *w, const struct by_worker_slot *slot, uint64_t now);
void by_worker_expire(struct by_worker *w, uint64_t now);
/* Updates the observations of the path that a reply's probe took. */
void by_worker_note_way(struct by_worker *w, const struct by_fragment *reply, uint64_t now);
/* Handles the reply for the slot, which waits. */
void by_worker_take_reply(struct by_worker *w, const struct by_fragment *reply, uint64_t now);
void by_worker_take_nack(struct by_worker *w, const struct by_fragment *nack, uint64_t now);

#endif
