/* Lanes between processes of one host: two rings in shared memory. Large
 * messages in memory of banyan_alloc are read where they lie, without a copy.
 * A socket between the two shows when the other side ends; an eventfd each
 * wakes a sleeper. */
#ifndef BY_TRANSPORT_SHM_H
#define BY_TRANSPORT_SHM_H

#include <sys/types.h>

#include "lane.h"

/* A new segment for one link, as a descriptor; -1 with the error text set. So many ranks run on this machine
 * and its cores: the more they are, the smaller are the rings, from 2 MiB for each direction down to 256 KiB. */
int by_shm_segment(uint32_t ranks, uint32_t cores);

struct by_shm_ends {
  int socket;    /* connected; only watched for its end. Taken over. */
  int segment;   /* from by_shm_segment; closed once it is mapped */
  int peer_wake; /* the peer's eventfd. Taken over. */
  pid_t peer;
  bool first;   /* exactly one side is the first */
  bool crowded; /* ranks take turns on the cores: an answer costs a turn, so fewer messages are read in place */
};

/* On failure everything handed over is closed. */
BANYAN_CHECK enum banyan_status by_shm_create(const struct by_shm_ends *ends, struct by_lane **out);

#endif
