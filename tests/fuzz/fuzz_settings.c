/* The environment of a rank: lines "NAME=value", of our variables and of other launchers' variables. Accepted values
 * must be within their bounds, and the entries of lists must be valid for their users. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "address.h"
#include "dialer.h"
#include "engine.h"
#include "planner.h"
#include "settings.h"
#include "socket.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Only these variables, because PMIX_... would load a library. */
static const char *const others[] = {"OMPI_COMM_WORLD_RANK",
                                     "OMPI_COMM_WORLD_SIZE",
                                     "PMI_RANK",
                                     "PMI_SIZE",
                                     "SLURM_PROCID",
                                     "SLURM_NTASKS",
                                     "SLURM_STEP_NODELIST",
                                     "SLURM_JOB_NODELIST",
                                     "SLURM_JOB_ID",
                                     "SLURM_STEP_ID",
                                     "SLURM_JOB_END_TIME",
                                     "RANK",
                                     "WORLD_SIZE",
                                     "MASTER_ADDR",
                                     "MASTER_PORT",
                                     "TORCHELASTIC_RUN_ID"};
enum { OTHERS = sizeof others / sizeof *others };

static void set(char *line) {
  char *value = strchr(line, '=');
  if (!value) return;
  *value++ = 0;
  int i = 0;
  while (i < OTHERS && strcmp(others[i], line) != 0) i++;
  if (i == OTHERS && strncmp(line, "BANYAN_", 7) != 0) return;
  setenv(line, value, 1);
}

static void set_all(char *text) {
  clearenv();
  for (char *line; (line = strsep(&text, "\n"));) set(line);
}

static void check_lists(const struct by_settings *s) {
  char value[BY_CHOICE_TEXT];
  struct by_address peer;
  assert(by_address_parse("10.8.0.1:5", &peer) == BANYAN_OK);
  assert(by_choose(s->congestion, &peer, value) == BANYAN_OK && strlen(value) < BY_CONGESTION_TEXT);
  assert(by_choose(s->socket_buffer, &peer, value) == BANYAN_OK);
  uint64_t bytes = 0;
  assert(!*value || (by_parse_bytes(value, &bytes) == BANYAN_OK && bytes <= 1u << 30));
  assert(by_choose(s->connections, &peer, value) == BANYAN_OK);
  long n = 1;
  assert(!*value || by_parse_int("n", value, 1, BY_LANES, &n) == BANYAN_OK);
}

/* Uses the settings as the job's start does. Each user may refuse them. */
static void use(const struct by_settings *s) {
  char host[BY_HOST_TEXT], slurm[BY_HOST_TEXT], text[BY_ADDRESS_TEXT];
  struct by_address address, again;
  struct by_interface all[2] = {{.name = "eth0", .index = 1, .bits = 8}, {.name = "lo", .index = 2, .bits = 8}};
  struct by_port_range range;
  struct by_fingerprint fingerprint;
  size_t n = 2;
  int port = -1, bits;
  assert(by_address_parse("10.0.0.1:0", &all[0].address) == BANYAN_OK);
  assert(by_address_parse("127.0.0.1:0", &all[1].address) == BANYAN_OK);
  if (s->root && by_address_split(s->root, host, &port) == BANYAN_OK) assert(port >= 0 && port <= 65535);
  if (s->root && by_address_parse(s->root, &address) == BANYAN_OK) {
    assert(by_address_parse(by_address_print(&address, text), &again) == BANYAN_OK);
    assert(!by_address_compare(&address, &again));
  }
  if (s->root && by_dialer_check(s->root, &port) == BANYAN_OK) {
    assert(port >= 0 && port <= 65535);
    assert(!strchr(s->root, '#') == !by_dialer_fingerprint(s->root, &fingerprint));
  }
  if (s->ports && by_port_range_parse(s->ports, &range) == BANYAN_OK)
    assert(range.low >= 0 && range.low <= range.high && range.high <= 65535);
  if (by_interface_choose(s->iface, true, all, &n) == BANYAN_OK) assert(n <= 2);
  if (s->host && by_slurm_first_host(s->host, slurm, sizeof slurm) == BANYAN_OK) assert(strlen(slurm) < sizeof slurm);
  if (s->host && by_subnet_parse(s->host, &address, &bits) == BANYAN_OK) assert(bits >= 0 && bits <= 128);
}

static void check_planner(const struct by_settings *s) {
  struct by_planner_options options = by_planner_defaults();
  if (by_planner_options_parse(s->planner, &options) != BANYAN_OK) return;
  assert(options.max_trees >= 1 && options.steps >= 1 && options.allowed && options.method <= BY_PLANNER_IN_NETWORK);
  assert(options.max_height > 0 && options.min_rate >= 0 && options.penalty >= 0 && options.penalty <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct by_settings s;
  char *text = calloc(1, size + 1);
  assert(text);
  if (size) memcpy(text, data, size);
  set_all(text);
  if (by_settings_read(&s) == BANYAN_OK) {
    assert(s.rank >= -1 && s.size >= -1 && s.tos >= -1 && s.tos <= 255);
    assert(s.eager_limit >= 4096 && s.credit >= s.eager_limit && s.chunk <= 4u << 20 && s.block % 64 == 0);
    assert(s.deadline > 0 && s.join_deadline > 0);
    assert(!s.root || s.root != s.root_text || strlen(s.root) < sizeof s.root_text);
    check_lists(&s);
    check_planner(&s);
    use(&s);
  }
  for (char **e = environ; e && *e; e++) (void)by_settings_suggest(*e);
  free(text);
  return 0;
}
