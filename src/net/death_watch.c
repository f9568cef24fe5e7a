/* Detects that processes of this host have ended, by pidfds of their sockets' owners. */
#include "death_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "acceptor.h"
#include "descriptor.h"
#include "log.h"
#include "socket.h"
#include "text.h"

enum { NAME = 16 + 2 * BY_DEATH_ID };

struct watched {
  LIST_ENTRY(watched) entry;
  struct by_death_watch *of;
  struct by_watch *watch;
  int process; /* A pidfd. */
  uint8_t id[BY_DEATH_ID];
};

struct by_death_watch {
  struct by_death_watch_options options;
  struct by_acceptor *acceptor; /* NULL: this process is not watched. */
  LIST_HEAD(, watched) all;
};

static void name_of(const uint8_t *id, char *name) {
  int n = snprintf(name, NAME, "banyan-member-");
  by_print_hex(id, BY_DEATH_ID, name + n);
}

/* ---- to be watched */

/* Watchers need no more than the connection. */
static void close_connection(void *context, int fd) {
  (void)context;
  by_close(fd);
}

static enum banyan_status listen_as(struct by_death_watch *watch, const uint8_t *id) {
  char name[NAME];
  name_of(id, name);
  int listener;
  BY_TRY(by_local_listen(name, &listener));
  return by_acceptor_create(watch->options.loop, listener, close_connection, watch, &watch->acceptor);
}

/* ---- watching */

static void forget_watched(struct watched *watched) {
  LIST_REMOVE(watched, entry);
  by_loop_unwatch(watched->watch);
  by_close(watched->process);
  free(watched);
}

static void process_ended(void *context, uint32_t events) {
  struct watched *watched = context;
  const struct by_death_watch_options *options = &watched->of->options;
  uint8_t id[BY_DEATH_ID];
  (void)events;
  memcpy(id, watched->id, sizeof id);
  forget_watched(watched);
  options->dead(options->context, id);
}

static struct watched *find_watched(const struct by_death_watch *watch, const uint8_t *id) {
  struct watched *watched;
  LIST_FOREACH(watched, &watch->all, entry) {
    if (!memcmp(watched->id, id, BY_DEATH_ID)) break;
  }
  return watched;
}

/* Opens the listening process. It must belong to this user: another user could have taken the name of a process on
 * another host. */
static enum banyan_status open_process(const uint8_t *id, int *process) {
  char name[NAME];
  int fd;
  pid_t pid;
  uid_t uid;
  name_of(id, name);
  BY_TRY(by_local_connect(name, &fd));
  enum banyan_status status = by_local_get_peer(fd, &pid, &uid);
  if (status == BANYAN_OK && uid != geteuid())
    status = by_fail(BANYAN_ERR_AUTH, "local socket \"%s\" is user %u's", name, (unsigned)uid);
  if (status == BANYAN_OK) status = by_local_open_peer(fd, process);
  by_close(fd);
  return status;
}

enum banyan_status by_death_watch_add(struct by_death_watch *watch, const uint8_t *id) {
  if (find_watched(watch, id)) return BANYAN_OK;
  struct watched *watched = malloc(sizeof *watched);
  if (!watched) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a process to watch");
  *watched = (struct watched){.of = watch};
  memcpy(watched->id, id, sizeof watched->id);
  enum banyan_status status = open_process(id, &watched->process);
  if (status != BANYAN_OK) {
    free(watched);
    return status;
  }
  status = by_loop_watch(watch->options.loop, watched->process, EPOLLIN, process_ended, watched, &watched->watch);
  LIST_INSERT_HEAD(&watch->all, watched, entry);
  if (status != BANYAN_OK) forget_watched(watched);
  return status;
}

void by_death_watch_prune(struct by_death_watch *watch, bool (*keeps)(void *context, const uint8_t *id),
                          void *context) {
  for (struct watched *watched = LIST_FIRST(&watch->all), *next; watched; watched = next) {
    next = LIST_NEXT(watched, entry);
    if (!keeps(context, watched->id)) forget_watched(watched);
  }
}

/* ---- life */

enum banyan_status by_death_watch_create(const struct by_death_watch_options *options, struct by_death_watch **out) {
  struct by_death_watch *watch = malloc(sizeof *watch);
  if (!watch) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for watching processes");
  *watch = (struct by_death_watch){.options = *options};
  LIST_INIT(&watch->all);
  enum banyan_status status = options->self ? listen_as(watch, options->self) : BANYAN_OK;
  watch->options.self = NULL;
  if (status != BANYAN_OK) {
    by_death_watch_destroy(watch);
    return status;
  }
  *out = watch;
  return BANYAN_OK;
}

void by_death_watch_destroy(struct by_death_watch *watch) {
  if (!watch) return;
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!LIST_EMPTY(&watch->all)) forget_watched(LIST_FIRST(&watch->all));
  by_acceptor_destroy(watch->acceptor);
  free(watch);
}
