/* What comes in on a link. A frame belongs to a message of a call that was
 * made here, or it is kept until the call is made; its payload goes where it
 * is needed: added straight from the lane's memory if its turn has come, into
 * the user's buffer if nothing is to be added, else into the message's ring. */
#ifndef BY_EXECUTOR_DELIVER_H
#define BY_EXECUTOR_DELIVER_H

#include "transfer_link.h"

/* Takes what has come of one frame. False: all of that has been taken, and more of it has to come. */
bool by_deliver(struct by_end *end);
/* Fails, since the peer sent what it must not. Returns false. */
bool by_deliver_broken(struct by_link *link, const char *what);
/* Hands a new exchange the frames that came before it. */
void by_deliver_stored(struct by_link *link, struct by_exchange *exchange);
/* Throws away the frames that came for calls of a domain that will not be made. */
void by_deliver_forget(struct by_link *link, uint32_t team);
/* The same for one call, and one version; 0: any. */
void by_deliver_forget_call(struct by_link *link, uint32_t team, uint32_t call, uint32_t version);

#endif
