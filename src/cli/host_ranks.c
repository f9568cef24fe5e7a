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

#include "pin.h"

static struct rlimit files; /* as we found it */

void by_ranks_prepare(void) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (getrlimit(RLIMIT_NOFILE, &files)) return;
  struct rlimit more = {.rlim_cur = files.rlim_max, .rlim_max = files.rlim_max};
  setrlimit(RLIMIT_NOFILE, &more);
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

/* In the child: becomes the rank. */
static _Noreturn void become_rank(const struct by_host_job *job, int index, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1); /* it died before prctl took hold */
  reset_signals();
  if (files.rlim_max) setrlimit(RLIMIT_NOFILE, &files);
  if (job->pin >= 0 && !by_pin_process(job->pin + index)) fprintf(stderr, "banyan run: cannot bind to a core\n");
  set_environment(job, index);
  execvp(job->command[0], job->command);
  fprintf(stderr, "banyan run: cannot run %s: %s\n", job->command[0], strerror(errno));
  _exit(errno == ENOENT ? 127 : 126);
}

enum banyan_status by_rank_start(const struct by_host_job *job, int index, struct by_rank_process *out) {
  int ends[2][2] = {{-1, -1}, {-1, -1}}, nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  pid_t parent = getpid(), pid = -1;
  if (nothing >= 0 && !pipe2(ends[0], O_CLOEXEC) && !pipe2(ends[1], O_CLOEXEC)) pid = fork();
  if (pid == 0) {
    redirect(nothing, ends[0][1], ends[1][1]);
    become_rank(job, index, parent);
  }
  int reason = errno;
  close(nothing);
  for (int i = 0; i < 2; i++) {
    close(ends[i][1]);
    if (pid < 0)
      close(ends[i][0]);
    else
      by_cli_nonblock(ends[i][0]);
  }
  if (pid < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot start rank %d", job->first + index);
  setpgid(pid, pid); /* here as well: a signal to the group may come before the child runs */
  *out = (struct by_rank_process){.pid = pid, .pipes = {ends[0][0], ends[1][0]}};
  return BANYAN_OK;
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
