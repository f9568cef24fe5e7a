/* Keeps measured networks in files, and finds them again by the hosts of a job. */
#include "network_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "descriptor.h"
#include "file.h"
#include "handshake.h"
#include "json_doc.h"
#include "log.h"
#include "plan.h"
#include "text.h"

#define FORMAT "banyan-network 2"
#define PREFIX "network-"
#define FIELDS "format, measured, hosts, probes, topology, decision"
#define DECISION_FIELDS "at, planner, order, planned, plan"
#define PROBE_FIELDS "round, from, to, rate, delay, block"

enum {
  MAX_BYTES = 8 << 20,
  MAX_PLAN = 512 << 10, /* Maximum bytes of a plan; a longer one is made again, as fast as reading it. */
  MAX_PATH = 4096,
  MAX_ROUNDS = 8,
  PROBES_PER_HOST = 6,
  NAME_BYTES = 16,
  DAY = 86400,
  TOLERANCE = 60,
  MAX_DELAY_MS = 100 /* What has longer round trips is not measured when a job starts. */
};

static const struct by_doc_limits limits = {MAX_BYTES, 1 << 17, 1 << 20};

/* ---- where */

static int compare_texts(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Hashes what identifies a network; the result does not depend on the order of hosts. */
static enum banyan_status identify(const struct by_network_key *key, struct by_key *digest) {
  struct by_text text;
  const char **hosts = calloc(key->n, sizeof *hosts);
  if (!hosts) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the name of a network");
  memcpy(hosts, key->hosts, key->n * sizeof *hosts);
  qsort(hosts, key->n, sizeof *hosts, compare_texts);
  by_text_init(&text);
  for (uint32_t h = 0; h < key->n; h++) by_text_add(&text, "%s\n", hosts[h]);
  enum banyan_status status = text.failed ? by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the name of a network")
                                          : by_key_derive(by_text_get(&text), digest);
  by_text_fini(&text);
  free(hosts);
  return status;
}

/* The digest of what identifies a network names its file. */
static enum banyan_status name_file(const char *folder, const struct by_network_key *key, char *out, size_t capacity) {
  struct by_key digest = {0};
  char name[2 * NAME_BYTES + 1];
  BY_TRY(identify(key, &digest));
  by_print_hex(digest.bytes, NAME_BYTES, name);
  int length = snprintf(out, capacity, "%s/" PREFIX "%s.json", folder, name);
  if (length >= 0 && (size_t)length < capacity) return BANYAN_OK;
  return by_fail(BANYAN_ERR_UNSUPPORTED, "the path of the cache, %s, is too long", folder);
}

/* ---- texts */

/* Returns which host of the key has this text, of those that are not found yet. */
static uint32_t find_host(const struct by_network_key *key, const char *text, const uint32_t *place) {
  uint32_t h = 0;
  while (h < key->n && (place[h] != UINT32_MAX || strcmp(key->hosts[h], text) != 0)) h++;
  return h;
}

/* Reads the hosts, and fills place[]. */
static enum banyan_status read_hosts(const struct by_doc_path *above, const json_t *root,
                                     const struct by_network_key *key, uint32_t *place) {
  struct by_doc_path hosts_at = {.above = above, .field = "hosts"};
  json_t *hosts;
  BY_TRY(by_doc_need(above, root, "hosts", &hosts));
  BY_TRY(by_doc_array(&hosts_at, hosts, 1, UINT32_MAX));
  if (json_array_size(hosts) != key->n) return by_doc_fail(&hosts_at, "is another network");
  for (uint32_t h = 0; h < key->n; h++) place[h] = UINT32_MAX;
  for (uint32_t i = 0; i < key->n; i++) {
    struct by_doc_path at = {.above = &hosts_at, .index = i};
    const char *text;
    BY_TRY(by_doc_string(&at, json_array_get(hosts, i), &text));
    uint32_t h = find_host(key, text, place);
    if (h == key->n) return by_doc_fail(&at, "is \"%s\", of another network", text);
    place[h] = i;
  }
  return BANYAN_OK;
}

static enum banyan_status read_probe(const struct by_doc_path *place, const json_t *value, uint32_t n,
                                     struct by_probe_flow *out) {
  uint64_t round, from, to, block;
  json_t *rate, *delay;
  struct by_doc_path of_rate = {.above = place, .field = "rate"}, of_delay = {.above = place, .field = "delay"};
  BY_TRY(by_doc_fields(place, value, PROBE_FIELDS));
  BY_TRY(by_doc_need_int(place, value, "round", MAX_ROUNDS - 1, &round));
  BY_TRY(by_doc_need_int(place, value, "from", n - 1, &from));
  BY_TRY(by_doc_need_int(place, value, "to", n - 1, &to));
  BY_TRY(by_doc_need_int(place, value, "block", BY_PROBE_MAX_BLOCK, &block));
  BY_TRY(by_doc_need(place, value, "rate", &rate));
  BY_TRY(by_doc_need(place, value, "delay", &delay));
  *out = (struct by_probe_flow){
      .round = (uint32_t)round, .from = (uint32_t)from, .to = (uint32_t)to, .block = (uint32_t)block};
  BY_TRY(by_doc_rate(&of_rate, rate, &out->rate));
  BY_TRY(by_doc_seconds(&of_delay, delay, &out->delay));
  if (out->delay > MAX_DELAY_MS * 1e-3)
    return by_doc_fail(&of_delay, "is %g s, must be at most %g s", out->delay, MAX_DELAY_MS * 1e-3);
  return from == to ? by_doc_fail(place, "goes from host %u to itself", out->from) : BANYAN_OK;
}

static enum banyan_status read_probes(const struct by_doc_path *above, const json_t *root, uint32_t n,
                                      struct by_measured *out) {
  struct by_doc_path place = {.above = above, .field = "probes"};
  json_t *probes;
  BY_TRY(by_doc_need(above, root, "probes", &probes));
  BY_TRY(by_doc_array(&place, probes, 0, (size_t)MAX(PROBES_PER_HOST, n - 1) * n));
  out->n_probes = (uint32_t)json_array_size(probes);
  out->probes = calloc((size_t)out->n_probes + 1, sizeof *out->probes);
  if (!out->probes) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for probes of a network");
  for (uint32_t i = 0; i < out->n_probes; i++) {
    struct by_doc_path at = {.above = &place, .index = i};
    BY_TRY(read_probe(&at, json_array_get(probes, i), n, &out->probes[i]));
    if (i && out->probes[i].round < out->probes[i - 1].round) return by_doc_fail(&at, "is of an earlier round");
  }
  return BANYAN_OK;
}

static enum banyan_status read_topology(const struct by_doc_path *above, const char *source, const json_t *root,
                                        uint32_t n, struct by_topology **out) {
  struct by_doc_path place = {.above = above, .field = "topology"};
  json_t *value;
  uint32_t hosts = 0;
  BY_TRY(by_doc_need(above, root, "topology", &value));
  char *text = json_dumps(value, JSON_ENCODE_ANY);
  if (!text) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the topology of a network");
  enum banyan_status status = by_topology_parse(source, text, strlen(text), out);
  free(text);
  BY_TRY(status);
  for (uint32_t v = 0; v < (*out)->n_nodes; v++) hosts += (*out)->nodes[v].takes_part;
  return hosts == n ? BANYAN_OK : by_doc_fail(&place, "has %u hosts, not %u", hosts, n);
}

/* Reads a member that is a time, as seconds before now. */
static enum banyan_status read_age(const struct by_doc_path *above, const json_t *root, const char *field, double now,
                                   double *age) {
  struct by_doc_path place = {.above = above, .field = field};
  json_t *value;
  double then;
  BY_TRY(by_doc_need(above, root, field, &value));
  BY_TRY(by_doc_real(&place, value, &then));
  *age = now - then;
  if (*age < -TOLERANCE) return by_doc_fail(&place, "is %.0f s in the future", -*age);
  return BANYAN_OK;
}

/* Returns whether the hosts were in the same order then. */
static enum banyan_status read_order(const struct by_doc_path *above, const json_t *root, const uint32_t *place,
                                     uint32_t n, bool *same) {
  struct by_doc_path order_at = {.above = above, .field = "order"};
  json_t *order;
  BY_TRY(by_doc_need(above, root, "order", &order));
  BY_TRY(by_doc_array(&order_at, order, n, n));
  *same = true;
  for (uint32_t h = 0; h < n; h++) {
    struct by_doc_path at = {.above = &order_at, .index = h};
    uint64_t host;
    BY_TRY(by_doc_int(&at, json_array_get(order, h), 0, n - 1, &host));
    *same = *same && host == place[h];
  }
  return BANYAN_OK;
}

/* The text of a plan over so many hosts, and nothing else, which can be run. */
static enum banyan_status read_plan(const struct by_doc_path *above, const char *source, const json_t *value,
                                    uint32_t n, char **out) {
  struct by_doc_path place = {.above = above, .field = "plan"};
  struct by_plan *plan = NULL;
  char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
  if (!text) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the plan of a network");
  enum banyan_status status = by_plan_parse(source, text, strlen(text), &plan);
  if (status == BANYAN_OK && (plan->n_ranks != n || plan->n_vertices != n))
    status = by_doc_fail(&place, "has %u ranks and %u vertices, not %u", plan->n_ranks, plan->n_vertices, n);
  by_plan_destroy(plan);
  if (status == BANYAN_OK)
    *out = text;
  else
    free(text);
  return status;
}

static enum banyan_status read_decision(const struct by_doc_path *above, const char *source, const json_t *root,
                                        const struct by_network_key *key, double now, struct by_network_entry *out) {
  struct by_doc_path place = {.above = above, .field = "decision"}, of_planner = {.above = &place, .field = "planner"},
                     of_planned = {.above = &place, .field = "planned"};
  json_t *decision, *planner, *planned;
  const char *text;
  bool same, is_planned;
  double age;
  BY_TRY(by_doc_need(above, root, "decision", &decision));
  BY_TRY(by_doc_fields(&place, decision, DECISION_FIELDS));
  BY_TRY(read_age(&place, decision, "at", now, &age));
  BY_TRY(by_doc_need(&place, decision, "planner", &planner));
  BY_TRY(by_doc_string(&of_planner, planner, &text));
  BY_TRY(by_doc_need(&place, decision, "planned", &planned));
  BY_TRY(by_doc_bool(&of_planned, planned, &is_planned));
  BY_TRY(read_order(&place, decision, out->place, key->n, &same));
  json_t *plan = json_object_get(decision, "plan");
  bool holds = same && strcmp(text, key->planner) == 0 && (is_planned || age <= (double)BY_NETWORK_TRIAL_DAYS * DAY);
  if (holds) out->decision = is_planned ? BY_NETWORK_PLANNED : BY_NETWORK_BUILTIN;
  return holds && is_planned && plan ? read_plan(&place, source, plan, key->n, &out->plan) : BANYAN_OK;
}

static enum banyan_status read_entry(const struct by_doc_path *place, const char *source, const json_t *root,
                                     const struct by_network_key *key, double now, struct by_network_entry *out) {
  struct by_doc_path of_format = {.above = place, .field = "format"}, of_age = {.above = place, .field = "measured"};
  json_t *format;
  const char *text;
  BY_TRY(by_doc_fields(place, root, FIELDS));
  BY_TRY(by_doc_need(place, root, "format", &format));
  BY_TRY(by_doc_string(&of_format, format, &text));
  if (strcmp(text, FORMAT) != 0) return by_doc_fail(&of_format, "must be \"%s\", is \"%.40s\"", FORMAT, text);
  BY_TRY(read_hosts(place, root, key, out->place));
  BY_TRY(read_age(place, root, "measured", now, &out->age));
  if (out->age > (double)BY_NETWORK_CACHE_DAYS * DAY) return by_doc_fail(&of_age, "is %.0f days ago", out->age / DAY);
  BY_TRY(read_probes(place, root, key->n, &out->measured));
  BY_TRY(read_topology(place, source, root, key->n, &out->measured.topology));
  return read_decision(place, source, root, key, now, out);
}

enum banyan_status by_network_entry_parse(const char *source, const char *text, size_t length,
                                          const struct by_network_key *key, double now, struct by_network_entry *out) {
  struct by_doc_path place = {.field = source};
  json_t *root = NULL;
  *out = (struct by_network_entry){0};
  BY_TRY(by_doc_load(source, text, length, &limits, &root));
  out->place = calloc(key->n, sizeof *out->place);
  enum banyan_status status = out->place ? read_entry(&place, source, root, key, now, out)
                                         : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the hosts of a network");
  json_decref(root);
  if (status != BANYAN_OK) by_network_entry_fini(out);
  return status;
}

void by_network_entry_fini(struct by_network_entry *entry) {
  by_measured_fini(&entry->measured);
  free(entry->place);
  free(entry->plan);
  *entry = (struct by_network_entry){0};
}

static uint32_t place_of(const struct by_network_entry *entry, uint32_t host) {
  return entry->place ? entry->place[host] : host;
}

/* Prints the hosts in the order of the topology. */
static void print_hosts(const struct by_network_key *key, const struct by_network_entry *entry, struct by_text *text) {
  by_json_begin_member(text, "hosts");
  by_text_add(text, "[");
  for (uint32_t i = 0; i < key->n; i++) {
    uint32_t h = 0;
    while (h + 1 < key->n && place_of(entry, h) != i) h++;
    by_json_separate(text);
    by_json_add_string(text, key->hosts[h]);
  }
  by_text_add(text, "]");
}

static void print_decision(const struct by_network_key *key, const struct by_network_entry *entry, double now,
                           struct by_text *text) {
  by_json_begin_member(text, "decision");
  by_text_add(text, "{");
  by_json_put_real(text, "at", now);
  by_json_put_string(text, "planner", key->planner);
  by_json_begin_member(text, "order");
  by_text_add(text, "[");
  for (uint32_t h = 0; h < key->n; h++) {
    by_json_separate(text);
    by_text_add(text, "%u", place_of(entry, h));
  }
  by_text_add(text, "]");
  by_json_put_bool(text, "planned", entry->decision == BY_NETWORK_PLANNED);
  if (entry->plan && strlen(entry->plan) <= MAX_PLAN) {
    by_json_begin_member(text, "plan");
    by_text_add(text, "%s", entry->plan);
  }
  by_text_add(text, "}");
}

void by_network_entry_print(const struct by_network_key *key, const struct by_network_entry *entry, double now,
                            struct by_text *text) {
  by_text_add(text, "{");
  by_json_put_string(text, "format", FORMAT);
  by_json_put_real(text, "measured", now - entry->age);
  print_hosts(key, entry, text);
  by_json_begin_member(text, "probes");
  by_text_add(text, "[");
  for (uint32_t i = 0; i < entry->measured.n_probes; i++) {
    const struct by_probe_flow *probe = &entry->measured.probes[i];
    by_json_separate(text);
    by_text_add(text, "{");
    by_json_put_count(text, "round", probe->round);
    by_json_put_count(text, "from", probe->from);
    by_json_put_count(text, "to", probe->to);
    by_json_put_real(text, "rate", probe->rate);
    by_json_put_real(text, "delay", probe->delay);
    by_json_put_count(text, "block", probe->block);
    by_text_add(text, "}");
  }
  by_text_add(text, "]");
  by_json_begin_member(text, "topology");
  by_topology_print(entry->measured.topology, text);
  print_decision(key, entry, now, text);
  by_text_add(text, "}\n");
}

/* ---- files */

enum banyan_status by_network_cache_load(const char *folder, const struct by_network_key *key,
                                         struct by_network_entry *out) {
  char path[MAX_PATH], *text = NULL;
  size_t length;
  *out = (struct by_network_entry){0};
  BY_TRY(name_file(folder, key, path, sizeof path));
  if (access(path, F_OK) != 0) return by_fail_errno(BANYAN_ERR_ARGUMENT, errno, "%s", path);
  BY_TRY(by_trusted_read("measured network", path, MAX_BYTES, &text, &length));
  enum banyan_status status = by_network_entry_parse(path, text, length, key, by_cache_date(), out);
  free(text);
  return status;
}

/* Returns whether name_file made this name, or by_cache_write made it from one. */
static bool is_of_cache(const char *name) {
  size_t prefix = strlen(PREFIX), digits = (size_t)2 * NAME_BYTES;
  return strncmp(name, PREFIX, prefix) == 0 && strspn(name + prefix, "0123456789abcdef") == digits &&
         strncmp(name + prefix + digits, ".json", 5) == 0;
}

/* Entries that are too old to be read, and what was left of one that was not written to its end: where addresses change
 * from job to job, each job leaves one. */
static void drop_old(const char *folder) {
  DIR *listed = opendir(folder);
  double now = by_cache_date();
  for (const struct dirent *entry; listed && (entry = readdir(listed)) != NULL;) {
    struct stat about;
    bool ours = is_of_cache(entry->d_name) && fstatat(dirfd(listed), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISREG(about.st_mode) && about.st_uid == geteuid();
    if (ours && now - (double)about.st_mtime > (double)BY_NETWORK_CACHE_DAYS * DAY)
      (void)unlinkat(dirfd(listed), entry->d_name, 0);
  }
  if (listed) closedir(listed);
}

enum banyan_status by_network_cache_store(const char *folder, const struct by_network_key *key,
                                          const struct by_network_entry *entry) {
  char path[MAX_PATH];
  struct by_text text;
  BY_TRY(name_file(folder, key, path, sizeof path));
  by_text_init(&text);
  by_network_entry_print(key, entry, by_cache_date(), &text);
  enum banyan_status status = text.failed ? by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a measured network")
                                          : by_cache_write(path, by_text_get(&text), text.length);
  by_text_fini(&text);
  drop_old(folder);
  return status;
}

/* ---- the entry of a running job */

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
