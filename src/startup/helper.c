#include "helper.h"

#include <stdio.h>

#include "control.h"
#include "events.h"
#include "log.h"

enum { LAST_MS = 2000 }; /* for what is under way when rank 0 has left */

struct service {
  struct by_context *context;
  volatile sig_atomic_t *stop;
  uint64_t until; /* 0: rank 0 is still there */
};

/* Ranks leave when all calls are over everywhere; no process needs what this helper still sends then. */
static bool is_over(void *argument) {
  struct service *service = argument;
  struct by_context *context = service->context;
  if (*service->stop || by_engine_status(context->job.engine) != BANYAN_OK) return true;
  if (!by_control_is_over(context->control)) return false;
  uint64_t now = by_clock_now(&by_clock_system);
  if (!service->until) service->until = now + LAST_MS * BY_MILLISECOND;
  return !by_engine_pending(context->job.engine) || now >= service->until;
}

enum banyan_status by_helper_run(const struct banyan_options *options, volatile sig_atomic_t *stop,
                                 void (*joined)(const char *name, uint32_t ranks)) {
  struct by_context *context = NULL;
  char text[1024];
  BY_TRY(by_context_create(options, &(struct by_job_role){.kind = BY_MEMBER_HELPER}, &by_context_events, &context));
  struct service service = {.context = context, .stop = stop};
  by_context_lock(context);
  by_info("communicator", "%s helps %u ranks", by_context_name(context, context->job.rank), context->job.size);
  if (joined) joined(context->job.members[context->job.rank].host, context->job.size);
  by_progress_wait(&context->progress, is_over, &service);
  enum banyan_status status = by_engine_status(context->job.engine);
  snprintf(text, sizeof text, "%s", by_engine_error(context->job.engine));
  by_context_unlock(context);
  by_context_release(context);
  return status == BANYAN_OK ? BANYAN_OK : by_fail(status, "%s", text);
}
