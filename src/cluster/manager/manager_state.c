/* Prints the state of the manager as JSON for programs: docs/cluster.md. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "json_doc.h"
#include "manager_cells.h"
#include "manager_hosts.h"
#include "manager_links.h"
#include "manager_plans.h"

static void add_constant(struct by_text *text, const char *constant) {
  by_text_add_bytes(text, constant, strlen(constant));
}

/* Fractions of a bit/s are noise, and printing them would take most of the time. */
static void put_rate(struct by_text *text, const char *name, double bits_per_second) {
  by_json_put_real(text, name, round(bits_per_second));
}

/* ---- hosts */

static void add_interface(const struct by_manager_interface *interface, struct by_text *text) {
  by_json_separate(text);
  add_constant(text, "{");
  by_json_put_string(text, "name", interface->name);
  put_rate(text, "rate", interface->message.rate);
  put_rate(text, "sent", interface->message.sent);
  put_rate(text, "received", interface->message.received);
  put_rate(text, "ours_sent", interface->message.ours_sent);
  put_rate(text, "ours_received", interface->message.ours_received);
  add_constant(text, "}");
}

/* Which hosts help or serve which jobs, sorted by host. */
struct help {
  uint32_t host;
  bool server;
  const char *job;
};

static int compare_help(const void *a, const void *b) {
  const struct help *x = a, *y = b;
  if (x->host != y->host) return (x->host > y->host) - (x->host < y->host);
  return x->server != y->server ? (x->server > y->server) - (x->server < y->server) : strcmp(x->job, y->job);
}

/* Lists all helpers, with BY_NOWHERE as the host of the last entry. NULL: no memory. */
static struct help *list_help(const struct by_manager *m) {
  size_t n = 0, max = 0;
  for (const struct by_manager_job *job = m->jobs; job; job = job->next) max += job->plans.n_helpers;
  struct help *all = calloc(max + 1, sizeof *all);
  for (const struct by_manager_job *job = m->jobs; all && job; job = job->next)
    for (uint32_t i = 0; i < job->plans.n_helpers; i++)
      if (job->plans.helpers[i].state == BY_HELPER_JOINED)
        all[n++] = (struct help){job->plans.helpers[i].host, job->plans.helpers[i].server, job->id};
  if (!all) return NULL;
  qsort(all, n, sizeof *all, compare_help);
  all[n].host = BY_NOWHERE;
  return all;
}

static void add_helped(const struct help **next, uint32_t host, bool server, struct by_text *text) {
  while ((*next)->host < host) ++*next;
  for (; (*next)->host == host && (*next)->server == server; ++*next) {
    by_json_separate(text);
    by_json_add_string(text, (*next)->job);
  }
}

static void add_hosts(const struct by_manager *m, const struct help *help, struct by_text *text) {
  for (uint32_t h = 0; h < m->hosts->n; h++) {
    const struct by_manager_host *host = &m->hosts->all[h];
    if (host->node != BY_NOWHERE && m->topology->nodes[h].kind != BY_NODE_HOST && !host->agent) continue;
    by_json_separate(text);
    add_constant(text, "{");
    by_json_put_string(text, "name", host->name);
    by_json_put_bool(text, "connected", host->agent);
    by_json_put_bool(text, "in_topology", host->node != BY_NOWHERE);
    by_json_put_bool(text, "may_help", host->agent && host->may_help);
    by_json_put_bool(text, "may_serve", host->agent && host->may_serve);
    add_constant(text, ",\"helping\":[");
    add_helped(&help, h, false, text);
    add_constant(text, "],\"serving\":[");
    add_helped(&help, h, true, text);
    add_constant(text, "],\"interfaces\":[");
    for (uint32_t i = 0; i < host->n_interfaces; i++) add_interface(&host->interfaces[i], text);
    add_constant(text, "]}");
  }
}

/* ---- links */

static void add_links(const struct by_manager *m, struct by_text *text) {
  const struct by_topology *t = m->topology;
  for (uint32_t s = 0; s < 2 * t->n_links; s++) {
    const struct by_link *link = &t->links[s / 2];
    by_json_separate(text);
    add_constant(text, "{");
    by_json_put_string(text, "from", t->nodes[s % 2 ? link->b : link->a].name);
    by_json_put_string(text, "to", t->nodes[s % 2 ? link->a : link->b].name);
    put_rate(text, "capacity", m->links->steps[s].carries);
    put_rate(text, "ours", by_use_of_jobs(m, s));
    put_rate(text, "others", by_use_others(m, s));
    add_constant(text, "}");
  }
}

/* ---- jobs */

static const char *state_of(const struct by_manager_job *job) {
  if (by_job_has_left(job)) return "left";
  if (by_job_is_moving(job)) return "switching";
  return job->plans.current || job->plans.own || job->n_hosts == 1 ? "running" : "waiting";
}

static void add_plan(const struct by_manager_plan *plan, struct by_text *text) {
  if (!plan) {
    add_constant(text, ",\"plan\":null");
    return;
  }
  add_constant(text, ",\"plan\":{");
  by_json_put_count(text, "number", plan->number);
  put_rate(text, "throughput", plan->rate);
  by_json_put_real(text, "made", plan->made);
  add_constant(text, ",\"plan\":");
  by_plan_print(plan->plan, text);
  add_constant(text, "}");
}

static void add_event(const struct by_manager_event *event, struct by_text *text) {
  by_json_separate(text);
  add_constant(text, "{");
  by_json_put_count(text, "number", event->number);
  by_json_put_real(text, "time", event->time);
  by_json_put_string(text, "why", event->why);
  put_rate(text, "before", event->before);
  put_rate(text, "after", event->after);
  add_constant(text, "}");
}

/* Prints how long the job continues, as far as known. */
static void add_length(const struct by_manager *m, const struct by_manager_job *job, struct by_text *text) {
  const struct by_job_length *length = &job->length;
  double limit = length->ends && !by_job_has_left(job) ? fmax(0, length->ends - m->now) : INFINITY;
  if (length->expected)
    by_json_put_count(text, "expected", length->expected);
  else
    add_constant(text, ",\"expected\":null");
  if (length->expected && job->iteration_time > 0 && !by_job_has_left(job))
    by_json_put_real(text, "seconds_left",
                     fmin(limit, (double)by_job_length_left(length, job->iterations) * job->iteration_time));
  else
    add_constant(text, ",\"seconds_left\":null");
  if (isfinite(limit))
    by_json_put_real(text, "ends_in", limit);
  else
    add_constant(text, ",\"ends_in\":null");
}

static void add_job(const struct by_manager *m, const struct by_manager_job *job, struct by_text *text) {
  by_json_separate(text);
  add_constant(text, "{");
  by_json_put_string(text, "id", job->id);
  by_json_put_string(text, "name", job->name);
  by_json_put_count(text, "size", job->n_ranks);
  add_constant(text, ",\"hosts\":[");
  for (uint32_t h = 0; h < job->n_hosts; h++) {
    by_json_separate(text);
    by_json_add_string(text, job->hosts[h]);
  }
  add_constant(text, "]");
  by_json_put_string(text, "state", state_of(job));
  by_json_put_bool(text, "connected", job->peer);
  by_json_put_count(text, "class", job->order.class_);
  by_json_put_count(text, "queue", job->position.queue);
  by_json_put_count(text, "iterations", job->iterations);
  add_length(m, job, text);
  by_json_put_string(text, "why", job->notes.trouble);
  by_json_put_string(text, "own_plan", job->plans.own);
  by_json_put_real(text, "iteration_time", job->iteration_time);
  by_json_put_count(text, "sent", job->sent);
  put_rate(text, "input_rate", by_job_has_left(job) ? 0 : job->input_rate);
  by_json_put_real(text, "since", job->since);
  add_constant(text, ",\"helpers\":");
  by_helpers_print(m, job, false, text);
  add_constant(text, ",\"servers\":");
  by_helpers_print(m, job, true, text);
  add_constant(text, ",\"cells\":");
  by_cells_print(m, job, text);
  add_plan(job->plans.current, text);
  add_constant(text, ",\"history\":[");
  for (uint32_t i = 0; i < job->notes.n_history; i++) add_event(&job->notes.history[i], text);
  add_constant(text, "]}");
}

/* ---- everything */

void by_manager_state(const struct by_manager *m, double now, struct by_text *text) {
  const struct by_manager_counters *c = &m->counters;
  struct help *help = list_help(m);
  if (!help) {
    by_text_fini(text);
    text->failed = true;
    return;
  }
  add_constant(text, "{");
  by_json_put_real(text, "time", now);
  by_json_put_string(text, "version", BANYAN_VERSION);
  by_json_put_real(text, "interval", m->options.interval);
  add_constant(text, ",\"topology\":");
  by_topology_print(m->topology, text);
  add_constant(text, ",\"hosts\":[");
  add_hosts(m, help, text);
  free(help);
  add_constant(text, "],\"links\":[");
  add_links(m, text);
  add_constant(text, "],\"switches\":");
  by_cells_print_switches(m, text);
  add_constant(text, ",\"jobs\":[");
  for (const struct by_manager_job *job = m->jobs; job; job = job->next)
    if (job->state != BY_JOB_REPLACED)
      add_job(m, job, text); /* The job was replaced, and is only kept for the planner. */
  add_constant(text, "],\"counters\":{");
  by_json_put_count(text, "reports", c->reports);
  by_json_put_count(text, "refused", c->refused);
  by_json_put_count(text, "planned", c->planned);
  by_json_put_count(text, "plans", c->plans);
  by_json_put_count(text, "plan_switches", c->plan_switches);
  by_json_put_count(text, "kept", c->kept);
  add_constant(text, "}");
  if (m->options.print_more) m->options.print_more(m->options.context, text);
  add_constant(text, "}");
}
