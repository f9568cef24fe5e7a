/* A cable between two machines that both report is told of twice. The two tellings are found by the names of ports:
 * each end knows its own, and the other's as that one calls it. */
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "text.h"
#include "topology_lldp_draft.h"

static const double DEFAULT_RATE = 1e9;
static const uint32_t nobody = UINT32_MAX, several = UINT32_MAX - 1;

enum { MOST_PATTERNS_TEXT = 1024 };

#define ORDER(x, y) (((x) > (y)) - ((x) < (y)))

static const char *name_of(const struct by_lldp *lldp, uint32_t machine) {
  return by_topology_builder_node((struct by_topology_builder *)&lldp->names, machine)->name;
}

/* --- machines that a file names "n1" and others "n1.example.org" --- */

static bool is_short(const struct by_lldp *lldp, uint32_t machine) {
  return lldp->machines[machine].named_by_file && !strchr(name_of(lldp, machine), '.');
}

/* full[i]: the one machine whose name begins with that of i and a dot; i itself where there is none or several. */
static void find_full_names(const struct by_lldp *lldp, uint32_t *full) {
  uint32_t n = lldp->names.topology->n_nodes;
  char label[BY_TOPOLOGY_MOST_NAME + 1];
  for (uint32_t i = 0; i < n; i++) full[i] = nobody;
  for (uint32_t i = 0; i < n; i++) {
    const char *name = name_of(lldp, i);
    size_t length = strcspn(name, ".");
    if (!name[length]) continue;
    memcpy(label, name, length);
    label[length] = '\0';
    uint32_t machine = by_topology_builder_find(&lldp->names, label);
    if (machine != nobody && is_short(lldp, machine)) full[machine] = full[machine] == nobody ? i : several;
  }
  for (uint32_t i = 0; i < n; i++)
    if (full[i] == nobody || full[i] == several) full[i] = i;
}

static enum banyan_status join_names(struct by_lldp *lldp) {
  uint32_t n = lldp->names.topology->n_nodes, *full = malloc((n ? n : 1) * sizeof *full), kept = 0;
  if (!full) return by_topology_no_memory();
  find_full_names(lldp, full);
  for (uint32_t i = 0; i < n; i++)
    if (full[i] != i) lldp->machines[full[i]].reports = true;
  for (uint32_t i = 0; i < lldp->n_reports; i++) {
    struct by_lldp_report report = lldp->reports[i];
    report.from = full[report.from];
    report.to = full[report.to];
    if (report.from != report.to) lldp->reports[kept++] = report;
  }
  lldp->n_reports = kept;
  free(full);
  return BANYAN_OK;
}

/* --- cables --- */

static uint32_t lower(const struct by_lldp_report *report) {
  return report->from < report->to ? report->from : report->to;
}

static uint32_t upper(const struct by_lldp_report *report) {
  return report->from < report->to ? report->to : report->from;
}

/* By the two machines, then who tells it, then by port. */
static int compare_reports(const void *a, const void *b) {
  const struct by_lldp_report *first = a, *second = b;
  int order = ORDER(lower(first), lower(second));
  if (!order) order = ORDER(upper(first), upper(second));
  if (!order) order = ORDER(first->from, second->from);
  return order ? order : strcmp(first->port, second->port);
}

/* The same port hears the same neighbor in several protocols. */
static void drop_repeats(struct by_lldp *lldp) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < lldp->n_reports; i++) {
    struct by_lldp_report *report = &lldp->reports[i], *before = kept ? &lldp->reports[kept - 1] : NULL;
    if (before && compare_reports(before, report) == 0) {
      if (isnan(before->rate)) before->rate = report->rate;
    } else {
      lldp->reports[kept++] = *report;
    }
  }
  lldp->n_reports = kept;
}

/* Among reports of one machine about one other, sorted by port; NULL: no report of that port that is still alone. */
static struct by_lldp_report *find_port(struct by_lldp_report *reports, uint32_t n, const char *port) {
  uint32_t low = 0, high = n;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    int order = strcmp(reports[middle].port, port);
    if (order == 0) return reports[middle].partner == nobody ? &reports[middle] : NULL;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

static void become_partners(struct by_lldp *lldp, struct by_lldp_report *one, struct by_lldp_report *other) {
  one->partner = (uint32_t)(other - lldp->reports);
  other->partner = (uint32_t)(one - lldp->reports);
}

/* What `ours` say about the ports of `theirs`. */
static void match_ports(struct by_lldp *lldp, struct by_lldp_report *ours, uint32_t n_ours,
                        struct by_lldp_report *theirs, uint32_t n_theirs) {
  for (uint32_t i = 0; i < n_ours; i++) {
    if (ours[i].partner != nobody) continue;
    struct by_lldp_report *other = find_port(theirs, n_theirs, ours[i].far_id);
    if (!other) other = find_port(theirs, n_theirs, ours[i].far_text);
    if (other) become_partners(lldp, &ours[i], other);
  }
}

/* Every cable has two ends that tell of it, so what no name joins belongs together too. */
static void match_rest(struct by_lldp *lldp, struct by_lldp_report *ours, uint32_t n_ours,
                       struct by_lldp_report *theirs, uint32_t n_theirs) {
  uint32_t i = 0, j = 0;
  for (;;) {
    while (i < n_ours && ours[i].partner != nobody) i++;
    while (j < n_theirs && theirs[j].partner != nobody) j++;
    if (i == n_ours || j == n_theirs) return;
    become_partners(lldp, &ours[i], &theirs[j]);
  }
}

static void find_cables(struct by_lldp *lldp) {
  qsort(lldp->reports, lldp->n_reports, sizeof *lldp->reports, compare_reports);
  drop_repeats(lldp);
  for (uint32_t from = 0, to; from < lldp->n_reports; from = to) {
    struct by_lldp_report *first = &lldp->reports[from];
    uint32_t ours = 0;
    for (to = from; to < lldp->n_reports; to++) {
      const struct by_lldp_report *report = &lldp->reports[to];
      if (lower(report) != lower(first) || upper(report) != upper(first)) break;
      ours += report->from == first->from;
    }
    struct by_lldp_report *theirs = first + ours;
    uint32_t n_theirs = to - from - ours;
    match_ports(lldp, first, ours, theirs, n_theirs);
    match_ports(lldp, theirs, n_theirs, first, ours);
    match_rest(lldp, first, ours, theirs, n_theirs);
  }
}

/* --- what the machines are --- */

static bool is_wanted(const char *patterns, const char *name) {
  char copy[MOST_PATTERNS_TEXT], *kept = NULL;
  strcpy(copy, patterns);
  for (char *word = strtok_r(copy, ",+ ", &kept); word; word = strtok_r(NULL, ",+ ", &kept))
    if (fnmatch(word, name, 0) == 0) return true;
  return false;
}

static bool is_plain(const struct by_lldp_machine *machine) {
  return machine->described && !machine->bridges;
}

/* Of those that report: hosts with containers say that they bridge too, but only a switch hears several plain hosts. Of
 * the others: who tells nothing is more likely a switch, since hosts are what people collect from. */
static bool is_switch(const struct by_lldp *lldp, uint32_t machine, const uint32_t *plain_heard) {
  const struct by_lldp_machine *it = &lldp->machines[machine];
  if (lldp->options.hosts && *lldp->options.hosts) return !is_wanted(lldp->options.hosts, name_of(lldp, machine));
  return it->reports ? it->bridges && plain_heard[machine] > 1 : !is_plain(it);
}

static enum banyan_status find_switches(const struct by_lldp *lldp, bool *switches) {
  uint32_t n = lldp->names.topology->n_nodes, *plain_heard = calloc(n, sizeof *plain_heard);
  if (!plain_heard) return by_topology_no_memory();
  for (uint32_t i = 0; i < lldp->n_reports; i++)
    plain_heard[lldp->reports[i].from] += is_plain(&lldp->machines[lldp->reports[i].to]);
  for (uint32_t i = 0; i < n; i++) switches[i] = is_switch(lldp, i, plain_heard);
  free(plain_heard);
  return BANYAN_OK;
}

/* --- the topology --- */

struct making {
  const struct by_lldp *lldp;
  struct by_topology_builder builder;
  bool *switches;
  uint32_t *numbers; /* of the machines in the topology */
  uint32_t n_guessed;
};

/* Those that report take part; where only switches do, the hosts that they hear. A machine that nobody is joined to any
 * more (its name was the short form of another's) is left out. */
static enum banyan_status add_machines(struct making *making, const bool *joined) {
  const struct by_lldp *lldp = making->lldp;
  uint32_t n = lldp->names.topology->n_nodes;
  bool some_report = false;
  for (uint32_t i = 0; i < n; i++) some_report = some_report || (lldp->machines[i].reports && !making->switches[i]);
  for (uint32_t i = 0; i < n; i++) {
    const struct by_lldp_machine *machine = &lldp->machines[i];
    uint32_t *number = &making->numbers[i];
    if (!joined[i]) continue;
    BY_TRY(making->switches[i] ? by_topology_builder_add_switch(&making->builder, name_of(lldp, i), number)
                               : by_topology_builder_add_host(&making->builder, name_of(lldp, i), number));
    struct by_node *node = by_topology_builder_node(&making->builder, *number);
    node->takes_part = !making->switches[i] && !machine->is_phone && (machine->reports || !some_report);
  }
  return BANYAN_OK;
}

static const char *far_port(const struct by_lldp_report *report) {
  return *report->far_text ? report->far_text : report->far_id;
}

static enum banyan_status add_cable(struct making *making, const struct by_lldp_report *report) {
  const struct by_lldp_report *other = report->partner == nobody ? NULL : &making->lldp->reports[report->partner];
  double rate = other ? fmin(report->rate, other->rate) : report->rate; /* fmin passes over NAN */
  double usual = making->lldp->options.default_rate;
  struct by_link *link;
  const char *near, *far;
  making->n_guessed += isnan(rate);
  if (isnan(rate)) rate = usual > 0 ? usual : DEFAULT_RATE;
  BY_TRY(by_topology_builder_keep(&making->builder, report->port, &near));
  BY_TRY(by_topology_builder_keep(&making->builder, other ? other->port : far_port(report), &far));
  BY_TRY(by_topology_builder_add_link(&making->builder, making->numbers[report->from], making->numbers[report->to],
                                      rate, 0, &link));
  link->port[0] = near;
  link->port[1] = far;
  return BANYAN_OK;
}

static enum banyan_status add_cables(struct making *making) {
  const struct by_lldp *lldp = making->lldp;
  double usual = lldp->options.default_rate;
  char text[32];
  for (uint32_t i = 0; i < lldp->n_reports; i++)
    if (lldp->reports[i].partner == nobody || lldp->reports[i].partner > i)
      BY_TRY(add_cable(making, &lldp->reports[i]));
  if (making->n_guessed)
    by_warn("topology", "no end tells the speed of %u of %u links; taken as %s", making->n_guessed,
            making->builder.topology->n_links, by_print_rate(usual > 0 ? usual : DEFAULT_RATE, text));
  return BANYAN_OK;
}

/* `joined`: of each machine, whether anybody is joined to it; all false. */
static enum banyan_status fill(struct making *making, bool *joined, struct by_topology **out) {
  const struct by_lldp *lldp = making->lldp;
  for (uint32_t i = 0; i < lldp->n_reports; i++) joined[lldp->reports[i].from] = joined[lldp->reports[i].to] = true;
  BY_TRY(find_switches(lldp, making->switches));
  BY_TRY(add_machines(making, joined));
  BY_TRY(add_cables(making));
  return by_topology_builder_finish(&making->builder, out);
}

static enum banyan_status build(const struct by_lldp *lldp, struct by_topology **out) {
  uint32_t n = lldp->names.topology->n_nodes;
  struct making making = {.lldp = lldp};
  BY_TRY(by_topology_builder_init(&making.builder, ""));
  bool *joined = calloc(n, sizeof *joined);
  making.switches = calloc(n, sizeof *making.switches);
  making.numbers = calloc(n, sizeof *making.numbers);
  bool there = joined && making.switches && making.numbers;
  enum banyan_status status = there ? fill(&making, joined, out) : by_topology_no_memory();
  free(making.numbers);
  free(joined);
  free(making.switches);
  by_topology_builder_fini(&making.builder);
  return status;
}

enum banyan_status by_lldp_make(struct by_lldp *lldp, struct by_topology **out) {
  if (lldp->options.hosts && strlen(lldp->options.hosts) >= MOST_PATTERNS_TEXT)
    return by_fail(BANYAN_ERR_ARGUMENT, "the patterns of hosts are longer than %d bytes", MOST_PATTERNS_TEXT);
  BY_TRY(join_names(lldp));
  find_cables(lldp);
  return build(lldp, out);
}
