/* Accepts the processes of one host at a local socket, and passes messages. */
#include "run_host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "descriptor.h"
#include "launch_io.h"
#include "process.h"
#include "socket.h"

enum { SPARE_CLIENTS = 16, NOBODY = -1 };

struct client {
  int fd;               /* -1: unused. */
  long process;         /* NOBODY: not registered. */
  struct by_pipe queue; /* Waiting messages, each preceded by its length. */
};

struct by_host_directory {
  struct by_host_directory_events events;
  char name[64];
  int listener;
  size_t n;
  struct client *clients;
};

enum banyan_status by_host_directory_create(int max, const struct by_host_directory_events *events,
                                            struct by_host_directory **out) {
  struct by_host_directory *d = by_cli_zeroed(1, sizeof *d);
  uint64_t number[2];
  d->events = *events;
  d->n = 2 * (size_t)max + SPARE_CLIENTS;
  d->clients = by_cli_zeroed(d->n, sizeof *d->clients);
  for (size_t i = 0; i < d->n; i++) d->clients[i] = (struct client){.fd = -1, .process = NOBODY};
  d->listener = -1;
  enum banyan_status status = BANYAN_OK;
  if (getrandom(number, sizeof number, 0) != sizeof number)
    status = by_fail(BANYAN_ERR_SYSTEM, "the system has no randomness for the name of a socket");
  else {
    snprintf(d->name, sizeof d->name, "banyan-run-%016llx%016llx", (unsigned long long)number[0],
             (unsigned long long)number[1]);
    status = by_local_listen(d->name, &d->listener);
  }
  if (status == BANYAN_OK)
    *out = d;
  else
    by_host_directory_destroy(d);
  return status;
}

static void drop_client(struct client *client) {
  by_cli_close(&client->fd);
  by_pipe_fini(&client->queue);
  client->process = NOBODY;
}

void by_host_directory_destroy(struct by_host_directory *d) {
  if (!d) return;
  for (size_t i = 0; i < d->n; i++) drop_client(&d->clients[i]);
  if (d->listener >= 0) by_close(d->listener);
  free(d->clients);
  free(d);
}

const char *by_host_directory_name(const struct by_host_directory *d) {
  return d->name;
}

/* ---- sending */

/* Sends whole messages, until the socket is full. */
static void send_waiting(struct client *client) {
  struct by_pipe *queue = &client->queue;
  uint32_t length;
  bool sent = true;
  while (sent && by_pipe_waiting(queue)) {
    memcpy(&length, queue->data + queue->start, sizeof length);
    if (by_local_send(client->fd, queue->data + queue->start + sizeof length, length, NULL, 0, &sent)) {
      drop_client(client);
      return;
    }
    if (sent) queue->start += sizeof length + length;
  }
}

static struct client *find_client(struct by_host_directory *d, uint32_t process) {
  for (size_t i = 0; i < d->n; i++)
    if (d->clients[i].fd >= 0 && d->clients[i].process == (long)process) return &d->clients[i];
  return NULL;
}

static void queue_message(struct client *client, const void *message, size_t length) {
  uint32_t header = (uint32_t)length;
  by_pipe_add(&client->queue, &header, sizeof header);
  by_pipe_add(&client->queue, message, length);
  send_waiting(client);
}

void by_host_directory_send(struct by_host_directory *d, uint32_t process, const void *message, size_t length) {
  struct client *client = find_client(d, process);
  if (client && length) queue_message(client, message, length);
}

void by_host_directory_send_all(struct by_host_directory *d, const void *message, size_t length) {
  for (size_t i = 0; i < d->n && length; i++)
    if (d->clients[i].fd >= 0 && d->clients[i].process != NOBODY) queue_message(&d->clients[i], message, length);
}

void by_host_directory_forget(struct by_host_directory *d, uint32_t process) {
  struct client *client = find_client(d, process);
  if (client) drop_client(client);
}

/* ---- receiving */

static void refuse_client(struct client *client, const char *why) {
  char bytes[BY_DIRECTORY_MOST];
  struct by_directory_message message = {.type = BY_DIRECTORY_REFUSED};
  snprintf(message.text, sizeof message.text, "%s", why);
  queue_message(client, bytes, by_directory_write(&message, bytes));
  drop_client(client);
}

/* Registers a process. A destroyed member is replaced by another one of the same process. */
static bool register_client(struct by_host_directory *d, struct client *client,
                            const struct by_directory_message *message) {
  int starts = d->events.starts(d->events.context, message->number);
  if (starts < 0 || (uint32_t)starts != message->count || find_client(d, message->number)) {
    refuse_client(client, starts < 0 ? "banyan run has no process of this number on this host"
                                     : "banyan run accepts one member of each process: start one, and continue with it "
                                       "by banyan_member_recover");
    return false;
  }
  client->process = message->number;
  return true;
}

static void take_message(struct by_host_directory *d, struct client *client) {
  char bytes[BY_DIRECTORY_MOST];
  struct by_directory_message message;
  size_t length, n;
  if (by_local_receive(client->fd, bytes, sizeof bytes, &length, NULL, 0, &n)) {
    drop_client(client);
    return;
  }
  if (!length) return;
  if (by_directory_read(bytes, length, true, &message) ||
      (client->process == NOBODY) != (message.type == BY_DIRECTORY_REGISTER)) {
    drop_client(client);
    return;
  }
  if (message.type == BY_DIRECTORY_REGISTER && !register_client(d, client, &message)) return;
  d->events.received(d->events.context, (uint32_t)client->process, bytes, length);
}

static void take_client(struct by_host_directory *d) {
  pid_t pid;
  uid_t uid;
  int fd = accept4(d->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return;
  if (by_local_get_peer(fd, &pid, &uid) == BANYAN_OK && uid == getuid())
    for (size_t i = 0; i < d->n; i++) {
      if (d->clients[i].fd >= 0) continue;
      d->clients[i].fd = fd;
      return;
    }
  close(fd);
}

size_t by_host_directory_max(const struct by_host_directory *d) {
  return 1 + d->n;
}

size_t by_host_directory_fill(const struct by_host_directory *d, struct pollfd *out) {
  out[0] = (struct pollfd){.fd = d->listener, .events = POLLIN};
  for (size_t i = 0; i < d->n; i++) {
    const struct client *client = &d->clients[i];
    out[1 + i] = (struct pollfd){.fd = client->fd,
                                 .events = (short)(by_pipe_waiting(&client->queue) ? POLLIN | POLLOUT : POLLIN)};
  }
  return 1 + d->n;
}

void by_host_directory_handle(struct by_host_directory *d, const struct pollfd *polled) {
  for (size_t i = 0; i < d->n; i++) {
    struct client *client = &d->clients[i];
    if (client->fd < 0 || client->fd != polled[1 + i].fd) continue;
    if (polled[1 + i].revents & POLLOUT) send_waiting(client);
    if (client->fd >= 0 && polled[1 + i].revents & ~POLLOUT) take_message(d, client);
  }
  if (polled[0].revents) take_client(d);
}
