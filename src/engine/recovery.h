/* Recovery: plans with helpers, and how calls go on after a helper is lost.
 *
 * helped.c: the plans, whose groups have versions of their own.
 * recoverable.c: calls over them, whose parts are repeated among ranks alone.
 * relay.c: what a helper does in the calls of others. */
#ifndef BY_ENGINE_RECOVERY_H
#define BY_ENGINE_RECOVERY_H

#include "call.h"
#include "program.h"

struct by_recovery {
  struct by_runner runner;  /* Must be the first member: a team's runner is its recovery's. */
  LIST_HEAD(, by_call) due; /* Calls whose steps are done that have parts, are parts, or are relayed. */
  bool relays;              /* This process is a helper. */
  bool retry;               /* Frames that were kept may have a call now. */
  uint32_t n_relays;        /* The number of relayed calls under way. */
  size_t relay_bytes;       /* The bytes of their scratch memory. */
  size_t relay_memory;      /* The maximum of relay_bytes. */
};

static inline struct by_recovery *by_recovery_of(const struct by_team *team) {
  return (struct by_recovery *)team->runner;
}

/* ---- helped.c */

/* A group of a plan with helpers: the versions under which its messages travel. */
struct by_helped_group {
  uint32_t class_, group;  /* Indices in the plan. */
  uint32_t version, again; /* Versions of messages through its helpers, and of those among ranks alone. */
  bool lost;               /* One of its helpers is lost: it runs among ranks alone. */
  bool in_network;         /* It is a tree to a server. */
};

/* A plan with helpers, and the plans that replace it where helpers are lost. */
struct by_helped {
  struct by_vertices vertices; /* Must be the first member: programs of its parts point to it. */
  struct by_helped *next;      /* The next older one of the team. */
  struct by_team *team;
  struct by_plan *plan, *among, *confirm; /* With helpers; the same among ranks alone; for confirming results. */
  struct by_plan *rings; /* Among ranks, for calls that switches cannot add; NULL: the plan has no servers. */
  uint32_t confirm_version;
  uint32_t n_groups;
  struct by_helped_group *groups; /* The groups that have helpers, of all classes. */
  uint32_t users;                 /* The number of running calls. */
};

/* The team's plan if it has helpers; otherwise NULL. */
static inline struct by_helped *by_helped_current(const struct by_team *team) {
  struct by_helped *helped = team->recovery.helped;
  return helped && helped->plan == team->plan ? helped : NULL;
}

/* Whether the plan of the team, or of a running call, has in-network trees of this version. */
bool by_helped_uses_trees(const struct by_team *team, uint32_t version);
/* The group of messages with this version, through helpers or among ranks alone; NULL: none. */
struct by_helped_group *by_helped_find(const struct by_helped *helped, uint32_t version);
/* Whether a class has groups with helpers. */
bool by_helped_has(const struct by_helped *helped, uint32_t class_);
/* The program of a part of a class. */
BANYAN_CHECK enum banyan_status by_helped_get(const struct by_helped *helped, const struct by_plan *plan,
                                              uint32_t class_, uint32_t part, uint32_t version,
                                              enum banyan_collective collective, uint32_t root,
                                              struct by_program **out);
/* Frees old plans that no call uses. */
void by_helped_sweep(struct by_team *team);
/* A helper is lost: groups that contain it run among ranks alone. */
void by_helped_lost(const struct by_team *team, uint32_t process);
/* Frees the plans of a team whose calls have ended. */
void by_helped_fini(struct by_team *team);

/* ---- recoverable.c */

/* The part that a frame belongs to; NULL: it is not running. */
struct by_call *by_recoverable_find(const struct by_call *whole, const struct by_frame *frame);
/* The running part i of a call, from 0; NULL: there are no more. */
const struct by_call *by_recoverable_part(const struct by_call *whole, uint32_t i);
/* What to do with a frame whose call is not running: KEEP, HANDLED (dropped), or FOUND if it belongs to no part. */
enum by_unmatched by_recoverable_classify(const struct by_team *team, const struct by_frame *frame);
/* Gives a call over a plan with helpers its parts. */
BANYAN_CHECK enum banyan_status by_recoverable_create(struct by_call *call);
/* Fills the parts before the call begins. On failure the call is unchanged. */
BANYAN_CHECK enum banyan_status by_recoverable_prepare(struct by_call *whole, const struct banyan_call *user);
void by_recoverable_begin(struct by_call *whole);
void by_recoverable_lost(struct by_call *whole);
/* Advances calls whose steps are done. This is not done while bytes move, since it begins calls. */
void by_due_run(struct by_recovery *recovery);
void by_due_add(struct by_call *call);
void by_due_forget(const struct by_team *team);

/* ---- relay.c: used by helpers */

struct by_call *by_relay_find(const struct by_team *team, const struct by_frame *frame);
/* Handles a frame without a running call. *call is the call that was made for it; NULL: the frame is to be kept
 * (`keep`) or dropped. */
BANYAN_CHECK enum banyan_status by_relay_take(struct by_recovery *recovery, struct by_transfer_link *link,
                                              const struct by_frame *frame, struct by_call **call, bool *keep);
/* Ends relayed calls of groups that have lost a helper. */
void by_relay_lost(struct by_team *team);
/* Retries kept frames, since their plan may be known now, or there may be memory for them. */
void by_relay_retry(struct by_recovery *recovery);

#endif
