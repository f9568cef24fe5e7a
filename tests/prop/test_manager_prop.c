/* Random days of a cluster: jobs start and end, agents vanish and return, others use links, and the manager is killed
 * at any moment and started again with its file. After each day, the invariants are checked. */
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../manager_world.h"

#include "manager_store.h"
#include "rng.h"

enum { DAYS = 8, EVENTS = 40, KILLS = 10, CELLS = 300 };

static struct world world;
static struct by_manager_store *store;
static char path[] = "/tmp/manager_prop.XXXXXX";

static void keep(void *context, const struct by_manager_row *row) {
  (void)context;
  by_manager_store_keep(store, row);
}

static void restore(void *context, const struct by_manager_row *row) {
  (void)context;
  by_manager_restore(world.manager, row, world.now);
}

static void remove_file(void) {
  static const char *const endings[] = {"", "-wal", "-journal"};
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    char name[64];
    snprintf(name, sizeof name, "%s%s", path, endings[i]);
    unlink(name);
  }
}

static void begin(const char *topology) {
  remove_file();
  world_begin(&world, topology);
  world.helpers_come = true;
  by_manager_destroy(world.manager);
  world.options.keep = keep;
  assert_ok(by_manager_store_open(path, &store));
  assert_ok(by_manager_create(&world.options, world.now, &world.manager));
}

static void end(void) {
  world_end(&world);
  by_manager_store_close(store);
  remove_file();
}

/* Ends the manager as kill -9 does: what was committed is kept, connections are not. */
static void kill_manager(void) {
  bool was_there[WORLD_HOSTS];
  for (uint32_t h = 0; h < world.n_hosts; h++) {
    was_there[h] = world.hosts[h].peer;
    world.hosts[h].peer = NULL;
  }
  by_manager_destroy(world.manager);
  by_manager_store_close(store);
  assert_ok(by_manager_store_open(path, &store));
  assert_ok(by_manager_create(&world.options, world.now, &world.manager));
  assert_ok(by_manager_store_load(store, restore, NULL));
  for (uint32_t h = 0; h < world.n_hosts; h++)
    if (was_there[h]) world_join(&world, h);
  for (uint32_t s = 0; s < world.n_switches; s++)
    if (world.switches[s].peer) world_join_switch(&world, world.switches[s].name, CELLS);
}

static void blink_switch(struct by_rng *rng) {
  if (!world.n_switches) return;
  struct world_host *one = &world.switches[by_rng_below(rng, world.n_switches)];
  if (one->peer)
    world_part_switch(&world, one->name);
  else
    world_join_switch(&world, one->name, CELLS);
}

/* A job returns what earlier plans had late, or what it is asked to run cannot be set up. */
static void delay_cells(struct by_rng *rng) {
  if (!world.n_jobs) return;
  struct world_job *job = &world.jobs[by_rng_below(rng, world.n_jobs)];
  job->keeps_cells = !job->keeps_cells;
  bool is_there = job->runs && world.hosts[job->hosts[0]].peer;
  if (is_there && !job->keeps_cells && job->number > 1) world_release(&world, job, job->number - 1);
  if (is_there && job->asked > job->number) {
    world_send(&world, job, BY_MESSAGE_KEPT, job->asked);
    job->asked = job->number;
  }
}

static void use_links(struct by_rng *rng) {
  uint32_t h = (uint32_t)by_rng_below(rng, world.n_hosts);
  double rate = by_rng_below(rng, 3) ? 0 : 0.2e9, others = (double)by_rng_below(rng, 4) * 0.2e9;
  if (world.hosts[h].peer) assert_ok(world_report(&world, h, rate, others));
}

static void end_job(struct by_rng *rng) {
  if (!world.n_jobs) return;
  struct world_job *job = &world.jobs[by_rng_below(rng, world.n_jobs)];
  if (!job->runs) return;
  job->runs = false;
  if (world.hosts[job->hosts[0]].peer && by_rng_below(rng, 2)) world_send(&world, job, BY_MESSAGE_LEFT, 0);
}

static void happen(struct by_rng *rng) {
  uint32_t h = (uint32_t)by_rng_below(rng, world.n_hosts);
  switch (by_rng_below(rng, 10)) {
  case 0:
  case 1:
    if (world.n_jobs < WORLD_JOBS)
      world_run(&world, h, 1 + (uint32_t)by_rng_below(rng, 2), 2 + (uint32_t)by_rng_below(rng, 3));
    break;
  case 2: end_job(rng); break;
  case 3:
    if (world.hosts[h].peer)
      world_part(&world, h);
    else
      world_join(&world, h);
    break;
  case 4: use_links(rng); break;
  case 5: kill_manager(); break;
  case 6: blink_switch(rng); break;
  case 7: delay_cells(rng); break;
  default: world_pass(&world, by_rng_below(rng, 100000000));
  }
  world_plan(&world);
  by_manager_store_commit(store);
}

/* Once all agents have connected and some intervals have passed, manager and agents agree: every running job has the
 * plan that it reports, no job is left that has ended, and classes are the same everywhere. */
static void check_agreement(void) {
  for (uint32_t s = 0; s < world.n_switches; s++)
    if (!world.switches[s].peer) world_join_switch(&world, world.switches[s].name, CELLS);
  for (uint32_t h = 0; h < world.n_hosts; h++)
    if (!world.hosts[h].peer) world_join(&world, h);
  for (int i = 0; i < 20; i++) {
    world_pass(&world, 0);
    world_plan(&world);
  }
  for (uint32_t j = 0; j < world.n_jobs; j++) {
    struct by_text text;
    char wanted[128];
    by_text_init(&text);
    by_manager_state(world.manager, world.now, &text);
    snprintf(wanted, sizeof wanted, "\"id\":\"%s\"", world.jobs[j].id);
    const char *at = strstr(by_text_get(&text), wanted);
    if (world.jobs[j].runs) {
      assert_non_null(at);
      if (!strstr(at, "\"state\":\"running\"")) fail_msg("%.300s", at);
      snprintf(wanted, sizeof wanted, "\"plan\":{\"number\":%llu,", (unsigned long long)world.jobs[j].number);
      const char *plan = strstr(at, "\"plan\":");
      if (strncmp(plan, wanted, strlen(wanted)) != 0) fail_msg("%s is not in %.100s", wanted, plan);
    } else if (at) {
      const char *state = strstr(at, "\"state\":");
      assert_true(!strncmp(state, "\"state\":\"left\"", 14));
    }
    by_text_fini(&text);
  }
}

/* A member of each switch's state, all together; none is above `most`. */
static uint64_t sum_at_switches(const char *member, uint64_t most) {
  struct by_text text;
  char key[64];
  uint64_t sum = 0;
  by_text_init(&text);
  by_manager_state(world.manager, world.now, &text);
  snprintf(key, sizeof key, "\"%s\":", member);
  for (const char *at = by_text_get(&text); (at = strstr(at, key)); at += strlen(key)) {
    uint64_t one = strtoull(at + strlen(key), NULL, 10);
    assert_true(one <= most);
    sum += one;
  }
  by_text_fini(&text);
  return sum;
}

/* Once all jobs have returned what earlier plans had, what is held is what the jobs' plans were given; once all have
 * ended, nothing is held, also after another start of the manager. */
static void check_cells(void) {
  uint64_t given = 0;
  for (uint32_t j = 0; j < world.n_jobs; j++) {
    struct world_job *job = &world.jobs[j];
    if (!job->runs || job->number < 1) continue;
    job->keeps_cells = false;
    if (job->number > 1) world_release(&world, job, job->number - 1);
    for (uint32_t i = 0; i < job->n_cells; i++) given += job->cells[i].slots;
  }
  assert_true(sum_at_switches("cells_held", CELLS) == given);
  by_manager_store_commit(store);
  kill_manager();
  assert_true(sum_at_switches("cells_held", CELLS) == given);
  for (uint32_t j = 0; j < world.n_jobs; j++) {
    if (world.jobs[j].runs) world_send(&world, &world.jobs[j], BY_MESSAGE_LEFT, 0);
    world.jobs[j].runs = false;
  }
  assert_true(sum_at_switches("cells_held", CELLS) == 0);
}

static void test_days(void **state) {
  static const char *const networks[] = {"star:6,nic=1g", "clos:racks=2,hosts=3,nic=1g,oversub=3", "mesh:5,nic=2g",
                                         "clos:racks=3,hosts=2,nic=1g,oversub=4,adds=all"};
  struct by_rng rng;
  (void)state;
  by_rng_init(&rng, 3);
  for (int day = 0; day < (int)check_seeds(DAYS); day++) {
    begin(networks[day % 4]);
    for (uint32_t h = 0; h < world.n_hosts; h++) world_join(&world, h);
    if (day % 4 == 3) world_join_switches(&world, CELLS);
    for (int i = 0; i < EVENTS; i++) happen(&rng);
    check_agreement();
    check_cells();
    end();
  }
}

/* ---- the file alone, written by a process that is killed ---- */

/* Plan n exists if and only if the job's row has number n, since both are committed together. */
static void write_until_killed(int report) {
  for (uint64_t n = 1;; n++) {
    struct by_manager_row job = {.table = BY_ROW_JOB, .job = "j", .name = "n"};
    struct by_manager_row plan = {.table = BY_ROW_PLAN, .job = "j"};
    struct by_manager_row old = {.table = BY_ROW_PLAN, .job = "j", .gone = true};
    job.of_job.hosts = "[]";
    job.of_job.root = "";
    job.of_job.numbers = plan.plan.number = n;
    plan.plan.plan = "{}";
    old.plan.number = n - 1;
    by_manager_store_keep(store, &job);
    by_manager_store_keep(store, &plan);
    by_manager_store_keep(store, &old);
    by_manager_store_commit(store);
    if (write(report, &n, sizeof n) != sizeof n) _exit(0);
  }
}

struct found {
  unsigned jobs, plans, cells;
  uint64_t numbers, number;
};

static void count(void *context, const struct by_manager_row *row) {
  struct found *found = context;
  if (row->table == BY_ROW_JOB) found->jobs++, found->numbers = row->of_job.numbers;
  if (row->table == BY_ROW_CELLS) found->cells++;
  if (row->table == BY_ROW_PLAN) found->plans++, found->number = row->plan.number;
}

static void test_killed(void **state) {
  struct by_rng rng;
  (void)state;
  by_rng_init(&rng, 4);
  for (int i = 0; i < (int)check_seeds(KILLS); i++) {
    int report[2];
    uint64_t last = 0, upto = 1 + by_rng_below(&rng, 200);
    struct found found = {0};
    remove_file();
    assert_int_equal(pipe(report), 0);
    pid_t pid = fork();
    if (!pid) {
      if (by_manager_store_open(path, &store) != BANYAN_OK) _exit(1);
      write_until_killed(report[1]);
    }
    close(report[1]);
    while (last < upto && read(report[0], &last, sizeof last) == sizeof last) continue;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    while (read(report[0], &last, sizeof last) == sizeof last) continue;
    close(report[0]);
    assert_ok(by_manager_store_open(path, &store));
    assert_ok(by_manager_store_load(store, count, &found));
    by_manager_store_close(store);
    assert_int_equal(found.jobs, 1);
    assert_int_equal(found.plans, 1);
    assert_int_equal(found.numbers, found.number);
    assert_true(found.number >= last); /* Nothing that was committed is lost. */
  }
  remove_file();
}

static void count_events(void *context, const struct by_manager_row *row) {
  uint64_t *last = context;
  if (row->table != BY_ROW_HISTORY) return;
  last[0]++;
  last[1] = row->history.number;
}

/* While a disk is full nothing is kept, and what was kept before stays, also for a manager that has not read it yet. */
static void test_full_disk(void **state) {
  struct by_manager_row row = {.table = BY_ROW_HISTORY, .job = "j", .history = {.number = 7, .why = ""}};
  struct rlimit before, none;
  uint64_t found[2] = {0};
  (void)state;
  remove_file();
  assert_ok(by_manager_store_open(path, &store));
  by_manager_store_keep(store, &row);
  by_manager_store_commit(store);
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  none = (struct rlimit){.rlim_cur = 1, .rlim_max = before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
  row.history.number = 8;
  by_manager_store_keep(store, &row);
  by_manager_store_commit(store);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_true(by_manager_store_lost(store));
  by_manager_store_retry(store);
  row.history.number = 9;
  by_manager_store_keep(store, &row);
  by_manager_store_commit(store);
  assert_false(by_manager_store_lost(store));
  assert_ok(by_manager_store_load(store, count_events, found));
  assert_int_equal(found[0], 2);
  assert_int_equal(found[1], 9);
  by_manager_store_close(store);
  remove_file();
}

/* A job that switches plans for a year leaves no year of rows. */
static void test_history(void **state) {
  struct by_manager_row row = {.table = BY_ROW_HISTORY, .job = "j"};
  uint64_t found[2] = {0};
  (void)state;
  remove_file();
  assert_ok(by_manager_store_open(path, &store));
  row.history.why = "";
  for (row.history.number = 1; row.history.number <= 100; row.history.number++) by_manager_store_keep(store, &row);
  by_manager_store_commit(store);
  assert_ok(by_manager_store_load(store, count_events, found));
  assert_int_equal(found[0], 32);
  assert_int_equal(found[1], 100);
  by_manager_store_close(store);
  remove_file();
}

/* ---- switches' memory ---- */

static const char adding[] =
    "{\"format\": \"banyan-topology 1\", \"nodes\": [\"a\", \"b\", {\"name\": \"s\", \"kind\": \"switch\", "
    "\"aggregates\": true, \"memory\": 400000}], \"links\": [{\"a\": \"a\", \"b\": \"s\", \"capacity\": 1e9}, "
    "{\"a\": \"b\", \"b\": \"s\", \"capacity\": 1e9}]}";

static void send_reservation(const struct world_job *job) {
  struct by_cluster_cells cells = {.at = "s", .server = "b", .slots = 512, .bytes = 1000};
  struct by_cluster_message message = {.type = BY_MESSAGE_RESERVE, .job = job->id, .n_cells = 1, .cells = &cells};
  assert_ok(by_manager_handle(world.manager, world.hosts[0].peer, &message, world.now));
}

static void check_given(const char *wanted) {
  struct by_text text;
  by_text_init(&text);
  by_manager_state(world.manager, world.now, &text);
  if (!strstr(by_text_get(&text), wanted)) fail_msg("%s is not in %s", wanted, by_text_get(&text));
  by_text_fini(&text);
}

/* Even before a job has reported its memory again, no other job is given that memory. */
static void test_cells(void **state) {
  (void)state;
  begin(adding);
  for (uint32_t h = 0; h < world.n_hosts; h++) world_join(&world, h);
  struct world_job *job = world_run(&world, 0, 1, 2);
  send_reservation(job);
  check_given("\"given\":300000,");
  by_manager_store_commit(store);
  kill_manager();
  check_given("\"given\":300000,");
  check_given("\"slots\":300,\"requested\":512,");
  send_reservation(world_run(&world, 0, 1, 2));
  assert_int_equal(world.cells[0], 100);
  send_reservation(job);
  assert_int_equal(world.cells[0], 300);
  job->runs = false;
  world_send(&world, job, BY_MESSAGE_LEFT, 0);
  by_manager_store_commit(store);
  kill_manager();
  check_given("\"given\":100000,");
  end();
}

static unsigned count_in_state(const char *wanted) {
  struct by_text text;
  unsigned n = 0;
  by_text_init(&text);
  by_manager_state(world.manager, world.now, &text);
  for (const char *at = by_text_get(&text); (at = strstr(at, wanted)); at++) n++;
  by_text_fini(&text);
  return n;
}

/* It is reported once that a user set the plan, not after each start of the manager, and the same holds when no plan
 * is set. A long name is cut between two characters where it is reported. */
static void test_users_plan(void **state) {
  static const char name[] = "äääääääääääääääääääääääääääääääääx";
  static const char cut[] = "set plan \\\"ääääääääääääääääääääääääääääääää\\\", which";
  (void)state;
  begin("star:4,nic=1g");
  for (uint32_t h = 0; h < world.n_hosts; h++) world_join(&world, h);
  struct world_job *job = world_run(&world, 0, 1, 2);
  job->own_plan = name;
  for (int i = 0; i < 3; i++) {
    world_send_job(&world, job);
    world_plan(&world);
    assert_int_equal(count_in_state(cut), 1);
    by_manager_store_commit(store);
    kill_manager();
    assert_int_equal(count_in_state("\"own_plan\":\"ä"), 1);
  }
  job->own_plan = NULL;
  for (int i = 0; i < 2; i++) {
    world_send_job(&world, job);
    assert_int_equal(count_in_state("no longer sets a plan"), 1);
    by_manager_store_commit(store);
    kill_manager();
    assert_int_equal(count_in_state("\"own_plan\":null"), 1);
  }
  end();
}

/* Files of older managers are read: from before jobs reported how long they are, before lists of revoked certificates
 * were kept, before jobs had owners, and so on. */
static void test_older_files(void **state) {
#define WITHOUT_NETWORK "DROP TABLE network; "
#define WITHOUT_GRANTS WITHOUT_NETWORK "DROP TABLE servers; DROP TABLE grants; "
#define WITHOUT_OWN_PLANS WITHOUT_GRANTS "ALTER TABLE jobs DROP COLUMN own_plan; "
#define WITHOUT_LENGTHS                                                                                                \
  WITHOUT_OWN_PLANS "ALTER TABLE jobs DROP COLUMN doubted; ALTER TABLE jobs DROP COLUMN expected; "
#define WITHOUT_LISTS WITHOUT_LENGTHS "DROP TABLE lists; "
#define WITHOUT_OWNERS WITHOUT_LISTS "ALTER TABLE jobs DROP COLUMN owner; "
  static const char *const older[] = {WITHOUT_NETWORK "PRAGMA user_version = 9",
                                      WITHOUT_GRANTS "PRAGMA user_version = 8",
                                      WITHOUT_OWN_PLANS "PRAGMA user_version = 6",
                                      WITHOUT_LENGTHS "PRAGMA user_version = 5",
                                      WITHOUT_LISTS "PRAGMA user_version = 4",
                                      WITHOUT_OWNERS "PRAGMA user_version = 3",
                                      WITHOUT_OWNERS "DROP TABLE cells; PRAGMA user_version = 2",
                                      WITHOUT_OWNERS
                                      "DROP TABLE cells; ALTER TABLE jobs DROP COLUMN began; PRAGMA user_version = 1"};
  (void)state;
  for (size_t i = 0; i < sizeof older / sizeof *older; i++) {
    struct by_manager_row row = {.table = BY_ROW_CELLS, .job = "j"};
    struct found found = {0};
    sqlite3 *db;
    remove_file();
    assert_ok(by_manager_store_open(path, &store));
    by_manager_store_close(store);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, older[i], NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_ok(by_manager_store_open(path, &store));
    row.cells.request = "{}";
    by_manager_store_keep(store, &row);
    by_manager_store_keep_list(store, "a", 7);
    by_manager_store_commit(store);
    int64_t number;
    assert_ok(by_manager_store_get_list(store, "a", &number));
    assert_int_equal(number, 7);
    assert_ok(by_manager_store_get_list(store, "b", &number));
    assert_int_equal(number, -1);
    assert_ok(by_manager_store_load(store, count, &found));
    assert_int_equal(found.cells, 1);
    by_manager_store_close(store);
  }
  remove_file();
}

static void check_request(void *context, const struct by_manager_row *row) {
  if (row->table == BY_ROW_CELLS) assert_string_equal(row->cells.request, context);
}

/* Version 7 of the file held reservation requests as version 1 of the protocol wrote them. */
static void test_older_requests(void **state) {
  char request[] = "{\"type\":\"reserve\",\"job\":\"j\",\"cells\":[]}";
  struct by_manager_row row = {.table = BY_ROW_CELLS, .job = "j"};
  sqlite3 *db;
  (void)state;
  remove_file();
  assert_ok(by_manager_store_open(path, &store));
  row.cells.request = "{\"say\":\"wish\",\"job\":\"j\",\"cells\":[]}";
  by_manager_store_keep(store, &row);
  by_manager_store_commit(store);
  by_manager_store_close(store);
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db,
                                "DROP TABLE network; DROP TABLE servers; DROP TABLE grants; PRAGMA user_version = 7",
                                NULL, NULL, NULL),
                   SQLITE_OK);
  assert_int_equal(sqlite3_close(db), SQLITE_OK);
  assert_ok(by_manager_store_open(path, &store));
  assert_ok(by_manager_store_load(store, check_request, request));
  by_manager_store_close(store);
  remove_file();
}

/* The topology that agents have reported outlives the manager. */
static void test_topology(void **state) {
  struct by_text text = {0};
  (void)state;
  remove_file();
  assert_ok(by_manager_store_open(path, &store));
  assert_ok(by_manager_store_get_topology(store, &text));
  assert_int_equal(text.length, 0);
  by_manager_store_keep_topology(store, "one");
  by_manager_store_keep_topology(store, "{\"name\":\"two\"}");
  by_manager_store_close(store);
  assert_ok(by_manager_store_open(path, &store));
  by_manager_store_renew(store);
  assert_ok(by_manager_store_get_topology(store, &text));
  assert_string_equal(by_text_get(&text), "{\"name\":\"two\"}");
  by_manager_store_close(store);
  by_text_fini(&text);
  remove_file();
}

/* The length that a job reports, and whether it has proved wrong, outlive the manager. */
static void test_length(void **state) {
  (void)state;
  begin("star:4,nic=1g");
  for (uint32_t h = 0; h < world.n_hosts; h++) world_join(&world, h);
  struct world_job *longer = world_run(&world, 2, 1, 2), *job = world_run(&world, 0, 1, 2);
  job->expected = 700;
  longer->expected = 1;
  world_report_job(&world, job);
  for (int i = 0; i < 9; i++) world_pass(&world, 1000);
  by_manager_store_commit(store);
  kill_manager();
  check_given("\"expected\":700,");
  world_report_job(&world, longer);
  world_report_job(&world, job);
  check_given("\"expected\":700,");
  check_given("\"expected\":null,");
  end();
}

/* The owner of a job outlives the manager: no other user takes the job by its ID while its own agent reconnects. */
static void test_owner(void **state) {
  struct by_manager_peer *thief;
  (void)state;
  begin("star:2,nic=1g");
  for (uint32_t h = 0; h < world.n_hosts; h++) world_join(&world, h);
  struct world_job *job = world_run(&world, 0, 1, 2);
  world_part(&world, 0);
  by_manager_store_commit(store);
  kill_manager();
  struct by_cluster_message hello = {
      .type = BY_MESSAGE_HELLO, .version = BY_CLUSTER_VERSION, .host = world.hosts[0].name, .job = job->id};
  const char *hosts[] = {world.hosts[0].name, world.hosts[1].name};
  struct by_cluster_message message = {
      .type = BY_MESSAGE_JOB, .job = job->id, .name = "n", .root = "10.0.0.1:1", .n_hosts = 2, .hosts = hosts};
  assert_ok(by_manager_joined(world.manager, &world.hosts[0], BY_ROLE_JOB, world.hosts[0].name, world.now, &thief));
  assert_ok(by_manager_handle(world.manager, thief, &hello, world.now));
  assert_status(by_manager_handle(world.manager, thief, &message, world.now), BANYAN_ERR_PROTOCOL);
  by_manager_gone(world.manager, thief, world.now);
  world_join(&world, 0);
  assert_int_equal(by_manager_get_counters(world.manager).refused, 1);
  end();
}

static void count_all(void *context, const struct by_manager_row *row) {
  (void)row;
  ++*(unsigned *)context;
}

/* When a job ends, all that was stored of it is deleted, including helpers that were requested and never joined. */
static void test_forgotten(void **state) {
  struct by_manager_row rows[] = {{.table = BY_ROW_JOB, .job = "j", .name = "n"},
                                  {.table = BY_ROW_PLAN, .job = "j"},
                                  {.table = BY_ROW_HISTORY, .job = "j"},
                                  {.table = BY_ROW_HELPER, .job = "j", .name = "h"},
                                  {.table = BY_ROW_CELLS, .job = "j"}};
  unsigned n = 0;
  (void)state;
  remove_file();
  rows[0].of_job.hosts = rows[0].of_job.root = rows[1].plan.plan = rows[2].history.why = rows[4].cells.request = "";
  assert_ok(by_manager_store_open(path, &store));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) by_manager_store_keep(store, &rows[i]);
  rows[0].gone = true;
  by_manager_store_keep(store, &rows[0]);
  by_manager_store_commit(store);
  assert_ok(by_manager_store_load(store, count_all, &n));
  assert_int_equal(n, 0);
  by_manager_store_close(store);
  remove_file();
}

/* Pages of the file were overwritten or are missing: the error says what to do. */
static void test_damaged_files(void **state) {
  struct stat about;
  char bytes[4096];
  (void)state;
  for (int cut = 0; cut < 2; cut++) {
    remove_file();
    assert_ok(by_manager_store_open(path, &store));
    by_manager_store_close(store);
    assert_int_equal(stat(path, &about), 0);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    memset(bytes, 0x5a, sizeof bytes);
    for (off_t at = 100; !cut && at < about.st_size; at += (off_t)sizeof bytes)
      assert_true(pwrite(fd, bytes, sizeof bytes, at) == (ssize_t)sizeof bytes);
    if (cut) assert_int_equal(ftruncate(fd, 5000), 0);
    close(fd);
    assert_true(by_manager_store_open(path, &store) != BANYAN_OK);
    assert_non_null(strstr(banyan_error_text(), path));
    assert_non_null(strstr(banyan_error_text(), " is damaged: "));
    assert_non_null(strstr(banyan_error_text(), "move the file away"));
  }
  remove_file();
}

static void test_other_files(void **state) {
  struct by_manager_store *second;
  (void)state;
  remove_file();
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("this is some other text, which must not be overwritten, and it is long enough to be looked at", file);
  fclose(file);
  assert_status(by_manager_store_open(path, &store), BANYAN_ERR_PARSE);
  assert_non_null(strstr(banyan_error_text(), "not a manager's state"));
  remove_file();
  assert_ok(by_manager_store_open(path, &store));
  assert_status(by_manager_store_open(path, &second), BANYAN_ERR_SYSTEM);
  assert_non_null(strstr(banyan_error_text(), "in use by another manager"));
  by_manager_store_close(store);
  assert_status(by_manager_store_open("/nowhere/manager.db", &store), BANYAN_ERR_SYSTEM);
  remove_file();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_days),           cmocka_unit_test(test_killed),       cmocka_unit_test(test_history),
      cmocka_unit_test(test_full_disk),      cmocka_unit_test(test_cells),        cmocka_unit_test(test_older_files),
      cmocka_unit_test(test_older_requests), cmocka_unit_test(test_owner),        cmocka_unit_test(test_forgotten),
      cmocka_unit_test(test_other_files),    cmocka_unit_test(test_topology),     cmocka_unit_test(test_length),
      cmocka_unit_test(test_users_plan),     cmocka_unit_test(test_damaged_files)};
  int file = mkstemp(path);
  if (file < 0) return 1;
  close(file);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
