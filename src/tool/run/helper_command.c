/* `banyan helper`: adds and forwards for a job that this host has no rank of. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "helper.h"
#include "options.h"
#include "process_signals.h"
#include "settings.h"

struct helper_options {
  const char *root, *name;
  int transport;
};

#define AT(member) offsetof(struct helper_options, member)

static const struct by_option options[] = {
    {"root", 'r', BY_OPTION_TEXT, AT(root), "HOST:PORT", "where rank 0 listens (BANYAN_ROOT)", 0, 0},
    {"name", 0, BY_OPTION_TEXT, AT(name), "NAME",
     "this helper's name in the plan; default: the host name\n(BANYAN_HOST)", 0, 0},
    {"transport", 't', BY_OPTION_CHOICE, AT(transport), BY_TRANSPORT_CHOICES,
     "how the ranks reach it (BANYAN_TRANSPORT)", 0, 0},
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan helper",
    .usage = "[--root HOST:PORT] [--name NAME]",
    .about = "Joins a job without being one of its ranks, and aggregates and forwards where\n"
             "the plan sends gradients through this host. It may join at any time. At the\n"
             "start of a job, rank 0 waits for the helpers that its plan names, for\n"
             "BANYAN_HELPER_DEADLINE after all ranks have joined, and begins without those\n"
             "that are missing. A helper that joins later takes part in plans that are\n"
             "proposed while the job runs and name it. `banyan run --helpers` starts helpers\n"
             "together with the ranks.\n"
             "\n"
             "It reads the same variables as ranks; BANYAN_KEY must be the job's. With --root\n"
             "it reports on standard output when it has joined: \"NAME helps 8 ranks\". It stays\n"
             "until the job is over. On SIGTERM or SIGINT it leaves earlier. In this case, as\n"
             "when it is killed, the ranks repeat its part among themselves and continue.\n"
             "\n"
             "Returns 0 when the job is over or it got a signal to leave, 1 when it could not\n"
             "join, or the job failed.",
    .options = options,
};

static void say_joined(const char *name, uint32_t ranks) {
  printf("%s helps %u ranks\n", name, ranks);
  (void)fflush(stdout);
}

int by_cli_helper(int argc, char **argv) {
  struct helper_options asked = {.transport = -1};
  struct by_operands operands;
  int exit_code;
  if (!by_options_parse(&command, argc, argv, &asked, &operands, &exit_code)) return exit_code;
  struct banyan_options given = {.root = asked.root, .host = asked.name, .transport = by_transport_at(asked.transport)};
  if (by_helper_run(&given, by_stop_on_signals(), asked.root ? say_joined : NULL) == BANYAN_OK) return 0;
  return by_options_failure(&command, banyan_error_text());
}
