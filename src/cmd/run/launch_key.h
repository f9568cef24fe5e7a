/* The key of a job that `banyan run` starts: its hosts get another one when `banyan keys rotate` has replaced that in
 * its file, or has asked for another one in place of one that was generated. One thread. */
#ifndef BY_CMD_RUN_LAUNCH_KEY_H
#define BY_CMD_RUN_LAUNCH_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "job_key.h"

struct by_launch_key {
  struct by_key_ring *ring; /* NULL: the job has no key file */
  uint64_t
      look_at; /* when the file, or the end of an old key, is to be looked at, by by_clock_system; UINT64_MAX: never
                */
  char text[BY_JOB_KEY_MOST]; /* of now; "": the job has no key */
};

/* `path`: the file that has the key; NULL: it is `generated`, which may be NULL, too. The caller finis it. */
enum banyan_status by_launch_key_init(struct by_launch_key *key, const char *path, const char *generated) BANYAN_CHECK;
/* Wipes it. */
void by_launch_key_fini(struct by_launch_key *key);
enum by_launch_key_news {
  BY_LAUNCH_KEY_SAME,
  BY_LAUNCH_KEY_REPLACED,
  BY_LAUNCH_KEY_OLD_ENDED /* the hosts are to forget it, too */
};
/* Looks at the file if it is time, and whether an old key has ended. */
enum by_launch_key_news by_launch_key_look(struct by_launch_key *key);
/* Replaces a generated key; the old one is accepted for so many seconds. BANYAN_ERR_ARGUMENT: it is from a file, or the
 * one before it is still accepted. */
enum banyan_status by_launch_key_rotate(struct by_launch_key *key, int seconds) BANYAN_CHECK;
/* The key of now, borrowed until it changes; NULL: none. */
const char *by_launch_key_get(const struct by_launch_key *key);

#endif
