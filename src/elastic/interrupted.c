/* The calls that a change of members interrupted: members exchange their ledgers, copy results, and complete
 * AllReduces. */
#include "member_object.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "feature.h"
#include "log.h"

void by_interrupted_fini(struct by_interrupted *interrupted) {
  banyan_comm_destroy(interrupted->inner);
  by_ledger_pool_drop(&interrupted->pool);
  by_arena_fini(&interrupted->arena);
}

/* ---- this process's ledger of a membership that has ended */

/* Waits until the capabilities have finished the operations that consist of engine calls, which have ended. Other
 * threads may still be merging sparse rows. */
static void end_all(struct by_job *before) {
  enum { MOST_MS = 1000 };
  for (int i = 0; i < MOST_MS; i++) {
    bool idle = true;
    by_features_advance(before);
    for (const struct banyan_comm *comm = by_comm_first(before); comm; comm = comm->next)
      idle &= by_features_comm_is_idle(comm);
    if (idle) return;
    by_job_unlock(before);
    usleep(1000);
    by_job_lock(before);
  }
}

enum banyan_status by_interrupted_keep(struct by_interrupted *interrupted, struct by_job *before,
                                       const struct by_fingerprint *self) {
  by_job_lock(before);
  end_all(before);
  enum banyan_status status =
      by_ledger_pool_keep(&interrupted->pool, by_comm_complete_ledger(before), by_job_membership(before), self);
  by_job_unlock(before);
  banyan_comm_destroy(interrupted->inner);
  interrupted->inner = NULL;
  return status;
}

/* ---- the exchange: what each member holds, one behind the other */

static enum banyan_status gather(const struct banyan_comm *inner, const void *send, void *recv, const size_t *counts,
                                 double timeout) {
  struct banyan_call call = {.collective = BANYAN_ALLGATHER,
                             .dtype = counts ? BANYAN_UINT8 : BANYAN_INT64,
                             .send = send,
                             .recv = recv,
                             .count = counts ? 0 : 1,
                             .counts = counts,
                             .deadline = timeout};
  return banyan_run((struct banyan_comm *)(uintptr_t)inner, &call);
}

static enum banyan_status take_all(struct by_interrupted *interrupted, const uint8_t *bytes, const size_t *lengths) {
  const struct banyan_comm *inner = interrupted->inner;
  for (uint32_t r = 0; r < inner->size; bytes += lengths[r++]) {
    enum banyan_status status = BANYAN_OK;
    if (r != inner->rank) status = by_ledger_pool_take(&interrupted->pool, bytes, lengths[r]);
    if (status != BANYAN_OK) return by_fail_within(status, "rank %u", r);
  }
  return BANYAN_OK;
}

/* Exchanges ledgers among the members. Sets *any if any member has a ledger. */
static enum banyan_status exchange(struct by_interrupted *interrupted, double timeout, struct by_arena *arena,
                                   bool *any) {
  const struct banyan_comm *inner = interrupted->inner;
  uint64_t mine = by_ledger_pool_length(&interrupted->pool), total = 0;
  uint64_t *of = BY_ARENA_ARRAY(arena, uint64_t, inner->size);
  size_t *lengths = BY_ARENA_ARRAY(arena, size_t, inner->size);
  if (!of || !lengths) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for ledgers of %u members", inner->size);
  BY_TRY(gather(inner, &mine, of, NULL, timeout));
  for (uint32_t r = 0; r < inner->size; r++) {
    if (of[r] > SIZE_MAX / 2 - total) return by_fail(BANYAN_ERR_PROTOCOL, "the ledger of rank %u is too long", r);
    total += lengths[r] = of[r];
  }
  *any = total;
  if (!total) return BANYAN_OK;
  uint8_t *own = BY_ARENA_ARRAY(arena, uint8_t, mine), *all = BY_ARENA_ARRAY(arena, uint8_t, total);
  if (!own || !all) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %zu bytes of ledgers", (size_t)total);
  struct by_writer writer;
  by_writer_init(&writer, own, mine);
  by_ledger_pool_write(&interrupted->pool, &writer);
  BY_TRY(gather(inner, own, all, lengths, timeout));
  return take_all(interrupted, all, lengths);
}

static enum banyan_status make_inner(struct by_interrupted *interrupted, const struct banyan_comm *comm) {
  struct by_job *job = comm->job;
  by_job_lock(job);
  enum banyan_status status = by_comm_make(job, by_comm_number(by_team_id(comm->team), BY_OF_NO_SPLIT, BY_OF_MEMBERS),
                                           comm->rank, comm->size, comm->processes, &interrupted->inner);
  if (status == BANYAN_OK) interrupted->inner->hidden = true;
  by_job_unlock(job);
  return status;
}

/* The ledger pool's declaration explains the barrier. */
enum banyan_status by_interrupted_exchange(struct by_interrupted *interrupted, struct banyan_comm *comm,
                                           double timeout) {
  bool any = false;
  by_arena_fini(&interrupted->arena);
  by_arena_init(&interrupted->arena);
  interrupted->found = (struct by_interrupted_calls){0};
  BY_TRY(make_inner(interrupted, comm));
  struct by_arena arena;
  by_arena_init(&arena);
  enum banyan_status status = exchange(interrupted, timeout, &arena, &any);
  if (status == BANYAN_OK && any) {
    struct banyan_call barrier = {.collective = BANYAN_BARRIER, .dtype = BANYAN_UINT8, .deadline = timeout};
    status = banyan_run(interrupted->inner, &barrier);
    if (status == BANYAN_OK)
      status = by_ledger_pool_compare(&interrupted->pool, by_job_formed(comm->job), &interrupted->arena,
                                      &interrupted->found);
    interrupted->withdrawn |= by_interrupted_calls_lack(&interrupted->found, 0, comm->rank);
    if (status == BANYAN_OK) by_ledger_pool_drop(&interrupted->pool);
  }
  by_arena_fini(&arena);
  return status == BANYAN_OK ? status : by_fail_within(status, "exchanging what became of calls");
}

/* ---- copying: each that lacks the result receives it from one that has it, which these share among them */

static enum banyan_status check_copy(const struct by_interrupted *interrupted, const struct banyan_interrupted *call,
                                     const void *result, size_t bytes, double timeout) {
  static const uint32_t same_for_all = 1u << BANYAN_ALLREDUCE | 1u << BANYAN_BROADCAST | 1u << BANYAN_ALLGATHER;
  size_t i = 0;
  while (i < interrupted->found.n && call != &interrupted->found.calls[i]) i++;
  if (i == interrupted->found.n)
    return by_fail(BANYAN_ERR_ARGUMENT, "this is none of the calls that banyan_member_interrupted lists now");
  if (!call->known || call->sparse || !(same_for_all >> call->collective & 1))
    return by_fail(BANYAN_ERR_UNSUPPORTED,
                   "the result of %s%s cannot be copied, since ranks have different ones: make "
                   "the call again",
                   call->sparse ? "a sparse " : "",
                   call->known ? banyan_collective_name(call->collective) : "a call that is not known");
  if (!call->completed)
    return by_fail(BANYAN_ERR_ARGUMENT, "no member has the result of call %u: make it again", call->call);
  if (!result && bytes) return by_fail(BANYAN_ERR_ARGUMENT, "the result is NULL");
  if (!(timeout > 0)) return by_fail(BANYAN_ERR_ARGUMENT, "the timeout is %g s: it is more than 0", timeout);
  return BANYAN_OK;
}

/* Counts ranks below r that take part now and that completed the call, or did not. */
static int count_before(const struct banyan_interrupted *call, int r, bool completed) {
  int n = 0;
  for (int i = 0; i < r; i++)
    n += call->outcomes[i] != BANYAN_OUTCOME_ABSENT && (call->outcomes[i] == BANYAN_OUTCOME_COMPLETED) == completed;
  return n;
}

/* Returns the new rank of the k-th process that has the result. */
static int giver(const struct banyan_interrupted *call, int k) {
  for (int r = 0; r < call->size; r++)
    if (call->outcomes[r] == BANYAN_OUTCOME_COMPLETED && k-- == 0) return call->ranks[r];
  return -1;
}

static enum banyan_status give(const struct by_interrupted *interrupted, const struct banyan_interrupted *call, int own,
                               struct banyan_call *message) {
  int place = count_before(call, own, true);
  enum banyan_status status = BANYAN_OK;
  message->collective = BANYAN_SEND;
  for (int r = 0, lacking = 0; r < call->size && status == BANYAN_OK; r++) {
    if (call->outcomes[r] == BANYAN_OUTCOME_ABSENT || call->outcomes[r] == BANYAN_OUTCOME_COMPLETED) continue;
    if (lacking++ % call->completed != place) continue;
    message->root = call->ranks[r];
    status = banyan_run(interrupted->inner, message);
  }
  return status;
}

static enum banyan_status copy_result(const struct by_interrupted *interrupted, const struct banyan_interrupted *call,
                                      void *result, size_t bytes, double timeout) {
  BY_TRY(check_copy(interrupted, call, result, bytes, timeout));
  int self = (int)interrupted->inner->rank, own = 0;
  while (own < call->size && (call->ranks[own] != self || call->outcomes[own] == BANYAN_OUTCOME_ABSENT)) own++;
  if (own == call->size) return by_fail(BANYAN_ERR_ARGUMENT, "this process had no part in call %u", call->call);
  struct banyan_call message = {
      .dtype = BANYAN_UINT8, .send = result, .recv = result, .count = bytes, .deadline = timeout};
  if (call->outcomes[own] == BANYAN_OUTCOME_COMPLETED) return give(interrupted, call, own, &message);
  message.collective = BANYAN_RECV;
  message.root = giver(call, count_before(call, own, false) % call->completed);
  return banyan_run(interrupted->inner, &message);
}

/* ---- the public functions */

size_t banyan_member_interrupted(const struct banyan_member *member, const struct banyan_interrupted **out) {
  if (out) *out = NULL;
  if (!out || by_member_check_process(member) != BANYAN_OK) return 0;
  *out = member->interrupted.found.calls;
  return member->interrupted.found.n;
}

enum banyan_status banyan_member_copy_result(struct banyan_member *member, const struct banyan_interrupted *call,
                                             void *result, size_t bytes, double timeout) {
  BY_TRY(by_member_check_process(member));
  if (!call) return by_fail(BANYAN_ERR_ARGUMENT, "the call is NULL");
  return copy_result(&member->interrupted, call, result, bytes, timeout);
}

/* ---- calls that survivors complete */

enum { RECOVER_SECONDS = 60 };

static enum banyan_status check(const struct banyan_member *member, const struct banyan_comm *comm,
                                const struct banyan_call *call, const struct banyan_completion *completion) {
  BY_TRY(by_comm_check(comm));
  if (comm->job != member->current)
    return by_fail(BANYAN_ERR_ARGUMENT, "the communicator is not of the member's current membership");
  if (by_team_id(comm->team))
    return by_fail(BANYAN_ERR_ARGUMENT, "calls that survivors complete go over the communicator of all members");
  if (call->collective != BANYAN_ALLREDUCE)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "survivors complete an allreduce; %s is none",
                   banyan_collective_name(call->collective));
  if (completion->timeout < 0)
    return by_fail(BANYAN_ERR_ARGUMENT, "the timeout is %g s: it is at least 0", completion->timeout);
  return BANYAN_OK;
}

/* Copies the input of a call in place, so that the call can be repeated. */
static enum banyan_status keep_input(struct banyan_member *member, struct banyan_call *call) {
  size_t size = banyan_dtype_size(call->dtype), bytes = call->count * size;
  if (!call->send || call->send != call->recv || !size || call->count > SIZE_MAX / size) return BANYAN_OK;
  if (member->kept_room < bytes) {
    free(member->kept);
    member->kept = malloc(bytes);
    member->kept_room = member->kept ? bytes : 0;
    if (!member->kept) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a copy of %zu bytes", bytes);
  }
  if (bytes) memcpy(member->kept, call->recv, bytes);
  if (bytes) call->send = member->kept;
  return BANYAN_OK;
}

/* Runs the call and then a barrier. When a member leaves the barrier, all members have the result. */
static enum banyan_status run(struct banyan_comm *comm, const struct banyan_call *call) {
  struct banyan_call barrier = {.collective = BANYAN_BARRIER, .dtype = BANYAN_UINT8, .deadline = call->deadline};
  enum banyan_status status = banyan_run(comm, call);
  return status == BANYAN_OK && comm->size > 1 ? banyan_run(comm, &barrier) : status;
}

static bool is_of_members(const struct banyan_comm *comm, enum banyan_status status) {
  bool lost = status == BANYAN_ERR_PEER_DEAD || status == BANYAN_ERR_TIMEOUT || status == BANYAN_ERR_CONNECT ||
              status == BANYAN_ERR_CLOSED; /* CLOSED: the other members are agreeing on a membership. */
  return lost && banyan_comm_state(comm) != BANYAN_OK;
}

static enum banyan_status recover(struct banyan_member *member, const struct banyan_completion *completion,
                                  struct banyan_comm **out) {
  if (completion->recover) return completion->recover(completion->argument, out);
  return banyan_member_recover(member, completion->timeout > 0 ? completion->timeout : RECOVER_SECONDS, out);
}

static enum banyan_status fail_for_newcomers(struct by_interrupted *interrupted) {
  interrupted->withdrawn = false;
  return by_fail(BANYAN_ERR_CLOSED, "the call was interrupted, and newcomers are in the membership that was formed: it "
                                    "completed on no member; give the newcomers the state and repeat the step");
}

/* Runs the call on *comm, and recovers and repeats it until all members of a membership have the result. */
static enum banyan_status complete(struct banyan_member *member, struct banyan_comm **comm,
                                   const struct banyan_call *call, struct banyan_completion *completion) {
  struct by_interrupted *interrupted = &member->interrupted;
  for (;;) {
    struct banyan_comm *next = NULL;
    uint32_t number = banyan_comm_calls(*comm);
    uint64_t membership = by_job_membership((*comm)->job);
    int size = banyan_comm_size(*comm);
    enum banyan_status status = run(*comm, call);
    completion->contributors = size;
    if (status == BANYAN_OK || !is_of_members(*comm, status)) return status;
    bool begun = banyan_comm_calls(*comm) != number;
    by_info("communicator", "call %u was interrupted: %s", number, banyan_error_text());
    BY_TRY(recover(member, completion, &next));
    banyan_comm_destroy(*comm);
    *comm = next;
    completion->interruptions++;
    enum by_verdict verdict = by_interrupted_calls_judge(&interrupted->found, membership, 0, number, begun);
    if (verdict == BY_CALL_HAS_RESULT) return BANYAN_OK;
    if (verdict == BY_CALL_WITHDRAWN) return fail_for_newcomers(interrupted);
    if (verdict == BY_CALL_UNKNOWN)
      return by_fail(BANYAN_ERR_ARGUMENT, "the function that recovers formed several memberships: return the first "
                                          "communicator that banyan_member_reconfigure gives");
  }
}

enum banyan_status banyan_member_allreduce(struct banyan_member *member, struct banyan_comm **comm,
                                           const struct banyan_call *call, struct banyan_completion *completion) {
  struct banyan_completion own = {0};
  BY_TRY(by_member_check_process(member));
  if (!comm || !*comm || !call || !completion)
    return by_fail(BANYAN_ERR_ARGUMENT, "the communicator, the call or the completion is NULL");
  BY_TRY(by_copy_versioned("banyan_completion", completion, completion->size_of_struct, &own, sizeof own));
  BY_TRY(check(member, *comm, call, &own));
  if (member->interrupted.withdrawn) return fail_for_newcomers(&member->interrupted);
  struct banyan_call kept = *call;
  BY_TRY(keep_input(member, &kept));
  enum banyan_status status = complete(member, comm, &kept, &own);
  completion->contributors = own.contributors;
  completion->interruptions = own.interruptions;
  return status;
}
