/* Who stands where a plan has servers. */
#include "plans.h"

#include "check.h"

enum { RANKS = 2, PROCESSES = 3, SERVER = 2, OWN = 0, INNER = 7 };

static const char served[] =
    "{\"format\": \"banyan-plan 1\", \"name\": \"served\", \"ranks\": 2, \"vertices\": {\"h/0\": "
    "{\"kind\": \"server\"}}, \"trees\": [{\"share\": 1, \"root\": \"h/0\", \"up\": {\"0\": "
    "\"h/0\", \"1\": \"h/0\"}}]}";

/* Rank 1 of two, that have a server. */
struct rank {
  struct by_context context;
  struct by_member members[PROCESSES];
  struct by_team *own, *inner;
};

static void init(struct rank *rank) {
  static const uint32_t all[RANKS] = {0, 1};
  struct by_engine_options options = {.processes = PROCESSES, .ranks = RANKS, .self = 1};
  struct by_context *c = &rank->context;
  *rank = (struct rank){.context = {.job = {.rank = 1, .size = RANKS, .processes = PROCESSES, .founders = PROCESSES}}};
  assert_ok(by_settings_read(&c->job.settings));
  by_arena_init(&c->job.arena);
  for (uint32_t p = 0; p < PROCESSES; p++)
    rank->members[p] = (struct by_member){.host = "here", .machine = "this", .local = "", .cores = 4};
  rank->members[SERVER].kind = BY_MEMBER_SERVER;
  c->job.members = rank->members;
  assert_ok(by_hosts_index(&c->job));
  assert_ok(by_engine_create(&options, &c->job.engine));
  assert_ok(by_team_create(c->job.engine, OWN, 1, RANKS, all, &rank->own));
  assert_ok(by_team_create(c->job.engine, INNER, 1, RANKS, all, &rank->inner));
}

static void fini(struct rank *rank) {
  by_engine_destroy(rank->context.job.engine);
  by_arena_fini(&rank->context.job.arena);
}

/* Whether calls of this domain go to the server from now on. */
static bool goes_to_server(struct rank *rank, struct by_team *team) {
  static const uint32_t all[RANKS] = {0, 1};
  struct by_plan *plan = NULL;
  assert_ok(by_plans_named(&rank->context, RANKS, all, served, &plan));
  assert_ok(by_plans_set(&rank->context, team, RANKS, all, plan, NULL));
  const uint32_t *helpers = by_team_helpers(team);
  return helpers && helpers[0] == SERVER;
}

/* A move is taken for the job's own communicator and noted for what is submitted to it: which one comes first is a
 * matter of chance, and ranks must not differ in who has the servers. */
static void test_order_does_not_matter(void **state) {
  struct rank first, second;
  (void)state;
  init(&first);
  assert_true(goes_to_server(&first, first.own));
  assert_false(goes_to_server(&first, first.inner));
  fini(&first);
  init(&second);
  assert_false(goes_to_server(&second, second.inner));
  assert_true(goes_to_server(&second, second.own));
  fini(&second);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_order_does_not_matter)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
