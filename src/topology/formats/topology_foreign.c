#include "topology_foreign.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "topology_graphml.h"
#include "topology_lldp.h"
#include "topology_make.h"
#include "topology_nccl.h"
#include "topology_pairs.h"

enum { MOST_TEXT = 2048, MOST_OPTIONS = 2, MOST_FILES = 16384, MOST_PATH = 4096 };

/* --- options --- */

struct options {
  char copy[MOST_TEXT];
  const char *const *names; /* those that the format has */
  size_t n;
  const char *values[MOST_OPTIONS]; /* NULL: not given */
};

static enum banyan_status unknown(const struct options *options, const char *name) {
  const char *near = by_suggest(name, options->names, options->n);
  if (options->n == 0)
    return by_fail(BANYAN_ERR_ARGUMENT, "there are no options for this format, such as \"%.64s\"", name);
  return by_fail(BANYAN_ERR_ARGUMENT, "no option \"%.64s\"%s%s%s; there are %s=, %s=", name,
                 near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "", options->names[0],
                 options->names[1]);
}

static enum banyan_status take_option(struct options *options, char *word) {
  char *equals = strchr(word, '=');
  size_t i = 0;
  if (equals) *equals = '\0';
  while (i < options->n && strcmp(options->names[i], word) != 0) i++;
  if (i == options->n) return unknown(options, word);
  if (!equals) return by_fail(BANYAN_ERR_ARGUMENT, "the option \"%s\" must have a value: %s=...", word, word);
  options->values[i] = equals + 1;
  return BANYAN_OK;
}

static enum banyan_status take_options(struct options *options, const char *text, const char *const *names, size_t n) {
  char *kept = NULL;
  *options = (struct options){.names = names, .n = n};
  if (strlen(text) >= MOST_TEXT) return by_fail(BANYAN_ERR_ARGUMENT, "the options are longer than %d bytes", MOST_TEXT);
  strcpy(options->copy, text);
  for (char *word = strtok_r(options->copy, ",", &kept); word; word = strtok_r(NULL, ",", &kept))
    BY_TRY(take_option(options, word));
  return BANYAN_OK;
}

static enum banyan_status take_rate(const char *text, double *out) {
  if (!text) return BANYAN_OK;
  BY_TRY(by_parse_rate(text, out));
  return *out > 0 ? BANYAN_OK : by_fail(BANYAN_ERR_ARGUMENT, "the rate is %s, must be more than 0", text);
}

/* --- formats --- */

enum banyan_status by_foreign_graphml(const char *source, const char *text, size_t length, const char *options,
                                      struct by_topology **out) {
  static const char *const names[] = {"rate", "delay"};
  struct by_graphml_options own = {0};
  struct options given;
  BY_TRY(take_options(&given, options, names, 2));
  BY_TRY(take_rate(given.values[0], &own.default_rate));
  if (given.values[1]) BY_TRY(by_parse_seconds(given.values[1], &own.default_delay));
  return by_topology_parse_graphml(source, text, length, &own, out);
}

enum banyan_status by_foreign_pairs(const char *source, const char *text, size_t length, const char *options,
                                    struct by_topology **out) {
  static const char *const names[] = {"select", "limits"};
  struct options given;
  BY_TRY(take_options(&given, options, names, 2));
  struct by_pairs_options own = {.select = given.values[0], .limits = given.values[1]};
  return by_topology_parse_pairs(source, text, length, &own, out);
}

static enum banyan_status parse_lldp(const struct by_lldp_file *files, size_t n, const char *options,
                                     struct by_topology **out) {
  static const char *const names[] = {"rate", "hosts"};
  struct by_lldp_options own = {0};
  struct options given;
  BY_TRY(take_options(&given, options, names, 2));
  BY_TRY(take_rate(given.values[0], &own.default_rate));
  own.hosts = given.values[1];
  return by_topology_parse_lldp(files, n, &own, out);
}

enum banyan_status by_foreign_lldp(const char *source, const char *text, size_t length, const char *options,
                                   struct by_topology **out) {
  struct by_lldp_file file = {source, text, length};
  return parse_lldp(&file, 1, options, out);
}

enum banyan_status by_foreign_nccl(const char *source, const char *text, size_t length, const char *options,
                                   struct by_topology **out) {
  struct options given;
  BY_TRY(take_options(&given, options, NULL, 0));
  return by_topology_parse_nccl(source, text, length, out);
}

/* --- a folder --- */

static int is_of_lldp(const struct dirent *entry) {
  static const char *const endings[] = {".json", ".json0", ".lldp"};
  const char *end = strrchr(entry->d_name, '.');
  for (size_t i = 0; end && end != entry->d_name && i < sizeof endings / sizeof *endings; i++)
    if (strcmp(end, endings[i]) == 0) return 1;
  return 0;
}

static enum banyan_status read_one(const char *folder, const char *name, size_t *left, struct by_lldp_file *out) {
  char path[MOST_PATH], *text;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  BY_TRY(by_read_file("topology", path, *left, &text, &out->length));
  out->source = name;
  out->text = text;
  if (out->length > *left)
    return by_fail(BANYAN_ERR_PARSE, "%s: its files are too large: most are %d bytes", folder, BY_TOPOLOGY_MOST_FILE);
  *left -= out->length;
  return BANYAN_OK;
}

static enum banyan_status read_all(const char *path, const char *options, struct dirent **entries, size_t n,
                                   struct by_topology **out) {
  if (n == 0 || n > MOST_FILES)
    return by_fail(BANYAN_ERR_PARSE, "%s: holds %zu files of LLDP (.json, .json0, .lldp), must hold 1 to %d", path, n,
                   MOST_FILES);
  struct by_lldp_file *files = calloc(n, sizeof *files);
  if (!files) return by_topology_no_memory();
  enum banyan_status status = BANYAN_OK;
  size_t left = BY_TOPOLOGY_MOST_FILE;
  for (size_t i = 0; i < n && status == BANYAN_OK; i++) status = read_one(path, entries[i]->d_name, &left, &files[i]);
  if (status == BANYAN_OK) status = parse_lldp(files, n, options, out);
  for (size_t i = 0; i < n; i++) free((char *)files[i].text);
  free(files);
  return status;
}

enum banyan_status by_foreign_lldp_folder(const char *path, const char *options, struct by_topology **out) {
  struct dirent **entries;
  int n = scandir(path, &entries, is_of_lldp, alphasort);
  if (n < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot read the folder %s", path);
  enum banyan_status status = read_all(path, options, entries, (size_t)n, out);
  for (int i = 0; i < n; i++) free(entries[i]);
  free(entries);
  return status;
}
