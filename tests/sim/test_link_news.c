/* A rank's reports about its connections, by a clock of the test. A link that has become slow is reported at once, also
 * while no new data is sent. It is reported again when it carries more. */
#include <string.h>

#include "agent_client.h"
#include "check.h"
#include "comm.h"
#include "contexts.h"
#include "loop.h"

enum { INTERVAL_MS = 1000, STEP_MS = 10 };

struct job {
  struct world world;
  struct by_job job;
  struct by_agent_client link;
  struct by_clock clock;
  uint64_t now;
};

static struct by_lane_ops counted; /* operations of a simulated lane, with the counters of a network lane */
static struct by_meter meter;
static struct by_lane *lanes[8];
static unsigned n_lanes;
static double part;     /* fraction of the time in which the link is busy while it carries anything */
static uint32_t flying; /* segments under way during this time */

static bool read_meter(const struct by_lane *lane, struct by_meter *out) {
  (void)lane;
  *out = meter;
  return true;
}

static void count(void *context, uint32_t process, struct by_lane *lane) {
  (void)process;
  (void)context;
  counted = *lane->ops;
  counted.meter = read_meter;
  lane->ops = &counted;
  assert_true(n_lanes < sizeof lanes / sizeof *lanes);
  lanes[n_lanes++] = lane;
}

/* Makes the link between the two ranks. */
static void call(struct world *world) {
  world->n_operations = 1;
  world->operations[0].call = (struct banyan_call){.collective = BANYAN_ALLREDUCE, .dtype = BANYAN_INT32, .count = 10};
  assert_true(world_run(world));
  world_clear(world);
}

static uint64_t now_of(void *context) {
  return ((struct job *)context)->now;
}

static void init(struct job *job) {
  struct by_sim_options net;
  struct by_engine_options engine;
  memset(job, 0, sizeof *job);
  meter = (struct by_meter){0};
  part = 1;
  flying = 100;
  world_options(1, &net, &engine);
  world_init(&job->world, 2, "ring", &net, &engine, 1);
  context_make(&job->job, &job->world, 0, 2);
  call(&job->world);
  n_lanes = 0;
  by_engine_visit_lanes(job->job.engine, count, NULL);
  job->clock = (struct by_clock){now_of, job};
  assert_ok(by_loop_create(&job->clock, &job->job.loop));
  by_observe_begin(&job->job.observed);
  job->link = (struct by_agent_client){.job = &job->job,
                                       .observed = &job->job.observed,
                                       .id = "a job",
                                       .welcome = true,
                                       .interval = INTERVAL_MS * BY_MILLISECOND};
  by_path_watch_init(&job->link.paths, &job->job);
  by_timer_init(&job->link.report, by_agent_client_report, &job->link);
  by_agent_client_report(&job->link);
}

static void fini(struct job *job) {
  by_path_watch_fini(&job->link.paths);
  by_loop_destroy(job->job.loop);
  world_fini(&job->world);
  context_fini(&job->job);
}

/* The network carries `carried` bit/s, and the rank sends `given` bit/s. */
static void run(struct job *job, double seconds, double carried, double given) {
  const double step = STEP_MS * 1e-3;
  if (given > 0 && job->job.observed.on_next_call) by_observe_wake(&job->job.observed);
  for (uint64_t end = job->now + by_clock_from_seconds(seconds); job->now < end; job->now += STEP_MS * BY_MILLISECOND) {
    meter.bytes += (uint64_t)(carried / 8 * step);
    meter.busy += carried > 0 ? (uint64_t)(part * STEP_MS * 1000) : 0;
    meter.flying = carried > 0 ? flying : 0;
    for (unsigned i = 0; i < n_lanes; i++) lanes[i]->sent += (uint64_t)(given / 8 * step);
    assert_ok(by_loop_run_once(job->job.loop, 0));
  }
}

static bool has_notified(const struct job *job, double bandwidth) {
  const struct by_cluster_path *path = &job->link.paths.list.paths[0];
  return job->link.paths.list.n == 1 && path->bandwidth > 0.9 * bandwidth && path->bandwidth < 1.1 * bandwidth;
}

static void test_slow(void **state) {
  struct job job;
  (void)state;
  init(&job);
  run(&job, 3.01, 100e6, 100e6); /* until the end of a reporting interval */
  assert_true(has_notified(&job, 100e6));
  uint64_t slow_from = job.now;
  run(&job, 0.3, 20e6, 0); /* what waited in buffers */
  assert_true(job.link.reported_at > slow_from && has_notified(&job, 20e6));
  run(&job, 0.5, 0, 0);
  uint32_t left = job.link.paths.news;
  run(&job, 10, 0, 0);
  assert_int_equal(job.link.paths.news, left);
  assert_true(left > 0 && !by_timer_is_set(&job.link.report)); /* the link is not checked while it carries nothing */
  uint64_t again_from = job.now;
  run(&job, 2, 20e6, 20e6);
  assert_true(job.link.reported_at > again_from && has_notified(&job, 20e6));
  assert_int_equal(job.link.paths.news, 0);
  fini(&job);
}

/* The link is busy until an answer comes that is held back. It does not wait for the network. */
static void test_waits(void **state) {
  struct job job;
  (void)state;
  init(&job);
  flying = 1;
  run(&job, 3.01, 1e6, 1e6);
  assert_true(job.link.paths.list.n == 1 && job.link.paths.list.paths[0].busy > 0.9);
  assert_true(job.link.paths.list.paths[0].bandwidth == 0);
  fini(&job);
}

/* 80 ms there and back: a connection whose window is full shows what the link carries only while packets wait for it
 * for longer than the way takes. Messages that are all on their way at once wait for their own packets for less. */
static void test_long_trip(void **state) {
  struct job job;
  (void)state;
  init(&job);
  meter.trip = 80000;
  meter.recent = 83000;
  run(&job, 3.01, 20e6, 20e6);
  assert_true(job.link.paths.list.n == 1 && job.link.paths.list.paths[0].busy > 0.9);
  assert_true(job.link.paths.list.paths[0].bandwidth == 0);
  meter.recent = 130000;
  run(&job, 2.01, 20e6, 20e6);
  assert_true(job.link.paths.list.paths[0].bandwidth == 0);
  meter.recent = 170000;
  run(&job, 2.01, 20e6, 20e6);
  assert_true(has_notified(&job, 20e6));
  run(&job, 2.01, 0.5e6, 20e6); /* words and answers: less than TCP allows at once from the start */
  assert_true(job.link.paths.list.paths[0].bandwidth == 0);
  fini(&job);
}

/* All data is on its way at once. The kernel still reports the rate that it measured when there was more to send. */
static void test_old_rate(void **state) {
  struct job job;
  (void)state;
  init(&job);
  meter.rate = (uint64_t)(100e6 / 8);
  meter.full = true;
  run(&job, 3.01, 100e6, 100e6);
  run(&job, 1.01, 20e6, 20e6);
  assert_true(has_notified(&job, 20e6));
  fini(&job);
}

/* Little data is on its way at most times, but once the rank sent more than the link could carry. */
static void test_full_once(void **state) {
  struct job job;
  (void)state;
  init(&job);
  flying = 1;
  run(&job, 1.3, 20e6, 20e6);
  meter.rate = (uint64_t)(50e6 / 8);
  meter.full = true;
  run(&job, 1.3, 20e6, 20e6);
  assert_true(has_notified(&job, 50e6)); /* in short bursts whose last acknowledgements are awaited */
  run(&job, 2.6, 20e6, 20e6);
  assert_true(job.link.paths.list.n == 1 && job.link.paths.list.paths[0].bandwidth == 0);
  fini(&job);
}

/* The rate varies, as is normal for TCP. This is not reported. */
static void test_sways(void **state) {
  struct job job;
  (void)state;
  init(&job);
  for (int i = 0; i < 3; i++) {
    run(&job, 0.25, 100e6, 100e6);
    run(&job, 0.25, 50e6, 50e6);
  }
  run(&job, 2, 75e6, 75e6);
  for (int i = 0; i < 20; i++) {
    run(&job, 0.25, i % 2 ? 90e6 : 65e6, 65e6);
    assert_int_equal(job.link.paths.news, 0);
  }
  fini(&job);
}

/* The link is as fast as before, but carries less because the job waits for something else. */
static void test_less(void **state) {
  struct job job;
  (void)state;
  init(&job);
  run(&job, 3.01, 100e6, 100e6);
  uint64_t less_from = job.now;
  part = 0.3;
  run(&job, 0.3, 30e6, 30e6);
  assert_true(job.link.reported_at > less_from && has_notified(&job, 100e6));
  fini(&job);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_slow),      cmocka_unit_test(test_waits),
                                     cmocka_unit_test(test_old_rate),  cmocka_unit_test(test_less),
                                     cmocka_unit_test(test_full_once), cmocka_unit_test(test_sways),
                                     cmocka_unit_test(test_long_trip)};
  return cmocka_run_group_tests_name("link reports", tests, NULL, NULL);
}
