/* Processes of an elastic job of `banyan run`: adapts the processes to the hosts, which may change, and passes messages
 * between them and the supervisor. It starts nothing itself: the launcher does. One thread. */
#ifndef BY_CMD_RUN_ELASTIC_JOB_H
#define BY_CMD_RUN_ELASTIC_JOB_H

#include <stdint.h>

#include "directory_message.h"
#include "launch_io.h"

struct by_elastic_options {
  int min, max;           /* Minimum and maximum of concurrent processes. */
  int restarts;           /* Total. */
  double min_timeout;     /* Seconds with fewer than `min` processes before the job is ended. */
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

/* ---- supervisor.c
 *
 * The processes of an elastic job: which are started again, who forms the first membership and who asks to join it, who
 * is notified of a death, and when the job is over. It knows neither hosts nor pipes; callers pass the time.
 *
 *   running --registers--> registered --list--> forming --reports--> member
 *      |                        any of them: ends
 *      +<-- waiting <-- died, restarts left --+-- finished (exit code 0), left (on request), gone
 *
 * One thread. */

struct by_supervisor;

struct by_supervisor_options {
  const char *title;    /* Prefix of messages; borrowed. */
  int min;              /* Minimum of processes; with fewer the job ends after `min_timeout`. */
  int restarts;         /* Total. */
  uint64_t min_timeout; /* Nanoseconds. */
  uint64_t formation;   /* Nanoseconds for which the first membership waits for processes that do not register. */
  bool may_grow;        /* Hosts may be added. */
};

struct by_supervisor_events {
  void *context;
  void (*start)(void *context, int process, int starts); /* Starts a process again, on its host. */
  void (*send)(void *context, int process,
               const struct by_directory_message *message); /* Sends a message; process -1: to all. */
  void (*print)(void *context, const char *line);
  void (*end)(void *context, int exit_code); /* Ends the rest of the job; called once. */
};

struct by_supervisor *by_supervisor_create(const struct by_supervisor_options *options,
                                           const struct by_supervisor_events *events, uint64_t now);
void by_supervisor_destroy(struct by_supervisor *s); /* NULL is allowed */

/* Records a process that is being started; processes are numbered 0, 1, ... The host's name is copied. */
void by_supervisor_add(struct by_supervisor *s, const char *host, uint64_t now);
/* Its parent has reported its end: the status of wait(). */
void by_supervisor_ended(struct by_supervisor *s, int process, int status, uint64_t now);
/* Its host has become unreachable, so its state is unknown. */
void by_supervisor_lost(struct by_supervisor *s, int process, uint64_t now);
/* Handles a message of a process. A REGISTER with a wrong handle must go to by_supervisor_refuse instead. */
void by_supervisor_received(struct by_supervisor *s, int process, const struct by_directory_message *message,
                            uint64_t now);
void by_supervisor_refuse(struct by_supervisor *s, int process, const char *why);
/* Asks it to leave, unless it was asked before; returns false in that case, and if it has ended. */
bool by_supervisor_leave(struct by_supervisor *s, int process, const char *why);
/* Does what is due. Call it again at by_supervisor_next. */
void by_supervisor_tick(struct by_supervisor *s, uint64_t now);
uint64_t by_supervisor_next(const struct by_supervisor *s); /* UINT64_MAX: never */

int by_supervisor_count(const struct by_supervisor *s);
/* Returns the name of its host; valid as long as the supervisor. */
const char *by_supervisor_host(const struct by_supervisor *s, int process);
/* Returns the number of processes that live, or will be started again. */
int by_supervisor_active(const struct by_supervisor *s);
/* Tells whether it lives, or will be started again. */
bool by_supervisor_may_run(const struct by_supervisor *s, int process);
/* Tells whether the process occupies its slot: not if it has left, is asked to, or is on a lost host. */
bool by_supervisor_holds(const struct by_supervisor *s, int process);
/* Tells whether it leaves or has left on its own; no other process then gets its slot. */
bool by_supervisor_withdrew(const struct by_supervisor *s, int process);
/* Tells whether more processes are useful: none has finished, and nothing has ended the job. */
bool by_supervisor_goes_on(const struct by_supervisor *s);
/* Tells whether the job is not over, though perhaps no process lives. */
bool by_supervisor_waits(const struct by_supervisor *s);

enum { BY_EXIT_LEFT = 75 /* All were asked to leave before any had finished: EX_TEMPFAIL of sysexits.h. */ };
/* Once it is over: 0 if a process has finished and none failed after that; else the last failure's; else BY_EXIT_LEFT,
 * or 1 if all were lost with their hosts. */
int by_supervisor_exit_code(const struct by_supervisor *s);

#endif
