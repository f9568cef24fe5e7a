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
/* Collective calls that it has started; 0 if there is none of this id. Takes the lock. */
uint64_t by_moves_started(struct by_context *context, uint32_t id);
/* Before the communicator goes. */
void by_moves_forget(struct banyan_comm *comm);

#endif
