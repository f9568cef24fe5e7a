/* The hosts of a job with their ranks: lists and files of hosts, and Slurm's allocations. */
#include "launch.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/param.h>
#include <unistd.h>

#include "address.h"
#include "arena.h"
#include "file.h"
#include "log.h"
#include "text.h"

/* ---- lists that Slurm has compressed */

enum { NAME_BYTES = 256, MAX_DIGITS = 9 };

struct receiver {
  enum banyan_status (*add)(void *context, const char *name);
  void *context;
};

static enum banyan_status bad_list(const char *text) {
  return by_fail(BANYAN_ERR_PARSE, "\"%.64s\" is no list of hosts such as node[1-3,7],gpu2", text);
}

static enum banyan_status add_item(const struct receiver *to, const char *name);

/* Adds the names of "07-09" or "12" between `before` and `after`. */
static enum banyan_status add_range(const struct receiver *to, const char *before, const char *range,
                                    const char *after) {
  char name[2 * NAME_BYTES];
  size_t digits = strspn(range, "0123456789"),
         more = range[digits] == '-' ? strspn(range + digits + 1, "0123456789") : 0;
  bool single = !range[digits];
  if (!digits || digits > MAX_DIGITS || more > MAX_DIGITS || (!single && (!more || range[digits + 1 + more])))
    return bad_list(range);
  long first = strtol(range, NULL, 10), last = single ? first : strtol(range + digits + 1, NULL, 10);
  if (last < first) return bad_list(range);
  if (last - first >= BY_MAX_HOSTS)
    return by_fail(BANYAN_ERR_PARSE, "[%.64s] stands for more than %d hosts, the largest number", range, BY_MAX_HOSTS);
  for (long i = first; i <= last; i++) {
    int length = snprintf(name, sizeof name, "%s%0*ld%s", before, (int)digits, i, after);
    if (length >= NAME_BYTES) return bad_list(before);
    BY_TRY(add_item(to, name));
  }
  return BANYAN_OK;
}

/* Adds one name, or several by its first bracket; recursion expands the brackets after it. */
static enum banyan_status add_item(const struct receiver *to, const char *name) {
  char copy[NAME_BYTES];
  snprintf(copy, sizeof copy, "%s", name);
  char *open = strchr(copy, '['), *close = open ? strchr(open, ']') : NULL;
  if (open && !close) return bad_list(name);
  if (!open || memchr(open, ':', (size_t)(close - open))) return to->add(to->context, name);
  *open = *close = 0;
  for (char *rest = open + 1, *range; (range = strsep(&rest, ","));) BY_TRY(add_range(to, copy, range, close + 1));
  return BANYAN_OK;
}

/* Returns the length of the first item, up to a comma outside of brackets. */
static size_t item_length(const char *list) {
  size_t n = 0;
  for (bool within = false; list[n] && (within || list[n] != ','); n++)
    within = list[n] == '[' || (within && list[n] != ']');
  return n;
}

/* Calls `add` for each host of "node[01-03,7]:2,gpu4", until it fails: node01:2, node02:2, node03:2, node7:2, gpu4. An
 * item with a colon in its brackets is an address and is unchanged. BANYAN_ERR_PARSE: it is no list. */
static enum banyan_status expand_names(const char *list, enum banyan_status (*add)(void *context, const char *name),
                                       void *context) {
  const struct receiver to = {add, context};
  for (size_t n;; list += n + 1) {
    char item[NAME_BYTES];
    n = item_length(list);
    if (!n || n >= sizeof item) return bad_list(list);
    snprintf(item, sizeof item, "%.*s", (int)n, list);
    BY_TRY(add_item(&to, item));
    if (!list[n]) return BANYAN_OK;
  }
}

void by_hosts_init(struct by_launch_hosts *hosts) {
  *hosts = (struct by_launch_hosts){0};
  by_arena_init(&hosts->arena);
}

void by_hosts_fini(struct by_launch_hosts *hosts) {
  free(hosts->items);
  by_arena_fini(&hosts->arena);
}

/* Tells whether a name is this machine's. It does not use DNS: other names of this machine are reached through ssh,
 * which works, too. */
static bool is_local(const char *name) {
  char own[NAME_BYTES] = "";
  struct by_address address;
  if (by_address_parse_host(name, 0, &address) == BANYAN_OK)
    return by_address_is_loopback(&address) || by_interface_is_own(&address, false);
  if (!strcasecmp(name, "localhost")) return true;
  gethostname(own, sizeof own - 1);
  if (!strcasecmp(name, own)) return true;
  size_t shorter = strcspn(own, "."); /* "node7" is node7.cluster.example. */
  return shorter && strlen(name) == shorter && !strncasecmp(name, own, shorter);
}

static enum banyan_status append_host(struct by_launch_hosts *hosts, const char *destination, const char *name,
                                      struct by_launch_host host) {
  host.name = by_arena_string(&hosts->arena, name);
  host.destination = by_arena_string(&hosts->arena, destination);
  if (!host.name || !host.destination) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the name of %s", name);
  if (hosts->count == BY_MAX_HOSTS || !BY_ARRAY_GROW(&hosts->items, &hosts->capacity, hosts->count + 1))
    return by_fail(BANYAN_ERR_NO_MEMORY, "no room for more than %zu hosts", hosts->count);
  hosts->items[hosts->count++] = host;
  return BANYAN_OK;
}

static enum banyan_status add_host(struct by_launch_hosts *hosts, const char *destination, const char *name,
                                   int slots) {
  if (++hosts->named > BY_MAX_RANKS)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s is one host too many: at most %d are possible, counting repeated names",
                   name, BY_MAX_RANKS);
  for (struct by_launch_host *host = hosts->items; host < hosts->items + hosts->count; host++) {
    if (strcmp(host->name, name) != 0) continue;
    if (slots > BY_MAX_RANKS - host->slots) return by_fail(BANYAN_ERR_ARGUMENT, "too many slots on %s", name);
    host->slots += slots;
    return BANYAN_OK;
  }
  return append_host(hosts, destination, name, (struct by_launch_host){.slots = slots, .local = is_local(name)});
}

enum banyan_status by_hosts_add_place(struct by_launch_hosts *hosts, const char *name, int slots,
                                      enum banyan_status (*enter)(void *context, const struct by_launch_host *host),
                                      void *context) {
  return append_host(hosts, name, name,
                     (struct by_launch_host){.slots = slots, .local = true, .enter = enter, .context = context});
}

/* Adds a node of a Slurm allocation, on which srun starts run-host, even if it is this machine. */
static enum banyan_status add_slurm_node(struct by_launch_hosts *hosts, const char *name, int slots) {
  return append_host(hosts, name, name, (struct by_launch_host){.slots = slots, .node = true});
}

/* Rejects a name with a leading dash, which would be an option of ssh. */
static enum banyan_status check_name(const char *name) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:%@";
  if (!*name || *name == '-' || name[strspn(name, letters)])
    return by_fail(BANYAN_ERR_ARGUMENT, "\"%.64s\" is not a host", name);
  return BANYAN_OK;
}

/* Removes the brackets of "user@[::1]" in place: ssh needs the bare address. */
static void strip_brackets(char *destination) {
  char *open = strchr(destination, '['), *close = strrchr(destination, ']');
  if (!open || !close || close < open) return;
  memmove(close, close + 1, strlen(close));
  memmove(open, open + 1, strlen(open));
}

/* Properties of all hosts of a list. */
struct given {
  struct by_launch_hosts *hosts;
  int slots;        /* 0: each states it, or has one. */
  const char *user; /* NULL: each states it, or needs none. */
};

/* Adds "user@name:slots". */
static enum banyan_status add_host_item(void *context, const char *item) {
  const struct given *given = context;
  char text[2 * NAME_BYTES];
  long slots = given->slots ? given->slots : 1;
  if (given->user && strchr(item, '@'))
    return by_fail(BANYAN_ERR_PARSE, "the user of %.64s is given twice: before the @ and as user=%.64s", item,
                   given->user);
  int length = snprintf(text, sizeof text, "%s%s%s", given->user ? given->user : "", given->user ? "@" : "", item);
  if (length >= NAME_BYTES) return by_fail(BANYAN_ERR_PARSE, "\"%.64s\" is too long for a host", item);
  char *bracket = strchr(text, ']');
  char *colon = strchr(bracket ? bracket : text, ':');
  if (colon && !bracket && strchr(colon + 1, ':')) /* More than one colon: a bare IPv6 address. */
    return by_fail(BANYAN_ERR_ARGUMENT, "write the address %.64s in brackets: [%.64s]:slots", text, text);
  if (colon) {
    *colon = 0;
    enum banyan_status status = by_parse_int("slots", colon + 1, 1, BY_MAX_RANKS, &slots);
    if (status != BANYAN_OK) return by_fail_within(status, "host \"%.64s\"", text);
    if (given->slots)
      return by_fail(BANYAN_ERR_PARSE, "the slots of %.64s are given twice: behind its colon and as slots=%d", text,
                     given->slots);
  }
  strip_brackets(text);
  char *at = strrchr(text, '@');
  const char *name = at ? at + 1 : text;
  BY_TRY(check_name(name));
  BY_TRY(check_name(text));
  return add_host(given->hosts, text, name, (int)slots);
}

/* Adds hosts whose slots (0: not given) and user (NULL: not given) are known; a repeated statement is an error. */
static enum banyan_status parse_hosts(struct by_launch_hosts *hosts, const char *list, int slots, const char *user) {
  return expand_names(list, add_host_item, &(struct given){hosts, slots, user});
}

enum banyan_status by_hosts_parse(struct by_launch_hosts *hosts, const char *list) {
  return parse_hosts(hosts, list, 0, NULL);
}

enum banyan_status by_hosts_add_self(struct by_launch_hosts *hosts, int slots) {
  char own[NAME_BYTES] = "";
  const char *host = getenv("BANYAN_HOST");
  if (host && *host) return by_hosts_add_place(hosts, host, slots, NULL, NULL);
  if (gethostname(own, sizeof own - 1) || !*own) strcpy(own, "localhost");
  return add_host(hosts, own, own, slots);
}

int by_hosts_slots(const struct by_launch_hosts *hosts) {
  int sum = 0;
  for (size_t i = 0; i < hosts->count && sum < BY_MAX_RANKS; i++) sum += hosts->items[i].slots;
  return sum;
}

enum banyan_status by_hosts_place(struct by_launch_hosts *hosts, int ranks) {
  int placed = 0;
  size_t used = 0;
  for (; used < hosts->count && placed < ranks; used++) {
    struct by_launch_host *host = &hosts->items[used];
    host->first = placed;
    host->ranks = MIN(host->slots, ranks - placed);
    placed += host->ranks;
  }
  if (placed < ranks)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "the hosts have %d slots for %d ranks: give more hosts, or more slots, as in %s:%d", placed, ranks,
                   hosts->items[0].name, hosts->items[0].slots + ranks - placed);
  hosts->count = used;
  return BANYAN_OK;
}

const char *by_beside_name(enum by_beside beside) {
  static const char *const names[] = {"rank", "helper", "server"};
  return names[beside];
}

enum banyan_status by_hosts_add_beside(struct by_launch_hosts *hosts, const struct by_launch_hosts *more,
                                       enum by_beside beside, int first) {
  for (size_t i = 0; i < more->count; i++) {
    struct by_launch_host host = more->items[i];
    host.beside = beside;
    host.first = first;
    host.ranks = beside == BY_SERVERS ? 1 : host.slots;
    first += host.ranks;
    BY_TRY(append_host(hosts, host.destination, host.name, host));
  }
  return BANYAN_OK;
}

bool by_hosts_all_local(const struct by_launch_hosts *hosts) {
  for (size_t i = 0; i < hosts->count; i++)
    if (!hosts->items[i].local) return false;
  return true;
}

/* ---- host files: those of Banyan, Open MPI and MPICH, and lists of Slurm's nodes
 *
 *   node1:4                          Banyan, MPICH
 *   node2 slots=4 max-slots=8        Open MPI
 *   node3:4 user=me binding=rr       MPICH
 *   node[4-6,9]                      Slurm, as in SLURM_JOB_NODELIST
 *   node7                            Slurm: a name for each of its tasks
 *   node7 */

enum { MAX_FILE = 16 << 20 };

struct line {
  const char *file;
  int number;
  long slots, max;  /* 0: not stated. */
  const char *user; /* NULL: not stated. */
  const char *word; /* The attribute that is being read. */
};

/* Warns of an attribute for which `banyan run` has an option that applies to all hosts. */
static enum banyan_status warn_of(const struct line *line, const char *instead) {
  by_warn("launch", "%s:%d: \"%.64s\" is ignored: %s for all hosts", line->file, line->number, line->word, instead);
  return BANYAN_OK;
}

static enum banyan_status take_slots(struct line *line, const char *value) {
  return by_parse_int("slots", value, 1, BY_MAX_RANKS, &line->slots);
}

static enum banyan_status take_most(struct line *line, const char *value) {
  return by_parse_int("max_slots", value, 1, BY_MAX_RANKS, &line->max);
}

static enum banyan_status take_user(struct line *line, const char *value) {
  line->user = value;
  return BANYAN_OK;
}

static enum banyan_status take_binding(struct line *line, const char *value) {
  return warn_of(line, "--pin binds ranks to cores");
}

static enum banyan_status take_interface(struct line *line, const char *value) {
  return warn_of(line, "--iface selects interfaces");
}

static const struct attribute {
  const char *name;
  enum banyan_status (*take)(struct line *line, const char *value);
} attributes[] = {{"slots", take_slots}, {"max_slots", take_most},  {"max-slots", take_most},
                  {"user", take_user},   {"username", take_user},   {"count", take_slots},
                  {"cpu", take_slots},   {"binding", take_binding}, {"bind", take_binding},
                  {"map", take_binding}, {"ifname", take_interface}};

static enum banyan_status take_attribute(struct line *line, char *word) {
  char *value = strchr(word, '=');
  line->word = word;
  for (size_t i = 0; i < sizeof attributes / sizeof *attributes && value && value[1]; i++) {
    const char *name = attributes[i].name;
    if (strncmp(word, name, (size_t)(value - word)) == 0 && !name[value - word])
      return attributes[i].take(line, value + 1);
  }
  return by_fail(BANYAN_ERR_PARSE,
                 "\"%.64s\" after the host is unknown: there are slots=N, max_slots=N, user=NAME, binding=... and "
                 "ifname=...",
                 word);
}

/* Turns "slots = 4" into "slots=4". */
static void join_around_equals(char *text) {
  char *out = text;
  for (const char *c = text; *c; c++) {
    if (isblank((unsigned char)*c)) {
      const char *next = c + strspn(c, " \t");
      if (*next == '=' || (out > text && out[-1] == '=')) continue;
    }
    *out++ = *c;
  }
  *out = 0;
}

/* Parses a line; blank lines and comments are ignored. */
static enum banyan_status parse_line(struct by_launch_hosts *hosts, struct line *line, char *text) {
  text[strcspn(text, "#\r")] = 0;
  join_around_equals(text);
  char *save, *names = strtok_r(text, " \t", &save);
  if (!names) return BANYAN_OK;
  for (char *word; (word = strtok_r(NULL, " \t", &save));) BY_TRY(take_attribute(line, word));
  if (line->max && line->slots > line->max)
    return by_fail(BANYAN_ERR_PARSE, "slots=%ld are more than max_slots=%ld", line->slots, line->max);
  return parse_hosts(hosts, names, (int)line->slots, line->user);
}

enum banyan_status by_hosts_read(struct by_launch_hosts *hosts, const char *path) {
  char *text;
  size_t length;
  int before = by_hosts_slots(hosts);
  BY_TRY(by_read_file("host file", path, MAX_FILE, &text, &length));
  enum banyan_status status = BANYAN_OK;
  char *found, *rest = text;
  if (strncmp(rest, "\xef\xbb\xbf", 3) == 0)
    rest += 3; /* The byte order mark of UTF-8, which editors of Windows write. */
  for (int number = 1; status == BANYAN_OK && (found = strsep(&rest, "\n")); number++) {
    struct line line = {.file = path, .number = number};
    status = parse_line(hosts, &line, found);
    if (status) status = by_fail_within(status, "%s:%d", path, number);
  }
  free(text);
  if (!status && by_hosts_slots(hosts) == before) status = by_fail(BANYAN_ERR_PARSE, "%s names no host", path);
  return status;
}

/* ---- the nodes of this process's Slurm allocation */

/* Parses "2(x3),1": the number of tasks of consecutive nodes. */
struct counts {
  const char *at;
  long count, left; /* Remaining nodes with this count. */
};

static enum banyan_status bad_counts(const char *text) {
  return by_fail(BANYAN_ERR_PARSE, "SLURM_TASKS_PER_NODE=%.64s is no list of counts", text);
}

static enum banyan_status next_count(struct counts *counts, long *out) {
  if (!counts->left && *counts->at) {
    char *end;
    const char *text = counts->at;
    counts->count = strtol(text, &end, 10);
    counts->left = 1;
    if (end == text || counts->count < 1 || counts->count > BY_MAX_RANKS) return bad_counts(text);
    if (!strncmp(end, "(x", 2)) {
      const char *times = end + 2;
      counts->left = strtol(times, &end, 10);
      if (end == times || *end++ != ')' || counts->left < 1) return bad_counts(text);
    }
    if (*end && *end != ',') return bad_counts(text);
    counts->at = end + (*end == ',');
  }
  if (!counts->left) return by_fail(BANYAN_ERR_PARSE, "SLURM_TASKS_PER_NODE has fewer nodes than SLURM_JOB_NODELIST");
  counts->left--;
  *out = counts->count;
  return BANYAN_OK;
}

struct allocation {
  struct by_launch_hosts *hosts;
  struct counts counts;
};

static enum banyan_status add_node(void *context, const char *name) {
  struct allocation *allocation = context;
  long slots = 0;
  BY_TRY(next_count(&allocation->counts, &slots));
  return add_slurm_node(allocation->hosts, name, (int)slots);
}

enum banyan_status by_hosts_add_slurm(struct by_launch_hosts *hosts) {
  const char *list = getenv("SLURM_JOB_NODELIST"), *tasks = getenv("SLURM_TASKS_PER_NODE");
  struct allocation allocation = {hosts, {.at = tasks ? tasks : "", .count = 1, .left = tasks ? 0 : BY_MAX_HOSTS}};
  if (!list || !*list)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "this is no Slurm allocation: SLURM_JOB_NODELIST is not set. Use --slurm within "
                   "sbatch or salloc");
  enum banyan_status status = expand_names(list, add_node, &allocation);
  return status == BANYAN_OK ? status : by_fail_within(status, "SLURM_JOB_NODELIST");
}
