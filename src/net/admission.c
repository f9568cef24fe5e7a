#include "admission.h"

#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "acceptor.h"

enum { SILENT, GREETED };

void by_admission_init(struct by_admission *admission, uint32_t wanted) {
  *admission = (struct by_admission){.most = by_acceptor_most_strangers(wanted)};
  (void)!getrandom(&admission->seed, sizeof admission->seed, GRND_NONBLOCK);
  for (int q = 0; q < BY_ADMISSION_QUEUES; q++)
    for (int s = 0; s < BY_ADMISSION_SOURCES; s++) {
      struct by_admission_entry *head = &admission->queues[q].sources[s];
      head->previous = head->next = head;
    }
}

/* What one host can hardly change: an IPv4 address, the network part of an IPv6 address, or a local user. */
static uint64_t identify(int fd) {
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
    struct ucred who = {0};
    length = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0) source = who.uid;
  }
  return source;
}

/* An outsider cannot predict which addresses share a number. */
static uint8_t hash(uint64_t source, uint64_t seed) {
  uint64_t mixed = (source ^ seed) * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93;
  return (uint8_t)((mixed ^ mixed >> 32) % BY_ADMISSION_SOURCES);
}

static void take_out(struct by_admission_entry *entry) {
  struct by_admission_queue *queue = &entry->admission->queues[entry->queue];
  entry->previous->next = entry->next;
  entry->next->previous = entry->previous;
  entry->previous = entry->next = NULL;
  queue->n--;
  queue->n_of[entry->source]--;
}

static void evict_one(struct by_admission *admission) {
  bool silent = admission->queues[SILENT].n >= admission->queues[GREETED].n;
  const struct by_admission_queue *queue = &admission->queues[silent ? SILENT : GREETED];
  uint32_t most = 0;
  for (uint32_t s = 1; s < BY_ADMISSION_SOURCES; s++)
    if (queue->n_of[s] > queue->n_of[most]) most = s;
  struct by_admission_entry *oldest = queue->sources[most].next;
  take_out(oldest);
  oldest->evicted(oldest->context);
}

static void put_in(struct by_admission_entry *entry, uint8_t to) {
  struct by_admission_queue *queue = &entry->admission->queues[to];
  struct by_admission_entry *head = &queue->sources[entry->source];
  entry->queue = to;
  entry->previous = head->previous;
  entry->next = head;
  head->previous->next = entry;
  head->previous = entry;
  queue->n_of[entry->source]++;
  queue->n++;
  if (by_admission_count(entry->admission) > entry->admission->most) evict_one(entry->admission);
}

void by_admission_enter(struct by_admission *admission, struct by_admission_entry *entry, int fd) {
  entry->admission = admission;
  entry->source = hash(identify(fd), admission->seed);
  put_in(entry, SILENT);
}

void by_admission_greeted(struct by_admission_entry *entry) {
  if (!entry->next || entry->queue == GREETED) return;
  take_out(entry);
  put_in(entry, GREETED);
}

void by_admission_leave(struct by_admission_entry *entry) {
  if (entry->next) take_out(entry);
}

uint32_t by_admission_count(const struct by_admission *admission) {
  return admission->queues[SILENT].n + admission->queues[GREETED].n;
}
