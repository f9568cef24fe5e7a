/* Prints a manager's state as tables for people. */
#include "status_print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "json_doc.h"
#include "output.h"
#include "process.h"
#include "tls_identity.h"

enum {
  MAX_CONTRADICTIONS = 4, /* Maximum of contradictions that are shown. */
  MAX_SENTENCE = 1024,    /* Maximum bytes of each. */
  MAX_LINKS = 8,
  HOUR = 60 * 60,
  DAY = 24 * HOUR,
  SPAN = 32,     /* Bytes of a printed time. */
  HEADINGS = 10, /* Lines that are no rows: the head, what expires, and for each table its name, its columns and an
                  * empty line. */
};

static const double max_span = 1e9; /* Seconds; a longer prediction counts as endless. */

/* Prints "9.41 Gbit/s" as "9.41G". */
static const char *short_rate(double rate, char *out) {
  if (rate < 0.5) return "0";
  by_print_rate(rate, out);
  char *blank = strchr(out, ' ');
  if (blank) memmove(blank, blank + 1, strlen(blank));
  char *unit = strstr(out, "bit/s");
  if (unit) *unit = '\0';
  return out;
}

/* Prints an approximate time: "45 s", "12 min", "3 h 20 min", "2 d 5 h". */
static const char *print_span(double seconds, char *out) {
  double s = floor(fmin(fmax(0, seconds), max_span) + 0.5);
  if (s < 60)
    snprintf(out, SPAN, "%.0f s", s);
  else if (s < HOUR)
    snprintf(out, SPAN, "%.0f min", floor(s / 60));
  else if (s < DAY)
    snprintf(out, SPAN, "%.0f h %.0f min", floor(s / HOUR), floor(fmod(s, HOUR) / 60));
  else
    snprintf(out, SPAN, "%.0f d %.0f h", floor(s / DAY), floor(fmod(s, DAY) / HOUR));
  return out;
}

static double part_of_total(double used, double all) {
  return all > 0 ? fmin(1, fmax(0, used / all)) : 0;
}

static double link_use(const json_t *link) {
  return part_of_total(by_json_number(link, "ours") + by_json_number(link, "others"), by_json_number(link, "capacity"));
}

/* --- the head --- */

/* Counts the members whose field is this text, or true if `text` is NULL. */
static size_t count_equal(const json_t *list, const char *field, const char *text) {
  const json_t *one;
  size_t i, n = 0;
  json_array_foreach(list, i, one) {
    n += text ? !strcmp(by_json_text(one, field), text) : json_is_true(json_object_get(one, field));
  }
  return n;
}

static void add_head(const json_t *state, struct by_text *out) {
  const json_t *jobs = json_object_get(state, "jobs"), *hosts = json_object_get(state, "hosts"),
               *counters = json_object_get(state, "counters");
  size_t n_hosts = json_array_size(hosts), running = count_equal(jobs, "state", "running");
  double reports = by_json_number(counters, "reports"), plans = by_json_number(counters, "plans"),
         switches = by_json_number(counters, "plan_switches");
  char version[32];
  by_keep_printable(by_json_text(state, "version"), version, sizeof version);
  by_text_add(out, "manager %s: %zu of %zu host%s connected; %zu job%s, %zu wait, %zu switching\n", version,
              count_equal(hosts, "connected", NULL), n_hosts, by_plural((double)n_hosts), running,
              running == 1 ? " runs" : "s run", count_equal(jobs, "state", "waiting"),
              count_equal(jobs, "state", "switching"));
  by_text_add(out, "%.0f report%s, %.0f refused; %.0f plan%s, %.0f plan switch%s, %.0f kept\n", reports,
              by_plural(reports), by_json_number(counters, "refused"), plans, by_plural(plans), switches,
              switches == 1 ? "" : "es", by_json_number(counters, "kept"));
}

/* Prints certificates that expire soon, in one line. */
static void add_certificates(const json_t *state, struct by_text *out) {
  const json_t *one, *first = NULL;
  size_t i, n = 0;
  json_array_foreach(json_object_get(state, "certificates"), i, one) {
    if (by_json_number(one, "expires") - by_json_number(state, "time") >= BY_TLS_SOON * DAY) continue;
    if (!n++ || by_json_number(one, "expires") < by_json_number(first, "expires")) first = one;
  }
  if (!n) return;
  char role[12], name[24];
  by_keep_printable(by_json_text(first, "role"), role, sizeof role);
  by_keep_printable(by_json_text(first, "name"), name, sizeof name);
  char when[32] = "HAS EXPIRED";
  double left = floor((by_json_number(first, "expires") - by_json_number(state, "time")) / DAY);
  if (left >= 0) snprintf(when, sizeof when, "in %.0f", left);
  by_text_add(out, "%zu certificate%s within %d days, %s %s's %s\n", n, n == 1 ? " ends" : "s end", BY_TLS_SOON, role,
              name, when);
}

/* --- jobs with fewer slots of a switch than requested --- */

static void add_cuts(const json_t *jobs, struct by_text *out) {
  const json_t *job, *cells;
  size_t i, k;
  char name[32], at[64];
  json_array_foreach(jobs, i, job) {
    json_array_foreach(json_object_get(job, "cells"), k, cells) {
      double slots = by_json_number(cells, "slots"), requested = by_json_number(cells, "requested");
      if (slots >= requested) continue;
      by_keep_printable(by_json_text(job, "name"), name, sizeof name);
      by_keep_printable(by_json_text(cells, "switch"), at, sizeof at);
      by_text_add(out, "  %s requested %.0f slots at %s and has %.0f: %s\n", name, requested, at, slots,
                  slots > 0 ? "others have the rest of that switch's memory, or a quarter of it is kept for later ones"
                            : "that switch only forwards for it");
    }
  }
}

/* --- trees through switches --- */

static bool is_kind(const json_t *plan, const char *name, const char *kind) {
  return !strcmp(by_json_text(json_object_get(json_object_get(plan, "vertices"), name), "kind"), kind);
}

static void add_tree(const char *job, const json_t *plan, const json_t *tree, struct by_text *out) {
  const json_t *forwards = json_object_get(tree, "forwards"), *one;
  const char *name, *separator = " through ";
  json_t *parent;
  char text[64];
  size_t i;
  by_text_add(out, "  %s: %.0f %%", job, 100 * by_json_number(tree, "share"));
  json_object_foreach(json_object_get(tree, "up"), name, parent) {
    if (!is_kind(plan, name, "switch")) continue;
    by_keep_printable(name, text, sizeof text);
    by_text_add(out, "%s%s", separator, text);
    json_array_foreach(forwards, i, one) {
      if (json_is_string(one) && !strcmp(json_string_value(one), name)) by_text_add(out, " (forwards)");
    }
    separator = ", ";
  }
  by_keep_printable(by_json_text(tree, "root"), text, sizeof text);
  by_text_add(out, "%sserver %s\n", *separator == ',' ? ", " : " to ", text);
}

/* Prints the trees of each job for the largest buffers. */
static void add_trees(const json_t *jobs, struct by_text *out) {
  const json_t *job, *tree;
  size_t i, k;
  char name[32];
  json_array_foreach(jobs, i, job) {
    const json_t *plan = json_object_get(json_object_get(job, "plan"), "plan");
    const json_t *classes = json_object_get(plan, "classes"), *trees = json_object_get(plan, "trees");
    if (json_array_size(classes))
      trees = json_object_get(json_array_get(classes, json_array_size(classes) - 1), "trees");
    if (!strcmp(by_json_text(job, "state"), "left")) continue;
    by_keep_printable(by_json_text(job, "name"), name, sizeof name);
    json_array_foreach(trees, k, tree) {
      if (is_kind(plan, by_json_text(tree, "root"), "server")) add_tree(name, plan, tree, out);
    }
  }
}

/* --- tables --- */

static size_t count_helpers(const json_t *plan) {
  const char *name;
  json_t *vertex;
  size_t n = 0;
  json_object_foreach(json_object_get(plan, "vertices"), name, vertex) {
    n += !strcmp(by_json_text(vertex, "kind"), "helper");
  }
  return n;
}

/* Prints the remaining time by its iterations, otherwise by the launcher's limit. */
static void add_left(const json_t *job, struct by_columns *table) {
  char text[32];
  if (json_is_number(json_object_get(job, "seconds_left")))
    by_columns_add(table, "%s", print_span(by_json_number(job, "seconds_left"), text));
  else if (json_is_number(json_object_get(job, "ends_in")))
    by_columns_add(table, "< %s", print_span(by_json_number(job, "ends_in"), text));
  else
    by_columns_add(table, "-");
}

static void add_job(const json_t *job, struct by_columns *table) {
  const json_t *plan = json_object_get(job, "plan");
  char text[32], expected[32] = "";
  if (by_json_number(job, "expected") > 0)
    snprintf(expected, sizeof expected, " of %.0f", by_json_number(job, "expected"));
  by_columns_add(table, "%.20s", by_json_text(job, "name"));
  by_columns_add(table, "%s", by_json_text(job, "state"));
  by_columns_add(table, "%.0f", by_json_number(job, "class"));
  by_columns_add(table, "%.0f", by_json_number(job, "size"));
  by_columns_add(table, "%.0f%s", by_json_number(job, "iterations"), expected);
  add_left(job, table);
  double iteration = by_json_number(job, "iteration_time");
  by_columns_add(table, "%s", iteration > 0 ? by_print_seconds(iteration, text) : "-");
  by_columns_add(table, "%s", by_print_bytes((uint64_t)fmax(0, by_json_number(job, "sent")), text));
  by_columns_add(table, "%s", short_rate(by_json_number(job, "input_rate"), text));
  if (*by_json_text(job, "own_plan"))
    by_columns_add(table, "\"%.20s\"", by_json_text(job, "own_plan"));
  else
    by_columns_add(table, "%.0f", by_json_number(plan, "number"));
  by_columns_add(table, "%s", short_rate(by_json_number(plan, "throughput"), text));
  by_columns_add(table, "%zu", count_helpers(json_object_get(plan, "plan")));
  by_columns_add(table, "%s", by_json_text(job, "id"));
}

static void add_link(const json_t *link, struct by_columns *table) {
  char text[32];
  by_columns_add(table, "%s", by_json_text(link, "from"));
  by_columns_add(table, "%s", by_json_text(link, "to"));
  by_columns_add(table, "%.0f %%", 100 * link_use(link));
  by_columns_add(table, "%s", short_rate(by_json_number(link, "ours"), text));
  by_columns_add(table, "%s", short_rate(by_json_number(link, "others"), text));
  by_columns_add(table, "%s", short_rate(by_json_number(link, "capacity"), text));
}

static void add_switch(const json_t *at, struct by_columns *table) {
  char text[32];
  double memory = by_json_number(at, "memory"), given = by_json_number(at, "given");
  by_columns_add(table, "%s", by_json_text(at, "name"));
  by_columns_add(table, "%s", memory > 0 ? by_print_bytes((uint64_t)memory, text) : "unknown");
  by_columns_add(table, "%s", by_print_bytes((uint64_t)fmax(0, given), text));
  by_columns_add(table, "%.0f %%", 100 * part_of_total(given, memory));
  const json_t *owners = json_object_get(at, "jobs"), *owner;
  struct by_text all = {0};
  size_t i;
  by_columns_add(table, "%zu", json_array_size(owners));
  json_array_foreach(owners, i, owner) {
    double slots = by_json_number(owner, "slots"), requested = by_json_number(owner, "requested");
    by_text_add(&all, "%s%.20s %.0f", i ? ", " : "", by_json_text(owner, "name"), slots);
    if (slots < requested) by_text_add(&all, "/%.0f", requested);
  }
  by_columns_add(table, "%s", i ? by_text_get(&all) : "-");
  by_text_fini(&all);
}

static void add_host(const json_t *host, struct by_columns *table) {
  const json_t *all = json_object_get(host, "interfaces");
  char text[32];
  by_columns_add(table, "%s", by_json_text(host, "name"));
  by_columns_add(table, "%s", json_is_true(json_object_get(host, "connected")) ? "connected" : "no agent");
  by_columns_add(table, "%zu", json_array_size(json_object_get(host, "helping")));
  by_columns_add(table, "%s", short_rate(by_json_sum(all, "sent"), text));
  by_columns_add(table, "%s", short_rate(by_json_sum(all, "ours_sent"), text));
  by_columns_add(table, "%s", short_rate(by_json_sum(all, "received"), text));
  by_columns_add(table, "%s", short_rate(by_json_sum(all, "ours_received"), text));
  double rate = by_json_sum(all, "rate");
  by_columns_add(table, "%s", rate > 0 ? short_rate(rate, text) : "-");
}

static const struct by_column job_columns[] = {
    {"job", false, 0},    {"state", false, 0},    {"class", true, 1}, {"ranks", true, 7}, {"iterations", true, 9},
    {"ends in", true, 5}, {"iteration", true, 0}, {"sent", true, 8},  {"input", true, 2}, {"plan", true, 4},
    {"carries", true, 3}, {"helpers", true, 6},   {"id", false, 10},
};
static const struct by_column link_columns[] = {
    {"from", false, 0}, {"to", false, 0},    {"in use", true, 0},
    {"ours", true, 2},  {"others", true, 3}, {"capacity", true, 1},
};
static const struct by_column switch_columns[] = {
    {"switch", false, 0}, {"memory", true, 2}, {"given", true, 3},
    {"in use", true, 0},  {"trees", true, 1},  {"whose slots", false, 4},
};
static const struct by_column host_columns[] = {
    {"host", false, 0}, {"agent", false, 0},   {"helps jobs", true, 5}, {"sends", true, 1},
    {"ours", true, 3},  {"receives", true, 2}, {"ours", true, 4},       {"capacity", true, 6},
};

struct kind {
  const char *name;
  const struct by_column *columns;
  unsigned n_columns;
  void (*add)(const json_t *row, struct by_columns *table);
  int (*compare)(const void *, const void *); /* NULL: in their order. */
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* --- order --- */

/* Sorts running and waiting jobs before those that have left, and newer ones first. */
static int compare_jobs(const void *a, const void *b) {
  const json_t *x = *(const json_t *const *)a, *y = *(const json_t *const *)b;
  int gone = !strcmp(by_json_text(x, "state"), "left") - !strcmp(by_json_text(y, "state"), "left");
  double since = by_json_number(y, "since") - by_json_number(x, "since");
  return gone ? gone : (since > 0) - (since < 0);
}

static int compare_links(const void *a, const void *b) {
  double more = link_use(*(const json_t *const *)b) - link_use(*(const json_t *const *)a);
  return (more > 0) - (more < 0);
}

static int compare_switches(const void *a, const void *b) {
  double more = by_json_number(*(const json_t *const *)b, "given") - by_json_number(*(const json_t *const *)a, "given");
  return (more > 0) - (more < 0);
}

static void add_table(const struct kind *kind, const json_t *array, size_t max, unsigned width, struct by_text *out) {
  size_t n = json_array_size(array);
  const json_t **rows = by_cli_alloc(NULL, n * sizeof *rows);
  struct by_columns table;
  for (size_t i = 0; i < n; i++) rows[i] = json_array_get(array, i);
  if (kind->compare) qsort(rows, n, sizeof *rows, kind->compare);
  by_text_add(out, "\n%s\n", kind->name);
  by_columns_init(&table, kind->columns, kind->n_columns);
  for (size_t i = 0; i < n && i < max; i++) kind->add(rows[i], &table);
  if (n == 0)
    by_text_add(out, "  none\n");
  else
    by_columns_print(&table, 2, width, out);
  if (n > max) by_text_add(out, "  and %zu more\n", n - max);
  by_columns_fini(&table);
  free(rows);
}

/* Prints contradictions between agents. */
static void add_contradictions(const json_t *state, struct by_text *out) {
  const json_t *all = json_object_get(state, "contradictions");
  bool discovered = json_is_true(json_object_get(state, "discovered"));
  for (size_t i = 0; i < json_array_size(all) && i < MAX_CONTRADICTIONS; i++) {
    const char *text = json_string_value(json_array_get(all, i));
    by_text_add(out, "%s: %s\n", discovered ? "agents contradict each other" : "an agent contradicts the topology",
                text && by_is_printable(text, MAX_SENTENCE) ? text : "?");
  }
  if (json_array_size(all) > MAX_CONTRADICTIONS)
    by_text_add(out, "... and %zu more contradictions\n", json_array_size(all) - MAX_CONTRADICTIONS);
}

/* On a screen the jobs get most lines. */
void by_manager_status_print(const json_t *state, struct by_screen screen, struct by_text *out) {
  static const struct kind jobs = {"jobs (rates in bit/s)", job_columns, COUNT(job_columns), add_job, compare_jobs};
  static const struct kind links = {"links, the busiest", link_columns, COUNT(link_columns), add_link, compare_links};
  static const struct kind switches = {"switches that add", switch_columns, COUNT(switch_columns), add_switch,
                                       compare_switches};
  static const struct kind hosts = {"hosts", host_columns, COUNT(host_columns), add_host, NULL};
  size_t n_jobs = json_array_size(json_object_get(state, "jobs")),
         n_hosts = json_array_size(json_object_get(state, "hosts"));
  size_t n_links = MAX_LINKS, n_switches = json_array_size(json_object_get(state, "switches"));
  if (screen.height) {
    size_t n_contradictions = json_array_size(json_object_get(state, "contradictions"));
    size_t headings = HEADINGS + 3 + (n_switches ? 4 : 0) + MIN(n_contradictions, MAX_CONTRADICTIONS + 1);
    size_t capacity = screen.height > headings + 6 ? screen.height - headings : 6;
    n_links = capacity / 4;
    n_hosts = n_hosts < capacity / 4 ? n_hosts : capacity / 4;
    n_switches = n_switches < capacity / 8 + 1 ? n_switches : capacity / 8 + 1;
    n_jobs = capacity - n_links - n_hosts - n_switches;
  }
  add_head(state, out);
  add_certificates(state, out);
  add_contradictions(state, out);
  add_table(&jobs, json_object_get(state, "jobs"), n_jobs, screen.width, out);
  add_table(&links, json_object_get(state, "links"), n_links, screen.width, out);
  if (n_switches) add_table(&switches, json_object_get(state, "switches"), n_switches, screen.width, out);
  if (!screen.height) add_trees(json_object_get(state, "jobs"), out);
  if (!screen.height) add_cuts(json_object_get(state, "jobs"), out);
  add_table(&hosts, json_object_get(state, "hosts"), n_hosts, screen.width, out);
}
