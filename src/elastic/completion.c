/* Calls that a change of members interrupted: what became of them, and AllReduces that survivors complete. */
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "member_object.h"

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
  return by_interrupted_copy(&member->interrupted, call, result, bytes, timeout);
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
