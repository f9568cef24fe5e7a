/* Tests of the costs that rank 0 finds for its machine. */
#include "machine_fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "clock.h"
#include "cost.h"
#include "file.h"

enum { TRIES = 100 /* beside load a measurement may be refused */ };

static struct by_fit_samples steady(double message, double trip, double byte) {
  struct by_fit_samples samples = {.encrypted = false};
  for (int i = 0; i < BY_FIT_BLOCKS; i++) {
    samples.message[i] = samples.bare[i] = message;
    samples.trip[i] = trip;
    samples.byte[i] = byte;
  }
  return samples;
}

static void expect(const struct by_fit_samples *samples, double hop, double message, double byte) {
  const struct by_cost_rates usual = by_cost_defaults();
  struct by_cost_rates rates = usual;
  assert_ok(by_fit_costs(samples, &rates));
  assert_true(fabs(rates.hop / hop - 1) < 1e-9);
  assert_true(fabs(rates.message / message - 1) < 1e-9);
  assert_true(fabs(rates.byte / byte - 1) < 1e-9);
  rates.hop = usual.hop;
  rates.message = usual.message;
  rates.byte = usual.byte;
  assert_memory_equal(&rates, &usual, sizeof rates); /* the others are as they were */
}

static void test_costs(void **state) {
  (void)state;
  const struct by_cost_rates usual = by_cost_defaults();
  struct by_fit_samples samples = steady(3e-6, 40e-6, 0.2e-9);
  expect(&samples, 17e-6, 3e-6, 0.2e-9);
  samples.trip[1] = samples.trip[6] = 1; /* odd blocks do not count */
  samples.message[2] = samples.message[5] = 1e-6;
  samples.bare[3] = samples.bare[4] = 1;
  expect(&samples, 17e-6, 3e-6, 0.2e-9);
  samples = steady(1, 10, 1);
  expect(&samples, 4 * usual.hop, 4 * usual.message, 4 * usual.byte);
  samples = steady(3e-6, 40e-6, 1e-9);
  samples.encrypted = true; /* hops as they are in plain text; the rest costs more */
  for (int i = 0; i < BY_FIT_BLOCKS; i++) samples.message[i] = 4e-6;
  expect(&samples, 17e-6, 4e-6, 1e-9);
  samples = steady(1e-9, 1e-9, 0);
  expect(&samples, usual.hop / 4, usual.message / 4, usual.byte / 4);
}

static void test_disturbed(void **state) {
  (void)state;
  for (int which = 0; which < 3; which++) {
    struct by_fit_samples samples = steady(3e-6, 40e-6, 0.2e-9);
    double *block = which == 0 ? samples.message : which == 1 ? samples.trip : samples.byte;
    struct by_cost_rates rates = by_cost_defaults(), before = rates;
    for (int i = BY_FIT_BLOCKS / 2; i < BY_FIT_BLOCKS; i++) block[i] *= 1.19;
    assert_ok(by_fit_costs(&samples, &rates));
    for (int i = BY_FIT_BLOCKS / 2; i < BY_FIT_BLOCKS; i++) block[i] *= 1.03;
    rates = before;
    assert_int_equal(by_fit_costs(&samples, &rates), BANYAN_ERR_UNSUPPORTED);
    assert_memory_equal(&rates, &before, sizeof rates);
  }
}

static void check_block(const struct by_fit_samples *samples, int i) {
  assert_true(samples->message[i] > 0 && samples->message[i] < 1);
  assert_true(samples->bare[i] > 0 && samples->bare[i] < 1);
  assert_true(samples->trip[i] > 0 && samples->trip[i] < 60);
  assert_true(samples->byte[i] >= 0 && samples->byte[i] < 1e-3);
}

static void test_measure(void **state) {
  (void)state;
  struct by_fit_samples samples;
  for (int encrypted = 0; encrypted < 2; encrypted++)
    assert_int_equal(by_fit_measure(0, encrypted, &samples), BANYAN_ERR_TIMEOUT);
  for (int i = 0; i < 2 * BY_FIT_BLOCKS; i++) {
    if (i % BY_FIT_BLOCKS == 0) assert_ok(by_fit_measure(60 * BY_SECOND, i > 0, &samples));
    check_block(&samples, i % BY_FIT_BLOCKS);
  }
}
/* ---- the file */

static void keep_text(const char *path, const char *text) {
  assert_ok(by_cache_write(path, text, strlen(text)));
}

/* Measures until nothing disturbs, and returns how many warnings are logged. */
static int fit(const struct by_cost_machine *machine, const char *path, struct by_cost_rates *rates) {
  FILE *log = tmpfile();
  int before = dup(STDERR_FILENO), lines = 0;
  char line[512];
  enum banyan_status status = BANYAN_ERR_ARGUMENT;
  assert_true(log && before >= 0 && dup2(fileno(log), STDERR_FILENO) >= 0);
  for (int i = 0; i < TRIES && status == BANYAN_ERR_ARGUMENT; i++) {
    by_machine_fit(60 * BY_SECOND);
    *rates = by_cost_defaults();
    status = by_machine_costs_read(machine, path, rates);
  }
  assert_true(dup2(before, STDERR_FILENO) >= 0 && close(before) == 0);
  assert_ok(status);
  rewind(log);
  while (fgets(line, sizeof line, log)) lines++;
  (void)fclose(log);
  return lines;
}

static void check_fitted(const struct by_cost_rates *rates) {
  const struct by_cost_rates usual = by_cost_defaults();
  const double found[] = {rates->hop, rates->message, rates->byte};
  const double known[] = {usual.hop, usual.message, usual.byte};
  for (int i = 0; i < 3; i++) assert_true(found[i] > known[i] / 4.1 && found[i] < known[i] * (i == 2 ? 16.1 : 4.1));
  assert_true(rates->call == usual.call && rates->wire == usual.wire && rates->grain == usual.grain);
}

static void test_file(void **state) {
  (void)state;
  char folder[] = "/tmp/banyan-fit-XXXXXX", within[64], path[BY_MACHINE_MAX_PATH], text[256];
  const struct by_cost_machine machine = by_machine_get();
  struct by_cost_rates rates;
  struct stat about;
  assert_non_null(mkdtemp(folder));
  snprintf(within, sizeof within, "%s/new", folder);
  setenv("BANYAN_CACHE", within, 1);
  assert_ok(by_machine_costs_path(&machine, path));
  assert_int_equal(fit(&machine, path, &rates), 0); /* the folder is made, too */
  check_fitted(&rates);
  assert_true(stat(path, &about) == 0 && (about.st_mode & 077) == 0);

  keep_text(path, "{"); /* damaged, of another machine, of the future: measured again, with one line */
  assert_int_equal(fit(&machine, path, &rates), 1);
  check_fitted(&rates);
  const char *form = "{\"format\": \"banyan-costs 1\", \"machine\": \"%s\", \"processors\": %llu, "
                     "\"costs\": \"hop=7us\", \"made\": %s}";
  snprintf(text, sizeof text, form, machine.name, (unsigned long long)machine.processors + 1, "1");
  keep_text(path, text);
  assert_int_equal(fit(&machine, path, &rates), 1);
  snprintf(text, sizeof text, form, machine.name, (unsigned long long)machine.processors, "1e15");
  keep_text(path, text);
  assert_int_equal(fit(&machine, path, &rates), 1);
  check_fitted(&rates);

  snprintf(text, sizeof text, form, machine.name, (unsigned long long)machine.processors, "1");
  keep_text(path, text); /* what is kept and can be used stays */
  assert_int_equal(fit(&machine, path, &rates), 0);
  assert_true(rates.hop == 7e-6);

  assert_int_equal(unlink(path), 0);
  setenv("BANYAN_CACHE", "off", 1);
  by_machine_fit(60 * BY_SECOND);
  assert_int_equal(access(path, F_OK), -1);
  unsetenv("BANYAN_CACHE");
  assert_true(rmdir(within) == 0 && rmdir(folder) == 0); /* nothing else was left there */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_costs),
      cmocka_unit_test(test_disturbed),
      cmocka_unit_test(test_measure),
      cmocka_unit_test(test_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
