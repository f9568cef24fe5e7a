/* Units as other programs' files write them: "Mbps", "Gbit/s", "MB/s", "G"; "ms", "usec"; "%". Pure functions, any
 * thread. */
#ifndef BY_TOPOLOGY_FORMATS_TOPOLOGY_UNITS_H
#define BY_TOPOLOGY_FORMATS_TOPOLOGY_UNITS_H

#include <stdbool.h>

#include "fail.h"

enum by_quantity { BY_QUANTITY_NONE, BY_QUANTITY_RATE, BY_QUANTITY_TIME, BY_QUANTITY_SHARE, BY_QUANTITIES };

/* How many bit/s, seconds or parts of one a unit is; 0: the text names no unit of this quantity. Case does not matter,
 * except that "B" means bytes and "b" bits; in "MBPS" the case says nothing, so these are bits. */
double by_unit_factor(enum by_quantity quantity, const char *text);
/* The same for the first word of a sentence that names one, such as "capacity in Mbit/s". */
double by_unit_factor_within(enum by_quantity quantity, const char *sentence);
/* A number of 0 or more, and the factor of the unit behind it; 0: there is no unit. BANYAN_ERR_PARSE. */
BANYAN_CHECK enum banyan_status by_unit_parse(enum by_quantity quantity, const char *text, double *value,
                                              double *factor);

#endif
