/* Predicts the time of an AllReduce by one class of a plan over a topology, where calls follow each other: from the end
 * of one call to that of the next.
 *
 * The chunks of plain trees are simulated, all trees of a class together, since trees wait for each other where they
 * share links or cores (cost_flow.c). The time of other classes is
 *
 *   T = call + max(hypot(max(path, bytes / rate of the plan's load), work of all / cores), work of the busiest vertex)
 *
 * where work is message * messages or byte * bytes, and `path` is the time of a piece's first chunk: it passes through
 * its tree hop by hop, waits for earlier chunks on its first and its last link, then takes chunk / capacity + delay +
 * hop + link * links, and `message` at the vertex. A link idles until the first tree that uses it has bytes for it, and
 * again after its last bytes, until the first such tree is done. So a ring, in which every link is busy from the first
 * moment to the last, pays for its steps only where they are longer than its bytes.
 *
 * An in-network tree takes two trips to its server and back, and its fragments' time on the fullest link of its paths
 * (cost_tree.c). The time of a class is that of its slowest tree. by_cost_fit fits the costs to measured times. */
#ifndef BY_PLANNER_COST_COST_H
#define BY_PLANNER_COST_COST_H

#include <stdbool.h>

#include "plan_load.h"
#include "text.h"

/* Costs of hosts and links, in seconds and bytes. docs/measurements/2026-11-22-predicted-times.md explains the
 * defaults. */
struct by_cost_rates {
  double wire;    /* bytes on a link for a byte of data, >= 1 */
  double call;    /* of every call */
  double hop;     /* from the arrival of the last byte at a vertex to its departure, including waking up */
  double link;    /* of every link on a path: the delay of what forwards in between */
  double message; /* of a vertex for each message, or chunk of one, that it sends or receives */
  double cores;   /* the cores that all vertices share; INFINITY, or as many as vertices: each has its own */
  double byte;    /* of a vertex for each byte that it sends or receives: copying and adding */
  double grain;   /* the size in bytes of a chunk of a long message; a shorter message has chunks of a quarter, at least
                     half of this */
  double burst;   /* the time for which an idle link saves capacity for a burst, plus a packet's length; 0: none (lab: 1
                     ms) */
};

/* Returns the costs for a host of its own for each rank, and TCP over Ethernet. */
struct by_cost_rates by_cost_defaults(void);
/* Changes the named costs: "hop=40us,wire=1.05,grain=64K". BANYAN_ERR_ARGUMENT names what is wrong. */
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
  struct by_cost_tree *trees; /* for a rotated group only some, evenly distributed */
  struct by_cost_flow *flow;  /* the flow of plain trees; NULL: there are other trees, or too many edges */
  uint32_t n_networks;
  struct by_cost_network *networks; /* the in-network trees */
  double messages;                  /* the messages that the busiest vertex sends and receives in a call */
  double all_messages;              /* the messages that all vertices send and receive */
  double busy;                      /* the bytes that the busiest vertex sends and receives, per byte of input */
  double all_bytes;                 /* the bytes that all vertices send and receive, per byte of input */
  struct by_arena arena;
};

/* Computes the cost of a class; free it with by_cost_fini. Errors and cost: by_plan_load_init, plus the edges of the
 * examined trees. */
BANYAN_CHECK enum banyan_status by_cost_init(struct by_cost *cost, const struct by_plan *plan,
                                             const struct by_class *class_, const struct by_topology *topology,
                                             const struct by_cost_rates *rates);
void by_cost_fini(struct by_cost *cost);
/* Returns the seconds of a call over this many bytes. NAN: no memory. Cost: edges of the examined trees, plus links of
 * all paths. */
double by_cost_time(const struct by_cost *cost, double bytes);

/* Measured calls of one class of a plan. */
struct by_cost_sample {
  struct by_cost cost;
  uint32_t n;
  double *bytes, *seconds;
};

/* Fits call, hop, message and byte, starting with *rates, until changing none of them alone by a fiftieth is better;
 * none changes by more than a factor of 64. Afterwards the samples' costs use these rates. *error is the mean
 * difference of the logarithms of times, at most BY_COST_FIT_MAX each, so that outliers do not dominate. Cost: some
 * hundred predictions of all samples. */
#define BY_COST_FIT_MAX 0.5
BANYAN_CHECK enum banyan_status by_cost_fit(struct by_cost_sample *samples, uint32_t n, struct by_cost_rates *rates,
                                            double *error);

/* The costs of this machine, found by a job or by `banyan plan --fit`: a file in the user's cache folder that also
 * identifies the machine, since several machines may share a home. They are the default costs. */

struct by_cost_machine {
  const char *name;
  uint64_t processors;
  bool encrypted; /* The costs are for encrypted connections. */
};

/* Returns this machine; its name has static storage for each thread. Connections between hosts are encrypted unless
 * BANYAN_ENCRYPT is "off". */
struct by_cost_machine by_machine_get(void);

enum { BY_MACHINE_MAX_PATH = 4096 };
/* Returns the path of the machine's file in the folder of by_cache_folder: "costs-NAME-tls.json", or "costs-NAME.json"
 * for unencrypted connections. BANYAN_ERR_ARGUMENT: there is no folder, or the path is too long. */
BANYAN_CHECK enum banyan_status by_machine_costs_path(const struct by_cost_machine *machine,
                                                      char out[BY_MACHINE_MAX_PATH]);
/* Sets the rates that the file's text contains. BANYAN_ERR_PARSE: it is damaged, of another machine, or newer than
 * `now`, in seconds since 1970; then rates stay unchanged. `source` names it in errors. */
BANYAN_CHECK enum banyan_status by_machine_costs_parse(const char *source, const char *text, size_t length, double now,
                                                       const struct by_cost_machine *machine,
                                                       struct by_cost_rates *rates);
/* Prints the file's text, made `now`; `costs` as for by_cost_parse. */
void by_machine_costs_print(const struct by_cost_machine *machine, const char *costs, double now, struct by_text *text);
/* Reads the file. BANYAN_ERR_ARGUMENT: it does not exist. */
BANYAN_CHECK enum banyan_status by_machine_costs_read(const struct by_cost_machine *machine, const char *path,
                                                      struct by_cost_rates *rates);
/* Writes the file, and replaces an existing one. */
BANYAN_CHECK enum banyan_status by_machine_costs_keep(const struct by_cost_machine *machine, const char *costs);
/* Sets the rates of this machine's file, if there is one. Logs a defect of the file once. */
void by_machine_costs_use(struct by_cost_rates *rates);

#endif
