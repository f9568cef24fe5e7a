/* Determines what each host of a job must start, sends it, and replaces the job's key. */
#include "launch_link.h"

#include <stdio.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "clock.h"
#include "elastic_job.h"
#include "handshake.h"
#include "key_ring.h"
#include "process.h"

enum { PATH_BYTES = 4096 };

/* ---- addresses of rank 0 */

void by_launch_root_fini(struct by_launch_root *root) {
  by_text_fini(&root->places);
  by_text_fini(&root->answers);
}

static bool is_one_machine(const struct by_launch_hosts *hosts, const char *interface) {
  return !interface && by_hosts_all_local(hosts);
}

int by_launch_root_ports(const struct by_launch_hosts *hosts, const char *interface, int ranks) {
  bool others = hosts->count > 1 && !hosts->items[1].beside;
  return ranks == 1 ? 1 : is_one_machine(hosts, interface) || !others ? 2 : 3;
}

void by_launch_request_ports(const struct by_launch *job, struct by_launch_link *link) {
  struct by_pipe ask;
  by_pipe_init(&ask, -1, 0);
  by_pipe_string(&ask, job->ports ? job->ports : "");
  by_pipe_string(&ask, job->interface ? job->interface : "");
  int ports = by_launch_root_ports(job->hosts, job->interface, job->elastic ? job->elastic->max : job->ranks);
  by_pipe_frame(&link->to, BY_LAUNCH_PORT, (uint32_t)ports, ask.data, by_pipe_waiting(&ask));
  by_pipe_fini(&ask);
}

static void add_name(struct by_text *places, const char *name, int port) {
  by_text_add(places, strchr(name, ':') ? "%s[%s]:%d" : "%s%s:%d", places->length ? "," : "", name, port);
}

/* Adds the addresses that the host found, in `offered`, with this port. */
static void add_places(const struct by_launch *job, const struct by_launch_host *host, const char *offered, int port,
                       struct by_text *places) {
  char own[BY_HOST_TEXT] = "";
  struct by_address address;
  bool is_address = by_address_parse_host(host->name, 0, &address) == BANYAN_OK;
  bool means_itself = is_address ? by_address_is_loopback(&address) : host->local;
  if (!job->interface && !means_itself) add_name(places, host->name, port);
  size_t given = places->length;
  for (const char *at = offered; *at && *at != '#'; at += *at == ',') {
    size_t length = strcspn(at, ",#");
    if (length != given || memcmp(at, by_text_get(places), length) != 0)
      by_text_add(places, "%s%.*s", places->length ? "," : "", (int)length, at);
    at += length;
  }
  if (!job->interface && means_itself && !gethostname(own, sizeof own - 1)) add_name(places, own, port);
}

/* Prints the same addresses with another port. */
static void add_with_port(const char *places, int port, struct by_text *out) {
  for (const char *at = places; *at; at += *at == ',') {
    size_t length = strcspn(at, ","), host = length;
    while (host > 0 && at[host] != ':') host--;
    by_text_add(out, "%s%.*s:%d", out->length ? "," : "", (int)host, at, port);
    at += length;
  }
}

/* Prints the first address in `offered` or, without one, that of loopback, by which rank 0's host reaches itself. */
static void print_own_address(const char *offered, char out[BY_ADDRESS_TEXT]) {
  char first[BY_ADDRESS_TEXT];
  struct by_address address;
  snprintf(first, sizeof first, "%.*s", (int)strcspn(offered, ",#"), offered);
  if (by_address_parse(first, &address) == BANYAN_OK)
    by_address_print_host(&address, out);
  else
    strcpy(out, "127.0.0.1");
}

/* Tells whether hosts must try which address they reach: not if there is only one. */
static bool has_choice(const char *places) {
  struct by_address address;
  return by_address_parse(places, &address) != BANYAN_OK;
}

/* Returns the text after the NUL of `text`, which is part of the payload. */
static const char *next_text(const struct by_launch_frame *frame, const char *text) {
  const char *next = text + strlen(text) + 1;
  return next < frame->payload + frame->length ? next : "";
}

enum banyan_status by_launch_root_take(const struct by_launch *job, const struct by_launch_host *host,
                                       const struct by_launch_frame *frame, struct by_launch_root *root) {
  const char *offered = frame->payload, *identity = strchr(offered, '#'), *texts[2];
  int port = (int)frame->number;
  long ports[2];
  texts[0] = next_text(frame, offered);
  texts[1] = next_text(frame, texts[0]);
  for (int i = 0; i < 2; i++) BY_TRY(by_parse_int("port", texts[i], i ? 0 : 1, 65535, &ports[i]));
  if (is_one_machine(job->hosts, job->interface)) {
    by_text_add(&root->places, "127.0.0.1:%d", port);
    strcpy(root->address, "127.0.0.1");
  } else {
    add_places(job, host, offered, port, &root->places);
    print_own_address(offered, root->address);
    if (ports[1] && identity && has_choice(by_text_get(&root->places))) {
      add_with_port(by_text_get(&root->places), (int)ports[1], &root->answers);
      by_text_add(&root->answers, "%s", identity);
    }
  }
  snprintf(root->store, sizeof root->store, "%ld", ports[0]);
  /* Members of elastic jobs authenticate each other by their handles. */
  if (identity && !job->elastic) by_text_add(&root->places, "%s", identity);
  return BANYAN_OK;
}

/* ---- keys and tickets */

/* Issues a ticket with a job's key. `out` has BY_TICKET_TEXT bytes. */
static enum banyan_status issue_ticket(const char *job_key, const struct by_launch_host *host, char *out) {
  struct by_ticket_subject subject = {host->beside == BY_HELPERS ? BY_TICKET_HELPER : BY_TICKET_SERVER, host->name};
  char text[BY_TICKET_KEY_TEXT];
  struct by_key key;
  BY_TRY(by_ticket_key_derive(job_key, text));
  enum banyan_status status = by_key_derive(text, &key);
  explicit_bzero(text, sizeof text);
  if (status == BANYAN_OK) status = by_ticket_issue(&key, &subject, (uint64_t)time(NULL) + BY_TICKET_SECONDS, out);
  explicit_bzero(&key, sizeof key);
  return status;
}

/* Copies a variable. Each helper and server of a host gets a ticket instead of the job's key. */
static enum banyan_status copy_variable(struct by_job_environment *environment, const char *text, const char *key,
                                        const struct by_launch_host *host) {
  const char *given = by_variable_value(text, "BANYAN_KEY");
  char ticket[BY_TICKET_TEXT];
  if (!given) {
    by_job_environment_copy(environment, text);
    return BANYAN_OK;
  }
  if (!key) key = given; /* From a file that may have changed since, or generated. */
  if (!host->beside) by_job_environment_set(environment, "BANYAN_KEY", key);
  enum banyan_status status = BANYAN_OK;
  for (int i = 0; host->beside && i < host->ranks && status == BANYAN_OK; i++) {
    status = issue_ticket(key, host, ticket);
    if (status == BANYAN_OK) by_job_environment_set(environment, "BANYAN_KEY", ticket);
  }
  explicit_bzero(ticket, sizeof ticket);
  return status;
}

enum banyan_status by_launch_send_key(struct by_launch_link *link, const char *key) {
  char ticket[BY_TICKET_TEXT];
  enum banyan_status status = BANYAN_OK;
  if (!link->host->beside) by_pipe_frame(&link->to, BY_LAUNCH_KEY, 0, key, strlen(key));
  for (int i = 0; link->host->beside && i < link->host->ranks && status == BANYAN_OK; i++) {
    status = issue_ticket(key, link->host, ticket);
    if (status == BANYAN_OK) by_pipe_frame(&link->to, BY_LAUNCH_KEY, (uint32_t)i, ticket, strlen(ticket));
  }
  explicit_bzero(ticket, sizeof ticket);
  return status;
}

/* ---- processes */

void by_launch_command_of(const struct by_launch *job, const struct by_launch_host *host,
                          struct by_launch_command *out) {
  *out = (struct by_launch_command){.words = {host->local ? "/proc/self/exe" : job->remote}};
  snprintf(out->trees, sizeof out->trees, "%d", host->slots);
  out->argv = host->beside ? out->words : (const char *const *)job->command;
  out->words[1] = host->beside == BY_SERVERS ? "server" : "helper";
  if (host->beside != BY_SERVERS) return;
  out->words[2] = "--trees";
  out->words[3] = out->trees;
}

int by_launch_size_of(const struct by_launch *job, const struct by_launch_host *host) {
  return MAX(job->ranks, host->first + host->ranks);
}

/* Returns the first core: hosts that are this machine share its cores. */
int by_launch_core_of(const struct by_launch *job, const struct by_launch_host *host) {
  return !job->pin ? -1 : host->local ? host->first : 0;
}

/* Sets the variables that torchrun sets for all processes of a host; by_rank_environment_add sets those of each
 * process. */
static void set_torch(const struct by_launch *job, const struct by_launch_root *root, const struct by_launch_link *link,
                      struct by_job_environment *environment) {
  char group[16];
  snprintf(group, sizeof group, "%zu", link->group);
  const struct {
    const char *name, *value;
  } variables[] = {{"MASTER_ADDR", *link->root_address ? link->root_address : root->address},
                   {"MASTER_PORT", root->store},
                   {"GROUP_RANK", group},
                   {"NODE_RANK", group}};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
    if (!by_variables_get(job->environment, variables[i].name) && *variables[i].value)
      by_job_environment_set(environment, variables[i].name, variables[i].value);
}

/* Rank 0's host has its own address. */
void by_launch_send_reach(const struct by_launch *job, const struct by_launch_root *root, struct by_launch_link *link) {
  if (link->asked || link->host->first == 0 || link->host->beside || !root->answers.length ||
      by_variables_get(job->environment, "MASTER_ADDR"))
    return;
  by_pipe_frame(&link->to, BY_LAUNCH_REACH, 0, by_text_get(&root->answers), root->answers.length);
  link->asked = link->searching = true;
}

static void send_elastic(const struct by_launch *job, struct by_launch_link *link) {
  struct by_pipe payload;
  char size[16];
  snprintf(size, sizeof size, "%d", link->local_size ? link->local_size : link->host->ranks);
  by_pipe_init(&payload, -1, 0);
  by_pipe_string(&payload, size);
  by_pipe_string(&payload, job->elastic->preemption ? job->elastic->preemption : "");
  by_pipe_frame(&link->to, BY_LAUNCH_ELASTIC, (uint32_t)link->local, payload.data, by_pipe_waiting(&payload));
  by_pipe_fini(&payload);
}

enum banyan_status by_launch_send_start(const struct by_launch *job, const struct by_launch_root *root, const char *key,
                                        struct by_launch_link *link) {
  const struct by_launch_host *host = link->host;
  struct by_job_environment environment = {0};
  struct by_launch_command command;
  char directory[PATH_BYTES];
  enum banyan_status status = BANYAN_OK;
  for (char *const *e = job->environment; *e && status == BANYAN_OK; e++)
    status = copy_variable(&environment, *e, key, host);
  if (status == BANYAN_OK) {
    by_job_environment_set(&environment, "BANYAN_HOST", host->name);
    by_job_environment_set(&environment, "BANYAN_ROOT", by_text_get(&root->places));
    if (!host->beside) set_torch(job, root, link, &environment);
    by_launch_command_of(job, host, &command);
    if (job->elastic) send_elastic(job, link);
    struct by_host_job start = {.first = host->first,
                                .ranks = host->ranks,
                                .size = by_launch_size_of(job, host),
                                .pin = by_launch_core_of(job, host),
                                .directory = getcwd(directory, sizeof directory) ? directory : "",
                                .environment = environment.items};
    by_host_job_send(&link->to, &start, command.argv);
  }
  by_job_environment_fini(&environment);
  return status;
}

/* ---- replacing the job's key */

static const uint64_t look_pause = BY_SECOND;

enum banyan_status by_launch_key_init(struct by_launch_key *key, const char *path, const char *generated) {
  *key = (struct by_launch_key){.look_at = UINT64_MAX};
  if (!path) {
    snprintf(key->text, sizeof key->text, "%s", generated ? generated : "");
    return BANYAN_OK;
  }
  BY_TRY(by_job_key_read(path, key->text));
  BY_TRY(by_key_ring_create(key->text, path, NULL, &key->ring));
  key->look_at = 0;
  return BANYAN_OK;
}

enum banyan_status by_launch_key_rotate(struct by_launch_key *key, int seconds) {
  char next[BY_JOB_KEY_MAX];
  int64_t now = time(NULL);
  if (key->ring) return by_fail(BANYAN_ERR_ARGUMENT, "it is from a file: `banyan keys rotate FILE` replaces it there");
  if (seconds < 1) return by_fail(BANYAN_ERR_ARGUMENT, "the old key cannot be accepted for %d s", seconds);
  BY_TRY(by_job_key_rotate(key->text, now, now + seconds, next));
  strcpy(key->text, next);
  explicit_bzero(next, sizeof next);
  key->look_at = by_clock_now(&by_clock_system) + (uint64_t)seconds * BY_SECOND;
  return BANYAN_OK;
}

void by_launch_key_fini(struct by_launch_key *key) {
  by_key_ring_destroy(key->ring);
  explicit_bzero(key, sizeof *key);
}

enum by_launch_key_news by_launch_key_look(struct by_launch_key *key) {
  char text[BY_JOB_KEY_MAX];
  uint64_t now = by_clock_now(&by_clock_system);
  if (now < key->look_at) return BY_LAUNCH_KEY_SAME;
  key->look_at = now + look_pause;
  strcpy(text, key->text);
  if (key->ring) by_key_ring_text(key->ring, text);
  int64_t seconds = time(NULL);
  bool ended = by_job_key_drop_ended(key->text, seconds);
  (void)by_job_key_drop_ended(text, seconds);
  bool replaced = strcmp(text, key->text) != 0;
  if (ended && !key->ring) key->look_at = UINT64_MAX;
  strcpy(key->text, text);
  explicit_bzero(text, sizeof text);
  return replaced ? BY_LAUNCH_KEY_REPLACED : ended ? BY_LAUNCH_KEY_OLD_ENDED : BY_LAUNCH_KEY_SAME;
}

const char *by_launch_key_get(const struct by_launch_key *key) {
  return key->text[0] ? key->text : NULL;
}
