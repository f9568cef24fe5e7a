/* Communicators over one context. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "context.h"
#include "control.h"
#include "log.h"
#include "moves.h"
#include "planning.h"
#include "sparse_exchange.h"

enum banyan_status by_context_check_process(const struct by_context *context) {
  if (!by_context_is_of_parent(context)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "a process that was made by fork() cannot use its parent's communicators and "
                                      "requests: make the call in the parent, or create a communicator here");
}

enum banyan_status by_comm_check(const struct banyan_comm *comm) {
  if (!comm) return by_fail(BANYAN_ERR_ARGUMENT, "the communicator is NULL");
  return by_context_check_process(comm->context);
}

static void count_local(struct banyan_comm *comm) {
  const uint32_t *first_here = comm->context->job.first_here;
  uint32_t host = first_here[comm->processes[comm->rank]];
  for (uint32_t r = 0; r < comm->size; r++) {
    if (first_here[comm->processes[r]] != host) continue;
    if (r < comm->rank) comm->local_rank++;
    comm->local_size++;
  }
}

enum banyan_status by_comm_make(struct by_context *context, uint32_t domain_id, uint32_t rank, uint32_t n,
                                const uint32_t *processes, struct banyan_comm **out) {
  struct banyan_comm *comm = calloc(1, sizeof *comm);
  uint32_t *copy = calloc((size_t)n + 1, sizeof *copy);
  struct by_plan *plan = NULL;
  if (!comm || !copy) {
    free(comm);
    free(copy);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a communicator of %u ranks", n);
  }
  memcpy(copy, processes, n * sizeof *copy);
  *comm = (struct banyan_comm){.context = context, .processes = copy, .rank = rank, .size = n};
  comm->deadline = by_clock_from_seconds(context->job.settings.deadline);
  count_local(comm);
  enum banyan_status status = by_plans_first(context, n, processes, &plan);
  if (status == BANYAN_OK) status = by_domain_create(context->job.engine, domain_id, rank, n, processes, &comm->domain);
  if (status != BANYAN_OK) by_plan_destroy(plan);
  if (status == BANYAN_OK) status = by_plans_set(context, comm->domain, n, processes, plan, NULL);
  if (status != BANYAN_OK) {
    by_domain_destroy(comm->domain);
    free(copy);
    free(comm);
    return status;
  }
  if (domain_id == 0) by_plans_log(context, by_domain_plan(comm->domain), "");
  comm->next = context->comms;
  context->comms = comm;
  if (context->letters) by_context_deliver_kept(context);
  context->references++;
  *out = comm;
  return BANYAN_OK;
}

enum banyan_status banyan_comm_create(const struct banyan_options *options, struct banyan_comm **out) {
  if (!out) return by_fail(BANYAN_ERR_ARGUMENT, "the place for the communicator is NULL");
  struct by_context *context = NULL;
  BY_TRY(by_context_create(options, NULL, &context));
  uint32_t *all = calloc(context->job.size, sizeof *all);
  enum banyan_status status = BANYAN_ERR_NO_MEMORY;
  by_context_lock(context);
  for (uint32_t i = 0; all && i < context->job.size; i++) all[i] = i;
  if (all) status = by_comm_make(context, 0, context->job.rank, context->job.size, all, out);
  by_context_unlock(context);
  free(all);
  if (status != BANYAN_OK) {
    by_context_release(context);
    return status;
  }
  status = by_planning_start(*out);
  if (status != BANYAN_OK) {
    banyan_comm_destroy(*out);
    *out = NULL;
  }
  return status;
}

static bool owes(const struct banyan_comm *comm) {
  return by_domain_owes(comm->domain) || (comm->sparse && by_sparse_queue_owes(comm->sparse));
}

/* Peers may wait for our word that we have their data: it goes out before we forget them. Under lock. */
static void pay_debts(struct banyan_comm *comm) {
  struct by_context *context = comm->context;
  uint64_t until = by_clock_now(&by_clock_system) + BY_SECOND;
  while (by_engine_status(context->job.engine) == BANYAN_OK && owes(comm)) {
    by_engine_progress(context->job.engine);
    if (by_clock_now(&by_clock_system) > until) break;
    by_context_unlock(context);
    usleep(50);
    by_context_lock(context);
  }
}

static void unlist(const struct banyan_comm *comm) {
  struct banyan_comm **place = &comm->context->comms;
  while (*place != comm) place = &(*place)->next;
  *place = comm->next;
}

static void forget(struct banyan_comm *comm) {
  pay_debts(comm);
  by_comm_forget_submitter(comm);
  by_comm_forget_any(comm);
  by_domain_destroy(comm->domain);
  by_comm_forget_sparse(comm);
  by_moves_forget(comm);
  unlist(comm);
  comm->context->references--;
}

static void comm_free(struct banyan_comm *comm) {
  free(comm->processes);
  free(comm);
}

void by_comm_end(struct banyan_comm *comm) {
  forget(comm);
  comm_free(comm);
}

void banyan_comm_destroy(struct banyan_comm *comm) {
  if (!comm || by_context_is_of_parent(comm->context)) return;
  struct by_context *context = comm->context;
  by_context_lock(context);
  context->references++; /* until all is told */
  forget(comm);
  by_context_tell_all(context);
  if (context->doomed) by_memory_sweep(context);
  bool last = --context->references == 0;
  if (!last) by_context_kick(context); /* it may have left something to send */
  by_context_unlock(context);
  comm_free(comm);
  if (last) by_context_release(context);
}

/* ---- split: everybody tells everybody its colour and key */

struct choice {
  int32_t colour, key;
  uint32_t rank;
};

static int by_key(const void *a, const void *b) {
  const struct choice *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* A domain's number must be the same on its members and another one than that of any domain that shares two of
 * them, without asking anybody: it is made of the parent's number, how many splits the parent has seen, and the
 * first rank of the part. */
uint32_t by_comm_number(uint32_t parent, uint32_t splits, uint32_t first) {
  uint64_t x = ((uint64_t)parent << 32) ^ ((uint64_t)splits << 20) ^ first;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return (uint32_t)(x ^ (x >> 31));
}

/* Keeps those of one colour, in their new order. */
static uint32_t choose(struct choice *all, uint32_t n, int32_t colour) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n; i++)
    if (all[i].colour == colour) all[kept++] = all[i];
  qsort(all, kept, sizeof *all, by_key);
  return kept;
}

static enum banyan_status make_part(struct banyan_comm *comm, struct choice *all, int colour, uint32_t splits,
                                    struct banyan_comm **out) {
  uint32_t rank = 0, first = UINT32_MAX, *processes = calloc(comm->size, sizeof *processes);
  if (!processes) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a communicator");
  uint32_t n = choose(all, comm->size, colour);
  for (uint32_t i = 0; i < n; i++) {
    processes[i] = comm->processes[all[i].rank];
    if (all[i].rank == comm->rank) rank = i;
    if (all[i].rank < first) first = all[i].rank;
  }
  by_context_lock(comm->context);
  uint32_t number = by_comm_number(by_domain_id(comm->domain), splits, first);
  enum banyan_status status = by_comm_make(comm->context, number, rank, n, processes, out);
  if (status == BANYAN_OK) (*out)->deadline = comm->deadline;
  by_context_unlock(comm->context);
  free(processes);
  return status;
}

/* The others may have their part already, and wait in its first call. */
static enum banyan_status fail_split(struct by_context *context, enum banyan_status status) {
  char text[400];
  snprintf(text, sizeof text, "%s could not make its part of a split: %s", by_context_name(context, context->job.rank),
           banyan_error_text());
  by_context_fail(context, status, text);
  return by_fail(status, "%s", text);
}

enum banyan_status banyan_comm_split(struct banyan_comm *comm, int colour, int key, struct banyan_comm **out) {
  BY_TRY(by_comm_check(comm));
  if (!out) return by_fail(BANYAN_ERR_ARGUMENT, "the place for the new communicator is NULL");
  *out = NULL;
  struct choice mine = {.colour = colour < 0 ? -1 : colour, .key = key, .rank = comm->rank};
  struct choice *all = calloc(comm->size, sizeof *all);
  if (!all) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a split over %u ranks", comm->size);
  uint32_t splits = atomic_fetch_add(&comm->splits, 1) + 1;
  enum banyan_status status = banyan_allgather(comm, &mine, all, sizeof mine, BANYAN_UINT8);
  if (status == BANYAN_OK && colour >= 0) {
    status = make_part(comm, all, mine.colour, splits, out);
    if (status != BANYAN_OK) status = fail_split(comm->context, status);
  }
  free(all);
  return status;
}

enum banyan_status banyan_comm_duplicate(struct banyan_comm *comm, struct banyan_comm **out) {
  return banyan_comm_split(comm, 0, 0, out);
}

/* ---- the rest */

void banyan_comm_abort(struct banyan_comm *comm, const char *reason) {
  if (!comm || by_context_is_of_parent(comm->context)) return;
  struct by_context *context = comm->context;
  char text[400];
  snprintf(text, sizeof text, "%s aborted: %s", by_context_name(context, context->job.rank),
           reason && *reason ? reason : "no reason was given");
  by_context_fail(context, BANYAN_ERR_ABORTED, text);
}

int banyan_comm_rank(const struct banyan_comm *comm) {
  return comm ? (int)comm->rank : -1;
}

int banyan_comm_size(const struct banyan_comm *comm) {
  return comm ? (int)comm->size : 0;
}

const char *banyan_comm_host(const struct banyan_comm *comm, int rank) {
  if (!comm || rank < 0 || (uint32_t)rank >= comm->size || by_context_is_of_parent(comm->context)) return NULL;
  by_context_lock(comm->context);
  const char *host = comm->context->job.members[comm->processes[rank]].host;
  by_context_unlock(comm->context);
  return host;
}

int banyan_comm_local_size(const struct banyan_comm *comm) {
  return comm ? (int)comm->local_size : 0;
}

int banyan_comm_local_rank(const struct banyan_comm *comm) {
  return comm ? (int)comm->local_rank : -1;
}

enum banyan_status banyan_comm_state(const struct banyan_comm *comm) {
  BY_TRY(by_comm_check(comm));
  by_context_lock(comm->context);
  enum banyan_status status = by_engine_status(comm->context->job.engine);
  if (status != BANYAN_OK) status = by_fail(status, "%s", by_engine_error(comm->context->job.engine));
  by_context_unlock(comm->context);
  return status;
}

enum banyan_status banyan_comm_set_deadline(struct banyan_comm *comm, double seconds) {
  BY_TRY(by_comm_check(comm));
  if (!(seconds > 0)) return by_fail(BANYAN_ERR_ARGUMENT, "the deadline is %g seconds, must be > 0", seconds);
  by_context_lock(comm->context);
  comm->deadline = by_clock_from_seconds(seconds);
  by_context_unlock(comm->context);
  return BANYAN_OK;
}

/* Among the calls this has a place, as they have, so that all ranks agree which of it and a move comes first. Takes the
 * plan over. Under lock. */
static enum banyan_status set_plan(struct banyan_comm *comm, struct by_plan *plan) {
  enum banyan_status status = by_moves_pass(comm, by_clock_now(&by_clock_system) + comm->deadline);
  if (status == BANYAN_OK) status = by_comm_set_inner_plan(comm, plan);
  if (status != BANYAN_OK) {
    by_plan_destroy(plan);
    return status;
  }
  struct by_context *context = comm->context;
  BY_TRY(by_plans_set(context, comm->domain, comm->size, comm->processes, plan, NULL));
  by_moves_set_by_hand(comm);
  by_plans_log(context, by_domain_plan(comm->domain), " from the next call on");
  if (context->observed.awake) by_observe_wake(&context->observed); /* a manager hears of it */
  return BANYAN_OK;
}

enum banyan_status by_comm_set_plan(struct banyan_comm *comm, const char *text, enum banyan_plan_source planned) {
  struct by_plan *plan = NULL;
  BY_TRY(by_plans_named(comm->context, comm->size, comm->processes, text, &plan));
  if (planned) plan->origin = (struct by_plan_origin){planned, false};
  by_context_lock(comm->context);
  enum banyan_status status = set_plan(comm, plan);
  by_context_unlock(comm->context);
  return status;
}

enum banyan_status banyan_comm_set_plan(struct banyan_comm *comm, const char *text) {
  BY_TRY(by_comm_check(comm));
  return by_comm_set_plan(comm, text, 0);
}

enum banyan_status banyan_comm_set_tos(struct banyan_comm *comm, int tos) {
  BY_TRY(by_comm_check(comm));
  if (tos < 0 || tos > 255) return by_fail(BANYAN_ERR_ARGUMENT, "the ToS is %d, must be from 0 to 255", tos);
  by_context_lock(comm->context);
  comm->context->job.settings.tos = tos;
  by_engine_set_mark(comm->context->job.engine, &(struct by_mark){tos, -1});
  by_context_unlock(comm->context);
  return BANYAN_OK;
}

enum banyan_status banyan_comm_expect(struct banyan_comm *comm, uint64_t iterations) {
  BY_TRY(by_comm_check(comm));
  if (iterations > INT64_MAX)
    return by_fail(BANYAN_ERR_ARGUMENT, "%llu iterations are expected, must be at most 2^63 - 1",
                   (unsigned long long)iterations);
  by_context_lock(comm->context);
  comm->context->job.settings.iterations = iterations;
  by_context_unlock(comm->context);
  return BANYAN_OK;
}

void banyan_comm_counters(const struct banyan_comm *comm, struct banyan_counters *out) {
  memset(out, 0, sizeof *out);
  if (!comm || by_context_is_of_parent(comm->context)) return;
  by_context_lock(comm->context);
  by_engine_counters(comm->context->job.engine, out);
  out->moves = comm->context->moves;
  by_context_unlock(comm->context);
}
