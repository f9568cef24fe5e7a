/* `banyan manager`: the manager of a cluster. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands.h"
#include "embed.h"
#include "manager_server.h"
#include "plan.h"
#include "process.h"
#include "status_print.h"
#include "text.h"
#include "tls_identity.h"
#include "topology_formats.h"
#include "web_server.h"

#define FOLDER "/var/lib/banyan"
#define STATE_FILE FOLDER "/manager.db"

struct manager_options {
  struct by_manager_server_options server;
  struct by_web_page_options page;
  const char *topology, *listen, *keys, *name, *order, *ways, *penalty;
  long iterations, gain, first, threads, steps, trees, queues;
};

enum { MAX_QUEUES = 8 };

#define VALUES struct manager_options

static const struct by_option options[] = {
    BY_FLAG("trust-topology", 0, server.trust, "use TOPOLOGY even if agents' reports contradict it"),
    BY_TEXT("listen", 0, listen, "ADDRESS:PORT",
            "where agents and ranks connect; default: port 7650 of\nall addresses"),
    BY_TEXT("keys", 0, keys, "FOLDER",
            "folder with the manager's certificate (BANYAN_KEYS); see\n`banyan keys --help`"),
    BY_TEXT("name", 0, name, "NAME", "name of the certificate, if the folder has those of several\nmanagers"),
    BY_TEXT("state", 0, server.state, "FILE", "file for its state, which survives a restart; default\n" STATE_FILE),
    BY_SECONDS("interval", 0, server.manager.interval, "TIME", "time between reports of an agent; default 2 s"),
    BY_SECONDS("replan", 0, server.manager.replan, "TIME", "time after which each job is planned again; default 60 s"),
    BY_INT("replan-iterations", 0, iterations, "N", 0, 1L << 40,
           "number of iterations after which a job is also planned again;\ndefault: no limit"),
    BY_INT("gain", 0, gain, "PERCENT", 0, 1000,
           "smallest gain in throughput for which a job changes its plan;\ndefault 5"),
    BY_TEXT("helpers", 0, server.manager.helpers, "HOST,HOST,...",
            "hosts on which helpers for other hosts' jobs may be started,\nunless their agents have --no-helpers: "
            "names, none, or all\n(default)"),
    BY_TEXT("servers", 0, server.manager.servers, "HOST,HOST,...",
            "hosts on which servers of trees through switches may be started,\nunless their agents have --no-servers: "
            "names, none, or all\n(default)"),
    BY_TEXT("ways", 0, ways, "WAY,WAY,...",
            "what plans may use: ring, tree, helpers, switches; default:\nall of them. Jobs may use fewer "
            "(BANYAN_PLANNER)"),
    BY_TEXT("tree-penalty", 0, penalty, "PART",
            "relative gain for which a plan gets one more tree; default 0.01\n(BANYAN_PLANNER)"),
    BY_INT("steps", 0, steps, "N", 1, BY_EMBED_MAX_STEPS,
           "smallest step of trees' weights, 1/N; default 16\n(BANYAN_PLANNER)"),
    BY_INT("trees", 0, trees, "N", 1, BY_CLUSTER_TREES,
           "largest number of trees of a plan for one buffer size; default 8\n(BANYAN_PLANNER)"),
    BY_INT("queues", 0, queues, "N", 1, MAX_QUEUES,
           "split each tree through switches into N, which N cores of a\nuser-space switch process in parallel; "
           "default 1"),
    BY_FLAG("replace-plans", 0, server.manager.replaces,
            "also replace plans that users set; default: only those of jobs\nwith BANYAN_REPLACE_PLAN=1"),
    BY_INT("first-iterations", 0, first, "N", 0, 1L << 40,
           "number of a job's first iterations in the highest class;\ndefault 10"),
    BY_BYTES("threshold", 0, server.manager.rules.threshold, "BYTES",
             "bytes that a job may send before it leaves the first queue;\neach lower queue takes 4 times as many; "
             "default 10 GB"),
    BY_TEXT("order", 0, order, "first|share",
            "jobs of one queue that have not announced their length are\nserved in the order of arrival, or share "
            "links (default)"),
    BY_TEXT("http", 0, page.at, "ADDRESS:PORT",
            "serve the page, the state and metrics here, such as\n127.0.0.1:8420, or fd:3 for an inherited socket that "
            "listens;\ndefault: not at all"),
    BY_TEXT("token-file", 0, page.token_file, "FILE",
            "file with the page's token, created if missing; default\n" BY_MANAGER_TOKEN_FILE),
    BY_TEXT("http-certificate", 0, page.certificate, "FILE", "certificate for HTTPS (PEM); with --http-key"),
    BY_TEXT("http-key", 0, page.key, "FILE", "key of this certificate"),
    BY_INT("threads", 0, threads, "N", 1, 64, "number of planning threads; default 2"),
    {.name = NULL},
};

/* Letters that mean something else in other commands. */
static const struct by_habit habits[] = {{"-l", "--listen ADDRESS:PORT"}, {"-k", "--keys FOLDER"}, {NULL, NULL}};

static const struct by_command command = {
    .name = "banyan manager",
    .usage = "[TOPOLOGY] [--listen ADDRESS:PORT] [--keys FOLDER] [--state FILE] | status [URL]",
    .about = "Manages a cluster. The agents of its hosts (`banyan agent`) report which jobs\n"
             "run and how much of each link is in use. The manager gives each job trees that\n"
             "fit the capacity that others leave, and a priority class that is the same on\n"
             "all its hosts.\n"
             "\n"
             "Agents report how hosts and switches are linked (LLDP), and the manager\n"
             "composes the topology from that. If TOPOLOGY is given, a file or a short text\n"
             "as for `banyan topo`, the manager uses that instead, and identifies agents by\n"
             "the names of its nodes. If agents' reports contradict it at the start, the\n"
             "manager lists the differences and exits. Peers without a certificate of the\n"
             "cluster are rejected.\n"
             "\n"
             "It runs until SIGTERM or SIGINT. Jobs never wait for it: while it is down, even\n"
             "if it was killed, they continue with their plans. After a restart, it is in\n"
             "step with their agents within one interval.\n"
             "\n"
             "It reads changed certificates, keys and ca.crl within 10 s, or at once on\n"
             "SIGHUP. If they have errors, it logs these and continues to use the previous\n"
             "ones.\n"
             "\n"
             "Returns 0 when it was terminated by a signal, 1 when it could not start, or\n"
             "when agents contradict TOPOLOGY.",
    .first = "status",
    .options = options,
    .habits = habits,
    .max_operands = 1,
};

struct session {
  struct manager_options asked;
  struct by_topology *topology;         /* NULL: agents report the network. */
  const struct by_topology *discovered; /* The topology that agents report; NULL: none yet. */
  struct by_loop *loop;
  char rejected[1024]; /* Why the manager ends. */
  struct by_tls_watch *keys;
  struct by_manager_server *server;
  struct by_web_page *page;
};

static enum banyan_status check_options(struct manager_options *asked) {
  struct by_manager_options *manager = &asked->server.manager;
  manager->rules.iterations = (uint64_t)asked->first;
  BY_TRY(by_priority_parse_order(asked->order, &manager->rules.equal));
  if (!(manager->interval >= 0.01 && manager->interval <= 3600))
    return by_fail(BANYAN_ERR_ARGUMENT, "--interval must be 10ms to 3600 s, is %g s", manager->interval);
  if (!(manager->replan >= manager->interval))
    return by_fail(BANYAN_ERR_ARGUMENT, "--replan must be --interval at least, %g s, is %g s", manager->interval,
                   manager->replan);
  manager->replan_iterations = (uint64_t)asked->iterations;
  manager->gain = (double)asked->gain / 100;
  if (asked->ways && by_plan_methods_parse(asked->ways, &manager->ways) != BANYAN_OK)
    return by_fail_within(BANYAN_ERR_ARGUMENT, "--ways");
  if (asked->penalty && by_parse_number(asked->penalty, &manager->penalty) != BANYAN_OK)
    return by_fail_within(BANYAN_ERR_ARGUMENT, "--tree-penalty");
  if (!(manager->penalty >= 0 && manager->penalty <= 1))
    return by_fail(BANYAN_ERR_ARGUMENT, "--tree-penalty must be 0 to 1, is %g", manager->penalty);
  manager->steps = (uint32_t)asked->steps;
  manager->trees = (uint32_t)asked->trees;
  manager->queues = (uint32_t)asked->queues;
  asked->server.threads = (unsigned)asked->threads;
  return BANYAN_OK;
}

static void keys_changed(void *context) {
  struct session *s = context;
  if (s->server) by_manager_server_use(s->server, by_tls_watch_get(s->keys));
  if (s->page) by_web_page_renew(s->page);
}

static void keys_looked(void *context) {
  struct session *s = context;
  if (s->server) by_manager_server_judge(s->server);
}

static void read_again(void *context) {
  struct session *s = context;
  by_tls_watch_read(s->keys);
  if (s->page) by_web_page_renew(s->page); /* Its certificate may have changed. */
}

static unsigned print_state(void *context, struct by_text *out) {
  by_manager_server_state(context, out);
  return 200;
}

static void topology_changed(void *context, const struct by_topology *topology) {
  struct session *s = context;
  s->discovered = topology;
  if (s->page) by_web_page_draw(s->page, topology);
}

static void topology_rejected(void *context, const char *why) {
  struct session *s = context;
  snprintf(s->rejected, sizeof s->rejected, "%s", why);
  by_loop_stop(s->loop);
}

static enum banyan_status serve_page(struct session *s, struct by_loop *loop) {
  static const struct by_topology nothing = {.name = ""};
  struct by_manager_server_options *of_server = &s->asked.server;
  struct by_web_page_options *of_page = &s->asked.page;
  size_t n;
  if (s->asked.topology) BY_TRY(by_topology_named(s->asked.topology, &s->topology));
  const struct by_tls_watch_options of_keys = {.loop = loop,
                                               .folder = s->asked.keys,
                                               .role = BY_TLS_MANAGER,
                                               .name = s->asked.name,
                                               .changed = keys_changed,
                                               .looked = keys_looked,
                                               .context = s};
  BY_TRY(by_tls_watch_create(&of_keys, &s->keys));
  by_address_any(&of_server->at, AF_INET6, BY_MANAGER_PORT);
  if (s->asked.listen && by_address_resolve(s->asked.listen, &of_server->at, 1, &n) != BANYAN_OK)
    return by_fail_within(BANYAN_ERR_ARGUMENT, "--listen");
  /* The default folder may be missing without a package; errors are reported for the file. */
  if (!strcmp(of_server->state, STATE_FILE) || (of_page->at && !strcmp(of_page->token_file, BY_MANAGER_TOKEN_FILE)))
    (void)!mkdir(FOLDER, 0750);
  of_server->loop = of_page->loop = loop;
  of_server->identity = by_tls_watch_get(s->keys);
  of_server->manager.topology = s->topology;
  of_server->changed = topology_changed;
  of_server->rejected = topology_rejected;
  of_server->context = s;
  BY_TRY(by_manager_server_create(of_server, &s->server));
  of_page->topology = s->topology ? s->topology : s->discovered ? s->discovered : &nothing;
  of_page->state = print_state;
  of_page->context = s->server;
  return of_page->at ? by_web_page_create(of_page, &s->page) : BANYAN_OK;
}

static enum banyan_status start_manager(void *context, struct by_loop *loop) {
  struct session *s = context;
  char text[BY_ADDRESS_TEXT], size[64] = "agents report the topology";
  s->loop = loop;
  BY_TRY(serve_page(s, loop));
  struct by_address at = by_manager_server_get_address(s->server);
  if (s->topology)
    snprintf(size, sizeof size, "%u node%s and %u link%s", s->topology->n_nodes, by_plural(s->topology->n_nodes),
             s->topology->n_links, by_plural(s->topology->n_links));
  if (s->page)
    by_command_note("%s: ready at %s, %s; token in %s, page at %s", command.name, by_address_print(&at, text), size,
                    s->asked.page.token_file, by_web_page_get_url(s->page));
  else
    by_command_note("%s: ready at %s, %s", command.name, by_address_print(&at, text), size);
  return BANYAN_OK;
}

static void stop_manager(void *context) {
  const struct session *s = context;
  by_web_page_destroy(s->page);
  by_manager_server_destroy(s->server);
  by_tls_watch_destroy(s->keys);
  by_topology_destroy(s->topology);
}

int by_cli_manager(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "status")) return by_manager_status(argc - 1, argv + 1);
  static const struct by_service service = {.start = start_manager, .again = read_again, .stop = stop_manager};
  struct by_manager_options usual = by_manager_defaults();
  struct session s = {.asked = {.server = {.state = STATE_FILE, .manager = usual},
                                .page = {.token_file = BY_MANAGER_TOKEN_FILE},
                                .order = "share",
                                .gain = (long)(usual.gain * 100 + 0.5),
                                .first = (long)usual.rules.iterations,
                                .threads = 2}};
  struct by_operands operands;
  int exit_code = by_options_parse(&command, argc, argv, &s.asked, &operands);
  if (exit_code >= 0) return exit_code;
  s.asked.topology = operands.count ? operands.items[0] : NULL;
  if (check_options(&s.asked) != BANYAN_OK) return by_command_misused(&command);
  enum banyan_status status = by_service_run(&service, &s);
  if (status == BANYAN_OK && *s.rejected) status = by_fail(BANYAN_ERR_TOPOLOGY, "%s", s.rejected);
  return by_command_end(&command, status);
}
