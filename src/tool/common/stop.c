#include "stop.h"

#include <stddef.h>

static volatile sig_atomic_t stop;
static struct by_loop *running;

static void handle(void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler};
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
}

static void be_told(int signal_number) {
  (void)signal_number;
  stop = 1;
}

static void stop_loop(int signal_number) {
  (void)signal_number;
  by_loop_stop(running);
}

volatile sig_atomic_t *by_stop_on_signals(void) {
  handle(be_told);
  return &stop;
}

void by_stop_loop_on_signals(struct by_loop *loop) {
  if (loop) running = loop;
  handle(loop ? stop_loop : SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
}

void by_allow_files(struct rlimit *before) {
  *before = (struct rlimit){0};
  if (getrlimit(RLIMIT_NOFILE, before)) return;
  struct rlimit more = {.rlim_cur = before->rlim_max, .rlim_max = before->rlim_max};
  setrlimit(RLIMIT_NOFILE, &more); /* else what opens the one too many says so */
}
