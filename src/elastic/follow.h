/* The way of a helper, or of a server, from one membership to the next. Rank 0 of the one that it is in notifies it of
 * where the next one meets; where rank 0 has died, it asks at the ports of all the others, of which one will be rank 0.
 * It comes beside the membership that it is in, which goes on unharmed if the next one is not formed. */
#ifndef BY_ELASTIC_FOLLOW_H
#define BY_ELASTIC_FOLLOW_H

#include "job_life.h"

struct by_follower;

/* Seconds for which a helper whose membership is over looks for the next one. */
enum { BY_FOLLOW_S = 15 };

/* What a server joins with each time: called on the thread that looks. *out has to call by_follower_announce when it is
 * notified of the next membership. False: out of memory. */
typedef bool by_follower_begin(void *context, struct by_job_role *out);

/* The options must outlive it. The identity is that of the process, held. `begin` NULL: it is a helper. NULL: out of
 * memory. */
struct by_follower *by_follower_create(const struct banyan_options *options, struct by_process_identity *identity,
                                       by_follower_begin *begin, void *context);
/* Waits until no attempt to join is under way, for BY_FOLLOW_S at most. NULL is allowed. */
void by_follower_destroy(struct by_follower *follower);
/* Where the options and the environment have no root, but BANYAN_MEMBERS handles of members: where these meet, as the
 * options' root, which lives as long as no attempt is made. BANYAN_ERR_ARGUMENT: a handle is wrong. */
BANYAN_CHECK enum banyan_status by_follower_find_members(struct by_follower *follower, struct banyan_options *options);
/* What a helper's context is made with. */
struct by_job_role by_follower_role(struct by_follower *follower);
/* Any thread: the next membership meets at this root, and is joined with this ticket. */
void by_follower_announce(struct by_follower *follower, const char *root, const char *ticket);
/* Whether by_follower_look has something to do though the membership goes on. Any lock may be held. */
bool by_follower_has_news(struct by_follower *follower);
/* Looks whether something is to be done; often, without locks. `context`: the membership that this helper is in, which
 * is over or not. */
void by_follower_look(struct by_follower *follower, struct by_job *job, bool over);
/* Whether an attempt to join is under way, or has succeeded and was not taken. */
bool by_follower_joins(const struct by_follower *follower);
/* The next membership, once it is joined, which is the caller's; NULL: not yet. */
struct by_job *by_follower_take(struct by_follower *follower);
/* Whether a membership that is over may be followed by another one. */
bool by_follower_hopes(const struct by_follower *follower);

#endif
