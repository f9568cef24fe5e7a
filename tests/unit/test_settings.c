#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "address.h"
#include "check.h"
#include "settings.h"
#include "text.h"

/* Removes everything that a job or a launcher may have set around the test. */
static int clear_environment(void **state) {
  static const char *const of_launchers[] = {
      "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",   "PMIX_NAMESPACE",
      "SLURM_PROCID",         "SLURM_NTASKS",         "RANK",     "WORLD_SIZE", NULL};
  char name[64];
  (void)state;
  for (char **e = environ; *e;) {
    size_t length = strcspn(*e, "=");
    bool ours = !strncmp(*e, "BANYAN_", 7) && strncmp(*e, "BANYAN_SOURCE", 13) != 0 && length < sizeof name;
    if (!ours) {
      e++;
      continue;
    }
    memcpy(name, *e, length);
    name[length] = 0;
    unsetenv(name); /* The remaining variables move down. */
  }
  for (int i = 0; of_launchers[i]; i++) unsetenv(of_launchers[i]);
  return 0;
}

static void set(const char *name, const char *value) {
  assert_int_equal(setenv(name, value, 1), 0);
}

static void test_presets(void **state) {
  (void)state;
  struct by_settings s;
  assert_ok(by_settings_read(&s));
  assert_int_equal(s.rank, -1);
  assert_int_equal(s.size, -1);
  assert_null(s.root);
  assert_null(s.key);
  assert_null(s.host);
  assert_string_equal(s.transport, "auto");
  assert_null(s.plan);
  assert_string_equal(s.iface, "");
  assert_null(s.ports);
  assert_null(s.congestion);
  assert_true(s.deadline == 600);
  assert_true(s.join_deadline == 120);
  assert_string_equal(s.socket_buffer, "0");
  assert_string_equal(s.connections, "1");
  assert_int_equal(s.eager_limit, 1 << 20);
  assert_int_equal(s.credit, 4 << 20);
  assert_int_equal(s.chunk, 0);
  assert_int_equal(s.block, 64 << 10);
  assert_true(s.spin < 0);
  assert_int_equal(s.tos, -1);
  assert_int_equal(s.iterations, 0);
  assert_int_equal(s.helpers, -1);
  assert_int_equal(s.servers, -1);
  assert_true(s.helper_deadline == 10);
  assert_int_equal(s.accept_helpers, 1);
}

static void test_every_variable(void **state) {
  (void)state;
  static const char *const all[][2] = {
      {"BANYAN_RANK", "3"},
      {"BANYAN_SIZE", "8"},
      {"BANYAN_ROOT", "alpha:5000"},
      {"BANYAN_KEY", "secret"},
      {"BANYAN_HOST", "beta"},
      {"BANYAN_TRANSPORT", "tcp"},
      {"BANYAN_PLAN", "ring"},
      {"BANYAN_IFACE", "eth1"},
      {"BANYAN_PORTS", "5000-5100"},
      {"BANYAN_CONGESTION", "cubic"},
      {"BANYAN_DEADLINE", "1500ms"},
      {"BANYAN_JOIN_DEADLINE", "2min"},
      {"BANYAN_SOCKET_BUFFER", "8M"},
      {"BANYAN_CONNECTIONS", "2@10.0.0.0/8,4"},
      {"BANYAN_ENGINE", "64K,credit=512K,chunk=100K,block=32K,spin=20us,control=tree:3"},
      {"BANYAN_HELPERS", "3,servers=2,deadline=5,accept=0"},

      {"BANYAN_TOPOLOGY", "ring:8"},
      {"BANYAN_JOB", "train"},
      {"BANYAN_ITERATIONS", "300000000000"},
      {"BANYAN_REPLACE_PLAN", "1"},
      {"BANYAN_PLANNER", "trees=8"},
      {"BANYAN_CLASS", "2,tos=32"},
      {"BANYAN_END_TIME", "1800000000"},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) set(all[i][0], all[i][1]);
  struct by_settings s;
  assert_ok(by_settings_read(&s));
  assert_int_equal(s.rank, 3);
  assert_int_equal(s.size, 8);
  assert_string_equal(s.root, "alpha:5000");
  assert_int_equal(s.class_, 2);
  assert_int_equal(s.end_time, 1800000000);
  assert_string_equal(s.key, "secret");
  assert_string_equal(s.host, "beta");
  assert_string_equal(s.transport, "tcp");
  assert_string_equal(s.plan, "ring");
  assert_string_equal(s.topology, "ring:8");
  assert_string_equal(s.iface, "eth1");
  assert_string_equal(s.ports, "5000-5100");
  assert_string_equal(s.congestion, "cubic");
  assert_true(s.deadline == 1.5);
  assert_true(s.join_deadline == 120);
  assert_string_equal(s.socket_buffer, "8M");
  assert_string_equal(s.connections, "2@10.0.0.0/8,4");
  assert_int_equal(s.eager_limit, 64 << 10);
  assert_int_equal(s.credit, 512 << 10);
  assert_int_equal(s.chunk, 100 << 10);
  assert_int_equal(s.block, 32 << 10);
  assert_true(s.spin > 19.9e-6 && s.spin < 20.1e-6);
  assert_int_equal(s.control.kind, BY_CONTROL_TREE);
  assert_int_equal(s.control.fan_out, 3);
  assert_int_equal(s.helpers, 3);
  assert_int_equal(s.servers, 2);
  assert_true(s.helper_deadline == 5);
  assert_int_equal(s.accept_helpers, 0);
  assert_int_equal(s.tos, 32);
  assert_string_equal(s.job, "train");
  assert_int_equal(s.iterations, 300000000000);
  assert_int_equal(s.replace_plan, 1);
  assert_string_equal(s.planner, "trees=8");
  clear_environment(NULL);
}

/* A script may write BANYAN_CLASS= to leave the variable out. */
static void test_empty_is_not_set(void **state) {
  (void)state;
  set("BANYAN_TRANSPORT", "");
  set("BANYAN_KEY", "");
  set("BANYAN_HOST", "");
  set("BANYAN_CLASS", "");
  set("BANYAN_ENGINE", "");
  set("BANYAN_DEADLINE", "");
  set("BANYAN_RANK", "");
  struct by_settings s;
  assert_ok(by_settings_read(&s));
  assert_int_equal(s.tos, -1);
  assert_int_equal(s.eager_limit, 1 << 20);
  assert_true(s.deadline == 600);
  assert_int_equal(s.rank, -1);
  assert_string_equal(s.transport, "auto");
  assert_null(s.key);
  assert_null(s.host);
  clear_environment(NULL);
}

static void test_suggestions(void **state) {
  (void)state;
  static const char *const near[][2] = {
      {"BANYAN_TRANSPROT=tcp", "BANYAN_TRANSPORT"},
      {"BANYAN_IFCAE", "BANYAN_IFACE"},
      {"BANYAN_DEADLIN=3", "BANYAN_DEADLINE"},
      {"BANYAN_LOGS=debug", "BANYAN_LOG"},
      {"BANYAN_RANKS=3", "BANYAN_RANK"},
  };
  for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
    const char *suggested = by_settings_suggest(near[i][0]);
    if (!suggested || strcmp(suggested, near[i][1]) != 0) fail_msg("%s: %s", near[i][0], suggested);
  }
  static const char *const none[] = {"BANYAN_RANK=1",   "BANYAN_LOCAL_SIZE", "BANYAN_LOG=",  "BANYAN_TEST_SEED=4",
                                     "BANYAN_SOURCE=/", "BANYAN_BUILD=/",    "BANYAN_=",     "BANYAN",
                                     "BANYANRANKS=3",   "PATH=/bin",         "BANYAN_XYZZY="};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++)
    if (by_settings_suggest(none[i])) fail_msg("%s: %s", none[i], by_settings_suggest(none[i]));
}

/* A removed variable is no misspelt one, and what to use in its place is said. */
static void test_removed(void **state) {
  (void)state;
  const char *instead = by_settings_removed("BANYAN_STALL_ABORT=5");
  assert_non_null(instead);
  assert_non_null(strstr(instead, "BANYAN_DEADLINE"));
  assert_null(by_settings_suggest("BANYAN_STALL_ABORT=5"));
  assert_null(by_settings_removed("BANYAN_STALL=5"));
  assert_null(by_settings_removed("BANYAN_STALL_ABORTS=5"));
}

/* "BANYAN_NAME: key" is one key of a variable, as errors print it. */
static void set_item(const char *setting, const char *value) {
  char name[64], item[64];
  const char *colon = strchr(setting, ':');
  snprintf(name, sizeof name, "%.*s", (int)strcspn(setting, ":"), setting);
  snprintf(item, sizeof item, "%s%s%s", colon ? colon + 2 : "", colon ? "=" : "", value);
  set(name, item);
}

/* A value without a key is that of the first key, and only the first one may lack its key. The last value counts. */
static void test_keys(void **state) {
  (void)state;
  struct by_settings s;
  set("BANYAN_ENGINE", "64K,spin=1ms,spin=2ms");
  assert_ok(by_settings_read(&s));
  assert_int_equal(s.eager_limit, 64 << 10);
  assert_int_equal(s.credit, 4 << 20);
  assert_true(s.spin == 2e-3);
  static const char *const bad[] = {"spin=1ms,64K", "spni=1ms", "64K,", "=1", "spin=", ",spin=1ms"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    set("BANYAN_ENGINE", bad[i]);
    if (by_settings_read(&s) == BANYAN_OK) fail_msg("\"%s\" is accepted", bad[i]);
    assert_non_null(strstr(banyan_error_text(), "BANYAN_ENGINE: "));
  }
  set("BANYAN_ENGINE", "spni=1ms");
  assert_status(by_settings_read(&s), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "eager-limit, credit, chunk, block, spin, control"));
  clear_environment(NULL);
}

/* Each variable gets an invalid value, and the error names the variable. */
static void test_errors_name_the_variable(void **state) {
  (void)state;
  static const char *const bad[][2] = {
      {"BANYAN_RANK", "two"},
      {"BANYAN_REPLACE_PLAN", "2"},
      {"BANYAN_RANK", "-2"},
      {"BANYAN_RANK", "1.5"},
      {"BANYAN_SIZE", "999999999"},
      {"BANYAN_DEADLINE", "soon"},
      {"BANYAN_DEADLINE", "0"},
      {"BANYAN_DEADLINE", "-1"},
      {"BANYAN_DEADLINE", "-5"},
      {"BANYAN_JOIN_DEADLINE", "0s"},
      {"BANYAN_SILENCE", "1s"},
      {"BANYAN_SILENCE", "0"},
      {"BANYAN_SILENCE", "-1"},
      {"BANYAN_SILENCE", "2h"},
      {"BANYAN_SOCKET_BUFFER", "8X"},
      {"BANYAN_SOCKET_BUFFER", "8M@nowhere"},
      {"BANYAN_CONNECTIONS", "0"},
      {"BANYAN_CONNECTIONS", "2,9"},
      {"BANYAN_CONNECTIONS", "many"},
      {"BANYAN_CONGESTION", "bbr@10.0.0.0/99"},
      {"BANYAN_ENGINE: eager-limit", "100000"},
      {"BANYAN_ENGINE: eager-limit", "2K"},
      {"BANYAN_ENGINE: eager-limit", "128M"},
      {"BANYAN_ENGINE: eager-limit", "-64K"},
      {"BANYAN_ENGINE: credit", "128K"},
      {"BANYAN_ENGINE: chunk", "5M"},
      {"BANYAN_ENGINE: block", "100"},
      {"BANYAN_ENGINE: block", "32M"},
      {"BANYAN_ENGINE: block", "4100"},
      {"BANYAN_ENGINE: spin", "-2"},
      {"BANYAN_ENGINE: spin", "fast"},
      {"BANYAN_ENGINE: control", "mesh"},
      {"BANYAN_ENGINE: control", "tree:0"},
      {"BANYAN_HELPERS: helpers", "65536"},
      {"BANYAN_HELPERS: servers", "-2"},
      {"BANYAN_HELPERS: deadline", "-1"},
      {"BANYAN_HELPERS: accept", "2"},
      {"BANYAN_CLASS: class", "4"},
      {"BANYAN_CLASS: class", "-2"},
      {"BANYAN_CLASS: tos", "256"},
      {"BANYAN_CLASS: tos", "-2"},
      {"BANYAN_CLASS: tos", "0x20"},
      {"BANYAN_TRANSPORT", "udp"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    set_item(bad[i][0], bad[i][1]);
    struct by_settings s;
    enum banyan_status status = by_settings_read(&s);
    if (status == BANYAN_OK) fail_msg("%s=%s is accepted", bad[i][0], bad[i][1]);
    assert_true(status == BANYAN_ERR_PARSE || status == BANYAN_ERR_ARGUMENT);
    if (!strstr(banyan_error_text(), bad[i][0])) fail_msg("%s=%s: %s", bad[i][0], bad[i][1], banyan_error_text());
    clear_environment(NULL);
  }
}

/* The error about an invalid size lists the possible values. */
static void test_transport_error_lists_transports(void **state) {
  (void)state;
  struct by_settings s;
  set("BANYAN_TRANSPORT", "infiniband");
  assert_status(by_settings_read(&s), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "infiniband"));
  assert_non_null(strstr(banyan_error_text(), "auto, shm and tcp"));
  clear_environment(NULL);
}

/* A rank without a size does not make the library look at launchers: the error is returned when the job is joined. */
static void test_own_variables_shut_out_launchers(void **state) {
  (void)state;
  struct by_settings s;
  set("BANYAN_RANK", "1");
  set("OMPI_COMM_WORLD_RANK", "5");
  set("OMPI_COMM_WORLD_SIZE", "6");
  assert_ok(by_settings_read(&s));
  assert_int_equal(s.rank, 1);
  assert_int_equal(s.size, -1);
  clear_environment(NULL);
}

/* ---- values that depend on the peer's address */

static const char *chosen(const char *list, const char *peer) {
  static char value[BY_CHOICE_TEXT];
  struct by_address address;
  assert_ok(by_address_parse_host(peer, 5000, &address));
  assert_ok(by_choose(list, &address, value));
  return value;
}

static void test_first_match_counts(void **state) {
  (void)state;
  const char *list = "reno@127.0.0.0/8,bbr@10.8.0.0/16,dctcp@10.0.0.0/8,vegas@fd00::/8,cubic";
  assert_string_equal(chosen(list, "127.0.0.1"), "reno");
  assert_string_equal(chosen(list, "10.8.3.4"), "bbr");
  assert_string_equal(chosen(list, "10.9.3.4"), "dctcp");
  assert_string_equal(chosen(list, "fd12::1"), "vegas");
  assert_string_equal(chosen(list, "192.168.0.1"), "cubic");
  assert_string_equal(chosen("cubic,reno@127.0.0.0/8", "127.0.0.1"), "cubic");
  assert_string_equal(chosen("4@10.0.0.7", "10.0.0.7"), "4");
}

static void test_no_match(void **state) {
  (void)state;
  assert_string_equal(chosen("bbr@10.8.0.0/16", "10.9.0.1"), "");
  assert_string_equal(chosen("bbr@10.8.0.0/16", "fd00::1"), "");
  assert_string_equal(chosen("", "10.9.0.1"), "");
  assert_string_equal(chosen(NULL, "10.9.0.1"), "");
}

static enum banyan_status short_ones(const char *value) {
  return strlen(value) < 6 ? BANYAN_OK : by_fail(BANYAN_ERR_ARGUMENT, "%s is long", value);
}

static void test_check_reads_everything(void **state) {
  (void)state;
  assert_ok(by_choose_check("reno@127.0.0.0/8,cubic", short_ones));
  assert_ok(by_choose_check(NULL, short_ones));
  assert_ok(by_choose_check("", short_ones));
  assert_status(by_choose_check("reno,westwood@10.0.0.0/8", short_ones), BANYAN_ERR_ARGUMENT);
  static const char *const bad[] = {
      ",",
      "a,",
      ",a",
      "@10.0.0.0/8",
      "a@",
      "a@here",
      "a@10.0.0.0/33",
      "a@10.0.0.0/8@b",
      "a@fd00::/129",
      "0123456789012345678901234567890123456789",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (by_choose_check(bad[i], short_ones) != BANYAN_ERR_PARSE) fail_msg("\"%s\" is accepted", bad[i]);
}

/* ---- the same table is in docs/settings.md */

static char *read_page(void) {
  char path[4096];
  const char *source = getenv("BANYAN_SOURCE");
  snprintf(path, sizeof path, "%s/docs/settings.md", source ? source : ".");
  FILE *file = fopen(path, "re");
  if (!file) fail_msg("cannot open %s", path);
  char *page = calloc(1, 1 << 16);
  assert_non_null(page);
  size_t n = fread(page, 1, (1 << 16) - 1, file);
  fclose(file);
  assert_true(n > 0 && n < (1 << 16) - 1);
  return page;
}

static int rows_of(const char *page) {
  int rows = 0;
  for (const char *at = page; (at = strstr(at, "\n| `BANYAN_")); at++) rows++;
  return rows;
}

/* Turns "NAME   preset meaning", as by_settings_print prints it, into the page's row. */
static void check_row(const char *page, const char *line, size_t length) {
  char name[64], preset[64], row[512];
  int meaning = 0;
  assert_int_equal(sscanf(line, "%63s %63s %n", name, preset, &meaning), 2);
  snprintf(row, sizeof row, "\n| `%s` | %s | %.*s |\n", name, preset, (int)length - meaning, line + meaning);
  if (!strstr(page, row)) fail_msg("docs/settings.md has no row%s", row);
}

static void test_page_agrees(void **state) {
  (void)state;
  char *page = read_page();
  struct by_text text;
  int rows = 0;
  by_text_init(&text);
  by_settings_print(&text);
  for (const char *line = by_text_get(&text); *line; rows++) {
    size_t length = strcspn(line, "\n");
    check_row(page, line, length);
    line += length + 1;
  }
  assert_true(rows > 10);
  assert_int_equal(rows_of(page), rows);
  by_text_fini(&text);
  free(page);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_presets),
      cmocka_unit_test(test_every_variable),
      cmocka_unit_test(test_empty_is_not_set),
      cmocka_unit_test(test_suggestions),
      cmocka_unit_test(test_removed),
      cmocka_unit_test(test_keys),
      cmocka_unit_test(test_errors_name_the_variable),
      cmocka_unit_test(test_transport_error_lists_transports),
      cmocka_unit_test(test_own_variables_shut_out_launchers),
      cmocka_unit_test(test_first_match_counts),
      cmocka_unit_test(test_no_match),
      cmocka_unit_test(test_check_reads_everything),
      cmocka_unit_test(test_page_agrees),
  };
  return cmocka_run_group_tests(tests, clear_environment, NULL);
}
