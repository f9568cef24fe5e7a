/* A switch that adds float32 is compared with a model that records which workers have contributed and adds from
 * scratch. Terms arrive in random order and are lost, repeated, late and damaged, from workers next to the switch and
 * from a switch below, with infinities, NaN and values near the largest. What the switch sends must have the bits that
 * adding in the order of workers gives. */
#include "check.h"

#include <math.h>
#include <string.h>

#include "rng.h"
#include "step.h"

enum { STEPS = 300000, SLOTS = 6, LINES = 3, NUMBERS = LINES * 16, PIECES = 4, PORT_UP = 9 };

struct packet {
  struct by_fragment head;
  float numbers[NUMBERS];
};

struct model_cell {
  bool used, released, has[PIECES];
  uint32_t epoch;
};

struct world {
  struct by_rng rng;
  struct by_cell cells[SLOTS];
  uint64_t sums[SLOTS][BY_CELL_PAIRS];
  struct by_float_sums floats;
  struct model_cell model[SLOTS];
  uint32_t epochs[SLOTS];
  uint64_t events[BY_EVENTS];
};

/* Workers 0 and 2 are behind another switch, which adds. */
static const uint64_t masks[PIECES] = {5, 2, 8, 16};
static const struct by_grant grant = {.below = 7, .above = 1 << PORT_UP, .count = SLOTS, .dtype = BY_FRAGMENT_FLOAT32};

/* Returns the same number each time for the same term. */
static float number_of(uint32_t slot, uint32_t epoch, int piece, int i) {
  static const float special[] = {INFINITY, -INFINITY, NAN, 0x1.fffffep127F, -0x1.fffffep127F, 0x1p-149F, -0.0F, 0};
  struct by_rng rng;
  by_rng_init(&rng, ((uint64_t)epoch << 32 | slot << 16 | (uint32_t)piece) * 64 + (uint64_t)i);
  uint64_t kind = by_rng_below(&rng, 40);
  if (kind < 8) return special[kind];
  return ldexpf((float)by_rng_unit(&rng) - 0.5F, (int)by_rng_below(&rng, 30));
}

static void make_term(const struct world *world, struct packet *packet, uint32_t slot, uint32_t epoch, int piece) {
  *packet = (struct packet){.numbers = {0}};
  by_fragment_begin(&packet->head, BY_FRAGMENT_UP, (uint16_t)__builtin_ctzll(masks[piece]));
  packet->head.workers = masks[piece];
  packet->head.slot = (uint16_t)slot;
  packet->head.epoch = epoch;
  packet->head.dtype = BY_FRAGMENT_FLOAT32;
  packet->head.lines = LINES;
  assert_true(by_fragment_push(&packet->head, PORT_UP, 5));
  if (piece == 0) assert_true(by_fragment_push(&packet->head, 1, 2));
  for (int i = 0; i < NUMBERS; i++) packet->numbers[i] = number_of(slot, epoch, piece, i);
  packet->head.check = by_sum_check(&world->floats.key, &packet->head, masks[piece]);
  by_fragment_seal(&packet->head);
}

static void check_sum(const struct world *world, const struct packet *got) {
  for (int i = 0; i < NUMBERS; i++) {
    float sum = number_of(got->head.slot, got->head.epoch, 0, i);
    for (int piece = 1; piece < PIECES; piece++) sum += number_of(got->head.slot, got->head.epoch, piece, i);
    if (isnan(sum) ? !isnan(got->numbers[i]) : memcmp(&sum, &got->numbers[i], 4) != 0)
      fail_msg("%a in place of %a", (double)got->numbers[i], (double)sum);
  }
  assert_int_equal(got->head.workers, 31);
  assert_true(got->head.check == by_sum_check(&world->floats.key, &got->head, 31));
}

static bool is_complete(const struct model_cell *cell) {
  return cell->has[0] && cell->has[1] && cell->has[2] && cell->has[3];
}

/* Returns what must happen to a valid term. */
static enum by_event forecast(struct model_cell *cell, uint32_t epoch, int piece) {
  if (cell->used && (epoch < cell->epoch || (epoch == cell->epoch && cell->released))) return BY_EVENT_STALE;
  bool first = !cell->used || epoch > cell->epoch;
  if (first) *cell = (struct model_cell){.used = true, .epoch = epoch};
  if (cell->has[piece]) return is_complete(cell) ? BY_EVENT_REPEATED : BY_EVENT_DUPLICATE;
  cell->has[piece] = true;
  return is_complete(cell) ? BY_EVENT_COMPLETED : first ? BY_EVENT_STORED : BY_EVENT_ADDED;
}

static struct by_verdict give(struct world *world, struct packet *packet, uint32_t from) {
  const struct by_cells cells = {world->cells, world->sums, SLOTS, &world->floats};
  struct by_verdict verdict =
      by_switch_step(&grant, NULL, NULL, &cells, &packet->head, by_fragment_bytes(&packet->head), from, 0);
  world->events[verdict.event]++;
  return verdict;
}

static void give_term(struct world *world) {
  uint32_t slot = (uint32_t)by_rng_below(&world->rng, SLOTS), back = by_rng_below(&world->rng, 12) == 0;
  uint32_t epoch = world->epochs[slot] - (back && world->epochs[slot]);
  int piece = (int)by_rng_below(&world->rng, PIECES);
  uint64_t fate = by_rng_below(&world->rng, 20);
  struct packet packet, before;
  make_term(world, &packet, slot, epoch, piece);
  if (fate == 0) { /* The term is damaged, but not its header. */
    ((unsigned char *)packet.numbers)[by_rng_below(&world->rng, sizeof packet.numbers)] ^= 16;
  } else if (fate == 1) { /* The term is of one worker, although a switch should have added it. */
    packet.head.rank = 0;
    packet.head.workers = 1;
    packet.head.hops = 1;
    assert_true(by_fragment_push(&packet.head, 1, 2));
    packet.head.check = by_sum_check(&world->floats.key, &packet.head, 1);
    by_fragment_seal(&packet.head);
  }
  before = packet;
  struct by_verdict verdict = give(world, &packet, 0);
  enum by_event wanted = fate == 0   ? BY_EVENT_MALFORMED
                         : fate == 1 ? BY_EVENT_CONFLICT
                                     : forecast(&world->model[slot], epoch, piece);
  assert_int_equal(verdict.event, wanted);
  if (wanted == BY_EVENT_COMPLETED || wanted == BY_EVENT_REPEATED) check_sum(world, &packet);
  if (wanted == BY_EVENT_STALE || wanted == BY_EVENT_CONFLICT) {
    assert_memory_equal(packet.numbers, before.numbers, sizeof packet.numbers);
    assert_true(packet.head.flags & (wanted == BY_EVENT_STALE ? BY_FRAGMENT_STALE : BY_FRAGMENT_BUSY));
  }
}

static void give_result(struct world *world) {
  uint32_t slot = (uint32_t)by_rng_below(&world->rng, SLOTS);
  struct model_cell *cell = &world->model[slot];
  struct packet packet = {.numbers = {0}};
  by_fragment_begin(&packet.head, BY_FRAGMENT_RESULT_MC, 0);
  packet.head.slot = (uint16_t)slot;
  packet.head.epoch = world->epochs[slot];
  packet.head.dtype = BY_FRAGMENT_FLOAT32;
  packet.head.lines = LINES;
  by_fragment_seal(&packet.head);
  assert_int_equal(give(world, &packet, PORT_UP).kind, BY_VERDICT_MULTICAST);
  if (cell->used && cell->epoch <= world->epochs[slot])
    *cell = (struct model_cell){.used = true, .released = true, .epoch = world->epochs[slot]};
  world->epochs[slot]++;
}

static void test_against_model(void **state) {
  (void)state;
  static struct world world;
  by_rng_init(&world.rng, 3);
  assert_ok(by_float_sums_init(&world.floats, SLOTS));
  for (int i = 0; i < STEPS / (int)check_share(); i++) {
    if (by_rng_below(&world.rng, 10) == 0)
      give_result(&world);
    else
      give_term(&world);
    if (by_rng_below(&world.rng, 1000)) continue;
    uint32_t slot = (uint32_t)by_rng_below(&world.rng, SLOTS); /* The job gets a new grant. */
    world.cells[slot] = (struct by_cell){0};
    world.model[slot] = (struct model_cell){0};
    by_float_sums_clear(&world.floats, slot, 1);
  }
  for (int i = BY_EVENT_CONFLICT; i <= BY_EVENT_DUPLICATE; i++)
    if (i != BY_EVENT_UNMERGED && i != BY_EVENT_FORWARDED) assert_true(world.events[i] > 1000 / check_share());
  by_float_sums_fini(&world.floats);
}

/* A term that finds no room is forwarded, for the server to add. */
static void test_no_room(void **state) {
  (void)state;
  static struct world world;
  struct packet packet;
  assert_ok(by_float_sums_init(&world.floats, SLOTS));
  uint32_t free = world.floats.parts.free;
  make_term(&world, &packet, 0, 0, 1);
  world.floats.parts.free = BY_NO_PART;
  struct by_verdict verdict = give(&world, &packet, 0);
  assert_int_equal(verdict.event, BY_EVENT_CONFLICT);
  assert_int_equal(verdict.kind, BY_VERDICT_FORWARD);
  assert_int_equal(verdict.port, PORT_UP);
  world.floats.parts.free = free;
  by_float_sums_fini(&world.floats);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_model), cmocka_unit_test(test_no_room)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
