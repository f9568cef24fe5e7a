/* Tests of predicted times against small cases that are calculated by hand. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "cost.h"
#include "topology_formats.h"

static struct by_cost_rates rates;

/* Sets all costs except links to zero. Links carry 8 bit/s, that is a byte a second, where the topology has nic=8. */
static void only_links(void) {
  rates = (struct by_cost_rates){.wire = 1, .cores = INFINITY, .grain = 1e18};
}

static double seconds(const char *network, const char *plan_text, uint32_t n, double bytes) {
  struct by_topology *topology;
  struct by_plan *plan;
  struct by_cost cost;
  assert_ok(by_topology_named(network, &topology));
  assert_ok(by_plan_named(plan_text, n, &plan));
  assert_ok(by_cost_init(&cost, plan, by_plan_class(plan, (uint64_t)bytes), topology, &rates));
  double time = by_cost_time(&cost, bytes);
  by_cost_fini(&cost);
  by_plan_destroy(plan);
  by_topology_destroy(topology);
  return time;
}

static void assert_near(double got, double wanted) {
  if (!(fabs(got - wanted) <= 1e-9 * fabs(wanted) + 1e-15)) fail_msg("%.12g is not %.12g", got, wanted);
}

/* Without pipelining, bytes cross one link after the other; with it, a tree pays for its height only with the first
 * bytes. */
static void test_one_tree(void **state) {
  (void)state;
  only_links();
  assert_near(seconds("ring:5,link=8", "chain", 5, 100), 8 * 100);
  /* A rank that has the result sends while others wait for it. */
  assert_near(seconds("star:4,nic=8", "star", 4, 100), 4 * 100);
  rates.grain = 1;
  assert_near(seconds("ring:5,link=8", "chain", 5, 100), 100 + 7);
  assert_near(seconds("star:4,nic=8", "star", 4, 100), 300 + 4); /* A byte comes in, then three go out. */
  rates.hop = 2;
  assert_near(seconds("ring:5,link=8", "chain", 5, 100), 100 + 7 + 8 * 2);
}

/* Both trees go up over the same link, so that the second can come down only after the first. */
static void test_shared_link(void **state) {
  (void)state;
  static const char plan[] = "{\"format\": \"banyan-plan 1\", \"ranks\": 2, \"trees\": ["
                             "{\"share\": 0.5, \"root\": \"0\", \"up\": {\"1\": \"0\"}},"
                             "{\"share\": 0.5, \"root\": \"%c\", \"up\": {\"%c\": \"%c\"}}]}";
  char text[sizeof plan];
  only_links();
  snprintf(text, sizeof text, plan, '0', '1', '0');
  assert_near(seconds("star:2,nic=8", text, 2, 100), 150);
  snprintf(text, sizeof text, plan, '1', '0', '1');
  assert_near(seconds("star:2,nic=8", text, 2, 100), 100);
}

/* A ring's links are never idle: it takes the time of its bytes, or of its steps. */
static void test_ring(void **state) {
  (void)state;
  only_links();
  assert_near(seconds("star:4,nic=8", "ring", 4, 100), 150);
  rates.wire = 1.5;
  assert_near(seconds("star:4,nic=8", "ring", 4, 100), 225);
  rates.wire = 1;
  rates.hop = 10;
  assert_near(seconds("star:4,nic=8", "ring", 4, 100), 6 * (25 + 10));
  rates.grain = 1;
  assert_near(seconds("star:4,nic=8", "ring", 4, 100), 150 + 10); /* The last bytes have to be received. */
  assert_near(seconds("star:4,nic=8", "ring", 4, 4), 6 * 10.5);   /* Half a message is forwarded at once. */
}

/* Halving sends half, a quarter and so on, and back, in 2 log2 n steps. Sharded, it is split in two. */
static void test_merged_messages(void **state) {
  (void)state;
  only_links();
  rates.hop = 10;
  assert_near(seconds("star:8,nic=8", "halving", 8, 80), 2 * (40 + 20 + 10) + 6 * 10);
  assert_near(seconds("star:8,nic=8", "sharded", 8, 80), 2 * 7 * 10 + 2 * 10);
  assert_near(seconds("star:8,nic=8", "doubling", 8, 80), 3 * (80 + 10));
}

static void test_delay(void **state) {
  (void)state;
  only_links();
  assert_near(seconds("ring:3,link=1t,delay=20ms", "chain", 3, 1), 4 * 0.02 + 4 * 8e-12);
  rates.link = 1; /* There are two links on each way. */
  assert_near(seconds("star:3,nic=1t", "chain", 3, 0), 4 * 2);
}

static void test_messages(void **state) {
  (void)state;
  only_links();
  rates.message = 1;
  assert_near(seconds("star:5,nic=1t", "ring", 5, 0), 2 * 8); /* Each rank sends and receives eight messages. */
  rates.cores = 2;
  /* Other ranks may occupy the cores. */
  assert_near(seconds("star:5,nic=1t", "ring", 5, 0), hypot(8, 2 * 8 * 5 / 2.0));
  rates.call = 3;
  rates.byte = 1;
  assert_near(seconds("star:5,nic=1t", "ring", 5, 1000), 3 + hypot(8, 40 + 5 * 3.2 * 1000 / 2));
}

/* Two leaves send; the root receives, adds and sends twice; the leaves receive. */
static void test_shared_cores(void **state) {
  (void)state;
  only_links();
  rates.message = 1;
  assert_near(seconds("star:3,nic=1t", "star", 3, 0), 5);
  rates.cores = 1;
  assert_near(seconds("star:3,nic=1t", "star", 3, 0), 8);
  rates.call = 2;
  assert_near(seconds("star:3,nic=1t", "star", 3, 0), 8); /* This cost is spent while other ranks still wait. */
  rates.byte = 0.25;
  assert_near(seconds("star:3,nic=1t", "star", 3, 4), 16);
}

/* A link that has been idle passes a burst of some seconds' worth at once. The burst refills while others are
 * awaited. */
static void test_bursts(void **state) {
  (void)state;
  only_links();
  rates.hop = 1;
  rates.burst = 1000;
  /* With back-to-back calls, the rate of the wire still limits. */
  assert_near(seconds("ring:5,link=8", "chain", 5, 100), 100);
  rates.burst = 90;
  assert_near(seconds("ring:5,link=8", "chain", 5, 100), 100); /* The way takes 8 * (10 + 1) of the burst. */
  assert_near(seconds("star:4,nic=8", "star", 4, 100), 300);
  rates.grain = 1;
  rates.burst = 5;
  assert_near(seconds("ring:5,link=8", "chain", 5, 100), 100 + 8 - 5 - 1);
}

/* Ranks on one host reach each other without delay. */
static void test_hosts(void **state) {
  (void)state;
  only_links();
  rates.hop = 1;
  assert_near(seconds("star:2,nic=8",
                      "{\"format\": \"banyan-plan 1\", \"ranks\": 2, \"trees\": [{\"share\": 1,"
                      " \"root\": \"0\", \"up\": {}, \"twigs\": {\"1\": \"0\"}}]}",
                      2, 10),
              2 * 11);
}

static void test_text(void **state) {
  (void)state;
  rates = by_cost_defaults();
  assert_ok(by_cost_parse("hop=40us,wire=1.05,,grain=64K,burst=1ms,cores=2", &rates));
  assert_near(rates.hop, 40e-6);
  assert_near(rates.wire, 1.05);
  assert_near(rates.grain, 65536);
  assert_near(rates.burst, 1e-3);
  assert_near(rates.cores, 2);
  const char *const bad[][2] = {{"hops=1s", "there is no \"hops\" (did you mean hop?); there are wire"},
                                {"hop", "\"hop\" is not like hop=40us"},
                                {"wire=0.5", "wire: \"0.5\" is not a number of 1 or more"},
                                {"wire=nan", "wire: \"nan\" is not"},
                                {"grain=many", "grain: "},
                                {"hop=-1s", "hop: "}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_true(by_cost_parse(bad[i][0], &rates) != BANYAN_OK);
    if (!strstr(banyan_error_text(), bad[i][1])) fail_msg("%s: %s", bad[i][0], banyan_error_text());
  }
}

/* --- Costs are recovered from times that were predicted with them --- */

enum { PLANS = 4, SIZES = 6 };
static const char *const plans[PLANS] = {"star", "tree:2", "ring", "exchange"};
static const double sizes[SIZES] = {256, 4 << 10, 16 << 10, 64 << 10, 1 << 20, 16 << 20};

static void make_sample(struct by_cost_sample *sample, const char *name, const struct by_topology *topology,
                        const struct by_cost_rates *costs) {
  struct by_plan *plan;
  assert_ok(by_plan_builtin(name, 6, &plan));
  assert_ok(by_cost_init(&sample->cost, plan, plan->classes, topology, costs));
  by_plan_destroy(plan);
  sample->n = SIZES;
  sample->bytes = test_calloc(2 * SIZES, sizeof *sample->bytes);
  sample->seconds = sample->bytes + SIZES;
  for (int i = 0; i < SIZES; i++) {
    sample->bytes[i] = sizes[i];
    sample->seconds[i] = by_cost_time(&sample->cost, sizes[i]);
  }
}

static void find_again(double cores) {
  struct by_topology *topology;
  struct by_cost_sample samples[PLANS];
  struct by_cost_rates costs = by_cost_defaults(), found = costs;
  double error;
  costs.message = 17e-6;
  costs.hop = 9e-6;
  costs.byte = 0.6e-9;
  costs.cores = found.cores = cores;
  assert_ok(by_topology_named("star:6,nic=1g", &topology));
  for (int i = 0; i < PLANS; i++) make_sample(&samples[i], plans[i], topology, &costs);
  assert_ok(by_cost_fit(samples, PLANS, &found, &error));
  if (!(error < 0.03)) fail_msg("times differ by %g", error);
  /* The costs of hops and of messages are hard to separate. */
  if (!(fabs(log(found.message / costs.message)) < 0.35)) fail_msg("a message costs %g s", found.message);
  for (int i = 0; i < PLANS; i++) {
    by_cost_fini(&samples[i].cost);
    test_free(samples[i].bytes);
  }
  by_topology_destroy(topology);
}

static void test_own_cores(void **state) {
  (void)state;
  find_again(INFINITY);
}

static void test_two_cores(void **state) {
  (void)state;
  find_again(2);
}

/* ---- costs that were fitted on a machine */

static const struct by_cost_machine machine = {.name = "node1", .processors = 16};

static enum banyan_status parse_machine(const char *text) {
  return by_machine_costs_parse("costs.json", text, strlen(text), 1e9, &machine, &rates);
}

static void test_machine(void **state) {
  (void)state;
  struct by_text text = {0};
  rates = by_cost_defaults();
  by_machine_costs_print(&machine, "hop=7us,byte=2ns", 1e9, &text);
  assert_false(text.failed);
  assert_ok(parse_machine(by_text_get(&text)));
  by_text_fini(&text);
  struct by_cost_rates wanted = by_cost_defaults();
  wanted.hop = 7e-6;
  wanted.byte = 2e-9;
  assert_memory_equal(&rates, &wanted, sizeof rates);
}

/* What is damaged or of another machine changes nothing. */
static void test_other_machine(void **state) {
  (void)state;
  static const struct {
    const char *text, *error;
  } cases[] = {
      {"", "costs.json"},
      {"{", "costs.json"},
      {"[]", "costs.json"},
      {"{\"format\": \"banyan-costs 1\"}", "machine"},
      {"{\"format\": \"banyan-costs 2\", \"machine\": \"node1\", \"processors\": 16, \"costs\": \"hop=7us\"}",
       "format"},
      {"{\"format\": \"banyan-costs 1\", \"machine\": \"node2\", \"processors\": 16, \"costs\": \"hop=7us\"}", "node2"},
      {"{\"format\": \"banyan-costs 1\", \"machine\": \"node1\", \"processors\": 8, \"costs\": \"hop=7us\"}",
       "8 processors"},
      {"{\"format\": \"banyan-costs 1\", \"machine\": \"node1\", \"processors\": 16, \"costs\": \"hop=7us,hip=1us\"}",
       "hip"},
      {"{\"format\": \"banyan-costs 1\", \"machine\": \"node1\", \"processors\": 16, \"costs\": 7}", "costs"},
      {"{\"format\": \"banyan-costs 1\", \"machine\": \"node1\", \"processors\": 16, \"costs\": \"\", \"more\": 1}",
       "more"},
      {"{\"format\": \"banyan-costs 1\", \"machine\": \"node1\", \"processors\": 16, \"costs\": \"\", "
       "\"made\": 1000000061}",
       "61 s in the future"},
      {"{\"format\": \"banyan-costs 1\", \"machine\": \"node1\", \"processors\": 16, \"costs\": \"\", "
       "\"made\": \"today\"}",
       "made"},
  };
  rates = by_cost_defaults();
  struct by_cost_rates before = rates;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(parse_machine(cases[i].text), BANYAN_ERR_PARSE);
    assert_non_null(strstr(banyan_error_text(), cases[i].error));
    assert_memory_equal(&rates, &before, sizeof rates);
  }
}

/* The only line in the log, however often it is planned. */
static void test_damaged_once(void **state) {
  (void)state;
  char folder[] = "/tmp/banyan-costs-XXXXXX", within[64], path[BY_MACHINE_MAX_PATH], line[256];
  const struct by_cost_machine own = by_machine_get();
  assert_non_null(mkdtemp(folder));
  setenv("XDG_CACHE_HOME", folder, 1);
  snprintf(within, sizeof within, "%s/banyan", folder);
  assert_int_equal(mkdir(within, 0700), 0);
  assert_ok(by_machine_costs_path(&own, path));
  FILE *file = fopen(path, "w"), *log = tmpfile();
  assert_true(file && log && fputs("{", file) >= 0 && fclose(file) == 0);
  int before = dup(STDERR_FILENO), lines = 0;
  assert_true(before >= 0 && dup2(fileno(log), STDERR_FILENO) >= 0);
  for (int i = 0; i < 3; i++) by_machine_costs_use(&rates);
  assert_true(dup2(before, STDERR_FILENO) >= 0 && close(before) == 0);
  rewind(log);
  while (fgets(line, sizeof line, log)) lines += strstr(line, "usual costs are used") != NULL;
  (void)fclose(log);
  assert_true(unlink(path) == 0 && rmdir(within) == 0 && rmdir(folder) == 0);
  unsetenv("XDG_CACHE_HOME");
  assert_int_equal(lines, 1);
}

static void test_machine_path(void **state) {
  (void)state;
  char path[BY_MACHINE_MAX_PATH];
  const struct by_cost_machine odd = {.name = "../node1"};
  const struct by_cost_machine encrypted = {.name = machine.name, .encrypted = true};
  setenv("HOME", "/home/user", 1);
  setenv("XDG_CACHE_HOME", "relative", 1);
  assert_ok(by_machine_costs_path(&machine, path));
  assert_string_equal(path, "/home/user/.cache/banyan/costs-node1.json");
  setenv("XDG_CACHE_HOME", "/var/cache", 1);
  assert_ok(by_machine_costs_path(&machine, path));
  assert_string_equal(path, "/var/cache/banyan/costs-node1.json");
  assert_int_equal(by_machine_costs_path(&odd, path), BANYAN_ERR_ARGUMENT);
  setenv("BANYAN_CACHE", "/given", 1);
  assert_ok(by_machine_costs_path(&machine, path));
  assert_string_equal(path, "/given/costs-node1.json");
  assert_ok(by_machine_costs_path(&encrypted, path));
  assert_string_equal(path, "/given/costs-node1-tls.json");
  setenv("BANYAN_CACHE", "off", 1);
  assert_int_equal(by_machine_costs_path(&machine, path), BANYAN_ERR_ARGUMENT);
  unsetenv("BANYAN_CACHE");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  assert_int_equal(by_machine_costs_path(&machine, path), BANYAN_ERR_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_tree),     cmocka_unit_test(test_shared_link),
      cmocka_unit_test(test_ring),         cmocka_unit_test(test_merged_messages),
      cmocka_unit_test(test_delay),        cmocka_unit_test(test_messages),
      cmocka_unit_test(test_shared_cores), cmocka_unit_test(test_bursts),
      cmocka_unit_test(test_hosts),        cmocka_unit_test(test_text),
      cmocka_unit_test(test_machine),      cmocka_unit_test(test_other_machine),
      cmocka_unit_test(test_machine_path), cmocka_unit_test(test_damaged_once),
      cmocka_unit_test(test_own_cores),    cmocka_unit_test(test_two_cores),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
