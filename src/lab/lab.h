/* A lab: a topology built on this machine from network namespaces, which hold
 * nothing but file descriptors of this process and the processes inside. When
 * these end, however they end, the kernel takes everything away: there are no
 * names to clean up.
 *
 * create, then start processes that call by_lab_enter, read, destroy. A lab
 * belongs to one thread; while it is made, that thread is elsewhere in the
 * network for moments, and back when create returns. */
#ifndef BY_LAB_LAB_H
#define BY_LAB_LAB_H

#include "lab_layout.h"

struct by_lab;

/* What one direction of a wire has carried. */
struct by_lab_traffic {
  uint64_t bytes, packets; /* with all headers down to Ethernet's */
  uint64_t drops;          /* packets lost because the queue was full */
};

/* Needs the rights of root; BANYAN_ERR_SYSTEM says so. The layout and the options must outlive the lab. */
BANYAN_CHECK enum banyan_status by_lab_create(const struct by_lab_layout *layout, const struct by_lab_options *options,
                                              struct by_lab **out);
/* NULL is allowed. Processes that are still inside keep their space alive. */
void by_lab_destroy(struct by_lab *lab);
/* For a process that is to live in a space, before it becomes something else: the network, the name of the host, the
 * names of all hosts in /etc/hosts and /sys are then the space's. What was done of it stays done after a failure. */
BANYAN_CHECK enum banyan_status by_lab_enter(const struct by_lab *lab, uint32_t space);
/* Both directions of a wire that carry something carry so many bit/s from now on. The thread is in another space then.
 */
BANYAN_CHECK enum banyan_status by_lab_change(const struct by_lab *lab, uint32_t wire, double rate);
/* out[2 i + d] is what has left end d of wire i since the lab was made. */
BANYAN_CHECK enum banyan_status by_lab_read(const struct by_lab *lab, struct by_lab_traffic *out);

#endif
