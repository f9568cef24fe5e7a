/* A signal to this process that begins a timeline, and the next time ends it: its handler rings, and what is to be done
 * is called on the loop's thread. Before that thread begins, and after it has ended. */
#ifndef BY_JOB_TIMELINE_TIMELINE_SIGNAL_H
#define BY_JOB_TIMELINE_TIMELINE_SIGNAL_H

#include "loop.h"

struct by_timeline_signal;

/* One of a process at a time. BANYAN_ERR_ARGUMENT: another one has the signal, or there is no such signal. */
BANYAN_CHECK enum banyan_status by_timeline_signal_open(struct by_loop *loop, int number, void (*came)(void *context),
                                                        void *context, struct by_timeline_signal **out);
/* NULL is allowed. */
void by_timeline_signal_close(struct by_timeline_signal *toggle);

#endif
