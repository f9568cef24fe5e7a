/* Tests of links that carry less than their announced rate, as connections over them show. */
#include "../manager_world.h"
#include "check.h"
#include "json_doc.h"
#include "link_seen.h"
#include "topology_formats.h"

/* The network has two racks of four under two spines: 1 Gbit/s to each host, 500 Mbit/s from each leaf to each spine.
 * Packets from r0h3 to r1h0 take one spine, and those to r1h1 take the other. */
#define NETWORK "clos:racks=2,hosts=4,nic=1g,oversub=4,spines=2"
enum { HOSTS = 8, MOST_PATHS = 8 };

static struct world world;

/* What each host reports of each job's connections to other hosts. */
static struct path_reports {
  struct by_cluster_path paths[MOST_PATHS];
  uint32_t n;
} path_reports[WORLD_JOBS][WORLD_HOSTS];

/* What a host observes of a path, where that is not as fast as it should be. */
static struct observation {
  uint32_t to; /* The index of the other host; 0 is the next host. */
  double busy, bandwidth;
} observations[HOSTS];

static void begin(void) {
  memset(path_reports, 0, sizeof path_reports);
  memset(observations, 0, sizeof observations);
  world_begin(&world, NETWORK);
  for (uint32_t h = 0; h < world.n_hosts; h++) world_join(&world, h);
}

static void report(uint32_t h) {
  struct by_cluster_interface eth0 = {.name = "eth0", .rate = 1e9};
  struct by_cluster_job job_reports[WORLD_JOBS];
  struct by_cluster_message message = {
      .type = BY_MESSAGE_REPORT, .interfaces = &eth0, .n_interfaces = 1, .jobs = job_reports, .n_jobs = world.n_jobs};
  for (uint32_t j = 0; j < world.n_jobs; j++)
    job_reports[j] = (struct by_cluster_job){.job = world.jobs[j].id,
                                             .n_ranks = 1,
                                             .ranks = &h,
                                             .iterations = world.jobs[j].iterations,
                                             .sent = world.jobs[j].sent,
                                             .input = world.jobs[j].input,
                                             .n_paths = path_reports[j][h].n,
                                             .paths = path_reports[j][h].paths};
  assert_ok(by_manager_handle(world.manager, world.hosts[h].peer, &message, world.now));
}

/* Sets what `h` reports of one job's paths from now on, and reports it with the rate of its own link and its paths of
 * other jobs. */
static void report_paths(const struct world_job *job, uint32_t h, const struct by_cluster_path *paths, uint32_t n) {
  struct path_reports *of = &path_reports[job - world.jobs][h];
  if (n) memcpy(of->paths, paths, n * sizeof *paths);
  of->n = n;
  report(h);
}

static void report_path(const struct world_job *job, uint32_t h, const struct by_cluster_path *path) {
  report_paths(job, h, path, 1);
}

/* Lets a quarter of an interval pass, for a job that is a ring over all hosts. The link from r0h3 to r1h0 was busy for
 * `busy` of it, at this bandwidth; paths without another observation are as fast as they should be. No two reports are
 * quite the same. */
static void pass(struct world_job *job, double busy, double bandwidth) {
  static double more;
  double sent = busy * bandwidth + ++more;
  world.now += world.options.interval / 4;
  for (uint32_t h = 0; h < HOSTS; h++) {
    const struct observation *observation = &observations[h];
    struct by_cluster_path path = {.to = world.hosts[observation->to ? observation->to : (h + 1) % HOSTS].name,
                                   .sent = sent,
                                   .busy = sent / 0.4e9,
                                   .bandwidth = 0.4e9};
    if (h == 3) path.busy = busy, path.bandwidth = bandwidth;
    if (observation->busy > 0) path.busy = observation->busy, path.bandwidth = observation->bandwidth;
    if (observation->busy > 0) path.sent = observation->busy * observation->bandwidth + more;
    if (world.hosts[h].peer) report_path(job, h, &path);
  }
  by_manager_tick(world.manager, world.now);
}

static double capacity(const char *from, const char *to) {
  static const struct by_doc_limits limits = {.bytes = 1 << 24, .containers = 1 << 20, .elements = 1 << 20};
  struct by_text text;
  json_t *state, *link;
  size_t i;
  double rate = 0;
  by_text_init(&text);
  by_manager_state(world.manager, world.now, &text);
  assert_ok(by_doc_load("state", by_text_get(&text), text.length, &limits, &state));
  json_array_foreach(json_object_get(state, "links"), i, link) {
    bool it = !strcmp(json_string_value(json_object_get(link, "from")), from) &&
              !strcmp(json_string_value(json_object_get(link, "to")), to);
    if (it) rate = json_number_value(json_object_get(link, "capacity"));
  }
  json_decref(state);
  by_text_fini(&text);
  return rate;
}

/* Returns the spine on the way to r1h0. */
static const char *spine(void) {
  return capacity("leaf0", "spine0") < 0.5e9 ? "spine0" : "spine1";
}

static void assert_none_is_slow(void) {
  assert_true(capacity("leaf0", "spine0") == 0.5e9 && capacity("leaf0", "spine1") == 0.5e9);
  assert_true(capacity("spine0", "leaf1") == 0.5e9 && capacity("spine1", "leaf1") == 0.5e9);
  assert_true(capacity("r0h3", "leaf0") == 1e9 && capacity("leaf1", "r1h0") == 1e9);
}

/* A link between switches drops to a fifth: it is detected after three reports, and the job is planned around it. */
static void test_in_the_middle(void **state) {
  (void)state;
  begin();
  struct world_job *job = world_run(&world, 0, 1, HOSTS);
  world_plan(&world);
  for (int i = 0; i < 40; i++) pass(job, 0.5, 0.4e9);
  world_plan(&world);
  unsigned plans = world.plans;
  assert_none_is_slow();
  pass(job, 1, 0.1e9);
  pass(job, 1, 0.1e9);
  assert_none_is_slow();
  pass(job, 1, 0.1e9);
  assert_float_equal(capacity("leaf0", spine()) / 1e9, 0.105, 0.002);
  assert_float_equal(capacity(spine(), "leaf1") / 1e9, 0.105, 0.002);
  assert_true(capacity(spine(), "leaf0") == 0.5e9); /* The other direction is not affected. */
  /* Agents report the rates of their hosts' own links. */
  assert_true(capacity("r0h3", "leaf0") == 1e9 && capacity("leaf1", "r1h0") == 1e9);
  world.now += world.options.interval;
  world_plan(&world);
  assert_int_equal(world.plans, plans + 1);
  /* The link is as fast as before again. */
  for (int i = 0; i < 3; i++) pass(job, 0.5, 0.45e9);
  assert_none_is_slow();
  world_end(&world);
}

/* Each of two paths over the link has observed it twice. If both lead to the same host, the host may be the cause. */
static void test_two_paths(void **state) {
  (void)state;
  begin();
  struct world_job *job = world_run(&world, 0, 1, HOSTS);
  observations[1] = (struct observation){4, 1, 0.05e9};
  pass(job, 1, 0.05e9);
  pass(job, 1, 0.05e9);
  assert_none_is_slow();
  observations[1] = (struct observation){0};
  for (int i = 0; i < 20; i++) pass(job, 0.5, 0.4e9);
  observations[1] = (struct observation){6, 1, 0.05e9};
  pass(job, 1, 0.05e9);
  assert_none_is_slow();
  pass(job, 1, 0.05e9);
  assert_float_equal(capacity("leaf0", spine()) / 1e9, 0.105, 0.002);
  assert_true(capacity(spine(), "leaf0") == 0.5e9);
  world_end(&world);
}

/* A link that is slow in one direction is soon taken to be slow in the other direction. */
static void test_both_ways(void **state) {
  (void)state;
  begin();
  struct world_job *job = world_run(&world, 0, 1, HOSTS);
  pass(job, 1, 0.1e9);
  pass(job, 1, 0.1e9);
  observations[7] = (struct observation){.busy = 1, .bandwidth = 0.08e9};
  pass(job, 1, 0.1e9);
  assert_float_equal(capacity("leaf0", "spine0") / 1e9, 0.105, 0.002);
  assert_float_equal(capacity("spine0", "leaf0") / 1e9, 0.084, 0.002);
  assert_float_equal(capacity("leaf1", "spine0") / 1e9, 0.084, 0.002);
  assert_true(capacity("leaf1", "r1h3") == 1e9 && capacity("r1h3", "leaf1") == 1e9);
  world_end(&world);
}

/* The rate of TCP varies: another path must have been much faster to show that the link that both share is not
 * slow. */
static void test_other_path(void **state) {
  (void)state;
  begin();
  struct world_job *job = world_run(&world, 0, 1, HOSTS);
  observations[1] = (struct observation){6, 0.1, 0.3e9};
  for (int i = 0; i < 8; i++) pass(job, 1, 0.1e9);
  assert_true(capacity("leaf0", "spine0") == 0.5e9 && capacity("spine0", "leaf1") == 0.5e9);
  observations[1].bandwidth = 0.16e9;
  for (int i = 0; i < 3; i++) pass(job, 1, 0.1e9);
  assert_in_range((unsigned)(capacity("leaf0", "spine0") / 1e6), 100, 180);
  world_end(&world);
}

/* Two paths are busy at different times: each time the link carries what one of them gets. */
static void test_in_turn(void **state) {
  (void)state;
  begin();
  struct world_job *job = world_run(&world, 0, 1, HOSTS);
  for (int i = 0; i < 3; i++) pass(job, 1, 0.1e9);
  observations[1] = (struct observation){6, 0.4, 0.1e9};
  for (int i = 0; i < 8; i++) pass(job, 0.4, 0.1e9);
  assert_float_equal(capacity("leaf0", "spine0") / 1e9, 0.105, 0.002);
  world_end(&world);
}

/* For a moment nothing is sent: earlier observations continue to count, and those of that moment do not. */
static void test_pause(void **state) {
  (void)state;
  begin();
  struct world_job *job = world_run(&world, 0, 1, HOSTS);
  pass(job, 1, 0.1e9);
  pass(job, 1, 0.1e9);
  world.now += world.options.interval / 4;
  for (uint32_t h = 0; h < HOSTS; h++) report_paths(job, h, NULL, 0);
  by_manager_tick(world.manager, world.now);
  assert_none_is_slow();
  pass(job, 1, 0.1e9);
  assert_true(capacity("leaf0", "spine0") < 0.2e9);
  observations[1] = (struct observation){6, 1, 0.08e9}; /* The path to r0h2 has ended. */
  pass(job, 1, 0.02e9);
  pass(job, 1, 0.02e9);
  observations[1] = (struct observation){0};
  for (int i = 0; i < 3; i++) pass(job, 1, 0.02e9);
  assert_true(capacity("leaf0", "spine0") < 0.03e9);
  world_end(&world);
}

/* The links of the new plan have become slow too: that is already known, so there is nothing to wait for. */
static void test_again_soon(void **state) {
  (void)state;
  begin();
  struct world_job *job = world_run(&world, 0, 1, HOSTS);
  world_plan(&world);
  for (int i = 0; i < 40; i++) pass(job, 0.5, 0.4e9);
  for (int i = 0; i < 3; i++) pass(job, 1, 0.1e9);
  world_plan(&world);
  unsigned plans = world.plans;
  for (int i = 0; i < 4; i++) pass(job, 0.5, 0.1e9);
  observations[1] = (struct observation){5, 1, 0.2e9};
  observations[2] = (struct observation){7, 1, 0.06e9};
  for (int i = 0; i < 3; i++) pass(job, 0.5, 0.1e9);
  assert_true(capacity("leaf0", "spine1") < 0.3e9);
  world_plan(&world);
  assert_int_equal(world.plans, plans + 1);
  world_end(&world);
}

static void make_slow(struct world_job *job) {
  for (int i = 0; i < 4; i++) pass(job, 1, 0.1e9);
  assert_true(capacity("leaf0", spine()) < 0.2e9);
}

static void wait(unsigned intervals) {
  while (intervals--) {
    world_pass(&world, 1000000);
    by_manager_tick(world.manager, world.now);
  }
}

/* No path uses the slow link any more: after a while it is tried again. */
static void test_doubted(void **state) {
  (void)state;
  begin();
  struct world_job *job = world_run(&world, 0, 1, HOSTS);
  make_slow(job);
  wait(140); /* This is 280 s. */
  assert_true(capacity("leaf0", spine()) < 0.2e9);
  wait(20);
  assert_none_is_slow();
  world_end(&world);
}

/* The link was slow again: the next time it takes twice as long until it is tried. */
static void test_doubted_later(void **state) {
  (void)state;
  begin();
  struct world_job *job = world_run(&world, 0, 1, HOSTS);
  make_slow(job);
  wait(160); /* This is 320 s. */
  assert_none_is_slow();
  make_slow(job);
  wait(290);
  assert_true(capacity("leaf0", spine()) < 0.2e9);
  wait(20);
  assert_none_is_slow();
  world_end(&world);
}

/* Old observations that an agent repeats, because its rank has sent no new ones, do not hide a slow link for ever. */
static void test_old_messages(void **state) {
  const struct by_cluster_path old = {.to = world.hosts[4].name, .sent = 0.3e9, .busy = 0.6, .bandwidth = 0.5e9};
  (void)state;
  begin();
  struct world_job *job = world_run(&world, 0, 1, HOSTS), *quiet = world_run(&world, 0, 1, HOSTS);
  for (int i = 0; i < 12; i++) { /* This lasts 3 intervals. */
    report_path(quiet, 3, &old);
    pass(job, 1, 0.1e9);
  }
  assert_float_equal(capacity("leaf0", spine()) / 1e9, 0.105, 0.002);
  world_end(&world);
}

/* One report of a higher rate counts once, however often other reports are evaluated meanwhile. */
static void test_more_once(void **state) {
  struct by_cluster_path fast = {.to = world.hosts[4].name, .sent = 0.02e9, .busy = 0.2, .bandwidth = 0.45e9};
  struct by_cluster_path low = {.to = world.hosts[4].name, .sent = 0.05e9, .busy = 1, .bandwidth = 0.05e9};
  (void)state;
  begin();
  struct world_job *job = world_run(&world, 0, 1, HOSTS), *other = world_run(&world, 0, 1, HOSTS);
  make_slow(job);
  report_path(job, 3, &fast);
  for (int i = 0; i < 4; i++) {
    world.now += world.options.interval / 4;
    low.sent += 1;
    report_path(other, 3, &low);
    by_manager_tick(world.manager, world.now);
  }
  assert_true(capacity("leaf0", spine()) < 0.2e9);
  world_end(&world);
}

/* One host reports no paths. What the plan puts on a link and what is reported of it are the same bytes. */
static void test_silent_host(void **state) {
  (void)state;
  begin();
  struct world_job *job = world_run(&world, 0, 1, HOSTS);
  world_plan(&world);
  world_part(&world, 7);
  for (int i = 0; i < 40; i++) {
    job->input += (uint64_t)(0.26e9 / 8 * world.options.interval / 4);
    pass(job, i < 30 ? 0.5 : 1, i < 30 ? 0.45e9 : 0.2e9);
  }
  assert_in_range((unsigned)(capacity("leaf0", spine()) / 1e6), 200, 280);
  world_end(&world);
}

/* All paths of a host are slow: its own link is the cause, whatever rate its interface reports. */
static void test_host_link(void **state) {
  struct by_cluster_path paths[5];
  (void)state;
  begin();
  struct world_job *job = world_run(&world, 0, 1, HOSTS);
  for (int i = 0; i < 4; i++) {
    for (uint32_t p = 0; p < 5; p++)
      paths[p] = (struct by_cluster_path){
          .to = world.hosts[p ? p + 3 : 2].name, .sent = 0.05e9 + i, .busy = 1, .bandwidth = 0.05e9};
    world.now += world.options.interval / 4;
    report_paths(job, 3, paths, 5);
    by_manager_tick(world.manager, world.now);
  }
  assert_float_equal(capacity("r0h3", "leaf0") / 1e9, 0.2625, 0.01);
  assert_true(capacity("leaf0", "spine0") == 0.5e9 && capacity("leaf0", "spine1") == 0.5e9);
  world_end(&world);
}

/* Both links of the way are as fast as their hosts report, so one of the hosts is slow. */
static void test_slow_host(void **state) {
  struct by_cluster_path path = {.to = world.hosts[2].name, .busy = 1, .bandwidth = 0.05e9};
  (void)state;
  begin();
  struct world_job *job = world_run(&world, 0, 1, HOSTS);
  for (uint32_t h = 0; h < HOSTS; h++) report(h);
  for (int i = 0; i < 8; i++) {
    world.now += world.options.interval / 4;
    path.sent = 0.05e9 + i;
    report_path(job, 3, &path);
    by_manager_tick(world.manager, world.now);
  }
  assert_none_is_slow();
  assert_true(capacity("leaf0", "r0h2") == 1e9);
  world_end(&world);
}

/* If a higher class leaves little for a path, and TCP takes only a part of that, no link is slow. */
static void test_gives_way(void **state) {
  (void)state;
  begin();
  struct world_job *low = world_run(&world, 0, 1, HOSTS), *high = world_run(&world, 0, 1, HOSTS);
  low->sent = 100000000000;
  low->iterations = 100;
  world_plan(&world);
  for (int i = 0; i < 12; i++) {
    high->input += 5000000;
    pass(high, 0.2, 0.1e9);
    pass(low, 1, 0.1e9);
  }
  assert_none_is_slow();
  world_end(&world);
}

/* No agent reports any more what the last link carries. */
static void test_agent_gone(void **state) {
  (void)state;
  begin();
  struct world_job *job = world_run(&world, 0, 1, HOSTS);
  pass(job, 0.5, 0.4e9);
  world_part(&world, 4);
  make_slow(job);
  assert_float_equal(capacity("leaf1", "r1h0") / 1e9, 0.105, 0.002);
  assert_true(capacity("r0h3", "leaf0") == 1e9);
  world_end(&world);
}

/* Single slow reports with others in between are not consecutive. */
static void test_no_row(void **state) {
  (void)state;
  begin();
  struct world_job *job = world_run(&world, 0, 1, HOSTS);
  for (int i = 0; i < 6; i++) {
    pass(job, 1, 0.1e9);
    for (int quiet = 0; quiet < 20; quiet++) pass(job, 1, 0);
  }
  assert_none_is_slow();
  world_end(&world);
}

/* Whatever a job claims to have observed, numbers stay finite. */
static void test_hardly_anything(void **state) {
  (void)state;
  begin();
  struct world_job *job = world_run(&world, 0, 1, HOSTS);
  world_plan(&world);
  for (int i = 0; i < 5; i++) pass(job, 1, 1e-300);
  assert_true(capacity("leaf0", spine()) >= 0.005e9);
  world.now += world.options.interval;
  world_plan(&world);
  world_end(&world);
}

/* Two jobs share the link: each gets half of it, and it is not slow. */
static void test_shared(void **state) {
  (void)state;
  begin();
  struct world_job *one = world_run(&world, 0, 1, HOSTS), *other = world_run(&world, 0, 1, HOSTS);
  for (int i = 0; i < 10; i++) {
    pass(one, 0.9, 0.22e9);
    world.now -= world.options.interval / 4;
    pass(other, 0.9, 0.22e9);
  }
  assert_none_is_slow();
  world_end(&world);
}

/* A job that sends little, occasionally or only once proves nothing. */
static void test_not_known(void **state) {
  (void)state;
  begin();
  struct world_job *job = world_run(&world, 0, 1, HOSTS);
  for (int i = 0; i < 10; i++) pass(job, 1, 0);
  for (int i = 0; i < 10; i++) pass(job, 0.1, 0.05e9);
  for (int i = 0; i < 10; i++) pass(job, i % 3 ? 1 : 0.5, i % 3 ? 0.1e9 : 0.4e9);
  assert_none_is_slow();
  world_end(&world);
}

/* An agent that has received nothing new repeats its report: that counts as one report. */
static void test_reported_again(void **state) {
  struct by_cluster_path path = {.sent = 0.1e9, .busy = 1, .bandwidth = 0.1e9};
  (void)state;
  begin();
  struct world_job *job = world_run(&world, 0, 1, HOSTS);
  pass(job, 0.5, 0.4e9);
  path.to = world.hosts[4].name;
  for (int i = 0; i < 10; i++) {
    world.now += 0.1;
    report_path(job, 3, &path);
    by_manager_tick(world.manager, world.now);
  }
  assert_none_is_slow();
  path.to = "elsewhere"; /* There is no such host. */
  report_path(job, 3, &path);
  by_manager_tick(world.manager, world.now);
  world_end(&world);
}

/* ---- ways of packets ---- */

static struct by_topology *topology;
static struct by_path_cache ways;

static void begin_ways(const char *network) {
  assert_ok(by_topology_named(network, &topology));
  assert_ok(by_path_cache_init(&ways, topology));
}

static void end(void) {
  by_path_cache_fini(&ways);
  by_topology_destroy(topology);
}

static void find(uint32_t from, uint32_t to, uint32_t **steps, uint32_t *n) {
  if (by_path_cache_find(&ways, from, to, steps, n)) return;
  by_path_cache_allow(&ways);
  assert_true(by_path_cache_find(&ways, from, to, steps, n));
}

static void test_all(void **state) {
  static const char *const networks[] = {"clos:racks=3,hosts=4,spines=2", "mesh:5", "torus:3x4", "star:1"};
  (void)state;
  for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
    begin_ways(networks[i]);
    struct by_next_hop *hops = calloc(topology->n_nodes, sizeof *hops);
    for (uint32_t to = 0; to < topology->n_nodes; to++) {
      assert_ok(by_paths_to(&ways.paths, to, hops));
      for (uint32_t from = 0; from < topology->n_nodes; from++) {
        uint32_t *steps, n, v = from;
        find(from, to, &steps, &n);
        assert_int_equal(n, hops[from].hops);
        for (uint32_t s = 0; s < n; v = hops[v].next, s++) {
          assert_int_equal(steps[s] / 2, hops[v].link);
          assert_int_equal(topology->links[steps[s] / 2].a == v ? BY_AB : BY_BA, steps[s] % 2);
        }
        free(steps);
      }
    }
    assert_int_equal(ways.searched, topology->n_nodes); /* Each node was searched from only once. */
    free(hops);
    end();
  }
}

/* A job that names all hosts of a large network gets only a limited number of searches at a time. */
static void test_bounded(void **state) {
  uint32_t *steps, n, later = 0;
  (void)state;
  begin_ways("clos:racks=32,hosts=32");
  for (uint32_t to = 1; to < topology->n_nodes; to++) {
    later += !by_path_cache_find(&ways, 0, to, &steps, &n);
    free(steps);
  }
  assert_true(ways.searched < 100);
  assert_int_equal(ways.searched + later, topology->n_nodes - 1);
  end();
}

/* A result that does not fit any more is searched for again. */
static void test_few_kept(void **state) {
  uint32_t *steps, n;
  (void)state;
  begin_ways("star:8");
  ways.max = 3;
  for (uint32_t i = 0; i < 40; i++) {
    find(8, i % 8, &steps, &n);
    assert_int_equal(n, 1);
    free(steps);
    assert_true(ways.n <= 3);
  }
  assert_int_equal(ways.searched, 40);
  end();
}

static void test_no_way(void **state) {
  uint32_t *steps, n;
  (void)state;
  begin_ways("star:2");
  for (uint32_t l = 0; l < topology->n_links; l++) topology->links[l].capacity[BY_AB].all = 0;
  for (uint32_t l = 0; l < topology->n_links; l++) topology->links[l].capacity[BY_BA].all = 0;
  find(0, 1, &steps, &n);
  assert_null(steps);
  assert_int_equal(n, 0);
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_in_the_middle),  cmocka_unit_test(test_doubted),
      cmocka_unit_test(test_no_row),         cmocka_unit_test(test_hardly_anything),
      cmocka_unit_test(test_shared),         cmocka_unit_test(test_not_known),
      cmocka_unit_test(test_reported_again), cmocka_unit_test(test_doubted_later),
      cmocka_unit_test(test_old_messages),   cmocka_unit_test(test_more_once),
      cmocka_unit_test(test_silent_host),    cmocka_unit_test(test_host_link),
      cmocka_unit_test(test_agent_gone),     cmocka_unit_test(test_slow_host),
      cmocka_unit_test(test_gives_way),      cmocka_unit_test(test_two_paths),
      cmocka_unit_test(test_both_ways),      cmocka_unit_test(test_other_path),
      cmocka_unit_test(test_in_turn),        cmocka_unit_test(test_pause),
      cmocka_unit_test(test_again_soon),     cmocka_unit_test(test_all),
      cmocka_unit_test(test_bounded),        cmocka_unit_test(test_few_kept),
      cmocka_unit_test(test_no_way),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
