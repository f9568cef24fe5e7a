/* Accepts connections of a listening socket, TCP or local, on a loop. A process that is out of descriptors ignores
 * the listener for a second, instead of being called for the same connection without end. On the loop's thread. */
#ifndef BY_NET_ACCEPTOR_H
#define BY_NET_ACCEPTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "loop.h"

struct by_acceptor;

/* Calls `accepted` with each new connection, non-blocking and closed on exec, which the callee owns. It may destroy
 * the acceptor. The acceptor owns the listener, also on failure; the caller owns *out. */
enum banyan_status by_acceptor_create(struct by_loop *loop, int listener, void (*accepted)(void *context, int fd),
                                      void *context, struct by_acceptor **out) BANYAN_CHECK;
/* Calls `exhausted`, with the error as the thread's text, when no connection could be accepted for 5 s because this
 * process or the system lacks a resource, and repeatedly as long as that lasts. */
void by_acceptor_on_exhaustion(struct by_acceptor *acceptor, void (*exhausted)(void *context));
/* The number of connections that may be open at once whose peers have not authenticated: `wanted`, but at most a
 * quarter of the descriptors that this process may have, so that unauthenticated peers never use all of them. Any
 * thread. */
uint32_t by_acceptor_max_unauthenticated(uint32_t wanted);
/* Closes the listener. NULL is allowed. */
void by_acceptor_destroy(struct by_acceptor *acceptor);

/* Bounds the connections whose peers have not authenticated yet, fairly. There are two queues, one for peers that have
 * not sent a whole greeting and one for those that have. When both together exceed the limit, the longer one loses the
 * oldest connection of the address that has the most there. So a flood from one host displaces its own connections, and
 * a flood that sends no greetings does not displace a slow peer that has sent one. An authenticated connection leaves
 * the queues and is never closed by them. No clock; all calls on the owner's thread. */

enum { BY_ADMISSION_SOURCES = 64, BY_ADMISSION_QUEUES = 2 };

/* One connection, embedded in the struct that owns it. All zero: it is in no queue. */
struct by_admission_entry {
  TAILQ_ENTRY(by_admission_entry) link; /* In the list of its source. */
  struct by_admission *admission;
  bool queued;
  uint8_t queue, source;
  /* Set by the owner. The connection has left its queue and must be closed, though not during this call, because the
   * owner of another connection is inside by_admission_enter or by_admission_greeted. */
  void (*evicted)(void *context);
  void *context;
};

/* Addresses that hash to the same number count as one source. */
struct by_admission_queue {
  uint32_t n, n_of[BY_ADMISSION_SOURCES];
  TAILQ_HEAD(, by_admission_entry) sources[BY_ADMISSION_SOURCES]; /* The oldest entry comes first. */
};

struct by_admission {
  uint32_t max;
  uint64_t seed;
  struct by_admission_queue queues[BY_ADMISSION_QUEUES];
};

/* Allows `wanted` connections; see by_acceptor_max_unauthenticated. */
void by_admission_init(struct by_admission *admission, uint32_t wanted);
/* The peer of `fd` has connected. The entry must leave before it is freed. */
void by_admission_enter(struct by_admission *admission, struct by_admission_entry *entry, int fd);
/* The peer has sent a whole greeting. Ignores an entry that is in no queue, or was here before. */
void by_admission_greeted(struct by_admission_entry *entry);
/* The peer has authenticated, or its connection is closed. Ignores an entry that is in no queue. */
void by_admission_leave(struct by_admission_entry *entry);
/* The number of connections in both queues. */
uint32_t by_admission_count(const struct by_admission *admission);

#endif
