/* Tests of the manager's decisions. The test controls the clock, the agents and the planner. */
#include "../manager_view.h"

#include <math.h>

/* ---- plans ---- */

/* Four hosts at one switch reach T* = nB / (2(n - 1)). */
static void test_first_plan(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  world_run(&world, 0, 1, 4);
  assert_state(0, "waiting");
  world_plan(&world);
  assert_int_equal(world.plans, 1);
  assert_state(0, "running");
  assert_float_equal(throughput_of(0) / 1e9, 4.0 / 6, 1e-3);
  world_end(&world);
}

/* Up to how many bytes a job's plan has few messages, where one of them costs so much. */
static uint64_t few_messages_up_to(double message) {
  struct by_plan *plan;
  world_begin(&world, "star:4,nic=1g");
  by_manager_destroy(world.manager);
  world.options.rates.message = message;
  assert_ok(by_manager_create(&world.options, world.now, &world.manager));
  for (uint32_t h = 0; h < world.n_hosts; h++) world_join(&world, h);
  world_run(&world, 0, 1, 4);
  world_plan(&world);
  assert_ok(by_plan_parse("plan", world.jobs[0].plan, strlen(world.jobs[0].plan), &plan));
  uint64_t up_to = plan->classes[0].up_to;
  by_plan_destroy(plan);
  world_end(&world);
  return up_to;
}

/* What messages cost decides which plan serves for which sizes. */
static void test_costs(void **state) {
  (void)state;
  assert_true(few_messages_up_to(10e-3) > 100 * few_messages_up_to(5e-6));
}

static double ours_on_first_link(void) {
  json_t *state = get_state();
  double ours = json_number_value(json_object_get(json_array_get(json_object_get(state, "links"), 0), "ours"));
  json_decref(state);
  return ours;
}

static void assert_own_plan(uint32_t j, const char *wanted) {
  json_t *state = get_state(), *job = json_array_get(json_object_get(state, "jobs"), j);
  const char *own_plan = json_string_value(json_object_get(job, "own_plan"));
  if (wanted)
    assert_string_equal(own_plan ? own_plan : "(none)", wanted);
  else
    assert_true(json_is_null(json_object_get(job, "own_plan")));
  assert_int_equal(json_is_null(json_object_get(job, "plan")), wanted != NULL);
  json_decref(state);
}

/* A plan that the user set is left alone, from the start and whenever it is set: also while the job has been sent
 * another plan, an answer to which may still arrive. What such a job sends counts. When the user unsets the plan, the
 * job is planned for. */
static void test_users_plan(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  struct world_job *job = world_send_run(&world, 0, 1, 4);
  job->own_plan = "switched";
  world_send_job(&world, job);
  world_report_job(&world, job);
  pass_and_plan(20, 10000000);
  assert_int_equal(world.plans, 0);
  assert_state(0, "running");
  assert_own_plan(0, "switched");
  assert_true(ours_on_first_link() > 0);
  job->own_plan = NULL;
  world_send_job(&world, job);
  world_plan(&world);
  assert_int_equal(world.plans, 1);
  assert_own_plan(0, NULL);
  job->own_plan = "ring";
  world_send_job(&world, job);
  assert_own_plan(0, "ring");
  world_send(&world, job, BY_MESSAGE_SWITCHED, job->number);
  pass_and_plan(20, 10000000);
  assert_int_equal(world.plans, 1);
  job->own_plan = NULL;
  job->silent = true;
  world_send_job(&world, job);
  world_plan(&world);
  assert_int_equal(world.plans, 2);
  assert_state(0, "switching");
  job->own_plan = "ring";
  world_send_job(&world, job);
  world_send(&world, job, BY_MESSAGE_SWITCHED, job->asked);
  pass_and_plan(2, 10000000);
  assert_state(0, "running");
  assert_own_plan(0, "ring");
  world_end(&world);
}

/* The slowest link of the topology that the j-th job was sent, in bit/s, as others leave it. */
static double slowest_link(uint32_t j, uint32_t n_hosts) {
  struct by_topology *topology;
  double slowest = INFINITY;
  assert_non_null(world.jobs[j].topology);
  assert_ok(by_topology_parse("job", world.jobs[j].topology, strlen(world.jobs[j].topology), &topology));
  for (uint32_t v = 0; v < topology->n_nodes; v++) n_hosts -= topology->nodes[v].takes_part;
  assert_int_equal(n_hosts, 0);
  for (uint32_t l = 0; l < topology->n_links; l++)
    for (uint32_t way = 0; way < 2; way++) slowest = fmin(slowest, by_residual(topology->links[l].capacity[way]));
  by_topology_destroy(topology);
  return slowest;
}

/* Two jobs over both racks share the links between the racks, 1 Gbit/s each way. Recursive halving over two racks puts
 * each byte of input on each of these once; with two thirds of them taken by the first job, half as much as it has is
 * left for the second. */
static void test_two_jobs_share(void **state) {
  (void)state;
  begin_by("clos:racks=2,hosts=4,nic=1g,oversub=4", (struct by_priority_rules){.equal = true});
  world.no_keys = true;
  world_run(&world, 0, 2, 4);
  world_plan(&world);
  assert_float_equal(throughput_of(0) / 1e9, 2.0 / 3, 1e-3);
  /* 167 MB in 2 s are 667 Mbit/s of input. */
  pass_and_plan(4, 166666666);
  world_run(&world, 1, 2, 4);
  world_plan(&world);
  assert_true(throughput_of(1) > 0.3e9);
  assert_true(throughput_of(1) < 0.55e9);
  assert_float_equal(slowest_link(1, 4), 0.5e9, 1e7); /* of equals each is left its part */
  world_end(&world);
}

static void test_no_plan_switch_without_gain(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  world_run(&world, 0, 1, 4);
  world_plan(&world);
  unsigned plans = world.plans;
  for (int i = 0; i < 10; i++) {
    world.now += world.options.replan;
    pass_and_plan(1, 1000000);
  }
  assert_int_equal(world.plans, plans);
  assert_true(by_manager_get_counters(world.manager).planned >= 10);
  world_end(&world);
}

/* A host's link drops to a fifth: jobs are planned again at once, the most affected first, and get the topology anew.
 */
static void test_slower_link(void **state) {
  (void)state;
  begin("mesh:4,nic=10g,link=1g");
  world_run(&world, 0, 1, 4);
  world_plan(&world);
  double before = throughput_of(0);
  assert_float_equal(slowest_link(0, 4), 1e9, 0);
  unsigned plans = world.plans;
  pass_and_plan(2, 1000000);
  world_pass(&world, 1000000);
  struct by_cluster_interface slow[] = {{.name = "eth0", .rate = 0.2e9}, {.name = "eth1"}, {.name = "eth2"}};
  struct by_cluster_message report = {.type = BY_MESSAGE_REPORT, .interfaces = slow, .n_interfaces = 3};
  assert_ok(by_manager_handle(world.manager, world.hosts[1].peer, &report, world.now));
  world_plan(&world);
  assert_int_equal(world.plans, plans + 1);
  assert_true(throughput_of(0) > 0.5 * before);
  assert_float_equal(slowest_link(0, 4), 0.2e9, 1);
  world_end(&world);
}

/* A link that gets slower gradually also leads to a new plan. */
static void test_creeps(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  world.no_keys = true;
  world_run(&world, 0, 1, 4);
  world_plan(&world);
  for (int i = 0; i < 10; i++) pass_and_plan(1, 1000000);
  uint64_t planned = by_manager_get_counters(world.manager).planned;
  double rate = 0.88e9;
  for (int i = 0; i < 12; i++, rate = fmax(0.81e9, 0.97 * rate)) { /* The rate is never below 0.9 of the first rate. */
    world.now += world.options.interval;
    for (uint32_t h = 0; h < 4; h++) assert_ok(world_report(&world, h, h == 1 ? rate : 0, 0));
    world_plan(&world);
  }
  assert_true(by_manager_get_counters(world.manager).planned >= planned + 2);
  world_end(&world);
}

/* Agents at both ends of a link report its rate in turn: the smaller rate counts until its end reports a
 * larger one. */
static void test_two_ends(void **state) {
  struct by_cluster_interface ends[2][2] = {{{.name = "eth0", .rate = 0.3e9}, {.name = "eth1", .rate = 1e9}},
                                            {{.name = "eth0", .rate = 1e9}, {.name = "eth1", .rate = 1e9}}};
  (void)state;
  begin("mesh:3,nic=10g,link=1g");
  for (int i = 0; i < 6; i++) {
    struct by_cluster_message report = {.type = BY_MESSAGE_REPORT, .interfaces = ends[i % 2], .n_interfaces = 2};
    if (i == 4) ends[0][0].rate = 1e9;
    assert_ok(by_manager_handle(world.manager, world.hosts[i % 2].peer, &report, world.now));
    json_t *all = get_state();
    double least = 1e9;
    for (size_t l = 0; l < 6; l++)
      least =
          fmin(least, json_number_value(json_object_get(json_array_get(json_object_get(all, "links"), l), "capacity")));
    assert_true(least == (i < 4 ? 0.3e9 : 1e9));
    json_decref(all);
  }
  world_end(&world);
}

/* ---- answers ---- */

static void test_no_answer(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  struct world_job *job = world_run(&world, 0, 1, 4);
  job->silent = true;
  world_plan(&world);
  assert_state(0, "switching");
  pass_and_plan(16, 0); /* This is 32 s: 20 iterations of 1 s are less than the least wait. */
  assert_state(0, "waiting");
  assert_trouble(0, "not answered");
  job->number = job->asked; /* The job has switched after all, and reports it late. */
  world_send(&world, job, BY_MESSAGE_SWITCHED, job->asked);
  assert_state(0, "running");
  world_end(&world);
}

static void test_kept(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  struct world_job *job = world_run(&world, 0, 1, 4);
  job->silent = true;
  world_plan(&world);
  world_send(&world, job, BY_MESSAGE_KEPT, job->asked);
  assert_state(0, "waiting");
  assert_trouble(0, "it would not");
  uint64_t asked = job->asked;
  world_plan(&world);
  assert_int_equal(job->asked, asked); /* The plan is not sent again at once. */
  job->silent = false;
  pass_and_plan(2, 0);
  assert_true(job->asked > asked);
  assert_state(0, "running");
  world_end(&world);
}

/* The job refuses each time, so the next attempt is later each time. */
static void test_never_takes_any(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  struct world_job *job = world_run(&world, 0, 1, 4);
  job->silent = true;
  for (int i = 0; i < 60; i++) { /* This is 120 s. */
    uint64_t asked = job->asked;
    pass_and_plan(1, 0);
    if (job->asked > asked) world_send(&world, job, BY_MESSAGE_KEPT, job->asked);
  }
  assert_in_range(world.plans, 5, 8);
  world_end(&world);
}

static void test_unknown_number(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  struct world_job *job = world_run(&world, 0, 1, 4);
  world_send(&world, job, BY_MESSAGE_SWITCHED, 7); /* The number comes from a manager whose state was lost. */
  world_plan(&world);
  assert_int_equal(job->asked, 8);
  assert_state(0, "running");
  world_end(&world);
}

/* ---- helpers ---- */

static void test_helpers(void **state) {
  (void)state;
  begin("star:6,nic=1g");
  world.helpers_come = true;
  struct world_job *job = world_run(&world, 0, 1, 4);
  world_plan(&world);
  assert_int_equal(world.helps, 2); /* The first plan has helpers; it is sent when they have joined. */
  assert_int_equal(world.plans, 1);
  assert_state(0, "running");
  /* The ratio is 2n(n-1) / (n^2 + kn - 2k) for n = 4, k = 2. */
  assert_float_equal(throughput_of(0) / 1e9, 20.0 / 24, 0.05);
  pass_and_plan(3, 1000000);
  double with = throughput_of(0);
  world_part(&world, 5);
  world_join(&world, 5);
  world_send_helping(&world, 5, job->id, false);
  pass_and_plan(2, 1000000);
  assert_true(throughput_of(0) < with);
  job->runs = false;
  world_pass(&world, 0);
  world_send(&world, job, BY_MESSAGE_LEFT, 0);
  assert_int_equal(world.rests, 1); /* The remaining helper is released. */
  world_end(&world);
}

/* The hosts of a job's helpers, as bits. */
static uint32_t helpers_of(uint32_t j) {
  json_t *state = get_state(), *helper;
  size_t i;
  uint32_t bits = 0;
  json_array_foreach(json_object_get(json_array_get(json_object_get(state, "jobs"), j), "helpers"), i, helper) {
    const char *host = json_string_value(json_object_get(helper, "host"));
    for (uint32_t h = 0; h < world.n_hosts; h++)
      if (!strcmp(world.hosts[h].name, host)) bits |= 1U << h;
  }
  json_decref(state);
  return bits;
}

/* No helper is on a host with ranks of another job, whichever of them comes first, and two jobs take the same helpers
 * only if there are no others. */
static void test_helpers_beside_jobs(void **state) {
  (void)state;
  begin("star:8,nic=1g");
  world.helpers_come = true;
  world_run(&world, 0, 1, 4);
  pass_and_plan(1, 1000000);
  assert_int_equal(helpers_of(0), 0xf0);
  double with = throughput_of(0);
  world_run(&world, 4, 1, 4);
  pass_and_plan(3, 1000000);
  assert_int_equal(helpers_of(0) | helpers_of(1), 0);
  assert_true(throughput_of(0) < with);
  assert_int_equal(world.rests, 4); /* They are released. */
  world_end(&world);
  begin("star:16,nic=1g");
  world.helpers_come = true;
  world_run(&world, 0, 1, 4);
  world_run(&world, 4, 1, 4);
  struct by_plan_request *requests[2]; /* Both are planned at the same time. */
  by_manager_tick(world.manager, world.now);
  for (int i = 0; i < 2; i++) assert_true(by_manager_next(world.manager, world.now, &requests[i]));
  for (int i = 0; i < 2; i++) by_plan_request_run(requests[i]);
  for (int i = 0; i < 2; i++) by_manager_planned(world.manager, requests[i], world.now);
  world_plan(&world);
  assert_int_equal(helpers_of(0), 0x0f00);
  assert_int_equal(helpers_of(1), 0xf000);
  world_end(&world);
}

/* A helper whose agent was killed, or whose host has lost power, ends without a report. */
static void test_helper_vanishes(void **state) {
  (void)state;
  for (int way = 0; way < 4; way++) {
    begin("star:5,nic=1g");
    world.helpers_come = true;
    struct world_job *job = world_run(&world, 0, 1, 4);
    pass_and_plan(2, 1000000);
    assert_int_equal(world.helps, 1);
    double with = throughput_of(0);
    if (way != 2) world_part(&world, 4);
    if (way == 0) world_join(&world, 4); /* The new agent has no information on the helper. */
    if (way == 3) {
      world_greet(&world, 4);
      world_send_helping(&world, 4, job->id, true); /* This is the same agent: the helper has worked all the time. */
      assert_ok(world_report(&world, 4, 0, 0));
    }
    for (int i = 0; i < 7; i++) { /* This is 14 s. */
      world_pass_but(&world, 1000000, way == 2 ? 4 : WORLD_HOSTS);
      world_plan(&world);
      if (way != 0 && i < 4) assert_true(throughput_of(0) == with);
    }
    assert_true(way == 3 ? throughput_of(0) == with : throughput_of(0) < with);
    world_end(&world);
  }
}

static void test_helper_does_not_come(void **state) {
  (void)state;
  begin("star:5,nic=1g");
  world_run(&world, 0, 1, 4);
  pass_and_plan(2, 1000000);
  assert_int_equal(world.plans, 0);
  assert_int_equal(world.helps, 1);
  pass_and_plan(20, 1000000);
  assert_int_equal(world.plans, 1); /* The plan with the helper was never sent, but one without. */
  assert_int_equal(world.helps, 1); /* For a while, no agent is asked for a helper again. */
  assert_state(0, "running");
  world_end(&world);
}

/* ---- connecting and leaving ---- */

static void test_unauthenticated_peers(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  snprintf(world.hosts[world.n_hosts].name, 32, "elsewhere");
  world_join(&world, world.n_hosts++);
  world_run(&world, 2, 1, 3);
  pass_and_plan(2, 0);
  assert_int_equal(world.plans, 0);
  assert_state(0, "waiting");
  assert_trouble(0, "\"elsewhere\" is not in the manager's topology");
  world_end(&world);
}

static void test_agent_comes_back(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  struct world_job *job = world_run(&world, 0, 1, 4);
  pass_and_plan(2, 1000000);
  uint64_t number = job->number;
  world_part(&world, 0);
  pass_and_plan(3, 1000000);
  assert_state(0, "running");
  world_join(&world, 0);
  pass_and_plan(2, 1000000);
  assert_state(0, "running");
  assert_int_equal(job->number, number);
  world_part(&world, 0);
  job->runs = false; /* The job ended while its agent was away. */
  world.now += 100;  /* The manager has run for long: the agent may be a new one that its ranks have yet to find. */
  world_join(&world, 0);
  assert_state(0, "running");
  pass_and_plan(4, 0);
  assert_state(0, "left");
  world_end(&world);
}

/* An agent that has just started does not have all information yet, whether or not the manager is new; an agent that
 * has run for long has it. */
static void test_agent_with_manager(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  struct world_job *job = world_run(&world, 0, 1, 4);
  world_plan(&world);
  world_part(&world, 0);
  job->runs = false; /* The job's ranks have not found the new agent. */
  world_join(&world, 0);
  assert_state(0, "running");
  job->runs = true;
  world_send_job(&world, job);
  world_send(&world, job, BY_MESSAGE_SWITCHED, job->number);
  pass_and_plan(5, 0);
  assert_state(0, "running");
  world_part(&world, 0);
  job->runs = false;
  world.age = 100;
  world_join(&world, 0);
  assert_state(0, "left");
  world_end(&world);
}

/* A script has started the job again with the same key and root, before the manager received that the old job has
 * left. */
static void test_same_id(void **state) {
  (void)state;
  for (int planning = 0; planning < 2; planning++) {
    struct by_plan_request *request = NULL;
    begin("star:4,nic=1g");
    struct world_job *job = world_run(&world, 0, 1, 4);
    job->began = 5;
    pass_and_plan(3, 1000000);
    world_send_job(&world, job); /* The job has connected again. */
    assert_state(0, "running");
    if (planning) {
      world.now += world.options.replan;
      world_pass(&world, 1000000);
      by_manager_tick(world.manager, world.now);
      assert_true(by_manager_next(world.manager, world.now, &request));
    }
    job->began = 6;
    job->iterations = job->number = job->asked = 0;
    world_send_job(&world, job);
    assert_state(0, "waiting");
    if (planning) by_manager_planned(world.manager, request, world.now);
    world_report_job(&world, job);
    world_plan(&world);
    assert_int_equal(job->number, 1);
    assert_state(0, "running");
    world_end(&world);
  }
}

/* ---- classes ---- */

static void test_classes(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  struct world_job *job = world_run(&world, 0, 1, 4);
  pass_and_plan(9, 500000000); /* All ranks together send 4 GB each time. */
  assert_int_equal(job->class_, 0);
  pass_and_plan(2, 500000000);
  assert_int_equal(job->class_, 3); /* After 10 iterations, 44 GB exceed the limits of 10 GB and 40 GB. */
  world_part(&world, 0);
  job->class_ = 0;
  world_join(&world, 0);
  assert_int_equal(job->class_, 3); /* The class is sent again. */
  world_end(&world);
}

/* ---- higher classes ---- */

/* Begins a job over all hosts that reaches a low class, and another one that begins on the first two hosts. */
static struct world_job *begin_two_classes(const char *topology) {
  begin(topology);
  world.no_keys = true;
  struct world_job *low = world_run(&world, 0, 1, world.n_hosts);
  world_plan(&world);
  pass_and_plan(11, 2000000000);
  assert_true(low->class_ >= 2);
  assert_int_equal(low->asked, 1);
  (void)world_run(&world, 0, 1, 2);
  pass_and_plan(3, 225000000); /* This is 900 Mbit/s. */
  assert_int_equal(world.jobs[1].class_, 0);
  assert_int_equal(low->asked, 1); /* A gain that depends on another job's traffic must last. */
  pass_and_plan(5, 225000000);
  return low;
}

/* The job's trees must pass the two hosts, which have a tenth left: trees with these hosts as leaves would carry more,
 * but hardly anything in all. */
static void test_waits_for_higher_class(void **state) {
  (void)state;
  const struct world_job *low = begin_two_classes("star:8,nic=1g");
  assert_int_equal(low->asked, 1);
  world_end(&world);
}

/* The job waits with its first plan too, as when a manager has lost its state: a ring over eight is what it gets in
 * the other job's pauses. */
static void test_first_plan_waits(void **state) {
  (void)state;
  begin("star:8,nic=1g");
  world.no_keys = true;
  (void)world_run(&world, 0, 1, 2);
  world_plan(&world);
  pass_and_plan(3, 225000000); /* This is 900 Mbit/s. */
  struct world_job *low = world_send_run(&world, 0, 1, world.n_hosts);
  low->iterations = 20;
  low->sent = 500000000000;
  world_report_job(&world, low);
  world_plan(&world);
  assert_int_equal(low->number, 1);
  assert_int_equal(low->class_, 3);
  assert_float_equal(throughput_of(1) / 1e9, 8.0 / 14, 1e-3);
  world_end(&world);
}

/* The job switches plans while it waits: the rate of its new plan beside the higher class is known, so it has lost
 * nothing. */
static void test_plan_switch_while_it_waits(void **state) {
  (void)state;
  const struct world_job *low = begin_two_classes("star:8,nic=1g");
  uint64_t planned = 0;
  for (int i = 0; i < 10; i++) {
    world.now += world.options.interval;
    world.jobs[0].input += 1000000;
    world.jobs[1].input += 225000000;
    for (uint32_t h = 0; h < world.n_hosts; h++) assert_ok(world_report(&world, h, h == 5 ? 0.6e9 : 0, 0));
    world_plan(&world);
    if (i == 0) planned = by_manager_get_counters(world.manager).planned; /* The job is planned again at once. */
  }
  assert_int_equal(low->number, 2);
  assert_int_equal(by_manager_get_counters(world.manager).planned, planned);
  world_end(&world);
}

/* The stored state does not include what a plan carried beside others. */
static void test_begins_again(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  struct world_job *job = world_run(&world, 0, 1, 4);
  world_plan(&world);
  struct by_manager_row of_job = {.table = BY_ROW_JOB, .job = job->id, .name = "train"};
  of_job.of_job.hosts = "[\"h0\",\"h1\",\"h2\",\"h3\"]";
  of_job.of_job.root = "10.0.0.1:5000";
  of_job.of_job.numbers = job->number;
  struct by_manager_row of_plan = {.table = BY_ROW_PLAN, .job = job->id};
  of_plan.plan.number = job->number;
  of_plan.plan.plan = job->plan;
  of_plan.plan.throughput = 1e12; /* This rate was possible while a higher class was silent. */
  of_plan.plan.moved = true;
  by_manager_destroy(world.manager);
  assert_ok(by_manager_create(&world.options, world.now, &world.manager));
  by_manager_restore(world.manager, &of_job, world.now);
  by_manager_restore(world.manager, &of_plan, world.now);
  for (uint32_t h = 0; h < world.n_hosts; h++) world_join(&world, h);
  pass_and_plan(10, 1000000);
  assert_state(0, "running");
  assert_int_equal(by_manager_get_counters(world.manager).planned, 0);
  world_end(&world);
}

/* Five of six links are as free as before. */
static void test_goes_round_higher_class(void **state) {
  (void)state;
  const struct world_job *low = begin_two_classes("mesh:4,nic=10g,link=1g");
  assert_true(low->asked > 1);
  assert_true(throughput_of(0) > 1.5e9);
  world_end(&world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_first_plan),
      cmocka_unit_test(test_costs),
      cmocka_unit_test(test_users_plan),
      cmocka_unit_test(test_two_jobs_share),
      cmocka_unit_test(test_no_plan_switch_without_gain),
      cmocka_unit_test(test_slower_link),
      cmocka_unit_test(test_creeps),
      cmocka_unit_test(test_two_ends),
      cmocka_unit_test(test_no_answer),
      cmocka_unit_test(test_kept),
      cmocka_unit_test(test_never_takes_any),
      cmocka_unit_test(test_unknown_number),
      cmocka_unit_test(test_helpers),
      cmocka_unit_test(test_helpers_beside_jobs),
      cmocka_unit_test(test_helper_vanishes),
      cmocka_unit_test(test_helper_does_not_come),
      cmocka_unit_test(test_unauthenticated_peers),
      cmocka_unit_test(test_agent_comes_back),
      cmocka_unit_test(test_agent_with_manager),
      cmocka_unit_test(test_same_id),
      cmocka_unit_test(test_classes),
      cmocka_unit_test(test_waits_for_higher_class),
      cmocka_unit_test(test_first_plan_waits),
      cmocka_unit_test(test_goes_round_higher_class),
      cmocka_unit_test(test_plan_switch_while_it_waits),
      cmocka_unit_test(test_begins_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
