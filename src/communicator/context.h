/* A context: this process's part in a job. It holds the engine, the members,
 * the connections to them, and two threads: one accepts and makes connections
 * and hears of deaths; the other moves bytes while calls are under way and
 * nobody waits. All communicators of the job share it; the last one that is
 * destroyed ends it.
 *
 * Threads: `lock` guards the engine and everything marked so. The loop's
 * thread owns the loop and the control connections. */
#ifndef BY_COMMUNICATOR_CONTEXT_H
#define BY_COMMUNICATOR_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>

#include <banyan/collectives.h>

#include "descriptor.h"
#include "job_state.h"
#include "move.h"
#include "observe.h"
#include "region.h"

struct by_any;
struct by_agent_client;
struct by_agent_events;
struct by_control;
struct by_control_events;
struct by_connector;
struct by_sparse_exchange;
struct by_sparse_queue;
struct by_submitted;
struct by_submitter;
struct by_timeline;
struct by_tree_word;
struct by_udp;

struct by_context {
  struct by_job job;
  struct by_context *next_joined;  /* another job of this process, or NULL */
  uint32_t generation;             /* see by_process_generation */
  enum banyan_plan_source planned; /* the plan in the settings was planned when the job started, so; else 0. Under lock,
                                      as settings.plan */
  bool parting;                    /* goodbye is being said, to peers whose link begins only now too; under lock */
  struct by_observation observed;  /* under lock */
  uint32_t references;             /* communicators; under lock */

  struct by_timeline *timeline;
  struct by_regions regions; /* of banyan_alloc; under lock */
  uint32_t doomed;           /* of them, freed while a call used them */
  uint64_t moves;            /* to other plans while calls went on; under lock */
  struct banyan_comm *comms; /* all of the job; under lock */
  uint32_t sparse;           /* of them, those that have made sparse calls; under lock */
  uint64_t sparse_seen;      /* calls that had ended when they were last looked at */
  struct by_any *anys;       /* receives from any rank that have none yet; under lock */
  /* requests whose end somebody is to be told, oldest first, and how many are being told; under lock: see then.c */
  struct banyan_request *given, **given_end;
  uint32_t telling;
  /* submitting; under lock */
  uint32_t submitters;        /* communicators that have one */
  bool listens;               /* there are controllers: letters may come at any time */
  bool listening;             /* the progress thread sleeps until some do */
  uint32_t submitted;         /* operations that have not ended, */
  uint64_t submissions_ended; /* and those that have */
  uint64_t submit_seen;       /* as sparse_seen */
  struct by_letter *letters;  /* for communicators that are not made yet */
  uint32_t n_letters;
  uint32_t *control_up, *control_down; /* parents of hosts, by a topology; NULL: none is known */
  /* waiting; under lock: see wait.c */
  enum { BY_DRIVER_NONE, BY_DRIVER_USER, BY_DRIVER_HELPER } driver;
  bool user_sleeps;    /* a user thread drives and sleeps until an event, without the lock */
  uint32_t idlers;     /* user threads that wait for it */
  pthread_cond_t work; /* for the progress thread: calls are under way and nobody drives */
  pthread_t progress;  /* started with the first call that nobody waits for */
  bool has_progress, progress_idle;
  uint32_t rounds; /* of progress, in whatever thread */
  uint64_t spin;   /* nanoseconds */
  int data_poll;   /* epoll over all lanes and wake */

  pthread_t thread; /* the loop's */
  bool has_thread;
  struct by_control *control;
  struct by_connector *connector;
  struct by_agent_client *cluster; /* to an agent or manager; NULL: there is none */
  struct by_udp *udp;              /* of a rank in a job that may have trees through switches; else NULL. Under lock */
  uint32_t served; /* the first communicator's plan that has its servers, by version; 0: none. Under lock */
  _Atomic bool closing;
};

/* Of a move to another plan. */
struct by_kept_plan {
  uint32_t number;
  struct by_plan *plan;
  uint32_t *helpers; /* see by_plans_set; in the plan's arena, as everywhere here */
};

struct banyan_comm {
  struct by_context *context;
  struct banyan_comm *next; /* of the context's */
  struct by_domain *domain;
  uint32_t *processes; /* rank -> rank in the job */
  uint32_t rank, size;
  uint32_t local_size, local_rank;
  uint64_t deadline; /* nanoseconds */
  _Atomic uint32_t splits;
  uint64_t started;              /* collective calls, sparse ones too, and plans set by hand; under lock, as all that
                                    follows; */
  uint64_t set_by_hand;          /* those of them */
  struct by_move move;           /* to another plan; */
  struct by_kept_plan next_plan; /* that is it */
  struct by_marks marks;         /* where its iterations begin */
  bool announces;                /* a note in that log waits for the next iteration, */
  uint64_t marked;               /* by how many operations had been submitted at the last mark, */
  uint64_t each;                 /* and in the iteration before it */
  uint32_t moved, noted;         /* the last one that was decided on, and that the log of submitted operations has */
  struct by_kept_plan kept[5];   /* plans of the last ones for submitted operations, oldest first */
  uint32_t n_kept;
  struct by_kept_plan before; /* where the log has noted none: the plan before the first; NULL: none has been made */
  struct by_sparse_queue *sparse; /* NULL: it has made no sparse call yet */
  struct by_submitter *submitter; /* NULL: nothing has been submitted yet */
  bool hidden;                    /* another one's, for what is submitted to that */
};

struct banyan_request {
  struct by_call *call;              /* NULL: it is */
  struct by_submitted *submitted;    /* an operation, in which this lies; or */
  struct by_sparse_exchange *sparse; /* a sparse one */
  struct by_any *any;                /* or one that nobody has sent a message for yet */
  struct by_context *context;
  void (*then)(void *argument, enum banyan_status status, const char *text); /* of one that was given away */
  void *argument;
  struct banyan_request *next;
};

/* context.c */
/* `role` NULL: a rank. */
BANYAN_CHECK enum banyan_status by_context_create(const struct banyan_options *options, const struct by_job_role *role,
                                                  struct by_context **out);
void by_context_release(struct by_context *context);
/* Whether this process was made by fork() since: its descriptors are closed, the threads and whoever held the locks are
 * not here, and what lies in shared memory is the parent's. So nothing is done with it, not even freeing it. */
static inline bool by_context_is_of_parent(const struct by_context *context) {
  return context->generation != by_process_generation();
}
/* BANYAN_ERR_ARGUMENT: that is so. */
BANYAN_CHECK enum banyan_status by_context_check_process(const struct by_context *context);
static inline const char *by_context_name(void *context, uint32_t process) {
  return by_job_name(&((struct by_context *)context)->job, process);
}
/* This process has left the job on purpose. Under lock. */
void by_context_left(struct by_context *context, uint32_t process);
/* BANYAN_ERR_ARGUMENT: it is NULL, or of a parent process. */
BANYAN_CHECK enum banyan_status by_comm_check(const struct banyan_comm *comm);
/* A communicator over these processes; the domain gets the default plan. Under lock. */
BANYAN_CHECK enum banyan_status by_comm_make(struct by_context *context, uint32_t domain_id, uint32_t rank, uint32_t n,
                                             const uint32_t *processes, struct banyan_comm **out);

/* The job's, see there. */
static inline void by_context_lock(struct by_context *context) {
  by_job_lock(&context->job);
}
static inline void by_context_unlock(struct by_context *context) {
  by_job_unlock(&context->job);
}
static inline void by_context_wake(struct by_context *context) {
  by_job_wake(&context->job);
}
static inline void by_context_fail(struct by_context *context, enum banyan_status status, const char *text) {
  by_job_fail(&context->job, status, text);
}

/* wait.c */
/* Moves the engine until the call has ended. Under lock; lets go of it now and then. */
void by_context_wait(struct by_context *context, struct by_call *call);
/* Like it, until one of these has; the index of the first. */
size_t by_context_wait_any(struct by_context *context, struct banyan_request *const *requests, size_t n);
/* After something was started that nobody waits for. Under lock. */
void by_context_kick(struct by_context *context);
/* Ends the progress thread. */
void by_context_stop_progress(struct by_context *context);
/* This rank's part in a tree through switches. Takes the lock. */
BANYAN_CHECK enum banyan_status by_context_attach_tree(struct by_context *context, const struct by_tree_word *word);

/* Moves the engine until `over`, or lets others do it. What makes it true is followed by a broadcast of `changed` and
 * by_context_wake. Under lock; lets go of it now and then. */
void by_context_wait_until(struct by_context *context, bool (*over)(void *argument), void *argument);

/* Ends what is too late. Under lock. */
void by_context_check_deadlines(struct by_context *context);

/* Moves what can be moved. Under lock. */
bool by_context_progress(struct by_context *context);

/* calls.c: the status of a request that has ended, which is freed; its reference to the job stays. Under lock. */
enum banyan_status by_request_finish(struct banyan_request *request);

/* then.c: calls back for given requests that have ended, letting go of the lock meanwhile; whether there are any; and
 * until all that others tell have been told. Under lock. */
void by_context_tell(struct by_context *context);
bool by_context_has_to_tell(const struct by_context *context);
void by_context_tell_all(struct by_context *context);

/* any.c; under lock. Gives receives from any rank the messages that have come. True if one got its own. */
bool by_context_advance_any(struct by_context *context);
bool by_any_ended(const struct by_any *any);
/* Frees it. */
enum banyan_status by_any_finish(struct by_context *context, struct by_any *any);
/* Before its domain is destroyed. */
void by_comm_forget_any(struct banyan_comm *comm);

/* calls.c; under lock */
bool by_request_ended(const struct banyan_request *request);

/* sparse.c; under lock */
/* Goes on with sparse calls whose parts have ended. True if anything was done. */
bool by_context_advance_sparse(struct by_context *context);
/* Before its communicator is destroyed, whose domain is gone already. */
void by_comm_forget_sparse(struct banyan_comm *comm);

/* An exchange for by_sparse_prepare. */
BANYAN_CHECK enum banyan_status by_comm_take_exchange(struct banyan_comm *comm, struct by_sparse_exchange **out);
struct banyan_sparse_call;
BANYAN_CHECK enum banyan_status by_sparse_call_check(const struct banyan_comm *comm,
                                                     const struct banyan_sparse_call *call);

/* submit_letters.c; under lock */
/* Takes letters, goes on with submitted operations, and tells what there is to tell. True if anything was done. */
bool by_context_advance_submitted(struct by_context *context);
/* When by_context_check_submitted has to be called at the latest; UINT64_MAX: not before something else happens. */
uint64_t by_context_submit_deadline(const struct by_context *context);
void by_context_check_submitted(struct by_context *context);
/* A process has left: what waits for it will not start. What has started somewhere is still told to all. */
void by_context_submitted_left(struct by_context *context);
/* Letters that came before their communicator was made. */
void by_context_deliver_kept(struct by_context *context);
/* Before a communicator is destroyed. */
void by_comm_forget_submitter(struct banyan_comm *comm);
/* submit.c: what it submits uses a copy of this plan too. Under lock. */
BANYAN_CHECK enum banyan_status by_comm_set_inner_plan(struct banyan_comm *comm, const struct by_plan *plan);

/* control_events.c: what it does about control messages. */
struct by_control_events by_context_control_events(struct by_context *context);
/* And what the agent's client asks of it. */
struct by_agent_events by_context_agent_events(struct by_context *context);

/* comm.c: as banyan_comm_set_plan; `planned`: the plan was planned when the job started, 0: the user supplies it. */
BANYAN_CHECK enum banyan_status by_comm_set_plan(struct banyan_comm *comm, const char *text,
                                                 enum banyan_plan_source planned);
/* comm.c; under lock. Frees a communicator, which is not the last of the job. */
void by_comm_end(struct banyan_comm *comm);
/* comm.c: a number for a domain within another one, from how many splits that has seen and the part's first rank. */
uint32_t by_comm_number(uint32_t parent, uint32_t splits, uint32_t first);

/* memory.c: frees what was to be freed and is not used any more. Under lock. */
void by_memory_sweep(struct by_context *context);

/* plans.c */
BANYAN_CHECK enum banyan_status by_plans_default(const struct by_context *context, uint32_t n,
                                                 const uint32_t *processes, struct by_plan **out);
/* How many helpers or servers the plan names that this job was given; 0 also if it cannot be read. */
uint32_t by_plans_count(const struct by_context *context, enum by_vertex_kind kind);
/* Before there is a communicator: the name of that plan, never "". False: the job was given none. */
bool by_plans_find_given(const struct by_context *context, char *name, size_t room);
/* Names that plan in this process's hello; the name is stored in `name`. */
struct by_join;
void by_plans_join(const struct by_context *context, struct by_join *hello, char *name, size_t room);
/* Rank 0 logs the plan that is in use from now on; `when` follows its name. */
void by_plans_log(const struct by_context *context, const struct by_plan *plan, const char *when);
/* Whether that plan has a server on this host. */
bool by_plans_serve_here(const struct by_context *context, const char *host);
/* Whether all that the plan asks for can be set up. */
BANYAN_CHECK enum banyan_status by_plans_check(const struct by_plan *plan);
/* Gives a domain its plan, and where it has helpers or servers tells these. `named`: who is at its vertices behind the
 * ranks, UINT32_MAX: who was there when the job started and fits, as everywhere if it is NULL. Takes the plan over.
 * Under lock. */
BANYAN_CHECK enum banyan_status by_plans_set(struct by_context *context, struct by_domain *domain, uint32_t n,
                                             const uint32_t *processes, struct by_plan *plan, const uint32_t *named);
/* Rank 0: the helpers that a plan names, by vertex behind the ranks; UINT32_MAX for servers and switches. Under lock.
 * BANYAN_ERR_PLAN: one is not here. */
BANYAN_CHECK enum banyan_status by_plans_find_helpers(const struct by_context *context, const struct by_plan *plan,
                                                      uint32_t *helpers);
/* Whether this is such a list. Under lock. */
BANYAN_CHECK enum banyan_status by_plans_check_helpers(const struct by_context *context, const struct by_plan *plan,
                                                       const uint32_t *helpers, size_t n);
/* A plan over hosts becomes one over ranks, if these are on so many hosts. Takes the plan over. */
BANYAN_CHECK enum banyan_status by_plans_fit(const struct by_context *context, uint32_t n, const uint32_t *processes,
                                             struct by_plan *plan, struct by_plan **out);
/* A plan that the user supplies by this text; NULL or "": the default plan. */
BANYAN_CHECK enum banyan_status by_plans_named(const struct by_context *context, uint32_t n, const uint32_t *processes,
                                               const char *text, struct by_plan **out);
/* The plan that a new communicator begins with. Under lock. */
BANYAN_CHECK enum banyan_status by_plans_first(const struct by_context *context, uint32_t n, const uint32_t *processes,
                                               struct by_plan **out);
/* Whether a proposed plan must not take the place of this one: the user supplied it, and a manager proposes the other.
 */
bool by_plans_is_pinned(const struct by_plan *current, const struct by_plan *proposed);

#endif
