/* Networks that were measured before, one in a file: what identifies it, its topology, a few probes with the rates that
 * they had, and whether its plan was faster than the built-in ones. Files are private to their user. */
#ifndef BY_STARTUP_NETWORK_CACHE_H
#define BY_STARTUP_NETWORK_CACHE_H

#include <stdbool.h>

#include "fail.h"
#include "measure.h"

/* Days after which an entry is too old. */
enum { BY_NETWORK_CACHE_DAYS = 30 };

/* What identifies a network: what each host of the job knows of it (host_facts.h), in the order of hosts. */
struct by_network_key {
  uint32_t n;
  const char *const *hosts;
};

struct by_network_entry {
  struct by_measured measured;
  bool planned; /* its plan is used; else the built-in ones were not slower */
  double age;   /* read: seconds */
};

/* The entry of this network. Its owner calls by_measured_fini. BANYAN_ERR_ARGUMENT: there is none; other errors say in
 * a line why that which is there is of no use. */
BANYAN_CHECK enum banyan_status by_network_cache_load(const char *folder, const struct by_network_key *key,
                                                      struct by_network_entry *out);
/* Puts it in the place of what was there. Makes folders that do not exist, and removes entries that are too old. */
BANYAN_CHECK enum banyan_status by_network_cache_store(const char *folder, const struct by_network_key *key,
                                                       const struct by_network_entry *entry);
/* The same as text. `now`: seconds since 1970. */
BANYAN_CHECK enum banyan_status by_network_entry_parse(const char *source, const char *text, size_t length,
                                                       const struct by_network_key *key, double now,
                                                       struct by_network_entry *out);
void by_network_entry_print(const struct by_network_key *key, const struct by_network_entry *entry, double now,
                            struct by_text *text);

#endif
