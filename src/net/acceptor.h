/* Takes connections from a listening socket, TCP or local, on a loop. A process
 * that is out of descriptors leaves the listener alone for a second, instead of
 * being called for the same connection without end. On the loop's thread. */
#ifndef BY_NET_ACCEPTOR_H
#define BY_NET_ACCEPTOR_H

#include "loop.h"

struct by_acceptor;

/* Calls `accepted` with each new connection: non-blocking, closed on exec, the
 * callee's from then on. It may destroy the acceptor. The listener is the
 * acceptor's from now on, also on failure; the caller owns *out. */
enum banyan_status by_acceptor_create(struct by_loop *loop, int listener, void (*accepted)(void *context, int fd),
                                      void *context, struct by_acceptor **out) BANYAN_CHECK;
/* Has `exhausted` called, with the error as the thread's text, when no connection could be taken for 5 s because this
 * process or the system is out of something, and again and again from then on, as long as that lasts. */
void by_acceptor_on_exhaustion(struct by_acceptor *acceptor, void (*exhausted)(void *context));
/* How many connections may be open at once that have not said who they are, where `wanted` would do: at most a quarter
 * of the descriptors that this process may have, so that strangers never take them all. Any thread. */
uint32_t by_acceptor_most_strangers(uint32_t wanted);
/* Closes the listener. NULL is allowed. */
void by_acceptor_destroy(struct by_acceptor *acceptor);

#endif
