/* Windows of sequence numbers: each number is taken once, whatever the order, and old ones never. */
#include "check.h"
#include "fragment.h"

static void test_order(void **state) {
  static const struct {
    uint32_t number;
    bool taken;
  } steps[] = {{7, true},   {7, false},   {8, true},   {6, true},    {6, false}, {71, true},
               {8, false},  {9, true},    {7, false},  {71, false},  {72, true}, {9, false},
               {200, true}, {136, false}, {137, true}, {137, false}, {0, false}, {UINT32_MAX, false}};
  struct by_replay_window window = {0};
  (void)state;
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
    assert_int_equal(by_replay_take(&window, steps[i].number), steps[i].taken);
}

static void test_wrap(void **state) {
  struct by_replay_window window = {0};
  (void)state;
  for (uint32_t n = UINT32_MAX - 100; n != 100; n++) assert_true(by_replay_take(&window, n));
  for (uint32_t n = UINT32_MAX - 100; n != 100; n++) assert_false(by_replay_take(&window, n));
}

/* Every worker of a tree has two windows of its own, one for each direction. */
static void test_senders(void **state) {
  static bool used[BY_REPLAY_SENDERS];
  (void)state;
  for (uint32_t group = 0; group < BY_FRAGMENT_GROUPS; group++)
    for (uint32_t rank = 0; rank < BY_FRAGMENT_WORKERS; rank++)
      for (int answer = 0; answer < 3; answer++) {
        struct by_fragment head = {.type = BY_FRAGMENT_PROBE, .group = (uint8_t)group, .rank = (uint8_t)rank};
        if (answer)
          head = (struct by_fragment){.type = answer > 1 ? BY_FRAGMENT_NACK : BY_FRAGMENT_PROBE_REPLY,
                                      .group = BY_FRAGMENT_UNITED,
                                      .dtype = (uint8_t)group,
                                      .exponent = (uint8_t)rank};
        uint32_t sender = by_replay_sender(&head);
        assert_true(sender < BY_REPLAY_SENDERS);
        assert_int_equal(used[sender], answer > 1); /* NACKs and replies are numbered together */
        used[sender] = true;
      }
  struct by_fragment alone = {.type = BY_FRAGMENT_PROBE, .group = BY_FRAGMENT_UNITED, .rank = 5};
  struct by_fragment same = {.type = BY_FRAGMENT_PROBE, .group = 5, .rank = 0};
  assert_int_equal(by_replay_sender(&alone), by_replay_sender(&same));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_wrap),
                                     cmocka_unit_test(test_senders)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
