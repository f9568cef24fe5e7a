/* Starts run-host for a host, here or through ssh or srun, and watches its pipes. */
#include "launch_link.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "large_loss.h"
#include "process.h"
#include "socket.h"
#include "text.h"

enum {
  MAX_SSH_WORDS = BY_MAX_LAUNCH_WORDS - 7,
  MAX_CHATTER = 1 << 16,
  UNREACHED = 255 /* ssh's exit code. */,
  MAX_SSH_FDS = 16
};

/* Runs in the child, in a new session: the terminal's Ctrl-C goes to the launcher only, and ssh fails instead of
 * prompting. */
static _Noreturn void become_command(const char *file, char *const *argv, int pipes[3][2],
                                     const struct by_launch_host *host) {
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

static enum banyan_status start_process(const char *file, char *const *argv, struct by_launch_link *link) {
  int pipes[3][2];
  pid_t pid = by_cli_pipes(pipes, 3) ? fork() : -1;
  if (pid == 0) become_command(file, argv, pipes, link->host);
  int reason = errno;
  by_cli_close(&pipes[0][0]);
  by_cli_close(&pipes[1][1]);
  by_cli_close(&pipes[2][1]);
  link->to.fd = pipes[0][1];
  link->from_fd = pipes[1][0];
  link->error_fd = pipes[2][0];
  if (pid < 0) {
    by_launch_link_shut(link);
    return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot start %s", file);
  }
  link->pid = pid;
  by_cli_nonblock(link->to.fd);
  by_cli_nonblock(link->from_fd);
  by_cli_nonblock(link->error_fd);
  return BANYAN_OK;
}

/* ---- commands */

void by_add_quoted(struct by_text *text, const char *word) {
  by_text_add(text, "'");
  for (const char *c = word; *c; c++) by_text_add(text, *c == '\'' ? "'\\''" : "%c", *c);
  by_text_add(text, "'");
}

static void add_word(struct by_launch_words *words, const char *word) {
  words->argv[words->n++] = by_cli_print("%s", word);
}

/* Adds the words of the ssh command, the host, and one word for the shell there. */
static enum banyan_status add_ssh(const struct by_launch *job, const struct by_launch_host *host,
                                  struct by_launch_words *out) {
  static const char *const alive[] = {"-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"};
  struct by_text shell = {0};
  char *copy = by_cli_print("%s", job->ssh), *save;
  for (char *word = strtok_r(copy, " \t", &save); word && out->n < MAX_SSH_WORDS; word = strtok_r(NULL, " \t", &save))
    add_word(out, word);
  free(copy);
  if (!out->n) return by_fail(BANYAN_ERR_ARGUMENT, "the ssh command is empty");
  if (job->elastic && !strcmp(job->ssh, "ssh")) /* So that a vanished host is noticed. */
    for (size_t i = 0; i < sizeof alive / sizeof *alive; i++) add_word(out, alive[i]);
  add_word(out, host->destination);
  by_text_add(&shell, "exec ");
  by_add_quoted(&shell, job->remote);
  by_text_add(&shell, " run-host");
  add_word(out, by_text_get(&shell));
  by_text_fini(&shell);
  return BANYAN_OK;
}

/* Adds a command within the allocation, beside other steps; its streams are not line-buffered. */
static void add_srun(const struct by_launch *job, const struct by_launch_host *host, struct by_launch_words *out) {
  static const char *const srun[] = {"srun",       "--overlap",   "--nodes=1",       "--ntasks=1", "--unbuffered",
                                     "--mpi=none", "--input=all", "--cpu-bind=none", "--quiet"};
  for (size_t i = 0; i < sizeof srun / sizeof *srun; i++) add_word(out, srun[i]);
  out->argv[out->n++] = by_cli_print("--nodelist=%s", host->destination);
  add_word(out, job->remote);
  add_word(out, "run-host");
}

enum banyan_status by_launch_words_init(const struct by_launch *job, const struct by_launch_host *host,
                                        struct by_launch_words *out) {
  *out = (struct by_launch_words){0};
  if (!host->local && !host->node) return add_ssh(job, host, out);
  if (!host->local) {
    add_srun(job, host, out);
    return BANYAN_OK;
  }
  add_word(out, "banyan");
  add_word(out, "run-host");
  return BANYAN_OK;
}

void by_launch_words_fini(struct by_launch_words *words) {
  while (words->n) free(words->argv[--words->n]);
}

/* ---- the link */

enum banyan_status by_launch_link_open(const struct by_launch *job, const struct by_launch_host *host,
                                       struct by_launch_link *out) {
  struct by_launch_words words;
  *out = (struct by_launch_link){.host = host, .from_fd = -1, .error_fd = -1, .to = {.fd = -1, .at_once = SIZE_MAX}};
  enum banyan_status status = by_launch_words_init(job, host, &words);
  if (status == BANYAN_OK) status = start_process(host->local ? "/proc/self/exe" : words.argv[0], words.argv, out);
  by_launch_words_fini(&words);
  if (status == BANYAN_OK) out->live = host->ranks;
  return status;
}

int by_launch_link_wait(struct by_launch_link *link, uint64_t until) {
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

/* Examines the sockets of a child. */
bool by_launch_link_loses(const struct by_launch_link *link, char *text, size_t capacity) {
  int process;
  bool loses = false;
  if (!link->pid || link->host->local || by_pidfd_open(link->pid, &process) != BANYAN_OK) return false;
  for (int fd = 0; fd < MAX_SSH_FDS && !loses; fd++) {
    int copy = (int)syscall(SYS_pidfd_getfd, process, fd, 0);
    loses = copy >= 0 && by_large_loss_hint(copy, text, capacity);
    by_cli_close(&copy);
  }
  close(process);
  return loses;
}

void by_launch_link_shut(struct by_launch_link *link) {
  by_cli_close(&link->to.fd);
  by_cli_close(&link->from_fd);
  by_cli_close(&link->error_fd);
  by_pipe_fini(&link->to);
  by_pipe_fini(&link->from);
  link->to.closed = true;
  bool unheard = !link->ready || link->live; /* The process of ssh may wait for a network that is away. */
  if (link->pid && unheard && !link->host->local) kill(link->pid, SIGTERM);
  if (link->pid) kill(link->pid, SIGCONT); /* A stopped process cannot end its children. */
}

void by_launch_link_find_hello(struct by_launch_link *link, const char **chatter, size_t *length) {
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
  const char *last = memrchr(from, '\n', have); /* Keeps an unfinished line, which may become the hello. */
  *length = last ? (size_t)(last - from) + 1 : have > MAX_CHATTER ? have : 0;
  link->from.start += *length;
}

void by_launch_link_print_lines(const struct by_launch_link *link, const char *bytes, size_t length,
                                struct by_output *output) {
  for (const char *end = bytes + length, *next; bytes < end; bytes = next + 1) {
    next = memchr(bytes, '\n', (size_t)(end - bytes));
    if (!next) next = end;
    if (next > bytes) by_output_print(output, "[%s] %.*s", link->host->name, (int)MIN(next - bytes, 1024), bytes);
  }
}

bool by_launch_link_print(struct by_launch_link *link, struct by_output *output) {
  char bytes[4096];
  ssize_t n = link->error_fd < 0 ? 0 : read(link->error_fd, bytes, sizeof bytes);
  if (n > 0) by_launch_link_print_lines(link, bytes, (size_t)n, output);
  if (n > 0 || (n < 0 && errno == EINTR)) return true;
  if (n < 0 && errno == EAGAIN) return false;
  by_cli_close(&link->error_fd);
  return false;
}

static const char *reason_of(const struct by_launch_link *link, int status) {
  if (link->ready) return "connection lost";
  int code = by_wait_exit_code(status);
  if (code == 126 || code == 127)
    return "banyan could not be started there: install it, or give its path (--remote PATH)";
  if (code == 0) return "the command there ended without an answer and may not be banyan; check --remote and --ssh";
  return "could not be reached; see the messages above";
}

void by_launch_link_lost(const struct by_launch_link *link, int status, char *out, size_t capacity) {
  char how[96];
  snprintf(out, capacity, "%s (%s)", reason_of(link, status), by_print_wait_status(status, how, sizeof how));
}
