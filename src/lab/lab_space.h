/* Network namespaces without names: descriptors that only this process holds,
 * and what a process does to live in one. */
#ifndef BY_LAB_LAB_SPACE_H
#define BY_LAB_LAB_SPACE_H

#include "fail.h"

/* The calling thread's namespace; the caller closes *out. */
BANYAN_CHECK enum banyan_status by_space_here(int *out);
/* Makes a namespace; the thread is in it when this returns. The caller closes *out. */
BANYAN_CHECK enum banyan_status by_space_make(int *out);
/* The thread goes there. */
BANYAN_CHECK enum banyan_status by_space_go(int space);
/* Sets "net.ipv4.ip_forward" in the thread's namespace. */
BANYAN_CHECK enum banyan_status by_space_set(const char *name, const char *value);
/* The process is called `host`, finds `hosts` in /etc/hosts and the space's devices in /sys; nobody else sees that.
 * Needs a process with one thread. */
BANYAN_CHECK enum banyan_status by_space_furnish(const char *host, const char *hosts);

#endif
