/* Workers, switches and a server of a tree in memory (tree_net.h), joined: what an end sends comes to the others. */
#ifndef BY_TESTS_TREE_TRIAL_H
#define BY_TESTS_TREE_TRIAL_H

#include <banyan/types.h>

#include "server.h"
#include "tree_net.h"
#include "worker.h"

enum { TRIAL_CALLS = 12 };

enum tree { NO_SWITCH, ONE_SWITCH, TWO_LEVELS, THREE_HOPS, OFF_PATH, TWO_RACKS, TREES };

struct sum_call {
  enum banyan_dtype dtype;
  size_t count;
  unsigned char *src[NET_WORKERS], *dst[NET_WORKERS];
  uint32_t number[NET_WORKERS];
};

struct trial {
  struct net net;
  struct by_server *server;
  struct by_worker *workers[NET_WORKERS];
  struct by_aggregator *aggregators[NET_SWITCHES];
  unsigned index[NET_WORKERS], index_of_aggregator[NET_SWITCHES]; /* addresses are the callbacks' contexts */
  unsigned slots, lines;
  bool keyed; /* fragments have MACs; in every other trial, by its seed */
  struct by_hop_key hop;
  bool exact, unicast, in_place;
  bool plain; /* all numbers are in fixed point */
  struct sum_call calls[TRIAL_CALLS];
  unsigned n_calls;
  uint64_t start[NET_WORKERS];         /* when a worker has its elements */
  uint64_t limit;                      /* limit of the virtual time */
  void (*meddle)(struct trial *trial); /* called before each step */
  uint64_t ended;
};

/* Returns a trial over a tree of links of 100 Mbit/s and 50 us each. Two levels: two leaves under a root. Three hops: a
 * chain whose middle switch only forwards, with a leaf beside it. Off path: a router with an aggregator, workers and
 * the server. Two racks: two such routers without the server, which is next to a third one. The caller may change it
 * before the ends are made. */
struct trial *trial_create(enum tree tree, unsigned workers, unsigned slots, uint64_t seed);
void trial_make_ends(struct trial *trial);
/* Restarts an aggregator, which loses its cells. */
void trial_restart_aggregator(struct trial *trial, unsigned which);
/* Frees its calls as well. */
void trial_destroy(struct trial *trial);

#endif
