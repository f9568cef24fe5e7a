/* A communicator's part in moving to another plan: see move.h. Under the context's lock unless said otherwise. */
#ifndef BY_COMMUNICATOR_MOVES_H
#define BY_COMMUNICATOR_MOVES_H

#include "context.h"
#include "move.h"

/* What a member does about a word of the leader's; takes the lock. `answer` is filled, its text in `text` (`room`
 * bytes). False: there is nothing to answer. */
bool by_moves_hear(struct by_context *context, const struct by_move_word *word, struct by_move_word *answer, char *text,
                   size_t room);
/* Before a collective call of a communicator that has a move. Waits while the call is the one of which nobody knows yet
 * whether the plan changes there: until the word comes, or `deadline` is over, for a round trip to rank 0 as a rule. */
BANYAN_CHECK enum banyan_status by_moves_pass(struct banyan_comm *comm, uint64_t deadline);
/* Such a call has started. The plan for the next one may be set at once. */
void by_moves_started_one(struct banyan_comm *comm);
static inline void by_moves_count(struct banyan_comm *comm) {
  comm->started++;
  if (comm->move.state != BY_MOVE_NONE) by_moves_started_one(comm);
}
/* Collective calls that it has started; 0 if there is none of this id. Takes the lock. */
uint64_t by_moves_started(struct by_context *context, uint32_t id);
/* Before the communicator goes. */
void by_moves_forget(struct banyan_comm *comm);

/* moves_inner.c: what submitted operations run under.
 * Keeps a move's plan, which is taken over. False: the operations have not come to the moves before it yet. */
bool by_moves_keep(struct banyan_comm *comm, uint32_t number, struct by_plan *plan);
/* That move is none. */
void by_moves_let_go(struct banyan_comm *comm, uint32_t number);
void by_moves_let_all_go(struct banyan_comm *comm);
/* The last move is decided on, or there is a log only now: where its root is here, it notes the move. */
void by_moves_announce(struct banyan_comm *comm);
/* The log notes a move. */
BANYAN_CHECK enum banyan_status by_moves_noted(struct banyan_comm *comm, uint32_t number);
/* The plan that the log has noted, for an inner communicator that is made now; the caller's. NULL: the outer one's. */
struct by_plan *by_moves_take_noted(struct banyan_comm *comm);

#endif
