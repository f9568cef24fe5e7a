#include "hangup.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct {
  int fd;
  struct by_watch *watch;
  void (*call)(void *context);
  void *context;
} hangup = {.fd = -1};

static void told(int signal_number) {
  int before = errno;
  (void)signal_number;
  (void)!write(hangup.fd, &(uint64_t){1}, sizeof(uint64_t));
  errno = before;
}

static void ready(void *context, uint32_t events) {
  uint64_t times;
  (void)context;
  (void)events;
  if (read(hangup.fd, &times, sizeof times) == sizeof times) hangup.call(hangup.context);
}

static void handle(void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigaction(SIGHUP, &action, NULL);
}

enum banyan_status by_hangup_call(struct by_loop *loop, void (*call)(void *context), void *context) {
  hangup.call = call;
  hangup.context = context;
  hangup.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (hangup.fd < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot wait for SIGHUP");
  BY_TRY(by_loop_watch(loop, hangup.fd, EPOLLIN, ready, NULL, &hangup.watch));
  handle(told);
  return BANYAN_OK;
}

void by_hangup_end(void) {
  handle(SIG_DFL);
  by_loop_unwatch(hangup.watch);
  if (hangup.fd >= 0) close(hangup.fd);
  hangup.watch = NULL;
  hangup.fd = -1;
}
