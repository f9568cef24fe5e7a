/* `banyan doctor`: prints what the checks find. */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "doctor.h"
#include "options.h"

enum { FOUND_BYTES = 1024 };

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
    .about = "Checks this machine: tries what Banyan needs of the kernel and the network, and\n"
             "says how to mend what is missing or slow. Nothing is changed. Returns 0 when\n"
             "nothing failed; a warning is not a failure.",
    .options = options,
};

static const char *const levels[] = {"ok", "warn", "FAIL"};
static const char *const json_levels[] = {"ok", "warn", "fail"};

static void print_text(enum by_finding_level level, const char *check, const char *mend, const char *found) {
  printf("%-5s %-14s %s\n", levels[level], check, found);
  if (mend) printf("%20s -> %s\n", "", mend);
}

static void print_json(enum by_finding_level level, const char *check, const char *mend, const char *found) {
  json_t *object =
      json_pack("{s:s, s:s, s:s, s:s?}", "check", check, "status", json_levels[level], "found", found, "mend", mend);
  char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
  puts(text ? text : "{\"check\":\"json\",\"status\":\"fail\",\"found\":\"not UTF-8\",\"mend\":null}");
  free(text);
  json_decref(object);
}

void by_finding(struct by_findings *findings, enum by_finding_level level, const char *check, const char *mend,
                const char *format, ...) {
  char found[FOUND_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(found, sizeof found, format, args);
  va_end(args);
  findings->counts[level]++;
  (findings->json ? print_json : print_text)(level, check, mend, found);
  fflush(stdout);
}

bool by_read_line(const char *path, char *out, size_t room) {
  FILE *file = fopen(path, "re");
  if (!file) return false;
  bool ok = fgets(out, (int)room, file) != NULL;
  fclose(file);
  if (ok) out[strcspn(out, "\n")] = 0;
  return ok;
}

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
