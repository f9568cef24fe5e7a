/* Bounds the connections whose peers have not authenticated yet, fairly. There are two queues, one for peers that have
 * not sent a whole greeting and one for those that have. When both together exceed the limit, the longer one loses the
 * oldest connection of the address that has the most there. So a flood from one host displaces its own connections, and
 * a flood that sends no greetings does not displace a slow peer that has sent one. An authenticated connection leaves
 * the queues and is never closed by them. No clock; all calls on the owner's thread. */
#ifndef BY_NET_ADMISSION_H
#define BY_NET_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

enum { BY_ADMISSION_SOURCES = 64, BY_ADMISSION_QUEUES = 2 };

/* One connection, embedded in the struct that owns it. All zero: it is in no queue. */
struct by_admission_entry {
  struct by_admission_entry *previous, *next; /* of the same source; NULL: not in a queue */
  struct by_admission *admission;
  uint8_t queue, source;
  /* Set by the owner. The connection has left its queue and is to be closed; not during this call, because the owner of
   * another connection is in the middle of by_admission_enter or by_admission_greeted. */
  void (*evicted)(void *context);
  void *context;
};

/* Addresses that hash to the same number count as one source. */
struct by_admission_queue {
  uint32_t n, n_of[BY_ADMISSION_SOURCES];
  struct by_admission_entry sources[BY_ADMISSION_SOURCES]; /* heads of rings, the oldest entry first */
};

struct by_admission {
  uint32_t most;
  uint64_t seed;
  struct by_admission_queue queues[BY_ADMISSION_QUEUES];
};

/* For `wanted` connections; see by_acceptor_most_strangers. */
void by_admission_init(struct by_admission *admission, uint32_t wanted);
/* The peer of `fd` has connected. The entry must leave before it is freed. */
void by_admission_enter(struct by_admission *admission, struct by_admission_entry *entry, int fd);
/* It has sent a whole greeting. Nothing happens to an entry that is in no queue, or was here before. */
void by_admission_greeted(struct by_admission_entry *entry);
/* It has authenticated, or its connection is closed. Nothing happens to an entry that is in no queue. */
void by_admission_leave(struct by_admission_entry *entry);
/* Connections in both queues. */
uint32_t by_admission_count(const struct by_admission *admission);

#endif
