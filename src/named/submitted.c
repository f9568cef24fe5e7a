/* Operations: what is submitted is checked, copied and offered to the other ranks, and ends. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "collective.h"
#include "log.h"
#include "observe.h"
#include "sparse.h"
#include "sparse_exchange.h"
#include "sparse_tables.h"
#include "submitter.h"

const struct by_feature_key by_named_key = {.bytes = sizeof(struct by_named_state)};

enum { MOST_CALLS = 65536, SUBMITTED = 1 << 16 /* Kind under which submissions are observed. */ };

void by_submitted_set_state(struct by_submitted *s, enum by_submitted_state to) {
  static const char *const names[] = {"free", "waits", "root asked", "rank 0 asked", "runs", "ended"};
  enum by_submitted_state from = s->state;
  bool opened = from >= BY_SUBMITTED_WAITS && from <= BY_SUBMITTED_RUNS;
  assert(to == BY_SUBMITTED_FREE    ? !opened
         : to == BY_SUBMITTED_WAITS ? from == BY_SUBMITTED_FREE
                                    : opened && to > from);
  by_debug("negotiate", "operation \"%s\": %s -> %s", s->name, names[from], names[to]);
  s->state = to;
}

/* ---- memory */

/* Releases an operation that has ended or was never opened. */
static void release(struct by_submitted *s) {
  struct by_submitter *owner = s->owner;
  for (size_t i = 0; i < s->n_sparse; i++)
    if (s->exchanges[i]) by_sparse_release(s->exchanges[i]);
  s->n_sparse = 0;
  free(s->text);
  by_submitted_set_state(s, BY_SUBMITTED_FREE);
  LIST_INSERT_HEAD(&owner->operations.spare, s, entry);
  if (--owner->operations.taken == 0 && !owner->comm) by_submitter_free(owner);
}

static bool has_ended(const struct banyan_request *request) {
  const struct by_submitted *s = request->of;
  return s->state == BY_SUBMITTED_ENDED;
}

/* Returns the result of a request, and releases the operation that contains it. */
static enum banyan_status finish(struct banyan_request *request) {
  const struct by_submitted *s = request->of;
  enum banyan_status status = s->status;
  if (status != BANYAN_OK) (void)by_fail(status, "%s", s->text ? s->text : "out of memory for the text of an error");
  release(request->of);
  return status;
}

static const struct by_request_ops ops = {.ended = has_ended, .finish = finish};

/* Returns a new or released operation; NULL if memory is exhausted. */
static struct by_submitted *take(struct by_submitter *owner) {
  struct by_submitted *s = LIST_FIRST(&owner->operations.spare);
  if (s) {
    LIST_REMOVE(s, entry);
  } else {
    s = calloc(1, sizeof *s);
    if (!s) return NULL;
    owner->counts.allocations++;
  }
  s->request = (struct banyan_request){.ops = &ops, .of = s, .job = owner->job};
  s->owner = owner;
  s->n_calls = s->n_sparse = s->left = 0;
  s->group = UINT64_MAX;
  s->status = BANYAN_OK;
  s->text = NULL;
  owner->operations.taken++;
  return s;
}

void by_submitter_free(struct by_submitter *owner) {
  for (struct by_submitted *s; (s = LIST_FIRST(&owner->operations.spare));) {
    LIST_REMOVE(s, entry);
    free(s->calls);
    free(s->counts);
    free(s->exchanges);
    free(s);
  }
  by_controller_destroy(owner->controller);
  by_history_fini(&owner->history);
  free(owner->neighbours);
  free(owner);
}

void by_submitter_fail(struct by_submitter *owner, enum banyan_status status, const char *what) {
  struct by_job *job = owner->job;
  char text[BY_REPORT_TEXT];
  snprintf(text, sizeof text, "%s: %s: %s", by_job_name(job, by_job_rank(job)), what, banyan_error_text());
  by_engine_fail(by_job_engine(job), status, by_job_rank(job), text);
}

enum banyan_status by_submitter_make_room(struct by_submitter *owner, void **memory, size_t *room, size_t wanted,
                                          size_t each) {
  if (wanted <= *room) return BANYAN_OK;
  void *more = reallocarray(*memory, wanted, each);
  if (!more) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %zu calls", wanted);
  *memory = more;
  *room = wanted;
  owner->counts.allocations++;
  return BANYAN_OK;
}

/* ---- what all ranks must agree on */

static uint64_t hash(uint64_t seed, uint64_t value) {
  uint64_t x = (seed ^ value) * 0x9e3779b97f4a7c15ull;
  return x ^ x >> 29;
}

static uint64_t hash_operation(uint64_t seed, struct by_operation o) {
  seed = hash(seed, (uint64_t)o.collective << 16 | (uint64_t)o.dtype << 8 | o.op);
  return hash(hash(hash(seed, o.root), o.count), o.rest);
}

static struct by_operation of_call(const struct banyan_call *call, uint32_t ranks) {
  struct by_operation o = {.collective = (uint8_t)call->collective};
  if (call->collective == BANYAN_BARRIER) return o;
  o.dtype = (uint8_t)call->dtype;
  o.op = by_collective(call->collective)->adds ? (uint8_t)call->op : 0;
  o.root = by_collective(call->collective)->rooted ? (uint32_t)call->root : 0;
  o.count = call->count;
  if (!call->counts) return o;
  o.count = 0;
  for (uint32_t r = 0; r < ranks; r++) {
    o.count += call->counts[r];
    o.rest = hash(o.rest, call->counts[r]);
  }
  return o;
}

static struct by_operation of_sparse(const struct banyan_sparse_call *call) {
  struct by_operation o = {.collective = (uint8_t)(BY_OPERATION_SPARSE | call->collective),
                           .dtype = (uint8_t)call->in->dtype,
                           .op = by_collective(call->collective)->adds ? (uint8_t)call->op : 0,
                           .root = (uint32_t)call->in->width,
                           .count = call->in->height};
  for (size_t t = 1; t < call->tables; t++) o.count += call->in[t].height;
  o.rest = hash(hash(call->in->width, call->in->row_dtype), call->way);
  if (call->tables > 1) o.rest = hash(hash(o.rest, call->tables), by_sparse_tables_shapes(call));
  return o;
}

static bool all_fuse(const struct banyan_submission *what) {
  for (size_t i = 0; i < what->n_calls; i++)
    if (what->calls[i].collective != BANYAN_ALLREDUCE || what->calls[i].dtype != what->calls[0].dtype ||
        what->calls[i].op != what->calls[0].op)
      return false;
  return what->n_sparse == 0;
}

/* Describes a group of calls. `fusion` determines how the group is divided into calls, so ranks must agree on it. */
static struct by_operation of_several(const struct banyan_submission *what, uint32_t ranks, uint64_t fusion) {
  struct by_operation sum = {.collective = BY_OPERATION_GROUP, .root = (uint32_t)(what->n_calls + what->n_sparse)};
  uint64_t rest = hash(sum.root, fusion), elements = 0;
  for (size_t i = 0; i < what->n_calls; i++) {
    struct by_operation o = of_call(&what->calls[i], ranks);
    rest = hash_operation(rest, o);
    sum.count += by_operation_bytes(&o);
    elements += o.count;
  }
  for (size_t i = 0; i < what->n_sparse; i++) rest = hash_operation(rest, of_sparse(&what->sparse[i]));
  if (all_fuse(what)) {
    sum = of_call(&what->calls[0], ranks);
    sum.count = elements;
  }
  sum.rest = rest;
  return sum;
}

/* ---- filling one */

static enum banyan_status check_calls(const struct by_submitter *owner, const struct banyan_submission *what) {
  for (size_t i = 0; i < what->n_calls; i++) {
    const struct banyan_call *call = &what->calls[i];
    if (call->collective == BANYAN_SEND || call->collective == BANYAN_RECV)
      return by_fail(BANYAN_ERR_UNSUPPORTED, "send and recv cannot be submitted: they are not of all ranks");
    if (!(call->deadline >= 0))
      return by_fail(BANYAN_ERR_ARGUMENT, "the deadline is %g seconds, must be > 0", call->deadline);
    BY_TRY(by_engine_check_call(owner->log.inner->team, call));
  }
  for (size_t i = 0; i < what->n_sparse; i++) BY_TRY(by_sparse_call_check(owner->log.inner, &what->sparse[i]));
  return BANYAN_OK;
}

static enum banyan_status copy_calls(struct by_submitted *s, const struct banyan_submission *what) {
  size_t ranks = s->owner->comm->size, counted = 0;
  for (size_t i = 0; i < what->n_calls; i++) counted += what->calls[i].counts ? ranks : 0;
  BY_TRY(by_submitter_make_room(s->owner, (void **)&s->calls, &s->calls_room, what->n_calls, sizeof *s->calls));
  BY_TRY(by_submitter_make_room(s->owner, (void **)&s->counts, &s->counts_room, counted, sizeof *s->counts));
  size_t *counts = s->counts;
  for (size_t i = 0; i < what->n_calls; i++) {
    s->calls[i] = what->calls[i];
    if (!what->calls[i].counts) continue;
    memcpy(counts, what->calls[i].counts, ranks * sizeof *counts);
    s->calls[i].counts = counts;
    counts += ranks;
  }
  s->n_calls = what->n_calls;
  return BANYAN_OK;
}

static enum banyan_status take_exchanges(struct by_submitted *s, const struct banyan_submission *what) {
  BY_TRY(by_submitter_make_room(s->owner, (void **)&s->exchanges, &s->sparse_room, what->n_sparse,
                                sizeof(struct by_sparse_exchange *)));
  for (size_t i = 0; i < what->n_sparse; i++) {
    BY_TRY(by_comm_take_exchange(s->owner->log.inner, &s->exchanges[i]));
    s->n_sparse = i + 1;
  }
  return BANYAN_OK;
}

/* Checks and copies the calls. Exchanges are not prepared yet. */
static enum banyan_status fill(struct by_submitted *s, const char *name, const struct banyan_submission *what) {
  const struct by_settings *settings = by_job_settings(s->owner->job);
  uint32_t ranks = s->owner->comm->size;
  BY_TRY(check_calls(s->owner, what));
  BY_TRY(copy_calls(s, what));
  BY_TRY(take_exchanges(s, what));
  size_t length = strnlen(name, sizeof s->name - 1);
  memcpy(s->name, name, length);
  s->name[length] = '\0';
  if (what->n_calls + what->n_sparse > 1)
    s->operation = of_several(what, ranks, settings->fusion);
  else
    s->operation = what->n_calls ? of_call(&what->calls[0], ranks) : of_sparse(&what->sparse[0]);
  uint64_t now = by_clock_now(&by_clock_system);
  s->deadline = UINT64_MAX; /* The earliest deadline of its calls. */
  for (size_t i = 0; i < what->n_calls; i++)
    s->deadline = MIN(s->deadline, now + by_comm_lasts(s->owner->comm, what->calls[i].deadline));
  for (size_t i = 0; i < what->n_sparse; i++)
    s->deadline = MIN(s->deadline, now + by_comm_lasts(s->owner->comm, what->sparse[i].deadline));
  s->limit = s->deadline;
  return BANYAN_OK;
}

/* ---- its end */

/* Adds an operation that has ended to the history. A refused one never started, and is left out. */
static void note(const struct by_submitted *s, enum banyan_status status) {
  bool waited = s->state != BY_SUBMITTED_RUNS;
  struct by_history_call call = {.number = waited ? 0 : s->number, .outcome = BY_HISTORY_COMPLETED};
  if (waited && by_engine_status(by_job_engine(s->owner->job)) == BANYAN_OK) return;
  if (status != BANYAN_OK) call.outcome = waited ? BY_HISTORY_WAITED : BY_HISTORY_FAILED;
  if (s->n_calls) {
    call.collective = (uint8_t)s->calls[0].collective;
    call.dtype = (uint8_t)s->calls[0].dtype;
    call.root = by_collective(s->calls[0].collective)->rooted ? (uint32_t)s->calls[0].root : 0;
    call.count = s->calls[0].counts ? 0 : s->calls[0].count;
  }
  call.sparse = !s->n_calls;
  snprintf(call.name, sizeof call.name, "%s", s->name);
  by_history_add(&s->owner->history, &call);
}

void by_submitted_end(struct by_submitted *s, enum banyan_status status, const char *text) {
  struct by_submitter *owner = s->owner;
  if (owner->comm) note(s, status);
  LIST_REMOVE(s, entry);
  by_submitted_set_state(s, BY_SUBMITTED_ENDED);
  s->status = status;
  if (status != BANYAN_OK || s->n_sparse) by_trace_ended(by_job_tracer(owner->job), s->trace, status);
  if (status != BANYAN_OK && !s->text) s->text = strdup(text ? text : banyan_error_text());
  by_named_of(owner->job)->open--;
  by_progress_count_ended(owner->job);
  if (s->group == UINT64_MAX || !owner->comm) return;
  by_controller_ended(owner->controller, s->group);
  owner->dirty |= owner->log.root;
}

void by_submitted_part_ended(struct by_submitted *s, enum banyan_status status) {
  if (status != BANYAN_OK && s->status == BANYAN_OK) {
    s->status = status;
    s->text = strdup(banyan_error_text());
  }
  if (--s->left == 0) by_submitted_end(s, s->status, NULL);
}

/* ---- the inner communicator */

static enum banyan_status need_inner(struct by_submitter *owner) {
  const struct banyan_comm *comm = owner->comm;
  struct banyan_comm *inner;
  if (owner->log.inner) return BANYAN_OK;
  BY_TRY(by_comm_make(owner->job, owner->id, comm->rank, comm->size, comm->processes, &inner));
  inner->hidden = true;
  enum banyan_status status = by_plan_switches_set_first_inner(owner->comm, inner);
  if (status == BANYAN_OK)
    owner->log.inner = inner;
  else
    by_comm_end(inner);
  return status;
}

/* ---- submitting */

/* Some submissions of a program, which may have been built against an earlier version of the struct. */
struct batch {
  const char *const *names;
  const struct banyan_submission *first;
  size_t n;
};

/* Copies the i-th submission of a batch. */
static enum banyan_status copy_submission(const struct batch *batch, size_t i, struct banyan_submission *to) {
  size_t given = batch->first->size_of_struct, stride = given ? given : sizeof *to;
  const void *from = (const char *)batch->first + i * stride;
  BY_TRY(by_copy_versioned("banyan_submission", from, given, to, sizeof *to));
  if (to->size_of_struct != given)
    return by_fail(BANYAN_ERR_ARGUMENT, "size_of_struct is %zu in submission 0 and %zu in submission %zu", given,
                   to->size_of_struct, i);
  if (!batch->names[i]) return by_fail(BANYAN_ERR_ARGUMENT, "the name of operation %zu is NULL", i);
  size_t n = to->n_calls + to->n_sparse;
  if (n == 0 || to->n_calls > MOST_CALLS || to->n_sparse > MOST_CALLS || (to->n_calls && !to->calls) ||
      (to->n_sparse && !to->sparse))
    return by_fail(BANYAN_ERR_ARGUMENT, "an operation has 1 to %d calls; %zu and %zu sparse ones are given", MOST_CALLS,
                   to->n_calls, to->n_sparse);
  return BANYAN_OK;
}

static enum banyan_status begin(struct banyan_comm *comm, const struct batch *batch, size_t i, bool *sparse,
                                struct banyan_request **out) {
  struct by_submitter *owner;
  struct banyan_submission what;
  BY_TRY(copy_submission(batch, i, &what));
  BY_TRY(by_submitter_need(comm, &owner));
  BY_TRY(need_inner(owner));
  struct by_submitted *s = take(owner);
  if (!s) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for an operation");
  *out = &s->request;
  *sparse |= what.n_sparse > 0;
  s->priority = what.priority;
  return fill(s, batch->names[i], &what);
}

/* Merges rows before submitting, since all ranks wait for the last one. Called without the lock. */
static void prepare_sparse(const struct batch *batch, struct banyan_request *const *requests) {
  for (size_t i = 0; i < batch->n; i++) {
    const struct by_submitted *s = requests[i]->of;
    struct banyan_submission what;
    if (copy_submission(batch, i, &what) != BANYAN_OK) continue; /* begin() has checked it. */
    for (size_t k = 0; k < s->n_sparse; k++) by_sparse_prepare(s->exchanges[k], &what.sparse[k]);
  }
}

/* Adds an operation to those that have not ended. */
static void open_operation(struct by_submitted *s) {
  struct by_submitter *owner = s->owner;
  by_submitted_set_state(s, BY_SUBMITTED_WAITS);
  LIST_INSERT_HEAD(&owner->operations.open, s, entry);
  by_named_of(owner->job)->open++;
  by_job_hold(owner->job);
  owner->deadline = MIN(owner->deadline, s->limit);
  owner->dirty = true;
}

static enum banyan_status offer(struct by_submitted *s, const char *name) {
  struct by_job *job = s->request.job;
  BY_TRY(by_job_status(job));
  uint64_t now = by_clock_now(&by_clock_system), bytes = by_operation_bytes(&s->operation);
  BY_TRY(by_controller_submit(s->owner->controller, name, &s->operation, s->priority, s, now));
  if (by_job_observation(job)->on)
    by_observe_odd(by_job_observation(job), SUBMITTED + s->operation.collective, bytes, bytes, now);
  struct by_traced traced = {
      .name = s->name, .bytes = bytes, .team = s->owner->id, .collective = s->operation.collective};
  s->trace = by_trace_begin(by_job_tracer(job), &traced, BY_TRACE_SUBMITTED);
  if (s->owner->still.at == UINT64_MAX) by_submitter_note_start(s->owner, now);
  open_operation(s);
  by_plan_switches_submitted(s->owner->comm);
  return BANYAN_OK;
}

enum banyan_status banyan_submit_all(struct banyan_comm *comm, const char *const *names,
                                     const struct banyan_submission *submissions, size_t n,
                                     struct banyan_request **requests) {
  struct batch batch = {.names = names, .first = submissions, .n = n};
  enum banyan_status status = BANYAN_OK;
  bool sparse = false;
  BY_TRY(by_comm_check(comm));
  if (n && (!names || !submissions || !requests))
    return by_fail(BANYAN_ERR_ARGUMENT, "the names, the operations or the places for the requests are NULL");
  for (size_t i = 0; i < n; i++) requests[i] = NULL;
  by_job_lock(comm->job);
  for (size_t i = 0; i < n && status == BANYAN_OK; i++) status = begin(comm, &batch, i, &sparse, &requests[i]);
  if (status == BANYAN_OK && sparse) {
    by_job_unlock(comm->job);
    prepare_sparse(&batch, requests);
    by_job_lock(comm->job);
  }
  size_t offered = 0;
  while (status == BANYAN_OK && offered < n) {
    status = offer(requests[offered]->of, names[offered]);
    offered += status == BANYAN_OK;
  }
  for (size_t i = offered; i < n && requests[i]; requests[i++] = NULL) release(requests[i]->of);
  if (offered) by_progress_kick_burst(comm->job);
  by_job_unlock(comm->job);
  return status;
}

enum banyan_status banyan_submit(struct banyan_comm *comm, const char *name, const struct banyan_submission *submission,
                                 struct banyan_request **out) {
  return banyan_submit_all(comm, &name, submission, 1, out);
}

enum banyan_status banyan_step(struct banyan_comm *comm, uint64_t i) {
  struct by_submitter *owner;
  BY_TRY(by_comm_check(comm));
  by_job_lock(comm->job);
  enum banyan_status status = by_submitter_need(comm, &owner);
  if (status == BANYAN_OK) {
    by_controller_step(owner->controller, i);
    by_observe_step(by_job_observation(comm->job), i, by_clock_now(&by_clock_system));
    by_plan_switches_mark(comm->job);
    owner->dirty = true;
    by_progress_kick(comm->job);
  }
  by_job_unlock(comm->job);
  return status;
}

void banyan_comm_negotiation(const struct banyan_comm *comm, struct banyan_negotiation *out) {
  if (!out) return;
  *out = (struct banyan_negotiation){0};
  if (!comm || by_job_is_of_parent(comm->job)) return;
  by_job_lock(comm->job);
  const struct by_submitter *owner = by_named_submitter(comm);
  if (owner) {
    const struct by_controller_counters *c = by_controller_counters(owner->controller);
    *out = owner->counts;
    out->submitted = c->by_name + c->by_bit;
    out->by_bit = c->by_bit;
    out->refused = c->refused;
    out->messages = c->messages_up + c->messages_down;
    out->taken = c->taken;
    out->bytes = c->bytes;
    out->malformed = c->malformed;
  }
  by_job_unlock(comm->job);
}
