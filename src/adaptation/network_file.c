/* Keeps the cache entry of a job's network while the job runs, and writes refinements to it. */
#include "network_file.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "descriptor.h"
#include "log.h"

struct by_network_file {
  char *folder;
  struct by_network_key key;
  char **hosts; /* The hosts of the key; owned. */
  char *planner;
  struct by_network_entry entry;
  uint64_t since; /* The time to which the entry's age refers. */
  pthread_t thread;
  bool has_thread;
  atomic_bool busy;
};

static bool copy_key(struct by_network_file *file, const struct by_network_key *key) {
  bool copied = (file->hosts = calloc(key->n, sizeof *file->hosts)) != NULL;
  for (uint32_t h = 0; copied && h < key->n; h++) copied = (file->hosts[h] = strdup(key->hosts[h])) != NULL;
  file->planner = strdup(key->planner);
  file->key = (struct by_network_key){key->n, (const char *const *)file->hosts, file->planner};
  return copied && file->planner;
}

enum banyan_status by_network_file_create(const char *folder, const struct by_network_key *key,
                                          struct by_network_entry *entry, struct by_network_file **out) {
  struct by_network_file *file = calloc(1, sizeof *file);
  *out = NULL;
  if (file) {
    file->entry = *entry;
    *entry = (struct by_network_entry){0};
    file->since = by_clock_now(&by_clock_system);
    file->folder = strdup(folder);
  }
  if (file && copy_key(file, key) && file->folder) {
    *out = file;
    return BANYAN_OK;
  }
  by_network_entry_fini(entry);
  by_network_file_destroy(file);
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for what is known of a network");
}

static void wait_for_thread(struct by_network_file *file) {
  if (file->has_thread) pthread_join(file->thread, NULL);
  file->has_thread = false;
}

void by_network_file_destroy(struct by_network_file *file) {
  if (!file) return;
  wait_for_thread(file);
  for (uint32_t h = 0; file->hosts && h < file->key.n; h++) free(file->hosts[h]);
  free(file->hosts);
  free(file->planner);
  free(file->folder);
  by_network_entry_fini(&file->entry);
  free(file);
}

bool by_network_file_is_busy(const struct by_network_file *file) {
  return atomic_load(&file->busy);
}

static void *write_main(void *argument) {
  struct by_network_file *file = argument;
  if (by_network_cache_store(file->folder, &file->key, &file->entry) == BANYAN_OK)
    by_info("plan", "what was found of links is kept in %s", file->folder);
  else
    by_info("plan", "what was found of links is not kept: %s", banyan_error_text());
  atomic_store(&file->busy, false);
  return NULL;
}

enum banyan_status by_network_file_refine(struct by_network_file *file, struct by_topology *topology) {
  struct by_network_entry *entry = &file->entry;
  uint64_t now = by_clock_now(&by_clock_system);
  wait_for_thread(file);
  by_topology_destroy(entry->measured.topology);
  entry->measured.topology = topology;
  free(entry->plan);
  entry->plan = NULL;
  entry->age += (double)(now - file->since) * 1e-9;
  file->since = now;
  atomic_store(&file->busy, true);
  int error = by_thread_start(&file->thread, write_main, file);
  file->has_thread = error == 0;
  if (!error) return BANYAN_OK;
  atomic_store(&file->busy, false);
  return by_fail_errno(BANYAN_ERR_SYSTEM, error, "starting a thread that writes to the cache");
}
