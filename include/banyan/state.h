/* The state of a program whose processes change: buffers, such as parameters and the optimiser's, and small values.
 * banyan_state_commit keeps a copy under a version number. After each change of the membership all members call
 * banyan_state_sync, which gives every member the newest version that any of them has:
 *
 *   struct banyan_state_buffer buffers[] = {{"weights", weights, n, BANYAN_FLOAT32}, {"step", &step, 1, BANYAN_INT64}};
 *   banyan_state_create(buffers, 2, &state);
 *   banyan_state_sync(state, comm, NULL, NULL);
 *   ... a step of all members succeeds:  banyan_state_commit(state, step);
 *
 * It needs a communicator of any kind and nothing else. One thread at a time may use a state. docs/elastic.md has more.
 */
#ifndef BANYAN_STATE_H
#define BANYAN_STATE_H

#include <banyan/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Buffers and values of a program, and the copies that were committed. */
struct banyan_state;

/* Memory that belongs to the program, and stays until the state is destroyed or has other buffers. */
struct banyan_state_buffer {
  const char *name; /* A name of 1 to 255 bytes of printable UTF-8, different from the other buffers' names. */
  void *data;
  size_t count; /* The number of elements. */
  enum banyan_dtype dtype;
};

/* Creates a state of these n buffers, the same on all members in the same order; n may be 0. Names are copied. Does not
 * block. The caller owns *out. BANYAN_ERR_ARGUMENT: a buffer has no valid name, type or memory. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_state_create(const struct banyan_state_buffer *buffers, size_t n,
                                                               struct banyan_state **out);
/* Frees the state with its copies and values, but not the buffers. NULL is allowed. */
BANYAN_API void banyan_state_destroy(struct banyan_state *state);
/* Gives the state these n buffers instead of those it has. Copies that were committed stay as they are. Does not block.
 * Errors are those of banyan_state_create. */
BANYAN_API BANYAN_CHECK enum banyan_status
banyan_state_set_buffers(struct banyan_state *state, const struct banyan_state_buffer *buffers, size_t n);

/* Sets a named value of `length` bytes, which are copied. Lengths may differ between members. All values together may
 * have 16 MiB. Names are as those of buffers. Does not block. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_state_set_value(struct banyan_state *state, const char *name,
                                                                  const void *bytes, size_t length);
/* Gets a named value of *length bytes. *bytes belongs to the state and is valid until values are set, restored or
 * received. BANYAN_ERR_ARGUMENT: there is no such value. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_state_get_value(const struct banyan_state *state, const char *name,
                                                                  const void **bytes, size_t *length);

/* Copies all buffers and values under a version >= 0 that is higher than that of the last copy. Local operation: no
 * communication. The state has two copies, which are written in turn. Until the new one is complete, and if the
 * function fails, this member has the previous one. So a state takes up to twice its size in memory.
 * BANYAN_ERR_ARGUMENT: the version is not higher. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_state_commit(struct banyan_state *state, int64_t version);
/* Returns the version of the last complete copy; -1 if there is none, or `state` is NULL. */
BANYAN_API int64_t banyan_state_version(const struct banyan_state *state);
/* Gives all buffers and values the contents of the last complete copy. BANYAN_ERR_ARGUMENT: there is none;
 * BANYAN_ERR_MISMATCH: the state has other buffers now. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_state_restore(struct banyan_state *state);

/* Zero-initialise the struct, then set what is wanted. */
struct banyan_state_sync_options {
  /* This is sizeof(struct banyan_state_sync_options), so that later versions can extend it; 0 means all of it. */
  size_t size_of_struct;
  /* If members hold the newest version with different contents, all get those of the member with the lowest rank, and a
   * warning is logged. Otherwise the call fails on all members, which is the default. */
  bool adopt;
  /* Called on a member whose buffers differ from those of the newest version. `buffers` has the names, counts and types
   * of these, with data NULL. The function may call banyan_state_set_buffers; afterwards the buffers must be equal.
   * NULL is allowed. */
  void (*prepare)(void *argument, const struct banyan_state_buffer *buffers, size_t n);
  void *argument;
};

struct banyan_state_report {
  int64_t version; /* The version that all members have now. */
  int holders;     /* The number of members that had this version before. */
  int receivers;   /* The number of members that received this version. */
  uint64_t bytes;  /* Bytes that this member received. Chunks that it already had are not sent again. */
  double seconds;  /* Duration of the transfer in seconds. */
};

/* Gives every member the newest version that any of them has committed, and then restores it on every member. Members
 * that lack it receive it in parts from all that have it, or from a member on the same host, if there is one. If nobody
 * has committed anything, rank 0 commits its state as version 0 first. Contents are checked by hashes on the
 * receivers: wrong bytes are requested from another member.
 *
 * Collective over `comm`; blocks as long as bytes arrive: each step, such as the transfer of a chunk of 1 MiB, may take
 * the communicator's deadline, or a minute if that is longer. `options` and `out` may be NULL. An error that ends calls
 * ends this one, too; the next one continues with what was received. Errors of the request are the same on all members,
 * and leave the communicator and the copies as they were:
 *
 *   BANYAN_ERR_MISMATCH  buffers differ in number, name, type or size; or contents under the same version do. The text
 *                        names the buffer and both members
 *   BANYAN_ERR_PROTOCOL  all members sent wrong bytes; the text names the last one
 *   BANYAN_ERR_NO_MEMORY a member has not enough memory for the copy */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_state_sync(struct banyan_state *state, struct banyan_comm *comm,
                                                             const struct banyan_state_sync_options *options,
                                                             struct banyan_state_report *out);

#ifdef __cplusplus
}
#endif
#endif
