/* alter_packets [OPTION...]: stands in the way of all that a network namespace forwards. What arrives at its interfaces
 * is routed to a TUN device, altered here, and forwarded. Checksums are made anew, so that TCP and UDP notice nothing.
 * It makes the device and the routes, writes "ready", and works until its input ends. Then it prints what it did.
 *
 *   --flip RATE      flips bits of the payload of TCP and UDP at random, RATE of all (such as 1e-6)
 *   --ports A-B      only to or from these ports; default: all
 *   --skip N         leaves the first N bytes of each UDP payload as they are
 *   --replay RATE    replaces this part of TCP segments by an earlier segment of the same connection and length
 *   --record FOLDER  writes what clients send first over TCP to FOLDER/ADDRESS:PORT-N, to be sent again
 *   --seed N         draws other random numbers
 *
 * A TCP connection in which something was altered must end: one that is alive 10 s later, and carries data, is counted
 * as unnoticed. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/if_tun.h>
#include <math.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "clock.h"
#include "rng.h"

enum { PACKET = 1 << 16, FLOWS = 4096, KEPT = 2048, RECORDED = 1 << 15, NOTICED_S = 10 };

/* One direction of a TCP connection. */
struct flow {
  struct in_addr from, to;
  in_port_t from_port, to_port;
  bool used, ended, is_client, altered, unnoticed;
  uint64_t altered_at;
  size_t kept; /* bytes of an earlier segment */
  uint8_t *segment;
  uint32_t next; /* sequence number of the next byte to be recorded */
  size_t recorded;
  FILE *record;
};

struct counts {
  unsigned long packets, bytes, flipped, altered;
};

static struct {
  double flip, replay;
  unsigned low, high;
  size_t skip;
  const char *folder;
  uint64_t until_flip; /* bits of payload that pass unaltered before the next one */
  struct by_rng rng;
  struct counts tcp, udp;
  unsigned long replayed, n_recordings;
  struct flow flows[FLOWS];
} all = {.high = UINT16_MAX};

static void stop(const char *text) {
  fprintf(stderr, "alter_packets: %s: %s\n", text, strerror(errno));
  exit(1);
}

/* ---- checksums */

static uint32_t add_words(uint32_t sum, const void *bytes, size_t n) {
  const uint8_t *at = bytes;
  for (; n > 1; n -= 2, at += 2) sum += (uint32_t)(at[0] << 8 | at[1]);
  return n ? sum + (uint32_t)(at[0] << 8) : sum;
}

static uint16_t checksum(const struct iphdr *ip, const void *transport, size_t n) {
  uint32_t sum = add_words(add_words(0, &ip->saddr, 8), transport, n) + ip->protocol + (uint32_t)n;
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return htons((uint16_t)~sum);
}

/* ---- altering */

static void draw_flip(void) {
  all.until_flip = all.flip > 0 ? (uint64_t)(-log(1 - by_rng_unit(&all.rng)) / all.flip) : UINT64_MAX;
}

/* Returns the number of bits. */
static unsigned long flip_bits(uint8_t *payload, size_t n, struct counts *counts) {
  unsigned long flipped = 0;
  uint64_t bits = 8 * (uint64_t)n, at = 0;
  counts->bytes += n;
  while (bits - at > all.until_flip) {
    at += all.until_flip;
    payload[at / 8] ^= (uint8_t)(1 << at % 8);
    at++;
    flipped++;
    draw_flip();
  }
  if (all.until_flip != UINT64_MAX) all.until_flip -= bits - at;
  counts->flipped += flipped;
  counts->altered += flipped > 0;
  return flipped;
}

static bool is_chosen(in_port_t from, in_port_t to) {
  unsigned a = ntohs(from), b = ntohs(to);
  return (a >= all.low && a <= all.high) || (b >= all.low && b <= all.high);
}

static struct flow *find_flow(const struct iphdr *ip, const struct tcphdr *tcp) {
  struct flow *spare = NULL;
  for (int i = 0; i < FLOWS; i++) {
    struct flow *flow = &all.flows[i];
    bool same = flow->used && flow->from.s_addr == ip->saddr && flow->to.s_addr == ip->daddr &&
                flow->from_port == tcp->source && flow->to_port == tcp->dest;
    if (same && !(tcp->syn && flow->ended)) return flow;
    if (!spare && (!flow->used || (flow->ended && !flow->altered))) spare = flow;
    if (!flow->used) break;
  }
  if (!spare) return NULL;
  free(spare->segment);
  if (spare->record) fclose(spare->record);
  *spare = (struct flow){.used = true,
                         .from.s_addr = ip->saddr,
                         .to.s_addr = ip->daddr,
                         .from_port = tcp->source,
                         .to_port = tcp->dest,
                         .is_client = tcp->syn && !tcp->ack,
                         .next = ntohl(tcp->seq) + 1};
  return spare;
}

static struct flow *find_reverse(const struct flow *flow) {
  for (int i = 0; i < FLOWS && all.flows[i].used; i++) {
    struct flow *other = &all.flows[i];
    if (other->from.s_addr == flow->to.s_addr && other->to.s_addr == flow->from.s_addr &&
        other->from_port == flow->to_port && other->to_port == flow->from_port && !other->ended)
      return other;
  }
  return NULL;
}

static void record(struct flow *flow, const struct tcphdr *tcp, const uint8_t *payload, size_t n) {
  char path[512];
  if (!all.folder || !flow->is_client || !n || ntohl(tcp->seq) != flow->next || flow->recorded >= RECORDED) return;
  if (!flow->record) {
    snprintf(path, sizeof path, "%s/%s:%u-%lu", all.folder, inet_ntoa(flow->to), ntohs(flow->to_port),
             all.n_recordings++);
    flow->record = fopen(path, "we");
    if (!flow->record) stop(path);
  }
  fwrite(payload, 1, n, flow->record);
  fflush(flow->record);
  flow->next += (uint32_t)n;
  flow->recorded += n;
}

/* Puts an earlier segment in this one's place. */
static bool replay(struct flow *flow, uint8_t *payload, size_t n) {
  bool replayed = false;
  if (n < 100 || n > KEPT) return false;
  if (flow->kept == n && by_rng_unit(&all.rng) < all.replay && memcmp(payload, flow->segment, n) != 0) {
    memcpy(payload, flow->segment, n);
    all.replayed++;
    replayed = true;
  }
  if (!flow->segment) flow->segment = malloc(KEPT);
  if (!flow->segment) stop("memory");
  if (!replayed) memcpy(flow->segment, payload, n);
  flow->kept = n;
  return replayed;
}

static void alter_tcp(const struct iphdr *ip, struct tcphdr *tcp, size_t n) {
  size_t head = 4u * tcp->doff;
  if (head < sizeof *tcp || head > n) return;
  all.tcp.packets++;
  struct flow *flow = find_flow(ip, tcp);
  if (!flow) stop("too many connections");
  uint8_t *payload = (uint8_t *)tcp + head;
  bool altered = false;
  uint64_t now = by_clock_now(&by_clock_system);
  record(flow, tcp, payload, n - head);
  if (is_chosen(tcp->source, tcp->dest)) {
    if (all.replay > 0) altered = replay(flow, payload, n - head);
    altered |= flip_bits(payload, n - head, &all.tcp) > 0;
  }
  if (flow->altered && n > head && now - flow->altered_at > NOTICED_S * BY_SECOND) flow->unnoticed = true;
  if (altered && !flow->altered) flow->altered = true, flow->altered_at = now;
  if (tcp->rst || tcp->fin) {
    struct flow *reverse = tcp->rst ? find_reverse(flow) : NULL;
    flow->ended = true;
    if (reverse) reverse->ended = true;
  }
  if (altered) tcp->check = 0, tcp->check = checksum(ip, tcp, n);
}

static void alter_udp(const struct iphdr *ip, struct udphdr *udp, size_t n) {
  all.udp.packets++;
  if (!is_chosen(udp->source, udp->dest)) return;
  size_t length = n - sizeof *udp, kept = length < all.skip ? length : all.skip;
  if (flip_bits((uint8_t *)(udp + 1) + kept, length - kept, &all.udp) && udp->check)
    udp->check = 0, udp->check = checksum(ip, udp, n);
}

static void alter(uint8_t *packet, size_t n) {
  struct iphdr *ip = (struct iphdr *)packet;
  size_t head = n >= sizeof *ip ? 4u * ip->ihl : 0, length = n >= sizeof *ip ? ntohs(ip->tot_len) : 0;
  if (ip->version != 4 || head < sizeof *ip || length > n || length < head) return;
  size_t rest = length - head;
  if (ip->protocol == IPPROTO_TCP && rest >= sizeof(struct tcphdr))
    alter_tcp(ip, (struct tcphdr *)(packet + head), rest);
  else if (ip->protocol == IPPROTO_UDP && rest >= sizeof(struct udphdr))
    alter_udp(ip, (struct udphdr *)(packet + head), rest);
}

/* ---- the device */

static void run_ip(const char *arguments) {
  char command[256];
  snprintf(command, sizeof command, "ip %s", arguments);
  if (system(command) != 0) stop(command); /* NOLINT(cert-env33-c): fixed commands */
}

static int make_device(void) {
  struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
  char text[IFNAMSIZ + 96];
  int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  strcpy(request.ifr_name, "altered");
  if (fd < 0 || ioctl(fd, TUNSETIFF, &request)) stop("/dev/net/tun");
  run_ip("link set altered up txqueuelen 10000");
  run_ip("route add default dev altered table 100");
  struct if_nameindex *interfaces = if_nameindex();
  for (struct if_nameindex *one = interfaces; one && one->if_index; one++) {
    if (!strcmp(one->if_name, "lo") || !strcmp(one->if_name, "altered")) continue;
    /* A rule of an earlier run may be there. Without the device it leads nowhere, and the next one counts. */
    snprintf(text, sizeof text, "rule add iif %s lookup 100 priority 10 2>/dev/null || true", one->if_name);
    run_ip(text);
  }
  if_freenameindex(interfaces);
  return fd;
}

static void work(int device) {
  static uint8_t packet[PACKET];
  struct pollfd ends[] = {{.fd = device, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
  do {
    (void)poll(ends, 2, -1);
    for (ssize_t n; (n = read(device, packet, sizeof packet)) > 0;) {
      alter(packet, (size_t)n);
      (void)!write(device, packet, (size_t)n);
    }
  } while (!ends[1].revents);
}

static void report(void) {
  unsigned altered = 0, ended = 0, unnoticed = 0;
  for (int i = 0; i < FLOWS && all.flows[i].used; i++) {
    altered += all.flows[i].altered;
    ended += all.flows[i].altered && all.flows[i].ended;
    unnoticed += all.flows[i].unnoticed;
  }
  printf("tcp: %lu packets, %lu bytes, %lu bits flipped, %lu segments replayed\n", all.tcp.packets, all.tcp.bytes,
         all.tcp.flipped, all.replayed);
  printf("udp: %lu packets, %lu bytes, %lu bits flipped, in %lu packets\n", all.udp.packets, all.udp.bytes,
         all.udp.flipped, all.udp.altered);
  printf("connections: %u altered, %u of them ended, %u went on unnoticed\n", altered, ended, unnoticed);
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"flip", 1, NULL, 'f'},   {"ports", 1, NULL, 'p'}, {"replay", 1, NULL, 'r'},
                                          {"record", 1, NULL, 'o'}, {"seed", 1, NULL, 's'},  {"skip", 1, NULL, 'k'},
                                          {NULL, 0, NULL, 0}};
  by_rng_init(&all.rng, 1);
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) >= 0;) {
    if (option == 'f') all.flip = strtod(optarg, NULL);
    if (option == 'r') all.replay = strtod(optarg, NULL);
    if (option == 'k') all.skip = strtoul(optarg, NULL, 10);
    if (option == 'o') all.folder = optarg;
    if (option == 's') by_rng_init(&all.rng, strtoull(optarg, NULL, 10));
    if (option == 'p' && sscanf(optarg, "%u-%u", &all.low, &all.high) != 2) return 2;
    if (option == '?') return 2;
  }
  draw_flip();
  int device = make_device();
  printf("ready\n");
  fflush(stdout);
  work(device);
  report();
  return 0;
}
