/* Sparse calls of communicators, and the thread that merges rows for them without the lock. */
#include "sparse.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ledger.h"
#include "observe.h"
#include "offload.h"
#include "plan_switch.h"
#include "request.h"
#include "sparse_exchange.h"
#include "sparse_tables.h"

enum { SPARSE = 2 << 16 /* The kind of sparse calls. */ };
enum { OFFLOADS = 256 << 10 /* Bytes: some 50 us of merging, a few times as long as waking a thread takes. */ };

/* What a context keeps for sparse calls. */
struct sparse {
  uint32_t comms;                  /* Communicators that have made sparse calls so far. */
  uint64_t ended_seen, tasks_seen; /* Calls and tasks that had ended when they were last looked at. */
  uint64_t moves;                  /* Looks at which an exchange progressed. */
  struct by_offload offload;       /* It runs tasks without the lock. It is set up if `comms` is not 0. */
};

static const struct by_feature_key key = {.bytes = sizeof(struct sparse)};

static struct sparse *state_of(const struct by_job *job) {
  return by_feature_state(job, &key);
}

static struct by_sparse_queue *queue_of(const struct banyan_comm *comm) {
  return by_feature_of_comm(comm, &key);
}

uint64_t by_sparse_count_moves(const struct by_job *job) {
  return state_of(job)->moves;
}

/* Advances sparse calls whose parts have ended. */
static bool advance(struct by_job *job) {
  struct sparse *sparse = state_of(job);
  bool moved = false;
  uint64_t ended = by_engine_get_state(by_job_engine(job))->ended;
  uint64_t tasks = atomic_load_explicit(&sparse->offload.ended, memory_order_acquire);
  if (ended == sparse->ended_seen && tasks == sparse->tasks_seen) return false;
  if (tasks != sparse->tasks_seen) by_progress_count_ended(job); /* Wakes threads that wait for a call. */
  sparse->ended_seen = ended;
  sparse->tasks_seen = tasks;
  for (const struct banyan_comm *comm = by_comm_first(job); comm; comm = comm->next) {
    struct by_sparse_queue *queue = queue_of(comm);
    moved |= queue && by_sparse_progress(queue);
  }
  sparse->moves += moved;
  return moved;
}

/* Returns whether rows are being merged without the lock, so that a call will progress. */
static bool has_work(const struct by_job *job) {
  return atomic_load_explicit(&state_of(job)->offload.open, memory_order_relaxed);
}

static void detach(struct by_job *job) {
  if (state_of(job)->comms) by_offload_fini(&state_of(job)->offload);
}

static bool comm_owes(const struct banyan_comm *comm) {
  return queue_of(comm) && by_sparse_queue_owes(queue_of(comm));
}

static bool comm_is_idle(const struct banyan_comm *comm) {
  return !queue_of(comm) || by_sparse_queue_is_idle(queue_of(comm));
}

static void comm_destroyed(struct banyan_comm *comm) {
  by_sparse_queue_destroy(queue_of(comm));
}

/* Adds sparse calls to the ledger as calls of the communicator. */
static void add_history(const struct banyan_comm *comm, struct by_ledger *ledger) {
  if (queue_of(comm)) by_ledger_add_history(ledger, by_sparse_queue_history(queue_of(comm)));
}

const struct by_feature by_sparse_feature = {.key = &key,
                                             .detach = detach,
                                             .advance = advance,
                                             .has_work = has_work,
                                             .comm_owes = comm_owes,
                                             .comm_is_idle = comm_is_idle,
                                             .comm_destroyed = comm_destroyed,
                                             .add_history = add_history};

/* Returns half of the machine's memory, divided by the ranks on it. */
static size_t usual_memory(const struct by_job *job) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  uint32_t ranks = by_job_hosts(job)->neighbours ? by_job_hosts(job)->neighbours : 1;
  return pages > 0 && page > 0 ? (size_t)pages / 2 / ranks * (size_t)page : SIZE_MAX / 2;
}

/* Called by the offload's thread. */
static void task_done(void *context) {
  by_job_wake(context);
}

static enum banyan_status need_queue(struct banyan_comm *comm) {
  struct by_job *job = comm->job;
  struct sparse *sparse = state_of(job);
  struct by_sparse_queue *queue = NULL;
  if (queue_of(comm)) return BANYAN_OK;
  if (!sparse->comms++) by_offload_init(&sparse->offload, task_done, job);
  by_feature_activate(job, &key, true);
  struct by_sparse_options options = {
      .engine = by_job_engine(job),
      .team = comm->team,
      .id = by_comm_number(by_team_id(comm->team), BY_OF_NO_SPLIT, BY_OF_SPARSE),
      .n = comm->size,
      .processes = comm->processes,
      .memory = usual_memory(job),
      .clock = by_clock_system,
      .fixed = by_job_settings(job)->deterministic,
      .far = by_job_hosts(job)->n > 1 || !strcmp(by_job_settings(job)->transport, "tcp"),
      .crowd = (double)by_job_hosts(job)->neighbours / by_job_members(job)[by_job_rank(job)].cores,
      .offload = &sparse->offload,
      .offloads = OFFLOADS};
  BY_TRY(by_sparse_queue_create(&options, &queue));
  by_feature_set_of_comm(comm, &key, queue);
  return BANYAN_OK;
}

enum banyan_status by_sparse_call_check(const struct banyan_comm *comm, const struct banyan_sparse_call *call) {
  BY_TRY(by_comm_check(comm));
  if (!call || !call->in || !call->out || call->in == call->out)
    return by_fail(BANYAN_ERR_ARGUMENT, "the sparse call or one of its tensors is NULL, or both are the same one");
  if (call->tables > BY_SPARSE_MOST_TABLES)
    return by_fail(BANYAN_ERR_ARGUMENT, "the sparse call has %zu tables, at most %d are possible", call->tables,
                   BY_SPARSE_MOST_TABLES);
  if (!(call->deadline >= 0))
    return by_fail(BANYAN_ERR_ARGUMENT, "the deadline is %g seconds, must be > 0", call->deadline);
  return BANYAN_OK;
}

enum banyan_status by_comm_take_exchange(struct banyan_comm *comm, struct by_sparse_exchange **out) {
  BY_TRY(need_queue(comm));
  *out = by_sparse_take(queue_of(comm));
  return *out ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a sparse call");
}

/* Starts an exchange. Under lock. */
static enum banyan_status start(struct banyan_comm *comm, const struct banyan_sparse_call *call,
                                struct by_sparse_exchange *exchange) {
  uint64_t now = by_clock_now(&by_clock_system), deadline = now + by_comm_lasts(comm, call->deadline);
  if (comm->plans.plan_switch.state != BY_PLAN_SWITCH_NONE) BY_TRY(by_plan_switches_pass(comm, deadline));
  BY_TRY(by_sparse_start(exchange, deadline));
  by_plan_switches_count(comm);
  uint64_t size = banyan_dtype_size(call->in->dtype), row = call->in->width, elements = row * call->in->count;
  for (size_t t = 1; t < call->tables; t++) {
    row += call->in[t].width;
    elements += (uint64_t)call->in[t].count * call->in[t].width;
  }
  if (by_job_observation(comm->job)->on) /* Only widths identify an iteration, as rows differ between iterations. */
    by_observe_odd(by_job_observation(comm->job), SPARSE + call->collective, row * size, elements * size, now);
  return BANYAN_OK;
}

static bool has_ended(const struct banyan_request *request) {
  return by_sparse_ended(request->of);
}

static enum banyan_status finish(struct banyan_request *request) {
  enum banyan_status status = by_sparse_result(request->of);
  by_sparse_release(request->of);
  free(request);
  return status;
}

static bool has_ended_or_offers(void *exchange) {
  return by_sparse_ended(exchange) || by_sparse_offered(exchange);
}

/* Waits for an exchange, and merges its rows without the lock when they have come. Work that was offered to this thread
 * is done even if it takes longer than `until`. */
static void wait_for(struct banyan_request *request, uint64_t until) {
  struct by_job *job = request->job;
  struct by_offload *offload = &state_of(job)->offload;
  by_sparse_attend(request->of);
  while (!by_sparse_ended(request->of)) {
    by_progress_wait_until(job, has_ended_or_offers, request->of, until);
    struct by_task *task = by_sparse_offered(request->of);
    if (task && by_offload_claim(offload, task)) {
      by_job_unlock(job);
      by_offload_do(offload, task);
      by_job_lock(job);
    } else if (until != UINT64_MAX && by_clock_now(&by_clock_system) >= until) {
      if (by_sparse_leave(request->of)) return;
      until = by_clock_now(&by_clock_system) + BY_MILLISECOND;
    }
  }
}

static const struct by_request_ops ops = {has_ended, finish, wait_for};

/* Makes a sparse call. `alone`: no thread will wait for it at once. Rows that can be merged are merged without the
 * lock. */
static enum banyan_status make(struct banyan_comm *comm, const struct banyan_sparse_call *call, bool alone,
                               struct banyan_request **out) {
  struct by_job *job = comm->job;
  struct by_sparse_exchange *exchange;
  struct banyan_request *request = malloc(sizeof *request);
  if (!request) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a request");
  by_job_lock(job);
  enum banyan_status status = by_comm_take_exchange(comm, &exchange);
  if (status == BANYAN_OK) {
    by_job_unlock(job);
    by_sparse_prepare(exchange, call);
    by_job_lock(job);
    status = start(comm, call, exchange);
  }
  if (status == BANYAN_OK) {
    *request = (struct banyan_request){.job = job, .ops = &ops, .of = exchange};
    *out = request;
    by_job_hold(job);
    if (alone) by_progress_kick(job);
  }
  by_job_unlock(job);
  if (status != BANYAN_OK) free(request);
  return status;
}

enum banyan_status banyan_sparse_start(struct banyan_comm *comm, const struct banyan_sparse_call *call,
                                       struct banyan_request **out) {
  BY_TRY(by_sparse_call_check(comm, call));
  if (!out) return by_fail(BANYAN_ERR_ARGUMENT, "the place for the request is NULL");
  return make(comm, call, true, out);
}

enum banyan_status banyan_sparse_run(struct banyan_comm *comm, const struct banyan_sparse_call *call) {
  struct banyan_request *request;
  BY_TRY(by_sparse_call_check(comm, call));
  BY_TRY(make(comm, call, false, &request));
  return banyan_wait(request);
}
