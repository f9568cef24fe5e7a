/* Measures what messages cost on this machine, and keeps the result in the machine's file. */
#include "machine_fit.h"

#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "cost.h"
#include "descriptor.h"
#include "log.h"
#include "order.h"
#include "process_identity.h"
#include "thresholds.h"
#include "tls.h"
#include "tls_socket.h"

enum {
  SMALL = 64,      /* Bytes of a small message. */
  LONG = 64 << 10, /* Bytes of a long message, which fits into the buffers of a socket. */
  BATCHES = 4,     /* Batches in a block. */
  MESSAGES = 25,   /* Messages in a batch. */
  TRIPS = 25,      /* Round trips in a block. */
  FLOATS = LONG / sizeof(float),
  BY_FIT_TEXT = 256
};

/* Two connections within this process. What is written to near[i] is read from far[i], and the other way round. One
 * thread measures, and another one has the far end of the second connection. Each stays on a processor of its own, as
 * threads of different hosts do; where the kernel moves them together, a trip takes a third of the time. */
struct fit {
  int near[2], far[2];
  int near_epoll, far_epoll;       /* Epoll descriptors of near[1] and of far[1]. */
  struct by_tls_socket *secure[2]; /* TLS of near[0] and far[0]; NULL: in plain text. */
  cpu_set_t allowed;               /* Processors that this process may use. */
  int processors[2];               /* Processors of the two threads; -1: any. */
  uint64_t until;
  float *bytes, *sum; /* LONG bytes each. */
  struct by_fit_samples *samples;
  enum banyan_status status;
  char error[BY_FIT_TEXT];
};

static enum banyan_status failed(const char *what) {
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "%s", what);
}

/* ---- connections */

static enum banyan_status connect_to(int listener, int *near, int *far) {
  struct sockaddr_in address;
  socklen_t length = sizeof address;
  int on = 1, buffer = 4 * LONG;
  if (getsockname(listener, (struct sockaddr *)&address, &length) != 0) return failed("a socket has no address");
  *near = BY_DESCRIPTOR(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (*near < 0 || connect(*near, (struct sockaddr *)&address, length) != 0) return failed("cannot connect to itself");
  *far = BY_DESCRIPTOR(accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (*far < 0) return failed("cannot take a connection from itself");
  for (int i = 0; i < 2; i++) {
    int fd = i ? *far : *near;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) return failed("cannot set TCP_NODELAY");
  }
  return BANYAN_OK;
}

static enum banyan_status connect_all(struct fit *fit) {
  struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int listener = BY_DESCRIPTOR(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  enum banyan_status status = BANYAN_OK;
  if (listener < 0 || bind(listener, (struct sockaddr *)&any, sizeof any) != 0 || listen(listener, 2) != 0)
    status = failed("cannot listen on 127.0.0.1");
  for (int i = 0; i < 2 && status == BANYAN_OK; i++) status = connect_to(listener, &fit->near[i], &fit->far[i]);
  by_close(listener);
  return status;
}

static enum banyan_status watch(int fd, int *epoll) {
  struct epoll_event event = {.events = EPOLLIN};
  *epoll = BY_DESCRIPTOR(epoll_create1(EPOLL_CLOEXEC));
  if (*epoll < 0 || epoll_ctl(*epoll, EPOLL_CTL_ADD, fd, &event) != 0) return failed("cannot wait for a connection");
  return BANYAN_OK;
}

/* Both ends shake hands in this thread. */
static enum banyan_status shake_hands(struct by_tls *near, struct by_tls *far) {
  char bytes[LONG];
  size_t n = 1, moved = 1;
  while (moved) {
    moved = 0;
    for (int i = 0; i < 2; i++)
      for (; (n = by_tls_take(i ? far : near, bytes, sizeof bytes)) > 0; moved += n)
        BY_TRY(by_tls_feed(i ? near : far, bytes, n));
  }
  return by_tls_done(near) && by_tls_done(far) ? BANYAN_OK : failed("cannot encrypt a connection to itself");
}

static enum banyan_status encrypt(struct fit *fit) {
  struct by_process_identity *identity;
  BY_TRY(by_process_identity_create(&identity));
  struct by_tls *ends[2] = {calloc(1, sizeof *ends[0]), calloc(1, sizeof *ends[1])};
  enum banyan_status status =
      ends[0] && ends[1] ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a TLS connection");
  for (int i = 0; i < 2 && status == BANYAN_OK; i++)
    status = by_tls_init(ends[i], &(struct by_tls_options){.process = identity, .server = i});
  if (status == BANYAN_OK) status = shake_hands(ends[0], ends[1]);
  for (int i = 0; i < 2; i++) {
    if (status == BANYAN_OK)
      status = by_tls_socket_create(ends[i], i ? fit->far[0] : fit->near[0], &fit->secure[i]);
    else
      by_tls_destroy(ends[i]);
  }
  by_process_identity_destroy(identity);
  return status;
}

static void fini(struct fit *fit) {
  by_tls_socket_destroy(fit->secure[0]);
  by_tls_socket_destroy(fit->secure[1]);
  for (int i = 0; i < 2; i++) {
    by_close(fit->near[i]);
    by_close(fit->far[i]);
  }
  by_close(fit->near_epoll);
  by_close(fit->far_epoll);
  free(fit->bytes);
}

/* Chooses the first and the last processor that this thread may use, which are hardly two hyperthreads of one core. */
static void choose_processors(struct fit *fit) {
  fit->processors[0] = fit->processors[1] = -1;
  if (sched_getaffinity(0, sizeof fit->allowed, &fit->allowed) != 0 || CPU_COUNT(&fit->allowed) < 2) return;
  for (int i = 0; i < CPU_SETSIZE; i++) {
    if (!CPU_ISSET(i, &fit->allowed)) continue;
    if (fit->processors[0] < 0) fit->processors[0] = i;
    fit->processors[1] = i;
  }
}

static void stay_on(int processor) {
  cpu_set_t one;
  if (processor < 0) return;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  (void)sched_setaffinity(0, sizeof one, &one);
}

static enum banyan_status init(struct fit *fit, uint64_t max, bool encrypted) {
  *fit = (struct fit){.near = {-1, -1}, .far = {-1, -1}, .near_epoll = -1, .far_epoll = -1};
  fit->until = by_clock_now(&by_clock_system) + max;
  fit->bytes = calloc(2, LONG);
  if (!fit->bytes) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for messages");
  fit->sum = fit->bytes + FLOATS;
  choose_processors(fit);
  BY_TRY(connect_all(fit));
  if (encrypted) BY_TRY(encrypt(fit));
  BY_TRY(watch(fit->near[1], &fit->near_epoll));
  return watch(fit->far[1], &fit->far_epoll);
}

/* ---- the other thread */

/* Sleeps until there is something to read. False: the time is over. */
static bool wait_for(int epoll, uint64_t until) {
  struct epoll_event event;
  uint64_t now = by_clock_now(&by_clock_system);
  if (now >= until) return false;
  int ready = epoll_wait(epoll, &event, 1, (int)((until - now) / BY_MILLISECOND) + 1);
  return ready > 0 || (ready < 0 && errno == EINTR);
}

/* Sends back what comes, until the connection ends or the time is over. */
static void *send_back(void *argument) {
  const struct fit *fit = argument;
  char bytes[SMALL];
  stay_on(fit->processors[1]);
  while (wait_for(fit->far_epoll, fit->until)) {
    ssize_t got = recv(fit->far[1], bytes, sizeof bytes, MSG_DONTWAIT);
    if (got == 0 || (got > 0 && send(fit->far[1], bytes, (size_t)got, MSG_NOSIGNAL | MSG_DONTWAIT) != got)) break;
  }
  return NULL;
}

/* ---- measuring */

static double processor_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static enum banyan_status too_late(void) {
  return by_fail(BANYAN_ERR_TIMEOUT, "measuring what messages cost takes too long");
}

/* Sends and receives `bytes` bytes, both in this thread. */
static enum banyan_status pass(struct fit *fit, size_t bytes) {
  if (send(fit->near[0], fit->bytes, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)bytes)
    return failed("a connection to itself does not take a message");
  for (size_t left = bytes; left;) {
    ssize_t got = recv(fit->far[0], fit->bytes, left, MSG_DONTWAIT);
    if (got > 0) left -= (size_t)got;
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return failed("a connection to itself has ended");
    if (got < 0 && by_clock_now(&by_clock_system) >= fit->until) return too_late();
  }
  return BANYAN_OK;
}

static enum banyan_status pass_encrypted(struct fit *fit, size_t bytes) {
  struct iovec part = {fit->bytes, bytes};
  if (by_tls_socket_send(fit->secure[0], &part, 1) != bytes)
    return failed("an encrypted connection to itself does not take a message");
  for (size_t left = bytes; left;) {
    const char *why;
    (void)by_tls_socket_flush(fit->secure[0]);
    left -= by_tls_socket_receive(fit->secure[1], fit->bytes, left);
    if (by_tls_socket_status(fit->secure[1], &why) != BANYAN_OK)
      return by_fail(BANYAN_ERR_SYSTEM, "an encrypted connection to itself has ended: %s", why);
    if (left && by_clock_now(&by_clock_system) >= fit->until) return too_late();
  }
  return BANYAN_OK;
}

/* Passes a long message, which is added to others when it has arrived. */
static enum banyan_status pass_long(struct fit *fit) {
  BY_TRY(fit->secure[0] ? pass_encrypted(fit, LONG) : pass(fit, LONG));
  for (int i = 0; i < FLOATS; i++) fit->sum[i] += fit->bytes[i];
  return BANYAN_OK;
}

static enum banyan_status pass_bare(struct fit *fit) {
  return pass(fit, SMALL);
}

static enum banyan_status pass_small(struct fit *fit) {
  return fit->secure[0] ? pass_encrypted(fit, SMALL) : pass(fit, SMALL);
}

/* Measures processor seconds for sending or receiving; the minimum of some batches. */
static enum banyan_status measure_passing(struct fit *fit, enum banyan_status (*pass_one)(struct fit *), int messages,
                                          double *out) {
  *out = INFINITY;
  for (int b = 0; b < BATCHES; b++) {
    double before = processor_seconds();
    for (int i = 0; i < messages; i++) BY_TRY(pass_one(fit));
    *out = fmin(*out, (processor_seconds() - before) / (2 * messages));
  }
  return BANYAN_OK;
}

static enum banyan_status measure_trips(struct fit *fit, double *out) {
  *out = INFINITY;
  for (int i = 0; i < TRIPS; i++) {
    uint64_t before = by_clock_now(&by_clock_system);
    ssize_t got = -1;
    if (send(fit->near[1], fit->bytes, SMALL, MSG_NOSIGNAL | MSG_DONTWAIT) != SMALL)
      return failed("a connection to itself does not take a message");
    while (got < 0) {
      if (!wait_for(fit->near_epoll, fit->until)) return too_late();
      got = recv(fit->near[1], fit->bytes, SMALL, MSG_DONTWAIT);
    }
    *out = fmin(*out, (double)(by_clock_now(&by_clock_system) - before) * 1e-9);
  }
  return BANYAN_OK;
}

static enum banyan_status measure_block(struct fit *fit, uint32_t b, struct by_fit_samples *out) {
  double block;
  if (by_clock_now(&by_clock_system) >= fit->until) return too_late();
  BY_TRY(measure_passing(fit, pass_bare, MESSAGES, &out->bare[b])); /* All that TLS has sent was taken. */
  BY_TRY(measure_trips(fit, &out->trip[b]));
  BY_TRY(measure_passing(fit, pass_small, MESSAGES, &out->message[b]));
  BY_TRY(measure_passing(fit, pass_long, 1, &block));
  out->byte[b] = fmax(0, block - out->message[b]) / LONG;
  return BANYAN_OK;
}

static enum banyan_status measure_blocks(struct fit *fit) {
  stay_on(fit->processors[0]);
  for (uint32_t b = 0; b < BY_FIT_BLOCKS; b++) BY_TRY(measure_block(fit, b, fit->samples));
  return BANYAN_OK;
}

static void *measure_all(void *argument) {
  struct fit *fit = argument;
  fit->status = measure_blocks(fit);
  if (fit->status != BANYAN_OK) snprintf(fit->error, sizeof fit->error, "%s", banyan_error_text());
  (void)shutdown(fit->near[1], SHUT_RDWR); /* This ends the other thread. */
  return NULL;
}

/* Waits until the thread has ended. A thread that gets no time on its processor may use any processor once the time is
 * over. */
static void join(const struct fit *fit, pthread_t thread) {
  struct timespec end;
  uint64_t now = by_clock_now(&by_clock_system), left = fit->until > now ? fit->until - now : 0;
  clock_gettime(CLOCK_REALTIME, &end);
  uint64_t nanoseconds = (uint64_t)end.tv_nsec + left;
  end.tv_sec += (time_t)(nanoseconds / BY_SECOND);
  end.tv_nsec = (long)(nanoseconds % BY_SECOND);
  if (pthread_timedjoin_np(thread, NULL, &end) == 0) return;
  if (fit->processors[0] >= 0) (void)pthread_setaffinity_np(thread, sizeof fit->allowed, &fit->allowed);
  (void)pthread_join(thread, NULL);
}

/* Runs both threads until they have ended. */
static enum banyan_status run_threads(struct fit *fit) {
  pthread_t measuring, other;
  int error = by_thread_start(&other, send_back, fit);
  if (error) return by_fail_errno(BANYAN_ERR_SYSTEM, error, "cannot make a thread");
  error = by_thread_start(&measuring, measure_all, fit);
  if (error)
    (void)shutdown(fit->near[1], SHUT_RDWR);
  else
    join(fit, measuring);
  join(fit, other);
  if (error) return by_fail_errno(BANYAN_ERR_SYSTEM, error, "cannot make a thread");
  return fit->status == BANYAN_OK ? BANYAN_OK : by_fail(fit->status, "%s", fit->error);
}

enum banyan_status by_fit_measure(uint64_t max, bool encrypted, struct by_fit_samples *out) {
  struct fit fit;
  enum banyan_status status = init(&fit, max, encrypted);
  fit.samples = out;
  out->encrypted = encrypted;
  if (status == BANYAN_OK) status = run_threads(&fit);
  fini(&fit);
  return status;
}

/* ---- costs */

static double median(const double *samples, uint32_t n) {
  double sorted[BY_FIT_BLOCKS];
  memcpy(sorted, samples, n * sizeof *sorted);
  return by_median(sorted, n);
}

static enum banyan_status check_halves(const char *what, const double samples[BY_FIT_BLOCKS]) {
  double early = median(samples, BY_FIT_BLOCKS / 2), late = median(samples + BY_FIT_BLOCKS / 2, BY_FIT_BLOCKS / 2);
  if (fmax(early, late) <= by_limit_disturbed * fmin(early, late)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_UNSUPPORTED, "%s took %.3g us first and %.3g later: other programs disturb", what,
                 early * 1e6, late * 1e6);
}

static double limit(double cost, double usual, double factor) {
  return MIN(MAX(cost, usual / by_limit_cost_factor), usual * factor);
}

enum banyan_status by_fit_costs(const struct by_fit_samples *samples, struct by_cost_rates *rates) {
  BY_TRY(check_halves("a message", samples->message));
  BY_TRY(check_halves("a round trip", samples->trip));
  BY_TRY(check_halves("a byte", samples->byte));
  double bare = median(samples->bare, BY_FIT_BLOCKS);
  /* A trip has two directions. In each, a vertex has a message's cost beside that of the hop. */
  rates->hop = limit(median(samples->trip, BY_FIT_BLOCKS) / 2 - bare, rates->hop, by_limit_cost_factor);
  rates->message = limit(median(samples->message, BY_FIT_BLOCKS), rates->message, by_limit_cost_factor);
  rates->byte = limit(median(samples->byte, BY_FIT_BLOCKS), rates->byte,
                      samples->encrypted ? by_limit_cost_factor * by_limit_cost_factor : by_limit_cost_factor);
  return BANYAN_OK;
}

/* ---- the file */

static enum banyan_status keep(const struct by_cost_machine *machine, const struct by_cost_rates *rates) {
  char costs[128];
  snprintf(costs, sizeof costs, "hop=%.3gus,message=%.3gus,byte=%.3gns", 1e6 * rates->hop, 1e6 * rates->message,
           1e9 * rates->byte);
  BY_TRY(by_machine_costs_keep(machine, costs));
  by_info("plan", "measured the costs of this machine%s: %s", machine->encrypted ? ", encrypted" : "", costs);
  return BANYAN_OK;
}

void by_machine_fit(uint64_t max) {
  const struct by_cost_machine machine = by_machine_get();
  struct by_cost_rates rates = by_cost_defaults();
  struct by_fit_samples samples;
  char path[BY_MACHINE_MAX_PATH];
  if (by_machine_costs_path(&machine, path) != BANYAN_OK) return;
  enum banyan_status status = by_machine_costs_read(&machine, path, &rates);
  if (status == BANYAN_OK) return;
  if (status != BANYAN_ERR_ARGUMENT) {
    by_warn("plan", "the costs of this machine are measured again: %s", banyan_error_text());
    (void)unlink(path); /* The usual costs are used if they cannot be measured now. */
  }
  status = by_fit_measure(max, machine.encrypted, &samples);
  if (status == BANYAN_OK) status = by_fit_costs(&samples, &rates);
  if (status == BANYAN_OK) status = keep(&machine, &rates);
  if (status != BANYAN_OK) by_info("plan", "the usual costs are used: %s", banyan_error_text());
}
