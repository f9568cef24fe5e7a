/* Tells `banyan run` whether this process takes part in a job, so that it can say of a rank that ended well whether it
 * had left. BANYAN_JOINED_FILE, which it sets, leads to memory in which the byte of each rank is 1 while it does. The
 * number is BANYAN_RANK, so a child of a rank counts as the rank. Any thread; errors are ignored. */
#ifndef BY_JOB_SETTINGS_PRESENCE_H
#define BY_JOB_SETTINGS_PRESENCE_H

#define BY_PRESENCE_VARIABLE "BANYAN_JOINED_FILE"
#define BY_PRESENCE_NAME "banyan-joined" /* of the memory, for memfd_create */

/* Called for each job that this process joins and leaves. */
void by_presence_join(void);
void by_presence_leave(void);

#endif
