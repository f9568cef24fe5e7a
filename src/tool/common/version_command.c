/* `banyan version`: of the command and of what it uses. */
#include <jansson.h>
#include <openssl/crypto.h>
#include <stdio.h>

#include <banyan/status.h>

#include "commands.h"
#include "options.h"

struct version_options {
  bool json;
};

static const struct by_option options[] = {
    {"json", 0, BY_OPTION_FLAG, offsetof(struct version_options, json), NULL, "print one JSON object", 0, 0},
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan version",
    .usage = "[--json]",
    .about = "Prints the version of banyan and of the libraries it uses.",
    .options = options,
};

int by_cli_version(int argc, char **argv) {
  struct version_options version = {0};
  struct by_operands operands;
  int exit_code;
  if (!by_options_parse(&command, argc, argv, &version, &operands, &exit_code)) return exit_code;
  const char *format = version.json ? "{\"banyan\": \"%s\", \"jansson\": \"%s\", \"openssl\": \"%s\"}\n"
                                    : "banyan %s (jansson %s, %s)\n";
  printf(format, banyan_version(), jansson_version_str(), OpenSSL_version(OPENSSL_VERSION));
  return 0;
}
