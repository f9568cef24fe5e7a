/* The engine: what it adds to recovery, calls and links. */
#ifndef BY_ENGINE_ENGINE_PARTS_H
#define BY_ENGINE_ENGINE_PARTS_H

#include "engine.h"
#include "recovery.h"

struct by_engine {
  struct by_recovery recovery; /* the first member: a link's transfer is its engine's */
  struct by_engine_options options;
  uint32_t never;                         /* links without a lane that never will have one */
  uint64_t ended_then, ask_at, ask_after; /* how many had ended; when to ask if no more have; how long that is */
  uint64_t still_since;                   /* when that was first seen */
  uint64_t stall_at;                      /* A call that waits is not reported before that. */
  uint64_t verdict_at;                    /* a call is late, and its cause is searched until then; 0: none is */
  uint32_t failed_process;                /* The process that failed the engine; UINT32_MAX: none is known. */
  uint64_t settled_by;  /* The engine has failed, and its owner agrees on the reason until then; 0: nothing is open. */
  struct by_fallbacks { /* start.c: reasons not to use a plan's in-network trees that were logged */
    uint32_t collectives; /* bits by number */
    uint64_t types;       /* bits by BANYAN_OPS * dtype + op */
  } fallbacks;
};

static inline struct by_engine *by_engine_of(const struct by_transfer *transfer) {
  return (struct by_engine *)(uintptr_t)transfer;
}

static inline struct by_transfer *by_engine_transfer(const struct by_engine *engine) {
  return (struct by_transfer *)(uintptr_t)&engine->recovery.runner.transfer;
}

/* engine.c: the engine has failed. Calls end at once unless its owner agrees on the reason first. */
void by_engine_failed(struct by_engine *engine, uint32_t process);

/* route.c: whose messages frames are, and what becomes of messages. */
extern const struct by_transfer_ops by_engine_ops;

#endif
