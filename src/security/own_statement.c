/* Requests the statement of this host's agent about this process, and keeps it up to date. */
#include "own_statement.h"

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
#include "localsocket.h"
#include "log.h"

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

struct by_own_statement {
  struct by_own_statement_facts facts;
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
  own->facts = (struct by_own_statement_facts){
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

const struct by_own_statement_facts *by_own_statement_facts(const struct by_own_statement *own) {
  return &own->facts;
}

bool by_own_statement_get_user(struct by_own_statement *own, uint32_t *user) {
  pthread_mutex_lock(&own->lock);
  bool has = own->length > 0;
  *user = own->user;
  pthread_mutex_unlock(&own->lock);
  return has;
}
