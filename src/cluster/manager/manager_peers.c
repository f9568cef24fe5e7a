/* Handles the messages of agents and ranks: checks who may send what, and passes it on. */
#include "manager_hosts.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "manager_cells.h"
#include "manager_job.h"
#include "manager_plans.h"

enum { JOBS_OF_ONE = 512 /* Jobs of one certificate. */ };

static const double found_again = 6; /* Seconds in which ranks find an agent that was restarted. */

#define refuse(...) by_fail(BANYAN_ERR_PROTOCOL, __VA_ARGS__)

static void set_state(struct by_manager_peer *peer, enum by_peer_state state) {
  static const char *const names[] = {"new", "welcome", "reported"};
  by_debug("manager", "connection %llu, of \"%s\": %s -> %s", (unsigned long long)peer->number, peer->host,
           names[peer->state], names[state]);
  assert(state == peer->state + 1);
  peer->state = state;
}

/* ---- hello */

static enum banyan_status greet_agent(struct by_manager *m, struct by_manager_peer *peer,
                                      const struct by_cluster_message *message) {
  uint32_t index;
  if (peer->role == BY_ROLE_JOB)
    return by_fail(BANYAN_ERR_AUTH,
                   "the certificate of \"%.64s\" is a job's: an agent needs one of `banyan keys agent`",
                   peer->name ? peer->name : "");
  if (peer->name && strcmp(peer->name, message->host) != 0)
    return by_fail(BANYAN_ERR_AUTH, "the certificate is for host \"%.64s\", not for \"%.64s\": make one for it",
                   peer->name, message->host);
  BY_TRY(by_manager_hosts_find_or_add(m, message->host, &index));
  const struct by_manager_host *host = &m->hosts->all[index];
  if (host->agent && m->now - host->agent->last_message < 3 * m->options.interval)
    return refuse("host \"%.64s\" has an agent already: stop one of them, or name this host otherwise", message->host);
  peer->index = index;
  peer->born = m->now - message->age;
  BY_TRY(by_manager_hosts_set_agent(m, index, peer, message));
  return by_manager_hosts_report(m, index, message->interfaces, message->n_interfaces);
}

static enum banyan_status greet_rank(struct by_manager_peer *peer, const struct by_cluster_message *message) {
  if (peer->role == BY_ROLE_AGENT)
    return by_fail(BANYAN_ERR_AUTH, "the certificate of \"%.64s\" is an agent's: a job needs one of `banyan keys job`",
                   peer->name ? peer->name : "");
  if (peer->name && strcmp(peer->name, message->host) != 0)
    return by_fail(BANYAN_ERR_AUTH,
                   "the certificate is for jobs whose rank 0 is on \"%.64s\", this one's is on \"%.64s\": make one for "
                   "that host, or name it by BANYAN_HOST",
                   peer->name, message->host);
  if (message->rank != 0) return refuse("rank %u speaks to the manager: only rank 0 may", message->rank);
  memcpy(peer->job, message->job, sizeof peer->job);
  return BANYAN_OK;
}

static enum banyan_status handle_hello(struct by_manager *m, struct by_manager_peer *peer,
                                       const struct by_cluster_message *message) {
  if (peer->state != BY_PEER_NEW) return refuse("received \"hello\" twice");
  if (message->version != BY_CLUSTER_VERSION)
    return refuse("it uses version %u of the protocol, this manager %d: install the same Banyan on both",
                  message->version, BY_CLUSTER_VERSION);
  if (!(peer->host = strdup(message->host))) return by_manager_no_memory();
  BY_TRY(message->job ? greet_rank(peer, message) : greet_agent(m, peer, message));
  set_state(peer, BY_PEER_WELCOME);
  uint32_t host = peer->index != BY_NOWHERE ? peer->index : by_manager_hosts_find(m, message->host);
  by_manager_send(m, peer,
                  &(struct by_cluster_message){.type = BY_MESSAGE_WELCOME,
                                               .version = BY_CLUSTER_VERSION,
                                               .interval = m->options.interval,
                                               .rate = host == BY_NOWHERE ? 0 : by_manager_hosts_rate(m, host)});
  return BANYAN_OK;
}

/* ---- about jobs */

/* A rank may only speak for its own job. */
static enum banyan_status may_send(const struct by_manager_peer *peer, const char *job) {
  if (!*peer->job || !strcmp(peer->job, job)) return BANYAN_OK;
  return refuse("job %.32s speaks for job %.32s", peer->job, job);
}

/* Ignores an error in a message that an agent forwards: any process may cause it, and the host must not lose its
 * manager. */
static enum banyan_status ignore_error(struct by_manager *m, const struct by_manager_peer *peer,
                                       enum banyan_status status) {
  if (status == BANYAN_OK || *peer->job) return status;
  by_info("manager", "ignored a message of the agent of \"%.64s\": %s", peer->host, banyan_error_text());
  m->counters.refused++;
  return BANYAN_OK;
}

static enum banyan_status begin_job(struct by_manager *m, struct by_manager_peer *peer,
                                    const struct by_cluster_message *message) {
  struct by_manager_job *job = by_jobs_find(m, message->job);
  if (strcmp(peer->host, message->hosts[0]) != 0)
    return refuse("\"%.64s\" speaks for rank 0 of a job, which is on \"%.64s\"", peer->host, message->hosts[0]);
  /* A job belongs to the certificate that announced it: an agent's, or another one for the host of its rank 0. */
  char owner[BY_MANAGER_OWNER];
  snprintf(owner, sizeof owner, "%s %.64s", peer->role == BY_ROLE_AGENT ? "agent" : "job",
           peer->name ? peer->name : "");
  if (job && !by_job_has_left(job) && strcmp(job->hosts[0], peer->host) != 0)
    return refuse("job %.32s is another one's, on \"%.64s\"", message->job, job->hosts[0]);
  if (job && !by_job_has_left(job) && *job->owner && strcmp(job->owner, owner) != 0)
    return refuse("job %.32s is another one's, which came with the certificate of %s", message->job, job->owner);
  uint32_t n = 0;
  for (const struct by_manager_job *other = by_jobs_first_of(m, peer->host); other; other = by_jobs_next_of(other))
    n += !by_job_has_left(other) && !strcmp(other->owner, owner);
  if ((!job || by_job_has_left(job)) && n >= JOBS_OF_ONE)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "the manager has %d jobs that came with the certificate of %s", JOBS_OF_ONE,
                   owner);
  BY_TRY(by_jobs_begin(m, message, &job));
  by_jobs_set_speaker(m, job, peer, owner);
  return BANYAN_OK;
}

/* Ends the jobs whose rank 0 is on an agent's host and that its report does not name. An agent sends all jobs before
 * its first report, but ranks take some seconds to find an agent that has just begun. */
static void end_unreported(struct by_manager *m, const struct by_manager_peer *peer,
                           const struct by_cluster_message *message) {
  if (peer->index == BY_NOWHERE) return;
  bool young = m->now - peer->born < found_again;
  for (struct by_manager_job *job = by_jobs_first_of(m, peer->host); job; job = by_jobs_next_of(job)) {
    if (by_job_has_left(job) || (young && job->peer != peer)) continue;
    uint32_t i = 0;
    while (i < message->n_jobs && strcmp(message->jobs[i].job, job->id) != 0) i++;
    if (i == message->n_jobs && (!job->peer || *job->peer->job == 0))
      by_jobs_leave(m, job, "its agent does not know it");
  }
}

static enum banyan_status handle_report(struct by_manager *m, struct by_manager_peer *peer,
                                        const struct by_cluster_message *message) {
  m->counters.reports++;
  bool is_agent = peer->index != BY_NOWHERE;
  if (is_agent) BY_TRY(by_manager_hosts_report(m, peer->index, message->interfaces, message->n_interfaces));
  for (uint32_t i = 0; i < message->n_jobs; i++) {
    BY_TRY(may_send(peer, message->jobs[i].job));
    struct by_manager_job *job = by_jobs_find(m, message->jobs[i].job);
    bool may = job && !by_job_has_left(job) && (!*peer->job || job->peer == peer);
    if (may) by_jobs_report(m, job, peer, &message->jobs[i]);
    if ((!job || by_job_has_left(job)) && is_agent) by_manager_hosts_note_unknown(m, peer->index, message->jobs[i].job);
  }
  end_unreported(m, peer, message);
  if (peer->state == BY_PEER_REPORTED) return BANYAN_OK;
  if (is_agent) by_plans_end_unreported(m, peer);
  set_state(peer, BY_PEER_REPORTED);
  return BANYAN_OK;
}

/* Answers a job that requests cells and gets none, as it waits. */
static void answer_none(struct by_manager *m, struct by_manager_peer *peer, const struct by_cluster_message *message) {
  struct by_cluster_message none = {.type = BY_MESSAGE_CELLS, .job = message->job};
  if (message->type == BY_MESSAGE_RESERVE) by_manager_send(m, peer, &none);
}

static enum banyan_status handle_of_job(struct by_manager *m, struct by_manager_peer *peer,
                                        const struct by_cluster_message *message) {
  struct by_manager_job *job = by_jobs_find(m, message->job);
  BY_TRY(may_send(peer, message->job));
  if (!job || by_job_has_left(job)) {
    answer_none(m, peer, message); /* The job has left meanwhile, or its announcement was ignored. */
    return BANYAN_OK;
  }
  if (message->type == BY_MESSAGE_HELPING) {
    uint32_t host = by_manager_hosts_find(m, message->helper);
    if (host != BY_NOWHERE && host == peer->index)
      by_plans_helping(m, job, host, message->server, message->joined ? peer : NULL, message->why);
    return BANYAN_OK;
  }
  bool sends_for_root = job->peer == peer;
  if (message->type == BY_MESSAGE_LEFT) {
    if (message->rank == 0 && sends_for_root) by_jobs_leave(m, job, "it ended");
    return BANYAN_OK;
  }
  if (!sends_for_root) {
    answer_none(m, peer, message);
    return ignore_error(
        m, peer,
        refuse("\"%.64s\" reports what job %.32s does, and does not speak for its rank 0", peer->host, message->job));
  }
  if (message->type == BY_MESSAGE_RESERVE) return by_cells_reserve(m, job, message);
  if (message->type == BY_MESSAGE_SWITCHED)
    by_plans_switched(m, job, message->number);
  else if (message->type == BY_MESSAGE_KEPT)
    by_plans_kept(m, job, message->number, message->why);
  else
    by_plans_released(m, job, message->number);
  return BANYAN_OK;
}

static enum banyan_status handle_message(struct by_manager *m, struct by_manager_peer *peer,
                                         const struct by_cluster_message *message) {
  if (message->type != BY_MESSAGE_HELLO && peer->state == BY_PEER_NEW)
    return refuse("received \"%s\" before \"hello\"", by_cluster_type_name(message->type));
  switch (message->type) {
  case BY_MESSAGE_HELLO: return handle_hello(m, peer, message);
  case BY_MESSAGE_JOB: BY_TRY(may_send(peer, message->job)); return ignore_error(m, peer, begin_job(m, peer, message));
  case BY_MESSAGE_REPORT: return handle_report(m, peer, message);
  case BY_MESSAGE_WANTED: return by_manager_offer(m, peer, message);
  case BY_MESSAGE_MEET: return ignore_error(m, peer, by_meetings_take(m, peer, message));
  case BY_MESSAGE_PARTED: by_meetings_part(m, peer, message); return BANYAN_OK;
  case BY_MESSAGE_LEFT:
  case BY_MESSAGE_SWITCHED:
  case BY_MESSAGE_KEPT:
  case BY_MESSAGE_RELEASED:
  case BY_MESSAGE_RESERVE:
  case BY_MESSAGE_HELPING: return handle_of_job(m, peer, message);
  default: return refuse("\"%s\" is not for a manager", by_cluster_type_name(message->type));
  }
}

enum banyan_status by_manager_handle(struct by_manager *m, struct by_manager_peer *peer,
                                     const struct by_cluster_message *message, double now) {
  m->now = now;
  peer->last_message = now;
  enum banyan_status status = handle_message(m, peer, message);
  if (status != BANYAN_OK) m->counters.refused++;
  return status;
}

/* ---- coming and going */

static void free_peer(struct by_manager *m, struct by_manager_peer *peer) {
  TAILQ_REMOVE(&m->peers, peer, entry);
  free(peer->name);
  free(peer->host);
  free(peer);
}

enum banyan_status by_manager_joined(struct by_manager *m, void *connection, enum by_manager_role role,
                                     const char *name, double now, struct by_manager_peer **out) {
  struct by_manager_peer *peer = calloc(1, sizeof *peer);
  m->now = now;
  if (!peer) return by_manager_no_memory();
  *peer = (struct by_manager_peer){.connection = connection,
                                   .number = ++m->n_joined,
                                   .role = role,
                                   .name = name ? strdup(name) : NULL,
                                   .index = BY_NOWHERE,
                                   .born = now,
                                   .last_message = now};
  TAILQ_INSERT_TAIL(&m->peers, peer, entry);
  if (name && !peer->name) {
    free_peer(m, peer);
    return by_manager_no_memory();
  }
  *out = peer;
  return BANYAN_OK;
}

void by_manager_gone(struct by_manager *m, struct by_manager_peer *peer, double now) {
  m->now = now;
  by_jobs_forget_peer(m, peer);
  by_meetings_forget_peer(m, peer);
  if (peer->index != BY_NOWHERE && m->hosts->all[peer->index].agent == peer) by_manager_hosts_forget(m, peer->index);
  free_peer(m, peer);
}

void by_manager_peers_fini(struct by_manager *m) {
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!TAILQ_EMPTY(&m->peers)) free_peer(m, TAILQ_FIRST(&m->peers));
}
