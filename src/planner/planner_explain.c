/* Explains a plan: the resources that limit it, and the candidates, as text and as JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "json_doc.h"
#include "planner.h"
#include "text.h"

enum { MAX_NAMED = 8 };
static const double full_part = 0.999, noteworthy = 0.99;

static void name_resource(const struct by_planned *planned, const struct by_topology *topology, uint32_t resource,
                          struct by_text *text) {
  const struct by_origin *origin = &planned->graph->origin[resource];
  char rate[32];
  if (origin->kind == BY_ORIGIN_LINK) {
    const struct by_link *link = &topology->links[origin->index];
    by_text_add(text, "  link %s - %s", topology->nodes[link->a].name, topology->nodes[link->b].name);
  } else if (origin->kind == BY_ORIGIN_NODE) {
    by_text_add(text, "  all links of %s together", topology->nodes[origin->index].name);
  }
  by_text_add(text, ": %s left\n", by_print_rate(planned->graph->capacity[resource], rate));
}

/* Returns the load of the trees in bit/s for each resource; the caller frees it. NULL: no memory, and limits are
 * omitted. */
static double *find_load(const struct by_planned *planned) {
  const struct by_packing *packing = planned->packing;
  double *load = calloc(planned->graph->n_resources, sizeof *load);
  for (uint32_t t = 0; load && t < packing->n_trees; t++)
    by_graph_add_load(planned->graph, packing->trees[t].edges, packing->trees[t].n, packing->trees[t].rate, load);
  return load;
}

static bool is_full(const struct by_planned *planned, const double *load, uint32_t resource) {
  return load[resource] >= full_part * planned->graph->capacity[resource];
}

static void add_limits(const struct by_planned *planned, const struct by_topology *topology, struct by_text *text) {
  double *load = find_load(planned);
  uint32_t n = 0;
  for (uint32_t i = 0; load && i < planned->graph->n_resources; i++) {
    if (!is_full(planned, load, i)) continue;
    if (!n++) by_text_add(text, "What they saturate:\n");
    if (n <= MAX_NAMED) name_resource(planned, topology, i, text);
  }
  if (n > MAX_NAMED) by_text_add(text, "  and %u more\n", n - MAX_NAMED);
  free(load);
}

/* --- What is used for which sizes, and the candidates. --- */

static const uint64_t shown_sizes[] = {4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
enum { N_SHOWN = sizeof shown_sizes / sizeof *shown_sizes };

static void add_classes(const struct by_weighed *weighed, struct by_text *text) {
  char bytes[32];
  for (uint32_t i = 0, end; i < BY_WEIGH_SIZES; i = end) {
    const char *what = weighed->candidates[weighed->used[i]].what;
    for (end = i + 1; end < BY_WEIGH_SIZES && weighed->used[end] == weighed->used[i];) end++;
    if (end < BY_WEIGH_SIZES)
      by_text_add(text, "%s to %s: %s\n", i ? "  " : "Buffers of up", by_print_bytes(weighed->sizes[end - 1], bytes),
                  what);
    else
      by_text_add(text, "%s: %s\n", i ? "  larger ones" : "Buffers of every size", what);
  }
}

static void add_time(struct by_text *text, double seconds, bool used) {
  char number[32];
  if (seconds < 1e-3)
    snprintf(number, sizeof number, "%.0f us", seconds * 1e6);
  else if (seconds < 1)
    snprintf(number, sizeof number, "%.*f ms", seconds < 0.1 ? 1 : 0, seconds * 1e3);
  else
    snprintf(number, sizeof number, "%.*f s", seconds < 100 ? 2 : 0, seconds);
  by_text_add(text, "%9s%s", number, used ? "*" : " ");
}

static void add_table(const struct by_weighed *weighed, struct by_text *text) {
  char rate[32];
  by_text_add(text, "What each would take, as predicted (* is used):\n%-34s%13s", "", "rate");
  for (uint32_t k = 0; k < N_SHOWN; k++) by_text_add(text, "%9s ", by_print_bytes(shown_sizes[k], rate));
  by_text_add(text, "\n");
  for (uint32_t i = 0; i < weighed->n; i++) {
    const struct by_candidate *candidate = &weighed->candidates[i];
    by_text_add(text, "  %-32s%13s", candidate->what, by_print_rate(candidate->rate, rate));
    for (uint32_t k = 0; k < N_SHOWN; k++) {
      uint32_t at = 0;
      while (at + 1 < BY_WEIGH_SIZES && weighed->sizes[at] < shown_sizes[k]) at++;
      add_time(text, candidate->seconds[at], weighed->used[at] == i);
    }
    by_text_add(text, "\n");
  }
}

/* Explains what the numbers of the table include; docs/measurements compares them with reality. */
static void add_meaning(const struct by_cost_rates *rates, struct by_text *text) {
  char call[32], hop[32], message[32], byte[32];
  by_text_add(text,
              "Times are for back-to-back calls, including links' delays, headers of TCP and\n"
              "Ethernet (x %.3f), and the work of hosts: %s for a call, %s a hop, %s a message,\n"
              "%s a byte (--cost changes them). Rates include none of that. `banyan simulate`\n"
              "includes delays, but neither headers nor hosts; `banyan bench` measures everything.\n",
              rates->wire, by_print_seconds(rates->call, call), by_print_seconds(rates->hop, hop),
              by_print_seconds(rates->message, message), by_print_seconds(rates->byte, byte));
}

static void add_packing(const struct by_planned *planned, const struct by_topology *topology, struct by_text *text) {
  const struct by_packing *packing = planned->packing;
  uint32_t helpers = planned->plan->n_vertices - planned->plan->n_ranks;
  char rate[2][32];
  by_text_add(text, "%u ranks", planned->plan->n_ranks);
  if (helpers) by_text_add(text, " and %u helpers", helpers);
  by_text_add(text, ": %u %s %s, %.1f %% of the %s that no set of trees exceeds here.\n", packing->n_trees,
              packing->n_trees == 1 ? "tree carries" : "trees carry", by_print_rate(packing->throughput, rate[0]),
              100 * packing->throughput / packing->bound, by_print_rate(packing->bound, rate[1]));
  if (packing->limit < noteworthy * packing->bound)
    by_text_add(text, "No %u trees exceed %s; allow more of them.\n", packing->max_trees,
                by_print_rate(packing->limit, rate[0]));
  add_limits(planned, topology, text);
}

void by_planned_explain(const struct by_planned *planned, const struct by_topology *topology, struct by_text *text) {
  const char *scope = by_graph_bound_scope(planned->graph, topology);
  if (planned->embedding)
    by_embedding_explain(planned->embedding, text);
  else
    add_packing(planned, topology, text);
  if (scope) by_text_add(text, "The bound is one on %s; others may exceed it on this network.\n", scope);
  add_classes(&planned->weighed, text);
  add_table(&planned->weighed, text);
  add_meaning(&planned->rates, text);
}

/* --- JSON. --- */

static void put_limits(const struct by_planned *planned, const struct by_topology *topology, struct by_text *text) {
  double *load = find_load(planned);
  by_json_begin_member(text, "full");
  by_text_add(text, "[");
  for (uint32_t i = 0; load && i < planned->graph->n_resources; i++) {
    const struct by_origin *origin = &planned->graph->origin[i];
    if (!is_full(planned, load, i) || (origin->kind != BY_ORIGIN_LINK && origin->kind != BY_ORIGIN_NODE)) continue;
    by_json_separate(text);
    by_text_add(text, "{");
    if (origin->kind == BY_ORIGIN_LINK) {
      by_json_put_string(text, "a", topology->nodes[topology->links[origin->index].a].name);
      by_json_put_string(text, "b", topology->nodes[topology->links[origin->index].b].name);
    } else {
      by_json_put_string(text, "node", topology->nodes[origin->index].name);
    }
    by_json_put_real(text, "capacity", planned->graph->capacity[i]);
    by_text_add(text, "}");
  }
  by_text_add(text, "]");
  free(load);
}

static void put_facts(const struct by_planned *planned, struct by_text *text) {
  const struct by_plan_facts *facts = &planned->plan->facts;
  by_json_put_count(text, "ranks", planned->plan->n_ranks);
  by_json_put_count(text, "trees",
                    planned->packing ? planned->packing->n_trees : by_embedding_facts(planned->embedding).n_used);
  by_json_put_real(text, "throughput", facts->throughput);
  by_json_put_real(text, "bound", facts->bound);
}

static void put_classes(const struct by_weighed *weighed, struct by_text *text) {
  by_json_begin_member(text, "sizes");
  by_text_add(text, "[");
  for (uint32_t i = 0; i < BY_WEIGH_SIZES; i++) {
    by_json_separate(text);
    by_text_add(text, "{");
    by_json_put_count(text, "bytes", weighed->sizes[i]);
    by_json_put_string(text, "used", weighed->candidates[weighed->used[i]].what);
    by_json_put_real(text, "seconds", weighed->candidates[weighed->used[i]].seconds[i]);
    by_text_add(text, "}");
  }
  by_text_add(text, "]");
}

static void put_table(const struct by_weighed *weighed, struct by_text *text) {
  by_json_begin_member(text, "candidates");
  by_text_add(text, "[");
  for (uint32_t i = 0; i < weighed->n; i++) {
    by_json_separate(text);
    by_text_add(text, "{");
    by_json_put_string(text, "name", weighed->candidates[i].what);
    by_json_put_real(text, "rate", weighed->candidates[i].rate);
    by_json_begin_member(text, "seconds");
    by_text_add(text, "[");
    for (uint32_t k = 0; k < BY_WEIGH_SIZES; k++) {
      by_json_separate(text);
      by_json_add_real(text, isfinite(weighed->candidates[i].seconds[k]) ? weighed->candidates[i].seconds[k] : 0);
    }
    by_text_add(text, "]}");
  }
  by_text_add(text, "]");
}

static void put_costs(const struct by_cost_rates *rates, struct by_text *text) {
  by_json_begin_member(text, "costs");
  by_text_add(text, "{");
  by_json_put_real(text, "wire", rates->wire);
  by_json_put_real(text, "call", rates->call);
  by_json_put_real(text, "hop", rates->hop);
  by_json_put_real(text, "message", rates->message);
  by_json_put_real(text, "byte", rates->byte);
  by_text_add(text, "}");
}

void by_planned_put_json(const struct by_planned *planned, const struct by_topology *topology, struct by_text *text) {
  put_facts(planned, text);
  if (planned->packing) put_limits(planned, topology, text);
  put_classes(&planned->weighed, text);
  put_table(&planned->weighed, text);
  put_costs(&planned->rates, text);
}
