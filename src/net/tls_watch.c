#include "tls_watch.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "log.h"

static const uint64_t day = 24 * 60 * 60 * BY_SECOND;

struct by_tls_watch {
  struct by_tls_watch_options options;
  char name[BY_TLS_NAME];
  struct by_tls_identity *identity;
  struct by_tls_stamp seen, read; /* the files at the last look; and when they were read, of use or not */
  struct by_timer look, warning;
};

static void stamp(struct by_tls_watch *watch, struct by_tls_stamp *out) {
  by_tls_identity_stamp(watch->options.folder, watch->options.role, watch->name, out);
}

static bool same(const struct by_tls_stamp *a, const struct by_tls_stamp *b) {
  return !memcmp(a, b, sizeof *a);
}

/* Whoever was revoked would be let in again. */
static enum banyan_status check_lists(const struct by_tls_watch *watch, const struct by_tls_identity *next) {
  struct by_tls_list known[BY_TLS_LISTS];
  uint32_t n = by_tls_identity_lists(watch->identity, known, BY_TLS_LISTS);
  for (uint32_t i = 0; i < n; i++) BY_TRY(by_tls_identity_check_list(next, &known[i]));
  return BANYAN_OK;
}

static enum banyan_status take(struct by_tls_watch *watch) {
  struct by_tls_identity *next, *before = watch->identity;
  BY_TRY(by_tls_identity_load(watch->options.folder, watch->options.role, watch->name, &next));
  enum banyan_status status = check_lists(watch, next);
  if (status != BANYAN_OK) {
    by_tls_identity_destroy(next);
    return status;
  }
  watch->identity = next;
  if (watch->options.changed) watch->options.changed(watch->options.context);
  by_tls_identity_destroy(before);
  by_info("net", "the keys of %s %s were read again", by_tls_role_name(watch->options.role), watch->name);
  return BANYAN_OK;
}

static void read_files(struct by_tls_watch *watch) {
  watch->read = watch->seen;
  if (take(watch) != BANYAN_OK)
    by_warn("net", "keys that have changed are not used, and those before stay: %s", banyan_error_text());
}

static void look(void *context) {
  struct by_tls_watch *watch = context;
  struct by_tls_stamp now;
  stamp(watch, &now);
  bool settled = same(&now, &watch->seen);
  watch->seen = now;
  by_loop_set_delay(watch->options.loop, &watch->look, BY_TLS_LOOK);
  if (settled && !same(&now, &watch->read)) read_files(watch);
}

static void warn(void *context) {
  struct by_tls_watch *watch = context;
  by_tls_identity_warn(watch->identity, time(NULL));
  by_loop_set_delay(watch->options.loop, &watch->warning, day);
}

enum banyan_status by_tls_watch_create(const struct by_tls_watch_options *options, struct by_tls_watch **out) {
  struct by_tls_watch *watch = calloc(1, sizeof *watch);
  if (!watch) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for keys");
  watch->options = *options;
  by_tls_identity_stamp(options->folder, options->role, options->name, &watch->seen); /* before they are read */
  enum banyan_status status = by_tls_identity_load(options->folder, options->role, options->name, &watch->identity);
  if (status != BANYAN_OK) {
    free(watch);
    return status;
  }
  watch->read = watch->seen;
  strcpy(watch->name, by_tls_identity_who(watch->identity)->name);
  by_timer_init(&watch->look, look, watch);
  by_timer_init(&watch->warning, warn, watch);
  by_loop_set_delay(options->loop, &watch->look, BY_TLS_LOOK);
  by_loop_set_delay(options->loop, &watch->warning, day);
  *out = watch;
  return BANYAN_OK;
}

void by_tls_watch_destroy(struct by_tls_watch *watch) {
  if (!watch) return;
  by_loop_cancel_timer(&watch->look);
  by_loop_cancel_timer(&watch->warning);
  by_tls_identity_destroy(watch->identity);
  free(watch);
}

const struct by_tls_identity *by_tls_watch_get(const struct by_tls_watch *watch) {
  return watch->identity;
}

void by_tls_watch_look(struct by_tls_watch *watch) {
  stamp(watch, &watch->seen);
  if (!same(&watch->seen, &watch->read)) read_files(watch);
}

void by_tls_watch_read(struct by_tls_watch *watch) {
  stamp(watch, &watch->seen);
  read_files(watch);
}
