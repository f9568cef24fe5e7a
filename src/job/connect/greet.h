/* The handshake on a data connection, driven by the loop: it reads not a byte
 * beyond it, so that the socket can become a lane. One for each connection,
 * on the loop's thread; it frees itself after telling how it went. */
#ifndef BY_JOB_CONNECT_GREET_H
#define BY_JOB_CONNECT_GREET_H

#include "acceptor.h"
#include "handshake.h"
#include "loop.h"

struct by_greet;

struct by_greet_options {
  struct by_loop *loop;
  int fd;                                /* connected and non-blocking; taken over until `done` hands it back */
  bool packets;                          /* a local socket that keeps message boundaries */
  uint64_t timeout;                      /* nanoseconds for the whole handshake */
  struct by_handshake_options handshake; /* the hello is copied */
  struct by_admission *admission; /* where an accepted connection waits for its peer's proof; NULL: not bounded */
  /* Called once. BANYAN_OK: fd, purpose and the peer's hello; else fd is closed and -1, the error text is set. */
  void (*done)(void *context, enum banyan_status status, int fd, uint8_t purpose, const uint8_t *hello,
               size_t hello_length);
  void *context;
};

/* On failure the descriptor is closed and `done` is not called. */
BANYAN_CHECK enum banyan_status by_greet_start(const struct by_greet_options *options, struct by_greet **out);
/* Gives it up without calling `done`. NULL is allowed. */
void by_greet_cancel(struct by_greet *greet);

#endif
