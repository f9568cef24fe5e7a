/* A process's connection to the agent of its host, through which the processes of a job find each other where no
 * `banyan run` introduces them: the first ones form the first membership, later ones get members to ask. The agent
 * passes it on to the manager, and takes the process for ended when the connection closes. Functions block; one thread
 * at a time, but for by_meeting_client_keep. */
#ifndef BY_ELASTIC_AGENT_MEETING_H
#define BY_ELASTIC_AGENT_MEETING_H

#include "directory_client.h"

struct by_key;
struct by_meeting_client;

/* `agent`: the path of its socket; borrowed. `key`: that of what belongs to the job, which names it. `founders`: how
 * many form the first membership. BANYAN_ERR_CONNECT: there is no agent; BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_meeting_client_create(const char *agent, const struct by_key *key,
                                                         const char *handle, uint32_t founders,
                                                         struct by_meeting_client **out);
/* NULL is allowed. */
void by_meeting_client_destroy(struct by_meeting_client *client);
/* Blocks until a list has come, for at most `timeout` seconds. BANYAN_ERR_TIMEOUT; BANYAN_ERR_PEER_DEAD: the agent has
 * ended; BANYAN_ERR_ARGUMENT: it refuses this process. */
BANYAN_CHECK enum banyan_status by_meeting_client_wait(struct by_meeting_client *client, double timeout,
                                                       struct by_directory_list *out);
/* This process is a member, or has failed to become one and gets another list. Errors are only logged. */
void by_meeting_client_report(struct by_meeting_client *client, bool member);
/* Connects a member again to an agent that was started again. To be called now and then, on any thread; never blocks.
 */
void by_meeting_client_keep(void *argument);

#endif
