/* Runs the preemption command every few seconds. */
#include "run_host.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "launch_io.h"
#include "process.h"
#include "text.h"

enum { MAX_REASON = 256 };

void by_preemption_init(struct by_preemption *p, const char *command, uint64_t now) {
  *p = (struct by_preemption){
      .command = *command ? by_cli_print("%s", command) : NULL, .output = -1, .due = *command ? now : UINT64_MAX};
}

void by_preemption_fini(struct by_preemption *p) {
  free(p->command);
  by_cli_close(&p->output);
}

static _Noreturn void become_shell(const char *command, int output) {
  int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  by_restore_signals();
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(nothing, STDERR_FILENO);
  execl("/bin/sh", "sh", "-c", command, (char *)NULL);
  _exit(127);
}

static void start_command(struct by_preemption *p) {
  int pipes[1][2];
  if (!by_cli_pipes(pipes, 1)) return;
  p->pid = fork();
  if (p->pid == 0) become_shell(p->command, pipes[0][1]);
  by_cli_close(&pipes[0][1]);
  p->output = pipes[0][0];
  by_cli_nonblock(p->output);
  if (p->pid > 0) return;
  p->pid = 0;
  by_cli_close(&p->output);
}

void by_preemption_tick(struct by_preemption *p, uint64_t now) {
  if (now < p->due) return;
  if (p->pid) {
    kill(-p->pid, SIGKILL);
    kill(p->pid, SIGKILL);
    p->due = UINT64_MAX; /* Its end follows. */
    return;
  }
  start_command(p);
  p->due = now + (p->pid ? BY_PREEMPTION_LONGEST : BY_PREEMPTION_INTERVAL) * BY_SECOND;
}

static void read_reason(int output, char *reason, size_t capacity) {
  char line[MAX_REASON] = "";
  ssize_t n = read(output, line, sizeof line - 1);
  line[MAX(n, 0)] = 0;
  line[strcspn(line, "\r\n")] = 0;
  by_keep_printable(*line ? line : "its preemption command has reported it", reason, capacity);
}

bool by_preemption_ended(struct by_preemption *p, pid_t pid, int status, uint64_t now, char *reason, size_t capacity) {
  if (!p->pid || pid != p->pid) return false;
  bool announced = status == 0;
  if (announced) read_reason(p->output, reason, capacity);
  if (WIFEXITED(status) && WEXITSTATUS(status) >= 126 && !p->reported) {
    fprintf(stderr, "banyan run: the preemption command cannot be run (exit code %d): %s\n", WEXITSTATUS(status),
            p->command);
    p->reported = true;
  }
  by_cli_close(&p->output);
  p->pid = 0;
  p->due = announced ? UINT64_MAX : now + BY_PREEMPTION_INTERVAL * BY_SECOND;
  return announced;
}
