/* Settings whose value depends on the peer: "reno@127.0.0.0/8,bbr@10.8.0.0/16,cubic".
 * Items are looked at in order; the first whose subnet holds the peer's
 * address counts, and one without a subnet holds every address. No state. */
#ifndef BY_COMMUNICATOR_CHOOSE_H
#define BY_COMMUNICATOR_CHOOSE_H

#include "address.h"

enum { BY_CHOICE_TEXT = 32 };

/* The value for a peer, "" if there is none. `list` may be NULL; `value` holds BY_CHOICE_TEXT. BANYAN_ERR_PARSE if an
 * item up to the chosen one cannot be read. */
BANYAN_CHECK enum banyan_status by_choose(const char *list, const struct by_address *peer, char *value);
/* Reads the whole list and checks every value. */
BANYAN_CHECK enum banyan_status by_choose_check(const char *list, enum banyan_status (*check)(const char *value));

#endif
