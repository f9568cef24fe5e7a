/* The key file of a job that `banyan run` starts: its hosts get another key when `banyan keys rotate` has replaced it.
 * One thread. */
#ifndef BY_CLI_LAUNCH_KEY_H
#define BY_CLI_LAUNCH_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "job_key.h"

struct by_launch_key {
  struct by_key_ring *ring;   /* NULL: the job has no key file */
  uint64_t look_at;           /* when it is to be looked at again, by by_clock_system; UINT64_MAX: never */
  char text[BY_JOB_KEY_MOST]; /* of now */
};

/* `path` NULL: there is none. What cannot be read is not followed, with an error. The caller finis it. */
enum banyan_status by_launch_key_init(struct by_launch_key *key, const char *path) BANYAN_CHECK;
/* Wipes it. */
void by_launch_key_fini(struct by_launch_key *key);
/* Looks at the file if it is time. True: there is another key. */
bool by_launch_key_look(struct by_launch_key *key);
/* The key of now, borrowed until it is looked at again; NULL: none. */
const char *by_launch_key_get(const struct by_launch_key *key);

#endif
