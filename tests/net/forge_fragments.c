/* forge_fragments [OPTION...] NETNS INTERFACE SERVER WORKER...
 *
 * Sends forged fragments against a job whose trees go through a switch. It runs on a host that has no part in the
 * job. The fragments are modelled on the newest term that a worker sends through INTERFACE in the network namespace
 * NETNS: each differs from this term in one field, and has a new seal or the term's MAC. They are sent in turn to
 * SERVER along the switches' stack, to SERVER past the switches, and to each WORKER as if the server had sent them;
 * every other one from the address of the first WORKER, or of the server. Addresses are IPv4.
 *
 *   --fragments N   the number of fragments to send (2000)
 *   --rate N        fragments per second (1000)
 *   --magic         all fragments have a wrong magic number instead: the same load without an effect
 *   --replay        all fragments are terms as they were observed, some time later
 *   --open          all fragments have changed numbers and a check made with the publicly known key of exact mode */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "sum_key.h"

enum {
  HEADERS = sizeof(struct ethhdr) + sizeof(struct iphdr) + sizeof(struct udphdr),
  WORKERS = 16,
  TIMEOUT_S = 30,
  KEPT = 256
};

enum mode { EACH_FIELD, WRONG_MAGIC, OPEN_CHECK, REPLAY };

struct packet {
  _Alignas(64) struct by_fragment head;
  unsigned char payload[BY_FRAGMENT_LINES * BY_FRAGMENT_LINE];
};

struct forger {
  enum mode mode;
  int capture, socket, as_worker, as_server;
  struct sockaddr_in server, workers[WORKERS];
  unsigned n_workers;
  struct by_sum_key open;
  struct packet model, kept[KEPT]; /* the last packet that was observed; the last ones, for replays */
  uint64_t observed, sent;
};

static void stop(const char *text) {
  fprintf(stderr, "forge_fragments: %s: %s\n", text, strerror(errno));
  exit(1);
}

/* ---- observing a worker */

static void open_capture(struct forger *forger, const char *netns, const char *interface) {
  char path[200];
  int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), room = 16 << 20;
  snprintf(path, sizeof path, "/run/netns/%s", netns);
  int there = open(path, O_RDONLY | O_CLOEXEC);
  if (here < 0 || there < 0 || setns(there, CLONE_NEWNET)) stop(path);
  struct sockaddr_ll address = {
      .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(interface)};
  forger->capture = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
  if (!address.sll_ifindex || forger->capture < 0) stop(interface);
  if (bind(forger->capture, (struct sockaddr *)&address, sizeof address)) stop("bind");
  (void)setsockopt(forger->capture, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
  if (setns(here, CLONE_NEWNET)) stop("setns");
  close(there);
  close(here);
}

/* A sender may hand many fragments to the kernel as one packet. The first fragment is enough. */
static void observe(struct forger *forger) {
  static unsigned char frame[1 << 16];
  for (;;) {
    ssize_t n = recv(forger->capture, frame, sizeof frame, MSG_DONTWAIT);
    if (n < 0) return;
    struct packet packet;
    size_t bytes = (size_t)n > HEADERS ? (size_t)n - HEADERS : 0;
    if (bytes > sizeof packet) bytes = sizeof packet;
    memcpy(&packet, frame + HEADERS, bytes);
    if (bytes < sizeof packet.head || by_fragment_check_fields(&packet.head, by_fragment_bytes(&packet.head))) continue;
    if (packet.head.type != BY_FRAGMENT_UP || bytes < by_fragment_bytes(&packet.head)) continue;
    forger->model = packet;
    forger->kept[forger->observed++ % KEPT] = packet;
  }
}

/* ---- forging fragments */

/* Offsets and lengths of the fields of a fragment. The last fields belong to the payload: numbers, and the exponents at
 * its end. */
static const struct field {
  const char *name;
  int at, bytes;
} fields[] = {
    {"type", 2, 1},   {"flags", 3, 1},  {"hops", 4, 1},  {"rank", 5, 1},    {"group", 6, 1},     {"exponent", 7, 1},
    {"job", 8, 2},    {"key", 10, 2},   {"slot", 12, 2}, {"dtype", 14, 1},  {"lines", 15, 1},    {"workers", 16, 8},
    {"check", 24, 8}, {"epoch", 32, 4}, {"call", 36, 4}, {"stack", 48, 16}, {"numbers", 64, 64}, {"exponents", -8, 8},
};

enum { FIELDS = sizeof fields / sizeof *fields };

static uint64_t dice(void) {
  static uint64_t x = 88172645463325252;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return x;
}

/* Starts a forged packet. Most terms are for the coming epoch, so that they arrive before the genuine terms. */
static void begin(const struct forger *forger, struct packet *packet) {
  *packet = forger->model;
  packet->head.epoch += dice() % 4 > 0;
  packet->head.flags &= (uint8_t)~BY_FRAGMENT_UNMERGED;
}

static void change(struct packet *packet, const struct field *field) {
  unsigned char *bytes = (unsigned char *)packet;
  int at = field->at < 0 ? (int)by_fragment_bytes(&packet->head) + field->at : field->at;
  uint64_t how = dice();
  if (how % 4 == 0) {
    for (int i = 0; i < field->bytes; i++) bytes[at + i] = (unsigned char)dice();
  } else {
    bytes[at + (int)(how / 4 % (unsigned)field->bytes)] ^= (unsigned char)(1 << how / 256 % 8);
  }
}

/* Turns the packet into what a server would send, as far as an observer can know it. */
static void answer(struct packet *packet) {
  static const uint8_t types[] = {BY_FRAGMENT_RESULT, BY_FRAGMENT_RESULT_MC, BY_FRAGMENT_PROBE_REPLY, BY_FRAGMENT_NACK};
  packet->head.type = types[dice() % 4];
  packet->head.hops = packet->head.hop = 0;
  packet->head.flags = (uint8_t)(dice() % 2 ? dice() % 64 : 0);
  if (packet->head.type <= BY_FRAGMENT_RESULT_MC || dice() % 2) packet->head.workers |= (1ull << (dice() % 8)) - 1;
  if (packet->head.type == BY_FRAGMENT_NACK) packet->head.lines = 0;
  if (packet->head.type == BY_FRAGMENT_PROBE_REPLY) packet->head.lines = BY_PROBE_LINES;
}

static void send_to(struct forger *forger, const struct packet *packet, const struct sockaddr_in *to) {
  size_t bytes = by_fragment_bytes(&packet->head);
  int as_end = to == &forger->server ? forger->as_worker : forger->as_server;
  if (bytes > sizeof *packet) bytes = sizeof *packet;
  (void)!sendto(forger->sent / 6 % 2 ? as_end : forger->socket, packet, bytes, MSG_DONTWAIT,
                (const struct sockaddr *)to, sizeof *to);
  forger->sent++;
}

static void forge(struct forger *forger) {
  struct packet packet;
  uint64_t turn = forger->sent / 3, way = forger->sent % 3;
  const struct sockaddr_in *to = way == 2 ? &forger->workers[turn % forger->n_workers] : &forger->server;
  begin(forger, &packet);
  if (forger->mode == REPLAY) {
    packet = forger->kept[dice() % (forger->observed < KEPT ? forger->observed : KEPT)];
    send_to(forger, &packet, to);
    return;
  }
  if (forger->mode == OPEN_CHECK) {
    to = &forger->server;
    packet.payload[dice() % 32] ^= 0x40;
    packet.head.check = by_sum_check(&forger->open, &packet.head, packet.head.workers);
  } else {
    if (way == 2) answer(&packet);
    change(&packet, &fields[turn % FIELDS]);
  }
  if (way == 1) packet.head.hops = 0;
  if (dice() % 2) by_fragment_seal(&packet.head);
  if (forger->mode == WRONG_MAGIC) packet.head.magic ^= 1;
  send_to(forger, &packet, to);
}

static void run(struct forger *forger, uint64_t fragments, uint64_t rate) {
  uint64_t start = by_clock_now(&by_clock_system), begun = 0;
  while (forger->sent < fragments) {
    uint64_t now = by_clock_now(&by_clock_system);
    observe(forger);
    if (!begun && forger->observed) begun = now;
    if (!begun && now - start > TIMEOUT_S * BY_SECOND) {
      errno = ETIMEDOUT;
      stop("there is no term to observe");
    }
    while (begun && forger->sent < fragments && forger->sent < (now - begun) * rate / BY_SECOND) forge(forger);
    usleep(300);
  }
}

/* ---- command line */

static struct sockaddr_in address(const char *text) {
  struct sockaddr_in out = {.sin_family = AF_INET, .sin_port = htons(BY_FRAGMENT_PORT)};
  if (inet_pton(AF_INET, text, &out.sin_addr) == 1) return out;
  errno = EINVAL;
  stop(text);
  return out;
}

/* What it sends is from this address, which another host may have. */
static int open_as(const struct sockaddr_in *end) {
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), yes = 1;
  if (fd < 0 || setsockopt(fd, SOL_IP, IP_TRANSPARENT, &yes, sizeof yes)) stop("IP_TRANSPARENT");
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes)) stop("SO_REUSEADDR");
  if (bind(fd, (const struct sockaddr *)end, sizeof *end)) stop("bind");
  return fd;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"fragments", 1, NULL, 'n'}, {"rate", 1, NULL, 'r'},
                                          {"magic", 0, NULL, 'm'},     {"open", 0, NULL, 'o'},
                                          {"replay", 0, NULL, 'p'},    {NULL, 0, NULL, 0}};
  static struct forger forger;
  uint64_t fragments = 2000, rate = 1000;
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) >= 0;) {
    if (option == 'n') fragments = strtoull(optarg, NULL, 10);
    if (option == 'r') rate = strtoull(optarg, NULL, 10);
    if (option == 'm') forger.mode = WRONG_MAGIC;
    if (option == 'o') forger.mode = OPEN_CHECK;
    if (option == 'p') forger.mode = REPLAY;
    if (option == '?') return 2;
  }
  argv += optind;
  argc -= optind;
  if (argc < 4 || argc > 3 + WORKERS) {
    fprintf(stderr, "usage: forge_fragments [--fragments N] [--rate N] [--magic|--open|--replay] NETNS INTERFACE "
                    "SERVER WORKER...\n");
    return 2;
  }
  if (by_sum_key_init_open(&forger.open)) return 1;
  open_capture(&forger, argv[0], argv[1]);
  forger.server = address(argv[2]);
  for (int i = 3; i < argc; i++) forger.workers[forger.n_workers++] = address(argv[i]);
  forger.socket = open_as(&(struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(BY_FRAGMENT_PORT)});
  forger.as_worker = open_as(&forger.workers[0]);
  forger.as_server = open_as(&forger.server);
  run(&forger, fragments, rate);
  printf("%llu forged fragments sent, modelled on %llu\n", (unsigned long long)forger.sent,
         (unsigned long long)forger.observed);
  return 0;
}
