#include "xdp_switch.h"

SEC("xdp") int by_xdp_switch(struct xdp_md *ctx) {
  return switch_frame(ctx);
}

/* The IP header's checksum, anew: ten 16-bit words. */
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

/* A copy of a result is about to leave: gives it its member's address. */
static inline int address_copy(struct xdp_md *ctx, uint32_t twin) {
  void *data = frame_start(ctx);
  struct iphdr *ip = data + IP_AT;
  struct udphdr *udp = data + UDP_AT;
  const struct by_fragment *fragment = data + FRAGMENT_AT;
  if (data + PAYLOAD_AT > frame_end(ctx)) return XDP_DROP;
  uint32_t job = fragment->job;
  const struct by_grant *grant = bpf_map_lookup_elem(&grants, &job);
  if (!grant) return XDP_DROP;
  struct by_xdp_member member = {.group = grant->group, .interface = ctx->egress_ifindex, .twin = twin};
  const struct by_xdp_address *to = bpf_map_lookup_elem(&members, &member);
  if (!to) return XDP_DROP;
  write_ethernet(data, &to->neighbour);
  ip->daddr = to->address;
  ip->check = ip_checksum(ip);
  udp->dest = to->udp_port;
  return XDP_PASS;
}

#define TWIN(n)                                                                                                        \
  SEC("xdp/devmap") int by_xdp_twin_##n(struct xdp_md *ctx) {                                                          \
    return address_copy(ctx, n);                                                                                       \
  }
TWIN(0)
TWIN(1)
TWIN(2)
TWIN(3)

const char by_xdp_license[] SEC("license") = "Apache-2.0";
