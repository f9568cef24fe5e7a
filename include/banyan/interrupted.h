/* What became of the calls that a change of members interrupted. Some members may have their result, others not: once a
 * new membership is formed, its members know of each such call on whom it completed, and those that lack the result can
 * copy it from those that have it. docs/elastic.md describes what is guaranteed. */
#ifndef BANYAN_INTERRUPTED_H
#define BANYAN_INTERRUPTED_H

#include <stdbool.h>

#include <banyan/collectives.h>

#ifdef __cplusplus
extern "C" {
#endif

struct banyan_member;

/* What one rank has of a call. */
enum banyan_outcome {
  BANYAN_OUTCOME_ABSENT = 0,    /* the rank is not in the new membership, or has no such communicator any more */
  BANYAN_OUTCOME_NOT_BEGUN = 1, /* it did not make the call, or the call failed before anything of it began */
  BANYAN_OUTCOME_FAILED = 2,    /* its call failed; the input is unchanged unless the call was in place */
  BANYAN_OUTCOME_COMPLETED = 3  /* its call returned, or will return, BANYAN_OK */
};

/* A call of the membership before, or `n_calls` consecutive ones with the same outcomes of which no more is known. */
struct banyan_interrupted {
  uint32_t communicator; /* banyan_comm_number of the communicator on which it was made */
  const char *name;      /* of an operation of <banyan/submit.h>; NULL: of other calls */
  uint32_t call;         /* banyan_comm_calls when it was made; of an operation, how many had started before it */
  uint32_t n_calls;
  bool known;  /* whether the next five are: one of these members still knew them */
  bool sparse; /* it was a call of <banyan/sparse.h>, and `count` is the width of its rows */
  enum banyan_collective collective;
  enum banyan_dtype dtype;
  int root;
  uint64_t count;                   /* elements as in the call; 0 where it had `counts` */
  int completed, failed, not_begun; /* numbers of ranks */
  int size;                         /* ranks of that communicator */
  const uint8_t *outcomes;          /* enum banyan_outcome of each */
  const int *ranks;                 /* their ranks in the new membership, -1 where the outcome is ABSENT */
};

/* The calls of the memberships before that did not complete on all members of the current one that had part in them,
 * also those of communicators that this process is not in; a call that is not listed, and that began on this member,
 * completed on all of them. The same on all of these members. Sends and receives are not listed. Ordered by
 * communicator, operations after other calls, and number. Returns how many; *out belongs to the member and is valid
 * until it forms or leaves a membership. Does not block. */
BANYAN_API size_t banyan_member_interrupted(const struct banyan_member *member, const struct banyan_interrupted **out);

/* Copies the result of a listed call from those that have it to those that do not: all ranks of the call that are in
 * the current membership call this in the same order for the same calls. `result` of `bytes` bytes is the whole result,
 * read where the call completed and written where it did not. Blocks on those that give or receive, for at most
 * `timeout` seconds; a failure ends the membership as that of any call does.
 *
 *   BANYAN_ERR_ARGUMENT     it is not in the list, this rank had no part in it, or nobody has its result: make it again
 *   BANYAN_ERR_UNSUPPORTED  ranks have different results: only those of allreduce, broadcast and allgather can be
 * copied
 */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_member_copy_result(struct banyan_member *member,
                                                                     const struct banyan_interrupted *call,
                                                                     void *result, size_t bytes, double timeout);

/* An AllReduce that survivors complete by themselves, and what became of it. Zero-initialise the struct. */
struct banyan_completion {
  size_t size_of_struct; /* sizeof(struct banyan_completion), so that later versions can extend it; 0: all */
  /* Forms the next membership of this member, such as by banyan_member_reconfigure with those that are left, and
   * returns its status and its communicator of all members. NULL: banyan_member_recover does so. */
  enum banyan_status (*recover)(void *argument, struct banyan_comm **out);
  void *argument;
  double timeout;    /* of banyan_member_recover, in seconds; 0: 60 */
  int contributors;  /* set: the members whose elements are in the result; the same on all of them for the same call */
  int interruptions; /* set: memberships that this call formed on this member; may differ between members */
};

/* An AllReduce on *comm, the communicator of all members, that ends on all survivors with the same result, or on none:
 *
 * - Before it returns, all members confirm that they have the result. So whoever has returned BANYAN_OK knows that the
 *   others have it too, and may change its buffers.
 * - When a member dies, is lost or does not come in time, this function has the next membership formed; *comm is its
 *   communicator then, and the one before is destroyed.
 * - If all members of it completed the AllReduce it ends with that result. Otherwise none has returned it, and all make
 *   it again among themselves, from inputs that are as they were: of a call in place a copy is kept. BANYAN_AVERAGE
 *   divides by the number of those that contributed.
 * - If newcomers are in it they have no part in the interrupted call: it fails on all survivors with BANYAN_ERR_CLOSED,
 *   and *comm goes on. Give the newcomers the state (<banyan/state.h>) and repeat the step.
 *
 * All members make the same calls of this function in the same order, one at a time, and no other calls on *comm
 * between two that may be interrupted; other calls on it, and on other communicators, end with the membership as
 * always. Blocks. Other errors, such as BANYAN_ERR_MISMATCH, and those of `recover` are returned; recv is undefined
 * then, and *comm stays to be destroyed. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_member_allreduce(struct banyan_member *member,
                                                                   struct banyan_comm **comm,
                                                                   const struct banyan_call *call,
                                                                   struct banyan_completion *completion);

/* Which communicator it is within its membership: the same number on all its members; 0 is that of all members. */
BANYAN_API uint32_t banyan_comm_number(const struct banyan_comm *comm);
/* How many collective calls were made on it so far, with sparse ones and those that failed; those that failed before
 * they began, messages and operations of <banyan/submit.h> do not count. */
BANYAN_API uint32_t banyan_comm_calls(const struct banyan_comm *comm);

#ifdef __cplusplus
}
#endif
#endif
