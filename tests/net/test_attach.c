/* Ordinary memory read by cross-memory attach, and what happens where that is not, or no longer, permitted. */
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "check.h"
#include "net_operations.h"

/* From now on no process without privileges can read this one, and this one has none. */
static void forbid_attach(void) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[2];
  must_hold(syscall(SYS_capget, &header, data) == 0);
  data[0].effective &= ~(1u << CAP_SYS_PTRACE);
  data[0].permitted &= ~(1u << CAP_SYS_PTRACE);
  must_hold(syscall(SYS_capset, &header, data) == 0);
  must_hold(prctl(PR_SET_DUMPABLE, 0) == 0);
}

static bool can_read(int pid, const void *address) {
  char byte;
  struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)address, 1};
  return process_vm_readv(pid, &here, 1, &there, 1, 0) == 1;
}

/* Whether ranks can read this word of each other, which lies at the same address in all: they were forked. */
static bool anybody_can_read(struct banyan_comm *world, int ranks) {
  static int word;
  int pid = getpid(), pids[JOB_RANKS], can = 0;
  must(banyan_allgather(world, &pid, pids, 1, BANYAN_INT32));
  for (int r = 0; r < ranks; r++) can |= pids[r] != pid && can_read(pids[r], &word);
  must(banyan_allreduce(world, &can, &can, 1, BANYAN_INT32, BANYAN_OR));
  return can;
}

static void some_operations(struct banyan_comm *world, struct by_rng *rng) {
  static const char *const plans[] = {NULL, "ring", "star", "double-tree"};
  for (int p = 0; p < 4; p++) {
    must(banyan_comm_set_plan(world, plans[p]));
    for (int i = 0; i < 4; i++) {
      struct operation operation;
      operation_choose(rng, banyan_comm_size(world), -1, 400000, &operation);
      operation_do(world, &operation, 0);
    }
  }
}

static void rank_attach(struct job *job, int rank) {
  (void)rank;
  struct by_rng rng;
  by_rng_init(&rng, job->seed);
  setenv("BANYAN_ATTACH", "8K", 1);
  bool at_once = by_rng_below(&rng, 2);
  if (at_once) forbid_attach();
  struct banyan_comm *world = job_join();
  if (!at_once) {
    some_operations(world, &rng);
    must(banyan_barrier(world));
    forbid_attach();
  }
  must_hold(!anybody_can_read(world, job->n));
  some_operations(world, &rng);
  banyan_comm_destroy(world);
}

static void test_attach(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(8); i++) {
    struct job job = {.n = 2 + i % 3, .run = rank_attach, .transport = "shm", .seed = job_seed(i)};
    job_run(&job);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_attach),
  };
  return cmocka_run_group_tests_name("cross-memory attach", tests, NULL, NULL);
}
