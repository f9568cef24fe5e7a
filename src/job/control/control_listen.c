/* Letters of controllers are read by whoever drives the engine. A rank that has submitted nothing may have nobody who
 * does; where others wait for it, it is told to listen, over its connection to rank 0. */
#include "control_parts.h"
#include "log.h"

static void listen_here(const struct by_control *control) {
  if (control->job->engine) control->events.listen(control->events.context);
}

/* Rank 0 tells everybody, others tell rank 0; once. */
static void spread(struct by_control *control) {
  control->listens = true;
  for (struct end *end = control->ends; end; end = end->next)
    if (end->rank >= 0 && !end->leaving && !by_control_is_helper(control, end->rank) &&
        by_stream_send(end->stream, LISTEN, NULL, 0) != BANYAN_OK)
      by_warn("control", "%s: telling it to listen failed: %s", by_stream_get_name(end->stream), banyan_error_text());
}

static void begin(void *argument) {
  struct by_control *control = argument;
  if (control->listens) return;
  spread(control);
  listen_here(control);
}

void by_control_have_listen(struct by_control *control) {
  if (by_loop_post(control->job->loop, begin, control) != BANYAN_OK)
    by_warn("control", "telling other ranks to listen failed: %s", banyan_error_text());
}

void by_control_heard_listen(struct by_control *control) {
  if (control->job->rank == 0)
    begin(control);
  else
    listen_here(control);
}
