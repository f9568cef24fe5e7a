/* Inside a rank's connection to an agent or manager: shared by its files only. Everything on the loop's thread.
 *
 *   cluster_link.c       life: connecting, and again when it is lost
 *   cluster_link_say.c   what goes up
 *   cluster_link_paths.c of that, what connections show of the network
 *   cluster_link_hear.c  what comes down
 *   cluster_link_plan.c  of that, plans */
#ifndef BY_COMMUNICATOR_CLUSTER_LINK_PARTS_H
#define BY_COMMUNICATOR_CLUSTER_LINK_PARTS_H

#include "cluster_link.h"
#include "cluster_message.h"
#include "cluster_path.h"
#include "observe.h"
#include "resolve.h"
#include "stream.h"
#include "tls_watch.h"

/* What was counted of the connections to each peer, by its number, at one time. */
struct by_path_look {
  uint64_t at;
  uint32_t n, room;
  struct by_path_seen {
    uint32_t process;
    struct by_meter meter;
    double rate;                    /* bytes a second when it was last found full, */
    uint32_t full, loaded, glances; /* so often as yet; found with much on its way; looked at */
  } * seen;
};

/* What the connections to a host did of late. */
struct by_path_usual {
  const char *to;
  uint64_t at; /* when it was last looked at */
  struct by_path_late bandwidth, sent;
};

struct by_cluster_link {
  struct by_context *context;
  const char *agent;              /* path; NULL: it speaks with the */
  const char *manager;            /* host:port, as this: */
  struct by_tls_watch *keys;      /* for the manager; NULL: none yet */
  struct by_resolving *resolving; /* NULL: its name is not being looked up */
  unsigned tries;                 /* of its addresses, in turn */
  char job[BY_CLUSTER_JOB_ID + 1];
  double began;             /* s since 1970: one that is started again may have the same name */
  struct by_stream *stream; /* NULL: there is no connection */
  bool welcome;             /* the other end has said so */
  bool misnamed;            /* it calls this host otherwise, which was logged */
  bool missed;              /* it is away, which is known; */
  uint64_t missed_at;       /* logged last */
  uint64_t delay;           /* until the next attempt */
  uint64_t refused;         /* until the one after a refusal; 0: there was none */
  uint64_t welcome_at;
  struct by_timer retry; /* or, while there is a connection without a welcome, how long to wait for that */
  struct by_timer report;
  uint64_t interval, reported_at;
  struct by_observed reported; /* last, on this connection, with so many bytes that were sent */
  uint64_t reported_sent, reported_expected;
  char own_plan[BY_CLUSTER_NAME + 1];            /* rank 0: as last sent, see cluster_message.h; "": none */
  struct by_path_look first_look, last_look;     /* when it last reported, and looked whether there is news; */
  struct by_path_look glance, spare;             /* a few times between looks: now, and room for the next one */
  uint32_t glances;                              /* since the last look */
  struct by_cluster_path told[BY_CLUSTER_PATHS]; /* as last reported */
  uint32_t n_told;
  struct by_path_usual usual[BY_CLUSTER_PATHS];
  uint32_t n_usual;
  uint32_t news;                         /* a path had changed much: so many more reports follow soon */
  uint64_t number, at;                   /* of the manager's plan that the job moved to last; 0: it did to none; */
  uint32_t move;                         /* that move */
  struct by_cluster_proposal *proposals; /* that are not decided on */
  char *wish;                            /* for cells of switches, as it is said; NULL: none */
};

/* cluster_link.c: the other end knows this rank. */
void by_cluster_link_welcomed(struct by_cluster_link *link);
/* The connection is of no use, or there is none; tries again later. */
void by_cluster_link_lose(struct by_cluster_link *link, const char *why);
/* It refuses this rank, or cannot be understood: not before the longest delay, and later each time. */
void by_cluster_link_lose_for_long(struct by_cluster_link *link, const char *why);

/* cluster_link_say.c: who this is, and, from rank 0, all about the job. */
void by_cluster_link_introduce(struct by_cluster_link *link);
void by_cluster_link_say_wish(struct by_cluster_link *link);
void by_cluster_link_report(void *argument);
/* cluster_link_paths.c: counts what passes; a few times for each look at what has become of it. */
void by_cluster_link_glance_at_paths(struct by_cluster_link *link);
/* After a glance. True where a path is so much faster or slower that it is to be said at once; `told` then says it. */
bool by_cluster_link_look_at_paths(struct by_cluster_link *link);
/* What they were like since the last report, to `told`. */
void by_cluster_link_take_paths(struct by_cluster_link *link);
void by_cluster_link_forget_paths(struct by_cluster_link *link);
void by_cluster_link_say_moved(struct by_cluster_link *link);
void by_cluster_link_say(struct by_cluster_link *link, const struct by_cluster_message *message);

/* cluster_link_plan.c: the name of the plan that the user set, "": none. */
void by_cluster_link_find_own_plan(const struct by_cluster_link *link, char out[BY_CLUSTER_NAME + 1]);
/* Proposes it to the ranks, and tells what becomes of it. */
void by_cluster_link_take_plan(struct by_cluster_link *link, const struct by_cluster_message *message);
/* Whether the job still runs it: another one may have been proposed, or set, by hand. */
bool by_cluster_link_runs_plan(const struct by_cluster_link *link);
void by_cluster_link_forget_plans(struct by_cluster_link *link);

/* cluster_link_hear.c: one line. */
void by_cluster_link_heard(struct by_cluster_link *link, const char *line, size_t length);

#endif
