/* Watches what this rank's connections carry, from the kernel's counters, and tells when a path has changed. */
#include "path_watch.h"

#include "thresholds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  LONG = 10000, /* Microseconds of a round trip in which TCP's window may be less than the capacity of a link. */
  TRIPS = 2,    /* Round trips for which such a connection has to be busy. */
  FIRST_WINDOW = 14480, /* Bytes in flight that TCP allows from the start: with fewer, nothing waits for the network. */
  MUCH = 4,             /* Segments in flight: more than a delayed acknowledgement may cover. */
  TWICE = 2,
  AGAIN = 5 /* Reports that follow a change, to confirm it. */
};

/* ---- looking */

static void add_peer(void *context, uint32_t process, struct by_lane *lane) {
  struct by_path_look *look = context;
  struct by_meter meter;
  if (!by_lane_meter(lane, &meter)) return;
  if (!BY_ARRAY_GROW(&look->seen, &look->capacity, look->n + 1)) return; /* The next look may find memory. */
  look->seen[look->n++] = (struct by_path_seen){.process = process, .meter = meter};
}

static int by_process(const void *a, const void *b) {
  const struct by_path_seen *x = a, *y = b;
  return (x->process > y->process) - (x->process < y->process);
}

/* Adds up several connections to one peer, which are busy at the same time. */
static void join(struct by_meter *to, const struct by_meter *other) {
  to->bytes += other->bytes;
  if (other->busy - other->held > to->busy - to->held) to->busy = other->busy, to->held = other->held;
  if (other->rate > to->rate) to->rate = other->rate;
  if (other->recent > to->recent) to->recent = other->recent;
  to->full |= other->full;
  to->flying += other->flying;
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

static const struct by_path_seen *find(const struct by_path_look *look, uint32_t process) {
  const struct by_path_seen wanted = {.process = process};
  return look->n ? bsearch(&wanted, look->seen, look->n, sizeof *look->seen, by_process) : NULL;
}

/* Over a long way TCP has to find out for seconds how much may be under way at once, after each loss anew, and the link
 * carries more meanwhile: no packet waits for it. Messages that are on their way as a whole are busy for the round trip
 * too, and their last packets wait for the first ones. Where packets wait for as long as the way takes on average, a
 * message takes twice that to leave: then two thirds of the busy time are the link's, and it is not taken for slow. */
static bool waits_for_answers(const struct by_meter *meter) {
  return meter->trip >= LONG && meter->recent < by_limit_queued * meter->trip;
}

/* Counts whether a connection was limited by the network. It is given more than the network takes at one moment and
 * less at another, so one moment says little of the time before. The kernel keeps a rate until it has measured a better
 * one, which may take long. */
static void count(const struct by_path_look *before, struct by_path_seen *seen) {
  const struct by_path_seen none = {0}, *then = find(before, seen->process);
  if (!then) then = &none;
  bool waits = waits_for_answers(&seen->meter);
  bool full = seen->meter.full && seen->meter.rate != then->meter.rate && !waits;
  seen->rate = full ? (double)seen->meter.rate : then->rate;
  seen->full = then->full + full;
  seen->loaded = then->loaded + (seen->meter.flying >= MUCH && !waits);
  seen->glances = then->glances + 1;
}

static void copy(const struct by_path_look *from, struct by_path_look *to) {
  to->at = from->at;
  to->n = BY_ARRAY_GROW(&to->seen, &to->capacity, from->n) ? from->n : 0;
  if (to->n) memcpy(to->seen, from->seen, to->n * sizeof *to->seen);
}

void by_path_watch_glance(struct by_path_watch *watch) {
  struct by_job *job = watch->job;
  struct by_path_look *now = &watch->spare;
  now->n = 0;
  now->at = by_loop_now(by_job_loop(job));
  by_job_lock(job);
  by_engine_visit_lanes(by_job_engine(job), add_peer, now);
  by_job_unlock(job);
  if (now->n) join_connections(now);
  for (uint32_t i = 0; i < now->n; i++) count(&watch->glance, &now->seen[i]);
  struct by_path_look before = watch->glance;
  watch->glance = *now;
  *now = before;
  watch->glances++;
}

/* ---- from one look to the next */

/* Returns whether the network let no more through: it was given more than it took, or much was in flight for most of
 * the busy time, since all data may be in flight at once. */
static bool was_enough(const struct by_path_seen *then, const struct by_path_seen *now, double part) {
  if (now->glances < then->glances) return false; /* The count began again after a lack of memory. */
  uint32_t loaded = now->loaded - then->loaded;
  bool is_long = now->meter.trip >= LONG;
  return (now->full > then->full && !is_long) ||
         (loaded >= TWICE && loaded >= by_limit_nearly_all * part * (now->glances - then->glances));
}

/* Computes what a path shows. Of short bursts, most of the time passes until the last answer comes, so the kernel's own
 * rate is nearer. */
static struct by_cluster_path measure(const struct by_path_seen *then, const struct by_path_seen *now, double seconds) {
  const struct by_meter *before = &then->meter, *after = &now->meter;
  double bits = 8 * (double)(after->bytes - before->bytes), held = (double)(after->held - before->held) * 1e-6;
  double all = (double)(after->busy - before->busy) * 1e-6, busy = all - held;
  double min = fmax(by_limit_min_ticks, after->trip >= LONG ? TRIPS * after->trip * 1e-6 : 0);
  bool known = was_enough(then, now, fmin(all / seconds, 1)) && busy >= min && held <= by_limit_stalled * all;
  if (after->trip >= LONG && bits / 8 * after->recent * 1e-6 < FIRST_WINDOW * busy) known = false;
  double rate = now->full > then->full ? 8 * now->rate : 0;
  return (struct by_cluster_path){.sent = bits / seconds,
                                  .busy = busy < seconds ? busy / seconds : 1,
                                  .bandwidth = known ? fmax(bits / busy, rate) : 0};
}

/* Adds a path; of too many, those that carry least are dropped. */
static void add_path(struct by_path_list *list, const struct by_cluster_path *path, uint32_t process) {
  struct by_cluster_path *out = list->paths;
  uint32_t min = 0;
  for (uint32_t i = 0; i < list->n; i++) {
    if (!strcmp(out[i].to, path->to)) {
      by_cluster_path_join(&out[i], path);
      return;
    }
    if (out[i].sent < out[min].sent) min = i;
  }
  if (list->n < BY_CLUSTER_PATHS)
    min = list->n++;
  else if (path->sent <= out[min].sent)
    return;
  out[min] = *path;
  list->processes[min] = process;
}

static bool has_gone_on(const struct by_meter *before, const struct by_meter *after) {
  return after->bytes > before->bytes && after->busy >= before->busy && after->held >= before->held;
}

static void list_paths(const struct by_path_watch *watch, const struct by_path_look *before,
                       const struct by_path_look *after, struct by_path_list *out) {
  const struct by_member *members = by_job_members(watch->job);
  double seconds = by_clock_to_seconds(after->at - before->at);
  out->n = 0;
  for (uint32_t i = 0; i < after->n && seconds > 0; i++) {
    const struct by_path_seen *now = &after->seen[i], *then = find(before, now->process);
    if (!then || !has_gone_on(&then->meter, &now->meter)) continue;
    struct by_cluster_path path = measure(then, now, seconds);
    path.to = members[now->process].host;
    add_path(out, &path, now->process);
  }
}

/* ---- news */

static struct by_path_usual *find_usual(struct by_path_watch *watch, const char *to) {
  uint32_t i = 0;
  while (i < watch->n_usual && strcmp(watch->usual[i].to, to) != 0) i++;
  return i < watch->n_usual ? &watch->usual[i] : NULL;
}

/* Takes the slot of the host that was not looked at for longest, since many helpers come and go in a long job. */
static struct by_path_usual *add_usual(struct by_path_watch *watch, const char *to) {
  struct by_path_usual *usual = watch->usual;
  for (uint32_t i = 1; i < watch->n_usual; i++)
    if (watch->usual[i].at < usual->at) usual = &watch->usual[i];
  if (watch->n_usual < BY_CLUSTER_PATHS) usual = &watch->usual[watch->n_usual++];
  *usual = (struct by_path_usual){.to = to, .at = watch->glance.at};
  return usual;
}

/* Returns whether a path has changed much. If a job waits for a slow path, other paths carry less too, so what they
 * carried counts. */
static bool is_news(struct by_path_watch *watch, const struct by_cluster_path *paths, uint32_t n) {
  bool news = false;
  for (uint32_t i = 0; i < n; i++) {
    struct by_path_usual *usual = find_usual(watch, paths[i].to);
    if (usual) usual->at = watch->glance.at;
  }
  for (uint32_t i = 0; i < n; i++) {
    struct by_path_usual *usual = find_usual(watch, paths[i].to);
    if (!usual) usual = add_usual(watch, paths[i].to);
    if (paths[i].bandwidth > 0) news |= by_path_recent_add(&usual->bandwidth, paths[i].bandwidth);
    news |= by_path_recent_add(&usual->sent, paths[i].sent);
  }
  return news;
}

bool by_path_watch_look(struct by_path_watch *watch) {
  struct by_path_list list;
  list_paths(watch, &watch->last_look, &watch->glance, &list);
  copy(&watch->glance, &watch->last_look);
  watch->glances = 0;
  if (is_news(watch, list.paths, list.n)) watch->news = 1 + AGAIN;
  if (!watch->news || !list.n) return false; /* Without paths, nothing was measured that could be reported again. */
  watch->news--;
  watch->list = list;
  copy(&watch->last_look, &watch->first_look);
  return true;
}

void by_path_watch_take(struct by_path_watch *watch) {
  if (watch->first_look.at == watch->last_look.at) return;
  list_paths(watch, &watch->first_look, &watch->last_look, &watch->list);
  copy(&watch->last_look, &watch->first_look);
}

void by_path_watch_init(struct by_path_watch *watch, struct by_job *job) {
  *watch = (struct by_path_watch){.job = job};
}

void by_path_watch_fini(struct by_path_watch *watch) {
  free(watch->first_look.seen);
  free(watch->last_look.seen);
  free(watch->glance.seen);
  free(watch->spare.seen);
}
