/* Tries a job's plan against its built-in one, by a few AllReduces with each. */
#include "trial.h"

#include <math.h>
#include <stdlib.h>

#include <banyan/collectives.h>

#include "clock.h"
#include "job_network.h"
#include "log.h"
#include "plan_switch.h"
#include "plans.h"
#include "text.h"
#include "thresholds.h"

/* Numbers of calls with each plan; the first one connects. Plans that are predicted to be nearly equally fast are
 * called in turn for some rounds, and for more if calls with one plan differ by more than the plans do. */
enum { CALLS = 3, CALLS_IN_TURN = 2, ROUNDS = 3, MAX_ROUNDS = 5 };

/* What rank 0 has all ranks do. */
struct trial {
  uint64_t bytes, calls; /* Number of calls; the first one connects, and does not count unless it is the only one. */
  uint64_t sure;         /* The plan is predicted to be clearly faster. */
};

static void add(struct by_plan_times *times, double took) {
  times->next = fmin(times->next, fmax(took, times->min));
  times->min = fmin(times->min, took);
}

/* Times some calls with the plan that is set, on the slowest rank. The first `skipped` of them do not count. *least: of
 * these. */
static enum banyan_status time_calls(struct banyan_comm *comm, float *data, uint64_t bytes, uint64_t calls,
                                     uint64_t skipped, struct by_plan_times *times, double *min) {
  size_t n = bytes / sizeof *data;
  *min = INFINITY;
  for (uint64_t i = 0; i < calls; i++) {
    BY_TRY(banyan_barrier(comm));
    uint64_t start = by_clock_now(&by_clock_system);
    BY_TRY(banyan_allreduce(comm, data, data, n, BANYAN_FLOAT32, BANYAN_SUM));
    double took = (double)(by_clock_now(&by_clock_system) - start) * 1e-9;
    BY_TRY(banyan_allreduce(comm, &took, &took, 1, BANYAN_FLOAT64, BANYAN_MAX));
    if (i < skipped) continue;
    add(times, took);
    *min = fmin(*min, took);
  }
  return BANYAN_OK;
}

/* The plan's calls, which is set, then those of the built-in one, which is set then. */
static enum banyan_status time_round(struct banyan_comm *comm, const struct trial *trial, float *data,
                                     struct by_plan_rounds *found) {
  uint64_t skipped = !found->n && trial->calls > 1, calls = trial->calls - (found->n > 0);
  double ours, builtin;
  BY_TRY(time_calls(comm, data, trial->bytes, calls, skipped, &found->ours, &ours));
  BY_TRY(by_plan_switches_set_plan(comm, NULL));
  BY_TRY(time_calls(comm, data, trial->bytes, calls, skipped, &found->builtin, &builtin));
  found->n++;
  found->won += ours < builtin;
  return BANYAN_OK;
}

/* By how much the two fastest calls differ, as a factor of 1 or more. */
static double scatter(const struct by_plan_times *times) {
  return isfinite(times->next) ? times->next / times->min : 1;
}

static bool seems_faster(const struct by_plan_rounds *rounds, double bar) {
  return 2 * rounds->won > rounds->n && rounds->ours.min < bar * rounds->builtin.min;
}

/* Beside a load the calls of each plan differ by more than the plans do. Then it tells how many rounds the plan has
 * won: most of a few if it was predicted to be clearly faster, all but one of several if not. */
bool by_plan_trial_won(const struct by_plan_rounds *rounds, bool sure) {
  if (!seems_faster(rounds, rounds->single && !sure ? 1 / by_limit_error : by_limit_faster)) return false;
  if (sure && rounds->n >= ROUNDS) return true;
  if (rounds->n == MAX_ROUNDS) return rounds->won + 1 >= rounds->n;
  return rounds->ours.min * fmax(scatter(&rounds->ours), scatter(&rounds->builtin)) < rounds->builtin.min;
}

/* A disturbance of one call of two makes them differ by as much as the plans do, and of both makes the plan seem slower
 * than predicted. Then one more round shows more. */
bool by_plan_trial_is_over(const struct by_plan_rounds *rounds, bool sure) {
  if (rounds->n == MAX_ROUNDS || rounds->single) return true;
  if (rounds->ours.min > by_limit_error * rounds->builtin.min) return !sure || rounds->n > 1;
  if (rounds->n >= ROUNDS) return sure || !seems_faster(rounds, by_limit_faster) || by_plan_trial_won(rounds, sure);
  return sure && rounds->builtin.min > by_limit_error * rounds->ours.min && by_plan_trial_won(rounds, sure);
}

/* Times both plans; all ranks get the same times. */
static enum banyan_status time_both(struct banyan_comm *comm, const struct trial *trial, float *data,
                                    struct by_plan_rounds *found) {
  const struct by_job *job = comm->job;
  BY_TRY(time_round(comm, trial, data, found));
  while (!by_plan_trial_is_over(found, trial->sure)) {
    BY_TRY(by_plan_switches_set_plan(comm, by_plan_hold(by_plans_given(job))));
    BY_TRY(time_round(comm, trial, data, found));
  }
  return BANYAN_OK;
}

static enum banyan_status run(struct banyan_comm *comm, const struct trial *trial, struct by_plan_rounds *found) {
  float *data = calloc(1, trial->bytes);
  if (!data)
    return by_job_fail_here(comm->job, by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a trial"), "cannot try a plan");
  enum banyan_status status = time_both(comm, trial, data, found);
  free(data);
  return status;
}

enum banyan_status by_plan_trial(struct banyan_comm *comm, const struct by_forecast *forecast, bool *won) {
  struct by_job *job = comm->job;
  struct trial trial = {0};
  struct by_plan_rounds found = {.ours = {INFINITY, INFINITY}, .builtin = {INFINITY, INFINITY}};
  char text[3][32];
  if (comm->rank == 0)
    trial = (struct trial){.bytes = forecast->bytes,
                           .calls = forecast->seconds > by_limit_long_call ? 1
                                    : forecast->sure                       ? CALLS
                                                                           : CALLS_IN_TURN,
                           .sure = forecast->sure};
  BY_TRY(banyan_broadcast(comm, &trial, sizeof trial, BANYAN_UINT8, 0));
  found.single = trial.calls == 1;
  BY_TRY(run(comm, &trial, &found));
  *won = by_plan_trial_won(&found, trial.sure);
  if (comm->rank == 0)
    by_info("plan", "%s: a trial with %s took %s with the plan for this network, %s with the built-in one",
            *won ? "the plan is used" : "the job keeps its built-in plans", by_print_bytes(trial.bytes, text[0]),
            by_print_seconds(found.ours.min, text[1]), by_print_seconds(found.builtin.min, text[2]));
  if (*won) return by_plan_switches_set_plan(comm, by_plan_hold(by_plans_given(job)));
  by_job_lock(job);
  by_plans_give(job, NULL);
  by_job_unlock(job);
  by_job_network_drop(job);
  return BANYAN_OK;
}
