/* What a grant may say, on any switch. */
#ifndef BY_SWITCH_GRANT_H
#define BY_SWITCH_GRANT_H

#include "cell.h"
#include "fail.h"

/* Whether a switch with so many cells and groups can keep it. BANYAN_ERR_ARGUMENT, BANYAN_ERR_UNSUPPORTED name the job.
 */
BANYAN_CHECK enum banyan_status by_grant_check(const struct by_grant *grant, uint32_t cells, uint32_t groups);

#endif
