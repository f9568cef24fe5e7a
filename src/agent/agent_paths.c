/* What the connections of ranks showed of the network: kept of each rank, and made one for each job. */
#include <stdlib.h>
#include <string.h>

#include "agent_parts.h"
#include "cluster_path.h"

enum { FRESH = 2 /* intervals; so long what a rank has said counts */ };

void by_agent_free_paths(struct by_agent_rank *rank) {
  for (uint32_t i = 0; rank->paths && i < rank->paths->n; i++) free((char *)rank->paths->all[i].to);
  free(rank->paths);
  rank->paths = NULL;
}

static const struct by_cluster_path *find(const struct by_agent_paths *paths, const char *to) {
  for (uint32_t i = 0; paths && i < paths->n; i++)
    if (!strcmp(paths->all[i].to, to)) return &paths->all[i];
  return NULL;
}

static bool are_news(const struct by_agent_paths *before, const struct by_cluster_job *said) {
  for (uint32_t i = 0; i < said->n_paths; i++) {
    const struct by_cluster_path *then = find(before, said->paths[i].to);
    if (then && by_cluster_path_differs(then, &said->paths[i])) return true;
  }
  return false;
}

bool by_agent_take_paths(struct by_agent_rank *rank, const struct by_cluster_job *said, uint64_t now) {
  bool news = are_news(rank->paths, said);
  by_agent_free_paths(rank);
  rank->paths_at = now;
  rank->paths = said->n_paths ? calloc(1, sizeof *rank->paths) : NULL;
  for (uint32_t i = 0; rank->paths && i < said->n_paths; i++) {
    struct by_cluster_path path = said->paths[i];
    path.to = by_agent_copy_text(path.to);
    if (path.to) rank->paths->all[rank->paths->n++] = path;
  }
  return news;
}

/* ---- of a job */

static void add(struct by_agent_paths *out, const struct by_cluster_path *path) {
  struct by_cluster_path *to = (struct by_cluster_path *)find(out, path->to);
  if (to)
    by_cluster_path_join(to, path);
  else if (out->n < BY_CLUSTER_PATHS)
    out->all[out->n++] = *path;
}

void by_agent_merge_paths(const struct by_agent *agent, const struct by_agent_job *job, uint64_t now,
                          struct by_agent_paths *out) {
  uint64_t fresh = by_clock_from_seconds(FRESH * agent->interval);
  out->n = 0;
  for (const struct by_agent_rank *rank = agent->ranks; rank; rank = rank->next)
    for (uint32_t i = 0; rank->job == job && rank->paths && rank->paths_at + fresh >= now && i < rank->paths->n; i++)
      add(out, &rank->paths->all[i]);
}
