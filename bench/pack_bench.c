/* Compares packing methods on topologies: the fraction of the certified bound that each reaches, the number and
 * height of its trees, and its time.
 *
 *   pack_bench FILE...        for instance ../shared/data/edgelists/torus16x16.el
 *
 * Prints a line for each topology and method. Times are processor time, the best of three. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../tests/packing_check.h"
#include "graph_topology.h"
#include "grow.h"
#include "packing.h"
#include "topology_formats.h"

enum { REPEATS = 3 };

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

enum method { WEIGHTS, EXACT, FEW, FEW_LOW };

static const struct {
  const char *name;
  enum method method;
  uint32_t max_trees;
} runs[] = {
    {"weights", WEIGHTS, 0}, {"exact", EXACT, 0},          {"8 trees", FEW, 8},
    {"16 trees", FEW, 16},   {"8 trees, low", FEW_LOW, 8}, {"16 trees, low", FEW_LOW, 16},
};

static enum banyan_status pack(const struct by_graph *graph, size_t run, double bound, struct by_packing **out) {
  if (runs[run].method == WEIGHTS) return by_pack_weights(graph, NULL, out);
  if (runs[run].method == EXACT) {
    const struct by_exact_options options = by_exact_defaults();
    return by_pack_exact(graph, &options, out);
  }
  struct by_few_options options = by_few_defaults();
  options.max_trees = runs[run].max_trees;
  options.bound = bound;
  if (runs[run].method == FEW) options.tolerance = -1;
  return by_pack_few(graph, &options, out);
}

/* Runs one method. *bound becomes the best known bound. */
static enum banyan_status time_run(const char *file, const struct by_graph *graph, size_t run, double *bound) {
  double least = INFINITY, height;
  struct by_packing *packing = NULL;
  for (int i = 0; i < REPEATS; i++) {
    by_packing_destroy(packing);
    double start = seconds();
    BY_TRY(pack(graph, run, *bound, &packing));
    least = fmin(least, seconds() - start);
    if (least > 1) break;
  }
  BY_TRY(packing_check(graph, packing));
  BY_TRY(packing_height(graph, packing, true, &height));
  *bound = fmin(*bound, packing->bound);
  printf("%-24s %5u %6u  %-14s %10.5g %7.4f %6u %7g %9.1f\n", file, graph->n_vertices, graph->n_edges, runs[run].name,
         packing->throughput / 1e9, packing->throughput / *bound, packing->n_trees, height, 1e3 * least);
  by_packing_destroy(packing);
  return BANYAN_OK;
}

static enum banyan_status time_file(const char *path) {
  struct by_topology *topology;
  struct by_graph *graph;
  const char *slash = strrchr(path, '/');
  double bound = INFINITY;
  BY_TRY(by_topology_read(path, &topology));
  enum banyan_status status = by_graph_of_topology(topology, NULL, &graph);
  by_topology_destroy(topology);
  if (status != BANYAN_OK) return status;
  for (size_t run = 0; status == BANYAN_OK && run < sizeof runs / sizeof *runs; run++)
    status = time_run(slash ? slash + 1 : path, graph, run, &bound);
  by_graph_destroy(graph);
  return status;
}

int main(int n, char **words) {
  int failed = n < 2;
  if (failed) fprintf(stderr, "usage: pack_bench TOPOLOGY...\n");
  if (!failed)
    printf("%-24s %5s %6s  %-14s %10s %7s %6s %7s %9s\n", "topology", "nodes", "edges", "method", "Gbit/s", "ratio",
           "trees", "height", "ms");
  for (int i = 1; i < n; i++) {
    if (time_file(words[i]) == BANYAN_OK) continue;
    fprintf(stderr, "pack_bench: %s: %s\n", words[i], banyan_error_text());
    failed = 1;
  }
  return failed;
}
