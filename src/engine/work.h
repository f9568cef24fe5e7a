/* Advancing steps. Every step has a position in the layout's bytes; a step may
 * go as far as all unfinished steps it depends on have come:
 *
 *   REDUCE  ====>------      position 5 of 10
 *   SEND    ==>--------      may go to 5: what has been added may already be sent
 *
 * A unit of work is one block of one step, so that sending, adding and
 * receiving alternate even in one thread. */
#ifndef BY_ENGINE_WORK_H
#define BY_ENGINE_WORK_H

#include "call.h"

/* When a call starts: what can go out goes to its link at once, what can be copied is queued. */
void by_work_start(struct by_call *call, uint32_t index);
/* Runs some units of each call that has work. */
void by_work_run(struct by_runner *runner);
/* When a call starts: grants what needs no room. */
void by_work_grant_ahead(struct by_call *call);
/* Whether calls like it have messages that are worth it; bounds and pair are set. */
bool by_work_may_grant(const struct by_call *call);

/* What becomes of messages: see struct by_transfer_ops. */
size_t by_work_add(struct by_in *in, const char *bytes, size_t n);
void by_work_arrived(struct by_in *in, size_t n);
void by_work_offered(struct by_in *in);
void by_work_summed(struct by_in *in, uint64_t from, uint64_t n);
void by_work_sent(struct by_out *out);

#endif
