#include "plan_trial.h"

#include <math.h>
#include <stdlib.h>

#include <banyan/collectives.h>

#include "clock.h"
#include "job_network.h"
#include "log.h"
#include "plan_switch.h"
#include "plans.h"
#include "text.h"

/* With each plan. Those of long trials, which tell plans of nearly the same speed apart, are fewer, and come in turn.
 */
enum { CALLS = 3, CALLS_IN_TURN = 2 };

static const double slow = 0.1;    /* seconds: a longer call is not repeated, and connecting does not matter */
static const double faster = 0.97; /* of the time of the built-in plan: less is faster for sure */
static const double close = 1.1;   /* times that are no more apart are measured again, in turn */

/* What rank 0 has all ranks do. */
struct trial {
  uint64_t bytes, calls; /* the first one connects, and does not count unless it is the only one */
};

/* Lowers *least to the time of some calls with the plan that is set, on the slowest rank. The first `skipped` of them
 * do not count. */
static enum banyan_status time_calls(struct banyan_comm *comm, float *data, uint64_t bytes, uint64_t calls,
                                     uint64_t skipped, double *least) {
  size_t n = bytes / sizeof *data;
  for (uint64_t i = 0; i < calls; i++) {
    BY_TRY(banyan_barrier(comm));
    uint64_t start = by_clock_now(&by_clock_system);
    BY_TRY(banyan_allreduce(comm, data, data, n, BANYAN_FLOAT32, BANYAN_SUM));
    double took = (double)(by_clock_now(&by_clock_system) - start) * 1e-9;
    BY_TRY(banyan_allreduce(comm, &took, &took, 1, BANYAN_FLOAT64, BANYAN_MAX));
    if (i >= skipped) *least = fmin(*least, took);
  }
  return BANYAN_OK;
}

/* The plan's calls, then those of the built-in one; again where they are close, since what disturbs one of them may not
 * disturb the other. All ranks have the same times. */
static enum banyan_status time_both(struct banyan_comm *comm, const struct trial *trial, float *data, double *ours,
                                    double *builtin) {
  const struct by_context *context = comm->context;
  uint64_t skipped = trial->calls > 1;
  BY_TRY(time_calls(comm, data, trial->bytes, trial->calls, skipped, ours));
  BY_TRY(by_plan_switches_set_plan(comm, NULL));
  BY_TRY(time_calls(comm, data, trial->bytes, trial->calls, skipped, builtin));
  if (trial->calls == 1 || *ours > close * *builtin || *builtin > close * *ours) return BANYAN_OK;
  BY_TRY(by_plan_switches_set_plan(comm, by_plan_hold(context->plans.given)));
  BY_TRY(time_calls(comm, data, trial->bytes, trial->calls - 1, 0, ours));
  BY_TRY(by_plan_switches_set_plan(comm, NULL));
  return time_calls(comm, data, trial->bytes, trial->calls - 1, 0, builtin);
}

static enum banyan_status run(struct banyan_comm *comm, const struct trial *trial, double *ours, double *builtin) {
  float *data = calloc(1, trial->bytes);
  if (!data)
    return by_context_fail(comm->context, by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a trial"),
                           "cannot try a plan");
  enum banyan_status status = time_both(comm, trial, data, ours, builtin);
  free(data);
  return status;
}

enum banyan_status by_plan_trial(struct banyan_comm *comm, const struct by_forecast *forecast, bool *won) {
  struct by_context *context = comm->context;
  struct trial trial = {0};
  double ours = INFINITY, builtin = INFINITY;
  char text[3][32];
  if (comm->rank == 0)
    trial = (struct trial){forecast->bytes, forecast->seconds > slow ? 1 : forecast->sure ? CALLS : CALLS_IN_TURN};
  BY_TRY(banyan_broadcast(comm, &trial, sizeof trial, BANYAN_UINT8, 0));
  BY_TRY(run(comm, &trial, &ours, &builtin));
  *won = ours < faster * builtin;
  if (comm->rank == 0)
    by_info("plan", "%s: a trial with %s took %s with the plan for this network, %s with the built-in one",
            *won ? "the plan is used" : "the job keeps its built-in plans", by_print_bytes(trial.bytes, text[0]),
            by_print_seconds(ours, text[1]), by_print_seconds(builtin, text[2]));
  if (*won) return by_plan_switches_set_plan(comm, by_plan_hold(context->plans.given));
  by_context_lock(context);
  by_plans_give(context, NULL);
  by_context_unlock(context);
  by_job_network_drop(context);
  return BANYAN_OK;
}
