/* A control message: bytes between two processes that belong to no call. It is sent as the parts of frames of type
 * BY_FRAME_CONTROL. */
#ifndef BY_NET_WIRE_CONTROL_MESSAGE_H
#define BY_NET_WIRE_CONTROL_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

enum {
  BY_CONTROL_MESSAGE_BYTES = 16 << 20,
  /* The maximum of bytes that a process keeps of those another one has sent, and of those another one has not taken. */
  BY_CONTROL_MESSAGES_KEPT = BY_CONTROL_MESSAGE_BYTES + (4 << 20)
};

struct by_control_message {
  struct by_control_message *next;
  uint32_t process, team; /* Of a received message: its sender. */
  size_t bytes, done, capacity;
  unsigned char data[];
};

#endif
