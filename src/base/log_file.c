/* Writes lines of the log to standard error or to a file. */
#include "log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "text.h"

enum { UNOPENED = -1, UNUSABLE = -2, OPENING = -3, MAX_RANK = 1 << 20, MAX_HOST = 256 };

static atomic_int file = UNOPENED; /* Its descriptor, or one of the values above. */
static atomic_bool reported;       /* It was reported that the file cannot be written. */
static atomic_bool has_times;      /* Lines on standard error have times. */
static pthread_once_t environment_read = PTHREAD_ONCE_INIT;
static const char *pattern; /* NULL: there is none; constant once it was read. */

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
static void read_environment(void) {
  const char *text = getenv("BANYAN_LOG_FILE"), *rank = getenv("BANYAN_RANK");
  char *end = NULL;
  long number = rank && *rank ? strtol(rank, &end, 10) : -1;
  if (!text || !*text) return;
  pattern = text;
  open_once(end && !*end && number >= 0 && number < MAX_RANK ? (int)number : -1);
}

void by_log_file_set_rank(int rank) {
  int before = errno;
  pthread_once(&environment_read, read_environment);
  open_once(rank);
  errno = before;
}

/* ---- lines */

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

void by_log_file_write(const char *line, size_t length) {
  pthread_once(&environment_read, read_environment);
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
