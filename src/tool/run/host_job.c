#include "host_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch_hosts.h"
#include "text.h"

static void add_string(struct by_outbox *payload, const char *text) {
  by_outbox_add(payload, text, strlen(text) + 1);
}

static void add_number(struct by_outbox *payload, long number) {
  char text[24];
  snprintf(text, sizeof text, "%ld", number);
  add_string(payload, text);
}

static void add_list(struct by_outbox *payload, char *const *list) {
  long n = 0;
  while (list[n]) n++;
  add_number(payload, n);
  for (long i = 0; i < n; i++) add_string(payload, list[i]);
}

void by_host_job_send(struct by_outbox *box, const struct by_host_job *job) {
  struct by_outbox payload;
  by_outbox_init(&payload, -1, 0);
  add_number(&payload, job->first);
  add_number(&payload, job->ranks);
  add_number(&payload, job->size);
  add_number(&payload, job->pin);
  add_string(&payload, job->directory);
  add_list(&payload, job->command);
  add_list(&payload, job->environment);
  by_outbox_frame(box, BY_LAUNCH_START, 0, payload.data, by_outbox_waiting(&payload));
  by_outbox_fini(&payload);
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

static enum banyan_status take_number(struct strings *strings, const char *what, long least, long most, long *out) {
  char *text = NULL;
  BY_TRY(take_string(strings, &text));
  return by_parse_int(what, text, least, most, out);
}

static enum banyan_status take_int(struct strings *strings, const char *what, long least, int *out) {
  long number = 0;
  BY_TRY(take_number(strings, what, least, BY_MOST_RANKS, &number));
  *out = (int)number;
  return BANYAN_OK;
}

static enum banyan_status take_list(struct strings *strings, const char *what, char ***out) {
  long n = 0;
  BY_TRY(take_number(strings, what, 0, strings->end - strings->at, &n));
  *out = by_cli_alloc(NULL, ((size_t)n + 1) * sizeof **out);
  for (long i = 0; i < n; i++) BY_TRY(take_string(strings, &(*out)[i]));
  (*out)[n] = NULL;
  return BANYAN_OK;
}

static enum banyan_status parse(struct strings *strings, struct by_host_job *job) {
  char *directory = NULL;
  BY_TRY(take_int(strings, "first rank", 0, &job->first));
  BY_TRY(take_int(strings, "ranks", 1, &job->ranks));
  BY_TRY(take_int(strings, "size", 1, &job->size));
  BY_TRY(take_int(strings, "core", -1, &job->pin));
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
