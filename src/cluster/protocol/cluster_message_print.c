#include <string.h>

#include "cluster_message.h"
#include "json_print.h"

/* ---- members, each with the comma before it */

static void add_name(struct by_text *text, const char *field, const char *value) {
  by_text_add(text, ",\"%s\":", field);
  by_json_add_string(text, value);
}

static void add_int(struct by_text *text, const char *field, uint64_t value) {
  by_text_add(text, ",\"%s\":%llu", field, (unsigned long long)value);
}

static void add_real(struct by_text *text, const char *field, double value) {
  by_text_add(text, ",\"%s\":", field);
  by_json_add_real(text, value);
}

static void add_bool(struct by_text *text, const char *field, bool value) {
  by_text_add(text, ",\"%s\":%s", field, value ? "true" : "false");
}

/* A line break stands between values, where a blank is as good: strings hold none. */
static void add_plan(struct by_text *text, const char *plan) {
  by_text_add(text, ",\"plan\":");
  for (const char *at = plan; *at;) {
    size_t n = strcspn(at, "\r\n");
    by_text_add(text, "%.*s%s", (int)n, at, at[n] ? " " : "");
    at += n + (at[n] != 0);
  }
}

/* ---- lists */

static void add_hosts(struct by_text *text, const struct by_cluster_message *message) {
  by_text_add(text, ",\"hosts\":[");
  for (uint32_t i = 0; i < message->n_hosts; i++) {
    if (i) by_text_add(text, ",");
    by_json_add_string(text, message->hosts[i]);
  }
  by_text_add(text, "]");
}

static void add_interface(struct by_text *text, const struct by_cluster_interface *interface, bool in_report) {
  by_text_add(text, "{\"name\":");
  by_json_add_string(text, interface->name);
  if (!in_report) add_name(text, "address", interface->address);
  add_real(text, "rate", interface->rate);
  if (in_report) {
    add_real(text, "sent", interface->sent);
    add_real(text, "received", interface->received);
    add_real(text, "ours_sent", interface->ours_sent);
    add_real(text, "ours_received", interface->ours_received);
  }
  by_text_add(text, "}");
}

static void add_interfaces(struct by_text *text, const struct by_cluster_message *message) {
  by_text_add(text, ",\"interfaces\":[");
  for (uint32_t i = 0; i < message->n_interfaces; i++) {
    if (i) by_text_add(text, ",");
    add_interface(text, &message->interfaces[i], message->say == BY_SAY_REPORT);
  }
  by_text_add(text, "]");
}

void by_cluster_paths_print(const struct by_cluster_job *job, struct by_text *text) {
  by_text_add(text, ",\"paths\":[");
  for (uint32_t i = 0; i < job->n_paths; i++) {
    const struct by_cluster_path *path = &job->paths[i];
    by_text_add(text, "%s{\"to\":", i ? "," : "");
    by_json_add_string(text, path->to);
    add_real(text, "sent", path->sent);
    add_real(text, "busy", path->busy);
    add_real(text, "bandwidth", path->bandwidth);
    add_real(text, "delay", path->delay);
    by_text_add(text, "}");
  }
  by_text_add(text, "]");
}

static void add_deeds(struct by_text *text, const struct by_cluster_job *job) {
  by_text_add(text, ",\"ranks\":[");
  for (uint32_t i = 0; i < job->n_ranks; i++) by_text_add(text, "%s%u", i ? "," : "", job->ranks[i]);
  by_text_add(text, "]");
  add_int(text, "iterations", job->iterations);
  if (job->expected) add_int(text, "expected", job->expected);
  add_real(text, "iteration_time", job->iteration_time);
  add_int(text, "sent", job->sent);
  add_int(text, "input", job->input);
  add_int(text, "calls", job->calls);
  if (job->n_paths) by_cluster_paths_print(job, text);
  by_text_add(text, ",\"sizes\":[");
  for (uint32_t i = 0; i < job->n_sizes; i++)
    by_text_add(text, "%s[%u,%llu]", i ? "," : "", job->sizes[i].log2, (unsigned long long)job->sizes[i].calls);
  by_text_add(text, "]");
}

static void add_jobs(struct by_text *text, const struct by_cluster_message *message) {
  by_text_add(text, ",\"jobs\":[");
  for (uint32_t i = 0; i < message->n_jobs; i++) {
    const struct by_cluster_job *job = &message->jobs[i];
    by_text_add(text, "%s{\"job\":\"%s\"", i ? "," : "", job->job);
    if (message->say == BY_SAY_CLASSES)
      add_int(text, "class", job->class_);
    else
      add_deeds(text, job);
    by_text_add(text, "}");
  }
  by_text_add(text, "]");
}

static void add_cells(struct by_text *text, const struct by_cluster_message *message) {
  by_text_add(text, ",\"cells\":[");
  for (uint32_t i = 0; i < message->n_cells; i++) {
    const struct by_cluster_cells *cells = &message->cells[i];
    by_text_add(text, "%s{\"switch\":", i ? "," : "");
    by_json_add_string(text, cells->at);
    add_int(text, "slots", cells->slots);
    if (message->say == BY_SAY_WISH) add_int(text, "bytes", cells->bytes);
    if (message->say == BY_SAY_WISH && cells->server) add_name(text, "server", cells->server);
    if (message->say == BY_SAY_WISH && cells->has) add_int(text, "given", cells->given);
    by_text_add(text, "}");
  }
  by_text_add(text, "]");
}

/* ---- kinds */

static void add_hello(struct by_text *text, const struct by_cluster_message *message) {
  add_int(text, "version", message->version);
  add_name(text, "host", message->host);
  if (message->job) {
    add_name(text, "job", message->job);
    add_int(text, "rank", message->rank);
  }
  if (message->n_interfaces || !message->job) add_interfaces(text, message);
  if (message->may_help || !message->job) add_bool(text, "may_help", message->may_help);
  if (message->age > 0) add_real(text, "age", message->age);
}

static void add_job(struct by_text *text, const struct by_cluster_message *message) {
  add_name(text, "job", message->job);
  add_name(text, "name", message->name);
  add_int(text, "size", message->n_hosts);
  add_hosts(text, message);
  add_name(text, "root", message->root);
  if (message->key) add_name(text, "key", message->key);
  if (message->began > 0) add_real(text, "began", message->began);
  if (message->own_plan) add_name(text, "own_plan", message->own_plan);
}

static void add_number(struct by_text *text, const struct by_cluster_message *message) {
  add_name(text, "job", message->job);
  add_int(text, "number", message->number);
}

static void add_helping(struct by_text *text, const struct by_cluster_message *message) {
  add_name(text, "job", message->job);
  add_name(text, "helper", message->helper);
  add_bool(text, "joined", message->joined);
  if (message->why) add_name(text, "why", message->why);
}

static void add_help(struct by_text *text, const struct by_cluster_message *message) {
  add_name(text, "job", message->job);
  add_name(text, "root", message->root);
  add_name(text, "key", message->key);
  add_name(text, "helper", message->helper);
}

static void add_welcome(struct by_text *text, const struct by_cluster_message *message) {
  add_int(text, "version", message->version);
  if (message->host) add_name(text, "host", message->host);
  add_real(text, "interval", message->interval);
  add_real(text, "rate", message->rate);
}

static void add_report(struct by_text *text, const struct by_cluster_message *message) {
  add_interfaces(text, message);
  add_jobs(text, message);
}

static void add_left(struct by_text *text, const struct by_cluster_message *message) {
  add_name(text, "job", message->job);
  add_int(text, "rank", message->rank);
}

static void add_moved(struct by_text *text, const struct by_cluster_message *message) {
  add_number(text, message);
  add_int(text, "at", message->at);
}

static void add_refused(struct by_text *text, const struct by_cluster_message *message) {
  add_name(text, "why", message->why);
}

static void add_kept(struct by_text *text, const struct by_cluster_message *message) {
  add_number(text, message);
  add_refused(text, message);
}

static void add_numbered_plan(struct by_text *text, const struct by_cluster_message *message) {
  add_number(text, message);
  add_plan(text, message->plan);
}

static void add_cells_of_job(struct by_text *text, const struct by_cluster_message *message) {
  add_name(text, "job", message->job);
  add_cells(text, message);
}

static void add_rest(struct by_text *text, const struct by_cluster_message *message) {
  add_name(text, "job", message->job);
}

static void add_nothing(struct by_text *text, const struct by_cluster_message *message) {
  (void)text;
  (void)message;
}

void by_cluster_message_print(const struct by_cluster_message *message, struct by_text *text) {
  static void (*const kinds[BY_SAY_KINDS])(struct by_text *, const struct by_cluster_message *) = {
      add_hello,        add_job,     add_report,  add_left,    add_moved, add_kept,
      add_cells_of_job, add_helping, add_nothing, add_welcome, add_jobs,  add_numbered_plan,
      add_cells_of_job, add_help,    add_rest,    add_refused};
  by_text_add(text, "{\"say\":\"%s\"", by_cluster_say_name(message->say));
  kinds[message->say](text, message);
  by_text_add(text, "}");
}
