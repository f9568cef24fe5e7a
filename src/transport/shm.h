/* Lanes between processes of one host: two rings in shared memory. Large
 * messages in memory of banyan_alloc are read where they lie, without a copy.
 * A socket between the two shows when the other side ends; an eventfd each
 * wakes a sleeper. */
#ifndef BY_TRANSPORT_SHM_H
#define BY_TRANSPORT_SHM_H

#include <sys/types.h>

#include "lane.h"

/* Creates a segment for one link. Returns its descriptor, or -1 with the error text set. `ranks` and `cores` are
 * those of this host. The more ranks there are, the smaller are the rings: from 2 MiB per direction down to 256 KiB. */
int by_shm_segment(uint32_t ranks, uint32_t cores);

struct by_shm_ends {
  int socket;    /* Connected, and only watched for its end. The lane owns it. */
  int segment;   /* From by_shm_segment; closed once it is mapped. */
  int peer_wake; /* The peer's eventfd. The lane owns it. */
  pid_t peer;
  bool first;   /* exactly one side is the first */
  bool crowded; /* ranks take turns on the cores: an answer costs a turn, so fewer messages are read in place */
};

/* Makes a lane. On failure all descriptors are closed. */
BANYAN_CHECK enum banyan_status by_shm_create(const struct by_shm_ends *ends, struct by_lane **out);

#endif
