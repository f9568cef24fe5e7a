/* What the manager knows, as JSON for people's programs: docs/cluster.md. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "json_doc.h"
#include "manager_cells.h"
#include "manager_hosts.h"
#include "manager_links.h"

static void add(struct by_text *text, const char *constant) {
  by_text_add_bytes(text, constant, strlen(constant));
}

static void add_name(struct by_text *text, const char *name) {
  add(text, "\"");
  add(text, name);
  add(text, "\":");
}

static void add_field(struct by_text *text, const char *name, const char *value) {
  add_name(text, name);
  by_json_add_string(text, value);
}

static void add_number(struct by_text *text, const char *name, double value) {
  add_name(text, name);
  by_json_add_real(text, isfinite(value) ? value : 0);
}

/* What stands behind the point of a number of bit/s is noise, and would take most of the time to print. */
static void add_rate(struct by_text *text, const char *name, double bits_per_second) {
  add_number(text, name, round(bits_per_second));
}

/* ---- hosts */

static void add_interfaces(const struct by_manager_host *host, struct by_text *text) {
  for (uint32_t i = 0; i < host->n_interfaces; i++) {
    const struct by_manager_interface *of = &host->interfaces[i];
    add(text, i ? ",{" : "{");
    add_field(text, "name", of->name);
    const struct {
      const char *name;
      double value;
    } numbers[] = {{"rate", of->rate},
                   {"sent", of->sent},
                   {"received", of->received},
                   {"ours_sent", of->ours_sent},
                   {"ours_received", of->ours_received}};
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
      add(text, ",");
      add_rate(text, numbers[n].name, numbers[n].value);
    }
    add(text, "}");
  }
}

/* Who helps whom, by host. */
struct help {
  uint32_t host;
  const char *job;
};

static int compare_help(const void *a, const void *b) {
  const struct help *x = a, *y = b;
  return x->host != y->host ? (x->host > y->host) - (x->host < y->host) : strcmp(x->job, y->job);
}

/* The last one is of no host. NULL: no memory. */
static struct help *list_help(const struct by_manager *m) {
  size_t n = 0, most = 0;
  for (const struct by_manager_job *job = m->jobs; job; job = job->next) most += job->plans.n_helpers;
  struct help *all = calloc(most + 1, sizeof *all);
  for (const struct by_manager_job *job = m->jobs; all && job; job = job->next)
    for (uint32_t i = 0; i < job->plans.n_helpers; i++)
      if (job->plans.helpers[i].state == BY_HELPER_JOINED)
        all[n++] = (struct help){job->plans.helpers[i].host, job->id};
  if (!all) return NULL;
  qsort(all, n, sizeof *all, compare_help);
  all[n].host = BY_NOWHERE;
  return all;
}

static void add_helped(const struct help **next, uint32_t host, struct by_text *text) {
  while ((*next)->host < host) ++*next;
  for (const char *between = ""; (*next)->host == host; ++*next, between = ",") {
    add(text, between);
    by_json_add_string(text, (*next)->job);
  }
}

static void add_hosts(const struct by_manager *m, const struct help *help, struct by_text *text) {
  const char *between = "";
  for (uint32_t h = 0; h < m->hosts->n; h++) {
    const struct by_manager_host *host = &m->hosts->all[h];
    if (host->node != BY_NOWHERE && m->topology->nodes[h].kind != BY_NODE_HOST && !host->agent) continue;
    add(text, between);
    add(text, "{");
    add_field(text, "name", host->name);
    by_text_add(text, ",\"connected\":%s,\"in_topology\":%s,\"may_help\":%s,\"helping\":[",
                host->agent ? "true" : "false", host->node != BY_NOWHERE ? "true" : "false",
                host->agent && host->may_help ? "true" : "false");
    add_helped(&help, h, text);
    add(text, "],\"interfaces\":[");
    add_interfaces(host, text);
    add(text, "]}");
    between = ",";
  }
}

/* ---- links */

static void add_links(const struct by_manager *m, struct by_text *text) {
  const struct by_topology *t = m->topology;
  for (uint32_t s = 0; s < 2 * t->n_links; s++) {
    const struct by_link *link = &t->links[s / 2];
    add(text, s ? ",{" : "{");
    add_field(text, "from", t->nodes[s % 2 ? link->b : link->a].name);
    add(text, ",");
    add_field(text, "to", t->nodes[s % 2 ? link->a : link->b].name);
    add(text, ",");
    add_rate(text, "capacity", m->links->all[s]);
    add(text, ",");
    add_rate(text, "ours", by_use_of_jobs(m, s));
    add(text, ",");
    add_rate(text, "others", by_use_others(m, s));
    add(text, "}");
  }
}

/* ---- jobs */

static const char *state_of(const struct by_manager_job *job) {
  if (by_job_has_left(job)) return "left";
  if (by_job_is_moving(job)) return "moving";
  return job->plans.current || job->plans.own || job->n_hosts == 1 ? "running" : "waiting";
}

static void add_plan(const struct by_manager_plan *plan, struct by_text *text) {
  add(text, ",\"plan\":");
  if (!plan) {
    add(text, "null");
    return;
  }
  by_text_add(text, "{\"number\":%llu,", (unsigned long long)plan->number);
  add_rate(text, "throughput", plan->rate);
  add(text, ",");
  add_number(text, "made", plan->made);
  add(text, ",\"plan\":");
  by_plan_print(plan->plan, text);
  add(text, "}");
}

static void add_history(const struct by_manager_job *job, struct by_text *text) {
  add(text, ",\"history\":[");
  for (uint32_t i = 0; i < job->notes.n_history; i++) {
    const struct by_manager_event *event = &job->notes.history[i];
    by_text_add(text, "%s{\"number\":%llu,", i ? "," : "", (unsigned long long)event->number);
    add_number(text, "time", event->time);
    add(text, ",");
    add_field(text, "why", event->why);
    add(text, ",");
    add_rate(text, "before", event->before);
    add(text, ",");
    add_rate(text, "after", event->after);
    add(text, "}");
  }
  add(text, "]");
}

/* How long it goes on, as far as that is known. */
static void add_length(const struct by_manager_job *job, struct by_text *text) {
  double left = (double)by_job_length_left(&job->length, job->iterations) * job->iteration_time;
  if (!job->length.expected) {
    add(text, "\"expected\":null,\"seconds_left\":null,");
    return;
  }
  by_text_add(text, "\"expected\":%llu,", (unsigned long long)job->length.expected);
  if (job->iteration_time > 0 && !by_job_has_left(job))
    add_number(text, "seconds_left", left);
  else
    add(text, "\"seconds_left\":null");
  add(text, ",");
}

static void add_job(const struct by_manager_job *job, struct by_text *text) {
  by_text_add(text, "{\"id\":\"%s\",", job->id);
  add_field(text, "name", job->name);
  by_text_add(text, ",\"size\":%u,\"hosts\":[", job->n_ranks);
  for (uint32_t h = 0; h < job->n_hosts; h++) {
    add(text, h ? "," : "");
    by_json_add_string(text, job->hosts[h]);
  }
  by_text_add(text, "],\"state\":\"%s\",\"connected\":%s,\"class\":%u,\"queue\":%u,\"iterations\":%llu,", state_of(job),
              job->peer ? "true" : "false", job->order.class_, job->place.queue, (unsigned long long)job->iterations);
  add_length(job, text);
  add_field(text, "why", job->notes.trouble);
  add(text, ",\"own_plan\":");
  if (job->plans.own)
    by_json_add_string(text, job->plans.own);
  else
    add(text, "null");
  add(text, ",");
  add_number(text, "iteration_time", job->iteration_time);
  by_text_add(text, ",\"sent\":%llu,", (unsigned long long)job->sent);
  add_rate(text, "input_rate", by_job_has_left(job) ? 0 : job->input_rate);
  add(text, ",");
  add_number(text, "since", job->since);
  add(text, ",\"cells\":");
  by_cells_print(job, text);
  add_plan(job->plans.current, text);
  add_history(job, text);
  add(text, "}");
}

/* ---- all of it */

void by_manager_state(const struct by_manager *m, double now, struct by_text *text) {
  add(text, "{");
  add_number(text, "time", now);
  add(text, ",");
  add_field(text, "version", BANYAN_VERSION);
  add(text, ",");
  add_number(text, "interval", m->options.interval);
  add(text, ",\"topology\":");
  by_topology_print(m->topology, text);
  add(text, ",\"hosts\":[");
  struct help *help = list_help(m);
  if (help) add_hosts(m, help, text);
  bool failed = !help;
  free(help);
  if (failed) {
    by_text_fini(text);
    text->failed = true;
    return;
  }
  add(text, "],\"links\":[");
  add_links(m, text);
  add(text, "],\"switches\":");
  by_cells_print_switches(m, text);
  add(text, ",\"jobs\":[");
  const char *between = "";
  for (const struct by_manager_job *job = m->jobs; job; job = job->next) {
    if (job->state == BY_JOB_REPLACED) continue; /* it began again, and is kept for the planner alone */
    add(text, between);
    add_job(job, text);
    between = ",";
  }
  const struct by_manager_counters *c = &m->counters;
  const struct {
    const char *name;
    uint64_t value;
  } counters[] = {{"reports", c->reports}, {"refused", c->refused}, {"planned", c->planned},
                  {"plans", c->plans},     {"moves", c->moves},     {"kept", c->kept}};
  add(text, "],\"counters\":{");
  for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
    by_text_add(text, "%s\"%s\":%llu", i ? "," : "", counters[i].name, (unsigned long long)counters[i].value);
  add(text, "}");
  if (m->options.print_more) m->options.print_more(m->options.context, text);
  add(text, "}");
}
