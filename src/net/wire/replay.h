/* Sequence numbers of PROBE, PROBE_REPLY and NACK: their receivers, and the switches on their path, take each number
 * of a sender once. They keep the highest number and which of the 63 before it have arrived; an older number, or one
 * that arrives again, is a repetition. Numbers begin with 1 and wrap. Only authenticated packets may be checked.
 * Compiled for the ends, for the switch in user space and for XDP, as fragment.h. */
#ifndef BY_NET_WIRE_REPLAY_H
#define BY_NET_WIRE_REPLAY_H

#include "fragment.h"

enum { BY_REPLAY_WINDOW = 64, BY_REPLAY_SENDERS = 2 * BY_FRAGMENT_GROUPS * BY_FRAGMENT_WORKERS /* Of a grant. */ };

/* All zeros: nothing has arrived yet, and any number is taken. */
struct by_replay_window {
  uint64_t seen; /* Bit i stands for highest - i. */
  uint32_t highest;
};

/* Returns false if the number has arrived before, or may have. */
static inline bool by_replay_take(struct by_replay_window *window, uint32_t number) {
  uint32_t after = number - window->highest, before = window->highest - number;
  if (!window->seen || after - 1 < INT32_MAX) {
    window->seen = window->seen && after < BY_REPLAY_WINDOW ? window->seen << after | 1 : 1;
    window->highest = number;
    return true;
  }
  if (before >= BY_REPLAY_WINDOW || window->seen >> before & 1) return false;
  window->seen |= 1ull << before;
  return true;
}

static inline bool by_fragment_is_numbered(const struct by_fragment *fragment) {
  return fragment->type >= BY_FRAGMENT_PROBE && fragment->type <= BY_FRAGMENT_NACK;
}

/* The sequence number of a numbered fragment. */
static inline uint32_t by_fragment_sequence(const struct by_fragment *fragment) {
  return (uint32_t)fragment->check;
}

/* The index of a fragment's window among those of its grant: one for packets from each worker, and one for packets to
 * it. Answers have their receiver in `dtype` and `exponent`, since `group` and `workers` may name others. A worker
 * that is alone in a group is named by the group. */
static inline uint32_t by_replay_sender(const struct by_fragment *fragment) {
  bool down = fragment->type != BY_FRAGMENT_PROBE;
  uint32_t group = down ? fragment->dtype : fragment->group, worker = down ? fragment->exponent : fragment->rank;
  if (group == BY_FRAGMENT_UNITED) group = worker, worker = 0;
  return (group & (BY_FRAGMENT_GROUPS - 1)) * (2 * BY_FRAGMENT_WORKERS) + (worker & (BY_FRAGMENT_WORKERS - 1)) * 2 +
         down;
}

#endif
