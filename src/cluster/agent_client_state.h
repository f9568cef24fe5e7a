/* Inside a rank's connection to an agent or manager: shared by its files only. Everything on the loop's thread.
 *
 *   agent_client.c   life: connecting, and again when it is lost; what comes down
 *   agent_reports.c  what goes up */
#ifndef BY_CLUSTER_AGENT_CLIENT_STATE_H
#define BY_CLUSTER_AGENT_CLIENT_STATE_H

#include <sys/queue.h>

#include "address.h"
#include "agent_client.h"
#include "cluster_message.h"
#include "observe.h"
#include "path_watch.h"
#include "stream.h"
#include "tls_identity.h"

struct by_agent_client {
  struct by_context *context;
  struct by_job *job;              /* The context's. */
  struct by_observation *observed; /* The context's; under the job's lock. */
  const char *agent;               /* path; NULL: it is connected to the */
  const char *manager;             /* host:port, as this: */
  struct by_tls_watch *keys;       /* for the manager; NULL: none yet */
  struct by_resolving *resolving;  /* NULL: its name is not being looked up */
  unsigned tries;                  /* of its addresses, in turn */
  char id[BY_CLUSTER_JOB_ID + 1];  /* of the job, for the cluster */
  double began;                    /* s since 1970: one that is started again may have the same name */
  struct by_stream *stream;        /* NULL: there is no connection */
  bool welcome;                    /* the other end has sent it */
  bool misnamed;                   /* it calls this host otherwise, which was logged */
  bool missed;                     /* it is away, which is known; */
  uint64_t missed_at;              /* logged last */
  uint64_t delay;                  /* until the next attempt */
  uint64_t refused;                /* until the one after a refusal; 0: there was none */
  uint64_t welcome_at;
  struct by_timer retry; /* or, while there is a connection without a welcome, how long to wait for that */
  struct by_timer report;
  uint64_t interval, reported_at;
  struct by_observed reported; /* last, on this connection, with so many bytes that were sent */
  uint64_t reported_sent, reported_expected;
  char own_plan[BY_CLUSTER_NAME + 1]; /* rank 0: as last sent, see cluster_message.h; "": none */
  uint32_t own_version;               /* of that plan; 0: there was none, or no communicator */
  struct by_path_watch paths;
  uint64_t number, at;  /* of the manager's plan that the job switched to last; 0: it did to none; */
  uint32_t plan_switch; /* that plan switch */
  uint64_t released;    /* the manager's plan whose cells have been given back last; 0: none */
  LIST_HEAD(, by_cluster_proposal) proposals; /* that are not decided on */
  char *reservation;                          /* for cells of switches, as it is sent; NULL: none */
};

/* agent_reports.c: who this is, and, from rank 0, all about the job. */
void by_agent_client_introduce(struct by_agent_client *link);
void by_agent_client_send_reservation(struct by_agent_client *link);
void by_agent_client_report(void *argument);
void by_agent_client_send_switched(struct by_agent_client *link);
void by_agent_client_send_released(struct by_agent_client *link);
void by_agent_client_send(struct by_agent_client *link, const struct by_cluster_message *message);

/* agent_client.c: the name of the plan that the user set, "": none; and its version, 0: not known. */
uint32_t by_agent_client_find_own_plan(const struct by_agent_client *link, char out[BY_CLUSTER_NAME + 1]);
/* Whether the job still runs the manager's plan: another one may have been proposed, or set, by hand. */
bool by_agent_client_runs_plan(const struct by_agent_client *link);

#endif
