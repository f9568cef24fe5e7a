/* `banyan lab`: a topology on this machine, and jobs and a cluster on its hosts. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "certificate.h"
#include "clock.h"
#include "commands.h"
#include "descriptor.h"
#include "file.h"
#include "job_key.h"
#include "lab.h"
#include "lab_services.h"
#include "launch.h"
#include "output.h"
#include "process.h"
#include "socket.h"
#include "text.h"
#include "topology_formats.h"

/* ---- the cluster of a lab (--cluster): keys, a manager on one host, and an agent on every host */

struct by_lab_cluster_options {
  const char *manager; /* Host of the manager; NULL: the first that takes no part in jobs, else the first. */
  const char *more;    /* Arguments of the manager separated by blanks; NULL: none. */
  bool tells;          /* The manager gets the topology; otherwise it composes it, if possible. */
  const char *http;    /* Address of the manager's page on this machine: "127.0.0.1:8420". */
};

struct by_lab_cluster {
  const struct by_lab_cluster_options *options;
  const struct by_topology *topology;
  const struct by_lab_folder *folder;
  uint32_t manager; /* A node. */
  int listener;     /* Socket of the page, in this process's network; -1: none. */
  char page[80];    /* "http://127.0.0.1:8420/" */
};

enum { DAYS = 365, MANAGER_PORT = 7650, MAX_ARGUMENTS = 64, PLACE_BYTES = BY_TOPOLOGY_MAX_NAME + 16 };

/* Tells whether a node has a certificate: hosts, for their agents, and switches. */
static bool is_known(const struct by_node *node) {
  return node->kind == BY_NODE_HOST || node->aggregates;
}

/* ---- keys */

static enum banyan_status make_key(const char *keys, const struct by_key_authority *authority, enum by_tls_role role,
                                   const char *name) {
  const struct by_certificate_request request = {.role = role, .name = name, .now = time(NULL), .days = DAYS};
  char path[BY_KEY_PATH];
  struct by_text text;
  BY_TRY(by_certificate_check_name(name));
  BY_TRY(by_key_path_of(keys, role, name, path));
  enum banyan_status status = by_certificate_make(authority, &request, &text);
  if (status == BANYAN_OK) status = by_key_file_write(path, &text, 0600, false);
  by_certificate_wipe(&text);
  return status;
}

static enum banyan_status make_keys_of(const struct by_lab_cluster *cluster, const char *keys,
                                       const struct by_key_authority *authority) {
  const struct by_topology *t = cluster->topology;
  BY_TRY(by_key_folder_write(keys, authority, false));
  BY_TRY(make_key(keys, authority, BY_TLS_MANAGER, t->nodes[cluster->manager].name));
  for (uint32_t v = 0; v < t->n_nodes; v++)
    if (is_known(&t->nodes[v])) BY_TRY(make_key(keys, authority, BY_TLS_AGENT, t->nodes[v].name));
  return BANYAN_OK;
}

static enum banyan_status make_keys(const struct by_lab_cluster *cluster) {
  struct by_key_authority authority;
  char keys[BY_LAB_PATH];
  if (mkdir(by_lab_folder_path(cluster->folder, "keys", keys), 0700))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make %s", keys);
  enum banyan_status status = by_certificate_make_authority(NULL, time(NULL), DAYS, &authority);
  if (status == BANYAN_OK) status = make_keys_of(cluster, keys, &authority);
  by_key_authority_fini(&authority);
  return status;
}

/* ---- the manager's host and its page */

static enum banyan_status choose_host(struct by_lab_cluster *cluster) {
  const struct by_topology *t = cluster->topology;
  const char *name = cluster->options->manager;
  uint32_t first = UINT32_MAX, idle = UINT32_MAX;
  for (uint32_t v = t->n_nodes; v-- > 0;) {
    if (t->nodes[v].kind != BY_NODE_HOST) continue;
    first = v;
    if (!t->nodes[v].takes_part) idle = v;
  }
  cluster->manager = name ? by_topology_find(t, name) : idle != UINT32_MAX ? idle : first;
  if (cluster->manager != UINT32_MAX && t->nodes[cluster->manager].kind == BY_NODE_HOST) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "--manager: \"%.64s\" is not a host of the topology", name ? name : "");
}

/* Opens the manager's socket in the network of this process, not in that of the lab. */
static enum banyan_status listen_for_page(struct by_lab_cluster *cluster) {
  struct by_address at, bound;
  char text[BY_ADDRESS_TEXT];
  size_t n;
  enum banyan_status status = by_address_resolve(cluster->options->http, &at, 1, &n);
  if (status == BANYAN_OK) status = by_socket_listen(&at, (struct by_port_range){0}, &cluster->listener, &bound);
  if (status != BANYAN_OK) return by_fail_within(status, "--http");
  snprintf(cluster->page, sizeof cluster->page, "http://%s/", by_address_print(&bound, text));
  return BANYAN_OK;
}

/* Chooses the manager's host, and makes the keys. The caller frees the cluster, also after a failure. */
static enum banyan_status make_cluster(const struct by_lab_cluster_options *options, const struct by_topology *topology,
                                       const struct by_lab_folder *folder, struct by_lab_cluster *out) {
  *out = (struct by_lab_cluster){.options = options, .topology = topology, .folder = folder, .listener = -1};
  BY_TRY(choose_host(out));
  BY_TRY(make_keys(out));
  return listen_for_page(out);
}

static void free_cluster(struct by_lab_cluster *cluster) {
  by_cli_close(&cluster->listener);
}

/* ---- services */

static enum banyan_status start_manager(const struct by_lab_cluster *cluster, struct by_lab_services *services,
                                        const char *topology, const char *at) {
  char keys[BY_LAB_PATH], state[BY_LAB_PATH], token[BY_LAB_PATH], page[16], *save;
  const char *command[MAX_ARGUMENTS] = {"banyan",       "manager",
                                        "--keys",       by_lab_folder_path(cluster->folder, "keys", keys),
                                        "--name",       cluster->topology->nodes[cluster->manager].name,
                                        "--state",      by_lab_folder_path(cluster->folder, "manager.db", state),
                                        "--token-file", by_lab_folder_path(cluster->folder, "token", token),
                                        "--listen",     at,
                                        "--http",       page,
                                        topology};
  int n = 0;
  snprintf(page, sizeof page, "fd:%d", BY_LAB_LISTENER);
  while (command[n]) n++;
  char *more = by_cli_print("%s", cluster->options->more ? cluster->options->more : "");
  for (char *word = strtok_r(more, " \t", &save); word && n < MAX_ARGUMENTS - 1; word = strtok_r(NULL, " \t", &save))
    command[n++] = word;
  const struct by_lab_service service = {
      .role = BY_LAB_MANAGER, .space = cluster->manager, .command = command, .listener = cluster->listener};
  enum banyan_status status = by_lab_services_start(services, &service);
  free(more);
  return status;
}

static enum banyan_status start_agent(struct by_lab_services *services, uint32_t node, const char *name,
                                      const char *manager, const char *keys) {
  /* The lab's links have queues by class themselves. */
  const char *const command[] = {"banyan", "agent",        "--manager", manager,    "--keys", keys, "--name",
                                 name,     "--interfaces", "eth*",      "--queues", "none",   NULL};
  const struct by_lab_service service = {.role = BY_LAB_AGENT, .space = node, .command = command, .listener = -1};
  return by_lab_services_start(services, &service);
}

/* Tells whether all nodes between hosts report their links. */
static bool can_be_found(const struct by_lab_layout *layout, enum by_lab_switch_kind switches) {
  for (uint32_t i = 0; i < layout->n_spaces; i++) {
    const struct by_node *node = &layout->topology->nodes[layout->spaces[i].node];
    if (layout->spaces[i].gate) return false;
    if (node->kind == BY_NODE_SWITCH && (!node->aggregates || switches == BY_LAB_SWITCHES_NONE)) return false;
  }
  return true;
}

static enum banyan_status write_topology(const struct by_lab_cluster *cluster, const struct by_lab_options *built) {
  struct by_text text = {0};
  enum banyan_status status = by_lab_print_topology(cluster->topology, built, &text);
  if (status == BANYAN_OK) status = by_lab_folder_write(cluster->folder, "cluster", &text);
  by_text_fini(&text);
  return status;
}

/* Starts the manager, the agents and the switches. */
static enum banyan_status start_cluster(const struct by_lab_cluster *cluster, const struct by_lab_layout *layout,
                                        const struct by_lab_options *built, enum by_lab_switch_kind switches,
                                        struct by_lab_services *services) {
  const struct by_topology *t = cluster->topology;
  char topology[BY_LAB_PATH], keys[BY_LAB_PATH], manager[PLACE_BYTES];
  bool tells = cluster->options->tells || !can_be_found(layout, switches);
  by_lab_folder_path(cluster->folder, "cluster", topology);
  by_lab_folder_path(cluster->folder, "keys", keys);
  snprintf(manager, sizeof manager, "%s:%d", t->nodes[cluster->manager].name, MANAGER_PORT);
  if (tells) BY_TRY(write_topology(cluster, built));
  BY_TRY(start_manager(cluster, services, tells ? topology : NULL, manager));
  BY_TRY(by_lab_services_await(services)); /* So that agents find it at once. */
  BY_TRY(by_lab_services_start_switches(services, switches, manager, keys));
  for (uint32_t v = 0; v < t->n_nodes; v++)
    if (t->nodes[v].kind == BY_NODE_HOST) BY_TRY(start_agent(services, v, t->nodes[v].name, manager, keys));
  return BANYAN_OK;
}

/* Prints the address of the page and how to ask for the state on standard error, after the manager is ready. */
static enum banyan_status print_cluster(const struct by_lab_cluster *cluster) {
  char path[BY_LAB_PATH], *token;
  size_t length;
  BY_TRY(by_read_file("token file", by_lab_folder_path(cluster->folder, "token", path), BY_LAB_PATH, &token, &length));
  token[strcspn(token, "\n")] = '\0';
  by_command_note("banyan lab: page at %s?token=%s", cluster->page, token);
  by_command_note("banyan lab: state by banyan status --manager %s --token-file %s", cluster->page, path);
  free(token);
  return BANYAN_OK;
}

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
    BY_FLAG("whole", 0, lab.whole, "give links their entire capacity; default: what others leave\nunused"),
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
    BY_INT("mtu", 0, lab.mtu, "BYTES", BY_LAB_MIN_MTU, BY_LAB_MAX_MTU, "largest size of an IP packet; default 1500"),
    BY_FLAG("ipv6", 0, lab.ipv6, "use IPv6 only; default: IPv4 only"),
    BY_SECONDS("burst", 0, lab.burst, "TIME", "burst that an idle link passes at once; default 1 ms"),
    BY_SECONDS("queue", 0, lab.queue, "TIME", "size of a link's queue, 256 KiB at least; default 50 ms"),
    BY_FLAG("fifo", 0, lab.fifo, "acknowledgements of TCP wait behind data; default: they\novertake data"),
    BY_FLAG("tos", 0, lab.by_tos,
            "give links a queue for each ToS class, as `banyan agent` does on\nhosts: higher classes first, at least 5 "
            "% for each"),
    BY_WORDS("job", 0, texts, "\"NAME [SETTING...]: COMMAND\"",
             "a job, instead of the one command; may be repeated. Settings:\nfrom=TIME and until=TIME after the start, "
             "hosts=HOST,...,\nranks=N on each host, plan=PLAN"),
    BY_FLAG("cluster", 0, clustered, "run a cluster's manager, which plans for the jobs, and an agent\non every host"),
    BY_TEXT("manager", 0, cluster.manager, "HOST",
            "with --cluster: host of the manager; default: the first that\ntakes no part in jobs, else the first"),
    BY_TEXT("manager-options", 0, cluster.more, "\"OPTION...\"", "with --cluster: options of `banyan manager`"),
    BY_FLAG("tell-topology", 0, cluster.tells,
            "with --cluster: give the manager the topology; default: the\nmanager derives it from agents' reports if "
            "all switches report"),
    BY_TEXT("http", 0, cluster.http, "ADDRESS:PORT",
            "with --cluster: where this machine reaches the manager's\npage; default 127.0.0.1 and any port"),
    BY_WORDS("at", 0, events, "\"TIME EVENT\"",
             "an event at this time after the start; may be repeated. Events:\nrate A B RATE, after which the link "
             "between A and B carries\nRATE; kill or start, with switch, agent or manager and its node;\nkill, with "
             "server or helper and its host"),
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
             "helper`, and hosts of its servers `banyan server`. The lab removes everything\n"
             "that it created, even if it is killed.\n"
             "\n"
             "With --job there are several jobs, each a shell command, which start and end\n"
             "when they are told to. With --cluster, a manager plans for them.\n"
             "\n"
             "Returns the exit code of the rank that failed first, as `banyan run` does.",
    .examples = "banyan lab star:4,nic=500m -- banyan bench --sizes 16M\n"
                "banyan lab net.json --scale 1/100 -n 2 -- python3 train.py\n"
                "banyan lab star:4 --cluster --job 'a hosts=h0,h1: banyan bench -s 1M'\n",
    .options = options,
    .min_operands = 1,
    .missing = "no topology: give a file, or a text such as star:4",
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
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "--switches: no switch of the topology aggregates; mark those that do with \"aggregates\": true");
  if (asked->clustered && asked->switches < 0 && adds) asked->switches = BY_LAB_SWITCHES_USER;
  asked->jobs.placed = asked->switches >= 0 && !asked->clustered;
  if (asked->jobs.servers && (!asked->jobs.placed || asked->jobs.plan))
    return by_fail(BANYAN_ERR_ARGUMENT, "--server selects hosts for servers of the plan that --switches makes%s",
                   asked->jobs.plan   ? "; the plan given has its own"
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
      return by_fail(BANYAN_ERR_ARGUMENT, "--at: with --scale, the rate in \"%.64s\" %s", asked->events.items[i],
                     banyan_error_text());
  }
  BY_TRY(by_lab_layout_make(s->topology, &asked->lab, &s->layout));
  forget_interfaces(s);
  if (asked->dry_run && s->operands.count < 2 && !asked->texts.count) return BANYAN_OK;
  BY_TRY(by_lab_folder_make(&s->folder));
  if (asked->clustered) BY_TRY(make_cluster(&asked->cluster, s->topology, &s->folder, &s->cluster));
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
  by_command_note("%s: one machine with all hosts cannot carry links of %s; --scale 1/%.0f makes them %s", command.name,
                  by_print_rate(max, text[0]), scale, by_print_rate(max / scale, text[1]));
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
  BY_TRY(s->asked.clustered ? start_cluster(&s->cluster, &s->layout, &s->asked.lab, kind, s->services)
                            : by_lab_services_start_switches(s->services, kind, NULL, NULL));
  BY_TRY(by_lab_services_await(s->services));
  return s->asked.clustered ? print_cluster(&s->cluster) : BANYAN_OK;
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
  free_cluster(&s->cluster);
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
