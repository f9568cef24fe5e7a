/* What the manager serves beside its state. */
#ifndef BY_WEB_WEB_TEXTS_H
#define BY_WEB_WEB_TEXTS_H

#include <jansson.h>

#include "text.h"
#include "topology.h"

/* Where the page draws the nodes, as one JSON object: {"kind":"layers","spots":{NAME:[x,y],...}}, y downwards.
 * Cost: by_topology_layout. */
BANYAN_CHECK enum banyan_status by_web_layout_print(const struct by_topology *topology, struct by_text *out);

/* A state (docs/cluster.md) as Prometheus' text format 0.0.4. What is missing or of another type counts as nothing. */
void by_web_metrics_print(const json_t *state, struct by_text *out);

#define BY_WEB_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

#endif
