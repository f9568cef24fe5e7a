/* Patterns of names: --output-files of `banyan run`, and BANYAN_LOG_FILE. An accepted pattern gives each process files
 * of its own. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"
#include "log.h"
#include "rank_output.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILES = 10 };

static void check_names(const char *pattern, const struct by_launch_hosts *hosts, int ranks) {
  char *names[FILES];
  int n = 0;
  for (size_t i = 0; i < hosts->count; i++)
    for (int k = 0; k < hosts->items[i].ranks; k++)
      for (int stream = 0; stream < 2; stream++)
        names[n++] = by_rank_files_name(pattern, &hosts->items[i], hosts->items[i].first + k, ranks, stream);
  for (int i = 0; i < n; i++) {
    assert(strlen(names[i]) > 4 && (strstr(names[i], ".out") || strstr(names[i], ".err")));
    for (int k = 0; k < i; k++) assert(strcmp(names[i], names[k]) != 0);
  }
  for (int i = 0; i < n; i++) free(names[i]);
}

static void check_log(const char *pattern) {
  char name[100];
  if (by_log_file_name(pattern, 7, "a/b", name, sizeof name)) return;
  assert(strlen(name) < sizeof name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct by_launch_hosts hosts, helpers;
  char *pattern = calloc(1, size + 1);
  assert(pattern);
  if (size) memcpy(pattern, data, size);
  by_hosts_init(&hosts);
  by_hosts_init(&helpers);
  assert(by_hosts_parse(&hosts, "a:2,b:1") == BANYAN_OK && by_hosts_place(&hosts, 3) == BANYAN_OK);
  assert(by_hosts_parse(&helpers, "c:1,d:1") == BANYAN_OK);
  assert(by_hosts_add_beside(&hosts, &helpers, BY_HELPERS, 3) == BANYAN_OK);
  if (by_rank_files_check(pattern, &hosts, 3, false) == BANYAN_OK) check_names(pattern, &hosts, 3);
  check_log(pattern);
  by_hosts_fini(&helpers);
  by_hosts_fini(&hosts);
  free(pattern);
  return 0;
}
