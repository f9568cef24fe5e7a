/* Threads without signals, and file descriptors, of a library in a foreign process. A child made by fork() closes its
 * copies, so that sockets end with the process that uses them, even while a forked data loader lives on. exec closes
 * them too: all are close-on-exec. A fork waits while a descriptor is being made or closed, so that the child knows
 * exactly which ones are the library's. Any thread. */
#ifndef BY_BASE_DESCRIPTOR_H
#define BY_BASE_DESCRIPTOR_H

#include <pthread.h>
#include <stdint.h>

/* Evaluates an expression that makes a descriptor and does not block, and records the result. Keeps errno; -1: it
 * failed. */
#define BY_DESCRIPTOR(expression) (by_descriptors_lock(), by_descriptor_own_and_unlock(expression))

/* For calls that make several descriptors: fork() waits between these two. */
void by_descriptors_lock(void);
void by_descriptors_unlock(void);
/* Records a descriptor, under the lock; -1 is allowed. Returns it. */
int by_descriptor_own(int fd);
int by_descriptor_own_and_unlock(int fd);
/* Closes a descriptor, which may be recorded or not. Keeps errno. */
void by_close(int fd);

/* Makes children close recorded descriptors from now on. Called once or more often. */
void by_descriptors_close_in_children(void);
/* The number of fork() calls between the first process and this one, counted since the first call: a value noted
 * earlier differs in a child. Async-signal-safe. */
uint32_t by_process_generation(void);

/* As pthread_create, with all signals blocked in the thread, since they belong to the application. Returns 0 or an
 * errno. */
int by_thread_start(pthread_t *out, void *(*run)(void *), void *argument);

#endif
