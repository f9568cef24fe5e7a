/* Sends results and requests to workers, and answers their probes: reports the terms of an incomplete sum, or sends the
 * result of a complete one. */
#include "server_state.h"

#include <string.h>

#include "log.h"

/* Sends a copy of a result to one worker, as the result itself may still be on its way to all. */
static void send_result(struct by_server *s, const struct by_fragment *result, unsigned to) {
  const struct by_server_worker *worker = &s->workers[to];
  struct by_fragment *packet = memcpy(s->single, result, by_fragment_bytes(result));
  packet->type = BY_FRAGMENT_RESULT;
  packet->rank = (uint8_t)(result->group == BY_FRAGMENT_UNITED ? by_group_of(&s->config.groups, to) : to);
  packet->hops = (worker->straight ? 0 : worker->path.hops) & 15;
  memcpy(packet->stack, worker->path.stack, sizeof packet->stack);
  by_fragment_sign(packet, s->hop);
  s->config.emit(s->config.context, packet, (int)to);
}

/* Sends a result to all workers that receive multicasts. */
static void send_multicast(struct by_server *s, struct by_fragment *result) {
  result->type = BY_FRAGMENT_RESULT_MC;
  result->rank = 0;
  result->hop = result->hops = 0;
  by_fragment_sign(result, s->hop);
  s->config.emit(s->config.context, result, BY_SERVER_ALL);
}

/* Tells whether multicasts may reach a worker by its path. */
static bool may_receive(const struct by_server *s, unsigned worker) {
  return s->config.multicast && !s->workers[worker].path.alone;
}

/* Tells whether a worker receives multicasts. */
static bool receives_multicasts(const struct by_server *s, unsigned worker) {
  return may_receive(s, worker) && !s->workers[worker].unicast_trials;
}

void by_server_send_to_all(struct by_server *s, struct by_fragment *result, bool trial) {
  bool multicast = false;
  for (unsigned w = 0; w < by_workers_of(&s->config.groups); w++) {
    if (receives_multicasts(s, w) || (trial && may_receive(s, w)))
      multicast = true;
    else
      send_result(s, result, w);
  }
  if (multicast) send_multicast(s, result);
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

/* ---- probes */

/* Flags of a worker's first request for a result that may not exist. */
enum { FIRST_ASK = BY_FRAGMENT_RETX | BY_FRAGMENT_UNMERGED | BY_FRAGMENT_AGGREGATED };

enum { COMPLETE = 2 }; /* State of cells in a probe's records. */

/* Maximum of repeated multicasts of a result: if each of two workers lacks it, the second request's multicast helps
 * both. */
enum { MULTICASTS_AGAIN = 2 };

void by_server_reply(struct by_server *s, const struct by_fragment *packet, const uint64_t *workers, uint8_t flags) {
  unsigned to = worker_of(s, packet);
  struct {
    struct by_fragment head;
    struct by_probe_payload payload;
  } probe = {.head = by_server_answer(s, packet, BY_FRAGMENT_PROBE_REPLY, to)};
  s->counters.probes++;
  probe.head.lines = packet->lines;
  memcpy(&probe.payload, packet + 1, (size_t)packet->lines * BY_FRAGMENT_LINE);
  probe.payload.groups = workers ? groups_of(s, workers) : 0;
  probe.head.workers = workers ? workers[by_group_of(&s->config.groups, to)] : 0;
  if (packet->group == BY_FRAGMENT_UNITED) probe.head.workers = probe.head.workers ? packet->workers : 0;
  if (workers && has_all(s, workers)) {
    probe.head.group = s->all.group;
    probe.head.workers = s->all.workers;
  }
  probe.head.flags = flags;
  probe.head.check = by_sum_header_check(&s->key, &probe.head, ++s->workers[to].sequence);
  by_fragment_sign(&probe.head, s->hop);
  s->config.emit(s->config.context, &probe.head, (int)to);
}

static bool asks_for_result(const struct by_fragment *packet) {
  return packet->flags & (BY_FRAGMENT_RETX | BY_FRAGMENT_UNMERGED);
}

/* Records the workers of a probe's complete cells, whose sum was lost further up. If one of them sends its term again,
 * the cell sends the sum again. */
static void note_replied(const struct by_server *s, uint64_t *replied, const struct by_fragment *probe) {
  const struct by_probe *r = ((const struct by_probe_payload *)(const void *)(probe + 1))->records;
  for (unsigned i = 0; i < by_probe_records(probe->lines); i++) {
    struct by_worker_set in = {r[i].workers, r[i].group};
    if (!r[i].granted || r[i].epoch != probe->epoch || r[i].state != COMPLETE) continue;
    if (!by_set_is_within(&s->config.groups, in)) continue;
    uint32_t mine = in.group == probe->group ? probe->rank : probe->group;
    bool fits = in.group == probe->group || in.group == BY_FRAGMENT_UNITED;
    if (fits && in.workers >> (mine & 63) & 1) add_set(s, replied, in);
  }
}

/* A worker that only asks for the result, and whose term is here, need not know that others are late. */
bool by_server_knows(const struct by_server *s, struct sum *sum, const struct by_fragment *probe) {
  if (asks_for_result(probe) && has_worker(s, sum->workers, worker_of(s, probe))) return true;
  if ((probe->flags & FIRST_ASK) != BY_FRAGMENT_RETX) return false;
  if (has_worker(s, sum->replied, worker_of(s, probe))) return true;
  note_replied(s, sum->replied, probe);
  return false;
}

/* Sends a result to a worker that lacks it. The first requests are answered by multicasts, since others may lack it,
 * too; later ones by a packet for the worker. */
static void send_again(struct by_server *s, struct sum *sum, struct by_fragment *result,
                       const struct by_fragment *probe) {
  unsigned to = worker_of(s, probe);
  struct by_server_worker *worker = &s->workers[to];
  worker->missed += worker->unicast_trials && sum->trial && !has_worker(s, sum->asked, to);
  add_set(s, sum->asked, by_set_of_packet(probe));
  s->counters.repeated++;
  if (sum->again == MULTICASTS_AGAIN || !receives_multicasts(s, to)) {
    send_result(s, result, to);
  } else {
    sum->again++;
    sum->order = ++s->order;
    send_multicast(s, result);
  }
}

/* Tells whether the result is on its way to a worker that has received the one of fragment `number`, which was sent
 * before. */
static bool is_coming(struct by_server *s, const struct sum *sum, uint64_t number) {
  struct by_server_slot *slot = &s->slots[number % s->config.slots];
  uint32_t epoch = (uint32_t)(number / s->config.slots);
  int32_t after = by_epoch_distance(epoch, slot->epoch);
  if (after > 0 || after < -1 || (after == 0 && !slot->done)) return false;
  return sum_of(slot, epoch)->order < sum->order;
}

/* Handles a probe or late term about a complete sum. They may have crossed the result: if the sum of some workers was
 * lost, all of them send a term again, and the first one is enough. */
void by_server_repeat(struct by_server *s, const struct by_fragment *packet, struct by_fragment *result) {
  struct sum *sum = sum_of(&s->slots[packet->slot], packet->epoch);
  if (packet->type != BY_FRAGMENT_PROBE) {
    s->counters.duplicates++;
    return;
  }
  uint64_t newest = ((const struct by_probe_payload *)(const void *)(packet + 1))->newest;
  bool quiet = newest & BY_PROBE_QUIET;
  newest &= ~(BY_PROBE_QUIET | BY_PROBE_UNREACHED);
  if (asks_for_result(packet) && (quiet || !newest || !is_coming(s, sum, newest - 1)))
    send_again(s, sum, result, packet);
  else if (!asks_for_result(packet))
    by_server_reply(s, packet, sum->workers, 0);
}

void by_server_note_no_multicasts(struct by_server *s, unsigned rank) {
  struct by_server_worker *worker = &s->workers[rank];
  if (worker->unicast_trials || !may_receive(s, rank)) return;
  by_info("innetwork", "worker %u of tree %u: multicasts do not arrive; it gets its own results", rank, s->config.job);
  worker->unicast_trials = UNICAST_TRIALS;
  worker->missed = 0;
}
