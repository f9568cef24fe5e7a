/* Hosts that the cluster's manager offers a job that can use more: a connection of `banyan run` to the agent of its
 * host, which passes requests on. Nothing waits for it: while agent or manager are away, no host is offered. One
 * thread. */
#ifndef BY_CMD_RUN_HOST_OFFERS_H
#define BY_CMD_RUN_HOST_OFFERS_H

#include <stdint.h>

struct by_host_offers;

struct by_host_offers_events {
  void *context;
  void (*offered)(void *context, const char *host); /* may have been offered before */
  void (*print)(void *context, const char *line);   /* why there are no offers; each reason once in a row */
};

/* `agent`: the path of its socket. */
struct by_host_offers *by_host_offers_create(const char *agent, const struct by_host_offers_events *events);
void by_host_offers_destroy(struct by_host_offers *offers); /* NULL is allowed */
/* Receives offers, and requests `wanted` hosts where it is time to; 0: none are wanted now. To be called again a second
 * later. */
void by_host_offers_tick(struct by_host_offers *offers, uint32_t wanted, uint64_t now);

#endif
