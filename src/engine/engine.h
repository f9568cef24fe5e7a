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

#include "bytes.h"
#include "clock.h"
#include "control_message.h"
#include "fabric.h"
#include "history.h"
#include "lane.h"
#include "plan.h"
#include "schedule.h"
#include "trace.h"

struct by_call;
struct by_call_times;
struct by_team;
struct by_engine;

struct by_engine_options {
  struct by_clock clock;
  uint32_t processes; /* in the job when it starts; links are numbered like them */
  uint32_t ranks;     /* the first so many; the others are helpers. 0: all */
  uint32_t self;
  size_t relay_memory; /* of a helper: scratch of the calls it has part in; one may be larger. 0: 1 GiB */
  size_t eager_limit;  /* bytes a message may send before it is granted; power of two; 0: 1 MiB */
  size_t window;       /* bytes of a message that may wait to be added; power of two, >= eager_limit; 0: eager_limit */
  size_t link_credit;  /* bytes of eager data under way on a link; 0: 4 MiB */
  size_t chunk;        /* most bytes a frame carries; 0: the lane's limit */
  size_t block;        /* bytes added at a time; 0: 64 KiB */
  size_t spread;       /* messages from this size on use all lanes of a link; 0: 128 KiB */
  /* Asked once when a schedule needs a peer without a lane; by_engine_attach answers, now or later. */
  void (*connect)(void *context, uint32_t process);
  /* Name of a process in errors, such as "rank 2 (host a)"; may be NULL. */
  const char *(*name)(void *context, uint32_t process);
  /* Called once, when the engine fails. True: the owner agrees on the reason with others and then calls
   * by_engine_settle; calls end then, or after half a second with the engine's own reason. */
  bool (*failed)(void *context, enum banyan_status status, uint32_t process, const char *text);
  /* Called when a peer's lane ended though its calls have not. True: the answer will be a by_engine_fail later;
   * false or NULL: the engine fails at once. */
  bool (*suspects)(void *context, uint32_t process, const char *text);
  /* A call's deadline passed (how the error begins, whom it waits for); without the first, the second says which call
   * has waited for `stall`; or, with neither, nothing has ended for a while.
   * True: the answer will be a by_engine_fail soon; false or NULL: a late call fails the engine at once. */
  bool (*asks)(void *context, const char *late, const char *awaited);
  /* Where an offered buffer lies in shared memory: fills the region fields; may be NULL. */
  void (*locate)(void *context, const void *memory, size_t bytes, struct by_offer *offer);
  void *context;
  uint64_t stall;           /* ns after which `asks` is called for a call, and again after each such time; 0: never */
  struct by_tracer *tracer; /* calls are noted there while it is on; may be NULL */
  bool keeps_lanes;         /* by_engine_take_lanes will be called */
};

BANYAN_CHECK enum banyan_status by_engine_create(const struct by_engine_options *options, struct by_engine **out);
/* Destroys teams, calls and lanes with it. */
void by_engine_destroy(struct by_engine *engine);

/* One more process, a helper that came later: it has the next number, and all processes know it before it has part in
 * anything. What is under way goes on. BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_engine_add(struct by_engine *engine);

/* Gives the lanes to a peer to the engine, which owns them from now on: all 1 .. BY_LANES of them at once and in the
 * same order as at the peer. Large messages are spread over them. */
void by_engine_attach(struct by_engine *engine, uint32_t process, struct by_lane *const *lanes, uint32_t n);
/* Takes the lanes to a peer away from an engine that has failed, so that they may go on in another one: those over the
 * network, if all of them work. What they were sending is left to them, and they may be in the middle of a frame.
 * `lanes` has room for BY_LANES; returns how many. */
uint32_t by_engine_take_lanes(struct by_engine *engine, uint32_t process, struct by_lane **lanes);
/* Of an engine that has failed: nothing more comes over the lanes to a peer, which may wait for it. What the network
 * has been given still arrives. */
void by_engine_hang_up(struct by_engine *engine, uint32_t process);
/* Takes over the fabric to this process, a server's, for calls over plans whose in-network trees have this version (see
 * by_team_set_helped_plan). Such calls wait for it. It is destroyed if there is one already, or on failure.
 * BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_engine_attach_fabric(struct by_engine *engine, uint32_t process, uint32_t version,
                                                        struct by_fabric *fabric);
/* Whether a team's plan has in-network trees of this version, or a call that is under way uses such a plan. */
bool by_engine_uses_fabrics(const struct by_engine *engine, uint32_t version);
/* Destroys the fabrics of a version that is not used any more. */
void by_engine_detach_fabrics(struct by_engine *engine, uint32_t version);
/* When by_engine_progress has to be called at the latest though nothing comes, by the engine's clock; UINT64_MAX: as it
 * likes. */
uint64_t by_engine_deadline(const struct by_engine *engine);
/* This process has left on purpose: the end of its lanes is no death. `never`: if it has none now, none will come. A
 * call that waits for more from it fails, now or later. */
void by_engine_left(struct by_engine *engine, uint32_t process, bool never);
/* Whether a process has a lane. */
bool by_engine_attached(const struct by_engine *engine, uint32_t process);
/* Calls `visit` for every lane. */
void by_engine_lanes(struct by_engine *engine, void (*visit)(void *context, struct by_lane *lane), void *context);
/* Marks what all lanes and fabrics send from now on, later ones too. */
void by_engine_set_mark(struct by_engine *engine, const struct by_mark *mark);
/* Bytes given to the network so far, headers included: not those in memory that is shared. */
uint64_t by_engine_sent(const struct by_engine *engine);
/* Whether calls under way wait for lanes that have not come about. */
bool by_engine_lacks_lanes(const struct by_engine *engine);
/* Calls `visit` for every lane whose network is known, with the process that it goes to. */
void by_engine_meter(const struct by_engine *engine,
                     void (*visit)(void *context, uint32_t process, const struct by_meter *meter), void *context);

/* Sends so many bytes that nobody needs to a process on another host, behind all that is to be sent there: a lane that
 * no plan uses shows nothing of its network otherwise. One that is under way ends. */
void by_engine_probe(struct by_engine *engine, uint32_t process, uint64_t bytes);

/* Control messages come from this process, or go to it: it gets a lane, and frames of calls that are not made here yet
 * do not hold them up. */
void by_engine_expect_control_messages(struct by_engine *engine, uint32_t process);
/* Sends a copy, in order with other control messages to this process; `team` is any number. BANYAN_ERR_NO_MEMORY: also
 * where the process does not take BY_CONTROL_MESSAGES_KEPT. One that sends more than that before it is freed is at
 * fault. */
BANYAN_CHECK enum banyan_status by_engine_write(struct by_engine *engine, uint32_t process, uint32_t team,
                                                const void *bytes, size_t n);
/* Whether one has come. */
bool by_engine_has_control_messages(const struct by_engine *engine);
/* The next one that has come, which is the caller's; NULL: none. */
struct by_control_message *by_engine_read(struct by_engine *engine);
void by_control_message_free(struct by_engine *engine, struct by_control_message *message);
/* The numbers of the *n teams that were destroyed here and not made again, until the next change of teams. */
const uint32_t *by_engine_get_destroyed(const struct by_engine *engine, uint32_t *n);

/* A team is a communicator: its own ranks (processes[rank]), plan and call
 * numbers. `id` is the same on all its members and unused so far. The team
 * keeps its own copy of the members and borrows the plan until it is replaced. */
BANYAN_CHECK enum banyan_status by_team_create(struct by_engine *engine, uint32_t id, uint32_t rank, uint32_t n,
                                               const uint32_t *processes, struct by_team **out);
/* The one of this id; NULL: there is none. */
struct by_team *by_engine_team(const struct by_engine *engine, uint32_t id);
/* Whether peers still have to be notified of what has ended here; by_engine_progress does it. */
bool by_team_owes(const struct by_team *team);
/* Ends what is still pending in it. Calls that were not released stay until they are. */
void by_team_destroy(struct by_team *team);
/* Plan for later calls; calls under way keep theirs. Takes the plan over. */
void by_team_set_plan(struct by_team *team, struct by_plan *plan);
/* The same for a plan with helpers: helpers[i] is the process of its i-th vertex behind the ranks, UINT32_MAX: none.
 * Groups that lack one go among ranks alone, from the start or once by_engine_lost was called. At a helper, older plans
 * stay known, for calls that others still make. `trees`: the version of its in-network trees, where it has some; no two
 * plans of the job's that are in use have the same. Takes the plan over, also on failure. */
BANYAN_CHECK enum banyan_status by_team_set_helped_plan(struct by_team *team, struct by_plan *plan,
                                                        const uint32_t *helpers, uint32_t trees);
const struct by_plan *by_team_plan(const struct by_team *team);
/* The processes at that plan's vertices behind the ranks; NULL: it has no helpers here. */
const uint32_t *by_team_helpers(const struct by_team *team);
/* The number of the next collective call, and whether one before that number is under way. */
uint32_t by_team_next_call(const struct by_team *team);
bool by_team_is_running(const struct by_team *team, uint32_t before);
/* Adds those of its collective calls that failed, and descriptions of the last ones, as completed ones behind them. */
void by_team_add_history(const struct by_team *team, struct by_history *to);
uint32_t by_team_id(const struct by_team *team);
uint32_t by_team_rank(const struct by_team *team);

/* Messages may come from any rank until the same call with -1: what comes is taken out of the lanes, and all ranks get
 * one, since of a pair it may be this rank that has to make it. `more`: 1, or -1. */
void by_team_expect(const struct by_team *team, int more);
/* Whether the next message with this tag from some rank has begun to come, and from which, the lowest one first. */
bool by_team_probe(const struct by_team *team, uint32_t tag, uint32_t *rank);

/* Whether a call makes sense on this team; by_engine_start checks the same. */
BANYAN_CHECK enum banyan_status by_engine_check_call(const struct by_team *team, const struct banyan_call *call);
/* Starts a call; checks its arguments first. *out is the caller's until
 * by_call_release. `deadline` is absolute by the engine's clock, 0: none. */
BANYAN_CHECK enum banyan_status by_engine_start(struct by_team *team, const struct banyan_call *call, uint64_t deadline,
                                                struct by_call **out);
bool by_call_ended(const struct by_call *call);
/* Its record in the tracer; 0: it has none. */
uint64_t by_call_trace(const struct by_call *call);
/* Its status; the thread's error text is set if it is not BANYAN_OK. */
enum banyan_status by_call_result(const struct by_call *call);
/* Gives an ended call back; one that has not ended goes on and is freed at its end. */
void by_call_release(struct by_call *call);

/* A helper is gone: calls under way repeat what went through it among ranks alone, and later ones do not use it. All
 * processes are to be notified, in any order; not from within by_engine_progress. */
void by_engine_lost(struct by_engine *engine, uint32_t process);
bool by_engine_has_lost(const struct by_engine *engine, uint32_t process);

/* Moves what can be moved. True if anything moved. */
bool by_engine_progress(struct by_engine *engine);
/* Ends calls whose deadline has passed, and the engine with them, unless it asks first. */
void by_engine_check_deadlines(struct by_engine *engine);
enum by_described { BY_DESCRIBED_ENDED, BY_DESCRIBED_RUNNING, BY_DESCRIBED_PAIR };
/* The last calls and what they wait for: for each team id, size, first process, number of the next call, the
 * plan's version and name, then n calls: number, by_described (u8), collective and dtype_op (u8 each), root, count
 * (u64), plan, n processes awaited. */
void by_engine_describe(const struct by_engine *engine, struct by_writer *writer);
/* Visits the processes of which calls need more, some of them several times. */
void by_engine_visit_awaited(const struct by_engine *engine, void (*visit)(void *context, uint32_t process),
                             void *context);
/* When `asks` was called without a late call: since when no call has ended. */
uint64_t by_engine_still_since(const struct by_engine *engine);
/* "call 3, allreduce(...)" */
const char *by_engine_call_text(const struct by_frame *descriptor, char *text, size_t capacity);
/* A rank's call, for an error: the rank's name, what it called (NULL: it is no longer known), its plan's name (NULL:
 * not known). */
struct by_differing {
  const char *rank;
  const struct by_frame *descriptor;
  const char *plan;
};
/* The error text for two ranks' different calls of one number, or equal calls under different plans; a's call is known.
 */
void by_engine_differ_text(const struct by_differing *a, const struct by_differing *b, char *text, size_t capacity);
/* Calls started and not ended. */
uint32_t by_engine_pending(const struct by_engine *engine);
/* Whether something is left to send, maybe of calls that have ended; by_engine_progress sends it. */
bool by_engine_has_to_send(const struct by_engine *engine);
/* Calls ended so far. */
uint64_t by_engine_ended(const struct by_engine *engine);
/* Has AllReduces timed from the next one on (call_times.h); NULL: no longer. Borrowed until then. */
void by_engine_time_calls(struct by_engine *engine, struct by_call_times *times);
/* Whether a call under way reads or writes there. */
bool by_engine_uses(const struct by_engine *engine, const void *memory, size_t bytes);
/* Notifies the peers that may have mapped this region of this process that it is gone. No call may use it any more. */
void by_engine_forget_region(struct by_engine *engine, uint32_t region);
/* Notifies lanes that the owner is about to sleep, or woke. */
void by_engine_sleeping(struct by_engine *engine, bool asleep);
/* Closes all lanes on purpose, so that their end is no error to the peers. True when nothing is left to send,
 * and all has arrived. */
bool by_engine_goodbye(struct by_engine *engine);

/* Ends every pending and later call with this status and text. Only the first
 * failure counts. `process` is the culprit or UINT32_MAX. */
void by_engine_fail(struct by_engine *engine, enum banyan_status status, uint32_t process, const char *text);
/* All know this reason: it replaces the engine's own, unless calls have ended with that already. Fails the engine if it
 * has not failed. */
void by_engine_settle(struct by_engine *engine, enum banyan_status status, uint32_t process, const char *text);
/* Whether the engine has failed and waits for by_engine_settle. Until then nothing moves, and calls are accepted. */
bool by_engine_is_open(const struct by_engine *engine);
/* The process that failed the engine; UINT32_MAX: none is known. */
uint32_t by_engine_failed_process(const struct by_engine *engine);
/* Of an engine that has failed: later calls say this, too. */
void by_engine_explain(struct by_engine *engine, const char *text);
/* BANYAN_OK while the reason of a failure is not settled. */
enum banyan_status by_engine_status(const struct by_engine *engine);
const char *by_engine_error(const struct by_engine *engine);
void by_engine_counters(const struct by_engine *engine, struct banyan_counters *out);

#endif
