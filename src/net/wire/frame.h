/* What crosses a link between two ranks: frames of 48 bytes and a payload.
 * Plain data, little endian, laid out without holes; shared by all stream
 * transports. Every frame carries the descriptor of the call it belongs to, so
 * a helper learns calls from frames and a mismatch is found at the first one.
 * docs/wire.md is the same for people: keep the two together. */
#ifndef BY_NET_WIRE_FRAME_H
#define BY_NET_WIRE_FRAME_H

#include <stdint.h>

enum by_frame_type {
  BY_FRAME_NONE = 0,
  BY_FRAME_DATA = 1,    /* payload: bytes offset .. offset + size of the message */
  BY_FRAME_OFFER = 2,   /* payload: struct by_offer; the receiver may read the message in the sender's memory */
  BY_FRAME_MORE = 3,    /* offered message: bytes below `offset` may be read now */
  BY_FRAME_DONE = 4,    /* offered or held message: the receiver has all of it, or needs no more of it */
  BY_FRAME_REFUSE = 5,  /* offered message: the receiver cannot read there; send it as data */
  BY_FRAME_GRANT = 6,   /* message: bytes below `offset` may be sent */
  BY_FRAME_CREDIT = 7,  /* link: `offset` bytes more of eager data have been taken */
  BY_FRAME_FORGET = 8,  /* link: the sender has freed its region number `offset`; unmap it */
  BY_FRAME_GOODBYE = 9, /* link: the sender closes it on purpose */
  BY_FRAME_CONTROL =
      10, /* link: part of a control message of `count` bytes, from `offset` on; `team` is for its reader */
  BY_FRAME_PROBE = 11,      /* link: nobody needs the payload; it shows how fast the link is */
  BY_FRAME_MEMBERSHIP = 12, /* link: all that the sender sends from here on is of the membership number `offset` */
  BY_FRAME_TYPES = 13
};

enum by_frame_flags {
  BY_FRAME_EAGER = 1, /* DATA beyond what was granted; counted against the link's credit */
  BY_FRAME_PAIR = 2,  /* of a send/recv pair, numbered for each peer and tag */
  BY_FRAME_HELD = 8,  /* DATA sent from the sender's memory: answer DONE once all of the message is taken */
  BY_FRAME_ASK = 4,   /* DATA without payload: credit is used up, grant this message */
};

struct by_frame {
  uint32_t size; /* payload bytes that follow */
  uint8_t type;
  uint8_t flags;
  uint8_t collective;
  uint8_t dtype_op; /* dtype << 4 | op */
  uint32_t team;    /* communicator */
  uint32_t call;    /* number of the call in it */
  uint32_t tag;     /* number of the message in the call, for this pair and direction */
  uint32_t root;
  uint64_t offset;
  uint64_t count;        /* of the call; a hash where blocks differ */
  uint32_t plan;         /* version */
  uint32_t length_check; /* low 32 bits of the message's length: both ends must have cut alike */
};

/* Where a message lies in the sender's memory. */
struct by_offer {
  uint64_t address;
  uint64_t ready;         /* bytes that may be read now */
  uint64_t region_offset; /* in the region, if region is not 0 */
  uint64_t region_size;
  uint32_t region;    /* id of shared memory made by banyan_alloc; 0: ordinary memory */
  uint32_t region_fd; /* its descriptor in the sender */
};

_Static_assert(sizeof(struct by_frame) == 48, "the frame has no holes");
_Static_assert(sizeof(struct by_offer) == 40, "the offer has no holes");

/* Most payload of any frame; a larger size is a broken or hostile peer. */
enum { BY_FRAME_MAX = 4 << 20 };

#endif
