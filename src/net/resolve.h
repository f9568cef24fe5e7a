/* Looking up a name without waiting for it: a thread of its own asks the
 * system's resolver, and may go on asking after it is no longer wanted. */
#ifndef BY_NET_RESOLVE_H
#define BY_NET_RESOLVE_H

#include "address.h"

struct by_resolving;

/* Begins with what by_address_resolve takes. A name may have several addresses (::1 before 127.0.0.1), of which one
 * answers: who tries again and again counts `turn` up, and gets one after the other. */
enum banyan_status by_resolving_start(const char *text, unsigned turn, struct by_resolving **out) BANYAN_CHECK;
/* *done false: not yet. Else the address whose turn it is, or why there is none. */
enum banyan_status by_resolving_look(struct by_resolving *resolving, struct by_address *out, bool *done) BANYAN_CHECK;
/* The same with all of them: up to `most`, the likeliest first. */
enum banyan_status by_resolving_look_all(struct by_resolving *resolving, struct by_address *out, size_t most, size_t *n,
                                         bool *done) BANYAN_CHECK;
/* NULL is allowed. Does not wait. */
void by_resolving_destroy(struct by_resolving *resolving);

#endif
