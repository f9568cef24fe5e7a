/* What rank 0 knows of the network, for ranks that are to know it too: NETWORK. As a value, without I/O. */
#ifndef BY_ADAPTATION_NETWORK_MESSAGE_H
#define BY_ADAPTATION_NETWORK_MESSAGE_H

#include <banyan/types.h>

#include "bytes.h"

struct by_network_message {
  enum banyan_plan_source source; /* of plans that are made from it */
  const uint8_t *nodes;           /* borrowed; u32 each in the order of the wire: the node of each host of the job */
  uint32_t n_hosts;               /* 0: nothing is known any more */
  const char *text;               /* the topology as JSON; borrowed; `length` bytes without an end */
  size_t length;
};

void by_network_message_write(struct by_writer *writer, const struct by_network_message *message);
/* `nodes` and `text` are borrowed from the bytes. */
BANYAN_CHECK enum banyan_status by_network_message_read(const void *bytes, size_t length,
                                                        struct by_network_message *out);
uint32_t by_network_message_node(const struct by_network_message *message, uint32_t host);

enum { BY_NETWORK_FIXED_BYTES = 1 + 4 + 4 };

#endif
