/* The key of ranks that all run on this host and that nobody gave one: rank 0 generates it and keeps it in memory of
 * the kernel; a link in /dev/shm leads the others of this user to it. They read it through rank 0's descriptor, so what
 * an earlier job left there leads nowhere. The name of the link begins with a hash of the launcher's variables and ends
 * with random digits, so that nobody can take it before; links of other users do not count. */
#include "settings.h"

#include <dirent.h>
#include <errno.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "handshake.h"
#include "job_key.h"
#include "log.h"

enum { NAME = 64, PATH = 64 + NAME, OLD = 3600 /* s */ };
static const char folder[] = "/dev/shm";

/* Once a process: a second job of the same processes has the same key. */
static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
static char shared_for[NAME], shared_at[PATH], shared_key[BY_JOB_KEY_TEXT];
static pid_t sharer;

/* What the names of the links of this user and job begin with. */
static enum banyan_status name_of(const char *id, char *out) {
  struct by_key digest;
  BY_TRY(by_key_derive(id, &digest));
  int n = snprintf(out, NAME, "banyan-%u-", (unsigned)geteuid());
  for (int i = 0; i < 8; i++) n += snprintf(out + n, (size_t)(NAME - n), "%02x", digest.bytes[i]);
  snprintf(out + n, (size_t)(NAME - n), "-");
  return BANYAN_OK;
}

static void remove_link(void) {
  if (sharer == getpid()) unlink(shared_at);
}

/* The descriptor stays open until the process ends. */
static enum banyan_status share(const char *name) {
  char target[PATH];
  uint64_t random;
  int fd;
  BY_TRY(by_job_key_create(shared_key));
  BY_TRY(by_job_key_share(shared_key, &fd));
  if (RAND_bytes((unsigned char *)&random, sizeof random) != 1)
    return by_fail(BANYAN_ERR_SYSTEM, "the system has no randomness for the job's key");
  snprintf(target, sizeof target, "/proc/%d/fd/%d", (int)getpid(), fd);
  snprintf(shared_at, sizeof shared_at, "%s/%s%016llx", folder, name, (unsigned long long)random);
  if (symlink(target, shared_at))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno,
                         "cannot share a key with the other ranks of this host at %s; set BANYAN_KEY_FILE instead",
                         shared_at);
  snprintf(shared_for, sizeof shared_for, "%s", name);
  sharer = getpid();
  if (atexit(remove_link) != 0) by_debug("communicator", "%s stays", shared_at);
  by_info("communicator", "the ranks of this host get the job's key through rank 0");
  return BANYAN_OK;
}

/* The key to which the newest of these links leads. Those that nobody will look for any more, which killed processes
 * have left, are removed. */
static bool look_for(const char *name, char *key) {
  struct timespec newest = {0};
  bool found = false;
  DIR *links = opendir(folder);
  if (!links) return false;
  for (struct dirent *entry; (entry = readdir(links));) {
    char at[sizeof folder + sizeof entry->d_name], one[BY_JOB_KEY_MAX];
    struct stat link;
    snprintf(at, sizeof at, "%s/%s", folder, entry->d_name);
    if (strncmp(entry->d_name, name, strlen(name)) != 0 || lstat(at, &link) || link.st_uid != geteuid()) continue;
    if (link.st_mtim.tv_sec < time(NULL) - OLD) {
      unlink(at);
      continue;
    }
    if (by_job_key_read(at, one) != BANYAN_OK) continue;
    if (!found || link.st_mtim.tv_sec > newest.tv_sec ||
        (link.st_mtim.tv_sec == newest.tv_sec && link.st_mtim.tv_nsec > newest.tv_nsec)) {
      strcpy(key, one);
      newest = link.st_mtim;
      found = true;
    }
    explicit_bzero(one, sizeof one);
  }
  closedir(links);
  return found;
}

static enum banyan_status await(const char *name, double seconds, char *key) {
  static const struct timespec step = {.tv_nsec = 20 * BY_MILLISECOND};
  uint64_t until = by_clock_now(&by_clock_system) + by_clock_from_seconds(seconds);
  while (!look_for(name, key)) {
    if (by_clock_now(&by_clock_system) >= until)
      return by_fail(BANYAN_ERR_TIMEOUT, "rank 0 shared no key on this host within %g s", seconds);
    nanosleep(&step, NULL);
  }
  return BANYAN_OK;
}

static enum banyan_status find(struct by_settings *s) {
  char name[NAME];
  BY_TRY(name_of(s->local_id, name));
  if (s->rank != 0) return await(name, s->join_deadline, s->key_text);
  if (sharer != getpid() || strcmp(shared_for, name) != 0) BY_TRY(share(name));
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
