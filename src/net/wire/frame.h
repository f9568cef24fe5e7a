/* The frames of a link between two ranks: 48 bytes and a payload. Plain data, little endian, laid out without holes;
 * shared by all stream transports. Every frame carries the descriptor of its call, so a helper learns calls from
 * frames and a mismatch is found at the first one. docs/wire.md describes the same: keep the two together. */
#ifndef BY_NET_WIRE_FRAME_H
#define BY_NET_WIRE_FRAME_H

#include <stddef.h>
#include <stdint.h>

enum by_frame_type {
  BY_FRAME_NONE = 0,
  BY_FRAME_DATA = 1,    /* Payload: bytes offset .. offset + size of the message. */
  BY_FRAME_OFFER = 2,   /* Payload: struct by_offer. The receiver may read the message in the sender's memory. */
  BY_FRAME_MORE = 3,    /* Offered message: bytes below `offset` may be read now. */
  BY_FRAME_DONE = 4,    /* Offered or held message: the receiver has all of it, or needs no more of it. */
  BY_FRAME_REFUSE = 5,  /* Offered message: the receiver cannot read it; send it as data. */
  BY_FRAME_GRANT = 6,   /* Message: bytes below `offset` may be sent. */
  BY_FRAME_CREDIT = 7,  /* Link: `offset` more bytes of eager data have been taken. */
  BY_FRAME_FORGET = 8,  /* Link: the sender has freed its region number `offset`; unmap it. */
  BY_FRAME_GOODBYE = 9, /* Link: the sender closes it on purpose. */
  BY_FRAME_CONTROL =
      10, /* Link: a part of a control message of `count` bytes, from `offset` on; `team` is for its reader. */
  BY_FRAME_PROBE = 11,      /* Link: padding, which measures the link's rate. */
  BY_FRAME_MEMBERSHIP = 12, /* Link: all later frames of the sender belong to membership number `offset`. */
  BY_FRAME_TYPES = 13
};

enum by_frame_flags {
  BY_FRAME_EAGER = 1, /* DATA beyond what was granted, which counts against the link's credit. */
  BY_FRAME_PAIR = 2,  /* Of a send/recv pair, numbered for each peer and tag. */
  BY_FRAME_HELD = 8,  /* DATA sent from the sender's memory: answer DONE once all of the message is taken. */
  BY_FRAME_ASK = 4,   /* DATA without payload: credit is used up, grant this message. */
};

struct by_frame {
  uint32_t size; /* Payload bytes that follow. */
  uint8_t type;
  uint8_t flags;
  uint8_t collective;
  uint8_t dtype_op; /* The type << 4 | the operation. */
  uint32_t team;    /* The communicator. */
  uint32_t call;    /* The number of the call in the team. */
  uint32_t tag;     /* The number of the message in the call, for this pair and direction. */
  uint32_t root;
  uint64_t offset;
  uint64_t count;        /* The count of the call; a hash if blocks differ. */
  uint32_t plan;         /* The plan's version. */
  uint32_t length_check; /* The low 32 bits of the message's length: both ends must divide the call alike. */
};

/* Where a message lies in the sender's memory. */
struct by_offer {
  uint64_t address;
  uint64_t ready;         /* Bytes that may be read now. */
  uint64_t region_offset; /* The offset in the region, if region is not 0. */
  uint64_t region_size;
  uint32_t region;    /* The number of shared memory made by banyan_alloc; 0: ordinary memory. */
  uint32_t region_fd; /* The region's descriptor in the sender. */
};

_Static_assert(sizeof(struct by_frame) == 48, "the frame has no holes");
_Static_assert(sizeof(struct by_offer) == 40, "the offer has no holes");

/* The maximum of payload bytes in a frame; a larger size is an error or an attack. */
enum { BY_FRAME_MAX = 4 << 20 };

/* A control message: bytes between two processes that belong to no call. It is sent as the parts of frames of type
 * BY_FRAME_CONTROL. */

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
