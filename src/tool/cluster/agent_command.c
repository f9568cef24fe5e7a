/* `banyan agent`: the daemon of each host of a cluster. */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "address.h"
#include "agent_daemon.h"
#include "agent_show.h"
#include "commands.h"
#include "hangup.h"
#include "loop.h"
#include "options.h"
#include "stop.h"
#include "tls_identity.h"

#define AGENT_SOCKET "/run/banyan/agent.sock"

struct agent_options {
  const char *socket, *group, *manager, *name, *interfaces, *rate, *queues, *keys, *order;
  double interval;
  long iterations;
  uint64_t threshold;
  bool no_helpers, json;
};

#define AT(member) offsetof(struct agent_options, member)

static const struct by_option options[] = {
    {"manager", 'm', BY_OPTION_TEXT, AT(manager), "HOST:PORT", "the cluster's manager (BANYAN_MANAGER); default: none",
     0, 0},
    {"keys", 0, BY_OPTION_TEXT, AT(keys), "FOLDER",
     "this agent's certificate and the authority's (BANYAN_KEYS), default\n" BY_TLS_FOLDER, 0, 0},
    {"socket", 0, BY_OPTION_TEXT, AT(socket), "PATH", "where ranks connect (BANYAN_AGENT), default\n" AGENT_SOCKET, 0,
     0},
    {"group", 0, BY_OPTION_TEXT, AT(group), "NAME", "only this group's users may connect; default: everybody", 0, 0},
    {"name", 0, BY_OPTION_TEXT, AT(name), "NAME", "this host's name, default: the machine's (BANYAN_HOST)", 0, 0},
    {"interfaces", 0, BY_OPTION_TEXT, AT(interfaces), "FILTER",
     "which are watched, as in BANYAN_IFACE; default: those\nthat are up, without the loopback's", 0, 0},
    {"rate", 0, BY_OPTION_TEXT, AT(rate), "RATE",
     "of this host's link, 10g; default: what the kernel and\nthe manager know", 0, 0},
    {"queues", 0, BY_OPTION_TEXT, AT(queues), "IF,IF,...",
     "which get queues by class: names, none, or auto (default):\nthe fastest, once its rate is known", 0, 0},
    {"interval", 0, BY_OPTION_SECONDS, AT(interval), "TIME",
     "between reports, until the manager says another; default 5 s", 0, 0},
    {"first-iterations", 0, BY_OPTION_INT, AT(iterations), "N",
     "without a manager: of a job are in the highest class;\ndefault 10", 0, 1000000000},
    {"threshold", 0, BY_OPTION_BYTES, AT(threshold), "BYTES",
     "without a manager: that a job has sent from here in the\nfirst queue after that; each lower one takes 4 times "
     "as\n"
     "many; default 10 GB",
     0, 0},
    {"order", 0, BY_OPTION_TEXT, AT(order), "first|share",
     "without a manager: of the jobs in one queue that have not\nsaid how long they are, who came first goes first, or "
     "they\nshare the link (default)",
     0, 0},
    {"no-helpers", 0, BY_OPTION_FLAG, AT(no_helpers), NULL, "this host helps no jobs that it has no rank of", 0, 0},
    {"json", 0, BY_OPTION_FLAG, AT(json), NULL, "with status: one JSON value", 0, 0},
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan agent",
    .usage = "[--manager HOST:PORT] | status [--json]",
    .about = "Stands for this host in a cluster: its ranks connect to it by themselves, and it\n"
             "tells the manager of them and of the network's use, and brings back plans and\n"
             "classes of priority. Without a manager it classes this host's jobs alone: the\n"
             "first iterations of a job go first, after that who has least left, or has sent\n"
             "least where a job has not said how long it is.\n"
             "\n"
             "As root (CAP_NET_ADMIN) it sets the host's queues, so that classes count, and\n"
             "removes them when it ends; without that right it says so and goes on. Starts\n"
             "helpers where the manager wants them.\n"
             "\n"
             "Stays until SIGTERM or SIGINT. Jobs never wait for it: while it is away, they go\n"
             "on as they are, and come back when it does. A certificate, key and ca.crl that\n"
             "have changed are read within 10 s, or at once on SIGHUP.\n"
             "\n"
             "`banyan agent status` shows what the agent of this host knows.\n"
             "\n"
             "Returns 0 when it was told to end, 1 when it could not start.",
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

static const char *said_or(const char *option, const char *variable, const char *preset) {
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
  const char *name = said_or(asked, "BANYAN_HOST", NULL);
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
  by_hangup_end();
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
  int exit_code;
  if (!by_options_parse(&command, argc, argv, &asked, &operands, &exit_code)) return exit_code;
  asked.manager = said_or(asked.manager, "BANYAN_MANAGER", NULL);
  asked.socket = said_or(asked.socket, "BANYAN_AGENT", AGENT_SOCKET);
  if (!strcmp(asked.socket, "off")) asked.socket = AGENT_SOCKET; /* which is for jobs */
  asked.interfaces = said_or(asked.interfaces, "BANYAN_IFACE", "");
  asked.queues = asked.queues ? asked.queues : "auto";
  if (operands.count && strcmp(operands.items[0], "status") != 0)
    return by_options_misuse(&command, "\"%s\" is nothing to do; there is status", operands.items[0]);
  if (operands.count)
    return by_agent_show(asked.socket, asked.json) == BANYAN_OK ? 0 : by_options_failure(&command, banyan_error_text());
  if (asked.json) return by_options_misuse(&command, "--json is for `banyan agent status`");
  if (check(&asked, &wanted) != BANYAN_OK) return by_options_misuse(&command, "%s", banyan_error_text());
  return work(&asked, &wanted) == BANYAN_OK ? 0 : by_options_failure(&command, banyan_error_text());
}
