/* banyan: finds the subcommand and passes the arguments to it. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <banyan/status.h>
#include <openssl/crypto.h>

#include "commands.h"
#include "settings.h"
#include "text.h"

struct version_options {
  bool json;
};

#define VALUES struct version_options

static const struct by_option version_options[] = {
    BY_FLAG("json", 0, json, "print one JSON object"),
    {.name = NULL},
};

static const struct by_command version_command = {
    .name = "banyan version",
    .usage = "[--json]",
    .about = "Prints the version of banyan and of the libraries it uses.",
    .options = version_options,
};

static int print_version(int argc, char **argv) {
  struct version_options version = {0};
  int exit_code = by_options_parse(&version_command, argc, argv, &version, NULL);
  if (exit_code >= 0) return exit_code;
  const char *format = version.json ? "{\"banyan\": \"%s\", \"jansson\": \"%s\", \"openssl\": \"%s\"}\n"
                                    : "banyan %s (jansson %s, %s)\n";
  printf(format, banyan_version(), jansson_version_str(), OpenSSL_version(OPENSSL_VERSION));
  return 0;
}

static int print_help(int argc, char **argv);

#ifdef BY_HAVE_SERVICES
#define SERVICE(function, help) function, help
#else
/* Reports a command that builds for Python's wheel lack. */
static int report_absent(int argc, char **argv) {
  fprintf(stderr,
          "banyan %s: this build of the command comes from a Python package and has no services; install Debian's "
          "package banyan, or build Banyan from its sources\n",
          argv[0]);
  return 1;
}

#define SERVICE(function, help) report_absent, NULL
#endif

static const struct subcommand {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *help; /* One line; NULL: not listed. */
} subcommands[] = {
    {"run", by_cli_run, "start the ranks of a job, here or on several hosts"},
    {"mpirun", SERVICE(by_cli_mpirun, "start an MPI program whose collective calls Banyan makes")},
    {"plan", by_cli_plan, "check, draw and print plans and schedules"},
    {"topo", by_cli_topo, "check, draw and convert topologies"},
    {"simulate", by_cli_simulate, "predict how long an AllReduce takes on a topology"},
    {"bench", by_cli_bench, "measure the time of a collective"},
    {"lab", SERVICE(by_cli_lab, "run a job on a topology that is built on this machine")},
    {"helper", by_cli_helper, "relay and reduce for a job without a rank on this host"},
    {"server", by_cli_server, "complete the sums of in-network trees"},
    {"switch", SERVICE(by_cli_switch, "run an in-network aggregation switch")},
    {"agent", SERVICE(by_cli_agent, "run this host's cluster agent")},
    {"manager", SERVICE(by_cli_manager, "run a cluster's manager: plans and priorities for its jobs")},
    {"status", SERVICE(by_cli_status, "show the state of agent, switch and manager")},
    {"keys", by_cli_keys, "create and revoke the certificates of a cluster"},
    {"doctor", by_cli_doctor, "diagnose this machine and suggest fixes"},
    {"version", print_version, "print versions"},
    {"help", print_help, "print this, or the help of a command"},
    {"run-host", by_cli_run_host, NULL},
};

enum { COMMANDS = sizeof subcommands / sizeof *subcommands };

static int print_commands(FILE *out) {
  fprintf(out, "usage: banyan COMMAND [options]\n\n"
               "Gradient synchronisation over weighted aggregation trees.\n\ncommands:\n");
  for (const struct subcommand *c = subcommands; c < subcommands + COMMANDS; c++)
    if (c->help) fprintf(out, "  %-10s %s\n", c->name, c->help);
  fprintf(out, "\n`banyan COMMAND --help` describes each, `banyan help variables` lists the variables.\n");
  return out == stdout ? 0 : 2;
}

static int unknown_command(const char *name) {
  if (*name == '-') {
    fprintf(stderr,
            "banyan: %s is not a command: options follow the command, as in `banyan run --help`\nSee `banyan help`.\n",
            name);
    return 2;
  }
  const char *names[COMMANDS];
  size_t n = 0;
  for (const struct subcommand *c = subcommands; c < subcommands + COMMANDS; c++)
    if (c->help) names[n++] = c->name;
  const char *near = by_suggest(name, names, n);
  fprintf(stderr, "banyan: there is no command \"%s\"%s%s%s\nSee `banyan help`.\n", name,
          near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
  return 2;
}

static int run_subcommand(int argc, char **argv) {
  for (const struct subcommand *c = subcommands; c < subcommands + COMMANDS; c++)
    if (!strcmp(c->name, argv[0])) return c->run(argc, argv);
  return unknown_command(argv[0]);
}

/* Prints the variables from the table that reads them. */
static int print_variables(void) {
  struct by_text text = {0};
  by_settings_print(&text);
  printf("Variables that every program which joins a job reads (name, default, meaning):\n\n%s", by_text_get(&text));
  printf("%-22s %-6s %s\n", "BANYAN_LOG", "warn", "what is logged on standard error: \"info\", \"warn,plan:debug\"");
  printf("%-22s %-6s %s\n", "BANYAN_LOG_FILE", "-",
         "a file for the log instead of standard error: %r is the rank, %h the host, %p the process");
  by_text_fini(&text);
  return 0;
}

static int print_help(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "variables")) return print_variables();
  if (argc < 2 || argv[1][0] == '-' || !strcmp(argv[1], "help")) return print_commands(stdout);
  char *asked[] = {argv[1], (char[]){"--help"}, NULL};
  return run_subcommand(2, asked);
}

/* Opens the standard descriptors: if one was closed, a pipe or socket of ours would get its number, and receive our
 * output. */
static void open_standard_files(void) {
  int fd = open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDWR);
  if (fd >= 0) close(fd);
}

/* Checks that all output has been written: a full disk is a failure. */
static int check_output(int exit_code) {
  bool lost = ferror(stdout) != 0;
  if (!fflush(stdout) && !lost) return exit_code;
  fprintf(stderr, "banyan: cannot write to standard output: %s\n",
          lost ? "the output is incomplete; is the disk full?" : strerror(errno));
  return exit_code ? exit_code : 1;
}

static int run_command(int argc, char **argv) {
  if (argc < 2) return print_commands(stderr);
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) return print_commands(stdout);
  char version[] = "version";
  if (!strcmp(argv[1], "--version")) argv[1] = version;
  return run_subcommand(argc - 1, argv + 1);
}

int main(int argc, char **argv) {
  open_standard_files();
  return check_output(run_command(argc, argv));
}
