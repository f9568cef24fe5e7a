/* Plans of the manager: over hosts, proposed to the ranks as a plan by hand would be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster_link_parts.h"
#include "moves.h"
#include "plan.h"
#include "plan_make.h"

enum { WORLD = 0 }; /* the first communicator's id */

/* One that is not decided on. */
struct by_cluster_proposal {
  struct by_cluster_proposal *next;
  struct by_cluster_link *link;
  uint64_t number;
};

static void say_kept(struct by_cluster_link *link, uint64_t number, const char *why) {
  char text[BY_CLUSTER_REASON + 1];
  by_keep_printable(why, text, sizeof text);
  by_cluster_link_say(
      link, &(struct by_cluster_message){.say = BY_SAY_KEPT, .job = link->job, .number = number, .why = text});
}

/* ---- what becomes of it */

static void remove_proposal(struct by_cluster_proposal *proposal) {
  struct by_cluster_proposal **place = &proposal->link->proposals;
  while (*place != proposal) place = &(*place)->next;
  *place = proposal->next;
  free(proposal);
}

static void told(void *context, uint64_t at, const char *why) {
  struct by_cluster_proposal *proposal = context;
  struct by_cluster_link *link = proposal->link;
  uint64_t number = proposal->number;
  remove_proposal(proposal);
  if (why) {
    say_kept(link, number, why);
    return;
  }
  link->number = number;
  link->at = at;
  link->move = by_moves_view(link->context, WORLD).last;
  by_cluster_link_say_moved(link);
}

bool by_cluster_link_runs_plan(const struct by_cluster_link *link) {
  return link->number && link->move && by_moves_view(link->context, WORLD).last == link->move;
}

void by_cluster_link_forget_plans(struct by_cluster_link *link) {
  while (link->proposals) remove_proposal(link->proposals);
}

void by_cluster_link_find_own_plan(const struct by_cluster_link *link, char out[BY_CLUSTER_NAME + 1]) {
  struct by_moves_view view = by_moves_view(link->context, WORLD);
  if (!*view.plan) view.supplied = by_plans_find_given(link->context, view.plan, sizeof view.plan);
  by_keep_printable(view.supplied ? view.plan : "", out, BY_CLUSTER_NAME + 1);
}

/* ---- proposing it */

/* Its h-th rank must be the h-th host: others would be the ones that its trees go over. */
static enum banyan_status check_hosts(const struct by_context *context, const struct by_plan *plan) {
  for (uint32_t r = 0, h = 0; r < context->size; r++) {
    const char *host = context->members[r].host;
    if (context->host_of[r] != h) continue;
    const char *name = h < plan->n_ranks ? plan->vertices[h].name : "missing";
    if (strcmp(name, host) != 0)
      return by_fail(BANYAN_ERR_PLAN, "host %u of the job is \"%.64s\", of plan '%.64s' it is \"%.64s\"", h, host,
                     plan->name, name);
    h++;
  }
  return BANYAN_OK;
}

static enum banyan_status propose(struct by_cluster_proposal *proposal, struct by_plan **plan) {
  struct by_context *context = proposal->link->context;
  struct by_told_move tell = {told, proposal};
  uint32_t *all = calloc(context->size, sizeof *all);
  if (!all) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  for (uint32_t r = 0; r < context->size; r++) all[r] = r;
  enum banyan_status status = by_moves_propose(context, WORLD, context->size, all, *plan, &tell);
  *plan = NULL;
  free(all);
  return status;
}

static enum banyan_status take(struct by_cluster_link *link, uint64_t number, struct by_plan **plan) {
  char own_plan[BY_CLUSTER_NAME + 1];
  by_cluster_link_find_own_plan(link, own_plan);
  if (*own_plan)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "the user has set plan '%.64s', which a manager does not replace", own_plan);
  BY_TRY(check_hosts(link->context, *plan));
  (*plan)->origin = (struct by_plan_origin){.source = BANYAN_PLAN_MANAGER};
  struct by_cluster_proposal *proposal = calloc(1, sizeof *proposal);
  if (!proposal) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  *proposal = (struct by_cluster_proposal){.next = link->proposals, .link = link, .number = number};
  link->proposals = proposal;
  enum banyan_status status = propose(proposal, plan);
  if (status != BANYAN_OK) remove_proposal(proposal);
  return status;
}

void by_cluster_link_take_plan(struct by_cluster_link *link, const struct by_cluster_message *message) {
  struct by_plan *plan = NULL; /* NULL again, once it is proposed */
  enum banyan_status status = by_plan_named(message->plan, link->context->size, &plan);
  if (status == BANYAN_OK) status = take(link, message->number, &plan);
  if (status != BANYAN_OK) say_kept(link, message->number, banyan_error_text());
  by_plan_destroy(plan);
}
