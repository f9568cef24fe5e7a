/* The inside of GPU servers, as NCCL writes it (NCCL_TOPO_DUMP_FILE) and reads
 * it (NCCL_TOPO_FILE), and RCCL too. docs/topology-format.md says what is read
 * and what is assumed. */
#ifndef BY_TOPOLOGY_TOPOLOGY_NCCL_H
#define BY_TOPOLOGY_TOPOLOGY_NCCL_H

#include "topology.h"

/* GPUs are hosts, in the order of their ranks where they have ranks; CPUs, PCI switches, NICs and their ports are
 * switches. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_topology_parse_nccl(const char *source, const char *text, size_t length,
                                                       struct by_topology **out);

#endif
