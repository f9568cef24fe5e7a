/* The XDP programs of the switch: one for arriving frames, and one for leaving frames. */
#include "xdp_switch.h"

SEC("xdp") int by_xdp_switch(struct xdp_md *ctx) {
  return switch_frame(ctx);
}

/* Computes the IP header's checksum over ten 16-bit words. */
static inline uint16_t ip_checksum(struct iphdr *ip) {
  const uint16_t *word = (const uint16_t *)ip;
  uint32_t sum = 0;
  ip->check = 0;
#pragma unroll
  for (int i = 0; i < 10; i++) sum += word[i];
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return (uint16_t)~sum;
}

/* Returns the number of this copy of a result among those that leave by one port: they are processed in sequence by one
 * core. */
static inline uint32_t number_copy(const struct by_fragment *fragment, uint32_t port) {
  struct by_xdp_copy *last = bpf_map_lookup_elem(&copies, &port);
  if (!last) return 0;
  if (last->mac != fragment->mac || last->epoch != fragment->epoch) last->count = 0;
  last->mac = fragment->mac;
  last->epoch = fragment->epoch;
  return last->count++;
}

static inline const struct by_xdp_address *address_of(const struct by_fragment *fragment, uint32_t interface) {
  const struct by_xdp_port *port = bpf_map_lookup_elem(&ports, &interface);
  const struct by_xdp_grant *granted = grant_of(fragment->job);
  if (!port || !granted) return NULL;
  struct by_xdp_member member = {.group = granted->grant.group, .port = port->number};
  const struct by_xdp_address *first = bpf_map_lookup_elem(&members, &member);
  if (!first || first->members < 2) return first;
  member.number = number_copy(fragment, port->number) % first->members;
  return bpf_map_lookup_elem(&members, &member);
}

static __always_inline void write_receiver(void *data, uint32_t ip, const struct by_xdp_host *host) {
  struct iphdr *four = data + IP_AT;
  struct ipv6hdr *six = data + IP_AT;
  if (ip == IP6) {
    __builtin_memcpy(&six->daddr, host, sizeof *host);
    return;
  }
  four->daddr = host->words[3];
  four->check = ip_checksum(four);
}

/* Sets the address of a multicast result to its member's; others have theirs. */
static __always_inline int process_leaving(struct xdp_md *ctx, uint32_t ip) {
  void *data = frame_start(ctx);
  struct udphdr *udp = data + UDP_AT(ip);
  const struct by_fragment *fragment = data + FRAGMENT_AT(ip);
  if (data + PAYLOAD_AT(ip) > frame_end(ctx)) return XDP_DROP;
  if (fragment->type != BY_FRAGMENT_RESULT_MC) return XDP_PASS;
  const struct by_xdp_address *to = address_of(fragment, ctx->egress_ifindex);
  if (!to) return drop_unsent();
  write_ethernet(data, &to->neighbour);
  write_receiver(data, ip, &to->address);
  udp->dest = to->udp_port;
  return XDP_PASS;
}

/* Processes a frame that is about to leave. */
SEC("xdp/devmap") int by_xdp_leave(struct xdp_md *ctx) {
  const struct ethhdr *eth = frame_start(ctx);
  if ((const void *)(eth + 1) > frame_end(ctx)) return XDP_DROP;
  return eth->h_proto == bpf_htons(ETH_P_IPV6) ? process_leaving(ctx, IP6) : process_leaving(ctx, IP4);
}

const char by_xdp_license[] SEC("license") = "Apache-2.0";
