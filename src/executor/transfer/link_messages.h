/* Letters on links: they go over the first lane, in order, in parts that no
 * lane keeps, before data that waits. */
#ifndef BY_EXECUTOR_LINK_MESSAGES_H
#define BY_EXECUTOR_LINK_MESSAGES_H

#include "transfer_link.h"

/* For these see engine.h. */
void by_control_messages_expect(struct by_link *link);
BANYAN_CHECK enum banyan_status by_control_messages_write(struct by_link *link, uint32_t team, const void *bytes,
                                                          size_t n);
struct by_control_message *by_control_messages_read(struct by_transfer *transfer);
void by_control_messages_free(struct by_transfer *transfer, struct by_control_message *message);

/* Sends what letters there are; false: the lane takes no more now. */
bool by_control_messages_send(struct by_link *link);
/* A part of one begins; what is wrong with it, or NULL. */
const char *by_control_messages_begin(struct by_link *link, const struct by_frame *frame);
/* Reads more of it; false: there is none. */
bool by_control_messages_receive(struct by_end *end);
/* All of the part is here. */
void by_control_messages_end(struct by_link *link);
void by_control_messages_fini_link(struct by_link *link);
void by_control_messages_fini(struct by_transfer *transfer);

#endif
