/* Processes whose lanes ended, until it is known why: those that left have said so to rank 0, dead ones to nobody. */
#include <stdio.h>
#include <stdlib.h>

#include "control_parts.h"

struct suspicion {
  struct suspicion *next;
  uint32_t process;
  char text[TEXT_MOST];
};

static void drop_first(struct by_control *control) {
  struct suspicion *first = control->suspicions;
  control->suspicions = first->next;
  free(first);
}

void by_control_forget_suspects(struct by_control *control) {
  while (control->suspicions) drop_first(control);
}

/* Rank 0 decides a little sooner than the others would alone. */
static void give_grace(struct by_control *control) {
  uint64_t grace = control->job->rank == 0 ? GRACE_MS / 2 : GRACE_MS;
  by_loop_set_delay(control->job->loop, &control->grace, grace * BY_MILLISECOND);
}

/* A rank that decides alone has asked rank 0 in vain: a stopped rank 0 is why others give up and end. */
static void decide(struct by_control *control, const struct suspicion *suspicion) {
  const struct by_job *job = control->job;
  char text[TEXT_MOST];
  snprintf(text, sizeof text, "%s", suspicion->text);
  if (job->rank != 0 && suspicion->process != 0 && !atomic_load(&control->deaf))
    snprintf(text, sizeof text, "%.380s. Nor does rank 0 (host %.64s) answer: is it stopped?", suspicion->text,
             job->members[0].host);
  by_control_fail(control, BANYAN_ERR_PEER_DEAD, suspicion->process, text);
}

/* One that has left may have been suspected in front of one that is dead. */
void by_control_grace_over(void *context) {
  struct by_control *control = context;
  const struct suspicion *first = control->suspicions;
  if (!control->told && !by_control_has_left(control, first->process)) {
    decide(control, first);
    return;
  }
  while (control->suspicions && by_control_has_left(control, control->suspicions->process)) drop_first(control);
  if (control->suspicions && !control->told) give_grace(control);
}

void by_control_suspect_here(struct by_control *control, uint32_t process, const char *text) {
  struct suspicion **last = &control->suspicions;
  if (control->told) return;
  if (by_control_is_helper(control, process)) { /* nobody dies of it: no need to be sure */
    if (control->job->rank == 0)
      by_control_lose(control, process, text);
    else if (control->ends)
      by_control_send_text(control->ends, SUSPECT, BANYAN_ERR_PEER_DEAD, process, text);
    return;
  }
  while (*last && (*last)->process != process) last = &(*last)->next;
  if (*last) return;
  struct suspicion *suspicion = calloc(1, sizeof *suspicion);
  if (!suspicion) { /* a job that hangs would be worse than one that ends for a rank that left */
    by_control_fail(control, BANYAN_ERR_PEER_DEAD, process, text);
    return;
  }
  suspicion->process = process;
  snprintf(suspicion->text, sizeof suspicion->text, "%s", text);
  *last = suspicion;
  if (control->job->rank != 0 && control->ends)
    by_control_send_text(control->ends, SUSPECT, BANYAN_ERR_PEER_DEAD, process, text);
  if (!by_timer_is_set(&control->grace)) give_grace(control);
}
