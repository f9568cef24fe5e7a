/* What a switch does with a fragment: whether it may pass, to which cell it is added, where it goes. No I/O, clock or
 * memory of its own; compiled for user space and, with clang -target bpf, for XDP. The caller gives the time, finds the
 * grant of the packet's job, calls by_switch_enter and, if that requires a cell, by_cell_decide and by_cell_apply under
 * its lock; then it signs or seals the packet again if it is forwarded. Packets must have passed by_fragment_verify. */
#ifndef BY_IN_NETWORK_ENDPOINTS_CELL_H
#define BY_IN_NETWORK_ENDPOINTS_CELL_H

#include "fragment.h"

enum by_cell_state {
  BY_CELL_FREE = 0,
  BY_CELL_FILLING = 1,
  BY_CELL_COMPLETE = 2, /* The sum stays, for workers whose packets were lost further up. */
  BY_CELL_RELEASED = 3, /* The epoch is over. Without this state a late packet would look like the first one. */
};

/* Properties that all terms of a cell share. */
struct by_shape {
  uint32_t call;
  uint8_t dtype, lines, exponent, group;
};

/* A cell; its sum, of BY_CELL_PAIRS numbers, is stored separately. All zeros: free. */
struct by_cell {
  uint64_t workers; /* Workers whose terms are in the sum. */
  uint64_t check;
  uint32_t epoch;
  uint16_t job; /* With another job or key than the grant's it is free. */
  uint16_t key;
  struct by_shape shape;
  uint32_t confirmed; /* Time in ms when a result showed that the job is at this epoch, or the cell was taken over. */
  uint8_t flags;      /* Sticky flags of its terms. */
  uint8_t expected;   /* Number of workers, as its terms' stack entries state. */
  uint8_t state;
};

enum { BY_CELL_PAIRS = BY_FRAGMENT_LINES * 8 };

/* A job goes from one epoch of a slot to the next, and a cell misses few of them. Epochs that are further away are
 * rejected, unless no result has confirmed the cell's own epoch for so long: then the cell was bypassed, or a forged
 * packet has taken it, and it accepts any epoch. If packets have MACs, earlier epochs are replays by somebody else, so
 * they are rejected for longer. */
enum { BY_CELL_WINDOW = 4, BY_CELL_RESYNC_MS = 250, BY_CELL_RETURN_MS = 60000 };

/* The rights of a job at a switch. A new grant has a new key, which frees its cells. */
struct by_grant {
  uint64_t below; /* Bit set of ports towards workers. */
  uint64_t above; /* Bit set of ports towards the server. */
  uint32_t base;  /* Its cells are base to base + count - 1, for slots 0 to count - 1. */
  uint32_t count;
  uint16_t job;
  uint16_t key;
  uint16_t group; /* Group that gets multicast results. */
  uint8_t dtype;  /* Type of the numbers in its cells. */
  uint8_t keyed;  /* Its fragments have MACs with its hop key, see fragment_mac.h; otherwise seals. */
  uint8_t place;  /* Number of switches between this one and the server, which is the index of its entry in stacks. */
};

/* What happened to a packet. Each packet is counted as exactly one of these. */
enum by_event {
  BY_EVENT_MALFORMED = 0,  /* No fragment; dropped. */
  BY_EVENT_WRONG_KEY = 1,  /* Of an older or invented grant; dropped. */
  BY_EVENT_WRONG_PORT = 2, /* Came in or would leave by a port that the job does not have; dropped. */
  BY_EVENT_NO_GRANT = 3,   /* Forwarded unchanged; a multicast result is dropped. */
  BY_EVENT_NO_ENTRY = 4,   /* Its stack has no entry for this switch; forwarded unchanged. */
  BY_EVENT_NO_CELL = 5, /* The slot is outside the grant, or its cells do not hold this type; forwarded unmerged. In XDP
                         * also a cell that another core kept locked for too long; dropped. */
  BY_EVENT_CONFLICT = 6,   /* The cell has some of its terms, or is of another call or group; forwarded unmerged. */
  BY_EVENT_STALE = 7,      /* Its epoch is over; forwarded unmerged. */
  BY_EVENT_UNMERGED = 8,   /* It came with a flag against merging. */
  BY_EVENT_FORWARDED = 9,  /* Nothing was to be done. */
  BY_EVENT_STORED = 10,    /* The first of its cell; dropped. */
  BY_EVENT_ADDED = 11,     /* Added; dropped. */
  BY_EVENT_COMPLETED = 12, /* The last of its cell; forwarded with the sum. */
  BY_EVENT_REPEATED = 13,  /* It is in the sum already, which is forwarded again. */
  BY_EVENT_DUPLICATE = 14, /* It is in an incomplete cell already, or is a probe about such a cell; dropped. */
  BY_EVENT_RELEASED = 15,  /* A result that has freed its cell. */
  BY_EVENT_RESULT = 16,    /* A result without a cell to free. */
  BY_EVENT_PROBED = 17,
  BY_EVENT_FORGED = 18,   /* Its MAC was not made with the hop key; dropped. */
  BY_EVENT_REPLAYED = 19, /* Its sequence number has come before; dropped. */
  BY_EVENTS = 20
};

enum by_verdict_kind {
  BY_VERDICT_DROP = 0,
  BY_VERDICT_PASS,      /* To its address. */
  BY_VERDICT_FORWARD,   /* By `port`. */
  BY_VERDICT_MULTICAST, /* To the members of the grant's group. */
  BY_VERDICT_CELL,      /* Not decided: call by_cell_decide with cell base + slot. */
};

struct by_verdict {
  uint8_t kind;
  uint8_t port;
  uint8_t event;
  uint8_t workers; /* Number of workers in its stack entry, which this switch waits for. */
  uint8_t keyed;   /* The packet has a MAC. */
};

static inline struct by_verdict by_verdict_drop(enum by_event event) {
  return (struct by_verdict){.kind = BY_VERDICT_DROP, .event = (uint8_t)event};
}

/* Tells whether a fragment may go from one port to another: its type determines the direction, except for a NACK. */
static inline bool by_grant_allows(const struct by_grant *grant, uint32_t type, uint32_t from, uint32_t to) {
  bool up = type == BY_FRAGMENT_UP || type == BY_FRAGMENT_PROBE || type == BY_FRAGMENT_NACK;
  bool down = type != BY_FRAGMENT_UP && type != BY_FRAGMENT_PROBE;
  if (from >= BY_FRAGMENT_PORTS || to >= BY_FRAGMENT_PORTS) return false;
  return (up && (grant->below >> from & 1) && (grant->above >> to & 1)) ||
         (down && (grant->above >> from & 1) && (grant->below >> to & 1));
}

/* Decides about a fragment that may leave by its entry's port. */
static inline struct by_verdict by_switch_route(const struct by_grant *grant, struct by_fragment *fragment,
                                                struct by_hop entry) {
  struct by_verdict verdict = {.kind = BY_VERDICT_FORWARD,
                               .port = entry.port,
                               .event = BY_EVENT_FORWARDED,
                               .workers = entry.workers,
                               .keyed = grant->keyed};
  if (fragment->type == BY_FRAGMENT_PROBE) {
    verdict.event = BY_EVENT_PROBED;
  } else if (fragment->type == BY_FRAGMENT_RESULT) {
    verdict.event = BY_EVENT_RESULT;
  } else if (fragment->type != BY_FRAGMENT_UP) {
    return verdict;
  } else if (fragment->flags & BY_FRAGMENT_UNMERGED) {
    verdict.event = BY_EVENT_UNMERGED;
    return verdict;
  }
  if (!entry.workers) return verdict;
  if (fragment->type == BY_FRAGMENT_UP &&
      (fragment->group == BY_FRAGMENT_UNITED) != (by_hop_kind_of(entry.workers) == BY_HOP_GROUPS)) {
    fragment->flags |= BY_FRAGMENT_BUSY; /* A switch further down that sums up its group is missing. */
    verdict.event = BY_EVENT_CONFLICT;
    return verdict;
  }
  if (fragment->slot < grant->count && (fragment->type != BY_FRAGMENT_UP || fragment->dtype == grant->dtype)) {
    verdict.kind = BY_VERDICT_CELL;
  } else if (fragment->type == BY_FRAGMENT_UP) {
    fragment->flags |= BY_FRAGMENT_BUSY;
    verdict.event = BY_EVENT_NO_CELL;
  }
  return verdict;
}

/* Decides about a fragment that came in by port `from`; `grant` is its job's, or NULL. */
static inline struct by_verdict by_switch_enter(const struct by_grant *grant, struct by_fragment *fragment,
                                                uint32_t from) {
  if (!grant) { /* The job is unknown, so the packet goes to its address, as in any router. */
    bool drops = fragment->type == BY_FRAGMENT_RESULT_MC;
    return (struct by_verdict){.kind = drops ? BY_VERDICT_DROP : BY_VERDICT_PASS, .event = BY_EVENT_NO_GRANT};
  }
  if (grant->key != fragment->key) return by_verdict_drop(BY_EVENT_WRONG_KEY);
  if (fragment->hop >= BY_FRAGMENT_HOPS) return by_verdict_drop(BY_EVENT_MALFORMED); /* It was forwarded in a loop. */
  fragment->hop++;
  if (fragment->type == BY_FRAGMENT_RESULT_MC) {
    /* It needs no stack: it may come only from above, and its members were chosen with the grant. */
    if (from >= BY_FRAGMENT_PORTS || !(grant->above >> from & 1)) return by_verdict_drop(BY_EVENT_WRONG_PORT);
    return (struct by_verdict){.kind = fragment->slot < grant->count ? BY_VERDICT_CELL : BY_VERDICT_MULTICAST,
                               .event = BY_EVENT_RESULT,
                               .keyed = grant->keyed};
  }
  uint32_t at = grant->place;
  if (at >= fragment->hops || at >= BY_FRAGMENT_HOPS)
    return (struct by_verdict){.kind = BY_VERDICT_PASS, .event = BY_EVENT_NO_ENTRY};
  struct by_hop entry = fragment->stack[at];
  if (entry.workers > BY_HOP_MAX) return by_verdict_drop(BY_EVENT_MALFORMED);
  if (!by_grant_allows(grant, fragment->type, from, entry.port)) return by_verdict_drop(BY_EVENT_WRONG_PORT);
  return by_switch_route(grant, fragment, entry);
}

/* An action on the payload. */
enum by_cell_action {
  BY_CELL_LEAVE,    /* No action. */
  BY_CELL_STORE,    /* Copies the payload to the cell. */
  BY_CELL_ADD,      /* Adds the payload to the cell. */
  BY_CELL_ADD_EMIT, /* Adds the payload to the cell, and copies the sum to the packet. */
  BY_CELL_EMIT,     /* Copies the sum to the packet. */
};

static inline bool by_cell_is_of(const struct by_cell *cell, const struct by_fragment *fragment) {
  return cell->state != BY_CELL_FREE && cell->job == fragment->job && cell->key == fragment->key;
}

/* Tells whether the packet's epoch is outside the window around the cell's. */
static inline bool by_cell_is_outside(const struct by_cell *cell, const struct by_fragment *fragment) {
  int32_t after = by_epoch_distance(fragment->epoch, cell->epoch);
  return after > BY_CELL_WINDOW || after < -BY_CELL_WINDOW;
}

/* Tells whether a packet of its job may take the cell nevertheless. `now`: ms. */
static inline bool by_cell_may_resync(const struct by_cell *cell, const struct by_fragment *fragment, bool keyed,
                                      uint32_t now) {
  bool returns = keyed && by_epoch_distance(fragment->epoch, cell->epoch) < 0;
  int32_t wait = returns ? BY_CELL_RETURN_MS : BY_CELL_RESYNC_MS;
  return by_cell_is_outside(cell, fragment) && (int32_t)(now - cell->confirmed) > wait;
}

/* Writes the sum's header into the last packet. It keeps the sender, except that a whole group becomes one sender. */
static inline void by_cell_emit(const struct by_cell *cell, struct by_fragment *fragment) {
  fragment->workers = cell->workers;
  if (by_hop_kind_of(cell->expected) == BY_HOP_WHOLE) {
    fragment->rank = fragment->group & (BY_FRAGMENT_GROUPS - 1);
    fragment->workers = 1ull << fragment->rank;
    fragment->group = BY_FRAGMENT_UNITED;
  }
  fragment->check = cell->check;
  fragment->flags |= (uint8_t)(cell->flags | BY_FRAGMENT_AGGREGATED);
}

/* After adding a term: drops the packet, or forwards it with the sum if it was the last. */
static inline enum by_cell_action by_cell_fill(struct by_cell *cell, struct by_fragment *fragment, bool first,
                                               struct by_verdict *verdict) {
  if (by_worker_count(cell->workers) < by_hop_count(cell->expected)) {
    verdict->kind = BY_VERDICT_DROP;
    verdict->event = first ? BY_EVENT_STORED : BY_EVENT_ADDED;
    return first ? BY_CELL_STORE : BY_CELL_ADD;
  }
  cell->state = BY_CELL_COMPLETE;
  verdict->event = BY_EVENT_COMPLETED;
  by_cell_emit(cell, fragment);
  return first ? BY_CELL_STORE : BY_CELL_ADD_EMIT;
}

static inline enum by_cell_action by_cell_take_over(struct by_cell *cell, struct by_fragment *fragment, uint32_t now,
                                                    struct by_verdict *verdict) {
  *cell =
      (struct by_cell){.workers = fragment->workers,
                       .check = fragment->check,
                       .epoch = fragment->epoch,
                       .job = fragment->job,
                       .key = fragment->key,
                       .shape = {fragment->call, fragment->dtype, fragment->lines, fragment->exponent, fragment->group},
                       .confirmed = now,
                       .flags = fragment->flags & BY_FRAGMENT_STICKY,
                       .expected = verdict->workers,
                       .state = BY_CELL_FILLING};
  return by_cell_fill(cell, fragment, true, verdict);
}

/* Forwards a term that no other switch may merge either: the server adds it. */
static inline enum by_cell_action by_cell_refuse(struct by_fragment *fragment, enum by_fragment_flags flag,
                                                 enum by_event event, struct by_verdict *verdict) {
  fragment->flags |= (uint8_t)flag;
  verdict->event = (uint8_t)event;
  return BY_CELL_LEAVE;
}

/* Handles a term that is in the cell already. */
static inline enum by_cell_action by_cell_repeat(const struct by_cell *cell, struct by_fragment *fragment,
                                                 struct by_verdict *verdict) {
  if (cell->state == BY_CELL_COMPLETE) {
    verdict->event = BY_EVENT_REPEATED;
    by_cell_emit(cell, fragment);
    return BY_CELL_EMIT;
  }
  *verdict = by_verdict_drop(BY_EVENT_DUPLICATE);
  return BY_CELL_LEAVE;
}

/* Handles a term, or a sum of terms from a switch further down. */
static inline enum by_cell_action by_cell_merge(struct by_cell *cell, struct by_fragment *fragment, uint32_t now,
                                                struct by_verdict *verdict) {
  bool mine = by_cell_is_of(cell, fragment) && !by_cell_may_resync(cell, fragment, verdict->keyed, now);
  int32_t after = by_epoch_distance(fragment->epoch, cell->epoch);
  if (mine && (after < 0 || (after == 0 && cell->state == BY_CELL_RELEASED)))
    return by_cell_refuse(fragment, BY_FRAGMENT_STALE, BY_EVENT_STALE, verdict);
  if (mine && after > BY_CELL_WINDOW) return by_cell_refuse(fragment, BY_FRAGMENT_BUSY, BY_EVENT_CONFLICT, verdict);
  if (!mine || after > 0) {
    if (by_worker_count(fragment->workers) > by_hop_count(verdict->workers))
      return by_cell_refuse(fragment, BY_FRAGMENT_BUSY, BY_EVENT_CONFLICT, verdict);
    return by_cell_take_over(cell, fragment, now, verdict);
  }
  uint64_t merged = cell->workers | fragment->workers;
  bool fits = cell->shape.call == fragment->call && cell->shape.dtype == fragment->dtype &&
              cell->shape.lines == fragment->lines && cell->shape.exponent == fragment->exponent &&
              cell->shape.group == fragment->group && cell->expected == verdict->workers;
  if (fits && merged == cell->workers) return by_cell_repeat(cell, fragment, verdict);
  if (!fits || (cell->workers & fragment->workers) || by_worker_count(merged) > by_hop_count(cell->expected))
    return by_cell_refuse(fragment, BY_FRAGMENT_BUSY, BY_EVENT_CONFLICT, verdict);
  cell->workers = merged;
  cell->check += fragment->check;
  cell->flags |= fragment->flags & BY_FRAGMENT_STICKY;
  return by_cell_fill(cell, fragment, false, verdict);
}

/* Frees the cell of a result's epoch, and of earlier ones, whose terms bypassed this switch. A later one stays: a late
 * result must not free a newer sum. */
static inline void by_cell_release(struct by_cell *cell, const struct by_fragment *fragment, uint32_t now,
                                   struct by_verdict *verdict) {
  int32_t after = by_epoch_distance(fragment->epoch, cell->epoch);
  verdict->kind = fragment->type == BY_FRAGMENT_RESULT_MC ? BY_VERDICT_MULTICAST : BY_VERDICT_FORWARD;
  if (!by_cell_is_of(cell, fragment)) return;
  if (by_cell_is_outside(cell, fragment) ? !by_cell_may_resync(cell, fragment, verdict->keyed, now) : after < 0) return;
  cell->confirmed = now;
  if (after == 0 && cell->state == BY_CELL_RELEASED) return;
  if (after) cell->workers = 0;
  cell->epoch = fragment->epoch;
  cell->state = BY_CELL_RELEASED;
  verdict->event = BY_EVENT_RELEASED;
}

/* Tells whether a probe for a result that may not exist stops here: while its term waits in this cell for others,
 * nobody further up needs to know. */
static inline bool by_cell_answers(const struct by_cell *cell, const struct by_fragment *probe) {
  uint64_t workers = probe->workers;
  if (cell->shape.group != probe->group) { /* In sums of groups, its group stands for it. */
    if (cell->shape.group != BY_FRAGMENT_UNITED) return false;
    workers = 1ull << (probe->group & (BY_FRAGMENT_GROUPS - 1));
  }
  return (probe->flags & (BY_FRAGMENT_RETX | BY_FRAGMENT_UNMERGED)) == BY_FRAGMENT_RETX && by_cell_is_of(cell, probe) &&
         cell->epoch == probe->epoch && cell->state == BY_CELL_FILLING && !(workers & ~cell->workers);
}

/* Completes the verdict about a fragment for which by_switch_enter requires its cell, at `now` in ms that wrap, and
 * returns the action on the payload. by_probe_write handles probes. */
static inline enum by_cell_action by_cell_decide(struct by_cell *cell, struct by_fragment *fragment, uint32_t now,
                                                 struct by_verdict *verdict) {
  verdict->kind = BY_VERDICT_FORWARD;
  if (fragment->type == BY_FRAGMENT_UP) return by_cell_merge(cell, fragment, now, verdict);
  if (fragment->type != BY_FRAGMENT_PROBE)
    by_cell_release(cell, fragment, now, verdict);
  else if (by_cell_answers(cell, fragment))
    *verdict = by_verdict_drop(BY_EVENT_DUPLICATE);
  return BY_CELL_LEAVE;
}

/* Writes this switch's record into a probe that passes it; `cell` is NULL without one. The payload ends at `end`; a
 * record that does not fit is omitted. */
static inline void by_probe_write(struct by_probe_payload *payload, const void *end, const struct by_fragment *fragment,
                                  uint32_t place, const struct by_cell *cell) {
  struct by_probe *record = &payload->records[place & (BY_FRAGMENT_HOPS - 1)];
  if ((const void *)(record + 1) > end) return;
  *record = (struct by_probe){.seen = 1};
  if (!cell) return;
  record->granted = 1;
  if (!by_cell_is_of(cell, fragment)) return;
  record->state = cell->state;
  record->group = cell->shape.group;
  record->epoch = cell->epoch;
  record->workers = cell->workers;
}

/* Applies an action to the payload line by line, limited by `lines` and by `end` of the packet. The comparison with
 * `end` proves to the kernel's verifier that it stays in the packet. */
static inline void by_cell_apply(enum by_cell_action action, uint64_t *sum, uint64_t *payload, uint32_t lines,
                                 const void *end) {
  for (uint32_t line = 0; line < BY_FRAGMENT_LINES; line++, sum += 8, payload += 8) {
    if (line >= lines || (const void *)(payload + 8) > end) return;
    if (action == BY_CELL_STORE)
      for (int i = 0; i < 8; i++) sum[i] = payload[i];
    else if (action == BY_CELL_ADD)
      for (int i = 0; i < 8; i++) sum[i] += payload[i];
    else if (action == BY_CELL_ADD_EMIT)
      for (int i = 0; i < 8; i++) payload[i] = sum[i] += payload[i];
    else if (action == BY_CELL_EMIT)
      for (int i = 0; i < 8; i++) payload[i] = sum[i];
  }
}

#endif
