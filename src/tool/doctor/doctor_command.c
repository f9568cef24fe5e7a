/* `banyan doctor`: prints what the checks find. */
#include <stddef.h>
#include <stdio.h>

#include "commands.h"
#include "doctor.h"
#include "options.h"

struct doctor_options {
  bool json;
};

static const struct by_option options[] = {
    {"json", 0, BY_OPTION_FLAG, offsetof(struct doctor_options, json), NULL, "print one JSON object a line", 0, 0},
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan doctor",
    .usage = "[--json]",
    .about = "Diagnoses this machine: checks what Banyan needs of the kernel and the network,\n"
             "and suggests fixes for what is missing or slow. It changes nothing. Returns 0\n"
             "when nothing failed; a warning is not a failure.",
    .options = options,
};

int by_cli_doctor(int argc, char **argv) {
  struct doctor_options doctor = {0};
  struct by_operands operands;
  int exit_code;
  if (!by_options_parse(&command, argc, argv, &doctor, &operands, &exit_code)) return exit_code;
  struct by_findings findings = {.json = doctor.json};
  by_doctor_kernel(&findings);
  by_doctor_cores(&findings);
  by_doctor_network(&findings);
  by_doctor_tcp(&findings);
  by_doctor_software(&findings);
  const int *n = findings.counts;
  if (!doctor.json)
    printf("\n%d ok, %d to look at, %d failed\n", n[BY_FINDING_OK], n[BY_FINDING_WARN], n[BY_FINDING_FAIL]);
  return n[BY_FINDING_FAIL] > 0;
}
