/* `banyan doctor`: runs the checks of libraries, programs and variables, and prints all results. */
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <banyan/status.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>

#include "commands.h"
#include "doctor.h"
#include "output.h"
#include "settings.h"
#include "text.h"

/* ---- findings */

enum { FOUND_BYTES = 1024 };

static void print_json(enum by_finding_level level, const char *check, const char *fix, const char *found) {
  static const char *const levels[] = {"ok", "warn", "fail"};
  json_t *object =
      json_pack("{s:s, s:s, s:s, s:s?}", "check", check, "status", levels[level], "found", found, "fix", fix);
  if (!by_print_json(object)) puts("{\"check\":\"json\",\"status\":\"fail\",\"found\":\"not UTF-8\",\"fix\":null}");
  json_decref(object);
}

void by_finding(struct by_findings *findings, enum by_finding_level level, const char *check, const char *fix,
                const char *format, ...) {
  static const char *const levels[] = {"ok", "warn", "FAIL"};
  char found[FOUND_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(found, sizeof found, format, args);
  va_end(args);
  findings->counts[level]++;
  if (level == BY_FINDING_OK) fix = NULL;
  if (findings->json)
    print_json(level, check, fix, found);
  else
    printf("%-5s %-14s %s\n", levels[level], check, found);
  if (fix && !findings->json) printf("%20s -> %s\n", "", fix);
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

/* ---- libraries and programs */

/* Ranks prove with HMAC-SHA256 that they have the job's key; some hardened configurations of OpenSSL refuse algorithms.
 * RFC 4231, test case 2. */
static void check_hmac(struct by_findings *findings) {
  static const unsigned char wanted[] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e};
  static const char text[] = "what do ya want for nothing?";
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (HMAC(EVP_sha256(), "Jefe", 4, (const unsigned char *)text, sizeof text - 1, digest, &length) && length == 32 &&
      !memcmp(digest, wanted, sizeof wanted))
    by_finding(findings, BY_FINDING_OK, "hmac", NULL, "HMAC-SHA256 works");
  else
    by_finding(findings, BY_FINDING_FAIL, "hmac", "allow SHA-256 in OpenSSL's configuration",
               "HMAC-SHA256 does not work: ranks cannot prove that they belong to the job");
}

static void check_pmix(struct by_findings *findings) {
  void *library = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_LOCAL);
  const char *(*version)(void) = NULL;
  if (library) *(void **)&version = dlsym(library, "PMIx_Get_version");
  if (version)
    by_finding(findings, BY_FINDING_OK, "PMIx", NULL, "%.100s", version());
  else
    by_finding(findings, BY_FINDING_OK, "PMIx", NULL, "not there; only a help under srun and mpirun");
  if (library) dlclose(library);
}

static bool in_path(const char *program, char *out, size_t room) {
  const char *path = getenv("PATH");
  while (path && *path) {
    size_t length = strcspn(path, ":");
    snprintf(out, room, "%.*s/%s", (int)length, path, program);
    if (!access(out, X_OK)) return true;
    path += length + (path[length] == ':');
  }
  return false;
}

static void check_ssh(struct by_findings *findings) {
  char path[1024];
  if (in_path("ssh", path, sizeof path))
    by_finding(findings, BY_FINDING_OK, "ssh", NULL, "%s; `banyan run -H` needs keys that ask for no password", path);
  else
    by_finding(findings, BY_FINDING_WARN, "ssh", "apt-get install openssh-client",
               "not found: `banyan run -H` cannot reach other hosts");
}

/* Prints variables that affect all programs that are started from here. The key stays secret. */
static void check_variables(struct by_findings *findings) {
  struct by_text text = {0};
  char fix[96];
  for (char **e = environ; *e; e++) {
    if (strncmp(*e, "BANYAN_", 7) != 0) continue;
    if (!strncmp(*e, "BANYAN_KEY=", 11))
      by_text_add(&text, " BANYAN_KEY=...");
    else
      by_text_add(&text, " %.200s", *e);
    const char *near = by_settings_suggest(*e), *instead = by_settings_removed(*e);
    if (near) snprintf(fix, sizeof fix, "did you mean %s?", near);
    if (near || instead)
      by_finding(findings, BY_FINDING_WARN, "variables", near ? fix : instead,
                 near ? "%.*s is no variable of Banyan's and has no effect" : "%.*s has been removed and has no effect",
                 (int)strcspn(*e, "="), *e);
  }
  const char *found = by_text_get(&text);
  by_finding(findings, BY_FINDING_OK, "variables", NULL, "%s", *found ? found + 1 : "none of BANYAN_* are set");
  by_text_fini(&text);
}

struct doctor_options {
  bool json;
};

#define VALUES struct doctor_options

static const struct by_option options[] = {
    BY_FLAG("json", 0, json, "print one JSON object a line"),
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
  int exit_code = by_options_parse(&command, argc, argv, &doctor, NULL);
  if (exit_code >= 0) return exit_code;
  struct by_findings findings = {.json = doctor.json};
  by_doctor_kernel(&findings);
  by_doctor_network(&findings);
  by_finding(&findings, BY_FINDING_OK, "libraries", NULL, "banyan %s, glibc %s, jansson %s, %s", banyan_version(),
             gnu_get_libc_version(), jansson_version_str(), OpenSSL_version(OPENSSL_VERSION));
  check_hmac(&findings);
  check_pmix(&findings);
  check_ssh(&findings);
  check_variables(&findings);
  const int *n = findings.counts;
  if (!doctor.json)
    printf("\n%d ok, %d to look at, %d failed\n", n[BY_FINDING_OK], n[BY_FINDING_WARN], n[BY_FINDING_FAIL]);
  return n[BY_FINDING_FAIL] > 0;
}
