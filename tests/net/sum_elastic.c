/* sum_elastic STEPS [PAUSE [WAIT [TRIES]]]: what test_run_elastic.sh and test_partitions.sh start as each process. It
 * counts its group's members again and again, with PAUSE seconds (0.01) in between, however that changes, for at most
 * WAIT seconds (40) each time, until STEPS are done; a newcomer begins at the step at which the others are. It prints
 * each group that it is in, tries to find the first one TRIES times (1), and ends with 0 when the steps are done, with
 * 3 if a sum was wrong, and with 1 on an error, or if it is in no group any more. With BANYAN_TEST_TOUCH=FOLDER it
 * makes the file FOLDER/STEP at each tenth step, rank 0 writes the handles of its group to FOLDER/members, and the last
 * step is done when FOLDER/go is there. With BANYAN_TEST_LEAVE=RANK the process that was started as this rank leaves by
 * itself at step 5. */
#include <banyan/banyan.h>
#include <banyan/elastic.h>

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1000, WRONG = 3, WANTED = 0, HELD = 1 };

static int fail(const char *what, struct banyan_member *member) {
  fprintf(stderr, "%s: %s\n", what, banyan_error_text());
  banyan_member_destroy(member);
  return EXIT_FAILURE;
}

static void touch(int step) {
  char path[256];
  const char *folder = getenv("BANYAN_TEST_TOUCH");
  if (!folder || step % 10) return;
  snprintf(path, sizeof path, "%s/%d", folder, step);
  int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0) close(fd);
}

static void write_handles(const struct banyan_member *member) {
  char path[256], made[256];
  const char *folder = getenv("BANYAN_TEST_TOUCH"), *const * handles;
  int n = banyan_member_handles(member, &handles);
  if (!folder) return;
  snprintf(path, sizeof path, "%s/new", folder);
  snprintf(made, sizeof made, "%s/members", folder);
  FILE *file = fopen(path, "we");
  for (int i = 0; file && i < n; i++) fprintf(file, "%s%s", i ? "," : "", handles[i]);
  if (file && fclose(file) == 0) rename(path, made);
}

/* Whether the test does not yet allow this process to end. */
static bool is_held(void) {
  char path[256];
  const char *folder = getenv("BANYAN_TEST_TOUCH");
  if (!folder) return false;
  snprintf(path, sizeof path, "%s/go", folder);
  return access(path, F_OK) != 0;
}

static bool wants_to_leave(int step) {
  const char *leaver = getenv("BANYAN_TEST_LEAVE"), *self = getenv("BANYAN_RANK");
  return step == 5 && leaver && self && !strcmp(leaver, self);
}

/* The step at which the group goes on: where the furthest one is. */
static enum banyan_status begin(struct banyan_comm *comm, int *step) {
  printf("rank %d of %d\n", banyan_comm_rank(comm), banyan_comm_size(comm));
  fflush(stdout);
  return banyan_allreduce(comm, step, step, 1, BANYAN_INT32, BANYAN_MAX);
}

/* Steps until the last one, a failure, or a change that somebody wants. *wrong: a sum was wrong. */
static enum banyan_status work(struct banyan_member *member, struct banyan_comm *comm, int *step, int steps,
                               useconds_t pause, int *wrong, bool *held) {
  int numbers[COUNT] = {[HELD] = 1};
  enum banyan_status status = begin(comm, step);
  if (banyan_comm_rank(comm) == 0) write_handles(member);
  while (status == BANYAN_OK && (*step < steps || numbers[HELD])) {
    for (int i = 0; i < COUNT; i++) numbers[i] = 1;
    numbers[WANTED] = banyan_member_change_wanted(member);
    numbers[HELD] = is_held();
    status = banyan_allreduce(comm, numbers, numbers, COUNT, BANYAN_INT32, BANYAN_SUM);
    if (status != BANYAN_OK) return status;
    for (int i = HELD + 1; i < COUNT; i++) *wrong |= numbers[i] != banyan_comm_size(comm);
    touch(++*step);
    if (wants_to_leave(*step) && banyan_member_leave(member) != BANYAN_OK) return BANYAN_ERR_SYSTEM;
    *held = numbers[HELD] != 0;
    if (numbers[WANTED] || *wrong) return BANYAN_OK;
    usleep(pause);
  }
  return status;
}

int main(int argc, char **argv) {
  struct banyan_member *member;
  struct banyan_comm *comm;
  int steps = argc > 1 ? atoi(argv[1]) : 1, step = 0, wrong = 0;
  bool held = false;
  useconds_t pause = (useconds_t)(1e6 * (argc > 2 ? atof(argv[2]) : 0.01));
  double wait = argc > 3 ? atof(argv[3]) : 40;
  if (banyan_member_create(NULL, &member) != BANYAN_OK) return fail("create", NULL);
  enum banyan_status status = banyan_member_start(member, wait, &comm);
  for (int tries = argc > 4 ? atoi(argv[4]) : 1; status == BANYAN_ERR_TIMEOUT && tries > 1; tries--) {
    printf("starts again\n");
    status = banyan_member_start(member, wait, &comm);
  }
  if (status == BANYAN_ERR_CLOSED) {
    printf("not started: %s\n", banyan_error_text());
    banyan_member_destroy(member);
    return EXIT_FAILURE;
  }
  if (status != BANYAN_OK) return fail("start", member);
  for (;;) {
    status = work(member, comm, &step, steps, pause, &wrong, &held);
    if (wrong) return WRONG;
    if (status == BANYAN_OK && step >= steps && !held) break;
    if (status != BANYAN_OK) fprintf(stderr, "step %d: %s\n", step, banyan_error_text());
    banyan_comm_destroy(comm);
    comm = NULL;
    status = banyan_member_recover(member, wait, &comm);
    if (status == BANYAN_ERR_CLOSED) {
      printf("left at step %d: %s\n", step, banyan_error_text());
      break;
    }
    if (status != BANYAN_OK) return fail("recover", member);
  }
  if (comm) printf("done as rank %d of %d\n", banyan_comm_rank(comm), banyan_comm_size(comm));
  int exit_code = comm ? EXIT_SUCCESS : EXIT_FAILURE;
  banyan_comm_destroy(comm);
  banyan_member_destroy(member);
  return exit_code;
}
