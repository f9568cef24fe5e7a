#include "host_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log.h"
#include "pin.h"
#include "stop.h"

static struct rlimit files; /* as we found it */

void by_ranks_prepare(void) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  by_allow_files(&files);
}

static void set_number(const char *name, int number) {
  char text[16];
  snprintf(text, sizeof text, "%d", number);
  setenv(name, text, 1);
}

static void set_environment(const struct by_host_job *job, int index) {
  for (char **e = job->environment; *e; e++) putenv(*e);
  set_number("BANYAN_RANK", job->first + index);
  set_number("BANYAN_SIZE", job->size);
  set_number("BANYAN_LOCAL_RANK", index);
  set_number("BANYAN_LOCAL_SIZE", job->ranks);
  if (job->ranks == 1 || getenv("OMP_NUM_THREADS")) return;
  setenv("OMP_NUM_THREADS", "1", 1); /* else each rank starts as many threads as there are cores */
  if (index == 0)
    by_info("launch", "OMP_NUM_THREADS=1, because %d ranks share this host; set it to use more threads", job->ranks);
}

static void reset_signals(void) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGPIPE, SIG_DFL);
}

static void redirect(int in, int out, int err) {
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
}

static int exit_code_of(int reason) {
  return reason == ENOENT ? 127 : 126;
}

/* In the child: becomes the rank, or tells why not. */
static _Noreturn void become_rank(const struct by_host_job *job, int index, pid_t parent, int failed) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1); /* it died before prctl took hold */
  reset_signals();
  if (files.rlim_max) setrlimit(RLIMIT_NOFILE, &files);
  if (job->pin >= 0 && !by_pin_process(job->pin + index)) fprintf(stderr, "banyan run: cannot bind to a core\n");
  set_environment(job, index);
  execvp(job->command[0], job->command);
  int reason = errno;
  if (failed < 0 || write(failed, &reason, sizeof reason) != sizeof reason)
    fprintf(stderr, "banyan run: cannot run %s: %s\n", job->command[0], strerror(reason));
  _exit(exit_code_of(reason));
}

/* Waits until the child has become the rank, which closes its end, or has told why not. Closes this end. */
static enum banyan_status hear_failure(const struct by_host_job *job, int failed, int *exit_code) {
  int reason = 0;
  ssize_t n;
  do n = read(failed, &reason, sizeof reason);
  while (n < 0 && errno == EINTR);
  close(failed);
  if (n != sizeof reason) return BANYAN_OK;
  *exit_code = exit_code_of(reason);
  return by_fail(BANYAN_ERR_ARGUMENT, "cannot run %s: %s", job->command[0], strerror(reason));
}

static bool make_pipes(int pipes[3][2], int n) {
  for (int i = 0; i < n; i++)
    if (pipe2(pipes[i], O_CLOEXEC)) return false;
  return true;
}

static void close_ends(int pipes[3][2], int end) {
  for (int i = 0; i < 3; i++)
    if (pipes[i][end] >= 0) close(pipes[i][end]);
}

enum banyan_status by_rank_start(const struct by_host_job *job, int index, struct by_rank_process *out,
                                 int *exit_code) {
  int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}}, nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  pid_t parent = getpid(), pid = -1;
  if (nothing >= 0 && make_pipes(pipes, index == 0 ? 3 : 2)) pid = fork();
  if (pid == 0) {
    redirect(nothing, pipes[0][1], pipes[1][1]);
    become_rank(job, index, parent, pipes[2][1]);
  }
  int reason = errno;
  close(nothing);
  close_ends(pipes, 1);
  if (pid < 0) {
    close_ends(pipes, 0);
    return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot start rank %d", job->first + index);
  }
  setpgid(pid, pid); /* here as well: a signal to the group may come before the child runs */
  for (int i = 0; i < 2; i++) by_cli_nonblock(pipes[i][0]);
  *out = (struct by_rank_process){.pid = pid, .pipes = {pipes[0][0], pipes[1][0]}};
  return index == 0 ? hear_failure(job, pipes[2][0], exit_code) : BANYAN_OK;
}

pid_t by_rank_reap(int *status) {
  siginfo_t info = {0};
  if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) || !info.si_pid) return 0;
  kill(-info.si_pid, SIGKILL); /* not yet reaped, so nobody else can have this number */
  waitpid(info.si_pid, status, 0);
  return info.si_pid;
}

/* Kills the children of this process; false if there are none. */
static bool kill_children(void) {
  FILE *file = fopen("/proc/thread-self/children", "re");
  int pid;
  bool any = false;
  if (!file) return false;
  while (fscanf(file, "%d", &pid) == 1) {
    any = true;
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
  }
  fclose(file);
  return any;
}

void by_ranks_sweep(void) {
  while (kill_children() && waitpid(-1, NULL, 0) > 0) continue;
}
