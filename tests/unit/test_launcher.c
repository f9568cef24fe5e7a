#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "settings.h"

static const char *const variables[] = {
    "BANYAN_RANK",
    "BANYAN_SIZE",
    "BANYAN_ROOT",
    "BANYAN_KEY",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "PMIX_NAMESPACE",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_STEP_NODELIST",
    "SLURM_JOB_NODELIST",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_JOB_END_TIME",
    "RANK",
    "WORLD_SIZE",
    "TORCHELASTIC_RUN_ID",
    "MASTER_ADDR",
    "MASTER_PORT",
    "BANYAN_END_TIME",
    "LOCAL_WORLD_SIZE",
    "BANYAN_KEY_FILE",
};

static int clear_environment(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) unsetenv(variables[i]);
  return 0;
}

static void set(const char *name, const char *value) {
  assert_int_equal(setenv(name, value, 1), 0);
}

/* ---- node lists ---- */

static void check_first_host(const char *list, const char *wanted) {
  char host[64] = "";
  enum banyan_status status = by_slurm_first_host(list, host, sizeof host);
  if (status != BANYAN_OK) fail_msg("%s: %s", list, banyan_error_text());
  if (strcmp(host, wanted) != 0) fail_msg("%s gives %s, not %s", list, host, wanted);
}

static void test_first_host(void **state) {
  (void)state;
  check_first_host("gpu3", "gpu3");
  check_first_host("alpha,beta", "alpha");
  check_first_host("node[07-09,12],gpu3", "node07");
  check_first_host("node[3,5-7]", "node3");
  check_first_host("node[11]", "node11");
  check_first_host("gpu3,node[07-09]", "gpu3");
  check_first_host("10.0.0.7,10.0.0.8", "10.0.0.7");
  check_first_host("a-b-c[001-128]", "a-b-c001");
  check_first_host("node[1-2]-ib", "node1-ib");
  check_first_host("node[1,3].cluster,gpu3", "node1.cluster");
  check_first_host("rack[2-3]n[07,09]-ib,x[1-2]", "rack2n07-ib");
  check_first_host("[1-2]", "1");
}

static void test_no_first_host(void **state) {
  (void)state;
  char host[16];
  assert_status(by_slurm_first_host("", host, sizeof host), BANYAN_ERR_PARSE);
  assert_status(by_slurm_first_host(",alpha", host, sizeof host), BANYAN_ERR_PARSE);
  assert_status(by_slurm_first_host("node[7", host, sizeof host), BANYAN_ERR_PARSE);
}

/* One name just fits and one does not: nothing is written beyond the buffer. */
static void test_room(void **state) {
  (void)state;
  char host[8] = "xxxxxxx";
  assert_ok(by_slurm_first_host("node[12-13]", host, 7));
  assert_string_equal(host, "node12");
  assert_status(by_slurm_first_host("node[123-124]", host, 7), BANYAN_ERR_PARSE);
  assert_int_equal(host[7], 0);
}

/* ---- launchers ---- */

static void check_place(const char *source, long rank, long size) {
  struct by_settings s;
  assert_ok(by_settings_read(&s));
  assert_int_equal(s.rank, rank);
  assert_int_equal(s.size, size);
  assert_string_equal(s.source, source);
}

static void test_open_mpi(void **state) {
  (void)state;
  set("OMPI_COMM_WORLD_RANK", "2");
  set("OMPI_COMM_WORLD_SIZE", "4");
  check_place("Open MPI's mpirun", 2, 4);
}

static void test_mpich(void **state) {
  (void)state;
  set("PMI_RANK", "0");
  set("PMI_SIZE", "1");
  check_place("MPICH's mpirun", 0, 1);
}

static void test_no_launcher(void **state) {
  (void)state;
  struct by_settings s;
  assert_ok(by_settings_read(&s));
  assert_int_equal(s.rank, -1);
  assert_int_equal(s.size, -1);
  set("RANK", "1"); /* Other programs use this variable too: alone it means nothing. */
  assert_ok(by_settings_read(&s));
  assert_int_equal(s.rank, -1);
}

static void test_bad_place(void **state) {
  (void)state;
  struct by_settings s;
  set("OMPI_COMM_WORLD_RANK", "two");
  set("OMPI_COMM_WORLD_SIZE", "4");
  assert_status(by_settings_read(&s), BANYAN_ERR_PARSE);
  assert_non_null(strstr(banyan_error_text(), "OMPI_COMM_WORLD_RANK"));
  set("OMPI_COMM_WORLD_RANK", "0");
  set("OMPI_COMM_WORLD_SIZE", "0");
  assert_status(by_settings_read(&s), BANYAN_ERR_PARSE);
  assert_non_null(strstr(banyan_error_text(), "OMPI_COMM_WORLD_SIZE"));
}

/* ---- rendezvous ---- */

static void set_slurm(const char *job, const char *step) {
  set("SLURM_PROCID", "5");
  set("SLURM_NTASKS", "8");
  set("SLURM_JOB_ID", job);
  set("SLURM_STEP_ID", step);
  set("SLURM_JOB_NODELIST", "batch1");
  set("SLURM_STEP_NODELIST", "node[07-08]");
}

/* All ranks of a step must derive the same address, and two steps of a job must derive different ones. */
static void test_slurm(void **state) {
  (void)state;
  struct by_settings first, again, other;
  set_slurm("1234", "0");
  assert_ok(by_settings_read(&first));
  assert_int_equal(first.rank, 5);
  assert_int_equal(first.size, 8);
  assert_string_equal(first.source, "Slurm");
  assert_memory_equal(first.root, "node07:", 7);
  long port = strtol(first.root + 7, NULL, 10);
  assert_in_range(port, 20000, 29999);
  assert_null(first.key); /* Slurm has no shared secret. */
  set("SLURM_PROCID", "0");
  assert_ok(by_settings_read(&again));
  assert_string_equal(again.root, first.root);
  set("SLURM_STEP_ID", "1");
  assert_ok(by_settings_read(&other));
  assert_string_not_equal(other.root, first.root);
}

static void test_slurm_job_without_step(void **state) {
  (void)state;
  struct by_settings s;
  set_slurm("1234", "0");
  unsetenv("SLURM_STEP_NODELIST");
  unsetenv("SLURM_STEP_ID");
  assert_ok(by_settings_read(&s));
  assert_memory_equal(s.root, "batch1:", 7);
}

/* Also where `banyan run` or another launcher runs within the job. */
static void test_slurm_end(void **state) {
  struct by_settings s;
  (void)state;
  set_slurm("1234", "0");
  assert_ok(by_settings_read(&s));
  assert_int_equal(s.end_time, 0);
  set("SLURM_JOB_END_TIME", "1800000000");
  assert_ok(by_settings_read(&s));
  assert_int_equal(s.end_time, 1800000000);
  set("BANYAN_RANK", "1");
  set("BANYAN_SIZE", "2");
  assert_ok(by_settings_read(&s));
  assert_int_equal(s.end_time, 1800000000);
  set("BANYAN_END_TIME", "1700000000");
  assert_ok(by_settings_read(&s));
  assert_int_equal(s.end_time, 1700000000);
  unsetenv("BANYAN_END_TIME");
  set("SLURM_JOB_END_TIME", "");
  assert_ok(by_settings_read(&s));
  assert_int_equal(s.end_time, 0);
  set("SLURM_JOB_END_TIME", "2026-11-27T13:00:00");
  assert_status(by_settings_read(&s), BANYAN_ERR_PARSE);
  assert_non_null(strstr(banyan_error_text(), "SLURM_JOB_END_TIME"));
}

static void test_slurm_keeps_what_is_set(void **state) {
  (void)state;
  struct by_settings s;
  set_slurm("1234", "0");
  set("BANYAN_ROOT", "alpha:5000");
  set("BANYAN_KEY", "secret");
  assert_ok(by_settings_read(&s));
  assert_string_equal(s.root, "alpha:5000");
  assert_string_equal(s.key, "secret");
}

static void test_slurm_bad_list(void **state) {
  (void)state;
  struct by_settings s;
  set_slurm("1234", "0");
  set("SLURM_STEP_NODELIST", "node[7");
  assert_status(by_settings_read(&s), BANYAN_ERR_PARSE);
  assert_non_null(strstr(banyan_error_text(), "node[7"));
}

static void set_torchrun(const char *rank) {
  set("RANK", rank);
  set("WORLD_SIZE", "4");
  set("MASTER_ADDR", "alpha");
  set("MASTER_PORT", "29500");
  set("TORCHELASTIC_RUN_ID", "a1b2");
}

/* The store of torchrun listens on MASTER_PORT itself. */
static void test_torchrun(void **state) {
  (void)state;
  struct by_settings s;
  set_torchrun("3");
  assert_ok(by_settings_read(&s));
  assert_int_equal(s.rank, 3);
  assert_int_equal(s.size, 4);
  assert_string_equal(s.source, "torchrun");
  assert_string_equal(s.root, "alpha:29501");
  assert_null(s.key); /* The run's id can be guessed. */
}

static void test_torchrun_ipv6(void **state) {
  (void)state;
  struct by_settings s;
  set_torchrun("1");
  set("MASTER_ADDR", "fd00::7");
  assert_ok(by_settings_read(&s));
  assert_string_equal(s.root, "[fd00::7]:29501");
}

static void test_torchrun_keeps_what_is_set(void **state) {
  (void)state;
  struct by_settings s;
  set_torchrun("1");
  set("BANYAN_ROOT", "beta:7000");
  set("BANYAN_KEY", "secret");
  assert_ok(by_settings_read(&s));
  assert_string_equal(s.root, "beta:7000");
  assert_string_equal(s.key, "secret");
}

static void test_torchrun_bad_port(void **state) {
  (void)state;
  struct by_settings s;
  static const char *const bad[] = {"http", "0", "65535", "-1", ""};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    set_torchrun("1");
    set("MASTER_PORT", bad[i]);
    assert_status(by_settings_read(&s), BANYAN_ERR_PARSE);
    assert_non_null(strstr(banyan_error_text(), "MASTER_PORT"));
  }
}

/* Here torchrun runs inside a Slurm step. Whatever that step has for MPI, the variables of Slurm describe
 * torchrun itself. */
static void test_torchrun_inside_slurm(void **state) {
  (void)state;
  set_slurm("1234", "0");
  set_torchrun("3");
  check_place("torchrun", 3, 4);
  set("PMI_RANK", "5");
  set("PMI_SIZE", "8");
  check_place("torchrun", 3, 4);
  set("OMPI_COMM_WORLD_RANK", "1");
  set("OMPI_COMM_WORLD_SIZE", "2");
  check_place("torchrun", 3, 4);
  unsetenv("TORCHELASTIC_RUN_ID"); /* The remaining variables are set by hand, for ranks that Open MPI starts. */
  check_place("Open MPI's mpirun", 1, 2);
  unsetenv("OMPI_COMM_WORLD_RANK");
  check_place("torchrun", 3, 4);
  unsetenv("MASTER_PORT"); /* Then any launcher may have set the others. */
  check_place("Slurm", 5, 8);
}

/* With --mpi=pmi2, srun sets MPICH's variables with the same values; MPICH's own mpirun inside a job sets others. */
static void test_pmi2(void **state) {
  (void)state;
  struct by_settings s;
  set_slurm("1234", "0");
  set("PMI_RANK", "5");
  set("PMI_SIZE", "8");
  check_place("Slurm", 5, 8);
  assert_ok(by_settings_read(&s));
  assert_memory_equal(s.root, "node07:", 7);
  set("PMI_SIZE", "2");
  set("PMI_RANK", "1");
  check_place("MPICH's mpirun", 1, 2);
}

/* Without torchrun's agent there is no run ID, and so no key: the error of joining names the setting. */
static void test_no_run_id(void **state) {
  (void)state;
  struct by_settings s;
  set_torchrun("1");
  unsetenv("TORCHELASTIC_RUN_ID");
  assert_ok(by_settings_read(&s));
  assert_string_equal(s.root, "alpha:29501");
  assert_null(s.key);
}

#define WITH_CLEAN_ENVIRONMENT(test) cmocka_unit_test_setup_teardown(test, clear_environment, clear_environment)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_first_host),
      cmocka_unit_test(test_no_first_host),
      cmocka_unit_test(test_room),
      WITH_CLEAN_ENVIRONMENT(test_open_mpi),
      WITH_CLEAN_ENVIRONMENT(test_mpich),
      WITH_CLEAN_ENVIRONMENT(test_no_launcher),
      WITH_CLEAN_ENVIRONMENT(test_bad_place),
      WITH_CLEAN_ENVIRONMENT(test_slurm),
      WITH_CLEAN_ENVIRONMENT(test_slurm_job_without_step),
      WITH_CLEAN_ENVIRONMENT(test_slurm_end),
      WITH_CLEAN_ENVIRONMENT(test_slurm_keeps_what_is_set),
      WITH_CLEAN_ENVIRONMENT(test_slurm_bad_list),
      WITH_CLEAN_ENVIRONMENT(test_torchrun),
      WITH_CLEAN_ENVIRONMENT(test_torchrun_ipv6),
      WITH_CLEAN_ENVIRONMENT(test_torchrun_keeps_what_is_set),
      WITH_CLEAN_ENVIRONMENT(test_torchrun_bad_port),
      WITH_CLEAN_ENVIRONMENT(test_torchrun_inside_slurm),
      WITH_CLEAN_ENVIRONMENT(test_pmi2),
      WITH_CLEAN_ENVIRONMENT(test_no_run_id),
  };
  return cmocka_run_group_tests(tests, clear_environment, NULL);
}
