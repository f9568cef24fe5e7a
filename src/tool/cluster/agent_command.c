/* `banyan agent`: the daemon of each host of a cluster. */
#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "agent_daemon.h"
#include "clock.h"
#include "commands.h"
#include "fail.h"
#include "json_doc.h"
#include "localsocket.h"
#include "loop.h"
#include "output.h"
#include "process.h"
#include "text.h"
#include "tls_identity.h"

/* ---- The state of this host's agent, for `banyan agent status`. */

enum { MOST = 1 << 22, TIMEOUT_MS = 5000, DAY = 24 * 60 * 60 };

/* ---- asking */

/* Receives until the end of the line, at most TIMEOUT_MS. */
static enum banyan_status receive(int fd, struct by_text *out) {
  char bytes[16384];
  uint64_t until = by_clock_now(&by_clock_system) + TIMEOUT_MS * BY_MILLISECOND;
  while (out->length < MOST && !memchr(by_text_get(out), '\n', out->length)) {
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    uint64_t now = by_clock_now(&by_clock_system);
    if (now >= until || poll(&wait, 1, (int)((until - now) / BY_MILLISECOND) + 1) == 0)
      return by_fail(BANYAN_ERR_TIMEOUT, "the agent does not answer within %d s", TIMEOUT_MS / 1000);
    ssize_t n = read(fd, bytes, sizeof bytes);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
      return by_fail(BANYAN_ERR_PEER_DEAD, "the agent ended the connection without an answer; see what it logs");
    if (n > 0) by_text_add(out, "%.*s", (int)n, bytes);
  }
  return out->failed ? by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the agent's answer") : BANYAN_OK;
}

static enum banyan_status ask(const char *path, json_t **out) {
  static const char question[] = "{\"type\":\"status\"}\n";
  static const struct by_doc_limits limits = {.bytes = MOST, .containers = 65536, .elements = 262144};
  struct by_text answer = {0};
  int fd;
  BY_TRY(by_path_socket_connect(path, "agent", &fd));
  enum banyan_status status = BANYAN_OK;
  if (write(fd, question, sizeof question - 1) != sizeof question - 1)
    status = by_fail_errno(BANYAN_ERR_CONNECT, errno, "cannot ask the agent at %s", path);
  if (status == BANYAN_OK) status = receive(fd, &answer);
  if (status == BANYAN_OK)
    status = by_doc_load("the agent's answer", by_text_get(&answer), answer.length, &limits, out);
  by_text_fini(&answer);
  close(fd);
  return status;
}

/* ---- showing: what is missing or something else is nothing */

static const char *text_of(const json_t *object, const char *field) {
  const char *text = json_string_value(json_object_get(object, field));
  return text && by_is_printable(text, 2000) ? text : "?";
}

static double real(const json_t *object, const char *field) {
  return json_number_value(json_object_get(object, field));
}

static unsigned long long count(const json_t *object, const char *field) {
  return (unsigned long long)json_integer_value(json_object_get(object, field));
}

static bool is(const json_t *object, const char *field) {
  return json_is_true(json_object_get(object, field));
}

static void show_certificate(const json_t *manager) {
  long long left = json_integer_value(json_object_get(manager, "certificate_expires")) - (long long)time(NULL);
  if (left < 0)
    printf("the certificate HAS EXPIRED; see `banyan keys --help`\n");
  else
    printf("the certificate is valid for %lld days%s\n", left / DAY,
           left < BY_TLS_SOON * DAY ? "; `banyan keys renew` makes a new one" : "");
}

static void show_head(const json_t *status) {
  const json_t *manager = json_object_get(status, "manager"), *counters = json_object_get(status, "counters");
  char time[32];
  printf("host %s, version %s, up %s; %llu reports, %llu refused\n", text_of(status, "host"),
         text_of(status, "version"), by_print_seconds(real(status, "seconds"), time), count(counters, "reports"),
         count(counters, "refused"));
  if (!manager)
    printf("no manager: classes are decided from what this host sends\n");
  else
    printf("manager %s: %s for %s%s%s\n", text_of(manager, "address"),
           is(manager, "connected") ? "connected" : "not connected", by_print_seconds(real(manager, "for"), time),
           json_object_get(manager, "why") ? ": " : "", json_object_get(manager, "why") ? text_of(manager, "why") : "");
  if (json_object_get(manager, "certificate_expires")) show_certificate(manager);
}

static void show_interface(const json_t *interface) {
  char rate[32], sent[32], received[32], ours[32];
  printf("  %s %s: link %s, sends %s (jobs %s), receives %s%s\n", text_of(interface, "name"),
         text_of(interface, "address"),
         real(interface, "rate") > 0 ? by_print_rate(real(interface, "rate"), rate) : "?",
         by_print_rate(real(interface, "sent"), sent), by_print_rate(real(interface, "ours_sent"), ours),
         by_print_rate(real(interface, "received"), received), is(interface, "queues") ? ", queues by class" : "");
}

static void show_job(const json_t *job) {
  const json_t *ranks = json_object_get(job, "ranks");
  char time[32], sent[32], expected[32] = "";
  if (count(job, "expected")) snprintf(expected, sizeof expected, " of %llu", count(job, "expected"));
  bool timed = real(job, "iteration_time") > 0;
  printf("  %s %s: class %llu (by the %s), %llu%s iterations%s%s, %s sent, ranks", text_of(job, "job"),
         json_object_get(job, "name") ? text_of(job, "name") : "", count(job, "class"), text_of(job, "classed_by"),
         count(job, "iterations"), expected, timed ? " of " : "",
         timed ? by_print_seconds(real(job, "iteration_time"), time) : "", by_print_bytes(count(job, "sent"), sent));
  for (size_t i = 0; i < json_array_size(ranks); i++)
    printf("%s %lld", i ? "," : "", json_integer_value(json_array_get(ranks, i)));
  printf("\n");
}

static void show_helper(const json_t *helper) {
  printf("  %s as %s: %s\n", text_of(helper, "job"), text_of(helper, "name"),
         is(helper, "joined") ? "joined" : "is joining");
}

static void show_list(const json_t *status, const char *field, const char *title, void (*show)(const json_t *)) {
  const json_t *list = json_object_get(status, field);
  if (!json_array_size(list)) return;
  printf("%s:\n", title);
  for (size_t i = 0; i < json_array_size(list); i++) show(json_array_get(list, i));
}

static void show(const json_t *status) {
  show_head(status);
  show_list(status, "interfaces", "interfaces", show_interface);
  show_list(status, "jobs", "jobs", show_job);
  show_list(status, "helpers", "helps", show_helper);
}

/* Asks the agent at a socket, for 5 s at most, and prints its answer. */
static enum banyan_status show_status(const char *path, bool json) {
  json_t *status;
  BY_TRY(ask(path, &status));
  if (!json || !by_print_json(status)) show(status);
  json_decref(status);
  return BANYAN_OK;
}

#define AGENT_SOCKET "/run/banyan/agent.sock"

struct agent_options {
  const char *socket, *group, *manager, *name, *interfaces, *rate, *queues, *keys, *order;
  double interval;
  long iterations;
  uint64_t threshold;
  bool no_helpers, json;
};

#define VALUES struct agent_options

static const struct by_option options[] = {
    BY_TEXT("manager", 'm', manager, "HOST:PORT", "the cluster's manager (BANYAN_MANAGER); default: none"),
    BY_TEXT("keys", 0, keys, "FOLDER",
            "this agent's certificate and the authority's (BANYAN_KEYS), default\n" BY_TLS_FOLDER),
    BY_TEXT("socket", 0, socket, "PATH", "where ranks connect (BANYAN_AGENT), default\n" AGENT_SOCKET),
    BY_TEXT("group", 0, group, "NAME", "only users of this group may connect; default: everybody"),
    BY_TEXT("name", 0, name, "NAME", "this host's name; default: the host name (BANYAN_HOST)"),
    BY_TEXT("interfaces", 0, interfaces, "FILTER",
            "interfaces to watch, as in BANYAN_IFACE; default: those that\nare up, without loopback"),
    BY_TEXT("rate", 0, rate, "RATE",
            "rate of this host's link, 10g; default: as the kernel and the\nmanager report it"),
    BY_TEXT("queues", 0, queues, "IF,IF,...",
            "interfaces with queues by class: names, none, or auto\n(default): the fastest, once its rate is known"),
    BY_SECONDS("interval", 0, interval, "TIME", "time between reports, until the manager sets another; default\n5 s"),
    BY_INT("first-iterations", 0, iterations, "N", 0, 1000000000,
           "without a manager: number of a job's first iterations in the\nhighest class; default 10"),
    BY_BYTES("threshold", 0, threshold, "BYTES",
             "without a manager: bytes that a job may send from here before\nit leaves the first queue; each lower "
             "queue takes 4 times as\nmany; default 10 GB"),
    BY_TEXT("order", 0, order, "first|share",
            "without a manager: jobs of one queue that have not announced\ntheir length are served in the order of "
            "arrival, or share the\nlink (default)"),
    BY_FLAG("no-helpers", 0, no_helpers, "run no helpers on this host"),
    BY_FLAG("json", 0, json, "with status: one JSON value"),
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan agent",
    .usage = "[--manager HOST:PORT] | status [--json]",
    .about = "Represents this host in a cluster. Ranks connect to it automatically. It reports\n"
             "them and the use of the network to the manager, and passes plans and priority\n"
             "classes to the ranks. Without a manager it assigns classes to this host's jobs\n"
             "alone: the first iterations of a job have priority, then jobs with the least\n"
             "left to send, or, if a job has not announced its length, the least sent.\n"
             "\n"
             "As root (CAP_NET_ADMIN) it configures the host's queues, so that classes take\n"
             "effect, and removes them when it exits. Without this privilege it logs that, and\n"
             "continues. It starts helpers where the manager requests them.\n"
             "\n"
             "It stays until SIGTERM or SIGINT. Jobs never wait for it: while it is away they\n"
             "continue, and they reconnect when it is back. It reads a changed certificate,\n"
             "key or ca.crl within 10 s, or at once on SIGHUP.\n"
             "\n"
             "`banyan agent status` shows the state of this host's agent.\n"
             "\n"
             "Returns 0 when it was terminated by a signal, 1 when it could not start.",
    .options = options,
    .most_operands = 1,
};

/* What was asked, in the agent's terms. */
struct wanted {
  double rate;
  long group;
  struct by_priority_rules rules;
  char host[BY_CLUSTER_NAME + 1];
};

/* ---- what was asked */

static const char *text_or(const char *option, const char *variable, const char *preset) {
  const char *value = option ? option : getenv(variable);
  return value && *value ? value : preset;
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

static enum banyan_status name_host(const char *asked, char out[BY_CLUSTER_NAME + 1]) {
  const char *name = text_or(asked, "BANYAN_HOST", NULL);
  if (!name && gethostname(out, BY_CLUSTER_NAME)) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "no host name");
  if (name) snprintf(out, BY_CLUSTER_NAME + 1, "%s", name);
  if (*out && by_is_printable(out, BY_CLUSTER_NAME)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "the host's name must have 1 to %d bytes without control characters; use --name",
                 BY_CLUSTER_NAME);
}

static enum banyan_status check(const struct agent_options *asked, struct wanted *out) {
  char host[BY_HOST_TEXT];
  int port;
  if (asked->manager && by_address_split(asked->manager, host, &port) != BANYAN_OK)
    return by_fail_within(BANYAN_ERR_ARGUMENT, "--manager");
  if (asked->rate && by_parse_rate(asked->rate, &out->rate) != BANYAN_OK)
    return by_fail_within(BANYAN_ERR_ARGUMENT, "--rate");
  if (!(asked->interval >= 0.01 && asked->interval <= 3600))
    return by_fail(BANYAN_ERR_ARGUMENT, "--interval must be 10ms to 3600 s, is %g s", asked->interval);
  out->rules = (struct by_priority_rules){.iterations = (uint64_t)asked->iterations, .threshold = asked->threshold};
  BY_TRY(by_priority_parse_order(asked->order, &out->rules.equal));
  BY_TRY(find_group(asked->group, &out->group));
  return name_host(asked->name, out->host);
}

/* ---- doing it */

static void read_again(void *context) {
  by_agent_daemon_renew(context);
}

static enum banyan_status run(const struct agent_options *asked, const struct wanted *wanted, struct by_loop *loop) {
  struct by_agent_daemon *daemon;
  struct by_agent_daemon_options of_daemon = {
      .loop = loop,
      .socket = {.path = asked->socket, .who = "agent", .option = "--socket PATH", .mode = asked->group ? 0660 : 0666},
      .group = wanted->group,
      .agent = {.host = wanted->host,
                .manager = asked->manager,
                .may_help = !asked->no_helpers,
                .interval = asked->interval,
                .rules = wanted->rules},
      .links = {.filter = asked->interfaces, .queues = asked->queues, .rate = wanted->rate},
      .keys = asked->keys,
      .program = "/proc/self/exe"};
  BY_TRY(by_agent_daemon_create(&of_daemon, &daemon));
  enum banyan_status status = by_hangup_call(loop, read_again, daemon);
  fprintf(stderr, "%s: ready: host %s, ranks connect at %s, manager %s\n", command.name, wanted->host, asked->socket,
          asked->manager ? asked->manager : "none");
  if (status == BANYAN_OK) status = by_loop_run(loop);
  by_agent_daemon_destroy(daemon);
  return status;
}

static enum banyan_status work(const struct agent_options *asked, const struct wanted *wanted) {
  struct by_loop *loop;
  struct rlimit files;
  by_allow_files(&files); /* one for each rank of this host, and some */
  BY_TRY(by_loop_create(&by_clock_system, &loop));
  by_stop_loop_on_signals(loop);
  enum banyan_status status = run(asked, wanted, loop);
  by_stop_loop_on_signals(NULL);
  by_loop_destroy(loop);
  return status;
}

int by_cli_agent(int argc, char **argv) {
  struct by_priority_rules usual = by_priority_usual();
  struct agent_options asked = {
      .order = "share", .interval = 5, .iterations = (long)usual.iterations, .threshold = usual.threshold};
  struct by_operands operands;
  struct wanted wanted = {0};
  int exit_code = by_options_parse(&command, argc, argv, &asked, &operands);
  if (exit_code >= 0) return exit_code;
  asked.manager = text_or(asked.manager, "BANYAN_MANAGER", NULL);
  asked.socket = text_or(asked.socket, "BANYAN_AGENT", AGENT_SOCKET);
  if (!strcmp(asked.socket, "off")) asked.socket = AGENT_SOCKET; /* which is for jobs */
  asked.interfaces = text_or(asked.interfaces, "BANYAN_IFACE", "");
  asked.queues = asked.queues ? asked.queues : "auto";
  if (operands.count && strcmp(operands.items[0], "status") != 0)
    return by_options_misuse(&command, "\"%s\" is nothing to do; there is status", operands.items[0]);
  if (operands.count) return by_command_end(&command, show_status(asked.socket, asked.json));
  if (asked.json) return by_options_misuse(&command, "--json is for `banyan agent status`");
  if (check(&asked, &wanted) != BANYAN_OK) return by_command_misused(&command);
  return by_command_end(&command, work(&asked, &wanted));
}
