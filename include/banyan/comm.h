/* Communicators: groups of ranks that take part in collective calls together.
 * All ranks create a communicator together and all destroy it; any thread may use it. Calls on one communicator are
 * matched by their order, so all ranks must make the same calls in the same order. An error that ends a call is final
 * for the job: every pending and later call on every communicator of the job, on every rank, returns it, and the
 * program can only destroy them. A call that fails on one rank may succeed on another, which over TCP may have received
 * what the first rank wrote to its buffers after the failure. A result is certain once a later call of all ranks has
 * succeeded. */
#ifndef BANYAN_COMM_H
#define BANYAN_COMM_H

#include <stdbool.h>

#include <banyan/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A communicator, described above. */
struct banyan_comm;

/* How to join a job. Zero-initialise the struct, then set what should not come from the environment. A member that is 0
 * or NULL is read from BANYAN_*. If rank, size, root or key are not set there either, they are read from the variables
 * of the launcher (torchrun, Open MPI, MPICH, Slurm or PMIx); docs/guide.md lists their precedence. Strings are only
 * read during the call. */
struct banyan_options {
  /* This is sizeof(struct banyan_options), so that later versions can extend it; 0 means the whole struct. */
  size_t size_of_struct;
  int rank_plus_1;       /* This process's rank plus 1. */
  int size;              /* The number of ranks. */
  const char *root;      /* "host:port" on which rank 0 listens; "#" and its fingerprint may follow. */
  const char *key;       /* The job's key, as `banyan keys job` makes it. By default it is read from BANYAN_KEY_FILE. */
  const char *host;      /* The name of this host in messages and plans. Default: the machine's host name. */
  const char *transport; /* "auto" (default), "shm" or "tcp". */
  /* The name of a built-in plan, or the path of a plan file. Default: a built-in plan chosen by size. */
  const char *plan;
  double deadline; /* Seconds that each call may take. Default: 600. */
  /* The topology from which a plan is made when the job starts, "measure", "off" or "auto" (default). "auto" looks for
   * one if there are several hosts, which takes up to a second. Ignored if `plan` is set. */
  const char *topology;
  const char *timeline; /* The file into which rank 0 writes a timeline of all ranks. */
  const char *quorum;   /* "survivors" (default), "majority" or "none"; <banyan/elastic.h> describes them. */
  double join_deadline; /* Seconds to wait for all ranks at the start. Default: BANYAN_JOIN_DEADLINE, or 120. */
};

/* Joins the job and returns a communicator over all its ranks. Blocks until all ranks have joined, for at most
 * BANYAN_JOIN_DEADLINE (120 s). `options` may be NULL. A job of one rank needs no environment. The caller owns *out. On
 * an error, everything has been released. BANYAN_ERR_ARGUMENT is returned while this process still has communicators of
 * the same job: banyan_comm_duplicate and banyan_comm_split create further ones. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_create(const struct banyan_options *options,
                                                              struct banyan_comm **out);

/* Writes the fingerprint of this process as rank 0 into `out`, which holds 65 bytes. It is for programs that tell all
 * ranks where rank 0 listens: with it behind a "#" in `root`, "host:port#fingerprint", ranks on other hosts connect to
 * this process only, and to nobody else who has the job's key. All calls of a process give the same; a child of fork()
 * has another one. Does not block; any thread. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_root_fingerprint(char *out);

/* For programs that start ranks themselves, and can send a text from rank 0 to the others: rank 0 chooses where it will
 * listen, and a key, and all ranks give them as `root` and `key` to banyan_comm_create. `out` of banyan_root_choose
 * holds BANYAN_ROOT_TEXT bytes: the addresses of this host (those of BANYAN_IFACE; only loopback with `one_host`,
 * for jobs within a host), a port (one of BANYAN_PORTS), which is held for this process until the next call, and the
 * fingerprint as above. `out` of banyan_key_create holds BANYAN_KEY_TEXT bytes: a random key as `banyan keys job` makes
 * it. Whoever knows it can join the job, so it must not be sent where others can read it. Neither blocks; any thread.
 */
#define BANYAN_ROOT_TEXT 384
#define BANYAN_KEY_TEXT 85
BANYAN_API BANYAN_CHECK enum banyan_status banyan_root_choose(bool one_host, char *out);
BANYAN_API BANYAN_CHECK enum banyan_status banyan_key_create(char *out);

/* Ranks with the same colour >= 0 form a new communicator, in which they are ordered by key and then by rank. A rank
 * with a negative colour takes part in the call and gets *out = NULL. Collective over `comm`; blocks. The caller owns
 * *out. A rank that cannot create its communicator ends the job. In a job that planned from a topology, or has a plan
 * of a cluster's manager, the new communicator, like one of the functions below, begins with the default plan and gets
 * its own in the background, after its first call. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_split(struct banyan_comm *comm, int colour, int key,
                                                             struct banyan_comm **out);
/* Creates a communicator with the same ranks in the same order, whose calls are matched separately. Collective over
 * `comm`; blocks. The caller owns *out. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_duplicate(struct banyan_comm *comm, struct banyan_comm **out);

/* Creates a communicator over n ranks of `comm`, in this order; the calling rank is one of them. Local operation: no
 * communication, does not block, and only the members call it. All members give the same order and the same `number`,
 * and no two subsets of `comm` may have the same number and the same first rank. The caller owns *out.
 * BANYAN_ERR_ARGUMENT: a rank is out of range or given twice, or this rank is not among them. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_subset(struct banyan_comm *comm, const int *ranks, int n,
                                                              uint32_t number, struct banyan_comm **out);

/* Destroys the communicator on this rank; no thread may use `comm` afterwards. Calls that are still pending end with
 * BANYAN_ERR_CLOSED: their buffers belong to the caller again, and the results that other ranks get from them are
 * undefined. Their requests must still be waited for. This process leaves the job and closes its connections when its
 * last communicator and last request are gone. The function may block while other ranks receive what they wait for: for
 * at most one second, or seven if this process leaves the job. In a child of fork() it does nothing, and all other
 * calls on the parent's communicators and requests fail there with BANYAN_ERR_ARGUMENT. NULL is allowed. */
BANYAN_API void banyan_comm_destroy(struct banyan_comm *comm);

/* Ends every pending and later call on every rank of the job with BANYAN_ERR_ABORTED and this reason. Does not block;
 * any thread. Rank 0 forwards the message. If rank 0 has already left the job, the ranks that have a link to this rank
 * learn that it is gone once it has destroyed its communicators; the other ranks learn nothing until their deadline. */
BANYAN_API void banyan_comm_abort(struct banyan_comm *comm, const char *reason);

/* Return the rank of this process, and the number of ranks; -1 and 0 if `comm` is NULL. */
BANYAN_API int banyan_comm_rank(const struct banyan_comm *comm);
BANYAN_API int banyan_comm_size(const struct banyan_comm *comm);
/* Returns the name of a rank's host; NULL if there is no such rank, or `comm` is NULL. Valid as long as `comm`. */
BANYAN_API const char *banyan_comm_host(const struct banyan_comm *comm, int rank);
/* Return the number of ranks of this communicator on this rank's host (same machine and same BANYAN_HOST, for any
 * transport), and this rank's index among them. */
BANYAN_API int banyan_comm_local_size(const struct banyan_comm *comm);
BANYAN_API int banyan_comm_local_rank(const struct banyan_comm *comm);
/* Returns BANYAN_OK while the job is healthy, otherwise the error that ended it. Does not block; any thread. */
BANYAN_API enum banyan_status banyan_comm_state(const struct banyan_comm *comm);

/* Sets the seconds (> 0) after which later calls on this communicator fail with BANYAN_ERR_TIMEOUT. Local operation,
 * does not block; any thread. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_set_deadline(struct banyan_comm *comm, double seconds);
/* Sets the plan for later calls: the name of a built-in plan ("ring"), the path of a plan file, or plan JSON (starts
 * with '{'). NULL selects the default plan, which depends on the size of the buffer. Collective: every rank sets the
 * same plan between the same two calls, otherwise the next call fails with BANYAN_ERR_MISMATCH. A manager never
 * replaces a plan set here; NULL allows it to plan again. If a plan switch has been agreed on for this position in the
 * sequence of calls, the function blocks as a collective call does; a plan that was proposed earlier may still replace
 * this one at a later call. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_set_plan(struct banyan_comm *comm, const char *plan);
/* Proposes a plan (as above) while calls continue. In the background, all ranks prepare the plan and agree on the
 * collective call of `comm`, dense or sparse, and on the submitted operation, from which it is used. Calls in progress
 * are not affected, and the other ranks need not call anything. If all ranks mark iterations with banyan_step in the
 * same way, the switch happens at the first call of an iteration. Helpers that the plan names must have joined
 * (BANYAN_ERR_PLAN otherwise), and they are connected first. A rank that reaches the agreed call before the message
 * that confirms it waits for this message, usually one round trip to rank 0. Only rank 0 of the job may call this, from
 * any thread; does not block. One proposal is decided at a time; of those that arrive meanwhile, only the latest is
 * kept. If some rank cannot use the plan, it is dropped and rank 0 logs a warning. `plan_switches` in the counters is
 * the number of switches. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_propose_plan(struct banyan_comm *comm, const char *plan);
/* The plan that a communicator uses for a buffer of a given size. */
struct banyan_plan_info {
  char name[256];                 /* "default", "ring", or the name in a plan file. */
  char part[64];                  /* The built-in plan that the default plan uses for this size; "" for other plans. */
  enum banyan_plan_source source; /* Where the plan comes from. */
  bool supplied;                  /* The user supplied the plan, so a manager does not replace it. */
  uint32_t version;               /* Hash of the plan's contents, equal on all ranks and for equal plans. */
  uint32_t trees;                 /* The number of trees used for this size; a ring counts as one. */
  uint64_t up_to;                 /* Bytes of the largest buffer that uses the same trees; UINT64_MAX means no limit. */
  double throughput;              /* Predicted bit/s of input per rank; 0 if it is unknown. */
  double bound;                   /* Upper bound of `throughput` for any plan, in bit/s; 0 if it is unknown. */
};
/* Describes the plan that a call of a collective on `bytes` bytes (the whole buffer, as in a plan's size classes) would
 * use now. The plan can depend on the size, and it can change between calls: when this rank sets one, or when one that
 * rank 0 or a manager proposed takes effect. `throughput` and `bound` are those of this collective for large buffers,
 * where the plan has them, with the whole buffer as input: the result of an allgather. Local operation, does not block;
 * any thread. *out belongs to the caller and contains copies. BANYAN_ERR_ARGUMENT: an argument is NULL, or there is no
 * such collective. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_plan_of(const struct banyan_comm *comm,
                                                               enum banyan_collective collective, uint64_t bytes,
                                                               struct banyan_plan_info *out);
/* Like banyan_comm_plan_of, for BANYAN_ALLREDUCE. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_plan(const struct banyan_comm *comm, uint64_t bytes,
                                                            struct banyan_plan_info *out);
/* Sets the ToS byte (0 to 255, DSCP in the upper six bits) of the data that this process sends to other ranks over TCP
 * and to switches, for all communicators of the job, on existing and later connections. Control connections keep the
 * system's default. A manager does not change the value afterwards. Local operation, does not block; any thread. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_set_tos(struct banyan_comm *comm, int tos);

/* Declares how many iterations this run of the job has in total. The host's agent and the cluster's manager, if there
 * are any, use it to serve jobs first that end soon, and to display the remaining time. Iterations are counted as
 * banyan_step marks them, or as they are detected from the calls (docs/cluster.md). Rank 0's value is used; other ranks
 * may call this as well. `comm` is any communicator of the job. Takes precedence over BANYAN_ITERATIONS. The maximum is
 * 2^63 - 1; 0 means unknown and does not revoke an earlier value. A later call may lower the value. A job that raises
 * it, or runs more iterations, is treated as if it had declared nothing. Does not block; any thread. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_comm_expect(struct banyan_comm *comm, uint64_t iterations);

/* Allocates zeroed memory, aligned to 4096 bytes, that other ranks of this host can read without a copy. banyan_free
 * releases it; so does the end of the job in this process, after its last communicator and request. Calls accept any
 * buffer, but are faster with these. Local operation, does not block; any thread. BANYAN_ERR_NO_MEMORY,
 * BANYAN_ERR_SYSTEM: the memory could not be allocated. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_alloc(struct banyan_comm *comm, size_t bytes, void **out);
/* Frees memory of banyan_alloc. `comm` is any communicator of the same job. Memory that a call in progress uses is
 * freed once that call has been waited for. A pointer that banyan_alloc did not return is ignored; NULL is allowed. */
BANYAN_API void banyan_free(struct banyan_comm *comm, void *memory);

/* Counters since this process joined the job, over all its communicators; for tests, benchmarks and metrics. */
struct banyan_counters {
  uint64_t calls; /* Collective calls, sends and receives. */
  /* Payload bytes of frames, without what ranks read from each other's memory. */
  uint64_t bytes_sent, bytes_received;
  uint64_t frames_sent, frames_received; /* Frames of any kind. */
  uint64_t sleeps;                       /* How often a thread that moves bytes stopped spinning and blocked. */
  uint64_t wakes_sent;                   /* How often this process woke a sleeping peer. */
  uint64_t allocations;   /* Memory allocations made for calls. A repeated call makes none; see docs/architecture.md. */
  uint64_t links;         /* The number of peers to which this process is connected. */
  uint64_t plan_switches; /* Switches to plans that were proposed while calls continued. */
  uint64_t in_network;    /* Calls that began over trees through switches. */
  /* Calls that went from rank to rank although the plan has trees through switches for their size: the switches do not
   * support their type, operation or collective. */
  uint64_t in_network_fallbacks;
};
/* Copies the counters to *out; zeros if `comm` is NULL. Does not block; any thread. */
BANYAN_API void banyan_comm_counters(const struct banyan_comm *comm, struct banyan_counters *out);

#ifdef __cplusplus
}
#endif
#endif
