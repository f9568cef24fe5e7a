/* What this rank's connections show of the network: how much they carried of late, and how fast while that was what
 * the network let them carry. The kernel counts it anyhow; here it is only looked at. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cluster_link_parts.h"
#include "cluster_path.h"

static const double least_busy = 0.05; /* s: the kernel counts them in ticks of some milliseconds */
static const double most_held = 0.3;   /* of that, by the peer or a buffer: then it was not the network */
enum { AGAIN = 2 };                    /* reports more that follow news, so that it is believed */

/* ---- looking */

static void add_peer(void *context, uint32_t process, const struct by_meter *meter) {
  struct by_path_look *look = context;
  if (look->n == look->room) {
    uint32_t room = 2 * look->room + 8;
    struct by_path_seen *grown = realloc(look->seen, room * sizeof *grown);
    if (!grown) return; /* the next look may find memory */
    look->seen = grown;
    look->room = room;
  }
  look->seen[look->n++] = (struct by_path_seen){process, *meter};
}

static int by_process(const void *a, const void *b) {
  const struct by_path_seen *x = a, *y = b;
  return (x->process > y->process) - (x->process < y->process);
}

/* Several connections to one peer are busy at the same time. */
static void join(struct by_meter *to, const struct by_meter *other) {
  to->bytes += other->bytes;
  if (other->busy - other->held > to->busy - to->held) to->busy = other->busy, to->held = other->held;
  if (other->answer && (!to->answer || other->answer < to->answer)) to->answer = other->answer;
  if (other->rate > to->rate) to->rate = other->rate;
  to->full |= other->full;
}

static void join_connections(struct by_path_look *look) {
  uint32_t n = 0;
  qsort(look->seen, look->n, sizeof *look->seen, by_process);
  for (uint32_t i = 0; i < look->n; i++)
    if (n && look->seen[n - 1].process == look->seen[i].process)
      join(&look->seen[n - 1].meter, &look->seen[i].meter);
    else
      look->seen[n++] = look->seen[i];
  look->n = n;
}

static void take_look(struct by_cluster_link *link, struct by_path_look *look) {
  struct by_context *context = link->context;
  look->n = 0;
  look->at = by_loop_now(context->loop);
  by_context_lock(context);
  by_engine_meter(context->engine, add_peer, look);
  by_context_unlock(context);
  if (look->n) join_connections(look);
}

/* ---- from one look to the next */

static const struct by_meter *find(const struct by_path_look *look, uint32_t process) {
  const struct by_path_seen wanted = {.process = process};
  const struct by_path_seen *found =
      look->n ? bsearch(&wanted, look->seen, look->n, sizeof *look->seen, by_process) : NULL;
  return found ? &found->meter : NULL;
}

/* Of short bursts most of the time goes by until the last answer comes: of these the kernel's own rate is nearer. */
static struct by_cluster_path measure(const struct by_meter *before, const struct by_meter *after, double seconds) {
  double bits = 8 * (double)(after->bytes - before->bytes), held = (double)(after->held - before->held) * 1e-6;
  double all = (double)(after->busy - before->busy) * 1e-6, busy = all - held;
  bool known = after->full && busy >= least_busy && held <= most_held * all;
  return (struct by_cluster_path){.sent = bits / seconds,
                                  .busy = busy < seconds ? busy / seconds : 1,
                                  .bandwidth = known ? fmax(bits / busy, 8 * (double)after->rate) : 0,
                                  .delay = after->answer * 1e-6};
}

/* Of too many those that carry least are left out. */
static void add_path(struct by_cluster_path *out, uint32_t *n, const struct by_cluster_path *path) {
  uint32_t least = 0;
  for (uint32_t i = 0; i < *n; i++) {
    if (!strcmp(out[i].to, path->to)) {
      by_cluster_path_join(&out[i], path);
      return;
    }
    if (out[i].sent < out[least].sent) least = i;
  }
  if (*n < BY_CLUSTER_PATHS)
    out[(*n)++] = *path;
  else if (path->sent > out[least].sent)
    out[least] = *path;
}

static uint32_t list_paths(const struct by_cluster_link *link, const struct by_path_look *before,
                           const struct by_path_look *after, struct by_cluster_path *out) {
  const struct by_member *members = link->context->members;
  double seconds = by_clock_to_seconds(after->at - before->at);
  uint32_t n = 0;
  for (uint32_t i = 0; i < after->n && seconds > 0; i++) {
    const struct by_meter *now = &after->seen[i].meter, *then = find(before, after->seen[i].process);
    if (!then || now->bytes <= then->bytes || now->busy < then->busy || now->held < then->held) continue;
    struct by_cluster_path path = measure(then, now, seconds);
    path.to = members[after->seen[i].process].host;
    add_path(out, &n, &path);
  }
  return n;
}

/* ---- news */

static const struct by_cluster_path *find_told(const struct by_cluster_link *link, const char *to) {
  for (uint32_t i = 0; i < link->n_told; i++)
    if (!strcmp(link->told[i].to, to)) return &link->told[i];
  return NULL;
}

static bool is_news(const struct by_cluster_link *link, const struct by_cluster_path *paths, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    const struct by_cluster_path *before = find_told(link, paths[i].to);
    if (before && by_cluster_path_differs(before, &paths[i])) return true;
  }
  return false;
}

static void swap(struct by_path_look *a, struct by_path_look *b) {
  struct by_path_look third = *a;
  *a = *b;
  *b = third;
}

/* A copy of the last look begins the next report. */
static void begin_report(struct by_cluster_link *link) {
  struct by_path_look *from = &link->last_look, *to = &link->first_look;
  to->n = 0;
  to->at = from->at;
  for (uint32_t i = 0; i < from->n; i++) add_peer(to, from->seen[i].process, &from->seen[i].meter);
}

bool by_cluster_link_look_at_paths(struct by_cluster_link *link) {
  struct by_cluster_path paths[BY_CLUSTER_PATHS];
  struct by_path_look *now = &link->new_look;
  take_look(link, now);
  uint32_t n = list_paths(link, &link->last_look, now, paths);
  swap(&link->last_look, now);
  if (is_news(link, paths, n)) link->news = 1 + AGAIN;
  if (!link->news || !n) return false; /* what is to be said again needs something that is seen */
  link->news--;
  memcpy(link->told, paths, n * sizeof *paths);
  link->n_told = n;
  begin_report(link);
  return true;
}

void by_cluster_link_take_paths(struct by_cluster_link *link) {
  if (link->first_look.at == link->last_look.at) return;
  link->n_told = list_paths(link, &link->first_look, &link->last_look, link->told);
  begin_report(link);
}

void by_cluster_link_forget_paths(struct by_cluster_link *link) {
  free(link->first_look.seen);
  free(link->last_look.seen);
  free(link->new_look.seen);
}
