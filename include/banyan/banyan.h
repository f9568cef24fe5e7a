/* Banyan: gradient synchronisation over weighted aggregation trees.
 *
 *   struct banyan_comm *comm;
 *   if (banyan_comm_create(NULL, &comm) != BANYAN_OK) die(banyan_error_text());
 *   if (banyan_allreduce(comm, g, g, n, BANYAN_FLOAT32, BANYAN_AVERAGE)) die(banyan_error_text());
 *   banyan_comm_destroy(comm);
 *
 * started as `banyan run -n 4 -- ./program`. Link with `pkg-config banyan`. */
#ifndef BANYAN_BANYAN_H
#define BANYAN_BANYAN_H

#include <banyan/collectives.h>
#include <banyan/comm.h>
#include <banyan/elastic.h>
#include <banyan/sparse.h>
#include <banyan/state.h>
#include <banyan/status.h>
#include <banyan/submit.h>
#include <banyan/timeline.h>
#include <banyan/types.h>

#endif
