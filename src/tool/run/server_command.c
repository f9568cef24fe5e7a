/* `banyan server`: finishes the sums of trees through switches. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "fragment.h"
#include "options.h"
#include "serve.h"
#include "settings.h"
#include "stop.h"

struct server_options {
  const char *root, *name;
  long trees, port;
};

#define AT(member) offsetof(struct server_options, member)

static const struct by_option options[] = {
    {"root", 'r', BY_OPTION_TEXT, AT(root), "HOST:PORT", "where rank 0 listens (BANYAN_ROOT)", 0, 0},
    {"name", 0, BY_OPTION_TEXT, AT(name), "NAME", "this host's name in the plan, default: the machine's\n(BANYAN_HOST)",
     0, 0},
    {"trees", 0, BY_OPTION_INT, AT(trees), "N", "how many trees to finish the sums of; default 1", 1, BY_SERVE_TREES},
    {"udp-port", 0, BY_OPTION_INT, AT(port), "PORT", "for fragments; default 7612, which switches take", 1, 65535},
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan server",
    .usage = "[--root HOST:PORT] [--name NAME] [--trees N]",
    .about = "Joins a job without being one of its ranks, and finishes the sums of trees\n"
             "through switches: adds what switches could not, checks the sums, and sends\n"
             "them to the workers. Start it when the job starts: rank 0 waits for the\n"
             "servers that its plan names (or BANYAN_SERVERS), for BANYAN_HELPER_DEADLINE\n"
             "once all ranks are there, and begins without those that have not come.\n"
             "`banyan run --servers` starts servers together with the ranks.\n"
             "\n"
             "A plan's server vertices are called HOST/0, HOST/1, ...: --trees says how many\n"
             "of this host's are here. Ranks and servers meet switches by UDP port 7612.\n"
             "\n"
             "Reads the variables that ranks read; BANYAN_KEY must be the job's. Stays until\n"
             "the job is over, and leaves sooner on SIGTERM or SIGINT: then, as when it is\n"
             "killed, the ranks repeat what went through it among themselves and go on.\n"
             "\n"
             "Returns 0 when the job is over or it was told to leave, 1 when it could not\n"
             "join, or the job failed.",
    .options = options,
};

int by_cli_server(int argc, char **argv) {
  struct server_options asked = {.trees = 1, .port = BY_FRAGMENT_PORT};
  struct by_operands operands;
  int exit_code;
  if (!by_options_parse(&command, argc, argv, &asked, &operands, &exit_code)) return exit_code;
  struct by_serve_options given = {
      .joining = {.root = asked.root, .host = asked.name}, .trees = (unsigned)asked.trees, .udp_port = (int)asked.port};
  if (by_serve(&given, by_stop_on_signals()) == BANYAN_OK) return 0;
  return by_options_failure(&command, banyan_error_text());
}
