/* Limits the lines of each kind in a minute. */
#include "log_limit.h"

#include <stdio.h>

/* FNV-1a: kinds are texts of this program. */
static uint64_t add_hash(uint64_t hash, const char *text) {
  for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
  return hash;
}

/* The entry of a kind; a new one replaces the one whose minute ends first. */
static struct by_log_kind *find_kind(struct by_log_limit *limit, const char *module, uint64_t hash, double now) {
  struct by_log_kind *first = limit->kinds;
  for (struct by_log_kind *kind = limit->kinds; kind < limit->kinds + BY_LOG_KINDS; kind++) {
    if (kind->until > 0 && kind->hash == hash) return kind;
    if (kind->until < first->until) first = kind;
  }
  limit->omitted -= first->omitted;
  *first = (struct by_log_kind){.hash = hash, .until = now + BY_LOG_KIND_SECONDS, .module = module};
  return first;
}

bool by_log_limit_take(struct by_log_limit *limit, const char *module, const char *format, const char *line,
                       double now) {
  uint64_t hash = add_hash(add_hash(0xcbf29ce484222325, module), format);
  struct by_log_kind *kind = find_kind(limit, module, hash, now);
  if (now >= kind->until) {
    kind->until = now + BY_LOG_KIND_SECONDS;
    kind->lines = 0;
  }
  if (kind->lines < BY_LOG_KIND_LINES) {
    kind->lines++;
    return true;
  }
  kind->omitted++;
  limit->omitted++;
  snprintf(kind->last, sizeof kind->last, "%s", line);
  return false;
}

bool by_log_limit_next(struct by_log_limit *limit, double now, struct by_log_kind *out) {
  for (struct by_log_kind *kind = limit->kinds; limit->omitted && kind < limit->kinds + BY_LOG_KINDS; kind++) {
    if (!kind->omitted || now < kind->until) continue;
    *out = *kind;
    limit->omitted -= kind->omitted;
    kind->omitted = 0;
    return true;
  }
  return false;
}
