#include "launch_report.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

const char *by_print_wait_status(int status, char *out, size_t room) {
  if (WIFSIGNALED(status))
    snprintf(out, room, "killed by signal %d (%s)%s", WTERMSIG(status), strsignal(WTERMSIG(status)),
             WCOREDUMP(status) ? ", core dumped" : "");
  else
    snprintf(out, room, "exit code %d", WEXITSTATUS(status));
  return out;
}

int by_wait_exit_code(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
