/* `banyan helper` and `banyan server`: join a job without being one of its ranks. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "fragment.h"
#include "log.h"
#include "process.h"
#include "serve.h"
#include "settings.h"

struct join_options {
  const char *root, *name;
  int transport;    /* For a helper. */
  long trees, port; /* For a server. */
};

#define VALUES struct join_options

static const struct by_option helper_options[] = {
    BY_TEXT("root", 'r', root, "HOST:PORT", "where rank 0 listens (BANYAN_ROOT)"),
    BY_TEXT("name", 0, name, "NAME", "this helper's name in the plan; default: the host name\n(BANYAN_HOST)"),
    BY_CHOICE("transport", 't', transport, BY_TRANSPORT_CHOICES, "how the ranks reach it (BANYAN_TRANSPORT)"),
    {.name = NULL},
};

static const struct by_command helper_command = {
    .name = "banyan helper",
    .usage = "[--root HOST:PORT] [--name NAME]",
    .about = "Joins a job without being one of its ranks, and aggregates and forwards where\n"
             "the plan sends gradients through this host. It may join at any time. At the\n"
             "start of a job, rank 0 waits for the helpers that its plan names (or\n"
             "BANYAN_HELPERS=N), for 10 s (or BANYAN_HELPERS=deadline=TIME) after all ranks\n"
             "have joined, and begins without those that are missing. A helper that joins\n"
             "later takes part in plans that are proposed while the job runs and name it.\n"
             "`banyan run --helpers` starts helpers together with the ranks. In an elastic\n"
             "job, it finds the members by their handles in BANYAN_MEMBERS, and follows them\n"
             "from one group to the next.\n"
             "\n"
             "It reads the same variables as ranks; BANYAN_KEY_FILE names the file with the\n"
             "job's key. With --root it reports on standard output when it has joined: \"NAME\n"
             "helps 8 ranks\". It runs until the job is over. On SIGTERM or SIGINT it leaves\n"
             "earlier. Then, as when it is killed, the ranks repeat its part among themselves\n"
             "and continue; ranks below an aggregator send to the server above it.\n"
             "\n"
             "Returns 0 when the job is over or it got a signal to leave, 1 when it could not\n"
             "join, or the job failed.",
    .options = helper_options,
};

static void print_joined(const char *name, uint32_t ranks) {
  printf("%s helps %u ranks\n", name, ranks);
  (void)fflush(stdout);
}

int by_cli_helper(int argc, char **argv) {
  struct join_options asked = {.transport = -1};
  int exit_code = by_options_parse(&helper_command, argc, argv, &asked, NULL);
  if (exit_code >= 0) return exit_code;
  if (asked.root) by_log_file_add_times();
  struct banyan_options given = {.root = asked.root, .host = asked.name, .transport = by_transport_at(asked.transport)};
  return by_command_end(&helper_command, by_helper_run(&given, by_stop_on_signals(), asked.root ? print_joined : NULL));
}

static const struct by_option server_options[] = {
    BY_TEXT("root", 'r', root, "HOST:PORT", "where rank 0 listens (BANYAN_ROOT)"),
    BY_TEXT("name", 0, name, "NAME", "this host's name in the plan; default: the host name\n(BANYAN_HOST)"),
    BY_INT("trees", 0, trees, "N", 1, BY_SERVE_TREES, "number of trees to serve; default 1"),
    BY_INT("udp-port", 0, port, "PORT", 1, 65535, "first port for fragments, one for each tree; default 7612"),
    {.name = NULL},
};

static const struct by_command server_command = {
    .name = "banyan server",
    .usage = "[--root HOST:PORT] [--name NAME] [--trees N]",
    .about = "Joins a job without being one of its ranks, and completes the sums of trees\n"
             "through switches: it adds what switches could not, verifies the sums, and sends\n"
             "them to the workers. Below another server in the plan it is an aggregator: it\n"
             "adds what the ranks below it send, as a switch on the path would, and sends\n"
             "that to the other one. It may join at any time. At the start of a job, rank 0\n"
             "waits for the servers that its plan names (or BANYAN_HELPERS=servers=N), for 10\n"
             "s (or BANYAN_HELPERS=deadline=TIME) after all ranks have joined, and begins\n"
             "without those that are missing. A server that joins later takes part in plans\n"
             "that are proposed while the job runs and name it. `banyan run --servers` starts\n"
             "servers together with the ranks.\n"
             "\n"
             "A plan's server vertices are called HOST/0, HOST/1, ...; --trees is the number\n"
             "of those that this process serves. Each has a UDP port.\n"
             "\n"
             "A server of processes whose groups change (banyan/elastic.h) finds the first\n"
             "one by handles in BANYAN_MEMBERS, and follows from one group to the next.\n"
             "\n"
             "It reads the same variables as ranks; BANYAN_KEY_FILE names the file with the\n"
             "job's key. With --root it reports on standard output when it has joined: \"NAME\n"
             "serves 2 trees\". It runs until the job is over. On SIGTERM or SIGINT it leaves\n"
             "earlier. Then, as when it is killed, the ranks repeat its part among themselves\n"
             "and continue; ranks below an aggregator send to the server above it.\n"
             "\n"
             "Returns 0 when the job is over or it got a signal to leave, 1 when it could not\n"
             "join, or the job failed.",
    .options = server_options,
};

static void print_served(const char *name, unsigned trees) {
  printf("%s serves %u trees\n", name, trees);
  (void)fflush(stdout);
}

int by_cli_server(int argc, char **argv) {
  struct join_options asked = {.trees = 1, .port = BY_FRAGMENT_PORT};
  int exit_code = by_options_parse(&server_command, argc, argv, &asked, NULL);
  if (exit_code >= 0) return exit_code;
  if (asked.root) by_log_file_add_times();
  struct by_serve_options given = {.joining = {.root = asked.root, .host = asked.name},
                                   .trees = (unsigned)asked.trees,
                                   .udp_port = (int)asked.port,
                                   .joined = asked.root ? print_served : NULL};
  return by_command_end(&server_command, by_serve(&given, by_stop_on_signals()));
}
