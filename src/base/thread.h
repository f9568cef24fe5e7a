/* Threads of the library in other people's processes. */
#ifndef BY_BASE_THREAD_H
#define BY_BASE_THREAD_H

#include <pthread.h>

/* Like pthread_create, with all signals blocked in the thread, as they are the application's. 0, or errno. */
int by_thread_start(pthread_t *out, void *(*run)(void *), void *argument);

#endif
