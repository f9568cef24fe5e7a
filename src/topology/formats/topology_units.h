/* Parses units as other programs' files write them: "Mbps", "Gbit/s", "MB/s", "G"; "ms", "usec"; "%". Pure,
 * thread-safe. */
#ifndef BY_TOPOLOGY_FORMATS_TOPOLOGY_UNITS_H
#define BY_TOPOLOGY_FORMATS_TOPOLOGY_UNITS_H

#include <stdbool.h>

#include "fail.h"

enum by_quantity { BY_QUANTITY_NONE, BY_QUANTITY_RATE, BY_QUANTITY_TIME, BY_QUANTITY_SHARE, BY_QUANTITIES };

/* Returns a unit in bit/s, seconds or parts of one; 0: the text is no unit of this quantity. Case is ignored, except
 * that "B" means bytes and "b" bits; "MBPS" means bits, since its case is no indication. */
double by_unit_factor(enum by_quantity quantity, const char *text);
/* Returns the factor of the first unit in a sentence such as "capacity in Mbit/s"; 0: none. */
double by_unit_factor_within(enum by_quantity quantity, const char *sentence);
/* Parses a number of 0 or more, and the factor of the unit behind it; 0: there is no unit. BANYAN_ERR_PARSE. */
BANYAN_CHECK enum banyan_status by_unit_parse(enum by_quantity quantity, const char *text, double *value,
                                              double *factor);

#endif
