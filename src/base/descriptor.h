/* What the library keeps to itself in other people's processes: threads without signals, and file descriptors. A child
 * made by fork() closes its copies, so that sockets end with the process that uses them, even while a data loader that
 * it forked lives on. exec closes them too: all are close-on-exec. A fork waits while a descriptor is being made or
 * closed, so that the child knows exactly which ones are ours.
 *
 * Any thread. */
#ifndef BY_BASE_DESCRIPTOR_H
#define BY_BASE_DESCRIPTOR_H

#include <pthread.h>
#include <stdint.h>

/* Evaluates an expression that makes a descriptor and does not block, and records the result. Keeps errno; -1: failed.
 */
#define BY_DESCRIPTOR(expression) (by_descriptors_lock(), by_descriptor_own_and_unlock(expression))

/* For calls that make several: fork() waits between these two. */
void by_descriptors_lock(void);
void by_descriptors_unlock(void);
/* Records a descriptor, under the lock; -1 is allowed. Returns it. */
int by_descriptor_own(int fd);
int by_descriptor_own_and_unlock(int fd);
/* close() for what is recorded; harmless for what is not. Keeps errno. */
void by_close(int fd);

/* From now on children close what is recorded. Called once or more often. */
void by_descriptors_close_in_children(void);
/* How often fork() was called on the way from the first process to this one, counted since then: a value that was
 * noted earlier differs in a child. Async-signal-safe. */
uint32_t by_process_generation(void);

/* Like pthread_create, with all signals blocked in the thread, as they are the application's. 0, or errno. */
int by_thread_start(pthread_t *out, void *(*run)(void *), void *argument);

#endif
