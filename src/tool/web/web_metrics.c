/* One family of samples after the other, as the format wants it: for each, a walk over what it is about. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "json_print.h"
#include "web_texts.h"

static double number(const json_t *object, const char *field) {
  double value = json_number_value(json_object_get(object, field));
  return isfinite(value) ? value : 0;
}

static const char *string(const json_t *object, const char *field) {
  const char *value = json_string_value(json_object_get(object, field));
  return value ? value : "";
}

static void begin(struct by_text *out, const char *family, const char *type, const char *help) {
  by_text_add(out, "# HELP banyan_%s %s\n# TYPE banyan_%s %s\n", family, help, family, type);
}

static void add_label(struct by_text *out, char before, const char *name, const char *value) {
  by_text_add(out, "%c%s=\"", before, name);
  for (const char *c = value; *c; c++) {
    if (*c == '\n')
      by_text_add(out, "\\n");
    else
      by_text_add(out, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
  }
  by_text_add(out, "\"");
}

static void add_value(struct by_text *out, double value) {
  by_text_add(out, " ");
  by_json_add_real(out, value);
  by_text_add(out, "\n");
}

/* Two labels, the second may be NULL. */
static void add_sample(struct by_text *out, const char *family, const char *const labels[4], double value) {
  by_text_add(out, "banyan_%s", family);
  if (labels[0]) add_label(out, '{', labels[0], labels[1]);
  if (labels[0] && labels[2]) add_label(out, ',', labels[2], labels[3]);
  by_text_add(out, "%s", labels[0] ? "}" : "");
  add_value(out, value);
}

/* --- counters of the manager --- */

static void add_counters(const json_t *counters, struct by_text *out) {
  static const struct {
    const char *field, *family, *help;
  } rows[] = {
      {"reports", "reports_total", "Reports that agents sent."},
      {"refused", "refused_total", "Messages and connections that were refused."},
      {"planned", "planned_total", "Times that a job was planned for."},
      {"plans", "plans_total", "Plans that were proposed to jobs."},
      {"moves", "moves_total", "Moves of jobs to another plan."},
      {"kept", "kept_total", "Plans that jobs did not move to."},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    begin(out, rows[i].family, "counter", rows[i].help);
    add_sample(out, rows[i].family, (const char *[4]){NULL}, number(counters, rows[i].field));
  }
}

/* --- hosts --- */

static void add_hosts(const json_t *hosts, struct by_text *out) {
  const json_t *host;
  size_t i;
  begin(out, "host_connected", "gauge", "Whether the host's agent is connected.");
  json_array_foreach(hosts, i, host) {
    add_sample(out, "host_connected", (const char *[4]){"host", string(host, "name")},
               json_is_true(json_object_get(host, "connected")));
  }
  begin(out, "host_helping_jobs", "gauge", "Jobs that the host helps.");
  json_array_foreach(hosts, i, host) {
    add_sample(out, "host_helping_jobs", (const char *[4]){"host", string(host, "name")},
               (double)json_array_size(json_object_get(host, "helping")));
  }
}

struct of_interface {
  const char *field, *family, *help;
};

static void add_interfaces(const json_t *host, const struct of_interface *row, struct by_text *out) {
  const json_t *interface;
  size_t i;
  json_array_foreach(json_object_get(host, "interfaces"), i, interface) {
    add_sample(out, row->family,
               (const char *[4]){"host", string(host, "name"), "interface", string(interface, "name")},
               number(interface, row->field));
  }
}

static void add_all_interfaces(const json_t *hosts, struct by_text *out) {
  static const struct of_interface rows[] = {
      {"rate", "interface_rate_bits_per_second", "What the interface can carry."},
      {"sent", "interface_sent_bits_per_second", "What it sends."},
      {"received", "interface_received_bits_per_second", "What it receives."},
      {"ours_sent", "interface_ours_sent_bits_per_second", "What jobs send of that."},
      {"ours_received", "interface_ours_received_bits_per_second", "What jobs receive of that."},
  };
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    const json_t *host;
    size_t i;
    begin(out, rows[r].family, "gauge", rows[r].help);
    json_array_foreach(hosts, i, host) {
      add_interfaces(host, &rows[r], out);
    }
  }
}

/* --- links --- */

static void add_links(const json_t *links, struct by_text *out) {
  static const struct {
    const char *field, *family, *help;
  } rows[] = {
      {"capacity", "link_capacity_bits_per_second", "What the link can carry in this direction."},
      {"ours", "link_ours_bits_per_second", "What jobs send over it."},
      {"others", "link_others_bits_per_second", "What others send over it."},
  };
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    const json_t *link;
    size_t i;
    begin(out, rows[r].family, "gauge", rows[r].help);
    json_array_foreach(links, i, link) {
      add_sample(out, rows[r].family, (const char *[4]){"from", string(link, "from"), "to", string(link, "to")},
                 number(link, rows[r].field));
    }
  }
}

/* --- certificates --- */

static void add_certificates(const json_t *state, struct by_text *out) {
  const json_t *one;
  size_t i;
  begin(out, "certificate_days_left", "gauge",
        "Days until the certificate ends; of the manager and of who is connected.");
  json_array_foreach(json_object_get(state, "certificates"), i, one) {
    add_sample(out, "certificate_days_left",
               (const char *[4]){"role", string(one, "role"), "name", string(one, "name")},
               (number(one, "expires") - number(state, "time")) / 86400);
  }
  begin(out, "certificates_revoked", "gauge", "Certificates that the manager's list of revoked ones names.");
  add_sample(out, "certificates_revoked", (const char *[4]){NULL}, number(state, "revoked"));
}

/* --- switches that add --- */

static void add_switches(const json_t *switches, struct by_text *out) {
  static const struct {
    const char *field, *family, *help;
  } rows[] = {
      {"memory", "switch_memory_bytes", "Memory for cells of a switch that adds, by the topology; 0: not known."},
      {"given", "switch_given_bytes", "What jobs have of it."},
  };
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    const json_t *one;
    size_t i;
    begin(out, rows[r].family, "gauge", rows[r].help);
    json_array_foreach(switches, i, one) {
      add_sample(out, rows[r].family, (const char *[4]){"switch", string(one, "name")}, number(one, rows[r].field));
    }
  }
}

/* --- jobs --- */

static void count_jobs(const json_t *jobs, struct by_text *out) {
  static const char *const states[] = {"waiting", "running", "moving", "left"};
  begin(out, "jobs", "gauge", "Jobs by state.");
  for (size_t s = 0; s < sizeof states / sizeof *states; s++) {
    const json_t *job;
    size_t i, n = 0;
    json_array_foreach(jobs, i, job) {
      n += !strcmp(string(job, "state"), states[s]);
    }
    add_sample(out, "jobs", (const char *[4]){"state", states[s]}, (double)n);
  }
}

enum { OF_ID = 12 /* digits, so that they differ: who has all of an ID may speak for the job */ };

static void add_of_job(struct by_text *out, const char *family, const json_t *job, double value) {
  char id[OF_ID + 1];
  snprintf(id, sizeof id, "%s", string(job, "id"));
  add_sample(out, family, (const char *[4]){"job", id, "name", string(job, "name")}, value);
}

struct of_job {
  const char *field, *family, *type, *help;
  bool of_plan;
};

static void add_job(const json_t *job, const struct of_job *row, struct by_text *out) {
  const json_t *from = row->of_plan ? json_object_get(job, "plan") : job;
  if (!strcmp(string(job, "state"), "left") || !json_is_object(from)) return;
  if (json_is_null(json_object_get(from, row->field))) return; /* not known */
  add_of_job(out, row->family, job, number(from, row->field));
}

/* Of all of its trees over all switches. */
static double sum_of_cells(const json_t *job, const char *field) {
  const json_t *cells;
  double sum = 0;
  size_t i;
  json_array_foreach(json_object_get(job, "cells"), i, cells) {
    sum += number(cells, field);
  }
  return sum;
}

static void add_slots(const json_t *jobs, struct by_text *out) {
  static const struct {
    const char *field, *family, *help;
  } rows[] = {
      {"slots", "job_switch_slots", "Slots that it has at switches, of all its trees."},
      {"wished", "job_switch_slots_wished", "Slots that it wished for there."},
  };
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    const json_t *job;
    size_t i;
    begin(out, rows[r].family, "gauge", rows[r].help);
    json_array_foreach(jobs, i, job) {
      if (!json_array_size(json_object_get(job, "cells"))) continue;
      add_of_job(out, rows[r].family, job, sum_of_cells(job, rows[r].field));
    }
  }
}

static void add_jobs(const json_t *jobs, struct by_text *out) {
  static const struct of_job rows[] = {
      {"size", "job_ranks", "gauge", "Ranks of the job.", false},
      {"class", "job_class", "gauge", "Its class of priority, 0 goes first.", false},
      {"iterations", "job_iterations_total", "counter", "Iterations that it has made.", false},
      {"expected", "job_iterations_expected", "gauge", "Iterations that it will make in all, by its own word.", false},
      {"seconds_left", "job_left_seconds", "gauge", "Time until it has made them.", false},
      {"iteration_time", "job_iteration_seconds", "gauge", "Time of an iteration.", false},
      {"sent", "job_sent_bytes_total", "counter", "Bytes that its ranks have sent.", false},
      {"input_rate", "job_input_bits_per_second", "gauge", "Input that it sums, of one rank.", false},
      {"number", "job_plan_number", "gauge", "Number of its plan.", true},
      {"throughput", "job_plan_throughput_bits_per_second", "gauge", "What its plan can carry.", true},
  };
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    const json_t *job;
    size_t i;
    begin(out, rows[r].family, rows[r].type, rows[r].help);
    json_array_foreach(jobs, i, job) {
      add_job(job, &rows[r], out);
    }
  }
}

void by_web_metrics_print(const json_t *state, struct by_text *out) {
  begin(out, "manager_info", "gauge", "The manager's version.");
  add_sample(out, "manager_info", (const char *[4]){"version", string(state, "version")}, 1);
  add_counters(json_object_get(state, "counters"), out);
  add_hosts(json_object_get(state, "hosts"), out);
  add_all_interfaces(json_object_get(state, "hosts"), out);
  add_certificates(state, out);
  add_links(json_object_get(state, "links"), out);
  add_switches(json_object_get(state, "switches"), out);
  count_jobs(json_object_get(state, "jobs"), out);
  add_jobs(json_object_get(state, "jobs"), out);
  add_slots(json_object_get(state, "jobs"), out);
}
