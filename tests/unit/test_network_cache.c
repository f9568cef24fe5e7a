/* Measured networks in the cache, what identifies them, whether probes say that they are still the same, and whether a
 * plan for one is worth a trial. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "file.h"
#include "first_plan.h"
#include "network_cache.h"
#include "plan.h"
#include "planner.h"
#include "planning.h"
#include "text.h"
#include "topology_formats.h"
#include "trial.h"

static const char *const hosts[] = {"10.0.0.1 25000 -", "10.0.0.2 25000 -", "10.0.0.3 25000 -", "10.0.0.4 25000 -"};
static const struct by_network_key key = {.n = 4, .hosts = hosts, .planner = "one"};

static struct by_network_entry make_entry(void) {
  struct by_network_entry entry = {.decision = BY_NETWORK_PLANNED, .measured.n_probes = 4};
  assert_ok(by_topology_named("sites:2x2,lan=1g,wan=200m", &entry.measured.topology));
  entry.measured.probes = calloc(4, sizeof *entry.measured.probes);
  assert_non_null(entry.measured.probes);
  for (uint32_t k = 0; k < 4; k++)
    entry.measured.probes[k] = (struct by_probe_flow){
        .round = k / 2, .from = k, .to = (k + 2) % 4, .rate = 1e8 + k, .delay = 1e-3, .block = 4096};
  return entry;
}

static char *plan_over(uint32_t n) {
  struct by_plan *plan;
  struct by_text text;
  by_text_init(&text);
  assert_ok(by_plan_builtin("ring", n, &plan));
  by_plan_print(plan, &text);
  char *copy = strdup(by_text_get(&text));
  assert_non_null(copy);
  by_plan_destroy(plan);
  by_text_fini(&text);
  return copy;
}

static char *print(const struct by_network_entry *entry, double now) {
  struct by_text text;
  by_text_init(&text);
  by_network_entry_print(&key, entry, now, &text);
  assert_false(text.failed);
  char *copy = strdup(by_text_get(&text));
  assert_non_null(copy);
  by_text_fini(&text);
  return copy;
}

static void test_read_back(void **state) {
  (void)state;
  struct by_network_entry entry = make_entry(), read;
  entry.plan = plan_over(4);
  char *text = print(&entry, 1e9);
  assert_ok(by_network_entry_parse("n", text, strlen(text), &key, 1e9 + 3600, &read));
  assert_true(read.decision == BY_NETWORK_PLANNED && read.age == 3600);
  struct by_plan *plan;
  assert_ok(by_plan_parse("plan", read.plan, strlen(read.plan), &plan));
  assert_int_equal(plan->n_ranks, 4);
  by_plan_destroy(plan);
  assert_int_equal(read.measured.n_probes, 4);
  assert_memory_equal(read.measured.probes, entry.measured.probes, 4 * sizeof *read.measured.probes);
  assert_int_equal(read.measured.topology->n_links, entry.measured.topology->n_links);
  for (uint32_t h = 0; h < 4; h++) assert_int_equal(read.place[h], h);
  /* Kept again, it is as old as it was. */
  char *later = print(&read, 1e9 + 3600);
  by_network_entry_fini(&read);
  assert_ok(by_network_entry_parse("n", later, strlen(later), &key, 1e9 + 7200, &read));
  assert_true(read.age == 7200);
  by_network_entry_fini(&read);
  by_network_entry_fini(&entry);
  free(text);
  free(later);
}

static enum by_network_decision decision_of(const char *text, const struct by_network_key *wanted, double now,
                                            uint32_t *place) {
  struct by_network_entry read;
  assert_ok(by_network_entry_parse("n", text, strlen(text), wanted, now, &read));
  enum by_network_decision decision = read.decision;
  assert_true(decision == BY_NETWORK_PLANNED || !read.plan);
  memcpy(place, read.place, 4 * sizeof *place);
  by_network_entry_fini(&read);
  return decision;
}

/* A network is the same in any order of hosts, but a decision holds for one order and one planner, and one against the
 * plan not for long. */
static void test_decision(void **state) {
  (void)state;
  struct by_network_entry entry = make_entry();
  static const char *const in_turn[] = {"10.0.0.1 25000 -", "10.0.0.3 25000 -", "10.0.0.2 25000 -", "10.0.0.4 25000 -"};
  const struct by_network_key other_order = {.n = 4, .hosts = in_turn, .planner = "one"},
                              other_planner = {.n = 4, .hosts = hosts, .planner = "another"};
  uint32_t place[4];
  double day = 86400;
  entry.plan = plan_over(4);
  char *text = print(&entry, 1e9);
  assert_int_equal(decision_of(text, &key, 1e9 + 29 * day, place), BY_NETWORK_PLANNED);
  assert_int_equal(decision_of(text, &other_planner, 1e9, place), BY_NETWORK_UNDECIDED);
  assert_int_equal(decision_of(text, &other_order, 1e9, place), BY_NETWORK_UNDECIDED);
  assert_true(place[0] == 0 && place[1] == 2 && place[2] == 1 && place[3] == 3);
  free(text);
  free(entry.plan);
  entry.plan = NULL;
  entry.decision = BY_NETWORK_BUILTIN;
  text = print(&entry, 1e9);
  assert_int_equal(decision_of(text, &key, 1e9 + 0.9 * day, place), BY_NETWORK_BUILTIN);
  assert_int_equal(decision_of(text, &key, 1e9 + 1.1 * day, place), BY_NETWORK_UNDECIDED);
  free(text);
  by_network_entry_fini(&entry);
}

/* Replaces the first `from` in the text by `to`, and expects that the entry is refused for this reason. */
static void refuse(const char *from, const char *to, double later, const char *reason) {
  struct by_network_entry entry = make_entry(), read;
  entry.plan = plan_over(4);
  char *text = print(&entry, 1e9), *at = strstr(text, from);
  assert_non_null(at);
  char *changed = NULL;
  assert_true(asprintf(&changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) > 0);
  enum banyan_status status = by_network_entry_parse("n", changed, strlen(changed), &key, 1e9 + later, &read);
  assert_true(status == BANYAN_ERR_PARSE || status == BANYAN_ERR_PLAN);
  if (!strstr(banyan_error_text(), reason)) fail_msg("%s does not say: %s", banyan_error_text(), reason);
  assert_null(read.measured.topology);
  assert_null(read.measured.probes);
  assert_true(!read.place && !read.plan);
  free(changed);
  free(text);
  by_network_entry_fini(&entry);
}

static void test_refused(void **state) {
  (void)state;
  refuse("banyan-network 2", "banyan-network 1", 0, "format: must be");
  refuse("10.0.0.3", "10.0.0.9", 0, "of another network");
  refuse("\"10.0.0.1 25000 -\",", "", 0, "is another network");
  refuse("\"from\":2", "\"from\":4", 0, "from");
  refuse("\"to\":2", "\"to\":0", 0, "goes from host 0 to itself");
  refuse("\"round\":1", "\"round\":0,\"more\":1", 0, "more");
  refuse("\"rate\":100000000", "\"rate\":-1", 0, "rate");
  refuse("\"block\":4096", "\"block\":2000000000", 0, "block");
  refuse("\"delay\":0.001", "\"delay\":1e6", 0, "delay: is 1e+06 s"); /* probes would go on for millions of seconds */
  refuse("\"planned\":true,", "", 0, "planned");
  refuse("\"links\"", "\"lines\"", 0, "lines");
  refuse("\"order\":[0,", "\"order\":[", 0, "order");
  refuse("\"order\":[0,", "\"order\":[4,", 0, "order[0]");
  refuse("\"planner\":\"one\"", "\"planner\":1", 0, "planner");
  refuse("\"at\":1", "\"at\":2", 0, "in the future");
  refuse("banyan-plan 1", "banyan-plan 7", 0, "banyan-plan 7");
  refuse("{", "", 0, "");
  refuse("{", "{", -3600, "in the future");
  char *fewer = plan_over(3), *four = plan_over(4);
  refuse(four, fewer, 0, "plan: has 3 ranks");
  free(fewer);
  free(four);
  refuse("{", "{", 86400. * (BY_NETWORK_CACHE_DAYS + 1), "days ago");
}

static void test_files(void **state) {
  (void)state;
  char folder[] = "/tmp/banyan-test.XXXXXX", deep[64], command[256];
  struct by_network_entry entry = make_entry(), read;
  assert_non_null(mkdtemp(folder));
  snprintf(deep, sizeof deep, "%s/a/b", folder);
  assert_status(by_network_cache_load(deep, &key, &read), BANYAN_ERR_ARGUMENT);
  assert_ok(by_network_cache_store(deep, &key, &entry));
  assert_ok(by_network_cache_store(deep, &key, &entry)); /* in the place of the first */
  assert_ok(by_network_cache_load(deep, &key, &read));
  assert_true(read.age >= 0 && read.age < 1000);
  by_network_entry_fini(&read);
  /* Hosts in another order find it, fewer of them do not. */
  static const char *const reversed[] = {"10.0.0.4 25000 -", "10.0.0.3 25000 -", "10.0.0.2 25000 -",
                                         "10.0.0.1 25000 -"};
  const struct by_network_key other_order = {.n = 4, .hosts = reversed, .planner = "one"};
  assert_ok(by_network_cache_load(deep, &other_order, &read));
  assert_true(read.place[0] == 3 && read.place[3] == 0);
  by_network_entry_fini(&read);
  const struct by_network_key fewer = {.n = 3, .hosts = hosts};
  assert_status(by_network_cache_load(deep, &fewer, &read), BANYAN_ERR_ARGUMENT); /* another file */
  /* What is too old to be read goes with the next one, and nothing else. */
  snprintf(
      command, sizeof command,
      "cd %s && old=$(ls | tr 0-9 1) && touch -d '31 days ago' $old $old.a3Bc network-1.json x && touch -d '29 days "
      "ago' 3$old && mv 3$old $(echo $old | tr 1 3)",
      deep);
  assert_int_equal(system(command), 0);
  assert_ok(by_network_cache_store(deep, &key, &entry));
  snprintf(command, sizeof command,
           "cd %s && [ -e x ] && [ -e network-1.json ] && rm x network-1.json && [ $(ls | wc -l) = 2 ]", deep);
  assert_int_equal(system(command), 0);
  snprintf(command, sizeof command, "chmod o+w %s/*", deep);
  assert_int_equal(system(command), 0);
  assert_status(by_network_cache_load(deep, &key, &read), BANYAN_ERR_AUTH);
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
  by_network_entry_fini(&entry);
}

/* What a job finds of its links later is in the file, with the decision, but without the plan for what it replaces. */
static void test_refined(void **state) {
  (void)state;
  char folder[] = "/tmp/banyan-test.XXXXXX", command[64];
  struct by_network_entry entry = make_entry(), read;
  struct by_network_file *file;
  struct by_topology *refined;
  assert_non_null(mkdtemp(folder));
  entry.plan = plan_over(4);
  entry.age = 5000;
  entry.measured.topology->links[1].rough = true;
  assert_ok(by_network_cache_store(folder, &key, &entry));
  assert_ok(by_network_cache_load(folder, &key, &read));
  assert_non_null(read.plan);
  by_network_entry_fini(&entry);
  assert_ok(by_network_file_create(folder, &key, &read, &file));
  assert_null(read.measured.topology); /* it was taken over */
  for (int i = 1; i <= 3; i++) {
    assert_ok(by_topology_named("sites:2x2,lan=1g,wan=200m", &refined));
    refined->links[0].capacity[BY_AB].all = i * 1e8;
    while (by_network_file_is_busy(file)) usleep(1000);
    assert_ok(by_network_file_refine(file, refined));
  }
  by_network_file_destroy(file); /* waits until it is written */
  assert_ok(by_network_cache_load(folder, &key, &read));
  assert_true(read.measured.topology->links[0].capacity[BY_AB].all == 3e8);
  assert_false(read.measured.topology->links[1].rough);
  assert_true(read.decision == BY_NETWORK_PLANNED && !read.plan && read.measured.n_probes == 4);
  assert_true(read.age >= 5000 && read.age < 6000);
  by_network_entry_fini(&read);
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
}

static void test_folder(void **state) {
  (void)state;
  char folder[64];
  setenv("XDG_CACHE_HOME", "/x", 1);
  setenv("HOME", "/h", 1);
  assert_true(by_cache_folder(NULL, folder, sizeof folder));
  assert_string_equal(folder, "/x/banyan");
  unsetenv("XDG_CACHE_HOME");
  assert_true(by_cache_folder("", folder, sizeof folder));
  assert_string_equal(folder, "/h/.cache/banyan");
  assert_true(by_cache_folder("/given", folder, sizeof folder));
  assert_string_equal(folder, "/given");
  assert_false(by_cache_folder("off", folder, sizeof folder));
  assert_false(by_cache_folder("/much/longer", folder, 8));
  unsetenv("HOME");
  assert_false(by_cache_folder(NULL, folder, sizeof folder));
}

static void test_gateways(void **state) {
  (void)state;
  static const char *const routes = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
                                    "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
                                    "eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
                                    "eth1\t0000010A\t0200000A\t0003\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
                                    "eth1\t0000020A\t0900000A\t0003\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
  static const char *const neighbours =
      "IP address       HW type     Flags       HW address            Mask     Device\n"
      "10.0.0.7         0x1         0x2         52:54:00:00:00:07     *        eth0\n"
      "10.0.0.1         0x1         0x2         52:54:00:00:00:01     *        eth0\n"
      "10.0.0.2         0x1         0x2         52:54:00:00:00:02     *        eth1\n"
      "10.0.0.9         0x1         0x0         00:00:00:00:00:00     *        eth1\n";
  char out[64], brief[24];
  by_host_facts_gateways(false, routes, neighbours, out, sizeof out);
  assert_string_equal(out, "52:54:00:00:00:01,52:54:00:00:00:02");
  by_host_facts_gateways(false, routes, neighbours, brief, sizeof brief);
  assert_string_equal(brief, "52:54:00:00:00:01");
  by_host_facts_gateways(false, "", "", out, sizeof out);
  assert_string_equal(out, "-");
  /* A default route on eth1 behind a link-local address that eth0 has, too; the rest goes directly. */
  by_host_facts_gateways(true,
                         "20010db8000000000000000000000000 40 00000000000000000000000000000000 00 "
                         "00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth1\n"
                         "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
                         "fe800000000000000000000000000001 00000400 00000005 00000000 00450003     eth1\n",
                         "IP\nfe80::1 0x1 0x2 52:54:00:00:00:01 * eth0\nfe80::1 0x1 0x2 52:54:00:00:00:02 * eth1\n",
                         out, sizeof out);
  assert_string_equal(out, "52:54:00:00:00:02");
  by_host_facts_gateways(true, "0000 00 0000 00 fe80 0 0 0 0 eth1\n\n", "IP\n", out, sizeof out);
  assert_string_equal(out, "-");
}

/* Flows that go across share a link, so only their sum counts; others count alone. */
static void test_compare(void **state) {
  (void)state;
  struct by_network_entry entry = make_entry();
  const struct by_topology *topology = entry.measured.topology; /* hosts 0, 1 and 2, 3 */
  struct by_probe_flow before[] = {{.from = 0, .to = 2, .rate = 1e8},
                                   {.from = 1, .to = 3, .rate = 1e8},
                                   {.round = 1, .from = 0, .to = 1, .rate = 9e8}};
  struct by_probe_flow now[3];
  memcpy(now, before, sizeof now);
  assert_true(by_first_plan_compare(topology, before, now, 3) == 1);
  now[0].rate = 1.5e8;
  now[1].rate = 0.5e8;
  assert_true(fabs(by_first_plan_compare(topology, before, now, 3) - 1) < 1e-9);
  now[0].rate = 0.5e8;
  assert_true(fabs(by_first_plan_compare(topology, before, now, 3) - 2) < 1e-9);
  now[0].rate = now[1].rate = 1e8;
  now[2].rate = 27e8;
  assert_true(fabs(by_first_plan_compare(topology, before, now, 3) - 3) < 1e-9);
  now[2].rate = 0;
  assert_true(isinf(by_first_plan_compare(topology, before, now, 3)));
  by_network_entry_fini(&entry);
}

/* Of the planner's plan for these hosts, in this order. */
static struct by_forecast forecast(const char *name, const uint32_t *order, uint32_t n) {
  struct by_topology *topology;
  struct by_planner_options options = by_planner_defaults();
  struct by_planned planned;
  struct by_forecast found;
  assert_ok(by_topology_named(name, &topology));
  options.choice.participants = order;
  options.choice.n_participants = n;
  assert_ok(by_planner_run("test", topology, &options, &planned));
  assert_ok(by_forecast_make(topology, planned.plan, &options.rates, false, &found));
  by_planned_fini(&planned);
  by_topology_destroy(topology);
  return found;
}

/* Where the hosts of two sites stand in turn, the built-in plan carries as much as any, and only a trial can tell. */
static void test_forecast(void **state) {
  (void)state;
  static const uint32_t in_order[] = {0, 1, 2, 3}, in_turn[] = {0, 2, 1, 3}, outside_in[] = {0, 2, 3, 1};
  struct by_forecast found = forecast("sites:2x2,lan=1g,wan=200m", in_turn, 4);
  assert_true(!found.sure && found.hopeful && found.gain > 0.95 && found.gain < 1.05);
  assert_true(found.bytes > 512 << 10 && found.seconds >= 0.04 && found.seconds < 0.06);
  found = forecast("sites:2x2,lan=1g,wan=200m", in_order, 4);
  assert_true(found.sure && found.hopeful && found.gain > 1.9 && found.gain < 2.1);
  /* A plan that is surely faster is tried with shorter calls: those by the faster plan take 20 to 25 ms. */
  found = forecast("sites:2x2,lan=10g,wan=2g", in_order, 4);
  assert_true(found.sure && found.seconds / found.gain >= 0.019 && found.seconds / found.gain < 0.027);
  found = forecast("sites:2x2,lan=1g,wan=200m", outside_in, 4);
  assert_true(found.sure && found.gain > 2.5);
  found = forecast("star:4,nic=1g", in_order, 4);
  assert_true(!found.sure && !found.hopeful);
  found = forecast("star:4,nic=1g", in_turn, 3);
  assert_false(found.hopeful);
}

/* A trial's calls that differ from each other are no evidence for less than that. */
static void test_trial(void **state) {
  (void)state;
  struct by_plan_rounds clear = {.ours = {0.092, 0.093}, .builtin = {0.1, 0.101}, .n = 3, .won = 3};
  assert_true(by_plan_trial_won(&clear, false));
  struct by_plan_rounds rounds = clear;
  rounds.won = 1; /* the least time was luck */
  assert_false(by_plan_trial_won(&rounds, false));
  rounds = clear;
  rounds.builtin.next = 0.12; /* by 20 %: with a plan that need not be faster, there are more rounds */
  assert_false(by_plan_trial_won(&rounds, false) || by_plan_trial_is_over(&rounds, false));
  assert_true(by_plan_trial_won(&rounds, true) && by_plan_trial_is_over(&rounds, true));
  rounds.n = 5;
  assert_false(by_plan_trial_won(&rounds, false)); /* it has won 3 */
  rounds.won = 4;
  assert_true(by_plan_trial_won(&rounds, false) && by_plan_trial_is_over(&rounds, false));
  rounds = clear;
  rounds.ours = (struct by_plan_times){0.098, 0.099}; /* by 2 % only */
  assert_false(by_plan_trial_won(&rounds, false));
  struct by_plan_rounds single = {.ours = {1, INFINITY}, .builtin = {1.05, INFINITY}, .n = 1, .won = 1, .single = true};
  assert_false(by_plan_trial_won(&single, false));
  assert_true(by_plan_trial_won(&single, true));
  single.builtin.min = 1.2;
  assert_true(by_plan_trial_won(&single, false));
}

/* One call of two that was disturbed, of either plan, does not decide against a plan that is twice as fast, and neither
 * do both. */
static void test_disturbed_trial(void **state) {
  (void)state;
  struct by_plan_rounds rounds = {.ours = {0.0292, 0.0551}, .builtin = {0.0543, 0.0544}, .n = 1, .won = 1};
  assert_false(by_plan_trial_won(&rounds, true));
  assert_false(by_plan_trial_is_over(&rounds, true));
  rounds.ours.next = 0.0295;
  rounds.n = rounds.won = 2;
  assert_true(by_plan_trial_is_over(&rounds, true) && by_plan_trial_won(&rounds, true));
  rounds = (struct by_plan_rounds){.ours = {0.0275, 0.0276}, .builtin = {0.0543, 0.11}, .n = 1, .won = 1};
  assert_false(by_plan_trial_is_over(&rounds, true));
  rounds = (struct by_plan_rounds){.ours = {0.23, 0.24}, .builtin = {0.0543, 0.0544}, .n = 1};
  assert_false(by_plan_trial_is_over(&rounds, true));
  assert_true(by_plan_trial_is_over(&rounds, false));
  rounds.n = 2;
  assert_true(by_plan_trial_is_over(&rounds, true) && !by_plan_trial_won(&rounds, true));
  rounds = (struct by_plan_rounds){.ours = {0.05, 0.06}, .builtin = {0.054, 0.055}, .n = 3, .won = 2};
  assert_true(by_plan_trial_is_over(&rounds, true)); /* there is an end */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_read_back), cmocka_unit_test(test_decision),        cmocka_unit_test(test_refused),
      cmocka_unit_test(test_files),     cmocka_unit_test(test_folder),          cmocka_unit_test(test_gateways),
      cmocka_unit_test(test_compare),   cmocka_unit_test(test_forecast),        cmocka_unit_test(test_refined),
      cmocka_unit_test(test_trial),     cmocka_unit_test(test_disturbed_trial),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
