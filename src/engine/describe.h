/* Calls described in bytes and in words: for rank 0, which compares those of all ranks when no call ends, and for
 * errors. Under the engine's lock. */
#ifndef BY_ENGINE_DESCRIBE_H
#define BY_ENGINE_DESCRIBE_H

#include "bytes.h"
#include "frame.h"

struct by_engine;

enum by_described { BY_DESCRIBED_ENDED, BY_DESCRIBED_RUNNING, BY_DESCRIBED_PAIR };
/* Writes the last calls and what they wait for: for each team its id, size, first process, number of the next call,
 * the plan's version and name, then n calls: number, by_described (u8), collective and dtype_op (u8 each), root,
 * count (u64), plan, n processes awaited. */
void by_engine_describe(const struct by_engine *engine, struct by_writer *writer);
/* Visits the processes from which calls need more data, some of them several times. */
void by_engine_visit_awaited(const struct by_engine *engine, void (*visit)(void *context, uint32_t process),
                             void *context);
/* Writes text such as "call 3, allreduce(...)". */
const char *by_engine_call_text(const struct by_frame *descriptor, char *text, size_t capacity);
/* A rank's call in an error: the rank's name, its call (NULL: no longer known) and its plan's name (NULL: not known).
 */
struct by_differing {
  const char *rank;
  const struct by_frame *descriptor;
  const char *plan;
};
/* The error text for two ranks' different calls of one number, or for equal calls under different plans.
 * a->descriptor must not be NULL. */
void by_engine_differ_text(const struct by_differing *a, const struct by_differing *b, char *text, size_t capacity);

#endif
