/* The memberships of a process, one after the other, and the machine of paxos.h that each of them has. The newest one
 * is where the process is; those before answer members that learn late. Facts about processes are remembered for the
 * memberships that follow. Everything on the loop's thread. */
#ifndef BY_ELASTIC_MACHINES_H
#define BY_ELASTIC_MACHINES_H

#include "facts.h"
#include "loop.h"
#include "paxos.h"

enum { BY_MACHINES_KEPT = 8, BY_EARLY_KEPT = 16 };

struct by_paxos_instance;

/* From within calls of this module. */
struct by_machines_events {
  void (*send)(void *context, const struct by_fingerprint *to, const void *message, size_t length);
  /* A WELCOME of the membership to a newcomer. */
  void (*welcome)(void *context, const struct by_membership *membership, const struct by_fingerprint *to,
                  const void *message, size_t length);
  /* There is a newest membership. */
  void (*entered)(void *context);
  /* This process is in no membership any more. */
  void (*ended)(void *context, const char *text);
  void *context;
};

/* A message about a membership that this process does not know yet. */
struct by_early_message {
  struct by_fingerprint from;
  uint8_t *message; /* NULL: none */
  size_t length;
};

struct by_machines {
  struct by_loop *loop;
  struct by_fingerprint self;
  struct by_machines_events events;
  uint32_t n;
  struct by_paxos_instance *machines[BY_MACHINES_KEPT]; /* the newest first */
  struct by_facts dead, gone;
  struct by_early_message early[BY_EARLY_KEPT]; /* the last ones */
  uint32_t next_early;
  bool leaves;      /* this process wants to */
  char ended[1024]; /* why there is no newest one any more; "": there is, or was never one */
};

void by_machines_init(struct by_machines *machines, struct by_loop *loop, const struct by_fingerprint *self,
                      const struct by_machines_events *events);
void by_machines_fini(struct by_machines *machines);

/* NULL: this process is in none. Borrowed. */
const struct by_membership *by_machines_newest(const struct by_machines *machines);
/* Whether a change is under way, or the newest membership has not met. */
bool by_machines_is_active(const struct by_machines *machines);
bool by_machines_has(const struct by_machines *machines, const struct by_fingerprint *fingerprint);
/* Another membership is the newest, which is taken over, also on failure. This one was formed by its members' wish, and
 * has met: this process takes no part any more in what follows the one before. */
BANYAN_CHECK enum banyan_status by_machines_found(struct by_machines *machines, struct by_membership *membership);
/* To this one, this process is welcome as a newcomer. */
BANYAN_CHECK enum banyan_status by_machines_welcomed(struct by_machines *machines, struct by_membership *membership);
/* A message about one of the memberships, or about one that follows: then its sender is asked for that. */
void by_machines_receive(struct by_machines *machines, const struct by_fingerprint *from, const void *message,
                         size_t length);
/* A change is wanted. */
void by_machines_request(struct by_machines *machines);
/* The members of this membership have met in it. */
void by_machines_formed(struct by_machines *machines, uint64_t number);
/* A process does not answer, is proven dead, or answers again. These start a change only while the newest membership
 * has not met. */
void by_machines_suspect(struct by_machines *machines, const struct by_fingerprint *fingerprint);
void by_machines_dead(struct by_machines *machines, const struct by_fingerprint *fingerprint);
void by_machines_trust(struct by_machines *machines, const struct by_fingerprint *fingerprint);
/* What was sent to this process may be lost: what it has not answered is sent again. */
void by_machines_remind(struct by_machines *machines, const struct by_fingerprint *fingerprint);
/* This process wants to leave: with the next change, or the first one of its first membership. */
void by_machines_leave(struct by_machines *machines);
/* Others wait in vain for the program of this process, in this membership. */
void by_machines_late(struct by_machines *machines, uint64_t number);
/* A newcomer asks. BANYAN_ERR_CLOSED: this process is in no membership. */
BANYAN_CHECK enum banyan_status by_machines_join(struct by_machines *machines, const struct by_fingerprint *newcomer);
void by_machines_withdraw(struct by_machines *machines, const struct by_fingerprint *newcomer);
/* What a change waits for. `text` holds BY_QUORUM_TEXT bytes. Returns `text`. */
const char *by_machines_explain(const struct by_machines *machines, char *text);

#endif
