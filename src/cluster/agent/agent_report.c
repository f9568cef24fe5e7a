/* Reports: what the ranks of a job have done, made one; how the interfaces are used. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent_parts.h"
#include "log.h"

enum { FRESH = 2 /* intervals; so long a rank's rate counts */, MOST_PATHS = 1024 };

/* ---- interfaces */

static double rate_of(uint64_t before, uint64_t after, double seconds) {
  return after >= before ? 8 * (double)(after - before) / seconds : 0; /* one that was made anew counts anew */
}

static const struct by_agent_interface *find(const struct by_agent_interface *all, uint32_t n, const char *name) {
  for (uint32_t i = 0; i < n; i++)
    if (!strcmp(all[i].counter.name, name)) return &all[i];
  return NULL;
}

/* Of a time too short the rates of before stay, and are measured on from there. */
static struct by_agent_interface follow(const struct by_agent_interface *before, const struct by_agent_counter *counter,
                                        double seconds, bool measure) {
  struct by_agent_interface next = {.counter = *counter};
  if (!before) return next;
  const struct by_agent_counter *then = &before->counter;
  if (!measure) {
    next = *before;
    next.counter.rate = counter->rate;
    next.counter.queues = counter->queues;
    memcpy(next.counter.address, counter->address, sizeof next.counter.address);
    return next;
  }
  next.sent = rate_of(then->sent, counter->sent, seconds);
  next.received = rate_of(then->received, counter->received, seconds);
  next.marked = rate_of(then->marked, counter->marked, seconds);
  next.helped_sent = rate_of(then->helped_sent, counter->helped_sent, seconds);
  next.helped_received = rate_of(then->helped_received, counter->helped_received, seconds);
  return next;
}

void by_agent_count(struct by_agent *agent, uint64_t now) {
  struct by_agent_counter counters[BY_AGENT_INTERFACES];
  struct by_agent_interface next[BY_AGENT_INTERFACES] = {0};
  double seconds = by_clock_to_seconds(now - agent->counted_at);
  bool measure = seconds >= agent->interval / 4;
  size_t n = agent->options.calls->count(agent->options.context, counters);
  for (size_t i = 0; i < n; i++) {
    const struct by_agent_interface *before = find(agent->interfaces, agent->n_interfaces, counters[i].name);
    agent->renew |= !before || strcmp(before->counter.address, counters[i].address) != 0;
    next[i] = follow(before, &counters[i], seconds, measure);
  }
  memcpy(agent->interfaces, next, n * sizeof *next);
  agent->n_interfaces = (uint32_t)n;
  if (measure || !agent->counted_at) agent->counted_at = now;
}

/* ---- whose traffic it is */

/* One that has nothing new says nothing. */
static double of_ranks(const struct by_agent *agent) {
  uint64_t fresh = by_clock_from_seconds(FRESH * agent->interval);
  double all = 0;
  for (const struct by_agent_rank *rank = agent->ranks; rank; rank = rank->next)
    if (rank->rated_at + fresh >= agent->counted_at) all += rank->rate;
  return all;
}

static double sent_unmarked(const struct by_agent *agent) {
  double all = 0;
  for (uint32_t i = 0; i < agent->n_interfaces; i++)
    if (!agent->interfaces[i].counter.queues) all += agent->interfaces[i].sent;
  return all;
}

static double sent_marked(const struct by_agent *agent) {
  double all = 0;
  for (uint32_t i = 0; i < agent->n_interfaces; i++)
    if (agent->interfaces[i].counter.queues) all += agent->interfaces[i].marked;
  return all;
}

/* Where queues sort by marks, they have counted. Elsewhere the ranks' own word counts, for what is left of it; over
 * several interfaces as everything is spread over them; and what helpers' sockets have carried. As much comes as goes:
 * on every link of a tree what is summed goes one way, and the sum comes back. */
void by_agent_share_ours(const struct by_agent *agent, struct by_cluster_interface *out) {
  double left = fmax(0, of_ranks(agent) - sent_marked(agent)), all = sent_unmarked(agent);
  for (uint32_t i = 0; i < agent->n_interfaces; i++) {
    const struct by_agent_interface *interface = &agent->interfaces[i];
    double of_here = interface->counter.queues || !(all > 0) ? 0 : left * interface->sent / all;
    double ours = interface->counter.queues ? interface->marked : of_here + interface->helped_sent;
    double back = interface->counter.queues ? interface->marked : of_here + interface->helped_received;
    out[i] = (struct by_cluster_interface){.name = interface->counter.name,
                                           .address = interface->counter.address,
                                           .rate = interface->counter.rate,
                                           .sent = interface->sent,
                                           .received = interface->received,
                                           .ours_sent = fmin(ours, interface->sent),
                                           .ours_received = fmin(back, interface->received)};
  }
}

/* ---- jobs */

static int compare_ranks(const void *a, const void *b) {
  const uint32_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static uint32_t list_ranks(const struct by_agent *agent, const struct by_agent_job *job, uint32_t *out) {
  uint32_t n = 0;
  for (const struct by_agent_rank *rank = agent->ranks; rank; rank = rank->next)
    if (rank->job == job) out[n++] = rank->rank;
  qsort(out, n, sizeof *out, compare_ranks);
  return n;
}

static uint32_t list_sizes(const struct by_agent_deeds *deeds, struct by_cluster_size *out) {
  uint32_t n = 0;
  for (uint32_t log2 = 0; log2 < BY_CLUSTER_SIZES; log2++)
    if (deeds->sizes[log2]) out[n++] = (struct by_cluster_size){log2, deeds->sizes[log2]};
  return n;
}

static struct by_cluster_job describe(const struct by_agent *agent, const struct by_agent_job *job, uint32_t *ranks,
                                      struct by_cluster_size *sizes, const struct by_agent_paths *paths) {
  struct by_agent_deeds deeds;
  by_agent_merge(agent, job, &deeds);
  return (struct by_cluster_job){.job = job->id,
                                 .class_ = job->class_,
                                 .n_ranks = list_ranks(agent, job, ranks),
                                 .ranks = ranks,
                                 .n_sizes = list_sizes(&deeds, sizes),
                                 .sizes = sizes,
                                 .n_paths = paths->n,
                                 .paths = paths->all,
                                 .iterations = deeds.iterations,
                                 .expected = deeds.expected,
                                 .iteration_time = deeds.iteration_time,
                                 .calls = deeds.calls,
                                 .sent = deeds.sent,
                                 .input = deeds.input};
}

/* So many lines of paths in all, as the rest of a line's bytes is for what must be said; of each job as many, where
 * they do not suffice. */
static enum banyan_status list_paths(const struct by_agent *agent, const struct by_agent_job *job, uint64_t now,
                                     uint32_t most, struct by_arena *arena, struct by_agent_paths **out) {
  *out = BY_ARENA_ARRAY(arena, struct by_agent_paths, 1);
  if (!*out) return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  BY_TRY(by_agent_merge_paths(agent, job, now, arena, *out));
  if ((*out)->n > most) (*out)->n = most;
  return BANYAN_OK;
}

enum banyan_status by_agent_describe(const struct by_agent *agent, uint64_t now, struct by_arena *arena,
                                     struct by_cluster_job **out) {
  uint32_t paths_left = MOST_PATHS, jobs_left = agent->n_jobs;
  uint32_t *ranks = BY_ARENA_ARRAY(arena, uint32_t, agent->n_ranks);
  struct by_cluster_job *jobs = BY_ARENA_ARRAY(arena, struct by_cluster_job, agent->n_jobs);
  *out = jobs;
  if (!ranks || !jobs) return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  for (const struct by_agent_job *job = agent->jobs; job; job = job->next) {
    struct by_cluster_size *sizes = BY_ARENA_ARRAY(arena, struct by_cluster_size, BY_CLUSTER_SIZES);
    struct by_agent_paths *paths;
    if (!sizes) return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
    BY_TRY(list_paths(agent, job, now, paths_left / jobs_left--, arena, &paths));
    paths_left -= paths->n;
    *jobs = describe(agent, job, ranks, sizes, paths);
    ranks += jobs++->n_ranks;
  }
  return BANYAN_OK;
}

/* Without anybody's paths where they make it too long: all else is what counts. */
static void print_report(const struct by_cluster_message *report, struct by_cluster_job *jobs, struct by_text *text) {
  by_text_init(text);
  by_cluster_message_print(report, text);
  if (text->length <= BY_CLUSTER_LINE_UP) return;
  for (uint32_t j = 0; j < report->n_jobs; j++) jobs[j].n_paths = 0;
  by_text_fini(text);
  by_text_init(text);
  by_cluster_message_print(report, text);
}

/* One that is more than the manager hears now comes later, with what is new by then. */
static void say_report(struct by_agent *agent, const struct by_cluster_message *report, struct by_cluster_job *jobs,
                       uint64_t now) {
  struct by_text text;
  print_report(report, jobs, &text);
  if (text.failed || text.length > BY_CLUSTER_LINE_UP) {
    by_repeats_warn(&agent->rejected, "agent", "a report", "it is longer than the manager takes, and is left out",
                    by_clock_to_seconds(now));
  } else if (by_agent_may_say(agent, text.length, now)) {
    agent->reports++;
    by_agent_tell_line(agent, by_text_get(&text), now);
  } else {
    by_agent_note_change(agent, now);
  }
  by_text_fini(&text);
}

void by_agent_report(struct by_agent *agent, uint64_t now) {
  struct by_cluster_interface interfaces[BY_AGENT_INTERFACES];
  struct by_cluster_message report = {
      .say = BY_SAY_REPORT, .n_interfaces = agent->n_interfaces, .interfaces = interfaces, .n_jobs = agent->n_jobs};
  struct by_cluster_job *jobs;
  if (agent->link != BY_AGENT_LINK_OPEN) return;
  by_arena_init(&report.arena);
  by_agent_share_ours(agent, interfaces);
  if (by_agent_describe(agent, now, &report.arena, &jobs) == BANYAN_OK) {
    report.jobs = jobs;
    say_report(agent, &report, jobs, now);
  } else {
    by_error("agent", "%s", banyan_error_text());
  }
  by_cluster_message_fini(&report);
}
