/* A process's connection to the agent of its host, through which the processes of a job find each other where no
 * `banyan run` introduces them: the first ones form the first membership, later ones get members to ask. The agent
 * passes it on to the manager, and takes the process for ended when the connection closes. Functions block; one thread
 * at a time, but for by_meeting_client_keep. */
#ifndef BY_ELASTIC_AGENT_MEETING_H
#define BY_ELASTIC_AGENT_MEETING_H

#include "directory_client.h"

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
