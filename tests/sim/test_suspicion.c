/* Members of a group that suspect each other, in virtual time: a member that is stopped is found if most of the others
 * can tell, and a member that answers most of them never is. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "clock.h"
#include "rng.h"
#include "suspicion.h"

enum { MEMBERS = 33, MESSAGES = 1 << 16, SILENCE_S = 12, ANSWER_S = 3, SEEDS = 500 };
#define END (400 * BY_SECOND)

enum kind { QUESTION, ANSWER, SUSPICION, SHARED };

struct message {
  enum kind kind;
  uint32_t from, to, rank;
  uint64_t at;
};

struct world;

struct member {
  struct world *world;
  struct by_suspicion *suspicion;
  uint32_t rank;
  bool is_stopped;
  bool waits_for[MEMBERS];
  uint64_t timer;
  uint64_t next_wait, wait_after; /* how a call asks: after 2 s, and then twice as long each time */
  uint32_t found[MEMBERS];        /* how often this member found another one stopped */
};

struct world {
  uint32_t n, n_messages, sent;
  uint64_t now;
  struct by_rng rng;
  double loss;
  bool apart[MEMBERS][MEMBERS]; /* what the first sends to the second is lost */
  struct member members[MEMBERS];
  struct message messages[MESSAGES];
};

static struct world world;

static void post(struct member *from, enum kind kind, uint32_t to, uint32_t rank) {
  struct world *w = from->world;
  w->sent++;
  if (w->apart[from->rank][to] || by_rng_unit(&w->rng) < w->loss) return;
  assert_true(w->n_messages < MESSAGES);
  uint64_t delay = (uint64_t)(by_rng_unit(&w->rng) * 50 * BY_MILLISECOND);
  w->messages[w->n_messages++] = (struct message){kind, from->rank, to, rank, w->now + delay};
}

static void ask(void *context, uint32_t rank) {
  post(context, QUESTION, rank, rank);
}

static void spread(void *context, uint32_t rank) {
  struct member *member = context;
  for (uint32_t to = 0; to < member->world->n; to++)
    if (to != rank && to != member->rank) post(member, SUSPICION, to, rank);
}

static void share(void *context, uint32_t to, uint32_t rank) {
  post(context, SHARED, to, rank);
}

static void stopped(void *context, uint32_t rank) {
  struct member *member = context;
  member->found[rank]++;
}

static void set_timer(void *context, uint64_t at) {
  struct member *member = context;
  member->timer = at;
}

static void begin(uint32_t n, uint64_t seed) {
  memset(&world, 0, sizeof world);
  world.n = n;
  world.now = BY_SECOND;
  by_rng_init(&world.rng, seed);
  for (uint32_t r = 0; r < n; r++) {
    struct member *member = &world.members[r];
    *member = (struct member){.world = &world,
                              .rank = r,
                              .timer = UINT64_MAX,
                              .next_wait = world.now + 2 * BY_SECOND + by_rng_next(&world.rng) % (20 * BY_MILLISECOND),
                              .wait_after = 4 * BY_SECOND};
    struct by_suspicion_config config = {.n = n,
                                         .self = r,
                                         .silence = SILENCE_S * BY_SECOND,
                                         .answer_timeout = ANSWER_S * BY_SECOND,
                                         .ask = ask,
                                         .spread = spread,
                                         .share = share,
                                         .stopped = stopped,
                                         .set_timer = set_timer,
                                         .context = member};
    assert_ok(by_suspicion_create(&config, &member->suspicion));
  }
}

static void end(void) {
  for (uint32_t r = 0; r < world.n; r++) by_suspicion_destroy(world.members[r].suspicion);
}

static void deliver(const struct message *message) {
  struct member *to = &world.members[message->to];
  if (to->is_stopped) return;
  (void)by_suspicion_answered(to->suspicion, message->from);
  if (message->kind == QUESTION) post(to, ANSWER, message->from, 0);
  if (message->kind == SUSPICION) by_suspicion_questioned(to->suspicion, world.now, message->from, message->rank);
  if (message->kind == SHARED) by_suspicion_shared(to->suspicion, message->from, message->rank);
}

static void call_waits(struct member *member) {
  uint64_t since = BY_SECOND;
  for (uint32_t r = 0; r < world.n; r++)
    if (member->waits_for[r]) by_suspicion_waits(member->suspicion, world.now, since, r);
  member->next_wait += member->wait_after + by_rng_next(&world.rng) % (20 * BY_MILLISECOND);
  member->wait_after *= 2;
}

static void step(void) {
  for (uint32_t i = 0; i < world.n_messages;) {
    if (world.messages[i].at > world.now) {
      i++;
      continue;
    }
    struct message message = world.messages[i];
    world.messages[i] = world.messages[--world.n_messages];
    deliver(&message);
  }
  for (uint32_t r = 0; r < world.n; r++) {
    struct member *member = &world.members[r];
    if (member->is_stopped) continue;
    if (member->next_wait <= world.now) call_waits(member);
    if (member->timer > world.now) continue;
    member->timer = UINT64_MAX;
    by_suspicion_timer(member->suspicion, world.now);
  }
}

static void run_until(uint64_t until) {
  for (; world.now < until; world.now += 10 * BY_MILLISECOND) step();
}

static uint32_t count_found(uint32_t rank) {
  uint32_t n = 0;
  for (uint32_t r = 0; r < world.n; r++) n += world.members[r].found[rank];
  return n;
}

static void all_wait_for(uint32_t rank) {
  for (uint32_t r = 0; r < world.n; r++) world.members[r].waits_for[rank] = r != rank;
}

static void test_stopped_member_is_found(void **state) {
  (void)state;
  for (uint32_t n = 3; n <= MEMBERS; n += n < 9 ? 1 : 8)
    for (uint32_t x = 0; x < n; x += n - 1) {
      begin(n, n);
      all_wait_for(x);
      world.members[x].is_stopped = true;
      run_until((1 + 14) * BY_SECOND);
      assert_int_equal(count_found(x), 0); /* It has had no time to answer. */
      run_until((1 + 20) * BY_SECOND);
      /* Others leave it to the first one that asked, but for those that have not received its question yet. */
      assert_in_range(count_found(x), 1, 3);
      if (world.sent > 8 * n) fail_msg("%u messages of %u members", world.sent, n);
      for (uint32_t r = 0; r < n; r++) assert_true(r == x || count_found(r) == 0);
      end();
    }
}

static void test_one_waiting_call_is_enough(void **state) {
  (void)state;
  begin(8, 1);
  world.members[3].waits_for[5] = true;
  world.members[5].is_stopped = true;
  run_until((1 + 20) * BY_SECOND);
  assert_int_equal(world.members[3].found[5], 1);
  end();
}

/* Its program computes, and its process answers. */
static void test_slow_member_is_not_found(void **state) {
  (void)state;
  begin(8, 1);
  all_wait_for(2);
  run_until(END);
  assert_int_equal(count_found(2), 0);
  assert_true(world.sent < 8 * 2 * 8); /* A question and an answer each time. */
  end();
}

static void test_nothing_is_sent_while_nobody_waits(void **state) {
  (void)state;
  begin(8, 1);
  world.members[5].is_stopped = true;
  run_until(END);
  assert_int_equal(world.sent, 0);
  end();
}

static void test_two_members_leave_it_to_the_deadline(void **state) {
  (void)state;
  begin(2, 1);
  all_wait_for(1);
  world.members[1].is_stopped = true;
  run_until(END);
  assert_int_equal(count_found(1), 0);
  end();
}

/* Only one of them does not hear the other one. */
static void test_one_way_loss_is_not_enough(void **state) {
  (void)state;
  begin(5, 1);
  world.members[1].waits_for[4] = true;
  world.apart[4][1] = true;
  run_until(END);
  assert_int_equal(count_found(4), 0);
  end();
}

static void test_member_that_goes_on_in_time_stays(void **state) {
  (void)state;
  begin(5, 1);
  all_wait_for(4);
  world.members[4].is_stopped = true;
  run_until((1 + 16) * BY_SECOND); /* Others have been questioned. */
  world.members[4].is_stopped = false;
  for (uint32_t r = 0; r < 4; r++) post(&world.members[4], ANSWER, r, 0); /* What waited for it. */
  run_until(END);
  assert_int_equal(count_found(4), 0);
  end();
}

/* The first stop and its calls go on; a second one counts from its own begin. */
static void test_calls_in_between_count(void **state) {
  (void)state;
  begin(3, 1);
  struct by_suspicion *suspicion = world.members[0].suspicion;
  world.apart[2][0] = true; /* The first answer is lost. */
  by_suspicion_waits(suspicion, BY_SECOND, 0, 2);
  world.sent = 0;
  by_suspicion_waits(suspicion, 100 * BY_SECOND, 98 * BY_SECOND, 2);
  by_suspicion_timer(suspicion, 102 * BY_SECOND);
  assert_int_equal(world.sent, 1); /* A question, and no suspicion yet. */
  end();
}

/* Two of four: each of the others agrees about both. Three of five: too few are left to decide. */
static void test_several_are_stopped(void **state) {
  (void)state;
  begin(4, 1);
  for (uint32_t x = 2; x < 4; x++) all_wait_for(x), world.members[x].is_stopped = true;
  run_until(END);
  assert_true(count_found(2) > 0 && count_found(3) > 0 && count_found(0) + count_found(1) == 0);
  end();
  begin(5, 1);
  for (uint32_t x = 2; x < 5; x++) all_wait_for(x), world.members[x].is_stopped = true;
  run_until(END);
  for (uint32_t x = 0; x < 5; x++) assert_int_equal(count_found(x), 0);
  end();
}

static void test_messages_about_nobody(void **state) {
  (void)state;
  begin(3, 1);
  struct by_suspicion *suspicion = world.members[0].suspicion;
  by_suspicion_questioned(suspicion, world.now, 1, 7);
  by_suspicion_questioned(suspicion, world.now, 7, 1);
  by_suspicion_questioned(suspicion, world.now, 1, 0);
  by_suspicion_questioned(suspicion, world.now, 1, 1);
  by_suspicion_shared(suspicion, 7, 1);
  by_suspicion_shared(suspicion, 1, 7);
  by_suspicion_shared(suspicion, 1, 2); /* Nobody asked. */
  by_suspicion_waits(suspicion, world.now, 0, 7);
  by_suspicion_waits(suspicion, world.now, 0, 0);
  assert_false(by_suspicion_answered(suspicion, 7));
  assert_int_equal(world.sent, 0);
  end();
}

/* Random members that are stopped, pairs that lose what one sends to the other, and messages that are lost. */
static void lay_out(uint64_t seed) {
  begin(3 + (uint32_t)(seed % 8), seed);
  for (uint32_t r = 0; r < world.n; r++) world.members[r].is_stopped = by_rng_next(&world.rng) % 4 == 0;
  for (uint32_t x = 0; x < world.n; x++)
    if (by_rng_next(&world.rng) % 2) all_wait_for(x);
  for (uint32_t i = 0; i < world.n / 2; i++)
    world.apart[by_rng_next(&world.rng) % world.n][by_rng_next(&world.rng) % world.n] = true;
  world.loss = by_rng_next(&world.rng) % 2 ? 0.1 : 0;
}

/* Members other than x that are not stopped and cannot be answered by it, or ask it. */
static uint32_t count_deaf(uint32_t x, bool *is_whole) {
  uint32_t deaf = 0;
  for (uint32_t r = 0; r < world.n; r++) {
    const struct member *member = &world.members[r];
    if (r == x || member->is_stopped) continue;
    deaf += world.members[x].is_stopped || world.apart[x][r] || world.apart[r][x];
    for (uint32_t q = 0; q < world.n; q++) *is_whole &= !world.apart[r][q] && !world.apart[q][r];
  }
  return deaf;
}

static void test_random(void **state) {
  (void)state;
  uint32_t found = 0;
  for (uint64_t seed = 1; seed <= check_seeds(SEEDS); seed++) {
    lay_out(seed);
    run_until(END);
    for (uint32_t x = 0; x < world.n; x++) {
      bool is_whole = world.loss == 0, is_awaited = world.members[x == 0].waits_for[x];
      uint32_t deaf = count_deaf(x, &is_whole);
      bool most = deaf >= 2 && 2 * deaf > world.n - 1;
      if (count_found(x) && !most && world.loss == 0)
        fail_msg("seed %lu: member %u counts as stopped, and %u of %u others do not hear of it", (unsigned long)seed, x,
                 deaf, world.n - 1);
      if (is_whole && is_awaited && most && !count_found(x))
        fail_msg("seed %lu: member %u was not found", (unsigned long)seed, x);
      found += count_found(x) > 0;
    }
    end();
  }
  assert_true(found > check_seeds(SEEDS) / 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_stopped_member_is_found),
      cmocka_unit_test(test_one_waiting_call_is_enough),
      cmocka_unit_test(test_slow_member_is_not_found),
      cmocka_unit_test(test_nothing_is_sent_while_nobody_waits),
      cmocka_unit_test(test_two_members_leave_it_to_the_deadline),
      cmocka_unit_test(test_one_way_loss_is_not_enough),
      cmocka_unit_test(test_member_that_goes_on_in_time_stays),
      cmocka_unit_test(test_calls_in_between_count),
      cmocka_unit_test(test_several_are_stopped),
      cmocka_unit_test(test_messages_about_nobody),
      cmocka_unit_test(test_random),
  };
  return cmocka_run_group_tests_name("suspicion", tests, NULL, NULL);
}
