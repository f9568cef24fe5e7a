/* Records the library's file descriptors, so that forked children close them. */
#include "descriptor.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

/* Linux gives the lowest free number, so those beyond are never reached; unused pages cost nothing. */
enum { WORD = 64, WORDS = (1 << 20) / WORD };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* Protects the next two; held while a fork copies them. */
static uint64_t owned[WORDS];
static int words; /* Words in use; the bits from here on are zero. */
static _Atomic uint32_t generation;

void by_descriptors_lock(void) {
  pthread_mutex_lock(&lock);
}

void by_descriptors_unlock(void) {
  pthread_mutex_unlock(&lock);
}

int by_descriptor_own(int fd) {
  if (fd < 0 || fd / WORD >= WORDS) return fd;
  owned[fd / WORD] |= UINT64_C(1) << fd % WORD;
  if (fd / WORD >= words) words = fd / WORD + 1;
  return fd;
}

int by_descriptor_own_and_unlock(int fd) {
  int error = errno;
  by_descriptor_own(fd);
  by_descriptors_unlock();
  errno = error;
  return fd;
}

void by_close(int fd) {
  int error = errno;
  by_descriptors_lock();
  if (fd >= 0 && fd / WORD < WORDS) owned[fd / WORD] &= ~(UINT64_C(1) << fd % WORD);
  close(fd);
  by_descriptors_unlock();
  errno = error;
}

static void in_child(void) {
  for (int w = 0; w < words; w++) /* Only close: shutdown and epoll_ctl would affect what the parent uses. */
    for (; owned[w]; owned[w] &= owned[w] - 1) close(w * WORD + __builtin_ctzll(owned[w]));
  words = 0;
  atomic_fetch_add(&generation, 1);
  by_descriptors_unlock();
}

static void install_handlers(void) {
  (void)!pthread_atfork(by_descriptors_lock, by_descriptors_unlock, in_child);
}

void by_descriptors_close_in_children(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, install_handlers);
}

uint32_t by_process_generation(void) {
  return atomic_load_explicit(&generation, memory_order_relaxed);
}

int by_thread_start(pthread_t *out, void *(*run)(void *), void *argument) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(out, NULL, run, argument);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return error;
}
