/* Calls over plans through switches, whole, in memory: executors, workers, switches and the server, together with
 * groups of trees among ranks. Packets get lost. The server dies at any moment, and the ranks continue without it.
 * Ranks change to another version of the tree while calls of both are under way, and neither takes anything of the
 * other. What switches do not add goes among ranks and is counted, also between calls that they add. */
#include <stdlib.h>
#include <string.h>

#include "../prop/schedule_plans.h"
#include "check.h"
#include "collective.h"
#include "fabric.h"
#include "server.h"
#include "tree_net.h"
#include "worker.h"
#include "world.h"

enum { SLOTS = 32, LINES = 4, INBOX = 512, VERSIONS = 2 };

/* Packets that have arrived at a worker and wait until its rank reads them. */
struct inbox {
  struct version *version;
  unsigned worker;
  size_t n;
  struct {
    size_t bytes;
    _Alignas(64) unsigned char data[64 + LINES * 64];
  } packets[INBOX];
};

/* One tree through switches, as a version of the plan's trees has it. */
struct version {
  struct rig *rig;
  struct net net;
  struct by_server *server;
  struct inbox inboxes[WORLD_MOST];
};

struct rig {
  struct world world;
  struct version versions[VERSIONS];
  uint32_t n_versions; /* that are in use */
  uint32_t server_process;
  unsigned worker_of[WORLD_MOST]; /* by rank; NET_WORKERS: the rank is a twig */
  struct by_plan *plan;
  uint32_t change_at;       /* a rank that has started so many calls changes to the second version */
  bool changed[WORLD_MOST]; /* by rank */
};

/* --- packets --- */

static uint64_t now(const struct rig *rig) {
  struct by_clock clock = by_sim_clock(rig->world.sim);
  return by_clock_now(&clock);
}

/* Handles everything that happens in the network up to the current time. */
static void catch_up(struct version *version) {
  uint64_t until = now(version->rig);
  while (net_next(&version->net) <= until) net_step(&version->net);
  version->net.now = until;
}

static void put(struct inbox *inbox, const struct by_fragment *packet, size_t bytes) {
  if (inbox->n == INBOX || bytes > sizeof inbox->packets->data) return; /* a full socket drops the packet */
  inbox->packets[inbox->n].bytes = bytes;
  memcpy(inbox->packets[inbox->n++].data, packet, bytes);
}

/* Whatever comes, comes to the ends of both versions. */
static void to_worker(void *context, unsigned worker, const struct by_fragment *packet, size_t bytes) {
  struct rig *rig = ((struct version *)context)->rig;
  for (uint32_t v = 0; v < rig->n_versions; v++) put(&rig->versions[v].inboxes[worker], packet, bytes);
}

static void to_server(void *context, const struct by_fragment *packet, size_t bytes) {
  struct rig *rig = ((struct version *)context)->rig;
  if (rig->world.nodes[rig->server_process].dead) return;
  for (uint32_t v = 0; v < rig->n_versions; v++) by_server_take(rig->versions[v].server, packet, bytes);
}

static void worker_emits(void *context, const struct by_fragment *packet) {
  const struct inbox *inbox = context;
  catch_up(inbox->version);
  net_from_worker(&inbox->version->net, inbox->worker, packet);
}

static void server_emits(void *context, const struct by_fragment *packet, int to) {
  struct version *version = context;
  net_from_server(&version->net, packet, to);
}

static bool take(void *context, struct by_worker *worker, uint64_t at) {
  struct inbox *inbox = context;
  catch_up(inbox->version);
  size_t n = inbox->n;
  for (size_t i = 0; i < n; i++)
    by_worker_take(worker, (const struct by_fragment *)(const void *)inbox->packets[i].data, inbox->packets[i].bytes,
                   at);
  inbox->n = 0;
  return n > 0;
}

static uint64_t next(void *context) {
  const struct rig *rig = context;
  uint64_t first = UINT64_MAX;
  for (uint32_t v = 0; v < rig->n_versions; v++) {
    uint64_t at = net_next(&rig->versions[v].net);
    if (at < first) first = at;
  }
  for (uint32_t r = 0; r < rig->world.n; r++) {
    uint64_t at = by_engine_deadline(rig->world.nodes[r].engine);
    if (at < first) first = at;
  }
  return first;
}

/* --- making a rig --- */

static const unsigned char secret[BY_WORKER_SECRET] = "a secret of the job";

static uint16_t job_of(const struct version *version) {
  return (uint16_t)(1 + (version - version->rig->versions));
}

static struct by_fabric *make_version_fabric(struct version *version, uint32_t rank) {
  struct rig *rig = version->rig;
  unsigned worker = rig->worker_of[rank];
  struct inbox *inbox = &version->inboxes[worker];
  struct by_worker_config config = {.job = job_of(version),
                                    .key = 1,
                                    .rank = worker,
                                    .groups = by_one_group(version->net.workers),
                                    .slots = SLOTS,
                                    .lines = LINES,
                                    .timeout = 200 * BY_MILLISECOND,
                                    .emit = worker_emits,
                                    .context = inbox};
  struct by_tree_io io = {.take = take, .context = inbox, .poll_fd = -1};
  struct by_clock clock = by_sim_clock(rig->world.sim);
  struct by_fabric *fabric = NULL;
  memcpy(config.secret, secret, sizeof secret);
  config.hops = net_way(&version->net, worker, false, config.stack);
  net_below(&version->net, worker, config.below);
  assert_ok(by_tree_fabric_create(&config, &io, &clock, &fabric));
  return fabric;
}

static struct by_fabric *make_fabric(void *context, uint32_t rank) {
  struct rig *rig = context;
  return make_version_fabric(&rig->versions[0], rank);
}

/* Places switches and workers as the plan's first group of trees does. */
static void lay_out(struct version *version, const struct by_plan *plan) {
  const struct by_group *group = &plan->classes->groups[0];
  struct rig *rig = version->rig;
  struct net *net = &version->net;
  for (uint32_t r = 0; r < WORLD_MOST; r++) rig->worker_of[r] = NET_WORKERS;
  for (uint32_t u = 0; u < group->n; u++) {
    uint32_t vertex = group->order[u], above = group->order[group->up[u]];
    int switch_above = plan->vertices[above].kind == BY_VERTEX_SERVER ? NET_SERVER : (int)(above - plan->n_ranks);
    if (plan->vertices[vertex].kind == BY_VERTEX_SWITCH)
      net->at[vertex - plan->n_ranks] = (struct net_switch){.above = switch_above, .aggregates = true, .slots = SLOTS};
    if (plan->vertices[vertex].kind != BY_VERTEX_RANK) continue;
    rig->worker_of[vertex] = net->workers;
    net->worker_at[net->workers++] = switch_above;
  }
  net->switches = plan->n_vertices - plan->n_ranks - 1;
  rig->server_process = plan->n_vertices - 1;
}

static void make_server(struct version *version) {
  struct by_server_path ways[NET_WORKERS] = {{0}};
  for (unsigned w = 0; w < version->net.workers; w++) ways[w].hops = net_way(&version->net, w, true, ways[w].stack);
  struct by_server_config config = {.job = job_of(version),
                                    .key = 1,
                                    .groups = by_one_group(version->net.workers),
                                    .slots = SLOTS,
                                    .lines = LINES,
                                    .multicast = true,
                                    .secret = secret,
                                    .secret_bytes = sizeof secret,
                                    .paths = ways,
                                    .emit = server_emits,
                                    .context = version};
  assert_ok(by_server_create(&config, &version->server));
}

static struct by_plan *copy_plan(void *context) {
  const struct by_plan *plan = context;
  struct by_plan *stars;
  assert_ok(by_plan_without_switches(plan, &stars));
  return stars;
}

static void make_version(struct rig *rig, uint32_t number, const struct by_plan *plan, double lost, uint64_t seed) {
  struct version *version = &rig->versions[number];
  version->rig = rig;
  version->net = (struct net){
      .rate = 1e8, .delay = 20 * BY_MICROSECOND, .queue = 5 * BY_MILLISECOND, .job = job_of(version), .key = 1};
  version->net.faults.lost = lost;
  lay_out(version, plan);
  net_init(&version->net, seed + number);
  make_server(version);
  for (unsigned w = 0; w < WORLD_MOST; w++) version->inboxes[w] = (struct inbox){.version = version, .worker = w};
  version->net.context = version;
  version->net.to_worker = to_worker;
  version->net.to_server = to_server;
}

static struct rig *make_rig(uint64_t seed, double lost) {
  struct by_sim_options links;
  struct by_engine_options engine;
  struct by_rng rng;
  struct rig *rig = calloc(1, sizeof *rig);
  assert_non_null(rig);
  by_rng_init(&rng, seed);
  world_options(seed, &links, &engine);
  uint32_t n = 2 + below(&rng, 7), switches = below(&rng, 5);
  struct by_plan *plan = random_through_plan(&rng, n, switches, true);
  rig->n_versions = 1;
  for (uint32_t v = 0; v < VERSIONS; v++) make_version(rig, v, plan, lost, seed);
  world_init_helped(&rig->world, n, switches + 1, copy_plan, plan, &links, &engine, seed);
  rig->world.fabric = make_fabric;
  rig->world.next = next;
  rig->world.fabric_context = rig;
  rig->plan = plan;
  return rig;
}

static void free_rig(struct rig *rig) {
  world_fini(&rig->world);
  for (uint32_t v = 0; v < VERSIONS; v++) {
    by_server_destroy(rig->versions[v].server);
    net_fini(&rig->versions[v].net);
  }
  by_plan_destroy(rig->plan);
  free(rig);
}

/* --- calls --- */

static void choose_operation(struct rig *rig, struct operation *operation) {
  struct by_rng *rng = &rig->world.rng;
  static const enum banyan_op ops[] = {BANYAN_SUM, BANYAN_SUM, BANYAN_AVERAGE, BANYAN_MAX};
  enum banyan_collective collective = BANYAN_ALLREDUCE;
  if (below(rng, 6) == 0) collective = (enum banyan_collective)below(rng, BANYAN_BARRIER + 1);
  size_t count = below(rng, 4) ? below(rng, 6000) : below(rng, 5);
  if (collective >= BANYAN_REDUCE_SCATTER && collective != BANYAN_BARRIER) count /= rig->world.n;
  *operation =
      (struct operation){.call = {.collective = collective, .count = count, .root = (int)below(rng, rig->world.n)}};
  operation->call.op = ops[below(rng, 4)];
  operation->call.dtype = below(rng, 5) ? BANYAN_FLOAT32 : BANYAN_FLOAT64;
  if (!rig->world.rough && below(rng, 3) == 0) operation->call.dtype = BANYAN_INT32;
  if (operation->call.dtype == BANYAN_INT32) operation->call.op = BANYAN_SUM;
  operation->in_place = collective <= BANYAN_REDUCE && below(rng, 2);
}

static void run_rig(struct rig *rig, uint64_t seed) {
  struct world *world = &rig->world;
  for (int round = 0; round < 3; round++) {
    world->n_operations = 1 + below(&world->rng, 5);
    for (uint32_t d = 0; d < world->n_operations; d++) choose_operation(rig, &world->operations[d]);
    if (!world_run(world)) fail_msg("seed %llu: deadlock with %u ranks", (unsigned long long)seed, world->n);
    for (uint32_t r = 0; r < world->n; r++)
      if (by_engine_status(world->nodes[r].engine) != BANYAN_OK)
        fail_msg("seed %llu: rank %u: %s", (unsigned long long)seed, r,
                 by_engine_get_state(world->nodes[r].engine)->error);
    world_check(world);
    world_clear(world);
  }
}

static void test_in_network(void **state) {
  (void)state;
  uint64_t terms = 0;
  for (uint64_t seed = 1; seed <= check_seeds(100); seed++) {
    struct rig *rig = make_rig(seed, seed % 3 ? 0 : 0.02);
    rig->world.rough = seed % 2;
    run_rig(rig, seed);
    terms += by_server_counters(rig->versions[0].server)->terms;
    free_rig(rig);
  }
  assert_true(terms > 1000); /* terms did go through the switches */
}

static void test_server_dies(void **state) {
  (void)state;
  for (uint64_t seed = 1001; seed <= 1000 + check_seeds(100); seed++) {
    struct rig *rig = make_rig(seed, seed % 3 ? 0 : 0.02);
    rig->world.rough = seed % 2;
    rig->world.kill_rank = rig->server_process;
    rig->world.kill_turn = below(&rig->world.rng, below(&rig->world.rng, 2) ? 100 : 2000);
    run_rig(rig, seed);
    free_rig(rig);
  }
}

/* Stands for rank 0's notice: the others learn of a rank's death some time later. */
static bool learn_of_death(void *context, struct node *node) {
  struct world *world = context;
  if (!world->nodes[world->kill_rank].dead || by_engine_status(node->engine) != BANYAN_OK) return false;
  if (node->dead || below(&world->rng, 20)) return true;
  by_engine_fail(node->engine, BANYAN_ERR_PEER_DEAD, world->kill_rank, "a rank died");
  return true;
}

/* A rank dies: the others' calls fail, and whatever switches had of them, world_clear finds their inputs unchanged. */
static void test_rank_dies(void **state) {
  (void)state;
  uint32_t failed = 0;
  for (uint64_t seed = 2001; seed <= 2000 + check_seeds(60); seed++) {
    struct rig *rig = make_rig(seed, seed % 3 ? 0 : 0.02);
    struct world *world = &rig->world;
    world->kill_rank = below(&world->rng, world->n);
    world->kill_turn = below(&world->rng, below(&world->rng, 2) ? 100 : 1000);
    world->take_turn = learn_of_death;
    world->turn_context = world;
    world->n_operations = 3;
    for (uint32_t d = 0; d < 3; d++) choose_operation(rig, &world->operations[d]);
    if (!world_run(world)) fail_msg("seed %llu: hangs after a death", (unsigned long long)seed);
    for (uint32_t r = 0; r < world->n; r++)
      failed += !world->nodes[r].dead && by_engine_status(world->nodes[r].engine) != BANYAN_OK;
    free_rig(rig);
  }
  assert_true(failed > 0);
}

/* --- what goes which way --- */

static bool adds(const struct banyan_call *call) {
  return call->collective == BANYAN_ALLREDUCE && (call->op == BANYAN_SUM || call->op == BANYAN_AVERAGE) &&
         (call->dtype == BANYAN_FLOAT32 || call->dtype == BANYAN_INT32);
}

/* Whether the call's size class has trees to servers. */
static bool has_servers(const struct rig *rig, const struct operation *operation) {
  const struct banyan_call *call = &operation->call;
  size_t count = call->count;
  if (call->counts) count = 0;
  for (uint32_t r = 0; r < rig->world.n && call->counts; r++) count += call->counts[r];
  if (!call->counts && by_collective(call->collective)->blocks) count *= rig->world.n;
  const struct by_class *class_ = by_plan_class(rig->plan, count * banyan_dtype_size(call->dtype));
  for (uint32_t g = 0; g < class_->n_groups; g++)
    if (by_group_has_server(rig->plan, &class_->groups[g])) return true;
  return false;
}

/* Barriers, and collectives between a block's owner and its user, have no trees. */
static bool falls_back(const struct banyan_call *call) {
  return !adds(call) && call->collective <= BANYAN_ALLGATHER;
}

/* Every collective, type and operation in turn; their order differs from seed to seed. */
static void choose_every(struct rig *rig, uint32_t number, struct operation *operation) {
  static const enum banyan_dtype dtypes[] = {BANYAN_FLOAT32, BANYAN_FLOAT64, BANYAN_INT32, BANYAN_INT64, BANYAN_UINT8};
  static const enum banyan_op ops[] = {BANYAN_SUM, BANYAN_AVERAGE, BANYAN_MIN, BANYAN_MAX};
  struct by_rng *rng = &rig->world.rng;
  struct banyan_call *call = &operation->call;
  *operation = (struct operation){.call = {.count = 1 + below(rng, 900), .root = (int)below(rng, rig->world.n)}};
  call->collective = number % 2 ? (enum banyan_collective)(number / 2 % (BANYAN_BARRIER + 1)) : BANYAN_ALLREDUCE;
  call->dtype = dtypes[below(rng, 5)];
  call->op = ops[below(rng, 4)];
  bool integers = call->dtype > BANYAN_FLOAT64;
  if (call->dtype == BANYAN_UINT8 || (integers && call->op == BANYAN_AVERAGE)) call->op = BANYAN_SUM;
  bool unequal = call->collective == BANYAN_REDUCE_SCATTER || call->collective == BANYAN_ALLGATHER;
  if (unequal && below(rng, 2)) {
    for (uint32_t r = 0; r < rig->world.n; r++) operation->counts[r] = 1 + below(rng, 500);
    call->counts = operation->counts;
    call->count = 0;
  }
  operation->in_place = call->collective <= BANYAN_REDUCE && below(rng, 2);
}

static void test_ways(void **state) {
  (void)state;
  uint64_t all_in_network = 0, all_fallbacks = 0;
  for (uint64_t seed = 3001; seed <= 3000 + check_seeds(20); seed++) {
    struct rig *rig = make_rig(seed, 0);
    struct world *world = &rig->world;
    uint64_t in_network = 0, fallbacks = 0;
    for (uint32_t number = 0; number < 64;) {
      world->n_operations = OPERATIONS_MOST;
      for (uint32_t d = 0; d < OPERATIONS_MOST; d++, number++) {
        choose_every(rig, number, &world->operations[d]);
        bool servers = has_servers(rig, &world->operations[d]);
        in_network += servers && adds(&world->operations[d].call);
        fallbacks += servers && falls_back(&world->operations[d].call);
      }
      assert_true(world_run(world));
      world_check(world);
      world_clear(world);
    }
    all_in_network += in_network;
    all_fallbacks += fallbacks;
    for (uint32_t r = 0; r < world->n; r++) {
      struct banyan_counters counters;
      by_engine_counters(world->nodes[r].engine, &counters);
      bool lost = by_engine_peer(world->nodes[r].engine, rig->server_process).lost; /* it was silent for too long */
      if (counters.in_network_fallbacks != fallbacks ||
          (lost ? counters.in_network > in_network : counters.in_network != in_network))
        fail_msg("seed %llu, rank %u: %llu and %llu calls, not %llu and %llu", (unsigned long long)seed, r,
                 (unsigned long long)counters.in_network, (unsigned long long)counters.in_network_fallbacks,
                 (unsigned long long)in_network, (unsigned long long)fallbacks);
    }
    free_rig(rig);
  }
  assert_true(all_in_network > 2 * check_seeds(20) && all_fallbacks > 10 * check_seeds(20));
}

/* All ranks change at the same call, and each while calls of its own and of others are under way. */
static bool change(void *context, struct node *node) {
  struct rig *rig = context;
  uint32_t helpers[WORLD_MOST];
  if (node->rank >= rig->world.n || rig->changed[node->rank] || node->started < rig->change_at) return false;
  for (uint32_t h = 0; h < rig->world.n_helpers; h++) helpers[h] = rig->world.n + h;
  assert_ok(by_team_set_helped_plan(node->team, copy_plan(rig->plan), helpers, 1));
  rig->changed[node->rank] = true;
  return true;
}

static void attach_both(struct rig *rig) {
  rig->n_versions = VERSIONS;
  rig->change_at = 1 + (uint32_t)below(&rig->world.rng, 3);
  rig->world.take_turn = change;
  rig->world.turn_context = rig;
  for (uint32_t i = 0; i < VERSIONS * rig->world.n; i++)
    if (rig->worker_of[i / VERSIONS] < NET_WORKERS)
      assert_ok(by_engine_attach_fabric(rig->world.nodes[i / VERSIONS].engine, rig->server_process, i % VERSIONS,
                                        make_version_fabric(&rig->versions[i % VERSIONS], i / VERSIONS)));
}

/* The first version is of no more use, and later calls do without it. */
static void detach_first(struct rig *rig) {
  for (uint32_t r = 0; r < rig->world.n; r++) {
    struct by_engine *engine = rig->world.nodes[r].engine;
    assert_false(by_engine_detach_fabrics(engine, 1));
    assert_true(by_engine_detach_fabrics(engine, 0));
  }
}

static void test_versions(void **state) {
  (void)state;
  uint64_t results[VERSIONS] = {0}, foreign[VERSIONS] = {0};
  for (uint64_t seed = 2001; seed <= 2000 + check_seeds(70); seed++) {
    struct rig *rig = make_rig(seed, seed % 3 ? 0 : 0.02);
    attach_both(rig);
    run_rig(rig, seed);
    for (uint32_t v = 0; v < VERSIONS; v++) {
      const struct by_server_counters *counters = by_server_counters(rig->versions[v].server);
      results[v] += counters->results;
      foreign[v] += counters->foreign;
      assert_int_equal(counters->failed_checks, 0);
    }
    bool all = true;
    for (uint32_t r = 0; r < rig->world.n; r++) all &= rig->changed[r];
    if (all) {
      detach_first(rig);
      run_rig(rig, seed);
    }
    free_rig(rig);
  }
  for (uint32_t v = 0; v < VERSIONS; v++) assert_true(results[v] > 100 && foreign[v] > 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_in_network), cmocka_unit_test(test_server_dies), cmocka_unit_test(test_rank_dies),
      cmocka_unit_test(test_ways),       cmocka_unit_test(test_versions),
  };
  return cmocka_run_group_tests_name("calls in the network", tests, NULL, NULL);
}
