/* What this rank's connections show of the network: how much they carried of late, and how fast while that was what
 * the network let them carry. The kernel counts it anyhow; here it is only looked at. On the loop's thread. */
#ifndef BY_ADAPTATION_PATH_WATCH_H
#define BY_ADAPTATION_PATH_WATCH_H

#include "cluster_message.h"
#include "engine.h"
#include "job_state.h"

enum { BY_PATH_GLANCES = 4 /* for a look */, BY_PATH_LOOKS = 4 /* in an interval, usually */ };

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
  struct by_path_recent bandwidth, sent;
};

/* A path for each other host. */
struct by_path_list {
  uint32_t n;
  struct by_cluster_path paths[BY_CLUSTER_PATHS];
  uint32_t processes[BY_CLUSTER_PATHS]; /* one that is on that host */
};

struct by_path_watch {
  struct by_job *job;
  struct by_path_look first_look,
      last_look;                     /* at the last report; and when it was last looked whether there is news; */
  struct by_path_look glance, spare; /* a few times between looks: now, and room for the next one */
  uint32_t glances;                  /* since the last look */
  struct by_path_list list;          /* for the report */
  struct by_path_usual usual[BY_CLUSTER_PATHS];
  uint32_t n_usual;
  uint32_t news; /* a path had changed much: so many more reports follow soon */
};

void by_path_watch_init(struct by_path_watch *watch, struct by_job *job);
void by_path_watch_fini(struct by_path_watch *watch);
/* Counts what has passed so far; BY_PATH_GLANCES times for each look at what has become of it. Takes the job's lock. */
void by_path_watch_glance(struct by_path_watch *watch);
/* After a glance. True where a path is so much faster or slower that it is to be reported at once; `list` then
 * describes the paths since the last look. */
bool by_path_watch_look(struct by_path_watch *watch);
/* What they were like since the last report, to `list`. */
void by_path_watch_take(struct by_path_watch *watch);

#endif
