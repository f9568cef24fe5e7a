#include "controllers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

uint32_t below(struct job *job, uint64_t n) {
  return (uint32_t)by_rng_below(&job->rng, n);
}

/* --- callbacks --- */

static void on_send(void *context, uint32_t to, const void *data, size_t bytes) {
  struct member *member = context;
  struct job *job = member->job;
  struct message *message = malloc(sizeof *message + bytes), **end = &job->queues[member->rank][to];
  assert_non_null(message);
  *message = (struct message){.from = member->rank, .to = to, .bytes = bytes};
  memcpy(message->data, data, bytes);
  while (*end) end = &(*end)->next;
  *end = message;
  job->under_way++;
  if (member->rank == job->root || to == job->root) job->handled++;
}

static void on_start(void *context, void *const *cookies, uint32_t n) {
  struct member *member = context;
  struct job *job = member->job;
  assert_true(member->n_ended < MOST_OPERATIONS);
  member->ended[member->n_ended++] = n * by_operation_bytes(&usual_operation);
  for (uint32_t i = 0; i < n; i++) {
    uint8_t *state = cookies[i];
    uint32_t operation = (uint32_t)(state - member->state);
    assert_int_equal(*state, WAITS);
    *state = STARTED;
    assert_true(job->submitted[operation] == first_ranks(job->n)); /* all ranks have submitted it */
    assert_true(member->n_log < MOST_LOG);
    member->log[member->n_log++] = job->step << 32 | (uint64_t)operation << 1 | (i + 1 == n);
  }
}

static void on_noted(void *context, uint32_t note) {
  struct member *member = context;
  assert_true(member->n_log < MOST_LOG);
  member->log[member->n_log++] = NOTED | note;
}

static void on_refused(void *context, void *cookie, const struct by_refused_operation *refusal) {
  struct member *member = context;
  uint8_t *state = cookie;
  assert_int_equal(*state, WAITS);
  assert_int_not_equal(refusal->ranks[0], refusal->ranks[1]);
  assert_false(by_operation_equal(&refusal->operations[0], &refusal->operations[1]));
  *state = REFUSED;
  member->job->submitted[state - member->state] &= ~((rank_set)1 << member->rank);
}

static void on_stalled(void *context, const struct by_stall *stall) {
  struct job *job = ((struct member *)context)->job;
  job->stalls++;
  job->stall = *stall;
  snprintf(job->stalled, sizeof job->stalled, "%s", stall->name);
}

/* --- jobs --- */

static uint32_t children_of(const uint32_t *parent, uint32_t n, uint32_t rank, uint32_t *out) {
  uint32_t k = 0;
  for (uint32_t r = 0; r < n; r++)
    if (r != rank && parent[r] == rank) out[k++] = r;
  return k;
}

/* A tree in random order. Returns its root. */
static uint32_t make_tree(struct job *job, enum shape shape, uint32_t *up, uint32_t *down) {
  uint32_t n = job->n, order[MOST_RANKS] = {0};
  for (uint32_t i = 0; i < n; i++) order[i] = i;
  for (uint32_t i = n; i > 1; i--) {
    uint32_t j = below(job, i), rank = order[j];
    order[j] = order[i - 1];
    order[i - 1] = rank;
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t parent = shape == STAR || !i ? 0 : below(job, i);
    up[order[i]] = shape == RING ? order[i + 1 < n ? i + 1 : i] : order[parent];
    down[order[i]] = shape == RING ? order[i + 1 == n ? i : i ? i - 1 : n - 1] : order[parent];
  }
  return shape == RING ? order[n - 1] : order[0];
}

static void make_member(struct job *job, uint32_t rank, const uint32_t *up, const uint32_t *down,
                        const struct by_controller_config *usual) {
  uint32_t up_children[MOST_RANKS], down_children[MOST_RANKS];
  struct by_controller_config config = *usual;
  job->members[rank].job = job;
  job->members[rank].rank = rank;
  config.rank = rank;
  config.ranks = job->n;
  config.up_parent = up[rank];
  config.down_parent = down[rank];
  config.n_up_children = children_of(up, job->n, rank, up_children);
  config.n_down_children = children_of(down, job->n, rank, down_children);
  config.up_children = up_children;
  config.down_children = down_children;
  config.send = on_send;
  config.start = on_start;
  config.refused = on_refused;
  config.noted = on_noted;
  config.stalled = on_stalled;
  config.context = &job->members[rank];
  assert_int_equal(by_controller_create(&config, &job->members[rank].controller), BANYAN_OK);
}

struct job *make_job(uint64_t seed, uint32_t n, enum shape shape, const struct by_controller_config *usual) {
  struct job *job = calloc(1, sizeof *job);
  uint32_t up[MOST_RANKS], down[MOST_RANKS];
  assert_non_null(job);
  by_rng_init(&job->rng, seed);
  job->n = n;
  job->now = 1;
  job->root = make_tree(job, shape, up, down);
  for (uint32_t rank = 0; rank < n; rank++) make_member(job, rank, up, down, usual);
  return job;
}

void free_job(struct job *job) {
  for (uint32_t i = 0; i < job->n; i++) by_controller_destroy(job->members[i].controller);
  for (uint32_t i = 0; i < job->n; i++)
    for (uint32_t k = 0; k < job->n; k++)
      while (job->queues[i][k]) {
        struct message *next = job->queues[i][k]->next;
        free(job->queues[i][k]);
        job->queues[i][k] = next;
      }
  free(job);
}

void flush(struct job *job, uint32_t rank) {
  struct member *member = &job->members[rank];
  if (job->holds && rank == job->root) return;
  while (job->ends && member->n_ended) by_controller_ended(member->controller, member->ended[--member->n_ended]);
  member->n_ended = 0;
  assert_int_equal(by_controller_flush(job->members[rank].controller), BANYAN_OK);
}

void move(struct job *job, enum shape shape) {
  uint32_t up[MOST_RANKS], down[MOST_RANKS];
  struct by_controller_tree tree = {.number = ++job->trees, .ranks = job->n, .up = up, .down = down};
  (void)make_tree(job, shape, up, down);
  for (uint32_t i = 0; i < job->n; i++) assert_ok(by_controller_move(job->members[i].controller, &tree));
}

void deliver_one(struct job *job) {
  if (job->moves && !below(job, 50)) move(job, (enum shape)below(job, SHAPES));
  uint32_t from = below(job, job->n), to = below(job, job->n);
  for (uint32_t tried = 0; !job->queues[from][to]; tried++) {
    assert_true(tried < job->n * job->n);
    if (++to == job->n) {
      to = 0;
      from = (from + 1) % job->n;
    }
  }
  struct message *message = job->queues[from][to];
  job->queues[from][to] = message->next;
  job->under_way--;
  struct by_controller *controller = job->members[to].controller;
  if (by_controller_take(controller, from, message->data, message->bytes, job->now) != BANYAN_OK)
    fail_msg("message from %u to %u: %s", from, to, banyan_error_text());
  free(message);
  if (below(job, 3)) flush(job, to); /* sometimes takes several messages before it sends any */
}

void settle(struct job *job) {
  do {
    while (job->under_way) deliver_one(job);
    for (uint32_t i = 0; i < job->n; i++) flush(job, i);
  } while (job->under_way);
}

enum banyan_status submit_as(struct job *job, uint32_t rank, uint32_t operation, const struct by_operation *what,
                             int32_t priority) {
  char name[32];
  snprintf(name, sizeof name, "gradient %u", operation);
  job->members[rank].state[operation] = WAITS;
  job->submitted[operation] |= (rank_set)1 << rank;
  enum banyan_status status = by_controller_submit(job->members[rank].controller, name, what, priority,
                                                   &job->members[rank].state[operation], job->now);
  if (status == BANYAN_OK) return status;
  job->members[rank].state[operation] = REFUSED;
  job->submitted[operation] &= ~((rank_set)1 << rank);
  return status;
}

enum banyan_status submit(struct job *job, uint32_t rank, uint32_t operation, uint64_t count) {
  struct by_operation what = usual_operation;
  what.count = count;
  return submit_as(job, rank, operation, &what, 0);
}

void expect_same_logs(const struct job *job) {
  for (uint32_t i = 1; i < job->n; i++) {
    assert_int_equal(job->members[i].n_log, job->members[0].n_log);
    assert_memory_equal(job->members[i].log, job->members[0].log, job->members[0].n_log * sizeof(uint64_t));
  }
}
