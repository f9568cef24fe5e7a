/* priority_bench: measures the rates of two TCP streams on a link of 100 Mbit/s, one in the highest class and one
 * in the lowest, and how soon the rates swap after the marks of live connections do.
 *
 * The bench runs in network namespaces of its own and needs root. It prints one JSON object. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "host_links.h"

enum { STREAMS = 2, PORT = 4711, SAMPLE_MS = 20, SETTLE_MS = 2000, FLIPS = 6, SAMPLES = SETTLE_MS / SAMPLE_MS };

static const struct by_host_queues queues = {.rate = 100e6, .guarantee = 0.05};

static void must_hold(bool well, const char *what) {
  if (well) return;
  fprintf(stderr, "priority_bench: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void run(const char *format, int number) {
  char command[300];
  snprintf(command, sizeof command, format, number);
  must_hold(system(command) == 0, command);
}

/* ---- the other host: receives everything */

static void take(int fd) {
  static char bytes[1 << 16];
  while (read(fd, bytes, sizeof bytes) > 0) continue;
}

static void be_other_host(int ready, int go) {
  char byte = 0;
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  must_hold(!unshare(CLONE_NEWNET), "no network namespace");
  must_hold(write(ready, &byte, 1) == 1 && read(go, &byte, 1) == 1, "talking to the bench");
  run("ip link set q up && ip addr add 10.9.0.2/24 dev q", 0);
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  must_hold(!bind(listener, (struct sockaddr *)&at, sizeof at) && !listen(listener, STREAMS), "listening");
  must_hold(write(ready, &byte, 1) == 1, "talking to the bench");
  for (;;) {
    int fd = accept(listener, NULL, NULL);
    if (fd < 0 || fork()) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    take(fd);
    _exit(0);
  }
}

static pid_t start_other_host(void) {
  int ready[2], go[2];
  char byte = 0;
  must_hold(!pipe(ready) && !pipe(go), "pipes");
  pid_t child = fork();
  must_hold(child >= 0, "fork");
  if (!child) be_other_host(ready[1], go[0]);
  must_hold(read(ready[0], &byte, 1) == 1, "the other host");
  run("ip link add p type veth peer name q netns %d", (int)child);
  run("ip link set p up && ip addr add 10.9.0.1/24 dev p", 0);
  must_hold(write(go[1], &byte, 1) == 1 && read(ready[0], &byte, 1) == 1, "the other host");
  return child;
}

/* ---- streams */

static int start_stream(void) {
  static char bytes[1 << 16];
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  must_hold(inet_pton(AF_INET, "10.9.0.2", &to.sin_addr) == 1, "the address");
  must_hold(!connect(fd, (struct sockaddr *)&to, sizeof to), "connecting");
  if (fork()) return fd;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (write(fd, bytes, sizeof bytes) > 0) continue;
  _exit(0);
}

static void mark(int fd, uint32_t class_) {
  int tos = by_priority_tos(class_);
  must_hold(!setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof tos), "marking");
}

/* ---- sampling */

struct sample {
  uint64_t at;
  struct by_host_queues_sent sent;
};

static void sample(struct by_netlink *netlink, unsigned interface, struct sample *out) {
  usleep(SAMPLE_MS * 1000);
  must_hold(by_host_queues_read(netlink, interface, &out->sent) == BANYAN_OK, banyan_error_text());
  out->at = by_clock_now(&by_clock_system);
}

static double rate(const struct sample *a, const struct sample *b, uint32_t class_) {
  return (double)(b->sent.bytes[class_] - a->sent.bytes[class_]) * 8e9 / (double)(b->at - a->at);
}

/* Returns the first sample from which on the classes have their shares, within a tenth of the link, over fifths of
 * a second. */
static double settled(const struct sample *samples, uint32_t low) {
  int n = 200 / SAMPLE_MS, i = SAMPLES - n;
  while (i > 0 && rate(&samples[i - 1], &samples[i - 1 + n], low) < 0.15 * queues.rate) i--;
  return (double)(samples[i].at - samples[0].at) * 1e-9;
}

static void measure(struct by_netlink *netlink, unsigned interface, const int *streams) {
  static struct sample samples[SAMPLES + 1];
  printf("{\"rate\": %g, \"flips\": [", queues.rate);
  for (int flip = 0; flip <= FLIPS; flip++) {
    const uint32_t high = 0, low = BY_PRIORITY_CLASSES - 1;
    mark(streams[flip % 2], high);
    mark(streams[1 - flip % 2], low);
    for (int i = 0; i <= SAMPLES; i++) sample(netlink, interface, &samples[i]);
    const struct sample *half = &samples[SAMPLES / 2], *end = &samples[SAMPLES];
    if (!flip) continue; /* This is the beginning of both phases. */
    printf("%s\n  {\"seconds\": %.2f, \"high\": %.1f, \"low\": %.1f, \"all\": %.1f}", flip > 1 ? "," : "",
           settled(samples, low), rate(half, end, high) / 1e6, rate(half, end, low) / 1e6,
           (rate(&samples[0], end, high) + rate(&samples[0], end, low)) / 1e6);
  }
  printf("]}\n");
}

int main(void) {
  struct by_netlink netlink;
  must_hold(!unshare(CLONE_NEWNET), "no network namespace; are you root?");
  pid_t other = start_other_host();
  must_hold(by_netlink_open(&netlink) == BANYAN_OK, banyan_error_text());
  unsigned interface = if_nametoindex("p");
  must_hold(by_host_queues_set(&netlink, interface, &queues) == BANYAN_OK, banyan_error_text());
  int streams[STREAMS] = {start_stream(), start_stream()};
  measure(&netlink, interface, streams);
  kill(other, SIGKILL);
  by_netlink_close(&netlink);
  return 0;
}
