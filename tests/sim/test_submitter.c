/* Submitted operations in whole jobs in one thread: communicators with their controllers, control messages and calls
 * over links of any kind. Ranks submit in their own orders, some late. They run ahead of each other by iterations,
 * change what they submit, and sometimes submit different operations. Plans change meanwhile. Each operation ends
 * exactly once on every rank, with the right values, and all ranks make the same calls of the same operations in the
 * same order. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "comm.h"
#include "contexts.h"
#include "controller_parts.h"
#include "plan.h"
#include "plan_make.h"
#include "submitter.h"

enum { RANKS = 6, COMMS = 3, OPERATIONS = 12, ITERATIONS = 5, CALLS = 3, COUNT = 500, PLAN_SWITCHES = 4, FIRST_ID = 1 };

/* An operation in one iteration, the same on all ranks. */
struct kind {
  bool present;
  uint32_t n_calls, counts[CALLS];
  enum banyan_collective collectives[CALLS];
  uint32_t root;
  int priority;
  uint32_t odd;   /* a rank that submits another operation; RANKS: none */
  uint64_t have;  /* ranks that have submitted it */
  uint32_t ended; /* number of ranks on which it has ended */
  struct by_trace_record call;
};

struct submission {
  struct banyan_request *request;
  uint32_t iteration;
  uint64_t trace;
  int32_t *send, *recv;
};

/* A rank's view of a communicator. */
struct member {
  struct banyan_comm *comm; /* NULL: not made on this rank yet */
  uint32_t rank;            /* rank in the communicator */
  uint32_t iteration, n_todo, todo[OPERATIONS];
  struct submission operations[OPERATIONS];
  bool notified; /* the rank knows that the last plan switch is decided */
};

struct team {
  uint32_t n, processes[RANKS];
  struct kind kinds[ITERATIONS][OPERATIONS];
  uint32_t plan_switch; /* the last plan switch that all ranks kept */
  const char *plan;
};

struct job {
  struct world world;
  uint64_t seed;
  bool steps;
  uint32_t n_teams;
  struct team teams[COMMS];
  struct rank {
    struct by_job job;
    uint32_t asleep; /* remaining turns of sleep */
    struct member members[COMMS];
    int32_t *memory;
  } ranks[RANKS];
};

static struct by_tracer tracer;

static uint32_t below(struct job *job, uint64_t n) {
  return (uint32_t)by_rng_below(&job->world.rng, n);
}

static int32_t value(uint32_t submission, uint32_t iteration, uint32_t call, uint32_t rank, uint32_t i) {
  uint32_t x = submission * 7919u + iteration * 104729u + call * 31u + rank * 1299709u + i * 17u;
  return (int32_t)((x ^ x >> 9) % 1000);
}

/* ---- making a job */

static void choose_kind(struct job *job, const struct team *team, struct kind *kind, const struct kind *before) {
  if (before && below(job, 8)) {
    *kind = (struct kind){.priority = before->priority, .n_calls = before->n_calls, .root = before->root};
    memcpy(kind->counts, before->counts, sizeof kind->counts);
    memcpy(kind->collectives, before->collectives, sizeof kind->collectives);
  } else {
    *kind = (struct kind){.priority = (int)below(job, 3) - 1, .root = below(job, team->n)};
    kind->n_calls = below(job, 4) ? 1 : 1 + below(job, CALLS);
    for (uint32_t c = 0; c < kind->n_calls; c++) {
      kind->counts[c] = below(job, 5) ? 1 + below(job, 40) : below(job, COUNT);
      kind->collectives[c] = below(job, 6) ? BANYAN_ALLREDUCE : BANYAN_BROADCAST;
    }
  }
  kind->present = below(job, 6) > 0;
  kind->odd = team->n > 1 && below(job, 25) == 0 ? below(job, team->n) : RANKS;
}

/* Chooses the members: all ranks, some of them, or one. */
static void choose_team(struct job *job, struct team *team, bool all) {
  uint32_t n = job->world.n;
  for (uint32_t r = 0; r < n; r++)
    if (all || below(job, 2)) team->processes[team->n++] = r;
  if (!team->n) team->processes[team->n++] = below(job, n);
  for (uint32_t i = 0; i < ITERATIONS; i++)
    for (uint32_t k = 0; k < OPERATIONS; k++)
      choose_kind(job, team, &team->kinds[i][k], i ? &team->kinds[i - 1][k] : NULL);
}

static void make_context(struct job *job, uint32_t rank, const char *control, uint64_t fusion) {
  struct by_job *own = &job->ranks[rank].job;
  context_make(own, &job->world, rank, 1 + (uint32_t)job->seed % job->world.n);
  assert_ok(by_control_choice_parse(control, &own->settings.control));
  own->settings.fusion = fusion;
  own->tracer = tracer;
}

/* Returns how many elements the operation needs at most. */
static uint32_t room_of(const struct team *team, uint32_t k) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < ITERATIONS; i++) {
    const struct kind *kind = &team->kinds[i][k];
    if (kind->n_calls > 1) return CALLS * COUNT;
    if (kind->counts[0] > most) most = kind->counts[0];
  }
  return most;
}

/* Places the operations in memory. On some ranks the gradients are contiguous, on others they are not. */
static void place_operations(struct job *job, struct rank *rank, struct member *member, uint32_t team) {
  bool together = below(job, 2), in_place = below(job, 2);
  size_t room = (size_t)OPERATIONS * COUNT * CALLS;
  int32_t *at = rank->memory + team * 2 * room;
  for (uint32_t k = 0; k < OPERATIONS; k++) {
    struct submission *o = &member->operations[k];
    o->send = at;
    o->recv = at + (in_place ? 0 : room);
    at += together ? room_of(&job->teams[team], k) : COUNT * CALLS;
  }
}

static struct job *make_job(uint64_t seed) {
  static const char *const controls[] = {"auto", "ring", "star", "tree:1", "tree:2"};
  struct job *job = calloc(1, sizeof *job);
  struct by_sim_options net;
  struct by_engine_options engine;
  assert_non_null(job);
  world_options(seed, &net, &engine);
  engine.tracer = &tracer;
  world_init(&job->world, 1 + (uint32_t)(seed % RANKS), "ring", &net, &engine, seed);
  job->seed = seed;
  job->steps = below(job, 4) > 0;
  job->n_teams = 1 + below(job, COMMS);
  for (uint32_t t = 0; t < job->n_teams; t++) choose_team(job, &job->teams[t], t == 0 || below(job, 2));
  uint64_t fusion = below(job, 5) ? 64u << below(job, 8) : 0;
  for (uint32_t r = 0; r < job->world.n; r++) {
    struct rank *rank = &job->ranks[r];
    make_context(job, r, controls[seed / RANKS % 5], fusion);
    rank->asleep = below(job, 4) ? 0 : below(job, 400);
    rank->memory = calloc((size_t)COMMS * 2 * OPERATIONS * COUNT * CALLS, sizeof *rank->memory);
    assert_non_null(rank->memory);
    for (uint32_t t = 0; t < job->n_teams; t++) place_operations(job, rank, &rank->members[t], t);
  }
  return job;
}

static void free_job(struct job *job) {
  for (uint32_t r = 0; r < job->world.n; r++) {
    assert_null(by_named_of(&job->ranks[r].job)->messages);
    context_end_comms(&job->ranks[r].job);
  }
  uint32_t n = job->world.n;
  world_fini(&job->world);
  for (uint32_t r = 0; r < n; r++) {
    context_fini(&job->ranks[r].job);
    free(job->ranks[r].memory);
  }
  free(job);
}

/* ---- actions of a rank */

static void begin_iteration(struct job *job, struct member *member, const struct team *team) {
  member->n_todo = 0;
  for (uint32_t k = 0; k < OPERATIONS; k++)
    if (team->kinds[member->iteration][k].present) member->todo[member->n_todo++] = k;
  if (job->steps) assert_ok(banyan_step(member->comm, member->iteration));
}

static void make_comm(struct job *job, uint32_t r, uint32_t t) {
  struct team *team = &job->teams[t];
  struct member *member = &job->ranks[r].members[t];
  while (team->processes[member->rank] != r) member->rank++;
  by_job_lock(&job->ranks[r].job);
  assert_ok(by_comm_open(&job->ranks[r].job, FIRST_ID + t, member->rank, team->n, team->processes, &member->comm));
  by_job_unlock(&job->ranks[r].job);
  begin_iteration(job, member, team);
}

static void fill(const struct kind *kind, const struct submission *o, uint32_t k, uint32_t iteration, uint32_t rank) {
  for (uint32_t c = 0; c < kind->n_calls; c++)
    for (uint32_t i = 0; i < kind->counts[c]; i++) {
      bool sends = kind->collectives[c] != BANYAN_BROADCAST || rank == kind->root;
      int32_t *at = kind->collectives[c] == BANYAN_BROADCAST ? o->recv : o->send;
      at[c * COUNT + i] = sends ? value(k, iteration, c, rank, i) : -1;
    }
}

static void end_operation(struct kind *kind, uint32_t n, bool differs) {
  kind->ended++;
  assert_true(kind->ended <= n);
  if (!differs) assert_int_equal(kind->have, (1ull << n) - 1); /* no rank ends it before all have submitted it */
}

static void submit(struct job *job, struct member *member, struct team *team, uint32_t k) {
  struct submission *o = &member->operations[k];
  struct kind *kind = &team->kinds[member->iteration][k];
  struct banyan_call calls[CALLS];
  char name[32];
  snprintf(name, sizeof name, "gradient %u", k);
  fill(kind, o, k, member->iteration, member->rank);
  for (uint32_t c = 0; c < kind->n_calls; c++)
    calls[c] = (struct banyan_call){.collective = kind->collectives[c],
                                    .dtype = BANYAN_INT32,
                                    .op = BANYAN_SUM,
                                    .send = o->send + c * COUNT,
                                    .recv = o->recv + c * COUNT,
                                    .root = (int)kind->root,
                                    .count = kind->counts[c] + (kind->odd == member->rank)};
  struct banyan_submission what = {.calls = calls, .n_calls = kind->n_calls, .priority = kind->priority};
  o->iteration = member->iteration;
  assert_false(kind->have >> member->rank & 1);
  kind->have |= 1ull << member->rank;
  enum banyan_status status = banyan_submit(member->comm, name, &what, &o->request);
  if (status == BANYAN_OK) {
    o->trace = ((struct by_submitted *)o->request->of)->trace;
    return;
  }
  o->request = NULL;
  if (status != BANYAN_ERR_MISMATCH || kind->odd == RANKS)
    fail_msg("seed %llu: %s", (unsigned long long)job->seed, banyan_error_text());
  end_operation(kind, team->n, true);
}

/* Submits an operation whose last iteration has ended on this rank, if there is one. */
static bool submit_some(struct job *job, struct member *member, struct team *team) {
  if (!member->n_todo && member->iteration + 1 < ITERATIONS) {
    member->iteration++;
    begin_iteration(job, member, team);
    return true;
  }
  uint32_t first = member->n_todo ? below(job, member->n_todo) : 0;
  for (uint32_t i = 0; i < member->n_todo; i++) {
    uint32_t *place = &member->todo[(first + i) % member->n_todo], k = *place;
    if (member->operations[k].request) continue;
    *place = member->todo[--member->n_todo];
    submit(job, member, team, k);
    return true;
  }
  return false;
}

static int32_t expected(const struct kind *kind, const struct team *team, uint32_t k, uint32_t iteration, uint32_t c,
                        uint32_t i) {
  if (kind->collectives[c] == BANYAN_BROADCAST) return value(k, iteration, c, kind->root, i);
  int32_t sum = 0;
  for (uint32_t r = 0; r < team->n; r++) sum += value(k, iteration, c, r, i);
  return sum;
}

static void check_values(struct job *job, const struct team *team, const struct submission *o, uint32_t k) {
  const struct kind *kind = &team->kinds[o->iteration][k];
  for (uint32_t c = 0; c < kind->n_calls; c++)
    for (uint32_t i = 0; i < kind->counts[c]; i++) {
      int32_t want = expected(kind, team, k, o->iteration, c, i), got = o->recv[c * COUNT + i];
      if (got != want)
        fail_msg("seed %llu: operation %u, iteration %u, call %u: element %u is %d, must be %d",
                 (unsigned long long)job->seed, k, o->iteration, c, i, got, want);
    }
}

/* Checks that the operation has the same place among the calls as on the other ranks. */
static void check_place(struct job *job, struct kind *kind, const struct submission *o, uint32_t k) {
  struct by_trace_record record;
  assert_true(by_tracer_take(&tracer, o->trace, &record) && record.has_call);
  if (!kind->call.has_call) kind->call = record;
  if (record.team != kind->call.team || record.call != kind->call.call)
    fail_msg("seed %llu: operation %u, iteration %u is call %u here, call %u elsewhere", (unsigned long long)job->seed,
             k, o->iteration, record.call, kind->call.call);
}

static bool collect(struct job *job, struct member *member, struct team *team) {
  bool any = false;
  for (uint32_t k = 0; k < OPERATIONS; k++) {
    struct submission *o = &member->operations[k];
    struct kind *kind = &team->kinds[o->iteration][k];
    bool done = false, differs = kind->odd != RANKS;
    if (!o->request) continue;
    enum banyan_status status = banyan_test(o->request, &done);
    if (!done) continue;
    any = true;
    o->request = NULL;
    if (status != (differs ? BANYAN_ERR_MISMATCH : BANYAN_OK))
      fail_msg("seed %llu: operation %u: %s", (unsigned long long)job->seed, k, banyan_error_text());
    end_operation(kind, team->n, differs);
    if (differs) continue;
    check_values(job, team, o, k);
    check_place(job, kind, o, k);
  }
  return any;
}

/* ---- plan switches */

static bool may_switch(const struct job *job, uint32_t t) {
  const struct team *team = &job->teams[t];
  for (uint32_t i = 0; i < team->n; i++) {
    const struct member *member = &job->ranks[team->processes[i]].members[t];
    if (!member->comm || (team->plan_switch && !member->notified) || team->plan_switch == PLAN_SWITCHES) return false;
  }
  return true;
}

/* All ranks keep the new plan, or none does. */
static void prepare_plan_switch(struct job *job, uint32_t t) {
  static const char *const plans[] = {"ring", "sharded", "double-tree"};
  struct team *team = &job->teams[t];
  const char *name = plans[below(job, 3)];
  uint32_t kept = 0, number = team->plan_switch + 1;
  for (; kept < team->n; kept++) {
    struct by_plan *plan = NULL;
    assert_ok(by_plan_builtin(name, team->n, &plan));
    struct by_kept_plan next = {.number = number, .plan = plan};
    if (by_plan_switches_keep(job->ranks[team->processes[kept]].members[t].comm, &next)) continue;
    by_plan_destroy(plan);
    break;
  }
  bool all = kept == team->n;
  for (uint32_t i = 0; i < kept; i++) {
    struct member *member = &job->ranks[team->processes[i]].members[t];
    if (!all) by_plan_switches_let_go(member->comm, number);
    if (all) member->notified = false;
  }
  if (!all) return;
  team->plan_switch = number;
  team->plan = name;
}

/* The plan of a plan switch, with a control tree at random, which may be a ring; the same on all ranks. */
static struct by_plan *planned(const struct team *team, uint32_t number) {
  uint32_t order[RANKS], parent[RANKS];
  struct by_rng rng;
  struct by_plan *plan = NULL;
  by_rng_init(&rng, number * 100 + team->n);
  for (uint32_t i = 0; i < team->n; i++) {
    uint32_t j = (uint32_t)by_rng_below(&rng, i + 1);
    order[i] = order[j];
    order[j] = i;
  }
  for (uint32_t i = 0; i < team->n; i++) parent[order[i]] = order[i ? by_rng_below(&rng, i) : 0];
  assert_ok(by_plan_builtin(team->plan, team->n, &plan));
  bool ring = by_rng_below(&rng, 2);
  assert_ok(by_plan_set_control(plan, &(struct by_plan_control){parent, order, RANKS, ring}));
  return plan;
}

/* Handles the notice that a plan switch is decided. There are no direct calls, so that the plan changes at once. */
static bool handle_plan_switch_notice(const struct team *team, struct member *member) {
  uint32_t number = team->plan_switch;
  if (!number || member->notified) return false;
  by_job_lock(member->comm->job);
  struct by_plan_changes *plans = &member->comm->plans;
  assert_true(by_plan_switch_prepare(&plans->plan_switch, number));
  plans->next = (struct by_kept_plan){.number = number, .plan = planned(team, number)};
  assert_true(by_plan_switch_fix(&plans->plan_switch, number, plans->started));
  assert_true(by_plan_switch_take(&plans->plan_switch, number));
  by_plan_switches_decided(member->comm, number);
  by_plan_switches_started_one(member->comm);
  assert_int_equal(plans->used, number);
  by_job_unlock(member->comm->job);
  return member->notified = true;
}

/* All ranks are in one tree, that of the last plan, or one within the limit that is asked for. */
static void check_trees(const struct job *job, uint32_t t, bool *moved) {
  const struct team *team = &job->teams[t];
  for (uint32_t i = 0; i < team->n; i++) {
    const struct banyan_comm *comm = job->ranks[team->processes[i]].members[t].comm;
    const struct by_controller_config *place = by_controller_place(by_named_submitter(comm)->controller);
    const struct by_control_choice *control = &comm->job->settings.control;
    if (control->fan_out) assert_in_range(place->n_up_children, 0, control->fan_out);
    if (control->kind != BY_CONTROL_AUTO || !team->plan_switch || team->n == 1) continue;
    uint32_t up[RANKS], down[RANKS];
    struct by_plan *plan = planned(team, team->plan_switch);
    by_plan_control_parents(&plan->control, team->n, plan->control.use_ring, up, down);
    by_plan_destroy(plan);
    assert_int_equal(place->up_parent, up[place->rank]);
    assert_int_equal(place->down_parent, down[place->rank]);
    assert_int_equal(by_named_submitter(comm)->log.root, up[place->rank] == place->rank);
    *moved = true;
  }
}

/* Whether the last plan switch waits for an iteration that will not come. */
static bool is_in_vain(const struct job *job, uint32_t t) {
  bool announces = false;
  for (uint32_t i = 0; i < job->teams[t].n; i++)
    announces |= job->ranks[job->teams[t].processes[i]].members[t].comm->plans.announces;
  return announces;
}

static void check_plans(const struct job *job, uint32_t t) {
  const struct team *team = &job->teams[t];
  if (is_in_vain(job, t)) return;
  for (uint32_t i = 0; i < team->n; i++) {
    const struct banyan_comm *comm = job->ranks[team->processes[i]].members[t].comm;
    if (!team->plan_switch || !by_named_submitter(comm) || !by_named_submitter(comm)->log.inner) continue;
    assert_int_equal(comm->plans.noted, team->plan_switch);
    assert_string_equal(by_team_plan(by_named_submitter(comm)->log.inner->team)->name, team->plan);
  }
}

/* ---- running a job */

static bool act_in(struct job *job, uint32_t r, uint32_t t, bool eager) {
  struct team *team = &job->teams[t];
  struct member *member = &job->ranks[r].members[t];
  uint32_t place = 0;
  while (place < team->n && team->processes[place] != r) place++;
  if (place == team->n) return false;
  if (!member->comm) {
    if (!eager && below(job, 10)) return false;
    make_comm(job, r, t);
    return true;
  }
  bool progressed = collect(job, member, team);
  if (eager || below(job, 20) == 0) progressed |= handle_plan_switch_notice(team, member);
  if (!eager && below(job, 500) == 0 && may_switch(job, t)) prepare_plan_switch(job, t);
  for (uint32_t more = below(job, 4) ? below(job, 2) : OPERATIONS; more || eager; more--) {
    if (!submit_some(job, member, team)) break;
    progressed = true;
  }
  return progressed;
}

static bool act(struct job *job, uint32_t r, bool eager) {
  struct rank *rank = &job->ranks[r];
  bool progressed = false;
  if (rank->asleep && !eager) {
    rank->asleep--;
    return false;
  }
  if (!eager && below(job, 300) == 0) rank->asleep = below(job, 100);
  for (uint32_t t = 0; t < job->n_teams; t++) progressed |= act_in(job, r, t, eager);
  by_job_lock(&rank->job);
  progressed |= by_progress_advance(&rank->job);
  by_job_unlock(&rank->job);
  assert_ok(by_engine_status(rank->job.engine));
  return progressed;
}

static bool is_over(const struct job *job) {
  for (uint32_t t = 0; t < job->n_teams; t++)
    for (uint32_t i = 0; i < ITERATIONS; i++)
      for (uint32_t k = 0; k < OPERATIONS; k++) {
        const struct kind *kind = &job->teams[t].kinds[i][k];
        if (kind->present && kind->ended < job->teams[t].n) return false;
      }
  return true;
}

static void run(struct job *job) {
  uint32_t n = job->world.n;
  for (uint32_t still = 0; still < 3000;) {
    still = act(job, below(job, n), still > 100) ? 0 : still + 1;
    if (still > 2 + below(job, 4ull * n) && by_sim_step(job->world.sim)) still = 0;
  }
  if (!is_over(job)) fail_msg("seed %llu: operations wait for ever", (unsigned long long)job->seed);
}

static void check_counts(const struct job *job, uint32_t t) {
  const struct team *team = &job->teams[t];
  for (uint32_t i = 0; i < team->n; i++) {
    const struct member *member = &job->ranks[team->processes[i]].members[t];
    struct banyan_negotiation counts;
    banyan_comm_negotiation(member->comm, &counts);
    assert_int_equal(counts.started + counts.refused, counts.submitted);
    assert_int_equal(counts.malformed, 0);
    assert_int_equal(by_named_submitter(member->comm)->controller->waiting, 0);
  }
}

static void test_any_order(void **state) {
  (void)state;
  bool moved = false;
  for (uint64_t seed = check_first_seed(), n = check_seeds(500); n; seed++, n--) {
    struct job *job = make_job(seed);
    run(job);
    for (uint32_t t = 0; t < job->n_teams; t++) {
      check_plans(job, t);
      check_trees(job, t, &moved);
      check_counts(job, t);
    }
    free_job(job);
    by_tracer_stop(&tracer);
    assert_ok(by_tracer_start(&tracer));
  }
  assert_true(moved);
}

/* ---- bursts: rank 1 submits while its progress thread, which this test stands for, does this or that */

enum { BURST = 10 };

struct burst {
  struct world world;
  struct by_job jobs[2];
  struct banyan_comm *comms[2];
  int32_t values[2][BURST];
  struct banyan_request *requests[2][BURST];
};

static void submit_burst(struct burst *burst, uint32_t r, uint32_t first, uint32_t end) {
  for (uint32_t k = first; k < end; k++) {
    char name[32];
    int32_t *value = &burst->values[r][k];
    snprintf(name, sizeof name, "gradient %u", k);
    *value = (int32_t)(k + 1);
    assert_ok(banyan_submit_allreduce(burst->comms[r], name, value, value, 1, BANYAN_INT32, BANYAN_SUM,
                                      &burst->requests[r][k]));
  }
}

static struct banyan_negotiation counts_of(const struct burst *burst, uint32_t r) {
  struct banyan_negotiation counts;
  banyan_comm_negotiation(burst->comms[r], &counts);
  return counts;
}

static uint64_t count_messages(const struct burst *burst) {
  return counts_of(burst, 1).messages;
}

static bool advance_locked(struct by_job *job) {
  by_job_lock(job);
  bool moved = by_progress_advance(job);
  by_job_unlock(job);
  return moved;
}

static void settle(struct burst *burst) {
  for (uint32_t still = 0; still < 100; still++) {
    bool moved = by_sim_step(burst->world.sim);
    for (uint32_t r = 0; r < 2; r++) moved |= advance_locked(&burst->jobs[r]);
    if (moved) still = 0;
  }
}

static void end_burst(struct burst *burst) {
  settle(burst);
  for (uint32_t r = 0; r < 2; r++)
    for (uint32_t k = 0; k < BURST; k++) {
      bool done = false;
      assert_ok(banyan_test(burst->requests[r][k], &done));
      assert_true(done);
      assert_int_equal(burst->values[r][k], 2 * (k + 1));
    }
}

static void begin_burst(struct burst *burst) {
  struct by_sim_options net;
  struct by_engine_options engine;
  world_options(0, &net, &engine);
  net = (struct by_sim_options){.buffer = 1 << 16, .frame_bytes = 1 << 12}; /* what is sent is there at once */
  world_init(&burst->world, 2, "ring", &net, &engine, 0);
  for (uint32_t r = 0; r < 2; r++) {
    struct by_job *job = &burst->jobs[r];
    context_make(job, &burst->world, r, 2);
    by_job_lock(job);
    assert_ok(by_comm_open(job, FIRST_ID, r, 2, (uint32_t[]){0, 1}, &burst->comms[r]));
    by_job_unlock(job);
  }
}

static void free_burst(struct burst *burst) {
  for (uint32_t r = 0; r < 2; r++) context_end_comms(&burst->jobs[r]);
  world_fini(&burst->world);
  for (uint32_t r = 0; r < 2; r++) context_fini(&burst->jobs[r]);
  free(burst);
}

/* The first operation leaves at once and wakes the thread; those that follow leave in one message with its round. While
 * the thread calls a function of the program, each leaves at once, since its round may be far. The root takes all that
 * have arrived before it answers. */
static void test_bursts(void **state) {
  (void)state;
  struct burst *burst = calloc(1, sizeof *burst);
  assert_non_null(burst);
  begin_burst(burst);
  struct by_progress *progress = &burst->jobs[1].progress;
  progress->driver = BY_DRIVER_NONE;
  progress->state = BY_PROGRESS_WORKS;
  progress->helper = BY_HELPER_SLEEPS;
  submit_burst(burst, 1, 0, 1);
  assert_int_equal(count_messages(burst), 1);
  assert_int_equal(progress->helper, BY_HELPER_COMES);
  submit_burst(burst, 1, 1, 7);
  assert_int_equal(count_messages(burst), 1);
  advance_locked(&burst->jobs[1]);
  assert_int_equal(count_messages(burst), 2);
  progress->helper = BY_HELPER_BUSY;
  submit_burst(burst, 1, 7, BURST);
  assert_int_equal(count_messages(burst), 2 + BURST - 7);
  progress->driver = BY_DRIVER_USER;
  for (uint32_t still = 0; still < 100; still++) {
    bool arrived = by_sim_step(burst->world.sim);
    if (advance_locked(&burst->jobs[1]) || arrived) still = 0;
  }
  submit_burst(burst, 0, 0, BURST);
  assert_int_equal(counts_of(burst, 0).taken, 0);
  advance_locked(&burst->jobs[0]);
  assert_int_equal(counts_of(burst, 0).taken, count_messages(burst));
  assert_int_equal(counts_of(burst, 0).messages, 1);
  end_burst(burst);
  free_burst(burst);
}

/* What is submitted together leaves in one message, also where nothing is left to the thread. The structs are those of
 * a program that knows no priorities. */
static void test_together(void **state) {
  (void)state;
  enum { STRIDE = offsetof(struct banyan_submission, priority) };
  struct burst *burst = calloc(1, sizeof *burst);
  char names[BURST][32], submissions[BURST * STRIDE];
  const char *list[BURST];
  struct banyan_call calls[BURST];
  assert_non_null(burst);
  begin_burst(burst);
  struct by_progress *progress = &burst->jobs[1].progress;
  for (uint32_t r = 2; r-- > 0;) {
    for (uint32_t k = 0; k < BURST; k++) {
      int32_t *value = &burst->values[r][k];
      *value = (int32_t)(k + 1);
      snprintf(names[k], sizeof names[k], "gradient %u", k);
      list[k] = names[k];
      calls[k] = (struct banyan_call){.dtype = BANYAN_INT32, .send = value, .recv = value, .count = 1};
      struct banyan_submission what = {.size_of_struct = STRIDE, .calls = &calls[k], .n_calls = 1};
      memcpy(submissions + (size_t)k * STRIDE, &what, STRIDE);
    }
    progress->driver = BY_DRIVER_NONE;
    progress->state = BY_PROGRESS_WORKS;
    progress->helper = BY_HELPER_BUSY;
    assert_ok(banyan_submit_all(burst->comms[r], list, (void *)submissions, BURST, burst->requests[r]));
    progress->driver = BY_DRIVER_USER;
    assert_int_equal(count_messages(burst), 1);
  }
  end_burst(burst);
  assert_int_equal(count_messages(burst), 1);
  assert_ok(banyan_submit_all(burst->comms[0], NULL, NULL, 0, NULL));
  free_burst(burst);
}

/* Direct calls wake the thread once, until it has made a round. */
static void test_wakes_once(void **state) {
  (void)state;
  struct burst *burst = calloc(1, sizeof *burst);
  uint64_t wakes = 0;
  assert_non_null(burst);
  begin_burst(burst);
  struct by_progress *progress = &burst->jobs[1].progress;
  progress->driver = BY_DRIVER_NONE;
  progress->state = BY_PROGRESS_WORKS;
  progress->helper = BY_HELPER_SLEEPS;
  for (uint32_t r = 2; r-- > 0;) {
    for (uint32_t k = 0; k < BURST; k++) {
      int32_t *value = &burst->values[r][k];
      *value = (int32_t)(k + 1);
      struct banyan_call call = {.dtype = BANYAN_INT32, .send = value, .recv = value, .count = 1};
      assert_ok(banyan_start(burst->comms[r], &call, &burst->requests[r][k]));
    }
    progress->driver = BY_DRIVER_USER;
  }
  assert_int_equal(read(burst->jobs[1].wake, &wakes, sizeof wakes), sizeof wakes);
  assert_int_equal(wakes, 1);
  end_burst(burst);
  free_burst(burst);
}

/* Messages for a communicator that rank 0 has not made wait for it, however many they are. */
static void test_early_messages(void **state) {
  (void)state;
  enum { EARLY = 5000, LATER = FIRST_ID + 1 };
  struct burst *burst = calloc(1, sizeof *burst);
  struct banyan_request **requests = calloc(2 * (size_t)EARLY, sizeof *requests);
  struct banyan_comm *comms[2];
  int32_t *values = calloc(2 * (size_t)EARLY, sizeof *values);
  assert_true(burst && requests && values);
  begin_burst(burst);
  for (uint32_t r = 2; r-- > 0;) {
    by_job_lock(&burst->jobs[r]);
    assert_ok(by_comm_open(&burst->jobs[r], LATER, r, 2, (uint32_t[]){0, 1}, &comms[r]));
    by_job_unlock(&burst->jobs[r]);
    for (uint32_t k = 0; k < EARLY; k++) {
      int32_t *value = &values[r * EARLY + k];
      char name[16];
      snprintf(name, sizeof name, "%u", k);
      *value = (int32_t)k;
      assert_ok(
          banyan_submit_allreduce(comms[r], name, value, value, 1, BANYAN_INT32, BANYAN_SUM, &requests[r * EARLY + k]));
      for (uint32_t p = 2; r && p-- > 0;) advance_locked(&burst->jobs[p]);
      by_sim_step(burst->world.sim);
    }
  }
  settle(burst);
  for (uint32_t i = 0; i < 2 * EARLY; i++) {
    bool done = false;
    assert_ok(banyan_test(requests[i], &done));
    assert_true(done);
    assert_int_equal(values[i], 2 * (i % EARLY));
  }
  free(requests);
  free(values);
  free_burst(burst);
}

/* Rank 1 sends long messages for a communicator that rank 0 never makes. They are not kept without a limit: the job
 * ends, and the error names rank 1. */
static void test_messages_for_nobody(void **state) {
  (void)state;
  enum { BYTES = 1 << 20, MESSAGES = 2 * BY_CONTROL_MESSAGES_KEPT / BYTES };
  struct burst *burst = calloc(1, sizeof *burst);
  char *bytes = calloc(1, BYTES);
  uint32_t sent = 0;
  assert_true(burst && bytes);
  begin_burst(burst);
  struct by_engine *engine = burst->world.nodes[0].engine;
  for (; sent < MESSAGES && by_engine_status(engine) == BANYAN_OK; sent++) {
    assert_ok(by_engine_write(burst->world.nodes[1].engine, 0, 4711, bytes, BYTES));
    for (uint32_t still = 0; still < 10; still++) {
      bool moved = by_sim_step(burst->world.sim);
      for (uint32_t p = 2; p-- > 0;) moved |= advance_locked(&burst->jobs[p]);
      if (moved && by_engine_status(engine) == BANYAN_OK) still = 0;
    }
  }
  assert_true(sent < MESSAGES);
  assert_status(by_engine_status(engine), BANYAN_ERR_PROTOCOL);
  assert_non_null(strstr(by_engine_get_state(engine)->error, "rank 1 sent more control messages"));
  while (by_named_of(&burst->jobs[0])->messages) {
    struct by_control_message *message = by_named_of(&burst->jobs[0])->messages;
    by_named_of(&burst->jobs[0])->messages = message->next;
    by_control_message_free(engine, message);
  }
  free(bytes);
  free_burst(burst);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_any_order),      cmocka_unit_test(test_bursts),
      cmocka_unit_test(test_together),       cmocka_unit_test(test_wakes_once),
      cmocka_unit_test(test_early_messages), cmocka_unit_test(test_messages_for_nobody),
  };
  if (by_tracer_start(&tracer) != BANYAN_OK) return 1;
  int failed = cmocka_run_group_tests_name("submitter", tests, NULL, NULL);
  by_tracer_fini(&tracer);
  return failed;
}
