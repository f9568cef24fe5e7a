/* `banyan agent`: the daemon of each host of a cluster. */
#include <errno.h>
#include <grp.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "agent_daemon.h"
#include "commands.h"
#include "fail.h"
#include "json_doc.h"
#include "output.h"
#include "process.h"
#include "status_print.h"
#include "text.h"
#include "tls_identity.h"

/* ---- `banyan agent status`: the state of this host's agent */

enum { MAX_ANSWER = 1 << 22, DAY = 24 * 60 * 60 };

static bool is_true(const json_t *object, const char *field) {
  return json_is_true(json_object_get(object, field));
}

static void show_head(const json_t *status) {
  const json_t *manager = json_object_get(status, "manager"), *counters = json_object_get(status, "counters");
  double reports = by_json_number(counters, "reports");
  char up[32];
  printf("host %s, version %s, up %s; %.0f report%s, %.0f refused\n", by_status_text(status, "host"),
         by_status_text(status, "version"), by_print_seconds(by_json_number(status, "seconds"), up), reports,
         by_plural(reports), by_json_number(counters, "refused"));
  if (!manager)
    printf("no manager: classes depend on what this host sends\n");
  else
    printf("manager %s: %s for %s%s%s\n", by_status_text(manager, "address"),
           is_true(manager, "connected") ? "connected" : "not connected",
           by_print_seconds(by_json_number(manager, "for"), up), json_object_get(manager, "why") ? ": " : "",
           json_object_get(manager, "why") ? by_status_text(manager, "why") : "");
  if (!json_object_get(manager, "certificate_expires")) return;
  double left = floor((by_json_number(manager, "certificate_expires") - (double)time(NULL)) / DAY);
  if (left < 0)
    printf("the certificate HAS EXPIRED; see `banyan keys --help`\n");
  else
    printf("the certificate is valid for %.0f day%s%s\n", left, by_plural(left),
           left < BY_TLS_SOON ? "; `banyan keys renew` makes a new one" : "");
}

static void show_interface(const json_t *interface) {
  char rate[32], sent[32], received[32], ours[32];
  bool linked = json_object_get(interface, "neighbour") != NULL;
  printf("  %s %s: link %s%s%s%s%s, sends %s (jobs %s), receives %s%s\n", by_status_text(interface, "name"),
         by_status_text(interface, "address"),
         by_json_number(interface, "rate") > 0 ? by_print_rate(by_json_number(interface, "rate"), rate) : "?",
         linked ? " to " : "", linked ? by_status_text(interface, "neighbour_port") : "", linked ? " of " : "",
         linked ? by_status_text(interface, "neighbour") : "", by_print_rate(by_json_number(interface, "sent"), sent),
         by_print_rate(by_json_number(interface, "ours_sent"), ours),
         by_print_rate(by_json_number(interface, "received"), received),
         is_true(interface, "queues") ? ", queues by class" : "");
}

static void show_job(const json_t *job) {
  const json_t *ranks = json_object_get(job, "ranks");
  char time[32], sent[32], expected[32] = "";
  if (by_json_number(job, "expected")) snprintf(expected, sizeof expected, " of %.0f", by_json_number(job, "expected"));
  bool timed = by_json_number(job, "iteration_time") > 0;
  printf("  %s %s: class %.0f (by the %s), %.0f%s iterations%s%s, %s sent, ranks", by_status_text(job, "job"),
         json_object_get(job, "name") ? by_status_text(job, "name") : "", by_json_number(job, "class"),
         by_status_text(job, "classed_by"), by_json_number(job, "iterations"), expected, timed ? " of " : "",
         timed ? by_print_seconds(by_json_number(job, "iteration_time"), time) : "",
         by_print_bytes((uint64_t)by_json_number(job, "sent"), sent));
  for (size_t i = 0; i < json_array_size(ranks); i++)
    printf("%s %lld", i ? "," : "", json_integer_value(json_array_get(ranks, i)));
  printf("\n");
}

static void show_helper(const json_t *helper) {
  printf("  %s as %s: %s\n", by_status_text(helper, "job"), by_status_text(helper, "name"),
         is_true(helper, "joined") ? "joined" : "is joining");
}

static void show_server(const json_t *server) {
  printf("  %s as %s: %.0f trees, %s\n", by_status_text(server, "job"), by_status_text(server, "name"),
         by_json_number(server, "trees"), is_true(server, "joined") ? "joined" : "joining");
}

static void show_list(const json_t *status, const char *field, const char *title, void (*show)(const json_t *)) {
  const json_t *list = json_object_get(status, field);
  if (!json_array_size(list)) return;
  printf("%s:\n", title);
  for (size_t i = 0; i < json_array_size(list); i++) show(json_array_get(list, i));
}

static enum banyan_status read_answer(const char *line, size_t length, json_t **out) {
  static const struct by_doc_limits limits = {.bytes = MAX_ANSWER, .containers = 65536, .elements = 262144};
  return by_doc_load("the agent's answer", line, length, &limits, out);
}

const char *by_agent_socket(void) {
  const char *path = getenv("BANYAN_AGENT");
  return path && *path && strcmp(path, "off") != 0 ? path : BY_CLUSTER_AGENT;
}

enum banyan_status by_agent_status(const char *path, bool json) {
  const struct by_status_question question = {.name = "agent",
                                              .place = {.path = path},
                                              .line = "{\"type\":\"status\"}",
                                              .max = MAX_ANSWER,
                                              .read = read_answer};
  json_t *status;
  BY_TRY(by_status_ask(&question, &status));
  if (!json || !by_print_json(status)) {
    show_head(status);
    show_list(status, "interfaces", "interfaces", show_interface);
    show_list(status, "jobs", "jobs", show_job);
    show_list(status, "helpers", "helps", show_helper);
    show_list(status, "servers", "serves", show_server);
  }
  json_decref(status);
  return BANYAN_OK;
}

struct agent_options {
  struct by_agent_daemon_options daemon;
  struct by_agent_daemon *running;
  const char *group, *name, *rate, *order;
  long iterations;
  bool no_helpers, no_servers, json;
  char host[BY_CLUSTER_NAME + 1];
};

#define VALUES struct agent_options

static const struct by_option options[] = {
    BY_TEXT("manager", 'm', daemon.agent.manager, "HOST:PORT", "the cluster's manager (BANYAN_MANAGER); default: none"),
    BY_TEXT("keys", 0, daemon.keys, "FOLDER",
            "this agent's certificate and the authority's (BANYAN_KEYS), default\n" BY_TLS_FOLDER),
    BY_TEXT("socket", 0, daemon.socket.path, "PATH", "where ranks connect (BANYAN_AGENT), default\n" BY_CLUSTER_AGENT),
    BY_TEXT("group", 0, group, "NAME", "only users of this group may connect; default: everybody"),
    BY_TEXT("name", 0, name, "NAME", "this host's name; default: the host name (BANYAN_HOST)"),
    BY_TEXT("interfaces", 0, daemon.links.filter, "FILTER",
            "interfaces to watch, as in BANYAN_IFACE, also without an\naddress; default: those that are up and have "
            "one, without\nloopback"),
    BY_TEXT(
        "rate", 0, rate, "RATE",
        "rate of this host's link, 10g, or of several, IF=RATE,...;\ndefault: as the kernel and the manager report it"),
    BY_TEXT("queues", 0, daemon.links.queues, "IF,IF,...",
            "interfaces with queues by class: names, none, or auto\n(default): the fastest, once its rate is known"),
    BY_SECONDS("interval", 0, daemon.agent.interval, "TIME",
               "time between reports, until the manager sets another; default\n5 s"),
    BY_INT("first-iterations", 0, iterations, "N", 0, 1000000000,
           "without a manager: number of a job's first iterations in the\nhighest class; default 10"),
    BY_BYTES("threshold", 0, daemon.agent.rules.threshold, "BYTES",
             "without a manager: bytes that a job may send from here before\nit leaves the first queue; each lower "
             "queue takes 4 times as\nmany; default 10 GB"),
    BY_TEXT("order", 0, order, "first|share",
            "without a manager: jobs of one queue that have not announced\ntheir length are served in the order of "
            "arrival, or share the\nlink (default)"),
    BY_FLAG("no-helpers", 0, no_helpers, "run no helpers on this host"),
    BY_FLAG("no-servers", 0, no_servers, "run no servers of trees through switches on this host"),
    BY_FLAG("json", 0, json, "with status: one JSON value"),
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan agent",
    .usage = "[--manager HOST:PORT] | status [--json]",
    .about = "Represents this host in a cluster. Ranks connect to it automatically. It\n"
             "reports them and the use of the network to the manager, and passes plans and\n"
             "priority classes to the ranks. Without a manager it assigns classes on its own,\n"
             "to this host's jobs: a job's first iterations have priority, then jobs with the\n"
             "least left to send, or, if they have not announced their length, with the least\n"
             "sent so far.\n"
             "\n"
             "As root (CAP_NET_ADMIN) it configures the host's queues, so that classes take\n"
             "effect, and removes them when it exits. Without this privilege it logs a\n"
             "message and continues. It starts helpers and servers where the manager requests\n"
             "them. It sends and receives LLDP (CAP_NET_RAW), so that the manager knows how\n"
             "hosts are linked.\n"
             "\n"
             "It runs until SIGTERM or SIGINT. Jobs never wait for it: while it is down they\n"
             "continue, and they reconnect after its restart. It reads a changed certificate,\n"
             "key or ca.crl within 10 s, or at once on SIGHUP.\n"
             "\n"
             "`banyan agent status` shows the state of this host's agent.\n"
             "\n"
             "Returns 0 when it was terminated by a signal, 1 when it could not start.",
    .first = "status",
    .options = options,
    .max_operands = 1,
};

/* ---- options */

static const char *text_or(const char *option, const char *variable, const char *preset) {
  const char *value = option ? option : getenv(variable);
  return value && *value ? value : preset;
}

enum banyan_status by_cluster_host_name(const char *option, char out[BY_CLUSTER_NAME + 1]) {
  const char *name = text_or(option, "BANYAN_HOST", NULL);
  if (!name && gethostname(out, BY_CLUSTER_NAME)) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "no host name");
  if (name) snprintf(out, BY_CLUSTER_NAME + 1, "%s", name);
  if (*out && by_is_printable(out, BY_CLUSTER_NAME)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "the host's name must have 1 to %d bytes without control characters; use --name",
                 BY_CLUSTER_NAME);
}

static enum banyan_status find_group(const char *name, long *out) {
  *out = -1;
  if (!name) return BANYAN_OK;
  errno = 0;
  const struct group *group = getgrnam(name);
  if (!group && errno && errno != ENOENT)
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "--group: cannot look \"%s\" up", name);
  if (!group) return by_fail(BANYAN_ERR_ARGUMENT, "--group: there is no group \"%s\" on this machine", name);
  *out = group->gr_gid;
  return BANYAN_OK;
}

static enum banyan_status check_options(struct agent_options *asked) {
  struct by_agent_options *agent = &asked->daemon.agent;
  char host[BY_HOST_TEXT];
  int port;
  if (agent->manager && by_address_split(agent->manager, host, &port) != BANYAN_OK)
    return by_fail_within(BANYAN_ERR_ARGUMENT, "--manager");
  if (by_host_links_parse_rates(asked->rate, &asked->daemon.links) != BANYAN_OK)
    return by_fail_within(BANYAN_ERR_ARGUMENT, "--rate");
  if (!(agent->interval >= 0.01 && agent->interval <= 3600))
    return by_fail(BANYAN_ERR_ARGUMENT, "--interval must be 10ms to 3600 s, is %g s", agent->interval);
  agent->rules.iterations = (uint64_t)asked->iterations;
  BY_TRY(by_priority_parse_order(asked->order, &agent->rules.equal));
  BY_TRY(find_group(asked->group, &asked->daemon.group));
  asked->daemon.socket.mode = asked->group ? 0660 : 0666;
  agent->may_help = !asked->no_helpers;
  agent->may_serve = !asked->no_servers;
  agent->host = asked->host;
  return by_cluster_host_name(asked->name, asked->host);
}

/* ---- running */

static enum banyan_status start_agent(void *context, struct by_loop *loop) {
  struct agent_options *asked = context;
  asked->daemon.loop = loop;
  BY_TRY(by_agent_daemon_create(&asked->daemon, &asked->running));
  by_command_note("%s: ready: host %s, ranks connect at %s, manager %s", command.name, asked->host,
                  asked->daemon.socket.path, asked->daemon.agent.manager ? asked->daemon.agent.manager : "none");
  return BANYAN_OK;
}

static void read_again(void *context) {
  const struct agent_options *asked = context;
  by_agent_daemon_renew(asked->running);
}

static void stop_agent(void *context) {
  const struct agent_options *asked = context;
  by_agent_daemon_destroy(asked->running);
}

int by_cli_agent(int argc, char **argv) {
  static const struct by_service service = {.start = start_agent, .again = read_again, .stop = stop_agent};
  struct agent_options asked = {.daemon = {.socket = {.program = "agent", .option = "--socket PATH"},
                                           .agent = {.interval = 5, .rules = by_priority_defaults()},
                                           .links = {.queues = "auto"},
                                           .program = "/proc/self/exe"},
                                .order = "share",
                                .iterations = (long)by_priority_defaults().iterations};
  struct by_operands operands;
  int exit_code = by_options_parse(&command, argc, argv, &asked, &operands);
  if (exit_code >= 0) return exit_code;
  const char **socket = &asked.daemon.socket.path;
  asked.daemon.agent.manager = text_or(asked.daemon.agent.manager, "BANYAN_MANAGER", NULL);
  asked.daemon.links.filter = text_or(asked.daemon.links.filter, "BANYAN_IFACE", "");
  if (!*socket) *socket = by_agent_socket();
  if (operands.count && strcmp(operands.items[0], "status") != 0)
    return by_options_misuse(&command, "unknown action \"%s\"; the only one is status", operands.items[0]);
  if (operands.count) return by_command_end(&command, by_agent_status(*socket, asked.json));
  if (asked.json) return by_options_misuse(&command, "--json is for `banyan agent status`");
  if (check_options(&asked) != BANYAN_OK) return by_command_misused(&command);
  return by_command_end(&command, by_service_run(&service, &asked));
}
