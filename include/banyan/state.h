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

struct banyan_state;

/* Memory that belongs to the program, and stays until the state is destroyed or has other buffers. */
struct banyan_state_buffer {
  const char *name; /* 1 to 255 bytes of printable UTF-8, different from the others' */
  void *data;
  size_t count; /* elements */
  enum banyan_dtype dtype;
};

/* A state of these n buffers, the same on all members in the same order; n may be 0. Names are copied. Does not block.
 * The caller owns *out. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_state_create(const struct banyan_state_buffer *buffers, size_t n,
                                                               struct banyan_state **out);
/* NULL is allowed. */
BANYAN_API void banyan_state_destroy(struct banyan_state *state);
/* Gives the state other buffers. Copies that were committed stay as they are. */
BANYAN_API BANYAN_CHECK enum banyan_status
banyan_state_set_buffers(struct banyan_state *state, const struct banyan_state_buffer *buffers, size_t n);

/* Sets a named value: any bytes, which are copied, as many as each member likes. All values together may have 16 MiB.
 * Names are as those of buffers. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_state_set_value(struct banyan_state *state, const char *name,
                                                                  const void *bytes, size_t length);
/* *bytes belongs to the state until values are set, restored or received. BANYAN_ERR_ARGUMENT: there is no such value.
 */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_state_get_value(const struct banyan_state *state, const char *name,
                                                                  const void **bytes, size_t *length);

/* Copies all buffers and values under a version >= 0 that is higher than the one before. Local operation: no
 * communication. There are two copies, which are written in turn: until the new one is complete, the one before is what
 * this member has, also if the function fails. So a state takes up to twice its size in memory. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_state_commit(struct banyan_state *state, int64_t version);
/* The version of the last complete copy; -1: there is none. */
BANYAN_API int64_t banyan_state_version(const struct banyan_state *state);
/* Gives all buffers and values the contents of the last complete copy. BANYAN_ERR_ARGUMENT: there is none;
 * BANYAN_ERR_MISMATCH: the state has other buffers now. */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_state_restore(struct banyan_state *state);

/* Zero-initialise the struct, then set what is wanted. */
struct banyan_state_sync_options {
  size_t size_of_struct; /* sizeof(struct banyan_state_sync_options); 0: the whole struct */
  /* Members that hold the newest version with different contents get those of the one with the lowest rank, with a
   * warning. Otherwise the call fails on all members, which is the default. */
  bool adopt;
  /* Called on a member whose buffers differ from those of the newest version, whose names, counts and types it is
   * given, with data NULL. It may call banyan_state_set_buffers. Afterwards they must be equal. May be NULL. */
  void (*prepare)(void *argument, const struct banyan_state_buffer *buffers, size_t n);
  void *argument;
};

struct banyan_state_report {
  int64_t version; /* of all members now */
  int holders;     /* members that had it */
  int receivers;   /* members that did not */
  uint64_t bytes;  /* this member received; what it had already is not sent again */
  double seconds;  /* the transfer took */
};

/* Gives every member the newest version that any of them has committed, and then restores it on every member. Members
 * that lack it receive it from all that have it at the same time; of a member on the same host, if there is one. Where
 * nobody has committed anything, rank 0 commits its state as version 0 first. Contents are checked by hashes on the
 * receivers: wrong bytes are requested from another member.
 *
 * Collective over `comm`; blocks as long as bytes come: each step, such as the transfer of a chunk of 1 MiB, may take
 * the communicator's deadline, and a minute at least. `options` and `out` may be NULL. What ends a call ends this one
 * in the same way; the next one goes on with what was received. Errors of the request are the same on all members, and
 * leave the communicator and the copies as they were:
 *
 *   BANYAN_ERR_MISMATCH  buffers differ in number, name, type or size; or contents under the same version do. The text
 *                        names the buffer and both members
 *   BANYAN_ERR_PROTOCOL  all members sent wrong bytes; the text names the last one
 *   BANYAN_ERR_NO_MEMORY of any member */
BANYAN_API BANYAN_CHECK enum banyan_status banyan_state_sync(struct banyan_state *state, struct banyan_comm *comm,
                                                             const struct banyan_state_sync_options *options,
                                                             struct banyan_state_report *out);

#ifdef __cplusplus
}
#endif
#endif
