/* The methods to sum a job's data among which a planner may choose, with the names that options and settings use. A set
 * of methods is a bit mask. */
#ifndef BY_PLAN_PLAN_METHODS_H
#define BY_PLAN_PLAN_METHODS_H

#include <stdint.h>

#include "fail.h"

enum by_plan_method {
  BY_PLAN_RING = 1 << 0,     /* a chain of ranks for each piece of the buffer */
  BY_PLAN_TREE = 1 << 1,     /* all other trees among ranks, including parameter servers and halving */
  BY_PLAN_HELPERS = 1 << 2,  /* trees over hosts without ranks */
  BY_PLAN_SWITCHES = 1 << 3, /* in-network trees */
  BY_PLAN_ALL_METHODS = (1 << 4) - 1,
};
#define BY_PLAN_METHODS "ring,tree,helpers,switches"
enum { BY_PLAN_METHODS_BYTES = sizeof BY_PLAN_METHODS };

/* Parses one or more names separated by commas: "ring,tree". BANYAN_ERR_ARGUMENT names what is wrong. */
BANYAN_CHECK enum banyan_status by_plan_methods_parse(const char *text, uint32_t *methods);
/* Writes the names for by_plan_methods_parse into out[BY_PLAN_METHODS_BYTES]. Returns out. */
const char *by_plan_methods_print(uint32_t methods, char *out);

#endif
