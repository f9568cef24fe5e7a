/* Detects by proofs of the kernel that processes of this host have ended. A process that others may watch listens on
 * a local socket, under an identity that no other process has. A watcher connects to it, and the kernel gives it a
 * descriptor of the listening process, not of a number, which may be reused or belong to another namespace, and not
 * of a process on another host with the same name. An identity under which no process listens proves nothing.
 *
 * A watched process costs one descriptor, and no wake-up until it ends. On the loop's thread. */
#ifndef BY_NET_DEATH_WATCH_H
#define BY_NET_DEATH_WATCH_H

#include "loop.h"

enum { BY_DEATH_ID = 32 /* Bytes of an identity. */ };

struct by_death_watch;

struct by_death_watch_options {
  struct by_loop *loop;
  const uint8_t *self; /* BY_DEATH_ID bytes, copied, by which others watch this process. NULL: it is not watched. */
  /* Process `id` has ended with all its threads, and is not watched any more. Called once, by the loop only. It may
   * call anything here except by_death_watch_destroy. */
  void (*dead)(void *context, const uint8_t *id);
  void *context;
};

/* Creates a watch, which the caller owns. BANYAN_ERR_SYSTEM: another process listens as `self`. */
BANYAN_CHECK enum banyan_status by_death_watch_create(const struct by_death_watch_options *options,
                                                      struct by_death_watch **out);
/* Destroys a watch; NULL is allowed. */
void by_death_watch_destroy(struct by_death_watch *watch);

/* Watches a process, which may be watched already. Does not block. BANYAN_ERR_PEER_DEAD: it has ended, though a child
 * process holds its socket; _CONNECT: no process listens as `id` in this network namespace; _AUTH: it belongs to
 * another user; _UNSUPPORTED: the kernel has no such descriptors (Linux before 5.3); _SYSTEM, _NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_death_watch_add(struct by_death_watch *watch, const uint8_t *id);
/* Stops watching the processes for which `keeps` returns false. */
void by_death_watch_prune(struct by_death_watch *watch, bool (*keeps)(void *context, const uint8_t *id), void *context);

#endif
