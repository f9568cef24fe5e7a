/* A communicator's part in switching to another plan while calls go on: see plan_switch_message.h. A communicator that
 * has a plan gets another one only here: by a plan switch, by the program, or by the log of submitted operations. Under
 * the context's lock unless stated otherwise. */
#ifndef BY_JOB_PLAN_SWITCH_H
#define BY_JOB_PLAN_SWITCH_H

#include "comm.h"

struct by_tree_grants;

/* What is submitted to a communicator, as far as its plans depend on it; owned by the submitter. */
struct by_submit_log {
  struct banyan_comm *inner; /* The communicator in which operations run; NULL: nothing was submitted here. */
  bool root;                 /* This rank writes the log. */
  /* Writes the number of a plan switch into the log. */
  void (*note)(void *submitter, uint32_t number);
  /* Operations that have been submitted so far. */
  uint64_t (*count)(const void *submitter);
  /* The name of one that has not ended; NULL: there is none. */
  const char *(*find_open)(const void *submitter);
  /* The communicator has come to another plan, which may have another control tree. */
  void (*plan_changed)(void *submitter);
  void *submitter;
};

/* Handles a message of the leader on a member; takes the lock. `answer` is filled, its text in `text` (`room` bytes).
 * False: there is nothing to answer. `context`: a struct by_job. */
bool by_plan_switches_handle(void *context, const struct by_plan_switch_message *message,
                             struct by_plan_switch_message *answer, char *text, size_t room);
/* To be called before a collective call, or before a plan is set by hand, on a communicator that has a plan switch. If
 * it is not known yet whether the plan changes at this call, waits for the message that decides it, until `deadline` at
 * most; usually one round trip to rank 0. */
BANYAN_CHECK enum banyan_status by_plan_switches_pass(struct banyan_comm *comm, uint64_t deadline);
/* The first call of a communicator, by its first rank: asks rank 0 of the job for a plan, if the communicator begins
 * with a built-in one, or is one that follows the job's plan, and is on several hosts. */
void by_plan_wanted_ask(struct banyan_comm *comm);
/* From now on, communicators of all ranks that are made ask for the plans that rank 0 comes to. Under lock. */
void by_plan_wanted_follow(struct by_job *job);
/* Such a call has started. The plan for the next one may be set at once. */
void by_plan_switches_started_one(struct banyan_comm *comm);
static inline void by_plan_switches_count(struct banyan_comm *comm) {
  comm->plans.started++;
  if (comm->plans.wanted == BY_PLAN_WANTED_AT_FIRST_CALL) by_plan_wanted_ask(comm);
  if (comm->plans.plan_switch.state != BY_PLAN_SWITCH_NONE) by_plan_switches_started_one(comm);
}
/* Rank 0 of the job, any thread, without the lock: as banyan_comm_propose_plan, for the communicator of this id, if it
 * is there once all are asked, of these n members. The plan, over ranks or hosts, is taken over. Notifies once of the
 * result, on the loop's thread, unless the job ends before: `why` NULL: all ranks use it from call `at` on; otherwise
 * why the plan stays. `notify` may be NULL; `grants`: NULL, except of a manager's plan. */
BANYAN_CHECK enum banyan_status by_plan_switches_propose(void *context, uint32_t id, uint32_t n,
                                                         const uint32_t *processes, struct by_plan *plan,
                                                         const struct by_tree_grants *grants,
                                                         const struct by_plan_switch_observer *notify);
/* An iteration begins on this rank. */
void by_plan_switches_mark(struct by_job *job);
/* How far the communicator of this id has come; all 0 if there is none. Takes the lock. */
struct by_plan_switches_view by_plan_switches_view(void *argument, uint32_t id);
/* Adds the plan of a communicator as JSON, without its classes for some collectives: a manager counts what an AllReduce
 * puts on links. Nothing, if there is no such communicator. */
void by_plan_switches_print(void *argument, uint32_t id, struct by_text *text);
/* A copy of the plan of a communicator, over its ranks, or of the one that is agreed on for a later call: its JSON may
 * be longer than what is read. The caller owns *out. BANYAN_ERR_ARGUMENT: there is no such communicator. Takes the
 * lock. */
BANYAN_CHECK enum banyan_status by_plan_switches_copy(struct by_job *job, uint32_t id, struct by_plan **out);
/* Before the communicator goes, or when the user sets its plan: no plan need be made for it. */
void by_plan_wanted_end(struct banyan_comm *comm);
/* Before the communicator goes. */
void by_plan_switches_forget(struct banyan_comm *comm);

/* As banyan_comm_set_plan, with a plan over the communicator's ranks, which it takes over; NULL: the default one.
 * Without the lock. */
BANYAN_CHECK enum banyan_status by_plan_switches_set_plan(struct banyan_comm *comm, struct by_plan *plan);

/* There is a log from now on, or, with NULL, no longer. */
void by_plan_switches_attach_log(struct banyan_comm *comm, const struct by_submit_log *log);
/* The log has another root, which this rank may be. */
void by_plan_switches_move_log(struct banyan_comm *comm);
/* Gives a new inner communicator its plan: what the log has noted, whichever plans the outer one has come to meanwhile.
 */
BANYAN_CHECK enum banyan_status by_plan_switches_set_first_inner(struct banyan_comm *comm, struct banyan_comm *inner);
/* One more operation has been submitted. */
void by_plan_switches_submitted(struct banyan_comm *comm);
/* Rank 0 of the job: whether the in-network trees of the next plan serve operations, which make most calls. */
bool by_plan_switches_serves_operations(struct banyan_comm *comm);
/* A call of operations that have been submitted to the communicator begins; it may be several fused ones. */
void by_plan_switches_call_of_operations(struct banyan_comm *comm, const struct banyan_call *call);
/* The log notes a plan switch. */
BANYAN_CHECK enum banyan_status by_plan_switches_noted(struct banyan_comm *comm, uint32_t number);

/* Keeps a plan switch's plan for submitted operations and takes ownership of it. False: the operations have not reached
 * the plan switches before it yet. */
bool by_plan_switches_keep(struct banyan_comm *comm, const struct by_kept_plan *kept);
/* That plan switch is dropped. */
void by_plan_switches_let_go(struct banyan_comm *comm, uint32_t number);
/* All ranks have prepared this plan switch, which is decided on. */
void by_plan_switches_decided(struct banyan_comm *comm, uint32_t number);

#endif
