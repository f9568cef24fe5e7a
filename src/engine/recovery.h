/* Recovery: plans with helpers, and what makes up for one that is lost.
 *
 * helped.c: the plans, whose groups travel under versions of their own.
 * recoverable.c: calls over them, whose parts are repeated among ranks alone.
 * relay.c: what a helper does in the calls of others. */
#ifndef BY_ENGINE_RECOVERY_H
#define BY_ENGINE_RECOVERY_H

#include "call.h"
#include "program.h"

struct by_recovery {
  struct by_runner runner;  /* the first member: a team's runner is its recovery's */
  LIST_HEAD(, by_call) due; /* calls with all steps done that have parts, are parts, or are relayed */
  bool relays;              /* this is a helper */
  bool retry;               /* frames that were kept may have a call now */
  uint32_t n_relays;        /* The number of relayed calls under way. */
  size_t relay_bytes;       /* The bytes of their scratch memory. */
  size_t relay_memory;      /* The most bytes that relay_bytes may be. */
};

static inline struct by_recovery *by_recovery_of(const struct by_team *team) {
  return (struct by_recovery *)team->runner;
}

/* ---- helped.c */

/* A group of a plan with helpers: the versions under which its messages travel. */
struct by_helped_group {
  uint32_t class_, group;  /* of the plan */
  uint32_t version, again; /* through its helpers; among ranks alone */
  bool lost;               /* one of its helpers: it goes among ranks alone */
  bool in_network;         /* it is a tree to a server */
};

/* A plan with helpers, and what makes up for one that is lost. */
struct by_helped {
  struct by_vertices vertices; /* the first member: programs of its parts point there */
  struct by_helped *next;      /* an older one of the team */
  struct by_team *team;
  struct by_plan *plan, *among, *confirm; /* with helpers; among ranks; how all ranks confirm that they have results */
  struct by_plan *rings;                  /* among ranks, for what switches do not add; NULL: the plan has no servers */
  uint32_t confirm_version;
  uint32_t n_groups;
  struct by_helped_group *groups; /* those that have helpers, of all classes */
  uint32_t users;                 /* calls under way */
};

/* The team's plan, if it has helpers; or NULL. */
static inline struct by_helped *by_helped_current(const struct by_team *team) {
  struct by_helped *helped = team->recovery.helped;
  return helped && helped->plan == team->plan ? helped : NULL;
}

/* Makes a plan with helpers the team's; see by_team_set_helped_plan. */
BANYAN_CHECK enum banyan_status by_helped_use(struct by_team *team, struct by_plan *plan, const uint32_t *helpers,
                                              uint32_t trees);
/* Whether the team's plan, or that of a call under way, has in-network trees of this version. */
bool by_helped_uses_trees(const struct by_team *team, uint32_t version);
/* The group whose messages travel under this version, through its helpers or among ranks alone; NULL: none. */
struct by_helped_group *by_helped_find(const struct by_helped *helped, uint32_t version);
/* Whether a class has groups with helpers. */
bool by_helped_has(const struct by_helped *helped, uint32_t class_);
/* The program of a part, of one of its plans. */
BANYAN_CHECK enum banyan_status by_helped_get(const struct by_helped *helped, const struct by_plan *plan,
                                              uint32_t class_, uint32_t part, uint32_t version,
                                              enum banyan_collective collective, uint32_t root,
                                              struct by_program **out);
/* Frees old ones that no call uses. */
void by_helped_sweep(struct by_team *team);
/* A helper is gone: groups that lack it go among ranks alone. */
void by_helped_lost(const struct by_team *team, uint32_t process);
/* The team goes away; its calls have ended. */
void by_helped_fini(struct by_team *team);

/* ---- recoverable.c */

/* The part that a frame is for; NULL: it is not under way. */
struct by_call *by_recoverable_find(const struct by_call *whole, const struct by_frame *frame);
/* Part i of what is under way for a call, from 0; NULL: there are no more. */
const struct by_call *by_recoverable_part(const struct by_call *whole, uint32_t i);
/* Of a frame whose call is not under way: kept, handled (dropped), or found, which is that it is none of a part. */
enum by_unmatched by_recoverable_classify(const struct by_team *team, const struct by_frame *frame);
/* Makes a call over a plan with helpers one that has parts. */
BANYAN_CHECK enum banyan_status by_recoverable_create(struct by_call *call);
/* Before the call begins; on failure it is as before. */
BANYAN_CHECK enum banyan_status by_recoverable_prepare(struct by_call *whole, const struct banyan_call *user);
void by_recoverable_begin(struct by_call *whole);
void by_recoverable_lost(struct by_call *whole);
/* Goes on with calls that have all steps done. They are not looked at while bytes move, for what follows begins calls.
 */
void by_due_run(struct by_recovery *recovery);
void by_due_add(struct by_call *call);
void by_due_forget(const struct by_team *team);

/* ---- relay.c: of helpers */

struct by_call *by_relay_find(const struct by_team *team, const struct by_frame *frame);
/* A frame of no call under way. *call is the one that was made for it; NULL: it is to be kept (`keep`) or dropped. */
BANYAN_CHECK enum banyan_status by_relay_take(struct by_recovery *recovery, struct by_transfer_link *link,
                                              const struct by_frame *frame, struct by_call **call, bool *keep);
/* Gives up those of groups that are lost. */
void by_relay_lost(struct by_team *team);
/* Frames that were kept: their plan may be known now, or there may be room. */
void by_relay_retry(struct by_recovery *recovery);

#endif
