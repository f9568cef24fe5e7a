/* The reservations of jobs at a switch, over a data plane that only records its calls, with a manual clock. */
#include "reservations.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rng.h"

enum { CELLS = 100, MANY_CELLS = 300, OWNERS = 3, HOLDERS = 40 };

static uint64_t hand_time = 1;

static uint64_t read_hand(void *context) {
  return hand_time;
}

static const struct by_clock hand_clock = {read_hand, NULL};

/* The data plane records the last grant of each job. */
struct noted {
  struct by_grant grants[1000]; /* The index is the job; key 0 stands for no grant. */
  uint32_t cleared, members[BY_PLANE_GROUPS];
};

static enum banyan_status note_clear(void *self, uint32_t base, uint32_t count) {
  ((struct noted *)self)->cleared += count;
  return BANYAN_OK;
}

/* An address of IPv6, and port 1. */
#define END(last)                                                                                                      \
  { {{{0xfd, [15] = (last)}}}, 1 }

/* Not by their bytes, which hold padding. */
static void assert_end(const struct by_udp_end *end, uint8_t last) {
  const struct by_udp_end wanted = END(last);
  assert_true(by_udp_end_same(end, &wanted));
}

static enum banyan_status note_grant(void *self, const struct by_grant *grant, const struct by_plane_ends *ends) {
  assert_end(&ends->server.end, 1);
  assert_int_equal(ends->n_workers, 3);
  assert_end(&ends->workers[2].end, 4);
  ((struct noted *)self)->grants[grant->job] = *grant;
  return BANYAN_OK;
}

static enum banyan_status note_revoke(void *self, uint16_t job) {
  struct by_grant *grant = &((struct noted *)self)->grants[job];
  assert_int_not_equal(grant->key, 0);
  grant->key = 0;
  return BANYAN_OK;
}

static enum banyan_status note_group(void *self, uint16_t group, const struct by_switch_target *targets, uint32_t n) {
  ((struct noted *)self)->members[group] = n;
  return BANYAN_OK;
}

static const struct by_plane_ops ops = {
    .name = "noted", .clear = note_clear, .grant = note_grant, .revoke = note_revoke, .set_group = note_group};

struct bench {
  struct noted noted;
  struct by_plane plane;
  struct by_loop *loop;
  struct by_reservations *all;
};

/* The last notice to an owner. */
struct owner {
  unsigned answers;
  struct by_reservation_reply reply;
};

static struct owner owners[OWNERS];

static void note_answer(void *owner, const struct by_reservation_reply *reply) {
  struct owner *to = owner;
  to->answers++;
  to->reply = *reply;
}

static void begin_with(struct bench *bench, uint32_t cells) {
  static const char *const ports[] = {"lo"};
  *bench = (struct bench){.plane = {&ops, &bench->noted}};
  memset(owners, 0, sizeof owners);
  assert_ok(by_loop_create(&hand_clock, &bench->loop));
  struct by_reservations_options options = {
      .loop = bench->loop, .plane = &bench->plane, .cells = cells, .n_ports = 1, .ports = ports, .answer = note_answer};
  assert_ok(by_reservations_create(&options, &bench->all));
}

static void begin(struct bench *bench) {
  begin_with(bench, CELLS);
}

static void end(struct bench *bench) {
  by_reservations_destroy(bench->all);
  by_loop_destroy(bench->loop);
}

static void pass(struct bench *bench, uint64_t seconds) {
  hand_time += seconds * BY_SECOND;
  assert_ok(by_loop_run_once(bench->loop, 0));
}

static struct by_reservation_request request_of(const char *holder, uint16_t job, uint16_t key, uint32_t slots) {
  struct by_reservation_request request = {.operation = BY_RESERVATION_GRANT};
  strcpy(request.holder, holder);
  request.reservation = (struct by_reservation){.job = job,
                                                .key = key,
                                                .place = 3,
                                                .keyed = true,
                                                .secret = {1, 2, 3},
                                                .slots = slots,
                                                .up = "lo",
                                                .server = END(1),
                                                .n_below = 2,
                                                .n_workers = 3,
                                                .below = {{"lo", false, 0, 1}, {"lo", true, 1, 2}},
                                                .workers = {END(2), END(3), END(4)}};
  return request;
}

/* Returns the reply to the owner. */
static const struct by_reservation_reply *ask(struct bench *bench, int owner,
                                              const struct by_reservation_request *request) {
  unsigned before = owners[owner].answers;
  if (request->operation == BY_RESERVATION_GRANT)
    by_reservations_grant(bench->all, request, &owners[owner]);
  else
    by_reservations_revoke(bench->all, request, &owners[owner]);
  assert_int_equal(owners[owner].answers, before + 1);
  assert_int_equal(owners[owner].reply.job, request->reservation.job);
  return &owners[owner].reply;
}

static const struct by_reservation_reply *grant(struct bench *bench, int owner, const char *holder, uint16_t job,
                                                uint16_t key, uint32_t slots) {
  struct by_reservation_request request = request_of(holder, job, key, slots);
  return ask(bench, owner, &request);
}

static const struct by_reservation_reply *revoke_as(struct bench *bench, int owner, const char *holder, uint16_t job) {
  struct by_reservation_request request = request_of(holder, job, 0, 0);
  request.operation = BY_RESERVATION_REVOKE;
  return ask(bench, owner, &request);
}

/* Returns the cells that a job is granted. */
static struct by_grant take(struct bench *bench, uint16_t job, uint32_t wanted) {
  assert_true(grant(bench, 0, "a", job, 5, wanted)->well);
  assert_true(bench->noted.grants[job].count <= wanted);
  return bench->noted.grants[job];
}

static void give(struct bench *bench, uint16_t job) {
  assert_true(revoke_as(bench, 0, "a", job)->well);
}

static long used_cells(const struct bench *bench) {
  struct by_text text;
  by_text_init(&text);
  by_reservations_print(bench->all, &text);
  const char *used = strstr(by_text_get(&text), "\"used\": ");
  assert_non_null(used);
  long cells = strtol(used + strlen("\"used\": "), NULL, 10);
  by_text_fini(&text);
  return cells;
}

/* Cells are granted in ranges that never overlap, the smallest sufficient gap first, and all cells are returned. */
static void test_gaps(void **state) {
  (void)state;
  struct bench bench;
  begin(&bench);
  enum { A = 1, B, C, D, E, F, G };
  take(&bench, A, 10);
  struct by_grant b = take(&bench, B, 20);
  take(&bench, C, 5);
  struct by_grant d = take(&bench, D, 65);
  assert_int_equal(used_cells(&bench), 100);
  assert_int_equal(take(&bench, G, 1).count, 0);
  give(&bench, B);
  give(&bench, D);
  struct by_grant e = take(&bench, E, 15); /* It takes the place of b, not the larger one of d. */
  assert_int_equal(e.base, b.base);
  assert_int_equal(e.count, 15);
  give(&bench, G);
  assert_int_equal(take(&bench, G, 0).count, 0);
  struct by_grant f = take(&bench, F, 90); /* It takes the whole largest gap. */
  assert_int_equal(f.base, d.base);
  assert_int_equal(f.count, 65);
  give(&bench, A);
  give(&bench, C);
  give(&bench, E);
  give(&bench, F);
  assert_int_equal(used_cells(&bench), 0);
  assert_int_equal(take(&bench, A, 100).count, 100);
  end(&bench);
}

static void test_no_cells(void **state) {
  (void)state;
  struct bench bench;
  begin_with(&bench, 0);
  assert_int_equal(take(&bench, 1, 5).count, 0);
  give(&bench, 1);
  assert_int_equal(used_cells(&bench), 0);
  end(&bench);
}

static void mark(char *owned, const struct by_grant *range, char from, char to) {
  assert_true(range->base + range->count <= MANY_CELLS);
  for (uint32_t i = range->base; i < range->base + range->count; i++) {
    assert_int_equal(owned[i], from);
    owned[i] = to;
  }
}

/* Finds the largest gap by examining each cell. */
static uint32_t largest_gap(const char *owned) {
  uint32_t most = 0, here = 0;
  for (int i = 0; i < MANY_CELLS; i++) {
    here = owned[i] ? 0 : here + 1;
    if (here > most) most = here;
  }
  return most;
}

static void test_cells_at_random(void **state) {
  (void)state;
  struct bench bench;
  struct by_grant held[HOLDERS] = {{0}};
  bool holds[HOLDERS] = {false};
  char owned[MANY_CELLS] = {0};
  struct by_rng rng;
  by_rng_init(&rng, 4);
  begin_with(&bench, MANY_CELLS);
  for (int round = 0; round < (int)check_seeds(20000); round++) {
    uint16_t job = (uint16_t)by_rng_below(&rng, HOLDERS);
    if (holds[job]) {
      mark(owned, &held[job], 1, 0);
      give(&bench, job);
      holds[job] = false;
      continue;
    }
    uint32_t wanted = (uint32_t)by_rng_below(&rng, 40), gap = largest_gap(owned);
    held[job] = take(&bench, job, wanted);
    holds[job] = true;
    assert_int_equal(held[job].count, wanted < gap ? wanted : gap);
    mark(owned, &held[job], 0, 1);
  }
  for (uint16_t job = 0; job < HOLDERS; job++)
    if (holds[job]) give(&bench, job);
  assert_int_equal(used_cells(&bench), 0);
  end(&bench);
}

static void test_grants(void **state) {
  (void)state;
  struct bench bench;
  begin(&bench);
  const struct by_reservation_reply *reply = grant(&bench, 0, "a", 7, 5, 60);
  assert_true(reply->well && reply->key == 5 && reply->granted.slots == 60);
  const struct by_grant *plane = &bench.noted.grants[7];
  assert_true(plane->key == 5 && plane->count == 60 && plane->place == 3 && plane->above == 1 && plane->below == 1);
  assert_int_equal(bench.noted.cleared, 60);
  assert_int_equal(bench.noted.members[plane->group], 2);
  reply = grant(&bench, 0, "a", 8, 5, 60); /* The rest is granted. */
  assert_true(reply->well && reply->granted.slots == 40);
  assert_int_not_equal(bench.noted.grants[8].group, plane->group);
  reply = grant(&bench, 0, "a", 9, 5, 60); /* Nothing is left. */
  assert_true(reply->well && reply->granted.slots == 0);
  reply = grant(&bench, 0, "a", 7, 5, 60); /* The request is repeated. */
  assert_true(reply->well && reply->granted.slots == 60);
  assert_int_equal(bench.noted.cleared, 100);
  reply = grant(&bench, 0, "a", 7, 5, 50); /* The key is the same and the request differs. */
  assert_false(reply->well || reply->taken);
  reply = grant(&bench, 0, "a", 7, 6, 50); /* The key differs. */
  assert_true(reply->well && reply->granted.slots == 50);
  assert_int_equal(bench.noted.grants[7].key, 6);
  end(&bench);
}

static void test_others(void **state) {
  (void)state;
  struct bench bench;
  begin(&bench);
  assert_true(grant(&bench, 0, "a", 7, 5, 60)->well);
  assert_true(grant(&bench, 1, "b", 7, 5, 60)->taken);
  assert_true(revoke_as(&bench, 1, "b", 7)->taken);
  assert_int_equal(bench.noted.grants[7].key, 5);
  assert_true(revoke_as(&bench, 0, "a", 7)->well);
  assert_int_equal(bench.noted.grants[7].key, 0);
  assert_false(revoke_as(&bench, 0, "a", 7)->well);
  assert_true(grant(&bench, 1, "b", 7, 5, 100)->well);
  assert_int_equal(owners[1].reply.granted.slots, 100);
  end(&bench);
}

static void test_lapse(void **state) {
  (void)state;
  struct bench bench;
  begin(&bench);
  assert_true(grant(&bench, 0, "a", 7, 5, 60)->well);
  assert_true(grant(&bench, 0, "a", 8, 5, 10)->well);
  pass(&bench, 1000); /* The job remains connected meanwhile. */
  by_reservations_leave(bench.all, &owners[0]);
  pass(&bench, BY_RESERVATION_SECONDS - 1);
  assert_true(grant(&bench, 1, "b", 7, 5, 60)->taken);
  assert_true(grant(&bench, 2, "a", 8, 5, 10)->well); /* Memory for one of them is available again. */
  assert_int_equal(bench.noted.cleared, 70);
  pass(&bench, 2);
  assert_int_equal(bench.noted.grants[7].key, 0);
  assert_int_equal(bench.noted.grants[8].key, 5);
  assert_true(grant(&bench, 1, "b", 7, 9, 90)->well);
  assert_int_equal(owners[1].reply.granted.slots, 60); /* The other job's cells are in between. */
  by_reservations_leave(bench.all, &owners[0]);        /* The cells belong to no job any more. */
  pass(&bench, 1000);
  assert_int_equal(bench.noted.grants[7].key, 9);
  assert_int_equal(bench.noted.grants[8].key, 5);
  end(&bench);
}

static void test_no_port(void **state) {
  (void)state;
  struct bench bench;
  begin(&bench);
  struct by_reservation_request request = request_of("a", 7, 5, 60);
  strcpy(request.reservation.below[1].interface, "eth77");
  const struct by_reservation_reply *reply = ask(&bench, 0, &request);
  assert_false(reply->well || reply->taken);
  assert_non_null(strstr(reply->text, "no port eth77 here, there are lo"));
  assert_true(grant(&bench, 0, "a", 7, 5, CELLS)->well);
  assert_int_equal(owners[0].reply.granted.slots, CELLS);
  end(&bench);
}

/* As many jobs as there are groups are accepted, and no more. */
static void test_too_many(void **state) {
  (void)state;
  struct bench bench;
  begin(&bench);
  struct by_text text;
  for (uint16_t job = 0; job < BY_PLANE_GROUPS; job++) assert_true(grant(&bench, 0, "a", job, 5, 0)->well);
  assert_false(grant(&bench, 0, "a", 999, 5, 0)->well);
  assert_non_null(strstr(owners[0].reply.text, "256 jobs already"));
  assert_true(grant(&bench, 0, "a", 9, 6, 0)->well);
  by_text_init(&text);
  by_reservations_print(bench.all, &text);
  assert_non_null(strstr(by_text_get(&text), "\"job\": 255, \"key\": 5, \"place\": 3, \"wanted\": 0, \"cells\": 0"));
  by_text_fini(&text);
  end(&bench);
}

/* The next membership of a job, whose holder is of the same family, takes over what the one before left: not what
 * others have, nor what is still held. */
static void test_successor(void **state) {
  (void)state;
  struct bench bench;
  enum { A = 1, B, C, D, E };
  begin(&bench);
  assert_true(grant(&bench, 0, "f/one", A, 5, 60)->well);
  assert_true(grant(&bench, 1, "f/two", B, 5, 10)->well);
  assert_true(grant(&bench, 2, "g/one", C, 5, 10)->well);
  by_reservations_leave(bench.all, &owners[0]);
  by_reservations_leave(bench.all, &owners[2]);
  assert_int_equal(used_cells(&bench), 80);
  assert_true(grant(&bench, 0, "f", D, 5, 5)->well); /* of no family */
  assert_int_equal(used_cells(&bench), 85);
  assert_true(grant(&bench, 0, "f/three", E, 5, 70)->well);
  assert_int_equal(bench.noted.grants[E].count, 60);
  assert_int_equal(used_cells(&bench), 85);
  end(&bench);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_grants),    cmocka_unit_test(test_others),   cmocka_unit_test(test_lapse),
      cmocka_unit_test(test_successor), cmocka_unit_test(test_no_port),  cmocka_unit_test(test_too_many),
      cmocka_unit_test(test_gaps),      cmocka_unit_test(test_no_cells), cmocka_unit_test(test_cells_at_random)};
  return cmocka_run_group_tests_name("reservations", tests, NULL, NULL);
}
