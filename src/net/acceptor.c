/* Accepts connections on a loop, and bounds those whose peers have not authenticated. */
#include "acceptor.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "descriptor.h"
#include "log.h"
#include "socket.h"

enum {
  AT_ONCE = 16,  /* Connections accepted in one round of the loop. */
  MAX_RESTS = 5, /* Pauses of a second each before the owner is notified. */
  BRIEF_MS = 50, /* Milliseconds of a pause after that. */
  CALM_S = 5     /* Seconds without a pause, after which the next one begins a new shortage. */
};

struct by_acceptor {
  struct by_loop *loop;
  struct by_watch *watch;
  struct by_timer rest;
  int listener;
  void (*accepted)(void *context, int fd), (*exhausted)(void *context);
  void *context;
  uint32_t rests;       /* Pauses in this shortage of descriptors. */
  uint64_t rested_at;   /* When the last pause began. */
  bool busy, destroyed; /* busy: inside `accepted`; destroyed: there. */
};

/* Stops accepting for a while. An owner that was notified may use the few descriptors there are to answer new
 * connections. */
static void pause_listener(struct by_acceptor *acceptor) {
  bool notified = acceptor->rests >= MAX_RESTS && acceptor->exhausted;
  if (!notified) by_warn("net", "no connections are taken for a second: %s", banyan_error_text());
  by_loop_change(acceptor->watch, 0);
  by_loop_set_delay(acceptor->loop, &acceptor->rest, notified ? BRIEF_MS * BY_MILLISECOND : BY_SECOND);
  acceptor->rests++;
  acceptor->rested_at = by_loop_now(acceptor->loop);
  if (notified) acceptor->exhausted(acceptor->context);
}

/* Accepts one connection. Returns false if there is none left. */
static bool take_one(struct by_acceptor *acceptor) {
  int fd;
  if (by_socket_accept(acceptor->listener, &fd, NULL) != BANYAN_OK) {
    pause_listener(acceptor);
    return false;
  }
  /* An owner that was notified answers new connections, each as soon as there is a descriptor again. */
  bool calm = by_loop_now(acceptor->loop) - acceptor->rested_at >= CALM_S * BY_SECOND;
  if (acceptor->rests < MAX_RESTS || calm) acceptor->rests = 0;
  if (fd >= 0) acceptor->accepted(acceptor->context, fd);
  return fd >= 0;
}

static void accept_ready(void *context, uint32_t events) {
  struct by_acceptor *acceptor = context;
  acceptor->busy = true;
  for (int i = 0; i < AT_ONCE && !acceptor->destroyed && take_one(acceptor); i++) {
  }
  acceptor->busy = false;
  if (acceptor->destroyed) free(acceptor);
}

static void resume_listener(void *context) {
  struct by_acceptor *acceptor = context;
  by_loop_change(acceptor->watch, EPOLLIN);
}

enum banyan_status by_acceptor_create(struct by_loop *loop, int listener, void (*accepted)(void *context, int fd),
                                      void *context, struct by_acceptor **out) {
  struct by_acceptor *acceptor = calloc(1, sizeof *acceptor);
  if (!acceptor) {
    by_close(listener);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a listener");
  }
  *acceptor = (struct by_acceptor){.loop = loop, .listener = listener, .accepted = accepted, .context = context};
  by_timer_init(&acceptor->rest, resume_listener, acceptor);
  enum banyan_status status = by_loop_watch(loop, listener, EPOLLIN, accept_ready, acceptor, &acceptor->watch);
  if (status != BANYAN_OK)
    by_acceptor_destroy(acceptor);
  else
    *out = acceptor;
  return status;
}

void by_acceptor_on_exhaustion(struct by_acceptor *acceptor, void (*exhausted)(void *context)) {
  acceptor->exhausted = exhausted;
}

uint32_t by_acceptor_max_unauthenticated(uint32_t wanted) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / 4 > wanted) return wanted;
  return (uint32_t)(limit.rlim_cur / 4);
}

void by_acceptor_destroy(struct by_acceptor *acceptor) {
  if (!acceptor) return;
  by_loop_unwatch(acceptor->watch);
  by_loop_cancel_timer(&acceptor->rest);
  by_close(acceptor->listener);
  acceptor->destroyed = true;
  if (!acceptor->busy) free(acceptor);
}

/* ---- admission */

enum { SILENT, GREETED };

void by_admission_init(struct by_admission *admission, uint32_t wanted) {
  *admission = (struct by_admission){.max = by_acceptor_max_unauthenticated(wanted)};
  (void)!getrandom(&admission->seed, sizeof admission->seed, GRND_NONBLOCK);
  for (int s = 0; s < BY_ADMISSION_SOURCES; s++) {
    TAILQ_INIT(&admission->queues[SILENT].sources[s]);
    TAILQ_INIT(&admission->queues[GREETED].sources[s]);
  }
}

/* What a host can hardly change: an IPv4 address, the network part of an IPv6 address, or a local user. */
static uint64_t identify_source(int fd) {
  struct sockaddr_storage peer = {0};
  socklen_t length = sizeof peer;
  uint64_t source = 0;
  if (getpeername(fd, (struct sockaddr *)&peer, &length) < 0) return 0;
  if (peer.ss_family == AF_INET) {
    source = ((const struct sockaddr_in *)&peer)->sin_addr.s_addr;
  } else if (peer.ss_family == AF_INET6) {
    const struct in6_addr *address = &((const struct sockaddr_in6 *)&peer)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(address))
      memcpy(&source, &address->s6_addr[12], 4);
    else
      memcpy(&source, address->s6_addr, sizeof source);
  } else {
    struct ucred user = {0};
    length = sizeof user;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &length) == 0) source = user.uid;
  }
  return source;
}

static void take_out(struct by_admission_entry *entry) {
  struct by_admission_queue *queue = &entry->admission->queues[entry->queue];
  TAILQ_REMOVE(&queue->sources[entry->source], entry, link);
  entry->queued = false;
  queue->n--;
  queue->n_of[entry->source]--;
}

static void evict_one(struct by_admission *admission) {
  const struct by_admission_queue *queue = &admission->queues[SILENT];
  if (queue->n < admission->queues[GREETED].n) queue = &admission->queues[GREETED];
  uint32_t max = 0;
  for (uint32_t s = 1; s < BY_ADMISSION_SOURCES; s++)
    if (queue->n_of[s] > queue->n_of[max]) max = s;
  struct by_admission_entry *oldest = TAILQ_FIRST(&queue->sources[max]);
  take_out(oldest);
  oldest->evicted(oldest->context);
}

static void put_in(struct by_admission_entry *entry, uint8_t to) {
  struct by_admission_queue *queue = &entry->admission->queues[to];
  TAILQ_INSERT_TAIL(&queue->sources[entry->source], entry, link);
  entry->queue = to;
  entry->queued = true;
  queue->n_of[entry->source]++;
  queue->n++;
  if (by_admission_count(entry->admission) > entry->admission->max) evict_one(entry->admission);
}

void by_admission_enter(struct by_admission *admission, struct by_admission_entry *entry, int fd) {
  /* An outsider cannot predict which addresses share a number. */
  uint64_t mixed = (identify_source(fd) ^ admission->seed) * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93;
  entry->admission = admission;
  entry->source = (uint8_t)((mixed ^ mixed >> 32) % BY_ADMISSION_SOURCES);
  put_in(entry, SILENT);
}

void by_admission_greeted(struct by_admission_entry *entry) {
  if (!entry->queued || entry->queue == GREETED) return;
  take_out(entry);
  put_in(entry, GREETED);
}

void by_admission_leave(struct by_admission_entry *entry) {
  if (entry->queued) take_out(entry);
}

uint32_t by_admission_count(const struct by_admission *admission) {
  return admission->queues[SILENT].n + admission->queues[GREETED].n;
}
