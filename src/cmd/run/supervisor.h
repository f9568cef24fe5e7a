/* The processes of a job that may come and go: which are started again, who forms the first membership and who asks to
 * join it, who is notified of a death, and when the job is over. It knows neither hosts nor pipes; time is handed in.
 *
 *   running --registers--> registered --list--> forming --reports--> member
 *      |                        any of them: ends
 *      +<-- waiting <-- died, restarts left --+-- finished (exit code 0), left (on request), gone
 *
 * One thread. */
#ifndef BY_CMD_RUN_SUPERVISOR_H
#define BY_CMD_RUN_SUPERVISOR_H

#include "directory_message.h"

struct by_supervisor;

struct by_supervisor_options {
  const char *title;    /* of messages; borrowed */
  int least;            /* processes; with fewer the job ends after `min_timeout` */
  int restarts;         /* in all */
  uint64_t min_timeout; /* ns */
  uint64_t formation;   /* ns: how long the first membership waits for processes that do not register */
  bool may_grow;        /* hosts may be added */
};

struct by_supervisor_events {
  void *context;
  void (*start)(void *context, int process, int starts);                                /* it again, on its host */
  void (*send)(void *context, int process, const struct by_directory_message *message); /* process -1: to all */
  void (*print)(void *context, const char *line);
  void (*end)(void *context, int exit_code); /* what is left of the job is to be ended; once */
};

struct by_supervisor *by_supervisor_create(const struct by_supervisor_options *options,
                                           const struct by_supervisor_events *events, uint64_t now);
void by_supervisor_destroy(struct by_supervisor *s); /* NULL is allowed */

/* A process is being started; processes are numbered 0, 1, ... The host's name is copied. */
void by_supervisor_add(struct by_supervisor *s, const char *host, uint64_t now);
/* Its end was reported by its parent: the status of wait(). */
void by_supervisor_ended(struct by_supervisor *s, int process, int status, uint64_t now);
/* Its host cannot be reached any more, so nobody knows whether it lives. */
void by_supervisor_lost(struct by_supervisor *s, int process, uint64_t now);
/* What it has sent. A REGISTER whose handle is wrong is not for this, but for by_supervisor_refuse. */
void by_supervisor_received(struct by_supervisor *s, int process, const struct by_directory_message *message,
                            uint64_t now);
void by_supervisor_refuse(struct by_supervisor *s, int process, const char *why);
/* Asks it to leave, unless it was asked before; false then, and if it has ended. */
bool by_supervisor_leave(struct by_supervisor *s, int process, const char *why);
/* Does what is due. To be called again at by_supervisor_next. */
void by_supervisor_tick(struct by_supervisor *s, uint64_t now);
uint64_t by_supervisor_next(const struct by_supervisor *s); /* UINT64_MAX: never */

int by_supervisor_count(const struct by_supervisor *s);
/* The name of its host; valid as long as the supervisor. */
const char *by_supervisor_host(const struct by_supervisor *s, int process);
/* Processes that live, or will be started again. */
int by_supervisor_active(const struct by_supervisor *s);
/* Whether it lives, or will be started again. */
bool by_supervisor_may_run(const struct by_supervisor *s, int process);
/* Whether the process occupies its slot: not where it has left, is asked to, or is on a host that was lost. */
bool by_supervisor_holds(const struct by_supervisor *s, int process);
/* Whether it has left, or leaves, by its own wish: then no other one takes its place on its host. */
bool by_supervisor_withdrew(const struct by_supervisor *s, int process);
/* Whether more processes are of use: none has finished, and nothing has ended the job. */
bool by_supervisor_goes_on(const struct by_supervisor *s);
/* Whether the job is not over, though perhaps no process lives. */
bool by_supervisor_waits(const struct by_supervisor *s);

enum { BY_EXIT_LEFT = 75 /* all were asked to leave before any had finished: EX_TEMPFAIL of sysexits.h */ };
/* Once it is over: 0 if a process has finished and none failed after that; else what the last failure gave; else
 * BY_EXIT_LEFT, or 1 if all were lost with their hosts. */
int by_supervisor_exit_code(const struct by_supervisor *s);

#endif
