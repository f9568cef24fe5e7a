/* Prints the result of a simulation: a table and drawings for people, or JSON. */
#ifndef BY_CMD_PLAN_SIMULATE_PRINT_H
#define BY_CMD_PLAN_SIMULATE_PRINT_H

#include "simulate.h"
#include "text.h"
#include "topology.h"

/* The plan and topology of a simulation. */
struct by_simulate_subject {
  const struct by_topology *topology;
  const struct by_plan *plan;
  double bound;            /* bit/s of input that no plan exceeds; 0: unknown. */
  const char *bound_scope; /* Plans to which the bound applies, see by_graph_bound_scope; NULL: all. */
  bool all;                /* Omit nothing. */
};

void by_simulate_add_head(const struct by_simulate_subject *subject, struct by_text *text);
/* Appends a line of the table that the head begins. */
void by_simulate_add_row(const struct by_simulate_subject *subject, const struct by_simulation *simulation,
                         struct by_text *text);
/* Tells whether the plan has sums through switches, which use fragments; their bound is taken from the plan. */
bool by_simulate_has_switches(const struct by_plan *plan);
/* Appends what the times include and what not. */
void by_simulate_add_meaning(const struct by_simulate_subject *subject, uint64_t chunk, double chunk_cost,
                             struct by_text *text);
/* Appends the busiest links, with their use over time. */
void by_simulate_add_links(const struct by_simulate_subject *subject, const struct by_simulation *simulation,
                           struct by_text *text);
/* Appends the result as one line of JSON, with its newline. */
void by_simulate_add_json(const struct by_simulate_subject *subject, const struct by_simulation *simulation,
                          struct by_text *text);

#endif
