/* What this rank's connections show of the network: how much they carried recently, and how fast while the network was
 * their limit. The kernel counts it; here it is only read. On the loop's thread. */
#ifndef BY_ADAPTATION_PATH_WATCH_H
#define BY_ADAPTATION_PATH_WATCH_H

#include "cluster_message.h"
#include "engine.h"
#include "job_access.h"

enum { BY_PATH_GLANCES = 4 /* Glances for each look. */, BY_PATH_LOOKS = 4 /* Usual looks in each interval. */ };

/* The counters of the connections to each peer, by its number, at one time. */
struct by_path_look {
  uint64_t at;
  uint32_t n, capacity;
  struct by_path_seen {
    uint32_t process;
    struct by_meter meter;
    double rate;                    /* Bytes/s when the link was last found full. */
    uint32_t full, loaded, glances; /* Counts: found full; found with much in flight; looked at. */
  } * seen;
};

/* What the connections to a host did recently. */
struct by_path_usual {
  const char *to;
  uint64_t at; /* When it was last looked at. */
  struct by_path_recent bandwidth, sent;
};

/* The paths to other hosts, one for each. */
struct by_path_list {
  uint32_t n;
  struct by_cluster_path paths[BY_CLUSTER_PATHS];
  uint32_t processes[BY_CLUSTER_PATHS]; /* A process on that host. */
};

struct by_path_watch {
  struct by_job *job;
  struct by_path_look first_look, last_look; /* The counters at the last report, and at the last look for changes. */
  struct by_path_look glance, spare;         /* The counters at the last glance; memory for the next one. */
  uint32_t glances;                          /* Glances since the last look. */
  struct by_path_list list;                  /* The paths to report. */
  struct by_path_usual usual[BY_CLUSTER_PATHS];
  uint32_t n_usual;
  uint32_t news; /* Reports that still follow soon, after a path has changed much. */
};

void by_path_watch_init(struct by_path_watch *watch, struct by_job *job);
void by_path_watch_fini(struct by_path_watch *watch);
/* Counts what has passed so far; BY_PATH_GLANCES times for each look at what has become of it. Takes the job's lock. */
void by_path_watch_glance(struct by_path_watch *watch);
/* After a glance. True where a path is so much faster or slower that it is to be reported at once; `list` then
 * describes the paths since the last look. */
bool by_path_watch_look(struct by_path_watch *watch);
/* Lists the paths since the last report, in `list`. */
void by_path_watch_take(struct by_path_watch *watch);

#endif
