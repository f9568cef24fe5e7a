/* The outcome of calls that a change of members interrupted. Some members may have the result of such a call, others
 * not. Once a new membership is formed, its members know for each such call on which ranks it completed, and those that
 * lack the result can copy it from those that have it. docs/elastic.md describes what is guaranteed. */
#ifndef BANYAN_INTERRUPTED_H
#define BANYAN_INTERRUPTED_H

#include <stdbool.h>

#include <banyan/collectives.h>

#ifdef __cplusplus
extern "C" {
#endif

struct banyan_member;

/* What became of a call on one rank. */
enum banyan_outcome {
  BANYAN_OUTCOME_ABSENT = 0,    /* The rank is not in the new membership, or no longer has this communicator. */
  BANYAN_OUTCOME_NOT_BEGUN = 1, /* The rank did not make the call, or the call failed before anything of it began. */
  BANYAN_OUTCOME_FAILED = 2,    /* The rank's call failed. Its input is unchanged unless the call was in place. */
  BANYAN_OUTCOME_COMPLETED = 3  /* The rank's call returned, or will return, BANYAN_OK. */
};

/* A call of an earlier membership, or `n_calls` consecutive ones with the same outcomes of which no more is known. */
struct banyan_interrupted {
  uint32_t communicator; /* The banyan_comm_number of the communicator on which the call was made. */
  const char *name;      /* The name of an operation of <banyan/submit.h>; NULL for other calls. */
  /* The value of banyan_comm_calls when the call was made. For an operation, the number of operations started before
   * it. */
  uint32_t call;
  uint32_t n_calls;
  /* Whether one of these members still knew the call. If not, `sparse`, `collective`, `dtype`, `root` and `count` are
   * meaningless. */
  bool known;
  bool sparse; /* The call is one of <banyan/sparse.h>, and `count` is the width of its rows. */
  enum banyan_collective collective;
  enum banyan_dtype dtype;
  int root;
  uint64_t count;                   /* Elements as in the call; 0 if it had `counts`. */
  int completed, failed, not_begun; /* Numbers of ranks with these outcomes. */
  int size;                         /* The number of ranks of the communicator. */
  const uint8_t *outcomes;          /* For each of the `size` ranks, an enum banyan_outcome. */
  /* For each of the `size` ranks, its rank in the new membership; -1 if the outcome is BANYAN_OUTCOME_ABSENT. */
  const int *ranks;
};

/* Returns the number of interrupted calls and sets *out to them: the calls of earlier memberships that did not complete
 * on all members of the current one that took part in them, also those of communicators without this process. A call
 * that began on this member and is not listed completed on all of them. All of these members get the same list. It does
 * not contain sends and receives, and is ordered by communicator, operations after other calls, and number. *out
 * belongs to the member and is valid until it forms or leaves a membership. Does not block. */
BANYAN_API size_t banyan_member_interrupted(const struct banyan_member *member, const struct banyan_interrupted **out);

/* Copies the result of a listed call from those that have it to those that do not: all ranks of the call that are in
 * the current membership call this in the same order for the same calls. `result` of `bytes` bytes is the whole result,
 * read where the call completed and written where it did not. Blocks until the ranks that send or receive it have
 * called this and it is copied, for at most `timeout` seconds; a failure ends the membership as that of any call does.
 *
 *   BANYAN_ERR_ARGUMENT     the call is not in the list, this rank took no part in it, or nobody has its result; make
 *                           the call again
 *   BANYAN_ERR_UNSUPPORTED  ranks have different results: only those of allreduce, broadcast and allgather are copied
 */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_member_copy_result(struct banyan_member *member,
                                                                     const struct banyan_interrupted *call,
                                                                     void *result, size_t bytes, double timeout);

/* Options and results of banyan_member_allreduce. Zero-initialise the struct. */
struct banyan_completion {
  /* This is sizeof(struct banyan_completion), so that later versions can extend it; 0 means the whole struct. */
  size_t size_of_struct;
  /* Forms this member's next membership, such as by banyan_member_reconfigure with the survivors, and returns its
   * status and its communicator of all members. If it is NULL, banyan_member_recover is called. */
  enum banyan_status (*recover)(void *argument, struct banyan_comm **out);
  void *argument;
  double timeout; /* Seconds that banyan_member_recover may take; 0 means 60. */
  /* Set by the call: the number of members whose elements are in the result. All members get the same number for the
   * same call. */
  int contributors;
  /* Set by the call: the number of memberships that this call formed on this member. It may differ between members. */
  int interruptions;
};

/* Makes an AllReduce on *comm, the communicator of all members, that ends on all survivors with the same result, or on
 * none:
 *
 * - Before it returns, all members confirm that they have the result. So a member on which it returned BANYAN_OK knows
 *   that the others have the result, too, and may change its buffers.
 * - When a member dies, is lost or does not come in time, this function has the next membership formed; *comm is its
 *   communicator then, and the one before is destroyed.
 * - If all members of the new membership completed the AllReduce, it ends with that result. Otherwise none has returned
 *   it, and all repeat it among themselves with unchanged inputs: if a call is in place, a copy of its input is kept.
 *   BANYAN_AVERAGE divides by the number of members that contributed.
 * - If the new membership has new members, these took no part in the interrupted call: it fails on all survivors with
 *   BANYAN_ERR_CLOSED, and *comm can be used. Give the new members the state (<banyan/state.h>) and repeat the step.
 *
 * All members make the same calls of this function in the same order, one at a time, and no other calls on *comm
 * between two that may be interrupted; other calls on it, and on other communicators, end with the membership as
 * always. Blocks. Other errors, such as BANYAN_ERR_MISMATCH, and those of `recover` are returned; recv is undefined
 * then, and *comm stays to be destroyed. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_member_allreduce(struct banyan_member *member,
                                                                   struct banyan_comm **comm,
                                                                   const struct banyan_call *call,
                                                                   struct banyan_completion *completion);

/* Returns the communicator's number within its membership, the same on all its members. The communicator of all members
 * has number 0. Does not block. */
BANYAN_API uint32_t banyan_comm_number(const struct banyan_comm *comm);
/* Returns the number of collective calls that were made on the communicator, including sparse ones and those that
 * failed. Calls that failed before they began, sends, receives, and operations of <banyan/submit.h> do not count. Does
 * not block. */
BANYAN_API uint32_t banyan_comm_calls(const struct banyan_comm *comm);

#ifdef __cplusplus
}
#endif
#endif
