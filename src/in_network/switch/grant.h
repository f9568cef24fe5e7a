/* What a grant may say, and who gets its results, on any switch. */
#ifndef BY_SWITCH_GRANT_H
#define BY_SWITCH_GRANT_H

#include "cell.h"
#include "fail.h"

/* One who gets a copy of results for all. */
struct by_switch_target {
  uint32_t port;
  uint32_t address; /* as in packets */
  uint16_t udp_port;
  uint8_t hardware[6]; /* of the next hop; where the kernel finds that, not looked at */
};

/* Whether a switch with so many cells and groups can keep it. BANYAN_ERR_ARGUMENT, BANYAN_ERR_UNSUPPORTED name the job.
 */
BANYAN_CHECK enum banyan_status by_grant_check(const struct by_grant *grant, uint32_t cells, uint32_t groups);

#endif
