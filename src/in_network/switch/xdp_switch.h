/* The switch in XDP: cell.h between an Ethernet frame and a port to leave by.
 * Included by the programs that are loaded, xdp_switch.bpf.c and that of the
 * bench; xdp_maps.h describes what the loader puts in the maps. */
#ifndef BY_SWITCH_XDP_SWITCH_H
#define BY_SWITCH_XDP_SWITCH_H

/* clang-format off */
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
/* clang-format on */

#include "cell.h"
#include "xdp_maps.h"

/* Arrays where a packet has to look, since looking there is no call: a hash costs some 20 ns. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, BY_XDP_JOBS);
  __type(key, uint32_t);
  __type(value, uint32_t); /* where its grant is; 0: it has none */
} jobs SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, BY_XDP_GRANTS);
  __type(key, uint32_t);
  __type(value, struct by_xdp_grant);
} grants SEC(".maps");

struct cell_value {
  struct bpf_spin_lock lock;
  uint32_t reserved;
  struct by_cell cell;
  uint64_t sum[BY_CELL_PAIRS];
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1); /* the loader sets how many */
  __type(key, uint32_t);
  __type(value, struct cell_value);
} cells SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, BY_XDP_INTERFACES);
  __type(key, uint32_t); /* number of the interface */
  __type(value, struct by_xdp_port);
} ports SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, BY_FRAGMENT_PORTS);
  __type(key, uint32_t);
  __type(value, struct by_xdp_way);
} ways SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, BY_XDP_NEIGHBOURS);
  __type(key, struct by_xdp_next);
  __type(value, struct by_xdp_neighbour);
} neighbours SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_DEVMAP);
  __uint(max_entries, BY_FRAGMENT_PORTS);
  __type(key, uint32_t);
  __type(value, struct bpf_devmap_val);
} interfaces SEC(".maps");

struct group {
  __uint(type, BPF_MAP_TYPE_DEVMAP);
  __uint(max_entries, BY_XDP_MEMBERS);
  __type(key, uint32_t);
  __type(value, struct bpf_devmap_val);
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
  __uint(max_entries, BY_XDP_GROUPS);
  __type(key, uint32_t);
  __array(values, struct group);
} groups SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, BY_XDP_GROUPS *BY_XDP_MEMBERS);
  __type(key, struct by_xdp_member);
  __type(value, struct by_xdp_address);
} members SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, BY_FRAGMENT_PORTS);
  __type(key, uint32_t);
  __type(value, struct by_xdp_copy);
} copies SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, BY_XDP_COUNTERS);
  __type(key, uint32_t);
  __type(value, uint64_t);
} counters SEC(".maps");

/* Where things lie in a frame: IPv4 without options. Fragments are not aligned there, and need not be: XDP runs where
 * that costs nothing. */
enum { IP_AT = ETH_HLEN, UDP_AT = IP_AT + 20, FRAGMENT_AT = UDP_AT + 8, PAYLOAD_AT = FRAGMENT_AT + BY_FRAGMENT_LINE };

static inline void count(uint32_t event) {
  uint64_t *counter = bpf_map_lookup_elem(&counters, &event);
  if (counter) *counter += 1;
}

static inline int drop_unsent(void) {
  count(BY_XDP_UNSENT);
  return XDP_DROP;
}

static inline const struct by_xdp_grant *grant_of(uint32_t job) {
  const uint32_t *at = bpf_map_lookup_elem(&jobs, &job);
  return at && *at ? bpf_map_lookup_elem(&grants, at) : NULL;
}

static inline void *frame_start(const struct xdp_md *ctx) {
  return (void *)(long)ctx->data;
}

static inline void *frame_end(const struct xdp_md *ctx) {
  return (void *)(long)ctx->data_end;
}

/* The fragment in a whole IPv4 packet without options, or NULL: it is something else. */
static inline const struct by_fragment *find_fragment(void *data, const void *end) {
  const struct ethhdr *eth = data;
  const struct iphdr *ip = data + IP_AT;
  const struct by_fragment *fragment = data + FRAGMENT_AT;
  if ((const void *)(fragment + 1) > end) return NULL;
  if (eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != IPPROTO_UDP) return NULL;
  if (ip->version != 4 || ip->ihl != 5 || (ip->frag_off & bpf_htons(0x3fff))) return NULL;
  return fragment->magic == BY_FRAGMENT_MAGIC && fragment->version == BY_FRAGMENT_VERSION ? fragment : NULL;
}

static inline bool is_of(const struct by_xdp_grant *granted, const void *data) {
  const struct udphdr *udp = data + UDP_AT;
  return udp->dest == granted->udp_port || udp->source == granted->udp_port;
}

/* Bytes of the fragment by the UDP header, or 0 where the frame has less than that. The frame has one. */
static inline uint32_t fragment_bytes(void *data, const void *end) {
  const struct udphdr *udp = data + UDP_AT;
  uint32_t bytes = bpf_ntohs(udp->len);
  if (bytes < sizeof *udp || bytes > (const char *)end - (const char *)udp) return 0;
  return bytes - (uint32_t)sizeof *udp;
}

/* The cell's part. No helper may be called while the lock is held. */
static inline void visit_cell(struct xdp_md *ctx, struct by_fragment *fragment, uint32_t place,
                              struct cell_value *value, struct by_verdict *verdict) {
  void *end = frame_end(ctx);
  uint64_t *payload = frame_start(ctx) + PAYLOAD_AT;
  uint32_t now = (uint32_t)(bpf_ktime_get_coarse_ns() >> 20); /* near enough to ms */
  bpf_spin_lock(&value->lock);
  enum by_cell_action action = by_cell_decide(&value->cell, fragment, now, verdict);
  if (action == BY_CELL_STORE)
    by_cell_apply(BY_CELL_STORE, value->sum, payload, fragment->lines, end);
  else if (action == BY_CELL_ADD)
    by_cell_apply(BY_CELL_ADD, value->sum, payload, fragment->lines, end);
  else if (action == BY_CELL_ADD_EMIT)
    by_cell_apply(BY_CELL_ADD_EMIT, value->sum, payload, fragment->lines, end);
  else if (action == BY_CELL_EMIT)
    by_cell_apply(BY_CELL_EMIT, value->sum, payload, fragment->lines, end);
  else if (fragment->type == BY_FRAGMENT_PROBE)
    by_probe_write((struct by_probe *)payload, end, fragment, place, &value->cell);
  bpf_spin_unlock(&value->lock);
}

static inline struct by_verdict pass_switch(struct xdp_md *ctx, struct by_fragment *fragment,
                                            const struct by_grant *grant, uint32_t from) {
  struct by_verdict verdict = by_switch_enter(grant, fragment, from);
  if (verdict.kind == BY_VERDICT_CELL) {
    uint32_t at = grant->base + fragment->slot;
    struct cell_value *value = bpf_map_lookup_elem(&cells, &at);
    if (!value) return by_verdict_drop(BY_EVENT_NO_CELL);
    visit_cell(ctx, fragment, grant->place, value, &verdict);
  } else if (fragment->type == BY_FRAGMENT_PROBE && verdict.kind == BY_VERDICT_FORWARD) {
    by_probe_write(frame_start(ctx) + PAYLOAD_AT, frame_end(ctx), fragment, grant->place, NULL);
  }
  return verdict;
}

/* What the sender's hardware should have filled in as UDP's checksum is wrong by now; none at all is right for IPv4. */
static inline bool write_header(struct xdp_md *ctx, struct by_fragment *fragment) {
  void *data = frame_start(ctx);
  struct udphdr *udp = data + UDP_AT;
  if (data + PAYLOAD_AT > frame_end(ctx)) return false;
  by_fragment_seal(fragment);
  *(struct by_fragment *)(data + FRAGMENT_AT) = *fragment;
  udp->check = 0;
  return true;
}

static inline void write_ethernet(struct ethhdr *eth, const struct by_xdp_neighbour *neighbour) {
  __builtin_memcpy(eth->h_dest, neighbour->to, ETH_ALEN);
  __builtin_memcpy(eth->h_source, neighbour->from, ETH_ALEN);
}

/* Whom the packet goes to next by this port; NULL: nobody knows. */
static inline const struct by_xdp_neighbour *next_by(uint32_t port, uint32_t address) {
  const struct by_xdp_way *way = bpf_map_lookup_elem(&ways, &port);
  if (!way) return NULL;
  struct by_xdp_next next = {.port = port, .address = address};
  const struct by_xdp_neighbour *neighbour = way->has_named ? bpf_map_lookup_elem(&neighbours, &next) : NULL;
  if (neighbour) return neighbour;
  return way->has_other ? &way->other : NULL;
}

static inline int forward(struct xdp_md *ctx, uint32_t port) {
  void *data = frame_start(ctx);
  const struct iphdr *ip = data + IP_AT;
  if ((const void *)(ip + 1) > frame_end(ctx)) return XDP_DROP;
  const struct by_xdp_neighbour *neighbour = next_by(port, ip->daddr);
  if (!neighbour) return drop_unsent();
  write_ethernet(data, neighbour);
  return (int)bpf_redirect_map(&interfaces, port, XDP_DROP);
}

/* Works on a copy of the header on the stack, so that its hops can be indexed. */
static inline struct by_verdict decide(struct xdp_md *ctx, uint32_t from, const struct by_grant *grant) {
  void *data = frame_start(ctx);
  const struct iphdr *ip = data + IP_AT;
  if (data + PAYLOAD_AT > frame_end(ctx)) return by_verdict_drop(BY_EVENT_MALFORMED);
  uint32_t bytes = fragment_bytes(data, frame_end(ctx));
  struct by_fragment fragment = *(struct by_fragment *)(data + FRAGMENT_AT);
  if (by_fragment_check(&fragment, bytes) != BY_FRAGMENT_SOUND) return by_verdict_drop(BY_EVENT_MALFORMED);
  if ((ip->tos & 3) == 3) fragment.flags |= BY_FRAGMENT_CE;
  struct by_verdict verdict = pass_switch(ctx, &fragment, grant, from);
  if (verdict.kind != BY_VERDICT_DROP && !write_header(ctx, &fragment)) verdict.kind = BY_VERDICT_DROP;
  return verdict;
}

static inline int switch_frame(struct xdp_md *ctx) {
  uint32_t from = ctx->ingress_ifindex;
  void *data = frame_start(ctx);
  const struct by_fragment *fragment = find_fragment(data, frame_end(ctx));
  if (!fragment) return XDP_PASS;
  const struct by_xdp_port *port = bpf_map_lookup_elem(&ports, &from);
  if (!port || !port->ours) return XDP_PASS;
  const struct by_xdp_grant *granted = grant_of(fragment->job);
  if (granted && !is_of(granted, data)) return XDP_PASS;
  struct by_verdict verdict = decide(ctx, port->number, granted ? &granted->grant : NULL);
  if (!granted && verdict.event == BY_EVENT_MALFORMED) return XDP_PASS; /* other software's, or nobody's */
  count(verdict.event);
  if (verdict.kind == BY_VERDICT_PASS) return XDP_PASS;
  if (verdict.kind == BY_VERDICT_FORWARD) return forward(ctx, verdict.port);
  if (verdict.kind != BY_VERDICT_MULTICAST || !granted) return XDP_DROP;
  uint32_t group = granted->grant.group;
  void *members_of = bpf_map_lookup_elem(&groups, &group);
  return members_of ? (int)bpf_redirect_map(members_of, 0, BPF_F_BROADCAST) : drop_unsent();
}

#endif
