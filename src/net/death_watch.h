/* Proofs of the kernel that processes of this host have ended. A process that others may watch listens on a local
 * socket, under an identity that no other process has. A watcher connects to it, and the kernel gives it a descriptor
 * of the process that listens: not of a number, which may be reused or count in another namespace, and not of a process
 * on another host that calls itself by the same name. An identity under which nobody listens proves nothing.
 *
 * Costs a descriptor for each process, and no wake-up until one ends. On the loop's thread. */
#ifndef BY_NET_DEATH_WATCH_H
#define BY_NET_DEATH_WATCH_H

#include "loop.h"

enum { BY_DEATH_ID = 32 /* bytes of an identity */ };

struct by_death_watch;

struct by_death_watch_options {
  struct by_loop *loop;
  const uint8_t *self; /* BY_DEATH_ID bytes, copied: others watch this process by it. NULL: nobody does */
  /* This process, which is not watched any more, has ended, with all its threads. Once, from the loop only. May call
   * anything here but by_death_watch_destroy. */
  void (*dead)(void *context, const uint8_t *id);
  void *context;
};

/* The caller owns *out. BANYAN_ERR_SYSTEM: another process listens as `self`. */
BANYAN_CHECK enum banyan_status by_death_watch_create(const struct by_death_watch_options *options,
                                                      struct by_death_watch **out);
/* NULL is allowed. */
void by_death_watch_destroy(struct by_death_watch *watch);

/* Watches a process, which may be watched already. Does not block. BANYAN_ERR_PEER_DEAD: it has ended, though
 * another process that it made holds its socket; _CONNECT: nobody listens as `id` in this network namespace; _AUTH: it
 * is another user's; _UNSUPPORTED: the kernel has no such descriptors (Linux before 5.3); _SYSTEM, _NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_death_watch_add(struct by_death_watch *watch, const uint8_t *id);
/* Ends that for processes that are not to be kept. */
void by_death_watch_prune(struct by_death_watch *watch, bool (*keeps)(void *context, const uint8_t *id), void *context);

#endif
