/* A job as this process takes part in it, for those that work with a job but are not part of it: all communicators and
 * all capabilities. The job holds the engine, the members, the connections to them, and two threads: one accepts and
 * makes connections and handles control messages, the other makes progress (progress.h).
 *
 * Threads: the job's lock guards the engine and everything that changes, but for the loop and the control connections,
 * which the loop's thread owns. What says nothing about threads here is constant once all have joined, and may be read
 * in any thread. Pointers are borrowed, for as long as the job exists. */
#ifndef BY_JOB_SETTINGS_JOB_ACCESS_H
#define BY_JOB_SETTINGS_JOB_ACCESS_H

#include <stdatomic.h>

#include "engine.h"
#include "loop.h"
#include "member.h"
#include "settings.h"

struct by_control;
struct by_formation;
struct by_job;
struct by_key_ring;
struct by_member_service;
struct by_membership;
struct by_observation;
struct by_process_identity;
struct by_tracer;
struct by_tree_message;

/* The maximum number of capabilities; see feature.h. */
enum { BY_FEATURES_MAX = 8 };

/* What this process is in its job. */
struct by_job_role {
  enum by_member_kind kind;
  const struct by_formation
      *formation; /* The formation of a rank whose membership is one of several, borrowed; NULL: a job without. */
  /* A server's port for fragments. `serve` is called with each tree that it is to serve, `unserve` when all trees of a
   * version have ended, both on the loop's thread. The server reports the outcome by by_own_trees_report; the caller
   * reports a failure of `serve`. */
  int udp_port;
  enum banyan_status (*serve)(void *context, const struct by_tree_message *message);
  void (*unserve)(void *context, uint32_t version);
  /* The ticket of a helper or server that does not have the job's key, borrowed until it has joined; NULL: the one of
   * the settings. */
  const char *ticket;
  struct by_process_identity
      *identity; /* The identity that the process uses in every job, borrowed; NULL: it gets a new one. */
  /* Called for a helper or server of several memberships, with the address where the next one meets and a ticket for
   * it, on the loop's thread; NULL: it does not follow. `deadline`: the seconds within which it must have joined; 0:
   * those of the settings. */
  void (*follow)(void *context, const char *root, const char *ticket);
  double deadline;
  /* Called when the mark of packets changes; NULL: it is not used. */
  void (*mark)(void *context, const struct by_mark *mark);
  void *context;
};

/* How the processes of a job are distributed over hosts and machines. */
struct by_job_hosts {
  uint32_t *of;         /* By rank: the number of its host for plans, 0 .. n - 1 in order of first rank. */
  uint32_t *first_here; /* By rank: the lowest rank of its host, whatever the transport. */
  uint32_t n;
  uint32_t neighbours; /* Number of ranks on this machine, this one included. */
  bool crowded;        /* More ranks than cores share some machine; the same on all ranks. */
  bool yields;         /* More ranks than cores share this machine. */
};

void by_job_lock(struct by_job *job);
void by_job_unlock(struct by_job *job);
/* Wakes the thread that drives, after the engine changed from another thread. */
void by_job_wake(struct by_job *job);
/* Under lock, which it unlocks: the engine has changed, and user threads and the thread that drives are notified. */
void by_job_changed(struct by_job *job);
/* Ends the job on all ranks; `process` is the one that failed. Takes the lock. */
void by_job_fail(struct by_job *job, enum banyan_status status, uint32_t process, const char *text);
/* Another class, on live connections too, unless the user has set one by hand, or a ToS. Takes the lock. */
void by_job_set_class(struct by_job *job, uint32_t class_);

/* ---- members */

/* The number of this process: its rank, or for helpers and servers a number behind the ranks. */
uint32_t by_job_rank(const struct by_job *job);
/* The number of ranks. */
uint32_t by_job_size(const struct by_job *job);
/* The number of ranks, and of helpers and servers that have come so far; any thread. */
uint32_t by_job_processes(const struct by_job *job);
/* The number of processes with which the job started: the same on all ranks. */
uint32_t by_job_founders(const struct by_job *job);
/* The members by number of process, as many as by_job_processes has returned before; any thread. */
const struct by_member *by_job_members(const struct by_job *job);
/* "rank 2 (host a)"; any thread. */
const char *by_job_name(const struct by_job *job, uint32_t process);
/* Returns whether this process has left the job on purpose. Under lock. */
bool by_job_member_left(const struct by_job *job, uint32_t process);
/* Notes where a process takes part in trees through switches. Takes the lock. */
void by_job_set_udp_port(struct by_job *job, uint32_t process, uint32_t port);
const struct by_job_hosts *by_job_hosts(const struct by_job *job);
/* The membership that was formed; NULL: none was. */
const struct by_membership *by_job_formed(const struct by_job *job);
/* The number of that membership; 0: none. */
uint64_t by_job_membership(const struct by_job *job);
/* Returns whether the members' services agree on further memberships. */
bool by_job_has_service(const struct by_job *job);

/* ---- this process */

const struct by_job_role *by_job_get_role(const struct by_job *job);
const struct by_settings *by_job_settings(const struct by_job *job);
/* The keys of the job; NULL: it is a job of one process. */
struct by_key_ring *by_job_keys(const struct by_job *job);
/* The identity with which this process encrypts; NULL: it does not. */
struct by_process_identity *by_job_identity(const struct by_job *job);
/* Rank 0: the number of servers for which the job has capacity. Others: not 0 if there may be servers. */
uint32_t by_job_servers(const struct by_job *job);
/* Returns whether this process has begun to leave the job. Under lock. */
bool by_job_is_leaving(const struct by_job *job);
/* Becomes true when the job is destroyed, so that planning threads end soon; any thread. */
const atomic_bool *by_job_ends(const struct by_job *job);
/* Whether there is an agent or manager, which plans for the job. Set before the job's first call. */
bool by_job_is_managed(const struct by_job *job);
void by_job_set_managed(struct by_job *job, bool managed);

/* ---- its parts */

/* NULL until all have joined. What is called of it needs the lock. */
struct by_engine *by_job_engine(const struct by_job *job);
struct by_loop *by_job_loop(const struct by_job *job);
/* NULL: the job has one process. */
struct by_control *by_job_control(const struct by_job *job);
struct by_tracer *by_job_tracer(struct by_job *job);
/* What is counted for a manager. Under lock. */
struct by_observation *by_job_observation(struct by_job *job);

#endif
