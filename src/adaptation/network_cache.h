/* Networks that were measured before, one in a file: what identifies it, its topology, a few probes with the rates that
 * they had, and what was decided on its plan. The hosts of a job may stand in any order. Files are private to their
 * user. */
#ifndef BY_ADAPTATION_NETWORK_CACHE_H
#define BY_ADAPTATION_NETWORK_CACHE_H

#include <stdbool.h>

#include "address.h"
#include "fail.h"
#include "measure.h"

/* Days after which an entry is too old; and after which a plan that was not faster than the built-in ones is tried
 * again, since what was in the way may be gone. */
enum { BY_NETWORK_CACHE_DAYS = 30, BY_NETWORK_TRIAL_DAYS = 1 };

struct by_network_key {
  uint32_t n;
  const char *const *hosts; /* What each host of the job knows of the network (by_host_facts). */
  const char *planner;      /* What else a plan depends on (by_planning_describe); it does not identify the network. */
};

/* The decision on the plan for hosts in this order, by this planner. */
enum by_network_decision {
  BY_NETWORK_UNDECIDED, /* There is no decision, or it is too old. */
  BY_NETWORK_BUILTIN,   /* The built-in plans were not slower. */
  BY_NETWORK_PLANNED,   /* The plan is used. */
};

struct by_network_entry {
  struct by_measured measured;
  uint32_t *place; /* The index in `measured` of each host of the job; NULL: the same. Owned. */
  enum by_network_decision decision;
  char
      *plan; /* With BY_NETWORK_PLANNED: the plan over the job's hosts, as text; NULL: it is to be made again. Owned. */
  double age; /* Seconds since it was measured. */
};

/* The entry of this network. Its owner calls by_network_entry_fini. BANYAN_ERR_ARGUMENT: there is none; other errors
 * say in a line why that which is there is of no use. */
BANYAN_CHECK enum banyan_status by_network_cache_load(const char *folder, const struct by_network_key *key,
                                                      struct by_network_entry *out);
/* Puts it in the place of what was there. Makes folders that do not exist, and removes entries that are too old. */
BANYAN_CHECK enum banyan_status by_network_cache_store(const char *folder, const struct by_network_key *key,
                                                       const struct by_network_entry *entry);
/* Reads an entry from text. `now`: seconds since 1970. */
BANYAN_CHECK enum banyan_status by_network_entry_parse(const char *source, const char *text, size_t length,
                                                       const struct by_network_key *key, double now,
                                                       struct by_network_entry *out);
void by_network_entry_fini(struct by_network_entry *entry);
/* Decided `now`, and measured as long before as its age says. */
void by_network_entry_print(const struct by_network_key *key, const struct by_network_entry *entry, double now,
                            struct by_text *text);

/* ---- the entry of a running job */

struct by_network_file;

/* Takes over the entry, on failure too; the rest is copied. */
BANYAN_CHECK enum banyan_status by_network_file_create(const char *folder, const struct by_network_key *key,
                                                       struct by_network_entry *entry, struct by_network_file **out);
/* NULL is allowed. Waits until what is being written is written. */
void by_network_file_destroy(struct by_network_file *file);
/* Returns whether it is being written. */
bool by_network_file_is_busy(const struct by_network_file *file);
/* Has the entry written with this topology, of the same hosts, in a thread of its own; a failure is logged. A plan that
 * it holds is to be made again. Takes over the topology, on failure too. Not while it is busy. */
BANYAN_CHECK enum banyan_status by_network_file_refine(struct by_network_file *file, struct by_topology *topology);

/* ---- what identifies a network */

enum { BY_HOST_FACTS = 256 };

/* "10.0.0.7 25000 52:54:00:12:35:02": the address that this host offers first, the rates of its interfaces in Mbit/s
 * ("-": not known), and the MAC addresses of its gateways, of the address's family ("-": none, or not known yet).
 * `address` NULL: none. Asks the kernel, does not wait for others. `out` holds BY_HOST_FACTS and is returned. */
const char *by_host_facts(const struct by_address *address, const char *interfaces, char *out);
/* Finds the MAC addresses of gateways in the texts of /proc/net/route or /proc/net/ipv6_route, and of neighbours in the
 * format of /proc/net/arp. Those that do not answer are left out; commas separate them. "-": there are none. */
void by_host_facts_gateways(bool ipv6, const char *routes, const char *neighbours, char *out, size_t capacity);

#endif
