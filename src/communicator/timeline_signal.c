/* A timeline that a signal to rank 0's process begins, and the next one ends. Its handler rings; the control thread
 * does the rest. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "context.h"
#include "control.h"
#include "descriptor.h"
#include "log.h"
#include "timeline_parts.h"

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
  struct by_context *context = argument;
  struct by_timeline *timeline = context->timeline;
  uint64_t rings;
  (void)events;
  if (read(timeline->bell, &rings, sizeof rings) < 0 || rings % 2 == 0) return;
  enum banyan_status status = BANYAN_OK;
  if (atomic_load(&timeline->phase) == BY_TIMELINE_IDLE)
    status = by_timeline_begin(context, context->settings.timeline);
  else
    status = by_timeline_close(context);
  if (status != BANYAN_OK) by_warn("timeline", "the signal has changed nothing: %s", banyan_error_text());
}

static enum banyan_status hang_bell(struct by_context *context, int number) {
  struct by_timeline *timeline = context->timeline;
  struct sigaction action = {.sa_handler = ring, .sa_flags = SA_RESTART};
  int none = -1;
  if (bell_generation != by_process_generation()) atomic_store(&bell, -1); /* a parent's */
  timeline->bell = BY_DESCRIPTOR(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (timeline->bell < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "making an eventfd");
  BY_TRY(by_loop_watch(context->loop, timeline->bell, EPOLLIN, rung, context, &timeline->bell_watch));
  if (!atomic_compare_exchange_strong(&bell, &none, timeline->bell))
    return by_fail(BANYAN_ERR_ARGUMENT, "another job of this process has the signal");
  bell_generation = by_process_generation();
  if (sigaction(number, &action, &before) == 0) return BANYAN_OK;
  atomic_store(&bell, -1);
  return by_fail_errno(BANYAN_ERR_ARGUMENT, errno, "%d is no signal that can be caught", number);
}

enum banyan_status by_timeline_signal_open(struct by_context *context) {
  int number = (int)context->settings.timeline_signal;
  context->timeline->bell = -1;
  if (number <= 0 || context->rank != 0 || !context->loop) return BANYAN_OK;
  enum banyan_status status = hang_bell(context, number);
  if (status != BANYAN_OK) return by_fail_within(status, "BANYAN_TIMELINE_SIGNAL");
  by_info("timeline", "signal %d to process %ld begins a timeline, and the next one ends it", number, (long)getpid());
  return BANYAN_OK;
}

void by_timeline_signal_close(struct by_context *context) {
  struct by_timeline *timeline = context->timeline;
  if (!timeline || !timeline->bell_watch) return;
  int own = timeline->bell;
  if (atomic_compare_exchange_strong(&bell, &own, -1)) sigaction((int)context->settings.timeline_signal, &before, NULL);
  by_loop_unwatch(timeline->bell_watch);
  by_close(timeline->bell);
}
