#include "transfer_link.h"

#include <assert.h>
#include <stdlib.h>

#include "log.h"

static bool may_become(enum by_link_state from, enum by_link_state to) {
  switch (to) {
  case BY_LINK_IDLE: return false;
  case BY_LINK_WANTED: return from == BY_LINK_IDLE;
  case BY_LINK_OPEN: return from <= BY_LINK_WANTED;
  case BY_LINK_LOST: return from <= BY_LINK_OPEN;
  case BY_LINK_CLOSED: return from == BY_LINK_LOST;
  }
  return false;
}

static void set_state(struct by_link *link, enum by_link_state state) {
  static const char *const names[] = {"idle", "wanted", "open", "lost", "closed"};
  assert(may_become(link->state, state));
  by_debug("executor", "link to process %u: %s, was %s", link->process, names[state], names[link->state]);
  link->state = state;
}

void by_link_want(struct by_link *link) {
  const struct by_transfer_options *options = &link->transfer->options;
  if (link->state != BY_LINK_IDLE || !options->connect) return;
  set_state(link, BY_LINK_WANTED);
  options->connect(options->context, link->process);
}

void by_link_mark_lane(const struct by_transfer *transfer, struct by_lane *lane) {
  if (lane->ops->set_mark) lane->ops->set_mark(lane, &transfer->mark);
}

void by_link_mark_fabric(const struct by_transfer *transfer, struct by_fabric *fabric) {
  if (fabric->status == BANYAN_OK) fabric->ops->set_mark(fabric, &transfer->mark);
}

void by_link_attach(struct by_link *link, struct by_lane *const *lanes, uint32_t n) {
  struct by_transfer *transfer = link->transfer;
  bool wanted = !link->lane && !by_link_is_lost(link) && transfer->status == BANYAN_OK;
  for (uint32_t i = 0; i < n; i++) {
    if (!wanted || i >= BY_LANES) {
      lanes[i]->ops->destroy(lanes[i]);
      continue;
    }
    struct by_end *end = &link->ends[link->n_ends++];
    *end = (struct by_end){.link = link, .lane = lanes[i]};
    transfer->ends[transfer->active++] = end;
    by_link_mark_lane(transfer, end->lane);
  }
  if (!wanted) return;
  link->lane = lanes[0];
  if (link->state != BY_LINK_OPEN) set_state(link, BY_LINK_OPEN);
  by_link_touch(link);
  transfer->counters.links++;
}

void by_link_expect_fabric(struct by_link *link) {
  link->in_network = true;
}

void by_link_attach_fabric(struct by_link *link, struct by_fabric *fabric) {
  struct by_transfer *transfer = link->transfer;
  if (link->fabric || transfer->status != BANYAN_OK) {
    fabric->ops->destroy(fabric);
    return;
  }
  link->fabric = fabric;
  link->in_network = true;
  if (link->state <= BY_LINK_WANTED) set_state(link, BY_LINK_OPEN);
  transfer->fabrics[transfer->n_fabrics++] = link;
  by_link_mark_fabric(transfer, fabric);
  by_link_touch(link);
}

struct by_link *by_link_create(struct by_transfer *transfer, uint32_t process) {
  struct by_link *link = calloc(1, sizeof *link);
  if (!link) return NULL;
  *link = (struct by_link){.transfer = transfer, .process = process};
  link->outs_end = &link->outs;
  link->notes_end = &link->notes;
  link->stored_end = &link->stored;
  link->begun_end = &link->begun;
  link->messages_end = &link->messages;
  return link;
}

static void free_stored(struct by_link *link) {
  while (link->stored) {
    struct by_stored *stored = link->stored;
    link->stored = stored->next;
    free(stored);
  }
  link->stored_end = &link->stored;
  link->stored_bytes = 0;
}

static void free_lanes(struct by_link *link) {
  struct by_transfer *transfer = link->transfer;
  for (uint32_t i = 0; i < link->n_ends; i++) {
    struct by_lane *lane = link->ends[i].lane;
    transfer->sent_before += lane->sent;
    transfer->counters.wakes_sent += lane->wakes;
    lane->ops->destroy(lane);
  }
  link->n_ends = 0;
  link->lane = NULL;
}

void by_link_destroy(struct by_link *link) {
  free_stored(link);
  free(link->notices);
  free_lanes(link);
  if (link->fabric) link->fabric->ops->destroy(link->fabric);
  free(link);
}

/* ---- those that are gone */

void by_link_left(struct by_link *link, bool never) {
  link->left = true;
  link->never |= never;
}

void by_link_lose(struct by_link *link) {
  if (by_link_is_lost(link)) return;
  set_state(link, BY_LINK_LOST);
  link->closing_next = link->transfer->closing;
  link->transfer->closing = link;
}

/* Nobody hears what calls that have ended would still have told. */
static void drop_notes(struct by_link *link) {
  while (link->notes) {
    struct by_in *in = link->notes;
    link->notes = in->note_next;
    in->noted = false;
    by_exchange_end_note(in->exchange);
  }
  link->notes_end = &link->notes;
}

static void forget_ends(struct by_transfer *transfer, const struct by_link *link) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < transfer->active; i++)
    if (transfer->ends[i]->link != link) transfer->ends[kept++] = transfer->ends[i];
  transfer->active = kept;
}

static void close_link(struct by_link *link) {
  drop_notes(link);
  forget_ends(link->transfer, link);
  free_stored(link);
  free_lanes(link);
  link->n_notices = 0;
  set_state(link, BY_LINK_CLOSED);
}

/* Not before the peer has closed its end, or died: one that leaves in peace would take this one for dead. */
static bool is_over(const struct by_link *link) {
  for (uint32_t i = 0; i < link->n_ends; i++)
    if (link->ends[i].lane->status == BANYAN_OK) return false;
  return !link->running;
}

void by_links_close(struct by_transfer *transfer) {
  for (struct by_link **place = &transfer->closing; *place;) {
    struct by_link *link = *place;
    if (!is_over(link)) {
      place = &link->closing_next;
      continue;
    }
    *place = link->closing_next;
    close_link(link);
  }
}
