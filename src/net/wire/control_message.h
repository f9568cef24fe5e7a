/* A control message: bytes between two processes that belong to no call. It travels in
 * frames of type BY_FRAME_CONTROL, whose parts are put together again. */
#ifndef BY_NET_WIRE_CONTROL_MESSAGE_H
#define BY_NET_WIRE_CONTROL_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

enum {
  BY_CONTROL_MESSAGE_BYTES = 16 << 20,
  /* The most that a process keeps of what another one has sent, and of what another one has not taken. */
  BY_CONTROL_MESSAGES_KEPT = BY_CONTROL_MESSAGE_BYTES + (4 << 20)
};

struct by_control_message {
  struct by_control_message *next;
  uint32_t process, team; /* of a received one: its sender */
  size_t bytes, done, capacity;
  unsigned char data[];
};

#endif
