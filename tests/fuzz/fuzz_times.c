/* Times as `banyan bench --json` prints them, over the hosts of a small network. Times that can be read can be used for
 * predictions. Plans may also be names of files, so inputs that could name a file elsewhere are skipped. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plan_topology.h"
#include "topology_formats.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct by_times *times) {
  for (uint32_t i = 0; i < times->n; i++) {
    const struct by_cost_sample *sample = &times->samples[i];
    assert(times->names[i] && sample->n <= BY_TIMES_MAX);
    for (uint32_t k = 0; k < sample->n; k++) {
      assert(sample->bytes[k] >= 1 && sample->seconds[k] > 0);
      assert(by_cost_time(&sample->cost, sample->bytes[k]) >= 0);
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct by_topology *topology;
  struct by_cost_rates rates = by_cost_defaults();
  if (memchr(data, '/', size) || memchr(data, '\\', size)) return 0;
  if (!topology) assert(by_topology_named("star:4,nic=1g", &topology) == BANYAN_OK);
  struct by_times *times = calloc(1, sizeof *times);
  assert(times);
  by_times_init(times, topology, &rates);
  if (by_times_read(times, "times.json", (const char *)data, size) == BANYAN_OK) check(times);
  by_times_fini(times);
  free(times);
  return 0;
}
