/* Logging: levels, lines, and limits of lines that peers can provoke. */
#include "log.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "log_file.h"
#include "log_limit.h"

enum { MAX_RULES = 32, MAX_NAME = 24, MAX_LINE = 2048, TRIES = 10000 };

struct rule {
  char module[MAX_NAME];
  int level;
};

struct config {
  int all, max; /* The level of modules without a rule; the highest level of all. */
  int rules;
  struct rule rule[MAX_RULES];
};

static struct config config = {.all = BY_LOG_WARN, .max = BY_LOG_WARN};
static pthread_once_t environment_read = PTHREAD_ONCE_INIT;
static atomic_int line_rank = -1;

static bool parse_level(const char *text, size_t length, int *out) {
  static const char *const names[] = {"error", "warn", "info", "debug"};
  for (int i = 0; i < 4; i++) {
    if (strlen(names[i]) == length && memcmp(names[i], text, length) == 0) {
      *out = i;
      return true;
    }
  }
  return false;
}

/* The description of an error in BANYAN_LOG. */
struct reason {
  char text[192];
};

static bool refuse_entry(struct reason *reason, const char *entry, size_t length, const char *why) {
  snprintf(reason->text, sizeof reason->text, "log level \"%.*s\": %s", (int)(length > 64 ? 64 : length), entry, why);
  return false;
}

/* Parses one entry of the list: "level" or "module:level". */
static bool parse_entry(struct config *out, const char *text, size_t length, struct reason *reason) {
  const char *colon = memchr(text, ':', length);
  const char *level = colon ? colon + 1 : text;
  int value;
  if (!parse_level(level, length - (size_t)(level - text), &value))
    return refuse_entry(reason, text, length, "write error, warn, info, debug or module:level, with commas");
  if (!colon) {
    out->all = value;
    return true;
  }
  size_t name = (size_t)(colon - text);
  if (name == 0 || name >= MAX_NAME) return refuse_entry(reason, text, length, "bad module name");
  if (out->rules == MAX_RULES) return refuse_entry(reason, text, length, "too many modules");
  struct rule *rule = &out->rule[out->rules++];
  memcpy(rule->module, text, name);
  rule->level = value;
  return true;
}

static bool parse_list(struct config *out, const char *text, struct reason *reason) {
  while (*text) {
    size_t length = strcspn(text, ",");
    if (length && !parse_entry(out, text, length, reason)) return false;
    text += length;
    if (*text == ',') text++;
  }
  out->max = out->all;
  for (int i = 0; i < out->rules; i++)
    if (out->rule[i].level > out->max) out->max = out->rule[i].level;
  return true;
}

enum banyan_status by_log_check(const char *list) {
  struct config unused = {0};
  struct reason reason;
  return parse_list(&unused, list, &reason) ? BANYAN_OK : by_fail(BANYAN_ERR_ARGUMENT, "BANYAN_LOG: %s", reason.text);
}

/* Keeps the thread's error text, which may be what is to be logged. */
static void read_environment(void) {
  struct config read = config;
  struct reason reason;
  const char *text = getenv("BANYAN_LOG");
  if (!text) return;
  if (parse_list(&read, text, &reason))
    config = read;
  else
    dprintf(STDERR_FILENO, "banyan base: BANYAN_LOG is not used: %s\n", reason.text);
}

bool by_log_wanted(enum by_log_level level, const char *module) {
  pthread_once(&environment_read, read_environment);
  if ((int)level > config.max) return false;
  for (int i = config.rules - 1; i >= 0; i--) /* The last rule for a module counts. */
    if (strcmp(config.rule[i].module, module) == 0) return (int)level <= config.rule[i].level;
  return (int)level <= config.all;
}

void by_log_set_rank(int rank) {
  atomic_store(&line_rank, rank);
}

static void write_line(const char *module, const char *text) {
  char line[MAX_LINE];
  int rank = atomic_load(&line_rank);
  int head = rank < 0 ? snprintf(line, 128, "banyan %.40s: ", module)
                      : snprintf(line, 128, "banyan[rank %d] %.40s: ", rank, module);
  size_t length = (size_t)head, capacity = sizeof line - length - 1;
  int n = snprintf(line + length, capacity, "%s", text);
  if (n >= (int)capacity) memcpy(line + length + capacity - 4, "...", 3);
  if (n > 0) length += (size_t)n < capacity ? (size_t)n : capacity - 1;
  /* Lines contain texts of peers: none of them may forge a second line or control the terminal. */
  for (size_t i = 0; i < length; i++)
    if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f) line[i] = ' ';
  line[length++] = '\n';
  by_log_file_write(line, length);
}

/* --- limits for peers --- */

static struct by_log_limit limit;
static atomic_flag limit_used = ATOMIC_FLAG_INIT;

/* Returns false if another thread holds it for long, or held it when this process was forked. */
static bool lock_limit(void) {
  for (int i = 0; i < TRIES; i++) {
    if (!atomic_flag_test_and_set(&limit_used)) return true;
    (void)sched_yield();
  }
  return false;
}

static void write_counts(double now) {
  struct by_log_kind kind;
  char text[BY_LOG_LAST + 80];
  while (lock_limit()) {
    bool any = by_log_limit_next(&limit, now, &kind);
    atomic_flag_clear(&limit_used);
    if (!any) return;
    snprintf(text, sizeof text, "%llu more lines like this one were left out: %s", (unsigned long long)kind.omitted,
             kind.last);
    write_line(kind.module, text);
  }
}

void by_log_flush(void) {
  int kept = errno;
  write_counts(INFINITY);
  errno = kept;
}

void by_log_report_omitted(void) {
  int kept = errno;
  write_counts(by_clock_to_seconds(by_clock_now(&by_clock_system)));
  errno = kept;
}

void by_log(enum by_log_level level, const char *module, const char *format, ...) {
  int kept = errno;
  if (by_log_wanted(level, module)) {
    char text[MAX_LINE];
    double now = by_clock_to_seconds(by_clock_now(&by_clock_system));
    bool taken = true;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    write_counts(now);
    if (level <= BY_LOG_WARN && lock_limit()) {
      taken = by_log_limit_take(&limit, module, format, text, now);
      atomic_flag_clear(&limit_used);
    }
    if (taken) write_line(module, text);
  }
  errno = kept;
}

/* --- repeats --- */

/* FNV-1a. It needs no resistance, since a collision only leaves out a line. */
static uint64_t add_hash(uint64_t hash, const char *text, size_t length) {
  for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3;
  return hash;
}

bool by_repeats_take(struct by_repeats *repeats, const char *source, size_t length, const char *text, double now) {
  uint64_t hash = add_hash(add_hash(0xcbf29ce484222325, source, length), text, strlen(text));
  struct by_repeat *oldest = repeats->latest;
  for (struct by_repeat *one = repeats->latest; one < repeats->latest + BY_REPEATS; one++) {
    if (one->hash == hash && one->until > now) return false;
    if (one->until < oldest->until) oldest = one;
  }
  *oldest = (struct by_repeat){hash, now + BY_REPEATS_SECONDS};
  return true;
}

void by_repeats_warn(struct by_repeats *repeats, const char *module, const char *peer, const char *text, double now) {
  const char *port = strrchr(peer, ':');
  size_t whole = strlen(peer), host = port ? (size_t)(port - peer) : whole;
  bool named = strncmp(text, peer, whole) == 0;
  if (now >= repeats->minute) {
    repeats->minute = now + BY_REPEATS_SECONDS;
    repeats->lines = 0;
  }
  if (repeats->lines >= BY_REPEATS_LINES || !by_repeats_take(repeats, peer, host, named ? text + whole : text, now)) {
    repeats->omitted++;
    return;
  }
  repeats->lines++;
  by_repeats_flush(repeats, module, INFINITY);
  by_warn(module, "%s%s%s", named ? "" : peer, named ? "" : ": ", text);
}

void by_repeats_flush(struct by_repeats *repeats, const char *module, double now) {
  if (!repeats->omitted || now < repeats->minute) return;
  by_warn(module, "%llu further connections were rejected without a line in this log",
          (unsigned long long)repeats->omitted);
  repeats->omitted = 0;
}
