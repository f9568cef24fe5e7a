/* Other programs' formats with their options as text, "name=value,name=value"
 * ("" none), as they stand behind a file's name: "FILE?rate=10g". Several
 * patterns in one value are separated by "+". Errors as of all readers
 * (topology_formats.h); BANYAN_ERR_ARGUMENT: an option. */
#ifndef BY_TOPOLOGY_TOPOLOGY_FOREIGN_H
#define BY_TOPOLOGY_TOPOLOGY_FOREIGN_H

#include "topology.h"

typedef enum banyan_status by_topology_parser(const char *source, const char *text, size_t length, const char *options,
                                              struct by_topology **out);

by_topology_parser by_foreign_graphml; /* rate, delay */
by_topology_parser by_foreign_pairs;   /* select, limits */
by_topology_parser by_foreign_lldp;    /* rate, hosts */
by_topology_parser by_foreign_nccl;    /* none */

/* All files of a folder that end in .json, .json0 or .lldp, as what the machine of that name heard by LLDP. Also
 * BANYAN_ERR_SYSTEM. */
BANYAN_CHECK enum banyan_status by_foreign_lldp_folder(const char *path, const char *options, struct by_topology **out);

#endif
