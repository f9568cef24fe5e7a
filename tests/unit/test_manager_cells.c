/* Tests of the memory of switches: jobs' reservation requests are answered, counted, freed and stored. The test
 * controls the manager's clock. */
#include "../manager_world.h"
#include "check.h"
#include "json_doc.h"
#include "manager_cells.h"
#include "rng.h"

enum { SLOT = 1000 };

static struct world world;

/* Begins with two hosts at a switch that has memory for the given number of slots. */
static void begin(unsigned slots) {
  char topology[600];
  snprintf(
      topology, sizeof topology,
      "{\"format\": \"banyan-topology 1\", \"nodes\": [\"a\", \"b\", \"c\", {\"name\": \"s\", \"kind\": \"switch\", "
      "\"aggregates\": true, \"memory\": %u}, {\"name\": \"t\", \"kind\": \"switch\", \"aggregates\": true}], "
      "\"links\": [{\"a\": \"a\", \"b\": \"s\", \"capacity\": 1e9}, {\"a\": \"b\", \"b\": \"s\", \"capacity\": 1e9}, "
      "{\"a\": \"c\", \"b\": \"s\", \"capacity\": 1e8}, {\"a\": \"c\", \"b\": \"t\", \"capacity\": 1e9}]}",
      slots * SLOT);
  world_begin(&world, topology);
  for (uint32_t h = 0; h < world.n_hosts; h++) world_join(&world, h);
}

/* Sends rank 0's reservation request. If `given` is NULL, rank 0 has no memory yet. */
static void print_cells(const struct world_job *job, const struct by_cluster_cells *cells, uint32_t n) {
  struct by_cluster_message message = {.type = BY_MESSAGE_RESERVE, .job = job->id, .n_cells = n, .cells = cells};
  assert_ok(by_manager_handle(world.manager, world.hosts[job->hosts[0]].peer, &message, world.now));
}

static struct by_cluster_cells request(const char *at, uint32_t slots) {
  return (struct by_cluster_cells){.at = at, .server = "b", .slots = slots, .bytes = SLOT};
}

/* Requests the given number of slots at s. Returns how many the manager grants. */
static uint32_t ask(const struct world_job *job, uint32_t slots) {
  struct by_cluster_cells cells = request("s", slots);
  unsigned before = world.answers;
  print_cells(job, &cells, 1);
  assert_int_equal(world.answers, before + 1);
  assert_int_equal(world.n_cells, 1);
  return world.cells[0];
}

static uint32_t given_at(const char *name) {
  static const struct by_doc_limits limits = {.bytes = 1 << 24, .containers = 1 << 20, .elements = 1 << 20};
  struct by_text text;
  json_t *doc, *one;
  uint32_t given = UINT32_MAX;
  size_t i;
  by_text_init(&text);
  by_manager_state(world.manager, world.now, &text);
  assert_ok(by_doc_load("state", by_text_get(&text), text.length, &limits, &doc));
  json_array_foreach(json_object_get(doc, "switches"), i, one) {
    if (!strcmp(json_string_value(json_object_get(one, "name")), name))
      given = (uint32_t)(json_number_value(json_object_get(one, "given")) / SLOT);
  }
  json_decref(doc);
  by_text_fini(&text);
  return given;
}

static void test_all_fit(void **state) {
  (void)state;
  begin(1000);
  for (uint32_t j = 1; j <= 3; j++) {
    assert_int_equal(ask(world_run(&world, 0, 1, 2), 250), 250);
    assert_int_equal(given_at("s"), 250 * j);
  }
  world_end(&world);
}

static void test_too_small(void **state) {
  (void)state;
  begin(400);
  struct world_job *first = world_run(&world, 0, 1, 2);
  assert_int_equal(ask(first, 512), 300);
  assert_int_equal(ask(first, 512), 300); /* The request is repeated after the connection was lost. */
  struct world_job *late = world_run(&world, 0, 1, 2);
  assert_int_equal(ask(late, 512), 100);
  assert_int_equal(ask(world_run(&world, 0, 1, 2), 512), 0);
  assert_int_equal(given_at("s"), 400);
  /* The first job leaves: the next one gets its fair share of three. */
  first->runs = false;
  struct by_cluster_message left = {.type = BY_MESSAGE_LEFT, .job = first->id};
  assert_ok(by_manager_handle(world.manager, world.hosts[0].peer, &left, world.now));
  assert_int_equal(given_at("s"), 100);
  assert_int_equal(ask(world_run(&world, 0, 1, 2), 512), 100);
  world_end(&world);
}

/* A job on slower links needs less at once. */
static void test_by_need(void **state) {
  (void)state;
  begin(400);
  /* These are hosts c and b. */
  struct world_job *fast = world_run(&world, 0, 1, 2), *slow = world_run(&world, 2, 2, 2);
  assert_int_equal(slow->hosts[1], 1);
  assert_int_equal(ask(fast, 512), 300);
  assert_int_equal(ask(slow, 512), 27); /* The slow job needs one part in eleven of 300. */
  world_end(&world);
}

/* What a job reports to have counts, even beyond what was granted, and where no manager was asked. */
static void test_reported(void **state) {
  (void)state;
  begin(400);
  struct world_job *job = world_run(&world, 0, 1, 2);
  assert_int_equal(ask(job, 512), 300);
  struct by_cluster_cells has = request("s", 512);
  has.has = true;
  has.given = 350;
  unsigned before = world.answers;
  print_cells(job, &has, 1);
  assert_int_equal(world.answers, before);
  assert_int_equal(given_at("s"), 350);
  assert_int_equal(ask(world_run(&world, 0, 1, 2), 512), 50);
  world_end(&world);
}

/* A job's claim is limited to what it has requested and what exists; what it did not get is available to others. */
static void test_inflated_claims(void **state) {
  (void)state;
  begin(400);
  struct world_job *job = world_run(&world, 0, 1, 2), *other = world_run(&world, 0, 1, 2);
  struct by_cluster_cells has = request("s", 512);
  has.has = true;
  has.given = 60000;
  print_cells(job, &has, 1);
  assert_int_equal(given_at("s"), 400);
  has.slots = 200;
  print_cells(job, &has, 1);
  assert_int_equal(given_at("s"), 200);
  assert_int_equal(ask(other, 512), 150);
  has.given = 0; /* The switch has refused the job, so the job has no claim any more. */
  print_cells(job, &has, 1);
  assert_int_equal(given_at("s"), 150);
  assert_int_equal(ask(world_run(&world, 0, 1, 2), 512), 150);
  world_end(&world);
}

/* Both trees of a job get as much. At a switch that is unknown, or whose memory is unknown, the request is granted in
 * full. */
static void test_several(void **state) {
  const struct by_cluster_cells cells[] = {request("s", 512), request("t", 512), request("s", 512),
                                           request("nobody", 512)};
  (void)state;
  begin(400);
  print_cells(world_run(&world, 0, 1, 2), cells, 4);
  assert_int_equal(world.n_cells, 4);
  assert_int_equal(world.cells[0], 150);
  assert_int_equal(world.cells[1], 512);
  assert_int_equal(world.cells[2], 150);
  assert_int_equal(world.cells[3], 512);
  assert_int_equal(given_at("t"), 512);
  world_end(&world);
}

/* A job that no longer uses in-network trees has no memory at switches, and others may have it. */
static void test_given_back(void **state) {
  (void)state;
  begin(400);
  struct world_job *job = world_run(&world, 0, 1, 2);
  ask(job, 512);
  assert_int_equal(given_at("s"), 300);
  print_cells(job, NULL, 0);
  assert_int_equal(given_at("s"), 0);
  assert_int_equal(ask(world_run(&world, 0, 1, 2), 512), 300);
  assert_int_equal(ask(job, 512), 100);
  world_end(&world);
}

/* Only the agent of rank 0 is given memory; other ranks need not wait. */
static void test_unauthenticated_peers(void **state) {
  struct by_cluster_cells cells = request("s", 512);
  (void)state;
  begin(400);
  struct world_job *job = world_run(&world, 0, 1, 2);
  struct by_cluster_message message = {.type = BY_MESSAGE_RESERVE, .job = job->id, .n_cells = 1, .cells = &cells};
  assert_ok(by_manager_handle(world.manager, world.hosts[1].peer, &message, world.now));
  message.job = "0123456789abcdef0123456789abcdef";
  assert_ok(by_manager_handle(world.manager, world.hosts[0].peer, &message, world.now));
  assert_int_equal(world.answers, 2);
  assert_int_equal(world.n_cells, 0);
  assert_int_equal(given_at("s"), 0);
  world_end(&world);
}

/* ---- shares of memory ---- */

static struct by_cells_claim claim(double request) {
  return (struct by_cells_claim){.request = request, .weight = by_cells_weight(1, 0)};
}

static void assert_about(double value, double wanted) {
  assert_float_equal(value, wanted, 1e-9 * (1 + wanted));
}

static double share_of(double memory, double given, const struct by_cells_claim *claims, uint32_t n, uint32_t which) {
  double share;
  by_cells_share(memory, given, claims, n, which, 1, &share);
  return share;
}

/* Jobs arrive in order, and the last of them requests memory. */
static double share_of_last(double memory, double given, const struct by_cells_claim *claims, uint32_t n) {
  return share_of(memory, given, claims, n, n - 1);
}

static void test_all_fit_memory(void **state) {
  const struct by_cells_claim claims[] = {claim(20), claim(30), claim(25)};
  (void)state;
  double given = 0;
  for (uint32_t n = 1; n <= 3; n++) {
    assert_about(share_of_last(100, given, claims, n), claims[n - 1].request);
    given += claims[n - 1].request;
  }
}

/* The first job may not have all memory; the second gets what was left for it, and the third finds nothing. */
static void test_too_small_memory(void **state) {
  const struct by_cells_claim claims[] = {claim(500), claim(500), claim(500)};
  (void)state;
  assert_about(share_of_last(100, 0, claims, 1), 75);
  assert_about(share_of_last(100, 75, claims, 2), 25);
  assert_about(share_of_last(100, 100, claims, 3), 0);
  assert_about(share_of_last(100, 140, claims, 3), 0); /* A job has taken more than it was granted. */
}

/* A job that requests little leaves the rest to the others. */
static void test_max_min(void **state) {
  const struct by_cells_claim claims[] = {claim(5), claim(60), claim(60)};
  (void)state;
  assert_about(share_of(100, 0, claims, 3, 0), 5);
  assert_about(share_of(100, 0, claims, 3, 1), 35);
  assert_about(share_of(100, 0, claims, 3, 2), 35);
}

/* After two of three jobs have left, the next one gets as much as it would have had beside one. */
static void test_leaving_frees(void **state) {
  const struct by_cells_claim claims[] = {claim(60), claim(60)};
  (void)state;
  assert_about(share_of_last(100, 37.5, claims, 2), 37.5);
}

/* Trees of one job share what is left for it, as they would have shared more. */
static void test_several_trees(void **state) {
  const struct by_cells_claim claims[] = {claim(200), claim(10), {.request = 200, .weight = by_cells_weight(1, 1)}};
  double shares[2];
  (void)state;
  by_cells_share(100, 0, claims, 3, 1, 2, shares);
  assert_about(shares[0], 10);
  assert_about(shares[1], 65.0 / 3);
  by_cells_share(100, 90.5, claims, 3, 1, 2, shares);
  assert_about(shares[0], 3);
  assert_about(shares[1], 6.5);
}

static void test_weights(void **state) {
  const struct by_cells_claim claims[] = {{.request = 100, .weight = by_cells_weight(1, 0)},
                                          {.request = 100, .weight = by_cells_weight(1, 1)},
                                          {.request = 100, .weight = by_cells_weight(2, 3)}};
  (void)state;
  assert_about(share_of(70, 0, claims, 3, 0), 30);
  assert_about(share_of(70, 0, claims, 3, 1), 15);
  assert_about(share_of(70, 0, claims, 3, 2), 7.5);
}

/* For random claims, all claims together have what there is to share, and only a claim whose request is met has less
 * than the share of its weight. */
static void test_random(void **state) {
  struct by_cells_claim claims[20];
  struct by_rng rng;
  (void)state;
  by_rng_init(&rng, 1);
  for (int round = 0; round < 2000; round++) {
    uint32_t n = 1 + (uint32_t)by_rng_below(&rng, 20);
    double memory = 1 + 1000 * by_rng_unit(&rng), requests = 0, sum = 0, level = 0;
    for (uint32_t i = 0; i < n; i++) {
      claims[i] =
          (struct by_cells_claim){.request = 1 + 100 * by_rng_unit(&rng),
                                  .weight = by_cells_weight(0.1 + by_rng_unit(&rng), (uint32_t)by_rng_below(&rng, 4))};
      requests += claims[i].request;
    }
    for (uint32_t i = 0; i < n; i++) {
      double share = share_of(memory, 0, claims, n, i);
      sum += share;
      if (share / claims[i].weight > level) level = share / claims[i].weight;
    }
    assert_about(sum, requests <= 0.75 * memory ? requests : 0.75 * memory);
    for (uint32_t i = 0; i < n; i++) {
      double share = share_of(memory, 0, claims, n, i);
      assert_true(share <= claims[i].request * (1 + 1e-9));
      if (share < claims[i].request * (1 - 1e-9)) assert_about(share / claims[i].weight, level);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_fit),
      cmocka_unit_test(test_too_small),
      cmocka_unit_test(test_by_need),
      cmocka_unit_test(test_reported),
      cmocka_unit_test(test_inflated_claims),
      cmocka_unit_test(test_several),
      cmocka_unit_test(test_unauthenticated_peers),
      cmocka_unit_test(test_given_back),
      cmocka_unit_test(test_all_fit_memory),
      cmocka_unit_test(test_too_small_memory),
      cmocka_unit_test(test_max_min),
      cmocka_unit_test(test_leaving_frees),
      cmocka_unit_test(test_several_trees),
      cmocka_unit_test(test_weights),
      cmocka_unit_test(test_random),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
