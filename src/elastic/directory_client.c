/* A process's connection to the `banyan run` that started it, with a thread that reads its messages. */
#include "directory_client.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "descriptor.h"
#include "log.h"
#include "socket.h"
#include "text.h"

enum { SEND_MILLISECONDS = 5000, MOST_NAME = 100 };

struct by_directory {
  int fd;
  pthread_t thread;
  struct by_directory_events events;
  pthread_mutex_t lock; /* Protects the fields below. */
  pthread_cond_t changed;
  struct by_directory_list coming; /* The list that is being received. */
  struct by_directory_list ready;  /* The complete list that has not been taken yet; valid if `has_ready`. */
  bool has_ready;
  enum banyan_status ended; /* Why no further list will arrive; BANYAN_OK while lists may arrive. */
  char why[BY_DIRECTORY_TEXT];
};

const char *by_directory_place(void) {
  const char *place = getenv("BANYAN_LAUNCHER");
  return place && *place ? place : NULL;
}

/* ---- what comes */

void by_directory_list_fini(struct by_directory_list *list) {
  for (uint32_t i = 0; i < list->n; i++) free(list->handles[i]);
  free(list->handles);
  *list = (struct by_directory_list){0};
}

static void end_waiting(struct by_directory *d, enum banyan_status status, const char *why) {
  pthread_mutex_lock(&d->lock);
  if (!d->ended) {
    d->ended = status;
    by_keep_printable(why, d->why, sizeof d->why);
  }
  pthread_cond_broadcast(&d->changed);
  pthread_mutex_unlock(&d->lock);
}

static enum banyan_status add_peer(struct by_directory_list *list, uint32_t place, const char *handle) {
  if (place == 0) by_directory_list_fini(list); /* Position 0 begins a new list and discards an incomplete one. */
  if (place != list->n) return by_fail(BANYAN_ERR_PROTOCOL, "banyan run named process %u after %u", place, list->n);
  if ((list->n & (list->n - 1)) == 0) {
    char **room = realloc(list->handles, (list->n ? 2 * (size_t)list->n : 1) * sizeof *room);
    if (!room) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the handles of a membership");
    list->handles = room;
  }
  char *copy = strdup(handle);
  if (!copy) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the handles of a membership");
  list->handles[list->n++] = copy;
  return BANYAN_OK;
}

static enum banyan_status complete(struct by_directory *d, const struct by_directory_message *message) {
  if (message->count != d->coming.n || !message->count)
    return by_fail(BANYAN_ERR_PROTOCOL, "banyan run announced %u processes, and named %u", message->count, d->coming.n);
  pthread_mutex_lock(&d->lock);
  by_directory_list_fini(&d->ready);
  d->ready = d->coming;
  d->ready.first = message->type == BY_DIRECTORY_FIRST;
  d->ready.attempt = message->number;
  d->has_ready = true;
  pthread_cond_broadcast(&d->changed);
  pthread_mutex_unlock(&d->lock);
  d->coming = (struct by_directory_list){0};
  return BANYAN_OK;
}

static enum banyan_status take(struct by_directory *d, const struct by_directory_message *message) {
  switch (message->type) {
  case BY_DIRECTORY_PEER: return add_peer(&d->coming, message->number, message->text);
  case BY_DIRECTORY_FIRST:
  case BY_DIRECTORY_JOIN: return complete(d, message);
  case BY_DIRECTORY_DEAD: d->events.died(d->events.context, message->text); return BANYAN_OK;
  case BY_DIRECTORY_LEAVE:
    d->events.leave(d->events.context, message->text);
    end_waiting(d, BANYAN_ERR_CLOSED, message->text);
    return BANYAN_OK;
  default: end_waiting(d, BANYAN_ERR_ARGUMENT, message->text); return BANYAN_OK;
  }
}

static enum banyan_status receive(struct by_directory *d) {
  char bytes[BY_DIRECTORY_MOST];
  struct by_directory_message message;
  struct pollfd polled = {.fd = d->fd, .events = POLLIN};
  size_t length, n;
  if (poll(&polled, 1, -1) < 0) return BANYAN_OK; /* Interrupted by a signal. */
  BY_TRY(by_local_receive(d->fd, bytes, sizeof bytes, &length, NULL, 0, &n));
  if (!length) return BANYAN_OK;
  BY_TRY(by_directory_read(bytes, length, false, &message));
  return take(d, &message);
}

static void *read_all(void *argument) {
  struct by_directory *d = argument;
  enum banyan_status status;
  do status = receive(d);
  while (status == BANYAN_OK);
  end_waiting(d, BANYAN_ERR_PEER_DEAD,
              status == BANYAN_ERR_PEER_DEAD ? "banyan run has ended, or the part of it on this host"
                                             : banyan_error_text());
  return NULL;
}

/* ---- life */

/* Parses "NAME:PROCESS:STARTS". */
static enum banyan_status parse_place(const char *place, char *name, long *process, long *starts) {
  char copy[MOST_NAME + 64];
  snprintf(copy, sizeof copy, "%s", place);
  char *rest = copy, *words[4];
  for (int i = 0; i < 4; i++) words[i] = strsep(&rest, ":");
  if (strlen(place) >= sizeof copy || !words[2] || words[3] || !*words[0] || strlen(words[0]) > MOST_NAME)
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_LAUNCHER=%.64s is not NAME:PROCESS:STARTS: `banyan run` sets it",
                   place);
  strcpy(name, words[0]);
  BY_TRY(by_parse_int("the process in BANYAN_LAUNCHER", words[1], 0, BY_DIRECTORY_PROCESSES - 1, process));
  return by_parse_int("the starts in BANYAN_LAUNCHER", words[2], 0, BY_DIRECTORY_PROCESSES - 1, starts);
}

static enum banyan_status send_message(struct by_directory *d, const struct by_directory_message *message) {
  char bytes[BY_DIRECTORY_MOST];
  bool sent = false;
  struct pollfd polled = {.fd = d->fd, .events = POLLOUT};
  size_t length = by_directory_write(message, bytes);
  for (int i = 0; i < 2 && !sent; i++) {
    if (i && poll(&polled, 1, SEND_MILLISECONDS) <= 0) break;
    BY_TRY(by_local_send(d->fd, bytes, length, NULL, 0, &sent));
  }
  if (sent) return BANYAN_OK;
  return by_fail(BANYAN_ERR_TIMEOUT, "banyan run takes no messages of this process (%d s)", SEND_MILLISECONDS / 1000);
}

static enum banyan_status check_peer(int fd, const char *name) {
  pid_t pid;
  uid_t uid;
  BY_TRY(by_local_get_peer(fd, &pid, &uid));
  if (uid == getuid()) return BANYAN_OK;
  return by_fail(BANYAN_ERR_CONNECT, "another user (%u) listens at \"%s\", in place of banyan run", (unsigned)uid,
                 name);
}

static enum banyan_status connect_and_register(struct by_directory *d, const char *place, const char *handle) {
  struct by_directory_message message = {.type = BY_DIRECTORY_REGISTER};
  char name[MOST_NAME + 1];
  long process, starts;
  BY_TRY(parse_place(place, name, &process, &starts));
  enum banyan_status status = by_local_connect(name, &d->fd);
  if (status != BANYAN_OK) return by_fail_within(status, "banyan run cannot be reached (BANYAN_LAUNCHER)");
  BY_TRY(check_peer(d->fd, name));
  message.number = (uint32_t)process;
  message.count = (uint32_t)starts;
  snprintf(message.text, sizeof message.text, "%s", handle);
  return send_message(d, &message);
}

enum banyan_status by_directory_create(const char *place, const char *handle, const struct by_directory_events *events,
                                       struct by_directory **out) {
  pthread_condattr_t attributes;
  struct by_directory *d = calloc(1, sizeof *d);
  if (!d) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the connection to banyan run");
  d->fd = -1;
  d->events = *events;
  enum banyan_status status = connect_and_register(d, place, handle);
  pthread_mutex_init(&d->lock, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&d->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  int reason = status == BANYAN_OK ? by_thread_start(&d->thread, read_all, d) : 0;
  if (reason) status = by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot start a thread for messages of banyan run");
  if (status == BANYAN_OK) {
    *out = d;
    return BANYAN_OK;
  }
  pthread_cond_destroy(&d->changed);
  pthread_mutex_destroy(&d->lock);
  if (d->fd >= 0) by_close(d->fd);
  free(d);
  return status;
}

void by_directory_destroy(struct by_directory *d) {
  if (!d) return;
  shutdown(d->fd, SHUT_RDWR); /* This ends the reading thread. */
  pthread_join(d->thread, NULL);
  by_close(d->fd);
  by_directory_list_fini(&d->coming);
  by_directory_list_fini(&d->ready);
  pthread_cond_destroy(&d->changed);
  pthread_mutex_destroy(&d->lock);
  free(d);
}

/* ---- what is asked and reported */

enum banyan_status by_directory_wait(struct by_directory *d, double timeout, struct by_directory_list *out) {
  uint64_t end = by_clock_now(&by_clock_system) + by_clock_from_seconds(timeout);
  const struct timespec until = {.tv_sec = (time_t)(end / BY_SECOND), .tv_nsec = (long)(end % BY_SECOND)};
  int waited = 0;
  enum banyan_status status = BANYAN_OK;
  pthread_mutex_lock(&d->lock);
  while (!d->has_ready && !d->ended && waited != ETIMEDOUT)
    waited = pthread_cond_timedwait(&d->changed, &d->lock, &until);
  if (d->ended)
    status = by_fail(d->ended, "%s", d->why);
  else if (!d->has_ready)
    status =
        by_fail(BANYAN_ERR_TIMEOUT, "other processes that banyan run has started did not come within %.3g s", timeout);
  else {
    *out = d->ready;
    d->ready = (struct by_directory_list){0};
    d->has_ready = false;
  }
  pthread_mutex_unlock(&d->lock);
  return status;
}

static void report(struct by_directory *d, const struct by_directory_message *message) {
  if (send_message(d, message) != BANYAN_OK) by_info("communicator", "%s", banyan_error_text());
}

void by_directory_report_member(struct by_directory *d, const char *name, uint32_t rank, uint32_t size) {
  struct by_directory_message message = {.type = BY_DIRECTORY_MEMBER, .number = rank, .count = size};
  snprintf(message.text, sizeof message.text, "%s", name);
  report(d, &message);
}

void by_directory_report_leaving(struct by_directory *d) {
  report(d, &(struct by_directory_message){.type = BY_DIRECTORY_LEAVING});
}

void by_directory_report_failure(struct by_directory *d, uint32_t attempt, const char *reason) {
  struct by_directory_message message = {.type = BY_DIRECTORY_FAILED, .number = attempt};
  snprintf(message.text, sizeof message.text, "%s", *reason ? reason : "unknown");
  report(d, &message);
}
