/* In which order links with something to send get their turn: the slowest first. */
#include "transfer_link.h"

#include "check.h"

enum { LINKS = 3 };

struct world {
  struct by_transfer transfer;
  struct by_lane lanes[LINKS];
  struct by_transfer_link links[LINKS];
};

static struct by_transfer_link *first_of(struct world *world, const uint64_t *rates) {
  STAILQ_INIT(&world->transfer.dirty);
  for (int i = 0; i < LINKS; i++) {
    world->lanes[i] = (struct by_lane){.rate = rates[i]};
    world->links[i] = (struct by_transfer_link){.transfer = &world->transfer, .lane = &world->lanes[i]};
    by_link_touch(&world->links[i]);
    by_link_touch(&world->links[i]); /* is in the list once */
  }
  int n = 0;
  struct by_transfer_link *link;
  STAILQ_FOREACH(link, &world->transfer.dirty, dirty_next) n++;
  assert_int_equal(n, LINKS);
  return STAILQ_FIRST(&world->transfer.dirty);
}

static void test_the_slowest_is_first(void **state) {
  (void)state;
  static struct world world;
  assert_ptr_equal(first_of(&world, (uint64_t[]){100, 100, 20}), &world.links[2]);
  assert_ptr_equal(first_of(&world, (uint64_t[]){100, 20, 100}), &world.links[1]);
  assert_ptr_equal(first_of(&world, (uint64_t[]){20, 100, 50}), &world.links[0]);
}

/* As within a host, or before anything was measured: in the order in which they got something to send. */
static void test_unknown_rates(void **state) {
  (void)state;
  static struct world world;
  assert_ptr_equal(first_of(&world, (uint64_t[]){0, 0, 0}), &world.links[0]);
  assert_ptr_equal(first_of(&world, (uint64_t[]){0, 100, 0}), &world.links[1]);
}

static void test_without_a_connection(void **state) {
  (void)state;
  static struct world world;
  struct by_transfer_link unconnected = {.transfer = &world.transfer};
  (void)first_of(&world, (uint64_t[]){100, 20, 100});
  by_link_touch(&unconnected);
  assert_ptr_equal(STAILQ_FIRST(&world.transfer.dirty), &world.links[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_slowest_is_first),
      cmocka_unit_test(test_unknown_rates),
      cmocka_unit_test(test_without_a_connection),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
