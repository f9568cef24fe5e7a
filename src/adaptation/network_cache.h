/* Networks that were measured before, one in a file: what identifies it, its topology, a few probes with the rates that
 * they had, and what was decided on its plan. The hosts of a job may stand in any order. Files are private to their
 * user. */
#ifndef BY_ADAPTATION_NETWORK_CACHE_H
#define BY_ADAPTATION_NETWORK_CACHE_H

#include <stdbool.h>

#include "fail.h"
#include "measure.h"

/* Days after which an entry is too old; and after which a plan that was not faster than the built-in ones is tried
 * again, since what was in the way may be gone. */
enum { BY_NETWORK_CACHE_DAYS = 30, BY_NETWORK_TRIAL_DAYS = 1 };

struct by_network_key {
  uint32_t n;
  const char *const *hosts; /* what each host of the job knows of the network (host_facts.h) */
  const char *planner;      /* what else a plan depends on, by_planning_describe; not part of what identifies it */
};

/* What was decided on the plan for hosts in this order, by this planner. */
enum by_network_decision {
  BY_NETWORK_UNDECIDED, /* nothing, or too long ago */
  BY_NETWORK_BUILTIN,   /* the built-in plans were not slower */
  BY_NETWORK_PLANNED,   /* its plan is used */
};

struct by_network_entry {
  struct by_measured measured;
  uint32_t *place; /* which host of `measured` each host of the job is; NULL: the same. Owned */
  enum by_network_decision decision;
  char *plan; /* of BY_NETWORK_PLANNED: over the job's hosts, as text; NULL: it is to be made again. Owned */
  double age; /* seconds since it was measured */
};

/* The entry of this network. Its owner calls by_network_entry_fini. BANYAN_ERR_ARGUMENT: there is none; other errors
 * say in a line why that which is there is of no use. */
BANYAN_CHECK enum banyan_status by_network_cache_load(const char *folder, const struct by_network_key *key,
                                                      struct by_network_entry *out);
/* Puts it in the place of what was there. Makes folders that do not exist, and removes entries that are too old. */
BANYAN_CHECK enum banyan_status by_network_cache_store(const char *folder, const struct by_network_key *key,
                                                       const struct by_network_entry *entry);
/* The same as text. `now`: seconds since 1970. */
BANYAN_CHECK enum banyan_status by_network_entry_parse(const char *source, const char *text, size_t length,
                                                       const struct by_network_key *key, double now,
                                                       struct by_network_entry *out);
void by_network_entry_fini(struct by_network_entry *entry);
/* Decided `now`, and measured as long before as its age says. */
void by_network_entry_print(const struct by_network_key *key, const struct by_network_entry *entry, double now,
                            struct by_text *text);

#endif
