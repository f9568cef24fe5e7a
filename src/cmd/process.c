/* Memory, cores, signals and limits of the process, and services that run until a signal. */
#include "process.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "log.h"

static _Noreturn void end_without_memory(void) {
  static const char text[] = "banyan: out of memory\n";
  (void)!write(STDERR_FILENO, text, sizeof text - 1);
  _exit(1);
}

void *by_cli_alloc(void *old, size_t bytes) {
  void *memory = realloc(old, bytes ? bytes : 1);
  if (!memory) end_without_memory();
  return memory;
}

void *by_cli_zeroed(size_t n, size_t size) {
  return memset(by_cli_alloc(NULL, n * size), 0, n * size);
}

char *by_cli_print(const char *format, ...) {
  va_list arguments;
  char *text;
  va_start(arguments, format);
  if (vasprintf(&text, format, arguments) < 0) end_without_memory();
  va_end(arguments);
  return text;
}

void by_cli_close(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

bool by_pin_process(int which) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) || CPU_COUNT(&allowed) == 0) return false;
  int wanted = which % CPU_COUNT(&allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &allowed) || wanted--) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
  }
  return false;
}

/* Returns whether the signal is ignored, as under nohup or in background processes of a shell; a blocked signal would
 * be received. */
static bool is_ignored(int signal_number) {
  struct sigaction action;
  bool may_be = signal_number == SIGHUP || signal_number == SIGINT || signal_number == SIGQUIT;
  return may_be && !sigaction(signal_number, NULL, &action) && action.sa_handler == SIG_IGN;
}

int by_signal_descriptor(const int *signals) {
  sigset_t set;
  sigemptyset(&set);
  for (; *signals; signals++)
    if (!is_ignored(*signals)) sigaddset(&set, *signals);
  sigprocmask(SIG_BLOCK, &set, NULL);
  signal(SIGPIPE, SIG_IGN);
  return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

void by_restore_signals(void) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGPIPE, SIG_DFL);
}

void by_allow_files(struct rlimit *before) {
  *before = (struct rlimit){0};
  if (getrlimit(RLIMIT_NOFILE, before)) return;
  struct rlimit more = {.rlim_cur = before->rlim_max, .rlim_max = before->rlim_max};
  setrlimit(RLIMIT_NOFILE, &more); /* If it fails, the open() that exceeds the limit reports it. */
}

/* ---- until a signal */

static volatile sig_atomic_t stop;

static struct {
  const struct by_service *service;
  void *context;
  struct by_loop *loop; /* NULL: none is running. */
  int reload_fd;        /* An eventfd that counts SIGHUP. */
} running = {.reload_fd = -1};

static void notify_loop(int signal_number) {
  int before = errno;
  if (signal_number == SIGHUP)
    (void)!write(running.reload_fd, &(uint64_t){1}, sizeof(uint64_t));
  else if (running.loop)
    by_loop_stop(running.loop);
  else
    stop = 1;
  errno = before;
}

static void handle_signal(int signal_number, void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = signal_number == SIGHUP ? SA_RESTART : 0};
  sigaction(signal_number, &action, NULL);
}

volatile sig_atomic_t *by_stop_on_signals(void) {
  handle_signal(SIGTERM, notify_loop);
  handle_signal(SIGINT, notify_loop);
  return &stop;
}

static void handle_hangup(void *context, uint32_t events) {
  uint64_t times;
  (void)context;
  (void)events;
  if (read(running.reload_fd, &times, sizeof times) == sizeof times) running.service->again(running.context);
}

static enum banyan_status watch_hangup(struct by_watch **out) {
  running.reload_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (running.reload_fd < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot wait for SIGHUP");
  BY_TRY(by_loop_watch(running.loop, running.reload_fd, EPOLLIN, handle_hangup, NULL, out));
  handle_signal(SIGHUP, notify_loop);
  return BANYAN_OK;
}

enum banyan_status by_service_run(const struct by_service *service, void *context) {
  struct rlimit files;
  struct by_watch *hangup = NULL;
  by_log_file_add_times();
  by_allow_files(&files);
  running.service = service;
  running.context = context;
  BY_TRY(by_loop_create(&by_clock_system, &running.loop));
  signal(SIGPIPE, SIG_IGN);
  by_stop_on_signals();
  enum banyan_status status = service->again ? watch_hangup(&hangup) : BANYAN_OK;
  if (status == BANYAN_OK) status = service->start(context, running.loop);
  if (status == BANYAN_OK) status = by_loop_run(running.loop);
  service->stop(context);
  handle_signal(SIGTERM, SIG_DFL);
  handle_signal(SIGINT, SIG_DFL);
  handle_signal(SIGHUP, SIG_DFL);
  by_loop_unwatch(hangup);
  if (running.reload_fd >= 0) close(running.reload_fd);
  by_loop_destroy(running.loop);
  return status;
}
