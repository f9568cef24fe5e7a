/* The thread's error text. */
#include "fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { TEXT_BYTES = 1024 };

static _Thread_local char text[TEXT_BYTES];

const char *banyan_error_text(void) {
  return text;
}

enum banyan_status(by_fail)(enum banyan_status status, const char *format, ...) {
  char fresh[TEXT_BYTES]; /* The arguments may point into the old text. */
  va_list args;
  va_start(args, format);
  int length = vsnprintf(fresh, sizeof fresh, format, args);
  va_end(args);
  if (length >= TEXT_BYTES) strcpy(fresh + TEXT_BYTES - sizeof "...", "...");
  memcpy(text, fresh, sizeof text);
  return status;
}

enum banyan_status(by_fail_errno)(enum banyan_status status, int errno_value, const char *format, ...) {
  char fresh[TEXT_BYTES];
  struct rlimit limit;
  va_list args;
  va_start(args, format);
  vsnprintf(fresh, sizeof fresh, format, args);
  va_end(args);
  if (errno_value == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
    return by_fail(status, "%s: %s: this process may have %llu descriptors; raise that (ulimit -n)", fresh,
                   strerror(errno_value), (unsigned long long)limit.rlim_cur);
  return by_fail(status, "%s: %s", fresh, strerror(errno_value));
}

enum banyan_status(by_fail_within)(enum banyan_status status, const char *format, ...) {
  char fresh[TEXT_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(fresh, sizeof fresh, format, args);
  va_end(args);
  return by_fail(status, "%s: %s", fresh, text);
}

const char *banyan_status_name(enum banyan_status status) {
  switch (status) {
  case BANYAN_OK: return "ok";
  case BANYAN_ERR_ARGUMENT: return "bad argument";
  case BANYAN_ERR_UNSUPPORTED: return "unsupported";
  case BANYAN_ERR_NO_MEMORY: return "out of memory";
  case BANYAN_ERR_SYSTEM: return "system error";
  case BANYAN_ERR_PARSE: return "parse error";
  case BANYAN_ERR_PLAN: return "bad plan";
  case BANYAN_ERR_TOPOLOGY: return "bad topology";
  case BANYAN_ERR_CONNECT: return "cannot connect";
  case BANYAN_ERR_AUTH: return "not authenticated";
  case BANYAN_ERR_PROTOCOL: return "protocol error";
  case BANYAN_ERR_PEER_DEAD: return "peer dead";
  case BANYAN_ERR_TIMEOUT: return "timeout";
  case BANYAN_ERR_MISMATCH: return "mismatched calls";
  case BANYAN_ERR_ABORTED: return "aborted";
  case BANYAN_ERR_CLOSED: return "closed";
  }
  return "unknown status";
}

const char *banyan_version(void) {
  return BANYAN_VERSION;
}

void banyan_version_numbers(int *major, int *minor, int *patch) {
  int numbers[3] = {0};
  (void)sscanf(BANYAN_VERSION, "%d.%d.%d", &numbers[0], &numbers[1], &numbers[2]);
  if (major) *major = numbers[0];
  if (minor) *minor = numbers[1];
  if (patch) *patch = numbers[2];
}
