#include "log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_RULES = 32, MOST_NAME = 24, MOST_LINE = 2048 };

struct rule {
  char module[MOST_NAME];
  int level;
};

/* Never changed once published, so that readers need no lock. */
struct config {
  struct config *before; /* an older one may still be being read: kept, and reachable */
  int all, most;         /* level of modules without a rule; the highest level of all */
  int rules;
  struct rule rule[MOST_RULES];
};

static const struct config fallback = {.all = BY_LOG_WARN, .most = BY_LOG_WARN};
static _Atomic(struct config *) current;
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

/* One entry of the list: "level" or "module:level". */
static enum banyan_status parse_entry(struct config *config, const char *text, size_t length) {
  const char *colon = memchr(text, ':', length);
  const char *level = colon ? colon + 1 : text;
  int value;
  if (!parse_level(level, length - (size_t)(level - text), &value))
    return by_fail(BANYAN_ERR_PARSE, "log level \"%.*s\": write error, warn, info, debug or module:level, with commas",
                   (int)(length > 64 ? 64 : length), text);
  if (!colon) {
    config->all = value;
    return BANYAN_OK;
  }
  size_t name = (size_t)(colon - text);
  if (name == 0 || name >= MOST_NAME || config->rules == MOST_RULES)
    return by_fail(BANYAN_ERR_PARSE, "log level \"%.*s\": %s", (int)(length > 64 ? 64 : length), text,
                   config->rules == MOST_RULES ? "too many modules" : "bad module name");
  struct rule *rule = &config->rule[config->rules++];
  memcpy(rule->module, text, name);
  rule->level = value;
  return BANYAN_OK;
}

static enum banyan_status parse_list(struct config *config, const char *text) {
  config->all = BY_LOG_WARN;
  while (*text) {
    size_t length = strcspn(text, ",");
    if (length) BY_TRY(parse_entry(config, text, length));
    text += length;
    if (*text == ',') text++;
  }
  config->most = config->all;
  for (int i = 0; i < config->rules; i++)
    if (config->rule[i].level > config->most) config->most = config->rule[i].level;
  return BANYAN_OK;
}

static enum banyan_status publish(const char *text) {
  struct config *config = calloc(1, sizeof *config);
  if (!config) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the log's settings");
  enum banyan_status status = parse_list(config, text);
  if (status != BANYAN_OK) {
    free(config);
    return status;
  }
  config->before = atomic_load(&current);
  while (!atomic_compare_exchange_weak(&current, &config->before, config)) {
  }
  return BANYAN_OK;
}

static void read_environment(void) {
  const char *text = getenv("BANYAN_LOG");
  if (!text || atomic_load(&current)) return;
  if (publish(text) != BANYAN_OK)
    dprintf(STDERR_FILENO, "banyan base: BANYAN_LOG is not used: %s\n", banyan_error_text());
}

static const struct config *settings(void) {
  const struct config *config = atomic_load_explicit(&current, memory_order_acquire);
  if (config) return config;
  pthread_once(&environment_read, read_environment);
  config = atomic_load_explicit(&current, memory_order_acquire);
  return config ? config : &fallback;
}

enum banyan_status by_log_configure(const char *text) {
  return publish(text ? text : "");
}

bool by_log_wanted(enum by_log_level level, const char *module) {
  const struct config *config = settings();
  if ((int)level > config->most) return false;
  for (int i = config->rules - 1; i >= 0; i--) /* the last word counts */
    if (strcmp(config->rule[i].module, module) == 0) return (int)level <= config->rule[i].level;
  return (int)level <= config->all;
}

void by_log_set_rank(int rank) {
  atomic_store(&line_rank, rank);
}

/* Peers' words end up in lines: none of them may forge a second line or drive the terminal. */
static void flatten(char *text, size_t length) {
  for (size_t i = 0; i < length; i++)
    if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) text[i] = ' ';
}

static void put(const char *line, size_t length) {
  while (length) {
    ssize_t n = write(STDERR_FILENO, line, length); /* one, unless the kernel takes less */
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    line += n;
    length -= (size_t)n;
  }
}

void by_log(enum by_log_level level, const char *module, const char *format, ...) {
  int kept = errno;
  if (by_log_wanted(level, module)) {
    char line[MOST_LINE];
    int rank = atomic_load(&line_rank);
    int head = rank < 0 ? snprintf(line, 128, "banyan %.40s: ", module)
                        : snprintf(line, 128, "banyan[rank %d] %.40s: ", rank, module);
    size_t length = (size_t)head, room = sizeof line - length - 1;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line + length, room, format, args);
    va_end(args);
    if (n >= (int)room) memcpy(line + length + room - 4, "...", 3);
    if (n > 0) length += (size_t)n < room ? (size_t)n : room - 1;
    flatten(line, length);
    line[length++] = '\n';
    put(line, length);
  }
  errno = kept;
}
