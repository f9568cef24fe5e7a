#include "process.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

bool by_pin_process(int which) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) || CPU_COUNT(&allowed) == 0) return false;
  int wanted = which % CPU_COUNT(&allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &allowed) || wanted--) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
  }
  return false;
}

int by_signal_descriptor(const int *signals) {
  sigset_t set;
  sigemptyset(&set);
  for (; *signals; signals++) sigaddset(&set, *signals);
  sigprocmask(SIG_BLOCK, &set, NULL);
  signal(SIGPIPE, SIG_IGN);
  return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

void by_restore_signals(void) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGPIPE, SIG_DFL);
}

static volatile sig_atomic_t stop;
static struct by_loop *running;

static void handle(void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler};
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
}

static void be_notified(int signal_number) {
  (void)signal_number;
  stop = 1;
}

static void stop_loop(int signal_number) {
  (void)signal_number;
  by_loop_stop(running);
}

volatile sig_atomic_t *by_stop_on_signals(void) {
  handle(be_notified);
  return &stop;
}

void by_allow_files(struct rlimit *before) {
  *before = (struct rlimit){0};
  if (getrlimit(RLIMIT_NOFILE, before)) return;
  struct rlimit more = {.rlim_cur = before->rlim_max, .rlim_max = before->rlim_max};
  setrlimit(RLIMIT_NOFILE, &more); /* if it fails, the open() that exceeds the limit reports it */
}

/* ---- reading files again */

static struct {
  int fd;
  struct by_watch *watch;
  void (*call)(void *context);
  void *context;
} hangup = {.fd = -1};

static void notified(int signal_number) {
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

static void handle_hangup(void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigaction(SIGHUP, &action, NULL);
}

enum banyan_status by_hangup_call(struct by_loop *loop, void (*call)(void *context), void *context) {
  hangup.call = call;
  hangup.context = context;
  hangup.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (hangup.fd < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot wait for SIGHUP");
  BY_TRY(by_loop_watch(loop, hangup.fd, EPOLLIN, ready, NULL, &hangup.watch));
  handle_hangup(notified);
  return BANYAN_OK;
}

void by_stop_loop_on_signals(struct by_loop *loop) {
  signal(SIGPIPE, SIG_IGN);
  handle(loop ? stop_loop : SIG_DFL);
  if (loop) {
    running = loop;
    return;
  }
  handle_hangup(SIG_DFL);
  by_loop_unwatch(hangup.watch);
  if (hangup.fd >= 0) close(hangup.fd);
  hangup.watch = NULL;
  hangup.fd = -1;
}
