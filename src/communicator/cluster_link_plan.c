/* Plans of the manager: over hosts, proposed to the ranks as a plan by hand would be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster_link_parts.h"
#include "log.h"
#include "plan.h"
#include "plan_make.h"

static void say_kept(struct by_cluster_link *link, uint64_t number, const char *why) {
  char text[BY_CLUSTER_REASON + 1];
  by_keep_printable(why, text, sizeof text);
  by_cluster_link_say(
      link, &(struct by_cluster_message){.say = BY_SAY_KEPT, .job = link->job, .number = number, .why = text});
}

/* Its h-th rank must be the h-th host, or it would be another one that each tree goes over. */
static enum banyan_status check_hosts(const struct by_context *context, const char *text) {
  struct by_plan *plan = NULL;
  enum banyan_status status = BANYAN_OK;
  BY_TRY(by_plan_named(text, context->size, &plan));
  for (uint32_t r = 0, h = 0; r < context->size && status == BANYAN_OK; r++) {
    const char *host = context->members[r].host;
    if (context->host_of[r] != h) continue;
    if (h >= plan->n_ranks || strcmp(plan->vertices[h].name, host) != 0)
      status = by_fail(BANYAN_ERR_PLAN, "host %u of the job is \"%.64s\", of plan '%.64s' it is \"%.64s\"", h, host,
                       plan->name, h < plan->n_ranks ? plan->vertices[h].name : "none");
    h++;
  }
  by_plan_destroy(plan);
  return status;
}

void by_cluster_link_take_plan(struct by_cluster_link *link, const struct by_cluster_message *message) {
  enum banyan_status status = check_hosts(link->context, message->plan);
  say_kept(link, message->number, status == BANYAN_OK ? "this version takes no plans yet" : banyan_error_text());
}

void by_cluster_link_forget_plans(struct by_cluster_link *link) {
  (void)link;
}
