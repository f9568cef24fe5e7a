/* The engine's own state, on top of recovery, calls and links. */
#ifndef BY_ENGINE_ENGINE_PARTS_H
#define BY_ENGINE_ENGINE_PARTS_H

#include "describe.h"
#include "recovery.h"

struct by_engine {
  struct by_recovery recovery; /* Must be the first member: a link's transfer is its engine's. */
  struct by_engine_options options;
  uint32_t never;                         /* Links without a lane that will never have one. */
  uint64_t ended_then, ask_at, ask_after; /* Calls that had ended; when to call `asks` if no more have; its interval. */
  uint64_t stall_at;                      /* No waiting call is reported before this time. */
  uint64_t verdict_at;    /* The cause of a late call is being determined until this time; 0: no call is late. */
  struct by_fallbacks {   /* Owned by start.c: the reasons against in-network trees that were already logged. */
    uint32_t collectives; /* Bits by collective. */
    uint64_t types;       /* Bits by BANYAN_OPS * dtype + op. */
  } fallbacks;
};

static inline struct by_engine *by_engine_of(const struct by_transfer *transfer) {
  return (struct by_engine *)(uintptr_t)transfer;
}

static inline struct by_transfer *by_engine_transfer(const struct by_engine *engine) {
  return (struct by_transfer *)(uintptr_t)&engine->recovery.runner.transfer;
}

/* The transfer calls this when it has failed. Calls end at once unless the owner agrees on the reason first. */
void by_engine_failed(struct by_engine *engine, uint32_t process);

/* Finds the calls of frames, and advances the steps of messages (route.c). */
extern const struct by_transfer_ops by_engine_ops;

#endif
