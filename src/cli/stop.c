#include "stop.h"

#include <stddef.h>

static volatile sig_atomic_t stop;

static void be_told(int signal_number) {
  (void)signal_number;
  stop = 1;
}

volatile sig_atomic_t *by_stop_on_signals(void) {
  struct sigaction action = {.sa_handler = be_told};
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
  return &stop;
}
