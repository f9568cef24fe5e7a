/* The keys under which links of helpers and servers are opened (job_key.h), with the list of members from rank 0. They
 * are masked: without encryption others may read the list, but not these, unless they have the key with which the
 * receiver joined. */
#ifndef BY_JOB_CONTROL_LINK_KEYS_H
#define BY_JOB_CONTROL_LINK_KEYS_H

#include "connector.h"
#include "control_peers.h"

/* Rank 0: makes the membership's key of links, which the connector gets, too. */
BANYAN_CHECK enum banyan_status by_link_keys_make(struct by_connector *connector, struct by_key *links);
/* Rank 0: for a rank, the key of links; for a helper, its own one, and those of its links to helpers before it. */
BANYAN_CHECK enum banyan_status by_link_keys_write(const struct by_control_peers *peers, const struct by_key *links,
                                                   uint32_t process, struct by_writer *writer);
/* Others: the connector gets them. There are so many helpers `before` this one, at ranks none. */
BANYAN_CHECK enum banyan_status by_link_keys_read(const struct by_control_peers *peers, struct by_connector *connector,
                                                  uint32_t before, struct by_reader *reader);

#endif
