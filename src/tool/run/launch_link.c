#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "launch_io.h"
#include "process.h"
#include "text.h"

enum { MOST_SSH_WORDS = 62, MOST_CHATTER = 1 << 16, UNREACHED = 255 /* ssh's exit code */ };

/* The command line of ssh: its words, the host, and one word for the shell there. */
struct ssh_line {
  char *words;
  struct by_text shell;
  const char *argv[MOST_SSH_WORDS + 3];
};

/* 'it'\''s': a word that no shell changes. */
static void add_quoted(struct by_text *text, const char *word) {
  by_text_add(text, "'");
  for (const char *c = word; *c; c++) by_text_add(text, *c == '\'' ? "'\\''" : "%c", *c);
  by_text_add(text, "'");
}

static enum banyan_status make_ssh_line(const struct by_job *job, const struct by_launch_host *host,
                                        struct ssh_line *out) {
  size_t n = 0;
  char *save;
  *out = (struct ssh_line){.words = strdup(job->ssh)};
  for (char *word = out->words ? strtok_r(out->words, " \t", &save) : NULL; word && n < MOST_SSH_WORDS;
       word = strtok_r(NULL, " \t", &save))
    out->argv[n++] = word;
  by_text_add(&out->shell, "exec ");
  add_quoted(&out->shell, job->remote);
  by_text_add(&out->shell, " run-host");
  out->argv[n++] = host->destination;
  out->argv[n] = by_text_get(&out->shell);
  if (n < 2) return by_fail(BANYAN_ERR_ARGUMENT, "the ssh command is empty");
  return BANYAN_OK;
}

/* In the child. A session of its own: the terminal's Ctrl-C goes to the
 * launcher only, and ssh fails rather than waits where it would ask. */
static _Noreturn void become(const char *file, char *const *argv, int pipes[3][2], const struct by_launch_host *host) {
  by_restore_signals();
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  dup2(pipes[0][0], STDIN_FILENO);
  dup2(pipes[1][1], STDOUT_FILENO);
  dup2(pipes[2][1], STDERR_FILENO);
  if (host->enter && host->enter(host->context, host)) {
    fprintf(stderr, "%s\n", banyan_error_text());
    _exit(1);
  }
  execvp(file, argv);
  fprintf(stderr, "cannot run %s: %s\n", file, strerror(errno));
  _exit(UNREACHED);
}

static enum banyan_status start_process(const char *file, char *const *argv, struct by_link *link) {
  int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
  pid_t pid = -1;
  bool ok = true;
  for (int i = 0; i < 3 && ok; i++) ok = !pipe2(pipes[i], O_CLOEXEC);
  if (ok) pid = fork();
  if (pid == 0) become(file, argv, pipes, link->host);
  int reason = errno, ours[3] = {pipes[0][1], pipes[1][0], pipes[2][0]};
  int theirs[3] = {pipes[0][0], pipes[1][1], pipes[2][1]};
  for (int i = 0; i < 3; i++) {
    if (theirs[i] >= 0) close(theirs[i]);
    if (pid >= 0)
      by_cli_nonblock(ours[i]);
    else if (ours[i] >= 0)
      close(ours[i]);
  }
  if (pid < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot start %s", file);
  link->pid = pid;
  by_outbox_init(&link->to, ours[0], SIZE_MAX);
  link->from_fd = ours[1];
  link->error_fd = ours[2];
  return BANYAN_OK;
}

static enum banyan_status start_ssh(const struct by_job *job, struct by_link *link) {
  struct ssh_line line;
  enum banyan_status status = make_ssh_line(job, link->host, &line);
  if (!status) status = start_process(line.argv[0], (char *const *)line.argv, link);
  free(line.words);
  by_text_fini(&line.shell);
  return status;
}

enum banyan_status by_link_open(const struct by_job *job, const struct by_launch_host *host, struct by_link *out) {
  char *const here[] = {(char[]){"banyan"}, (char[]){"run-host"}, NULL};
  *out = (struct by_link){.host = host, .from_fd = -1, .error_fd = -1, .to = {.fd = -1}};
  BY_TRY(host->local ? start_process("/proc/self/exe", here, out) : start_ssh(job, out));
  out->live = host->ranks;
  return BANYAN_OK;
}

static void close_fd(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

int by_link_wait(struct by_link *link, uint64_t until) {
  static const struct timespec step = {.tv_nsec = 10 * BY_MILLISECOND};
  int status = 0;
  if (!link->pid) return 0;
  while (waitpid(link->pid, &status, WNOHANG) == 0) {
    if (by_clock_now(&by_clock_system) >= until) kill(link->pid, SIGKILL);
    nanosleep(&step, NULL);
  }
  link->pid = 0;
  return status;
}

void by_link_shut(struct by_link *link) {
  close_fd(&link->to.fd);
  close_fd(&link->from_fd);
  close_fd(&link->error_fd);
  by_outbox_fini(&link->to);
  by_inbox_fini(&link->from);
  bool unheard = !link->ready || link->live; /* ssh may wait for a network that is not there */
  if (link->pid && unheard && !link->host->local) kill(link->pid, SIGTERM);
}

void by_link_find_hello(struct by_link *link, const char **chatter, size_t *length) {
  static const char hello[] = BY_LAUNCH_HELLO;
  const char *from = link->from.data + link->from.start;
  size_t have = link->from.end - link->from.start;
  const char *found = memmem(from, have, hello, sizeof hello - 1);
  *chatter = from;
  if (found) {
    *length = (size_t)(found - from);
    link->ready = true;
    link->from.start += *length + sizeof hello - 1;
    return;
  }
  const char *last = memrchr(from, '\n', have); /* keep an unfinished line: it may become the hello */
  *length = last ? (size_t)(last - from) + 1 : have > MOST_CHATTER ? have : 0;
  link->from.start += *length;
}
