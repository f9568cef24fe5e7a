/* The state of a job in this process. Only files of src/job include this header, as scripts/check-layers verifies;
 * other files work with job_access.h and job_life.h. What connects, controls and records the job works on this struct;
 * job_life.c creates it.
 *
 * Threads: `lock` guards the engine and everything marked so. The loop's thread owns the loop. */
#ifndef BY_JOB_SETTINGS_JOB_STATE_H
#define BY_JOB_SETTINGS_JOB_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "job_access.h"
#include "observe.h"
#include "region.h"
#include "trace.h"

struct by_any;
struct by_connector;
struct by_ledger;
struct by_member_service_ops;
struct by_own_statement;
struct by_timeline;

/* The life of a job in this process. It is joining until all have joined and its threads may run; then it is active,
 * and leaves at the end. One that could not join is freed as it is. */
enum by_job_life { BY_JOB_JOINING, BY_JOB_ACTIVE, BY_JOB_LEAVING };

/* Requests with a callback, oldest first (request.c). */
struct by_given_requests {
  struct banyan_request *first, **end;
  uint32_t notifying; /* The number of callbacks that are running. */
};

/* The state of the capabilities in a job; see feature.h. */
struct by_feature_states {
  void *states[BY_FEATURES_MAX]; /* By the index of the capability in by_features; NULL: it has no state. */
  uint32_t active;               /* A bit for each active capability. */
  bool detached;                 /* Of their hooks, only `fini` may still be called. */
};

/* The regions of banyan_alloc (comm.c). */
struct by_memory {
  struct by_regions regions;
  uint32_t doomed; /* The number of regions that were freed and that running calls may still use. */
};

/* The plans of a job (plans.c). */
struct by_job_plans {
  struct by_plan *given;   /* The plan that was made when the job started; NULL: none was. */
  uint32_t set_up;         /* Number of plans with in-network trees that the job's own communicator was given. */
  struct by_plan *chosen;  /* The plan that the program has set for that communicator; NULL: none. */
  struct by_plan *through; /* Rank 0: the plan of that communicator, with switches; NULL: it has no in-network trees. */
  bool logged_apart, logged_operations; /* The reasons for doing without in-network trees that were logged. */
};

/* What has to progress beside the calls of the engine. The functions are called under the lock. */
struct by_progress_events {
  /* Makes progress. If `notifies`, then calls the callbacks of requests that have ended, without the lock. Returns
   * whether there was progress, apart from callbacks. */
  bool (*advance)(void *context, bool notifies);
  /* Whether something must progress although no thread waits for it. */
  bool (*has_work)(const void *context);
  /* The latest time at which check_deadlines must be called; UINT64_MAX: there is none. */
  uint64_t (*deadline)(const void *context);
  void (*check_deadlines)(void *context);
  void *context;
};

/* The library's own thread.
 *
 *   from      to
 *   ABSENT    WORKS    something is in progress for which no thread waits
 *   WORKS     IDLE     waits until it is needed
 *   IDLE      WORKS
 *   WORKS     LISTENS  sleeps on the connections until control messages come
 *   LISTENS   WORKS
 *   WORKS, IDLE, LISTENS -> ENDS -> ABSENT */
enum by_progress_state {
  BY_PROGRESS_ABSENT,
  BY_PROGRESS_WORKS,
  BY_PROGRESS_IDLE,
  BY_PROGRESS_LISTENS,
  BY_PROGRESS_ENDS
};

struct by_progress {
  struct by_progress_events events;
  enum { BY_DRIVER_NONE, BY_DRIVER_USER, BY_DRIVER_HELPER } driver;
  bool user_sleeps;  /* A user's thread drives, and sleeps until an event without the lock. */
  bool listens;      /* Control messages may arrive at any time. */
  uint32_t idlers;   /* The number of user threads that wait for the job's `changed`. */
  uint32_t rounds;   /* The number of rounds of progress in all threads. */
  uint64_t ended;    /* The number of operations that have ended; see by_progress_count_ended. */
  uint64_t spin;     /* How long a thread polls before it sleeps, in nanoseconds. */
  uint64_t receives; /* Arriving data is received until this time although no call runs; 0: it is not. */
  int poll;          /* The epoll descriptor of all lanes and of the job's `wake`. */
  pthread_t thread;
  enum by_progress_state state; /* The progress thread's state. */
  enum {
    BY_HELPER_BUSY,    /* It holds the lock, or calls a function of the program. */
    BY_HELPER_SLEEPS,  /* It sleeps until it is woken. */
    BY_HELPER_COMES    /* It makes its next round as soon as it gets the lock. */
  } helper;            /* What the progress thread is doing. */
  pthread_cond_t work; /* Wakes the progress thread: calls are running and no thread drives. */
};

struct by_job {
  struct by_settings settings; /* The strings lie in the arena or the environment. */
  struct by_job_role role;
  uint32_t rank; /* A helper or server has a number behind the ranks, which is known once it has joined. */
  uint32_t size; /* The number of ranks. */
  struct by_process_identity *identity; /* The identity with which it encrypts, held; NULL: it does not encrypt. */
  struct by_own_statement *statement;   /* The agent's statement on that identity, held; NULL: there is none. */
  struct by_key_ring *keys;             /* The job's keys, held; NULL: a job of one process. */
  struct by_membership *formed;         /* The membership that was formed; owned. NULL: none. */
  uint64_t membership;                  /* The number of that membership; 0: none. */
  uint64_t memberships; /* The number of consecutive memberships up to this one; 0: unknown, or none. Under the lock. */
  /* Agrees on the next membership, held; NULL: no membership was formed. The job reports to it what it learns about the
   * members, which are identified by their fingerprints in `formed`; see member_service.h. */
  struct by_member_service *service;
  const struct by_member_service_ops *service_ops; /* The functions of `service`. */
  /* The number of ranks, and of helpers and servers that have joined. It grows on the loop's thread under the lock, and
   * with it the arrays members, names, left and lost; see by_job_make_room. Entries never move, so `members` and
   * `names` may be read in any thread. */
  _Atomic uint32_t processes;
  uint32_t founders; /* The number of processes with which the job started, the same on all ranks. */
  uint32_t room;     /* The capacity of the arrays members, names, left and lost. */
  uint32_t places;   /* Rank 0: the number of processes that may join while the job starts. */
  uint32_t servers;  /* Rank 0: how many of `places` are for servers. Other ranks: nonzero if there may be servers. */
  struct by_member *_Atomic members;
  struct by_arena arena;
  const char **_Atomic names; /* Names of processes for messages, such as "rank 2 (host a)". */
  bool *left;                 /* By process: it has left on purpose. Under the lock. */
  const char *
      *lost; /* By process: why a helper or server was lost; NULL: it was not, or it is unknown. Under the lock. */
  struct by_job_hosts hosts;
  long class_;            /* The priority class that marks what this process sends; -1: none. Under the lock. */
  uint64_t class_changes; /* The number of changes of the class by an agent or rank 0. Under the lock. */

  pthread_mutex_t lock;
  _Atomic uint32_t contenders; /* The number of threads that wait for the lock while another one drives. */
  pthread_cond_t changed;      /* Wakes user threads: no user thread drives any more, or calls have ended. */
  int wake;                    /* An eventfd, written by peers on this host and by threads of this process. */
  struct by_engine *engine;    /* NULL: not all have joined yet. */
  struct by_tracer tracer;
  struct by_loop *loop;

  struct by_progress progress;
  enum by_job_life state;
  bool is_interrupted;        /* by_job_interrupt has ended calls here: others are not notified of the failure. */
  uint64_t moved;             /* Progress at the last look of by_job_interrupt. */
  struct by_job *next_joined; /* Another job of this process; NULL: none. */
  uint32_t generation;        /* The process generation in which it was made, see by_process_generation. */
  uint32_t references;        /* Number of communicators and requests that hold it. */
  struct banyan_comm *comms;  /* All communicators of the job. */
  pthread_t thread;           /* The loop's thread. */
  struct by_timeline *timeline;
  struct by_control *control;
  struct by_connector *connector;
  bool managed; /* There is an agent or manager, which plans for the job. */
  struct by_observation observed;
  struct by_memory memory;
  struct by_job_plans plans;
  bool replans;           /* Communicators of all ranks get the plans that rank 0 makes later. */
  atomic_bool ends;       /* The job is being destroyed, so planning threads end soon. */
  uint64_t plan_switches; /* The number of plan switches while calls were made (plan_switch.c). */
  struct by_given_requests given;
  struct by_any *anys; /* Receives from any rank that have no message yet (calls.c). */
  struct by_feature_states features;
  struct by_ledger *ledger; /* Outcomes of communicators destroyed after the membership failed; NULL: no membership. */
};

/* A member's name for messages, in the arena; NULL: out of memory. Under lock. */
const char *by_job_name_member(struct by_job *job, uint32_t process);
/* Makes room for one more process. Existing entries stay in the arena, since they may be borrowed. Under the lock. */
BANYAN_CHECK enum banyan_status by_job_make_room(struct by_job *job);
/* Returns whether the job has failed. Takes the lock. */
bool by_job_has_failed(struct by_job *job);
/* Ends calls with the reason of the failure that all ranks agreed on. Takes the lock. */
void by_job_settle(struct by_job *job, enum banyan_status status, uint32_t process, const char *text);

/* Sets the mark of what this process sends, according to the settings. */
void by_job_mark_first(struct by_job *job);
/* Fills `hosts` from `members` (hosts.c). Fails if the members cannot work together. */
BANYAN_CHECK enum banyan_status by_hosts_index(struct by_job *job);

#endif
