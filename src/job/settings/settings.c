/* The table of all settings, and reading, checking and printing them. */
#include "settings.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "address.h"
#include "cluster_message.h"
#include "engine.h"
#include "job_key.h"
#include "log.h"
#include "priority.h"
#include "socket.h"
#include "text.h"

/* Bytes and seconds may have a unit, see text.h. A count may be larger than a number. */
enum kind { TEXT, NUMBER, COUNT, BYTES, SECONDS, SHAPE };

/* A variable, or one key of a variable that has several, as in "BANYAN_NAME=value,key=value". */
struct setting {
  const char *name;
  enum kind kind;
  size_t offset;            /* Where the value lands in struct by_settings. */
  double min, max;          /* Of numbers, counts, bytes and seconds. */
  bool (*fits)(uint64_t n); /* What else a number of bytes must fulfil; NULL: nothing. */
  const char *rule;         /* What values must be, for errors; NULL: print the range. */
  const char *choices;      /* Of a text, such as "auto|shm|tcp"; NULL: any. */
  const char *preset;       /* NULL: none. */
  const char *key;          /* NULL: The variable has only this value. */
  const char *help;
};

static bool is_power_of_two(uint64_t n) {
  return (n & (n - 1)) == 0;
}

static bool is_whole_lines(uint64_t n) {
  return n % 64 == 0;
}

#define RANKS_MAX (1 << 24)
#define SHORTEST 1e-6 /* Seconds. */

#define AT(member) offsetof(struct by_settings, member)

static const struct setting table[] = {
    {"BANYAN_RANK", NUMBER, AT(rank), .min = -1, .max = RANKS_MAX, .help = "this process's rank, 0 to BANYAN_SIZE - 1"},
    {"BANYAN_SIZE", NUMBER, AT(size), .min = -1, .max = RANKS_MAX, .help = "number of ranks of the job"},
    {"BANYAN_ROOT", TEXT, AT(root),
     .help = "host:port where rank 0 listens; of several, \"10.0.0.1:29500,alpha:29500\", all are tried; "
             "\"#\" and rank 0's fingerprint may follow"},
    {"BANYAN_IDENTITY_FILE", TEXT, AT(identity_file),
     .help = "file with the secret of rank 0's fingerprint, which `banyan run` sets for rank 0 alone"},
    {"BANYAN_KEY_FILE", TEXT, AT(key_file),
     .help = "file with the job's key, of `banyan keys job`; a rank with another key is rejected"},
    {"BANYAN_KEY", TEXT, AT(key),
     .help = "the key itself, where a file is impossible: all processes of this user can read it"},
    {"BANYAN_ENCRYPT", TEXT, AT(encrypt), .choices = "auto|always|off", .preset = "auto",
     .help =
         "auto: connections between hosts are encrypted; always: those inside a host, too; off: none; the same in all "
         "processes"},
    {"BANYAN_HOST", TEXT, AT(host), .help = "name of this host in messages; default: the host name"},
    {"BANYAN_TRANSPORT", TEXT, AT(transport), .choices = BY_TRANSPORT_CHOICES, .preset = "auto",
     .help = "auto, shm (one host only) or tcp"},
    {"BANYAN_PLAN", TEXT, AT(plan), .help = "a built-in plan's name or a plan file; default: chosen by size"},
    {"BANYAN_TOPOLOGY", TEXT, AT(topology),
     .help = "a topology to plan for at the start, \"measure\", \"auto\" (the default) or \"off\"; used if no plan is "
             "given"},
    {"BANYAN_CACHE", TEXT, AT(cache),
     .help = "folder for what was measured of networks and machines, or \"off\"; default: ~/.cache/banyan"},
    {"BANYAN_PLANNER", TEXT, AT(planner),
     .help = "settings for such a plan, as of `banyan plan`: \"trees=8,max-height=4,method=few\"; with method=cluster "
             "also for a manager's plans"},
    {"BANYAN_DETERMINISTIC", NUMBER, AT(deterministic), .min = 0, .max = 1, .preset = "0",
     .help =
         "1: measurements do not influence how gradients are added, so that a plan gives the same bits in every run"},
    {"BANYAN_TIMELINE", TEXT, AT(timeline),
     .help = "file for a timeline of all ranks, which rank 0 writes while the job runs"},
    {"BANYAN_IFACE", TEXT, AT(iface), .preset = "",
     .help = "interfaces to use: \"eth1\", \"10.0.0.0/8\", \"eth*,!eth3\""},
    {"BANYAN_PORTS", TEXT, AT(ports), .help = "range of ports to listen on: \"5000-5100\"; default: any"},
    {"BANYAN_CONGESTION", TEXT, AT(congestion),
     .help = "TCP congestion control: \"cubic\", \"bbr@10.8.0.0/16,cubic\" by peer"},
    {"BANYAN_DEADLINE", SECONDS, AT(deadline), .min = SHORTEST, .max = INFINITY, .rule = "more than 0", .preset = "600",
     .help = "time a call may take before it ends with a timeout"},
    {"BANYAN_JOIN_DEADLINE", SECONDS, AT(join_deadline), .min = SHORTEST, .max = INFINITY, .rule = "more than 0",
     .preset = "120", .help = "time to wait for all ranks at the start"},
    {"BANYAN_SILENCE", SECONDS, AT(silence), .min = BY_SILENCE_MIN, .max = BY_SILENCE_MAX, .preset = "12",
     .help = "time without an answer after which a host counts as lost; shorter outages are survived"},
    {"BANYAN_QUORUM", TEXT, AT(quorum), .preset = "survivors",
     .help = "members of a group that may go on after others died: survivors (a majority, or all that are not proven "
             "dead), "
             "majority, or none (any)"},
    {"BANYAN_HELPERS", NUMBER, AT(helpers), .key = "helpers", .min = -1, .max = 65535, .preset = "-1",
     .help = "helpers for which rank 0 waits at the start; -1: those the plan names"},
    {"BANYAN_HELPERS", NUMBER, AT(servers), .key = "servers", .min = -1, .max = 65535, .preset = "-1",
     .help = "trees through switches for whose servers rank 0 waits; -1: those the plan names"},
    {"BANYAN_HELPERS", SECONDS, AT(helper_deadline), .key = "deadline", .min = 0, .max = INFINITY, .preset = "10",
     .help = "time to wait for helpers and servers after all ranks have joined"},
    {"BANYAN_HELPERS", NUMBER, AT(accept_helpers), .key = "accept", .min = 0, .max = 1, .preset = "1",
     .help = "1: agents may start helpers and servers for the job; 0: only those that its user starts take part"},
    {"BANYAN_SWITCHES", TEXT, AT(switches),
     .help =
         "addresses at which cells of switches are requested, \"s1=10.0.0.1:7613,s2=...\"; default: their names, port "
         "7613"},
    {"BANYAN_SWITCH_KEY_FILE", TEXT, AT(switch_key_file),
     .help =
         "file with the secret that switches and jobs share, of `banyan keys job`; without it, only switches on this "
         "machine "
         "answer"},
    {"BANYAN_SWITCH_KEY", TEXT, AT(switch_key),
     .help = "the secret itself; `banyan run` passes it on by a descriptor, with other launchers all processes of this "
             "user can read it"},
    {"BANYAN_SUMS", TEXT, AT(sums), .choices = "fixed|float32", .preset = "fixed",
     .help = "arithmetic of switches: fixed (point), or float32, which needs switches in user space"},
    {"BANYAN_FUSION", BYTES, AT(fusion), .min = 0, .max = 1 << 30, .preset = "1M",
     .help = "submitted AllReduces of at most 64 KiB each are fused up to this size; 0: no fusion"},
    {"BANYAN_STALL", SECONDS, AT(stall), .min = 0, .max = INFINITY, .preset = "60",
     .help = "time after which a call that some ranks have not made, or not submitted, is reported; 0: never"},
    {"BANYAN_SOCKET_BUFFER", TEXT, AT(socket_buffer), .preset = "0",
     .help = "size of socket buffers; 0: tuned by the kernel; may depend on the peer"},
    {"BANYAN_CONNECTIONS", TEXT, AT(connections), .preset = "1",
     .help = "number of TCP connections of a link, 1 to 8; may depend on the peer"},
    {"BANYAN_ENGINE", BYTES, AT(eager_limit), .key = "eager-limit", .min = 4096, .max = 64 << 20,
     .fits = is_power_of_two, .rule = "a power of two from 4K to 64M, such as 1M", .preset = "1M",
     .help = "eager limit: bytes of a message that are sent before the receiver grants any; a power of two"},
    {"BANYAN_ENGINE", BYTES, AT(credit), .key = "credit", .min = 4096, .max = INFINITY, .preset = "4M",
     .help = "eager bytes in flight on a link"},
    {"BANYAN_ENGINE", BYTES, AT(chunk), .key = "chunk", .min = 0, .max = 4 << 20, .preset = "0",
     .help = "largest number of bytes in one frame; 0: chosen by the transport"},
    {"BANYAN_ENGINE", BYTES, AT(block), .key = "block", .min = 4096, .max = 16 << 20, .fits = is_whole_lines,
     .rule = "a multiple of 64 from 4K to 16M, such as 64K", .preset = "64K", .help = "bytes added at a time"},
    {"BANYAN_ENGINE", SECONDS, AT(spin), .key = "spin", .min = -1, .max = INFINITY, .preset = "-1",
     .help = "time for which a wait polls before it sleeps; -1: chosen automatically"},
    {"BANYAN_ENGINE", SHAPE, AT(control), .key = "control", .preset = "auto",
     .help = "shape of the control tree for submitted operations: auto, tree, tree:K, ring or star"},
    {"BANYAN_AGENT", TEXT, AT(agent),
     .help = "socket of this host's agent, or \"off\"; default: /run/banyan/agent.sock, if it exists"},
    {"BANYAN_MANAGER", TEXT, AT(manager), .help = "host:port of the manager, for jobs on hosts without an agent"},
    {"BANYAN_KEYS", TEXT, AT(keys),
     .help = "folder of the authority's files, and of certificates for BANYAN_MANAGER; default: /etc/banyan/keys"},
    {"BANYAN_JOB", TEXT, AT(job), .help = "the job's name for people; default: the program's"},
    {"BANYAN_ITERATIONS", COUNT, AT(iterations), .min = 0, .max = INFINITY, .preset = "0",
     .help = "number of iterations that the job will make in all, for agent and manager; 0: unknown"},
    {"BANYAN_END_TIME", COUNT, AT(end_time), .min = 0, .max = INFINITY,
     .help =
         "when the job ends at the latest, in seconds since 1970, for agent and manager; default: SLURM_JOB_END_TIME"},
    {"BANYAN_REPLACE_PLAN", NUMBER, AT(replace_plan), .min = 0, .max = 1, .preset = "0",
     .help = "1: a manager may replace the plan that the user set"},
    {"BANYAN_CLASS", NUMBER, AT(class_), .key = "class", .min = -1, .max = BY_PRIORITY_CLASSES - 1, .preset = "-1",
     .help = "priority class of the job, 0 (highest) to 3; -1: as an agent or manager decides, else none"},
    {"BANYAN_CLASS", NUMBER, AT(tos), .key = "tos", .min = -1, .max = 255, .preset = "-1",
     .help = "ToS byte of the links in place of that of the class, 0 to 255; -1: that of the class, or unchanged"},
};

enum { SETTINGS = sizeof table / sizeof *table };

/* ---- one value */

enum { LABEL = 64, ITEM = 64, LIST = 512 };

/* How errors name a setting. */
static const char *label_of(const struct setting *s, char *label) {
  snprintf(label, LABEL, "%s%s%s", s->name, s->key ? ": " : "", s->key ? s->key : "");
  return label;
}

static enum banyan_status parse_seconds(const char *text, double *out) {
  *out = -1;
  return strcmp(text, "-1") ? by_parse_seconds(text, out) : BANYAN_OK;
}

enum banyan_status by_control_choice_parse(const char *text, struct by_control_choice *out) {
  long fan_out = 0;
  *out = (struct by_control_choice){0};
  if (!strcmp(text, "auto")) return BANYAN_OK;
  if (!strncmp(text, "tree:", 5)) BY_TRY(by_parse_int("fan-out", text + 5, 1, 65536, &fan_out));
  out->fan_out = (uint32_t)fan_out;
  if (fan_out || !strcmp(text, "tree"))
    out->kind = BY_CONTROL_TREE;
  else if (!strcmp(text, "ring"))
    out->kind = BY_CONTROL_RING;
  else if (!strcmp(text, "star"))
    out->kind = BY_CONTROL_STAR;
  else
    return by_fail(BANYAN_ERR_ARGUMENT, "'%s' is no shape; there are auto, tree, tree:K, ring and star", text);
  return BANYAN_OK;
}

static enum banyan_status parse(const struct setting *s, const char *text, void *to) {
  enum banyan_status status = BANYAN_OK;
  char label[LABEL];
  long n = 0;
  label_of(s, label);
  switch (s->kind) {
  case TEXT: *(const char **)to = text; break;
  case NUMBER: return by_parse_int(label, text, (long)s->min, (long)s->max, to);
  case COUNT:
    BY_TRY(by_parse_int(label, text, 0, LONG_MAX, &n));
    *(uint64_t *)to = (uint64_t)n;
    break;
  case BYTES: status = by_parse_bytes(text, to); break;
  case SECONDS: status = parse_seconds(text, to); break;
  case SHAPE: status = by_control_choice_parse(text, to);
  }
  return status == BANYAN_OK ? status : by_fail_within(status, "%s", label);
}

/* A value as a number, to compare with the range. */
static double number_at(const struct setting *s, const void *at) {
  switch (s->kind) {
  case NUMBER: return (double)*(const long *)at;
  case COUNT:
  case BYTES: return (double)*(const uint64_t *)at;
  case SECONDS: return *(const double *)at;
  case SHAPE:
  case TEXT: break;
  }
  return 0;
}

static const char *print_number(const struct setting *s, double value, char *out) {
  if (s->kind == BYTES) return by_print_bytes((uint64_t)value, out);
  if (s->kind == SECONDS && value > 0) return by_print_seconds(value, out);
  snprintf(out, 32, s->kind == SECONDS ? "%.15g s" : "%.15g", value);
  return out;
}

static enum banyan_status check_number(const struct setting *s, const void *at) {
  double value = number_at(s, at);
  char label[LABEL], is[32], least[32], most[32];
  if (value >= s->min && value <= s->max && (!s->fits || s->fits(*(const uint64_t *)at))) return BANYAN_OK;
  label_of(s, label);
  print_number(s, value, is);
  if (s->rule) return by_fail(BANYAN_ERR_ARGUMENT, "%s is %s, must be %s", label, is, s->rule);
  if (s->max == INFINITY)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s is %s, must be at least %s", label, is, print_number(s, s->min, least));
  return by_fail(BANYAN_ERR_ARGUMENT, "%s is %s, must be %s to %s", label, is, print_number(s, s->min, least),
                 print_number(s, s->max, most));
}

static enum banyan_status check_choice(const struct setting *s, const char *text) {
  struct by_text list = {0};
  if (by_find_choice(s->choices, text) >= 0) return BANYAN_OK;
  for (const char *word = s->choices; word; word = strchr(word, '|')) {
    word += *word == '|';
    size_t length = strcspn(word, "|");
    by_text_add(&list, "%s%.*s", !list.length ? "" : word[length] ? ", " : " and ", (int)length, word);
  }
  enum banyan_status status =
      by_fail(BANYAN_ERR_ARGUMENT, "%s is '%s'; there are %s", s->name, text, by_text_get(&list));
  by_text_fini(&list);
  return status;
}

/* Whether a value is possible: from the environment, or from a program's options. */
static enum banyan_status check_value(const struct setting *s, const struct by_settings *settings) {
  const void *at = (const char *)settings + s->offset;
  if (s->kind == SHAPE) return BANYAN_OK;
  if (s->kind != TEXT) return check_number(s, at);
  const char *text = *(const char *const *)at;
  return s->choices && text ? check_choice(s, text) : BANYAN_OK;
}

/* ---- what is possible */

const char *by_transport_at(int index) {
  static const char *const names[] = {"auto", "shm", "tcp"};
  return index >= 0 && index < (int)(sizeof names / sizeof *names) ? names[index] : NULL;
}

static enum banyan_status check_congestion(const char *value) {
  if (strlen(value) < BY_CONGESTION_TEXT) return BANYAN_OK;
  return by_fail(BANYAN_ERR_PARSE, "\"%s\" is too long for a congestion control", value);
}

static enum banyan_status check_buffer(const char *value) {
  uint64_t bytes;
  BY_TRY(by_parse_bytes(value, &bytes));
  return bytes <= 1u << 30 ? BANYAN_OK : by_fail(BANYAN_ERR_PARSE, "a socket buffer holds at most 1G");
}

static enum banyan_status check_connections(const char *value) {
  long n;
  return by_parse_int("number of connections", value, 1, BY_LANES, &n);
}

static enum banyan_status check_list(const char *name, const char *list,
                                     enum banyan_status (*check)(const char *value)) {
  enum banyan_status status = by_choose_check(list, check);
  return status == BANYAN_OK ? status : by_fail_within(status, "%s", name);
}

enum banyan_status by_settings_check(const struct by_settings *s) {
  char credit[32];
  for (const struct setting *setting = table; setting < table + SETTINGS; setting++) BY_TRY(check_value(setting, s));
  if (s->policy.encryption_required && !strcmp(s->encrypt, "off")) /* A host's administrator has the last word. */
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_ENCRYPT is off, which " BY_POLICY_FILE " of this host forbids");
  if (s->switch_key) BY_TRY(by_switch_secret_check("BANYAN_SWITCH_KEY", s->switch_key));
  BY_TRY(check_list("BANYAN_CONGESTION", s->congestion, check_congestion));
  BY_TRY(check_list("BANYAN_SOCKET_BUFFER", s->socket_buffer, check_buffer));
  BY_TRY(check_list("BANYAN_CONNECTIONS", s->connections, check_connections));
  if (s->credit >= s->eager_limit) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_ENGINE: credit is %s, must be at least eager-limit",
                 by_print_bytes(s->credit, credit));
}

/* ---- all of them */

/* The rows after the first one that have its name are the other keys of the variable. */
static bool belongs(const struct setting *s, const struct setting *first) {
  return s < table + SETTINGS && !strcmp(s->name, first->name);
}

/* "value,key=value": a value without a key is that of the first one. */
static enum banyan_status read_items(const struct setting *first, const char *text, struct by_settings *out) {
  const char *keys[SETTINGS];
  char list[LIST], example[ITEM], *rest = list, *value;
  size_t n = 0, key;
  bool bare = text[strcspn(text, "=,")] != '=';
  for (const struct setting *s = first; belongs(s, first); s++) keys[n++] = s->key;
  if (snprintf(list, sizeof list, "%s%s%s", bare ? first->key : "", bare ? "=" : "", text) >= LIST)
    return by_fail(BANYAN_ERR_PARSE, "%s: \"%.60s...\" is too long", first->name, text);
  snprintf(example, sizeof example, "%s=VALUE", first->key);
  while (rest) {
    enum banyan_status status = by_take_pair(&rest, keys, n, example, &key, &value);
    if (status != BANYAN_OK) return by_fail_within(status, "%s", first->name);
    BY_TRY(parse(first + key, value, (char *)out + first[key].offset));
  }
  return BANYAN_OK;
}

static enum banyan_status read_table(struct by_settings *out) {
  for (const struct setting *s = table; s < table + SETTINGS; s++)
    if (s->preset) BY_TRY(parse(s, s->preset, (char *)out + s->offset));
  for (const struct setting *s = table; s < table + SETTINGS; s++) {
    const char *text = getenv(s->name);
    if (!text || !*text) continue;
    if (!s->key)
      BY_TRY(parse(s, text, (char *)out + s->offset));
    else if (s == table || strcmp(s[-1].name, s->name) != 0)
      BY_TRY(read_items(s, text, out));
  }
  return BANYAN_OK;
}

static enum banyan_status read_switch_key(struct by_settings *s) {
  if (!s->switch_key_file) return BANYAN_OK;
  if (s->switch_key)
    return by_fail(
        BANYAN_ERR_ARGUMENT,
        "BANYAN_SWITCH_KEY and BANYAN_SWITCH_KEY_FILE are both set: unset BANYAN_SWITCH_KEY to use the file");
  BY_TRY(by_switch_secret_read(s->switch_key_file, s->switch_key_text));
  s->switch_key = s->switch_key_text;
  return BANYAN_OK;
}

enum banyan_status by_settings_read(struct by_settings *out) {
  *out = (struct by_settings){.rank = -1, .size = -1, .source = "BANYAN_RANK and BANYAN_SIZE"};
  BY_TRY(read_table(out));
  if (out->rank < 0 && out->size < 0) BY_TRY(by_launcher_read(out));
  if (!out->end_time) BY_TRY(by_launcher_read_end(out));
  BY_TRY(by_policy_read(BY_POLICY_FILE, &out->policy));
  BY_TRY(read_switch_key(out));
  return by_settings_check(out);
}

const char *by_settings_agent(const struct by_settings *s) {
  if (s->agent) return strcmp(s->agent, "off") != 0 ? s->agent : NULL;
  return access(BY_CLUSTER_AGENT, F_OK) == 0 ? BY_CLUSTER_AGENT : NULL;
}

_Static_assert(sizeof((struct by_settings *)0)->key_text >= BY_JOB_KEY_MAX, "a key has no room");

enum banyan_status by_settings_find_key(struct by_settings *s) {
  if (!s->key_file && !s->key) return by_local_key_find(s);
  if (s->key && s->key_file)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "BANYAN_KEY and BANYAN_KEY_FILE are both set: unset BANYAN_KEY to use the file");
  if (s->key && s->key != s->key_text)
    snprintf(s->key_text, sizeof s->key_text, "%s", s->key); /* A truncated key is not accepted as a key. */
  else if (!s->key)
    BY_TRY(by_job_key_read(s->key_file, s->key_text));
  s->key = s->key_text;
  return BANYAN_OK;
}

void by_settings_wipe_key(struct by_settings *s) {
  explicit_bzero(s->key_text, sizeof s->key_text);
  s->key = NULL;
}

/* Variables that others read: the log, and programs that choose a device. */
static const char *const known_elsewhere[] = {"BANYAN_LOG",        "BANYAN_LOG_FILE", "BANYAN_LOCAL_RANK",
                                              "BANYAN_LOCAL_SIZE", "BANYAN_LAUNCHER", "BANYAN_MEMBERS",
                                              BY_PRESENCE_VARIABLE};
enum { ELSEWHERE = sizeof known_elsewhere / sizeof *known_elsewhere, PREFIX = sizeof "BANYAN_" - 1 };

/* Variables that earlier versions read. They have no effect; a warning says what to use in their place. */
static const struct {
  const char *name, *instead;
} removed[] = {
    {"BANYAN_ATTACH",
     "unset it: memory of banyan_alloc is read in place, other memory goes through a ring, which is faster"},
    {"BANYAN_ACCEPT_HELPERS", "set BANYAN_HELPERS=accept=0 or accept=1"},
    {"BANYAN_HELPER_DEADLINE", "set BANYAN_HELPERS=deadline=TIME"},
    {"BANYAN_SERVERS", "set BANYAN_HELPERS=servers=N"},
    {"BANYAN_BLOCK", "set BANYAN_ENGINE=block=BYTES"},
    {"BANYAN_CHUNK", "set BANYAN_ENGINE=chunk=BYTES"},
    {"BANYAN_CONTROL", "set BANYAN_ENGINE=control=SHAPE"},
    {"BANYAN_CREDIT", "set BANYAN_ENGINE=credit=BYTES"},
    {"BANYAN_EAGER_LIMIT", "set BANYAN_ENGINE=eager-limit=BYTES"},
    {"BANYAN_SPIN", "set BANYAN_ENGINE=spin=TIME"},
    {"BANYAN_TIMELINE_SIGNAL", "call banyan_timeline_start and banyan_timeline_stop at rank 0"},
    {"BANYAN_STEPS", "set BANYAN_PLANNER=method=cluster,steps=N"},
    {"BANYAN_TREES", "set BANYAN_PLANNER=method=cluster,trees=N"},
    {"BANYAN_TREE_PENALTY", "set BANYAN_PLANNER=method=cluster,tree-penalty=PART"},
    {"BANYAN_WAYS", "set BANYAN_PLANNER=method=cluster,ways=NAME+NAME"},
    {"BANYAN_TOS", "set BANYAN_CLASS=tos=BYTE"},
    {"BANYAN_STALL_ABORT", "BANYAN_DEADLINE bounds how long an operation waits, and deadlines of calls do"},
};

const char *by_settings_removed(const char *variable) {
  size_t length = strcspn(variable, "=");
  for (size_t i = 0; i < sizeof removed / sizeof *removed; i++)
    if (strlen(removed[i].name) == length && !strncmp(removed[i].name, variable, length)) return removed[i].instead;
  return NULL;
}

const char *by_settings_suggest(const char *variable) {
  const char *names[SETTINGS + ELSEWHERE];
  char name[64];
  size_t length = strcspn(variable, "=");
  if (strncmp(variable, "BANYAN_", PREFIX) != 0 || length >= sizeof name || by_settings_removed(variable)) return NULL;
  snprintf(name, sizeof name, "%.*s", (int)length, variable);
  for (int i = 0; i < SETTINGS + ELSEWHERE; i++) {
    names[i] = i < SETTINGS ? table[i].name : known_elsewhere[i - SETTINGS];
    if (!strcmp(names[i], name)) return NULL;
    names[i] += PREFIX; /* The common prefix does not count as similarity. */
  }
  const char *near = by_suggest(name + PREFIX, names, SETTINGS + ELSEWHERE);
  return near ? near - PREFIX : NULL;
}

void by_settings_warn(void) {
  for (char **e = environ; *e; e++) {
    int length = (int)strcspn(*e, "=");
    const char *instead = by_settings_removed(*e), *near = by_settings_suggest(*e);
    if (instead)
      by_warn("communicator", "%.*s has been removed and has no effect; %s", length, *e, instead);
    else if (near)
      by_warn("communicator", "%.*s is not a variable of Banyan and has no effect; did you mean %s?", length, *e, near);
  }
}

void by_settings_warn_of_key(const struct by_settings *settings) {
  const char *shown = getenv("BANYAN_KEY");
  if (settings->key && shown && !strcmp(settings->key, shown))
    by_warn("communicator",
            "the job's key is in the environment (BANYAN_KEY), where every process of this user can read "
            "it; BANYAN_KEY_FILE names a file instead");
}

void by_settings_print(struct by_text *text) {
  for (const struct setting *s = table; s < table + SETTINGS; s++) {
    char name[LABEL];
    snprintf(name, sizeof name, "%s%s%s", s->name, s->key ? ":" : "", s->key ? s->key : "");
    by_text_add(text, "%-22s %-6s %s\n", name, s->preset && *s->preset ? s->preset : "-", s->help);
  }
}
