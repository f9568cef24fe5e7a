/* Reads a job's key again when its file changes, and replaces generated keys. */
#include "launch_start.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "key_ring.h"

static const uint64_t look_pause = BY_SECOND;

enum banyan_status by_launch_key_init(struct by_launch_key *key, const char *path, const char *generated) {
  *key = (struct by_launch_key){.look_at = UINT64_MAX};
  if (!path) {
    snprintf(key->text, sizeof key->text, "%s", generated ? generated : "");
    return BANYAN_OK;
  }
  BY_TRY(by_job_key_read(path, key->text));
  BY_TRY(by_key_ring_create(key->text, path, NULL, &key->ring));
  key->look_at = 0;
  return BANYAN_OK;
}

enum banyan_status by_launch_key_rotate(struct by_launch_key *key, int seconds) {
  char next[BY_JOB_KEY_MAX];
  int64_t now = time(NULL);
  if (key->ring) return by_fail(BANYAN_ERR_ARGUMENT, "it is from a file: `banyan keys rotate FILE` replaces it there");
  if (seconds < 1) return by_fail(BANYAN_ERR_ARGUMENT, "the old key cannot be accepted for %d s", seconds);
  BY_TRY(by_job_key_rotate(key->text, now, now + seconds, next));
  strcpy(key->text, next);
  explicit_bzero(next, sizeof next);
  key->look_at = by_clock_now(&by_clock_system) + (uint64_t)seconds * BY_SECOND;
  return BANYAN_OK;
}

void by_launch_key_fini(struct by_launch_key *key) {
  by_key_ring_destroy(key->ring);
  explicit_bzero(key, sizeof *key);
}

enum by_launch_key_news by_launch_key_look(struct by_launch_key *key) {
  char text[BY_JOB_KEY_MAX];
  uint64_t now = by_clock_now(&by_clock_system);
  if (now < key->look_at) return BY_LAUNCH_KEY_SAME;
  key->look_at = now + look_pause;
  strcpy(text, key->text);
  if (key->ring) by_key_ring_text(key->ring, text);
  int64_t seconds = time(NULL);
  bool ended = by_job_key_drop_ended(key->text, seconds);
  (void)by_job_key_drop_ended(text, seconds);
  bool replaced = strcmp(text, key->text) != 0;
  if (ended && !key->ring) key->look_at = UINT64_MAX;
  strcpy(key->text, text);
  explicit_bzero(text, sizeof text);
  return replaced ? BY_LAUNCH_KEY_REPLACED : ended ? BY_LAUNCH_KEY_OLD_ENDED : BY_LAUNCH_KEY_SAME;
}

const char *by_launch_key_get(const struct by_launch_key *key) {
  return key->text[0] ? key->text : NULL;
}
