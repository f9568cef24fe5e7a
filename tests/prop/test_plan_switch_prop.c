/* Agreement on a new plan: whatever the delays of messages and the pace of members, all members change at the same
 * call, no member makes a call whose plan it does not know yet, and all members finish. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "plan_switch_message.h"
#include "rng.h"

enum { MEMBERS = 6, PLAN_SWITCHES = 4, LAST = 200, MESSAGES = 4096 };

struct message {
  uint32_t member; /* The member to which, or from which, it is sent. */
  bool answers;
  struct by_plan_switch_message message;
  int due;
};

struct member {
  struct by_plan_switch plan_switch;
  uint64_t started;
  /* The call before which each plan switch came into use, or LAST + 1 if it did not. */
  uint64_t changed[PLAN_SWITCHES];
  uint32_t n_changed, waits;
  int pace; /* The member makes one call in so many turns. */
  struct by_marks marks;
  /* The period and phase of the iterations that the member marks; with a period of 0 it marks none. */
  uint64_t period, phase;
};

struct world {
  struct by_rng rng;
  struct member members[MEMBERS];
  uint32_t n;
  struct by_agreement agreement;
  bool switching;
  uint32_t number, taken;
  uint64_t own_then, at[PLAN_SWITCHES];
  bool known; /* All members had marked enough iterations, and alike, when the plan switch was proposed. */
  uint32_t cut;
  struct message messages[MESSAGES];
  uint32_t n_messages;
  int now, delay;
};

static void send_message(struct world *world, uint32_t member, bool answers, struct by_plan_switch_message message) {
  int due = world->now + 1 + (int)by_rng_below(&world->rng, (uint64_t)world->delay);
  assert_true(world->n_messages < MESSAGES);
  for (uint32_t i = 0; i < world->n_messages; i++) { /* Each connection delivers in order. */
    const struct message *other = &world->messages[i];
    if (other->member == member && other->answers == answers && other->due > due) due = other->due;
  }
  world->messages[world->n_messages++] = (struct message){member, answers, message, due};
}

static void notify_all(struct world *world, enum by_plan_switch_kind kind) {
  for (uint32_t m = 0; m < world->n; m++)
    send_message(
        world, m, false,
        (struct by_plan_switch_message){.kind = kind, .number = world->number, .at = world->agreement.at, .text = ""});
}

static bool is_iteration_known(const struct world *world) {
  const struct member *first = &world->members[0];
  bool known = first->period > 0;
  for (uint32_t m = 0; m < world->n; m++) {
    const struct member *member = &world->members[m];
    known &= member->period == first->period && member->phase == first->phase &&
             member->started > 3 * member->period + member->phase;
  }
  return known;
}

static void propose(struct world *world) {
  world->switching = true;
  world->known = is_iteration_known(world);
  world->number++;
  by_agreement_init(&world->agreement, world->n);
  world->own_then = world->members[0].started;
  notify_all(world, BY_PLAN_SWITCH_PROPOSE);
}

static void lead(struct world *world, const struct by_plan_switch_message *message) {
  if (message->kind == BY_PLAN_SWITCH_REFUSED) {
    if (message->number == world->number) world->switching = false;
    return;
  }
  if (!world->switching || message->number != world->number) return;
  switch (by_agreement_handle(&world->agreement, message->at, &message->iteration,
                              world->members[0].started - world->own_then)) {
  case BY_AGREEMENT_FIX: notify_all(world, BY_PLAN_SWITCH_FIX); break;
  case BY_AGREEMENT_TAKE:
    world->at[world->taken++] = world->agreement.at;
    if (world->known && world->agreement.at % world->members[0].period != world->members[0].phase) world->cut++;
    world->switching = false;
    notify_all(world, BY_PLAN_SWITCH_TAKE);
    break;
  default: break;
  }
}

static void change(struct member *member) {
  by_plan_switch_end(&member->plan_switch);
  assert_true(member->n_changed < PLAN_SWITCHES);
  member->changed[member->n_changed++] = member->started;
}

static void follow(struct world *world, uint32_t m, const struct by_plan_switch_message *message) {
  struct member *member = &world->members[m];
  struct by_plan_switch_message answer = {.number = message->number,
                                          .at = member->started,
                                          .iteration = by_marks_iteration(&member->marks, member->started)};
  if (message->kind == BY_PLAN_SWITCH_PROPOSE)
    answer.kind = by_plan_switch_prepare(&member->plan_switch, message->number) ? BY_PLAN_SWITCH_PREPARED
                                                                                : BY_PLAN_SWITCH_REFUSED;
  else if (message->kind == BY_PLAN_SWITCH_FIX &&
           by_plan_switch_fix(&member->plan_switch, message->number, message->at))
    answer.kind = BY_PLAN_SWITCH_FIXED;
  else if (message->kind == BY_PLAN_SWITCH_TAKE && by_plan_switch_take(&member->plan_switch, message->number) &&
           by_plan_switch_next(&member->plan_switch, member->started) == BY_PLAN_SWITCH_CHANGES)
    change(member);
  if (answer.kind) send_message(world, m, true, answer);
}

static void deliver(struct world *world) {
  for (uint32_t i = 0; i < world->n_messages;) {
    struct message message = world->messages[i];
    if (message.due > world->now) {
      i++;
      continue;
    }
    world->n_messages--;
    memmove(&world->messages[i], &world->messages[i + 1], (world->n_messages - i) * sizeof *world->messages);
    if (message.answers)
      lead(world, &message.message);
    else
      follow(world, message.member, &message.message);
  }
}

/* A collective call needs the others: in a barrier, no member is more than one call ahead of another; a broadcast may
 * be ahead by any number of calls. */
static bool may_start(const struct world *world, const struct member *member, uint64_t ahead) {
  uint64_t least = UINT64_MAX;
  for (uint32_t m = 0; m < world->n; m++)
    if (world->members[m].started < least) least = world->members[m].started;
  return member->started < LAST && member->started < least + ahead;
}

static void call(struct world *world, struct member *member, uint64_t ahead) {
  if (by_rng_below(&world->rng, (uint64_t)member->pace) || !may_start(world, member, ahead)) return;
  if (member->period && member->started % member->period == member->phase)
    by_marks_add(&member->marks, member->started);
  enum by_plan_switch_next next = by_plan_switch_next(&member->plan_switch, member->started);
  if (next == BY_PLAN_SWITCH_CHANGES) change(member);
  if (next == BY_PLAN_SWITCH_WAITS)
    member->waits++;
  else
    member->started++;
}

static bool all_done(const struct world *world) {
  if (world->switching || world->n_messages) return false;
  for (uint32_t m = 0; m < world->n; m++)
    if (world->members[m].started < LAST) return false;
  return true;
}

/* Half of the worlds mark iterations. In half of those, one member marks them elsewhere, which prevents no
 * plan switch. */
static void choose_iterations(struct world *world) {
  uint64_t period = by_rng_below(&world->rng, 2) * (1 + by_rng_below(&world->rng, 12));
  uint64_t phase = period ? by_rng_below(&world->rng, period) : 0;
  for (uint32_t m = 0; m < world->n; m++) {
    world->members[m].period = period;
    world->members[m].phase = phase;
  }
  if (period && by_rng_below(&world->rng, 2)) world->members[by_rng_below(&world->rng, world->n)].phase = 0;
}

static void check(const struct world *world) {
  assert_int_equal(world->cut, 0);
  for (uint32_t m = 0; m < world->n; m++) {
    const struct member *member = &world->members[m];
    assert_true(member->n_changed <= world->taken);
    for (uint32_t i = 0; i < member->n_changed; i++) assert_int_equal(member->changed[i], world->at[i]);
    /* A plan switch that was decided on but not reached is at a call after the last one. */
    for (uint32_t i = member->n_changed; i < world->taken; i++) assert_true(world->at[i] > LAST);
  }
}

static uint32_t run(uint64_t seed) {
  static struct world world;
  memset(&world, 0, sizeof world);
  by_rng_init(&world.rng, seed);
  world.n = 1 + (uint32_t)by_rng_below(&world.rng, MEMBERS);
  world.delay = 1 + (int)by_rng_below(&world.rng, 60);
  uint64_t ahead = 1 + by_rng_below(&world.rng, 2) * by_rng_below(&world.rng, 30);
  for (uint32_t m = 0; m < world.n; m++) world.members[m].pace = 1 + (int)by_rng_below(&world.rng, 40);
  choose_iterations(&world);
  for (world.now = 0; !all_done(&world); world.now++) {
    assert_true(world.now < 1000000);
    deliver(&world);
    for (uint32_t m = 0; m < world.n; m++) call(&world, &world.members[m], ahead);
    /* A new plan switch during another one drops the latter, as its leader does. */
    if (world.taken < PLAN_SWITCHES - 1 && !world.switching && by_rng_below(&world.rng, 100) == 0) propose(&world);
  }
  check(&world);
  return world.taken;
}

static void test_agree(void **state) {
  uint32_t taken = 0;
  (void)state;
  for (uint64_t seed = 1; seed <= check_seeds(3000); seed++) taken += run(seed);
  assert_true(taken > check_seeds(3000));
}

/* Where no member makes calls, the plan switch is made all the same. */
static void test_idle(void **state) {
  struct by_agreement agreement;
  struct by_plan_switch plan_switch = {0};
  (void)state;
  by_agreement_init(&agreement, 2);
  assert_true(by_plan_switch_prepare(&plan_switch, 1));
  assert_int_equal(by_agreement_handle(&agreement, 7, &(struct by_iteration){0}, 0), BY_AGREEMENT_WAITS);
  assert_int_equal(by_agreement_handle(&agreement, 7, &(struct by_iteration){0}, 0), BY_AGREEMENT_FIX);
  assert_int_equal(agreement.at, 7);
  assert_true(by_plan_switch_fix(&plan_switch, 1, 7));
  assert_int_equal(by_plan_switch_next(&plan_switch, 7), BY_PLAN_SWITCH_WAITS);
  assert_int_equal(by_agreement_handle(&agreement, 7, &(struct by_iteration){0}, 0), BY_AGREEMENT_WAITS);
  assert_int_equal(by_agreement_handle(&agreement, 7, &(struct by_iteration){0}, 0), BY_AGREEMENT_TAKE);
  assert_true(by_plan_switch_take(&plan_switch, 1));
  assert_int_equal(by_plan_switch_next(&plan_switch, 7), BY_PLAN_SWITCH_CHANGES);
  by_plan_switch_end(&plan_switch);
  assert_int_equal(by_plan_switch_next(&plan_switch, 7), BY_PLAN_SWITCH_GOES_ON);
}

/* Iterations are known once two in a row had the same number of calls, until one has more. */
static void test_marks(void **state) {
  static const uint64_t marks[] = {4, 9, 14, 14, 19};
  struct by_marks known = {0};
  (void)state;
  for (size_t i = 0; i < 5; i++) {
    by_marks_add(&known, marks[i]);
    assert_int_equal(by_marks_iteration(&known, marks[i]).period, i < 2 ? 0 : 5);
  }
  assert_int_equal(by_marks_iteration(&known, 24).began, 19);
  assert_int_equal(by_marks_iteration(&known, 24).period, 5);
  assert_int_equal(by_marks_iteration(&known, 25).period, 0);
  by_marks_add(&known, 25);
  assert_int_equal(by_marks_iteration(&known, 25).period, 0);
}

/* Messages of other plan switches change nothing, and a plan switch that is decided on stays. */
static void test_strays(void **state) {
  struct by_plan_switch plan_switch = {0};
  (void)state;
  assert_false(by_plan_switch_fix(&plan_switch, 1, 3) || by_plan_switch_take(&plan_switch, 1) ||
               by_plan_switch_drop(&plan_switch, 1));
  assert_true(by_plan_switch_prepare(&plan_switch, 1) && by_plan_switch_prepare(&plan_switch, 2));
  assert_false(by_plan_switch_fix(&plan_switch, 1, 3));
  assert_false(by_plan_switch_take(&plan_switch, 2)); /* This plan switch is not fixed. */
  assert_true(by_plan_switch_fix(&plan_switch, 2, 3) && by_plan_switch_fix(&plan_switch, 2, 5));
  assert_int_equal(by_plan_switch_next(&plan_switch, 3), BY_PLAN_SWITCH_GOES_ON);
  assert_true(by_plan_switch_take(&plan_switch, 2));
  assert_false(by_plan_switch_prepare(&plan_switch, 3) || by_plan_switch_drop(&plan_switch, 2));
  assert_int_equal(by_plan_switch_next(&plan_switch, 4), BY_PLAN_SWITCH_GOES_ON);
  assert_int_equal(by_plan_switch_next(&plan_switch, 5), BY_PLAN_SWITCH_CHANGES);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_agree), cmocka_unit_test(test_idle),
                                     cmocka_unit_test(test_marks), cmocka_unit_test(test_strays)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
