/* The memberships of a process, one after the other, and the machine of paxos.h that each of them has. The newest one
 * is where the process is; those before answer members that learn late. Facts about processes are remembered for the
 * memberships that follow. Everything on the loop's thread. */
#ifndef BY_ELASTIC_MACHINES_H
#define BY_ELASTIC_MACHINES_H

#include "loop.h"
#include "member_records.h"
#include "paxos.h"

enum { BY_MACHINES_KEPT = 8, BY_EARLY_KEPT = 16 };

struct by_paxos_instance;

/* Called from within this module's functions. */
struct by_machines_events {
  void (*send)(void *context, const struct by_fingerprint *to, const void *message, size_t length);
  /* A WELCOME of the membership to a newcomer. */
  void (*welcome)(void *context, const struct by_membership *membership, const struct by_fingerprint *to,
                  const void *message, size_t length);
  /* Another membership is the newest one. */
  void (*entered)(void *context);
  /* This process is in no membership any more. */
  void (*ended)(void *context, const char *text);
  void *context;
};

/* A message about a membership that is not known to this process yet. */
struct by_early_message {
  struct by_fingerprint from;
  uint8_t *message; /* NULL if the entry is unused. */
  size_t length;
};

struct by_machines {
  struct by_loop *loop;
  struct by_fingerprint self;
  struct by_machines_events events;
  uint32_t n;
  struct by_paxos_instance *machines[BY_MACHINES_KEPT]; /* The newest machine comes first. */
  struct by_facts dead, gone;
  struct by_early_message early[BY_EARLY_KEPT]; /* The most recent messages, in a ring. */
  uint32_t next_early;
  bool leaves;      /* This process wants to leave. */
  char ended[1024]; /* Why this process is in no membership any more; "" if it is in one, or never was. */
};

void by_machines_init(struct by_machines *machines, struct by_loop *loop, const struct by_fingerprint *self,
                      const struct by_machines_events *events);
void by_machines_fini(struct by_machines *machines);

/* Returns the newest membership, borrowed; NULL if this process is in none. */
const struct by_membership *by_machines_newest(const struct by_machines *machines);
/* Whether a change is under way, or the newest membership has not met. */
bool by_machines_is_active(const struct by_machines *machines);
bool by_machines_has(const struct by_machines *machines, const struct by_fingerprint *fingerprint);
/* Enters a membership that its members formed explicitly and that has met. The membership is taken over, also on
 * failure. This process leaves the preceding membership, and takes no part in its successor. */
BANYAN_CHECK enum banyan_status by_machines_found(struct by_machines *machines, struct by_membership *membership);
/* Enters a membership to which this process was welcomed as a newcomer. It is taken over, also on failure. */
BANYAN_CHECK enum banyan_status by_machines_welcomed(struct by_machines *machines, struct by_membership *membership);
/* Handles a message about one of the memberships. If it is about an unknown later one, its sender is asked for that. */
void by_machines_receive(struct by_machines *machines, const struct by_fingerprint *from, const void *message,
                         size_t length);
/* Requests a change of the newest membership. */
void by_machines_request(struct by_machines *machines);
/* The members of this membership have met in it. */
void by_machines_formed(struct by_machines *machines, uint64_t number);
/* Report that a process does not answer, is proven dead, or answers again. They start a change only while the newest
 * membership has not met. */
void by_machines_suspect(struct by_machines *machines, const struct by_fingerprint *fingerprint);
void by_machines_dead(struct by_machines *machines, const struct by_fingerprint *fingerprint);
void by_machines_trust(struct by_machines *machines, const struct by_fingerprint *fingerprint);
/* Resends what this process has not answered, since messages to it may be lost. */
void by_machines_remind(struct by_machines *machines, const struct by_fingerprint *fingerprint);
/* Notes that this process wants to leave with the next change; before its first membership, with the first change of
 * that. */
void by_machines_leave(struct by_machines *machines);
/* Reports that the other members of this membership wait for this process's program. */
void by_machines_late(struct by_machines *machines, uint64_t number);
/* Handles a newcomer's request to join. Returns BANYAN_ERR_CLOSED if this process is in no membership. */
BANYAN_CHECK enum banyan_status by_machines_join(struct by_machines *machines, const struct by_fingerprint *newcomer);
void by_machines_withdraw(struct by_machines *machines, const struct by_fingerprint *newcomer);
/* Describes what a change waits for. `text` holds BY_QUORUM_TEXT bytes. Returns `text`. */
const char *by_machines_explain(const struct by_machines *machines, char *text);

#endif
