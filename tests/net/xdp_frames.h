/* Fragments in Ethernet frames, and pairs of interfaces in a separate network namespace. */
#ifndef BY_TESTS_XDP_FRAMES_H
#define BY_TESTS_XDP_FRAMES_H

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>

#include "../prop/fragment_terms.h"

enum { MOST_HEADERS = 14 + 40 + 8 };

struct frame {
  uint8_t bytes[MOST_HEADERS + sizeof(struct packet) + 128];
  uint32_t length;
  bool six; /* of IPv6 */
};

static inline uint32_t udp_at(const struct frame *frame) {
  return frame->six ? 14 + 40 : 14 + 20;
}

static inline uint32_t fragment_at(const struct frame *frame) {
  return udp_at(frame) + 8;
}

/* Puts a fragment of `bytes` in a packet of IPv4 or IPv6 whose headers claim `claimed` bytes. */
static inline void wrap(struct frame *frame, bool six, const struct packet *packet, uint32_t bytes, uint32_t claimed) {
  struct ethhdr *eth = (struct ethhdr *)frame->bytes;
  struct iphdr ip = {.version = 4, .ihl = 5, .ttl = 9, .protocol = IPPROTO_UDP, .daddr = 0x0100000a};
  struct udphdr udp = {.dest = htons(BY_FRAGMENT_PORT), .len = htons((uint16_t)(claimed + 8)), .check = 77};
  struct ip6_hdr ip6 = {.ip6_flow = htonl(6u << 28), .ip6_nxt = IPPROTO_UDP, .ip6_hlim = 9};
  ip6.ip6_plen = udp.len;
  ip6.ip6_dst.s6_addr[0] = 0xfd;
  *eth = (struct ethhdr){.h_proto = htons(six ? ETH_P_IPV6 : ETH_P_IP)};
  frame->six = six;
  memcpy(frame->bytes + 14, six ? (void *)&ip6 : (void *)&ip, udp_at(frame) - 14);
  memcpy(frame->bytes + udp_at(frame), &udp, sizeof udp);
  memcpy(frame->bytes + fragment_at(frame), packet, bytes < sizeof *packet ? bytes : sizeof *packet);
  frame->length = fragment_at(frame) + bytes;
}

/* Makes a veth pair p<number> and q<number>. p has the address 2:0:0:0:0:<number>. Returns false if this machine does
 * not permit it. */
static inline bool make_pair(uint32_t number) {
  char command[200];
  snprintf(command, sizeof command,
           "ip link add p%u address 02:00:00:00:00:%02x type veth peer name q%u && ip link set p%u up && "
           "ip link set q%u up",
           number, number, number, number, number);
  return system(command) == 0; /* NOLINT: the tests' own command */
}

/* Has the kernel run a program of XDP on a frame that comes from an interface, and puts what that makes of it in its
 * place. Returns the action; *length: of what came out, 0 if the kernel refused to run it. */
static inline uint32_t run_program(int program, unsigned interface, struct frame *frame, uint32_t *length) {
  struct xdp_md context = {.data_end = frame->length, .ingress_ifindex = interface};
  struct bpf_test_run_opts options = {.sz = sizeof options,
                                      .data_in = frame->bytes,
                                      .data_size_in = frame->length,
                                      .data_out = frame->bytes,
                                      .data_size_out = sizeof frame->bytes,
                                      .ctx_in = &context,
                                      .ctx_size_in = sizeof context};
  bool done = bpf_prog_test_run_opts(program, &options) == 0;
  *length = done ? options.data_size_out : 0;
  return done ? options.retval : XDP_ABORTED;
}

#endif
