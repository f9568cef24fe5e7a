/* The class of the job at the control connections: rank 0 tells those that hear of it from no agent. */
#include "control_parts.h"
#include "log.h"

static void tell(const struct by_control *control, struct end *end) {
  uint8_t class_ = (uint8_t)control->class_;
  bool beside = by_control_is_helper(control, end->rank);
  if (end->rank <= 0 || end->leaving || end->over || (!beside && !control->class_for_ranks)) return;
  if (by_stream_send(end->stream, CLASS, &class_, 1) != BANYAN_OK)
    by_warn("control", "telling %s its class failed: %s", by_stream_get_name(end->stream), banyan_error_text());
}

void by_control_tell_class(struct by_control *control, uint32_t class_, bool ranks) {
  control->class_ = class_;
  control->class_for_ranks = ranks;
  control->has_class = true;
  for (struct end *end = control->ends; end; end = end->next) tell(control, end);
}

void by_control_tell_class_to(struct end *end) {
  if (end->control->has_class) tell(end->control, end);
}

void by_control_heard_class(struct by_control *control, const void *payload, size_t length) {
  if (length == 1)
    by_job_set_class(control->job, *(const uint8_t *)payload);
  else
    by_warn("control", "rank 0: a malformed word about a class; ignored");
}
