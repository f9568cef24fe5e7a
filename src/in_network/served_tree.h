/* A tree through switches as a server has it, over UDP: the server that finishes it, or an aggregator, which adds for
 * some of its workers and sends to that. On the thread that drives the socket. */
#ifndef BY_IN_NETWORK_SERVED_TREE_H
#define BY_IN_NETWORK_SERVED_TREE_H

#include "control_messages.h"
#include "udp.h"

struct by_served_tree;

/* Takes the tree's fragments from the socket from now on; both the socket and the message must outlive it. `self` is
 * this process. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_served_tree_create(struct by_udp *udp, const struct by_member *self,
                                                      const struct by_tree_message *message,
                                                      struct by_served_tree **out);
/* Logs what it has done. NULL is allowed. */
void by_served_tree_destroy(struct by_served_tree *tree);
/* Returns the i-th aggregator that gets results for all; UINT32_MAX: there are fewer. */
uint32_t by_served_tree_aggregator(const struct by_served_tree *tree, uint32_t i);
/* Notes that a process is lost. If it is an aggregator, its workers get results for all from this server. */
void by_served_tree_lose(struct by_served_tree *tree, uint32_t process);

#endif
