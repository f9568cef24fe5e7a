/* Pipes and frames between `banyan run` and run-host. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "launch_io.h"
#include "process.h"
#include "text.h"

enum { HEADER_BYTES = 12, MAX_PAYLOAD = 8 << 20, READ_BYTES = 128 << 10 };

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

/* Wipes freed memory, since keys and tickets pass through pipes. */
static void wipe_bytes(void *bytes, size_t length) {
  if (length) explicit_bzero(bytes, length);
}

/* Allocates `more` bytes after the last one. */
static void reserve_bytes(struct by_pipe *pipe, size_t more) {
  if (pipe->capacity - pipe->end >= more) return;
  size_t held = pipe->end - pipe->start, capacity = pipe->capacity;
  char *old = pipe->data;
  if (capacity - held < more) pipe->capacity = MAX(2 * capacity, held + more);
  if (pipe->capacity > capacity) pipe->data = by_cli_alloc(NULL, pipe->capacity);
  if (held) memmove(pipe->data, old + pipe->start, held);
  if (pipe->capacity > capacity) {
    wipe_bytes(old, pipe->end);
    free(old);
  } else
    wipe_bytes(pipe->data + held, pipe->start);
  pipe->start = 0;
  pipe->end = held;
}

/* Removes `n` bytes from the front. */
static void drop_front(struct by_pipe *pipe, size_t n) {
  pipe->start += n;
  if (pipe->start < pipe->end) return;
  wipe_bytes(pipe->data, pipe->end);
  pipe->start = pipe->end = 0;
}

void by_pipe_init(struct by_pipe *pipe, int fd, size_t at_once) {
  *pipe = (struct by_pipe){.fd = fd, .at_once = at_once};
}

void by_pipe_fini(struct by_pipe *pipe) {
  wipe_bytes(pipe->data, pipe->end);
  wipe_bytes(pipe->payload, pipe->payload_capacity);
  free(pipe->data);
  free(pipe->payload);
  by_pipe_init(pipe, -1, 0);
}

void by_pipe_add(struct by_pipe *pipe, const void *bytes, size_t length) {
  if (pipe->closed || !length) return;
  reserve_bytes(pipe, length);
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
      drop_front(pipe, by_pipe_waiting(pipe));
    }
    if (n < 0) return;
    drop_front(pipe, (size_t)n);
    if (pipe->at_once < SIZE_MAX) return; /* Only poll() knows whether a blocking descriptor accepts more. */
  }
}

void by_pipe_frame(struct by_pipe *pipe, enum by_launch_frame_type type, uint32_t number, const void *payload,
                   size_t length) {
  uint32_t header[3] = {htole32(type), htole32(number), htole32((uint32_t)length)};
  by_pipe_add(pipe, header, sizeof header);
  by_pipe_add(pipe, payload, length);
}

bool by_pipe_fill(struct by_pipe *pipe, int fd) {
  reserve_bytes(pipe, READ_BYTES);
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
  if (header[0] < BY_LAUNCH_PORT || header[0] >= BY_LAUNCH_TYPES || header[2] > MAX_PAYLOAD) return -1;
  if (by_pipe_waiting(pipe) - HEADER_BYTES < header[2]) return 0;
  wipe_bytes(pipe->payload, pipe->payload_capacity);
  free(pipe->payload);
  pipe->payload_capacity = (size_t)header[2] + 1;
  pipe->payload = by_cli_alloc(NULL, pipe->payload_capacity);
  memcpy(pipe->payload, pipe->data + pipe->start + HEADER_BYTES, header[2]);
  pipe->payload[header[2]] = 0;
  *out = (struct by_launch_frame){
      .type = (enum by_launch_frame_type)header[0], .number = header[1], .payload = pipe->payload, .length = header[2]};
  drop_front(pipe, HEADER_BYTES + header[2]);
  return 1;
}

/* ---- jobs of a host */

static void add_number(struct by_pipe *payload, long number) {
  char text[24];
  snprintf(text, sizeof text, "%ld", number);
  by_pipe_string(payload, text);
}

static void add_list(struct by_pipe *payload, const char *const *list) {
  long n = 0;
  while (list[n]) n++;
  add_number(payload, n);
  for (long i = 0; i < n; i++) by_pipe_string(payload, list[i]);
}

void by_host_job_send(struct by_pipe *pipe, const struct by_host_job *job, const char *const *command) {
  struct by_pipe payload;
  by_pipe_init(&payload, -1, 0);
  add_number(&payload, job->first);
  add_number(&payload, job->ranks);
  add_number(&payload, job->size);
  add_number(&payload, job->pin);
  by_pipe_string(&payload, job->directory);
  add_list(&payload, command);
  add_list(&payload, (const char *const *)job->environment);
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

static enum banyan_status take_int(struct strings *strings, const char *what, long min, long max, int *out) {
  char *text = NULL;
  long number = 0;
  BY_TRY(take_string(strings, &text));
  BY_TRY(by_parse_int(what, text, min, max, &number));
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

static enum banyan_status parse_job(struct strings *strings, struct by_host_job *job) {
  char *directory = NULL;
  BY_TRY(take_int(strings, "first rank", 0, BY_MAX_RANKS, &job->first));
  BY_TRY(take_int(strings, "ranks", 1, BY_MAX_RANKS, &job->ranks));
  BY_TRY(take_int(strings, "size", 1, BY_MAX_RANKS, &job->size));
  BY_TRY(take_int(strings, "core", -1, BY_MAX_RANKS, &job->pin));
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
  enum banyan_status status = parse_job(&strings, out);
  if (status) by_host_job_fini(out);
  return status;
}

void by_host_job_fini(struct by_host_job *job) {
  free(job->command);
  free(job->environment);
  *job = (struct by_host_job){0};
}
