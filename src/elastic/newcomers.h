/* Both sides of joining. At a member: the processes that want to join and have asked here, of which more than a bounded
 * number are turned away. At a process that wants to join: which processes it asks, one after the other, until it is
 * welcome. Values, on the loop's thread. */
#ifndef BY_ELASTIC_NEWCOMERS_H
#define BY_ELASTIC_NEWCOMERS_H

#include "loop.h"
#include "paxos_message.h"

struct by_newcomer {
  struct by_newcomer *next;
  struct by_fingerprint fingerprint;
};

/* Zero-initialised, it is empty. */
struct by_newcomers {
  uint32_t n;
  struct by_newcomer *all;
};

bool by_newcomers_has(const struct by_newcomers *newcomers, const struct by_fingerprint *fingerprint);
/* Adds a newcomer that is not listed yet. Returns BANYAN_ERR_CLOSED if there are BY_NEWCOMERS_MOST, or
 * BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_newcomers_add(struct by_newcomers *newcomers,
                                                 const struct by_fingerprint *fingerprint);
/* Removes a newcomer. Returns false if it was not listed. */
bool by_newcomers_remove(struct by_newcomers *newcomers, const struct by_fingerprint *fingerprint);
void by_newcomers_fini(struct by_newcomers *newcomers);

/* The processes that this one asks, one after the other, to let it join. */
struct by_asking {
  struct by_loop *loop;
  void (*send)(void *context,
               const struct by_fingerprint *to); /* Sends a JOIN; called by the loop and by by_asking_begin only. */
  void *context;
  uint32_t n, at; /* Number of processes, 0 if this one does not want to join, and index of the one asked. */
  struct by_fingerprint *of;
  struct by_timer timer;
};

void by_asking_init(struct by_asking *asking, struct by_loop *loop,
                    void (*send)(void *context, const struct by_fingerprint *to), void *context);
/* Starts asking these n > 0 processes; the array is taken over. */
void by_asking_begin(struct by_asking *asking, struct by_fingerprint *of, uint32_t n);
void by_asking_stop(struct by_asking *asking);
/* Returns the process that is asked now; NULL if there is none. */
const struct by_fingerprint *by_asking_whom(const struct by_asking *asking);
bool by_asking_has(const struct by_asking *asking, const struct by_fingerprint *fingerprint);
/* Notes that a process refused or cannot be reached. If it is the one asked now, the next one is asked. Returns whether
 * it was. */
bool by_asking_refused(struct by_asking *asking, const struct by_fingerprint *by);

#endif
