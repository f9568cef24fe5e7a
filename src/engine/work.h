/* Advancing steps. Every step has a position in the layout's bytes; a step may go as far as all unfinished steps on
 * which it depends:
 *
 *    REDUCE  ====>------      position 5 of 10
 *    SEND    ==>--------      may go to 5: what has been added may already be sent
 *
 * A unit of work is one block of one step, so that sending, adding and receiving alternate even in one thread. */
#ifndef BY_ENGINE_WORK_H
#define BY_ENGINE_WORK_H

#include "call.h"

/* Starts a step with its call: a send goes to its link at once, a copy is queued. */
void by_work_start(struct by_call *call, uint32_t index);
/* Advances some blocks of each call that has work. */
void by_work_run(struct by_runner *runner);
/* Grants the messages of a starting call that need no memory here. */
void by_work_grant_ahead(struct by_call *call);
/* Whether calls of this kind have messages worth granting ahead. Requires bounds and pair. */
bool by_work_may_grant(const struct by_call *call);

/* Functions of struct by_transfer_ops. */
size_t by_work_add(struct by_in *in, const char *bytes, size_t n);
void by_work_arrived(struct by_in *in, size_t n);
void by_work_offered(struct by_in *in);
void by_work_summed(struct by_in *in, uint64_t from, uint64_t n);
void by_work_sent(struct by_out *out);

#endif
