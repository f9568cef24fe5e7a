/* What the parts of a controller share. */
#ifndef BY_NEGOTIATE_CONTROLLER_PARTS_H
#define BY_NEGOTIATE_CONTROLLER_PARTS_H

#include "negotiation_message.h"
#include "operations.h"

/* The children are being asked which ranks lack this operation. */
struct by_question {
  struct by_question *next;
  struct by_subject subject;
  struct by_stall stall;
  uint64_t until;
  uint32_t n_left, n_lacking; /* children that have not answered; that have answered and lack it */
  bool *left;
};

enum { BY_QUESTIONS_MOST = 64 };

/* The lists of every message. */
struct by_lists_up {
  struct by_list_writer wanted, conflicts, stalled, lacking;
};
struct by_lists_down {
  struct by_list_writer groups, table, refused, asked, notes;
};

struct by_controller {
  struct by_controller_config config;
  uint32_t *up_children, *down_children;
  struct by_operations operations;
  uint64_t place;    /* how far the log is read */
  uint64_t refusal;  /* place of the last refusal */
  uint64_t now;      /* the time that was last passed in */
  uint64_t deadline; /* see by_controller_deadline */
  uint32_t waiting;
  bool dirty;         /* bits have been set since they were last combined */
  bool failed, twice; /* twice: what is being read submits something that is submitted */
  uint64_t reading;   /* how far the sender of that has read the log */

  /* The table. Bits: one row for each child, the own rank's after them. */
  struct by_variant **table;
  uint32_t n_table, room_table, words;
  uint64_t *bits, *complete;
  uint32_t generation, named_starts; /* starts by name in this generation */

  struct by_lists_up up;
  struct by_lists_down down;
  struct by_list_writer message, told; /* told: bits for the message up */
  struct by_question *questions;
  void **cookies; /* of a group */
  uint32_t room_cookies;

  /* The root's. */
  struct by_variant **ready; /* the most urgent first */
  uint32_t n_ready, room_ready;
  struct by_variant **group; /* that is being put together */
  uint32_t n_group, room_group;
  uint32_t next_id;
  uint64_t under_way, iteration;
  bool stepped, renew;
  struct by_controller_counters counters;
};

static inline bool by_is_root(const struct by_controller *c) {
  return c->config.up_parent == c->config.rank;
}

/* Rows of bits: children, then the own rank. */
static inline uint64_t *by_bits_of(const struct by_controller *c, uint32_t row) {
  return c->bits + (size_t)row * c->words;
}

static inline bool by_bit_is_set(const uint64_t *bits, uint32_t bit) {
  return bits[bit / 64] >> (bit % 64) & 1;
}

/* Which child a rank is; UINT32_MAX: none. */
uint32_t by_controller_child(const struct by_controller *c, uint32_t rank);

/* --- controller.c --- */

/* `row` has submitted it. */
BANYAN_CHECK enum banyan_status by_controller_note(struct by_controller *c, struct by_variant *variant, uint32_t row,
                                                   uint32_t witness);
/* Forgets that any rank has submitted it. */
void by_controller_unnote(struct by_controller *c, struct by_variant *variant);
/* Puts it into the root's pool, or into the message up. */
void by_controller_complete(struct by_controller *c, struct by_variant *variant);
/* If ranks have submitted different operations under this name, it is reported upward, or refused. */
void by_controller_compare(struct by_controller *c, struct by_named *named);
void by_controller_conflict(struct by_controller *c, struct by_named *named, const struct by_refusal *refusal);

/* Sends it to all children on the way down. */
void by_controller_send_down(struct by_controller *c, const void *message, size_t bytes);

/* --- controller_log.c --- */

/* Applies a message downward, which has been checked or is this controller's own. */
BANYAN_CHECK enum banyan_status by_controller_apply(struct by_controller *c, const void *message, size_t bytes);

/* Of what is submitted here: whether all below have it too, and that has been reported upward. */
bool by_controller_has_reported(const struct by_controller *c, const struct by_variant *variant);

/* --- controller_root.c --- */

/* All ranks have it: it waits to start, behind what is more urgent. False: no memory. */
bool by_controller_make_ready(struct by_controller *c, struct by_variant *variant);
/* Writes what may start now into the lists downward. */
void by_controller_release(struct by_controller *c);
void by_controller_renew(struct by_controller *c);

/* --- controller_stall.c --- */

/* `late`: some rank no longer waits. */
void by_controller_stalled(struct by_controller *c, const char *name, const struct by_operation *operation, bool late);
void by_controller_ask(struct by_controller *c, const struct by_subject *subject);
void by_controller_answer(struct by_controller *c, uint32_t child, const struct by_stall *lacking);
void by_questions_fini(struct by_controller *c);

#endif
