/* Workers, a tree of switches and a server in memory, on links with a rate, a
 * delay and a queue, and with what goes wrong on them, in virtual time. Switches
 * are those of src/in_network/switch; ends come from outside. Repeats itself from a seed. */
#ifndef BY_TESTS_TREE_NET_H
#define BY_TESTS_TREE_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fragment.h"
#include "rng.h"
#include "step.h"

enum { NET_SWITCHES = 8, NET_WORKERS = 16, NET_SERVER = -1, NET_UP = 63, NET_CELLS = 512 };

struct net_faults {
  double lost, doubled, spoiled; /* of packets, on each link */
  double dropped;                /* of packets, at each switch */
  double late;                   /* of packets: by up to 3 ms, so that others overtake them */
};

struct net_switch {
  int above;       /* the switch above it, or NET_SERVER */
  bool aggregates; /* otherwise it forwards */
  bool gone;       /* only its host is there: goes by addresses */
  bool lapsed;     /* its grant */
  bool hole;       /* loses all that has a stack, and what is for all */
  uint32_t slots;  /* granted */
};

struct net_packet {
  uint64_t time, order;
  int node; /* where it comes in: a switch, NET_SWITCHES + worker, or NET_SERVER */
  uint32_t port;
  int to; /* address: a worker, NET_SERVER */
  uint32_t bytes;
  _Alignas(64) unsigned char data[64 + BY_FRAGMENT_LINES * 64];
};

struct net_link {
  uint64_t busy; /* until then */
  uint64_t bytes;
};

struct net {
  unsigned workers, switches;
  int worker_at[NET_WORKERS]; /* switch, or NET_SERVER: beside it */
  struct net_switch at[NET_SWITCHES];
  struct net_faults faults;
  double rate;                 /* bit/s of each link and direction */
  uint64_t delay, queue, mark; /* ns */
  bool floats;                 /* cells are for float32 */
  uint16_t job, key;

  uint64_t now, sent, order;
  struct by_rng rng;
  struct by_cell cells[NET_SWITCHES][NET_CELLS];
  uint64_t sums[NET_SWITCHES][NET_CELLS][BY_CELL_PAIRS];
  struct by_float_sums float_sums[NET_SWITCHES];
  struct net_link up[NET_SWITCHES + NET_WORKERS], down[NET_SWITCHES + NET_WORKERS]; /* of each but the server */
  struct net_packet **heap, **spare;
  size_t length, room, spares;
  uint64_t events[BY_EVENTS];
  void *context;
  void (*to_worker)(void *context, unsigned worker, const struct by_fragment *packet, size_t bytes);
  void (*to_server)(void *context, const struct by_fragment *packet, size_t bytes);
};

/* The fields down to `key` are set; the rest is zero. */
void net_init(struct net *net, uint64_t seed);
void net_fini(struct net *net);
/* The stack of a worker's way to the server, or back; returns the hops. */
unsigned net_way(const struct net *net, unsigned worker, bool down, struct by_hop *stack);
/* The workers below each of its switches. */
void net_below(const struct net *net, unsigned worker, uint64_t *below);
/* Whose terms switches add, the smaller before the larger; how many sets. */
unsigned net_sets(const struct net *net, uint64_t *sets);
/* What switches and server make of the workers' terms: each adds in the order of workers. `at`: NET_SERVER. */
float net_sum(const struct net *net, const float *terms, int at);
void net_from_worker(struct net *net, unsigned worker, const struct by_fragment *packet);
/* `to`: a worker, or -1: all. */
void net_from_server(struct net *net, const struct by_fragment *packet, int to);
/* When the next packet comes; UINT64_MAX: none is on its way. */
uint64_t net_next(const struct net *net);
/* Lets it come. */
void net_step(struct net *net);
/* A switch that forgets its cells. */
void net_restart(struct net *net, unsigned which);

#endif
