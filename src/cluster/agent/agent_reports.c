/* Measures the traffic of interfaces, adds up what the ranks of each job have done, and reports both to the manager. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "agent_state.h"
#include "clock.h"

enum { VALID = 2 /* Intervals for which a rank's rate and paths are valid. */, MAX_PATHS = 1024 };

static double rate_of(uint64_t before, uint64_t after, double seconds) {
  return after >= before ? 8 * (double)(after - before) / seconds
                         : 0; /* A counter of an interface that was made again begins at 0. */
}

/* Updates an interface. If the interval was too short, it keeps the previous rates and extends the interval. */
static struct by_agent_interface update_interface(const struct by_agent_interface *before,
                                                  const struct by_agent_counter *counter, double seconds,
                                                  bool measure) {
  struct by_agent_interface next = {.counter = *counter};
  if (!before) return next;
  const struct by_agent_counter *then = &before->counter;
  if (!measure) {
    next = *before;
    next.counter.rate = counter->rate;
    next.counter.queues = counter->queues;
    memcpy(next.counter.address, counter->address, sizeof next.counter.address);
    memcpy(next.counter.neighbour, counter->neighbour, sizeof next.counter.neighbour);
    memcpy(next.counter.neighbour_port, counter->neighbour_port, sizeof next.counter.neighbour_port);
    return next;
  }
  next.sent = rate_of(then->sent, counter->sent, seconds);
  next.received = rate_of(then->received, counter->received, seconds);
  next.marked = rate_of(then->marked, counter->marked, seconds);
  next.helped_sent = rate_of(then->helped_sent, counter->helped_sent, seconds);
  next.helped_received = rate_of(then->helped_received, counter->helped_received, seconds);
  return next;
}

void by_agent_reports_count(struct by_agent *agent, uint64_t now) {
  struct by_agent_reports *reports = &agent->reports;
  struct by_agent_counter counters[BY_AGENT_INTERFACES];
  struct by_agent_interface next[BY_AGENT_INTERFACES] = {0};
  double seconds = by_clock_to_seconds(now - reports->counted_at);
  bool measure = seconds >= agent->session.interval / 4;
  size_t n = agent->options.calls->count(agent->options.context, counters);
  for (size_t i = 0; i < n; i++) {
    const struct by_agent_interface *before = NULL;
    for (uint32_t k = 0; k < reports->n && !before; k++)
      if (!strcmp(reports->interfaces[k].counter.name, counters[i].name)) before = &reports->interfaces[k];
    reports->renew |= !before || strcmp(before->counter.address, counters[i].address) != 0;
    next[i] = update_interface(before, &counters[i], seconds, measure);
  }
  memcpy(reports->interfaces, next, n * sizeof *next);
  reports->n = (uint32_t)n;
  if (measure || !reports->counted_at) reports->counted_at = now;
}

/* ---- the usage of a job */

struct by_agent_usage by_agent_usage_merge(const struct by_agent *agent, const struct by_agent_job *job) {
  struct by_agent_usage all = {0};
  for (const struct by_agent_rank *rank = LIST_FIRST(&agent->ranks.all); rank; rank = LIST_NEXT(rank, entry)) {
    const struct by_agent_usage *usage = &rank->usage;
    if (rank->job != job) continue;
    all.sent = MIN(all.sent + MIN(usage->sent, INT64_MAX), INT64_MAX); /* Maximum that a message can contain. */
    all.iterations = MAX(all.iterations, usage->iterations);
    if (usage->expected) all.expected = usage->expected;
    if (usage->ends) all.ends = usage->ends;
    all.calls = MAX(all.calls, usage->calls);
    all.input = MAX(all.input, usage->input);
    all.iteration_time = fmax(all.iteration_time, usage->iteration_time);
    for (int i = 0; i < BY_CLUSTER_SIZES; i++) all.sizes[i] = MAX(all.sizes[i], usage->sizes[i]);
  }
  return all;
}

static bool is_valid(const struct by_agent *agent, const struct by_agent_job *job, const struct by_agent_rank *rank,
                     uint64_t now) {
  uint64_t fresh = by_clock_from_seconds(VALID * agent->session.interval);
  return rank->job == job && rank->paths && rank->paths_at + fresh >= now;
}

static uint32_t gather_paths(const struct by_agent *agent, const struct by_agent_job *job, uint64_t now,
                             struct by_cluster_path *out) {
  uint32_t n = 0;
  for (const struct by_agent_rank *rank = LIST_FIRST(&agent->ranks.all); rank; rank = LIST_NEXT(rank, entry))
    for (uint32_t i = 0; is_valid(agent, job, rank, now) && i < rank->paths->n; i++, n++)
      if (out) out[n] = rank->paths->all[i];
  return n;
}

static int compare_hosts(const void *a, const void *b) {
  const struct by_cluster_path *x = a, *y = b;
  return strcmp(x->to, y->to);
}

static int compare_traffic(const void *a, const void *b) {
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

/* Lists the at most `max` paths of a job with the most traffic: jobs share the bytes of a line. */
static enum banyan_status list_paths(const struct by_agent *agent, const struct by_agent_job *job, uint64_t now,
                                     uint32_t max, struct by_arena *arena, struct by_cluster_job *out) {
  uint32_t n = gather_paths(agent, job, now, NULL);
  struct by_cluster_path *all = BY_ARENA_ARRAY(arena, struct by_cluster_path, n + 1);
  if (!all) return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  (void)gather_paths(agent, job, now, all);
  qsort(all, n, sizeof *all, compare_hosts);
  n = join_equal(all, n);
  qsort(all, n, sizeof *all, compare_traffic);
  out->paths = all;
  out->n_paths = MIN(n, MIN(max, BY_CLUSTER_PATHS));
  return BANYAN_OK;
}

/* ---- the traffic of jobs */

static const char *text_or_null(const char *text) {
  return *text ? text : NULL;
}

/* Queues count marked traffic. On other interfaces the ranks' reports count, minus that, spread over the interfaces
 * like all traffic; plus the traffic of helpers' sockets. As much is received as sent, since on every link of a tree
 * the summands go in one direction and the sum comes back. */
void by_agent_reports_list_interfaces(const struct by_agent *agent, struct by_cluster_interface *out) {
  const struct by_agent_reports *reports = &agent->reports;
  uint64_t fresh = by_clock_from_seconds(VALID * agent->session.interval);
  double of_ranks = 0, sent_marked = 0, all = 0; /* `all`: traffic of interfaces without queues. */
  for (const struct by_agent_rank *rank = LIST_FIRST(&agent->ranks.all); rank; rank = LIST_NEXT(rank, entry))
    if (rank->rated_at + fresh >= reports->counted_at) of_ranks += rank->rate; /* A rank without news sends nothing. */
  for (uint32_t i = 0; i < reports->n; i++)
    if (reports->interfaces[i].counter.queues)
      sent_marked += reports->interfaces[i].marked;
    else
      all += reports->interfaces[i].sent;
  double left = fmax(0, of_ranks - sent_marked);
  for (uint32_t i = 0; i < reports->n; i++) {
    const struct by_agent_interface *interface = &reports->interfaces[i];
    double of_here = interface->counter.queues || !(all > 0) ? 0 : left * interface->sent / all;
    double ours = interface->counter.queues ? interface->marked : of_here + interface->helped_sent;
    double back = interface->counter.queues ? interface->marked : of_here + interface->helped_received;
    out[i] = (struct by_cluster_interface){.name = interface->counter.name,
                                           .address = interface->counter.address,
                                           .rate = interface->counter.rate,
                                           .neighbour = text_or_null(interface->counter.neighbour),
                                           .neighbour_port = text_or_null(interface->counter.neighbour_port),
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
  for (const struct by_agent_rank *rank = LIST_FIRST(&agent->ranks.all); rank; rank = LIST_NEXT(rank, entry))
    if (rank->job == job) out[n++] = rank->rank;
  qsort(out, n, sizeof *out, compare_ranks);
  return n;
}

static enum banyan_status describe_job(const struct by_agent *agent, const struct by_agent_job *job, uint64_t now,
                                       uint32_t *ranks, struct by_arena *arena, struct by_cluster_job *out) {
  const struct by_agent_usage usage = by_agent_usage_merge(agent, job);
  struct by_cluster_size *sizes = BY_ARENA_ARRAY(arena, struct by_cluster_size, BY_CLUSTER_SIZES);
  if (!sizes) return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  *out = (struct by_cluster_job){.job = job->id,
                                 .class_ = job->class_,
                                 .n_ranks = list_ranks(agent, job, ranks),
                                 .ranks = ranks,
                                 .sizes = sizes,
                                 .iterations = usage.iterations,
                                 .expected = usage.expected,
                                 .ends_in = usage.ends > now ? by_clock_to_seconds(usage.ends - now) : 0,
                                 .iteration_time = usage.iteration_time,
                                 .calls = usage.calls,
                                 .sent = usage.sent,
                                 .input = usage.input};
  for (uint32_t log2 = 0; log2 < BY_CLUSTER_SIZES; log2++)
    if (usage.sizes[log2]) sizes[out->n_sizes++] = (struct by_cluster_size){log2, usage.sizes[log2]};
  return BANYAN_OK;
}

enum banyan_status by_agent_reports_list_jobs(const struct by_agent *agent, uint64_t now, struct by_arena *arena,
                                              struct by_cluster_job **out) {
  uint32_t paths_left = MAX_PATHS, jobs_left = agent->ranks.n_jobs;
  uint32_t *ranks = BY_ARENA_ARRAY(arena, uint32_t, agent->ranks.n);
  struct by_cluster_job *jobs = BY_ARENA_ARRAY(arena, struct by_cluster_job, agent->ranks.n_jobs);
  *out = jobs;
  if (!ranks || !jobs) return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  for (const struct by_agent_job *job = TAILQ_FIRST(&agent->ranks.jobs); job; job = TAILQ_NEXT(job, entry), jobs++) {
    BY_TRY(describe_job(agent, job, now, ranks, arena, jobs));
    BY_TRY(list_paths(agent, job, now, paths_left / jobs_left--, arena, jobs));
    paths_left -= jobs->n_paths;
    ranks += jobs->n_ranks;
  }
  return BANYAN_OK;
}

/* Sends a report, or defers it if it exceeds what the manager accepts now. */
static void send_report(struct by_agent *agent, const struct by_cluster_message *report, struct by_cluster_job *jobs,
                        uint64_t now) {
  struct by_text text = by_cluster_message_line(report);
  if (text.length > BY_CLUSTER_LINE_UP) { /* Paths matter least. */
    for (uint32_t j = 0; j < report->n_jobs; j++) jobs[j].n_paths = 0;
    by_text_fini(&text);
    text = by_cluster_message_line(report);
  }
  if (text.failed || text.length > BY_CLUSTER_LINE_UP) {
    by_repeats_warn(&agent->ranks.rejections, "agent", "a report",
                    "it is longer than the manager takes, and is left out", by_clock_to_seconds(now));
  } else if (by_agent_ranks_may_forward(agent, NULL, text.length, now)) {
    agent->reports.n_sent++;
    by_agent_session_send_line(agent, by_text_get(&text), now);
  } else {
    by_agent_links_changed(agent, now);
  }
  by_text_fini(&text);
}

void by_agent_reports_send(struct by_agent *agent, uint64_t now) {
  struct by_cluster_interface interfaces[BY_AGENT_INTERFACES];
  struct by_cluster_message report = {.type = BY_MESSAGE_REPORT,
                                      .n_interfaces = agent->reports.n,
                                      .interfaces = interfaces,
                                      .n_jobs = agent->ranks.n_jobs};
  struct by_cluster_job *jobs;
  if (!by_agent_session_is_open(agent)) return;
  if (agent->options.calls->used_cells) report.used_cells = agent->options.calls->used_cells(agent->options.context);
  by_arena_init(&report.arena);
  by_agent_reports_list_interfaces(agent, interfaces);
  if (by_agent_reports_list_jobs(agent, now, &report.arena, &jobs) == BANYAN_OK) {
    report.jobs = jobs;
    send_report(agent, &report, jobs, now);
  } else {
    by_error("agent", "%s", banyan_error_text());
  }
  by_cluster_message_fini(&report);
}

void by_agent_reports_send_hello(struct by_agent *agent, uint64_t now) {
  struct by_agent_reports *reports = &agent->reports;
  struct by_cluster_interface interfaces[BY_AGENT_INTERFACES] = {0};
  struct by_cluster_message hello = {.type = BY_MESSAGE_HELLO,
                                     .version = BY_CLUSTER_VERSION,
                                     .host = agent->options.host,
                                     .may_help = agent->options.may_help,
                                     .may_serve = agent->options.may_serve,
                                     .aggregates = agent->options.aggregates,
                                     .age = by_clock_to_seconds(now - reports->started),
                                     .n_interfaces = reports->n,
                                     .interfaces = interfaces};
  for (uint32_t i = 0; i < reports->n; i++) {
    const struct by_agent_counter *counter = &reports->interfaces[i].counter;
    interfaces[i] = (struct by_cluster_interface){.name = counter->name,
                                                  .address = counter->address,
                                                  .rate = counter->rate,
                                                  .neighbour = text_or_null(counter->neighbour),
                                                  .neighbour_port = text_or_null(counter->neighbour_port)};
  }
  reports->renew = false;
  by_agent_session_send(agent, &hello, now);
}
