#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "launch_io.h"
#include "process.h"
#include "text.h"

enum { HEADER_BYTES = 12, MOST_PAYLOAD = 8 << 20, READ_BYTES = 128 << 10 };

void by_cli_nonblock(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

bool by_cli_pipes(int pipes[][2], int n) {
  bool made = true;
  for (int i = 0; i < n; i++) {
    pipes[i][0] = pipes[i][1] = -1;
    made = made && !pipe2(pipes[i], O_CLOEXEC);
  }
  return made;
}

/* Makes room for `more` bytes behind the last one. */
static void make_room(struct by_pipe *pipe, size_t more) {
  if (pipe->room - pipe->end >= more) return;
  size_t held = pipe->end - pipe->start;
  if (held) memmove(pipe->data, pipe->data + pipe->start, held);
  pipe->start = 0;
  pipe->end = held;
  if (pipe->room - held >= more) return;
  pipe->room = MAX(2 * pipe->room, held + more);
  pipe->data = by_cli_alloc(pipe->data, pipe->room);
}

void by_pipe_init(struct by_pipe *pipe, int fd, size_t at_once) {
  *pipe = (struct by_pipe){.fd = fd, .at_once = at_once};
}

void by_pipe_fini(struct by_pipe *pipe) {
  free(pipe->data);
  free(pipe->payload);
  by_pipe_init(pipe, -1, 0);
}

void by_pipe_add(struct by_pipe *pipe, const void *bytes, size_t length) {
  if (pipe->closed || !length) return;
  make_room(pipe, length);
  memcpy(pipe->data + pipe->end, bytes, length);
  pipe->end += length;
}

void by_pipe_string(struct by_pipe *pipe, const char *text) {
  by_pipe_add(pipe, text, strlen(text) + 1);
}

size_t by_pipe_waiting(const struct by_pipe *pipe) {
  return pipe->end - pipe->start;
}

void by_pipe_flush(struct by_pipe *pipe) {
  while (by_pipe_waiting(pipe)) {
    size_t length = MIN(by_pipe_waiting(pipe), pipe->at_once);
    ssize_t n = write(pipe->fd, pipe->data + pipe->start, length);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) {
      pipe->closed = true;
      pipe->reason = errno;
      pipe->start = pipe->end;
    }
    if (n < 0) return;
    pipe->start += (size_t)n;
    if (pipe->at_once < SIZE_MAX) return; /* a blocking descriptor: only poll() knows whether there is more room */
  }
}

void by_pipe_frame(struct by_pipe *pipe, enum by_launch_frame_type type, uint32_t number, const void *payload,
                   size_t length) {
  uint32_t header[3] = {htole32(type), htole32(number), htole32((uint32_t)length)};
  by_pipe_add(pipe, header, sizeof header);
  by_pipe_add(pipe, payload, length);
}

bool by_pipe_fill(struct by_pipe *pipe, int fd) {
  make_room(pipe, READ_BYTES);
  ssize_t n = read(fd, pipe->data + pipe->end, READ_BYTES);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  pipe->end += (size_t)n;
  return n > 0;
}

int by_pipe_next(struct by_pipe *pipe, struct by_launch_frame *out) {
  uint32_t header[3];
  if (by_pipe_waiting(pipe) < HEADER_BYTES) return 0;
  memcpy(header, pipe->data + pipe->start, HEADER_BYTES);
  for (int i = 0; i < 3; i++) header[i] = le32toh(header[i]);
  if (header[0] < BY_LAUNCH_PORT || header[0] >= BY_LAUNCH_TYPES || header[2] > MOST_PAYLOAD) return -1;
  if (by_pipe_waiting(pipe) - HEADER_BYTES < header[2]) return 0;
  pipe->payload = by_cli_alloc(pipe->payload, (size_t)header[2] + 1);
  memcpy(pipe->payload, pipe->data + pipe->start + HEADER_BYTES, header[2]);
  pipe->payload[header[2]] = 0;
  *out = (struct by_launch_frame){
      .type = (enum by_launch_frame_type)header[0], .number = header[1], .payload = pipe->payload, .length = header[2]};
  pipe->start += HEADER_BYTES + header[2];
  return 1;
}

/* ---- what a host is to start */

static void add_number(struct by_pipe *payload, long number) {
  char text[24];
  snprintf(text, sizeof text, "%ld", number);
  by_pipe_string(payload, text);
}

static void add_list(struct by_pipe *payload, char *const *list) {
  long n = 0;
  while (list[n]) n++;
  add_number(payload, n);
  for (long i = 0; i < n; i++) by_pipe_string(payload, list[i]);
}

void by_host_job_send(struct by_pipe *pipe, const struct by_host_job *job) {
  struct by_pipe payload;
  by_pipe_init(&payload, -1, 0);
  add_number(&payload, job->first);
  add_number(&payload, job->ranks);
  add_number(&payload, job->size);
  add_number(&payload, job->pin);
  by_pipe_string(&payload, job->directory);
  add_list(&payload, job->command);
  add_list(&payload, job->environment);
  by_pipe_frame(pipe, BY_LAUNCH_START, 0, payload.data, by_pipe_waiting(&payload));
  by_pipe_fini(&payload);
}

struct strings {
  char *at, *end;
};

static enum banyan_status take_string(struct strings *strings, char **out) {
  size_t left = (size_t)(strings->end - strings->at), length = strnlen(strings->at, left);
  if (length == left) return by_fail(BANYAN_ERR_PROTOCOL, "the description of the job is truncated");
  *out = strings->at;
  strings->at += length + 1;
  return BANYAN_OK;
}

static enum banyan_status take_int(struct strings *strings, const char *what, long least, long most, int *out) {
  char *text = NULL;
  long number = 0;
  BY_TRY(take_string(strings, &text));
  BY_TRY(by_parse_int(what, text, least, most, &number));
  *out = (int)number;
  return BANYAN_OK;
}

static enum banyan_status take_list(struct strings *strings, const char *what, char ***out) {
  int n = 0;
  BY_TRY(take_int(strings, what, 0, strings->end - strings->at, &n));
  *out = by_cli_alloc(NULL, ((size_t)n + 1) * sizeof **out);
  for (int i = 0; i < n; i++) BY_TRY(take_string(strings, &(*out)[i]));
  (*out)[n] = NULL;
  return BANYAN_OK;
}

static enum banyan_status parse(struct strings *strings, struct by_host_job *job) {
  char *directory = NULL;
  BY_TRY(take_int(strings, "first rank", 0, BY_MOST_RANKS, &job->first));
  BY_TRY(take_int(strings, "ranks", 1, BY_MOST_RANKS, &job->ranks));
  BY_TRY(take_int(strings, "size", 1, BY_MOST_RANKS, &job->size));
  BY_TRY(take_int(strings, "core", -1, BY_MOST_RANKS, &job->pin));
  BY_TRY(take_string(strings, &directory));
  job->directory = directory;
  BY_TRY(take_list(strings, "arguments", &job->command));
  BY_TRY(take_list(strings, "variables", &job->environment));
  if (!job->command[0]) return by_fail(BANYAN_ERR_PROTOCOL, "the job has no command");
  return BANYAN_OK;
}

enum banyan_status by_host_job_parse(char *payload, size_t length, struct by_host_job *out) {
  struct strings strings = {.at = payload, .end = payload + length};
  *out = (struct by_host_job){0};
  enum banyan_status status = parse(&strings, out);
  if (status) by_host_job_fini(out);
  return status;
}

void by_host_job_fini(struct by_host_job *job) {
  free(job->command);
  free(job->environment);
  *job = (struct by_host_job){0};
}

/* ---- one host: its run-host, started here or through ssh */

enum { MOST_SSH_WORDS = 62, MOST_CHATTER = 1 << 16, UNREACHED = 255 /* ssh's exit code */ };

/* 'it'\''s': a word that no shell changes. */
static void add_quoted(struct by_text *text, const char *word) {
  by_text_add(text, "'");
  for (const char *c = word; *c; c++) by_text_add(text, *c == '\'' ? "'\\''" : "%c", *c);
  by_text_add(text, "'");
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

static enum banyan_status start_process(const char *file, char *const *argv, struct by_launch_link *link) {
  int pipes[3][2];
  pid_t pid = by_cli_pipes(pipes, 3) ? fork() : -1;
  if (pid == 0) become(file, argv, pipes, link->host);
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

/* The words of the ssh command, the host, and one word for the shell there. */
static enum banyan_status start_ssh(const struct by_job *job, struct by_launch_link *link) {
  static const char *const alive[] = {"-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"};
  const char *argv[MOST_SSH_WORDS + sizeof alive / sizeof *alive + 3] = {NULL};
  char *words = by_cli_print("%s", job->ssh), *save;
  struct by_text shell = {0};
  size_t n = 0;
  for (char *word = strtok_r(words, " \t", &save); word && n < MOST_SSH_WORDS; word = strtok_r(NULL, " \t", &save))
    argv[n++] = word;
  by_text_add(&shell, "exec ");
  add_quoted(&shell, job->remote);
  by_text_add(&shell, " run-host");
  if (job->elastic && !strcmp(job->ssh, "ssh")) /* so that a host that vanishes is noticed */
    for (size_t i = 0; i < sizeof alive / sizeof *alive; i++) argv[n++] = alive[i];
  argv[n] = link->host->destination;
  argv[n + 1] = by_text_get(&shell);
  enum banyan_status status =
      n ? start_process(argv[0], (char *const *)argv, link) : by_fail(BANYAN_ERR_ARGUMENT, "the ssh command is empty");
  free(words);
  by_text_fini(&shell);
  return status;
}

/* Within the allocation, beside other steps; what goes through it are no lines. */
static enum banyan_status start_srun(const struct by_job *job, struct by_launch_link *link) {
  char *node = by_cli_print("--nodelist=%s", link->host->destination);
  const char *const argv[] = {"srun",        "--overlap",       "--nodes=1", "--ntasks=1", "--unbuffered", "--mpi=none",
                              "--input=all", "--cpu-bind=none", "--quiet",   node,         job->remote,    "run-host",
                              NULL};
  enum banyan_status status = start_process(argv[0], (char *const *)(uintptr_t)argv, link);
  free(node);
  return status;
}

enum banyan_status by_launch_link_open(const struct by_job *job, const struct by_launch_host *host,
                                       struct by_launch_link *out) {
  char *const here[] = {(char[]){"banyan"}, (char[]){"run-host"}, NULL};
  *out = (struct by_launch_link){.host = host, .from_fd = -1, .error_fd = -1, .to = {.fd = -1, .at_once = SIZE_MAX}};
  if (host->local)
    BY_TRY(start_process("/proc/self/exe", here, out));
  else
    BY_TRY(host->node ? start_srun(job, out) : start_ssh(job, out));
  out->live = host->ranks;
  return BANYAN_OK;
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

void by_launch_link_shut(struct by_launch_link *link) {
  by_cli_close(&link->to.fd);
  by_cli_close(&link->from_fd);
  by_cli_close(&link->error_fd);
  by_pipe_fini(&link->to);
  by_pipe_fini(&link->from);
  link->to.closed = true;
  bool unheard = !link->ready || link->live; /* ssh may wait for a network that is not there */
  if (link->pid && unheard && !link->host->local) kill(link->pid, SIGTERM);
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
  const char *last = memrchr(from, '\n', have); /* keep an unfinished line: it may become the hello */
  *length = last ? (size_t)(last - from) + 1 : have > MOST_CHATTER ? have : 0;
  link->from.start += *length;
}

/* ---- the output of ranks */

enum { MOST_LINE = 1 << 20, MOST_WAITING = 1 << 20, LINE_BYTES = 2048 };

void by_output_init(struct by_output *output, enum by_output_mode mode, int ranks, const char *const *labels) {
  *output = (struct by_output){.mode = mode, .labels = labels};
  by_pipe_init(&output->to[0], STDOUT_FILENO, PIPE_BUF);
  by_pipe_init(&output->to[1], STDERR_FILENO, PIPE_BUF);
  by_output_grow(output, ranks);
}

void by_output_grow(struct by_output *output, int ranks) {
  size_t had = 2 * (size_t)output->ranks, has = 2 * (size_t)ranks;
  output->lines = by_cli_alloc(output->lines, has * sizeof *output->lines);
  memset(output->lines + had, 0, (has - had) * sizeof *output->lines);
  output->ranks = ranks;
}

void by_output_fini(struct by_output *output) {
  for (int i = 0; i < 2 * output->ranks; i++) by_pipe_fini(&output->lines[i]);
  free(output->lines);
  by_pipe_fini(&output->to[0]);
  by_pipe_fini(&output->to[1]);
}

static void emit(struct by_output *output, int rank, int stream, const char *bytes, size_t length, bool end_it) {
  /* With rank 0 only on stdout, the other ranks' stdout goes to stderr. */
  bool to_error = output->mode == BY_OUTPUT_ERROR || (output->mode == BY_OUTPUT_RANK0 && rank);
  struct by_pipe *to = &output->to[to_error ? 1 : stream];
  bool prefixed = output->mode != BY_OUTPUT_RAW;
  char number[16];
  snprintf(number, sizeof number, "%d", rank);
  const char *label = output->labels ? output->labels[rank] : number;
  if (prefixed) by_pipe_add(to, "[", 1);
  if (prefixed) by_pipe_add(to, label, strlen(label));
  if (prefixed) by_pipe_add(to, "] ", 2);
  by_pipe_add(to, bytes, length);
  if (end_it && prefixed) by_pipe_add(to, "\n", 1);
}

/* Length of the first line with its end; 0 if none of `length` bytes ends one. "\r\n" is one end, so a final "\r" waits
 * for what follows. `seen` bytes are known to hold no end. */
static size_t first_line(const char *bytes, size_t length, size_t seen) {
  const char *newline = memchr(bytes + seen, '\n', length - seen);
  size_t within = newline ? (size_t)(newline - bytes) : length;
  for (const char *at = bytes + seen; (at = memchr(at, '\r', within - (size_t)(at - bytes)));) {
    size_t next = (size_t)(at - bytes) + 1;
    if (next == length) return 0;
    if (bytes[next] != '\n') return next;
    at++;
  }
  return newline ? within + 1 : 0;
}

void by_output_take(struct by_output *output, int rank, int stream, const char *bytes, size_t length) {
  if (output->mode == BY_OUTPUT_RANK0 && !rank && !stream) {
    by_pipe_add(&output->to[0], bytes, length);
    return;
  }
  struct by_pipe *line = &output->lines[2 * rank + stream];
  size_t seen = by_pipe_waiting(line), n;
  if (seen && line->data[line->end - 1] == '\r') seen--;
  by_pipe_add(line, bytes, length);
  while ((n = first_line(line->data + line->start, by_pipe_waiting(line), seen))) {
    emit(output, rank, stream, line->data + line->start, n, false);
    line->start += n;
    seen = 0;
  }
  if (by_pipe_waiting(line) < MOST_LINE) return;
  emit(output, rank, stream, line->data + line->start, by_pipe_waiting(line), true);
  line->start = line->end;
}

void by_output_end(struct by_output *output, int rank) {
  for (int stream = 0; stream < 2; stream++) {
    struct by_pipe *line = &output->lines[2 * rank + stream];
    if (by_pipe_waiting(line)) emit(output, rank, stream, line->data + line->start, by_pipe_waiting(line), true);
    by_pipe_fini(line);
  }
}

void by_output_print(struct by_output *output, const char *format, ...) {
  char text[LINE_BYTES];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  by_pipe_add(&output->to[1], text, MIN((size_t)n, sizeof text - 1));
  by_pipe_add(&output->to[1], "\n", 1);
}

bool by_output_full(const struct by_output *output) {
  return by_pipe_waiting(&output->to[0]) > MOST_WAITING || by_pipe_waiting(&output->to[1]) > MOST_WAITING;
}

bool by_output_waiting(const struct by_output *output) {
  return by_pipe_waiting(&output->to[0]) || by_pipe_waiting(&output->to[1]);
}
