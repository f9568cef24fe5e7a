/* Which message is which. Both ends of a pair list the same edges and sort
 * them the same way, so a message's place in that order is its tag, and no
 * rank has to look at anybody else's schedule. */
#include <stdlib.h>

#include "schedule_compile.h"

static int compare(uint32_t a, uint32_t b) {
  return a < b ? -1 : a > b;
}

static int by_tag(const void *left, const void *right) {
  const struct by_message *a = left, *b = right;
  if (a->peer != b->peer) return compare(a->peer, b->peer);
  if (a->out != b->out) return compare(a->out, b->out);
  if (a->phase != b->phase) return compare(a->phase, b->phase);
  if (a->level != b->level) return compare(a->level, b->level);
  if (a->group != b->group) return compare(a->group, b->group);
  return compare(a->first, b->first);
}

/* Whether b, which follows a, is the same message going on. */
static bool continues(const struct by_message *a, const struct by_message *b) {
  return a->peer == b->peer && a->out == b->out && a->phase == b->phase && a->level == b->level &&
         a->group == b->group && a->last == b->first;
}

static void merge(struct by_compile *compile) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < compile->n_messages; i++) {
    const struct by_message *message = &compile->messages[i];
    if (n && continues(&compile->messages[n - 1], message))
      compile->messages[n - 1].last = message->last;
    else
      compile->messages[n++] = *message;
  }
  compile->n_messages = n;
}

static bool same_stream(const struct by_message *a, const struct by_message *b) {
  return a->peer == b->peer && a->out == b->out;
}

enum banyan_status by_tags_assign(struct by_compile *compile) {
  struct by_schedule *schedule = compile->schedule;
  if (compile->n_messages > 1) qsort(compile->messages, compile->n_messages, sizeof *compile->messages, by_tag);
  merge(compile);
  for (uint32_t i = 0; i < compile->n_messages; i++) {
    struct by_message *message = &compile->messages[i];
    bool new_peer = i == 0 || message[-1].peer != message->peer;
    message->tag = i && same_stream(message - 1, message) ? message[-1].tag + 1 : 0;
    message->peer_index = new_peer ? schedule->n_peers++ : message[-1].peer_index;
    if (!message->out) schedule->n_incoming++;
  }
  schedule->peers = BY_ARENA_ARRAY(&schedule->arena, struct by_peer, schedule->n_peers);
  if (!schedule->peers) return by_schedule_no_memory();
  uint32_t first_in = 0;
  for (uint32_t i = 0; i < compile->n_messages; i++) {
    const struct by_message *message = &compile->messages[i];
    struct by_peer *peer = &schedule->peers[message->peer_index];
    peer->rank = message->peer;
    if (!peer->n_out && !peer->n_in) peer->first_in = first_in;
    if (message->out)
      peer->n_out++;
    else {
      peer->n_in++;
      first_in++;
    }
  }
  return BANYAN_OK;
}
