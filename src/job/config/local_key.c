/* The key of ranks that all run on this host and that nobody gave one: rank 0 generates it and keeps it in memory of
 * the kernel; a link in /dev/shm, whose name the launcher's variables give, leads the others of this user to it. They
 * read it through rank 0's descriptor, so what an earlier job left there leads nowhere. */
#include "settings.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "handshake.h"
#include "job_key.h"
#include "log.h"

enum { PATH = 64 };

/* Once a process: a second job of the same processes has the same key. */
static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
static char shared_at[PATH], shared_key[BY_JOB_KEY_TEXT];
static pid_t sharer;

static enum banyan_status place_of(const char *id, char *out) {
  struct by_key digest;
  BY_TRY(by_key_derive(id, &digest));
  int n = snprintf(out, PATH, "/dev/shm/banyan-%u-", (unsigned)geteuid());
  for (int i = 0; i < 8; i++) n += snprintf(out + n, (size_t)(PATH - n), "%02x", digest.bytes[i]);
  return BANYAN_OK;
}

static void remove_link(void) {
  if (sharer == getpid()) unlink(shared_at);
}

/* The descriptor stays open until the process ends. */
static enum banyan_status share(const char *place) {
  char target[PATH], made[PATH + 16];
  int fd;
  BY_TRY(by_job_key_create(shared_key));
  BY_TRY(by_job_key_share(shared_key, &fd));
  snprintf(target, sizeof target, "/proc/%d/fd/%d", (int)getpid(), fd);
  snprintf(made, sizeof made, "%s.%d", place, (int)getpid());
  unlink(made);
  if (symlink(target, made) || rename(made, place)) {
    int reason = errno;
    unlink(made);
    return by_fail_errno(BANYAN_ERR_SYSTEM, reason,
                         "cannot share a key with the other ranks of this host at %s; set BANYAN_KEY_FILE instead",
                         place);
  }
  snprintf(shared_at, sizeof shared_at, "%s", place);
  sharer = getpid();
  if (atexit(remove_link) != 0) by_debug("communicator", "%s stays", place);
  by_info("communicator", "the ranks of this host get the job's key through rank 0");
  return BANYAN_OK;
}

static enum banyan_status await(const char *place, double seconds, char *key) {
  static const struct timespec step = {.tv_nsec = 20 * BY_MILLISECOND};
  uint64_t until = by_clock_now(&by_clock_system) + by_clock_from_seconds(seconds);
  while (by_job_key_read(place, key) != BANYAN_OK) {
    if (by_clock_now(&by_clock_system) >= until)
      return by_fail_within(BANYAN_ERR_TIMEOUT, "rank 0 shared no key on this host within %g s", seconds);
    nanosleep(&step, NULL);
  }
  return BANYAN_OK;
}

static enum banyan_status find(struct by_settings *s) {
  char place[PATH];
  BY_TRY(place_of(s->local_id, place));
  if (s->rank != 0) return await(place, s->join_deadline, s->key_text);
  if (sharer != getpid() || strcmp(shared_at, place) != 0) BY_TRY(share(place));
  memcpy(s->key_text, shared_key, sizeof shared_key);
  return BANYAN_OK;
}

enum banyan_status by_local_key_find(struct by_settings *s) {
  if (s->key || !s->local_id[0] || s->size < 2) return BANYAN_OK;
  pthread_mutex_lock(&once);
  enum banyan_status status = find(s);
  pthread_mutex_unlock(&once);
  if (status == BANYAN_OK) s->key = s->key_text;
  return status;
}
