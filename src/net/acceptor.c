#include "acceptor.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "descriptor.h"
#include "log.h"
#include "socket.h"

enum {
  AT_ONCE = 16,   /* connections in one round of the loop */
  MOST_RESTS = 5, /* of a second each, until the owner hears of it, */
  BRIEF_MS = 50,  /* and then */
  CALM_S = 5      /* without a rest, after which the next one is the first of a new shortage */
};

struct by_acceptor {
  struct by_loop *loop;
  struct by_watch *watch;
  struct by_timer rest;
  int listener;
  void (*accepted)(void *context, int fd), (*exhausted)(void *context);
  void *context;
  uint32_t rests;       /* of this shortage of descriptors */
  uint64_t rested_at;   /* the last one began */
  bool busy, destroyed; /* inside `accepted`; destroyed there */
};

/* The owner that has heard of it may use what little there is to say so to those who come. */
static void rest(struct by_acceptor *acceptor) {
  bool heard = acceptor->rests >= MOST_RESTS && acceptor->exhausted;
  if (!heard) by_warn("net", "no connections are taken for a second: %s", banyan_error_text());
  by_loop_change(acceptor->watch, 0);
  by_loop_set_delay(acceptor->loop, &acceptor->rest, heard ? BRIEF_MS * BY_MILLISECOND : BY_SECOND);
  acceptor->rests++;
  acceptor->rested_at = by_loop_now(acceptor->loop);
  if (heard) acceptor->exhausted(acceptor->context);
}

static void take_one(struct by_acceptor *acceptor, bool *more) {
  int fd;
  if (by_socket_accept(acceptor->listener, &fd, NULL) != BANYAN_OK) {
    rest(acceptor);
    *more = false;
    return;
  }
  *more = fd >= 0;
  /* an owner that has given up tells those who come meanwhile, each as soon as there is a descriptor again */
  bool calm = by_loop_now(acceptor->loop) - acceptor->rested_at >= CALM_S * BY_SECOND;
  if (acceptor->rests < MOST_RESTS || calm) acceptor->rests = 0;
  if (fd >= 0) acceptor->accepted(acceptor->context, fd);
}

static void ready(void *context, uint32_t events) {
  struct by_acceptor *acceptor = context;
  bool more = true;
  (void)events;
  acceptor->busy = true;
  for (int i = 0; i < AT_ONCE && more && !acceptor->destroyed; i++) take_one(acceptor, &more);
  acceptor->busy = false;
  if (acceptor->destroyed) free(acceptor);
}

static void rested(void *context) {
  struct by_acceptor *acceptor = context;
  by_loop_change(acceptor->watch, EPOLLIN);
}

enum banyan_status by_acceptor_create(struct by_loop *loop, int listener, void (*accepted)(void *context, int fd),
                                      void *context, struct by_acceptor **out) {
  struct by_acceptor *acceptor = calloc(1, sizeof *acceptor);
  if (!acceptor) {
    by_close(listener);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a listener");
  }
  *acceptor = (struct by_acceptor){.loop = loop, .listener = listener, .accepted = accepted, .context = context};
  by_timer_init(&acceptor->rest, rested, acceptor);
  enum banyan_status status = by_loop_watch(loop, listener, EPOLLIN, ready, acceptor, &acceptor->watch);
  if (status != BANYAN_OK)
    by_acceptor_destroy(acceptor);
  else
    *out = acceptor;
  return status;
}

void by_acceptor_on_exhaustion(struct by_acceptor *acceptor, void (*exhausted)(void *context)) {
  acceptor->exhausted = exhausted;
}

uint32_t by_acceptor_most_strangers(uint32_t wanted) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / 4 > wanted) return wanted;
  return (uint32_t)(limit.rlim_cur / 4);
}

void by_acceptor_destroy(struct by_acceptor *acceptor) {
  if (!acceptor) return;
  by_loop_unwatch(acceptor->watch);
  by_loop_cancel_timer(&acceptor->rest);
  by_close(acceptor->listener);
  acceptor->destroyed = true;
  if (!acceptor->busy) free(acceptor);
}
