/* Programs for the kernel's network that are so short that no compiler or
 * library is needed to make them. The caller closes *out; what has been attached
 * stays. */
#ifndef BY_LAB_LAB_PROGRAMS_H
#define BY_LAB_LAB_PROGRAMS_H

#include "fail.h"

/* For XDP: lets all packets pass. */
BANYAN_CHECK enum banyan_status by_program_pass(int *out);
/* For filters: drops packets at random, this share of them, 0 .. 1; others are left to what comes next. */
BANYAN_CHECK enum banyan_status by_program_lose(double share, int *out);

#endif
