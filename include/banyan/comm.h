/* Communicators: the ranks that sum together.
 * A communicator is created by all its ranks together, used from any thread,
 * and destroyed by all. Calls on one communicator are matched by their order,
 * so all ranks must make the same calls in the same order on it. An error
 * that ends a call is final for the job: every pending and later call on every
 * communicator of it, on every rank, returns it. Then destroy them all. A call
 * that fails on one rank may end well on another, which over TCP may have got
 * what the first wrote to its buffers after the failure: a result is certain
 * once a later call of all ranks has ended well. */
#ifndef BANYAN_COMM_H
#define BANYAN_COMM_H

#include <stdbool.h>

#include <banyan/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct banyan_comm;

/* How to join. Zero-initialise, then set what should not come from the
 * environment: a member that is 0 or NULL is read from BANYAN_*; rank, size,
 * root and key, where that says nothing, from what the launcher set: torchrun,
 * Open MPI, MPICH, Slurm or PMIx; docs/guide.md says whose variables come
 * first. Strings are only read during the call. */
struct banyan_options {
  size_t size_of_struct; /* sizeof(struct banyan_options), for later versions; 0: all of it */
  int rank_plus_1;       /* this process's rank + 1 */
  int size;              /* number of ranks */
  const char *root;      /* "host:port" where rank 0 listens */
  const char *key;       /* the job's secret */
  const char *host;      /* name of this host in messages and plans; default: the machine's */
  const char *transport; /* "auto" (default), "shm", "tcp" */
  const char *plan;      /* a built-in's name or a plan file; default: chosen by size */
  double deadline;       /* seconds for each call; default 600 */
  const char *topology;  /* to plan from at the start, or "measure"; without a plan */
  const char *timeline;  /* file for a timeline of all ranks, which rank 0 writes at the end */
};

/* Joins the job and returns a communicator over all its ranks. Blocks until
 * all are there, for BANYAN_JOIN_DEADLINE (120 s) at most. `options` may be
 * NULL. A job of one rank needs no environment. The caller owns *out. An error
 * leaves nothing behind. BANYAN_ERR_ARGUMENT while this process has communicators
 * of that job: banyan_comm_duplicate and banyan_comm_split make further ones. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_create(const struct banyan_options *options,
                                                              struct banyan_comm **out);

/* Ranks with the same colour >= 0 form a new communicator, ordered by key and
 * then by rank; a negative colour takes part and gets *out = NULL. Collective
 * over `comm`; blocks. A rank that cannot make its part ends the job. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_split(struct banyan_comm *comm, int colour, int key,
                                                             struct banyan_comm **out);
/* The same members in the same order, with calls of their own. Collective; blocks. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_duplicate(struct banyan_comm *comm, struct banyan_comm **out);

/* These n ranks of `comm`, which this one is among, in this order. Made by the members alone and without a word between
 * them; does not block. `number` and the order are the same on all members, and no two subsets of `comm` have had the
 * same number and first rank. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_subset(struct banyan_comm *comm, const int *ranks, int n,
                                                              uint32_t number, struct banyan_comm **out);

/* Ends this rank's part; no thread may use `comm` any more. In a child of fork(), does nothing: all calls there on the
 * parent's communicators and requests fail with BANYAN_ERR_ARGUMENT. Calls still
 * pending end with BANYAN_ERR_CLOSED: their buffers are the caller's again, and
 * what other ranks get from them is not defined. Their requests still have to
 * be waited for. The job ends here, and the connections close, with its last
 * communicator and request. So that the others get what they wait for, this
 * may block: for a second, or for seven where the job ends here. NULL is
 * allowed. */
BANYAN_API void banyan_comm_destroy(struct banyan_comm *comm);

/* Ends every pending and later call of every rank of the job with
 * BANYAN_ERR_ABORTED and this reason. Does not block; any thread. Rank 0 passes
 * it on: where that has left already, ranks with a link to this one hear that
 * it is gone, when it has destroyed its communicators, and the others nothing
 * until the deadline. */
BANYAN_API void banyan_comm_abort(struct banyan_comm *comm, const char *reason);

BANYAN_API int banyan_comm_rank(const struct banyan_comm *comm);
BANYAN_API int banyan_comm_size(const struct banyan_comm *comm);
/* Name of a rank's host; NULL for no such rank. Lives as long as `comm`. */
BANYAN_API const char *banyan_comm_host(const struct banyan_comm *comm, int rank);
/* Ranks of this communicator on this rank's host (same machine and same
 * BANYAN_HOST, whatever the transport), and this rank's place among them. */
BANYAN_API int banyan_comm_local_size(const struct banyan_comm *comm);
BANYAN_API int banyan_comm_local_rank(const struct banyan_comm *comm);
/* BANYAN_OK, or the error that ended the job. */
BANYAN_API enum banyan_status banyan_comm_state(const struct banyan_comm *comm);

/* Seconds that a later call may take in all, before BANYAN_ERR_TIMEOUT. > 0. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_set_deadline(struct banyan_comm *comm, double seconds);
/* Plan for later calls: a built-in's name ("ring"), a plan file's path, or
 * plan JSON (starts with '{'). NULL: the default, chosen by size. Collective:
 * every rank sets the same plan between the same two calls, or the next call
 * ends with BANYAN_ERR_MISMATCH. No manager replaces it; NULL lets a manager plan again. Where a plan was proposed
 * meanwhile, that may come into use at a call behind this one. Waits as a call does that is the one at which it comes.
 */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_set_plan(struct banyan_comm *comm, const char *plan);
/* Proposes a plan (as above) while calls go on: in the background all ranks
 * prepare it and agree on a collective call of `comm`, sparse ones too, and on
 * a submitted operation, from which on it is used. Calls under way are not
 * touched, and no rank need do anything for it. Where banyan_step marks
 * iterations, and all ranks do so alike, it is the first call of one. Helpers
 * that the plan names must be here (BANYAN_ERR_PLAN), and are linked first. A rank that comes to that call
 * before the word that it is the one waits for that, a round trip to rank 0 as
 * a rule. Only at rank 0 of the job, in any thread; does not block. One
 * proposal is decided on at a time; of those that come meanwhile, the latest
 * counts. A plan that some rank
 * cannot use is not used, which rank 0 logs as a warning; `moves` in the
 * counters tells how many came into use. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_propose_plan(struct banyan_comm *comm, const char *plan);
/* The plan that a communicator uses now for a buffer of some size. */
struct banyan_plan_info {
  char name[256];                 /* "default", "ring", or the name in a plan file */
  char part[64];                  /* of the default plan: the built-in that sums buffers of this size; else "" */
  enum banyan_plan_source source; /* where the plan comes from */
  bool supplied;                  /* the user supplied it, so that a manager does not replace it */
  uint32_t version;               /* a hash of its contents: the same on all ranks, and for equal plans */
  uint32_t trees;                 /* for this size; a ring counts as one */
  uint64_t up_to;                 /* bytes of the largest buffer that goes by the same trees; UINT64_MAX: no limit */
  double throughput, bound; /* bit/s of input per rank that the planner expects, and that no plan exceeds; 0: unknown */
};
/* Describes the plan for a call of `bytes` bytes (as in a plan's size classes: the whole buffer) that is made now. It
 * can depend on the size, and change from call to call: where this rank sets a plan, and where one comes into use that
 * rank 0 or a manager proposed. Local, does not block; any thread. *out is the caller's and holds copies.
 * BANYAN_ERR_ARGUMENT: a NULL. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_plan(const struct banyan_comm *comm, uint64_t bytes,
                                                            struct banyan_plan_info *out);
/* ToS byte (0 to 255, DSCP in the upper six bits) of what this process sends
 * to other ranks over TCP and to switches, for all communicators of the job, on
 * live and later connections. Control connections to rank 0 keep the system's.
 * From now on no manager changes it. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_set_tos(struct banyan_comm *comm, int tos);

/* The job will make so many iterations in all: tells the host's agent and the cluster's manager, if there are any, how
 * much it has left, so that they can serve those first that soon end, and show when. Of this run, as Banyan counts
 * them: where banyan_step marks them, or as they are found in the calls, see docs/cluster.md. Rank 0's word counts,
 * others may say it too. `comm` is any of the job's; BANYAN_ITERATIONS says the same from outside, and this goes before
 * it. At most 2^63 - 1; 0: not known, which takes nothing back that was said. Fewer may be said later; who says more,
 * or makes more, is not believed any more and treated as if nothing had been said. Does not block; any thread. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_expect(struct banyan_comm *comm, uint64_t iterations);

/* Memory that ranks of one host can read in each other without a copy.
 * Aligned to 4096 bytes, zeroed. Freed by banyan_free, or when the job ends
 * here: with its last communicator and request. Any buffer works in any call;
 * these are faster. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_alloc(struct banyan_comm *comm, size_t bytes, void **out);
/* `comm` is any of the same job's. What a call under way uses is freed once
 * that call has been waited for. What no banyan_alloc of the job gave out is
 * left alone; NULL is allowed. */
BANYAN_API void banyan_free(struct banyan_comm *comm, void *memory);

/* Counters since this process joined the job, over all its communicators; for
 * tests, benches, metrics. */
struct banyan_counters {
  uint64_t calls;
  uint64_t bytes_sent, bytes_received; /* payload of frames; not what ranks read in each other's memory */
  uint64_t frames_sent, frames_received;
  uint64_t sleeps;      /* times a thread that moved bytes gave up spinning and blocked */
  uint64_t wakes_sent;  /* times a sleeping peer was woken */
  uint64_t allocations; /* for calls; a warm call makes none, see docs/architecture.md */
  uint64_t links;       /* peers connected */
  uint64_t moves;       /* to plans that were proposed while calls went on */
};
BANYAN_API void banyan_comm_counters(const struct banyan_comm *comm, struct banyan_counters *out);

#ifdef __cplusplus
}
#endif
#endif
