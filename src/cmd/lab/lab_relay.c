/* Runs the relay process, which carries packets between TAP interfaces through delay lines. */
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

void by_delay_line_init(struct by_delay_line *line, uint64_t delay, double loss, uint64_t seed) {
  *line = (struct by_delay_line){.delay = delay, .loss = loss};
  STAILQ_INIT(&line->packets);
  by_rng_init(&line->rng, seed);
}

void by_delay_line_fini(struct by_delay_line *line) {
  for (struct by_line_packet *packet; (packet = by_delay_line_take(line, UINT64_MAX));) free(packet);
}

bool by_delay_line_put(struct by_delay_line *line, const void *bytes, size_t length, uint64_t now) {
  if (line->loss > 0 && by_rng_unit(&line->rng) < line->loss) return false;
  if (line->held + length > BY_LINE_MAX_BYTES) return false;
  struct by_line_packet *packet = malloc(sizeof *packet + length);
  if (!packet) return false;
  packet->due = now + line->delay;
  packet->length = length;
  memcpy(packet->bytes, bytes, length);
  STAILQ_INSERT_TAIL(&line->packets, packet, next);
  line->held += length;
  return true;
}

uint64_t by_delay_line_due(const struct by_delay_line *line) {
  return STAILQ_EMPTY(&line->packets) ? UINT64_MAX : STAILQ_FIRST(&line->packets)->due;
}

struct by_line_packet *by_delay_line_take(struct by_delay_line *line, uint64_t now) {
  struct by_line_packet *packet = STAILQ_FIRST(&line->packets);
  if (!packet || packet->due > now) return NULL;
  STAILQ_REMOVE_HEAD(&line->packets, next);
  line->held -= packet->length;
  return packet;
}

enum { MAX_PACKET = 66 << 10, MAX_EVENTS = 64, READS_AT_ONCE = 32, PRIORITY = -15 };

enum banyan_status by_tap_make(const char *name, unsigned interface, bool whole, int *out) {
  struct ifreq wanted = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
  int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "links with delay need /dev/net/tun (or --plain)");
  snprintf(wanted.ifr_name, sizeof wanted.ifr_name, "%s", name);
  unsigned long offload = whole ? TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO_ECN : 0;
  if (ioctl(fd, TUNSETIFINDEX, &interface) || ioctl(fd, TUNSETIFF, &wanted) || ioctl(fd, TUNSETOFFLOAD, offload)) {
    int reason = errno;
    close(fd);
    return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot make a TAP interface, which a link with delay needs");
  }
  *out = fd;
  return BANYAN_OK;
}

/* ---- the process */

struct direction {
  int from, to;
  struct by_delay_line line;
  uint64_t *lost;
};

struct relay {
  struct direction *directions; /* Two of each link. */
  size_t n;
  int epoll;
  unsigned char *packet;
};

static void take_in(struct relay *relay, struct direction *d) {
  uint64_t now = by_clock_now(&by_clock_system);
  for (int i = 0; i < READS_AT_ONCE; i++) {
    ssize_t n = read(d->from, relay->packet, MAX_PACKET);
    if (n <= 0) return;
    if (!by_delay_line_put(&d->line, relay->packet, (size_t)n, now)) ++*d->lost;
  }
}

/* Sends packets that are due; returns when the next packet is due. */
static uint64_t send_due(struct relay *relay) {
  uint64_t next = UINT64_MAX;
  for (size_t i = 0; i < relay->n; i++) {
    struct direction *d = &relay->directions[i];
    struct by_line_packet *packet;
    while ((packet = by_delay_line_take(&d->line, by_clock_now(&by_clock_system)))) {
      if (write(d->to, packet->bytes, packet->length) < 0) ++*d->lost;
      free(packet);
    }
    uint64_t due = by_delay_line_due(&d->line);
    if (due < next) next = due;
  }
  return next;
}

static void wait_until(struct relay *relay, uint64_t due) {
  struct epoll_event events[MAX_EVENTS];
  uint64_t now = by_clock_now(&by_clock_system), left = due > now ? due - now : 0;
  struct timespec timeout = {.tv_sec = (time_t)(left / BY_SECOND), .tv_nsec = (long)(left % BY_SECOND)};
  struct pollfd ready = {.fd = relay->epoll, .events = POLLIN};
  /* epoll_wait() counts in milliseconds, and epoll_pwait2() needs glibc 2.35. */
  (void)ppoll(&ready, 1, due == UINT64_MAX ? NULL : &timeout, NULL);
  int n = epoll_wait(relay->epoll, events, MAX_EVENTS, 0);
  for (int i = 0; i < n; i++) take_in(relay, events[i].data.ptr);
}

static bool open_relay(struct relay *relay, const struct by_relay_link *links, uint32_t n, uint64_t *lost) {
  relay->n = 2 * (size_t)n;
  relay->directions = calloc(relay->n, sizeof *relay->directions);
  relay->packet = malloc(MAX_PACKET);
  relay->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (!relay->directions || !relay->packet || relay->epoll < 0) return false;
  for (size_t i = 0; i < relay->n; i++) {
    const struct by_relay_link *link = &links[i / 2];
    struct direction *d = &relay->directions[i];
    *d = (struct direction){.from = link->fds[i % 2], .to = link->fds[!(i % 2)], .lost = &lost[i]};
    by_delay_line_init(&d->line, by_clock_from_seconds(link->delay), link->loss, i + 1);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = d};
    if (epoll_ctl(relay->epoll, EPOLL_CTL_ADD, d->from, &event)) return false;
  }
  return true;
}

/* Detaches the process: the terminal's signals are for the lab, which ends it; nobody must wait for its output. */
static void detach_process(pid_t parent) {
  int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int i = 0; i <= STDERR_FILENO; i++) dup2(nothing, i);
  setsid();
  prctl(PR_SET_NAME, "banyan-relay");
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);            /* The parent died before prctl took effect. */
  (void)setpriority(PRIO_PROCESS, 0, PRIORITY); /* Waiting for a core would add delay. */
}

static _Noreturn void run_relay(const struct by_relay_link *links, uint32_t n, uint64_t *lost, pid_t parent) {
  struct relay relay = {.n = 0};
  detach_process(parent);
  if (!open_relay(&relay, links, n, lost)) _exit(1);
  for (;;) wait_until(&relay, send_due(&relay));
}

enum banyan_status by_relay_start(const struct by_relay_link *links, uint32_t n, uint64_t *lost, pid_t *out) {
  pid_t parent = getpid(), pid = fork();
  if (pid == 0) run_relay(links, n, lost, parent);
  if (pid < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot start the process that delays packets");
  *out = pid;
  return BANYAN_OK;
}

bool by_relay_lives(pid_t relay) {
  siginfo_t info = {0};
  return !waitid(P_PID, (id_t)relay, &info, WEXITED | WNOHANG | WNOWAIT) && !info.si_pid;
}

void by_relay_stop(pid_t relay) {
  kill(relay, SIGKILL);
  waitpid(relay, NULL, 0);
}
