/* Predicts the time of an AllReduce by one class of a plan over a topology, if calls follow each other: from the end of
 * one call to that of the next.
 *
 * The chunks of plain trees are simulated, all trees of a class together, since trees wait for each other where they
 * share links or cores (cost_flow.c). The time of other classes is
 *
 *   T = call + max(hypot(max(path, bytes / rate of the plan's load), work of all / cores), work of the busiest vertex)
 *
 * where work is message * messages or byte * bytes, and `path` is the time of a piece's first chunk: it passes through
 * its tree hop by hop, waits for earlier chunks on its first and its last link, and takes chunk / capacity + delay +
 * hop + link * links, and `message` at the vertex. A link is idle until the first tree that uses it has bytes for it,
 * and again after its last bytes, until the first such tree has ended. So for a ring, in which every link is always
 * busy, steps only count where they take longer than its bytes.
 *
 * An in-network tree takes two round trips to its server, and its fragments' time on the fullest link of its paths
 * (cost_tree.c). The time of a class is that of its slowest tree. by_cost_fit fits the costs to measured times. */
#ifndef BY_PLANNER_COST_COST_H
#define BY_PLANNER_COST_COST_H

#include <stdbool.h>

#include "plan_load.h"
#include "text.h"

/* The costs of hosts and links, in seconds and bytes. docs/measurements/2026-11-22-predicted-times.md explains the
 * defaults. */
struct by_cost_rates {
  double wire;    /* The bytes on a link for a byte of data, at least 1. */
  double call;    /* The seconds of every call. */
  double hop;     /* The seconds from the arrival of the last byte at a vertex to its departure, including waking up. */
  double link;    /* The seconds of every link on a path: the delay of what forwards between links. */
  double message; /* The seconds of a vertex for each message, or chunk of one, that it sends or receives. */
  double cores;   /* The number of cores that all vertices share; INFINITY, or as many as vertices: each has its own. */
  double byte;    /* The seconds of a vertex for each byte that it sends or receives: copying and adding. */
  /* The size of a chunk of a long message in bytes. A shorter message has chunks of a quarter, but at least half of
   * this size. */
  double grain;
  /* The seconds for which an idle link saves capacity for a burst, plus the length of a packet; 0: none. In a lab: 1
   * ms. */
  double burst;
};

/* Returns the costs for a host of its own for each rank, and TCP over Ethernet. */
struct by_cost_rates by_cost_defaults(void);
/* Changes the named costs: "hop=40us,wire=1.05,grain=64K". BANYAN_ERR_ARGUMENT names the error. */
BANYAN_CHECK enum banyan_status by_cost_parse(const char *text, struct by_cost_rates *rates);

/* A tree of the class over the plan's vertices, or an exchange. */
struct by_cost_tree;
struct by_cost_flow;
struct by_cost_network;

/* The cost of a class for all sizes. Borrows the topology, not the plan. */
struct by_cost {
  const struct by_topology *topology;
  struct by_cost_rates rates;
  struct by_plan_load load;
  uint32_t n_trees;
  struct by_cost_tree *trees; /* The trees. Of a rotated group there are only some, evenly distributed. */
  struct by_cost_flow *flow;  /* The flow of plain trees; NULL: there are other trees, or too many edges. */
  uint32_t n_networks;
  struct by_cost_network *networks; /* The in-network trees. */
  double messages;                  /* The number of messages that the busiest vertex sends and receives in a call. */
  double all_messages;              /* The number of messages that all vertices send and receive in a call. */
  double busy;      /* The number of bytes that the busiest vertex sends and receives, per byte of input. */
  double all_bytes; /* The number of bytes that all vertices send and receive, per byte of input. */
  struct by_arena arena;
};

/* Computes the cost of a class. Free it with by_cost_fini. Errors and cost: those of by_plan_load_init, plus the edges
 * of the examined trees. */
BANYAN_CHECK enum banyan_status by_cost_init(struct by_cost *cost, const struct by_plan *plan,
                                             const struct by_class *class_, const struct by_topology *topology,
                                             const struct by_cost_rates *rates);
void by_cost_fini(struct by_cost *cost);
/* Returns the seconds of a call over this many bytes; NAN: no memory. Cost: edges of the examined trees, plus links of
 * all paths. */
double by_cost_time(const struct by_cost *cost, double bytes);

/* Measured calls of one class of a plan. */
struct by_cost_sample {
  struct by_cost cost;
  uint32_t n;
  double *bytes, *seconds;
};

/* Fits call, hop, message and byte, starting with *rates, until no change of one of them by a fiftieth is better. None
 * changes by more than a factor of 64. Afterwards the samples' costs use these rates. *error is the mean difference of
 * the logarithms of times, at most BY_COST_FIT_MAX each, so that outliers do not dominate. Cost: some hundred
 * predictions of all samples. */
#define BY_COST_FIT_MAX 0.5
BANYAN_CHECK enum banyan_status by_cost_fit(struct by_cost_sample *samples, uint32_t n, struct by_cost_rates *rates,
                                            double *error);

/* The costs of this machine, found by a job or by `banyan plan --fit`, in a file in the user's cache folder. The file
 * also identifies the machine, since several machines may share a home folder. They are the default costs. */

struct by_cost_machine {
  const char *name;
  uint64_t processors;
  bool encrypted; /* The costs are for encrypted connections. */
};

/* Returns this machine. Its name has static storage for each thread. Connections between hosts are encrypted unless
 * BANYAN_ENCRYPT is "off". */
struct by_cost_machine by_machine_get(void);

enum { BY_MACHINE_MAX_PATH = 4096 };
/* Returns the path of the machine's file in the folder of by_cache_folder: "costs-NAME-tls.json", or "costs-NAME.json"
 * for unencrypted connections. BANYAN_ERR_ARGUMENT: there is no folder, or the path is too long. */
BANYAN_CHECK enum banyan_status by_machine_costs_path(const struct by_cost_machine *machine,
                                                      char out[BY_MACHINE_MAX_PATH]);
/* Sets the rates that the file's text contains. BANYAN_ERR_PARSE: it is damaged, of another machine, or newer than
 * `now`, in seconds since 1970; in this case rates stay unchanged. `source` names it in errors. */
BANYAN_CHECK enum banyan_status by_machine_costs_parse(const char *source, const char *text, size_t length, double now,
                                                       const struct by_cost_machine *machine,
                                                       struct by_cost_rates *rates);
/* Prints the file's text, made at `now` in seconds since 1970. `costs` has the format of by_cost_parse. */
void by_machine_costs_print(const struct by_cost_machine *machine, const char *costs, double now, struct by_text *text);
/* Reads the file. BANYAN_ERR_ARGUMENT: it does not exist. */
BANYAN_CHECK enum banyan_status by_machine_costs_read(const struct by_cost_machine *machine, const char *path,
                                                      struct by_cost_rates *rates);
/* Writes the file, and replaces an existing one. */
BANYAN_CHECK enum banyan_status by_machine_costs_keep(const struct by_cost_machine *machine, const char *costs);
/* Sets the rates of this machine's file, if there is one. Logs a defect of the file once. */
void by_machine_costs_use(struct by_cost_rates *rates);

#endif
