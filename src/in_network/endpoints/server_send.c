/* Sends results to one worker and to all, and notices. */
#include <string.h>

#include "server_state.h"

void by_server_send_result(struct by_server *s, const struct by_fragment *result, unsigned to) {
  const struct by_server_worker *worker = &s->workers[to];
  struct by_fragment *packet = memcpy(s->single, result, by_fragment_bytes(result));
  packet->type = BY_FRAGMENT_RESULT;
  packet->rank = (uint8_t)(result->group == BY_FRAGMENT_UNITED ? by_group_of(&s->config.groups, to) : to);
  packet->hops = (worker->straight ? 0 : worker->path.hops) & 15;
  memcpy(packet->stack, worker->path.stack, sizeof packet->stack);
  by_fragment_sign(packet, s->hop);
  s->config.emit(s->config.context, packet, (int)to);
}

void by_server_send_multicast(struct by_server *s, struct by_fragment *result) {
  result->type = BY_FRAGMENT_RESULT_MC;
  result->rank = 0;
  result->hop = result->hops = 0;
  by_fragment_sign(result, s->hop);
  s->config.emit(s->config.context, result, BY_SERVER_ALL);
}

bool by_server_may_receive(const struct by_server *s, unsigned worker) {
  return s->config.multicast && !s->workers[worker].path.alone;
}

bool by_server_receives_multicasts(const struct by_server *s, unsigned worker) {
  return by_server_may_receive(s, worker) && !s->workers[worker].unicast_trials;
}

void by_server_send_to_all(struct by_server *s, struct by_fragment *result, bool trial) {
  bool multicast = false;
  for (unsigned w = 0; w < by_workers_of(&s->config.groups); w++) {
    if (by_server_receives_multicasts(s, w) || (trial && by_server_may_receive(s, w)))
      multicast = true;
    else
      by_server_send_result(s, result, w);
  }
  if (multicast) by_server_send_multicast(s, result);
}

struct by_fragment by_server_answer(const struct by_server *s, const struct by_fragment *packet,
                                    enum by_fragment_type type, unsigned to) {
  struct by_worker_set set = by_set_of_worker(&s->config.groups, to);
  struct by_fragment head;
  by_fragment_begin(&head, type, (uint8_t)__builtin_ctzll(set.workers));
  head.group = set.group;
  head.job = packet->job;
  head.key = packet->key;
  head.slot = packet->slot;
  head.epoch = packet->epoch;
  head.call = packet->call;
  if (!by_fragment_is_numbered(&head)) return head;
  head.dtype = head.group;
  head.exponent = head.rank;
  return head;
}

static void send_nack(struct by_server *s, const struct by_fragment *about, unsigned to, uint32_t call,
                      struct by_worker_set others) {
  struct by_fragment nack = by_server_answer(s, about, BY_FRAGMENT_NACK, to);
  nack.call = call;
  if (others.workers) {
    nack.rank = (uint8_t)__builtin_ctzll(others.workers);
    nack.group = others.group;
    nack.workers = others.workers;
  } else {
    nack.flags = BY_FRAGMENT_ESCALATE;
  }
  nack.check = by_sum_header_check(&s->key, &nack, ++s->workers[to].sequence);
  by_fragment_sign(&nack, s->hop);
  s->config.emit(s->config.context, &nack, (int)to);
}

void by_server_send_nacks(struct by_server *s, const struct by_fragment *about, const uint64_t *to, uint32_t call,
                          const uint64_t *others) {
  struct by_worker_set named = {0};
  for (uint32_t g = 0; others && g < s->config.groups.n && !named.workers; g++)
    named = (struct by_worker_set){others[g], (uint8_t)g};
  for (uint32_t g = 0; g < s->config.groups.n; g++)
    for (uint64_t left = to[g]; left; left &= left - 1)
      send_nack(s, about, s->config.groups.first[g] + (uint32_t)__builtin_ctzll(left), call, named);
}
