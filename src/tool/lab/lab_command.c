/* `banyan lab`: a topology on this machine, and a job's ranks on its hosts. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "commands.h"
#include "handshake.h"
#include "lab.h"
#include "lab_switches.h"
#include "launch.h"
#include "output.h"
#include "plan.h"
#include "plan_topology.h"
#include "process.h"
#include "switched_tree.h"
#include "text.h"
#include "topology_synth.h"

enum { MOST_PER_HOST = 1024, FILE_BYTES = 64 };

/* The highest rate of links at which the machine itself is not the limit. */
static const double most_rate = 4e9;

struct lab_options {
  struct by_lab_options lab;
  const char *scale, *plan, *servers;
  int switches; /* place among "none|user|xdp"; -1: not given */
  struct by_words environment, sysctls, changes;
  struct by_job job;
  long per_host;
  bool json, dry_run;
  int output;
};

#define VALUES struct lab_options

static const struct by_option options[] = {
    BY_TEXT("scale", 0, scale, "F", "multiply all rates by this, \"1/100\", for fast networks on a\nslow machine"),
    BY_FLAG("whole", 0, lab.whole, "give links their entire capacity; default: what others leave\nof it"),
    BY_FLAG("plain", 0, lab.plain, "ignore delay and loss"),
    BY_INT("per-host", 'n', per_host, "N", 1, MOST_PER_HOST, "ranks on each host that takes part; default 1"),
    BY_TEXT("plan", 'p', plan, "PLAN",
            "a built-in plan's name or a plan file (BANYAN_PLAN), or\n\"default\": by size and hosts, not from the "
            "topology"),
    BY_CHOICE("switches", 0, switches, "none|user|xdp",
              "how aggregating switches run `banyan switch`: in user space,\nin XDP, or not at all (none); without "
              "--plan, the plan is the\nbest placement of sums on the topology"),
    BY_TEXT("server", 0, servers, "HOST,...", "with --switches: hosts of servers; default: the best one"),
    BY_TEXT(
        "congestion", 0, lab.congestion, "NAME",
        "congestion control of TCP on the hosts; default reno, which\nevery machine has; \"\": this machine's default"),
    BY_WORDS("sysctl", 0, sysctls, "NAME=VALUE", "a net.* setting for every host and switch"),
    BY_INT("mtu", 0, lab.mtu, "BYTES", BY_LAB_LEAST_MTU, BY_LAB_MOST_MTU, "of an IP packet; default 1500"),
    BY_SECONDS("burst", 0, lab.burst, "TIME", "what an idle link passes at once; default 1 ms"),
    BY_SECONDS("queue", 0, lab.queue, "TIME", "size of a link's queue, 256 KiB at least; default 50 ms"),
    BY_FLAG("fifo", 0, lab.fifo, "acknowledgements of TCP wait behind data; default: they\novertake data"),
    BY_FLAG("tos", 0, lab.by_tos,
            "links have a queue for each class of ToS, as hosts under\n`banyan agent` do and switches can: higher "
            "classes first, 5 %\nfor each"),
    BY_WORDS("change", 0, changes, "\"TIME A B RATE\"",
             "this long after the start, change the link between A and B to\nRATE in both directions; may be repeated"),
    BY_WORDS("env", 'x', environment, "NAME[=VALUE]", "an environment variable for the ranks; may be repeated"),
    BY_CHOICE("output", 'o', output, BY_OUTPUT_CHOICES,
              "prefix: \"[host] \" before every line; rank0: rank 0's standard\noutput unchanged, everything else with "
              "a prefix on standard\nerror; raw: no prefix; auto: rank0 if the command has --json,\nelse prefix"),
    BY_FLAG("pin", 0, job.pin, "bind rank r to core r, cyclically"),
    BY_FLAG("keep-going", 'k', job.keep_going, "do not terminate the other ranks when one fails"),
    BY_SECONDS("timeout", 0, job.timeout, "TIME", "end the job after this time, with exit code 124"),
    BY_SECONDS("report-time", 0, job.report, "TIME",
               "time after a rank's failure in which the others may report it\nand exit, before they get SIGTERM; "
               "default 1 s"),
    BY_SECONDS("grace", 0, job.grace, "TIME", "time between SIGTERM and SIGKILL; default 5 s"),
    BY_FLAG("json", 0, json,
            "report the links' traffic as one line of JSON on standard\noutput, after the command's own"),
    BY_FLAG("dry-run", 0, dry_run, "print what would be built, and build nothing"),
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan lab",
    .usage = "TOPOLOGY [options] -- COMMAND [ARGUMENTS]",
    .about = "Builds a topology on this machine from network namespaces and links with the\n"
             "topology's rates. It runs the command on every host that takes part, each as a\n"
             "rank of one job, and reports what crossed each link. It needs root.\n"
             "\n"
             "TOPOLOGY is a file, or a short text such as \"star:4,nic=500m\". \"banyan\" as the\n"
             "command means this program. Without --plan, --switches and BANYAN_PLAN, jobs\n"
             "plan for the topology as it is built. Hosts of a plan's helpers run `banyan\n"
             "helper`, and hosts of its servers `banyan server`. Nothing of the lab remains\n"
             "when it ends, however it ends.\n"
             "\n"
             "Returns the exit code of the rank that failed first, as `banyan run` does.",
    .options = options,
    .least_operands = 1,
    .missing = "which topology? Give a file, or a text such as star:4",
    .most_operands = -1,
    .last_operand = 2,
};

/* One `banyan lab` at work. */
struct session {
  struct lab_options asked;
  struct by_operands operands;
  struct by_topology *topology;
  struct by_lab_layout layout;
  struct by_lab *lab;
  struct by_launch_hosts hosts;
  struct by_lab_switches *switches;
  struct by_lab_planned_change changes[BY_MOST_WORDS];
  pid_t changing;            /* 0: none */
  struct by_plan *plan;      /* NULL: none was given */
  bool by_size;              /* no plan and no topology, whatever the environment contains */
  const char *topology_path; /* what ranks plan from; NULL: nothing */
  int file;                  /* keeps the file at `path`; -1: there is none */
  char path[FILE_BYTES];     /* of a plan that was made here, or of that topology */
  uint32_t *spaces;          /* of each host that has ranks, helps or serves */
  char **labels;             /* of each rank, helper and server */
  int ranks, beside;
  int exit_code;
};

/* ---- options */

/* "1/100" or "0.01". */
static enum banyan_status parse_scale(const char *text, double *out) {
  char *end;
  double number = strtod(text, &end), divisor = 1;
  bool ok = end != text;
  if (ok && *end == '/') {
    const char *second = end + 1;
    divisor = strtod(second, &end);
    ok = end != second;
  }
  *out = number / divisor;
  if (ok && !*end && isfinite(*out) && *out > 0) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "--scale: \"%.64s\" is not a factor such as 1/100 or 0.01", text);
}

static enum banyan_status check_switches(struct session *s) {
  struct lab_options *asked = &s->asked;
  const struct by_topology *t = s->topology;
  bool adds = false;
  if (asked->servers && (asked->switches < 0 || asked->plan))
    return by_fail(BANYAN_ERR_ARGUMENT, "--server places the servers of the plan that --switches makes%s",
                   asked->plan ? "; yours has its own" : "");
  for (uint32_t v = 0; v < t->n_nodes; v++) adds |= t->nodes[v].kind == BY_NODE_SWITCH && t->nodes[v].aggregates;
  if (asked->switches >= 0 && !adds)
    return by_fail(BANYAN_ERR_ARGUMENT, "--switches: no switch of the topology adds; give those that do "
                                        "\"aggregates\": true");
  asked->lab.xdp = asked->switches == BY_LAB_SWITCHES_XDP;
  return BANYAN_OK;
}

static enum banyan_status check(struct session *s) {
  struct lab_options *asked = &s->asked;
  if (s->operands.count < 2 && !asked->dry_run)
    return by_fail(BANYAN_ERR_ARGUMENT, "no command for the hosts: give one after --");
  if (asked->scale) BY_TRY(parse_scale(asked->scale, &asked->lab.scale));
  asked->lab.sysctls = asked->sysctls.items;
  if (asked->sysctls.count == BY_MOST_WORDS)
    return by_fail(BANYAN_ERR_ARGUMENT, "--sysctl: given more than %d times", BY_MOST_WORDS - 1);
  BY_TRY(by_topology_named(s->operands.items[0], &s->topology));
  BY_TRY(check_switches(s));
  for (int i = 0; i < asked->changes.count; i++) {
    BY_TRY(by_lab_changes_parse(asked->changes.items[i], s->topology, &s->changes[i]));
    s->changes[i].rate *= asked->lab.scale;
    if (by_check_rate(s->changes[i].rate) != BANYAN_OK)
      return by_fail(BANYAN_ERR_ARGUMENT, "--change, scaled: \"%.64s\" %s", asked->changes.items[i],
                     banyan_error_text());
  }
  return by_lab_layout_make(s->topology, &asked->lab, &s->layout);
}

/* ---- the ranks */

static enum banyan_status enter(void *context, const struct by_launch_host *host) {
  const struct session *s = context;
  return by_lab_enter(s->lab, s->spaces[host - s->hosts.items]);
}

/* A process of its own, so that the file is removed also if this one is killed. The terminal's signals are not for it.
 */
static enum banyan_status remove_at_end(const char *path, int *out) {
  int ends[2];
  char byte;
  if (pipe2(ends, O_CLOEXEC)) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make a pipe");
  pid_t pid = fork();
  if (pid == 0) {
    setsid();
    dup2(ends[0], STDIN_FILENO);
    close_range(STDOUT_FILENO, ~0U, 0);
    while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) continue;
    unlink(path);
    _exit(0);
  }
  int reason = errno;
  close(ends[0]);
  *out = ends[1];
  if (pid > 0) return BANYAN_OK;
  close(ends[1]);
  return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot start the process that removes %s", path);
}

/* Writes the text to a file, which is removed soon after the session has ended in whatever way. The lab's programs may
 * be another user's than root, and start others without open descriptors: they need a file with a name. */
static enum banyan_status keep_file(struct session *s, const struct by_text *text, const char *what) {
  snprintf(s->path, sizeof s->path, "%s/banyan-lab-%s.XXXXXX", P_tmpdir, what);
  int file = mkostemp(s->path, O_CLOEXEC);
  bool written =
      file >= 0 && write(file, by_text_get(text), text->length) == (ssize_t)text->length && !fchmod(file, 0644);
  int reason = errno;
  if (file >= 0) close(file);
  enum banyan_status status = BANYAN_OK;
  if (text->failed)
    status = by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the text of the lab's %s", what);
  else if (!written)
    status = by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot write the lab's %s to %s", what, s->path);
  else
    status = remove_at_end(s->path, &s->file);
  if (status && file >= 0) unlink(s->path);
  return status;
}

/* The plan that was requested, or the placement of sums in switches; otherwise the ranks plan from the topology. */
static enum banyan_status find_plan(struct session *s) {
  uint32_t ranks = by_plan_count_ranks(s->topology) * (uint32_t)s->asked.per_host;
  const struct by_in_network_request request = {.servers = s->asked.servers, .most_adding = -1};
  struct by_text text = {0};
  s->by_size = s->asked.plan && strcmp(s->asked.plan, "default") == 0;
  if (s->by_size) return BANYAN_OK;
  if (s->asked.plan && *s->asked.plan) return by_plan_named(s->asked.plan, ranks, &s->plan);
  bool placed = s->asked.switches >= 0;
  /* Interfaces are those of the lab, eth0, eth1, ..., whatever the topology calls them: its names are forgotten. */
  for (uint32_t i = 0; placed && i < s->topology->n_links; i++)
    s->topology->links[i].port[0] = s->topology->links[i].port[1] = "";
  enum banyan_status status = placed ? by_plan_in_network(&request, "lab", s->topology, NULL, false, &s->plan)
                                     : by_lab_print_topology(s->topology, &s->asked.lab, &text);
  if (status == BANYAN_OK && placed) by_plan_print(s->plan, &text);
  if (status == BANYAN_OK) status = keep_file(s, &text, placed ? "plan" : "topology");
  *(placed ? &s->asked.plan : &s->topology_path) = s->path;
  by_text_fini(&text);
  return status;
}

static enum banyan_status place_ranks(struct session *s) {
  const struct by_topology *t = s->topology;
  uint32_t n = by_plan_count_ranks(t);
  if ((double)n * (double)s->asked.per_host > BY_MOST_RANKS)
    return by_fail(BANYAN_ERR_ARGUMENT, "a job has at most %d ranks", BY_MOST_RANKS);
  BY_TRY(find_plan(s));
  size_t others = s->plan ? s->plan->n_vertices - s->plan->n_ranks : 0;
  s->spaces = by_cli_alloc(NULL, (n + others + 1) * sizeof *s->spaces);
  s->labels = by_cli_alloc(NULL, ((size_t)n * (size_t)s->asked.per_host + others + 1) * sizeof *s->labels);
  for (uint32_t v = 0; v < t->n_nodes; v++) {
    if (!t->nodes[v].takes_part) continue;
    s->spaces[s->hosts.count] = v;
    BY_TRY(by_hosts_add_place(&s->hosts, t->nodes[v].name, (int)s->asked.per_host, enter, s));
    for (long i = 0; i < s->asked.per_host; i++)
      s->labels[s->ranks++] =
          s->asked.per_host == 1 ? by_cli_print("%s", t->nodes[v].name) : by_cli_print("%s:%ld", t->nodes[v].name, i);
  }
  return by_hosts_place(&s->hosts, s->ranks);
}

/* The plan's vertex of a helper, or of a server, is to run on host `name`. A host serves all its trees as one. */
static enum banyan_status add_beside(struct session *s, struct by_launch_hosts *list, enum by_beside beside,
                                     const char *name) {
  const struct by_topology *t = s->topology;
  uint32_t node = by_topology_find(t, name);
  const char *what = by_beside_name(beside);
  if (node == UINT32_MAX || t->nodes[node].kind != BY_NODE_HOST)
    return by_fail(BANYAN_ERR_PLAN, "%s \"%s\" of plan '%s' is not a host of the topology", what, name, s->plan->name);
  for (size_t i = 0; i < list->count; i++) {
    if (strcmp(list->items[i].name, name) != 0) continue;
    list->items[i].slots++;
    return BANYAN_OK;
  }
  s->spaces[s->hosts.count + list->count] = node;
  s->labels[s->ranks + s->beside++] =
      t->nodes[node].takes_part ? by_cli_print("%s/%s", name, what) : by_cli_print("%s", name);
  return by_hosts_add_place(list, name, 1, enter, s);
}

/* One helper on each host that the plan has beside those of the ranks, one server for all trees of a host. */
static enum banyan_status place_beside(struct session *s, enum by_vertex_kind kind, enum by_beside beside) {
  struct by_launch_hosts list;
  char name[BY_TOPOLOGY_MOST_NAME + 1];
  int first = s->ranks + s->beside;
  by_hosts_init(&list);
  enum banyan_status status = BANYAN_OK;
  for (uint32_t v = s->plan->n_ranks; v < s->plan->n_vertices && status == BANYAN_OK; v++) {
    const struct by_vertex *vertex = &s->plan->vertices[v];
    if (vertex->kind != kind) continue;
    size_t length = kind == BY_VERTEX_SERVER ? by_server_host_bytes(vertex->name) : strlen(vertex->name);
    snprintf(name, sizeof name, "%.*s", (int)length, vertex->name);
    status = add_beside(s, &list, beside, name);
  }
  if (status == BANYAN_OK) status = by_hosts_add_beside(&s->hosts, &list, beside, first);
  by_hosts_fini(&list);
  return status;
}

static enum banyan_status fill_environment(const struct session *s, struct by_job_environment *environment) {
  const char *given = getenv("BANYAN_TOPOLOGY");
  BY_TRY(by_job_environment_init(environment));
  /* Before all that the user gives: the last value counts, and a plan counts before a topology. */
  if (!given || !*given) by_job_environment_set(environment, "BANYAN_TOPOLOGY", s->topology_path);
  /* Each rank takes the cores for its own, though there are fewer: one that spins keeps others from working. */
  if (!getenv("BANYAN_SPIN") && s->ranks > sysconf(_SC_NPROCESSORS_ONLN))
    by_job_environment_set(environment, "BANYAN_SPIN", "0");
  if (s->ranks > 1 && !getenv("OMP_NUM_THREADS")) /* all hosts of a lab share this machine's cores */
    by_job_environment_set(environment, "OMP_NUM_THREADS", "1");
  for (int i = 0; i < s->asked.environment.count; i++)
    BY_TRY(by_job_environment_add(environment, s->asked.environment.items[i]));
  if (s->by_size) by_job_environment_set(environment, "BANYAN_TOPOLOGY", "");
  by_job_environment_set(environment, "BANYAN_PLAN", s->by_size ? "" : s->asked.plan);
  return BANYAN_OK;
}

static enum banyan_status run_ranks(struct session *s) {
  char self[BY_PROGRAM_PATH], **words = s->operands.items + 1;
  struct by_job_environment environment;
  enum banyan_status status = fill_environment(s, &environment);
  if (!strcmp(words[0], "banyan") && by_program_path(self)) words[0] = self; /* wherever it lies */
  struct by_job *job = &s->asked.job;
  job->hosts = &s->hosts;
  job->ranks = s->ranks;
  job->beside = s->beside;
  job->command = words;
  job->environment = environment.items;
  job->output = by_output_choose(s->asked.output, words, s->asked.json ? BY_OUTPUT_ERROR : BY_OUTPUT_PREFIX);
  job->labels = (const char *const *)s->labels;
  job->interface = BY_LAB_SUBNET;
  if (!status) s->exit_code = by_launch(job);
  by_job_environment_fini(&environment);
  return status;
}

/* ---- the report */

static enum banyan_status run_and_report(struct session *s) {
  size_t n = 2 * (size_t)s->layout.n_wires;
  struct by_lab_traffic *traffic = by_cli_zeroed(2 * n, sizeof *traffic), *before = traffic + n;
  struct by_text text = {0};
  enum banyan_status status = by_lab_read(s->lab, before);
  uint64_t start = by_clock_now(&by_clock_system);
  if (!status) status = run_ranks(s);
  double seconds = by_clock_to_seconds(by_clock_now(&by_clock_system) - start);
  if (!status) status = by_lab_read(s->lab, traffic);
  for (size_t i = 0; i < n; i++) {
    traffic[i].bytes -= before[i].bytes;
    traffic[i].packets -= before[i].packets;
    traffic[i].drops -= before[i].drops;
  }
  if (!status && s->asked.json)
    status = by_lab_print_json(&s->layout, traffic, seconds, &text);
  else if (!status)
    by_lab_print_traffic(&s->layout, traffic, seconds, &text);
  if (s->asked.json) by_text_add(&text, "\n");
  free(traffic);
  return by_print_text(&text, status, s->asked.json ? stdout : stderr);
}

/* ---- the whole */

static void warn_of_speed(const struct session *s) {
  double most = 0;
  char text[2][32];
  for (uint32_t i = 0; i < s->layout.n_wires; i++)
    for (int end = 0; end < 2; end++) most = fmax(most, s->layout.wires[i].rate[end]);
  if (most <= most_rate) return;
  double scale = pow(10, ceil(log10(most / most_rate)));
  fprintf(stderr, "%s: links of %s are more than one machine carries with all hosts on it; --scale 1/%.0f makes %s\n",
          command.name, by_print_rate(most, text[0]), scale, by_print_rate(most / scale, text[1]));
}

static enum banyan_status work(struct session *s) {
  struct by_text text = {0};
  char key[BY_KEY_TEXT];
  if (s->asked.dry_run) {
    by_lab_print_layout(&s->layout, &s->asked.lab, &text);
    return by_print_text(&text, BANYAN_OK, stdout);
  }
  warn_of_speed(s);
  BY_TRY(by_lab_create(&s->layout, &s->asked.lab, &s->lab));
  if (s->asked.switches >= 0) { /* under a key that ranks find, too */
    BY_TRY(by_key_random(key));
    if (setenv("BANYAN_SWITCH_KEY", key, 0)) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the switches' key");
    BY_TRY(by_lab_switches_start(s->lab, &s->layout, (enum by_lab_switch_kind)s->asked.switches, &s->switches));
  }
  if (s->asked.changes.count)
    BY_TRY(by_lab_changes_start(s->lab, s->topology, s->changes, (uint32_t)s->asked.changes.count, &s->changing));
  return run_and_report(s);
}

static void end_session(struct session *s) {
  by_lab_changes_stop(s->changing);
  by_lab_switches_stop(s->switches);
  by_lab_destroy(s->lab);
  if (s->file >= 0) unlink(s->path);
  if (s->file >= 0) close(s->file);
  for (int i = 0; i < s->ranks + s->beside; i++) free(s->labels[i]);
  free(s->labels);
  free(s->spaces);
  by_hosts_fini(&s->hosts);
  by_lab_layout_fini(&s->layout);
  by_plan_destroy(s->plan);
  by_topology_destroy(s->topology);
}

int by_cli_lab(int argc, char **argv) {
  struct session s = {
      .asked = {.lab = by_lab_options_default(), .job = by_job_usual(command.name), .per_host = 1, .switches = -1},
      .file = -1};
  int exit_code = by_options_parse(&command, argc, argv, &s.asked, &s.operands);
  if (exit_code >= 0) return exit_code;
  by_hosts_init(&s.hosts);
  enum banyan_status status = check(&s);
  if (!status) status = place_ranks(&s);
  if (!status && s.plan) status = place_beside(&s, BY_VERTEX_HELPER, BY_HELPERS);
  if (!status && s.plan) status = place_beside(&s, BY_VERTEX_SERVER, BY_SERVERS);
  bool misuse = status == BANYAN_ERR_ARGUMENT;
  if (!status) status = work(&s);
  if (status) s.exit_code = misuse ? by_command_misused(&command) : by_command_end(&command, status);
  end_session(&s);
  return s.exit_code;
}
