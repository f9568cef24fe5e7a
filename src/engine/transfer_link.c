/* The life of a link: attaches lanes and fabrics, closes them, and passes messages to fabrics. */
#include "transfer_link.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "log.h"

static void set_state(struct by_transfer_link *link, enum by_link_state state) {
  static const char *const names[] = {"idle", "wanted", "open", "lost", "closed"};
  static const uint8_t next[] = {[BY_LINK_IDLE] = 1 << BY_LINK_WANTED | 1 << BY_LINK_OPEN | 1 << BY_LINK_LOST,
                                 [BY_LINK_WANTED] = 1 << BY_LINK_OPEN | 1 << BY_LINK_LOST,
                                 [BY_LINK_OPEN] = 1 << BY_LINK_LOST,
                                 [BY_LINK_LOST] = 1 << BY_LINK_CLOSED,
                                 [BY_LINK_CLOSED] = 0};
  assert(next[link->state] & 1 << state);
  by_debug("executor", "link to process %u: %s, was %s", link->process, names[state], names[link->state]);
  link->state = state;
}

void by_link_want(struct by_transfer_link *link) {
  const struct by_transfer_options *options = &link->transfer->options;
  if (link->state != BY_LINK_IDLE || !options->connect) return;
  set_state(link, BY_LINK_WANTED);
  options->connect(options->context, link->process);
}

void by_link_attach(struct by_transfer_link *link, struct by_lane *const *lanes, uint32_t n) {
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
    if (end->lane->ops->set_mark) end->lane->ops->set_mark(end->lane, &transfer->mark);
  }
  if (!wanted) return;
  link->lane = lanes[0];
  if (link->state != BY_LINK_OPEN) set_state(link, BY_LINK_OPEN);
  by_link_touch(link);
  transfer->counters.links++;
}

static void forget_ends(const struct by_transfer_link *link) {
  struct by_transfer *transfer = link->transfer;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < transfer->active; i++)
    if (transfer->ends[i]->link != link) transfer->ends[kept++] = transfer->ends[i];
  transfer->active = kept;
}

uint32_t by_link_take_lanes(struct by_transfer_link *link, struct by_lane **lanes) {
  struct by_transfer *transfer = link->transfer;
  uint32_t n = link->n_ends;
  bool usable = link->state == BY_LINK_OPEN && transfer->status != BANYAN_OK && transfer->options.keeps_lanes;
  for (uint32_t i = 0; i < n && usable; i++) {
    const struct by_lane *lane = link->ends[i].lane;
    usable = lane->status == BANYAN_OK && !lane->ops->reads_memory;
  }
  if (!usable) return 0;
  for (uint32_t i = 0; i < n; i++) {
    lanes[i] = link->ends[i].lane;
    transfer->sent_before += lanes[i]->sent;
    lanes[i]->sent = 0;
  }
  forget_ends(link);
  link->n_ends = 0;
  link->lane = NULL;
  return n;
}

void by_link_hang_up(struct by_transfer_link *link) {
  for (uint32_t i = 0; i < link->n_ends; i++) {
    const struct by_lane *lane = link->ends[i].lane;
    if (!lane->ops->reads_memory && lane->poll_fd >= 0) (void)shutdown(lane->poll_fd, SHUT_WR);
  }
}

void by_link_expect_fabric(struct by_transfer_link *link) {
  link->in_network = true;
}

static struct by_link_tree *find_tree(const struct by_transfer_link *link, uint32_t version) {
  struct by_link_tree *tree = LIST_FIRST(&link->trees);
  while (tree && tree->version != version) tree = LIST_NEXT(tree, in_link);
  return tree;
}

enum banyan_status by_link_attach_fabric(struct by_transfer_link *link, uint32_t version, struct by_fabric *fabric) {
  struct by_transfer *transfer = link->transfer;
  bool wanted = !find_tree(link, version) && !by_link_is_lost(link) && transfer->status == BANYAN_OK;
  struct by_link_tree *tree = wanted ? calloc(1, sizeof *tree) : NULL;
  if (!tree) {
    fabric->ops->destroy(fabric);
    return wanted ? by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a tree through switches") : BANYAN_OK;
  }
  *tree = (struct by_link_tree){.link = link, .version = version, .fabric = fabric};
  TAILQ_INIT(&tree->begun);
  LIST_INSERT_HEAD(&link->trees, tree, in_link);
  LIST_INSERT_HEAD(&transfer->trees, tree, in_transfer);
  link->in_network = true;
  if (link->state <= BY_LINK_WANTED) set_state(link, BY_LINK_OPEN);
  if (fabric->status == BANYAN_OK) fabric->ops->set_mark(fabric, &transfer->mark);
  by_link_touch(link);
  return BANYAN_OK;
}

void by_link_detach_tree(struct by_link_tree *tree) {
  LIST_REMOVE(tree, in_link);
  LIST_REMOVE(tree, in_transfer);
  tree->link->transfer->sent_before += tree->fabric->sent;
  tree->fabric->ops->destroy(tree->fabric);
  free(tree);
}

struct by_transfer_link *by_link_create(struct by_transfer *transfer, uint32_t process) {
  struct by_transfer_link *link = calloc(1, sizeof *link);
  if (!link) return NULL;
  *link = (struct by_transfer_link){.transfer = transfer, .process = process};
  TAILQ_INIT(&link->outs);
  TAILQ_INIT(&link->notes);
  TAILQ_INIT(&link->stored);
  LIST_INIT(&link->trees);
  link->messages_end = &link->messages;
  return link;
}

static void free_stored(struct by_transfer_link *link) {
  for (struct by_stored *stored; (stored = TAILQ_FIRST(&link->stored));) {
    TAILQ_REMOVE(&link->stored, stored, next);
    free(stored);
  }
  link->stored_bytes = 0;
}

static void free_lanes(struct by_transfer_link *link) {
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

void by_control_messages_free_all(struct by_control_message *messages) {
  while (messages) {
    struct by_control_message *next = messages->next;
    free(messages);
    messages = next;
  }
}

void by_link_destroy(struct by_transfer_link *link) {
  free_stored(link);
  by_control_messages_free_all(link->messages);
  free(link->arriving);
  free(link->notices);
  free_lanes(link);
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!LIST_EMPTY(&link->trees)) by_link_detach_tree(LIST_FIRST(&link->trees));
  free(link);
}

/* ---- links of processes that have left or are lost */

void by_link_left(struct by_transfer_link *link, bool never) {
  link->left = true;
  link->never |= never;
}

void by_link_lose(struct by_transfer_link *link) {
  if (by_link_is_lost(link)) return;
  set_state(link, BY_LINK_LOST);
  LIST_INSERT_HEAD(&link->transfer->closing, link, closing);
}

static void close_link(struct by_transfer_link *link) {
  for (struct by_in *in; (in = TAILQ_FIRST(&link->notes));) { /* The senders are lost. */
    TAILQ_REMOVE(&link->notes, in, notes);
    in->noted = false;
    by_exchange_end_note(in->exchange);
  }
  forget_ends(link);
  free_stored(link);
  free_lanes(link);
  link->n_notices = 0;
  set_state(link, BY_LINK_CLOSED);
}

/* Whether the lanes of a lost link may be closed: the peer must have closed its end or died, since a peer that leaves
 * on purpose would report an earlier end as a failure. */
static bool is_over(const struct by_transfer_link *link) {
  for (uint32_t i = 0; i < link->n_ends; i++)
    if (link->ends[i].lane->status == BANYAN_OK) return false;
  return !link->running;
}

void by_links_close(struct by_transfer *transfer) {
  for (struct by_transfer_link *link = LIST_FIRST(&transfer->closing), *next; link; link = next) {
    next = LIST_NEXT(link, closing);
    if (!is_over(link)) continue;
    LIST_REMOVE(link, closing);
    close_link(link);
  }
}

/* ---- Links through switches. To schedules such a tree is a star: each rank sends its terms to the server and
 * receives the sum from it. That pair of messages is given to a fabric, which reads the terms and writes the sum in
 * place, so neither of them becomes a frame.
 *
 *    out  base --------> fabric --> switches --> server
 *    in   target <------ fabric <-- switches <----'
 *
 * All ranks have to begin the same calls in the same order, so messages are queued when their call begins, before
 * anything of them is ready. */

static bool give_to_fabric(struct by_out *out, struct by_link_tree *tree) {
  struct by_fabric *fabric = tree->fabric;
  struct by_in *in = out->answer;
  struct by_frame descriptor = out->exchange->descriptor;
  assert(in && !in->adds);
  if (!out->exchange->pair) descriptor.tag = out->tag;
  if (!fabric->ops->begin(fabric, &descriptor, out->base, in->to, out->length, &out->number)) return false;
  in->source = BY_IN_DATA;
  in->granted = in->length; /* No sender has to be notified. */
  out->tree = tree;
  TAILQ_INSERT_TAIL(&tree->begun, out, in_hand);
  return true;
}

void by_link_flush_trees(struct by_transfer_link *link) {
  struct by_link_tree *tree;
  LIST_FOREACH(tree, &link->trees, in_link)
  tree->full = tree->fabric->status != BANYAN_OK; /* A failed fabric takes nothing. */
  for (struct by_out *out = TAILQ_FIRST(&link->outs), *next; out && link->transfer->status == BANYAN_OK; out = next) {
    next = TAILQ_NEXT(out, queue);
    tree = out->tree ? out->tree : find_tree(link, out->exchange->trees); /* NULL: it is attached later. */
    if (!tree || tree->fabric->status != BANYAN_OK) continue;
    if (!out->tree && !tree->full) tree->full = !give_to_fabric(out, tree);
    if (!out->tree) continue;
    if (out->ready > out->announced) tree->fabric->ops->advance(tree->fabric, out->number, out->ready);
    out->announced = out->ready;
    out->queued = false;
    TAILQ_REMOVE(&link->outs, out, queue);
  }
}

/* Notes that more of the sum has arrived, which may end the call. */
static void take_sum(struct by_out *out, uint64_t done) {
  struct by_transfer *transfer = out->link->transfer;
  struct by_in *in = out->answer;
  uint64_t n = done - out->sent;
  transfer->ops->summed(in, out->sent, n);
  transfer->counters.bytes_sent += n;
  transfer->counters.bytes_received += n;
  out->sent = out->settled = done;
  transfer->ops->sent(out);
  transfer->ops->arrived(in, n);
}

bool by_link_progress_tree(struct by_link_tree *tree) {
  struct by_transfer_link *link = tree->link;
  struct by_fabric *fabric = tree->fabric;
  struct by_transfer *transfer = link->transfer;
  bool ended = false;
  if (by_link_is_lost(link)) return true;
  if (fabric->status == BANYAN_OK && fabric->ops->progress(fabric)) transfer->moved = true;
  if (fabric->status != BANYAN_OK) return false;
  for (struct by_out *out = TAILQ_FIRST(&tree->begun), *next; out && transfer->status == BANYAN_OK; out = next) {
    uint64_t done = fabric->ops->done(fabric, out->number);
    next = TAILQ_NEXT(out, in_hand);
    if (done == out->length) {
      TAILQ_REMOVE(&tree->begun, out, in_hand);
      ended = true;
    }
    if (done > out->sent) take_sum(out, done);
  }
  if (ended && !TAILQ_EMPTY(&link->outs)) by_link_touch(link); /* The fabric can take others. */
  return true;
}
