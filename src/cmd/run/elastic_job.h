/* Processes of an elastic job of `banyan run`: adapts the processes to the hosts, which may change, and passes messages
 * between them and the supervisor. It starts nothing itself: the launcher does. One thread. */
#ifndef BY_CMD_RUN_ELASTIC_JOB_H
#define BY_CMD_RUN_ELASTIC_JOB_H

#include <stdint.h>

#include "launch_io.h"

struct by_elastic_options {
  int least, most;        /* Minimum and maximum of concurrent processes. */
  int restarts;           /* Total. */
  double min_timeout;     /* Seconds with fewer than `least` processes before the job is ended. */
  double start;           /* Seconds that the first membership waits for processes. */
  const char *preemption; /* Command that every host runs; NULL: none. */
  const char *hostfile;   /* Checked each second; NULL: none. */
  int offered_slots;      /* Processes on each host that the cluster's manager offers; 0: none are requested. */
  const char *agent;      /* Socket of this host's agent, which requests them. */
  /* Reads the current hosts and their slots. */
  enum banyan_status (*read)(void *context, struct by_launch_hosts *out);
  void *context;
};

enum { BY_EVERY_PROCESS = -1 };

struct by_elastic_events {
  void *context;
  /* Sends a frame about a process to its host; BY_EVERY_PROCESS: to all hosts. */
  void (*send)(void *context, int process, enum by_launch_frame_type type, const void *payload, size_t length);
  /* Starts host->ranks processes, from host->first on. `local` other processes of this host precede them, and all local
   * ranks there are below `local_size`. The host stays valid until by_elastic_destroy. The launcher reports a failure
   * with by_elastic_lost. */
  void (*open)(void *context, const struct by_launch_host *host, int local, int local_size);
  void (*print)(void *context, const char *line);
  void (*end)(void *context, int exit_code); /* Ends the job. */
};

struct by_elastic;

/* `hosts` are placed, and their processes are being started; `key` is the job's. All is borrowed. */
struct by_elastic *by_elastic_create(const char *title, const struct by_elastic_options *options,
                                     const struct by_launch_hosts *hosts, const char *key,
                                     const struct by_elastic_events *events);
void by_elastic_destroy(struct by_elastic *elastic); /* NULL is allowed */

/* A process has ended, as its host reports; its host is lost; it has sent a message. */
void by_elastic_ended(struct by_elastic *elastic, int process, int status);
void by_elastic_lost(struct by_elastic *elastic, int process);
void by_elastic_received(struct by_elastic *elastic, int process, const void *bytes, size_t length);
/* Tells whether any of these processes lives, or may be started again. */
bool by_elastic_needs(const struct by_elastic *elastic, int first, int n);
/* Asks these processes to leave; no others are started in their slots. */
void by_elastic_leave(struct by_elastic *elastic, int first, int n, const char *why);
void by_elastic_leave_all(struct by_elastic *elastic, const char *why);

/* Does what is due or was deferred: starts processes, and checks the host file. Returns when it is to be called again;
 * UINT64_MAX: never. */
uint64_t by_elastic_tick(struct by_elastic *elastic);
/* Tell whether the job goes on, though perhaps no process lives; and its exit code after that. */
bool by_elastic_waits(const struct by_elastic *elastic);
int by_elastic_exit_code(const struct by_elastic *elastic);

/* ---- host_offers.c
 *
 * Hosts that the cluster's manager offers a job that can use more: a connection of `banyan run` to the agent of its
 * host, which forwards requests. It never blocks: while agent or manager are away, no host is offered. One thread. */

struct by_host_offers;

struct by_host_offers_events {
  void *context;
  void (*offered)(void *context, const char *host); /* A host is offered, perhaps again. */
  void (*print)(void *context, const char *line);   /* Prints why there are no offers; a reason is not repeated. */
};

/* `agent`: the path of its socket. */
struct by_host_offers *by_host_offers_create(const char *agent, const struct by_host_offers_events *events);
void by_host_offers_destroy(struct by_host_offers *offers); /* NULL is allowed */
/* Receives offers, and requests `wanted` hosts when that is due; 0: none are wanted. Call it again a second later. */
void by_host_offers_tick(struct by_host_offers *offers, uint32_t wanted, uint64_t now);

#endif
