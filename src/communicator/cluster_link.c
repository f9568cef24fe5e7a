#include "cluster_link_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "path_socket.h"
#include "socket.h"

enum {
  FIRST_MS = 100, /* before trying again; twice as long each time, up to */
  LAST_MS = 5000,
  WELCOME_MS = 10000, /* for a welcome */
  QUIET_S = 60,       /* between lines in the log; and the longest delay after refusals */
  RESOLVE_MS = 50,    /* looking whether the manager's name is known */
  MOST_QUEUED = 4 << 20
};

static const char *whom(const struct by_cluster_link *link) {
  return link->agent ? link->agent : link->manager;
}

/* ---- losing it */

static void drop(struct by_cluster_link *link) {
  by_stream_destroy(link->stream);
  by_resolving_destroy(link->resolving);
  link->stream = NULL;
  link->resolving = NULL;
  link->welcome = false;
  by_loop_cancel_timer(&link->report);
  by_context_lock(link->context);
  link->context->observed.awake = NULL;
  by_context_unlock(link->context);
}

/* One line, from one rank, for however many attempts; few for one who comes and goes. */
static void miss(struct by_cluster_link *link, const char *why) {
  enum by_log_level level = link->context->rank == 0 ? BY_LOG_WARN : BY_LOG_INFO;
  uint64_t now = by_loop_now(link->context->loop);
  bool quiet = link->missed || (link->missed_at && now - link->missed_at < QUIET_S * BY_SECOND);
  link->missed = true;
  if (quiet) return;
  link->missed_at = now;
  by_log(level, "cluster", "%s at %s is away: %s; the job goes on without it, and it is tried again",
         link->agent ? "the agent" : "the manager", whom(link), why);
}

void by_cluster_link_lose(struct by_cluster_link *link, const char *why) {
  miss(link, why);
  drop(link);
  by_loop_set_delay(link->context->loop, &link->retry, link->delay);
  link->delay *= 2;
  if (link->delay > LAST_MS * BY_MILLISECOND) link->delay = LAST_MS * BY_MILLISECOND;
}

void by_cluster_link_lose_for_long(struct by_cluster_link *link, const char *why) {
  bool went_well = link->welcome && by_loop_now(link->context->loop) - link->welcome_at > QUIET_S * BY_SECOND;
  link->refused = went_well || !link->refused ? LAST_MS * BY_MILLISECOND : 2 * link->refused;
  if (link->refused > QUIET_S * BY_SECOND) link->refused = QUIET_S * BY_SECOND;
  link->delay = link->refused;
  by_cluster_link_lose(link, why);
}

void by_cluster_link_welcomed(struct by_cluster_link *link) {
  by_loop_cancel_timer(&link->retry);
  link->welcome_at = by_loop_now(link->context->loop);
  link->delay = FIRST_MS * BY_MILLISECOND;
}

static void ended(void *context, enum banyan_status status, const char *reason) {
  struct by_cluster_link *link = context;
  if (status == BANYAN_ERR_AUTH)
    by_cluster_link_lose_for_long(link, reason);
  else
    by_cluster_link_lose(link, reason);
}

/* ---- making it */

static void came(void *context, uint16_t type, const void *payload, size_t length) {
  (void)type;
  by_cluster_link_heard(context, payload, length);
}

static void opened(void *context, uint8_t purpose, const void *hello, size_t length) {
  (void)purpose;
  (void)hello;
  (void)length;
  by_cluster_link_introduce(context);
}

static enum banyan_status speak(struct by_cluster_link *link, int fd, const struct by_address *connecting) {
  struct by_tls_options tls = {.identity = link->keys ? by_tls_watch_get(link->keys) : NULL, .peers = BY_TLS_MANAGER};
  struct by_stream_options options = {.loop = link->context->loop,
                                      .fd = fd,
                                      .connecting = connecting,
                                      .tls = tls.identity ? &tls : NULL,
                                      .most_frame = BY_CLUSTER_LINE_UP,
                                      .most_queued = MOST_QUEUED,
                                      .most_line = BY_CLUSTER_LINE_DOWN,
                                      .quiet = true,
                                      .opened = opened,
                                      .frame = came,
                                      .ended = ended,
                                      .context = link};
  BY_TRY(by_stream_create(&options, &link->stream));
  link->reported = (struct by_observed){0};
  link->reported_sent = 0;
  link->reported_expected = 0;
  link->reported_at = 0;
  by_loop_set_delay(link->context->loop, &link->retry, WELCOME_MS * BY_MILLISECOND);
  return BANYAN_OK;
}

static enum banyan_status reach_agent(struct by_cluster_link *link) {
  int fd;
  BY_TRY(by_path_socket_connect(link->agent, "agent", &fd));
  BY_TRY(speak(link, fd, NULL));
  by_cluster_link_introduce(link);
  return BANYAN_OK;
}

/* A job may outlive its certificate, and begin before it has one. */
static enum banyan_status look_at_keys(struct by_cluster_link *link) {
  const struct by_tls_watch_options of_keys = {
      .loop = link->context->loop, .folder = link->context->settings.keys, .role = BY_TLS_JOB};
  if (!link->keys) return by_tls_watch_create(&of_keys, &link->keys);
  by_tls_watch_look(link->keys);
  return BANYAN_OK;
}

static enum banyan_status reach_manager(struct by_cluster_link *link) {
  struct by_address address;
  bool known = false;
  int fd;
  if (!link->resolving) BY_TRY(by_resolving_start(link->manager, link->tries++, &link->resolving));
  BY_TRY(by_resolving_look(link->resolving, &address, &known));
  if (!known) {
    by_loop_set_delay(link->context->loop, &link->retry, RESOLVE_MS * BY_MILLISECOND);
    return BANYAN_OK;
  }
  by_resolving_destroy(link->resolving);
  link->resolving = NULL;
  BY_TRY(look_at_keys(link));
  BY_TRY(by_socket_connect_start(&address, &fd));
  (void)!by_socket_set_keepalive(fd, 5, 2, 3);
  return speak(link, fd, &address);
}

/* It is time to try, or the welcome stays away. */
static void due(void *context) {
  struct by_cluster_link *link = context;
  if (link->stream) {
    by_cluster_link_lose(link, "it takes connections and says nothing");
    return;
  }
  enum banyan_status status = link->agent ? reach_agent(link) : reach_manager(link);
  if (status != BANYAN_OK) by_cluster_link_lose(link, banyan_error_text());
}

/* ---- life */

static const char *find_agent(const struct by_settings *settings) {
  if (!settings->agent) return access(BY_CLUSTER_AGENT, F_OK) == 0 ? BY_CLUSTER_AGENT : NULL;
  return strcmp(settings->agent, "off") != 0 ? settings->agent : NULL;
}

/* The same at all ranks, and nobody who has no key of the job makes one up. */
static enum banyan_status name_job(const struct by_settings *settings, char *out) {
  char text[4096];
  struct by_key digest = {0};
  int length = snprintf(text, sizeof text, "a job's id\n%s\n%s", settings->root, settings->key);
  if (length >= (int)sizeof text) return by_fail(BANYAN_ERR_UNSUPPORTED, "the job's key or root is too long");
  enum banyan_status status = by_key_derive(text, &digest);
  for (int i = 0; i < BY_CLUSTER_JOB_ID / 2; i++) snprintf(out + 2 * i, 3, "%02x", digest.bytes[i]);
  explicit_bzero(text, sizeof text);
  return status;
}

static void choose_peer(struct by_cluster_link *link) {
  const struct by_settings *settings = &link->context->settings;
  link->agent = find_agent(settings);
  if (!link->agent && link->context->rank == 0) link->manager = settings->manager;
}

static enum banyan_status begin(struct by_cluster_link *link) {
  struct by_context *context = link->context;
  struct timespec now;
  BY_TRY(name_job(&context->settings, link->job));
  clock_gettime(CLOCK_REALTIME, &now);
  link->began = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
  by_context_lock(context);
  by_observe_begin(&context->observed);
  by_context_unlock(context);
  return by_loop_post(context->loop, due, link);
}

static enum banyan_status make(struct by_context *context, struct by_cluster_link **out) {
  struct by_cluster_link *link = calloc(1, sizeof *link);
  if (!link) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a connection to an agent");
  *link = (struct by_cluster_link){.context = context, .delay = FIRST_MS * BY_MILLISECOND};
  by_timer_init(&link->retry, due, link);
  by_timer_init(&link->report, by_cluster_link_report, link);
  choose_peer(link);
  bool wanted = link->agent || link->manager;
  enum banyan_status status = wanted ? begin(link) : BANYAN_OK;
  if (status == BANYAN_OK && wanted)
    *out = link;
  else
    by_cluster_link_destroy(link);
  return status;
}

void by_cluster_link_create(struct by_context *context, struct by_cluster_link **out) {
  *out = NULL;
  if (make(context, out) != BANYAN_OK)
    by_warn("cluster", "no agent or manager hears of this job: %s", banyan_error_text());
}

void by_cluster_link_destroy(struct by_cluster_link *link) {
  if (!link) return;
  if (link->welcome)
    by_cluster_link_say(
        link, &(struct by_cluster_message){.say = BY_SAY_LEFT, .job = link->job, .rank = link->context->rank});
  by_stream_destroy(link->stream);
  by_resolving_destroy(link->resolving);
  by_tls_watch_destroy(link->keys);
  by_loop_cancel_timer(&link->retry);
  by_loop_cancel_timer(&link->report);
  by_cluster_link_forget_plans(link);
  by_cluster_link_forget_paths(link);
  free(link->wish);
  free(link);
}
