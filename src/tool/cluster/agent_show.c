#include "agent_show.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "json_doc.h"
#include "path_socket.h"
#include "text.h"
#include "tls_identity.h"

enum { MOST = 1 << 22, PATIENCE_MS = 5000, DAY = 24 * 60 * 60 };

/* ---- asking */

/* Until the agent closes, or has nothing more to say in time. */
static enum banyan_status hear(int fd, struct by_text *out) {
  char bytes[16384];
  uint64_t until = by_clock_now(&by_clock_system) + PATIENCE_MS * BY_MILLISECOND;
  while (out->length < MOST && !memchr(by_text_get(out), '\n', out->length)) {
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    uint64_t now = by_clock_now(&by_clock_system);
    if (now >= until || poll(&wait, 1, (int)((until - now) / BY_MILLISECOND) + 1) == 0)
      return by_fail(BANYAN_ERR_TIMEOUT, "the agent does not answer within %d s", PATIENCE_MS / 1000);
    ssize_t n = read(fd, bytes, sizeof bytes);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
      return by_fail(BANYAN_ERR_PEER_DEAD, "the agent ended the connection without an answer; see what it logs");
    if (n > 0) by_text_add(out, "%.*s", (int)n, bytes);
  }
  return out->failed ? by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the agent's answer") : BANYAN_OK;
}

static enum banyan_status ask(const char *path, json_t **out) {
  static const char question[] = "{\"say\":\"status\"}\n";
  static const struct by_doc_limits limits = {.bytes = MOST, .containers = 65536, .elements = 262144};
  struct by_text answer;
  int fd;
  BY_TRY(by_path_socket_connect(path, "agent", &fd));
  by_text_init(&answer);
  enum banyan_status status = BANYAN_OK;
  if (write(fd, question, sizeof question - 1) != sizeof question - 1)
    status = by_fail_errno(BANYAN_ERR_CONNECT, errno, "cannot ask the agent at %s", path);
  if (status == BANYAN_OK) status = hear(fd, &answer);
  if (status == BANYAN_OK)
    status = by_doc_load("the agent's answer", by_text_get(&answer), answer.length, &limits, out);
  by_text_fini(&answer);
  close(fd);
  return status;
}

/* ---- showing: what is missing or something else is nothing */

static const char *text_of(const json_t *object, const char *field) {
  const char *text = json_string_value(json_object_get(object, field));
  return text && by_is_printable(text, 2000) ? text : "?";
}

static double real(const json_t *object, const char *field) {
  return json_number_value(json_object_get(object, field));
}

static unsigned long long count(const json_t *object, const char *field) {
  return (unsigned long long)json_integer_value(json_object_get(object, field));
}

static bool is(const json_t *object, const char *field) {
  return json_is_true(json_object_get(object, field));
}

static void show_certificate(const json_t *manager) {
  long long left = json_integer_value(json_object_get(manager, "certificate_expires")) - (long long)time(NULL);
  if (left < 0)
    printf("the certificate HAS EXPIRED; see `banyan keys --help`\n");
  else
    printf("the certificate holds for %lld days%s\n", left / DAY,
           left < BY_TLS_SOON * DAY ? "; `banyan keys renew` makes a new one" : "");
}

static void show_head(const json_t *status) {
  const json_t *manager = json_object_get(status, "manager"), *counters = json_object_get(status, "counters");
  char time[32];
  printf("host %s, version %s, up %s; %llu reports, %llu refused\n", text_of(status, "host"),
         text_of(status, "version"), by_print_seconds(real(status, "seconds"), time), count(counters, "reports"),
         count(counters, "refused"));
  if (!manager)
    printf("no manager: jobs are classed by what this host sends\n");
  else
    printf("manager %s: %s for %s%s%s\n", text_of(manager, "address"),
           is(manager, "connected") ? "connected" : "not connected", by_print_seconds(real(manager, "for"), time),
           json_object_get(manager, "why") ? ": " : "", json_object_get(manager, "why") ? text_of(manager, "why") : "");
  if (json_object_get(manager, "certificate_expires")) show_certificate(manager);
}

static void show_interface(const json_t *interface) {
  char rate[32], sent[32], received[32], ours[32];
  printf("  %s %s: link %s, sends %s (jobs %s), receives %s%s\n", text_of(interface, "name"),
         text_of(interface, "address"),
         real(interface, "rate") > 0 ? by_print_rate(real(interface, "rate"), rate) : "?",
         by_print_rate(real(interface, "sent"), sent), by_print_rate(real(interface, "ours_sent"), ours),
         by_print_rate(real(interface, "received"), received), is(interface, "queues") ? ", queues by class" : "");
}

static void show_job(const json_t *job) {
  const json_t *ranks = json_object_get(job, "ranks");
  char time[32], sent[32], expected[32] = "";
  if (count(job, "expected")) snprintf(expected, sizeof expected, " of %llu", count(job, "expected"));
  bool timed = real(job, "iteration_time") > 0;
  printf("  %s %s: class %llu (by the %s), %llu%s iterations%s%s, %s sent, ranks", text_of(job, "job"),
         json_object_get(job, "name") ? text_of(job, "name") : "", count(job, "class"), text_of(job, "classed_by"),
         count(job, "iterations"), expected, timed ? " of " : "",
         timed ? by_print_seconds(real(job, "iteration_time"), time) : "", by_print_bytes(count(job, "sent"), sent));
  for (size_t i = 0; i < json_array_size(ranks); i++)
    printf("%s %lld", i ? "," : "", json_integer_value(json_array_get(ranks, i)));
  printf("\n");
}

static void show_helper(const json_t *helper) {
  printf("  %s as %s: %s\n", text_of(helper, "job"), text_of(helper, "name"),
         is(helper, "joined") ? "joined" : "is joining");
}

static void show_list(const json_t *status, const char *field, const char *title, void (*show)(const json_t *)) {
  const json_t *list = json_object_get(status, field);
  if (!json_array_size(list)) return;
  printf("%s:\n", title);
  for (size_t i = 0; i < json_array_size(list); i++) show(json_array_get(list, i));
}

static void show(const json_t *status) {
  show_head(status);
  show_list(status, "interfaces", "interfaces", show_interface);
  show_list(status, "jobs", "jobs", show_job);
  show_list(status, "helpers", "helps", show_helper);
}

enum banyan_status by_agent_show(const char *path, bool json) {
  json_t *status;
  BY_TRY(ask(path, &status));
  char *text = json ? json_dumps(status, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
  if (text)
    printf("%s\n", text);
  else
    show(status);
  free(text);
  json_decref(status);
  return BANYAN_OK;
}
