#include "lab_keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/param.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

enum { LINE_BYTES = 1024, READY_MS = 30000 };

struct keeper {
  const struct by_keeper_task *task;
  int signals, output, ready;
  pid_t child; /* 0: none */
  bool again;  /* to be started when the one before has ended */
  char line[LINE_BYTES];
  size_t length;
};

static void say(const struct keeper *k, const char *text) {
  fprintf(stderr, "[%s] %s\n", k->task->name, text);
}

/* Nobody may look any more. */
static void tell(const struct keeper *k, char what) {
  if (write(k->ready, &what, 1) != 1) return;
}

/* ---- the command */

static _Noreturn void become(const struct keeper *k, int output, pid_t parent) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent)
    execv("/proc/self/exe", (char *const *)k->task->command);
  _exit(127);
}

static void start(struct keeper *k) {
  int ends[2];
  pid_t parent = getpid();
  k->again = false;
  k->length = 0;
  k->child = pipe2(ends, O_CLOEXEC) ? -1 : fork();
  if (k->child < 0) {
    say(k, strerror(errno));
    return;
  }
  if (k->child == 0) become(k, ends[1], parent);
  close(ends[1]);
  if (k->output >= 0) close(k->output);
  k->output = ends[0];
}

static void take_output(struct keeper *k) {
  ssize_t n = read(k->output, k->line + k->length, sizeof k->line - 1 - k->length);
  if (n <= 0) {
    close(k->output);
    k->output = -1;
    return;
  }
  k->length += (size_t)n;
  for (char *end; (end = memchr(k->line, '\n', k->length)) || k->length == sizeof k->line - 1;) {
    size_t used = end ? (size_t)(end - k->line) + 1 : k->length;
    k->line[used - (end ? 1 : 0)] = 0;
    say(k, k->line);
    if (strstr(k->line, ": ready")) tell(k, '+');
    k->length -= used;
    memmove(k->line, k->line + used, k->length);
  }
}

static void report_end(struct keeper *k) {
  int status;
  char text[96], line[160];
  if (k->child <= 0 || waitpid(k->child, &status, WNOHANG) != k->child) return;
  while (k->output >= 0) take_output(k);
  k->child = 0;
  tell(k, '-');
  snprintf(line, sizeof line, "%s %s: %s; kill -HUP %d starts it again", "banyan", k->task->command[1],
           by_print_wait_status(status, text, sizeof text), (int)getpid());
  if (k->again)
    start(k);
  else
    say(k, line);
}

static void take_signal(struct keeper *k) {
  struct signalfd_siginfo info;
  if (read(k->signals, &info, sizeof info) != sizeof info) return;
  if (info.ssi_signo == SIGCHLD) {
    report_end(k);
  } else if (k->child <= 0) {
    start(k);
  } else {
    k->again = true;
    kill(k->child, SIGTERM);
  }
}

/* ---- the keeper */

static void open_signals(struct keeper *k) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGHUP);
  sigprocmask(SIG_BLOCK, &set, NULL);
  k->signals = signalfd(-1, &set, SFD_CLOEXEC);
}

/* The terminal's signals are for the lab. Sockets for people have one name each on a machine of their own. */
static enum banyan_status settle(const struct by_keeper_task *task, pid_t parent) {
  setsid();
  prctl(PR_SET_NAME, "banyan-keeper");
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1); /* it died before prctl took hold */
  BY_TRY(by_lab_enter(task->lab, task->space));
  if (mount("banyan-lab", "/run", "tmpfs", 0, NULL))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot mount a /run of its own");
  return task->prepare ? task->prepare(task) : BANYAN_OK;
}

static _Noreturn void keep(const struct by_keeper_task *task, int ready, pid_t parent) {
  struct keeper k = {.task = task, .output = -1, .ready = ready};
  if (settle(task, parent)) {
    say(&k, banyan_error_text());
    _exit(1);
  }
  open_signals(&k);
  start(&k);
  for (;;) {
    struct pollfd wait[] = {{.fd = k.signals, .events = POLLIN}, {.fd = k.output, .events = POLLIN}};
    if (poll(wait, 2, -1) < 0) continue;
    if (wait[1].revents) take_output(&k);
    if (wait[0].revents) take_signal(&k);
  }
}

enum banyan_status by_keeper_start(const struct by_keeper_task *task, struct by_keeper *out) {
  int ends[2];
  *out = (struct by_keeper){.ready = -1};
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make a pipe");
  pid_t parent = getpid(), pid = fork();
  if (pid == 0) keep(task, ends[1], parent);
  int reason = errno;
  close(ends[1]);
  *out = (struct by_keeper){.pid = pid > 0 ? pid : 0, .ready = ends[0]};
  return pid > 0 ? BANYAN_OK : by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot start a process in \"%s\"", task->name);
}

enum banyan_status by_keeper_await(struct by_keeper *keeper, const char *name) {
  struct pollfd wait = {.fd = keeper->ready, .events = POLLIN};
  char what = 0;
  if (poll(&wait, 1, READY_MS) == 1 && read(keeper->ready, &what, 1) == 1 && what == '+') return BANYAN_OK;
  return by_fail(BANYAN_ERR_SYSTEM, "\"%s\" has not started%s", name, what ? "; above is why" : "");
}

void by_keeper_stop(struct by_keeper *keeper) {
  if (keeper->pid) {
    kill(keeper->pid, SIGKILL);
    waitpid(keeper->pid, NULL, 0);
  }
  if (keeper->ready >= 0) close(keeper->ready);
  *keeper = (struct by_keeper){.ready = -1};
}
