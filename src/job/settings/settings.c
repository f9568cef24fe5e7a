#include "settings.h"

#include <limits.h>
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
#include "plan_ways.h"
#include "presence.h"
#include "priority.h"
#include "socket.h"
#include "text.h"

enum kind { TEXT, NUMBER, COUNT, BYTES, SECONDS };

struct setting {
  const char *name;
  enum kind kind;
  size_t offset;
  const char *preset; /* NULL: none */
  const char *help;
};

#define AT(member) offsetof(struct by_settings, member)

static const struct setting table[] = {
    {"BANYAN_RANK", NUMBER, AT(rank), NULL, "this process's rank, 0 to BANYAN_SIZE - 1"},
    {"BANYAN_SIZE", NUMBER, AT(size), NULL, "number of ranks of the job"},
    {"BANYAN_ROOT", TEXT, AT(root), NULL,
     "host:port where rank 0 listens; of several, \"10.0.0.1:29500,alpha:29500\", all are tried; "
     "\"#\" and rank 0's fingerprint may follow"},
    {"BANYAN_IDENTITY_FILE", TEXT, AT(identity_file), NULL,
     "file with the secret of rank 0's fingerprint, which `banyan run` sets for rank 0 alone"},
    {"BANYAN_KEY_FILE", TEXT, AT(key_file), NULL,
     "file with the job's key, of `banyan keys job`; a rank with another key is rejected"},
    {"BANYAN_KEY", TEXT, AT(key), NULL,
     "the key itself, where there can be no file: all processes of this user see it"},
    {"BANYAN_ENCRYPT", TEXT, AT(encrypt), "auto",
     "auto: connections between hosts are encrypted; always: those inside a host, too; off: none; the same in all "
     "processes"},
    {"BANYAN_HOST", TEXT, AT(host), NULL, "name of this host in messages; default: the host name"},
    {"BANYAN_TRANSPORT", TEXT, AT(transport), "auto", "auto, shm (one host only) or tcp"},
    {"BANYAN_PLAN", TEXT, AT(plan), NULL, "a built-in plan's name or a plan file; default: chosen by size"},
    {"BANYAN_TOPOLOGY", TEXT, AT(topology), NULL,
     "a topology to plan for at the start, \"measure\", \"auto\" (the default) or \"off\"; used if no plan is given"},
    {"BANYAN_CACHE", TEXT, AT(cache), NULL,
     "folder for what was measured of networks and machines, or \"off\"; default: ~/.cache/banyan"},
    {"BANYAN_PLANNER", TEXT, AT(planner), NULL,
     "settings for such a plan, as of `banyan plan`: \"trees=8,max-height=4,method=few\""},
    {"BANYAN_DETERMINISTIC", NUMBER, AT(deterministic), "0",
     "1: nothing that is measured decides how gradients are added, so that a plan gives the same bits in every run"},
    {"BANYAN_TIMELINE", TEXT, AT(timeline), NULL,
     "file for a timeline of all ranks, which rank 0 writes while the job runs"},
    {"BANYAN_TIMELINE_SIGNAL", NUMBER, AT(timeline_signal), "0",
     "number of a signal to rank 0 that begins and ends the timeline; 0: it covers the entire job"},
    {"BANYAN_IFACE", TEXT, AT(iface), "", "interfaces to use: \"eth1\", \"10.0.0.0/8\", \"eth*,!eth3\""},
    {"BANYAN_PORTS", TEXT, AT(ports), NULL, "range of ports to listen on: \"5000-5100\"; default: any"},
    {"BANYAN_CONGESTION", TEXT, AT(congestion), NULL,
     "TCP congestion control: \"cubic\", \"bbr@10.8.0.0/16,cubic\" by peer"},
    {"BANYAN_DEADLINE", SECONDS, AT(deadline), "600", "time a call may take before it ends with a timeout"},
    {"BANYAN_JOIN_DEADLINE", SECONDS, AT(join_deadline), "120", "time to wait for all ranks at the start"},
    {"BANYAN_SILENCE", SECONDS, AT(silence), "12",
     "time after which a host that answers nothing has vanished; shorter outages are survived"},
    {"BANYAN_QUORUM", TEXT, AT(quorum), "survivors",
     "members of a group that may go on after others died: survivors (a majority, or all that are not proven dead), "
     "majority, or none (any)"},
    {"BANYAN_HELPERS", NUMBER, AT(helpers), "-1",
     "helpers for which rank 0 waits at the start; -1: those the plan names"},
    {"BANYAN_SERVERS", NUMBER, AT(servers), "-1",
     "trees through switches for whose servers rank 0 waits; -1: those the plan names"},
    {"BANYAN_HELPER_DEADLINE", SECONDS, AT(helper_deadline), "10",
     "time to wait for helpers and servers after all ranks have joined"},
    {"BANYAN_SWITCHES", TEXT, AT(switches), NULL,
     "addresses at which cells of switches are requested, \"s1=10.0.0.1:7613,s2=...\"; default: their names, port "
     "7613"},
    {"BANYAN_SWITCH_KEY_FILE", TEXT, AT(switch_key_file), NULL,
     "file with the secret that switches and jobs share, of `banyan keys job`; without it, only switches on this "
     "machine "
     "answer"},
    {"BANYAN_SWITCH_KEY", TEXT, AT(switch_key), NULL,
     "the secret itself; `banyan run` passes it on by a descriptor, others show it to all processes of this user"},
    {"BANYAN_SUMS", TEXT, AT(sums), "fixed",
     "arithmetic of switches: fixed (point), or float32, which needs switches in user space"},
    {"BANYAN_FUSION", BYTES, AT(fusion), "1M",
     "submitted AllReduces of at most 64 KiB each are fused up to this size; 0: no fusion"},
    {"BANYAN_STALL", SECONDS, AT(stall), "60",
     "time after which a call that some ranks have not made, or not submitted, is reported; 0: never"},
    {"BANYAN_STALL_ABORT", SECONDS, AT(stall_abort), "0",
     "time after which a submitted operation that waits so ends the job; 0: only at its deadline"},
    {"BANYAN_CONTROL", TEXT, AT(control), "auto",
     "shape of the control tree for submitted operations: auto, tree, tree:K, ring or star"},
    {"BANYAN_SOCKET_BUFFER", TEXT, AT(socket_buffer), "0",
     "size of socket buffers; 0: tuned by the kernel; may depend on the peer"},
    {"BANYAN_CONNECTIONS", TEXT, AT(connections), "1",
     "number of TCP connections of a link, 1 to 8; may depend on the peer"},
    {"BANYAN_EAGER_LIMIT", BYTES, AT(eager_limit), "1M",
     "eager limit: bytes of a message that are sent before the receiver grants any; a power of two"},
    {"BANYAN_CREDIT", BYTES, AT(credit), "4M", "eager bytes in flight on a link"},
    {"BANYAN_CHUNK", BYTES, AT(chunk), "0", "largest number of bytes in one frame; 0: chosen by the transport"},
    {"BANYAN_BLOCK", BYTES, AT(block), "64K", "bytes added at a time"},
    {"BANYAN_SPIN", SECONDS, AT(spin), "-1", "time that a wait polls before it sleeps; -1: chosen automatically"},
    {"BANYAN_TOS", NUMBER, AT(tos), "-1", "ToS byte of the links, 0 to 255; -1: unchanged"},
    {"BANYAN_AGENT", TEXT, AT(agent), NULL,
     "socket of this host's agent, or \"off\"; default: /run/banyan/agent.sock, if it exists"},
    {"BANYAN_MANAGER", TEXT, AT(manager), NULL, "host:port of the manager, for jobs on hosts without an agent"},
    {"BANYAN_KEYS", TEXT, AT(keys), NULL,
     "folder of the authority's files, and of certificates for BANYAN_MANAGER; default: /etc/banyan/keys"},
    {"BANYAN_JOB", TEXT, AT(job), NULL, "the job's name for people; default: the program's"},
    {"BANYAN_ITERATIONS", COUNT, AT(iterations), "0",
     "number of iterations that the job will make in all, for agent and manager; 0: unknown"},
    {"BANYAN_END_TIME", COUNT, AT(end_time), NULL,
     "when the job ends at the latest, in seconds since 1970, for agent and manager; default: SLURM_JOB_END_TIME"},
    {"BANYAN_ACCEPT_HELPERS", NUMBER, AT(accept_helpers), "1",
     "1: agents may start helpers and servers for the job; 0: only those that its user starts take part"},
    {"BANYAN_WAYS", TEXT, AT(ways), NULL,
     "what a manager's plans may use, of " BY_PLAN_WAYS "; default: as the manager has it"},
    {"BANYAN_TREE_PENALTY", TEXT, AT(tree_penalty), NULL,
     "part of the time that another tree of such a plan must save, 0 to 1; default: as the manager has it"},
    {"BANYAN_STEPS", NUMBER, AT(steps), "0",
     "steps of the weights of trees in such a plan, down to 1/N; 0: as the manager has it"},
    {"BANYAN_TREES", NUMBER, AT(trees), "0",
     "most trees of such a plan for one size of buffers; 0: as the manager has it"},
    {"BANYAN_REPLACE_PLAN", NUMBER, AT(replace_plan), "0", "1: a manager may replace the plan that the user set"},
    {"BANYAN_CLASS", NUMBER, AT(class_), "-1",
     "priority class of the job, 0 (highest) to 3; -1: as an agent or manager decides, else none"},
    {"BANYAN_ATTACH", BYTES, AT(attach), "0", "messages from this size on are read by cross-memory attach; 0: never"},
};

enum { SETTINGS = sizeof table / sizeof *table };

/* Errors about numbers name the variable. */
static enum banyan_status parse(const struct setting *s, const char *text, void *to) {
  enum banyan_status status = BANYAN_OK;
  long n = 0;
  switch (s->kind) {
  case TEXT: *(const char **)to = text; break;
  case NUMBER: return by_parse_int(s->name, text, -1, 1 << 24, to);
  case COUNT:
    BY_TRY(by_parse_int(s->name, text, 0, LONG_MAX, &n));
    *(uint64_t *)to = (uint64_t)n;
    break;
  case BYTES: status = by_parse_bytes(text, to); break;
  case SECONDS:
    if (!strcmp(text, "-1"))
      *(double *)to = -1;
    else
      status = by_parse_seconds(text, to);
  }
  return status == BANYAN_OK ? status : by_fail_within(status, "%s", s->name);
}

/* ---- values that depend on the peer */

/* The item at *list, which moves on to the next one or becomes NULL; bits < 0: for every peer. */
static enum banyan_status next_item(const char **list, char *value, struct by_address *subnet, int *bits) {
  char item[BY_CHOICE_TEXT + BY_ADDRESS_TEXT + 8];
  const char *comma = strchr(*list, ',');
  size_t length = comma ? (size_t)(comma - *list) : strlen(*list);
  if (length >= sizeof item) return by_fail(BANYAN_ERR_PARSE, "\"%.60s...\" is too long for one value", *list);
  memcpy(item, *list, length);
  item[length] = 0;
  *list = comma ? comma + 1 : NULL;
  char *at = strchr(item, '@');
  if (at) *at = 0;
  if (!*item || strlen(item) >= BY_CHOICE_TEXT)
    return by_fail(BANYAN_ERR_PARSE, "\"%s\" is no value; a list looks like \"a@10.0.0.0/8,b\"", item);
  strcpy(value, item);
  *bits = -1;
  return at ? by_subnet_parse(at + 1, subnet, bits) : BANYAN_OK;
}

enum banyan_status by_choose(const char *list, const struct by_address *peer, char *value) {
  *value = 0;
  while (list && *list) {
    struct by_address subnet;
    char item[BY_CHOICE_TEXT];
    int bits;
    BY_TRY(next_item(&list, item, &subnet, &bits));
    if (bits >= 0 && !by_address_same_subnet(peer, &subnet, bits)) continue;
    strcpy(value, item);
    break;
  }
  return BANYAN_OK;
}

enum banyan_status by_choose_check(const char *list, enum banyan_status (*check)(const char *value)) {
  if (!list || !*list) return BANYAN_OK;
  while (list) {
    struct by_address subnet;
    char item[BY_CHOICE_TEXT];
    int bits;
    BY_TRY(next_item(&list, item, &subnet, &bits));
    BY_TRY(check(item));
  }
  return BANYAN_OK;
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

/* ---- what is possible */

const char *by_transport_at(int place) {
  static const char *const names[] = {"auto", "shm", "tcp"};
  return place >= 0 && place < (int)(sizeof names / sizeof *names) ? names[place] : NULL;
}

static enum banyan_status bad_bytes(const char *name, uint64_t bytes, const char *rule) {
  char text[32];
  return by_fail(BANYAN_ERR_ARGUMENT, "%s is %s, must be %s", name, by_print_bytes(bytes, text), rule);
}

static enum banyan_status check_bytes(const struct by_settings *s) {
  if (s->eager_limit < 4096 || s->eager_limit > 64u << 20 || s->eager_limit & (s->eager_limit - 1))
    return bad_bytes("BANYAN_EAGER_LIMIT", s->eager_limit, "a power of two from 4K to 64M, such as 1M");
  if (s->credit < s->eager_limit) return bad_bytes("BANYAN_CREDIT", s->credit, "at least BANYAN_EAGER_LIMIT");
  if (s->block < 4096 || s->block > 16u << 20 || s->block % 64)
    return bad_bytes("BANYAN_BLOCK", s->block, "a multiple of 64 from 4K to 16M, such as 64K");
  return s->chunk > 4u << 20 ? bad_bytes("BANYAN_CHUNK", s->chunk, "at most 4M") : BANYAN_OK;
}

enum banyan_status by_control_choice_parse(const char *text, struct by_control_choice *out) {
  long fan_out = 0;
  *out = (struct by_control_choice){0};
  if (!strcmp(text, "auto")) return BANYAN_OK;
  if (!strncmp(text, "tree:", 5)) BY_TRY(by_parse_int("BANYAN_CONTROL's fan-out", text + 5, 1, 65536, &fan_out));
  out->fan_out = (uint32_t)fan_out;
  if (fan_out || !strcmp(text, "tree"))
    out->kind = BY_CONTROL_TREE;
  else if (!strcmp(text, "ring"))
    out->kind = BY_CONTROL_RING;
  else if (!strcmp(text, "star"))
    out->kind = BY_CONTROL_STAR;
  else
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_CONTROL is '%s'; there are auto, tree, tree:K, ring and star", text);
  return BANYAN_OK;
}

static enum banyan_status check_negotiation(const struct by_settings *s) {
  struct by_control_choice choice;
  if (s->fusion > 1u << 30) return bad_bytes("BANYAN_FUSION", s->fusion, "at most 1G");
  if (s->stall < 0) return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_STALL is %g s, must not be below 0", s->stall);
  if (s->stall_abort < 0)
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_STALL_ABORT is %g s, must not be below 0", s->stall_abort);
  return by_control_choice_parse(s->control, &choice);
}

static enum banyan_status check_wishes(const struct by_settings *s) {
  uint32_t ways;
  double penalty = 0;
  if (s->ways && by_plan_ways_parse(s->ways, &ways) != BANYAN_OK)
    return by_fail_within(BANYAN_ERR_ARGUMENT, "BANYAN_WAYS");
  if (s->tree_penalty && by_parse_number(s->tree_penalty, &penalty) != BANYAN_OK)
    return by_fail_within(BANYAN_ERR_ARGUMENT, "BANYAN_TREE_PENALTY");
  if (!(penalty >= 0 && penalty <= 1))
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_TREE_PENALTY is %g, must be 0 to 1", penalty);
  if (s->steps < 0 || s->steps > BY_CLUSTER_STEPS)
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_STEPS is %ld, must be 0 to %d", s->steps, BY_CLUSTER_STEPS);
  if (s->trees < 0 || s->trees > BY_CLUSTER_TREES)
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_TREES is %ld, must be 0 to %d", s->trees, BY_CLUSTER_TREES);
  if (s->replace_plan < 0 || s->replace_plan > 1)
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_REPLACE_PLAN is %ld, must be 0 or 1", s->replace_plan);
  return BANYAN_OK;
}

/* A host's administrator has the last word on what leaves it in plain text. */
static enum banyan_status check_encryption(const struct by_settings *s) {
  if (!strcmp(s->encrypt, "auto") || !strcmp(s->encrypt, "always")) return BANYAN_OK;
  if (strcmp(s->encrypt, "off") != 0)
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_ENCRYPT is '%s'; there are auto, always and off", s->encrypt);
  if (s->policy.encryption_required)
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_ENCRYPT is off, which " BY_POLICY_FILE " of this host forbids");
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

enum banyan_status by_settings_check(const struct by_settings *s) {
  BY_TRY(check_encryption(s));
  if (s->switch_key) BY_TRY(by_switch_secret_check("BANYAN_SWITCH_KEY", s->switch_key));
  BY_TRY(check_bytes(s));
  BY_TRY(check_list("BANYAN_CONGESTION", s->congestion, check_congestion));
  BY_TRY(check_list("BANYAN_SOCKET_BUFFER", s->socket_buffer, check_buffer));
  BY_TRY(check_list("BANYAN_CONNECTIONS", s->connections, check_connections));
  BY_TRY(check_negotiation(s));
  BY_TRY(check_wishes(s));
  if (s->accept_helpers < 0 || s->accept_helpers > 1)
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_ACCEPT_HELPERS is %ld, must be 0 or 1", s->accept_helpers);
  if (s->deterministic < 0 || s->deterministic > 1)
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_DETERMINISTIC is %ld, must be 0 or 1", s->deterministic);
  if (s->class_ >= BY_PRIORITY_CLASSES)
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_CLASS is %ld, must be 0 to %d, or -1", s->class_,
                   BY_PRIORITY_CLASSES - 1);
  if (s->tos > 255) return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_TOS is %ld, must be 0 to 255, or -1", (long)s->tos);
  if (s->helpers > 65535)
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_HELPERS is %ld, must be at most 65535", (long)s->helpers);
  if (s->servers > 65535)
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_SERVERS is %ld, must be at most 65535", (long)s->servers);
  if (s->helper_deadline < 0)
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_HELPER_DEADLINE is %g s, must not be below 0", s->helper_deadline);
  if (!(s->deadline > 0))
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_DEADLINE is %g s, must be more than 0", s->deadline);
  if (!(s->join_deadline > 0))
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_JOIN_DEADLINE is %g s, must be more than 0", s->join_deadline);
  if (!(s->silence >= BY_SILENCE_LEAST && s->silence <= BY_SILENCE_MOST))
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_SILENCE is %g s, must be %d to %d", s->silence, BY_SILENCE_LEAST,
                   BY_SILENCE_MOST);
  int place = 0;
  while (by_transport_at(place) && strcmp(s->transport, by_transport_at(place))) place++;
  if (!by_transport_at(place))
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_TRANSPORT is '%s'; there are auto, shm and tcp", s->transport);
  if (strcmp(s->sums, "fixed") != 0 && strcmp(s->sums, "float32") != 0)
    return by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_SUMS is '%s'; there are fixed and float32", s->sums);
  return BANYAN_OK;
}

enum banyan_status by_settings_read(struct by_settings *out) {
  *out = (struct by_settings){.rank = -1, .size = -1, .source = "BANYAN_RANK and BANYAN_SIZE"};
  for (const struct setting *setting = table; setting < table + SETTINGS; setting++) {
    const char *text = getenv(setting->name);
    if (!text || !*text) text = setting->preset;
    if (text) BY_TRY(parse(setting, text, (char *)out + setting->offset));
  }
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

_Static_assert(sizeof((struct by_settings *)0)->key_text >= BY_JOB_KEY_MOST, "a key has no room");

enum banyan_status by_settings_find_key(struct by_settings *s) {
  if (!s->key_file && !s->key) return by_local_key_find(s);
  if (s->key && s->key_file)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "BANYAN_KEY and BANYAN_KEY_FILE are both set: unset BANYAN_KEY to use the file");
  if (s->key && s->key != s->key_text)
    snprintf(s->key_text, sizeof s->key_text, "%s", s->key); /* one that is cut is no key */
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

const char *by_settings_suggest(const char *variable) {
  const char *names[SETTINGS + ELSEWHERE];
  char name[64];
  size_t length = strcspn(variable, "=");
  if (strncmp(variable, "BANYAN_", PREFIX) != 0 || length >= sizeof name) return NULL;
  snprintf(name, sizeof name, "%.*s", (int)length, variable);
  for (int i = 0; i < SETTINGS + ELSEWHERE; i++) {
    names[i] = i < SETTINGS ? table[i].name : known_elsewhere[i - SETTINGS];
    if (!strcmp(names[i], name)) return NULL;
    names[i] += PREFIX; /* what all have in common makes nothing alike */
  }
  const char *near = by_suggest(name + PREFIX, names, SETTINGS + ELSEWHERE);
  return near ? near - PREFIX : NULL;
}

static void warn_of_misspelt(void) {
  for (char **e = environ; *e; e++) {
    const char *near = by_settings_suggest(*e);
    if (near)
      by_warn("communicator", "%.*s is no variable of Banyan's and has no effect; did you mean %s?",
              (int)strcspn(*e, "="), *e, near);
  }
}

void by_settings_warn(void) {
  warn_of_misspelt();
}

void by_settings_warn_of_key(const struct by_settings *settings) {
  const char *shown = getenv("BANYAN_KEY");
  if (settings->key && shown && !strcmp(settings->key, shown))
    by_warn("communicator",
            "the job's key is in the environment (BANYAN_KEY), where every process of this user can read "
            "it; BANYAN_KEY_FILE names a file instead");
}

void by_settings_print(struct by_text *text) {
  for (int i = 0; i < SETTINGS; i++)
    by_text_add(text, "%-22s %-6s %s\n", table[i].name, table[i].preset && *table[i].preset ? table[i].preset : "-",
                table[i].help);
}
