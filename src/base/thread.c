#include "thread.h"

#include <signal.h>

int by_thread_start(pthread_t *out, void *(*run)(void *), void *argument) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(out, NULL, run, argument);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return error;
}
