/* Requests hosts from the agent of this host, and receives offers. */
#include "elastic_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/socket.h>

#include "clock.h"
#include "cluster_message.h"
#include "descriptor.h"
#include "localsocket.h"
#include "process.h"

static const uint64_t request_pause = 2 * BY_SECOND; /* Pause between two requests, or attempts to connect. */

enum { MAX_ANSWER = BY_CLUSTER_OFFER * (BY_CLUSTER_NAME + 3) + 4096, MAX_REASON = 512 };

struct by_host_offers {
  const char *agent;
  struct by_host_offers_events events;
  int fd; /* -1: not connected. */
  uint64_t ask_at;
  char *received; /* MAX_ANSWER bytes; the first `length` are the beginning of a line. */
  size_t length;
  char reason[MAX_REASON]; /* The last printed reason; "": none since hosts could be requested. */
};

struct by_host_offers *by_host_offers_create(const char *agent, const struct by_host_offers_events *events) {
  struct by_host_offers *offers = by_cli_zeroed(1, sizeof *offers);
  *offers = (struct by_host_offers){.agent = agent, .events = *events, .fd = -1};
  offers->received = by_cli_zeroed(1, MAX_ANSWER);
  return offers;
}

static void close_connection(struct by_host_offers *offers) {
  if (offers->fd >= 0) by_close(offers->fd);
  offers->fd = -1;
  offers->length = 0;
}

void by_host_offers_destroy(struct by_host_offers *offers) {
  if (!offers) return;
  close_connection(offers);
  free(offers->received);
  free(offers);
}

static void note_failure(struct by_host_offers *offers, const char *reason) {
  char line[MAX_REASON + 64];
  close_connection(offers);
  if (!strcmp(offers->reason, reason)) return;
  snprintf(offers->reason, sizeof offers->reason, "%s", reason);
  snprintf(line, sizeof line, "no hosts are offered for now (--manager-hosts): %s", reason);
  offers->events.print(offers->events.context, line);
}

/* A name becomes an argument of ssh. */
static bool is_name(const char *name) {
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return *name != '-' && strspn(name, allowed) == strlen(name);
}

static void take_line(struct by_host_offers *offers, const char *line, size_t length) {
  struct by_cluster_message message;
  if (by_cluster_message_read(line, length, &message) != BANYAN_OK) {
    note_failure(offers, banyan_error_text());
    return;
  }
  if (message.type == BY_MESSAGE_OFFERED) {
    offers->reason[0] = '\0';
    for (uint32_t i = 0; i < message.n_hosts; i++)
      if (is_name(message.hosts[i])) offers->events.offered(offers->events.context, message.hosts[i]);
  } else if (message.type == BY_MESSAGE_REFUSED)
    note_failure(offers, message.why);
  by_cluster_message_fini(&message);
}

static void receive_offers(struct by_host_offers *offers) {
  ssize_t n = 1;
  while (offers->fd >= 0 && n > 0) {
    n = recv(offers->fd, offers->received + offers->length, MAX_ANSWER - offers->length, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n > 0) offers->length += (size_t)n;
    for (char *end; offers->fd >= 0 && (end = memchr(offers->received, '\n', offers->length));) {
      size_t length = (size_t)(end - offers->received);
      take_line(offers, offers->received, length);
      if (offers->fd < 0) return;
      offers->length -= length + 1;
      memmove(offers->received, end + 1, offers->length);
    }
    if (n <= 0 || offers->length == MAX_ANSWER)
      note_failure(offers, "the agent of this host has closed the connection");
  }
}

static void request_hosts(struct by_host_offers *offers, uint32_t wanted) {
  if (offers->fd < 0 && by_path_socket_connect(offers->agent, "agent", &offers->fd) != BANYAN_OK) {
    note_failure(offers, banyan_error_text());
    return;
  }
  struct by_text line =
      by_cluster_message_line(&(struct by_cluster_message){.type = BY_MESSAGE_WANTED, .count = wanted});
  by_text_add(&line, "\n");
  if (line.failed ||
      send(offers->fd, by_text_get(&line), line.length, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)line.length)
    note_failure(offers, "the agent of this host takes no requests");
  by_text_fini(&line);
}

void by_host_offers_tick(struct by_host_offers *offers, uint32_t wanted, uint64_t now) {
  receive_offers(offers);
  if (!wanted || now < offers->ask_at) return;
  offers->ask_at = now + request_pause;
  request_hosts(offers, MIN(wanted, (uint32_t)BY_CLUSTER_OFFER));
}
