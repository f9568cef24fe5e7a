/* A process's connection to the agent of its host, through which the processes of a job find each other. */
#include "directory_client.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/socket.h>

#include "clock.h"
#include "cluster_message.h"
#include "descriptor.h"
#include "handshake.h"
#include "log.h"
#include "socket.h"

enum { MOST_ANSWER = (BY_CLUSTER_FOUNDERS + 2) * (BY_CLUSTER_HANDLE + 3), MOST_WAIT_MS = 60000 };

struct by_meeting_client {
  pthread_mutex_t lock; /* Protects the fields below once `member` is set; before that, only one thread uses them. */
  _Atomic bool member;
  int fd; /* -1 while not connected. */
  char *agent;
  char job[BY_CLUSTER_JOB_ID + 1];
  const char *handle;
  uint32_t founders;
  char *received; /* A buffer of MOST_ANSWER bytes, of which `length` have been received. */
  size_t length;
};

/* Derives the job's identifier from its key: it is the same for all processes of the job, and cannot be guessed without
 * the key. */
static enum banyan_status name_job(const struct by_key *key, char *out) {
  struct by_key name = {{0}};
  enum banyan_status status = by_key_hash(key, "a job whose processes meet", &name);
  for (int i = 0; i < BY_CLUSTER_JOB_ID / 2; i++) snprintf(out + 2 * i, 3, "%02x", name.bytes[i]);
  return status;
}

static enum banyan_status send_meet(struct by_meeting_client *client, bool member) {
  const struct by_cluster_message meet = {.type = BY_MESSAGE_MEET,
                                          .job = client->job,
                                          .count = client->founders,
                                          .handle = client->handle,
                                          .member = member};
  struct by_text line = by_cluster_message_line(&meet);
  by_text_add(&line, "\n");
  bool sent = !line.failed && send(client->fd, by_text_get(&line), line.length, MSG_DONTWAIT | MSG_NOSIGNAL) ==
                                  /* The agent reads promptly, so the socket has room for a few kilobytes. */
                                  (ssize_t)line.length;
  by_text_fini(&line);
  return sent ? BANYAN_OK : by_fail(BANYAN_ERR_PEER_DEAD, "the agent of this host takes no messages any more");
}

static enum banyan_status introduce(struct by_meeting_client *client) {
  if (client->fd >= 0) by_close(client->fd);
  client->fd = -1;
  BY_TRY(by_path_socket_connect(client->agent, "agent", &client->fd));
  return send_meet(client, client->member);
}

static enum banyan_status begin(struct by_meeting_client *client, const struct by_key *key) {
  if (!client->received || !client->agent)
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a connection to an agent");
  BY_TRY(name_job(key, client->job));
  return introduce(client);
}

enum banyan_status by_meeting_client_create(const char *agent, const struct by_key *key, const char *handle,
                                            uint32_t founders, struct by_meeting_client **out) {
  struct by_meeting_client *client = calloc(1, sizeof *client);
  if (!client) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a connection to an agent");
  *client = (struct by_meeting_client){.fd = -1,
                                       .handle = handle,
                                       .founders = MIN(founders, (uint32_t)BY_CLUSTER_FOUNDERS),
                                       .agent = strdup(agent),
                                       .received = malloc(MOST_ANSWER)};
  pthread_mutex_init(&client->lock, NULL);
  enum banyan_status status = begin(client, key);
  if (status == BANYAN_OK)
    *out = client;
  else
    by_meeting_client_destroy(client);
  return status;
}

void by_meeting_client_destroy(struct by_meeting_client *client) {
  if (!client) return;
  if (client->fd >= 0) by_close(client->fd);
  pthread_mutex_destroy(&client->lock);
  free(client->agent);
  free(client->received);
  free(client);
}

/* ---- lists */

static enum banyan_status copy_list(const struct by_cluster_message *message, struct by_directory_list *out) {
  *out = (struct by_directory_list){.first = message->attempt != 0, .attempt = message->attempt};
  out->handles = calloc((size_t)message->n_handles + 1, sizeof *out->handles);
  for (uint32_t i = 0; out->handles && i < message->n_handles; i++) {
    out->handles[i] = strdup(message->handles[i]);
    if (!out->handles[i]) break;
    out->n++;
  }
  if (out->handles && out->n == message->n_handles) return BANYAN_OK;
  by_directory_list_fini(out);
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the handles of a membership");
}

/* Sets *taken if the message was a list. */
static enum banyan_status take_line(const char *line, size_t length, struct by_directory_list *out, bool *taken) {
  struct by_cluster_message message;
  BY_TRY(by_cluster_message_read(line, length, &message));
  enum banyan_status status = BANYAN_OK;
  if (message.type == BY_MESSAGE_REFUSED) status = by_fail(BANYAN_ERR_ARGUMENT, "the agent answers: %s", message.why);
  if (message.type == BY_MESSAGE_MEMBERS && message.n_handles) {
    status = copy_list(&message, out);
    *taken = status == BANYAN_OK;
  }
  by_cluster_message_fini(&message);
  return status;
}

/* Takes the last list received, since earlier ones are out of date. */
static enum banyan_status take_lines(struct by_meeting_client *client, struct by_directory_list *out, bool *taken) {
  for (char *end; (end = memchr(client->received, '\n', client->length));) {
    size_t length = (size_t)(end - client->received);
    struct by_directory_list list = {0};
    bool is_list = false;
    enum banyan_status status = take_line(client->received, length, &list, &is_list);
    client->length -= length + 1;
    memmove(client->received, end + 1, client->length);
    if (status != BANYAN_OK) return status;
    if (!is_list) continue;
    by_directory_list_fini(out);
    *out = list;
    *taken = true;
  }
  return BANYAN_OK;
}

enum banyan_status by_meeting_client_wait(struct by_meeting_client *client, double timeout,
                                          struct by_directory_list *out) {
  uint64_t now = by_clock_now(&by_clock_system), end = now + by_clock_from_seconds(timeout);
  enum banyan_status status = BANYAN_OK;
  bool taken = false;
  *out = (struct by_directory_list){0};
  while (status == BANYAN_OK && !taken) {
    struct pollfd polled = {.fd = client->fd, .events = POLLIN};
    if (now >= end)
      return by_fail(BANYAN_ERR_TIMEOUT,
                     "other processes of this job did not come to the manager within %.3g s: %u form "
                     "the first group (BANYAN_SIZE)",
                     timeout, client->founders);
    (void)poll(&polled, 1, (int)MIN((end - now) / BY_MILLISECOND + 1, MOST_WAIT_MS));
    ssize_t n = recv(client->fd, client->received + client->length, MOST_ANSWER - client->length, MSG_DONTWAIT);
    bool again = n < 0 && (errno == EAGAIN || errno == EINTR);
    if (n > 0) client->length += (size_t)n;
    if (n > 0) status = take_lines(client, out, &taken);
    if (n <= 0 && !again) status = by_fail(BANYAN_ERR_PEER_DEAD, "the agent of this host has closed the connection");
    if (status == BANYAN_OK && client->length == MOST_ANSWER)
      status = by_fail(BANYAN_ERR_PROTOCOL, "the agent of this host sends too long a line");
    now = by_clock_now(&by_clock_system);
  }
  if (status != BANYAN_OK) by_directory_list_fini(out);
  return status;
}

void by_meeting_client_report(struct by_meeting_client *client, bool member) {
  pthread_mutex_lock(&client->lock);
  client->member = member;
  if (send_meet(client, member) != BANYAN_OK) by_info("communicator", "%s", banyan_error_text());
  pthread_mutex_unlock(&client->lock);
}

/* Discards what a member still receives, since it needs no more lists, and reports whether the connection has ended. */
static bool is_lost(const struct by_meeting_client *client) {
  char answer[512];
  ssize_t n = 1;
  while (client->fd >= 0 && n > 0) n = recv(client->fd, answer, sizeof answer, MSG_DONTWAIT);
  return client->fd < 0 || n == 0 || (errno != EAGAIN && errno != EINTR);
}

void by_meeting_client_keep(void *argument) {
  struct by_meeting_client *client = argument;
  pthread_mutex_lock(&client->lock);
  if (client->member && is_lost(client) && introduce(client) != BANYAN_OK)
    by_debug("communicator", "newcomers do not find this process for now: %s", banyan_error_text());
  pthread_mutex_unlock(&client->lock);
}
