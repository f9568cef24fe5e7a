#include "negotiate_ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <banyan/banyan.h>

#include "submitter.h"

/* The counters of this rank at one moment, from which the figures of all ranks are computed. */
struct tally {
  int64_t messages, frames; /* messages that this rank has sent; its frames and wake-ups of any kind */
  double cpu, wall;
  uint64_t handled; /* messages that this rank has sent and received */
};

static double seconds_of(clockid_t which) {
  struct timespec t;
  clock_gettime(which, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct tally look(const struct banyan_comm *world) {
  struct banyan_negotiation negotiation;
  struct banyan_counters counters;
  banyan_comm_negotiation(world, &negotiation);
  banyan_comm_counters(world, &counters);
  return (struct tally){.messages = (int64_t)negotiation.messages,
                        .frames = (int64_t)(counters.frames_sent + counters.wakes_sent),
                        .cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID),
                        .wall = seconds_of(CLOCK_MONOTONIC),
                        .handled = negotiation.messages + negotiation.taken};
}

/* Sums one element for each operation, in an order of this rank's own. */
static enum banyan_status run_round(struct banyan_comm *world, uint32_t n, uint32_t round, struct by_rng *rng,
                                    float *values, struct banyan_request **requests) {
  char name[BY_OPERATION_NAME + 1];
  BY_TRY(banyan_step(world, round));
  for (uint32_t k = 0; k < n; k++) requests[k] = NULL;
  for (uint32_t left = n; left; left--) {
    uint32_t k = (uint32_t)by_rng_below(rng, n);
    while (requests[k]) k = (k + 1) % n;
    snprintf(name, sizeof name, "model.layer%u.weight", k);
    BY_TRY(
        banyan_submit_allreduce(world, name, &values[k], &values[k], 1, BANYAN_FLOAT32, BANYAN_AVERAGE, &requests[k]));
  }
  return banyan_wait_all(requests, n);
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

static enum banyan_status measure(struct banyan_comm *world, const struct by_negotiate_case *c, float *values,
                                  struct banyan_request **requests, struct by_negotiate_result *out) {
  struct by_rng rng;
  struct tally first = look(world), then = first;
  double rounds = c->rounds - BY_NEGOTIATE_COLD;
  int64_t messages;
  by_rng_init(&rng, (uint64_t)banyan_comm_rank(world) + 1);
  for (uint32_t round = 0; round < c->rounds; round++) {
    if (round == BY_NEGOTIATE_COLD) then = look(world);
    BY_TRY(run_round(world, c->operations, round, &rng, values, requests));
    if (round == 0) out->cold = look(world).cpu - first.cpu;
  }
  struct tally last = look(world);
  out->by_bits = (last.cpu - then.cpu) / rounds;
  out->round = (last.wall - then.wall) / rounds;
  out->handled = (double)(last.handled - then.handled) / rounds;
  BY_TRY(sum(world, last.messages - then.messages, &messages));
  out->messages = (double)messages / rounds;
  out->children = world->submitter->n_neighbours;
  return stay_idle(world, c->idle, &out->idle);
}

enum banyan_status by_negotiate_in_job(struct by_negotiate_case *c, struct by_negotiate_result *out, bool *reports) {
  struct banyan_comm *world = NULL;
  *out = (struct by_negotiate_result){0};
  BY_TRY(banyan_comm_create(NULL, &world));
  c->ranks = (uint32_t)banyan_comm_size(world);
  *reports = banyan_comm_rank(world) == 0;
  float *values = calloc(c->operations, sizeof *values);
  struct banyan_request **requests = calloc(c->operations, sizeof(struct banyan_request *));
  enum banyan_status status = BANYAN_ERR_NO_MEMORY;
  if (values && requests)
    status = measure(world, c, values, requests, out);
  else
    status = by_fail(status, "out of memory for operations");
  free(values);
  free(requests);
  banyan_comm_destroy(world);
  return status;
}

/* ---- shared by all kinds */

enum { NAME_BYTES = 32 };

uint32_t by_negotiate_children(const struct by_negotiate_case *c, uint32_t rank, uint32_t *first) {
  uint64_t from = (uint64_t)rank * c->fan_out + 1, to = from + c->fan_out;
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
  config->up_parent = config->down_parent = rank ? (rank - 1) / c->fan_out : 0;
  config->n_up_children = config->n_down_children = n;
  config->up_children = config->down_children = children;
  enum banyan_status status = by_controller_create(config, out);
  free(children);
  return status;
}

/* The names are made once, so that the time for it does not count. */
static const char *name_of(uint32_t operation) {
  static char names[BY_NEGOTIATE_OPERATIONS][NAME_BYTES];
  char *name = names[operation];
  if (!*name) snprintf(name, NAME_BYTES, "model.layer%u.weight", operation);
  return name;
}

enum banyan_status by_negotiate_submit(const struct by_negotiate_case *c, struct by_controller *controller,
                                       struct by_rng *rng) {
  uint32_t n = c->operations;
  uint32_t *order = malloc((n + 1) * sizeof *order);
  enum banyan_status status = BANYAN_OK;
  if (!order) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for operations");
  for (uint32_t i = 0; i < n; i++) order[i] = i;
  for (uint32_t i = n; i > 1; i--) {
    uint32_t j = (uint32_t)by_rng_below(rng, i), last = order[i - 1];
    order[i - 1] = order[j];
    order[j] = last;
  }
  for (uint32_t i = 0; i < n && status == BANYAN_OK; i++) {
    struct by_operation operation = {.dtype = BANYAN_FLOAT32, .count = 1000 + order[i]};
    status = by_controller_submit(controller, name_of(order[i]), &operation, 0, NULL, 1);
  }
  free(order);
  return status;
}
