/* Compares a plan's schedules with the bound of a collective on a topology. */
#include "plan_topology.h"

#include <math.h>
#include <stdlib.h>

#include "collective.h"
#include "json_doc.h"
#include "schedule.h"

enum { MAX_HOSTS = 1024 };

/* Traffic between hosts by the ranks' schedules. */
struct traffic {
  const struct by_bound_request *request;
  double blocks; /* Sum. */
  double *sent;  /* n_hosts x n_hosts: how often the buffer is sent from one to another. */
};

static double sent_between(const void *context, uint32_t from, uint32_t to) {
  const struct traffic *traffic = context;
  return traffic->sent[(size_t)from * traffic->request->n_hosts + to];
}

/* Returns the fraction of the buffer that these pieces are. */
static double part_of(const struct traffic *traffic, const struct by_schedule *schedule, const struct by_step *step) {
  const double *blocks = traffic->request->blocks;
  double part = 0;
  if (schedule->cut) return schedule->cut[step->last] - schedule->cut[step->first];
  for (uint32_t p = step->first, owner = 0; p < step->last; p++) {
    while (schedule->block[owner + 1] <= p) owner++;
    double end = p + 1 < schedule->block[owner + 1] ? schedule->block_cut[p + 1] : 1;
    part += (end - schedule->block_cut[p]) * (blocks ? blocks[owner] : 1) / traffic->blocks;
  }
  return part;
}

static enum banyan_status add_rank(struct traffic *traffic, const struct by_plan *plan, uint32_t rank) {
  const struct by_bound_request *request = traffic->request;
  struct by_schedule *schedule;
  BY_TRY(by_schedule_compile(plan, by_plan_class_of(plan, request->collective, UINT64_MAX), request->collective,
                             request->root, rank, &schedule));
  for (uint32_t i = 0; i < schedule->n_steps; i++) {
    const struct by_step *step = &schedule->steps[i];
    if (step->kind == BY_STEP_SEND)
      traffic->sent[(size_t)rank * request->n_hosts + schedule->peers[step->peer].rank] +=
          part_of(traffic, schedule, step);
  }
  by_schedule_destroy(schedule);
  return BANYAN_OK;
}

static enum banyan_status find_rate(struct traffic *traffic, const struct by_plan *plan,
                                    const struct by_topology *topology, double *rate, struct by_bound_limit *limit) {
  const struct by_bound_request *request = traffic->request;
  const struct by_routed routed = {request->hosts, request->n_hosts, sent_between, traffic};
  struct by_plan *among;
  for (uint32_t h = 0; h < request->n_hosts; h++) traffic->blocks += request->blocks ? request->blocks[h] : 1;
  BY_TRY(by_plan_among_ranks(plan, &among));
  enum banyan_status status = BANYAN_OK;
  for (uint32_t r = 0; status == BANYAN_OK && r < among->n_ranks; r++) status = add_rank(traffic, among, r);
  by_plan_destroy(among);
  return status == BANYAN_OK ? by_routed_rate(topology, &routed, rate, limit) : status;
}

static enum banyan_status add_reached(const struct by_plan *plan, const struct by_topology *topology,
                                      const struct by_bound_request *request, double bound, bool json,
                                      struct by_text *text) {
  struct traffic traffic = {.request = request,
                            .sent = calloc((size_t)request->n_hosts * request->n_hosts, sizeof(double))};
  struct by_bound_limit limit;
  double rate = INFINITY;
  char carried[32];
  if (!traffic.sent) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for what %u hosts send", request->n_hosts);
  enum banyan_status status = find_rate(&traffic, plan, topology, &rate, &limit);
  free(traffic.sent);
  if (status != BANYAN_OK || isinf(rate)) return status;
  if (json) {
    by_json_put_real(text, "reached", rate);
    by_json_begin_member(text, "full");
    by_bound_limit_put_json(&limit, topology, text);
    return BANYAN_OK;
  }
  by_text_add(text, "Over this plan it has %s, %.1f %% of that. What is full then:\n", by_print_rate(rate, carried),
              100 * rate / bound);
  by_bound_limit_explain(&limit, topology, text);
  return BANYAN_OK;
}

enum banyan_status by_plan_explain_bound(const struct by_plan *plan, const struct by_topology *topology,
                                         const struct by_bound_request *request, bool json, struct by_text *text) {
  struct by_collective_bound bound;
  if (!by_collective_has_bound(request->collective)) return BANYAN_OK;
  BY_TRY(by_collective_bound_find(topology, request, &bound));
  (json ? by_collective_bound_put_json : by_collective_bound_explain)(&bound, topology, text);
  double rate = bound.rate;
  by_collective_bound_fini(&bound);
  bool weighted =
      request->blocks && request->collective == BANYAN_ALLTOALL; /* Each rank of a host sends its own block. */
  if (isinf(rate) || weighted || request->n_hosts > MAX_HOSTS || plan->n_ranks != request->n_hosts) return BANYAN_OK;
  return add_reached(plan, topology, request, rate, json, text);
}
