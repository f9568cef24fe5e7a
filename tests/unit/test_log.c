/* Tests of logging: levels, lines, and texts that repeat. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "log.h"

/* --- log --- */

/* Standard error is redirected into a file while lines are caught. */
struct catcher {
  int kept, file;
};

static void catch_begin(struct catcher *catcher) {
  char name[] = "/tmp/banyan-test-log-XXXXXX";
  catcher->kept = dup(STDERR_FILENO);
  catcher->file = mkstemp(name);
  assert_true(catcher->file >= 0);
  unlink(name);
  assert_int_equal(fcntl(catcher->file, F_SETFL, O_APPEND), 0);
  dup2(catcher->file, STDERR_FILENO);
}

static void catch_end(struct catcher *catcher, char *out, size_t room) {
  dup2(catcher->kept, STDERR_FILENO);
  close(catcher->kept);
  ssize_t n = pread(catcher->file, out, room - 1, 0);
  close(catcher->file);
  assert_true(n >= 0);
  out[n] = '\0';
}

static void test_warn_is_the_default(void **state) {
  (void)state;
  assert_true(by_log_wanted(BY_LOG_ERROR, "net"));
  assert_true(by_log_wanted(BY_LOG_WARN, "net"));
  assert_false(by_log_wanted(BY_LOG_INFO, "net"));
}

static void test_lines(void **state) {
  (void)state;
  char text[8192], huge[5000];
  struct catcher catcher;
  memset(huge, 'x', sizeof huge - 1);
  huge[sizeof huge - 1] = '\0';
  catch_begin(&catcher);
  by_log_set_rank(2);
  errno = ENOENT;
  by_warn("net", "lost %s:%d", "host", 7);
  assert_int_equal(errno, ENOENT);
  by_info("net", "not wanted");
  by_debug("net", "nor this");
  by_log_set_rank(-1);
  by_error("plan", "two\nlines and \x1b[31mred");
  by_error("plan", "%s", huge);
  catch_end(&catcher, text, sizeof text);
  static const char expected[] = "banyan[rank 2] net: lost host:7\n"
                                 "banyan plan: two lines and  [31mred\n"
                                 "banyan plan: xxx";
  assert_memory_equal(text, expected, sizeof expected - 1);
  size_t length = strlen(text);
  assert_string_equal(text + length - 5, "x...\n");
  assert_true(length < 2500);
}

/* Runs in a process of its own, because the environment is read once. The exit code has a bit for each level that is
 * logged. */
static int levels_with(const char *environment, const char *module, char *warnings, size_t room) {
  struct catcher catcher;
  int status;
  catch_begin(&catcher);
  pid_t child = fork();
  if (child == 0) {
    setenv("BANYAN_LOG", environment, 1);
    execl("/proc/self/exe", "test_log", module, (char *)NULL);
    _exit(99);
  }
  waitpid(child, &status, 0);
  catch_end(&catcher, warnings, room);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static int print_levels(const char *module) {
  int bits = 0;
  for (int level = 0; level < 4; level++) bits |= by_log_wanted((enum by_log_level)level, module) << level;
  /* Reading the settings must not change the error text, which may be what is to be logged. */
  return *banyan_error_text() ? 98 : bits;
}

enum { UP_TO_ERROR = 1, UP_TO_WARN = 3, UP_TO_INFO = 7, UP_TO_DEBUG = 15 };

static void test_levels_by_module(void **state) {
  (void)state;
  static const struct {
    const char *environment, *module;
    int levels;
  } cases[] = {
      {"", "plan", UP_TO_WARN},
      {"info", "plan", UP_TO_INFO},
      {"info,plan:debug,net:error", "base", UP_TO_INFO},
      {"info,plan:debug,net:error", "plan", UP_TO_DEBUG},
      {"info,plan:debug,net:error", "planner", UP_TO_INFO},
      {"info,plan:debug,net:error", "net", UP_TO_ERROR},
      {"net:debug,net:error", "net", UP_TO_ERROR}, /* The last entry takes precedence. */
      {"net:debug,net:error", "plan", UP_TO_WARN},
      {",error,,net:debug,", "plan", UP_TO_ERROR},
  };
  char warnings[400];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(levels_with(cases[i].environment, cases[i].module, warnings, sizeof warnings), cases[i].levels);
    assert_string_equal(warnings, "");
  }
}

static void check_refused(const char *environment) {
  char warnings[400];
  assert_int_equal(levels_with(environment, "plan", warnings, sizeof warnings), UP_TO_WARN); /* This is the default. */
  assert_non_null(strstr(warnings, "BANYAN_LOG is not used: log level"));
  assert_int_equal(by_log_check(environment), BANYAN_ERR_ARGUMENT);
}

static void test_bad_settings_are_not_used(void **state) {
  (void)state;
  static const char *const bad[] = {"loud",         "debug,plan:", "plan:debug,:debug",
                                    "plan:debug:x", "debug,infos", "a-module-name-that-is-too-long:info",
                                    "DEBUG"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) check_refused(bad[i]);
  char many[600] = "";
  for (int i = 0; i < 33; i++) sprintf(many + strlen(many), "m%d:info,", i);
  check_refused(many);
}

/* ---- files */

static void check_name(const char *pattern, int rank, const char *expected) {
  char name[64];
  assert_null(by_log_file_name(pattern, rank, "rack/a", name, sizeof name));
  assert_string_equal(name, expected);
}

static void test_names_of_files(void **state) {
  (void)state;
  char name[16], process[32];
  check_name("log", -1, "log");
  check_name("%h/%r%%r", 12, "rack_a/12%r");
  snprintf(process, sizeof process, "/x/%d", (int)getpid());
  check_name("/x/%p", 3, process);
  assert_non_null(by_log_file_name("a%", 1, "h", name, sizeof name));
  assert_non_null(by_log_file_name("%x", 1, "h", name, sizeof name));
  assert_non_null(by_log_file_name("0123456789%r", 123456, "h", name, sizeof name));
}

/* Logs two lines in a process of its own, before and after its rank is known. `file`, of `%s` a folder of its own, is
 * read and removed afterwards. */
struct logged {
  char file[500], error[500];
};

static void log_in_child(const char *pattern, const char *rank, const char *file, struct logged *out) {
  char folder[] = "/tmp/banyan-test-log-XXXXXX", path[128];
  struct catcher catcher;
  int status;
  assert_non_null(mkdtemp(folder));
  catch_begin(&catcher);
  pid_t child = fork();
  if (child == 0) {
    if (chdir(folder) || setenv("BANYAN_LOG_FILE", pattern, 1)) _exit(99);
    setenv("BANYAN_HOST", "here", 1);
    unsetenv("BANYAN_RANK");
    if (rank) setenv("BANYAN_RANK", rank, 1);
    execl("/proc/self/exe", "test_log", "--lines", (char *)NULL);
    _exit(99);
  }
  waitpid(child, &status, 0);
  catch_end(&catcher, out->error, sizeof out->error);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  snprintf(path, sizeof path, "%s/%s", folder, file);
  out->file[0] = '\0';
  int fd = *file ? open(path, O_RDONLY) : -1;
  if (fd >= 0) {
    out->file[read(fd, out->file, sizeof out->file - 1)] = '\0';
    close(fd);
    unlink(path);
  }
  assert_int_equal(rmdir(folder), 0); /* there was no other file */
}

static int log_lines(void) {
  by_warn("net", "first");
  by_log_file_set_rank(7);
  by_warn("net", "second");
  return 0;
}

/* After the time, such as 2026-11-27T05:30:00.123Z. */
static const char *next_line(const char **at) {
  static char line[200];
  const char *end = strchr(*at, '\n');
  assert_non_null(end);
  assert_true(end - *at > 25 && (*at)[10] == 'T' && (*at)[23] == 'Z');
  snprintf(line, sizeof line, "%.*s", (int)(end - *at - 25), *at + 25);
  *at = end + 1;
  return line;
}

static void check_both_lines(const char *pattern, const char *rank, const char *file) {
  struct logged logged;
  log_in_child(pattern, rank, file, &logged);
  const char *at = logged.file;
  assert_string_equal(next_line(&at), "banyan net: first");
  assert_string_equal(next_line(&at), "banyan net: second");
  assert_string_equal(at, "");
  assert_string_equal(logged.error, "");
}

static void test_lines_go_to_a_file(void **state) {
  (void)state;
  struct logged logged;
  check_both_lines("log", NULL, "log");
  check_both_lines("%h-%r", "12", "here-12");
  log_in_child("%r", NULL, "7", &logged); /* the rank is not known at first */
  const char *at = logged.file;
  assert_string_equal(next_line(&at), "banyan net: second");
  assert_string_equal(logged.error, "banyan net: first\n");
}

/* The journal of systemd adds times itself: it is told by the numbers of the file that standard error is. */
static int log_as_a_service(bool to_journal) {
  struct stat about;
  char stream[64], time[BY_LOG_TIME];
  if (fstat(STDERR_FILENO, &about)) return 99;
  snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)about.st_dev,
           (unsigned long long)about.st_ino + !to_journal);
  setenv("JOURNAL_STREAM", stream, 1);
  by_log_file_add_times();
  by_warn("net", "first");
  by_log_file_print_time(time);
  dprintf(STDERR_FILENO, "%sbanyan: second\n", time);
  return 0;
}

static void check_times(const char *how, bool has_times) {
  char text[200];
  const char *at = text;
  assert_int_equal(levels_with("warn", how, text, sizeof text), 0);
  if (!has_times) {
    assert_string_equal(text, "banyan net: first\nbanyan: second\n");
    return;
  }
  assert_string_equal(next_line(&at), "banyan net: first");
  assert_string_equal(next_line(&at), "banyan: second");
  assert_string_equal(at, "");
}

static void test_services_log_the_time(void **state) {
  (void)state;
  check_times("--service", true);
  check_times("--service-of-systemd", false);
}

static void check_only_reported(const char *pattern, const char *expected) {
  struct logged logged;
  log_in_child(pattern, "3", "", &logged);
  assert_non_null(strstr(logged.error, expected));
  assert_non_null(strstr(logged.error, "banyan net: first\n"));
  assert_non_null(strstr(logged.error, "banyan net: second\n"));
  const char *again = strstr(strstr(logged.error, "LOG_FILE") + 1, "LOG_FILE");
  assert_null(again);
}

static void test_unusable_files_are_reported_once(void **state) {
  (void)state;
  check_only_reported("/dev/full", "BANYAN_LOG_FILE cannot be written: No space left on device");
  check_only_reported("none/%r", "none/3: its folder does not exist: create it");
  check_only_reported("%s", "after % there may be r (the rank)");
  check_only_reported(".", "Is a directory");
}

/* All lines are of one kind: each is logged or counted, whichever thread wrote it. */
static void *chatter(void *argument) {
  for (int i = 0; i < 500; i++) by_warn("net", "thread %d says hello", *(int *)argument);
  return NULL;
}

static void test_threads_do_not_mix_lines(void **state) {
  (void)state;
  enum { THREADS = 4, ROOM = 1 << 17, LINES = 500 * THREADS };
  static char text[ROOM];
  pthread_t thread[THREADS];
  int number[THREADS], seen = 0, counted = 0;
  struct catcher catcher;
  catch_begin(&catcher);
  for (int i = 0; i < THREADS; i++) {
    number[i] = i;
    assert_int_equal(pthread_create(&thread[i], NULL, chatter, &number[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  by_log_flush();
  catch_end(&catcher, text, sizeof text);
  char *rest = text, *line;
  while ((line = strsep(&rest, "\n")) && *line) {
    int writer = -1, end = 0;
    if (!counted && sscanf(line, "banyan net: %d more lines like this one were left out: ", &counted) == 1)
      line = strstr(line, "thread") - strlen("banyan net: ");
    else
      seen++;
    sscanf(strstr(line, "thread"), "thread %d says hello%n", &writer, &end);
    assert_in_range(writer, 0, THREADS - 1);
    assert_int_equal(end, strlen(strstr(line, "thread")));
  }
  assert_true(seen >= BY_LOG_KIND_LINES && counted > 0);
  assert_int_equal(seen + counted, LINES);
}

/* --- lines that others can provoke --- */

static unsigned take_lines(struct by_log_limit *limit, const char *format, unsigned n, double now) {
  unsigned taken = 0;
  for (unsigned i = 0; i < n; i++) {
    char line[32];
    snprintf(line, sizeof line, "line %u", i);
    taken += by_log_limit_take(limit, "net", format, line, now + i * 1e-6);
  }
  return taken;
}

static void test_a_kind_has_few_lines_a_minute(void **state) {
  (void)state;
  struct by_log_limit limit = {0};
  struct by_log_kind kind;
  assert_int_equal(take_lines(&limit, "%s: malformed", 20000, 1), BY_LOG_KIND_LINES);
  assert_int_equal(take_lines(&limit, "%s: unknown", 5, 2), 5);
  assert_false(by_log_limit_next(&limit, 60, &kind));
  assert_true(by_log_limit_next(&limit, 61, &kind));
  assert_int_equal(kind.omitted, 20000 - BY_LOG_KIND_LINES);
  assert_string_equal(kind.module, "net");
  assert_string_equal(kind.last, "line 19999");
  assert_false(by_log_limit_next(&limit, INFINITY, &kind));
  assert_int_equal(take_lines(&limit, "%s: malformed", BY_LOG_KIND_LINES + 1, 61), BY_LOG_KIND_LINES);
  assert_true(by_log_limit_next(&limit, INFINITY, &kind));
  assert_int_equal(kind.omitted, 1);
}

/* More kinds than are kept: none is limited by another one's lines. */
static void test_kinds_are_limited_apart(void **state) {
  (void)state;
  struct by_log_limit limit = {0};
  struct by_log_kind kind;
  char formats[3 * BY_LOG_KINDS][8];
  for (int i = 0; i < 3 * BY_LOG_KINDS; i++) {
    snprintf(formats[i], sizeof formats[i], "%d", i);
    assert_int_equal(take_lines(&limit, formats[i], BY_LOG_KIND_LINES + 1, 1 + i), BY_LOG_KIND_LINES);
  }
  for (int i = 0; i < BY_LOG_KINDS; i++) {
    assert_true(by_log_limit_next(&limit, INFINITY, &kind));
    assert_int_equal(kind.omitted, 1);
  }
  assert_false(by_log_limit_next(&limit, INFINITY, &kind));
}

/* --- repeats --- */

/* Repeated texts are logged once a minute from each place, with little memory. */

static bool take(struct by_repeats *repeats, const char *place, const char *text, double now) {
  return by_repeats_take(repeats, place, strlen(place), text, now);
}

static void test_once_a_minute(void **state) {
  (void)state;
  struct by_repeats repeats = {0};
  assert_true(take(&repeats, "10.0.0.1", "expired", 1));
  assert_false(take(&repeats, "10.0.0.1", "expired", 2));
  assert_false(take(&repeats, "10.0.0.1", "expired", 60.5));
  assert_true(take(&repeats, "10.0.0.1", "expired", 61.5));
  assert_false(take(&repeats, "10.0.0.1", "expired", 62));
}

static void test_another_place_or_text_is_new(void **state) {
  (void)state;
  struct by_repeats repeats = {0};
  assert_true(take(&repeats, "10.0.0.1", "expired", 1));
  assert_true(take(&repeats, "10.0.0.2", "expired", 1));
  assert_true(take(&repeats, "10.0.0.1", "revoked", 1));
  assert_false(take(&repeats, "10.0.0.2", "expired", 1));
}

/* A place that differs only in its port is not new. */
static void test_only_the_first_bytes_of_a_place_count(void **state) {
  (void)state;
  struct by_repeats repeats = {0};
  assert_true(by_repeats_take(&repeats, "10.0.0.1:4000", 8, "expired", 1));
  assert_false(by_repeats_take(&repeats, "10.0.0.1:4001", 8, "expired", 1));
}

static void test_the_oldest_is_forgotten(void **state) {
  (void)state;
  struct by_repeats repeats = {0};
  char text[16];
  for (int i = 0; i <= BY_REPEATS; i++) {
    snprintf(text, sizeof text, "%d", i);
    assert_true(take(&repeats, "a", text, 1 + i));
  }
  assert_false(take(&repeats, "a", "1", 50));
  assert_true(take(&repeats, "a", "0", 50));
}

/* Reads what by_repeats_warn has written to standard error. */
static void read_log(FILE *file, char *text, size_t room) {
  rewind(file);
  text[fread(text, 1, room - 1, file)] = '\0';
}

static unsigned count_lines(const char *text) {
  unsigned n = 0;
  while ((text = strchr(text, '\n'))) text++, n++;
  return n;
}

static void test_a_flood_is_a_few_lines_and_a_count(void **state) {
  struct by_repeats repeats = {0};
  char peer[64], text[64], log[4096];
  int before = dup(STDERR_FILENO);
  FILE *file = tmpfile();
  assert_non_null(file);
  assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
  for (int i = 0; i < 100000; i++) { /* Each text has another host and another reason. */
    snprintf(peer, sizeof peer, "10.0.%d.%d:%d", i / 200, i % 200, 4000 + i % 1000);
    snprintf(text, sizeof text, "it sent %d", i);
    by_repeats_warn(&repeats, "net", peer, text, 1 + i * 1e-4);
  }
  by_repeats_flush(&repeats, "net", 11);
  read_log(file, log, sizeof log);
  unsigned flooded = count_lines(log);
  by_repeats_warn(&repeats, "net", "10.0.0.1:1", "10.0.0.1:1: late", 61.5);
  by_repeats_flush(&repeats, "net", 200);
  read_log(file, log, sizeof log);
  dup2(before, STDERR_FILENO);
  close(before);
  fclose(file);
  assert_int_equal(flooded, BY_REPEATS_LINES);
  assert_int_equal(count_lines(log), BY_REPEATS_LINES + 2);
  assert_non_null(strstr(log, "10.0.0.0:4000: it sent 0\n"));
  assert_non_null(strstr(log, " 99992 further connections were rejected"));
  assert_non_null(strstr(log, "net: 10.0.0.1:1: late\n"));
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "--lines") == 0) return log_lines();
  if (argc > 1 && strncmp(argv[1], "--service", 9) == 0) return log_as_a_service(argv[1][9]);
  if (argc > 1) return print_levels(argv[1]);
  unsetenv("BANYAN_LOG");
  unsetenv("BANYAN_LOG_FILE");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_warn_is_the_default),
      cmocka_unit_test(test_levels_by_module),
      cmocka_unit_test(test_bad_settings_are_not_used),
      cmocka_unit_test(test_lines),
      cmocka_unit_test(test_threads_do_not_mix_lines),
      cmocka_unit_test(test_a_kind_has_few_lines_a_minute),
      cmocka_unit_test(test_kinds_are_limited_apart),
      cmocka_unit_test(test_once_a_minute),
      cmocka_unit_test(test_another_place_or_text_is_new),
      cmocka_unit_test(test_only_the_first_bytes_of_a_place_count),
      cmocka_unit_test(test_the_oldest_is_forgotten),
      cmocka_unit_test(test_a_flood_is_a_few_lines_and_a_count),
      cmocka_unit_test(test_names_of_files),
      cmocka_unit_test(test_lines_go_to_a_file),
      cmocka_unit_test(test_services_log_the_time),
      cmocka_unit_test(test_unusable_files_are_reported_once),
  };
  return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
