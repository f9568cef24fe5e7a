/* A rank's connection to the agent of its host, or rank 0's to a manager where there is no agent: it reports what the
 * job is like, and receives its class and its plans. Nothing of the job waits for it or fails with it: while it is
 * away, the job goes on with what it has, and everything is reported again when it is back. Shared by its two files;
 * everything is on the loop's thread.
 *
 *   agent_client.c   connects, again when the connection is lost, and receives
 *   agent_reports.c  sends */
#ifndef BY_CLUSTER_AGENT_CLIENT_H
#define BY_CLUSTER_AGENT_CLIENT_H

#include <sys/queue.h>

#include "address.h"
#include "cluster_message.h"
#include "job_life.h"
#include "observe.h"
#include "path_watch.h"
#include "stream.h"
#include "tls_identity.h"

struct by_agent_client {
  struct by_job *job;
  struct by_observation *observed; /* The job's; under its lock. */
  const char *agent;               /* Path of the agent's socket; NULL: the connection is to a manager. */
  const char *manager;             /* The manager's host:port; NULL: the connection is to an agent. */
  struct by_tls_watch *keys;       /* Keys for the manager; NULL: none yet. */
  struct by_resolving *resolving;  /* The lookup of the manager's name; NULL: none is in progress. */
  unsigned tries;                  /* Attempts so far, which take the manager's addresses in turn. */
  char id[BY_CLUSTER_JOB_ID + 1];  /* The job's name in the cluster. */
  double began;                    /* Seconds since 1970: tells jobs of the same name apart. */
  struct by_stream *stream;        /* NULL: there is no connection. */
  bool welcome;                    /* The agent or manager has sent its welcome. */
  bool misnamed;                   /* The agent knows this host by another name, which was logged. */
  bool missed;                     /* The agent or manager is known to be away. */
  uint64_t missed_at;              /* When its absence was logged last. */
  uint64_t delay;                  /* Time until the next attempt. */
  uint64_t refused;                /* Time until the attempt after a refusal; 0: there was no refusal. */
  uint64_t welcome_at;
  struct by_timer retry; /* The next attempt; while a connection waits for a welcome, the limit of that wait. */
  struct by_timer report;
  uint64_t interval, reported_at;
  struct by_observed reported; /* The last report on this connection; the next two are the bytes by then. */
  uint64_t reported_sent, reported_expected;
  char own_plan[BY_CLUSTER_NAME + 1]; /* Rank 0: the user's plan as last sent, see cluster_message.h; "": none. */
  uint32_t own_version;               /* Version of that plan; 0: there was none, or no communicator. */
  struct by_path_watch paths;
  uint64_t number, at;  /* Number of the manager's plan that the job switched to last, and its first call; 0: none. */
  uint32_t plan_switch; /* The number of that plan switch. */
  uint64_t released;    /* The last of the manager's plans whose cells have been given back; 0: none. */
  LIST_HEAD(, by_cluster_proposal) proposals; /* Proposals that are not decided on. */
  char *reservation;                          /* The request for cells of switches, as it is sent; NULL: none. */
};

/* agent_reports.c: sends who this process is, and, from rank 0, everything about the job. */
void by_agent_client_introduce(struct by_agent_client *link);
void by_agent_client_send_reservation(struct by_agent_client *link);
/* Rank 0: reports what its trees request at switches, or have; now and on each new connection, in place of the report
 * before. */
void by_agent_client_reserve(struct by_agent_client *link, const struct by_cluster_cells *cells, uint32_t n);
void by_agent_client_report(void *argument);
void by_agent_client_send_switched(struct by_agent_client *link);
void by_agent_client_send_released(struct by_agent_client *link);
void by_agent_client_send(struct by_agent_client *link, const struct by_cluster_message *message);

/* agent_client.c: writes the name of the plan that the user set, "": none; returns its version, 0: unknown. */
uint32_t by_agent_client_find_own_plan(const struct by_agent_client *link, char out[BY_CLUSTER_NAME + 1]);
/* Returns whether the job still runs the manager's plan: another one may have been proposed, or set by hand. */
bool by_agent_client_runs_plan(const struct by_agent_client *link);

#endif
