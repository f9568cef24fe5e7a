/* The way of a helper, or of a server, from one membership to the next. Rank 0 of the one that it is in notifies it of
 * where the next one meets; where rank 0 has died, it asks at the ports of all the others, of which one will be rank 0.
 * It comes beside the membership that it is in, which goes on unharmed if the next one is not formed. */
#ifndef BY_ELASTIC_FOLLOW_H
#define BY_ELASTIC_FOLLOW_H

#include "job_life.h"

struct by_follower;

/* Seconds for which a helper whose membership has ended looks for the next one. */
enum { BY_FOLLOW_S = 15 };

/* Fills in the role with which a server joins the next membership; called on the thread that calls by_follower_look.
 * *out must call by_follower_announce when it is notified of the next membership. Returns false if memory is exhausted.
 */
typedef bool by_follower_begin(void *context, struct by_job_role *out);

/* `options` must outlive the follower. `identity` is that of the process; it is held. `begin` is NULL for a helper.
 * Returns NULL if memory is exhausted. */
struct by_follower *by_follower_create(const struct banyan_options *options, struct by_process_identity *identity,
                                       by_follower_begin *begin, void *context);
/* Waits until no attempt to join is under way, for BY_FOLLOW_S at most. NULL is allowed. */
void by_follower_destroy(struct by_follower *follower);
/* If neither the options nor the environment set a root, but BANYAN_MEMBERS lists handles of members, sets the options'
 * root to the addresses at which these members meet. The text is valid until the first attempt to join. Returns
 * BANYAN_ERR_ARGUMENT if a handle is invalid. */
BANYAN_CHECK enum banyan_status by_follower_find_members(struct by_follower *follower, struct banyan_options *options);
/* The role with which a helper's job is created. */
struct by_job_role by_follower_role(struct by_follower *follower);
/* Announces that the next membership meets at `root` and is joined with `ticket`. May be called by any thread. */
void by_follower_announce(struct by_follower *follower, const char *root, const char *ticket);
/* Whether by_follower_look has work although the membership continues. Any lock may be held. */
bool by_follower_has_news(struct by_follower *follower);
/* Starts or finishes attempts to join. Called often, without locks. `job` is the current membership; `over` says
 * whether it has ended. */
void by_follower_look(struct by_follower *follower, struct by_job *job, bool over);
/* Whether an attempt to join is in progress, or has succeeded and its result was not taken. */
bool by_follower_joins(const struct by_follower *follower);
/* Returns the next membership once it is joined, owned by the caller; NULL until then. */
struct by_job *by_follower_take(struct by_follower *follower);
/* Whether a membership that is over may be followed by another one. */
bool by_follower_hopes(const struct by_follower *follower);

#endif
