/* Adds terms and sums to results, detects workers with different calls, and decides when switches are of no use. */
#include "server.h"

#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "log.h"
#include "reduce.h"
#include "server_state.h"

/* If more results than there are slots had terms that were requested past switches, counting three for each result
 * without such terms, switches are of no use: the next PAST results request workers to send later terms of these slots
 * past them at once. The next time it is twice as many, up to PAST_MOST, unless that is much later. */
enum { PAST = 512, PAST_MOST = 1 << 15, UNTROUBLED = 3 };

/* Maximum of requests for the terms of one epoch of a slot because a sum of them was wrong. */
enum { NACKS = 3 };

static struct sum empty_sum(const struct by_server *s, uint64_t *bits) {
  size_t words = s->config.groups.n;
  memset(bits, 0, SETS * words * sizeof *bits);
  return (struct sum){.workers = bits,
                      .asked = bits + words,
                      .callers = bits + 2 * words,
                      .others = bits + 3 * words,
                      .replied = bits + 4 * words,
                      .parts = BY_NO_PART};
}

enum banyan_status by_server_create(const struct by_server_config *config, struct by_server **out) {
  const struct by_server_config *c = config;
  if (!by_groups_are_valid(&c->groups) || c->slots < 1 || c->slots > UINT16_MAX || c->lines < 1 ||
      c->lines > BY_FRAGMENT_LINES)
    return by_fail(
        BANYAN_ERR_ARGUMENT, "a server of %u groups, %u slots of %u lines: give 1 to %d of up to %d workers, %d and %d",
        c->groups.n, c->slots, c->lines, BY_FRAGMENT_GROUPS, BY_FRAGMENT_WORKERS, UINT16_MAX, BY_FRAGMENT_LINES);
  uint32_t workers = by_workers_of(&c->groups);
  size_t words = c->groups.n, sets = c->n_sets * sizeof *c->sets;
  struct by_server *s = calloc(1, sizeof *s);
  if (!s) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a server");
  s->config = *c;
  s->all = by_set_of_all(&c->groups);
  s->stride = (1 + (size_t)c->lines) * BY_FRAGMENT_LINE;
  s->workers = calloc(workers, sizeof *s->workers);
  s->sets = malloc(sets + 1);
  s->slots = calloc(c->slots, sizeof *s->slots);
  s->bits = calloc(2 * SETS * c->slots * words, sizeof *s->bits);
  s->single = aligned_alloc(BY_FRAGMENT_LINE, s->stride);
  s->packets = aligned_alloc(BY_FRAGMENT_LINE, 2 * c->slots * s->stride);
  bool parts = by_parts_init(&s->parts, &s->config.groups, c->parts ? c->parts : c->slots * workers,
                             s->stride - BY_FRAGMENT_LINE);
  enum banyan_status status = BANYAN_OK;
  if (!s->workers || !s->bits || !s->sets || !s->slots || !s->single || !s->packets || !parts)
    status = by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a server of %u slots", c->slots);
  else
    status = by_sum_key_init(&s->key, c->secret, c->secret_bytes, &c->groups, !c->exact);
  if (status == BANYAN_OK && c->exact) status = by_sum_key_init_open(&s->open);
  if (status == BANYAN_OK && c->keyed)
    status = by_hop_key_of_tree(c->secret, c->secret_bytes, c->job, c->key, &s->hop_key);
  if (c->keyed) s->hop = &s->hop_key;
  if (status) {
    by_server_destroy(s);
    return status;
  }
  for (uint32_t w = 0; w < workers; w++) s->workers[w] = (struct by_server_worker){.path = c->paths[w]};
  for (unsigned i = 0; i < c->slots; i++) {
    s->slots[i] = (struct by_server_slot){.epoch = UINT32_MAX, .done = true};
    for (unsigned k = 0; k < 2; k++) s->slots[i].sum[k] = empty_sum(s, s->bits + (2 * i + k) * SETS * words);
  }
  if (sets) memcpy(s->sets, c->sets, sets);
  *out = s;
  return BANYAN_OK;
}

void by_server_destroy(struct by_server *s) {
  if (!s) return;
  by_parts_fini(&s->parts);
  free(s->workers);
  free(s->bits);
  free(s->sets);
  free(s->slots);
  free(s->single);
  free(s->packets);
  explicit_bzero(s, sizeof *s);
  free(s);
}
/* --- completing a sum --- */

/* Returns the type and count of `bytes` of numbers. */
static enum banyan_dtype dtype_of(const struct by_fragment *packet, size_t bytes, size_t *count) {
  switch (packet->dtype) {
  case BY_FRAGMENT_PAIRS: *count = bytes / 8; return BANYAN_INT64;
  case BY_FRAGMENT_INT32: *count = bytes / 4; return BANYAN_INT32;
  case BY_FRAGMENT_FLOAT16: *count = bytes / 2; return BANYAN_FLOAT16;
  case BY_FRAGMENT_BFLOAT16: *count = bytes / 2; return BANYAN_BFLOAT16;
  default: *count = bytes / 4; return BANYAN_FLOAT32;
  }
}

/* Tells whether workers must send the slot's next terms past switches. The previous sum has requested that for this
 * one. */
static bool resend_past(struct by_server *s, const struct sum *sum) {
  if (!sum->past) s->trouble = sum->troubled ? s->trouble + 1 : s->trouble > UNTROUBLED ? s->trouble - UNTROUBLED : 0;
  if (s->trouble > s->config.slots) {
    bool soon = s->past_next && s->counters.results - s->past_ended < 4 * (uint64_t)s->past_next;
    s->past_next = !soon ? PAST : s->past_next < PAST_MOST ? 2 * s->past_next : PAST_MOST;
    s->past = s->past_next;
    s->past_ended = s->counters.results + s->past;
    s->trouble = 0;
    by_info("innetwork", "tree %u: switches do not help; the next %u terms go past them", s->config.job, s->past);
  }
  if (!s->past) return false;
  s->past--;
  return true;
}

/* Adds up the parts. In exact mode it first adds what switches would have added, as they do. */
static void add_up(struct by_server *s, struct sum *sum, struct by_fragment *result) {
  const void *sources[BY_TREE_WORKERS], *exponents[BY_TREE_WORKERS];
  size_t n = 0, count, bytes = by_sum_number_bytes(&s->key, result);
  enum banyan_dtype dtype = dtype_of(result, bytes, &count);
  result->check = 0;
  for (unsigned i = 0; s->config.exact && i < s->config.n_sets; i++)
    by_parts_fold(&s->parts, &sum->parts, s->sets[i], dtype, count);
  for (uint32_t i = sum->parts; i != BY_NO_PART; i = s->parts.parts[i].next) {
    sources[n] = by_parts_payload(&s->parts, i);
    exponents[n] = (const unsigned char *)sources[n] + bytes;
    n++;
    result->check += s->parts.parts[i].check;
  }
  if (count) by_kernel_reduce(dtype, BANYAN_SUM)(result + 1, sources, n, count);
  if (s->key.words)
    by_kernel_reduce(BANYAN_INT64, BANYAN_SUM)((char *)(result + 1) + bytes, exponents, n, s->key.words);
}

/* Computes the result. `last` completes the sum and, if switches have added everything, is the sum. The check of pairs
 * is the sum of the parts' checks; that of others is computed again. */
static void compute_result(struct by_server *s, struct sum *sum, struct by_fragment *result,
                           const struct by_fragment *last) {
  if (is_of_all(s, last)) {
    memcpy(result + 1, last + 1, (size_t)last->lines * BY_FRAGMENT_LINE);
    result->check = last->check;
  } else {
    add_up(s, sum, result);
  }
  if (result->dtype != BY_FRAGMENT_PAIRS) result->check = by_sum_check(&s->key, result, s->all.workers);
}

static void end_trial(struct by_server *s) {
  for (unsigned w = 0; w < by_workers_of(&s->config.groups); w++) {
    struct by_server_worker *worker = &s->workers[w];
    if (!worker->unicast_trials || --worker->unicast_trials) continue;
    if (worker->missed >= UNICAST_TRIALS / 2) worker->unicast_trials = UNICAST_TRIALS;
    worker->missed = 0;
  }
}

static void complete_sum(struct by_server *s, struct by_server_slot *slot, struct sum *sum, struct by_fragment *result,
                         const struct by_fragment *last) {
  compute_result(s, sum, result, last);
  by_parts_clear(&s->parts, &sum->parts);
  slot->done = true;
  result->workers = s->all.workers;
  sum->resends_past = resend_past(s, sum);
  result->flags = (uint8_t)(sum->flags | (sum->resends_past ? BY_FRAGMENT_ESCALATE : 0));
  s->counters.last[worker_of(s, last)]++;
  sum->order = ++s->order;
  s->counters.results++;
  sum->trial = s->counters.results % JUDGED == 0;
  if (sum->trial) end_trial(s);
  by_server_send_to_all(s, result, sum->trial);
}

/* --- terms --- */

static void begin_sum(const struct by_server *s, struct by_server_slot *slot, struct by_fragment *result,
                      const struct by_fragment *packet) {
  slot->epoch = packet->epoch;
  slot->done = false;
  struct sum *sum = sum_of(slot, packet->epoch);
  *sum = empty_sum(s, sum->workers);
  sum->begun = true;
  sum->past = sum_of(slot, packet->epoch - 1)->resends_past;
  *result = by_server_answer(s, packet, BY_FRAGMENT_RESULT, 0);
  result->group = s->all.group;
}

/* Detects that workers make different calls, and tells all of them which ones do. Returns true in that case, or if a
 * packet claims it without proof. `authenticated`: it was made with the job's secret. */
static bool is_mismatch(struct by_server *s, struct sum *sum, struct by_fragment *result,
                        const struct by_fragment *packet, bool authenticated) {
  bool same = packet->call == result->call;
  if (same && authenticated) add_set(s, sum->callers, by_set_of_packet(packet));
  if (same && is_empty(s, sum->others)) return false;
  uint64_t senders[BY_FRAGMENT_GROUPS] = {0};
  add_set(s, senders, by_set_of_packet(packet));
  if (same) {
    by_server_send_nacks(s, packet, senders, sum->call, sum->others);
    return true;
  }
  if (!authenticated) {
    s->counters.failed_checks++;
    return true;
  }
  if (is_empty(s, sum->callers)) { /* No authenticated packet has confirmed the call for which this sum was begun. */
    by_parts_clear(&s->parts, &sum->parts);
    memset(sum->workers, 0, s->config.groups.n * sizeof *sum->workers);
    add_set(s, sum->callers, by_set_of_packet(packet));
    result->call = packet->call;
    return false;
  }
  s->counters.mismatches++;
  sum->call = packet->call;
  add_set(s, sum->others, by_set_of_packet(packet));
  by_server_send_nacks(s, packet, senders, result->call, sum->callers);
  by_server_send_nacks(s, packet, sum->callers, packet->call, senders);
  return true;
}

static bool is_single(const struct by_server *s, const struct by_fragment *packet) {
  return by_set_count(&s->config.groups, by_set_of_packet(packet)) == 1;
}

/* Verifies a packet. An invalid one has no effect. */
static bool is_valid(const struct by_server *s, const struct by_fragment *packet) {
  if (!by_set_is_within(&s->config.groups, by_set_of_packet(packet))) return false;
  if (packet->type == BY_FRAGMENT_PROBE) return by_sum_header_is_valid(&s->key, packet);
  if (packet->dtype != BY_FRAGMENT_PAIRS && !s->config.exact && !is_single(s, packet)) return false;
  return packet->check == by_sum_check(s->config.exact ? &s->open : &s->key, packet, packet->workers);
}

/* Handles a packet with a wrong check. If it is a sum, one of its terms was changed or forged, maybe in a cell that
 * will not repeat the others: missing terms are requested at once, unmerged. This is limited for each epoch of a slot,
 * so that forged sums cause little traffic; beyond that workers' timeouts recover the terms. */
static void handle_invalid(struct by_server *s, struct by_server_slot *slot, const struct by_fragment *packet) {
  const struct sum *sum = sum_of(slot, packet->epoch);
  struct by_worker_set set = by_set_of_packet(packet);
  bool begun = slot->epoch == packet->epoch && sum->begun;
  uint64_t lacking[BY_FRAGMENT_GROUPS] = {0};
  s->counters.failed_checks++;
  if (packet->type != BY_FRAGMENT_UP || !by_set_is_within(&s->config.groups, set) || is_single(s, packet)) return;
  for (uint32_t g = 0; g < s->config.groups.n; g++)
    lacking[g] = by_set_part(&s->config.groups, set, g) & ~(begun ? sum->workers[g] : 0);
  if (is_empty(s, lacking)) return;
  if (slot->invalid_epoch != packet->epoch) slot->nacks = 0;
  slot->invalid_epoch = packet->epoch;
  if (slot->nacks == NACKS) return;
  slot->nacks++;
  by_debug("innetwork", "tree %u: a sum in slot %u epoch %u has a wrong check; asking for its terms unmerged",
           packet->job, packet->slot, packet->epoch);
  by_server_send_nacks(s, packet, lacking, packet->call, NULL);
}

static void add_term(struct by_server *s, struct by_server_slot *slot, struct sum *sum, struct by_fragment *result,
                     const struct by_fragment *packet) {
  if (packet->flags & BY_FRAGMENT_UNMERGED) sum->unmerged = true;
  enum by_parts_added added = BY_PARTS_NEW;
  if (is_of_all(s, packet)) /* It replaces all parts, and is used before another packet arrives. */
    by_parts_clear(&s->parts, &sum->parts);
  else
    added = by_parts_add(&s->parts, &sum->parts, by_set_of_packet(packet), packet);
  switch (added) {
  case BY_PARTS_NEW: break;
  case BY_PARTS_DUPLICATE: s->counters.duplicates++; return;
  case BY_PARTS_OVERLAPPING:
    s->counters.overlapping++;
    sum->unmerged = true;
    return;
  default: s->counters.no_room++; return;
  }
  s->counters.terms++;
  if (!is_single(s, packet)) s->counters.merged++;
  if (packet->flags & BY_FRAGMENT_UNMERGED) s->counters.unmerged++;
  if (packet->flags & BY_FRAGMENT_ESCALATE && packet->dtype == BY_FRAGMENT_PAIRS) sum->troubled = true;
  add_set(s, sum->workers, by_set_of_packet(packet));
  sum->flags |= packet->flags & BY_FRAGMENT_STICKY;
  if (has_all(s, sum->workers)) complete_sum(s, slot, sum, result, packet);
}

static void handle_term(struct by_server *s, struct by_server_slot *slot, const struct by_fragment *packet) {
  struct sum *sum = sum_of(slot, packet->epoch);
  struct by_fragment *result = packet_of(s, packet->slot, packet->epoch);
  if (slot->epoch != packet->epoch) begin_sum(s, slot, result, packet);
  if (is_mismatch(s, sum, result, packet, !s->config.exact)) return;
  if (is_empty(s, sum->workers)) { /* The first accepted term determines the properties that all must share. */
    result->dtype = packet->dtype;
    result->lines = packet->lines;
    result->exponent = packet->exponent;
  }
  if (packet->dtype == result->dtype && packet->lines == result->lines && packet->exponent == result->exponent)
    add_term(s, slot, sum, result, packet);
  else
    s->counters.failed_checks++;
}
static void handle_probe(struct by_server *s, struct by_server_slot *slot, const struct by_fragment *packet) {
  struct sum *sum = sum_of(slot, packet->epoch);
  struct by_fragment *result = packet_of(s, packet->slot, packet->epoch);
  if (slot->epoch != packet->epoch) begin_sum(s, slot, result, packet);
  if (is_mismatch(s, sum, result, packet, true)) return;
  if (by_server_knows(s, sum, packet)) return;
  bool past = sum->unmerged || (slot->nacks && slot->invalid_epoch == packet->epoch);
  by_server_reply(s, packet, sum->workers, past ? BY_FRAGMENT_ESCALATE : 0);
}

/* --- handling packets --- */

/* Late packets are not verified, as a late term has no effect. No worker can be ahead or behind otherwise. */
static void handle_packet(struct by_server *s, const struct by_fragment *packet) {
  struct by_server_slot *slot = &s->slots[packet->slot];
  int32_t after = by_epoch_distance(packet->epoch, slot->epoch);
  struct by_fragment *result = packet_of(s, packet->slot, packet->epoch);
  bool over = after == -1 || (after == 0 && slot->done);
  bool known = sum_of(slot, packet->epoch)->begun && result->call == packet->call;
  if (over ? !known : after < 0 || after > 1 || (after == 1 && !slot->done)) {
    s->counters.foreign++;
    return;
  }
  bool probe = packet->type == BY_FRAGMENT_PROBE;
  if ((!over || probe) && !is_valid(s, packet)) {
    handle_invalid(s, slot, packet);
    return;
  }
  if (probe && !by_replay_take(&s->workers[worker_of(s, packet)].probes, by_fragment_sequence(packet))) {
    s->counters.replayed++;
    return;
  }
  if (probe && ((const struct by_probe_payload *)(const void *)(packet + 1))->newest & BY_PROBE_UNREACHED)
    by_server_note_no_multicasts(s, worker_of(s, packet));
  if ((!over || probe) && is_single(s, packet)) s->workers[worker_of(s, packet)].straight = !packet->hops;
  if (over)
    by_server_repeat(s, packet, result);
  else if (probe)
    handle_probe(s, slot, packet);
  else
    handle_term(s, slot, packet);
}

void by_server_take(struct by_server *s, const struct by_fragment *packet, size_t bytes) {
  enum by_fragment_fault fault = by_fragment_verify(packet, bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes, s->hop);
  if (fault != BY_FRAGMENT_SOUND) {
    s->counters.forged += fault == BY_FRAGMENT_FORGED;
    s->counters.malformed += fault != BY_FRAGMENT_FORGED;
    return;
  }
  bool fits = packet->type == BY_FRAGMENT_PROBE || (packet->type == BY_FRAGMENT_UP && packet->lines <= s->config.lines);
  if (fits && packet->job == s->config.job && packet->key == s->config.key && packet->slot < s->config.slots)
    handle_packet(s, packet);
  else
    s->counters.foreign++;
}

const struct by_server_counters *by_server_counters(const struct by_server *s) {
  return &s->counters;
}
