/* Prints metrics for Prometheus, one family of samples after the other, by a table of families; and serves the page. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json_doc.h"
#include "log.h"
#include "socket.h"
#include "tls_identity.h"
#include "topology_draw.h"
#include "web_server.h"

enum banyan_status by_web_layout_print(const struct by_topology *topology, struct by_text *out) {
  static const char *const kinds[] = {
      [BY_LAYOUT_PLACES] = "places", [BY_LAYOUT_LAYERS] = "layers", [BY_LAYOUT_SPRINGS] = "springs"};
  enum by_layout_kind kind;
  struct by_spot *spots = calloc((size_t)topology->n_nodes + 1, sizeof *spots);
  if (!spots) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a drawing of %u nodes", topology->n_nodes);
  enum banyan_status status = by_topology_layout(topology, spots, &kind);
  if (status == BANYAN_OK) {
    by_text_add(out, "{\"kind\":\"%s\",\"spots\":{", kinds[kind]);
    for (uint32_t i = 0; i < topology->n_nodes; i++) {
      by_text_add(out, "%s", i ? "," : "");
      by_json_add_string(out, topology->nodes[i].name);
      by_text_add(out, ":[%.3f,%.3f]", spots[i].x, spots[i].y);
    }
    by_text_add(out, "}}");
    if (out->failed) status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a drawing");
  }
  free(spots);
  return status;
}

/* The subject of a family's samples. */
enum subject { STATE, COUNTERS, HOSTS, INTERFACES, CERTIFICATES, LINKS, SWITCHES, JOB_STATES, JOBS, PLANS };

/* How a sample's value follows from the field. */
enum how {
  INFO,    /* 1, and the field is a label. */
  NUMBER,  /* 0 if it is not a number. */
  KNOWN,   /* A number; no sample for jobs that have left, nor if it is null. */
  IS_TRUE, /* 1 or 0. */
  COUNT,   /* Number of an array's members. */
  SUM,     /* Sum of the field in all members of "cells"; no sample if there are none. */
  DAYS     /* Days from now until that time. */
};

static const struct family {
  enum subject subject;
  enum how how;
  const char *field, *name, *type, *help;
} families[] = {
    {STATE, INFO, "version", "manager_info", "gauge", "The manager's version."},
    {COUNTERS, NUMBER, "reports", "reports_total", "counter", "Reports that agents sent."},
    {COUNTERS, NUMBER, "refused", "refused_total", "counter", "Messages and connections that were refused."},
    {COUNTERS, NUMBER, "planned", "planned_total", "counter", "Runs of the planner for a job."},
    {COUNTERS, NUMBER, "plans", "plans_total", "counter", "Plans that were proposed to jobs."},
    {COUNTERS, NUMBER, "plan_switches", "plan_switches_total", "counter", "Plan switches of jobs."},
    {COUNTERS, NUMBER, "kept", "kept_total", "counter", "Plans that jobs did not switch to."},
    {HOSTS, IS_TRUE, "connected", "host_connected", "gauge", "Whether the host's agent is connected."},
    {HOSTS, COUNT, "helping", "host_helping_jobs", "gauge", "Jobs that the host helps."},
    {HOSTS, COUNT, "serving", "host_serving_jobs", "gauge", "Jobs whose trees through switches its servers serve."},
    {INTERFACES, NUMBER, "rate", "interface_rate_bits_per_second", "gauge", "Capacity of the interface."},
    {INTERFACES, NUMBER, "sent", "interface_sent_bits_per_second", "gauge", "Traffic that the interface sends."},
    {INTERFACES, NUMBER, "received", "interface_received_bits_per_second", "gauge",
     "Traffic that the interface receives."},
    {INTERFACES, NUMBER, "ours_sent", "interface_ours_sent_bits_per_second", "gauge",
     "Traffic of jobs that the interface sends."},
    {INTERFACES, NUMBER, "ours_received", "interface_ours_received_bits_per_second", "gauge",
     "Traffic of jobs that the interface receives."},
    {CERTIFICATES, DAYS, "expires", "certificate_days_left", "gauge",
     "Days until the certificate of the manager or of a connected peer expires."},
    {STATE, NUMBER, "revoked", "certificates_revoked", "gauge",
     "Number of certificates in the manager's revocation list."},
    {LINKS, NUMBER, "capacity", "link_capacity_bits_per_second", "gauge", "Capacity of the link in this direction."},
    {LINKS, NUMBER, "ours", "link_ours_bits_per_second", "gauge", "Traffic of jobs over the link."},
    {LINKS, NUMBER, "others", "link_others_bits_per_second", "gauge", "Other traffic over the link."},
    {SWITCHES, NUMBER, "memory", "switch_memory_bytes", "gauge",
     "Memory for cells of an aggregating switch, as reported by its agent or the topology; 0: unknown."},
    {SWITCHES, NUMBER, "given", "switch_given_bytes", "gauge", "Memory for cells that jobs hold at the switch."},
    {SWITCHES, IS_TRUE, "connected", "switch_connected", "gauge", "Whether the switch's agent is connected."},
    {SWITCHES, NUMBER, "cells", "switch_cells", "gauge", "Cells of the switch, as reported by its agent; 0: unknown."},
    {SWITCHES, NUMBER, "cells_held", "switch_cells_held", "gauge",
     "Cells of the manager's plans; some may be about to be returned."},
    {SWITCHES, NUMBER, "cells_guaranteed", "switch_cells_guaranteed", "gauge",
     "Cells of the manager's plans that are guaranteed."},
    {JOB_STATES, NUMBER, "state", "jobs", "gauge", "Jobs by state."},
    {JOBS, KNOWN, "size", "job_ranks", "gauge", "Ranks of the job."},
    {JOBS, KNOWN, "class", "job_class", "gauge", "Priority class of the job; 0 is the highest."},
    {JOBS, KNOWN, "iterations", "job_iterations_total", "counter", "Iterations that the job has made."},
    {JOBS, KNOWN, "expected", "job_iterations_expected", "gauge", "Iterations that the job has announced in total."},
    {JOBS, KNOWN, "seconds_left", "job_left_seconds", "gauge", "Time until the job has made all its iterations."},
    {JOBS, KNOWN, "ends_in", "job_limit_seconds", "gauge", "Time until the launcher's time limit for the job."},
    {JOBS, KNOWN, "iteration_time", "job_iteration_seconds", "gauge", "Duration of an iteration."},
    {JOBS, KNOWN, "sent", "job_sent_bytes_total", "counter", "Bytes that the job's ranks have sent."},
    {JOBS, KNOWN, "input_rate", "job_input_bits_per_second", "gauge", "Rate at which the job sums input, per rank."},
    {PLANS, KNOWN, "number", "job_plan_number", "gauge", "Number of the job's plan."},
    {PLANS, KNOWN, "throughput", "job_plan_throughput_bits_per_second", "gauge",
     "Predicted throughput of the job's plan."},
    {JOBS, SUM, "slots", "job_switch_slots", "gauge", "Slots of all trees of the job at switches."},
    {JOBS, SUM, "requested", "job_switch_slots_requested", "gauge", "Slots at switches that the job requested."},
    {JOBS, SUM, "guaranteed", "job_switch_slots_guaranteed", "gauge", "Slots at switches that the job is guaranteed."},
};

/* The list in the state that contains a subject, and two labels with their fields. */
static const struct {
  const char *list, *labels[2], *fields[2];
} subjects[] = {
    [COUNTERS] = {.list = "counters"},
    [HOSTS] = {"hosts", {"host"}, {"name"}},
    [INTERFACES] = {"hosts", {"host", "interface"}, {"name", "name"}},
    [CERTIFICATES] = {"certificates", {"role", "name"}, {"role", "name"}},
    [LINKS] = {"links", {"from", "to"}, {"from", "to"}},
    [SWITCHES] = {"switches", {"switch"}, {"name"}},
    [JOB_STATES] = {"jobs", {"state"}, {NULL}},
    [JOBS] = {"jobs", {"job", "name"}, {"id", "name"}},
    [PLANS] = {"jobs", {"job", "name"}, {"id", "name"}},
};

enum { OF_ID = 12 /* Printed digits of a job's ID: the complete ID allows a peer to act for the job. */ };

static void add_label(struct by_text *out, char before, const char *name, const char *value) {
  by_text_add(out, "%c%s=\"", before, name);
  for (const char *c = value; c && *c; c++) {
    if (*c == '\n')
      by_text_add(out, "\\n");
    else
      by_text_add(out, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
  }
  by_text_add(out, "\"");
}

/* Adds a sample with two labels, the second of which may be NULL. */
static void add_sample(struct by_text *out, const char *family, const char *const labels[4], double value) {
  by_text_add(out, "banyan_%s", family);
  if (labels[0]) add_label(out, '{', labels[0], labels[1]);
  if (labels[0] && labels[2]) add_label(out, ',', labels[2], labels[3]);
  by_text_add(out, "%s ", labels[0] ? "}" : "");
  by_json_add_real(out, value);
  by_text_add(out, "\n");
}

/* ---- values */

/* Returns false if there is no sample. */
static bool find_value(const json_t *state, const json_t *member, const struct family *family, double *out) {
  const json_t *from = family->subject == PLANS ? json_object_get(member, "plan") : member;
  const json_t *field = json_object_get(from, family->field), *cells = json_object_get(member, "cells");
  switch (family->how) {
  case INFO: *out = 1; return true;
  case NUMBER: *out = by_json_number(from, family->field); return true;
  case KNOWN:
    *out = by_json_number(from, family->field);
    return strcmp(by_json_text(member, "state"), "left") != 0 && json_is_object(from) && !json_is_null(field);
  case IS_TRUE: *out = json_is_true(field); return true;
  case COUNT: *out = (double)json_array_size(field); return true;
  case SUM: *out = by_json_sum(cells, family->field); return json_array_size(cells) > 0;
  case DAYS: *out = (by_json_number(from, family->field) - by_json_number(state, "time")) / 86400; return true;
  }
  return false;
}

/* ---- walks */

/* `around`: the host of an interface, or the member itself. */
static void add_member(const json_t *state, const json_t *around, const json_t *member, const struct family *family,
                       struct by_text *out) {
  const char *const *labels = subjects[family->subject].labels, *const *fields = subjects[family->subject].fields;
  const char *first = fields[0] ? by_json_text(around, fields[0]) : NULL;
  char id[OF_ID + 1];
  double value;
  if (!find_value(state, member, family, &value)) return;
  if (family->subject == JOBS || family->subject == PLANS) {
    snprintf(id, sizeof id, "%s", first);
    first = id;
  }
  add_sample(out, family->name,
             (const char *[4]){labels[0], first, labels[1], fields[1] ? by_json_text(member, fields[1]) : NULL}, value);
}

static void count_jobs(const json_t *jobs, const struct family *family, struct by_text *out) {
  static const char *const states[] = {"waiting", "running", "switching", "left"};
  for (size_t s = 0; s < sizeof states / sizeof *states; s++) {
    const json_t *job;
    size_t i, n = 0;
    json_array_foreach(jobs, i, job) {
      n += !strcmp(by_json_text(job, family->field), states[s]);
    }
    add_sample(out, family->name, (const char *[4]){"state", states[s]}, (double)n);
  }
}

static void add_family(const json_t *state, const struct family *family, struct by_text *out) {
  const json_t *list = family->subject == STATE ? state : json_object_get(state, subjects[family->subject].list);
  const json_t *member, *interface;
  size_t i, k;
  by_text_add(out, "# HELP banyan_%s %s\n# TYPE banyan_%s %s\n", family->name, family->help, family->name,
              family->type);
  if (family->how == INFO)
    add_sample(out, family->name, (const char *[4]){family->field, by_json_text(state, family->field)}, 1);
  else if (family->subject == STATE || family->subject == COUNTERS)
    add_member(state, list, list, family, out);
  else if (family->subject == JOB_STATES)
    count_jobs(list, family, out);
  json_array_foreach(list, i, member) {
    if (family->subject != INTERFACES && family->subject != JOB_STATES) add_member(state, member, member, family, out);
    json_array_foreach(family->subject == INTERFACES ? json_object_get(member, "interfaces") : NULL, k, interface) {
      add_member(state, member, interface, family, out);
    }
  }
}

void by_web_metrics_print(const json_t *state, struct by_text *out) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) add_family(state, &families[i], out);
}

/* ---- texts of the manager */

enum { N_ROUTES = 4 };

struct pair {
  char *certificate, *key;
};

struct by_web_page {
  struct by_text layout;
  const char *certificate_file, *key_file;
  struct pair pair;
  struct by_web_route routes[N_ROUTES];
  struct by_web *web;
  char url[BY_ADDRESS_TEXT + 16];
};

static unsigned print_layout(void *context, struct by_text *out) {
  const struct by_web_page *page = context;
  by_text_add(out, "%s", by_text_get(&page->layout));
  return 200;
}

/* It is derived from the state, so that both always agree. */
static unsigned print_metrics(void *context, struct by_text *out) {
  const struct by_web_page *page = context;
  const struct by_web_route *of_state = &page->routes[0];
  struct by_text text = {0};
  (void)of_state->print(of_state->context, &text);
  json_t *state = json_loadb(by_text_get(&text), text.length, 0, NULL);
  by_text_fini(&text);
  if (state) by_web_metrics_print(state, out);
  json_decref(state);
  return state ? 200 : 503;
}

/* A loop that answers is healthy. */
static unsigned print_health(void *context, struct by_text *out) {
  by_text_add(out, "ok\n");
  return 200;
}

static enum banyan_status read_pair(const struct by_web_page *page, struct pair *out) {
  BY_TRY(by_tls_file_read(page->certificate_file, false, &out->certificate));
  return by_tls_file_read(page->key_file, true, &out->key);
}

static void drop_pair(struct pair *pair) {
  free(pair->certificate);
  if (pair->key) explicit_bzero(pair->key, strlen(pair->key));
  free(pair->key);
}

/* Parses "fd:3", or an address. */
static enum banyan_status find_place(const char *text, struct by_web_options *out) {
  size_t n;
  long descriptor;
  if (strncmp(text, "fd:", 3) != 0) return by_address_resolve(text, &out->at, 1, &n);
  BY_TRY(by_parse_int("fd", text + 3, STDERR_FILENO + 1, INT_MAX, &descriptor));
  out->listener = (int)descriptor;
  return by_socket_get_local(out->listener, &out->at);
}

static enum banyan_status serve_routes(struct by_web_page *page, const struct by_web_page_options *o) {
  const struct by_web_route routes[N_ROUTES] = {
      {"/state", "application/json", false, o->state, o->context},
      {"/layout", "application/json", false, print_layout, page},
      {"/metrics", BY_WEB_METRICS_TYPE, true, print_metrics, page},
      {"/healthz", "text/plain; charset=utf-8", true, print_health, page},
  };
  struct by_token token;
  struct by_web_options of_web = {.loop = o->loop, .token = &token, .routes = page->routes, .n_routes = N_ROUTES};
  char address[BY_ADDRESS_TEXT];
  memcpy(page->routes, routes, sizeof routes);
  enum banyan_status status = find_place(o->at, &of_web);
  if (status != BANYAN_OK) return by_fail_within(status, "--http");
  BY_TRY(by_web_layout_print(o->topology, &page->layout));
  page->certificate_file = o->certificate;
  page->key_file = o->key;
  if (!o->certificate != !o->key)
    return by_fail(BANYAN_ERR_ARGUMENT, "the page over HTTPS needs both a certificate and its key");
  if (o->key) BY_TRY(read_pair(page, &page->pair));
  BY_TRY(by_token_read_or_make(o->token_file, &token));
  of_web.certificate = page->pair.certificate;
  of_web.key = page->pair.key;
  status = by_web_create(&of_web, &page->web);
  explicit_bzero(&token, sizeof token);
  BY_TRY(status);
  snprintf(page->url, sizeof page->url, "http%s://%s/", page->pair.key ? "s" : "",
           by_address_print(by_web_get_address(page->web), address));
  if (!by_address_is_loopback(&of_web.at) && !page->pair.key)
    by_warn("web",
            "%s: the token and everything on the page are sent unencrypted; give it a certificate and a key, or listen "
            "on 127.0.0.1 and reach it through ssh -L",
            page->url);
  return BANYAN_OK;
}

enum banyan_status by_web_page_create(const struct by_web_page_options *options, struct by_web_page **out) {
  struct by_web_page *page = calloc(1, sizeof *page);
  if (!page) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the page");
  enum banyan_status status = serve_routes(page, options);
  if (status == BANYAN_OK)
    *out = page;
  else
    by_web_page_destroy(page);
  return status;
}

void by_web_page_destroy(struct by_web_page *page) {
  if (!page) return;
  by_web_destroy(page->web);
  by_text_fini(&page->layout);
  drop_pair(&page->pair);
  free(page);
}

void by_web_page_renew(struct by_web_page *page) {
  struct pair next = {0};
  if (!page->pair.key) return;
  enum banyan_status status = read_pair(page, &next);
  bool changed = status == BANYAN_OK &&
                 (strcmp(next.certificate, page->pair.certificate) != 0 || strcmp(next.key, page->pair.key) != 0);
  if (changed) status = by_web_renew(page->web, next.certificate, next.key);
  if (status != BANYAN_OK)
    by_warn("web", "a new certificate cannot be used, and the previous one stays in use: %s", banyan_error_text());
  if (changed && status == BANYAN_OK) {
    struct pair before = page->pair;
    page->pair = next;
    next = before;
  }
  drop_pair(&next);
}

void by_web_page_draw(struct by_web_page *page, const struct by_topology *topology) {
  struct by_text layout = {0};
  if (by_web_layout_print(topology, &layout) != BANYAN_OK) {
    by_warn("web", "%s", banyan_error_text());
    by_text_fini(&layout);
    return;
  }
  by_text_fini(&page->layout);
  page->layout = layout;
}

const char *by_web_page_get_url(const struct by_web_page *page) {
  return page->url;
}
