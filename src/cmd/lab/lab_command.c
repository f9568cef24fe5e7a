/* `banyan lab`: a topology on this machine, and jobs and a cluster on its hosts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "commands.h"
#include "descriptor.h"
#include "job_key.h"
#include "lab.h"
#include "lab_services.h"
#include "launch.h"
#include "output.h"
#include "process.h"
#include "text.h"
#include "topology_synth.h"

enum { MAX_PER_HOST = 1024 };

/* Maximum rate of links at which the machine itself is not the limit. */
static const double max_rate = 4e9;

struct lab_options {
  struct by_lab_options lab;
  struct by_lab_jobs_options jobs;
  struct by_lab_cluster_options cluster;
  const char *scale;
  int switches; /* Index in "none|user|xdp"; -1: not given. */
  struct by_words sysctls, events, texts;
  bool clustered, dry_run;
};

#define VALUES struct lab_options

static const struct by_option options[] = {
    BY_TEXT("scale", 0, scale, "F", "multiply all rates by this, \"1/100\", for fast networks on a\nslow machine"),
    BY_FLAG("whole", 0, lab.whole, "give links their entire capacity; default: what others leave\nof it"),
    BY_FLAG("plain", 0, lab.plain, "ignore delay and loss"),
    BY_INT("per-host", 'n', jobs.per_host, "N", 1, MAX_PER_HOST, "ranks on each host that takes part; default 1"),
    BY_TEXT("plan", 'p', jobs.plan, "PLAN",
            "a built-in plan's name or a plan file (BANYAN_PLAN), or\n\"default\": by size and hosts, not from the "
            "topology"),
    BY_CHOICE("switches", 0, switches, "none|user|xdp",
              "how aggregating switches run `banyan switch`: in user space,\nin XDP, or not at all (none); without "
              "--plan, the plan is the\nbest placement of sums on the topology"),
    BY_TEXT("server", 0, jobs.servers, "HOST,...", "with --switches: hosts of servers; default: the best one"),
    BY_TEXT(
        "congestion", 0, lab.congestion, "NAME",
        "congestion control of TCP on the hosts; default reno, which\nevery machine has; \"\": this machine's default"),
    BY_WORDS("sysctl", 0, sysctls, "NAME=VALUE", "a net.* setting for every host and switch"),
    BY_INT("mtu", 0, lab.mtu, "BYTES", BY_LAB_MIN_MTU, BY_LAB_MAX_MTU, "of an IP packet; default 1500"),
    BY_FLAG("ipv6", 0, lab.ipv6, "addresses of IPv6 alone; default: of IPv4 alone"),
    BY_SECONDS("burst", 0, lab.burst, "TIME", "what an idle link passes at once; default 1 ms"),
    BY_SECONDS("queue", 0, lab.queue, "TIME", "size of a link's queue, 256 KiB at least; default 50 ms"),
    BY_FLAG("fifo", 0, lab.fifo, "acknowledgements of TCP wait behind data; default: they\novertake data"),
    BY_FLAG("tos", 0, lab.by_tos,
            "links have a queue for each class of ToS, as hosts under\n`banyan agent` do and switches can: higher "
            "classes first, 5 %\nfor each"),
    BY_WORDS(
        "job", 0, texts, "\"NAME [SETTING...]: COMMAND\"",
        "a job beside others, in place of the command; may be\nrepeated. Settings: from=TIME and until=TIME after the "
        "start,\nhosts=HOST,..., ranks=N on each host, plan=PLAN"),
    BY_FLAG("cluster", 0, clustered,
            "run a cluster's manager and an agent on every host; jobs\nare planned by the manager"),
    BY_TEXT("manager", 0, cluster.manager, "HOST",
            "with --cluster: host of the manager; default: the first that\ntakes no part in jobs, else the first"),
    BY_TEXT("manager-options", 0, cluster.more, "\"OPTION...\"", "with --cluster: options of `banyan manager`"),
    BY_FLAG("tell-topology", 0, cluster.tells,
            "with --cluster: give the manager the topology; default: it\ncomposes it from reports if all switches "
            "report"),
    BY_TEXT("http", 0, cluster.http, "ADDRESS:PORT",
            "with --cluster: where this machine reaches the manager's\npage; default 127.0.0.1 and any port"),
    BY_WORDS(
        "at", 0, events, "\"TIME EVENT\"",
        "what happens so long after the start; may be repeated. Events:\nrate A B RATE: the link between A and B "
        "carries RATE; kill or\nstart, and switch, agent or manager, and its node; kill\nserver or helper, and its "
        "host"),
    BY_WORDS("env", 'x', jobs.environment, "NAME[=VALUE]", "an environment variable for the ranks; may be repeated"),
    BY_CHOICE("output", 'o', jobs.output, BY_OUTPUT_CHOICES,
              "prefix: \"[host] \" before every line; rank0: rank 0's standard\noutput unchanged, everything else with "
              "a prefix on standard\nerror; raw: no prefix; auto: rank0 if the command has --json,\nelse prefix"),
    BY_FLAG("pin", 0, jobs.usual.pin, "bind rank r to core r, cyclically"),
    BY_FLAG("keep-going", 'k', jobs.usual.keep_going, "do not terminate the other ranks when one fails"),
    BY_SECONDS("timeout", 0, jobs.usual.timeout, "TIME", "end the job after this time, with exit code 124"),
    BY_SECONDS("report-time", 0, jobs.usual.report, "TIME",
               "time after a rank's failure in which the others may report it\nand exit, before they get SIGTERM; "
               "default 1 s"),
    BY_SECONDS("grace", 0, jobs.usual.grace, "TIME", "time between SIGTERM and SIGKILL; default 5 s"),
    BY_FLAG("json", 0, jobs.json,
            "report the links' traffic as one line of JSON on standard\noutput, after the command's own"),
    BY_FLAG("dry-run", 0, dry_run, "print what would be built, and build nothing"),
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan lab",
    .usage = "TOPOLOGY [options] -- COMMAND [ARGUMENTS] | TOPOLOGY --job JOB... [options]",
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
             "With --job there are several jobs, each a shell command, that come and go. With\n"
             "--cluster, a manager plans for them.\n"
             "\n"
             "Returns the exit code of the rank that failed first, as `banyan run` does.",
    .options = options,
    .min_operands = 1,
    .missing = "which topology? Give a file, or a text such as star:4",
    .max_operands = -1,
    .last_operand = 2,
};

/* A running `banyan lab`. */
struct session {
  struct lab_options asked;
  struct by_operands operands;
  struct by_topology *topology;
  struct by_lab_layout layout;
  struct by_lab_event events[BY_MAX_WORDS];
  struct by_lab_folder folder;
  struct by_lab_cluster cluster;
  struct by_lab_jobs *jobs;
  struct by_lab *lab;
  struct by_lab_services *services;
  pid_t making_events; /* 0: none. */
  int switch_key;      /* Descriptor of the switches' secret; -1: none. */
  int exit_code;
};

/* ---- options */

/* Parses "1/100" or "0.01". */
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
  for (uint32_t v = 0; v < t->n_nodes; v++) adds |= t->nodes[v].kind == BY_NODE_SWITCH && t->nodes[v].aggregates;
  if (asked->switches >= 0 && !adds)
    return by_fail(BANYAN_ERR_ARGUMENT, "--switches: no switch of the topology adds; give those that do "
                                        "\"aggregates\": true");
  if (asked->clustered && asked->switches < 0 && adds) asked->switches = BY_LAB_SWITCHES_USER;
  asked->jobs.placed = asked->switches >= 0 && !asked->clustered;
  if (asked->jobs.servers && (!asked->jobs.placed || asked->jobs.plan))
    return by_fail(BANYAN_ERR_ARGUMENT, "--server places the servers of the plan that --switches makes%s",
                   asked->jobs.plan   ? "; yours has its own"
                   : asked->clustered ? "; here the manager plans"
                                      : "");
  asked->lab.xdp = asked->switches == BY_LAB_SWITCHES_XDP;
  return BANYAN_OK;
}

static enum banyan_status check_commands(struct session *s) {
  struct lab_options *asked = &s->asked;
  bool given = s->operands.count >= 2;
  if (asked->texts.count && given)
    return by_fail(BANYAN_ERR_ARGUMENT, "give the jobs by --job, or one command after --, not both");
  if (!asked->texts.count && !given && !asked->dry_run)
    return by_fail(BANYAN_ERR_ARGUMENT, "no command for the hosts: give one after --");
  if (!asked->clustered &&
      (asked->cluster.manager || asked->cluster.more || asked->cluster.http || asked->cluster.tells))
    return by_fail(BANYAN_ERR_ARGUMENT, "--manager, --manager-options, --tell-topology and --http are for --cluster");
  if (!asked->cluster.http) asked->cluster.http = "127.0.0.1:0";
  asked->jobs.jobs = &asked->texts;
  asked->jobs.command = s->operands.items + 1;
  asked->jobs.managed = asked->clustered;
  asked->lab.by_tos |= asked->clustered;
  return BANYAN_OK;
}

/* Removes the topology's names of interfaces, since those of the lab are eth0, eth1, ... */
static void forget_interfaces(struct session *s) {
  for (uint32_t i = 0; (s->asked.jobs.placed || s->asked.clustered) && i < s->topology->n_links; i++)
    s->topology->links[i].port[0] = s->topology->links[i].port[1] = "";
}

static enum banyan_status check_options(struct session *s) {
  struct lab_options *asked = &s->asked;
  BY_TRY(check_commands(s));
  if (asked->scale) BY_TRY(parse_scale(asked->scale, &asked->lab.scale));
  asked->lab.sysctls = asked->sysctls.items;
  if (asked->sysctls.count == BY_MAX_WORDS)
    return by_fail(BANYAN_ERR_ARGUMENT, "--sysctl: given more than %d times", BY_MAX_WORDS - 1);
  BY_TRY(by_topology_named(s->operands.items[0], &s->topology));
  BY_TRY(check_switches(s));
  for (int i = 0; i < asked->events.count; i++) {
    struct by_lab_event *event = &s->events[i];
    BY_TRY(by_lab_event_parse(asked->events.items[i], s->topology, event));
    event->rate *= asked->lab.scale;
    if (event->kind == BY_LAB_RATE && by_check_rate(event->rate) != BANYAN_OK)
      return by_fail(BANYAN_ERR_ARGUMENT, "--at, scaled: \"%.64s\" %s", asked->events.items[i], banyan_error_text());
  }
  BY_TRY(by_lab_layout_make(s->topology, &asked->lab, &s->layout));
  forget_interfaces(s);
  if (asked->dry_run && s->operands.count < 2 && !asked->texts.count) return BANYAN_OK;
  BY_TRY(by_lab_folder_make(&s->folder));
  if (asked->clustered) BY_TRY(by_lab_cluster_make(&asked->cluster, s->topology, &s->folder, &s->cluster));
  return by_lab_jobs_create(&asked->jobs, &asked->lab, s->topology, &s->folder, &s->jobs);
}

/* ---- the report */

static enum banyan_status run_and_report(struct session *s) {
  size_t n = 2 * (size_t)s->layout.n_wires;
  struct by_lab_traffic *traffic = by_cli_zeroed(2 * n, sizeof *traffic), *before = traffic + n;
  struct by_text text = {0};
  enum banyan_status status = by_lab_read(s->lab, before);
  uint64_t start = by_clock_now(&by_clock_system);
  if (!status) status = by_lab_jobs_run(s->jobs, s->lab, s->services, &s->exit_code);
  double seconds = by_clock_to_seconds(by_clock_now(&by_clock_system) - start);
  if (!status) status = by_lab_read(s->lab, traffic);
  for (size_t i = 0; i < n; i++) {
    traffic[i].bytes -= before[i].bytes;
    traffic[i].packets -= before[i].packets;
    traffic[i].drops -= before[i].drops;
  }
  if (!status && s->asked.jobs.json)
    status = by_lab_print_json(&s->layout, traffic, seconds, &text);
  else if (!status)
    by_lab_print_traffic(&s->layout, traffic, seconds, &text);
  if (s->asked.jobs.json) by_text_add(&text, "\n");
  free(traffic);
  return by_print_text(&text, status, s->asked.jobs.json ? stdout : stderr);
}

/* ---- running */

static void warn_of_speed(const struct session *s) {
  double max = 0;
  char text[2][32];
  for (uint32_t i = 0; i < s->layout.n_wires; i++)
    for (int end = 0; end < 2; end++) max = fmax(max, s->layout.wires[i].rate[end]);
  if (max <= max_rate) return;
  double scale = pow(10, ceil(log10(max / max_rate)));
  by_command_note("%s: links of %s are more than one machine carries with all hosts on it; --scale 1/%.0f makes %s",
                  command.name, by_print_rate(max, text[0]), scale, by_print_rate(max / scale, text[1]));
}

/* Makes a secret for switches and ranks, unless the user has given one. Jobs that a manager plans get the switches'
 * secrets from it. */
static enum banyan_status share_switch_key(struct session *s) {
  char key[BY_JOB_KEY_TEXT], path[64];
  if (s->asked.switches < 0 || (s->asked.clustered && !by_lab_jobs_have_plans(s->jobs))) return BANYAN_OK;
  if (getenv("BANYAN_SWITCH_KEY") || getenv("BANYAN_SWITCH_KEY_FILE")) return BANYAN_OK;
  BY_TRY(by_job_key_create(key));
  enum banyan_status status = by_job_key_share(key, &s->switch_key);
  explicit_bzero(key, sizeof key);
  BY_TRY(status);
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), s->switch_key);
  if (!setenv("BANYAN_SWITCH_KEY_FILE", path, 1)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the switches' key");
}

static enum banyan_status start_services(struct session *s) {
  enum by_lab_switch_kind kind =
      s->asked.switches < 0 ? BY_LAB_SWITCHES_NONE : (enum by_lab_switch_kind)s->asked.switches;
  if (s->asked.switches < 0 && !s->asked.clustered) return BANYAN_OK;
  BY_TRY(by_lab_services_create(s->lab, &s->layout, s->folder.path, &s->services));
  BY_TRY(share_switch_key(s));
  BY_TRY(s->asked.clustered ? by_lab_cluster_start(&s->cluster, &s->layout, &s->asked.lab, kind, s->services)
                            : by_lab_services_start_switches(s->services, kind, NULL, NULL));
  BY_TRY(by_lab_services_await(s->services));
  return s->asked.clustered ? by_lab_cluster_print(&s->cluster) : BANYAN_OK;
}

static enum banyan_status run_lab(struct session *s) {
  struct by_text text = {0};
  if (s->asked.dry_run) {
    by_lab_print_layout(&s->layout, &s->asked.lab, &text);
    return by_print_text(&text, BANYAN_OK, stdout);
  }
  warn_of_speed(s);
  BY_TRY(by_lab_create(&s->layout, &s->asked.lab, &s->lab));
  BY_TRY(start_services(s));
  if (s->asked.events.count)
    BY_TRY(by_lab_events_start(s->lab, s->topology, s->services, s->events, (uint32_t)s->asked.events.count,
                               &s->making_events));
  return run_and_report(s);
}

static void end_session(struct session *s) {
  by_lab_events_stop(s->making_events);
  by_lab_services_destroy(s->services);
  by_lab_destroy(s->lab);
  by_lab_jobs_destroy(s->jobs);
  by_lab_cluster_fini(&s->cluster);
  by_lab_folder_remove(&s->folder);
  by_lab_layout_fini(&s->layout);
  if (s->switch_key >= 0) by_close(s->switch_key);
  by_topology_destroy(s->topology);
}

int by_cli_lab(int argc, char **argv) {
  struct session s = {.asked = {.lab = by_lab_options_default(),
                                .jobs = {.usual = by_launch_defaults(command.name), .per_host = 1},
                                .switches = -1},
                      .folder = {.keeper = -1},
                      .switch_key = -1,
                      .cluster = {.listener = -1}};
  int exit_code = by_options_parse(&command, argc, argv, &s.asked, &s.operands);
  if (exit_code >= 0) return exit_code;
  enum banyan_status status = check_options(&s);
  bool misuse = status == BANYAN_ERR_ARGUMENT;
  if (!status) status = run_lab(&s);
  if (status) s.exit_code = misuse ? by_command_misused(&command) : by_command_end(&command, status);
  end_session(&s);
  return s.exit_code;
}
