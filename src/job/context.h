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
  void *states[BY_FEATURES_MAX]; /* By the capability's place in by_features; NULL: it keeps nothing. */
  uint32_t active;               /* Bits of active capabilities. */
  bool detached;                 /* Their hooks are called no more, but `fini`. */
};

/* comm.c: the regions of banyan_alloc, and how many of them were freed while a call used them. */
struct by_memory {
  struct by_regions regions;
  uint32_t doomed;
};

/* plans.c */
struct by_job_plans {
  struct by_plan *given;   /* The plan that was made when the job started; NULL: none was. */
  uint32_t set_up;         /* Number of plans with in-network trees that the job's own communicator was given. */
  struct by_plan *chosen;  /* The plan that the program has set for that communicator; NULL: none. */
  struct by_plan *through; /* Rank 0: the plan of that communicator, with switches; NULL: it has no in-network trees. */
  bool logged_apart, logged_operations; /* The reasons for doing without in-network trees that were logged. */
};

struct by_context {
  struct by_job job;
  struct by_progress progress;
  enum by_context_state state;
  bool is_interrupted; /* by_context_interrupt has ended calls here: others are not notified of the failure. */
  uint64_t moved;      /* Progress at the last look of by_context_interrupt. */
  struct by_context *next_joined; /* Another job of this process; NULL: none. */
  uint32_t generation;            /* The process generation in which it was made, see by_process_generation. */
  uint32_t references;            /* Number of communicators and requests that hold it. */
  struct banyan_comm *comms;      /* All communicators of the job. */
  pthread_t thread;               /* The loop's thread. */
  struct by_timeline *timeline;
  struct by_control *control;
  struct by_connector *connector;
  bool managed; /* There is an agent or manager, which plans for the job. */
  struct by_observation observed;
  struct by_memory memory;
  struct by_job_plans plans;
  bool replans;           /* Communicators of all ranks get the plans that rank 0 comes to later. */
  atomic_bool ends;       /* Set when it is destroyed, so that planning threads end soon. */
  uint64_t plan_switches; /* plan_switch.c: switches to other plans while calls were made. */
  struct by_given_requests given;
  struct by_any *anys; /* calls.c: receives from any rank without a message yet. */
  struct by_feature_states features;
  struct by_ledger *ledger; /* Outcomes of communicators destroyed after the membership failed; NULL: no membership. */
};

/* Reads the settings: the program's options take precedence over the environment; `options` NULL: none. Strings are
 * borrowed. */
BANYAN_CHECK enum banyan_status by_context_settings(const struct banyan_options *options, struct by_settings *out);
/* Makes a context and joins. `role` NULL: a rank of the settings' job. A formation is borrowed until this returns. */
BANYAN_CHECK enum banyan_status by_context_create(const struct banyan_options *options, const struct by_job_role *role,
                                                  const struct by_context_events *events, struct by_context **out);
/* Adds a reference. Under lock. */
static inline void by_context_hold(struct by_context *context) {
  context->references++;
}
/* Unlocks the context and drops a reference; the last one ends it. */
void by_context_unlock_and_release(struct by_context *context);
void by_context_release(struct by_context *context);
/* Retires the context, as this process is in a later membership. Sends pending data, for at most a second, and that
 * this process has left. Calls in progress and later ones end with BANYAN_ERR_CLOSED and this text. If the context has
 * failed before, later calls keep that status, and the text follows the reason. The communicators stay until they are
 * destroyed. */
void by_context_retire(struct by_context *context, const char *text);
/* Ends calls in progress and later ones with BANYAN_ERR_CLOSED and this text, on this process only: another membership
 * follows, or this process is in none any more. Unless `at_once`, waits until calls stop progressing, and is to be
 * called again until it returns true. Any thread. */
bool by_context_interrupt(struct by_context *context, const char *text, bool at_once);
/* Moves the lanes that a retired context has to processes of this membership into this context. Others end, so that no
 * process waits for a lane without another end. */
void by_context_keep_lanes(struct by_context *context, struct by_context *before);
/* Begins what goes on from one membership to the next, before this one's first call; `memberships`: the number of
 * memberships in a row up to this one. On failure the membership ends on all ranks. */
BANYAN_CHECK enum banyan_status by_context_go_on(struct by_context *context, uint64_t memberships);
/* Returns whether this process was made by fork() after the context. Then its descriptors are closed, its threads and
 * the holders of its locks do not exist, and its shared memory is the parent's. So nothing is done with it; it is not
 * even freed. */
static inline bool by_context_is_of_parent(const struct by_context *context) {
  return context->generation != by_process_generation();
}
/* Returns BANYAN_ERR_ARGUMENT if by_context_is_of_parent. */
BANYAN_CHECK enum banyan_status by_context_check_process(const struct by_context *context);
/* Ends the job on all ranks, because this one cannot do `what`, with the reason in the thread's error text; returns
 * `status` with the whole text. Takes the lock. */
enum banyan_status by_context_fail(struct by_context *context, enum banyan_status status, const char *what);
/* Blocks until the others know that this process has failed the job, for half a second at most. Takes the lock. */
void by_context_settle(struct by_context *context);
/* Copies a struct of a program that may have been built against an earlier version: its first `given` bytes (0: all);
 * the other members are 0. BANYAN_ERR_UNSUPPORTED: the program was built for a later version. */
BANYAN_CHECK enum banyan_status by_copy_versioned(const char *name, const void *from, size_t given, void *to,
                                                  size_t bytes);
/* Returns the engine's status, with its text. Under lock. */
BANYAN_CHECK enum banyan_status by_context_status(const struct by_context *context);
/* Reports that something other than a call has waited for these processes since then: the members' services ask whether
 * they run. Does nothing without such services. */
void by_context_waits_for(const struct by_context *context, uint64_t since, const uint32_t *processes, uint32_t n);
static inline const char *by_context_name(void *context, uint32_t process) {
  return by_job_name(&((struct by_context *)context)->job, process);
}
/* Notes that the host of this process does not answer any more; any thread. */
void by_context_vanished(void *argument, uint32_t process);

/* Lock and unlock the job, see by_job_lock. */
static inline void by_context_lock(struct by_context *context) {
  by_job_lock(&context->job);
}
static inline void by_context_unlock(struct by_context *context) {
  by_job_unlock(&context->job);
}

/* Adds a region to the job's memory; under lock, as the next two. */
void by_memory_add(struct by_context *context, struct by_region *region);
/* Frees a region, or marks it to be freed once calls do not use it any more. */
void by_memory_doom(struct by_context *context, struct by_region *region);
/* Frees marked regions that are not used any more. */
void by_memory_sweep(struct by_context *context);

#endif
