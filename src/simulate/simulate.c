#include "simulate.h"

#include <math.h>
#include <stdlib.h>

#include "run.h"

enum { CHUNK = 64 << 10, MOST_WORK = 1 << 20, LEAST_LEVELS = 8 };

enum banyan_status by_simulator_init(struct by_simulator *simulator, const struct by_plan *plan,
                                     const struct by_class *class_, const struct by_topology *topology,
                                     uint32_t turn_from) {
  *simulator = (struct by_simulator){0};
  enum banyan_status status = by_roles_init(&simulator->roles, plan, class_, turn_from);
  if (status == BANYAN_OK) status = by_ways_init(&simulator->ways, &simulator->roles, plan, topology);
  if (status == BANYAN_OK) status = by_cast_init(&simulator->cast, &simulator->ways);
  if (status != BANYAN_OK) by_simulator_fini(simulator);
  return status;
}

void by_simulator_fini(struct by_simulator *simulator) {
  by_cast_fini(&simulator->cast);
  by_ways_fini(&simulator->ways);
  by_roles_fini(&simulator->roles);
}

void by_simulation_fini(struct by_simulation *simulation) {
  free(simulation->carried);
  by_use_log_fini(&simulation->use);
  *simulation = (struct by_simulation){0};
}

/* --- how much work it is --- */

static uint64_t chunks_of(const struct by_simulator *s, uint32_t actor, uint64_t chunk) {
  const struct by_schedule *schedule = by_roles_schedule(&s->roles, s->cast.rank[actor]);
  uint64_t n = 0;
  for (uint32_t i = 0; i < schedule->n_steps; i++) {
    const struct by_step *step = &schedule->steps[i];
    if (step->kind == BY_STEP_SEND)
      n += (s->roles.bounds[step->last] - s->roles.bounds[step->first] + chunk - 1) / chunk;
  }
  return n;
}

/* Chunks that all actors send. Of turned ones one speaks for all. */
static uint64_t count_chunks(const struct by_simulator *s, uint64_t chunk) {
  if (s->roles.turned) return s->cast.n_actors * chunks_of(s, 0, chunk);
  uint64_t n = 0;
  for (uint32_t a = 0; a < s->cast.n_actors; a++) n += chunks_of(s, a, chunk);
  return n;
}

static uint32_t count_levels(const struct by_simulator *s) {
  uint32_t most = 0;
  for (uint32_t r = 0; r < (s->roles.turned ? 1 : s->roles.n); r++) {
    const struct by_schedule *schedule = by_roles_schedule(&s->roles, s->roles.turned ? s->cast.rank[0] : r);
    for (uint32_t i = 0; i < schedule->n_steps; i++)
      if (schedule->steps[i].level >= most) most = schedule->steps[i].level + 1u;
  }
  return most;
}

/* --- less of it --- */

/* No link carries more than it can. */
static double least_seconds(const struct by_simulation *out) {
  double most = 0;
  for (uint32_t i = 0; i < out->n_resources; i++) most = fmax(most, out->carried[i] / out->cast->net.capacity[i]);
  return most;
}

/* The time until pipelines are full grows evenly with the chunks: two sizes above the one that is asked for lead to it.
 */
static enum banyan_status run_coarsely(const struct by_simulator *s, const struct by_simulate_options *options,
                                       uint64_t chunk, uint64_t most, struct by_simulation *out) {
  uint64_t bytes = s->roles.bounds[by_roles_schedule(&s->roles, s->cast.rank[0])->n_pieces], larger = 2 * chunk;
  struct by_simulate_options silent = *options;
  struct by_simulation twice;
  silent.transfer = NULL;
  while (larger < bytes && count_chunks(s, larger) > most) larger *= 2;
  BY_TRY(by_run(s, &silent, 2 * larger, UINT32_MAX, &twice));
  enum banyan_status status = by_run(s, options, larger, UINT32_MAX, out);
  if (status == BANYAN_OK) {
    double less = (twice.seconds - out->seconds) * (double)(larger - chunk) / (double)larger;
    out->seconds = fmax(out->seconds - less, least_seconds(out));
    out->simulated_chunk = larger;
  }
  by_simulation_fini(&twice);
  return status;
}

static void extend(struct by_simulation *out, const struct by_simulation *half, uint32_t levels, uint32_t run) {
  uint32_t last_half = run - run / 2;
  double more = (double)(levels - run) / last_half;
  out->seconds += more * (out->seconds - half->seconds);
  for (uint32_t i = 0; i < out->n_resources; i++) out->carried[i] += more * (out->carried[i] - half->carried[i]);
}

/* A ring whose ranks differ goes round at the pace of its slowest link from the start: the last half of the rounds that
 * are simulated says how long all others take. */
static enum banyan_status run_rounds(const struct by_simulator *s, const struct by_simulate_options *options,
                                     uint64_t chunk, uint32_t levels, uint32_t run, struct by_simulation *out) {
  struct by_simulate_options silent = *options;
  struct by_simulation half;
  silent.transfer = NULL;
  BY_TRY(by_run(s, &silent, chunk, run / 2 - 1, &half));
  enum banyan_status status = by_run(s, options, chunk, run - 1, out);
  if (status == BANYAN_OK) extend(out, &half, levels, run);
  by_simulation_fini(&half);
  return status;
}

enum banyan_status by_simulator_run(struct by_simulator *simulator, uint64_t bytes,
                                    const struct by_simulate_options *options, struct by_simulation *out) {
  uint64_t chunk = options->chunk ? options->chunk : CHUNK, most = options->most_work ? options->most_work : MOST_WORK;
  by_roles_cut(&simulator->roles, bytes);
  uint32_t levels = count_levels(simulator), run = levels;
  uint64_t work = count_chunks(simulator, chunk);
  if (work <= most) {
    BY_TRY(by_run(simulator, options, chunk, UINT32_MAX, out));
  } else if (simulator->roles.turned && levels > LEAST_LEVELS) {
    run = (uint32_t)((double)levels * (double)most / (double)work);
    if (run < LEAST_LEVELS) run = LEAST_LEVELS;
    BY_TRY(run_rounds(simulator, options, chunk, levels, run, out));
  } else {
    BY_TRY(run_coarsely(simulator, options, chunk, most, out));
  }
  out->bytes = bytes;
  out->chunk = chunk;
  out->levels = levels;
  out->run = run;
  return BANYAN_OK;
}
