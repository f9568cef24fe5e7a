/* Fragments in Ethernet frames, and pairs of interfaces in a separate network namespace. */
#ifndef BY_TESTS_XDP_FRAMES_H
#define BY_TESTS_XDP_FRAMES_H

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>

#include "../prop/fragment_terms.h"

enum { HEADERS = 14 + 20 + 8 };

struct frame {
  uint8_t bytes[HEADERS + sizeof(struct packet) + 128];
  uint32_t length;
};

/* Puts a fragment of `bytes` in a packet whose headers claim `claimed` bytes. */
static inline void wrap(struct frame *frame, const struct packet *packet, uint32_t bytes, uint32_t claimed) {
  struct ethhdr *eth = (struct ethhdr *)frame->bytes;
  struct iphdr ip = {.version = 4, .ihl = 5, .ttl = 9, .protocol = IPPROTO_UDP, .daddr = 0x0100000a};
  struct udphdr udp = {.dest = htons(BY_FRAGMENT_PORT), .len = htons((uint16_t)(claimed + 8)), .check = 77};
  *eth = (struct ethhdr){.h_proto = htons(ETH_P_IP)};
  memcpy(frame->bytes + 14, &ip, sizeof ip);
  memcpy(frame->bytes + 34, &udp, sizeof udp);
  memcpy(frame->bytes + HEADERS, packet, bytes < sizeof *packet ? bytes : sizeof *packet);
  frame->length = HEADERS + bytes;
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

#endif
