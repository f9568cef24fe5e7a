#include "output.h"
#include "status_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_doc.h"
#include "reservation_messages.h"
#include "switch_client.h"
#include "text.h"

enum { MOST_SECRET = 4096 };

enum banyan_status by_switch_place_parse(const char *text, struct by_switch_place *out) {
  char with_port[BY_HOST_TEXT + 8], host[BY_HOST_TEXT];
  int port;
  size_t n;
  *out = (struct by_switch_place){.path = strchr(text, '/') ? text : NULL};
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

enum banyan_status by_switch_status_read(const char *line, size_t length, json_t **out) {
  static const struct by_doc_limits limits = {.bytes = BY_LEASE_REPLY, .containers = 65536, .elements = 262144};
  struct by_lease_reply reply;
  BY_TRY(by_lease_read_reply(line, length, &reply));
  if (!reply.well || reply.operation != BY_LEASE_STATUS)
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

/* What is missing or something else is nothing. */
static long long number(const json_t *object, const char *field) {
  return json_integer_value(json_object_get(object, field));
}

static const char *text_of(const json_t *object, const char *field) {
  const char *text = json_string_value(json_object_get(object, field));
  return text && by_is_printable(text, 200) ? text : "?";
}

static void print_head(const json_t *status) {
  const json_t *cells = json_object_get(status, "cells"), *ports = json_object_get(status, "ports");
  char time[32];
  printf("%s switch, version %s, up %s; %lld of %lld cells in use\nports:", text_of(status, "kind"),
         text_of(status, "version"), by_print_seconds(json_number_value(json_object_get(status, "seconds")), time),
         number(cells, "used"), number(cells, "all"));
  for (size_t i = 0; i < json_array_size(ports); i++) {
    const char *name = json_string_value(json_array_get(ports, i));
    printf("%s %zu %s", i ? "," : "", i, name && by_is_printable(name, 200) ? name : "?");
  }
  printf("\n");
}

static void print_below(const json_t *below) {
  for (size_t i = 0; i < json_array_size(below); i++) {
    const json_t *one = json_array_get(below, i);
    printf("%s%s", i ? ", " : "", text_of(one, "interface"));
    if (json_is_true(json_object_get(one, "switch"))) printf(" (switch, %lld workers)", number(one, "workers"));
  }
}

static void print_job(const json_t *job) {
  const json_t *lapses = json_object_get(job, "lapses_in");
  printf("%5lld %5lld %5lld %6lld of %-6lld %-8s %-21s ", number(job, "job"), number(job, "key"), number(job, "place"),
         number(job, "cells"), number(job, "wanted"), text_of(job, "up"), text_of(job, "server"));
  print_below(json_object_get(job, "below"));
  if (lapses) printf("; not held by a job, expires in %.0f s", json_number_value(lapses));
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

static void print_count(const char *name, long long count, const json_t *before) {
  if (count == 0 || !by_is_printable(name, 200)) return;
  printf("  %-10s %14lld", name, count);
  if (before) printf("  +%lld", count - number(before, name));
  printf("\n");
}

void by_switch_status_print(const json_t *status, const json_t *before) {
  json_t *events = json_object_get(status, "events");
  print_head(status);
  print_jobs(json_object_get(status, "jobs"));
  printf("fragments:\n");
  for (void *i = json_object_iter(events); i; i = json_object_iter_next(events, i))
    print_count(json_object_iter_key(i), json_integer_value(json_object_iter_value(i)),
                json_object_get(before, "events"));
  print_count("unsent", number(status, "unsent"), before);
  print_count("expired", number(status, "expired"), before);
}
