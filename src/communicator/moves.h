/* A communicator's part in moving to another plan: see move.h. Under the context's lock unless said otherwise. */
#ifndef BY_COMMUNICATOR_MOVES_H
#define BY_COMMUNICATOR_MOVES_H

#include "context.h"
#include "move.h"

/* What a member does about a word of the leader's; takes the lock. `answer` is filled, its text in `text` (`room`
 * bytes). False: there is nothing to answer. */
bool by_moves_hear(struct by_context *context, const struct by_move_word *word, struct by_move_word *answer, char *text,
                   size_t room);
/* Before a collective call, or a plan set by hand, of a communicator that has a move. Waits while the call is the one
 * of which nobody knows yet whether the plan changes there: until the word comes, or `deadline` is over, for a round
 * trip to rank 0 as a rule. */
BANYAN_CHECK enum banyan_status by_moves_pass(struct banyan_comm *comm, uint64_t deadline);
/* Such a call has started. The plan for the next one may be set at once. */
void by_moves_started_one(struct banyan_comm *comm);
static inline void by_moves_count(struct banyan_comm *comm) {
  comm->started++;
  if (comm->move.state != BY_MOVE_NONE) by_moves_started_one(comm);
}
/* Rank 0 of the job, any thread, without the lock: as banyan_comm_propose_plan, for the communicator of this id, if it
 * is there once all are asked, of these n members. The plan, over ranks or hosts, is taken over. Tells once what came
 * of it, on the loop's thread, unless the job ends before: `why` NULL: all ranks use it from call `at` on; else why the
 * plan stays. `tell` may be NULL. */
BANYAN_CHECK enum banyan_status by_moves_propose(struct by_context *context, uint32_t id, uint32_t n,
                                                 const uint32_t *processes, struct by_plan *plan,
                                                 const struct by_told_move *tell);
/* An iteration begins on this rank. */
void by_moves_mark(struct by_context *context);
/* How far the communicator of this id has come; all 0 if there is none. Takes the lock. */
struct by_moves_view by_moves_view(struct by_context *context, uint32_t id);
/* Before the communicator goes. */
void by_moves_forget(struct banyan_comm *comm);

/* moves_inner.c: what submitted operations run under.
 * Keeps a move's plan, which is taken over. False: the operations have not come to the moves before it yet. */
bool by_moves_keep(struct banyan_comm *comm, const struct by_kept_plan *kept);
/* The communicator changes its plan: keeps the one that is in use for operations that may start before the note. */
BANYAN_CHECK enum banyan_status by_moves_keep_before(struct banyan_comm *comm);
/* That move is none. */
void by_moves_let_go(struct banyan_comm *comm, uint32_t number);
void by_moves_let_all_go(struct banyan_comm *comm);
/* A plan has been set by hand, at the same place on all ranks, which counts as a call: what they had moved to counts no
 * more; a move that is under way comes behind it. */
void by_moves_set_by_hand(struct banyan_comm *comm);
/* The plan for submitted operations while `set` is set by hand, the caller's: of a move that the log has noted and
 * whose call is still to come, which comes behind `set`, unless that is the user's and the move's is a manager's. */
BANYAN_CHECK enum banyan_status by_moves_choose_inner(const struct banyan_comm *comm, const struct by_plan *set,
                                                      struct by_kept_plan *out);
/* All have prepared this move, which is decided on. */
void by_moves_decided(struct banyan_comm *comm, uint32_t number);
/* There is a log only now: where its root is here, it notes the last move that was decided on, as it notes later ones.
 * Where iterations are marked and one is under way, it does so when the next one begins; */
void by_moves_announce(struct banyan_comm *comm);
/* or, after one more submission, when that is overdue. */
void by_moves_announce_late(struct banyan_comm *comm);
/* The log notes a move. */
BANYAN_CHECK enum banyan_status by_moves_noted(struct banyan_comm *comm, uint32_t number);
/* The plan for an inner communicator that is made now, the caller's: what the log has noted, whichever plans the outer
 * one has come to meanwhile. */
BANYAN_CHECK enum banyan_status by_moves_take_noted(struct banyan_comm *comm, struct by_kept_plan *out);

#endif
