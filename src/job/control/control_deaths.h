/* Deaths: how the job fails, on all ranks with the same reason, and how it loses helpers without failing. A process
 * whose lane ended is suspected until it is known why: one that left has notified rank 0, a dead one has not. On the
 * loop's thread unless said otherwise. */
#ifndef BY_JOB_CONTROL_CONTROL_DEATHS_H
#define BY_JOB_CONTROL_CONTROL_DEATHS_H

#include <sys/queue.h>

#include "control_peers.h"
#include "timeline.h"

struct by_death_events {
  /* Rank 0: this helper or server is lost, which all others have been sent. */
  void (*lost)(void *context, uint32_t process, const char *reason);
  /* The job has failed. */
  void (*failed)(void *context);
  void *context;
};

struct by_deaths {
  struct by_control_peers *peers;
  struct by_timeline *timeline;
  struct by_death_events events;
  enum banyan_status status; /* Of the job's failure; BANYAN_OK: it has not failed. */
  uint32_t process;          /* The process whose fault the failure is. */
  char text[TEXT_MOST];      /* The reason of the failure. */
  bool spread;               /* The reason was sent to all others. */
  bool settled;              /* All processes have the same reason. */
  struct by_timer delivery;  /* Rank 0: ends the wait until all have the reason. */
  uint64_t delivered_by;
  STAILQ_HEAD(, suspicion) suspicions; /* Oldest first: the grace timer is for the first one. */
  struct by_timer grace;
};

void by_deaths_init(struct by_deaths *deaths, struct by_control_peers *peers, struct by_timeline *timeline,
                    const struct by_death_events *events);
void by_deaths_fini(struct by_deaths *deaths);

/* Notes that there will be no job; the first reason counts. */
void by_deaths_give_up(struct by_deaths *deaths, enum banyan_status status, const char *text);
/* Reports that this process's engine has failed. Rank 0 sends the reason to all others; others send it to rank 0, which
 * answers with the first reason that it has. */
void by_deaths_report(struct by_deaths *deaths, enum banyan_status status, uint32_t process, const char *text);
/* Fails the job, here and, from rank 0, everywhere. */
void by_deaths_handle_failure(struct by_deaths *deaths, enum banyan_status status, uint32_t process, const char *text);
/* Fails the job by a verdict of this rank's own, which is sent to rank 0. */
void by_deaths_fail(struct by_deaths *deaths, enum banyan_status status, uint32_t process, const char *text);
/* Handles the end of the connection to this member. */
void by_deaths_disconnected(struct by_deaths *deaths, uint32_t process, const char *reason);
/* Rank 0: notes that this helper is gone, and sends that to all, once. */
void by_deaths_lose(struct by_deaths *deaths, uint32_t process, const char *text);
/* Rank 0: loses a helper because it does not answer. */
void by_deaths_lose_silent(struct by_deaths *deaths, uint32_t process);
/* Suspects a process, as a lane to it ended here or, at rank 0, elsewhere. */
void by_deaths_suspect(struct by_deaths *deaths, uint32_t process, const char *text);
/* Handles FAILED and SUSPECT. */
void by_deaths_handle(struct by_deaths *deaths, const struct by_control_peer *peer, uint16_t type,
                      const struct by_text_message *message);
/* Any thread: see by_control_suspect. */
bool by_deaths_post_suspicion(struct by_deaths *deaths, uint32_t process, const char *text);

#endif
