/* Arbitrary bytes as an entry of the cache of measured networks, for a job on four hosts. What can be read can be
 * probed and planned with, and is the same when it is printed and read again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "network_cache.h"
#include "plan.h"
#include "text.h"

#undef NDEBUG
#include <assert.h>

enum { HOSTS = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const hosts[HOSTS] = {"10.0.0.1 25000 -", "10.0.0.2 25000 -", "10.0.0.3 25000 -", "10.0.0.4 -"};
static const struct by_network_key key = {.n = HOSTS, .hosts = hosts, .planner = "planner"};
static const double now = 1e9;

static void check(const struct by_network_entry *entry) {
  uint32_t taken = 0;
  for (uint32_t h = 0; h < HOSTS; h++) {
    assert(entry->place[h] < HOSTS && !(taken >> entry->place[h] & 1));
    taken |= 1u << entry->place[h];
  }
  for (uint32_t k = 0; k < entry->measured.n_probes; k++) {
    const struct by_probe_flow *probe = &entry->measured.probes[k];
    assert(probe->from < HOSTS && probe->to < HOSTS && probe->from != probe->to && probe->rate >= 0);
  }
  assert(!entry->plan || entry->decision == BY_NETWORK_PLANNED);
  if (!entry->plan) return;
  struct by_plan *plan;
  assert(by_plan_parse("plan", entry->plan, strlen(entry->plan), &plan) == BANYAN_OK);
  assert(plan->n_ranks == HOSTS && plan->n_vertices == HOSTS);
  by_plan_destroy(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct by_network_entry entry, again;
  struct by_text text;
  if (by_network_entry_parse("entry.json", (const char *)data, size, &key, now, &entry) != BANYAN_OK) return 0;
  check(&entry);
  by_text_init(&text);
  by_network_entry_print(&key, &entry, now, &text);
  assert(!text.failed);
  assert(by_network_entry_parse("again.json", by_text_get(&text), text.length, &key, now, &again) == BANYAN_OK);
  assert(memcmp(again.place, entry.place, sizeof *entry.place * HOSTS) == 0);
  assert(again.measured.n_probes == entry.measured.n_probes);
  by_text_fini(&text);
  by_network_entry_fini(&again);
  by_network_entry_fini(&entry);
  return 0;
}
