/* Sparse calls: each communicator that makes some has a queue of exchanges. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "context.h"
#include "moves.h"
#include "sparse_exchange.h"

/* Splits are counted from 1, so no part of the communicator has this number. */
enum { OF_NO_SPLIT = 0, FIRST = 1 };
enum { SPARSE = 2 << 16 /* a kind of call of its own */ };

bool by_context_advance_sparse(struct by_context *context) {
  bool moved = false;
  uint64_t ended = by_engine_ended(context->job.engine);
  if (ended == context->sparse_seen) return false;
  context->sparse_seen = ended;
  for (const struct banyan_comm *comm = context->comms; comm; comm = comm->next)
    moved |= comm->sparse && by_sparse_progress(comm->sparse);
  return moved;
}

void by_comm_forget_sparse(struct banyan_comm *comm) {
  if (!comm->sparse) return;
  comm->context->sparse--;
  by_sparse_queue_destroy(comm->sparse);
  comm->sparse = NULL;
}

/* Half of the machine's memory, divided by the ranks on it. */
static size_t usual_memory(const struct by_context *context) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  uint32_t ranks = context->job.neighbours ? context->job.neighbours : 1;
  return pages > 0 && page > 0 ? (size_t)pages / 2 / ranks * (size_t)page : SIZE_MAX / 2;
}

static enum banyan_status need_queue(struct banyan_comm *comm) {
  struct by_context *context = comm->context;
  if (comm->sparse) return BANYAN_OK;
  struct by_sparse_options options = {
      .engine = context->job.engine,
      .domain = comm->domain,
      .id = by_comm_number(by_domain_id(comm->domain), OF_NO_SPLIT, FIRST),
      .n = comm->size,
      .processes = comm->processes,
      .memory = usual_memory(context),
      .far = context->job.n_hosts > 1 || !strcmp(context->job.settings.transport, "tcp"),
      .crowd = (double)context->job.neighbours / context->job.members[context->job.rank].cores};
  BY_TRY(by_sparse_queue_create(&options, &comm->sparse));
  context->sparse++;
  return BANYAN_OK;
}

enum banyan_status by_sparse_call_check(const struct banyan_comm *comm, const struct banyan_sparse_call *call) {
  BY_TRY(by_comm_check(comm));
  if (!call || !call->in || !call->out || call->in == call->out)
    return by_fail(BANYAN_ERR_ARGUMENT, "the sparse call or one of its tensors is NULL, or both are the same one");
  if (call->deadline < 0)
    return by_fail(BANYAN_ERR_ARGUMENT, "the deadline is %g seconds, must be > 0", call->deadline);
  return BANYAN_OK;
}

enum banyan_status by_comm_take_exchange(struct banyan_comm *comm, struct by_sparse_exchange **out) {
  BY_TRY(need_queue(comm));
  *out = by_sparse_take(comm->sparse);
  return *out ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a sparse call");
}

static enum banyan_status take(struct banyan_comm *comm, struct by_sparse_exchange **out) {
  by_context_lock(comm->context);
  enum banyan_status status = by_comm_take_exchange(comm, out);
  by_context_unlock(comm->context);
  return status;
}

/* Rows differ from one iteration to the next; their width does not. */
static void observe(struct by_observation *observed, const struct banyan_sparse_call *call, uint64_t now) {
  uint64_t row = (uint64_t)call->in->width * banyan_dtype_size(call->in->dtype);
  by_observe_odd(observed, SPARSE + call->collective, row, call->in->count * row, now);
}

/* Under lock. */
static enum banyan_status start(struct banyan_comm *comm, const struct banyan_sparse_call *call,
                                struct by_sparse_exchange *exchange) {
  uint64_t lasts = call->deadline > 0 ? by_clock_from_seconds(call->deadline) : comm->deadline;
  uint64_t now = by_clock_now(&by_clock_system), deadline = now + lasts;
  if (comm->move.state != BY_MOVE_NONE) BY_TRY(by_moves_pass(comm, deadline));
  BY_TRY(by_sparse_start(exchange, deadline));
  by_moves_count(comm);
  if (comm->context->observed.on) observe(&comm->context->observed, call, now);
  return BANYAN_OK;
}

/* `alone`: nobody will wait for it at once. */
static enum banyan_status begin(struct banyan_comm *comm, const struct banyan_sparse_call *call, bool alone,
                                struct banyan_request *request) {
  *request = (struct banyan_request){.context = comm->context};
  BY_TRY(take(comm, &request->sparse));
  by_sparse_prepare(request->sparse, call);
  by_context_lock(comm->context);
  enum banyan_status status = start(comm, call, request->sparse);
  if (status == BANYAN_OK) comm->context->references++;
  if (status == BANYAN_OK && alone) by_context_kick(comm->context);
  by_context_unlock(comm->context);
  return status;
}

static enum banyan_status make(struct banyan_comm *comm, const struct banyan_sparse_call *call, bool alone,
                               struct banyan_request **out) {
  struct banyan_request *request = malloc(sizeof *request);
  if (!request) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a request");
  enum banyan_status status = begin(comm, call, alone, request);
  if (status == BANYAN_OK)
    *out = request;
  else
    free(request);
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
