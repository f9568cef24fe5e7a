/* The nodes of this process's Slurm allocation, as hosts of a job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"
#include "text.h"

/* Parses "2(x3),1": the number of tasks of consecutive nodes. */
struct counts {
  const char *at;
  long count, left; /* Remaining nodes with this count. */
};

static enum banyan_status bad_counts(const char *text) {
  return by_fail(BANYAN_ERR_PARSE, "SLURM_TASKS_PER_NODE=%.64s is no list of counts", text);
}

static enum banyan_status next_count(struct counts *counts, long *out) {
  if (!counts->left && *counts->at) {
    char *end;
    const char *text = counts->at;
    counts->count = strtol(text, &end, 10);
    counts->left = 1;
    if (end == text || counts->count < 1 || counts->count > BY_MOST_RANKS) return bad_counts(text);
    if (!strncmp(end, "(x", 2)) {
      const char *times = end + 2;
      counts->left = strtol(times, &end, 10);
      if (end == times || *end++ != ')' || counts->left < 1) return bad_counts(text);
    }
    if (*end && *end != ',') return bad_counts(text);
    counts->at = end + (*end == ',');
  }
  if (!counts->left) return by_fail(BANYAN_ERR_PARSE, "SLURM_TASKS_PER_NODE has fewer nodes than SLURM_JOB_NODELIST");
  counts->left--;
  *out = counts->count;
  return BANYAN_OK;
}

struct allocation {
  struct by_launch_hosts *hosts;
  struct counts counts;
};

static enum banyan_status add_node(void *context, const char *name) {
  struct allocation *allocation = context;
  long slots = 0;
  BY_TRY(next_count(&allocation->counts, &slots));
  return by_hosts_add_node(allocation->hosts, name, (int)slots);
}

enum banyan_status by_hosts_add_slurm(struct by_launch_hosts *hosts) {
  const char *list = getenv("SLURM_JOB_NODELIST"), *tasks = getenv("SLURM_TASKS_PER_NODE");
  struct allocation allocation = {hosts, {.at = tasks ? tasks : "", .count = 1, .left = tasks ? 0 : BY_MOST_HOSTS}};
  if (!list || !*list)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "this is no Slurm allocation: SLURM_JOB_NODELIST is not set. Use --slurm within "
                   "sbatch or salloc");
  enum banyan_status status = by_host_names_expand(list, add_node, &allocation);
  return status == BANYAN_OK ? status : by_fail_within(status, "SLURM_JOB_NODELIST");
}
