/* The transfer: its links, its failure, and the memory that messages share. */
#include "transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "transfer_link.h"

enum { RESERVE_MAX = 64 << 20 };

enum banyan_status by_transfer_init(struct by_transfer *transfer, const struct by_transfer_options *options,
                                    const struct by_transfer_ops *ops, uint32_t processes) {
  *transfer = (struct by_transfer){.options = *options, .ops = ops, .mark = {-1, -1}};
  STAILQ_INIT(&transfer->dirty);
  LIST_INIT(&transfer->closing);
  LIST_INIT(&transfer->trees);
  for (int i = 0; i < BY_SPARES; i++) TAILQ_INIT(&transfer->spare[i]);
  transfer->messages_end = &transfer->state.messages;
  return by_transfer_grow(transfer, processes);
}

void by_transfer_fini(struct by_transfer *transfer) {
  for (uint32_t i = 0; i < transfer->processes; i++) by_link_destroy(transfer->links[i]);
  for (int i = 0; i < BY_SPARES; i++)
    for (struct by_stored *stored; (stored = TAILQ_FIRST(&transfer->spare[i]));) {
      TAILQ_REMOVE(&transfer->spare[i], stored, next);
      free(stored);
    }
  for (uint32_t i = 0; i < transfer->n_stages; i++) free(transfer->stages[i]);
  by_control_messages_free_all(transfer->state.messages);
  by_control_messages_free_all(transfer->spare_messages);
  free(transfer->links);
  free(transfer->ends);
  free(transfer->stages);
}

/* Enlarges an array. Without memory, returns it as it is. */
static void *extend_array(void *list, size_t n, size_t each, bool *has_memory) {
  void *longer = realloc(list, n * each);
  if (longer) return longer;
  *has_memory = false;
  return list;
}

enum banyan_status by_transfer_grow(struct by_transfer *transfer, uint32_t processes) {
  bool has_memory = true;
  transfer->links = extend_array(transfer->links, processes, sizeof *transfer->links, &has_memory);
  transfer->ends = extend_array(transfer->ends, (size_t)processes * BY_LANES, sizeof *transfer->ends, &has_memory);
  while (has_memory && transfer->processes < processes) {
    struct by_transfer_link *link = by_link_create(transfer, transfer->processes);
    if (!link) break;
    transfer->links[transfer->processes++] = link;
  }
  if (transfer->processes == processes) return BANYAN_OK;
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u links", processes);
}

const char *by_transfer_name(const struct by_transfer *transfer, uint32_t process, char *text) {
  if (transfer->options.name) return transfer->options.name(transfer->options.context, process);
  snprintf(text, BY_NAME_BYTES, "rank %u", process);
  return text;
}

void by_transfer_fail(struct by_transfer *transfer, enum banyan_status status, uint32_t process, const char *text) {
  if (transfer->status != BANYAN_OK) return;
  transfer->status = status;
  snprintf(transfer->state.error, sizeof transfer->state.error, "%s", text);
  /* Callers get their memory back and use it again, while peers that do not know of the failure may still read it. */
  for (uint32_t i = 0; i < transfer->active; i++) {
    struct by_lane *lane = transfer->ends[i]->lane;
    if (lane->ops->withdraw) lane->ops->withdraw(lane);
  }
  transfer->ops->failed(transfer, process);
}

void by_transfer_flush(struct by_transfer *transfer) {
  STAILQ_HEAD(, by_transfer_link) dirty = STAILQ_HEAD_INITIALIZER(dirty);
  STAILQ_CONCAT(&dirty, &transfer->dirty);
  for (struct by_transfer_link *link; (link = STAILQ_FIRST(&dirty));) {
    STAILQ_REMOVE_HEAD(&dirty, dirty_next);
    link->dirty = false;
    if (link->in_network)
      by_link_flush_trees(link); /* What is left waits for begun messages, or for its fabric. */
    else if (!by_link_flush(link))
      by_link_touch(link);
  }
}

void by_transfer_set_mark(struct by_transfer *transfer, const struct by_mark *mark) {
  transfer->mark = *mark;
  for (uint32_t i = 0; i < transfer->active; i++) {
    struct by_lane *lane = transfer->ends[i]->lane;
    if (lane->ops->set_mark) lane->ops->set_mark(lane, mark);
  }
  struct by_link_tree *tree;
  LIST_FOREACH(tree, &transfer->trees, in_transfer) {
    if (tree->fabric->status == BANYAN_OK) tree->fabric->ops->set_mark(tree->fabric, mark);
  }
}

/* ---- memory that calls use and give back, so that a warm call allocates nothing */

static char *make_stage(struct by_transfer *transfer) {
  char *stage = aligned_alloc(64, transfer->options.window);
  transfer->stages_made += stage != NULL;
  transfer->counters.allocations += stage != NULL;
  return stage;
}

char *by_transfer_take_stage(struct by_transfer *transfer) {
  char *stage = transfer->n_stages ? transfer->stages[--transfer->n_stages] : make_stage(transfer);
  if (!stage)
    by_transfer_fail(transfer, BANYAN_ERR_NO_MEMORY, UINT32_MAX, "out of memory for data that waits to be added");
  return stage;
}

/* Allocates rings in advance. Their pages are allocated when they are written, and RESERVE_MAX of address space is
 * enough. */
void by_transfer_want_stages(struct by_transfer *transfer, uint32_t n) {
  transfer->stages_wanted += n;
  while (transfer->stages_made < transfer->stages_wanted &&
         transfer->stages_made < RESERVE_MAX / transfer->options.window) {
    char *stage = make_stage(transfer);
    if (!stage) return; /* It may never be needed. */
    by_transfer_give_stage(transfer, stage);
  }
}

void by_transfer_give_stage(struct by_transfer *transfer, char *stage) {
  if (!BY_ARRAY_GROW(&transfer->stages, &transfer->stages_capacity, transfer->n_stages + 1)) {
    free(stage);
    transfer->stages_made--;
    return;
  }
  transfer->stages[transfer->n_stages++] = stage;
}

/* Powers of two, so that what is given back fits what comes next. */
static uint32_t spare_class(uint32_t size) {
  uint32_t class_ = 0;
  while (((uint32_t)256 << class_) < size) class_++;
  return class_;
}

struct by_stored *by_transfer_take_stored(struct by_transfer *transfer, uint32_t size) {
  uint32_t class_ = spare_class(size);
  struct by_stored *stored = TAILQ_FIRST(&transfer->spare[class_]);
  if (stored) {
    TAILQ_REMOVE(&transfer->spare[class_], stored, next);
    transfer->spare_bytes -= (size_t)256 << class_;
    return stored;
  }
  transfer->counters.allocations++;
  return malloc(sizeof *stored + ((size_t)256 << class_));
}

void by_transfer_give_stored(struct by_transfer *transfer, struct by_stored *stored) {
  uint32_t class_ = spare_class(stored->frame.size);
  size_t bytes = (size_t)256 << class_;
  if (transfer->spare_bytes + bytes > transfer->options.link_credit) {
    free(stored);
    return;
  }
  transfer->spare_bytes += bytes;
  TAILQ_INSERT_HEAD(&transfer->spare[class_], stored, next);
}
