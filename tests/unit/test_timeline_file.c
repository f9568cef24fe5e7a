/* The file of a timeline is valid JSON after every flush, whatever happens to the process, the disk and the
 * records. */
#include "timeline_file.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static char folder[32], path[64], previous[64];

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/banyan-file-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(path, sizeof path, "%s/t.json", folder);
  snprintf(previous, sizeof previous, "%s/t.json.1", folder);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  remove(path);
  remove(previous);
  return rmdir(folder);
}

static struct by_timeline_file *open_file(uint64_t most_bytes) {
  struct by_timeline_file *file;
  assert_ok(by_timeline_file_open(path, most_bytes, false, &file));
  by_timeline_file_name(file, 0, 0, "rank 0");
  by_timeline_file_name(file, 1, 1, "rank \"1\"");
  by_timeline_file_flush(file);
  return file;
}

static struct by_trace_record record(uint64_t id, const char *name, bool done) {
  struct by_trace_record out = {.id = id, .has_call = true, .call = (uint32_t)id};
  snprintf(out.name, sizeof out.name, "%s", name);
  out.at[BY_TRACE_QUEUED] = 1000 * id;
  out.at[BY_TRACE_WIRE] = 1000 * id + 1;
  if (done) out.at[BY_TRACE_DONE] = 1000 * id + 2;
  return out;
}

static void put(struct by_timeline_file *file, uint32_t process, uint64_t id, const char *name, bool done) {
  struct by_trace_record one = record(id, name, done);
  by_timeline_file_record(file, process, &one);
}

/* Counts the events of this kind and name in the file, which must be JSON and nothing else. */
static int count(const char *file, const char *kind, const char *name) {
  json_error_t error;
  json_t *root = json_load_file(file, 0, &error), *event;
  if (!root) fail_msg("%s:%d: %s", file, error.line, error.text);
  int n = 0;
  size_t i;
  json_array_foreach(json_object_get(root, "traceEvents"), i, event) n +=
      !strcmp(json_string_value(json_object_get(event, "name")), name) &&
      !strcmp(json_string_value(json_object_get(event, "ph")), kind);
  json_decref(root);
  return n;
}

static void test_valid_after_each_flush(void **state) {
  (void)state;
  struct by_timeline_file *file = open_file(1 << 20);
  assert_int_equal(count(path, "M", "process_name"), 2);
  for (uint64_t id = 1; id <= 20; id++) {
    put(file, id % 2, id, "sum", true);
    by_timeline_file_flush(file);
    assert_int_equal(count(path, "e", "sum"), id);
  }
  by_timeline_file_end(file, "1", 3, 0, (struct by_trace_totals[BY_TRACE_STATES]){{0}});
  assert_ok(by_timeline_file_close(file));
  assert_int_equal(count(path, "b", "sum"), 20);
}

/* An open record is in the file once, and is replaced by its end, which is reported later. */
static void test_open_records(void **state) {
  (void)state;
  char longest[BY_TRACE_NAME + 1] = "";
  memset(longest, 'x', sizeof longest - 1);
  struct by_timeline_file *file = open_file(1 << 20);
  for (int i = 0; i < 3; i++) {
    put(file, 0, 7, longest, false);
    put(file, 1, 7, longest, false);
    by_timeline_file_flush(file);
    assert_int_equal(count(path, "b", longest), 2);
    assert_int_equal(count(path, "e", longest), 0);
  }
  put(file, 1, 8, "short", true);
  put(file, 0, 7, longest, true);
  by_timeline_file_flush(file); /* The end of the file is shorter than before. */
  assert_int_equal(count(path, "b", longest), 2);
  assert_int_equal(count(path, "e", longest), 1);
  assert_ok(by_timeline_file_close(file));
  assert_int_equal(count(path, "b", longest), 2);
  assert_int_equal(count(path, "e", "short"), 1);
}

static void test_too_large(void **state) {
  (void)state;
  enum { RECORDS = 40, MOST = 4000 };
  struct by_timeline_file *file = open_file(MOST);
  struct stat seen;
  for (uint64_t id = 1; id <= RECORDS; id++) {
    put(file, 0, id, "sum", true);
    by_timeline_file_flush(file);
    assert_int_equal(stat(path, &seen), 0);
    assert_in_range(seen.st_size, 1, MOST + 2000);
  }
  assert_ok(by_timeline_file_close(file));
  assert_int_equal(count(path, "M", "process_name"), 2);
  assert_int_equal(count(previous, "M", "process_name"), 2);
  int newest = count(path, "e", "sum");
  assert_in_range(newest + count(previous, "e", "sum"), newest + 4, RECORDS - 1);
}

static struct by_timeline_file *continue_file(void) {
  struct by_timeline_file *file;
  assert_ok(by_timeline_file_open(path, 1 << 20, true, &file));
  return file;
}

/* What a process that was killed has left, and then one that has closed it; but only one at a time. */
static void test_continue(void **state) {
  (void)state;
  static const struct by_trace_totals none[BY_TRACE_STATES];
  struct by_timeline_file *file = open_file(1 << 20), *second;
  put(file, 0, 1, "sum", true);
  put(file, 0, 2, "open", false);
  by_timeline_file_end(file, "1: 0", 0, 0, none);
  by_timeline_file_flush(file);
  assert_int_equal(by_timeline_file_open(path, 1 << 20, true, &second), BANYAN_ERR_ARGUMENT);
  assert_ok(by_timeline_file_close(file));
  for (int i = 0; i < 2; i++) {
    file = continue_file();
    by_timeline_file_name(file, 1, 0, "rank 0");
    by_timeline_file_name(file, 2, 1, "rank 1");
    by_timeline_file_membership(file, i ? "membership third" : "membership \"second\"", i ? "third" : "second", 5000, 2,
                                (const uint32_t[]){1, 2});
    put(file, 1, 3, "sum", true);
    by_timeline_file_flush(file);
    assert_int_equal(count(path, "i", i ? "membership third" : "membership \"second\""), 1);
    if (i) by_timeline_file_end(file, "3: 0", 0, 0, none);
    assert_ok(by_timeline_file_close(file));
  }
  assert_int_equal(count(path, "e", "sum"), 3);
  assert_int_equal(count(path, "b", "open"), 1);
  assert_int_equal(count(path, "M", "process_name"), 6);
  json_t *root = json_load_file(path, 0, NULL);
  assert_int_equal(json_object_size(json_object_get(root, "otherData")), 2);
  json_decref(root);
}

/* What is no timeline is replaced, as at the start of a job. */
static void test_continue_nothing(void **state) {
  static const char *const others[] = {"", "x", "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n",
                                       "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n\n],\n\"otherData\": {",
                                       "\n],\n\"otherData\": {}}"};
  (void)state;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    fputs(others[i], stream);
    fclose(stream);
    struct by_timeline_file *file = continue_file();
    by_timeline_file_name(file, 0, 0, "rank 0");
    put(file, 0, 1, "sum", true);
    assert_ok(by_timeline_file_close(file));
    assert_int_equal(count(path, "e", "sum"), 1);
  }
}

static void test_titles(void **state) {
  (void)state;
  struct by_timeline_file *file = open_file(1 << 20);
  struct by_trace_record failed = record(1, "sum", true);
  failed.status = BANYAN_ERR_PEER_DEAD;
  by_timeline_file_record(file, 0, &failed);
  put(file, 0, 2, "sum", true);
  by_timeline_file_event(file, 1, 2000, "rank 1 is \"gone\"");
  assert_ok(by_timeline_file_close(file));
  assert_int_equal(count(path, "b", "sum (failed: peer dead)"), 1);
  assert_int_equal(count(path, "e", "sum (failed: peer dead)"), 1);
  assert_int_equal(count(path, "b", "sum"), 1);
  assert_int_equal(count(path, "i", "rank 1 is \"gone\""), 1);
}

/* No file can have more bytes. Returns the limit before. */
static struct rlimit limit_files(size_t bytes) {
  struct rlimit before, limit;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  limit = before;
  limit.rlim_cur = bytes;
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  return before;
}

static size_t size_of_file(void) {
  struct stat seen;
  assert_int_equal(stat(path, &seen), 0);
  return (size_t)seen.st_size;
}

/* The disk has room for so many bytes more. What fits stays, and is JSON. Returns how many of 60 new sums that are. */
static int fill_disk(size_t more, bool begins) {
  struct by_timeline_file *file;
  assert_ok(by_timeline_file_open(path, 1 << 20, false, &file));
  by_timeline_file_name(file, 0, 0, "rank 0");
  put(file, 0, 1, "sum", true);
  put(file, 0, 2, "open", false);
  if (!begins) by_timeline_file_flush(file);
  size_t bytes = size_of_file() + more;
  struct rlimit before = limit_files(bytes);
  for (uint64_t id = 3; id < 63; id++) put(file, 0, id, "sum", true);
  by_timeline_file_end(file, "0", 0, 0, (struct by_trace_totals[BY_TRACE_STATES]){{0}});
  by_timeline_file_flush(file);
  put(file, 0, 63, "sum", true);
  assert_int_equal(by_timeline_file_close(file), BANYAN_ERR_SYSTEM);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_non_null(strstr(banyan_error_text(), path));
  assert_true(size_of_file() <= bytes);
  return count(path, "e", "sum") - !begins;
}

static void test_disk_full(void **state) {
  (void)state;
  int last = 0;
  for (size_t more = 0; more < 20000; more += more < 600 ? 13 : 731) {
    int kept = fill_disk(more, false);
    assert_in_range(kept, last, 60);
    last = kept;
  }
  assert_in_range(last, 25, 59);
  assert_in_range(fill_disk(20000, true), 25, 59);
  assert_int_equal(fill_disk(0, true), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_valid_after_each_flush, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_open_records, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_too_large, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_continue, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_continue_nothing, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_titles, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_disk_full, make_folder, remove_folder)};
  return cmocka_run_group_tests_name("timeline_file", tests, NULL, NULL);
}
