#include "negotiate_ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <banyan/banyan.h>

#include "controller_parts.h"
#include "job_state.h"
#include "submitter.h"

/* The counters of this rank at one moment, from which the figures of all ranks are computed. */
struct tally {
  int64_t messages, frames; /* messages that this rank has sent; its frames and wake-ups of any kind */
  double process, negotiating, submitting, wall;
  uint64_t taken; /* messages that this rank has received */
};

/* Measures where the CPU time of negotiating goes, on whatever thread: it is put around the functions that the library
 * calls for it. Under the job's lock, but for `submitting`, which belongs to the thread that submits. */
static struct {
  bool (*advance)(void *context, bool notifies);
  void (*start)(void *context, void *const *cookies, uint32_t n);
  double starting;    /* calls, which is no longer negotiating */
  double negotiating; /* without what finds nothing to do */
  double submitting;
} spent;
static _Thread_local double advanced; /* in `advance` on this thread */

static double seconds_of(clockid_t which) {
  struct timespec t;
  clock_gettime(which, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool advance_timed(void *context, bool notifies) {
  double before = seconds_of(CLOCK_THREAD_CPUTIME_ID), starting = spent.starting;
  bool moved = spent.advance(context, notifies);
  double took = seconds_of(CLOCK_THREAD_CPUTIME_ID) - before;
  advanced += took;
  if (moved) spent.negotiating += took - (spent.starting - starting);
  return moved;
}

static void start_timed(void *context, void *const *cookies, uint32_t n) {
  double before = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  spent.start(context, cookies, n);
  spent.starting += seconds_of(CLOCK_THREAD_CPUTIME_ID) - before;
}

static enum banyan_status begin_timing(struct banyan_comm *world) {
  struct by_submitter *owner;
  struct by_progress_events *events = &world->job->progress.events;
  by_job_lock(world->job);
  enum banyan_status status = by_submitter_need(world, &owner);
  if (status == BANYAN_OK) {
    spent.advance = events->advance;
    spent.start = owner->controller->config.start;
    events->advance = advance_timed;
    owner->controller->config.start = start_timed;
  }
  by_job_unlock(world->job);
  return status;
}

static struct tally look(const struct banyan_comm *world) {
  struct banyan_negotiation negotiation;
  struct banyan_counters counters;
  banyan_comm_negotiation(world, &negotiation);
  banyan_comm_counters(world, &counters);
  by_job_lock(world->job);
  double negotiating = spent.negotiating;
  by_job_unlock(world->job);
  return (struct tally){.messages = (int64_t)negotiation.messages,
                        .frames = (int64_t)(counters.frames_sent + counters.wakes_sent),
                        .process = seconds_of(CLOCK_PROCESS_CPUTIME_ID),
                        .negotiating = negotiating,
                        .submitting = spent.submitting,
                        .wall = seconds_of(CLOCK_MONOTONIC),
                        .taken = negotiation.taken};
}

/* What a round needs, in the order in which it is submitted. */
struct batch {
  float *values;
  uint32_t *order;
  const char **names;
  struct banyan_call *calls;
  struct banyan_submission *submissions;
  struct banyan_request **requests;
};

static void fini(struct batch *batch) {
  free(batch->values);
  free(batch->order);
  free(batch->names);
  free(batch->calls);
  free(batch->submissions);
  free(batch->requests);
}

static enum banyan_status init(struct batch *batch, uint32_t n) {
  *batch = (struct batch){.values = calloc(n, sizeof *batch->values),
                          .order = calloc(n, sizeof *batch->order),
                          .names = calloc(n, sizeof(const char *)),
                          .calls = calloc(n, sizeof *batch->calls),
                          .submissions = calloc(n, sizeof *batch->submissions),
                          .requests = calloc(n, sizeof(struct banyan_request *))};
  if (batch->values && batch->order && batch->names && batch->calls && batch->submissions && batch->requests)
    return BANYAN_OK;
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for operations");
}

/* Sums one element for each operation, in an order of this rank's own. */
static enum banyan_status run_round(struct banyan_comm *world, const struct by_negotiate_case *c, uint32_t round,
                                    struct by_rng *rng, struct batch *batch) {
  by_negotiate_shuffle(c, batch->order, rng);
  for (uint32_t i = 0; i < c->operations; i++) {
    float *value = &batch->values[batch->order[i]];
    batch->names[i] = by_negotiate_name(batch->order[i]);
    batch->calls[i] =
        (struct banyan_call){.dtype = BANYAN_FLOAT32, .op = BANYAN_AVERAGE, .send = value, .recv = value, .count = 1};
    batch->submissions[i] = (struct banyan_submission){.calls = &batch->calls[i], .n_calls = 1};
  }
  BY_TRY(banyan_step(world, round));
  double before = seconds_of(CLOCK_THREAD_CPUTIME_ID), inside = advanced;
  if (!c->apart) BY_TRY(banyan_submit_all(world, batch->names, batch->submissions, c->operations, batch->requests));
  for (uint32_t i = 0; c->apart && i < c->operations; i++)
    BY_TRY(banyan_submit(world, batch->names[i], &batch->submissions[i], &batch->requests[i]));
  spent.submitting += seconds_of(CLOCK_THREAD_CPUTIME_ID) - before - (advanced - inside);
  return banyan_wait_all(batch->requests, c->operations);
}

static enum banyan_status sum(struct banyan_comm *world, int64_t value, int64_t *out) {
  return banyan_allreduce(world, &value, out, 1, BANYAN_INT64, BANYAN_SUM);
}

/* Counts the messages between two pauses: the last ranks fall asleep in the first, and the first ranks continue
 * after the second. */
static enum banyan_status stay_idle(struct banyan_comm *world, double seconds, uint64_t *out) {
  useconds_t pause = (useconds_t)fmin(1e9, seconds * 1e6);
  int64_t all;
  BY_TRY(banyan_barrier(world));
  usleep(pause);
  struct tally before = look(world);
  usleep(pause);
  struct tally after = look(world);
  usleep(pause);
  BY_TRY(sum(world, after.frames - before.frames + after.messages - before.messages, &all));
  *out = (uint64_t)all;
  return BANYAN_OK;
}

static enum banyan_status measure(struct banyan_comm *world, const struct by_negotiate_case *c, struct batch *batch,
                                  struct by_negotiate_result *out) {
  struct by_rng rng;
  BY_TRY(begin_timing(world));
  struct tally first = look(world), then = first;
  double rounds = c->rounds - BY_NEGOTIATE_COLD;
  int64_t messages;
  by_rng_init(&rng, (uint64_t)banyan_comm_rank(world) + 1);
  for (uint32_t round = 0; round < c->rounds; round++) {
    if (round == BY_NEGOTIATE_COLD) then = look(world);
    BY_TRY(run_round(world, c, round, &rng, batch));
    if (round == 0) out->cold = look(world).negotiating - first.negotiating;
  }
  struct tally last = look(world);
  out->by_bits = (last.negotiating - then.negotiating) / rounds;
  out->submitting = (last.submitting - then.submitting) / rounds;
  out->process = (last.process - then.process) / rounds;
  out->round = (last.wall - then.wall) / rounds;
  out->up = (double)(last.taken - then.taken) / rounds;
  out->down = (double)(last.messages - then.messages) / rounds;
  BY_TRY(sum(world, last.messages - then.messages, &messages));
  out->messages = (double)messages / rounds;
  out->children = by_named_submitter(world)->n_neighbours;
  return stay_idle(world, c->idle, &out->idle);
}

enum banyan_status by_negotiate_in_job(struct by_negotiate_case *c, struct by_negotiate_result *out, bool *reports) {
  struct banyan_comm *world = NULL;
  *out = (struct by_negotiate_result){0};
  BY_TRY(banyan_comm_create(NULL, &world));
  c->ranks = (uint32_t)banyan_comm_size(world);
  *reports = banyan_comm_rank(world) == 0;
  struct batch batch;
  enum banyan_status status = init(&batch, c->operations);
  if (status == BANYAN_OK) status = measure(world, c, &batch, out);
  fini(&batch);
  banyan_comm_destroy(world);
  return status;
}

/* ---- shared by all kinds */

enum { NAME_BYTES = 32 };

uint32_t by_negotiate_children(const struct by_negotiate_case *c, uint32_t rank, uint32_t *first) {
  uint64_t from = rank ? (uint64_t)(rank - 1) * c->shape.fan_out + c->shape.at_root + 1 : 1;
  uint64_t to = from + (rank ? c->shape.fan_out : c->shape.at_root);
  *first = (uint32_t)(from < c->ranks ? from : c->ranks);
  return (uint32_t)(to < c->ranks ? to : c->ranks) - *first;
}

enum banyan_status by_negotiate_join(const struct by_negotiate_case *c, uint32_t rank,
                                     struct by_controller_config *config, struct by_controller **out) {
  uint32_t first, n = by_negotiate_children(c, rank, &first);
  uint32_t *children = calloc((size_t)n + 1, sizeof *children);
  if (!children) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a controller");
  for (uint32_t i = 0; i < n; i++) children[i] = first + i;
  config->rank = rank;
  config->ranks = c->ranks;
  config->up_parent = config->down_parent = by_control_parent(&c->shape, rank);
  config->n_up_children = config->n_down_children = n;
  config->up_children = config->down_children = children;
  enum banyan_status status = by_controller_create(config, out);
  free(children);
  return status;
}

const char *by_negotiate_name(uint32_t operation) {
  static char names[BY_NEGOTIATE_OPERATIONS][NAME_BYTES];
  char *name = names[operation];
  if (!*name) snprintf(name, NAME_BYTES, "model.layer%u.weight", operation);
  return name;
}

void by_negotiate_shuffle(const struct by_negotiate_case *c, uint32_t *order, struct by_rng *rng) {
  for (uint32_t i = 0; i < c->operations; i++) order[i] = i;
  for (uint32_t i = c->operations; i > 1; i--) {
    uint32_t j = (uint32_t)by_rng_below(rng, i), last = order[i - 1];
    order[i - 1] = order[j];
    order[j] = last;
  }
}

enum banyan_status by_negotiate_submit(const struct by_negotiate_case *c, struct by_controller *controller,
                                       struct by_rng *rng) {
  uint32_t n = c->operations;
  uint32_t *order = malloc((n + 1) * sizeof *order);
  enum banyan_status status = BANYAN_OK;
  if (!order) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for operations");
  by_negotiate_shuffle(c, order, rng);
  for (uint32_t i = 0; i < n && status == BANYAN_OK; i++) {
    struct by_operation operation = {.dtype = BANYAN_FLOAT32, .count = 1000 + order[i]};
    status = by_controller_submit(controller, by_negotiate_name(order[i]), &operation, 0, NULL, 1);
  }
  free(order);
  return status;
}
