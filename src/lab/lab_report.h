/* What a lab is and what it has carried, for people and as JSON. Pure. */
#ifndef BY_LAB_LAB_REPORT_H
#define BY_LAB_LAB_REPORT_H

#include "lab.h"
#include "text.h"

/* Adds what would be built: hosts with addresses, links with rates, how much of the rest. */
void by_lab_print_layout(const struct by_lab_layout *layout, const struct by_lab_options *options,
                         struct by_text *text);
/* Adds a table of what each direction of each link carried in `seconds`. */
void by_lab_print_traffic(const struct by_lab_layout *layout, const struct by_lab_traffic *traffic, double seconds,
                          struct by_text *text);
/* The same as one line of JSON, without a newline. */
BANYAN_CHECK enum banyan_status by_lab_print_json(const struct by_lab_layout *layout,
                                                  const struct by_lab_traffic *traffic, double seconds,
                                                  struct by_text *text);

#endif
