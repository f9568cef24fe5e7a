/* A process's connection to the `banyan run` that started it, through the local socket of its host: it registers its
 * handle, learns with whom it forms the first membership or whom it asks to join, and is notified of processes that
 * have ended and of the wish that it leaves.
 *
 * BANYAN_LAUNCHER names the socket, the process and how often that was started before: "NAME:PROCESS:STARTS". A thread
 * reads; other functions may be called by any thread. The launcher outlives its processes, so there is no second
 * connection. */
#ifndef BY_ELASTIC_DIRECTORY_CLIENT_H
#define BY_ELASTIC_DIRECTORY_CLIENT_H

#include "directory_message.h"

struct by_directory;

/* Called on the directory's thread; they must not destroy the directory. */
struct by_directory_events {
  void *context;
  void (*died)(void *context, const char *handle); /* The kernel has reported the end of this process. */
  void (*leave)(void *context, const char *why);
};

struct by_directory_list {
  /* True if these processes form the first membership in this order; false if they are members to ask to join. */
  bool first;
  uint32_t attempt; /* Number of the attempt to form the first membership. */
  uint32_t n;
  char **handles; /* Freed by by_directory_list_fini. */
};

/* Returns the address at which `banyan run` registers this process; NULL if it was not started as a member of an
 * elastic group. */
const char *by_directory_place(void);
/* Connects and registers. Returns BANYAN_ERR_CONNECT if nobody listens at `place`, or another user does. */
BANYAN_CHECK enum banyan_status by_directory_create(const char *place, const char *handle,
                                                    const struct by_directory_events *events,
                                                    struct by_directory **out);
/* Closes the connection, after which no event is reported. NULL is allowed. */
void by_directory_destroy(struct by_directory *directory);

/* Blocks until a new list has arrived, for at most `timeout` seconds. Returns BANYAN_ERR_TIMEOUT after that,
 * BANYAN_ERR_ARGUMENT if the launcher has refused this process, BANYAN_ERR_CLOSED if it asks the process to leave, and
 * BANYAN_ERR_PEER_DEAD if the launcher has ended. */
BANYAN_CHECK enum banyan_status by_directory_wait(struct by_directory *directory, double timeout,
                                                  struct by_directory_list *out);
void by_directory_list_fini(struct by_directory_list *list);

/* Reports that this process is rank `rank` of `size` in the membership with this name. Errors are only logged. */
void by_directory_report_member(struct by_directory *directory, const char *name, uint32_t rank, uint32_t size);
/* Reports that this process leaves voluntarily. Errors are only logged. */
void by_directory_report_leaving(struct by_directory *directory);
/* Reports that the first membership could not be formed; the launcher sends another list. Errors are only logged. */
void by_directory_report_failure(struct by_directory *directory, uint32_t attempt, const char *reason);

/* ---- agent_meeting.c: a process's connection to the agent of its host, through which the processes of a job find each
 * other where no `banyan run` introduces them: the first ones form the first membership, later ones get members to ask.
 * The agent passes it on to the manager, and takes the process for ended when the connection closes. Functions block;
 * one thread at a time, but for by_meeting_client_keep. */

struct by_key;
struct by_meeting_client;

/* `agent` is the path of the agent's socket and `handle` this process's handle; both are borrowed. `key` is the job's
 * key, from which the job's identifier is derived. `founders` is the number of processes that form the first
 * membership. Returns BANYAN_ERR_CONNECT if there is no agent, or BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_meeting_client_create(const char *agent, const struct by_key *key,
                                                         const char *handle, uint32_t founders,
                                                         struct by_meeting_client **out);
/* NULL is allowed. */
void by_meeting_client_destroy(struct by_meeting_client *client);
/* Blocks until a list has arrived, for at most `timeout` seconds. Returns BANYAN_ERR_TIMEOUT after that,
 * BANYAN_ERR_PEER_DEAD if the agent has ended, and BANYAN_ERR_ARGUMENT if it refuses this process. */
BANYAN_CHECK enum banyan_status by_meeting_client_wait(struct by_meeting_client *client, double timeout,
                                                       struct by_directory_list *out);
/* Tells the agent whether this process has become a member; if not, the agent sends another list. Errors are only
 * logged. */
void by_meeting_client_report(struct by_meeting_client *client, bool member);
/* Reconnects a member to an agent that was restarted. Called periodically, on any thread; never blocks. */
void by_meeting_client_keep(void *argument);

#endif
