/* Introduces the processes of jobs with changing membership to each other. */
#include "manager_hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "log.h"

enum { MEETINGS = 1024, PROCESSES = 16384, OF_ONE = 1024 /* Maximum of processes of one agent. */, INTRODUCED = 16 };

static const double reconnect_time = 60; /* Seconds in which the agent of a process may reconnect and repeat it. */
static const double repeats = 3;         /* Intervals in which agents repeat their processes to a restarted manager. */

enum state { WAITING, FORMING, JOINING, MEMBER };

struct process {
  TAILQ_ENTRY(process) entry;
  const struct by_manager_peer *peer; /* NULL: its agent disconnected at `gone`. */
  uint64_t number;                    /* Given by the agent. */
  enum state state;
  double gone;
  char handle[];
};

struct by_meeting_point {
  LIST_ENTRY(by_meeting_point) entry;
  char job[BY_CLUSTER_JOB_ID + 1];
  uint32_t founders; /* As the latest process states. */
  uint32_t attempt;
  bool formed; /* Some process has reported that it is a member, and such a process is still there. */
  TAILQ_HEAD(, process) processes;
};

/* ---- processes */

static uint32_t count_processes(const struct by_meeting_point *meeting, enum state from, enum state to) {
  const struct process *p;
  uint32_t n = 0;
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  TAILQ_FOREACH(p, &meeting->processes, entry) n += p->state >= from && p->state <= to;
  return n;
}

static void drop_process(struct by_meeting_point *meeting, struct process *process) {
  TAILQ_REMOVE(&meeting->processes, process, entry);
  free(process);
}

static void drop_if_empty(struct by_meeting_point *meeting) {
  if (!TAILQ_EMPTY(&meeting->processes)) return;
  LIST_REMOVE(meeting, entry);
  free(meeting);
}

static struct by_meeting_point *find_meeting(const struct by_manager *m, const char *job) {
  struct by_meeting_point *meeting;
  LIST_FOREACH(meeting, &m->meetings, entry) {
    if (!strcmp(meeting->job, job)) return meeting;
  }
  return NULL;
}

static struct process *find_process(const struct by_meeting_point *meeting, const struct by_manager_peer *peer,
                                    uint64_t number) {
  struct process *p;
  TAILQ_FOREACH(p, &meeting->processes, entry) {
    if (p->peer == peer && p->number == number) return p;
  }
  return NULL;
}

/* Finds a process whose agent has reconnected, perhaps before the end of its old connection was noticed. */
static struct process *find_handle(const struct by_meeting_point *meeting, const struct by_manager_peer *peer,
                                   const char *handle) {
  struct process *p;
  TAILQ_FOREACH(p, &meeting->processes, entry) {
    bool returns = !p->peer || (p->peer != peer && p->peer->index == peer->index);
    if (returns && !strcmp(p->handle, handle)) return p;
  }
  return NULL;
}

static enum banyan_status check_limits(const struct by_manager *m, const struct by_manager_peer *peer) {
  uint32_t meetings = 0, processes = 0, of_one = 0;
  const struct by_meeting_point *meeting;
  const struct process *p;
  LIST_FOREACH(meeting, &m->meetings, entry) {
    meetings++;
    TAILQ_FOREACH(p, &meeting->processes, entry) {
      processes++;
      of_one += p->peer == peer;
    }
  }
  if (meetings < MEETINGS && processes < PROCESSES && of_one < OF_ONE) return BANYAN_OK;
  return by_fail(BANYAN_ERR_UNSUPPORTED, "%u processes of %u jobs meet through this manager, %u of them on \"%.64s\"",
                 processes, meetings, of_one, peer->host);
}

static enum banyan_status add_process(struct by_manager *m, const struct by_manager_peer *peer,
                                      const struct by_cluster_message *meet, struct by_meeting_point **in,
                                      struct process **out) {
  BY_TRY(check_limits(m, peer));
  struct process *process = calloc(1, sizeof *process + strlen(meet->handle) + 1);
  if (process && !*in) {
    *in = calloc(1, sizeof **in);
    if (*in) {
      memcpy((*in)->job, meet->job, sizeof(*in)->job);
      TAILQ_INIT(&(*in)->processes);
      LIST_INSERT_HEAD(&m->meetings, *in, entry);
    }
  }
  if (!process || !*in) {
    free(process);
    return by_manager_no_memory();
  }
  strcpy(process->handle, meet->handle);
  TAILQ_INSERT_TAIL(&(*in)->processes, process, entry);
  *out = process;
  return BANYAN_OK;
}

/* ---- lists */

/* Sends a list. number 0: to all processes in it. */
static void send_list(const struct by_manager *m, const struct by_meeting_point *meeting,
                      const struct by_manager_peer *peer, uint64_t number, uint32_t attempt, const char *const *handles,
                      uint32_t n) {
  struct by_cluster_message list = {.type = BY_MESSAGE_MEMBERS,
                                    .job = meeting->job,
                                    .number = number,
                                    .attempt = attempt,
                                    .n_handles = n,
                                    .handles = handles};
  by_manager_send(m, peer, &list);
}

/* Tells whether a process is the first of its agent that forms the first membership: the agent gets one list for all,
 * as a long list for each would exceed the limits of its connection. */
static bool is_first_there(const struct by_meeting_point *meeting, const struct process *process) {
  const struct process *p = TAILQ_FIRST(&meeting->processes);
  while (p->state != FORMING || p->peer != process->peer) p = TAILQ_NEXT(p, entry);
  return p == process;
}

/* All waiting processes form the first membership once they are enough. The number of an attempt is higher than those
 * of earlier ones, including those of an earlier manager process. */
static void form_first(const struct by_manager *m, struct by_meeting_point *meeting) {
  const char *handles[BY_CLUSTER_FOUNDERS];
  struct process *p;
  uint32_t n = 0;
  TAILQ_FOREACH(p, &meeting->processes, entry) {
    if (p->state != WAITING || !p->peer || n == BY_CLUSTER_FOUNDERS) continue;
    p->state = FORMING;
    handles[n++] = p->handle;
  }
  meeting->attempt = MAX(meeting->attempt + 1, (uint32_t)m->now);
  TAILQ_FOREACH(p, &meeting->processes, entry) {
    if (p->state == FORMING && is_first_there(meeting, p))
      send_list(m, meeting, p->peer, 0, meeting->attempt, handles, n);
  }
  by_info("manager", "%u processes of job %.12s form the first membership", n, meeting->job);
}

static void introduce_to_members(const struct by_manager *m, const struct by_meeting_point *meeting,
                                 struct process *newcomer) {
  const char *handles[INTRODUCED];
  const struct process *p;
  uint32_t n = 0;
  TAILQ_FOREACH(p, &meeting->processes, entry) {
    if (p->state == MEMBER && n < INTRODUCED) handles[n++] = p->handle;
  }
  newcomer->state = JOINING;
  send_list(m, meeting, newcomer->peer, newcomer->number, 0, handles, n);
}

/* Advances processes that wait. If no member is left, new ones form a first membership again. */
static void advance_meeting(const struct by_manager *m, struct by_meeting_point *meeting) {
  struct process *p;
  if (meeting->formed && !count_processes(meeting, FORMING, MEMBER)) meeting->formed = false;
  if (!meeting->formed) {
    bool begins = m->now < m->began + repeats * m->options.interval; /* Members may not be repeated yet. */
    uint32_t waiting = 0;
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
    TAILQ_FOREACH(p, &meeting->processes, entry) waiting += p->state == WAITING && p->peer;
    if (waiting >= MAX(meeting->founders, 1) && !count_processes(meeting, FORMING, FORMING) && !begins)
      form_first(m, meeting);
    return;
  }
  if (!count_processes(meeting, MEMBER, MEMBER)) return;
  TAILQ_FOREACH(p, &meeting->processes, entry) {
    if (p->state == WAITING && p->peer) introduce_to_members(m, meeting, p);
  }
}

/* ---- messages of agents */

enum banyan_status by_meetings_take(struct by_manager *m, struct by_manager_peer *peer,
                                    const struct by_cluster_message *meet) {
  struct by_meeting_point *meeting = find_meeting(m, meet->job);
  if (peer->index == BY_NOWHERE) return by_fail(BANYAN_ERR_PROTOCOL, "only agents introduce processes");
  struct process *process = meeting ? find_process(meeting, peer, meet->number) : NULL;
  if (!process && meeting) process = find_handle(meeting, peer, meet->handle);
  if (!process) BY_TRY(add_process(m, peer, meet, &meeting, &process));
  if (strcmp(process->handle, meet->handle) != 0)
    return by_fail(BANYAN_ERR_PROTOCOL, "a process of job %.32s has another handle than before", meet->job);
  process->peer = peer;
  process->number = meet->number;
  process->state = meet->member ? MEMBER : WAITING;
  meeting->founders = meet->count;
  meeting->formed |= meet->member;
  advance_meeting(m, meeting);
  return BANYAN_OK;
}

void by_meetings_part(struct by_manager *m, const struct by_manager_peer *peer,
                      const struct by_cluster_message *parted) {
  struct by_meeting_point *meeting = find_meeting(m, parted->job);
  struct process *process = meeting ? find_process(meeting, peer, parted->number) : NULL;
  if (!process) return;
  drop_process(meeting, process);
  advance_meeting(m, meeting);
  drop_if_empty(meeting);
}

void by_meetings_forget_peer(struct by_manager *m, const struct by_manager_peer *peer) {
  struct by_meeting_point *meeting;
  struct process *p;
  LIST_FOREACH(meeting, &m->meetings, entry) {
    TAILQ_FOREACH(p, &meeting->processes, entry) {
      if (p->peer != peer) continue;
      p->peer = NULL;
      p->gone = m->now;
    }
  }
}

void by_meetings_tick(struct by_manager *m) {
  for (struct by_meeting_point *meeting = LIST_FIRST(&m->meetings), *next; meeting; meeting = next) {
    next = LIST_NEXT(meeting, entry);
    for (struct process *p = TAILQ_FIRST(&meeting->processes), *after; p; p = after) {
      after = TAILQ_NEXT(p, entry);
      if (!p->peer && m->now >= p->gone + reconnect_time) drop_process(meeting, p);
    }
    advance_meeting(m, meeting);
    drop_if_empty(meeting);
  }
}

void by_meetings_free_all(struct by_manager *m) {
  for (struct by_meeting_point *meeting; (meeting = LIST_FIRST(&m->meetings));) {
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
    for (struct process *p; (p = TAILQ_FIRST(&meeting->processes));) drop_process(meeting, p);
    drop_if_empty(meeting);
  }
}

static const double kept_for = 30; /* Intervals in which a job can start on a host that it was offered. */

/* Its agent has reported everything, and no job that the manager does not know. */
static bool is_unused(const struct by_manager *m, const struct by_manager_host *host) {
  return host->agent && host->agent->state == BY_PEER_REPORTED && host->node != BY_NOWHERE &&
         m->topology->nodes[host->node].kind == BY_NODE_HOST && !host->n_unknown && m->now >= host->offered_until;
}

enum banyan_status by_manager_offer(struct by_manager *m, struct by_manager_peer *peer,
                                    const struct by_cluster_message *wanted) {
  const char *names[BY_CLUSTER_OFFER];
  struct by_cluster_message offer = {.type = BY_MESSAGE_OFFERED, .number = wanted->number, .hosts = names};
  if (peer->index == BY_NOWHERE) return by_fail(BANYAN_ERR_PROTOCOL, "only agents may request hosts for jobs");
  uint8_t *uses = by_jobs_find_uses(m, NULL);
  if (!uses) return by_manager_no_memory();
  for (uint32_t i = 0; i < m->hosts->n && offer.n_hosts < wanted->count; i++) {
    struct by_manager_host *host = &m->hosts->all[i];
    if (!is_unused(m, host) || uses[host->node] & BY_NODE_HAS_RANKS) continue;
    host->offered_until = m->now + kept_for * m->options.interval;
    names[offer.n_hosts++] = host->name;
  }
  free(uses);
  by_manager_send(m, peer, &offer);
  return BANYAN_OK;
}
