/* Memory that calls use for a while and give back, so that a warm call
 * allocates nothing: rings for messages whose turn has not come, blocks for
 * what is read from a peer's memory, frames that came before their call. */
#include "call.h"

#include <stdlib.h>
#include <string.h>

enum { RESERVE_MOST = 64 << 20 };

char *by_engine_take_stage(struct by_engine *engine) {
  if (engine->n_stages) return engine->stages[--engine->n_stages];
  char *stage = aligned_alloc(64, engine->options.window);
  if (!stage) by_engine_fail(engine, BANYAN_ERR_NO_MEMORY, UINT32_MAX, "out of memory for data that waits to be added");
  engine->stages_made += stage != NULL;
  by_engine_count_allocation(engine);
  return stage;
}

/* Pages come when they are written: until then a ring is address space, of which RESERVE_MOST is enough. */
void by_engine_reserve_stages(struct by_engine *engine) {
  size_t most = RESERVE_MOST / engine->options.window;
  while (engine->stages_made < engine->stages_wanted && engine->stages_made < most) {
    char *stage = aligned_alloc(64, engine->options.window);
    if (!stage) return; /* it may never be needed */
    engine->stages_made++;
    by_engine_count_allocation(engine);
    by_engine_give_stage(engine, stage);
  }
}

void by_engine_give_stage(struct by_engine *engine, char *stage) {
  if (engine->n_stages == engine->stages_room) {
    uint32_t room = engine->stages_room ? engine->stages_room * 2 : 16;
    char **stages = realloc(engine->stages, room * sizeof *stages);
    if (!stages) {
      free(stage);
      engine->stages_made--;
      return;
    }
    engine->stages = stages;
    engine->stages_room = room;
  }
  engine->stages[engine->n_stages++] = stage;
}

char *by_engine_block(struct by_engine *engine, uint32_t index) {
  if (index >= engine->n_blocks) {
    uint32_t n = index + 4;
    void *blocks; /* aligned_alloc would want whole pages */
    if (posix_memalign(&blocks, 4096, (size_t)n * engine->options.block)) return NULL;
    if (engine->n_blocks) memcpy(blocks, engine->blocks, (size_t)engine->n_blocks * engine->options.block);
    free(engine->blocks);
    engine->blocks = blocks;
    engine->n_blocks = n;
    by_engine_count_allocation(engine);
  }
  return engine->blocks + (size_t)index * engine->options.block;
}

/* Powers of two, so that what is given back fits what comes next. */
static uint32_t spare_class(uint32_t size) {
  uint32_t class_ = 0;
  while (((uint32_t)256 << class_) < size) class_++;
  return class_;
}

struct by_stored *by_engine_take_stored(struct by_engine *engine, uint32_t size) {
  uint32_t class_ = spare_class(size);
  struct by_stored *stored = engine->spare[class_];
  if (stored) {
    engine->spare[class_] = stored->next;
    return stored;
  }
  by_engine_count_allocation(engine);
  return malloc(sizeof *stored + ((size_t)256 << class_));
}

void by_engine_give_stored(struct by_engine *engine, struct by_stored *stored) {
  uint32_t class_ = spare_class(stored->frame.size);
  stored->next = engine->spare[class_];
  engine->spare[class_] = stored;
}

void by_engine_free_pools(struct by_engine *engine) {
  for (int i = 0; i < BY_SPARES; i++)
    while (engine->spare[i]) {
      struct by_stored *stored = engine->spare[i];
      engine->spare[i] = stored->next;
      free(stored);
    }
  for (uint32_t i = 0; i < engine->n_stages; i++) free(engine->stages[i]);
  free(engine->stages);
  free(engine->blocks);
  free(engine->sources);
}

enum banyan_status by_engine_need_sources(struct by_engine *engine, uint32_t n) {
  if (n <= engine->n_sources) return BANYAN_OK;
  const void **sources = realloc(engine->sources, n * sizeof *sources);
  if (!sources) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u operands", n);
  engine->sources = sources;
  engine->n_sources = n;
  return BANYAN_OK;
}
