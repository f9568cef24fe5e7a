/* One switch against a model of it that is written apart: the model keeps who has contributed and adds up afresh what
 * it sends. Random packets of two jobs, some absurd, under grants that come, go and change. */
#include "check.h"
#include "fragment_terms.h"
#include "rng.h"
#include "step.h"

enum { STEPS = 3000000, JOBS = 2, SLOTS = 4, CELLS = 6, WORKERS = 5 };

struct model_cell {
  bool used, complete, released, has[64];
  struct packet like; /* the first that came */
  uint64_t epoch;     /* does not wrap */
  uint32_t expected;
  uint16_t sticky;
  uint8_t ahead;
};

struct world {
  struct by_rng rng;
  struct by_grant grants[JOBS];
  bool granted[JOBS];
  struct by_cell cells[CELLS];
  uint64_t sums[CELLS][BY_CELL_PAIRS];
  struct model_cell model[JOBS][SLOTS];
  uint64_t epochs[JOBS][SLOTS];
  uint64_t events[BY_EVENTS];
};

static uint32_t pick(struct world *world, uint32_t n) {
  return (uint32_t)by_rng_below(&world->rng, n);
}

static bool rarely(struct world *world) {
  return pick(world, 24) == 0;
}

/* Job 0's workers are at ports 0 and 1, job 1's at 2; both servers are at 3. */
static void grant(struct world *world, uint32_t job) {
  struct by_grant *grant = &world->grants[job];
  world->granted[job] = pick(world, 6) > 0;
  *grant = (struct by_grant){.below = job ? 4 : 3,
                             .above = 8,
                             .base = job * 3,
                             .count = pick(world, 4),
                             .job = (uint16_t)job,
                             .key = (uint16_t)(grant->key + 1),
                             .dtype = BY_FRAGMENT_PAIRS};
  memset(world->model[job], 0, sizeof world->model[job]);
}

static uint64_t some_workers(struct world *world) {
  uint64_t workers = 1ull << pick(world, WORKERS);
  while (pick(world, 3) == 0) workers |= 1ull << pick(world, WORKERS);
  return rarely(world) ? workers | 1ull << pick(world, 64) : workers;
}

static uint16_t some_flags(struct world *world) {
  static const uint16_t unmerged[] = {BY_FRAGMENT_ESCALATE, BY_FRAGMENT_STALE, BY_FRAGMENT_BUSY};
  uint16_t flags = 0;
  if (pick(world, 8) == 0) flags |= BY_FRAGMENT_RETX;
  if (pick(world, 8) == 0) flags |= BY_FRAGMENT_CE;
  if (pick(world, 8) == 0) flags |= BY_FRAGMENT_OVERFLOW;
  if (rarely(world)) flags |= unmerged[pick(world, 3)];
  return flags;
}

static uint8_t some_type(struct world *world) {
  static const uint8_t types[] = {BY_FRAGMENT_RESULT, BY_FRAGMENT_RESULT_MC, BY_FRAGMENT_PROBE, BY_FRAGMENT_PROBE_REPLY,
                                  BY_FRAGMENT_NACK};
  return pick(world, 4) ? BY_FRAGMENT_UP : types[pick(world, 5)];
}

/* Ports and stack: one or two switches, this one first or second. */
static uint32_t some_way(struct world *world, struct by_fragment *head, uint32_t job) {
  uint32_t below = job ? 2 : pick(world, 2), above = 3, from = below, to = above;
  bool down = head->type == BY_FRAGMENT_RESULT || head->type == BY_FRAGMENT_RESULT_MC ||
              head->type == BY_FRAGMENT_PROBE_REPLY || (head->type == BY_FRAGMENT_NACK && pick(world, 2));
  if (down) from = above, to = below;
  if (rarely(world)) from = pick(world, 70);
  if (rarely(world)) to = pick(world, 256);
  if (head->type == BY_FRAGMENT_RESULT_MC) {
    head->hop = (uint8_t)pick(world, BY_FRAGMENT_HOPS + 1);
    return from;
  }
  uint8_t workers = (uint8_t)(pick(world, 8) ? WORKERS - job : pick(world, 67));
  head->hop = (uint8_t)pick(world, 2);
  head->hops = (uint8_t)(head->hop + 1 + pick(world, 2));
  head->stack[head->hop] = (struct by_hop){.port = (uint8_t)to, .workers = workers};
  if (rarely(world)) head->hop = head->hops;
  return from;
}

static uint32_t some_packet(struct world *world, struct packet *packet, uint64_t *epoch) {
  struct by_fragment *head = &packet->head;
  uint32_t job = pick(world, JOBS), slot = pick(world, SLOTS);
  uint64_t *now = &world->epochs[job][slot];
  memset(packet, 0, sizeof *packet);
  by_fragment_begin(head, some_type(world), 0);
  if (pick(world, 30) == 0) *now += pick(world, 3);
  *epoch = *now + pick(world, 2) - (pick(world, 12) == 0);
  head->flags = some_flags(world);
  head->job = (uint16_t)(rarely(world) ? JOBS : job);
  head->key = (uint16_t)(world->grants[job].key - rarely(world));
  head->slot = (uint16_t)slot;
  head->epoch = (uint32_t)*epoch;
  head->call = rarely(world);
  head->dtype = rarely(world) ? BY_FRAGMENT_FLOAT32 : BY_FRAGMENT_PAIRS;
  head->exponent = rarely(world);
  head->ahead = (uint8_t)pick(world, 256);
  if (by_fragment_has_terms(head)) head->lines = (uint8_t)(1 + rarely(world));
  head->workers = some_workers(world);
  while (!(head->workers >> head->rank & 1)) head->rank++;
  uint32_t from = some_way(world, head, job);
  if (by_fragment_has_terms(head)) fill_terms(packet, head->workers);
  by_fragment_seal(head);
  return from;
}

/* What the model says. */
struct forecast {
  struct by_verdict verdict;
  struct packet packet;
};

static struct by_verdict say(enum by_verdict_kind kind, uint32_t port, enum by_event event) {
  return (struct by_verdict){(uint8_t)kind, (uint8_t)port, (uint8_t)event};
}

static struct by_verdict leave_alone(struct packet *packet, uint32_t port, uint32_t flag, enum by_event event) {
  packet->head.flags |= (uint16_t)flag;
  return say(BY_VERDICT_FORWARD, port, event);
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
  packet->head.ahead = cell->ahead;
  packet->head.flags |= (uint16_t)(cell->sticky | BY_FRAGMENT_AGGREGATED);
  return say(BY_VERDICT_FORWARD, port, event);
}

static bool alike(const struct by_fragment *a, const struct by_fragment *b) {
  return a->call == b->call && a->dtype == b->dtype && a->lines == b->lines && a->exponent == b->exponent;
}

static struct by_verdict model_up(struct model_cell *cell, struct packet *packet, uint64_t epoch, struct by_hop hop) {
  uint64_t workers = packet->head.workers;
  uint32_t shared = 0, total = 0, n = 0;
  if (cell->used && (epoch < cell->epoch || (epoch == cell->epoch && cell->released)))
    return leave_alone(packet, hop.port, BY_FRAGMENT_STALE, BY_EVENT_STALE);
  bool first = !cell->used || epoch > cell->epoch;
  for (int i = 0; i < 64; i++) {
    bool there = !first && cell->has[i], here = workers >> i & 1;
    shared += there && here;
    total += there || here;
    n += here;
  }
  bool odd = !first && (!alike(&cell->like.head, &packet->head) || cell->expected != hop.workers);
  bool inside = shared == n;
  if (odd || total > hop.workers || (shared && !inside))
    return leave_alone(packet, hop.port, BY_FRAGMENT_BUSY, BY_EVENT_CONFLICT);
  if (inside && !cell->complete) return say(BY_VERDICT_DROP, 0, BY_EVENT_DUPLICATE);
  if (inside) return send_sum(cell, packet, hop.port, BY_EVENT_REPEATED);
  if (first) *cell = (struct model_cell){.used = true, .like = *packet, .epoch = epoch, .expected = hop.workers};
  for (int i = 0; i < 64; i++) cell->has[i] |= workers >> i & 1;
  cell->sticky |= packet->head.flags & (BY_FRAGMENT_CE | BY_FRAGMENT_OVERFLOW);
  cell->ahead = cell->ahead > packet->head.ahead ? cell->ahead : packet->head.ahead;
  cell->complete = contributors(cell->has) == cell->expected;
  if (cell->complete) return send_sum(cell, packet, hop.port, BY_EVENT_COMPLETED);
  return say(BY_VERDICT_DROP, 0, first ? BY_EVENT_STORED : BY_EVENT_ADDED);
}

static enum by_event model_result(struct model_cell *cell, uint64_t epoch) {
  if (!cell || !cell->used || cell->released || cell->epoch != epoch) return BY_EVENT_RESULT;
  cell->released = true;
  return BY_EVENT_RELEASED;
}

static void model_probe(const struct model_cell *cell, struct packet *packet) {
  struct by_probe *record = (struct by_probe *)packet->pairs + (packet->head.hop - 1);
  record->seen = 1;
  record->granted = cell != NULL;
  if (!cell || !cell->used) return;
  record->state = cell->released ? BY_CELL_RELEASED : cell->complete ? BY_CELL_COMPLETE : BY_CELL_FILLING;
  record->epoch = (uint32_t)cell->epoch;
  for (int i = 0; i < 64; i++) record->workers |= (uint64_t)cell->has[i] << i;
}

static struct by_verdict model_known(struct world *world, const struct by_grant *grant, struct packet *packet,
                                     uint64_t epoch, uint32_t from) {
  struct by_fragment *head = &packet->head;
  struct model_cell *cell = head->slot < grant->count ? &world->model[grant->job][head->slot] : NULL;
  if (head->key != grant->key) return say(BY_VERDICT_DROP, 0, BY_EVENT_WRONG_KEY);
  if (head->type == BY_FRAGMENT_RESULT_MC) {
    if (from != 3) return say(BY_VERDICT_DROP, 0, BY_EVENT_WRONG_PORT);
    if (head->hop++ == BY_FRAGMENT_HOPS) return say(BY_VERDICT_DROP, 0, BY_EVENT_MALFORMED);
    return say(BY_VERDICT_MULTICAST, 0, model_result(cell, epoch));
  }
  if (head->hop == head->hops) return say(BY_VERDICT_PASS, 0, BY_EVENT_NO_ENTRY);
  struct by_hop hop = head->stack[head->hop];
  if (hop.workers > 64) return say(BY_VERDICT_DROP, 0, BY_EVENT_MALFORMED);
  bool from_below = from == 2 ? grant->job == 1 : from < 2 && grant->job == 0;
  bool to_below = hop.port == 2 ? grant->job == 1 : hop.port < 2 && grant->job == 0;
  bool up = from_below && hop.port == 3 && head->type != BY_FRAGMENT_RESULT && head->type != BY_FRAGMENT_PROBE_REPLY;
  bool down = from == 3 && to_below && head->type != BY_FRAGMENT_UP && head->type != BY_FRAGMENT_PROBE;
  if (!up && !down) return say(BY_VERDICT_DROP, 0, BY_EVENT_WRONG_PORT);
  head->hop++;
  if (!hop.workers) cell = NULL;
  if (head->type == BY_FRAGMENT_PROBE) model_probe(cell, packet);
  if (head->type == BY_FRAGMENT_PROBE) return say(BY_VERDICT_FORWARD, hop.port, BY_EVENT_PROBED);
  if (head->type == BY_FRAGMENT_RESULT) return say(BY_VERDICT_FORWARD, hop.port, model_result(cell, epoch));
  if (head->type != BY_FRAGMENT_UP) return say(BY_VERDICT_FORWARD, hop.port, BY_EVENT_FORWARDED);
  if (head->flags & BY_FRAGMENT_UNMERGED) return say(BY_VERDICT_FORWARD, hop.port, BY_EVENT_UNMERGED);
  if (!hop.workers) return say(BY_VERDICT_FORWARD, hop.port, BY_EVENT_FORWARDED);
  if (!cell || head->dtype != BY_FRAGMENT_PAIRS)
    return leave_alone(packet, hop.port, BY_FRAGMENT_BUSY, BY_EVENT_NO_CELL);
  return model_up(cell, packet, epoch, hop);
}

static struct by_verdict model_unknown(struct packet *packet) {
  struct by_fragment *head = &packet->head;
  if (head->type == BY_FRAGMENT_RESULT_MC) return say(BY_VERDICT_DROP, 0, BY_EVENT_NO_GRANT);
  if (head->type == BY_FRAGMENT_UP) head->flags |= BY_FRAGMENT_BUSY;
  if (head->hop < head->hops) head->hop++;
  return say(BY_VERDICT_PASS, 0, BY_EVENT_NO_GRANT);
}

static const struct by_grant *grant_of(const struct world *world, uint32_t job) {
  return job < JOBS && world->granted[job] ? &world->grants[job] : NULL;
}

/* Sometimes the packet is damaged before it comes. */
static uint32_t spoil(struct world *world, struct packet *packet, uint32_t bytes) {
  if (pick(world, 2)) {
    ((uint8_t *)packet)[pick(world, sizeof packet->head)] ^= (uint8_t)(1 << pick(world, 8));
    return bytes;
  }
  return pick(world, 2) ? pick(world, bytes) : bytes + 1 + pick(world, 100);
}

static void step(struct world *world) {
  static struct packet packet, wanted;
  uint64_t epoch;
  uint32_t from = some_packet(world, &packet, &epoch), bytes = by_fragment_bytes(&packet.head);
  const struct by_grant *grant = grant_of(world, packet.head.job);
  struct by_cells cells = {world->cells, world->sums, CELLS};
  struct by_verdict expected = say(BY_VERDICT_DROP, 0, BY_EVENT_MALFORMED);
  wanted = packet;
  if (rarely(world))
    bytes = spoil(world, &packet, bytes);
  else
    expected = grant ? model_known(world, grant, &wanted, epoch, from) : model_unknown(&wanted);
  struct by_verdict got = by_switch_step(grant, &cells, &packet.head, bytes, from);
  assert_int_equal(got.event, expected.event);
  assert_int_equal(got.kind, expected.kind);
  world->events[got.event]++;
  if (got.kind == BY_VERDICT_DROP) return;
  if (got.kind == BY_VERDICT_FORWARD) assert_int_equal(got.port, expected.port);
  by_fragment_seal(&wanted.head);
  assert_memory_equal(&packet, &wanted, by_fragment_bytes(&wanted.head));
  assert_int_equal(by_fragment_check(&packet.head, bytes), BY_FRAGMENT_SOUND);
}

static void test_against_the_model(void **state) {
  (void)state;
  static struct world world;
  by_rng_init(&world.rng, 4);
  for (uint32_t job = 0; job < JOBS; job++) {
    world.grants[job].key = UINT16_MAX - 3; /* keys and epochs wrap on the way */
    grant(&world, job);
    for (uint32_t slot = 0; slot < SLOTS; slot++) world.epochs[job][slot] = (1ull << 32) - 3000;
  }
  for (uint32_t i = 0; i < STEPS; i++) {
    if (pick(&world, 500) == 0) grant(&world, pick(&world, JOBS));
    step(&world);
  }
  for (uint32_t event = 0; event < BY_EVENTS; event++) {
    if (world.events[event] < 500) print_error("event %u came %lu times\n", event, (unsigned long)world.events[event]);
    assert_true(world.events[event] >= 500);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_the_model)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
