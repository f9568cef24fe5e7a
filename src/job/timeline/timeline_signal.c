#include "timeline_signal.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "descriptor.h"

struct by_timeline_signal {
  int number, bell; /* the bell rings when the signal comes */
  struct by_watch *watch;
  void (*came)(void *context);
  void *context;
};

/* Signals are the process's, so one of its jobs has them. */
static _Atomic int bell = -1;
static uint32_t bell_generation; /* in a child of this process, the bell is closed */
static struct sigaction before;

static void ring(int number) {
  int fd = atomic_load(&bell), error = errno;
  uint64_t one = 1;
  (void)number;
  if (fd >= 0 && bell_generation == by_process_generation()) (void)!write(fd, &one, sizeof one);
  errno = error;
}

static void rung(void *argument, uint32_t events) {
  const struct by_timeline_signal *toggle = argument;
  uint64_t rings;
  (void)events;
  if (read(toggle->bell, &rings, sizeof rings) < 0 || rings % 2 == 0) return;
  toggle->came(toggle->context);
}

static enum banyan_status hang_bell(struct by_timeline_signal *toggle, struct by_loop *loop) {
  struct sigaction action = {.sa_handler = ring, .sa_flags = SA_RESTART};
  int none = -1;
  if (bell_generation != by_process_generation()) atomic_store(&bell, -1); /* a parent's */
  toggle->bell = BY_DESCRIPTOR(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (toggle->bell < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "making an eventfd");
  BY_TRY(by_loop_watch(loop, toggle->bell, EPOLLIN, rung, toggle, &toggle->watch));
  if (!atomic_compare_exchange_strong(&bell, &none, toggle->bell))
    return by_fail(BANYAN_ERR_ARGUMENT, "another job of toggle process has the signal");
  bell_generation = by_process_generation();
  if (sigaction(toggle->number, &action, &before) == 0) return BANYAN_OK;
  atomic_store(&bell, -1);
  return by_fail_errno(BANYAN_ERR_ARGUMENT, errno, "%d is no signal that can be caught", toggle->number);
}

enum banyan_status by_timeline_signal_open(struct by_loop *loop, int number, void (*came)(void *context), void *context,
                                           struct by_timeline_signal **out) {
  struct by_timeline_signal *toggle = calloc(1, sizeof *toggle);
  if (!toggle) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a signal");
  *toggle = (struct by_timeline_signal){.number = number, .bell = -1, .came = came, .context = context};
  enum banyan_status status = hang_bell(toggle, loop);
  if (status == BANYAN_OK)
    *out = toggle;
  else
    by_timeline_signal_close(toggle);
  return status;
}

void by_timeline_signal_close(struct by_timeline_signal *toggle) {
  if (!toggle) return;
  int own = toggle->bell;
  if (own >= 0 && atomic_compare_exchange_strong(&bell, &own, -1)) sigaction(toggle->number, &before, NULL);
  by_loop_unwatch(toggle->watch);
  if (toggle->bell >= 0) by_close(toggle->bell);
  free(toggle);
}
