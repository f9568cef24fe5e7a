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

/* All zeros: there are none. */
struct by_newcomers {
  uint32_t n;
  struct by_newcomer *all;
};

bool by_newcomers_has(const struct by_newcomers *newcomers, const struct by_fingerprint *fingerprint);
/* One that is not there yet. BANYAN_ERR_CLOSED: BY_NEWCOMERS_MOST are there; _NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_newcomers_add(struct by_newcomers *newcomers,
                                                 const struct by_fingerprint *fingerprint);
/* False: it was not there. */
bool by_newcomers_remove(struct by_newcomers *newcomers, const struct by_fingerprint *fingerprint);
void by_newcomers_fini(struct by_newcomers *newcomers);

/* What this process asks for where it wants to join. */
struct by_asking {
  struct by_loop *loop;
  void (*send)(void *context,
               const struct by_fingerprint *to); /* a JOIN; not from within calls but the loop and begin */
  void *context;
  uint32_t n, at; /* processes, and the one that is asked; 0: it does not want to join */
  struct by_fingerprint *of;
  struct by_timer timer;
};

void by_asking_init(struct by_asking *asking, struct by_loop *loop,
                    void (*send)(void *context, const struct by_fingerprint *to), void *context);
/* Asks these n > 0 processes, which are taken over. */
void by_asking_begin(struct by_asking *asking, struct by_fingerprint *of, uint32_t n);
void by_asking_stop(struct by_asking *asking);
/* The one that is asked; NULL: none is. */
const struct by_fingerprint *by_asking_whom(const struct by_asking *asking);
bool by_asking_has(const struct by_asking *asking, const struct by_fingerprint *fingerprint);
/* This one is of no use: if it is asked, the next one is. Whether it was. */
bool by_asking_refused(struct by_asking *asking, const struct by_fingerprint *by);

#endif
