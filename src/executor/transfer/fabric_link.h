/* Links through switches. To schedules such a tree is a star: each rank sends its terms to the server and takes the
 * sum from it. Here that pair of messages is handed to a fabric, which reads the terms where they are and writes the
 * sum where it belongs; so neither of them ever becomes a frame.
 *
 *   out  base --------> fabric --> switches --> server
 *   in   target <------ fabric <-- switches <----'
 *
 * All ranks have to begin the same calls in the same order, so messages are queued when their call begins, though
 * nothing of them may be ready yet. */
#ifndef BY_EXECUTOR_FABRIC_LINK_H
#define BY_EXECUTOR_FABRIC_LINK_H

#include "transfer_link.h"

/* Gives the fabric what is new. */
void by_fabric_link_flush(struct by_link *link);
/* Takes from it what is new. False: the fabric has failed. */
bool by_fabric_link_progress(struct by_link *link);

#endif
