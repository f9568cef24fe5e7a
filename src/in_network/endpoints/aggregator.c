/* Verifies packets, adds terms in cells as a switch does, and forwards sums and results. */
#include "server.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "fail.h"
#include "step.h"
#include "sum_key.h"

/* It is the only aggregator between a worker and the server. */
enum { PLACE = 0, ANY_PORT = 0 };

struct by_aggregator {
  struct by_aggregator_config config;
  struct by_sum_key key, open; /* Keys of results and terms, and of terms in exact mode. */
  struct by_hop_key hop_key;   /* Valid if it is keyed. */
  struct by_replay_window *windows;
  struct by_aggregator_counters counters;
  struct by_grant grant;
  struct by_cells cells;
  struct by_float_sums floats;
  struct by_fragment *packet; /* Memory for one packet. */
};

/* Allows any port: a packet's type determines its direction, and its check authenticates its sender. */
static struct by_grant grant_of(const struct by_aggregator_config *c) {
  return (struct by_grant){.below = ~0ull,
                           .above = ~0ull,
                           .count = c->slots,
                           .job = c->job,
                           .key = c->key,
                           .keyed = c->keyed,
                           .dtype = c->exact ? BY_FRAGMENT_FLOAT32 : BY_FRAGMENT_PAIRS,
                           .place = PLACE};
}

static enum banyan_status make_cells(struct by_aggregator *a) {
  const struct by_aggregator_config *c = &a->config;
  size_t lines = c->lines < BY_PROBE_LINES ? BY_PROBE_LINES : c->lines;
  a->packet = aligned_alloc(BY_FRAGMENT_LINE, (1 + lines) * BY_FRAGMENT_LINE);
  a->cells.count = c->slots;
  a->cells.cells = calloc(c->slots, sizeof *a->cells.cells);
  a->cells.sums = malloc(c->slots * sizeof *a->cells.sums);
  a->windows = calloc(BY_REPLAY_SENDERS, sizeof *a->windows); /* Memory is used only when a worker sends probes. */
  if (!a->packet || !a->windows || !a->cells.cells || !a->cells.sums)
    return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for an aggregator of %u slots", c->slots);
  if (!c->exact) return BANYAN_OK;
  a->cells.floats = &a->floats;
  BY_TRY(by_float_sums_init(&a->floats, c->slots));
  return by_sum_key_init_open(&a->open);
}

enum banyan_status by_aggregator_create(const struct by_aggregator_config *c, struct by_aggregator **out) {
  if (!by_groups_are_valid(&c->groups) || c->slots < 1 || c->slots > UINT16_MAX || c->lines < 1 ||
      c->lines > BY_FRAGMENT_LINES)
    return by_fail(BANYAN_ERR_ARGUMENT, "an aggregator of %u groups, %u slots of %u lines: give 1 to %d, %d and %d",
                   c->groups.n, c->slots, c->lines, BY_FRAGMENT_GROUPS, UINT16_MAX, BY_FRAGMENT_LINES);
  struct by_aggregator *a = calloc(1, sizeof *a);
  if (!a) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for an aggregator");
  a->config = *c;
  a->grant = grant_of(c);
  enum banyan_status status = make_cells(a);
  if (status == BANYAN_OK) status = by_sum_key_init(&a->key, c->secret, c->secret_bytes, &c->groups, !c->exact);
  if (status == BANYAN_OK && c->keyed)
    status = by_hop_key_of_tree(c->secret, c->secret_bytes, c->job, c->key, &a->hop_key);
  if (status != BANYAN_OK) {
    by_aggregator_destroy(a);
    return status;
  }
  *out = a;
  return BANYAN_OK;
}

void by_aggregator_destroy(struct by_aggregator *a) {
  if (!a) return;
  by_float_sums_fini(&a->floats);
  free(a->cells.cells);
  free(a->cells.sums);
  free(a->packet);
  free(a->windows);
  explicit_bzero(a, sizeof *a);
  free(a);
}

/* Results for one worker, replies and NACKs are sent directly to the worker. */
static bool is_ours(const struct by_aggregator *a, const struct by_fragment *packet) {
  bool passes = packet->type == BY_FRAGMENT_UP || packet->type == BY_FRAGMENT_PROBE;
  return (passes || packet->type == BY_FRAGMENT_RESULT_MC) && packet->job == a->config.job &&
         packet->key == a->config.key && packet->slot < a->config.slots &&
         (packet->lines <= a->config.lines || packet->type == BY_FRAGMENT_PROBE) &&
         by_set_is_within(&a->config.groups, by_set_of_packet(packet));
}

/* Verifies a packet as its receivers would. A result must be of all workers: one of them cannot forge it alone. */
static bool is_valid(const struct by_aggregator *a, const struct by_fragment *packet) {
  struct by_worker_set all = by_set_of_all(&a->config.groups);
  if (packet->type == BY_FRAGMENT_PROBE) return by_sum_header_is_valid(&a->key, packet);
  if (packet->type == BY_FRAGMENT_RESULT_MC && (packet->group != all.group || packet->workers != all.workers))
    return false;
  bool open = a->config.exact && packet->type == BY_FRAGMENT_UP;
  return packet->check == by_sum_check(open ? &a->open : &a->key, packet, packet->workers);
}

void by_aggregator_take(struct by_aggregator *a, const struct by_fragment *packet, size_t bytes, uint64_t now) {
  uint32_t length = bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
  const struct by_hop_key *key = a->config.keyed ? &a->hop_key : NULL;
  enum by_fragment_fault fault = by_fragment_verify(packet, length, key);
  if (fault != BY_FRAGMENT_SOUND) {
    a->counters.events[fault == BY_FRAGMENT_FORGED ? BY_EVENT_FORGED : BY_EVENT_MALFORMED]++;
    return;
  }
  if (!is_ours(a, packet)) {
    a->counters.foreign++;
    return;
  }
  if (!is_valid(a, packet)) {
    a->counters.failed_checks++;
    return;
  }
  memcpy(a->packet, packet, length);
  struct by_verdict verdict =
      by_switch_pass(&a->grant, key, a->windows, &a->cells, a->packet, ANY_PORT, (uint32_t)(now / BY_MILLISECOND));
  a->counters.events[verdict.event]++;
  if (verdict.kind == BY_VERDICT_DROP) return;
  a->config.emit(a->config.context, a->packet,
                 verdict.kind == BY_VERDICT_MULTICAST ? BY_AGGREGATOR_DOWN : BY_AGGREGATOR_UP);
}

const struct by_aggregator_counters *by_aggregator_counters(const struct by_aggregator *a) {
  return &a->counters;
}
