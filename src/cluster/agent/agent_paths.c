/* What the connections of ranks showed of the network: kept of each rank, and made one for each job. */
#include <stdlib.h>
#include <string.h>

#include "agent_parts.h"
#include "cluster_path.h"

enum { FRESH = 2 /* intervals; so long what a rank has said counts */ };
static const double early = 0.8; /* of an interval after the last one: a rank that reports then has news */

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

bool by_agent_take_paths(const struct by_agent *agent, struct by_agent_rank *rank, const struct by_cluster_job *said,
                         uint64_t now) {
  bool soon = rank->paths && now < rank->paths_at + by_clock_from_seconds(early * agent->interval);
  bool news = soon || are_news(rank->paths, said);
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

static bool counts(const struct by_agent *agent, const struct by_agent_job *job, const struct by_agent_rank *rank,
                   uint64_t now) {
  return rank->job == job && rank->paths && rank->paths_at + by_clock_from_seconds(FRESH * agent->interval) >= now;
}

static uint32_t gather(const struct by_agent *agent, const struct by_agent_job *job, uint64_t now,
                       struct by_cluster_path *out) {
  uint32_t n = 0;
  for (const struct by_agent_rank *rank = agent->ranks; rank; rank = rank->next)
    for (uint32_t i = 0; counts(agent, job, rank, now) && i < rank->paths->n; i++, n++)
      if (out) out[n] = rank->paths->all[i];
  return n;
}

static int by_host(const void *a, const void *b) {
  const struct by_cluster_path *x = a, *y = b;
  return strcmp(x->to, y->to);
}

static int by_size(const void *a, const void *b) {
  const struct by_cluster_path *x = a, *y = b;
  return x->sent != y->sent ? (x->sent < y->sent) - (x->sent > y->sent) : strcmp(x->to, y->to);
}

static uint32_t join_equal(struct by_cluster_path *all, uint32_t n) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n; i++)
    if (kept && !strcmp(all[kept - 1].to, all[i].to))
      by_cluster_path_join(&all[kept - 1], &all[i]);
    else
      all[kept++] = all[i];
  return kept;
}

enum banyan_status by_agent_merge_paths(const struct by_agent *agent, const struct by_agent_job *job, uint64_t now,
                                        struct by_arena *arena, struct by_agent_paths *out) {
  uint32_t n = gather(agent, job, now, NULL);
  struct by_cluster_path *all = BY_ARENA_ARRAY(arena, struct by_cluster_path, n + 1);
  if (!all) return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  (void)gather(agent, job, now, all);
  qsort(all, n, sizeof *all, by_host);
  n = join_equal(all, n);
  qsort(all, n, sizeof *all, by_size);
  out->n = n < BY_CLUSTER_PATHS ? n : BY_CLUSTER_PATHS;
  memcpy(out->all, all, out->n * sizeof *all);
  return BANYAN_OK;
}
