#include <stdlib.h>
#include <string.h>

#include "cluster_link_parts.h"
#include "control_parts.h"
#include "log.h"

enum { LEAST_MS = 10 }; /* between reports */

static bool is_ours(const struct by_cluster_link *link, const char *job) {
  return job && !strcmp(job, link->job);
}

/* A manager knows a host by its agent's name for it. */
static void compare_names(struct by_cluster_link *link, const char *theirs) {
  const struct by_context *context = link->context;
  const char *ours = context->members[context->rank].host;
  if (context->rank != 0 || !theirs || link->misnamed || strcmp(ours, theirs) == 0) return;
  link->misnamed = true;
  by_warn("cluster",
          "this host is \"%s\" for its ranks and \"%s\" for its agent: the job gets no plans; set BANYAN_HOST (or "
          "the name in `banyan run -H`) to the agent's name for it, or start the agent with --name",
          ours, theirs);
}

static void heard_welcome(struct by_cluster_link *link, const struct by_cluster_message *message) {
  compare_names(link, message->host);
  if (link->missed) by_info("cluster", "%s is there", link->agent ? "the agent" : "the manager");
  link->welcome = true;
  link->missed = false;
  link->interval = by_clock_from_seconds(message->interval);
  if (link->interval < LEAST_MS * BY_MILLISECOND) link->interval = LEAST_MS * BY_MILLISECOND;
  by_cluster_link_welcomed(link);
  by_cluster_link_say_wish(link);
  by_cluster_link_report(link);
}

/* Helpers and servers speak with no agent, and without agents neither do the other ranks. */
static void heard_class(struct by_cluster_link *link, uint32_t class_) {
  struct by_context *context = link->context;
  by_context_set_class(context, class_);
  if (context->rank == 0) by_control_tell_class(context->control, class_, link->manager != NULL);
}

static void heard_classes(struct by_cluster_link *link, const struct by_cluster_message *message) {
  for (uint32_t i = 0; i < message->n_jobs; i++)
    if (is_ours(link, message->jobs[i].job)) heard_class(link, message->jobs[i].class_);
}

static void hear(struct by_cluster_link *link, const struct by_cluster_message *message) {
  switch (message->say) {
  case BY_SAY_WELCOME: heard_welcome(link, message); break;
  case BY_SAY_CLASSES: heard_classes(link, message); break;
  case BY_SAY_PLAN:
    if (is_ours(link, message->job) && link->context->rank == 0) by_cluster_link_take_plan(link, message);
    break;
  case BY_SAY_CELLS:
    if (is_ours(link, message->job) && link->context->rank == 0)
      by_control_heard_cells(link->context->control, message->cells, message->n_cells);
    break;
  case BY_SAY_REFUSED: by_cluster_link_lose_for_long(link, message->why); break;
  default: by_debug("cluster", "\"%s\" is not for ranks; ignored", by_cluster_say_name(message->say)); break;
  }
}

void by_cluster_link_heard(struct by_cluster_link *link, const char *line, size_t length) {
  struct by_cluster_message message;
  if (by_cluster_message_read(line, length, &message) != BANYAN_OK) {
    by_cluster_link_lose_for_long(link, banyan_error_text());
    return;
  }
  hear(link, &message);
  by_cluster_message_fini(&message);
}
