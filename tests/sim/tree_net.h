/* Workers, a tree of switches or aggregators and a server in memory, in virtual time. The links have a rate, a delay
 * and a queue, and faults. The switches are those of src/in_network/switch; the test supplies the endpoints. The same
 * seed repeats a run. */
#ifndef BY_TESTS_TREE_NET_H
#define BY_TESTS_TREE_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fragment.h"
#include "rng.h"
#include "step.h"

enum { NET_SWITCHES = 24, NET_WORKERS = 192, NET_SERVER = -1, NET_AGGREGATOR = -2, NET_UP = 63, NET_CELLS = 512 };

struct net_faults {
  double lost, doubled, spoiled; /* fractions of packets, on each link */
  double dropped;                /* fraction of packets, at each switch */
  double late;                   /* fraction of packets that are delayed by up to 3 ms, so that others overtake them */
};

/* Processes share processors with others: how long they run, and then wait, on average, ns. What comes meanwhile is
 * handled afterwards. */
struct net_pauses {
  double run, wait; /* 0: they do not wait */
};

struct net_switch {
  int above;       /* the switch above it, or NET_SERVER */
  bool aggregates; /* otherwise the switch only forwards */
  bool gone;       /* only its host remains and forwards by addresses */
  bool lapsed;     /* its grant has expired */
  bool hole;       /* loses all packets with a stack, and packets for all workers */
  uint32_t slots;  /* granted slots */
  bool plain;      /* a router, which no tree knows of */
  bool off_path;   /* an aggregator: its host and its workers' are next to switch `beside`, a router */
  int beside;
  bool lost; /* the aggregator, and its workers and the server know that; with `gone` they do not */
};

struct net_packet {
  uint64_t time, order;
  int node; /* where the packet arrives: a switch, NET_SWITCHES + worker, or NET_SERVER */
  uint32_t port;
  int to; /* destination: a worker, NET_SERVER, or NET_AGGREGATOR less a switch */
  uint32_t bytes;
  _Alignas(64) unsigned char data[64 + BY_FRAGMENT_LINES * 64];
};

struct net_pause {
  uint64_t begin, end;
};

struct net_link {
  uint64_t busy; /* the link is busy until then */
  uint64_t bytes;
};

struct net {
  unsigned workers, switches;
  int worker_at[NET_WORKERS]; /* the worker's switch; NET_SERVER: it is next to the server */
  struct net_switch at[NET_SWITCHES];
  struct net_faults faults;
  struct net_pauses pauses;
  double rate;                 /* bit/s of each link and direction */
  uint64_t delay, queue, mark; /* ns */
  bool floats;                 /* cells are for float32 */
  uint16_t job, key;
  const struct by_hop_key *hop; /* of fragments' MACs; NULL: they have seals */

  uint64_t now, sent, order;
  struct by_rng rng;
  struct by_cell cells[NET_SWITCHES][NET_CELLS];
  uint64_t (*sums[NET_SWITCHES])[BY_CELL_PAIRS]; /* NET_CELLS each, once the switch has got a packet */
  struct by_float_sums float_sums[NET_SWITCHES];
  struct by_replay_window *windows[NET_SWITCHES];                                   /* BY_REPLAY_SENDERS each */
  struct net_link up[NET_SWITCHES + NET_WORKERS], down[NET_SWITCHES + NET_WORKERS]; /* of all nodes but the server */
  struct net_pause pause[1 + NET_SWITCHES + NET_WORKERS]; /* the next one of the server, and of all nodes */
  struct net_packet **heap, **spare;
  size_t length, room, spares;
  uint64_t events[BY_EVENTS];
  void *context;
  void (*to_worker)(void *context, unsigned worker, const struct by_fragment *packet, size_t bytes);
  void (*to_server)(void *context, const struct by_fragment *packet, size_t bytes);
  void (*to_aggregator)(void *context, unsigned which, const struct by_fragment *packet, size_t bytes);
};

/* Initialises a network. The caller has set the fields down to `hop`; the rest is zero. */
void net_init(struct net *net, uint64_t seed);
void net_fini(struct net *net);
/* Writes the stack of a worker's way to the server, or of the way back. Returns the number of hops. */
unsigned net_way(const struct net *net, unsigned worker, bool down, struct by_hop *stack);
/* The groups of its workers, who must be listed in the order of groups where there are several. */
struct by_worker_groups net_groups(const struct net *net);
/* Writes what each of the worker's switches waits for. */
void net_below(const struct net *net, unsigned worker, struct by_worker_set *below);
/* Writes the sets of workers whose terms switches add, smaller sets before larger ones. Returns the number of sets. */
unsigned net_sets(const struct net *net, struct by_worker_set *sets);
/* Returns the sum of the workers' terms as switches and server compute it; each adds in the order of workers. `at` may
 * be NET_SERVER. */
float net_sum(const struct net *net, const float *terms, int at);
void net_from_worker(struct net *net, unsigned worker, const struct by_fragment *packet);
/* Sends a packet from the server. `to` is a worker, or -1 for all workers. */
void net_from_server(struct net *net, const struct by_fragment *packet, int to);
/* Returns when the process at the node runs again, `now` if it does not wait. */
uint64_t net_resumes(struct net *net, int node);
/* Sends an aggregator's packet to the server, or with `down` a copy to each of its workers. */
void net_from_aggregator(struct net *net, unsigned which, const struct by_fragment *packet, bool down);
/* Returns when the next packet arrives; UINT64_MAX: none is on its way. */
uint64_t net_next(const struct net *net);
/* Whether the next packet arrives at the node, now. */
bool net_has_more(const struct net *net, int node);
/* Lets the next packet arrive. */
void net_step(struct net *net);
/* Restarts a switch, which loses its cells. */
void net_restart(struct net *net, unsigned which);

#endif
