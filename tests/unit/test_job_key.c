/* Keys of jobs: their form, files, and how they are passed on. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "descriptor.h"
#include "job_key.h"
#include "job_keys.h"
#include "settings.h"

static char path[] = "/tmp/banyan-job-key-XXXXXX";

static void write_file(const char *text, mode_t mode) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), strlen(text));
  assert_int_equal(fchmod(fd, mode), 0);
  close(fd);
}

static void test_generated(void **state) {
  (void)state;
  char one[BY_JOB_KEY_TEXT], other[BY_JOB_KEY_TEXT];
  assert_ok(by_job_key_create(one));
  assert_ok(by_job_key_create(other));
  assert_int_equal(strlen(one), BY_JOB_KEY_TEXT - 1);
  assert_string_not_equal(one, other);
  assert_ok(by_job_key_check(one));
  assert_ok(by_job_key_check(JOB_KEY));
  assert_ok(by_job_key_check(OTHER_JOB_KEY));
}

/* No error repeats what was given: it may be most of a key. */
static void test_others_are_rejected(void **state) {
  (void)state;
  char text[2 * BY_JOB_KEY_TEXT];
  static const char *const bad[] = {"", "secret", "banyan_key_", "banyan_key_5a_5a",
                                    "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_status(by_job_key_check(bad[i]), BANYAN_ERR_ARGUMENT);
    assert_non_null(strstr(banyan_error_text(), "banyan keys job FILE"));
  }
  for (size_t i = 0; i < BY_JOB_KEY_TEXT - 1; i++) { /* each single error is noticed */
    strcpy(text, JOB_KEY);
    text[i] = text[i] == '1' ? '2' : '1';
    assert_status(by_job_key_check(text), BANYAN_ERR_ARGUMENT);
    assert_null(strstr(banyan_error_text(), "5a5a"));
  }
  snprintf(text, sizeof text, "%s0", JOB_KEY);
  assert_status(by_job_key_check(text), BANYAN_ERR_ARGUMENT);
}

static void test_files(void **state) {
  (void)state;
  char key[BY_JOB_KEY_MAX];
  write_file("# of train\n\n" JOB_KEY "\n", 0600);
  assert_ok(by_job_key_read(path, key));
  assert_string_equal(key, JOB_KEY);
  write_file(JOB_KEY, 0400);
  assert_ok(by_job_key_read(path, key));
  write_file(JOB_KEY "\n" OTHER_JOB_KEY "\n", 0600);
  assert_status(by_job_key_read(path, key), BANYAN_ERR_PARSE);
  write_file("# none\n", 0600);
  assert_status(by_job_key_read(path, key), BANYAN_ERR_PARSE);
  assert_non_null(strstr(banyan_error_text(), path));
  static const mode_t open_to_others[] = {0640, 0604, 0620, 0660, 0666};
  for (size_t i = 0; i < sizeof open_to_others / sizeof *open_to_others; i++) {
    char mode[16];
    write_file(JOB_KEY "\n", open_to_others[i]);
    assert_status(by_job_key_read(path, key), BANYAN_ERR_AUTH);
    snprintf(mode, sizeof mode, "mode %03o", (unsigned)open_to_others[i]);
    assert_non_null(strstr(banyan_error_text(), mode));
    assert_non_null(strstr(banyan_error_text(), path));
    assert_non_null(strstr(banyan_error_text(), "chmod 600"));
  }
}

/* Not even a file that nobody writes to is waited for. */
static void test_no_files(void **state) {
  (void)state;
  char key[BY_JOB_KEY_MAX];
  unlink(path);
  assert_status(by_job_key_read(path, key), BANYAN_ERR_SYSTEM);
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_status(by_job_key_read(path, key), BANYAN_ERR_ARGUMENT);
  unlink(path);
  assert_status(by_job_key_read("/tmp", key), BANYAN_ERR_ARGUMENT);
  assert_status(by_job_key_read("/dev/zero", key), BANYAN_ERR_ARGUMENT);
}

/* A key takes the place of another one, and of that one in turn; what names the job stays. */
static void test_replacing(void **state) {
  (void)state;
  enum { NOW = 1795000000, HOUR = 3600 };
  char second[BY_JOB_KEY_MAX], third[BY_JOB_KEY_MAX], damaged[BY_JOB_KEY_MAX + 1];
  struct by_job_key first_parts, parts;
  assert_ok(by_job_key_split(JOB_KEY, &first_parts));
  assert_string_equal(first_parts.now, JOB_KEY);
  assert_string_equal(first_parts.old, "");
  assert_ok(by_job_key_rotate(JOB_KEY, NOW, NOW + HOUR, second));
  assert_non_null(strstr(second, " until 2026-11-18T12:06:40Z")); /* by `date -u -d @1795003600` */
  assert_ok(by_job_key_split(second, &parts));
  assert_string_not_equal(parts.now, JOB_KEY);
  assert_string_equal(parts.old, JOB_KEY);
  assert_int_equal(parts.until, NOW + HOUR);
  assert_memory_equal(parts.job, first_parts.job, sizeof parts.job);
  assert_status(by_job_key_rotate(second, NOW + HOUR - 1, NOW + 2 * HOUR, third), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "another 1 s"));
  assert_ok(by_job_key_rotate(second, NOW + HOUR, NOW + 2 * HOUR, third));
  char now[BY_JOB_KEY_TEXT];
  strcpy(now, parts.now);
  assert_ok(by_job_key_split(third, &parts));
  assert_string_equal(parts.old, now);
  assert_memory_equal(parts.job, first_parts.job, sizeof parts.job);
  for (size_t i = 0; i < strlen(third); i++) { /* whatever is changed, and wherever it is cut */
    strcpy(damaged, third);
    damaged[i] = damaged[i] == '!' ? '?' : '!';
    assert_status(by_job_key_check(damaged), BANYAN_ERR_ARGUMENT);
    damaged[i] = '\0';
    bool whole = i == BY_JOB_KEY_TEXT - 1 || i == BY_JOB_KEY_TEXT + 68; /* a key, and one with what names the job */
    assert_status(by_job_key_check(damaged), whole ? BANYAN_OK : BANYAN_ERR_ARGUMENT);
  }
  snprintf(damaged, sizeof damaged, "%s ", third);
  assert_status(by_job_key_check(damaged), BANYAN_ERR_ARGUMENT);
  write_file(third, 0600);
  assert_ok(by_job_key_read(path, damaged));
  assert_string_equal(damaged, third);
}

/* Nothing of the old key stays in the text when it has ended; what names the job does. */
static void test_old_key_is_wiped(void **state) {
  (void)state;
  enum { NOW = 1795000000, HOUR = 3600 };
  char text[BY_JOB_KEY_MAX] = "", kept[BY_JOB_KEY_MAX];
  struct by_job_key before, after;
  assert_ok(by_job_key_rotate(JOB_KEY, NOW, NOW + HOUR, text));
  assert_ok(by_job_key_split(text, &before));
  strcpy(kept, text);
  assert_false(by_job_key_drop_ended(text, NOW + HOUR - 1));
  assert_string_equal(text, kept);
  assert_true(by_job_key_drop_ended(text, NOW + HOUR));
  assert_null(memmem(text, sizeof text, "5a5a", 4));
  assert_ok(by_job_key_split(text, &after));
  assert_string_equal(after.now, before.now);
  assert_string_equal(after.old, "");
  assert_memory_equal(after.job, before.job, sizeof after.job);
  assert_false(by_job_key_drop_ended(text, NOW + 2 * HOUR));
  assert_ok(by_job_key_rotate(text, NOW, NOW + HOUR, kept)); /* it can be replaced as any other */
  assert_ok(by_job_key_split(kept, &before));
  assert_string_equal(before.old, after.now);
  assert_memory_equal(before.job, after.job, sizeof after.job);
  strcpy(text, JOB_KEY);
  assert_false(by_job_key_drop_ended(text, NOW + HOUR));
  assert_string_equal(text, JOB_KEY);
}

static void test_shared(void **state) {
  (void)state;
  char key[BY_JOB_KEY_MAX], place[64];
  int fd;
  assert_ok(by_job_key_share(JOB_KEY, &fd));
  snprintf(place, sizeof place, "/proc/%d/fd/%d", (int)getpid(), fd);
  for (int i = 0; i < 2; i++) {
    assert_ok(by_job_key_read(place, key));
    assert_string_equal(key, JOB_KEY);
  }
  assert_int_equal(write(fd, "x", 1), -1);
  assert_int_equal(ftruncate(fd, 0), -1);
  pid_t child = fork();
  if (child == 0) { /* another user cannot open it */
    if (geteuid() != 0) _exit(0);
    if (setgid(65534) || setuid(65534)) _exit(2);
    _exit(open(place, O_RDONLY) >= 0 ? 1 : 0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  by_close(fd);
  assert_status(by_job_key_read(place, key), BANYAN_ERR_SYSTEM);
}

static void test_settings(void **state) {
  (void)state;
  struct by_settings s;
  write_file(JOB_KEY "\n", 0600);
  setenv("BANYAN_KEY_FILE", path, 1);
  assert_ok(by_settings_read(&s));
  assert_ok(by_settings_find_key(&s));
  assert_string_equal(s.key, JOB_KEY);
  by_settings_wipe_key(&s);
  assert_null(s.key);
  assert_null(memmem(&s, sizeof s, "5a5a", 4));
  setenv("BANYAN_KEY", OTHER_JOB_KEY, 1);
  assert_ok(by_settings_read(&s));
  assert_status(by_settings_find_key(&s), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "unset BANYAN_KEY"));
  unsetenv("BANYAN_KEY_FILE");
  assert_ok(by_settings_read(&s));
  assert_ok(by_settings_find_key(&s));
  assert_string_equal(s.key, OTHER_JOB_KEY);
  unsetenv("BANYAN_KEY");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_generated), cmocka_unit_test(test_others_are_rejected),
      cmocka_unit_test(test_files),     cmocka_unit_test(test_no_files),
      cmocka_unit_test(test_replacing), cmocka_unit_test(test_old_key_is_wiped),
      cmocka_unit_test(test_shared),    cmocka_unit_test(test_settings),
  };
  int fd = mkstemp(path);
  if (fd < 0) return 1;
  close(fd);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(path);
  return failed;
}
