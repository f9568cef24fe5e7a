/* Tests of what the manager decides about trees through switches: which jobs get them, with which servers and cells,
 * and what happens when a switch, a server or cells are missing. The test controls the clock, the agents and the
 * planner. */
#include "../manager_view.h"

#include <math.h>

/* Four racks of two hosts; uplinks carry a quarter of what the hosts send, so trees through switches gain there. */
#define RACKS "clos:racks=4,hosts=2,nic=100m,oversub=4,adds=all"

static void begin_racks(uint32_t cells) {
  begin(RACKS);
  world.helpers_come = true;
  world_join_switches(&world, cells);
}

static uint64_t cells_of(const struct world_job *job) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < job->n_cells; i++) sum += job->cells[i].slots;
  return sum;
}

/* Slots that the manager counts as held at a switch. */
static uint64_t held_at(const char *name) {
  json_t *state = get_state(), *one;
  json_int_t held = -1;
  size_t i;
  json_array_foreach(json_object_get(state, "switches"), i, one) {
    if (!strcmp(json_string_value(json_object_get(one, "name")), name))
      held = json_integer_value(json_object_get(one, "cells_held"));
  }
  json_decref(state);
  assert_true(held >= 0);
  return (uint64_t)held;
}

static uint64_t held_everywhere(void) {
  uint64_t sum = 0;
  for (uint32_t s = 0; s < world.n_switches; s++) sum += held_at(world.switches[s].name);
  return sum;
}

static bool uses(const struct world_job *job, const char *name) {
  for (uint32_t i = 0; i < job->n_cells; i++)
    if (!strcmp(job->cells[i].at, name)) return true;
  return false;
}

/* The first plan has trees through switches, whose servers have joined before it is sent; the state shows them. */
static void test_first_plan(void **state) {
  (void)state;
  begin_racks(4096);
  struct world_job *job = world_run(&world, 0, 2, 4);
  world_plan(&world);
  assert_int_equal(world.plans, 1);
  assert_true(world.serves > 0);
  assert_true(job->n_cells > 0);
  assert_true(job->n_switches > 0);
  assert_non_null(strstr(job->plan, "\"server\""));
  assert_state(0, "running");
  for (uint32_t i = 0; i < job->n_cells; i++) assert_true(job->cells[i].slots >= 32);
  assert_true(held_everywhere() == cells_of(job));
  json_t *all = get_state();
  assert_true(json_array_size(json_object_get(job_of(all, 0), "servers")) > 0);
  assert_int_equal(json_array_size(json_object_get(job_of(all, 0), "cells")), job->n_cells);
  json_decref(all);
  /* One that has the network to itself is at least as fast with them. */
  double with = throughput_of(0);
  world_end(&world);
  begin(RACKS);
  world.helpers_come = true;
  world_run(&world, 0, 2, 4);
  world_plan(&world);
  assert_int_equal(world.serves, 0);
  assert_true(with > 1.2 * throughput_of(0));
  world_end(&world);
}

/* Long ways need more cells: what is in flight at the tree's rate until the sum is back is guaranteed. */
static void test_guarantee(void **state) {
  (void)state;
  begin("clos:racks=4,hosts=2,nic=100m,oversub=4,adds=all,delay=5ms");
  world.helpers_come = true;
  world_join_switches(&world, 4096);
  world_run(&world, 0, 2, 4);
  world_plan(&world);
  json_t *all = get_state(), *cells = json_object_get(job_of(all, 0), "cells"), *one;
  size_t i;
  assert_true(json_array_size(cells) > 0);
  json_array_foreach(cells, i, one) {
    double guaranteed = json_number_value(json_object_get(one, "guaranteed"));
    double slots = json_number_value(json_object_get(one, "slots"));
    /* 50 Mbit/s over four links of 5 ms each way are 250 KB, in fragments of 1 KiB. */
    assert_float_equal(guaranteed, 50e6 / 8 * (2 * 4 * 5e-3 + 100e-6) / 1024, 25);
    assert_true(slots > 2 * guaranteed);
  }
  json_decref(all);
  world_end(&world);
}

/* A server that does not come is not waited for for long, and its host is not asked again for a while. */
static void test_server_does_not_come(void **state) {
  (void)state;
  begin_racks(4096);
  world.helpers_come = false;
  struct world_job *job = world_run(&world, 0, 2, 4);
  pass_and_plan(3, 1000000);
  assert_int_equal(world.plans, 0);
  assert_true(world.serves > 0);
  assert_true(held_everywhere() > 0); /* The cells are the plan's while it waits. */
  for (int i = 0; i < 40 && !job->asked; i++) pass_and_plan(1, 1000000);
  assert_true(job->asked > 0);
  assert_int_equal(job->n_cells, 0); /* Some hosts were asked, one after the other; the plan is without servers. */
  assert_true(held_everywhere() == 0);
  world_end(&world);
}

/* A switch whose agent is gone is left out within 2 s, and used again within 5 s of its return. */
static void test_switch_dies(void **state) {
  (void)state;
  begin_racks(4096);
  struct world_job *job = world_run(&world, 0, 2, 4);
  world_plan(&world);
  char name[32];
  snprintf(name, sizeof name, "%s", job->cells[0].at);
  pass_and_plan(4, 1000000);
  assert_true(uses(job, name));
  uint64_t number = job->number;
  world_part_switch(&world, name);
  world.now += 0.25;
  world_plan(&world);
  assert_int_equal(job->number, number); /* Its agent may connect again. */
  world.now += 0.5;
  world_plan(&world);
  assert_true(job->number > number);
  assert_false(uses(job, name));
  assert_true(held_at(name) == 0);
  pass_and_plan(2, 1000000);
  world_join_switch(&world, name, 4096);
  for (int i = 0; i < 4; i++) {
    world.now += 0.5;
    world_plan(&world);
  }
  assert_true(uses(job, name));
  world_end(&world);
}

/* The same holds for a switch that only forwards for a tree. */
static void test_forwarding_switch_dies(void **state) {
  (void)state;
  begin_racks(4096);
  struct world_job *job = world_run(&world, 0, 2, 4);
  world_plan(&world);
  pass_and_plan(4, 1000000);
  assert_false(uses(job, "leaf0"));                /* It has no cells there, */
  assert_non_null(strstr(job->plan, "\"leaf0\"")); /* but passes it. */
  uint64_t number = job->number;
  world_part_switch(&world, "leaf0");
  world.now += 0.75;
  world_plan(&world);
  assert_true(job->number > number);
  assert_null(strstr(job->plan, "\"leaf0\""));
  world_end(&world);
}

/* A job has a tree through a switch whose agent connects again after 0.25 s, `age` seconds old. Its number and the
 * cells that it holds there are those from before. */
static struct world_job *connect_again(double age, char name[32], uint64_t *number, uint64_t *held) {
  begin_racks(4096);
  struct world_job *job = world_run(&world, 0, 2, 4);
  world_plan(&world);
  snprintf(name, 32, "%s", job->cells[0].at);
  pass_and_plan(4, 1000000);
  *number = job->number;
  *held = held_at(name);
  world_part_switch(&world, name);
  world.now += 0.25;
  world.age = age;
  world_join_switch(&world, name, 4096);
  return job;
}

/* An agent that connects again at once has kept its switch's cells. */
static void test_switch_blinks(void **state) {
  (void)state;
  char name[32];
  uint64_t number, held;
  const struct world_job *job = connect_again(100, name, &number, &held);
  pass_and_plan(3, 1000000);
  assert_int_equal(job->number, number);
  assert_true(held_at(name) == held);
  world_end(&world);
}

/* A switch that has begun again has no cells of the plan any more, so the job gets the same trees with fresh ones. */
static void test_switch_begins_again(void **state) {
  (void)state;
  char name[32];
  uint64_t number, held;
  const struct world_job *job = connect_again(0.05, name, &number, &held);
  for (int i = 0; i < 4; i++) {
    world.now += 0.25;
    world_plan(&world);
  }
  assert_int_equal(job->number, number + 1);
  assert_true(uses(job, name));
  assert_true(held_at(name) == held);
  pass_and_plan(10, 1000000);
  assert_int_equal(job->number, number + 1);
  world_end(&world);
}

/* A switch whose agent connects again and again does not keep jobs from being planned with another one. */
static void test_switch_flaps(void **state) {
  (void)state;
  begin("clos:racks=4,hosts=2,nic=100m,oversub=4,adds=all");
  world.helpers_come = true;
  world_join_switch(&world, "leaf1", 4096);
  struct world_job *job = world_run(&world, 0, 2, 4);
  world_plan(&world);
  pass_and_plan(30, 1000000);
  assert_false(uses(job, "spine0"));
  world_join_switch(&world, "spine0", 4096);
  for (int i = 0; i < 20; i++) {
    assert_int_equal(uses(job, "spine0"), i >= 12); /* after 3 s */
    world_part_switch(&world, "leaf1");
    world.now += 0.05;
    world_join_switch(&world, "leaf1", 4096);
    world.now += 0.2;
    world_plan(&world);
  }
  world_end(&world);
}

/* What a plan had counts as used until rank 0 has returned it, also after the job has switched to another plan. */
static void test_released(void **state) {
  (void)state;
  begin_racks(4096);
  struct world_job *job = world_run(&world, 0, 2, 4);
  job->keeps_cells = true;
  world_plan(&world);
  uint64_t first = job->number, held = held_everywhere();
  assert_true(held > 0);
  job->own_plan = "mine"; /* The user's plan has no such trees. */
  world_send_job(&world, job);
  pass_and_plan(2, 1000000);
  assert_true(held_everywhere() == held);
  assert_int_equal(world.server_rests, 0); /* Calls of the plan may be under way there. */
  world_send(&world, job, BY_MESSAGE_RELEASED, first);
  assert_true(held_everywhere() == 0);
  assert_true(world.server_rests > 0);
  world_end(&world);
}

/* Cells of a plan that the job could not acquire, and of a job that has ended, are free at once. */
static void test_kept_and_ended(void **state) {
  (void)state;
  begin_racks(4096);
  struct world_job *job = world_run(&world, 0, 2, 4);
  job->silent = true;
  world_plan(&world);
  assert_true(held_everywhere() > 0);
  world_send(&world, job, BY_MESSAGE_KEPT, job->asked);
  assert_true(held_everywhere() == 0);
  job->silent = false;
  pass_and_plan(3, 1000000);
  assert_true(held_everywhere() > 0);
  job->runs = false;
  world_send(&world, job, BY_MESSAGE_LEFT, 0);
  assert_true(held_everywhere() == 0);
  assert_true(world.server_rests > 0);
  world_end(&world);
}

/* Slots of the one tree that each job has at the spine. */
static uint64_t window_of(const struct world_job *job) {
  assert_int_equal(job->n_cells, 1);
  return job->cells[0].slots;
}

/* A third job gets its guarantee at once. One of the others changes to what the switch has left, and the third one to
 * as much, once that has been returned: what nobody needs is used, with one plan switch of each. */
static void test_third_job(void **state) {
  (void)state;
  begin_racks(640);
  struct world_job *jobs[3];
  uint64_t windows[3], held = 0;
  for (uint32_t i = 0; i < 2; i++) {
    jobs[i] = world_run(&world, i, 2, 4);
    pass_and_plan(8, 1000000);
    windows[i] = window_of(jobs[i]);
  }
  uint64_t first = jobs[0]->number, second = jobs[1]->number;
  assert_true(windows[0] + windows[1] == 480); /* a quarter stays free for later jobs and for changes */
  jobs[0]->keeps_cells = jobs[1]->keeps_cells = true;
  jobs[2] = world_run(&world, 0, 2, 4);
  pass_and_plan(1, 1000000);
  assert_int_equal(window_of(jobs[2]), 32);
  struct world_job *changed = jobs[0]->number != first ? jobs[0] : jobs[1];
  assert_true(jobs[0]->number + jobs[1]->number == first + second + 1);
  assert_int_equal(window_of(changed), 128);
  pass_and_plan(8, 1000000); /* The third job may not grow before the cells are returned. */
  assert_int_equal(window_of(jobs[2]), 32);
  jobs[0]->keeps_cells = jobs[1]->keeps_cells = false;
  world_send(&world, changed, BY_MESSAGE_RELEASED, changed->number - 1);
  pass_and_plan(8, 1000000);
  assert_int_equal(window_of(jobs[2]), 128);
  for (uint32_t i = 0; i < 3; i++) held += window_of(jobs[i]);
  assert_true(held == 480 && held_at("spine0") == 480);
  uint64_t numbers = jobs[0]->number + jobs[1]->number + jobs[2]->number;
  pass_and_plan(40, 1000000); /* Nothing changes any more. */
  assert_true(jobs[0]->number + jobs[1]->number + jobs[2]->number == numbers);
  world_end(&world);
}

/* Of two jobs that come at the same time one may get all that there is beyond the other's guarantee: it changes to what
 * is free, and both grow to their fair shares. */
static void test_uneven(void **state) {
  (void)state;
  begin_racks(320);
  struct world_job *a = world_send_run(&world, 0, 2, 4), *b = world_send_run(&world, 1, 2, 4);
  world_report_job(&world, a);
  world_report_job(&world, b);
  pass_and_plan(1, 1000000);
  assert_int_equal(window_of(a) + window_of(b), 240 + 32);
  pass_and_plan(20, 1000000);
  assert_int_equal(window_of(a), 120);
  assert_int_equal(window_of(b), 120);
  uint64_t numbers = a->number + b->number;
  assert_true(numbers <= 5); /* three changes */
  pass_and_plan(40, 1000000);
  assert_true(a->number + b->number == numbers);
  world_end(&world);
}

/* A job whose server is gone gets a plan without it, and not the same one with fewer cells. */
static void test_lost_and_rich(void **state) {
  (void)state;
  for (unsigned when = 0; when < 4; when++) {
    begin_racks(320);
    struct world_job *a = world_send_run(&world, 0, 2, 4), *b = world_send_run(&world, 1, 2, 4);
    world_report_job(&world, a);
    world_report_job(&world, b);
    pass_and_plan(1, 1000000);
    struct world_job *rich = window_of(a) > window_of(b) ? a : b;
    pass_and_plan(when, 1000000);
    char server[32];
    snprintf(server, sizeof server, "%s", rich->cells[0].server);
    uint32_t h = 0;
    while (strncmp(world.hosts[h].name, server, strlen(world.hosts[h].name)) != 0) h++;
    world.now += world.options.interval;
    world_send_helping_as(&world, h, rich->id, true, false);
    world_plan(&world);
    world_plan(&world);
    assert_int_equal(rich->n_cells, 1);
    assert_string_not_equal(rich->cells[0].server, server);
    world_end(&world);
  }
}

/* Jobs that come one after the other do not stay at their guarantees, although no other one alone has all that they
 * lack. */
static void test_many(void **state) {
  (void)state;
  begin_racks(1000);
  struct world_job *jobs[6];
  for (uint32_t i = 0; i < 6; i++) {
    jobs[i] = world_run(&world, i % 2, 2, 4);
    pass_and_plan(20, 1000000);
  }
  uint64_t least = UINT64_MAX, most = 0, held = 0;
  for (uint32_t i = 0; i < 6; i++) {
    uint64_t window = window_of(jobs[i]);
    least = window < least ? window : least;
    most = window > most ? window : most;
    held += window;
  }
  assert_true(least >= 64 && most < 2 * least);
  assert_true(held <= 750 && held_at("spine0") == held);
  unsigned plans = world.plans;
  pass_and_plan(40, 1000000);
  assert_int_equal(world.plans, plans);
  world_end(&world);
}

/* A job that refuses to change for another one is asked again after longer and longer waits. */
static void test_unwilling(void **state) {
  (void)state;
  begin_racks(320);
  struct world_job *a = world_send_run(&world, 0, 2, 4), *b = world_send_run(&world, 1, 2, 4);
  world_report_job(&world, a);
  world_report_job(&world, b);
  pass_and_plan(1, 1000000);
  struct world_job *rich = window_of(a) > window_of(b) ? a : b;
  assert_int_equal(window_of(rich), 240);
  rich->silent = true;
  unsigned times = 0;
  for (int i = 0; i < 200; i++) {
    uint64_t asked = rich->asked;
    pass_and_plan(1, 1000000);
    if (rich->asked == asked) continue;
    world_send(&world, rich, BY_MESSAGE_KEPT, rich->asked);
    times++;
  }
  assert_in_range(times, 1, 15);
  world_end(&world);
}

/* A job that has only its guarantee grows when another one has left; not by less than a plan switch is worth. */
static void test_grows(void **state) {
  (void)state;
  begin_racks(400);
  struct world_job *jobs[8];
  for (uint32_t i = 0; i < 8; i++) {
    jobs[i] = world_run(&world, i % 2, 2, 4);
    pass_and_plan(8, 1000000);
  }
  pass_and_plan(30, 1000000);
  assert_true(window_of(jobs[7]) < 64);
  for (uint32_t i = 0; i < 7; i++) {
    jobs[i]->runs = false;
    world_send(&world, jobs[i], BY_MESSAGE_LEFT, 0);
  }
  uint64_t number = jobs[7]->number;
  pass_and_plan(30, 1000000);
  /* It needs old and new cells at once, and a quarter of all stays free. */
  assert_int_equal(window_of(jobs[7]), 256);
  assert_true(held_everywhere() == 256);
  assert_int_equal(jobs[7]->number, number + 1);
  world_end(&world);
}

/* A job that comes to full switches gets its guarantees: those that have more change to fresh, fewer cells, and it
 * waits until they have returned what they had. */
static void test_rebalance(void **state) {
  (void)state;
  begin_racks(400);
  struct world_job *a = world_run(&world, 0, 2, 4);
  world_plan(&world);
  assert_true(a->n_cells > 0);
  uint64_t before = cells_of(a), number = a->number;
  a->keeps_cells = true;
  /* So many others that there is no room left beyond the first one's cells. */
  struct world_job *others[6];
  for (int i = 0; i < 6; i++) {
    others[i] = world_run(&world, (uint32_t)(1 - i % 2), 2, 4);
    pass_and_plan(2, 1000000);
    for (uint32_t s = 0; s < world.n_switches; s++) assert_true(held_at(world.switches[s].name) <= 400);
  }
  assert_true(a->number > number);
  assert_true(cells_of(a) < before);
  a->keeps_cells = false;
  world_send(&world, a, BY_MESSAGE_RELEASED, number);
  pass_and_plan(8, 1000000);
  uint32_t with = 0;
  for (int i = 0; i < 6; i++) with += others[i]->n_cells > 0;
  assert_int_equal(with, 6);
  for (uint32_t s = 0; s < world.n_switches; s++) assert_true(held_at(world.switches[s].name) <= 400);
  world_end(&world);
}

/* Switches without room for another job's guarantees are left out of its plan, which does not wait for them. */
static void test_full(void **state) {
  (void)state;
  begin_racks(40);
  struct world_job *a = world_run(&world, 0, 2, 4);
  world_plan(&world);
  assert_true(a->n_cells > 0);
  struct world_job *b = world_run(&world, 1, 2, 4);
  pass_and_plan(30, 1000000);
  assert_int_equal(world.jobs[1].asked > 0, 1);
  for (uint32_t s = 0; s < world.n_switches; s++) assert_true(held_at(world.switches[s].name) <= 40);
  assert_true(by_manager_get_counters(world.manager).planned < 120);
  (void)b;
  world_end(&world);
}

/* Jobs and the manager's options say which ways are used. */
static void test_ways(void **state) {
  (void)state;
  begin_racks(4096);
  struct world_job *job = world_send_run(&world, 0, 2, 4);
  job->ways = "ring,tree";
  world_send_job(&world, job);
  world_report_job(&world, job);
  pass_and_plan(3, 1000000);
  assert_int_equal(world.plans, 1);
  assert_int_equal(world.serves + world.helps, 0);
  job->ways = "ring,tree,switches";
  world_send_job(&world, job);
  pass_and_plan(30, 1000000);
  assert_true(job->n_cells > 0);
  assert_int_equal(world.helps, 0);
  world_end(&world);
}

/* A user's plan counts with the traffic that it makes, and a ring where it is not known. It is replaced only where that
 * is allowed. */
static double ours_towards(const char *to) {
  json_t *state = get_state(), *link;
  double ours = 0;
  size_t i;
  json_array_foreach(json_object_get(state, "links"), i, link) {
    if (!strcmp(json_string_value(json_object_get(link, "to")), to))
      ours += json_number_value(json_object_get(link, "ours"));
  }
  json_decref(state);
  return ours;
}

static void test_users_plan(void **state) {
  static const char star[] = "{\"format\":\"banyan-plan 1\",\"ranks\":4,\"trees\":[{\"share\":1,\"root\":\"0\",\"up\":{"
                             "\"1\":\"0\",\"2\":\"0\",\"3\":\"0\"}}]}";
  (void)state;
  for (int way = 0; way < 3; way++) {
    begin("star:4,nic=1g");
    struct world_job *job = world_send_run(&world, 0, 1, 4);
    job->own_plan = "star";
    job->own_trees = way ? star : NULL;
    job->replaces = way == 2;
    world_send_job(&world, job);
    world_report_job(&world, job);
    pass_and_plan(20, 10000000); /* 40 Mbit/s of input */
    double at_root = ours_towards(world.hosts[0].name), elsewhere = ours_towards(world.hosts[1].name);
    assert_int_equal(world.plans, way == 2);
    if (way == 0) assert_float_equal(at_root / elsewhere, 1, 0.01);
    if (way == 1) assert_float_equal(at_root / elsewhere, 3, 0.01); /* the root receives of three */
    world_end(&world);
  }
}

/* ---- a manager that is started again ---- */

static struct kept {
  struct by_manager_row row;
  char job[64], name[64], text[3][8192];
} rows[256];
static uint32_t n_rows;

static char *copy(char *to, const char *from) {
  if (!from) return NULL;
  assert_true(strlen(from) < 8192);
  return strcpy(to, from);
}

static bool is_key(const struct by_manager_row *a, const struct by_manager_row *b) {
  if (a->table != b->table || strcmp(a->job, b->job) != 0) return false;
  switch (a->table) {
  case BY_ROW_PLAN: return a->plan.number == b->plan.number;
  case BY_ROW_GRANT: return a->grant.number == b->grant.number;
  case BY_ROW_HELPER:
  case BY_ROW_SERVER: return !strcmp(a->name, b->name);
  default: return true;
  }
}

static void keep_row(void *context, const struct by_manager_row *row) {
  (void)context;
  if (row->table == BY_ROW_HISTORY) return;
  uint32_t i = 0;
  while (i < n_rows && !is_key(&rows[i].row, row)) i++;
  if (row->gone) {
    if (i < n_rows) rows[i].row.gone = true;
    return;
  }
  if (i == n_rows) n_rows++;
  assert_true(n_rows <= 256);
  struct kept *kept = &rows[i];
  kept->row = *row;
  kept->row.job = copy(kept->job, row->job);
  kept->row.name = row->name ? copy(kept->name, row->name) : NULL;
  if (row->table == BY_ROW_JOB) {
    kept->row.of_job.hosts = copy(kept->text[0], row->of_job.hosts);
    kept->row.of_job.root = copy(kept->text[1], row->of_job.root);
    kept->row.of_job.owner = copy(kept->text[2], row->of_job.owner);
    kept->row.of_job.own_plan = NULL;
  } else if (row->table == BY_ROW_PLAN) {
    kept->row.plan.plan = copy(kept->text[0], row->plan.plan);
  } else if (row->table == BY_ROW_GRANT) {
    kept->row.grant.cells = copy(kept->text[0], row->grant.cells);
  }
}

/* A manager whose rows are kept. */
static void begin_kept(void) {
  n_rows = 0;
  begin_racks(4096);
  by_manager_destroy(world.manager);
  world.options.keep = keep_row;
  assert_ok(by_manager_create(&world.options, world.now, &world.manager));
  for (uint32_t h = 0; h < world.n_hosts; h++) world_join(&world, h);
  world_join_switches(&world, 4096);
}

/* Another one begins with them, and nobody is connected yet. */
static void begin_again(void) {
  by_manager_destroy(world.manager);
  assert_ok(by_manager_create(&world.options, world.now, &world.manager));
  for (int table = 0; table <= BY_ROW_GRANT; table++)
    for (uint32_t i = 0; i < n_rows; i++)
      if (rows[i].row.table == (enum by_manager_table)table && !rows[i].row.gone)
        by_manager_restore(world.manager, &rows[i].row, world.now);
}

/* It knows servers and cells, so that nothing is given twice and the job keeps its plan. */
static void test_started_again(void **state) {
  (void)state;
  begin_kept();
  struct world_job *job = world_run(&world, 0, 2, 4);
  world_plan(&world);
  pass_and_plan(3, 1000000);
  uint64_t held = held_everywhere(), number = job->number;
  unsigned serves = world.serves;
  assert_true(held > 0);
  begin_again();
  json_t *all = get_state();
  uint32_t servers = (uint32_t)json_array_size(json_object_get(job_of(all, 0), "servers"));
  assert_true(servers > 0);
  for (uint32_t i = 0; i < servers; i++) {
    const char *host =
        json_string_value(json_object_get(json_array_get(json_object_get(job_of(all, 0), "servers"), i), "host"));
    uint32_t h = 0;
    while (strcmp(world.hosts[h].name, host) != 0) h++;
    world_greet(&world, h); /* Its agent reports the server before its first report. */
    world_send_helping_as(&world, h, job->id, true, true);
    if (job->hosts[0] == h) {
      world_send_job(&world, job);
      world_send(&world, job, BY_MESSAGE_SWITCHED, job->number);
    }
    assert_ok(world_report(&world, h, 0, 0));
    world.hosts[h].refused = true; /* connected */
  }
  json_decref(all);
  for (uint32_t h = 0; h < world.n_hosts; h++)
    if (!world.hosts[h].refused) world_join(&world, h);
  world.age = 100;
  world_join_switches(&world, 4096);
  pass_and_plan(3, 1000000);
  assert_true(held_everywhere() == held);
  assert_int_equal(job->number, number);
  assert_int_equal(world.serves, serves);
  world_end(&world);
}

/* A plan that waited for its servers when the manager ended is never sent: its cells are free once the job has moved on
 * to a later one. */
static void test_started_again_while_waiting(void **state) {
  (void)state;
  begin_kept();
  world.helpers_come = false;
  struct world_job *job = world_run(&world, 0, 2, 4);
  world_plan(&world);
  assert_int_equal(job->asked, 0);
  assert_true(held_everywhere() > 0);
  begin_again();
  world.n_asked = 0;
  world.helpers_come = true;
  for (uint32_t h = 0; h < world.n_hosts; h++) world_join(&world, h);
  world_join_switches(&world, 4096);
  pass_and_plan(5, 1000000);
  assert_true(job->number > 1);
  assert_true(job->n_cells > 0);
  assert_true(held_everywhere() == cells_of(job));
  world_end(&world);
}

/* The same holds where the plan is lost on its way to rank 0, which never answers. */
static void test_lost_plan(void **state) {
  (void)state;
  begin_racks(4096);
  struct world_job *job = world_run(&world, 0, 2, 4);
  job->silent = true;
  world_plan(&world);
  uint64_t lost = job->asked;
  assert_true(lost > 0);
  pass_and_plan(20, 1000000); /* until it is late */
  job->silent = false;
  job->number = lost; /* so that it is not answered, nor reported as released */
  job->keeps_cells = true;
  pass_and_plan(40, 1000000);
  assert_true(job->number > lost);
  assert_true(job->n_cells > 0);
  assert_true(held_everywhere() == cells_of(job));
  world_end(&world);
}

/* And where rank 0 keeps the plan that it has, once it is connected again and still has not answered. */
static void test_lost_with_its_agent(void **state) {
  (void)state;
  begin_racks(4096);
  struct world_job *job = world_run(&world, 0, 2, 4);
  world_plan(&world);
  pass_and_plan(30, 1000000);
  uint64_t number = job->number, held = held_everywhere();
  job->silent = true;
  world_part_switch(&world, "leaf0"); /* which only forwards for it */
  world.now += 0.75;
  world_plan(&world);
  assert_true(job->asked > number);
  assert_true(held_everywhere() > held);
  world_join_switch(&world, "leaf0", 4096);
  world_part(&world, job->hosts[0]);
  world_greet(&world, job->hosts[0]); /* It has kept the job's server. */
  world_send_helping_as(&world, job->hosts[0], job->id, true, true);
  world_send_job(&world, job);
  world_send(&world, job, BY_MESSAGE_SWITCHED, number);
  assert_ok(world_report(&world, job->hosts[0], 0, 0));
  job->asked = number;
  pass_and_plan(60, 1000000);
  assert_int_equal(job->asked, number); /* The plan that it has is good again. */
  assert_true(held_everywhere() == held);
  world_end(&world);
}

/* A job for which a plan is being made is not asked to change to other cells meanwhile. */
static void test_no_victim_while_planned(void **state) {
  (void)state;
  begin_racks(400);
  struct world_job *a = world_run(&world, 0, 2, 4);
  world_plan(&world);
  pass_and_plan(30, 1000000);
  uint64_t number = a->number;
  assert_true(a->n_cells > 0);
  struct by_plan_request *of_a, *of_b;
  a->ways = "ring,tree,switches";
  world_send_job(&world, a);
  world_pass(&world, 1000000);
  by_manager_tick(world.manager, world.now);
  assert_true(by_manager_next(world.manager, world.now, &of_a));
  for (int i = 0; i < 6; i++) {
    world_run(&world, (uint32_t)(1 - i % 2), 2, 4);
    by_manager_tick(world.manager, world.now);
    assert_true(by_manager_next(world.manager, world.now, &of_b));
    by_plan_request_run(of_b);
    by_manager_planned(world.manager, of_b, world.now);
    by_manager_tick(world.manager, world.now);
  }
  assert_int_equal(a->asked, number);
  by_plan_request_run(of_a);
  by_manager_planned(world.manager, of_a, world.now);
  pass_and_plan(10, 1000000);
  for (uint32_t s = 0; s < world.n_switches; s++) assert_true(held_at(world.switches[s].name) <= 400);
  world_end(&world);
}

int main(void) {
  setenv("BANYAN_LOG", "error", 0); /* Many warnings are expected. */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_first_plan),
      cmocka_unit_test(test_guarantee),
      cmocka_unit_test(test_server_does_not_come),
      cmocka_unit_test(test_switch_dies),
      cmocka_unit_test(test_switch_blinks),
      cmocka_unit_test(test_switch_begins_again),
      cmocka_unit_test(test_switch_flaps),
      cmocka_unit_test(test_forwarding_switch_dies),
      cmocka_unit_test(test_released),
      cmocka_unit_test(test_kept_and_ended),
      cmocka_unit_test(test_third_job),
      cmocka_unit_test(test_uneven),
      cmocka_unit_test(test_lost_and_rich),
      cmocka_unit_test(test_many),
      cmocka_unit_test(test_unwilling),
      cmocka_unit_test(test_grows),
      cmocka_unit_test(test_rebalance),
      cmocka_unit_test(test_full),
      cmocka_unit_test(test_ways),
      cmocka_unit_test(test_users_plan),
      cmocka_unit_test(test_started_again),
      cmocka_unit_test(test_started_again_while_waiting),
      cmocka_unit_test(test_lost_plan),
      cmocka_unit_test(test_lost_with_its_agent),
      cmocka_unit_test(test_no_victim_while_planned),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
