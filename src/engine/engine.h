/* The executor: runs schedules over lanes. One engine per process (or per
 * simulated rank) holds the links to all peers, the teams (communicators)
 * and the calls under way. It never blocks, owns no thread and reads no clock
 * but the one handed in; users with several threads lock around it.
 *
 *   by_engine_start() makes a call, by_engine_progress() moves bytes until
 *   by_call_ended(); then by_call_release(). */
#ifndef BY_ENGINE_ENGINE_H
#define BY_ENGINE_ENGINE_H

#include <banyan/collectives.h>

#include "clock.h"
#include "fabric.h"
#include "frame.h"
#include "history.h"
#include "lane.h"
#include "plan.h"
#include "region.h"
#include "schedule.h"
#include "trace.h"

enum { BY_ENGINE_ERROR_BYTES = 512 };

struct by_call;
struct by_call_times;
struct by_team;
struct by_engine;

struct by_engine_options {
  struct by_clock clock;
  uint32_t processes; /* Processes in the job when it starts. Links have the same numbers. */
  uint32_t ranks;     /* Processes 0 to ranks - 1 are ranks, the others are helpers. 0: all are ranks. */
  uint32_t self;
  size_t relay_memory; /* At a helper: bytes of scratch for calls of others; a single call may exceed it. 0: 1 GiB. */
  size_t eager_limit;  /* Bytes that a message may send before it is granted; a power of two. 0: 1 MiB. */
  size_t window; /* Bytes of a message that may wait to be added; a power of two, >= eager_limit. 0: eager_limit. */
  size_t link_credit; /* Bytes of eager data in flight on a link. 0: 4 MiB. */
  size_t chunk;       /* The maximum of bytes in a frame. 0: the lane's limit. */
  size_t block;       /* Bytes added at a time. 0: 64 KiB. */
  size_t spread;      /* Messages of at least so many bytes use all lanes of a link. 0: 128 KiB. */
  /* Called once when a schedule needs a peer without a lane. The owner calls by_engine_attach, now or later. */
  void (*connect)(void *context, uint32_t process);
  /* The name of a process for errors, such as "rank 2 (host a)"; may be NULL. */
  const char *(*name)(void *context, uint32_t process);
  /* Called once, when the engine fails. If it returns true, the owner agrees on the reason with other processes and
   * then calls by_engine_settle. Calls end then, or after half a second with the engine's own reason. */
  bool (*failed)(void *context, enum banyan_status status, uint32_t process, const char *text);
  /* Called when a peer's lane ended before its calls did. If it returns true, the owner calls by_engine_fail later.
   * If it returns false, or is NULL, the engine fails at once. */
  bool (*suspects)(void *context, uint32_t process, const char *text);
  /* Called when a call's deadline has passed: `late` begins the error's text, `awaited` names the processes that it
   * waits for. Called with `late` NULL when a call has waited for `stall`: `awaited` describes the call. Called with
   * both NULL when no call has ended for a while. If it returns true, the owner calls by_engine_fail soon. If it
   * returns false, or is NULL, a late call fails the engine at once. */
  bool (*asks)(void *context, const char *late, const char *awaited);
  /* Fills the region members of an offer if the buffer lies in shared memory; may be NULL. */
  void (*locate)(void *context, const void *memory, size_t bytes, struct by_offer *offer);
  void *context;
  uint64_t stall;           /* Nanoseconds between calls of `asks` for a waiting call. 0: never. */
  struct by_tracer *tracer; /* Records calls while it is on; may be NULL. */
  bool keeps_lanes;         /* by_engine_take_lanes will be called. */
};

/* What callers read of an engine. */
struct by_engine_state {
  uint32_t pending;                    /* The number of calls that were started and have not ended. */
  uint64_t ended;                      /* The number of calls that have ended. */
  uint64_t still_since;                /* The time since which no call had ended when `asks` was called without one. */
  struct by_control_message *messages; /* Control messages that by_engine_read returns next; NULL: none. */
  uint32_t *destroyed;                 /* The numbers of teams that were destroyed here and not created again. */
  uint32_t n_destroyed;
  uint64_t settles_by; /* The engine has failed, and waits until this time for by_engine_settle; 0: no. No data moves
                          until then, and calls are accepted. */
  uint32_t failed_process;           /* The process that failed the engine; UINT32_MAX: none is known. */
  char error[BY_ENGINE_ERROR_BYTES]; /* Why the engine has failed. */
};

/* Whether a process has a lane, and whether it was lost, see by_engine_lost. */
struct by_peer_state {
  bool attached, lost;
};

BANYAN_CHECK enum banyan_status by_engine_create(const struct by_engine_options *options, struct by_engine **out);
/* Destroys the engine with its teams, calls and lanes. */
void by_engine_destroy(struct by_engine *engine);

/* Adds one process, a helper that came later, with the next number. All processes must know it before it takes part
 * in a call. Running calls go on. BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_engine_add(struct by_engine *engine);

/* Gives the engine all lanes to a peer at once, 1 .. BY_LANES of them in the same order as at the peer. The engine
 * owns them from now on, and spreads large messages over them. */
void by_engine_attach(struct by_engine *engine, uint32_t process, struct by_lane *const *lanes, uint32_t n);
/* Takes the network lanes to a peer away from a failed engine, so that another engine can use them. All of them must
 * work. They keep the data that they were sending, and may be in the middle of a frame. `lanes` has room for
 * BY_LANES; NULL: none are taken. Returns how many were taken, 0 or all. If none were, the lanes are shut down for
 * sending, since the peer may wait for more. Data that the network already has still arrives. */
uint32_t by_engine_take_lanes(struct by_engine *engine, uint32_t process, struct by_lane **lanes);
/* Gives the engine the fabric to this process, a server, for calls over plans whose in-network trees have this
 * version (see by_team_set_helped_plan). Such calls wait for it. The fabric is destroyed if the engine has one for
 * this version already, or on failure. BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_engine_attach_fabric(struct by_engine *engine, uint32_t process, uint32_t version,
                                                        struct by_fabric *fabric);
/* Destroys the fabrics of a version. Returns false if the plan of a team, or of a running call, has in-network trees of
 * this version. */
bool by_engine_detach_fabrics(struct by_engine *engine, uint32_t version);
/* The latest time, by the engine's clock, at which by_engine_progress must be called even if nothing arrives.
 * UINT64_MAX: there is none. */
uint64_t by_engine_deadline(const struct by_engine *engine);
/* This process has left on purpose, so the end of its lanes is not a failure. `never`: if it has no lane now, it will
 * never have one. A call that waits for more from it fails, now or later. */
void by_engine_left(struct by_engine *engine, uint32_t process, bool never);
struct by_peer_state by_engine_peer(const struct by_engine *engine, uint32_t process);
/* Calls `visit` for every lane, with the process at its other end. */
void by_engine_visit_lanes(const struct by_engine *engine,
                           void (*visit)(void *context, uint32_t process, struct by_lane *lane), void *context);
/* Sets the mark of everything that all lanes and fabrics send from now on, also of lanes that are attached later. */
void by_engine_set_mark(struct by_engine *engine, const struct by_mark *mark);
/* Bytes given to the network so far, including headers, without those that went through shared memory. */
uint64_t by_engine_sent(const struct by_engine *engine);
/* Whether running calls wait for lanes that are not attached yet. */
bool by_engine_lacks_lanes(const struct by_engine *engine);

/* Sends so many bytes of padding to a process on another host after everything else that is queued for it. This
 * measures the network of a lane that no plan uses. Ends a probe that is under way. */
void by_engine_probe(struct by_engine *engine, uint32_t process, uint64_t bytes);

/* Prepares for control messages from and to this process: it gets a lane, and frames of calls that are not made here
 * yet do not block the messages. */
void by_engine_expect_control_messages(struct by_engine *engine, uint32_t process);
/* Sends a copy of a message, in order with other control messages to this process; `team` is any number. Returns
 * BANYAN_ERR_NO_MEMORY also if the process has not taken BY_CONTROL_MESSAGES_KEPT. A process that sends more than
 * that before its messages are freed is at fault. */
BANYAN_CHECK enum banyan_status by_engine_write(struct by_engine *engine, uint32_t process, uint32_t team,
                                                const void *bytes, size_t n);
/* The next control message that has arrived, which the caller then owns; NULL: none. */
struct by_control_message *by_engine_read(struct by_engine *engine);
void by_control_message_free(struct by_engine *engine, struct by_control_message *message);

/* A team is a communicator: its own ranks (processes[rank]), plan and call numbers. `id` is the same on all its
 * members and unused so far. The team copies the members and borrows the plan until it is replaced. */
BANYAN_CHECK enum banyan_status by_team_create(struct by_engine *engine, uint32_t id, uint32_t rank, uint32_t n,
                                               const uint32_t *processes, struct by_team **out);
/* The team of this id; NULL: there is none. */
struct by_team *by_engine_team(const struct by_engine *engine, uint32_t id);
/* Whether peers still have to be notified of the end of calls or messages; by_engine_progress does it. */
bool by_team_owes(const struct by_team *team);
/* Ends the team's calls. Calls that were not released stay until they are. */
void by_team_destroy(struct by_team *team);
/* Sets the plan of later calls and owns it. Running calls keep theirs. */
void by_team_set_plan(struct by_team *team, struct by_plan *plan);
/* Sets a plan with helpers, and owns it also on failure. helpers[i] is the process of vertex n_ranks + i; UINT32_MAX:
 * none. Groups that lack a helper run among ranks alone, from the start or once by_engine_lost was called. A helper
 * keeps older plans, for calls that others still make. `trees` is the version of the plan's in-network trees, if it
 * has any; no two plans in use by the job have the same. */
BANYAN_CHECK enum banyan_status by_team_set_helped_plan(struct by_team *team, struct by_plan *plan,
                                                        const uint32_t *helpers, uint32_t trees);
/* The first two never change, and any thread may read them. */
uint32_t by_team_id(const struct by_team *team);
uint32_t by_team_rank(const struct by_team *team);
const struct by_plan *by_team_plan(const struct by_team *team);
/* The processes at the vertices of that plan behind its ranks; NULL: it has no helpers here. */
const uint32_t *by_team_helpers(const struct by_team *team);
/* The number of the next collective call. */
uint32_t by_team_next_call(const struct by_team *team);
/* Adds the team's collective calls that failed, preceded by descriptions of the last completed ones. */
void by_team_add_history(const struct by_team *team, struct by_history *to);

/* Lets messages come from any rank until the same call with -1: the engine then reads them from the lanes. All ranks
 * get a lane, since this rank may be the one of a pair that has to connect. `more`: 1 or -1. */
void by_team_expect(const struct by_team *team, int more);
/* Whether the next message with this tag has begun to arrive from some rank; *rank is the lowest such rank. */
bool by_team_probe(const struct by_team *team, uint32_t tag, uint32_t *rank);

/* Checks the arguments of a call on this team, as by_engine_start does. */
BANYAN_CHECK enum banyan_status by_engine_check_call(const struct by_team *team, const struct banyan_call *call);
/* Starts a call; checks its arguments first. *out is the caller's until
 * by_call_release. `deadline` is absolute by the engine's clock, 0: none. */
BANYAN_CHECK enum banyan_status by_engine_start(struct by_team *team, const struct banyan_call *call, uint64_t deadline,
                                                struct by_call **out);
bool by_call_ended(const struct by_call *call);
/* The call's record in the tracer; 0: none. */
uint64_t by_call_trace(const struct by_call *call);
/* The call's status; the thread's error text is set if it is not BANYAN_OK. */
enum banyan_status by_call_result(const struct by_call *call);
/* Releases a call. If it has not ended, it goes on and is freed at its end. */
void by_call_release(struct by_call *call);

/* A helper is lost: running calls repeat its groups among ranks alone, and later calls do not use it. All processes
 * must be notified, in any order. Not to be called from within by_engine_progress. */
void by_engine_lost(struct by_engine *engine, uint32_t process);

/* Moves what can be moved. Returns whether anything moved. */
bool by_engine_progress(struct by_engine *engine);
/* Ends calls whose deadline has passed, and the engine with them, unless `asks` returns true. */
void by_engine_check_deadlines(struct by_engine *engine);
/* Whether calls are running, or something is left to send, possibly of calls that have ended; by_engine_progress sends
 * it. */
bool by_engine_has_work(const struct by_engine *engine);
/* Times AllReduces from the next one on (history.h); NULL: stops. `times` is borrowed until then. */
void by_engine_time_calls(struct by_engine *engine, struct by_call_times *times);
/* Notifies the peers that may have mapped this region that it is gone. Returns false if a running call reads or writes
 * its memory. */
bool by_engine_forget_region(struct by_engine *engine, const struct by_region *region);
/* Notifies the lanes that the owner is about to sleep, or has woken. */
void by_engine_sleeping(struct by_engine *engine, bool asleep);
/* Closes all lanes on purpose, so that peers do not report their end as a failure. Returns true when nothing is left
 * to send and everything has arrived. */
bool by_engine_goodbye(struct by_engine *engine);

/* Ends every running and later call with this status and text. Only the first failure counts. `process` is the one
 * that failed, or UINT32_MAX. */
void by_engine_fail(struct by_engine *engine, enum banyan_status status, uint32_t process, const char *text);
/* Replaces the engine's reason of failure with the one that all processes agreed on, unless calls have ended already.
 * Fails the engine if it has not failed. */
void by_engine_settle(struct by_engine *engine, enum banyan_status status, uint32_t process, const char *text);
/* Appends an explanation to the error of a failed engine, for later calls. */
void by_engine_explain(struct by_engine *engine, const char *text);
/* BANYAN_OK while the reason of a failure is not settled. */
enum banyan_status by_engine_status(const struct by_engine *engine);
const struct by_engine_state *by_engine_get_state(const struct by_engine *engine);
void by_engine_counters(const struct by_engine *engine, struct banyan_counters *out);

#endif
