#include "output.h"
#include "status_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "json_doc.h"
#include "localsocket.h"
#include "loop.h"
#include "reservation.h"
#include "socket.h"
#include "stream.h"
#include "switch_client.h"
#include "text.h"

enum { MOST_TEXT = 2000, MOST_SECRET = 4096, ANSWER_SECONDS = 5 };

const char *by_status_text(const json_t *object, const char *field) {
  const char *text = json_string_value(json_object_get(object, field));
  return text && by_is_printable(text, MOST_TEXT) ? text : "?";
}

enum banyan_status by_switch_place_parse(const char *text, struct by_status_place *out) {
  char with_port[BY_HOST_TEXT + 8], host[BY_HOST_TEXT];
  int port;
  size_t n;
  *out = (struct by_status_place){.path = strchr(text, '/') ? text : NULL};
  if (out->path || by_address_parse_host(text, BY_SWITCH_CONTROL_PORT, &out->address) == BANYAN_OK) return BANYAN_OK;
  if (by_address_split(text, host, &port) == BANYAN_OK) return by_address_resolve(text, &out->address, 1, &n);
  snprintf(with_port, sizeof with_port, "%.*s:%d", BY_HOST_TEXT - 1, text, BY_SWITCH_CONTROL_PORT);
  return by_address_resolve(with_port, &out->address, 1, &n);
}

static enum banyan_status read_secret(const char *file, struct by_key *out) {
  char *text, secret[MOST_SECRET + 1];
  size_t length;
  BY_TRY(by_read_file("secret", file, MOST_SECRET, &text, &length));
  while (length && strchr(" \r\n", text[length - 1])) length--;
  snprintf(secret, sizeof secret, "%.*s", (int)length, text);
  explicit_bzero(text, length);
  free(text);
  enum banyan_status status =
      length == 0 || length > MOST_SECRET || strlen(secret) != length
          ? by_fail(BANYAN_ERR_ARGUMENT, "%s: must hold a secret, a text of 1 to %d bytes", file, MOST_SECRET)
          : by_key_derive(secret, out);
  explicit_bzero(secret, sizeof secret);
  return status;
}

enum banyan_status by_switch_secret(const char *file, struct by_key *out, bool *has) {
  const char *text = getenv("BANYAN_SWITCH_KEY");
  *has = file || (text && *text);
  if (file) return read_secret(file, out);
  return *has ? by_key_derive(text, out) : BANYAN_OK;
}

/* ---- asking */

struct asking {
  const struct by_status_question *question;
  struct by_loop *loop;
  struct by_stream *stream;
  struct by_timer deadline;
  enum banyan_status status;
  json_t *answer;
};

static void end_asking(struct asking *a, enum banyan_status status) {
  a->status = status;
  by_loop_stop(a->loop);
}

static void opened(void *context, uint8_t purpose, const void *hello, size_t length) {
  struct asking *a = context;
  enum banyan_status status = by_stream_send(a->stream, 0, a->question->line, strlen(a->question->line));
  if (status != BANYAN_OK) end_asking(a, status);
}

static void answered(void *context, uint16_t type, const void *line, size_t length) {
  struct asking *a = context;
  if (!a->answer) end_asking(a, a->question->read(line, length, &a->answer));
}

static void ended(void *context, enum banyan_status status, const char *reason) {
  struct asking *a = context;
  if (!a->answer) end_asking(a, by_fail(status, "%s", reason));
}

static void too_late(void *context) {
  struct asking *a = context;
  end_asking(a, by_fail(BANYAN_ERR_TIMEOUT, "the %s does not answer within %d s", a->question->whom, ANSWER_SECONDS));
}

static enum banyan_status begin(struct asking *a) {
  const struct by_status_place *place = &a->question->place;
  struct by_handshake_options handshake = {
      .role = BY_ROLE_CLIENT, .purpose = BY_RESERVATION_PURPOSE, .key = a->question->key, .hello = ""};
  struct by_stream_options of_stream = {.loop = a->loop,
                                        .connecting = place->path ? NULL : &place->address,
                                        .handshake = a->question->key && !place->path ? &handshake : NULL,
                                        .most_frame = BY_RESERVATION_LINE,
                                        .most_line = a->question->most,
                                        .most_queued = 2 * BY_RESERVATION_LINE,
                                        .opened = opened,
                                        .frame = answered,
                                        .ended = ended,
                                        .context = a};
  by_timer_init(&a->deadline, too_late, a);
  BY_TRY(place->path ? by_path_socket_connect(place->path, a->question->whom, &of_stream.fd)
                     : by_socket_connect_start(&place->address, &of_stream.fd));
  BY_TRY(by_stream_create(&of_stream, &a->stream));
  by_loop_set_delay(a->loop, &a->deadline, ANSWER_SECONDS * BY_SECOND);
  if (place->path) opened(a, 0, NULL, 0);
  return BANYAN_OK;
}

enum banyan_status by_status_ask(const struct by_status_question *question, json_t **out) {
  struct asking a = {.question = question};
  BY_TRY(by_loop_create(&by_clock_system, &a.loop));
  enum banyan_status status = begin(&a);
  if (status == BANYAN_OK) status = by_loop_run(a.loop);
  if (status == BANYAN_OK) status = a.status;
  by_stream_destroy(a.stream);
  by_loop_cancel_timer(&a.deadline);
  by_loop_destroy(a.loop);
  *out = a.answer;
  return status;
}

/* ---- the state of a switch */

enum banyan_status by_switch_status_read(const char *line, size_t length, json_t **out) {
  static const struct by_doc_limits limits = {.bytes = BY_RESERVATION_REPLY, .containers = 65536, .elements = 262144};
  struct by_reservation_reply reply;
  BY_TRY(by_reservation_read_reply(line, length, &reply));
  if (!reply.well || reply.operation != BY_RESERVATION_STATUS)
    return by_fail(BANYAN_ERR_PROTOCOL, "the switch answers: %s", reply.well ? "something else" : reply.text);
  return by_doc_load("the switch's answer", line, length, &limits, out);
}

void by_switch_status_print_json(const json_t *status) {
  json_t *shown = json_copy((json_t *)status);
  if (!shown) return;
  (void)json_object_del(shown, "done");
  by_print_json(shown);
  json_decref(shown);
}

static void print_head(const json_t *status) {
  const json_t *cells = json_object_get(status, "cells"), *ports = json_object_get(status, "ports");
  char time[32];
  printf("%s switch, version %s, up %s; %.0f of %.0f cells in use\nports:", by_status_text(status, "kind"),
         by_status_text(status, "version"), by_print_seconds(by_json_number(status, "seconds"), time),
         by_json_number(cells, "used"), by_json_number(cells, "all"));
  for (size_t i = 0; i < json_array_size(ports); i++) {
    const char *name = json_string_value(json_array_get(ports, i));
    printf("%s %zu %s", i ? "," : "", i, name && by_is_printable(name, MOST_TEXT) ? name : "?");
  }
  printf("\n");
}

static void print_below(const json_t *below) {
  for (size_t i = 0; i < json_array_size(below); i++) {
    const json_t *one = json_array_get(below, i);
    printf("%s%s", i ? ", " : "", by_status_text(one, "interface"));
    if (json_is_true(json_object_get(one, "switch"))) printf(" (switch, %.0f workers)", by_json_number(one, "workers"));
  }
}

static void print_job(const json_t *job) {
  printf("%5.0f %5.0f %5.0f %6.0f of %-6.0f %-8s %-21s ", by_json_number(job, "job"), by_json_number(job, "key"),
         by_json_number(job, "place"), by_json_number(job, "cells"), by_json_number(job, "wanted"),
         by_status_text(job, "up"), by_status_text(job, "server"));
  print_below(json_object_get(job, "below"));
  if (json_object_get(job, "lapses_in"))
    printf("; not held by a job, expires in %.0f s", by_json_number(job, "lapses_in"));
  if (!json_is_true(json_object_get(job, "granted"))) printf("; next hops are looked for");
  printf("\n");
}

static void print_jobs(const json_t *jobs) {
  if (json_array_size(jobs) == 0) {
    printf("no jobs\n");
    return;
  }
  printf("  job   key place  cells of wanted up       server                below\n");
  for (size_t i = 0; i < json_array_size(jobs); i++) print_job(json_array_get(jobs, i));
}

static void print_count(const char *name, const json_t *now, const json_t *before) {
  double count = by_json_number(now, name);
  if (count == 0 || !by_is_printable(name, MOST_TEXT)) return;
  printf("  %-10s %14.0f", name, count);
  if (before) printf("  +%.0f", count - by_json_number(before, name));
  printf("\n");
}

void by_switch_status_print(const json_t *status, const json_t *before) {
  json_t *events = json_object_get(status, "events");
  print_head(status);
  print_jobs(json_object_get(status, "jobs"));
  printf("fragments:\n");
  for (void *i = json_object_iter(events); i; i = json_object_iter_next(events, i))
    print_count(json_object_iter_key(i), events, json_object_get(before, "events"));
  print_count("unsent", status, before);
  print_count("expired", status, before);
}
