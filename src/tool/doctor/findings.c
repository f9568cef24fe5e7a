/* Findings: how each is printed, and the small files of the kernel that checks read. */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

enum { FOUND_BYTES = 1024 };

static const char *const levels[] = {"ok", "warn", "FAIL"};
static const char *const json_levels[] = {"ok", "warn", "fail"};

static void print_text(enum by_finding_level level, const char *check, const char *fix, const char *found) {
  printf("%-5s %-14s %s\n", levels[level], check, found);
  if (fix) printf("%20s -> %s\n", "", fix);
}

static void print_json(enum by_finding_level level, const char *check, const char *fix, const char *found) {
  json_t *object =
      json_pack("{s:s, s:s, s:s, s:s?}", "check", check, "status", json_levels[level], "found", found, "mend", fix);
  char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
  puts(text ? text : "{\"check\":\"json\",\"status\":\"fail\",\"found\":\"not UTF-8\",\"mend\":null}");
  free(text);
  json_decref(object);
}

void by_finding(struct by_findings *findings, enum by_finding_level level, const char *check, const char *fix,
                const char *format, ...) {
  char found[FOUND_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(found, sizeof found, format, args);
  va_end(args);
  findings->counts[level]++;
  (findings->json ? print_json : print_text)(level, check, fix, found);
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
