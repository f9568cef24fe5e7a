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

/* request.c: requests with a callback, oldest first, and the number of callbacks that are running. */
struct by_given_requests {
  struct banyan_request *first, **end;
  uint32_t notifying;
};

/* What a context keeps for the capabilities; see feature.h. */
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

/* What goes on beside the calls of the engine; higher modules register it. Under lock. */
struct by_progress_events {
  /* Does what can be done. `notifies`: then calls the callbacks of requests that have ended, without the lock. True if
   * anything was done, callbacks aside. */
  bool (*advance)(void *context, bool notifies);
  /* Whether something must progress although no thread waits for it. */
  bool (*has_work)(const void *context);
  /* When check_deadlines has to be called at the latest; UINT64_MAX: not before something else happens. */
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
  bool user_sleeps;  /* a user's thread drives and sleeps until an event, without the lock */
  bool listens;      /* control messages may come at any time */
  uint32_t idlers;   /* user threads that wait for the job's `changed` */
  uint32_t rounds;   /* of progress, in whatever thread */
  uint64_t ended;    /* operations, see by_progress_count_ended */
  uint64_t spin;     /* nanoseconds */
  uint64_t receives; /* until when what comes is taken though nothing is in progress; 0: it is not */
  int poll;          /* epoll over all lanes and the job's `wake` */
  pthread_t thread;
  enum by_progress_state state; /* of that thread */
  enum {
    BY_HELPER_BUSY,    /* it has the lock, or calls a program's function */
    BY_HELPER_SLEEPS,  /* until it is woken */
    BY_HELPER_COMES    /* it makes its next round as soon as it gets the lock */
  } helper;            /* what that thread does now */
  pthread_cond_t work; /* for it: calls are in progress and no thread drives */
};

struct by_job {
  struct by_settings settings; /* strings in the arena or the environment */
  struct by_job_role
      role; /* of a process that is no rank, `rank` is the number among the processes, known once it has joined */
  uint32_t rank, size;
  struct by_process_identity *identity; /* with which it encrypts; held. NULL: it does not */
  struct by_own_statement *statement;   /* of its host's agent, about that; held. NULL: it does not encrypt */
  struct by_key_ring *keys;             /* held; NULL: a job of one process */
  struct by_membership *formed;         /* The membership that was formed; owned. NULL: none. */
  uint64_t membership;                  /* Its number; 0: none. */
  uint64_t memberships;                 /* in a row up to this one; 0: not known, or none. Under lock */
  /* Which agrees on what follows; held. NULL where nothing was formed. What is found out about its members, by their
   * fingerprints in `formed`, is of interest there: see member_service.h. */
  struct by_member_service *service;
  const struct by_member_service_ops *service_ops; /* Its functions. */
  /* Ranks, and behind them the helpers and servers that came. It grows on the loop's thread under lock, as do members,
   * names, left and lost: see by_job_make_room. What is known of those that are counted stays where it is, so the first
   * two may be read in any thread. */
  _Atomic uint32_t processes;
  uint32_t founders; /* of them, those with which the job started: the same on all ranks */
  uint32_t room;     /* in members, names, left and lost */
  uint32_t places;   /* rank 0: room for as many while the job starts */
  uint32_t servers;  /* of the places, those for servers. Others: whether there may be any */
  struct by_member *_Atomic members;
  struct by_arena arena;
  const char **_Atomic names; /* "rank 2 (host a)" */
  bool *left;                 /* rank -> it has left on purpose; under lock */
  const char **lost; /* why a helper or server is lost; NULL: it is not, or this is not known here. Under lock */
  struct by_job_hosts hosts;
  long class_;            /* in which what this process sends is marked; -1: none. Under lock */
  uint64_t class_changes; /* by messages of an agent or rank 0; under lock */

  pthread_mutex_t lock;
  _Atomic uint32_t contenders; /* threads that want the lock while another one drives */
  pthread_cond_t changed;      /* for user threads: no user drives any more, or calls have ended */
  int wake;                    /* eventfd: rung by peers on this host and by our own threads */
  struct by_engine *engine;    /* NULL until all have joined */
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
  bool replans;           /* Communicators of all ranks get the plans that rank 0 comes to later. */
  atomic_bool ends;       /* Set when it is destroyed, so that planning threads end soon. */
  uint64_t plan_switches; /* plan_switch.c: switches to other plans while calls were made. */
  struct by_given_requests given;
  struct by_any *anys; /* calls.c: receives from any rank without a message yet. */
  struct by_feature_states features;
  struct by_ledger *ledger; /* Outcomes of communicators destroyed after the membership failed; NULL: no membership. */
};

/* A member's name for messages, in the arena; NULL: out of memory. Under lock. */
const char *by_job_name_member(struct by_job *job, uint32_t process);
/* Room for one process more. What was there stays where it is, in the arena, since it may be borrowed. Under lock. */
BANYAN_CHECK enum banyan_status by_job_make_room(struct by_job *job);
/* Returns whether the job has failed. Takes the lock. */
bool by_job_has_failed(struct by_job *job);
/* All ranks know this reason why the job has failed: calls end with it. Takes the lock. */
void by_job_settle(struct by_job *job, enum banyan_status status, uint32_t process, const char *text);

/* Marks what this process sends as the settings say. */
void by_job_mark_first(struct by_job *job);
/* hosts.c: fills `hosts` from `members`; fails if they cannot work together. */
BANYAN_CHECK enum banyan_status by_hosts_index(struct by_job *job);

#endif
