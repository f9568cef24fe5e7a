/* The entry of a job's network in the cache, kept while the job runs, for what it finds later. */
#ifndef BY_ADAPTATION_NETWORK_FILE_H
#define BY_ADAPTATION_NETWORK_FILE_H

#include "network_cache.h"

struct by_network_file;

/* Takes over the entry, on failure too; the rest is copied. */
BANYAN_CHECK enum banyan_status by_network_file_create(const char *folder, const struct by_network_key *key,
                                                       struct by_network_entry *entry, struct by_network_file **out);
/* NULL is allowed. Waits until what is being written is written. */
void by_network_file_destroy(struct by_network_file *file);
/* Whether it is being written. */
bool by_network_file_is_busy(const struct by_network_file *file);
/* Has the entry written with this topology, of the same hosts, in a thread of its own; a failure is logged. A plan that
 * it holds is to be made again. Takes over the topology, on failure too. Not while it is busy. */
BANYAN_CHECK enum banyan_status by_network_file_refine(struct by_network_file *file, struct by_topology *topology);

#endif
