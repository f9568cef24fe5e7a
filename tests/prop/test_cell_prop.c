/* One switch is compared with a model that is written independently: the model records which workers have contributed
 * and adds from scratch what it sends. The input is random packets of two jobs, some absurd, under grants that are
 * added, removed and changed. */
#include "check.h"
#include "random_fragments.h"
#include "step.h"

enum { STEPS = 3000000 };

struct model_cell {
  bool used, complete, released, has[64];
  struct packet like; /* The first packet that arrived. */
  uint64_t epoch;     /* An epoch that does not wrap. */
  uint32_t expected;
  uint32_t confirmed; /* When a result or the first term arrived, in ms. */
  uint16_t sticky;
};

/* Numbers of one sender; they do not wrap. */
struct model_window {
  uint32_t grant; /* of which these are; 0: none yet */
  uint64_t highest, taken[256];
};

struct world {
  struct by_hop_key key;
  struct by_replay_window windows[JOBS][BY_REPLAY_SENDERS];
  struct model_window model_windows[JOBS][BY_REPLAY_SENDERS];
  uint32_t grants[JOBS]; /* so many have been given, and 1 */
  struct source source;
  struct by_cell cells[CELLS];
  uint64_t sums[CELLS][BY_CELL_PAIRS];
  struct model_cell model[JOBS][SLOTS];
  uint64_t events[BY_EVENTS];
};

/* What the model predicts. */
struct forecast {
  struct by_verdict verdict;
  struct packet packet;
};

static struct by_verdict verdict_of(enum by_verdict_kind kind, uint32_t port, enum by_event event) {
  return (struct by_verdict){.kind = (uint8_t)kind, .port = (uint8_t)port, .event = (uint8_t)event};
}

static struct by_verdict leave_alone(struct packet *packet, uint32_t port, uint32_t flag, enum by_event event) {
  packet->head.flags |= (uint8_t)flag;
  return verdict_of(BY_VERDICT_FORWARD, port, event);
}

static uint32_t contributors(const bool *has) {
  uint32_t n = 0;
  for (int i = 0; i < 64; i++) n += has[i];
  return n;
}

static struct by_verdict send_sum(struct model_cell *cell, struct packet *packet, uint32_t port, enum by_event event) {
  uint64_t workers = 0;
  for (int i = 0; i < 64; i++)
    if (cell->has[i]) workers |= 1ull << i;
  fill_terms(packet, workers);
  if (cell->expected > 64 && cell->expected <= 128) { /* a whole group */
    packet->head.rank = packet->head.group;
    packet->head.workers = 1ull << packet->head.group;
    packet->head.group = BY_FRAGMENT_UNITED;
  }
  packet->head.flags |= (uint8_t)(cell->sticky | BY_FRAGMENT_AGGREGATED);
  return verdict_of(BY_VERDICT_FORWARD, port, event);
}

static bool alike(const struct by_fragment *a, const struct by_fragment *b) {
  return a->call == b->call && a->dtype == b->dtype && a->lines == b->lines && a->exponent == b->exponent &&
         a->group == b->group;
}

static bool is_far(const struct model_cell *cell, uint64_t epoch) {
  return epoch > cell->epoch + 4 || epoch + 4 < cell->epoch;
}

static bool is_lost(const struct model_cell *cell, uint64_t epoch, bool keyed, uint32_t now) {
  return is_far(cell, epoch) && now > cell->confirmed + (keyed && epoch < cell->epoch ? 60000u : 250u);
}

static bool model_replays(struct model_window *window, uint32_t grant, uint64_t number) {
  bool used = window->grant == grant;
  if (!used) memset(window->taken, 0, sizeof window->taken);
  if (used && (number + 64 <= window->highest || window->taken[number % 256] == number)) return true;
  window->taken[number % 256] = number;
  window->highest = used && window->highest > number ? window->highest : number;
  window->grant = grant;
  return false;
}

static struct by_verdict model_up(struct model_cell *cell, struct packet *packet, uint64_t epoch, struct by_hop hop,
                                  bool keyed, uint32_t now) {
  uint64_t workers = packet->head.workers;
  uint32_t most = hop.workers % 64 ? hop.workers % 64u : 64;
  uint32_t shared = 0, total = 0, n = 0;
  bool known = cell->used && !is_lost(cell, epoch, keyed, now);
  if (known && (epoch < cell->epoch || (epoch == cell->epoch && cell->released)))
    return leave_alone(packet, hop.port, BY_FRAGMENT_STALE, BY_EVENT_STALE);
  if (known && is_far(cell, epoch)) return leave_alone(packet, hop.port, BY_FRAGMENT_BUSY, BY_EVENT_CONFLICT);
  bool first = !known || epoch > cell->epoch;
  for (int i = 0; i < 64; i++) {
    bool there = !first && cell->has[i], here = workers >> i & 1;
    shared += there && here;
    total += there || here;
    n += here;
  }
  bool odd = !first && (!alike(&cell->like.head, &packet->head) || cell->expected != hop.workers);
  bool inside = shared == n;
  if (odd || total > most || (shared && !inside))
    return leave_alone(packet, hop.port, BY_FRAGMENT_BUSY, BY_EVENT_CONFLICT);
  if (inside && !cell->complete) return verdict_of(BY_VERDICT_DROP, 0, BY_EVENT_DUPLICATE);
  if (inside) return send_sum(cell, packet, hop.port, BY_EVENT_REPEATED);
  if (first)
    *cell =
        (struct model_cell){.used = true, .like = *packet, .epoch = epoch, .expected = hop.workers, .confirmed = now};
  for (int i = 0; i < 64; i++) cell->has[i] |= workers >> i & 1;
  cell->sticky |= packet->head.flags & BY_FRAGMENT_CE;
  cell->complete = contributors(cell->has) == most;
  if (cell->complete) return send_sum(cell, packet, hop.port, BY_EVENT_COMPLETED);
  return verdict_of(BY_VERDICT_DROP, 0, first ? BY_EVENT_STORED : BY_EVENT_ADDED);
}

static enum by_event model_result(struct model_cell *cell, uint64_t epoch, bool keyed, uint32_t now) {
  if (!cell || !cell->used) return BY_EVENT_RESULT;
  if (is_far(cell, epoch) ? !is_lost(cell, epoch, keyed, now) : epoch < cell->epoch) return BY_EVENT_RESULT;
  cell->confirmed = now;
  if (cell->released && cell->epoch == epoch) return BY_EVENT_RESULT;
  if (cell->epoch != epoch) memset(cell->has, 0, sizeof cell->has);
  cell->released = true;
  cell->epoch = epoch;
  return BY_EVENT_RELEASED;
}

static void model_probe(const struct model_cell *cell, struct packet *packet, uint32_t place) {
  struct by_probe *record = &((struct by_probe_payload *)packet->pairs)->records[place];
  record->seen = 1;
  record->granted = cell != NULL;
  if (!cell || !cell->used) return;
  record->state = cell->released ? BY_CELL_RELEASED : cell->complete ? BY_CELL_COMPLETE : BY_CELL_FILLING;
  record->epoch = (uint32_t)cell->epoch;
  record->group = cell->like.head.group;
  for (int i = 0; i < 64; i++) record->workers |= (uint64_t)cell->has[i] << i;
}

/* Returns whether the switch keeps a probe: it only asks for the result, and the terms of all its workers wait
 * here. */
static bool model_keeps(const struct model_cell *cell, const struct by_fragment *probe, uint64_t epoch) {
  if (!cell || !cell->used || cell->released || cell->complete || cell->epoch != epoch) return false;
  if (!(probe->flags & BY_FRAGMENT_RETX) || probe->flags & BY_FRAGMENT_UNMERGED) return false;
  uint8_t group = cell->like.head.group;
  if (group != probe->group) return group == BY_FRAGMENT_UNITED && cell->has[probe->group];
  for (int i = 0; i < 64; i++)
    if (probe->workers >> i & 1 && !cell->has[i]) return false;
  return true;
}

static struct by_verdict model_known(struct world *world, const struct by_grant *grant, struct packet *packet,
                                     uint64_t epoch, uint32_t from) {
  struct by_fragment *head = &packet->head;
  struct model_cell *cell = head->slot < grant->count ? &world->model[grant->job][head->slot] : NULL;
  if (grant->keyed && head->type >= BY_FRAGMENT_PROBE &&
      model_replays(&world->model_windows[grant->job][by_replay_sender(head)], world->grants[grant->job],
                    world->source.numbered))
    return verdict_of(BY_VERDICT_DROP, 0, BY_EVENT_REPLAYED);
  if (head->key != grant->key) return verdict_of(BY_VERDICT_DROP, 0, BY_EVENT_WRONG_KEY);
  if (head->hop++ == BY_FRAGMENT_HOPS) return verdict_of(BY_VERDICT_DROP, 0, BY_EVENT_MALFORMED);
  if (head->type == BY_FRAGMENT_RESULT_MC) {
    if (from != 3) return verdict_of(BY_VERDICT_DROP, 0, BY_EVENT_WRONG_PORT);
    return verdict_of(BY_VERDICT_MULTICAST, 0, model_result(cell, epoch, grant->keyed, world->source.now));
  }
  if (grant->place >= head->hops) return verdict_of(BY_VERDICT_PASS, 0, BY_EVENT_NO_ENTRY);
  struct by_hop hop = head->stack[grant->place];
  if (hop.workers > 192) return verdict_of(BY_VERDICT_DROP, 0, BY_EVENT_MALFORMED);
  bool from_below = from == 2 ? grant->job == 1 : from < 2 && grant->job == 0;
  bool to_below = hop.port == 2 ? grant->job == 1 : hop.port < 2 && grant->job == 0;
  bool up = from_below && hop.port == 3 && head->type != BY_FRAGMENT_RESULT && head->type != BY_FRAGMENT_PROBE_REPLY;
  bool down = from == 3 && to_below && head->type != BY_FRAGMENT_UP && head->type != BY_FRAGMENT_PROBE;
  if (!up && !down) return verdict_of(BY_VERDICT_DROP, 0, BY_EVENT_WRONG_PORT);
  if (!hop.workers) cell = NULL;
  if (head->type == BY_FRAGMENT_PROBE) model_probe(cell, packet, grant->place);
  if (head->type == BY_FRAGMENT_PROBE && model_keeps(cell, head, epoch))
    return verdict_of(BY_VERDICT_DROP, 0, BY_EVENT_DUPLICATE);
  if (head->type == BY_FRAGMENT_PROBE) return verdict_of(BY_VERDICT_FORWARD, hop.port, BY_EVENT_PROBED);
  if (head->type == BY_FRAGMENT_RESULT)
    return verdict_of(BY_VERDICT_FORWARD, hop.port, model_result(cell, epoch, grant->keyed, world->source.now));
  if (head->type != BY_FRAGMENT_UP) return verdict_of(BY_VERDICT_FORWARD, hop.port, BY_EVENT_FORWARDED);
  if (head->flags & BY_FRAGMENT_UNMERGED) return verdict_of(BY_VERDICT_FORWARD, hop.port, BY_EVENT_UNMERGED);
  if (!hop.workers) return verdict_of(BY_VERDICT_FORWARD, hop.port, BY_EVENT_FORWARDED);
  if ((hop.workers > 128) != (head->group == BY_FRAGMENT_UNITED))
    return leave_alone(packet, hop.port, BY_FRAGMENT_BUSY, BY_EVENT_CONFLICT);
  if (!cell || head->dtype != BY_FRAGMENT_PAIRS)
    return leave_alone(packet, hop.port, BY_FRAGMENT_BUSY, BY_EVENT_NO_CELL);
  return model_up(cell, packet, epoch, hop, grant->keyed, world->source.now);
}

static struct by_verdict model_unknown(const struct packet *packet) {
  const struct by_fragment *head = &packet->head;
  if (head->type == BY_FRAGMENT_RESULT_MC) return verdict_of(BY_VERDICT_DROP, 0, BY_EVENT_NO_GRANT);
  return verdict_of(BY_VERDICT_PASS, 0, BY_EVENT_NO_GRANT);
}

static void step(struct world *world) {
  static struct packet packet, wanted;
  uint64_t epoch;
  uint32_t from = random_packet(&world->source, &packet, &epoch), bytes = by_fragment_bytes(&packet.head);
  const struct by_grant *grant = grant_of(&world->source, packet.head.job);
  struct by_cells cells = {world->cells, world->sums, CELLS, NULL};
  struct by_verdict expected = verdict_of(BY_VERDICT_DROP, 0, BY_EVENT_MALFORMED);
  const struct by_hop_key *key = grant && grant->keyed ? &world->key : NULL;
  bool forged = key && rarely(&world->source); /* it has a seal */
  if (!forged) by_fragment_sign(&packet.head, key);
  wanted = packet;
  if (forged)
    expected.event = BY_EVENT_FORGED;
  else if (rarely(&world->source)) {
    bytes = spoil(&world->source, &packet, bytes);
    wanted = packet;
    if (!grant && by_fragment_check_fields(&packet.head, bytes) == BY_FRAGMENT_SOUND) expected = model_unknown(&wanted);
  } else
    expected = grant ? model_known(world, grant, &wanted, epoch, from) : model_unknown(&wanted);
  struct by_verdict got = by_switch_step(grant, key, grant ? world->windows[grant->job] : NULL, &cells, &packet.head,
                                         bytes, from, world->source.now);
  if (got.event == BY_EVENT_FORGED && expected.event == BY_EVENT_MALFORMED) expected.event = BY_EVENT_FORGED;
  assert_int_equal(got.event, expected.event);
  assert_int_equal(got.kind, expected.kind);
  world->events[got.event]++;
  if (got.kind == BY_VERDICT_DROP) return;
  if (got.kind == BY_VERDICT_FORWARD) assert_int_equal(got.port, expected.port);
  if (grant) by_fragment_sign(&wanted.head, key);
  assert_memory_equal(&packet, &wanted, by_fragment_bytes(&wanted.head));
  if (!grant) return; /* it stays as it is */
  assert_int_equal(by_fragment_verify(&packet.head, bytes, key), BY_FRAGMENT_SOUND);
}

static void test_against_the_model(void **state) {
  (void)state;
  static struct world world;
  init_source(&world.source, 4);
  for (size_t i = 0; i < sizeof world.key; i++) ((unsigned char *)&world.key)[i] = (unsigned char)(i * 41 + 7);
  for (uint32_t job = 0; job < JOBS; job++) world.grants[job] = 1;
  for (uint32_t i = 0; i < STEPS / check_share(); i++) {
    uint32_t job = pick(&world.source, JOBS);
    if (pick(&world.source, 500) == 0) {
      renew_grant(&world.source, job);
      world.source.grants[job].keyed = pick(&world.source, 2) != 0;
      memset(world.model[job], 0, sizeof world.model[job]);
      memset(world.windows[job], 0, sizeof world.windows[job]);
      world.grants[job]++;
    }
    step(&world);
  }
  for (uint32_t event = 0; event < BY_EVENTS; event++) {
    if (world.events[event] < 500 / check_share())
      print_error("event %u came %lu times\n", event, (unsigned long)world.events[event]);
    assert_true(world.events[event] >= 500 / check_share());
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_the_model)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
