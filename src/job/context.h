/* A context: this process's part in a job. It holds the engine, the members, the connections to them, and two threads:
 * one accepts and makes connections and handles control messages; the other is that of progress.h. All communicators of
 * the job share it; the last one that is destroyed ends it, unless requests are left.
 *
 * Threads: the job's lock guards everything but the loop and the control connections, which the loop's thread owns.
 * What a higher module keeps here is in a struct that only its file changes. */
#ifndef BY_JOB_CONTEXT_H
#define BY_JOB_CONTEXT_H

#include <stdatomic.h>

#include <banyan/collectives.h>

#include "descriptor.h"
#include "observe.h"
#include "progress.h"
#include "region.h"

struct by_control;
struct by_connector;
struct by_context_events;
struct by_ledger;
struct by_timeline;

/* The life of a context, from one to the next: JOINS -> RUNS when all have joined and its threads may run; then
 * LEAVES. One that could not join is freed as it is. */
enum by_context_state { BY_CONTEXT_JOINS, BY_CONTEXT_RUNS, BY_CONTEXT_LEAVES };

/* request.c: requests with a callback, oldest first, and the number of callbacks that are running. */
struct by_given_requests {
  struct banyan_request *first, **end;
  uint32_t notifying;
};

/* What a context keeps for the capabilities; see feature.h. */
enum { BY_FEATURES_MAX = 8 };
struct by_feature_states {
  void *states[BY_FEATURES_MAX]; /* by the capability's place in by_features; NULL: it keeps nothing */
  uint32_t active;               /* bits of the active ones */
  bool detached;                 /* Their hooks are called no more, but `fini`. */
};

/* comm.c: the regions of banyan_alloc, and how many of them were freed while a call used them. */
struct by_memory {
  struct by_regions regions;
  uint32_t doomed;
};

/* plans.c */
struct by_job_plans {
  struct by_plan *given;   /* was planned when the job started; NULL: none was */
  uint32_t set_up;         /* plans that the job's own communicator was given whose in-network trees were set up then */
  struct by_plan *chosen;  /* that communicator's, if the program has set it: for later memberships; NULL: it has not */
  struct by_plan *through; /* rank 0: the plan of that communicator, with switches; NULL: it has no in-network trees */
  bool logged_apart, logged_operations; /* why in-network trees go among ranks */
};

struct by_context {
  struct by_job job;
  struct by_progress progress;
  enum by_context_state state;
  bool is_interrupted;            /* by_context_interrupt: others are not notified of the failure; */
  uint64_t moved;                 /* and what had moved when it last looked */
  struct by_context *next_joined; /* another job of this process, or NULL */
  uint32_t generation;            /* see by_process_generation */
  uint32_t references;            /* communicators and requests */
  struct banyan_comm *comms;      /* all of the job */
  pthread_t thread;               /* the loop's */
  struct by_timeline *timeline;
  struct by_control *control;
  struct by_connector *connector;
  bool managed; /* There is an agent or manager, which plans for the job. */
  struct by_observation observed;
  struct by_memory memory;
  struct by_job_plans plans;
  bool replans;           /* Communicators of all ranks get the plans that rank 0 comes to later. */
  atomic_bool ends;       /* set when it is destroyed, so that threads that plan end soon */
  uint64_t plan_switches; /* plan_switch.c: to other plans while calls went on */
  struct by_given_requests given;
  struct by_any *anys; /* calls.c: receives from any rank that have none yet */
  struct by_feature_states features;
  struct by_ledger *ledger; /* of communicators that were destroyed after the membership failed; NULL: it is none */
};

/* The environment's settings, and before them those of the program's options; NULL: none. Strings are borrowed. */
BANYAN_CHECK enum banyan_status by_context_settings(const struct banyan_options *options, struct by_settings *out);
/* `role` NULL: a rank of the settings' job. A formation is borrowed until this returns. */
BANYAN_CHECK enum banyan_status by_context_create(const struct banyan_options *options, const struct by_job_role *role,
                                                  const struct by_context_events *events, struct by_context **out);
/* One reference more. Under lock. */
static inline void by_context_hold(struct by_context *context) {
  context->references++;
}
/* One less: the last one ends it. Unlocks it. */
void by_context_unlock_and_release(struct by_context *context);
void by_context_release(struct by_context *context);
/* This process is in a later membership: what it still has to send goes out, for at most a second, the others learn
 * that it has left, and calls under way and later ones end with BANYAN_ERR_CLOSED and this text. If it has failed
 * before, later ones keep the status, and have the text behind the reason. The communicators stay until they are
 * destroyed. */
void by_context_retire(struct by_context *context, const char *text);
/* Another membership follows this one, or this process is in it no more: calls under way and later ones end with
 * BANYAN_ERR_CLOSED and this text, here only. Unless it is to happen at once, nothing does while calls come forward,
 * from one such call to the next: returns whether it is done. Any thread. */
bool by_context_interrupt(struct by_context *context, const char *text, bool at_once);
/* The lanes that a retired context has to processes that are in this membership, too, go on here. Others end, so that
 * no process waits for a lane that has no other end any more. */
void by_context_keep_lanes(struct by_context *context, struct by_context *before);
/* A membership, of which `memberships` is known, the number of those in a row up to it: begins what goes on from one to
 * the next, before its first call. On failure it ends on all ranks. */
BANYAN_CHECK enum banyan_status by_context_go_on(struct by_context *context, uint64_t memberships);
/* Whether this process was made by fork() since: its descriptors are closed, the threads and whoever held the locks are
 * not here, and what lies in shared memory is the parent's. So nothing is done with it, not even freeing it. */
static inline bool by_context_is_of_parent(const struct by_context *context) {
  return context->generation != by_process_generation();
}
/* BANYAN_ERR_ARGUMENT: that is so. */
BANYAN_CHECK enum banyan_status by_context_check_process(const struct by_context *context);
/* Ends the job on all ranks, because this one cannot do `what`, for the reason in the thread's error text; returns
 * `status` with the whole text. Takes the lock. */
enum banyan_status by_context_fail(struct by_context *context, enum banyan_status status, const char *what);
/* This process has failed the job: blocks until the others know, for half a second at most. Takes the lock. */
void by_context_settle(struct by_context *context);
/* Copies a struct of a program that was built against an earlier version and so knows only its first `given` bytes (0:
 * all); members that it lacks are 0. BANYAN_ERR_UNSUPPORTED: the program was built for a later version. */
BANYAN_CHECK enum banyan_status by_copy_versioned(const char *name, const void *from, size_t given, void *to,
                                                  size_t bytes);
/* The engine's status, with its text. Under lock. */
BANYAN_CHECK enum banyan_status by_context_status(const struct by_context *context);
/* Something that is no call waits for these processes since then: the members' services ask whether they run. Nothing
 * where there are none. */
void by_context_waits_for(const struct by_context *context, uint64_t since, const uint32_t *processes, uint32_t n);
static inline const char *by_context_name(void *context, uint32_t process) {
  return by_job_name(&((struct by_context *)context)->job, process);
}
/* The host of this process answers nothing any more; any thread. */
void by_context_vanished(void *argument, uint32_t process);

/* The job's, see there. */
static inline void by_context_lock(struct by_context *context) {
  by_job_lock(&context->job);
}
static inline void by_context_unlock(struct by_context *context) {
  by_job_unlock(&context->job);
}

/* A region of the job's memory; under lock, as the next two. */
void by_memory_add(struct by_context *context, struct by_region *region);
/* Such a region is to be freed. */
void by_memory_doom(struct by_context *context, struct by_region *region);
/* Frees what was to be freed and is not used any more. */
void by_memory_sweep(struct by_context *context);

#endif
