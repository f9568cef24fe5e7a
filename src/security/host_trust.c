/* Keeps the statement of this host's agent about this process, judges peers by those of their hosts' agents, and
 * follows the cluster's authority. */
#include "host_trust.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "cluster_message.h"
#include "descriptor.h"
#include "log.h"
#include "refusal.h"
#include "socket.h"

/* ---- the own statement */

enum {
  START_MS = 5000,                       /* For the agent's answer while the process starts. */
  LATE_S = 30,                           /* Seconds for the agent's answer later. */
  TRIES = 3,                             /* Attempts if a statement is not required. */
  AWAY_MS = 50,                          /* The pause between attempts. */
  AGAIN_S = 60,                          /* Seconds until the agent is asked again. */
  SHOWN_AGAIN = BY_STATEMENT_SECONDS / 2 /* Seconds after which peers are shown another one. */
};

_Static_assert(2 * BY_STATEMENT_MAX <= BY_CLUSTER_STATEMENT && (int)BY_STATEMENT_JOB == (int)BY_CLUSTER_JOB_ID &&
                   (int)BY_CLUSTER_PROCESS == (int)BY_FINGERPRINT_TEXT - 1,
               "messages have room");

/* The facts that never change. */
struct facts {
  bool required;    /* Peers without a statement are refused. */
  bool may_come;    /* There is an agent, so a statement may come. */
  const char *keys; /* See the options. */
  const char *job;  /* As in statements; NULL: a helper or server, which does not know it. */
};

struct by_own_statement {
  struct facts facts;
  char *agent, *keys, *host;
  struct by_fingerprint process;
  char job[BY_STATEMENT_JOB + 1];
  _Atomic uint32_t holders;
  pthread_mutex_t lock; /* Protects the members below. */
  int fd;               /* The connection to the agent, from which an answer is expected; -1: none. */
  uint64_t asked_at;
  char answer[BY_CLUSTER_STATEMENT + 128];
  size_t answered;
  uint8_t bytes[BY_STATEMENT_MAX];
  size_t length; /* 0: there is none. */
  uint32_t user, version;
  uint64_t expires, shown_until; /* Seconds since 1970; from `shown_until` on peers must be shown another one. */
  char why[256];                 /* Why there is none; "" if there is one. */
};

/* ---- asking the agent */

static void hang_up(struct by_own_statement *own) {
  if (own->fd >= 0) by_close(own->fd);
  own->fd = -1;
}

static enum banyan_status send_request(struct by_own_statement *own, uint64_t now) {
  char process[BY_FINGERPRINT_TEXT];
  own->asked_at = now;
  own->answered = 0;
  BY_TRY(by_path_socket_connect(own->agent, "agent", &own->fd));
  by_fingerprint_print(&own->process, process);
  struct by_text line = by_cluster_message_line(
      &(struct by_cluster_message){.type = BY_MESSAGE_CERTIFY, .job = own->job, .process = process});
  by_text_add(&line, "\n");
  bool sent = !line.failed && send(own->fd, by_text_get(&line), line.length, MSG_DONTWAIT | MSG_NOSIGNAL) ==
                                  (ssize_t)line.length; /* An empty socket has space for it. */
  by_text_fini(&line);
  return sent ? BANYAN_OK : by_fail(BANYAN_ERR_PEER_DEAD, "the agent takes no messages");
}

/* Whether it is the requested statement: peers would refuse any other one. */
static enum banyan_status check_statement(const struct by_own_statement *own, const struct by_statement *statement) {
  if (!by_fingerprint_equal(&statement->process, &own->process) || strcmp(statement->job, own->job) != 0)
    return by_fail(BANYAN_ERR_PROTOCOL, "the agent answers about another process");
  if (strcmp(statement->host, own->host) != 0)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "this host is \"%s\" for this process and \"%s\" for its agent: set BANYAN_HOST (or the name in "
                   "`banyan run -H`) to the agent's name for it, or start the agent with --name",
                   own->host, statement->host);
  return BANYAN_OK;
}

static enum banyan_status take_statement(struct by_own_statement *own, const char *text) {
  struct by_statement statement;
  uint8_t bytes[BY_STATEMENT_MAX];
  size_t length;
  if (!by_statement_parse(text, bytes, &length))
    return by_fail(BANYAN_ERR_PROTOCOL, "the agent answers with something else than a statement");
  BY_TRY(by_statement_read(bytes, length, &statement));
  BY_TRY(check_statement(own, &statement));
  bool same = own->length && by_statement_same_signer(own->bytes, own->length, bytes, length);
  if (!same || statement.made >= own->shown_until) {
    own->version++;
    own->shown_until = statement.made + SHOWN_AGAIN;
  }
  memcpy(own->bytes, bytes, length);
  own->length = length;
  own->user = statement.user;
  own->expires = statement.expires;
  own->why[0] = 0;
  return BANYAN_OK;
}

static enum banyan_status take_answer(struct by_own_statement *own, size_t length) {
  struct by_cluster_message message;
  BY_TRY(by_cluster_message_read(own->answer, length, &message));
  enum banyan_status status;
  if (message.type == BY_MESSAGE_CERTIFIED)
    status = take_statement(own, message.statement);
  else
    status = by_fail(BANYAN_ERR_UNSUPPORTED, "the agent answers: %s", message.why ? message.why : "something else");
  by_cluster_message_fini(&message);
  return status;
}

/* Reads from the agent. *done: the answer is complete. */
static enum banyan_status listen_to(struct by_own_statement *own, bool *done) {
  ssize_t n = recv(own->fd, own->answer + own->answered, sizeof own->answer - own->answered, MSG_DONTWAIT);
  *done = false;
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return BANYAN_OK;
  if (n <= 0) return by_fail(BANYAN_ERR_PEER_DEAD, "the agent has closed the connection");
  own->answered += (size_t)n;
  const char *end = memchr(own->answer, '\n', own->answered);
  *done = end != NULL;
  if (end) return take_answer(own, (size_t)(end - own->answer));
  return own->answered < sizeof own->answer ? BANYAN_OK
                                            : by_fail(BANYAN_ERR_PROTOCOL, "the agent sends too long a line");
}

/* Notes a failure. An older statement is still used. Logged if the reason has changed. */
static void note_failure(struct by_own_statement *own) {
  char why[sizeof own->why];
  hang_up(own);
  snprintf(why, sizeof why, "%s", banyan_error_text());
  if (strcmp(why, own->why) != 0)
    by_info("net", "this process has no %sstatement of its host's agent: %s", own->length ? "new " : "", why);
  snprintf(own->why, sizeof own->why, "%s", why);
}

static enum banyan_status renew_statement(struct by_own_statement *own, uint64_t now) {
  bool done;
  if (own->fd < 0) return now - own->asked_at >= AGAIN_S * BY_SECOND ? send_request(own, now) : BANYAN_OK;
  BY_TRY(listen_to(own, &done));
  if (done) hang_up(own);
  if (done || now - own->asked_at < LATE_S * BY_SECOND) return BANYAN_OK;
  return by_fail(BANYAN_ERR_TIMEOUT, "the agent does not answer");
}

void by_own_statement_renew(struct by_own_statement *own, uint64_t now) {
  if (!own->agent) return;
  pthread_mutex_lock(&own->lock);
  if (renew_statement(own, now) != BANYAN_OK) note_failure(own);
  pthread_mutex_unlock(&own->lock);
}

/* ---- life */

enum banyan_status by_statement_name_job(const struct by_key *job, char *out) {
  struct by_key name = {{0}};
  enum banyan_status status = by_key_hash(job, "a job in statements of agents", &name);
  by_print_hex(name.bytes, BY_STATEMENT_JOB / 2, out);
  return status;
}

static enum banyan_status ask_once(struct by_own_statement *own, uint64_t end) {
  bool done = false;
  BY_TRY(send_request(own, by_clock_now(&by_clock_system)));
  while (!done) {
    uint64_t now = by_clock_now(&by_clock_system);
    struct pollfd polled = {.fd = own->fd, .events = POLLIN};
    if (now >= end) return by_fail(BANYAN_ERR_TIMEOUT, "the agent does not answer within %d s", START_MS / 1000);
    (void)poll(&polled, 1, (int)((end - now) / BY_MILLISECOND) + 1);
    BY_TRY(listen_to(own, &done));
  }
  return BANYAN_OK;
}

/* Asks the agent, repeatedly if it does not take all of many processes that start at once. */
static enum banyan_status ask_and_wait(struct by_own_statement *own) {
  uint64_t end = by_clock_now(&by_clock_system) + START_MS * BY_MILLISECOND;
  if (!own->agent) return by_fail(BANYAN_ERR_UNSUPPORTED, "there is no agent on this host, or BANYAN_AGENT is off");
  for (int tries = 1;; tries++) {
    enum banyan_status status = ask_once(own, end);
    bool away = status == BANYAN_ERR_CONNECT || status == BANYAN_ERR_PEER_DEAD;
    hang_up(own);
    if (!away || by_clock_now(&by_clock_system) >= end || (tries == TRIES && !own->facts.required)) return status;
    usleep(AWAY_MS * 1000);
  }
}

static enum banyan_status create_own(struct by_own_statement *own, const struct by_own_statement_options *options) {
  own->agent = options->agent ? strdup(options->agent) : NULL;
  own->keys = options->keys ? strdup(options->keys) : NULL;
  own->host = strdup(options->host);
  if (!own->host || (options->agent && !own->agent) || (options->keys && !own->keys))
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a statement");
  strcpy(own->job, BY_STATEMENT_NO_JOB);
  if (options->job) BY_TRY(by_statement_name_job(options->job, own->job));
  own->facts = (struct facts){
      .required = options->required, .may_come = own->agent, .keys = own->keys, .job = options->job ? own->job : NULL};
  if (ask_and_wait(own) == BANYAN_OK) return BANYAN_OK;
  if (own->agent) note_failure(own);
  if (!options->required) return BANYAN_OK;
  return by_fail_within(BANYAN_ERR_AUTH, "processes of jobs must be certified by this host's agent, says the policy of "
                                         "this host, and this one is not");
}

enum banyan_status by_own_statement_create(const struct by_own_statement_options *options,
                                           struct by_own_statement **out) {
  struct by_own_statement *own = calloc(1, sizeof *own);
  if (!own) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a statement");
  own->fd = -1;
  own->process = *options->process;
  atomic_store(&own->holders, 1);
  pthread_mutex_init(&own->lock, NULL);
  enum banyan_status status = create_own(own, options);
  if (status == BANYAN_OK)
    *out = own;
  else
    by_own_statement_release(own);
  return status;
}

struct by_own_statement *by_own_statement_hold(struct by_own_statement *own) {
  if (own) atomic_fetch_add(&own->holders, 1);
  return own;
}

void by_own_statement_release(struct by_own_statement *own) {
  if (!own || atomic_fetch_sub(&own->holders, 1) > 1) return;
  hang_up(own);
  pthread_mutex_destroy(&own->lock);
  free(own->agent);
  free(own->keys);
  free(own->host);
  free(own);
}

/* ---- what others ask */

size_t by_own_statement_get(struct by_own_statement *own, uint8_t *out, uint32_t *version) {
  if (!own) return 0;
  pthread_mutex_lock(&own->lock);
  size_t length = own->expires >= (uint64_t)time(NULL) ? own->length : 0;
  memcpy(out, own->bytes, length);
  if (version) *version = own->version;
  pthread_mutex_unlock(&own->lock);
  return length;
}

bool by_own_statement_get_user(struct by_own_statement *own, uint32_t *user) {
  pthread_mutex_lock(&own->lock);
  bool has = own->length > 0;
  *user = own->user;
  pthread_mutex_unlock(&own->lock);
  return has;
}

/* ---- judging peers */

struct by_host_trust {
  struct by_loop *loop;
  struct by_own_statement *own;
  struct by_tls_watch *authority; /* NULL: it is not known here. */
  bool news;                      /* Its files have changed since the last call of `looked`. */
  struct by_timer timer;          /* Used without an authority. */
  void (*looked)(void *context);
  void *context;
};

static void note_change(void *context) {
  struct by_host_trust *trust = context;
  trust->news = true;
}

static void notify_looked(void *context) {
  struct by_host_trust *trust = context;
  by_own_statement_renew(trust->own, by_loop_now(trust->loop));
  trust->looked(trust->context);
  trust->news = false;
}

static void look_without_authority(void *context) {
  struct by_host_trust *trust = context;
  by_loop_set_delay(trust->loop, &trust->timer, BY_TLS_LOOK);
  notify_looked(trust);
}

/* Follows the authority's files. Without them there is no cluster, or this host is in none. */
static enum banyan_status follow_authority(struct by_host_trust *trust) {
  const struct facts *facts = &trust->own->facts;
  const struct by_tls_watch_options options = {.loop = trust->loop,
                                               .folder = facts->keys,
                                               .role = BY_TLS_NOBODY,
                                               .changed = note_change,
                                               .looked = notify_looked,
                                               .context = trust};
  char path[512];
  snprintf(path, sizeof path, "%s/" BY_TLS_AUTHORITY, facts->keys ? facts->keys : by_tls_folder());
  bool none = access(path, F_OK) != 0;
  enum banyan_status status =
      none ? by_fail(BANYAN_ERR_SYSTEM, "there is no %s", path) : by_tls_watch_create(&options, &trust->authority);
  if (status == BANYAN_OK) return BANYAN_OK;
  if (facts->required)
    return by_fail_within(BANYAN_ERR_AUTH, "the policy of this host requires that other processes are certified, which "
                                           "cannot be checked");
  if (!none) by_warn("net", "processes of other hosts are not checked: %s", banyan_error_text());
  if (facts->may_come) by_loop_set_delay(trust->loop, &trust->timer, BY_TLS_LOOK);
  return BANYAN_OK;
}

enum banyan_status by_host_trust_create(struct by_loop *loop, struct by_own_statement *own,
                                        void (*looked)(void *context), void *context, struct by_host_trust **out) {
  *out = NULL;
  if (!own) return BANYAN_OK;
  struct by_host_trust *trust = calloc(1, sizeof *trust);
  if (!trust) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the authority of a cluster");
  *trust =
      (struct by_host_trust){.loop = loop, .own = by_own_statement_hold(own), .looked = looked, .context = context};
  by_timer_init(&trust->timer, look_without_authority, trust);
  enum banyan_status status = follow_authority(trust);
  if (status == BANYAN_OK)
    *out = trust;
  else
    by_host_trust_destroy(trust);
  return status;
}

void by_host_trust_destroy(struct by_host_trust *trust) {
  if (!trust) return;
  by_tls_watch_destroy(trust->authority);
  by_loop_cancel_timer(&trust->timer);
  by_own_statement_release(trust->own);
  free(trust);
}

void by_host_trust_look(struct by_host_trust *trust) {
  if (!trust) return;
  if (trust->authority) by_tls_watch_look(trust->authority);
  notify_looked(trust);
}

static enum banyan_status check_user(const struct by_host_trust *trust, const struct by_trust_peer *peer,
                                     const struct by_stated *stated) {
  const struct facts *facts = &trust->own->facts;
  uint32_t user;
  if (!facts->required || peer->is_helper || !facts->job || !by_own_statement_get_user(trust->own, &user) ||
      user == stated->user)
    return BANYAN_OK;
  return by_refuse(BY_REFUSED_IDENTITY, BANYAN_ERR_AUTH,
                   "the peer's process is of user %u of host %.64s, and this one of user %u: the policy of this host "
                   "requires the same user",
                   stated->user, peer->host, user);
}

enum banyan_status by_host_trust_check(struct by_host_trust *trust, const struct by_trust_peer *peer,
                                       struct by_stated *out) {
  *out = (struct by_stated){0};
  if (!trust || !peer->process) return BANYAN_OK;
  const struct facts *facts = &trust->own->facts;
  if (!peer->length && facts->required)
    return by_refuse(
        BY_REFUSED_CERTIFICATE, BANYAN_ERR_AUTH,
        "the peer's process on host %.64s is not certified by its host's agent, as the policy of this host "
        "requires: does `banyan agent` run there with a certificate?",
        peer->host);
  if (!peer->length || !trust->authority) return BANYAN_OK;
  struct by_statement_claim claim = {
      .job = peer->is_helper ? BY_STATEMENT_NO_JOB : facts->job, .host = peer->host, .process = peer->process};
  BY_TRY(by_statement_check(peer->statement, peer->length, by_tls_watch_get(trust->authority), &claim,
                            (uint64_t)time(NULL), out));
  enum banyan_status status = check_user(trust, peer, out);
  if (status != BANYAN_OK) by_stated_fini(out);
  return status;
}

enum banyan_status by_host_trust_judge(struct by_host_trust *trust, struct by_stated *stated) {
  uint64_t now = (uint64_t)time(NULL);
  if (!trust || !trust->authority || !stated->certificate || (!trust->news && (int64_t)now <= stated->until))
    return BANYAN_OK;
  return by_stated_judge(stated, by_tls_watch_get(trust->authority), now);
}
