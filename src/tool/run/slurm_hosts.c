/* The nodes of the Slurm allocation that this process is in, as hosts of a job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "launch.h"
#include "text.h"

enum { MOST_NAME = 256, MOST_DIGITS = 9 };

/* "2(x3),1": how many tasks each node has, one after the other. */
struct counts {
  const char *at;
  long count, left; /* of this count, so many nodes more */
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

static enum banyan_status bad_list(const char *text) {
  return by_fail(BANYAN_ERR_PARSE, "\"%.64s\" in SLURM_JOB_NODELIST is no list of nodes", text);
}

static enum banyan_status add_item(struct by_launch_hosts *hosts, struct counts *counts, const char *name);

/* "07-09" or "12" between `before` and `after`. */
static enum banyan_status add_range(struct by_launch_hosts *hosts, struct counts *counts, const char *before,
                                    const char *range, const char *after) {
  char name[2 * MOST_NAME];
  size_t digits = strspn(range, "0123456789"),
         more = range[digits] == '-' ? strspn(range + digits + 1, "0123456789") : 0;
  bool single = !range[digits];
  if (!digits || digits > MOST_DIGITS || more > MOST_DIGITS || (!single && (!more || range[digits + 1 + more])))
    return bad_list(range);
  long first = strtol(range, NULL, 10), last = single ? first : strtol(range + digits + 1, NULL, 10);
  if (last < first || last - first >= BY_MOST_HOSTS) return bad_list(range);
  for (long i = first; i <= last; i++) {
    int length = snprintf(name, sizeof name, "%s%0*ld%s", before, (int)digits, i, after);
    if (length >= MOST_NAME) return bad_list(before);
    BY_TRY(add_item(hosts, counts, name));
  }
  return BANYAN_OK;
}

/* One name, or several by the first bracket in it; those behind it follow by recursion, and each takes one away. */
static enum banyan_status add_item(struct by_launch_hosts *hosts, struct counts *counts, const char *name) {
  char copy[2 * MOST_NAME];
  long slots = 0;
  if (strlen(name) >= MOST_NAME) return bad_list(name);
  snprintf(copy, sizeof copy, "%s", name);
  char *open = strchr(copy, '['), *close = open ? strchr(open, ']') : NULL;
  if (open && !close) return bad_list(name);
  if (!open) {
    BY_TRY(next_count(counts, &slots));
    return by_hosts_add_node(hosts, name, (int)slots);
  }
  *open = *close = 0;
  for (char *rest = open + 1, *range; (range = strsep(&rest, ","));)
    BY_TRY(add_range(hosts, counts, copy, range, close + 1));
  return BANYAN_OK;
}

/* Where the first item ends: at a comma outside of brackets. */
static size_t item_length(const char *list) {
  size_t n = 0;
  for (bool within = false; list[n] && (within || list[n] != ','); n++)
    within = list[n] == '[' || (within && list[n] != ']');
  return n;
}

enum banyan_status by_hosts_add_slurm(struct by_launch_hosts *hosts) {
  const char *list = getenv("SLURM_JOB_NODELIST"), *tasks = getenv("SLURM_TASKS_PER_NODE");
  struct counts counts = {.at = tasks ? tasks : "", .count = 1, .left = tasks ? 0 : BY_MOST_HOSTS};
  if (!list || !*list)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "this is no Slurm allocation: SLURM_JOB_NODELIST is not set. Use --slurm within "
                   "sbatch or salloc");
  for (size_t n; *list; list += n + (list[n] == ',')) {
    char item[MOST_NAME];
    n = item_length(list);
    if (!n || n >= sizeof item) return bad_list(list);
    snprintf(item, sizeof item, "%.*s", (int)n, list);
    BY_TRY(add_item(hosts, &counts, item));
  }
  return BANYAN_OK;
}
