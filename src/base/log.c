/* Logging: levels, lines, limits of lines that peers can provoke, and the file that they are written to. */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "text.h"

enum { MAX_RULES = 32, MAX_NAME = 24, MAX_LINE = 2048, TRIES = 10000 };
enum { UNOPENED = -1, UNUSABLE = -2, OPENING = -3, MAX_RANK = 1 << 20, MAX_HOST = 256 };

static atomic_int file = UNOPENED; /* Its descriptor, or one of the values above. */
static atomic_bool reported;       /* It was reported that the file cannot be written. */
static atomic_bool has_times;      /* Lines on standard error have times. */
static const char *pattern;        /* NULL: there is none; constant once it was read. */
static pthread_once_t pattern_read = PTHREAD_ONCE_INIT;

/* ---- the name */

const char *by_log_file_name(const char *from, int rank, const char *host, char *out, size_t capacity) {
  size_t length = 0;
  for (const char *c = from; *c; c++) {
    char part[MAX_HOST] = {*c};
    if (*c == '%' && c[1] == 'r')
      snprintf(part, sizeof part, "%d", rank);
    else if (*c == '%' && c[1] == 'h')
      snprintf(part, sizeof part, "%s", host);
    else if (*c == '%' && c[1] == 'p')
      snprintf(part, sizeof part, "%d", (int)getpid());
    else if (*c == '%' && c[1] != '%')
      return "after % there may be r (the rank), h (the host), p (the process) or %";
    if (*c == '%')
      for (char *slash = part; c[1] == 'h' && (slash = strchr(slash, '/'));)
        *slash = '_'; /* A host's name must not contain a folder. */
    c += *c == '%';
    if (length + strlen(part) >= capacity) return "the name is too long";
    length += (size_t)snprintf(out + length, capacity - length, "%s", part);
  }
  return NULL;
}

/* ---- the file */

static void report_once(const char *name, const char *why) {
  dprintf(STDERR_FILENO, "banyan base: BANYAN_LOG_FILE is not used: %.300s: %s; standard error has the log\n", name,
          why);
}

/* Opens the file, for the thread that has set OPENING. It must not wait for a reader if the file is a pipe. */
static int open_file(int rank) {
  char name[PATH_MAX] = "", host[MAX_HOST] = "";
  const char *given = getenv("BANYAN_HOST");
  if (given && *given)
    snprintf(host, sizeof host, "%s", given);
  else if (gethostname(host, sizeof host - 1) || !*host)
    strcpy(host, "localhost");
  const char *wrong = by_log_file_name(pattern, rank, host, name, sizeof name);
  if (wrong) {
    report_once(pattern, wrong);
    return UNUSABLE;
  }
  int fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
  if (fd >= 0) return fd;
  bool no_folder = errno == ENOENT;
  report_once(name, no_folder ? "its folder does not exist: create it" : strerror(errno));
  return UNUSABLE;
}

static void open_once(int rank) {
  int unopened = UNOPENED;
  if (!pattern || (rank < 0 && by_pattern_uses(pattern, 'r'))) return;
  if (atomic_compare_exchange_strong(&file, &unopened, OPENING)) atomic_store(&file, open_file(rank));
}

/* `banyan run` sets a number for every process, also for helpers and those that come later. */
static void read_pattern(void) {
  const char *text = getenv("BANYAN_LOG_FILE"), *rank = getenv("BANYAN_RANK");
  char *end = NULL;
  long number = rank && *rank ? strtol(rank, &end, 10) : -1;
  if (!text || !*text) return;
  pattern = text;
  open_once(end && !*end && number >= 0 && number < MAX_RANK ? (int)number : -1);
}

void by_log_file_set_rank(int rank) {
  int before = errno;
  pthread_once(&pattern_read, read_pattern);
  open_once(rank);
  errno = before;
}

/* ---- lines of the file */

/* Writes a line, at once unless the kernel takes less. Returns whether all of it was written. */
static bool write_all(int fd, const char *line, size_t length) {
  while (length) {
    ssize_t n = write(fd, line, length);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    line += n;
    length -= (size_t)n;
  }
  return true;
}

/* Adds Universal Time, with milliseconds. */
static size_t add_time(char *out, size_t capacity) {
  struct timespec now;
  struct tm at;
  clock_gettime(CLOCK_REALTIME, &now);
  if (!gmtime_r(&now.tv_sec, &at)) return 0;
  size_t length = strftime(out, capacity, "%Y-%m-%dT%H:%M:%S", &at);
  return length + (size_t)snprintf(out + length, capacity - length, ".%03dZ ", (int)(now.tv_nsec / 1000000));
}

/* Whether the journal of systemd reads the file, whose device and number are in JOURNAL_STREAM. */
static bool is_journal(int fd) {
  const char *stream = getenv("JOURNAL_STREAM");
  unsigned long long device, file_number;
  struct stat about;
  return stream && sscanf(stream, "%llu:%llu", &device, &file_number) == 2 && fstat(fd, &about) == 0 &&
         about.st_dev == device && about.st_ino == file_number;
}

void by_log_file_add_times(void) {
  atomic_store(&has_times, !is_journal(STDERR_FILENO));
}

void by_log_file_print_time(char out[BY_LOG_TIME]) {
  out[atomic_load(&has_times) ? add_time(out, BY_LOG_TIME) : 0] = '\0';
}

static bool put_with_time(int fd, const char *line, size_t length) {
  char stamped[4096];
  size_t stamp = add_time(stamped, BY_LOG_TIME);
  if (stamp + length > sizeof stamped) return write_all(fd, line, length);
  memcpy(stamped + stamp, line, length);
  return write_all(fd, stamped, stamp + length);
}

static void write_to_file(const char *line, size_t length) {
  pthread_once(&pattern_read, read_pattern);
  int fd = atomic_load(&file);
  if (fd >= 0) {
    if (put_with_time(fd, line, length)) return;
    int reason = errno;
    if (!atomic_exchange(&reported, true))
      dprintf(STDERR_FILENO, "banyan base: BANYAN_LOG_FILE cannot be written: %s; standard error has what is missing\n",
              strerror(reason));
  }
  (void)(atomic_load(&has_times) ? put_with_time : write_all)(STDERR_FILENO, line, length);
}

/* ---- levels */

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
static pthread_once_t levels_read = PTHREAD_ONCE_INIT;
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
static void read_levels(void) {
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
  pthread_once(&levels_read, read_levels);
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
  write_to_file(line, length);
}

/* ---- limits for peers */

#define HASH_BASIS 0xcbf29ce484222325

/* FNV-1a. It needs no resistance, since a collision only leaves out a line. */
static uint64_t add_hash(uint64_t hash, const char *text, size_t length) {
  for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3;
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
  uint64_t hash = add_hash(add_hash(HASH_BASIS, module, strlen(module)), format, strlen(format));
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

/* ---- repeats */

bool by_repeats_take(struct by_repeats *repeats, const char *source, size_t length, const char *text, double now) {
  uint64_t hash = add_hash(add_hash(HASH_BASIS, source, length), text, strlen(text));
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
