#include "launch_start.h"

#include <stdio.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "elastic_job.h"
#include "handshake.h"
#include "process.h"

enum { PATH_BYTES = 4096 };

/* ---- where rank 0 is */

static void add_name(struct by_text *places, const char *name, unsigned port) {
  by_text_add(places, strchr(name, ':') ? "%s[%s]:%u" : "%s%s:%u", places->length ? "," : "", name, port);
}

void by_launch_add_places(const struct by_job *job, const struct by_launch_host *host,
                          const struct by_launch_frame *frame, struct by_text *root) {
  char own[BY_HOST_TEXT] = "";
  unsigned port = (unsigned)frame->number;
  struct by_address address;
  bool is_address = by_address_parse_host(host->name, 0, &address) == BANYAN_OK;
  bool means_itself = is_address ? by_address_is_loopback(&address) : host->local;
  if (!job->interface && by_hosts_all_local(job->hosts)) {
    by_text_add(root, "127.0.0.1:%u", port);
    return;
  }
  if (!job->interface && !means_itself) add_name(root, host->name, port);
  size_t given = root->length;
  for (const char *at = frame->payload; *at && *at != '#'; at += *at == ',') {
    size_t length = strcspn(at, ",#");
    if (length != given || memcmp(at, by_text_get(root), length) != 0)
      by_text_add(root, "%s%.*s", root->length ? "," : "", (int)length, at);
    at += length;
  }
  if (!job->interface && means_itself && !gethostname(own, sizeof own - 1)) add_name(root, own, port);
}

/* ---- keys and tickets */

/* Under the key of a job. `out` holds BY_TICKET_TEXT. */
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

/* Each helper and server of a host gets a ticket in place of the job's key. */
static enum banyan_status copy_variable(struct by_job_environment *environment, const char *text, const char *key,
                                        const struct by_launch_host *host) {
  const char *given = by_variable_value(text, "BANYAN_KEY");
  char ticket[BY_TICKET_TEXT];
  if (!given) {
    by_job_environment_copy(environment, text);
    return BANYAN_OK;
  }
  if (!key) key = given; /* of a file that may have changed since, or generated */
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

/* ---- what to start */

void by_launch_command_of(const struct by_job *job, const struct by_launch_host *host, struct by_launch_command *out) {
  *out = (struct by_launch_command){.words = {host->local ? "/proc/self/exe" : job->remote}};
  snprintf(out->trees, sizeof out->trees, "%d", host->slots);
  out->argv = host->beside ? (char *const *)out->words : job->command;
  out->words[1] = host->beside == BY_SERVERS ? "server" : "helper";
  if (host->beside != BY_SERVERS) return;
  out->words[2] = "--trees";
  out->words[3] = out->trees;
}

int by_launch_size_of(const struct by_job *job, const struct by_launch_host *host) {
  return MAX(job->ranks, host->first + host->ranks);
}

/* Hosts that are this machine share its cores, so they count on. */
int by_launch_core_of(const struct by_job *job, const struct by_launch_host *host) {
  return !job->pin ? -1 : host->local ? host->first : 0;
}

enum banyan_status by_launch_send_start(const struct by_job *job, const char *root, const char *key,
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
    by_job_environment_set(&environment, "BANYAN_ROOT", root);
    by_launch_command_of(job, host, &command);
    if (job->elastic) {
      const char *preemption = job->elastic->preemption ? job->elastic->preemption : "";
      by_pipe_frame(&link->to, BY_LAUNCH_ELASTIC, (uint32_t)link->local, preemption, strlen(preemption));
    }
    struct by_host_job start = {.first = host->first,
                                .ranks = host->ranks,
                                .size = by_launch_size_of(job, host),
                                .pin = by_launch_core_of(job, host),
                                .directory = getcwd(directory, sizeof directory) ? directory : "",
                                .command = (char **)(uintptr_t)command.argv,
                                .environment = environment.items};
    by_host_job_send(&link->to, &start);
  }
  by_job_environment_fini(&environment);
  return status;
}
